//! Interval of a median from order statistics: no resampling, cheap enough to ask after each batch
//! of samples whether to stop.

use super::Interval;

/// An interval that holds the true median with at least `level` probability, whatever the
/// distribution: the k-th smallest to the k-th largest sample, with k from the binomial
/// distribution. Samples in any order; O(n).
///
/// Unbounded when there are too few samples for any such pair (below 6 at 95 %), so that "narrow
/// enough" stays false. NaN for no samples. Looking after every batch spends more than
/// `1 - level` over the whole run: good for stopping, not for a verdict.
pub fn median_interval_by_rank(samples: &[f64], level: f64) -> Interval {
    if samples.is_empty() {
        return Interval::NAN;
    }
    let Some(depth) = depth(samples.len(), level).checked_sub(1) else {
        return Interval {
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        };
    };
    let mut scratch = samples.to_vec();
    let from_top = scratch.len() - 1 - depth;
    let high = *scratch.select_nth_unstable_by(from_top, f64::total_cmp).1;
    // The k smallest are now left of the k-th largest, unless both are the middle sample.
    let low = match depth < from_top {
        true => {
            *scratch[..from_top]
                .select_nth_unstable_by(depth, f64::total_cmp)
                .1
        }
        false => high,
    };
    Interval { low, high }
}

/// How many order statistics in from each end the interval may start: the number of `i` with
/// `P(Binomial(n, 1/2) <= i) <= (1 - level) / 2`. 0 when not even the extremes suffice.
fn depth(n: usize, level: f64) -> usize {
    // Weights from the middle outwards, relative to the middle: 2^-n itself underflows above
    // n = 1074. Weights too small to matter are cut, which leaves about 5 sqrt(n) of them.
    let middle = n / 2;
    let mut weights = vec![1.0];
    let mut weight = 1.0;
    for i in (0..middle).rev() {
        weight *= (i + 1) as f64 / (n - i) as f64;
        if weight < 1e-25 {
            break;
        }
        weights.push(weight);
    }
    let half: f64 = weights.iter().rev().sum();
    let whole = if n % 2 == 1 {
        2.0 * half
    } else {
        2.0 * half - 1.0
    };
    let allowed = 0.5 * (1.0 - level.clamp(0.0, 1.0)) * whole;
    if allowed.is_nan() || allowed <= 0.0 {
        return 0;
    }
    let mut tail = 0.0;
    let within_tail = weights.iter().rev().take_while(|weight| {
        tail += **weight;
        tail <= allowed
    });
    let cut = middle + 1 - weights.len();
    (cut + within_tail.count()).min(n.div_ceil(2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::median;

    #[test]
    fn depth_at_95_percent_follows_the_tables() {
        for (n, expected) in [
            (1, 0),
            (5, 0),
            (6, 1),
            (8, 1),
            (9, 2),
            (20, 6),
            (30, 10),
            (100, 40),
        ] {
            assert_eq!(depth(n, 0.95), expected, "n = {n}");
        }
    }

    #[test]
    fn depth_at_the_ends_of_the_level() {
        assert_eq!(depth(20, 1.0), 0);
        assert_eq!(depth(20, f64::NAN), 0);
        assert_eq!(depth(21, 0.0), 11);
        assert_eq!(depth(20, 0.0), 10);
    }

    #[test]
    fn large_counts_follow_the_normal_limit() {
        for n in [10_000usize, 1_000_000] {
            let expected = 0.5 * n as f64 - 1.96 * 0.5 * (n as f64).sqrt();
            assert!((depth(n, 0.95) as f64 - expected).abs() < 2.0, "n = {n}");
        }
    }

    #[test]
    fn few_samples_are_unbounded() {
        assert!(median_interval_by_rank(&[], 0.95).low.is_nan());
        let interval = median_interval_by_rank(&[1.0; 5], 0.95);
        assert_eq!(interval.width(), f64::INFINITY);
        let interval = median_interval_by_rank(&[6.0, 2.0, 3.0, 1.0, 5.0, 4.0], 0.95);
        assert_eq!(
            interval,
            Interval {
                low: 1.0,
                high: 6.0
            }
        );
    }

    proptest! {
        #[test]
        fn holds_the_sample_median(
            samples in prop::collection::vec(-1e6..1e6f64, 1..200),
            level in 0.0..1.0f64,
        ) {
            let interval = median_interval_by_rank(&samples, level);
            prop_assert!(interval.low <= interval.high);
            prop_assert!(interval.contains(median(&samples)));
        }
    }
}
