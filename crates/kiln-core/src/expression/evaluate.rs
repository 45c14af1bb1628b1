//! Tree to value. Every arithmetic step is checked.

use thiserror::Error;

use super::{BinaryOp, CompareOp, Function, Node};
use crate::value::Value;

#[derive(Clone, Debug, Error, PartialEq)]
pub enum EvalError {
    #[error("division by zero")]
    DivisionByZero,
    #[error("integer overflow")]
    Overflow,
    #[error("{0} does not work on {1}")]
    WrongKind(&'static str, &'static str),
    #[error("cannot compare {0} with {1}")]
    NotComparable(&'static str, &'static str),
    #[error("a list cannot be used as a value here")]
    ListAsValue,
    #[error("`in` needs a list such as `[1, 2]` on its right")]
    NotAList,
}

type Lookup<'f, 'v> = dyn Fn(usize) -> &'v Value + 'f;

pub(super) fn eval(node: &Node<usize>, values: &Lookup<'_, '_>) -> Result<Value, EvalError> {
    Ok(match node {
        Node::Literal(value) => value.clone(),
        Node::Name(slot) => values(*slot).clone(),
        Node::List(_) => return Err(EvalError::ListAsValue),
        Node::Negate(a) => match eval(a, values)? {
            Value::Float(x) => Value::Float(-x),
            other => Value::Int(
                integer(&other, "`-`")?
                    .checked_neg()
                    .ok_or(EvalError::Overflow)?,
            ),
        },
        Node::Not(a) => Value::Bool(!truth(&eval(a, values)?)),
        Node::And(a, b) => Value::Bool(truth(&eval(a, values)?) && truth(&eval(b, values)?)),
        Node::Or(a, b) => Value::Bool(truth(&eval(a, values)?) || truth(&eval(b, values)?)),
        Node::AndOperand(a, b) | Node::OrOperand(a, b) => {
            let first = eval(a, values)?;
            let decided = truth(&first) == matches!(node, Node::OrOperand(..));
            if decided { first } else { eval(b, values)? }
        }
        Node::If {
            then,
            condition,
            otherwise,
        } => {
            if truth(&eval(condition, values)?) {
                eval(then, values)?
            } else {
                eval(otherwise, values)?
            }
        }
        Node::Binary(op, a, b) => binary(*op, &eval(a, values)?, &eval(b, values)?)?,
        Node::Chain(first, rest) => chain(first, rest, values)?,
        Node::Call(function, arguments) => call(*function, arguments, values)?,
    })
}

/// Truth as in Python: zero and the empty string are false.
pub(super) fn truth(value: &Value) -> bool {
    match value {
        Value::Bool(b) => *b,
        Value::Int(i) => *i != 0,
        Value::Float(x) => *x != 0.0,
        Value::Text(s) => !s.is_empty(),
    }
}

impl Value {
    /// Whether a constraint that evaluated to this holds.
    pub fn is_truthy(&self) -> bool {
        truth(self)
    }
}

fn chain(
    first: &Node<usize>,
    rest: &[(CompareOp, Node<usize>)],
    values: &Lookup<'_, '_>,
) -> Result<Value, EvalError> {
    let mut left = eval(first, values)?;
    for (position, (op, node)) in rest.iter().enumerate() {
        let holds = match op {
            CompareOp::In | CompareOp::NotIn => {
                let Node::List(items) = node else {
                    return Err(EvalError::NotAList);
                };
                let mut found = false;
                for item in items {
                    if left.loosely_equals(&eval(item, values)?) {
                        found = true;
                        break;
                    }
                }
                found == (*op == CompareOp::In)
            }
            _ => {
                let right = eval(node, values)?;
                let holds = compare(*op, &left, &right)?;
                left = right;
                holds
            }
        };
        if !holds {
            return Ok(Value::Bool(false));
        }
        let list_continues =
            matches!(op, CompareOp::In | CompareOp::NotIn) && position + 1 < rest.len();
        if list_continues {
            return Err(EvalError::ListAsValue);
        }
    }
    Ok(Value::Bool(true))
}

fn compare(op: CompareOp, a: &Value, b: &Value) -> Result<bool, EvalError> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match op {
        CompareOp::Equal => return Ok(a.loosely_equals(b)),
        CompareOp::NotEqual => return Ok(!a.loosely_equals(b)),
        _ => {}
    }
    let order = a
        .loosely_compares(b)
        .ok_or(EvalError::NotComparable(a.kind(), b.kind()))?;
    Ok(match op {
        CompareOp::Less => order == Less,
        CompareOp::LessEqual => order != Greater,
        CompareOp::Greater => order == Greater,
        CompareOp::GreaterEqual => order != Less,
        _ => order == Equal,
    })
}

