use std::sync::Arc;

use super::*;
use crate::space::BuildLimits;
use crate::value::Value;

mod fuzz;
mod lists;
mod malformed;
mod round_trip;

const T1: &str = r#"{
  "General": {"BenchmarkName": "saxpy"},
  "ConfigurationSpace": {
    "TuningParameters": [
      {"Name": "block", "Type": "int", "Values": "[32 * i for i in range(1, 4)]", "Default": 32},
      {"Name": "unroll", "Type": "uint", "Values": [1, 2]},
      {"Name": "layout", "Type": "string", "Values": "['row', 'col']"}
    ],
    "Conditions": [
      {"Expression": "block * unroll <= 128 and (layout == 'row' or unroll == 1)", "Parameters": ["block"]}
    ]
  }
}"#;

const CACHE: &str = r#"{
"device_name": "A", "kernel_name": "saxpy", "problem_size": [1000, 2],
"tune_params_keys": ["block", "unroll", "layout"],
"tune_params": {"block": [32, 64, 96], "unroll": [1, 2], "layout": ["row", "col"]},
"objective": "time",
"cache": {
"32,1,row": {"block": 32, "unroll": 1, "layout": "row", "time": 2.5, "times": [2.0, 3.0, 2.5], "compile_time": 100, "verification_time": 0, "benchmark_time": 7.5, "GB/s": 4.0},
"64,1,row": {"block": 64, "unroll": 1, "layout": "row", "time": "CompilationFailedConfig", "compile_time": 80.5},
"64,2,row": {"block": 64, "unroll": 2, "layout": "row", "time": 1.25},
"96,1,col": {"block": 96, "unroll": 1, "layout": "col", "__error__": "RuntimeFailedConfig"}
}
}"#;

const T4: &str = r#"{
"metadata": {"timeunit": "microseconds"},
"schema_version": "1.0.0",
"results": [
{"configuration": {"block": 32, "unroll": 1, "layout": "row"},
 "times": {"compilation": 100000.0, "runtimes": [2000.0, 3000.0], "validation": 0},
 "invalidity": "correct", "correctness": 1,
 "measurements": [{"name": "GB/s", "value": 4.0, "unit": ""}, {"name": "time", "value": 2.5, "unit": "ms"}],
 "objectives": ["time"]},
{"configuration": {"block": 96, "unroll": 1, "layout": "row"}, "times": {"runtimes": [500.0, 1500.0]},
 "invalidity": "correct", "correctness": 1},
{"configuration": {"block": 64, "unroll": 1, "layout": "col"}, "times": {},
 "invalidity": "timeout", "correctness": 0},
{"configuration": {"block": 96, "unroll": 2, "layout": "col"}, "times": {},
 "invalidity": "constraints", "correctness": 0}
]}"#;

pub(super) fn space() -> Arc<Space> {
    let definition = t1::Definition::parse(T1).unwrap();
    Arc::new(definition.build(BuildLimits::default()).unwrap())
}

#[test]
fn a_t1_file_becomes_a_space() {
    let definition = t1::Definition::parse(T1).unwrap();
    assert_eq!(definition.name.as_deref(), Some("saxpy"));
    assert_eq!(definition.defaults[0], Some(Value::Int(32)));
    let space = space();
    assert_eq!((space.cartesian(), space.count()), (12, Some(8)));
    let names: Vec<&str> = space.tunables().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["block", "unroll", "layout"]);
}

#[test]
fn a_cache_file_becomes_a_table() {
    for text in [CACHE.to_string(), CACHE.replace(['\n'], "")] {
        let table = read_recording(&text, Some(space())).unwrap();
        assert_eq!(table.records().len(), 4);
        assert_eq!(table.failed(), 2);
        assert_eq!(table.missing(), Some(4));
        assert_eq!(table.recorded_space().count(), Some(4));
        let origin = table.origin();
        assert_eq!(origin.kernel.as_deref(), Some("saxpy"));
        assert_eq!(origin.problem_size, [1000, 2]);
        assert!(!origin.unfinished);
        let first = &table.records()[0];
        assert_eq!(first.time_ms(), Some(2.5));
        assert_eq!(first.median_ms(), Some(2.5));
        assert_eq!(first.costs.compile_ms, Some(100.0));
        assert_eq!(first.costs.total_seconds(), 0.1075);
        assert_eq!(table.optimum().unwrap().time_ms(), Some(1.25));
        assert_eq!(table.records()[1].failure(), Some(&FailureKind::Compile));
        assert_eq!(table.records()[3].failure(), Some(&FailureKind::Runtime));
        for record in table.records() {
            assert_eq!(table.find(&record.config), Some(record));
        }
    }
}

