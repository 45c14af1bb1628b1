//! What rounds say when each is one number: how much faster the candidate was in it.

use crate::stats::{Interval, median};

/// Two say too little about how much rounds differ.
const LEAST_ROUNDS: usize = 3;

/// Student's t for a two-sided 99 %, by degrees of freedom from 2 on. Not 95 %: rounds are few, and what tells them apart
/// is often one of two states of a process, of which five rounds may all but one have the same by chance.
const QUANTILES: [f64; 29] = [
    9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977,
    2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771,
    2.763, 2.756, 2.750,
];

/// The 99 % interval of the speedup; `None` with few rounds. Both sides of a round ran at the same time, so that what
/// slows both falls out.
pub(super) fn interval(baseline: &[Vec<f64>], candidate: &[Vec<f64>]) -> Option<Interval> {
    let pairs = baseline.iter().zip(candidate);
    let pairs = pairs.filter(|(baseline, candidate)| !baseline.is_empty() && !candidate.is_empty());
    let speedups: Vec<f64> = pairs
        .map(|(baseline, candidate)| (median(baseline) / median(candidate)).ln())
        .collect();
    if speedups.len() < LEAST_ROUNDS {
        return None;
    }
    let count = speedups.len() as f64;
    let mean = speedups.iter().sum::<f64>() / count;
    let squares: f64 = speedups.iter().map(|s| (s - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let half = QUANTILES[(speedups.len() - LEAST_ROUNDS).min(QUANTILES.len() - 1)] * error;
    Some(Interval {
        low: (mean - half).exp(),
        high: (mean + half).exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Verdict, compare};

    /// Rounds in which the candidate takes so many times the baseline's 100 ns, each sample a little different.
    fn rounds(slower: &[f64]) -> [Vec<Vec<f64>>; 2] {
        let round = |by: f64| {
            (0..20)
                .map(|i| (100.0 + 0.01 * f64::from(i)) * by)
                .collect()
        };
        [
            slower.iter().map(|_| round(1.0)).collect(),
            slower.iter().map(|by| round(*by)).collect(),
        ]
    }

    #[test]
    fn the_interval_is_students() {
        // ln 1.1 + (-0.02, -0.01, 0, 0.01, 0.02): mean ln 1.1, standard error 0.0158114 / sqrt 5, t 4.604.
        let by = [-0.02, -0.01, 0.0, 0.01, 0.02].map(|d: f64| 1.0 / (1.1 * d.exp()));
        let [baseline, candidate] = rounds(&by);
        let found = interval(&baseline, &candidate).expect("five rounds");
        let half: f64 = 4.604 * 0.015811388 / 5f64.sqrt();
        assert!((found.low - 1.1 * (-half).exp()).abs() < 1e-6, "{found:?}");
        assert!((found.high - 1.1 * half.exp()).abs() < 1e-6, "{found:?}");
        assert!(interval(&baseline[..2], &candidate[..2]).is_none());
    }

    #[test]
    fn rounds_that_disagree_decide_nothing() {
        let [baseline, candidate] = rounds(&[1.30, 1.31, 1.05, 1.30, 1.31]);
        let found = compare(&baseline, &candidate, 0.03, 1);
        assert_eq!(found.verdict, Verdict::Undecided, "{found:?}");
        assert!(found.speedup_ci_95.high > 1.0 / 1.03, "{found:?}");
        let [baseline, candidate] = rounds(&[1.09, 1.10, 1.11, 1.10, 1.12]);
        let found = compare(&baseline, &candidate, 0.03, 1);
        assert_eq!(found.verdict, Verdict::Slower, "{found:?}");
    }
}
