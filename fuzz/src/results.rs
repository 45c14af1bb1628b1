//! Kernel Tuner's cache files and T4: a table, or a message with its place. A table that is written in
//! either format is read back as the same.

use std::sync::Arc;

use kiln_core::interchange::t1::Definition;
use kiln_core::interchange::{Table, read_recording, write_kernel_tuner, write_t4};
use kiln_core::space::{BuildLimits, Space};

use super::is_presentable;

/// The space that the seeds are recordings of.
const SPACE: &str = r#"{"ConfigurationSpace": {
    "TuningParameters": [
      {"Name": "block", "Type": "int", "Values": "[32 * i for i in range(1, 4)]"},
      {"Name": "unroll", "Type": "uint", "Values": [1, 2]},
      {"Name": "layout", "Type": "string", "Values": "['row', 'col']"}
    ],
    "Conditions": [{"Expression": "block * unroll <= 128 and (layout == 'row' or unroll == 1)"}]
}}"#;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for space in [None, Some(space())] {
        match read_recording(text, space) {
            Ok(table) => survives_writing(&table),
            Err(problem) => is_presentable(&problem, text),
        }
    }
}

fn space() -> Arc<Space> {
    let built = Definition::parse(SPACE).and_then(|d| d.build(BuildLimits::default()));
    Arc::new(built.expect("a valid definition"))
}

fn survives_writing(table: &Table) {
    assert!(
        table
            .recorded_space()
            .count()
            .is_some_and(|n| n >= table.records().len() as u128)
    );
    assert_eq!(
        table.optimum().is_none(),
        table.failed() == table.records().len()
    );
    for text in [write_t4(table).to_string(), write_kernel_tuner(table)] {
        let read = read_recording(&text, None);
        let read = read.unwrap_or_else(|e| panic!("{}", e.render("WRITTEN", &text)));
        assert_eq!(shown(&read), shown(table), "{text}");
    }
}

/// Records by name and value: positions depend on the order in which a file lists values.
fn shown(table: &Table) -> Vec<String> {
    let mut records: Vec<String> = table
        .records()
        .iter()
        .map(|record| {
            let mut assignment = table.space().assignment(&record.config);
            assignment.sort_by(|a, b| a.0.cmp(&b.0));
            let outcome = (&record.outcome, &record.times_ms, &record.costs);
            format!("{assignment:?} {outcome:?}")
        })
        .collect();
    records.sort();
    records
}
