//! What a tolerance would have to be for an error to pass as rounding, where it can be nothing else.

use super::Tolerance;
use crate::dtype::DType;
use crate::trial::NumericFault;

/// No sum loses more of a whole output.
const LARGEST: f64 = 1e-2;
/// Over the error that was seen: other inputs round otherwise.
const ROOM: f64 = 1.5;
/// Rounding that takes one element as far over the limit takes many over it: one in a hundred at the least.
const FAR: f64 = 4.0;
const FEW: u64 = 100;
/// What functions such as `exp` make of the errors of their arguments, over what sums lose at most.
const AMPLIFIED: f64 = 16.0;

/// What one rounding loses at most, relative to the value.
pub(crate) fn unit(dtype: DType) -> Option<f64> {
    let bits = match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::Bf16 => 8,
        _ => return None,
    };
    Some(2f64.powi(-bits))
}

/// A tolerance somewhat over the error that was seen, with one digit; `None` where the error is no rounding: a value that
/// is missing or not finite, or off by more than a sum over `summands` elements of the type can be.
pub fn tolerance_for(
    fault: &NumericFault,
    dtype: DType,
    allowed: Tolerance,
    summands: u64,
) -> Option<Tolerance> {
    let unit = unit(dtype)?;
    let whole = fault.relative_error?;
    if fault.nonfinite > 0 || fault.unwritten > 0 {
        return None;
    }
    let most = (AMPLIFIED * unit * summands as f64).min(LARGEST.max(8.0 * unit));
    // Of an output in which no single element is wrong, the whole is.
    let times = match fault.wrong {
        0 => whole / allowed.rtol,
        _ => fault.worst.times_allowed?,
    };
    let is_lonely = fault.wrong > 0 && fault.wrong.saturating_mul(FEW) < fault.elements;
    if times > FAR && is_lonely {
        return None;
    }
    let needed = Tolerance {
        rtol: ROOM * times * allowed.rtol,
        atol: allowed.atol.map(|atol| ROOM * times * atol),
    };
    let is_rounding = whole <= most && needed.rtol <= ROOM * most && needed.rtol.is_finite();
    // An absolute error says nothing about rounding by itself.
    let is_relative = allowed.rtol > 0.0;
    (is_rounding && is_relative).then(|| Tolerance {
        rtol: one_digit_up(needed.rtol),
        atol: needed.atol.map(one_digit_up),
    })
}

/// What a few sums are to be allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumTolerance {
    pub rtol: f64,
    /// To be multiplied with the root of the number of summands, which a sum of numbers of either sign grows with.
    pub per_root: f64,
}

/// More than this of a sum is lost only where it is near zero by chance, and says nothing then.
const LARGEST_OF_A_SUM: f64 = 1e-3;
/// Over an error that is one number, and not the worst of many.
const ROOM_OF_A_SUM: f64 = 3.0;

/// The tolerance of an output of a few sums over `summands` numbers each, from the error that was seen.
pub fn sum_tolerance_for(fault: &NumericFault, summands: u64) -> Option<SumTolerance> {
    let allowed: f64 = fault.worst.allowed.parse().ok()?;
    let expected: f64 = fault.worst.expected.parse().ok()?;
    let error = fault.worst.times_allowed? * allowed;
    let per_root = ROOM_OF_A_SUM * error / (summands as f64).sqrt();
    let of_itself = ROOM * error / expected.abs();
    let (rtol, per_root) = match of_itself > LARGEST_OF_A_SUM {
        true => (per_root.min(LARGEST_OF_A_SUM), per_root),
        false => (of_itself, per_root.min(of_itself)),
    };
    (rtol > 0.0 && per_root.is_finite()).then(|| SumTolerance {
        rtol: one_digit_up(rtol),
        per_root: one_digit_up(per_root),
    })
}

