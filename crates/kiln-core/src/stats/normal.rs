//! The upper tail of the standard normal distribution, which the standard library lacks.

/// Where the series hands over to the continued fraction. At 3 the series has lost about three of
/// its sixteen digits to cancellation, and the fraction below has converged to all of them.
const HANDOVER: f64 = 3.0;

/// `P(Z > z)`. Agrees with scipy's `norm.sf` to a relative 1e-12 down to where it underflows.
pub(crate) fn upper_tail(z: f64) -> f64 {
    if z.is_nan() {
        return z;
    }
    if z < 0.0 {
        return 1.0 - upper_tail(-z);
    }
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < HANDOVER {
        // P(0 < Z < z) = density * (z + z^3/3 + z^5/(3*5) + ...), all terms positive.
        let (mut term, mut sum, mut odd) = (z, z, 1.0);
        while term > sum * f64::EPSILON * 0.1 {
            odd += 2.0;
            term *= z * z / odd;
            sum += term;
        }
        0.5 - density * sum
    } else if density == 0.0 {
        0.0
    } else {
        // P(Z > z) = density / (z + 1/(z + 2/(z + 3/(z + ...)))), evaluated from the far end.
        let tail = (1..=200).rev().fold(z, |below, k| z + f64::from(k) / below);
        density / tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_symmetry() {
        assert_eq!(upper_tail(0.0), 0.5);
        assert_eq!(upper_tail(f64::INFINITY), 0.0);
        assert_eq!(upper_tail(f64::NEG_INFINITY), 1.0);
        assert!(upper_tail(f64::NAN).is_nan());
        for z in [0.1, 1.0, 2.5, 3.5] {
            assert!((upper_tail(z) + upper_tail(-z) - 1.0).abs() < 1e-15);
        }
    }

    /// Values of `scipy.stats.norm.sf`, from `tests/oracles/make_stats_oracles.py`.
    #[test]
    fn agrees_with_the_oracle() {
        let oracles: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/oracles/stats_oracles.json")).unwrap();
        for case in oracles["normal_upper_tail"].as_array().unwrap() {
            let z = case["z"].as_f64().unwrap();
            let expected = case["p"].as_f64().unwrap();
            let relative = upper_tail(z) / expected - 1.0;
            assert!(relative.abs() < 1e-12, "z = {z}: off by {relative:e}");
        }
    }
}
