//! A rule compiled for millions of evaluations.
//!
//! `Predicate::compile` knows every value each name can take, so it decides number kinds once and
//! turns whatever reads a single name into a table over that name's values: text comparisons,
//! `is_pow2(N)` and constant arithmetic all become one lookup. What is left is arithmetic on `i64`
//! and `f64` with no allocation. Meaning is that of `BoundExpr::eval`; the arithmetic is shared
//! with it, and a property test holds the two together.

use std::cell::Cell;

use super::evaluate::{eval, integer_binary, integer_call, is_pow2, real_binary, whole};
use super::{BinaryOp, BoundExpr, CompareOp, Function, Node};
use crate::value::Value;

mod chain;

pub(super) use chain::{Chain, Item, Link};

/// Whether a rule holds, as a function of value positions.
#[derive(Clone, Debug)]
pub(crate) struct Predicate(pub(super) Int);

/// An integer or a boolean (0 or 1); the language treats the two alike in arithmetic.
#[derive(Clone, Debug)]
pub(super) enum Int {
    Constant(i64),
    Table(Table<i64>),
    Binary(BinaryOp, Box<[Int; 2]>),
    Call(Function, Box<[Int; 2]>),
    Chain(Box<Chain>),
    Truth(Box<Real>),
    Not(Box<Int>),
    And(Box<[Int; 2]>),
    Or(Box<[Int; 2]>),
    AndOperand(Box<[Int; 2]>),
    OrOperand(Box<[Int; 2]>),
    If(Box<[Int; 3]>),
    Extreme(Function, Box<[Int]>),
    Negate(Box<Int>),
    Abs(Box<Int>),
    IsPow2(Box<Int>),
    Whole(Function, Box<Real>),
}

#[derive(Clone, Debug)]
pub(super) enum Real {
    Constant(f64),
    Table(Table<f64>),
    FromInt(Box<Int>),
    Binary(BinaryOp, Box<[Real; 2]>),
    If(Box<Int>, Box<[Real; 2]>),
    AndOperand(Box<[Real; 2]>),
    OrOperand(Box<[Real; 2]>),
    Extreme(Function, Box<[Real]>),
    Negate(Box<Real>),
    Abs(Box<Real>),
    Log2(Box<Real>),
    Sqrt(Box<Real>),
}

/// Results by the position of one slot's value; `None` where evaluation is an error.
#[derive(Clone, Debug)]
pub(super) struct Table<T> {
    pub(super) slot: usize,
    pub(super) results: Box<[Option<T>]>,
}

#[derive(Clone, Debug)]
pub(super) enum Typed {
    Int(Int),
    Real(Real),
}

/// The value of a `Typed`.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i64),
    Real(f64),
}

/// What each slot can be, and how much may still be spent on tables.
struct Domains<'d> {
    lists: &'d [&'d [Value]],
    steps_left: Cell<u64>,
}

/// Nodes evaluated to make all tables of one rule: less than a second. Beyond it the rule is interpreted.
const MOST_TABLE_STEPS: u64 = 4_000_000;

impl Domains<'_> {
    fn varies(&self, slot: usize) -> bool {
        self.lists[slot].len() > 1
    }

    /// False when there is too little left.
    fn spend(&self, steps: u64) -> bool {
        let left = self.steps_left.get().checked_sub(steps);
        self.steps_left.set(left.unwrap_or(0));
        left.is_some()
    }
}

impl Predicate {
    /// `domains[slot]` lists what a slot can be. `None` when the kinds cannot be decided ahead (a
    /// name that is text here and a number there) or its tables would be huge; such a rule is left to `BoundExpr::eval`.
    pub(crate) fn compile(expr: &BoundExpr, domains: &[&[Value]]) -> Option<Predicate> {
        let domains = Domains {
            lists: domains,
            steps_left: Cell::new(MOST_TABLE_STEPS),
        };
        typed(&expr.node, &domains).map(|t| Predicate(truth(t)))
    }

