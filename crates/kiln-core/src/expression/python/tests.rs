use crate::expression::Expr;
use crate::value::Value;

fn eval(text: &str) -> Value {
    let scope = ["x", "y", "z", "s"];
    let values = [
        Value::Int(32),
        Value::Int(-7),
        Value::Int(0),
        Value::Text("row".into()),
    ];
    let expr = Expr::parse_python(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    expr.bind(&scope).unwrap().eval(&values).unwrap()
}

/// What CPython 3.11 prints for each of these, with x = 32, y = -7, z = 0, s = 'row'.
#[test]
fn means_what_python_means() {
    for (text, expected) in [
        ("y // 2", Value::Int(-4)),
        ("y % 3", Value::Int(2)),
        ("7 % -3", Value::Int(-2)),
        ("7.5 // -2", Value::Float(-4.0)),
        ("-7.5 % 2", Value::Float(0.5)),
        ("5.4 % 0.9", Value::Float(2.220446049250313e-16)),
        ("1 % 0.1", Value::Float(0.09999999999999995)),
        ("1 // 0.1", Value::Float(9.0)),
        ("x / 5", Value::Float(6.4)),
        ("4 / 2", Value::Float(2.0)),
        ("2 ** -1", Value::Float(0.5)),
        ("-2 ** 2", Value::Int(-4)),
        ("(z or x) == 32", Value::Bool(true)),
        ("(z or x) + 1", Value::Int(33)),
        ("1 + (x and y)", Value::Int(-6)),
        ("min(z or 5, x and 4)", Value::Int(4)),
        ("(x and s) == 'row'", Value::Bool(true)),
        ("0 < x < 33 > y", Value::Bool(true)),
        ("1 < x < 3 == 0", Value::Bool(false)),
        ("x in range(0, 64, 32)", Value::Bool(true)),
        ("x not in range(32)", Value::Bool(true)),
        ("y in range(-7, -9, -1)", Value::Bool(true)),
        ("round(2.5) + round(3.5)", Value::Int(6)),
        ("int(-2.7)", Value::Int(-2)),
        ("s == 'row' and s != \"col\"", Value::Bool(true)),
        ("s == 0", Value::Bool(false)),
        ("True + True", Value::Int(2)),
        ("not x == 32", Value::Bool(false)),
        ("max(x, abs(y)) == 32", Value::Bool(true)),
    ] {
        assert_eq!(eval(text), expected, "{text}");
    }
}

#[test]
fn what_python_does_not_have_is_refused() {
    for (text, part) in [
        ("ceil_div(x, 2) == 16", "unknown function `ceil_div`"),
        ("x in range(5000)", "more than 1024"),
        ("x in range(0, 5, 0)", "step of `range` is 0"),
        ("x in range(y)", "whole constants"),
        ("x in range()", "1 to 3"),
        ("x && y", "unexpected `&&`"),
        ("x == 1 2", "unexpected `2`"),
    ] {
        let error = Expr::parse_python(text).unwrap_err();
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

/// Deeply nested operands are marked, not copied: copies would double with every level.
#[test]
fn nested_operands_stay_small() {
    let mut text = "x".to_string();
    for _ in 0..15 {
        text = format!("(({text} or y) == 1 or z)");
    }
    assert!(Expr::parse_python(&text).is_ok());
    let long = vec!["x"; 90].join(" or ");
    assert!(Expr::parse_python(&format!("({long}) == 1")).is_ok());
}

#[test]
fn written_python_means_the_same() {
    let scope = ["a", "b", "s"];
    for text in [
        "a % (16 * b) == 0 and not (a < b)",
        "(a > 1 and b > 1) == true",
        "(a or b) + 1 == 2",
        "ceil_div(a, b) * b >= align_up(a, b)",
        "is_pow2(a) or s in ['row', \"it's\"]",
        "round(a / 2) == 2 or floor(-a / 2) == -2 or ceil(-a / 2) == -1",
        "a ** 2 - -b <= 2 ** (a - b)",
        "(1 if a > b else 2) * 3 == (6 if s == 'row' else 3)",
        "min(a, b) < max(1, a) <= 5 != 2",
        "sqrt(a * a) == a",
        "s == 'ro\\w' or s == 'row'",
        "a - (b - 1) == a - b + 1",
        "-(a ** 2) < 0 and (-a) ** 2 > 0",
    ] {
        let ours = Expr::parse(text).unwrap();
        let python = ours.to_python().unwrap_or_else(|| panic!("{text}"));
        let theirs = Expr::parse_python(&python).unwrap_or_else(|e| panic!("{python}: {e}"));
        for a in 0..6 {
            for b in 1..4 {
                for s in ["row", "col"] {
                    let values = [Value::Int(a), Value::Int(b), Value::Text(s.into())];
                    let [x, y] = [&ours, &theirs]
                        .map(|e| e.bind(&scope).unwrap().eval(&values).unwrap().is_truthy());
                    assert_eq!(x, y, "{text} as {python} at {values:?}");
                }
            }
        }
    }
    assert_eq!(Expr::parse("gcd(a, 2) == 1").unwrap().to_python(), None);
}
