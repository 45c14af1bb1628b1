//! The smallest conditions a rule is made of, as the constraints' language has them.

use std::fmt;

use crate::space::Tunable;
use crate::value::Value;

/// Products of tunables are cut at most at this many places.
const MOST_CUTS: usize = 24;
/// Numeric tunables beyond this many are not multiplied three at a time.
const MOST_FACTORS: usize = 8;
const DIVISORS: [i64; 9] = [2, 3, 4, 8, 16, 32, 64, 128, 256];

/// A condition on a config.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    pub(super) left: Term,
    pub(super) relation: Relation,
    pub(super) right: Right,
}

/// What is compared: a tunable, a product of tunables, or a remainder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    Product(Vec<String>),
    RemainderByNumber(String, i64),
    RemainderByTunable(String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    AtMost,
    AtLeast,
    Less,
    Greater,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Right {
    Value(Value),
    Tunable(String),
}

/// How many bits naming a kind of literal takes: kinds that explain more by chance cost more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Value,
    Comparison,
    Remainder,
    Product,
    TripleProduct,
}

impl Kind {
    pub(super) fn bits(self) -> f64 {
        match self {
            Kind::Value => 1.0,
            Kind::Comparison | Kind::Remainder => 3.0,
            Kind::Product => 4.0,
            Kind::TripleProduct => 5.0,
        }
    }
}

impl Relation {
    fn text(self) -> &'static str {
        match self {
            Relation::Equal => "==",
            Relation::NotEqual => "!=",
            Relation::AtMost => "<=",
            Relation::AtLeast => ">=",
            Relation::Less => "<",
            Relation::Greater => ">",
        }
    }

    fn negated(self) -> Relation {
        match self {
            Relation::Equal => Relation::NotEqual,
            Relation::NotEqual => Relation::Equal,
            Relation::AtMost => Relation::Greater,
            Relation::AtLeast => Relation::Less,
            Relation::Less => Relation::AtLeast,
            Relation::Greater => Relation::AtMost,
        }
    }
}

impl Literal {
    pub(super) fn negated(&self) -> Literal {
        Literal {
            relation: self.relation.negated(),
            ..self.clone()
        }
    }

    /// Whether the language can say it: a text with both kinds of quotes has no literal.
    pub(super) fn can_be_written(&self) -> bool {
        match &self.right {
            Right::Value(Value::Text(text)) => {
                let has_both_quotes = text.contains('\'') && text.contains('"');
                let is_odd =
                    has_both_quotes || text.contains('\\') || text.chars().any(char::is_control);
                !is_odd
            }
            _ => true,
        }
    }

    pub(super) fn tunables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = match &self.left {
            Term::Product(names) => names.iter().map(String::as_str).collect(),
            Term::RemainderByNumber(name, _) => vec![name],
            Term::RemainderByTunable(name, by) => vec![name, by],
        };
        if let Right::Tunable(name) = &self.right {
            names.push(name);
        }
        names
    }

    /// `None` where a value is no number and should be one, or a divisor is 0.
    pub(super) fn holds(&self, value: &dyn Fn(&str) -> Option<Value>) -> Option<bool> {
        let right = match &self.right {
            Right::Value(value) => value.clone(),
            Right::Tunable(name) => value(name)?,
        };
        let left = match &self.left {
            Term::Product(names) => match names.as_slice() {
                [name] => value(name)?,
                names => {
                    let integer = |name: &String| match value(name)? {
                        Value::Int(number) => Some(number),
                        _ => None,
                    };
                    let product = names
                        .iter()
                        .try_fold(1i64, |product, name| product.checked_mul(integer(name)?))?;
                    Value::Int(product)
                }
            },
            Term::RemainderByNumber(name, by) => remainder(&value(name)?, *by)?,
            Term::RemainderByTunable(name, by) => match value(by)? {
                Value::Int(by) => remainder(&value(name)?, by)?,
                _ => return None,
            },
        };
        use std::cmp::Ordering::{Greater, Less};
        Some(match self.relation {
            Relation::Equal => left.loosely_equals(&right),
            Relation::NotEqual => !left.loosely_equals(&right),
            Relation::AtMost => left.loosely_compares(&right)? != Greater,
            Relation::AtLeast => left.loosely_compares(&right)? != Less,
            Relation::Less => left.loosely_compares(&right)? == Less,
            Relation::Greater => left.loosely_compares(&right)? == Greater,
        })
    }
}

fn remainder(value: &Value, by: i64) -> Option<Value> {
    match value {
        // Of positive numbers, where every language agrees.
        Value::Int(number) if *number >= 0 && by > 0 => Some(Value::Int(number % by)),
        _ => None,
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.left {
            Term::Product(names) => f.write_str(&names.join(" * "))?,
            Term::RemainderByNumber(name, by) => write!(f, "{name} % {by}")?,
            Term::RemainderByTunable(name, by) => write!(f, "{name} % {by}")?,
        }
        write!(f, " {} ", self.relation.text())?;
        match &self.right {
            Right::Tunable(name) => f.write_str(name),
            Right::Value(Value::Text(text)) if text.contains('\'') => write!(f, "\"{text}\""),
            Right::Value(Value::Text(text)) => write!(f, "'{text}'"),
            Right::Value(value) => write!(f, "{value}"),
        }
    }
}