fn integer(value: &Value, operation: &'static str) -> Result<i64, EvalError> {
    match value {
        Value::Int(i) => Ok(*i),
        Value::Bool(b) => Ok(i64::from(*b)),
        other => Err(EvalError::WrongKind(operation, other.kind())),
    }
}

fn float(value: &Value, operation: &'static str) -> Result<f64, EvalError> {
    value
        .as_f64()
        .ok_or(EvalError::WrongKind(operation, value.kind()))
}

fn binary(op: BinaryOp, a: &Value, b: &Value) -> Result<Value, EvalError> {
    let name = match op {
        BinaryOp::Add => "`+`",
        BinaryOp::Subtract => "`-`",
        BinaryOp::Multiply => "`*`",
        BinaryOp::Divide => "`/`",
        BinaryOp::FloorDivide => "`//`",
        BinaryOp::Remainder => "`%`",
        BinaryOp::Power => "`**`",
    };
    let real = matches!(a, Value::Float(_)) || matches!(b, Value::Float(_));
    if real || op == BinaryOp::Divide {
        return real_binary(op, float(a, name)?, float(b, name)?).map(Value::Float);
    }
    let (x, y) = (integer(a, name)?, integer(b, name)?);
    if op == BinaryOp::Power && y < 0 {
        return real_binary(op, x as f64, y as f64).map(Value::Float);
    }
    integer_binary(op, x, y).map(Value::Int)
}

#[inline]
pub(super) fn real_binary(op: BinaryOp, x: f64, y: f64) -> Result<f64, EvalError> {
    let by_zero = matches!(
        op,
        BinaryOp::Divide | BinaryOp::FloorDivide | BinaryOp::Remainder
    ) && y == 0.0;
    if by_zero {
        return Err(EvalError::DivisionByZero);
    }
    Ok(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Subtract => x - y,
        BinaryOp::Multiply => x * y,
        BinaryOp::Divide => x / y,
        BinaryOp::FloorDivide => real_floor_div(x, y),
        BinaryOp::Remainder => real_remainder(x, y),
        BinaryOp::Power if x == 0.0 && y < 0.0 => return Err(EvalError::DivisionByZero),
        BinaryOp::Power => {
            let power = x.powf(y);
            if power.is_infinite() && x.is_finite() && y.is_finite() {
                return Err(EvalError::Overflow);
            }
            power
        }
    })
}

/// With the divisor's sign. `x - y * floor(x / y)` would not do: where the quotient rounds up to a
/// whole number it gives a small negative instead of almost `y`.
fn real_remainder(x: f64, y: f64) -> f64 {
    let remainder = x % y;
    match remainder != 0.0 && (remainder < 0.0) != (y < 0.0) {
        true => remainder + y,
        false => remainder,
    }
}

/// The quotient that goes with `real_remainder`, so that `x == y * (x // y) + x % y` as far as
/// rounding allows.
fn real_floor_div(x: f64, y: f64) -> f64 {
    let remainder = x % y;
    let mut quotient = (x - remainder) / y;
    if remainder != 0.0 && (remainder < 0.0) != (y < 0.0) {
        quotient -= 1.0;
    }
    // It is whole but for rounding.
    let below = quotient.floor();
    if quotient - below > 0.5 {
        below + 1.0
    } else {
        below
    }
}

/// Integers in, integer out: neither for `/` nor for a power with a negative exponent.
#[inline]
pub(super) fn integer_binary(op: BinaryOp, x: i64, y: i64) -> Result<i64, EvalError> {
    let result = match op {
        BinaryOp::Add => x.checked_add(y),
        BinaryOp::Subtract => x.checked_sub(y),
        BinaryOp::Multiply => x.checked_mul(y),
        BinaryOp::FloorDivide | BinaryOp::Remainder if y == 0 => {
            return Err(EvalError::DivisionByZero);
        }
        BinaryOp::FloorDivide => floor_div(x, y),
        BinaryOp::Remainder => x.checked_rem(y).map(|r| {
            if r != 0 && (r < 0) != (y < 0) {
                r + y
            } else {
                r
            }
        }),
        BinaryOp::Power => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
        BinaryOp::Divide => unreachable!("`/` is always real"),
    };
    result.ok_or(EvalError::Overflow)
}

