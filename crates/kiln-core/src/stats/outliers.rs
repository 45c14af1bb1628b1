//! Counts samples outside Tukey's fences. A flag for people, never a filter: a kernel that spikes
//! has that as a property, and medians do not mind.

use serde::{Deserialize, Serialize};

use super::{Interval, quantile_of_sorted, sorted};

/// Fences stand this many interquartile ranges outside the quartiles (Tukey 1977).
const FENCE: f64 = 1.5;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outliers {
    pub below: usize,
    pub above: usize,
    /// A sample on a fence is inside. NaN for no samples.
    pub fences: Interval,
}

impl Outliers {
    pub fn total(&self) -> usize {
        self.below + self.above
    }
}

pub fn count_outliers(samples: &[f64]) -> Outliers {
    let sorted = sorted(samples);
    let first = quantile_of_sorted(&sorted, 0.25);
    let third = quantile_of_sorted(&sorted, 0.75);
    let reach = FENCE * (third - first);
    let fences = Interval {
        low: first - reach,
        high: third + reach,
    };
    Outliers {
        below: samples.iter().filter(|x| **x < fences.low).count(),
        above: samples.iter().filter(|x| **x > fences.high).count(),
        fences,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_each_side() {
        let mut samples: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(count_outliers(&samples).total(), 0);
        samples.extend([1e6, -1e6, 2e6]);
        let outliers = count_outliers(&samples);
        assert_eq!((outliers.below, outliers.above), (1, 2));
    }

    #[test]
    fn equal_samples_and_a_sample_on_a_fence_are_inside() {
        assert_eq!(count_outliers(&[4.0; 20]).total(), 0);
        // Quartiles 1 and 2 put the fences at -0.5 and 3.5.
        let on_fence = [1.0, 1.0, 1.5, 2.0, 3.5];
        assert_eq!(
            count_outliers(&on_fence).fences,
            Interval {
                low: -0.5,
                high: 3.5
            }
        );
        assert_eq!(count_outliers(&on_fence).total(), 0);
        assert_eq!(count_outliers(&[]).total(), 0);
        assert!(count_outliers(&[]).fences.low.is_nan());
    }

    proptest! {
        #[test]
        fn at_most_half_are_outliers(samples in prop::collection::vec(-1e6..1e6f64, 1..80)) {
            prop_assert!(count_outliers(&samples).total() * 2 <= samples.len());
        }
    }
}
