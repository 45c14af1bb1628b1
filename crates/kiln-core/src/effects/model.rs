//! A Gaussian process that is a sum over sets of tunables: one term for the average, one for what each
//! tunable does by itself, one for what each pair does beyond that, and so on (an ANOVA kernel).
//!
//! Every term's share of the variance, and every difference between two values with its uncertainty,
//! follows from the fit in closed form. How strongly a tunable matters is one parameter, whatever the number
//! of its values, so that a tunable with many values is not found to matter sooner than one with two.

use rand_chacha::ChaCha8Rng;

use crate::search::gaussian::{LEAST_PIVOT, add_scaled, dot, inverse_factor, precision};

use crate::space::shuffle;

use super::likeness::Likeness;

/// Priors of a tunable's strength, of the scale and of the unexplained part: log-normal. They keep a strength
/// from falling to nothing after a few trials, and with it the width of its intervals; whether a tunable
/// matters at all is therefore not asked of the fit but of chance, in `chance_without`.
const STRENGTH: Prior = Prior {
    centre: 0.3,
    spread: 2.0,
};
const SCALE: Prior = Prior {
    centre: 0.5,
    spread: 1.5,
};
const NOISE: Prior = Prior {
    centre: 0.05,
    spread: 2.0,
};
const STRENGTH_RANGE: (f64, f64) = (1e-4, 30.0);
const SCALE_RANGE: (f64, f64) = (1e-3, 30.0);
const NOISE_RANGE: (f64, f64) = (1e-5, 2.0);
/// Variance of the average, in units of the targets' own: it is not known beforehand.
const AVERAGE: f64 = 4.0;
const STEPS: usize = 40;
const STEPS_WITHOUT: usize = 15;
/// How often values are dealt out to trials at random.
const DEALS: usize = 399;

/// Where trials lie: by tunable, the position of each trial's value.
pub(super) struct Places {
    pub(super) columns: Vec<Vec<usize>>,
    pub(super) count: usize,
}

/// Logarithms of the strengths, then of the scale and the noise. A tunable that is left out has none.
#[derive(Clone, Debug, PartialEq)]
struct Parameters {
    strengths: Vec<Option<f64>>,
    scale: f64,
    noise: f64,
}

impl Parameters {
    fn strength(&self, tunable: usize) -> f64 {
        self.strengths[tunable].map_or(0.0, f64::exp)
    }
}

/// What the trials say, fitted.
pub(super) struct Model<'a> {
    likenesses: &'a [Likeness],
    weights: &'a [Vec<f64>],
    places: &'a Places,
    parameters: Parameters,
    /// The inverse of the lower Cholesky factor, row by row.
    inverse: Vec<f64>,
    /// The targets multiplied by the inverse of the covariance.
    solved: Vec<f64>,
}

