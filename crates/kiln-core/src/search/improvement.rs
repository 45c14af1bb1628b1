//! How much faster than the best so far a candidate is expected to be.

use std::f64::consts::{PI, SQRT_2};

/// The logarithm of the expectation of `max(best - x, 0)` for a normal `x`.
///
/// The logarithm, since far from the best the expectation is too small to be told from nothing and
/// candidates must still be ordered.
pub(super) fn log_expected_improvement(best: f64, mean: f64, deviation: f64) -> f64 {
    let u = (best - mean) / deviation;
    // Beyond this the two terms cancel to fewer digits than the tail's first terms have.
    const TAIL: f64 = -5.0;
    let unit = match u > TAIL {
        true => (u * cumulative(u) + density(u)).ln(),
        false => -0.5 * u * u - 0.5 * (2.0 * PI).ln() - 2.0 * u.abs().ln() - 3.0 / (u * u),
    };
    unit + deviation.ln()
}

/// A bound on the above that takes no logarithm, for deviations up to 1. Most candidates are far
/// from the best found so far, and this is all that has to be worked out for them.
pub(super) fn at_most(best: f64, mean: f64, deviation: f64) -> f64 {
    let u = (best - mean) / deviation;
    match u < 0.0 {
        true => -0.5 * u * u - 0.5 * (2.0 * PI).ln(),
        false => f64::INFINITY,
    }
}

fn density(u: f64) -> f64 {
    (-0.5 * u * u).exp() / (2.0 * PI).sqrt()
}

/// The standard normal distribution, by a continued fraction in the tails and a series between.
fn cumulative(u: f64) -> f64 {
    if u.abs() > 2.5 {
        let x = u.abs();
        let mut fraction = x;
        for k in (1..=24).rev() {
            fraction = x + f64::from(k) / fraction;
        }
        let tail = density(x) / fraction;
        return if u < 0.0 { tail } else { 1.0 - tail };
    }
    // The error function's series, whose terms fall fast for such u.
    let x = u / SQRT_2;
    let (mut term, mut sum) = (x, x);
    for k in 1..40 {
        term *= -x * x / f64::from(k);
        sum += term / f64::from(2 * k + 1);
    }
    0.5 + sum / PI.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_integral() {
        for u in [-7.0_f64, -5.5, -4.9, -3.0, -1.0, 0.0, 0.7, 2.4, 2.6, 4.0] {
            // The midpoint rule over what lies below the best.
            let steps = 200_000;
            let width = 12.0 / f64::from(steps);
            let integral: f64 = (0..steps)
                .map(|k| {
                    let gain = (f64::from(k) + 0.5) * width;
                    gain * density(gain - u) * width
                })
                .sum();
            let found = log_expected_improvement(u, 0.0, 1.0);
            assert!((found - integral.ln()).abs() < 0.01, "{u}: {found}");
        }
    }

    #[test]
    fn the_bound_holds() {
        for (mean, deviation) in [(0.1, 1.0), (1.0, 0.9), (2.0, 0.3), (-1.0, 0.5), (3.0, 1.0)] {
            let bound = at_most(0.0, mean, deviation);
            assert!(log_expected_improvement(0.0, mean, deviation) <= bound);
        }
    }

    #[test]
    fn grows_with_doubt_and_with_promise() {
        let at = log_expected_improvement;
        assert!(at(0.0, 1.0, 0.5) < at(0.0, 1.0, 0.6));
        assert!(at(0.0, 1.0, 0.5) < at(0.0, 0.9, 0.5));
        assert!(at(0.0, 40.0, 0.5) < at(0.0, 39.0, 0.5));
    }
}
