//! A table as a Kernel Tuner cache file.

use serde_json::{Map, Value as Json, json};

use crate::expression::python_literal;
use crate::interchange::table::{FailureKind, Record, RecordedOutcome, Table};
use crate::value::Value;

/// The header with one key per line, then one line per record, then both closing braces.
pub(in crate::interchange) fn text(table: &Table) -> String {
    let tunables = table.space().tunables();
    let origin = table.origin();
    let names: Vec<&str> = tunables.iter().map(|t| t.name.as_str()).collect();
    let values: Map<String, Json> = tunables
        .iter()
        .map(|t| (t.name.clone(), json!(t.values)))
        .collect();
    let header = [
        ("device_name", json!(origin.device.as_deref().unwrap_or(""))),
        ("kernel_name", json!(origin.kernel.as_deref().unwrap_or(""))),
        ("problem_size", json!(origin.problem_size)),
        ("tune_params_keys", json!(names)),
        ("tune_params", Json::Object(values)),
        ("objective", json!("time")),
    ];
    let mut text = String::from("{\n");
    for (key, value) in header {
        text.push_str(&format!("\"{key}\": {value},\n"));
    }
    text.push_str("\"cache\": {");
    for (number, record) in table.records().iter().enumerate() {
        let (key, fields) = entry(table, record);
        let comma = if number == 0 { "" } else { "," };
        text.push_str(&format!(
            "{comma}\n{}: {}",
            json!(key),
            Json::Object(fields)
        ));
    }
    text.push_str("}\n}");
    text
}

fn entry(table: &Table, record: &Record) -> (String, Map<String, Json>) {
    let assignment = table.space().assignment(&record.config);
    let key: Vec<String> = assignment.iter().map(|(_, v)| printed(v)).collect();
    let mut fields: Map<String, Json> = assignment
        .into_iter()
        .map(|(name, value)| (name, json!(value)))
        .collect();
    match &record.outcome {
        RecordedOutcome::Time(ms) => fields.insert("time".into(), json!(ms)),
        RecordedOutcome::Failed(kind) => {
            // Its own words are few; the exact one comes beside it.
            let (name, exact) = names(kind);
            if let Some(exact) = exact {
                fields.insert("failure".into(), json!(exact));
            }
            fields.insert("time".into(), json!(name))
        }
    };
    if !record.times_ms.is_empty() {
        fields.insert("times".into(), json!(record.times_ms));
    }
    let costs = &record.costs;
    for (name, cost) in [
        ("compile_time", costs.compile_ms),
        ("verification_time", costs.verification_ms),
        ("benchmark_time", costs.benchmark_ms),
        ("strategy_time", costs.framework_ms.map(|_| 0.0)),
        ("framework_time", costs.framework_ms),
    ] {
        if let Some(cost) = cost {
            fields.insert(name.into(), json!(cost));
        }
    }
    (key.join(","), fields)
}

/// As Python's `str` prints it, which is how Kernel Tuner makes its keys.
fn printed(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => python_literal(other),
    }
}

/// Kernel Tuner's name of a failure, and ours where that says less.
fn names(kind: &FailureKind) -> (&'static str, Option<&str>) {
    match kind {
        FailureKind::Invalid => ("InvalidConfig", None),
        FailureKind::Compile => ("CompilationFailedConfig", None),
        FailureKind::Runtime => ("RuntimeFailedConfig", None),
        FailureKind::Timeout => ("RuntimeFailedConfig", Some("timeout")),
        FailureKind::Wrong => ("RuntimeFailedConfig", Some("correctness")),
        FailureKind::Other(word) => ("RuntimeFailedConfig", Some(word)),
    }
}
