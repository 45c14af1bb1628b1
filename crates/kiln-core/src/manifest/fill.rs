//! What fills an input: as a manifest writes it, and what that comes to on a shape.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::expression::Expr;
use crate::value::Value;

/// Where the contents of an input come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fill {
    Normal {
        mean: f64,
        std: f64,
    },
    Uniform {
        low: f64,
        high: f64,
    },
    /// Whole numbers, both ends included.
    Integers {
        low: i64,
        high: i64,
    },
    /// 0, 1, 2, … in memory order.
    Iota,
    Constant {
        value: f64,
    },
    /// A `.npy` file; `{shape}` in the path is replaced by the shape's name.
    File {
        path: String,
    },
}

/// A fill as it is written: integers may be drawn from a range that depends on the shape.
#[derive(Clone, Debug)]
pub enum FillRule {
    Fixed(Fill),
    /// `Fill::Integers` with ends over dimensions: indices into another buffer.
    Integers {
        low: Expr,
        high: Expr,
    },
}

/// Why a range of integers cannot be drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct BadRange {
    pub message: String,
    pub end: End,
}

/// The end of a range that is to be blamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Low,
    High,
}

impl End {
    pub fn key(self) -> &'static str {
        match self {
            End::Low => "low",
            End::High => "high",
        }
    }
}

impl FillRule {
    /// What it comes to on a shape, for elements of `dtype`.
    pub fn on(&self, dimensions: &[(String, i64)], dtype: DType) -> Result<Fill, BadRange> {
        let (low, high) = match self {
            FillRule::Fixed(fill) => return Ok(fill.clone()),
            FillRule::Integers { low, high } => (low, high),
        };
        let scope: Vec<&str> = dimensions.iter().map(|(name, _)| name.as_str()).collect();
        let values: Vec<Value> = dimensions.iter().map(|(_, n)| Value::Int(*n)).collect();
        let (least, most) = whole_range(dtype);
        let evaluate = |end: End, expr: &Expr| {
            let bad = |message: String| BadRange { message, end };
            let failed = |why: String| bad(format!("`{}` cannot be computed: {why}", end.key()));
            let bound = expr.bind(&scope).map_err(|e| failed(e.to_string()))?;
            match bound.eval(&values).map_err(|e| failed(e.to_string()))? {
                Value::Int(n) if (least..=most).contains(&n) => Ok(n),
                Value::Int(n) => Err(bad(format!(
                    "`{}` is {n}, which `{dtype}` cannot hold",
                    end.key()
                ))),
                other => Err(bad(format!("`{}` is {other}, not an integer", end.key()))),
            }
        };
        let (low, high) = (evaluate(End::Low, low)?, evaluate(End::High, high)?);
        match low <= high {
            true => Ok(Fill::Integers { low, high }),
            false => Err(BadRange {
                message: format!("the range of `integers` is empty: {low} to {high}"),
                end: End::High,
            }),
        }
    }

    /// The range of integers that nobody chose: the default, or all of the type, as `kiln init` writes it where it cannot
    /// tell. Neither suits an index.
    pub fn unchosen_range(&self, dtype: DType) -> Option<(i64, i64)> {
        let FillRule::Fixed(Fill::Integers { low, high }) = self else {
            return None;
        };
        let range = (*low, *high);
        let is_unchosen = [default_range(dtype), whole_range(dtype)].contains(&range);
        (is_unchosen && !dtype.is_float()).then_some(range)
    }

    /// Whether every seed draws other contents.
    pub fn is_drawn(&self) -> bool {
        matches!(
            self,
            FillRule::Integers { .. }
                | FillRule::Fixed(
                    Fill::Normal { .. } | Fill::Uniform { .. } | Fill::Integers { .. }
                )
        )
    }

    pub fn is_file(&self) -> bool {
        matches!(self, FillRule::Fixed(Fill::File { .. }))
    }

    pub(super) fn says_the_same(&self, other: &FillRule) -> bool {
        match (self, other) {
            (FillRule::Fixed(own), FillRule::Fixed(others)) => own == others,
            (
                FillRule::Integers { low, high },
                FillRule::Integers {
                    low: other_low,
                    high: other_high,
                },
            ) => low.says_the_same(other_low) && high.says_the_same(other_high),
            _ => false,
        }
    }
}

/// What integers are drawn from where nothing else is said: sums of them stay small.
pub fn default_integers(dtype: DType) -> Fill {
    let (low, high) = default_range(dtype);
    Fill::Integers { low, high }
}

pub(super) fn default_range(dtype: DType) -> (i64, i64) {
    let low = if whole_range(dtype).0 < 0 { -8 } else { 0 };
    (low, 8)
}

/// The integers a type holds exactly, as far as 64 bits go.
pub(super) fn whole_range(dtype: DType) -> (i64, i64) {
    let symmetric = |bits: u32| (-(1_i64 << bits), 1_i64 << bits);
    match dtype {
        DType::F16 => symmetric(11),
        DType::Bf16 => symmetric(8),
        DType::F32 => symmetric(24),
        DType::F64 => symmetric(53),
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::U8 => (0, i64::from(u8::MAX)),
        DType::U16 => (0, i64::from(u16::MAX)),
        DType::U32 => (0, i64::from(u32::MAX)),
        DType::U64 => (0, i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(low: &str, high: &str) -> FillRule {
        FillRule::Integers {
            low: Expr::parse(low).unwrap(),
            high: Expr::parse(high).unwrap(),
        }
    }

    fn on(rule: &FillRule, n: i64, dtype: DType) -> Result<Fill, String> {
        let dimensions = [("N".to_string(), n)];
        rule.on(&dimensions, dtype).map_err(|e| e.message)
    }

    #[test]
    fn a_range_follows_the_shape() {
        let rule = rule("0", "N - 1");
        let range = |high: i64| Ok(Fill::Integers { low: 0, high });
        assert_eq!(on(&rule, 4096, DType::I32), range(4095));
        assert_eq!(on(&rule, 1, DType::I32), range(0));
        assert_eq!(on(&rule, 256, DType::U8), range(255));
        assert_eq!(
            on(&rule, 257, DType::U8).unwrap_err(),
            "`high` is 256, which `u8` cannot hold"
        );
        assert!(rule.is_drawn() && !rule.is_file());
    }

    #[test]
    fn what_is_no_range_is_told() {
        let message = |low: &str, high: &str| on(&rule(low, high), 3, DType::I32).unwrap_err();
        assert_eq!(
            message("N", "N - 1"),
            "the range of `integers` is empty: 3 to 2"
        );
        assert_eq!(message("0", "N / 2"), "`high` is 1.5, not an integer");
        assert!(message("1 // (N - 3)", "N").starts_with("`low` cannot be computed: "));
    }

    #[test]
    fn other_ends_are_another_range() {
        assert!(rule("0", "N - 1").says_the_same(&rule("0", "N-1")));
        assert!(!rule("0", "N - 1").says_the_same(&rule("0", "N")));
        assert!(
            !rule("0", "8").says_the_same(&FillRule::Fixed(Fill::Integers { low: 0, high: 8 }))
        );
    }
}