#[test]
fn without_a_space_what_was_recorded_is_valid() {
    let table = read_recording(CACHE, None).unwrap();
    assert_eq!(table.space().cartesian(), 12);
    assert_eq!(table.space().count(), Some(4));
    let table = read_recording(T4, None).unwrap();
    assert_eq!(table.space().count(), Some(4));
    assert_eq!(table.space().tunables()[0].values[1], Value::Int(64));
}

#[test]
fn a_t4_file_becomes_a_table() {
    let table = read_recording(T4, Some(space())).unwrap();
    let times: Vec<Option<f64>> = table.records().iter().map(Record::time_ms).collect();
    assert_eq!(times, [Some(2.5), Some(1.0), None]);
    assert_eq!(&*table.records()[0].times_ms, [2.0, 3.0]);
    assert_eq!(table.records()[0].costs.compile_ms, Some(100.0));
    assert_eq!(table.records()[2].failure(), Some(&FailureKind::Timeout));
    // Called invalid by the file and outside the space: the two agree, and nothing is recorded.
    assert_eq!(table.origin().outside, 1);
}

/// As Kernel Tuner leaves it while it runs, or when it was stopped in the middle of a record.
#[test]
fn an_unfinished_cache_file_is_read() {
    let closed = CACHE.trim_end().strip_suffix("\n}\n}").unwrap();
    for (open, records) in [
        (closed.to_string(), 4),
        (format!("{closed},"), 4),
        (format!("{closed},\n"), 4),
        (
            format!("{closed},\n\"96,1,row\": {{\"block\": 96, \"unr"),
            4,
        ),
        (
            closed[..closed.rfind("\"__error__\"").unwrap()].to_string(),
            3,
        ),
    ] {
        let table = read_recording(&open, Some(space())).unwrap();
        assert_eq!(table.records().len(), records, "{open}");
        assert!(table.origin().unfinished);
    }
}

#[test]
fn pythons_own_numbers_are_no_obstacle() {
    let text = CACHE.replace(
        "\"GB/s\": 4.0",
        "\"GB/s\": NaN, \"joule\": -Infinity, \"a\": \"NaN\"",
    );
    assert_eq!(read_recording(&text, None).unwrap().records().len(), 4);
    let text = CACHE.replace("\"time\": 2.5", "\"time\": NaN");
    let error = read_recording(&text, None).unwrap_err();
    assert!(
        error.message.contains("record `32,1,row`"),
        "{}",
        error.message
    );
}

#[test]
fn another_objective_is_read_when_it_is_no_rate() {
    let energy = CACHE.replace("\"time\"", "\"energy\"");
    let table = read_recording(&energy, None).unwrap();
    assert_eq!(table.optimum().unwrap().time_ms(), Some(1.25));
    let rate = CACHE.replace("\"time\"", "\"GFLOP/s\"");
    let error = read_recording(&rate, None).unwrap_err();
    assert!(error.message.contains("is a rate"), "{}", error.message);
    let several = CACHE.replace(
        "\"objective\": \"time\"",
        "\"objective\": [\"GFLOP/s\", \"time\"]",
    );
    assert_eq!(read_recording(&several, None).unwrap().records().len(), 4);
}

/// Conditions whose meaning needs Python's `and`, `or` and `round`, against one evaluation per config.
#[test]
fn conditions_hold_where_python_says() {
    let names = ["a", "b", "c"];
    for condition in [
        "(a and b) == 2",
        "(a or b) + 1 > c",
        "(a / 2 or c) <= b / 2 or c",
        "round(a / 2) == b",
        "a in range(0, 4, 2) and (b or c)",
        "(a and b / 2) < (c or 1.5)",
        "a % (b or 1) == 0 and (b == 0 or a // b > 0)",
    ] {
        let text = format!(
            r#"{{"ConfigurationSpace": {{"TuningParameters": [
            {{"Name": "a", "Type": "int", "Values": "range(5)"}},
            {{"Name": "b", "Type": "int", "Values": "[0, 1, 2]"}},
            {{"Name": "c", "Type": "int", "Values": "[-1, 0, 2]"}}],
            "Conditions": ["{condition}"]}}}}"#
        );
        let definition = t1::Definition::parse(&text).unwrap();
        let space = definition.build(BuildLimits::default()).unwrap();
        let expr = crate::expression::Expr::parse_python(condition).unwrap();
        let bound = expr.bind(&names).unwrap();
        let mut expected = 0;
        for a in 0..5 {
            for b in 0..3 {
                for c in [-1, 0, 2] {
                    let values = [a, b, c].map(Value::Int);
                    expected += u128::from(bound.eval(&values).unwrap().is_truthy());
                }
            }
        }
        assert_eq!(space.count(), Some(expected), "{condition}");
        assert!(expected > 0 && expected < 45, "{condition}: {expected}");
    }
}
