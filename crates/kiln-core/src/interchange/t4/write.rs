//! A table as T4.

use serde_json::{Map, Value as Json, json};

use crate::interchange::table::{FailureKind, Record, RecordedOutcome, Table};

pub(in crate::interchange) fn document(table: &Table) -> Json {
    let origin = table.origin();
    let results: Vec<Json> = table.records().iter().map(|r| result(table, r)).collect();
    json!({
        "metadata": {
            "timeunit": "milliseconds",
            "kernel_name": origin.kernel,
            "device_name": origin.device,
            "problem_size": origin.problem_size,
        },
        "schema_version": "1.0.0",
        "results": results,
    })
}

fn result(table: &Table, record: &Record) -> Json {
    let configuration: Map<String, Json> = table
        .space()
        .assignment(&record.config)
        .into_iter()
        .map(|(name, value)| (name, json!(value)))
        .collect();
    let costs = &record.costs;
    let mut times = Map::new();
    for (name, cost) in [
        ("compilation", costs.compile_ms),
        ("validation", costs.verification_ms),
        ("benchmark", costs.benchmark_ms),
        ("framework", costs.framework_ms),
    ] {
        if let Some(cost) = cost {
            times.insert(name.into(), json!(cost));
        }
    }
    times.insert("search_algorithm".into(), json!(0));
    times.insert("runtimes".into(), json!(record.times_ms));
    let (invalidity, value) = match &record.outcome {
        RecordedOutcome::Time(ms) => ("correct", json!(ms)),
        RecordedOutcome::Failed(kind) => match kind {
            FailureKind::Invalid => ("constraints", json!("InvalidConfig")),
            FailureKind::Compile => ("compile", json!("CompilationFailedConfig")),
            FailureKind::Runtime => ("runtime", json!("RuntimeFailedConfig")),
            FailureKind::Timeout => ("timeout", json!("RuntimeFailedConfig")),
            FailureKind::Wrong => ("correctness", json!("RuntimeFailedConfig")),
            FailureKind::Other(word) => ("runtime", json!(word)),
        },
    };
    let is_correct = matches!(record.outcome, RecordedOutcome::Time(_));
    json!({
        "configuration": configuration,
        "times": times,
        "invalidity": invalidity,
        "correctness": u8::from(is_correct),
        "measurements": [{"name": "time", "value": value, "unit": if is_correct { "ms" } else { "" }}],
        "objectives": ["time"],
    })
}
