//! What rounds say when each is one number: how much faster the candidate was in it.

use crate::stats::{Interval, median};

/// Two say too little about how much rounds differ.
const LEAST_ROUNDS: usize = 3;

/// Student's t for a two-sided 95 %, by degrees of freedom from 2 on.
const QUANTILES: [f64; 29] = [
    4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
    2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052,
    2.048, 2.045, 2.042,
];

/// The 95 % interval of the speedup; `None` with few rounds. Both sides of a round ran at the same time, so that what
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
        // ln 1.1 + (-0.02, -0.01, 0, 0.01, 0.02): mean ln 1.1, standard error 0.0158114 / sqrt 5, t 2.776.
        let by = [-0.02, -0.01, 0.0, 0.01, 0.02].map(|d: f64| 1.0 / (1.1 * d.exp()));
        let [baseline, candidate] = rounds(&by);
        let found = interval(&baseline, &candidate).expect("five rounds");
        let half: f64 = 2.776 * 0.015811388 / 5f64.sqrt();
        assert!((found.low - 1.1 * (-half).exp()).abs() < 1e-6, "{found:?}");
        assert!((found.high - 1.1 * half.exp()).abs() < 1e-6, "{found:?}");
        assert!(interval(&baseline[..2], &candidate[..2]).is_none());
    }

    #[test]
    fn rounds_that_disagree_decide_nothing() {
        let [baseline, candidate] = rounds(&[1.06, 1.30, 1.05, 1.35, 1.05]);
        let found = compare(&baseline, &candidate, 0.03, 1);
        assert_eq!(found.verdict, Verdict::Undecided, "{found:?}");
        assert!(found.speedup_ci_95.high > 1.0 / 1.03, "{found:?}");
        let [baseline, candidate] = rounds(&[1.09, 1.10, 1.11, 1.10, 1.12]);
        let found = compare(&baseline, &candidate, 0.03, 1);
        assert_eq!(found.verdict, Verdict::Slower, "{found:?}");
    }
}
