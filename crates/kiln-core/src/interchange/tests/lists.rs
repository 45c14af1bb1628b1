use crate::interchange::list::evaluate;
use crate::value::Value;

fn integers(text: &str) -> Vec<i64> {
    let values = evaluate(text).unwrap_or_else(|e| panic!("{text}: {e} at {:?}", e.span));
    let integer = |value| match value {
        Value::Int(i) => i,
        other => panic!("{text}: {other:?}"),
    };
    values.into_iter().map(integer).collect()
}

/// What CPython evaluates these to.
#[test]
fn lists_mean_what_python_means() {
    for (text, expected) in [
        ("[]", vec![]),
        ("[1, 2, 4,]", vec![1, 2, 4]),
        ("(1, 2)", vec![1, 2]),
        (" [ -1 , +2 ] ", vec![-1, 2]),
        ("range(3)", vec![0, 1, 2]),
        ("list(range(32, 128+1, 32))", vec![32, 64, 96, 128]),
        ("range(10, 0, -4)", vec![10, 6, 2]),
        ("range(5, 5)", vec![]),
        (
            "[1, 2, 4, 8, 16] + list(range(32, 96+1, 32))",
            vec![1, 2, 4, 8, 16, 32, 64, 96],
        ),
        ("[2**i for i in range(0, 6)]", vec![1, 2, 4, 8, 16, 32]),
        ("[32 * i for i in range(1, 4)]", vec![32, 64, 96]),
        ("[1] + [2 * i for i in range(1, 4)]", vec![1, 2, 4, 6]),
        ("[i for i in range(10) if i % 3 == 0]", vec![0, 3, 6, 9]),
        ("[i for i in range(10) if i % 2 if i > 4]", vec![5, 7, 9]),
        ("[i if i > 1 else -i for i in range(4)]", vec![0, -1, 2, 3]),
        ("[i * j for i in [1, 2] for j in range(i)]", vec![0, 0, 2]),
        ("[x+1 for x in [y*2 for y in (1, 2)]]", vec![3, 5]),
        ("[0] * 3", vec![0, 0, 0]),
        ("2 * [1, 2] + [3]", vec![1, 2, 1, 2, 3]),
        ("[7] * 0", vec![]),
        ("[*range(2), 9, *[4, 5]]", vec![0, 1, 9, 4, 5]),
        ("([1, 2])", vec![1, 2]),
        ("list([1, 2])", vec![1, 2]),
        ("[min(i, 2) for i in range(4)]", vec![0, 1, 2, 2]),
        ("[(1 + 2) * 3]", vec![9]),
        ("[i//2 for i in range(-2, 1)]", vec![-1, -1, 0]),
    ] {
        assert_eq!(integers(text), expected, "{text}");
    }
    let others = evaluate("['a,b', \"it's\", 'q\\'r', True, 0.5, 1/2]").unwrap();
    let expected = [
        Value::Text("a,b".into()),
        Value::Text("it's".into()),
        Value::Text("q'r".into()),
        Value::Bool(true),
        Value::Float(0.5),
        Value::Float(0.5),
    ];
    assert_eq!(others, expected);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, message, place) in [
        ("", "expected a list", ""),
        ("5", "expected a list", "5"),
        ("[1, 2", "not closed", "[1, 2"),
        ("[1, 2)]", "brackets do not match", "]"),
        ("[1,, 2]", "a value is missing", ","),
        ("['a]", "string is not closed", "['a]"),
        ("[i for i in rang(3)]", "expected a list", "rang(3)"),
        ("[i for in range(3)]", "loop cannot be read", "in range(3)"),
        (
            "[i for i of range(3)]",
            "loop cannot be read",
            "i of range(3)",
        ),
        (
            "[i for 1 in range(3)]",
            "loop cannot be read",
            "1 in range(3)",
        ),
        ("[j for i in range(3)]", "unknown name `j`", "j"),
        ("[i for i in range(3) if k]", "unknown name `k`", "k"),
        (
            "[i for i in range(2) for i in range(2)]",
            "loop variable twice",
            "i in range(2)",
        ),
        ("[1 / i for i in range(3)]", "division by zero", "1 / i"),
        ("range(0, 3, 0)", "step of `range` is 0", "0, 3, 0"),
        ("range(1, 2, 3, 4)", "1 to 3", "1, 2, 3, 4"),
        ("range('a')", "expected an integer", "'a'"),
        ("range(1.5)", "expected an integer", "1.5"),
        ("range(10**12)", "the range has", "10**12"),
        ("[0] * 100000", "more than 65536", "[0] * 100000"),
        (
            "[i for i in range(60000) for j in range(60000) if 0]",
            "too many steps",
            "0",
        ),
        ("[__import__('os')]", "unknown function", "__import__"),
        ("[1] + 2", "expected a list", "2"),
        ("[(1, 2)]", "a list cannot be used", "(1, 2)"),
        ("[1 2]", "unexpected `2`", "2"),
    ] {
        let error = evaluate(text).expect_err(text);
        assert!(error.message.contains(message), "{text}: {}", error.message);
        assert_eq!(&text[error.span.clone()], place, "{text}: {error}");
    }
    for deep in ["[".repeat(100_000), "(".repeat(9_000) + &")".repeat(9_000)] {
        assert!(evaluate(&deep).is_err());
    }
}