/// The next larger number with one digit: 2.1e-5 becomes 3e-5.
fn one_digit_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return value;
    }
    let mut exponent = value.log10().floor() as i32;
    // A product with a power of ten is off in its last digits.
    let mut digit = (value / 10f64.powi(exponent) - 1e-9).ceil();
    if digit >= 10.0 {
        digit = 1.0;
        exponent += 1;
    }
    format!("{digit}e{exponent}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::WorstElement;

    fn fault(whole: f64, times: f64) -> NumericFault {
        NumericFault {
            argument: "y".into(),
            elements: 1000,
            wrong: 500,
            unwritten: 0,
            nonfinite: 0,
            worst: WorstElement {
                index: vec![3],
                got: "1".into(),
                expected: "1".into(),
                allowed: "1".into(),
                times_allowed: Some(times),
            },
            relative_error: Some(whole),
        }
    }

    const USUAL: Tolerance = Tolerance {
        rtol: 2e-5,
        atol: None,
    };

    #[test]
    fn the_error_that_was_seen_decides() {
        let suggested = |times: f64| {
            let fault = fault(1e-6, times);
            tolerance_for(&fault, DType::F32, USUAL, 1 << 20).map(|t| (t.rtol, t.atol))
        };
        assert_eq!(suggested(1.2), Some((4e-5, None)));
        assert_eq!(suggested(10.0), Some((3e-4, None)));
        assert_eq!(suggested(60.0), Some((2e-3, None)));
        let both = Tolerance {
            rtol: 1e-6,
            atol: Some(1e-5),
        };
        assert_eq!(
            tolerance_for(&fault(1e-6, 4.0), DType::F32, both, 1 << 20),
            Some(Tolerance {
                rtol: 6e-6,
                atol: Some(6e-5)
            })
        );
        // A half is coarser to begin with.
        let half = Tolerance {
            rtol: 2e-2,
            atol: None,
        };
        let found = tolerance_for(&fault(5e-3, 1.3), DType::Bf16, half, 1024);
        assert_eq!(found.map(|t| t.rtol), Some(4e-2));
        // No element is wrong by itself.
        let whole = NumericFault {
            wrong: 0,
            ..fault(2.1e-2, 1.0)
        };
        let tight = Tolerance { rtol: 1e-2, ..half };
        let found = tolerance_for(&whole, DType::Bf16, tight, 1024);
        assert_eq!(found.map(|t| t.rtol), Some(4e-2));
    }

    #[test]
    fn what_cannot_be_rounding_is_not_to_be_allowed() {
        let none = |fault: &NumericFault, summands| {
            assert_eq!(
                tolerance_for(fault, DType::F32, USUAL, summands),
                None,
                "{fault:?}"
            );
        };
        none(&fault(2e-2, 10.0), 1 << 20);
        // One element of many is far off, and the whole hardly shows it.
        none(&fault(1e-3, 20_000.0), 1 << 20);
        let lonely = NumericFault {
            wrong: 9,
            ..fault(1e-6, 5.0)
        };
        none(&lonely, 1 << 20);
        // Seventeen numbers cannot lose as much.
        none(&fault(1e-4, 10.0), 17);
        none(
            &NumericFault {
                nonfinite: 1,
                ..fault(1e-6, 2.0)
            },
            1 << 20,
        );
        none(
            &NumericFault {
                unwritten: 1,
                ..fault(1e-6, 2.0)
            },
            1 << 20,
        );
        none(
            &NumericFault {
                relative_error: None,
                ..fault(1e-6, 2.0)
            },
            1 << 20,
        );
        assert_eq!(
            tolerance_for(&fault(0.0, 2.0), DType::I32, USUAL, 100),
            None
        );
        let exact = Tolerance {
            rtol: 0.0,
            atol: Some(1e-3),
        };
        assert_eq!(
            tolerance_for(&fault(1e-6, 2.0), DType::F32, exact, 100),
            None
        );
    }

    #[test]
    fn a_sum_is_allowed_by_what_it_loses_wherever_it_ends() {
        let suggested = |expected: f64, error: f64| {
            let mut fault = fault(error / expected, 4.0);
            fault.worst.expected = expected.to_string();
            fault.worst.allowed = (error / 4.0).to_string();
            sum_tolerance_for(&fault, 1 << 20).map(|t| (t.rtol, t.per_root))
        };
        assert_eq!(suggested(-270.0, 0.0166), Some((1e-4, 5e-5)));
        // Near zero by chance.
        assert_eq!(suggested(2.0, 0.0166), Some((5e-5, 5e-5)));
        // Of positive numbers, which grows with their number and not with its root.
        assert_eq!(suggested(1.05e6, 495.0), Some((8e-4, 8e-4)));
        assert_eq!(suggested(1.05, 495e-6), Some((8e-4, 2e-6)));
        assert_eq!(suggested(0.0, 0.0), None);
    }

    #[test]
    fn one_digit_is_enough() {
        for (value, rounded) in [
            (2.1e-5, 3e-5),
            (3e-5, 3e-5),
            (9.5e-4, 1e-3),
            (1e-3, 1e-3),
            (0.3, 0.3),
            (7.0001, 8.0),
            (0.0, 0.0),
        ] {
            assert_eq!(one_digit_up(value), rounded, "{value}");
        }
    }
}