/// Every condition worth trying on tunables with these values, those a reader would write first coming first.
pub(super) fn candidates(tunables: &[Tunable]) -> Vec<(Kind, Literal)> {
    let varied: Vec<&Tunable> = tunables.iter().filter(|t| t.values.len() > 1).collect();
    let mut found = Vec::new();
    for tunable in &varied {
        of_values(tunable, &mut found);
    }
    let numeric: Vec<&Tunable> = varied
        .iter()
        .copied()
        .filter(|t| t.values.iter().all(|v| matches!(v, Value::Int(1..))))
        .collect();
    for tunable in &numeric {
        remainders(tunable, &mut found);
    }
    let are_compared = |a: &Tunable, b: &Tunable| {
        let is_numeric = |t: &Tunable| numeric.iter().any(|n| n.name == t.name);
        is_numeric(a) && is_numeric(b)
    };
    for (at, a) in varied.iter().enumerate() {
        for b in &varied[at + 1..] {
            if !are_compared(a, b) && have_same_values(a, b) {
                alike(a, b, &mut found);
            }
        }
    }
    for (at, a) in numeric.iter().enumerate() {
        for b in &numeric[at + 1..] {
            between(a, b, &mut found);
            products(&[a, b], Kind::Product, &mut found);
        }
    }
    if numeric.len() <= MOST_FACTORS {
        for (i, a) in numeric.iter().enumerate() {
            for (j, b) in numeric.iter().enumerate().skip(i + 1) {
                for c in &numeric[j + 1..] {
                    products(&[a, b, c], Kind::TripleProduct, &mut found);
                }
            }
        }
    }
    found.retain(|(_, literal)| literal.can_be_written());
    found
}

fn plain(name: &str, relation: Relation, value: Value) -> Literal {
    Literal {
        left: Term::Product(vec![name.to_string()]),
        relation,
        right: Right::Value(value),
    }
}

fn of_values(tunable: &Tunable, found: &mut Vec<(Kind, Literal)>) {
    let name = &tunable.name;
    let mut add = |relation, value: &Value| {
        found.push((Kind::Value, plain(name, relation, value.clone())));
    };
    for value in &tunable.values {
        add(Relation::Equal, value);
    }
    // Of two values, not being one is being the other.
    if tunable.values.len() == 2 {
        return;
    }
    for value in &tunable.values {
        add(Relation::NotEqual, value);
    }
    let mut sorted: Vec<&Value> = tunable.values.iter().collect();
    if sorted
        .iter()
        .any(|v| matches!(v, Value::Text(_) | Value::Bool(_)))
    {
        return;
    }
    sorted.sort_by(|a, b| a.loosely_compares(b).unwrap_or(std::cmp::Ordering::Equal));
    // A bound with a single value on one side is said more plainly by that value.
    for cut in 2..sorted.len().saturating_sub(1) {
        add(Relation::AtMost, sorted[cut - 1]);
        add(Relation::AtLeast, sorted[cut]);
    }
}

fn remainders(tunable: &Tunable, found: &mut Vec<(Kind, Literal)>) {
    if tunable.values.len() < 4 {
        return;
    }
    for by in DIVISORS {
        for relation in [Relation::Equal, Relation::NotEqual] {
            let literal = Literal {
                left: Term::RemainderByNumber(tunable.name.clone(), by),
                relation,
                right: Right::Value(Value::Int(0)),
            };
            found.push((Kind::Remainder, literal));
        }
    }
}

/// Switches, and other tunables that choose among the same.
fn have_same_values(a: &Tunable, b: &Tunable) -> bool {
    let has = |t: &Tunable, value: &Value| t.values.iter().any(|v| v.loosely_equals(value));
    a.values.len() == b.values.len() && a.values.iter().all(|value| has(b, value))
}

fn alike(a: &Tunable, b: &Tunable, found: &mut Vec<(Kind, Literal)>) {
    for relation in [Relation::Equal, Relation::NotEqual] {
        let literal = Literal {
            left: Term::Product(vec![a.name.clone()]),
            relation,
            right: Right::Tunable(b.name.clone()),
        };
        found.push((Kind::Comparison, literal));
    }
}

fn between(a: &Tunable, b: &Tunable, found: &mut Vec<(Kind, Literal)>) {
    let relations = [
        Relation::Less,
        Relation::AtMost,
        Relation::Equal,
        Relation::NotEqual,
        Relation::AtLeast,
        Relation::Greater,
    ];
    for relation in relations {
        let literal = Literal {
            left: Term::Product(vec![a.name.clone()]),
            relation,
            right: Right::Tunable(b.name.clone()),
        };
        found.push((Kind::Comparison, literal));
    }
    for (of, by) in [(a, b), (b, a)] {
        for relation in [Relation::Equal, Relation::NotEqual] {
            let literal = Literal {
                left: Term::RemainderByTunable(of.name.clone(), by.name.clone()),
                relation,
                right: Right::Value(Value::Int(0)),
            };
            found.push((Kind::Comparison, literal));
        }
    }
}

fn products(factors: &[&Tunable], kind: Kind, found: &mut Vec<(Kind, Literal)>) {
    let mut products = vec![1i64];
    for factor in factors {
        let values = factor.values.iter().filter_map(|v| match v {
            Value::Int(number) => Some(*number),
            _ => None,
        });
        let values: Vec<i64> = values.collect();
        products = products
            .iter()
            .flat_map(|p| values.iter().filter_map(|v| p.checked_mul(*v)))
            .collect();
        products.sort_unstable();
        products.dedup();
    }
    let step = (products.len() / MOST_CUTS).max(1);
    let names: Vec<String> = factors.iter().map(|t| t.name.clone()).collect();
    for pair in products.windows(2).step_by(step) {
        for (relation, bound) in [(Relation::AtMost, pair[0]), (Relation::AtLeast, pair[1])] {
            let literal = Literal {
                left: Term::Product(names.clone()),
                relation,
                right: Right::Value(Value::Int(bound)),
            };
            found.push((kind, literal));
        }
    }
}
