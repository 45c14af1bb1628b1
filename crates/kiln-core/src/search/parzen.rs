//! How alike two values are, and densities built from that: the arithmetic under `tpe`.

use crate::space::{Config, Space};
use crate::value::Value;

/// Likeness of two different values of a tunable that has no order.
const UNORDERED: f64 = 0.3;
/// Likeness of two numbers that are far apart.
const FAR: f64 = 0.05;
/// Weight of the uniform prior in a tunable's own density, in trials.
const MARGINAL_PRIOR: f64 = 1.0;
/// Weight of the prior in the joint density, in trials at likeness 1.
const JOINT_PRIOR: f64 = 0.02;
/// The tunables' own densities count fully at first and half after this many trials. They need few
/// trials but know no interactions; the joint density is the other way round. Over 12 recorded
/// spaces with 40 seeds each, the best after 200 trials came to 0.966 of the optimum with fading
/// and 0.958 with a constant weight of a half; up to 100 trials the two are within noise.
const MARGINAL_TRIALS: f64 = 10.0;
/// Weight of "it will work" in the feasibility estimate, in trials at likeness 1.
const FEASIBLE_PRIOR: f64 = 0.5;

/// One tunable's kernel. Values of numeric tunables are compared by rank: neighbours share weight.
struct Kernel {
    /// Position to rank; `None` when the values have no order worth using.
    ranks: Option<Vec<u16>>,
    /// For numbers: likeness by distance in ranks.
    likeness: Vec<f64>,
    /// Position to one over the sum of its likenesses, so that a trial weighs 1 in all.
    shares: Vec<f64>,
}

impl Kernel {
    fn new(values: &[Value]) -> Kernel {
        let size = values.len();
        let is_number = |v: &Value| matches!(v, Value::Int(_) | Value::Float(_));
        if size < 3 || !values.iter().all(is_number) {
            let share = 1.0 / (1.0 + UNORDERED * (size - 1) as f64);
            return Kernel {
                ranks: None,
                likeness: Vec::new(),
                shares: vec![share; size],
            };
        }
        let mut order: Vec<usize> = (0..size).collect();
        let number = |position: usize| values[position].as_f64().unwrap_or(0.0);
        order.sort_by(|&a, &b| number(a).total_cmp(&number(b)));
        let mut ranks = vec![0; size];
        for (rank, &position) in order.iter().enumerate() {
            ranks[position] = rank as u16;
        }
        // A value's neighbours count; in a long list, so do a few more.
        let width = (size as f64 / 12.0).max(1.0);
        let likeness: Vec<f64> = (0..size)
            .map(|distance| {
                let near = (-0.5 * (distance as f64 / width).powi(2)).exp();
                FAR + (1.0 - FAR) * near
            })
            .collect();
        let mut upto = vec![0.0; size];
        for distance in 1..size {
            upto[distance] = upto[distance - 1] + likeness[distance];
        }
        let shares = ranks
            .iter()
            .map(|&r| 1.0 / (1.0 + upto[usize::from(r)] + upto[size - 1 - usize::from(r)]))
            .collect();
        Kernel {
            ranks: Some(ranks),
            likeness,
            shares,
        }
    }

    fn likeness(&self, a: u16, b: u16) -> f64 {
        match &self.ranks {
            Some(ranks) => {
                let distance = ranks[usize::from(a)].abs_diff(ranks[usize::from(b)]);
                self.likeness[usize::from(distance)]
            }
            None if a == b => 1.0,
            None => UNORDERED,
        }
    }
}

/// Kernels of all tunables of a space.
pub(super) struct Parzen {
    kernels: Vec<Kernel>,
}

/// The trials a candidate is judged by.
pub(super) struct Groups<'t> {
    pub(super) good: Vec<&'t Config>,
    /// Measured but not good, failed, and asked but not told yet.
    pub(super) bad: Vec<&'t Config>,
    /// How many at the end of `bad` are failures.
    pub(super) failed: usize,
}

/// A group's density around one candidate.
struct Density {
    /// Sum of likenesses.
    joint: f64,
    /// The same without the last `failed` trials.
    joint_without_failed: f64,
    /// By tunable.
    marginal: Vec<f64>,
}

impl Parzen {
    pub(super) fn new(space: &Space) -> Parzen {
        Parzen {
            kernels: space
                .tunables()
                .iter()
                .map(|t| Kernel::new(&t.values))
                .collect(),
        }
    }

    /// The logarithm of how much likelier a candidate is under the good trials than under the bad
    /// ones, less what is lost if it fails.
    pub(super) fn score(&self, candidate: &Config, groups: &Groups) -> f64 {
        let good = self.density(candidate, &groups.good, 0);
        let bad = self.density(candidate, &groups.bad, groups.failed);
        let (n_good, n_bad) = (groups.good.len() as f64, groups.bad.len() as f64);
        // Dividing by the group sizes would only shift every score alike.
        let joint = (JOINT_PRIOR * n_good.max(1.0) + good.joint).ln()
            - (JOINT_PRIOR * n_bad.max(1.0) + bad.joint).ln();
        let mut marginal = 0.0;
        for (t, kernel) in self.kernels.iter().enumerate() {
            let prior = MARGINAL_PRIOR / kernel.shares.len() as f64;
            let likely = (prior + good.marginal[t]) / (MARGINAL_PRIOR + n_good);
            let unlikely = (prior + bad.marginal[t]) / (MARGINAL_PRIOR + n_bad);
            marginal += (likely / unlikely).ln();
        }
        let works = FEASIBLE_PRIOR + good.joint + bad.joint_without_failed;
        let all = FEASIBLE_PRIOR + good.joint + bad.joint;
        let fading = MARGINAL_TRIALS / (MARGINAL_TRIALS + n_good + n_bad);
        joint + fading * marginal + (works / all).ln()
    }

    fn density(&self, candidate: &Config, trials: &[&Config], failed: usize) -> Density {
        let mut density = Density {
            joint: 0.0,
            joint_without_failed: 0.0,
            marginal: vec![0.0; self.kernels.len()],
        };
        for (i, trial) in trials.iter().enumerate() {
            if i + failed == trials.len() {
                density.joint_without_failed = density.joint;
            }
            let mut product = 1.0;
            for (t, kernel) in self.kernels.iter().enumerate() {
                let likeness = kernel.likeness(candidate.0[t], trial.0[t]);
                product *= likeness;
                density.marginal[t] += likeness * kernel.shares[usize::from(trial.0[t])];
            }
            density.joint += product;
        }
        if failed == 0 {
            density.joint_without_failed = density.joint;
        }
        density
    }
}
