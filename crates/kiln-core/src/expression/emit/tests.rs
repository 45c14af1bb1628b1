use super::*;

const CODES: [Code; 3] = [Code::Python, Code::Cpp, Code::Rust];

fn written(text: &str, values: &[(&str, Value)]) -> Vec<String> {
    let values: Vec<(String, Value)> = values
        .iter()
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect();
    let expr = Expr::parse(text)
        .expect("an expression")
        .with_values(&values);
    CODES
        .iter()
        .map(|code| match expr.emit_int(*code, &str::to_string) {
            Ok(text) => text,
            Err(refused) => format!("refused: {}", refused.why),
        })
        .collect()
}

#[test]
fn a_config_leaves_only_dimensions() {
    let config = [
        ("PERSISTENT", Value::Bool(true)),
        ("SMS", Value::Int(132)),
        ("UNIT", Value::Int(0)),
    ];
    let grid = "min(SMS if PERSISTENT else 2_000_000_000, B * H * (1 if UNIT == 0 else ceil_div(S, UNIT)))";
    assert_eq!(
        written(grid, &config),
        [
            "min(132, ((B * H) * 1))",
            "least(INT64_C(132), multiply(multiply(B, H), INT64_C(1)))",
            "least(132_i64, multiply(multiply(B, H)?, 1_i64)?)",
        ]
    );
}

#[test]
fn conditions_and_kinds_keep_their_meaning() {
    assert_eq!(
        written("B if B > 3 and not C else -C", &[]),
        [
            "(B if ((B > 3) and (not (C != 0))) else (0 - C))",
            "(((B > INT64_C(3)) && (!(C != 0))) ? B : subtract(INT64_C(0), C))",
            "(if ((B > 3_i64) && (!(C != 0_i64))) { B } else { subtract(0_i64, C)? })",
        ]
    );
    assert_eq!(
        written("(B in [1, 'x', 4]) + floor(B / 2) * 2 ** 3", &[]),
        [
            "(int((B == 1 or B == 4)) + (_whole_floor((float(B) / float(2))) * 8))",
            "add(int64_t((B == INT64_C(1) || B == INT64_C(4))), multiply(whole_floor(real_divide(double(B), double(INT64_C(2)))), INT64_C(8)))",
            "add(i64::from((B == 1_i64 || B == 4_i64)), multiply(whole_floor(real_divide((B as f64), (2_i64 as f64))?)?, 8_i64)?)?",
        ]
    );
}

#[test]
fn what_has_no_type_is_refused() {
    for (text, why) in [
        ("B / 2", "it is no whole number"),
        ("1 if 'row' == B else layout", ""),
        (
            "B ** C",
            "the exponent of a whole number must be a constant",
        ),
        ("min('a', B)", "it works on text"),
    ] {
        for found in written(text, &[]) {
            assert!(
                why.is_empty() || found == format!("refused: {why}"),
                "{text}: {found}"
            );
        }
    }
}

#[test]
fn a_part_that_fails_stays_to_fail_when_it_is_reached() {
    let zero = [("Z", Value::Int(0))];
    assert_eq!(written("B if Z == 0 else B // Z", &zero)[0], "B");
    assert_eq!(written("B // Z", &zero)[0], "(B // 0)");
    assert_eq!(written("1 // Z", &zero)[0], "(1 // 0)");
}

#[test]
fn truth_is_kept_where_a_number_stands_for_it() {
    let expr = Expr::parse("F and B").expect("an expression");
    let expr = expr.with_values(&[("F".into(), Value::Bool(true))]);
    let text = expr.emit_truth(Code::Python, &str::to_string);
    assert_eq!(text.as_deref(), Ok("(True and (B != 0))"));
    let decided = Expr::parse("F and B").expect("an expression");
    let decided = decided.with_values(&[("F".into(), Value::Bool(false))]);
    assert_eq!(decided.as_value(), Some(&Value::Bool(false)));
}
