//! Statistics of timing samples: medians, bootstrap intervals, rank tests, effect sizes.
//!
//! Samples are plain slices in any order. Nothing here drops a sample or decides anything:
//! `verdict` turns these numbers into a word. No function panics on empty, tied or NaN input;
//! a statistic that does not exist is NaN.

pub mod bootstrap;
pub mod cliffs_delta;
pub mod mann_whitney;
mod normal;
pub mod outliers;
pub mod rank_interval;

pub use bootstrap::{
    Interval, RatioIntervals, RatioReplicates, median_interval, ratio_interval, ratio_intervals,
};
pub use cliffs_delta::cliffs_delta;
pub use mann_whitney::{MannWhitney, mann_whitney};
pub(crate) use normal::upper_tail as normal_upper_tail;
pub use outliers::{Outliers, count_outliers};
pub use rank_interval::median_interval_by_rank;

/// The middle value; the mean of the two middle ones for an even count. NaN for no samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut scratch = samples.to_vec();
    let n = scratch.len();
    if n == 0 {
        return f64::NAN;
    }
    let (below, &mut upper, _) = scratch.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return upper;
    }
    let lower = below.iter().copied().max_by(f64::total_cmp);
    halfway(lower.unwrap_or(upper), upper)
}

/// The value below which a fraction `q` of the samples lies, interpolated linearly between the
/// two nearest order statistics (numpy's default). `q` is clamped to `[0, 1]`. NaN for no samples.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    quantile_of_sorted(&sorted(samples), q)
}

/// Median absolute deviation from the median, not scaled to estimate a standard deviation
/// (multiply by 1.4826 for that, under normal noise). NaN for no samples.
pub fn mad(samples: &[f64]) -> f64 {
    let centre = median(samples);
    let deviations: Vec<f64> = samples.iter().map(|x| (x - centre).abs()).collect();
    median(&deviations)
}

fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = q.clamp(0.0, 1.0) * last as f64;
    if position.is_nan() {
        return f64::NAN;
    }
    let index = (position.floor() as usize).min(last);
    let (lower, upper) = (sorted[index], sorted[(index + 1).min(last)]);
    let fraction = position - index as f64;
    if fraction == 0.0 || lower == upper {
        return lower;
    }
    // Rounding must not carry the result past its neighbours.
    (lower + fraction * (upper - lower)).clamp(lower.min(upper), upper.max(lower))
}

/// Sorted copy. Zeros lose their sign, so that `-0.0` and `0.0` are the tie they compare as.
fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().map(|x| x + 0.0).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn halfway(lower: f64, upper: f64) -> f64 {
    0.5 * (lower + upper)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn median_of_few() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[9.0, 1.0, 5.0, 7.0]), 6.0);
    }

    #[test]
    fn quantile_interpolates_and_clamps() {
        let samples = [10.0, 0.0, 30.0, 20.0];
        assert_eq!(quantile(&samples, 0.0), 0.0);
        assert_eq!(quantile(&samples, 0.5), 15.0);
        assert_eq!(quantile(&samples, 0.25), 7.5);
        assert_eq!(quantile(&samples, 1.0), 30.0);
        assert_eq!(quantile(&samples, 7.0), 30.0);
        assert_eq!(quantile(&samples, -1.0), 0.0);
        assert!(quantile(&samples, f64::NAN).is_nan());
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn mad_ignores_one_spike() {
        assert_eq!(mad(&[1.0, 2.0, 3.0, 4.0, 1e9]), 1.0);
        assert_eq!(mad(&[5.0]), 0.0);
        assert!(mad(&[]).is_nan());
    }

    #[test]
    fn nan_samples_do_not_panic() {
        let samples = [1.0, f64::NAN, 2.0, f64::INFINITY];
        let _ = (median(&samples), quantile(&samples, 0.9), mad(&samples));
        let _ = (
            count_outliers(&samples),
            cliffs_delta(&samples, &samples),
            mann_whitney(&samples, &samples),
            median_interval(&samples, 0.95, 50, 1),
            median_interval_by_rank(&samples, 0.5),
        );
    }

    proptest! {
        #[test]
        fn quantiles_stay_in_range_and_in_order(
            samples in prop::collection::vec(-1e6..1e6f64, 1..60),
            a in 0.0..=1.0f64,
            b in 0.0..=1.0f64,
        ) {
            let (low, high) = (quantile(&samples, 0.0), quantile(&samples, 1.0));
            let (first, second) = (quantile(&samples, a.min(b)), quantile(&samples, a.max(b)));
            prop_assert!(low <= first && first <= second && second <= high);
        }

        #[test]
        fn median_is_the_middle_quantile(samples in prop::collection::vec(-1e6..1e6f64, 1..60)) {
            let difference = (median(&samples) - quantile(&samples, 0.5)).abs();
            prop_assert!(difference <= 1e-9);
        }

        #[test]
        fn mad_ignores_shifts(samples in prop::collection::vec(0.0..1e3f64, 1..40)) {
            let shifted: Vec<f64> = samples.iter().map(|x| x + 1000.0).collect();
            prop_assert!((mad(&samples) - mad(&shifted)).abs() < 1e-9);
        }
    }
}