    /// `positions[slot]` is a position in that slot's domain; slots with a domain of one value are
    /// not read. `None` when evaluation is an error.
    #[inline]
    pub(crate) fn holds(&self, positions: &[u16]) -> Option<bool> {
        self.0.run(positions).map(|x| x != 0)
    }
}

impl<T: Copy> Table<T> {
    #[inline]
    fn run(&self, positions: &[u16]) -> Option<T> {
        self.results[usize::from(positions[self.slot])]
    }
}

impl Int {
    fn run(&self, p: &[u16]) -> Option<i64> {
        Some(match self {
            Int::Constant(x) => *x,
            Int::Table(table) => return table.run(p),
            Int::Binary(op, ab) => return integer_binary(*op, ab[0].run(p)?, ab[1].run(p)?).ok(),
            Int::Call(function, ab) => {
                return integer_call(*function, ab[0].run(p)?, ab[1].run(p)?).ok();
            }
            Int::Chain(chain) => return chain.run(p),
            Int::Truth(a) => i64::from(a.run(p)? != 0.0),
            Int::Not(a) => i64::from(a.run(p)? == 0),
            Int::And(ab) => i64::from(ab[0].run(p)? != 0 && ab[1].run(p)? != 0),
            Int::Or(ab) => i64::from(ab[0].run(p)? != 0 || ab[1].run(p)? != 0),
            Int::AndOperand(ab) => match ab[0].run(p)? {
                0 => 0,
                _ => return ab[1].run(p),
            },
            Int::OrOperand(ab) => match ab[0].run(p)? {
                0 => return ab[1].run(p),
                x => x,
            },
            Int::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                return if condition.run(p)? != 0 {
                    then.run(p)
                } else {
                    otherwise.run(p)
                };
            }
            Int::Extreme(function, items) => {
                let mut best = items[0].run(p)?;
                for item in &items[1..] {
                    let x = item.run(p)?;
                    best = if *function == Function::Min {
                        best.min(x)
                    } else {
                        best.max(x)
                    };
                }
                best
            }
            Int::Negate(a) => return a.run(p)?.checked_neg(),
            Int::Abs(a) => return a.run(p)?.checked_abs(),
            Int::IsPow2(a) => i64::from(is_pow2(a.run(p)?)),
            Int::Whole(function, a) => return whole(*function, a.run(p)?).ok(),
        })
    }
}

impl Real {
    fn run(&self, p: &[u16]) -> Option<f64> {
        Some(match self {
            Real::Constant(x) => *x,
            Real::Table(table) => return table.run(p),
            Real::FromInt(a) => a.run(p)? as f64,
            Real::Binary(op, ab) => return real_binary(*op, ab[0].run(p)?, ab[1].run(p)?).ok(),
            Real::AndOperand(ab) | Real::OrOperand(ab) => {
                let first = ab[0].run(p)?;
                if (first != 0.0) == matches!(self, Real::OrOperand(_)) {
                    first
                } else {
                    return ab[1].run(p);
                }
            }
            Real::If(condition, ab) => {
                return if condition.run(p)? != 0 {
                    ab[0].run(p)
                } else {
                    ab[1].run(p)
                };
            }
            Real::Extreme(function, items) => {
                let wanted = if *function == Function::Min {
                    std::cmp::Ordering::Less
                } else {
                    std::cmp::Ordering::Greater
                };
                let mut best = items[0].run(p)?;
                for item in &items[1..] {
                    let x = item.run(p)?;
                    if x.partial_cmp(&best)? == wanted {
                        best = x;
                    }
                }
                best
            }
            Real::Negate(a) => -a.run(p)?,
            Real::Abs(a) => a.run(p)?.abs(),
            Real::Log2(a) => a.run(p)?.log2(),
            Real::Sqrt(a) => a.run(p)?.sqrt(),
        })
    }
}

