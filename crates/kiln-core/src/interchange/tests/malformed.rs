//! Files that are wrong in one place, and what is said about them.

use super::{CACHE, T1, T4, space};
use crate::diagnostic::Diagnostic;
use crate::interchange::{read_recording, t1};
use crate::space::BuildLimits;

fn t1_error(text: &str) -> Diagnostic {
    match t1::Definition::parse(text) {
        Err(error) => error,
        Ok(definition) => definition.build(BuildLimits::default()).expect_err(text),
    }
}

/// Replaces a part that must be there, and returns the rendered error.
fn spoilt(text: &str, from: &str, to: &str, error: impl Fn(&str) -> Diagnostic) -> String {
    assert!(text.contains(from), "{from}");
    let text = text.replacen(from, to, 1);
    error(&text).render("F", &text)
}

#[test]
fn t1_files() {
    for (from, to, expected) in [
        ("]\n  }\n}", "]\n  }", "this is not JSON: EOF"),
        (
            "\"Conditions\": [",
            "\"Conditions\": [,",
            "this is not JSON: expected value",
        ),
        (
            "\"ConfigurationSpace\"",
            "\"Space\"",
            "no `ConfigurationSpace`",
        ),
        (
            "\"TuningParameters\"",
            "\"TuningParameter\"",
            "is that a typo?",
        ),
        (
            "\"Name\": \"block\"",
            "\"Nam\": \"block\"",
            "the parameter has no `Name`",
        ),
        (
            "\"Name\": \"block\"",
            "\"Name\": 3",
            "expected a string, found a number",
        ),
        ("\"Name\": \"block\"", "\"Name\": \"\"", "name is empty"),
        (
            "\"Name\": \"unroll\"",
            "\"Name\": \"block\"",
            "`block` is there twice",
        ),
        (
            "\"Type\": \"int\"",
            "\"Type\": \"integer\"",
            "`integer` is no type",
        ),
        ("range(1, 4)", "range(1, 4", "a bracket is not closed"),
        (
            "[32 * i for i in range(1, 4)]",
            "[32, 32]",
            "lists `32` twice",
        ),
        (
            "[32 * i for i in range(1, 4)]",
            "[]",
            "`block` has no values",
        ),
        (
            "[32 * i for i in range(1, 4)]",
            "[1.5]",
            "of type `int`, but lists `1.5`",
        ),
        (
            "\"Values\": [1, 2]",
            "\"Values\": [1, -2]",
            "of type `uint`, but lists `-2`",
        ),
        (
            "\"Values\": [1, 2]",
            "\"Values\": [1, null]",
            "expected a number, a string or a boolean",
        ),
        (
            "\"Values\": [1, 2]",
            "\"Values\": [99999999999999999999]",
            "this integer cannot be read",
        ),
        (
            "\"Values\": [1, 2]",
            "\"Values\": 2",
            "expected a string, found a number",
        ),
        (
            "\"Values\": [1, 2]",
            "\"Value\": [1, 2]",
            "parameter `unroll` has no `Values`",
        ),
        (
            "block * unroll <=",
            "block * unrol <=",
            "unknown name `unrol`",
        ),
        (
            "block * unroll <=",
            "block * unroll <= <=",
            "expected a value, found `<=`",
        ),
        (
            "block * unroll <= 128",
            "block / (unroll - 1) <= 128",
            "cannot be evaluated at block=32 unroll=1",
        ),
        (
            "\"Expression\"",
            "\"Expresion\"",
            "the condition has no `Expression`",
        ),
        (
            "{\"Expression\"",
            "7, {\"Expression\"",
            "expected an object, found a number",
        ),
    ] {
        let rendered = spoilt(T1, from, to, t1_error);
        assert!(rendered.contains(expected), "{to}:\n{rendered}");
        let placed = rendered.contains("F:") || expected.contains("ConfigurationSpace");
        assert!(placed, "{rendered}");
    }
    insta::assert_snapshot!(spoilt(T1, "unroll <= 128", "unrol <= 128", t1_error), @r#"
    error: the condition cannot be read: unknown name `unrol`
      --> F:10:31
       |
    10 |       {"Expression": "block * unrol <= 128 and (layout == 'row' or unroll == 1)", "Parameters": ["block"]}
       |                               ^^^^^
    hint: did you mean `unroll`?
    "#);
    assert!(
        t1_error(CACHE)
            .render("F", CACHE)
            .contains("looks like a recording")
    );
}

#[test]
fn cache_files() {
    let given = |text: &str| read_recording(text, Some(space())).expect_err(text);
    for (from, to, expected) in [
        ("\"cache\"", "\"cash\"", "neither `cache` nor `results`"),
        ("\"time\": 2.5,", "\"time\": 2.5;", "this is not JSON"),
        ("\"layout\"]", "\"layuot\"]", "did you mean `layout`?"),
        (
            "\"block\": 32, \"unroll\": 1",
            "\"unroll\": 1",
            "record `32,1,row` has no value for parameter `block`",
        ),
        (
            "\"block\": 32, \"unroll\": 1",
            "\"block\": 33, \"unroll\": 1",
            "parameter `block` cannot be `33`",
        ),
        (
            "\"block\": 32, \"unroll\": 1",
            "\"block\": \"32\", \"unroll\": 1",
            "parameter `block` cannot be `32`",
        ),
        (
            "\"block\": 32, \"unroll\": 1",
            "\"block\": 32, \"block\": 64, \"unroll\": 1",
            "`block` is given twice",
        ),
        (
            "\"block\": 32, \"unroll\": 1",
            "\"block\": [32], \"unroll\": 1",
            "found an array",
        ),
        (
            "\"block\": 32, \"unroll\": 1",
            "\"block\": 64, \"unroll\": 2",
            "its config is recorded twice",
        ),
        (
            "\"unroll\": 1, \"layout\": \"row\"",
            "\"unroll\": 2, \"layout\": \"col\"",
            "record `32,1,row` is outside the space: it breaks `block * unroll",
        ),
        (
            "\"time\": 2.5",
            "\"tim\": 2.5",
            "record `32,1,row` has no `time`",
        ),
        (
            "\"time\": 2.5",
            "\"time\": \"2.5\"",
            "the time `2.5` is a string",
        ),
        ("\"time\": 2.5", "\"time\": -1", "not above 0"),
        (
            "\"time\": 2.5",
            "\"time\": 1e999",
            "cannot be read: number out of range",
        ),
        (
            "\"time\": 2.5",
            "\"time\": null",
            "expected a number, found null",
        ),
        (
            "[2.0, 3.0, 2.5]",
            "[2.0, \"3.0\"]",
            "expected a number, found a string",
        ),
        (
            "\"compile_time\": 100",
            "\"compile_time\": \"long\"",
            "expected a number, found a string",
        ),
        (
            "\"cache\": {",
            "\"cache\": {\"1\": 2,",
            "expected an object, found a number",
        ),
    ] {
        let rendered = spoilt(CACHE, from, to, given);
        assert!(rendered.contains(expected), "{to}:\n{rendered}");
        assert!(
            rendered.contains("F:") || expected.contains("neither"),
            "{rendered}"
        );
    }
    let own = |text: &str| read_recording(text, None).expect_err(text);
    for (from, to, expected) in [
        ("\"tune_params\"", "\"params\"", "has no `tune_params`"),
        (
            "\"block\": [32, 64, 96]",
            "\"blok\": [32, 64, 96]",
            "`tune_params` has no `block`",
        ),
        (
            "\"block\": [32, 64, 96]",
            "\"block\": [32, 32]",
            "lists `32` twice",
        ),
        (
            "\"block\": [32, 64, 96]",
            "\"block\": []",
            "`block` has no values",
        ),
        (
            "\"block\": [32, 64, 96]",
            "\"block\": 32",
            "expected an array, found a number",
        ),
    ] {
        let rendered = spoilt(CACHE, from, to, own);
        assert!(rendered.contains(expected), "{to}:\n{rendered}");
    }
    let empty = format!("{}{{}}}}", &CACHE[..CACHE.find("\"cache\":").unwrap() + 8]);
    assert!(own(&empty).message.contains("has no records"));
    assert!(own(T1).message.contains("T1 file"));
    assert!(own("[]").message.contains("expected an object"));
    assert!(own("").message.contains("not JSON"));
}

#[test]
fn t4_files() {
    let given = |text: &str| read_recording(text, Some(space())).expect_err(text);
    for (from, to, expected) in [
        ("]}", "]", "this is not JSON: EOF"),
        (
            "\"microseconds\"",
            "\"fortnights\"",
            "`fortnights` is no unit of time",
        ),
        (
            "\"configuration\"",
            "\"config\"",
            "result 0 has no `configuration`",
        ),
        ("\"block\": 32", "\"blok\": 32", "did you mean `block`?"),
        (
            "\"block\": 32",
            "\"block\": 31",
            "result 0: parameter `block` cannot be `31`",
        ),
        (
            "\"block\": 32",
            "\"block\": 96",
            "result 1: its config is recorded twice",
        ),
        (
            "\"block\": 32, ",
            "",
            "result 0 has no value for parameter `block`",
        ),
        ("\"correct\"", "\"fine\"", "`fine` is no invalidity"),
        (
            "\"invalidity\": \"correct\",",
            "",
            "result 0 has no `invalidity`",
        ),
        ("[500.0, 1500.0]", "[]", "neither a `time` nor runtimes"),
        ("[500.0, 1500.0]", "[0, 0]", "not above 0"),
        (
            "\"unit\": \"ms\"",
            "\"unit\": \"parsec\"",
            "`parsec` is no unit",
        ),
        ("\"value\": 2.5", "\"value\": \"2.5\"", "is a string"),
        ("\"timeout\"", "7", "expected a string, found a number"),
    ] {
        // The last bracket for the first case, the first match otherwise.
        let rendered = match from {
            "]}" => {
                let text = T4.trim_end().strip_suffix(from).unwrap().to_string() + to;
                given(&text).render("F", &text)
            }
            _ => spoilt(T4, from, to, given),
        };
        assert!(rendered.contains(expected), "{to}:\n{rendered}");
        assert!(rendered.contains("F:"), "{rendered}");
    }
}

/// A line may be the whole file; what is shown of it stays readable.
#[test]
fn long_lines_are_clipped() {
    let line = CACHE
        .replace('\n', " ")
        .replace("\"time\": 1.25", "\"time\": -1.25");
    let error = read_recording(&line, None).unwrap_err();
    let rendered = error.render("F", &line);
    assert!(rendered.contains("^^^^^"), "{rendered}");
    assert!(
        rendered.lines().all(|l| l.chars().count() < 240),
        "{rendered}"
    );
}
