//! The two-sided Mann-Whitney U test: does one sample tend to be larger than the other.
//!
//! Exact when there are no ties and one side has at most 8 samples, else the normal approximation
//! with tie and continuity correction; the rule of scipy's `mannwhitneyu(method="auto")`.
//! It takes samples as independent, so it knows nothing of rounds: a verdict asks the interval too.

use serde::{Deserialize, Serialize};

use super::normal::upper_tail;

/// Up to this many samples on the smaller side the exact distribution is used.
const EXACT_UP_TO: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MannWhitney {
    /// Pairs in which the first sample is larger, ties counting half.
    pub u: f64,
    /// NaN when a side is empty.
    pub p_value: f64,
}

pub fn mann_whitney(first: &[f64], second: &[f64]) -> MannWhitney {
    let (n, m) = (first.len(), second.len());
    let Ranks { sum, ties } = Ranks::of_first(first, second);
    let u = sum - 0.5 * n as f64 * (n as f64 + 1.0);
    if n == 0 || m == 0 {
        return MannWhitney {
            u: 0.0,
            p_value: f64::NAN,
        };
    }
    let pairs = n as f64 * m as f64;
    let smaller_u = u.min(pairs - u);
    let exact = if ties == 0.0 && n.min(m) <= EXACT_UP_TO {
        exact_lower_tail(n.min(m), n.max(m), smaller_u as usize)
    } else {
        None
    };
    let tail = exact.unwrap_or_else(|| approximate_tail(n, m, smaller_u, ties));
    MannWhitney {
        u,
        p_value: (2.0 * tail).min(1.0),
    }
}

struct Ranks {
    /// Sum of the ranks of the first sample in both together, tied samples sharing their mean rank.
    sum: f64,
    /// Sum of `t^3 - t` over groups of `t` tied samples.
    ties: f64,
}

impl Ranks {
    fn of_first(first: &[f64], second: &[f64]) -> Ranks {
        // Adding zero makes -0.0 and 0.0 the same bits, the tie they compare as.
        let tag = |is_first: bool| move |x: &f64| (x + 0.0, is_first);
        let mut all: Vec<(f64, bool)> = first.iter().map(tag(true)).collect();
        all.extend(second.iter().map(tag(false)));
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut sum, mut ties, mut before) = (0.0, 0.0, 0);
        for group in all.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
            let size = group.len() as f64;
            let mean_rank = before as f64 + 0.5 * (size + 1.0);
            let from_first = group.iter().filter(|(_, is_first)| *is_first).count();
            sum += from_first as f64 * mean_rank;
            ties += size * (size * size - 1.0);
            before += group.len();
        }
        Ranks { sum, ties }
    }
}

fn approximate_tail(n: usize, m: usize, smaller_u: f64, ties: f64) -> f64 {
    let (n, m) = (n as f64, m as f64);
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    // All samples equal: rounding may leave a little on either side of zero.
    if variance <= n * m * 1e-12 {
        return 1.0;
    }
    let distance = 0.5 * n * m - smaller_u - 0.5;
    upper_tail(distance / variance.sqrt())
}

/// `P(U <= u)` when every order of the `few + many` samples is equally likely.
///
/// The number of orders with a given U is a coefficient of the Gaussian binomial
/// `(1 - q^(many+1))...(1 - q^(many+few)) / (1 - q)...(1 - q^few)`. It is multiplied out one factor at
/// a time, in wrapping integers: products pass through negative coefficients, but the counts that
/// remain fit. `None` when they would not (8 samples against more than a hundred thousand).
fn exact_lower_tail(few: usize, many: usize, u: usize) -> Option<f64> {
    let orders: f64 = (1..=few).map(|i| (many + i) as f64 / i as f64).product();
    if orders >= 2f64.powi(127) {
        return None;
    }
    let mut counts = vec![0u128; u + 1];
    counts[0] = 1;
    for i in 1..=few {
        for power in (many + i..=u).rev() {
            counts[power] = counts[power].wrapping_sub(counts[power - many - i]);
        }
        for power in i..=u {
            counts[power] = counts[power].wrapping_add(counts[power - i]);
        }
    }
    Some(counts.iter().map(|&count| count as f64).sum::<f64>() / orders)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_exact_cases() {
        // 2 of the 20 orders of 3 and 3 are this extreme.
        let result = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert_eq!(result.u, 0.0);
        assert!((result.p_value - 0.1).abs() < 1e-15);
        let reversed = mann_whitney(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]);
        assert_eq!(reversed.u, 9.0);
        assert_eq!(reversed.p_value, result.p_value);
    }

    #[test]
    fn degenerate_inputs() {
        assert!(mann_whitney(&[], &[1.0]).p_value.is_nan());
        assert!(mann_whitney(&[1.0], &[]).p_value.is_nan());
        assert!(mann_whitney(&[], &[]).p_value.is_nan());
        assert_eq!(mann_whitney(&[1.0], &[2.0]).p_value, 1.0);
        let same = mann_whitney(&[5.0; 30], &[5.0; 40]);
        assert_eq!((same.u, same.p_value), (600.0, 1.0));
        assert_eq!(mann_whitney(&[0.0], &[-0.0]).u, 0.5);
    }

    #[test]
    fn exact_counts_cover_every_order() {
        for (few, many) in [(1, 1), (2, 5), (8, 8), (8, 1000)] {
            let all = exact_lower_tail(few, many, few * many).unwrap();
            assert!((all - 1.0).abs() < 1e-12, "{few} x {many}: {all}");
        }
        assert_eq!(exact_lower_tail(8, 10_000_000, 3), None);
    }

    #[test]
    fn exact_counts_agree_with_enumeration() {
        let (few, many) = (3usize, 4usize);
        let mut counts = vec![0u32; few * many + 1];
        for mask in 0u32..1 << (few + many) {
            if mask.count_ones() as usize == few {
                let places = (0..few + many).filter(|place| mask >> place & 1 == 1);
                let u: usize = places.enumerate().map(|(rank, place)| place - rank).sum();
                counts[u] += 1;
            }
        }
        let mut below = 0;
        for (u, count) in counts.iter().enumerate() {
            below += count;
            let expected = f64::from(below) / 35.0;
            let tail = exact_lower_tail(few, many, u).unwrap();
            assert!((tail - expected).abs() < 1e-14, "u = {u}");
        }
    }

    /// Few distinct values, so that ties are common.
    fn samples() -> impl Strategy<Value = Vec<f64>> {
        prop_oneof![
            prop::collection::vec((0u8..12).prop_map(f64::from), 1..30),
            prop::collection::vec(-1e3..1e3f64, 1..30),
        ]
    }

    proptest! {
        #[test]
        fn the_two_u_add_up_and_p_is_symmetric(first in samples(), second in samples()) {
            let forward = mann_whitney(&first, &second);
            let backward = mann_whitney(&second, &first);
            prop_assert_eq!(forward.u + backward.u, (first.len() * second.len()) as f64);
            prop_assert_eq!(forward.p_value, backward.p_value);
            prop_assert!((0.0..=1.0).contains(&forward.p_value));
        }

        #[test]
        fn only_order_matters(first in samples(), second in samples()) {
            let stretch = |side: &[f64]| -> Vec<f64> { side.iter().map(|x| x * 4.0).collect() };
            let plain = mann_whitney(&first, &second);
            prop_assert_eq!(plain, mann_whitney(&stretch(&first), &stretch(&second)));
        }
    }
}