/// Equality is always decided; order is not for NaN, which is an error of the language.
#[inline]
pub(super) fn compare<T: PartialOrd>(op: CompareOp, a: &T, b: &T) -> Option<bool> {
    Some(match op {
        CompareOp::Equal => a == b,
        CompareOp::NotEqual => a != b,
        _ => {
            let order = a.partial_cmp(b)?;
            match op {
                CompareOp::Less => order.is_lt(),
                CompareOp::LessEqual => order.is_le(),
                CompareOp::Greater => order.is_gt(),
                _ => order.is_ge(),
            }
        }
    })
}

fn truth(typed: Typed) -> Int {
    match typed {
        Typed::Int(a) => a,
        Typed::Real(a) => Int::Truth(Box::new(a)),
    }
}

fn real(typed: Typed) -> Real {
    match typed {
        Typed::Int(a) => Real::FromInt(Box::new(a)),
        Typed::Real(a) => a,
    }
}

fn typed(node: &Node<usize>, domains: &Domains<'_>) -> Option<Typed> {
    if matches!(node, Node::List(_)) {
        return None;
    }
    let mut free = None;
    let mut free_count = 0;
    node.visit_names(&mut |&slot| {
        if domains.varies(slot) && free != Some(slot) {
            free = Some(slot);
            free_count += 1;
        }
    });
    if free_count <= 1 {
        return tabulate(node, free, domains);
    }
    let child = |node: &Node<usize>| typed(node, domains);
    let integer = |node: &Node<usize>| match child(node)? {
        Typed::Int(a) => Some(a),
        Typed::Real(_) => None,
    };
    Some(match node {
        Node::Literal(_) | Node::Name(_) | Node::List(_) => return None,
        Node::Negate(a) => match child(a)? {
            Typed::Int(a) => Typed::Int(Int::Negate(Box::new(a))),
            Typed::Real(a) => Typed::Real(Real::Negate(Box::new(a))),
        },
        Node::Not(a) => Typed::Int(Int::Not(Box::new(truth(child(a)?)))),
        Node::And(a, b) => Typed::Int(Int::And(Box::new([truth(child(a)?), truth(child(b)?)]))),
        Node::Or(a, b) => Typed::Int(Int::Or(Box::new([truth(child(a)?), truth(child(b)?)]))),
        Node::AndOperand(a, b) => match (child(a)?, child(b)?) {
            (Typed::Int(a), Typed::Int(b)) => Typed::Int(Int::AndOperand(Box::new([a, b]))),
            (Typed::Real(a), Typed::Real(b)) => Typed::Real(Real::AndOperand(Box::new([a, b]))),
            _ => return None,
        },
        Node::OrOperand(a, b) => match (child(a)?, child(b)?) {
            (Typed::Int(a), Typed::Int(b)) => Typed::Int(Int::OrOperand(Box::new([a, b]))),
            (Typed::Real(a), Typed::Real(b)) => Typed::Real(Real::OrOperand(Box::new([a, b]))),
            _ => return None,
        },
        Node::If {
            then,
            condition,
            otherwise,
        } => {
            let condition = truth(child(condition)?);
            match (child(then)?, child(otherwise)?) {
                (Typed::Int(a), Typed::Int(b)) => Typed::Int(Int::If(Box::new([condition, a, b]))),
                (Typed::Real(a), Typed::Real(b)) => {
                    Typed::Real(Real::If(Box::new(condition), Box::new([a, b])))
                }
                _ => return None,
            }
        }
        Node::Binary(op, a, b) => match (child(a)?, child(b)?) {
            (Typed::Int(a), Typed::Int(b)) if *op != BinaryOp::Divide => {
                // A negative exponent makes the result real, so it has to be known ahead.
                if *op == BinaryOp::Power && !matches!(b, Int::Constant(0..)) {
                    return None;
                }
                Typed::Int(Int::Binary(*op, Box::new([a, b])))
            }
            (a, b) => Typed::Real(Real::Binary(*op, Box::new([real(a), real(b)]))),
        },
        Node::Chain(first, rest) => {
            Typed::Int(Int::Chain(Box::new(Chain::compile(first, rest, domains)?)))
        }
        Node::Call(function, arguments) => match function {
            Function::Min | Function::Max => extreme(*function, arguments, domains)?,
            Function::CeilDiv | Function::AlignUp | Function::Gcd | Function::Lcm => {
                let pair = [integer(&arguments[0])?, integer(&arguments[1])?];
                Typed::Int(Int::Call(*function, Box::new(pair)))
            }
            Function::Abs => match child(&arguments[0])? {
                Typed::Int(a) => Typed::Int(Int::Abs(Box::new(a))),
                Typed::Real(a) => Typed::Real(Real::Abs(Box::new(a))),
            },
            Function::IsPow2 => Typed::Int(Int::IsPow2(Box::new(integer(&arguments[0])?))),
            Function::Log2 => Typed::Real(Real::Log2(Box::new(real(child(&arguments[0])?)))),
            Function::Sqrt => Typed::Real(Real::Sqrt(Box::new(real(child(&arguments[0])?)))),
            Function::Int
            | Function::Floor
            | Function::Ceil
            | Function::Round
            | Function::RoundHalfEven => {
                match child(&arguments[0])? {
                    Typed::Int(a) if *function == Function::Int => Typed::Int(a),
                    // Through `f64` as in `eval`, which rounds integers beyond 2^53.
                    a => Typed::Int(Int::Whole(*function, Box::new(real(a)))),
                }
            }
        },
    })
}

