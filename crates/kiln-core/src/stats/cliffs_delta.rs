//! Cliff's delta: how often one sample is larger than the other, less how often it is smaller.

use super::sorted;

/// In `[-1, 1]`: 1 when every sample of `first` is larger than every one of `second`, 0 when
/// neither tends to be larger. NaN when a side is empty. O(n log n).
pub fn cliffs_delta(first: &[f64], second: &[f64]) -> f64 {
    let second = sorted(second);
    let (mut larger, mut smaller) = (0, 0);
    for value in sorted(first) {
        larger += second.partition_point(|x| x.total_cmp(&value).is_lt());
        smaller += second.len() - second.partition_point(|x| x.total_cmp(&value).is_le());
    }
    (larger as f64 - smaller as f64) / (first.len() as f64 * second.len() as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::mann_whitney;

    #[test]
    fn ends_and_middle() {
        assert_eq!(cliffs_delta(&[3.0, 4.0], &[1.0, 2.0]), 1.0);
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[3.0, 4.0]), -1.0);
        assert_eq!(cliffs_delta(&[5.0, 5.0], &[5.0]), 0.0);
        assert_eq!(cliffs_delta(&[0.0], &[-0.0]), 0.0);
        assert!(cliffs_delta(&[], &[1.0]).is_nan());
        assert!(cliffs_delta(&[], &[]).is_nan());
    }

    fn samples() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((0u8..40).prop_map(f64::from), 1..40)
    }

    proptest! {
        #[test]
        fn antisymmetric_and_bounded(first in samples(), second in samples()) {
            let delta = cliffs_delta(&first, &second);
            prop_assert_eq!(delta, -cliffs_delta(&second, &first));
            prop_assert!((-1.0..=1.0).contains(&delta));
        }

        #[test]
        fn agrees_with_u(first in samples(), second in samples()) {
            let pairs = (first.len() * second.len()) as f64;
            let from_u = 2.0 * mann_whitney(&first, &second).u / pairs - 1.0;
            prop_assert!((cliffs_delta(&first, &second) - from_u).abs() < 1e-12);
        }
    }
}