fn floor_div(x: i64, y: i64) -> Option<i64> {
    let quotient = x.checked_div(y)?;
    Some(if x % y != 0 && (x < 0) != (y < 0) {
        quotient - 1
    } else {
        quotient
    })
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn call(
    function: Function,
    arguments: &[Node<usize>],
    values: &Lookup<'_, '_>,
) -> Result<Value, EvalError> {
    if matches!(function, Function::Min | Function::Max) {
        let items = match arguments {
            [Node::List(items)] => items.as_slice(),
            many => many,
        };
        return extreme(function, items, values);
    }
    let evaluated = arguments
        .iter()
        .map(|a| eval(a, values))
        .collect::<Result<Vec<_>, _>>()?;
    let first = &evaluated[0];
    match function {
        Function::Min | Function::Max => unreachable!("handled above"),
        Function::Abs => match first {
            Value::Float(x) => Ok(Value::Float(x.abs())),
            other => integer(other, "`abs`")?
                .checked_abs()
                .map(Value::Int)
                .ok_or(EvalError::Overflow),
        },
        Function::CeilDiv | Function::AlignUp | Function::Gcd | Function::Lcm => {
            let name = match function {
                Function::CeilDiv => "`ceil_div`",
                Function::AlignUp => "`align_up`",
                Function::Gcd => "`gcd`",
                _ => "`lcm`",
            };
            let (x, y) = (integer(first, name)?, integer(&evaluated[1], name)?);
            integer_call(function, x, y).map(Value::Int)
        }
        Function::IsPow2 => Ok(Value::Bool(is_pow2(integer(first, "`is_pow2`")?))),
        Function::Log2 => Ok(Value::Float(float(first, "`log2`")?.log2())),
        Function::Sqrt => Ok(Value::Float(float(first, "`sqrt`")?.sqrt())),
        Function::Floor => whole(function, float(first, "`floor`")?).map(Value::Int),
        Function::Ceil => whole(function, float(first, "`ceil`")?).map(Value::Int),
        Function::Round | Function::RoundHalfEven => {
            whole(function, float(first, "`round`")?).map(Value::Int)
        }
        Function::Int => match first {
            Value::Int(i) => Ok(Value::Int(*i)),
            other => whole(function, float(other, "`int`")?).map(Value::Int),
        },
    }
}

/// The functions of two integers.
pub(super) fn integer_call(function: Function, x: i64, y: i64) -> Result<i64, EvalError> {
    let result = match function {
        Function::CeilDiv | Function::AlignUp => {
            if y == 0 {
                return Err(EvalError::DivisionByZero);
            }
            let quotient = x
                .checked_neg()
                .and_then(|n| floor_div(n, y))
                .and_then(i64::checked_neg);
            if function == Function::CeilDiv {
                quotient
            } else {
                quotient.and_then(|q| q.checked_mul(y))
            }
        }
        Function::Gcd | Function::Lcm => {
            let (x, y) = (x.unsigned_abs(), y.unsigned_abs());
            let divisor = gcd(x, y);
            let result = match function {
                Function::Gcd => Some(divisor),
                // Only `lcm(0, 0)` has no divisor; it is 0.
                _ => x.checked_div(divisor).unwrap_or(0).checked_mul(y),
            };
            result.and_then(|r| i64::try_from(r).ok())
        }
        other => unreachable!("`{other:?}` is not a function of two integers"),
    };
    result.ok_or(EvalError::Overflow)
}

pub(super) fn is_pow2(x: i64) -> bool {
    x > 0 && x & (x - 1) == 0
}

/// The functions from a number to an integer.
pub(super) fn whole(function: Function, x: f64) -> Result<i64, EvalError> {
    let x = match function {
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Round => x.round(),
        Function::RoundHalfEven => x.round_ties_even(),
        _ => x.trunc(),
    };
    if x.is_finite() && x.abs() < 9.2e18 {
        Ok(x as i64)
    } else {
        Err(EvalError::Overflow)
    }
}

fn extreme(
    function: Function,
    items: &[Node<usize>],
    values: &Lookup<'_, '_>,
) -> Result<Value, EvalError> {
    let mut best: Option<Value> = None;
    for item in items {
        let value = eval(item, values)?;
        let replace = match &best {
            None => true,
            Some(current) => {
                let order = value
                    .loosely_compares(current)
                    .ok_or(EvalError::NotComparable(value.kind(), current.kind()))?;
                (function == Function::Min && order.is_lt())
                    || (function == Function::Max && order.is_gt())
            }
        };
        if replace {
            best = Some(value);
        }
    }
    best.ok_or(EvalError::ListAsValue)
}