/// From one value of a tunable to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) tunable: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A value with its standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl<'a> Model<'a> {
    /// `targets` have mean 0 and variance 1.
    pub(super) fn fit(
        likenesses: &'a [Likeness],
        weights: &'a [Vec<f64>],
        places: &'a Places,
        targets: &[f64],
    ) -> Model<'a> {
        let start = Parameters {
            strengths: vec![Some(STRENGTH.centre.ln()); likenesses.len()],
            scale: SCALE.centre.ln(),
            noise: NOISE.centre.ln(),
        };
        let (_, parameters) = climb(likenesses, places, targets, start, STEPS);
        Model::with(likenesses, weights, places, targets, parameters)
    }

    fn with(
        likenesses: &'a [Likeness],
        weights: &'a [Vec<f64>],
        places: &'a Places,
        targets: &[f64],
        parameters: Parameters,
    ) -> Model<'a> {
        let solution = Solution::of(likenesses, places, targets, &parameters);
        Model {
            likenesses,
            weights,
            places,
            parameters,
            inverse: solution.inverse,
            solved: solution.solved,
        }
    }

    /// How often chance would make a tunable look as weighty as it does.
    ///
    /// The trials are explained once more without the tunable. How steeply the evidence would rise if it were let
    /// in again (a score test) is set against the same for its values dealt out to the trials at random.
    /// That holds however few the trials are and however well they are explained.
    pub(super) fn chance_without(
        &self,
        tunable: usize,
        targets: &[f64],
        rng: &mut ChaCha8Rng,
    ) -> f64 {
        let n = self.places.count;
        let mut start = self.parameters.clone();
        start.strengths[tunable] = None;
        let (_, without) = climb(self.likenesses, self.places, targets, start, STEPS_WITHOUT);
        let solution = Solution::of(self.likenesses, self.places, targets, &without);
        let mut slopes = products(self.likenesses, self.places, &without);
        let precision = precision(&solution.inverse, n);
        for i in 0..n {
            for j in 0..i {
                slopes[i * n + j] *= solution.solved[i] * solution.solved[j] - precision[i * n + j];
            }
            // Each other pair stands for two.
            slopes[i * n + i] *= 0.5 * (solution.solved[i].powi(2) - precision[i * n + i]);
        }
        let likeness = &self.likenesses[tunable];
        let steepness = |column: &[usize]| -> f64 {
            let row = |i: usize| -> f64 {
                let own = likeness.row(column[i]);
                let pairs = slopes[i * n..=i * n + i].iter().zip(column);
                pairs.map(|(slope, &other)| slope * own[other]).sum()
            };
            (0..n).map(row).sum()
        };
        let mut column = self.places.columns[tunable].clone();
        let seen = steepness(&column);
        let reached = (0..DEALS).filter(|_| {
            shuffle(&mut column, rng);
            steepness(&column) >= seen
        });
        (1 + reached.count()) as f64 / (1 + DEALS) as f64
    }

    /// The mean square by which a trial misses what the others let expect of it. The fit's own noise would not do:
    /// with few trials it takes noise for effects.
    pub(super) fn unforeseen(&self) -> f64 {
        let n = self.places.count;
        let missed = (0..n).map(|i| {
            let precision: f64 = (i..n).map(|k| self.inverse[k * n + i].powi(2)).sum();
            (self.solved[i] / precision).powi(2)
        });
        missed.sum::<f64>() / n as f64
    }

    fn scale(&self) -> f64 {
        self.parameters.scale.exp()
    }

    /// What one value of a tunable does against another, averaged over all else, or over all else but one
    /// other tunable that has a given value.
    pub(super) fn difference(
        &self,
        tunable: usize,
        value: usize,
        other: usize,
        given: Option<(usize, usize)>,
    ) -> Estimate {
        let likeness = &self.likenesses[tunable];
        let factor = self.scale() * self.parameters.strength(tunable);
        let beside = |there: &dyn Fn(usize) -> usize| match given {
            None => 1.0,
            Some((held, at)) => {
                1.0 + self.parameters.strength(held) * self.likenesses[held].at(at, there(held))
            }
        };
        let shared: Vec<f64> = (0..self.places.count)
            .map(|trial| {
                let there = |t: usize| self.places.columns[t][trial];
                let at = there(tunable);
                let apart = likeness.at(value, at) - likeness.at(other, at);
                factor * apart * beside(&there)
            })
            .collect();
        let own =
            factor * likeness.apart(value, other) * beside(&|_| given.map_or(0, |(_, at)| at));
        self.estimate(&shared, own)
    }

    /// By how much what one value does against another changes with the value of a second tunable.
    pub(super) fn interaction(&self, first: Change, second: Change) -> Estimate {
        let factor = self.scale()
            * self.parameters.strength(first.tunable)
            * self.parameters.strength(second.tunable);
        let apart = |change: Change, trial: usize| {
            let likeness = &self.likenesses[change.tunable];
            let at = self.places.columns[change.tunable][trial];
            likeness.at(change.to, at) - likeness.at(change.from, at)
        };
        let shared: Vec<f64> = (0..self.places.count)
            .map(|trial| factor * apart(first, trial) * apart(second, trial))
            .collect();
        let own = |change: Change| self.likenesses[change.tunable].apart(change.to, change.from);
        self.estimate(&shared, factor * own(first) * own(second))
    }

    /// What one config takes against another.
    pub(super) fn difference_between(&self, config: &[usize], other: &[usize]) -> Estimate {
        let to = |config: &[usize]| -> Vec<f64> {
            (0..self.places.count)
                .map(|trial| {
                    let there = |t: usize| self.places.columns[t][trial];
                    self.covariance(config, &there)
                })
                .collect()
        };
        let (here, there) = (to(config), to(other));
        let shared: Vec<f64> = here.iter().zip(&there).map(|(a, b)| a - b).collect();
        let own = self.covariance(config, &|t| config[t])
            - 2.0 * self.covariance(config, &|t| other[t])
            + self.covariance(other, &|t| other[t]);
        self.estimate(&shared, own)
    }

    /// What a config is expected to take, against the average of the trials.
    pub(super) fn expected(&self, config: &[usize]) -> f64 {
        (0..self.places.count)
            .map(|trial| {
                let there = |t: usize| self.places.columns[t][trial];
                self.solved[trial] * self.covariance(config, &there)
            })
            .sum()
    }

    fn covariance(&self, config: &[usize], other: &dyn Fn(usize) -> usize) -> f64 {
        let mut product = self.scale();
        for (t, likeness) in self.likenesses.iter().enumerate() {
            product *= 1.0 + self.parameters.strength(t) * likeness.at(config[t], other(t));
        }
        product
    }

    fn estimate(&self, shared: &[f64], own: f64) -> Estimate {
        let n = self.places.count;
        let known: f64 = (0..n)
            .map(|i| dot(&self.inverse[i * n..i * n + i + 1], &shared[..=i]).powi(2))
            .sum();
        Estimate {
            mean: dot(shared, &self.solved),
            deviation: (own - known).max(0.0).sqrt(),
        }
    }

    /// The variance that each set of tunables in question accounts for, where values occur as often as their
    /// weights say: everything, what is left with one tunable averaged out, single tunables and pairs.
    pub(super) fn variances(&self) -> Variances {
        let tunables = self.likenesses.len();
        let n = self.places.count;
        let overlaps: Vec<Likeness> = self
            .likenesses
            .iter()
            .zip(self.weights)
            .map(|(likeness, weights)| likeness.overlap(weights))
            .collect();
        let squares: Vec<f64> = (0..tunables)
            .map(|t| self.parameters.strength(t).powi(2))
            .collect();
        let mut found = Variances {
            all: 0.0,
            without: vec![0.0; tunables],
            single: vec![0.0; tunables],
            pairs: vec![0.0; tunables * tunables],
        };
        let mut parts = vec![0.0; tunables];
        let mut before = vec![1.0; tunables + 1];
        for i in 0..n {
            for j in 0..=i {
                let twice = if i == j { 1.0 } else { 2.0 };
                let weight = twice * self.solved[i] * self.solved[j];
                for t in 0..tunables {
                    let column = &self.places.columns[t];
                    parts[t] = squares[t] * overlaps[t].at(column[i], column[j]);
                    before[t + 1] = before[t] * (1.0 + parts[t]);
                }
                found.all += weight * (before[tunables] - 1.0);
                let mut behind = 1.0;
                for t in (0..tunables).rev() {
                    found.without[t] += weight * (before[t] * behind - 1.0);
                    behind *= 1.0 + parts[t];
                    found.single[t] += weight * parts[t];
                    for u in 0..t {
                        found.pairs[u * tunables + t] += weight * parts[t] * parts[u];
                    }
                }
            }
        }
        found.scale(self.scale().powi(2));
        found
    }
}

