//! Arithmetic as kiln's expressions mean it: whole numbers that never wrap, division that rounds down.

use crate::Error;

type Result<T> = std::result::Result<T, Error>;

fn checked(value: Option<i64>) -> Result<i64> {
    value.ok_or_else(|| Error("a size does not fit into 64 bits".into()))
}

fn not_zero(b: i64) -> Result<()> {
    match b {
        0 => Err(Error("division by zero".into())),
        _ => Ok(()),
    }
}

pub fn add(a: i64, b: i64) -> Result<i64> {
    checked(a.checked_add(b))
}
pub fn subtract(a: i64, b: i64) -> Result<i64> {
    checked(a.checked_sub(b))
}
pub fn multiply(a: i64, b: i64) -> Result<i64> {
    checked(a.checked_mul(b))
}
pub fn floor_divide(a: i64, b: i64) -> Result<i64> {
    not_zero(b)?;
    let quotient = checked(a.checked_div(b))?;
    Ok(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}
pub fn remainder(a: i64, b: i64) -> Result<i64> {
    not_zero(b)?;
    let rest = checked(a.checked_rem(b))?;
    Ok(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}
pub fn power(a: i64, b: i64) -> Result<i64> {
    checked(u32::try_from(b).ok().and_then(|b| a.checked_pow(b)))
}
pub fn ceil_div(a: i64, b: i64) -> Result<i64> {
    subtract(0, floor_divide(subtract(0, a)?, b)?)
}
pub fn align_up(a: i64, b: i64) -> Result<i64> {
    multiply(ceil_div(a, b)?, b)
}
pub fn whole_abs(a: i64) -> Result<i64> {
    checked(a.checked_abs())
}
pub fn gcd(a: i64, b: i64) -> Result<i64> {
    let (mut a, mut b) = (whole_abs(a)?, whole_abs(b)?);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    Ok(a)
}
pub fn lcm(a: i64, b: i64) -> Result<i64> {
    match (a, b) {
        (0, _) | (_, 0) => Ok(0),
        _ => multiply(whole_abs(a)? / gcd(a, b)?, whole_abs(b)?),
    }
}
pub fn is_pow2(a: i64) -> Result<bool> {
    Ok(a > 0 && a & (a - 1) == 0)
}
pub fn least<T: PartialOrd>(a: T, b: T) -> T {
    if b < a { b } else { a }
}
pub fn most<T: PartialOrd>(a: T, b: T) -> T {
    if a < b { b } else { a }
}
pub fn real_divide(a: f64, b: f64) -> Result<f64> {
    match b == 0.0 {
        true => Err(Error("division by zero".into())),
        false => Ok(a / b),
    }
}
pub fn real_remainder(a: f64, b: f64) -> Result<f64> {
    real_divide(a, b)?;
    let rest = a % b;
    Ok(if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest })
}
pub fn real_floor_divide(a: f64, b: f64) -> Result<f64> {
    let quotient = (a - real_remainder(a, b)?) / b;
    let below = quotient.floor();
    Ok(if quotient - below > 0.5 { below + 1.0 } else { below })
}
pub fn real_power(a: f64, b: f64) -> Result<f64> {
    let power = a.powf(b);
    match power.is_infinite() && a.is_finite() && b.is_finite() {
        true if a == 0.0 => Err(Error("division by zero".into())),
        true => Err(Error("a number is too large".into())),
        false => Ok(power),
    }
}
pub fn real_abs(a: f64) -> Result<f64> {
    Ok(a.abs())
}
pub fn real_log2(a: f64) -> Result<f64> {
    Ok(a.log2())
}
pub fn real_sqrt(a: f64) -> Result<f64> {
    Ok(a.sqrt())
}
fn whole(a: f64) -> Result<i64> {
    let fits = a >= -9_223_372_036_854_775_808.0 && a < 9_223_372_036_854_775_808.0;
    checked(fits.then_some(a as i64))
}
pub fn whole_floor(a: f64) -> Result<i64> {
    whole(a.floor())
}
pub fn whole_ceil(a: f64) -> Result<i64> {
    whole(a.ceil())
}
pub fn whole_round(a: f64) -> Result<i64> {
    whole(a.round())
}
pub fn whole_trunc(a: f64) -> Result<i64> {
    whole(a.trunc())
}

/// A whole number as a scalar argument's own type.
pub fn narrow<T: TryFrom<i64>>(a: i64) -> Result<T> {
    T::try_from(a).map_err(|_| Error(format!("a scalar argument does not fit its type: {a}")))
}

/// Sizes begin at 1, as in every manifest; nothing was checked on an empty problem.
pub fn at_least_one(size: i64, dimension: &str) -> Result<()> {
    match size < 1 {
        true => Err(Error(format!("dimension `{dimension}` is {size}, expected at least 1"))),
        false => Ok(()),
    }
}
/// No kernel was checked on a buffer without elements.
pub fn buffer_axis(extent: i64, buffer: &str) -> Result<i64> {
    match extent < 1 {
        true => Err(Error(format!("`{buffer}` would have an axis of {extent} for these dimensions, expected at least 1"))),
        false => Ok(extent),
    }
}
/// The same for workspace, which a config may do without.
pub fn workspace_axis(extent: i64, buffer: &str) -> Result<i64> {
    match extent {
        0 => Ok(0),
        extent => buffer_axis(extent, buffer),
    }
}
/// A dimension that follows from others: `formula` says how, `holds` whether it is so.
pub fn related(holds: bool, size: i64, dimension: &str, formula: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error(format!("dimension `{dimension}` is {size}, expected {formula}"))),
    }
}
/// How far two sizes are apart: 0 when equal, symmetric, the same for 2 to 4 as for 200 to 400.
pub fn distance(a: i64, b: i64) -> f64 {
    ((a as f64).ln() - (b as f64).ln()).abs()
}
