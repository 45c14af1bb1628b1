//! Constraint expressions, in kiln's language and in Python's: compiled and interpreted they mean the
//! same, and so does what is written as Python.

use kiln_core::expression::{BoundExpr, Expr, ExprError};
use kiln_core::space::{Rule, RuleKind, Space, Tunable};
use kiln_core::value::Value;

use super::spaces;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for parsed in [Expr::parse(text), Expr::parse_python(text)] {
        match parsed {
            Ok(expr) => means_one_thing(&expr),
            Err(error) => is_placed(&error, text),
        }
    }
}

/// Every kind of value, and the integers at which arithmetic overflows.
fn tunables() -> Vec<Tunable> {
    let int = |i: &i64| Value::Int(*i);
    let real = |x: &f64| Value::Float(*x);
    let text = |s: &&str| Value::Text((*s).to_string());
    let named = |name: &str, values: Vec<Value>| Tunable {
        name: name.to_string(),
        values,
    };
    vec![
        named("a", [0, 1, -3].iter().map(int).collect()),
        named("b", [2, 64].iter().map(int).collect()),
        named("big", [i64::MAX, i64::MIN].iter().map(int).collect()),
        named("x", [0.5, -2.0].iter().map(real).collect()),
        named("f", vec![Value::Bool(false), Value::Bool(true)]),
        named("s", ["row", ""].iter().map(text).collect()),
        named("one", vec![Value::Int(1)]),
    ]
}

fn means_one_thing(expr: &Expr) {
    for name in expr.names() {
        assert_eq!(&expr.text()[name.span.clone()], name.name);
    }
    let tunables = tunables();
    let scope: Vec<&str> = tunables.iter().map(|t| t.name.as_str()).collect();
    let bound = match expr.bind(&scope) {
        Ok(bound) => bound,
        Err(error) => return is_placed(&error, expr.text()),
    };
    let rules = [rule(bound.clone())];
    let built = Space::build(tunables.clone(), Vec::new(), rules.to_vec(), spaces::LIMITS);
    match built {
        Ok(space) => spaces::agree(&space, &rules, &[]),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Some(python) = expr.to_python() {
        let read = Expr::parse_python(&python).unwrap_or_else(|e| panic!("`{python}`: {e}"));
        let read = read.bind(&scope).expect("the same names");
        same_truth(&bound, &read, &tunables);
    }
}

fn rule(expr: BoundExpr) -> Rule {
    Rule {
        name: "rule".to_string(),
        kind: RuleKind::Constraint,
        expr,
    }
}

/// Written as Python, it holds where it held. Where one of the two is an error nothing is said: Python's
/// integers have no end and its `round` another half.
fn same_truth(kiln: &BoundExpr, python: &BoundExpr, tunables: &[Tunable]) {
    for number in 0..24 {
        let value = |(place, t): (usize, &Tunable)| {
            t.values[(number * (place + 1) + place) % t.values.len()].clone()
        };
        let values: Vec<Value> = tunables.iter().enumerate().map(value).collect();
        if let (Ok(a), Ok(b)) = (kiln.eval(&values), python.eval(&values)) {
            assert_eq!(
                a.is_truthy(),
                b.is_truthy(),
                "`{}` and `{}` at {values:?}",
                kiln.text(),
                python.text()
            );
        }
    }
}

fn is_placed(error: &ExprError, text: &str) {
    assert!(!error.message.is_empty());
    let span = &error.span;
    assert!(
        span.start <= span.end && span.end <= text.len(),
        "{error:?}"
    );
}