#[derive(Clone, Debug)]
pub(super) struct Variances {
    pub(super) all: f64,
    /// By tunable: what is left when its values are averaged over.
    pub(super) without: Vec<f64>,
    pub(super) single: Vec<f64>,
    /// By two tunables, the first before the second.
    pub(super) pairs: Vec<f64>,
}

impl Variances {
    fn scale(&mut self, by: f64) {
        self.all *= by;
        for list in [&mut self.without, &mut self.single, &mut self.pairs] {
            list.iter_mut().for_each(|value| *value *= by);
        }
    }
}

/// The prior of a parameter, log-normal.
struct Prior {
    centre: f64,
    spread: f64,
}

impl Prior {
    /// Its logarithm, up to a constant, and the slope of that along the parameter's logarithm.
    fn at(&self, log: f64) -> (f64, f64) {
        let off = (log - self.centre.ln()) / self.spread;
        (-0.5 * off * off, -off / self.spread)
    }
}

/// The covariances of trials without average and noise: the lower triangle, as a full matrix.
fn products(likenesses: &[Likeness], places: &Places, parameters: &Parameters) -> Vec<f64> {
    let n = places.count;
    let mut products = vec![parameters.scale.exp(); n * n];
    for (t, likeness) in likenesses.iter().enumerate() {
        let strength = parameters.strength(t);
        if strength == 0.0 {
            continue;
        }
        let column = &places.columns[t];
        for i in 0..n {
            let own = likeness.row(column[i]);
            for (product, &other) in products[i * n..=i * n + i].iter_mut().zip(column) {
                *product *= 1.0 + strength * own[other];
            }
        }
    }
    products
}

struct Solution {
    factor: Vec<f64>,
    inverse: Vec<f64>,
    solved: Vec<f64>,
    whitened: Vec<f64>,
}

impl Solution {
    /// Up to a constant.
    fn log_likelihood(&self) -> f64 {
        let n = self.whitened.len();
        let log_determinant: f64 = (0..n).map(|i| self.factor[i * n + i].ln()).sum();
        -0.5 * dot(&self.whitened, &self.whitened) - log_determinant
    }