/// Evaluates a node that reads at most one slot for every value of that slot.
fn tabulate(node: &Node<usize>, slot: Option<usize>, domains: &Domains<'_>) -> Option<Typed> {
    let values = slot.map_or(1, |slot| domains.lists[slot].len());
    if !domains.spend(node.size() as u64 * values as u64) {
        return None;
    }
    let domains = domains.lists;
    let at = |position: usize| {
        let value = |s: usize| &domains[s][if Some(s) == slot { position } else { 0 }];
        eval(node, &value).ok()
    };
    let Some(slot) = slot else {
        return Some(match at(0)? {
            Value::Int(x) => Typed::Int(Int::Constant(x)),
            Value::Bool(x) => Typed::Int(Int::Constant(i64::from(x))),
            Value::Float(x) => Typed::Real(Real::Constant(x)),
            Value::Text(_) => return None,
        });
    };
    let results: Vec<Option<Value>> = (0..domains[slot].len()).map(at).collect();
    let is_float = |value: &Value| matches!(value, Value::Float(_));
    if results.iter().flatten().all(is_float) {
        let results = results.iter().map(|v| v.as_ref()?.as_f64()).collect();
        return Some(Typed::Real(Real::Table(Table { slot, results })));
    }
    let mut integers = Vec::with_capacity(results.len());
    for result in results {
        integers.push(match result {
            None => None,
            Some(Value::Int(x)) => Some(x),
            Some(Value::Bool(x)) => Some(i64::from(x)),
            Some(Value::Float(_) | Value::Text(_)) => return None,
        });
    }
    Some(Typed::Int(Int::Table(Table {
        slot,
        results: integers.into(),
    })))
}

fn extreme(function: Function, arguments: &[Node<usize>], domains: &Domains<'_>) -> Option<Typed> {
    let items = match arguments {
        [Node::List(items)] => items.as_slice(),
        many => many,
    };
    let mut integers = Vec::new();
    let mut reals = Vec::new();
    for item in items {
        match typed(item, domains)? {
            Typed::Int(a) => integers.push(a),
            Typed::Real(a) => reals.push(a),
        }
    }
    match (integers.is_empty(), reals.is_empty()) {
        (false, true) => Some(Typed::Int(Int::Extreme(function, integers.into()))),
        (true, false) => Some(Typed::Real(Real::Extreme(function, reals.into()))),
        // The winner's kind would depend on the values.
        _ => None,
    }
}
