//! One value of a tunable, a dimension or an expression.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a tunable may be set to and what an expression evaluates to.
///
/// Serialised as the plain TOML/JSON scalar, so a stored config reads like the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Value {
    /// The text after `-DNAME=`: booleans become 1 and 0 so that `#if NAME` works in C.
    pub fn define(&self) -> String {
        match self {
            Value::Bool(true) => "1".into(),
            Value::Bool(false) => "0".into(),
            other => other.to_string(),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Text(_) => "a string",
        }
    }

    /// The value as a number; booleans count as 0 and 1, text has none.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Bool(b) => Some(f64::from(u8::from(*b))),
            Value::Int(i) => Some(*i as f64),
            Value::Float(f) => Some(*f),
            Value::Text(_) => None,
        }
    }

    /// Equality as a user means it: `1 == 1.0` and `true == 1`, text only equals text.
    pub fn loosely_equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            _ => matches!((self.as_f64(), other.as_f64()), (Some(a), Some(b)) if a == b),
        }
    }

    /// Order for comparisons; `None` when one side is text and the other is not, or for NaN.
    pub fn loosely_compares(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            _ => self.as_f64()?.partial_cmp(&other.as_f64()?),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            // `{:?}` keeps the decimal point: 2.0 stays a floating-point literal in C.
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Text(s) => f.write_str(s),
        }
    }
}