    fn of(
        likenesses: &[Likeness],
        places: &Places,
        targets: &[f64],
        parameters: &Parameters,
    ) -> Solution {
        let n = places.count;
        let noise = parameters.noise.exp();
        let mut factor = products(likenesses, places, parameters);
        for i in 0..n {
            let (above, row) = factor.split_at_mut(i * n);
            for j in 0..i {
                let other = &above[j * n..j * n + j + 1];
                row[j] = (row[j] + AVERAGE - dot(&row[..j], &other[..j])) / other[j];
            }
            row[i] = (row[i] + AVERAGE + noise - dot(&row[..i], &row[..i]))
                .max(LEAST_PIVOT)
                .sqrt();
            row[i + 1..n].fill(0.0);
        }
        let inverse = inverse_factor(&factor, n);
        let whitened: Vec<f64> = (0..n)
            .map(|i| dot(&inverse[i * n..i * n + i + 1], &targets[..=i]))
            .collect();
        let mut solved = vec![0.0; n];
        for (i, w) in whitened.iter().enumerate() {
            add_scaled(&mut solved[..=i], *w, &inverse[i * n..i * n + i + 1]);
        }
        Solution {
            factor,
            inverse,
            solved,
            whitened,
        }
    }
}

/// Log evidence with the priors, and its slope along the strengths in use, the scale and the noise.
fn evidence(
    likenesses: &[Likeness],
    places: &Places,
    targets: &[f64],
    parameters: &Parameters,
) -> (f64, Vec<f64>) {
    let n = places.count;
    let solution = Solution::of(likenesses, places, targets, parameters);
    let precision = precision(&solution.inverse, n);
    let mut value = solution.log_likelihood();
    let in_use: Vec<usize> = (0..likenesses.len())
        .filter(|&t| parameters.strengths[t].is_some())
        .collect();
    let strengths: Vec<f64> = in_use.iter().map(|&t| parameters.strength(t)).collect();
    let mut slopes = vec![0.0; in_use.len() + 2];
    let (scale, noise) = (parameters.scale.exp(), parameters.noise.exp());
    let mut parts = vec![0.0; in_use.len()];
    let mut before = vec![1.0; in_use.len() + 1];
    for i in 0..n {
        for j in 0..=i {
            let half = if i == j { 0.5 } else { 1.0 };
            let slope =
                half * (solution.solved[i] * solution.solved[j] - precision[i * n + j]) * scale;
            for (k, &t) in in_use.iter().enumerate() {
                let column = &places.columns[t];
                parts[k] = strengths[k] * likenesses[t].at(column[i], column[j]);
                before[k + 1] = before[k] * (1.0 + parts[k]);
            }
            let mut behind = 1.0;
            for k in (0..in_use.len()).rev() {
                slopes[k] += slope * before[k] * behind * parts[k];
                behind *= 1.0 + parts[k];
            }
            slopes[in_use.len()] += slope * before[in_use.len()];
        }
        let own = solution.solved[i].powi(2) - precision[i * n + i];
        slopes[in_use.len() + 1] += 0.5 * noise * own;
    }
    let logs = in_use
        .iter()
        .map(|&t| parameters.strengths[t].unwrap_or(0.0));
    let priors = logs
        .map(|log| STRENGTH.at(log))
        .chain([SCALE.at(parameters.scale), NOISE.at(parameters.noise)]);
    for (slope, (prior, its_slope)) in slopes.iter_mut().zip(priors) {
        value += prior;
        *slope += its_slope;
    }
    (value, slopes)
}

/// Follows the slope, with a stride of its own for each parameter; the best that was passed.
fn climb(
    likenesses: &[Likeness],
    places: &Places,
    targets: &[f64],
    start: Parameters,
    steps: usize,
) -> (f64, Parameters) {
    let mut here = start;
    let mut best = (f64::NEG_INFINITY, here.clone());
    let count = here.strengths.iter().flatten().count() + 2;
    let mut stride = vec![0.5; count];
    let mut last = vec![0.0; count];
    for _ in 0..steps {
        let (value, slopes) = evidence(likenesses, places, targets, &here);
        if value > best.0 {
            best = (value, here.clone());
        }
        let Parameters {
            strengths,
            scale,
            noise,
        } = &mut here;
        let moving = strengths
            .iter_mut()
            .flatten()
            .map(|log| (log, STRENGTH_RANGE))
            .chain([(scale, SCALE_RANGE), (noise, NOISE_RANGE)]);
        for (k, (log, range)) in moving.enumerate() {
            let slope = slopes[k];
            if slope * last[k] > 0.0 {
                stride[k] = f64::min(stride[k] * 1.4, 1.5);
            } else if slope * last[k] < 0.0 {
                stride[k] *= 0.5;
            }
            last[k] = slope;
            *log = (*log + stride[k] * slope.clamp(-1.0, 1.0)).clamp(range.0.ln(), range.1.ln());
        }
    }
    best
}
