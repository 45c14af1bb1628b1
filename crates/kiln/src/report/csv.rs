//! Every trial as a row, for spreadsheets and data frames.

use kiln_core::diagnostic::printable;
use kiln_core::study::Study;
use kiln_core::trial::Trial;
use kiln_core::value::Value;

use crate::exit::{Exit, Failure};

const COLUMNS: [&str; 9] = [
    "trial",
    "outcome",
    "median_ns",
    "samples",
    "ended_ms",
    "compile_ms",
    "registers",
    "occupancy",
    "message",
];

pub fn table(study: &Study) -> Result<String, Failure> {
    let broken = |e: String| Failure::new(Exit::Bug, format!("cannot write the table: {e}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    // By name, of all trials: a store is a file like others, and may have been edited.
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in study.trials.iter().flat_map(|t| &t.config) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let head = names.iter().map(|name| harmless(name));
    let head = COLUMNS.iter().map(|c| c.to_string()).chain(head);
    writer
        .write_record(head)
        .map_err(|e| broken(e.to_string()))?;
    for (index, trial) in study.trials.iter().enumerate() {
        let ended = study.trial_ended_ms.get(index);
        let cells = row(trial, ended.copied(), &names);
        writer
            .write_record(cells)
            .map_err(|e| broken(e.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|e| broken(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| broken(e.to_string()))
}

fn row(trial: &Trial, ended_ms: Option<u64>, names: &[&str]) -> Vec<String> {
    fn shown<T: ToString>(value: Option<T>) -> String {
        value.map_or(String::new(), |v| v.to_string())
    }
    let measurement = trial.outcome.measurement();
    let compile = trial.compile.as_ref();
    let mut cells = vec![
        trial.number.to_string(),
        trial.outcome.reason().to_string(),
        shown(trial.outcome.median_ns()),
        shown(measurement.map(|m| m.samples_ns.len())),
        shown(ended_ms),
        shown(compile.map(|c| c.compile_ms)),
        shown(compile.and_then(|c| c.resources).map(|r| r.registers)),
        shown(compile.and_then(|c| c.occupancy)),
        match measurement {
            Some(_) => String::new(),
            None => harmless(&trial.outcome.to_string()),
        },
    ];
    let value_of = |name: &&str| trial.config.iter().find(|(n, _)| n == name);
    cells.extend(names.iter().map(|name| match value_of(name) {
        Some((_, Value::Text(text))) => harmless(text),
        Some((_, number)) => number.to_string(),
        None => String::new(),
    }));
    cells
}

/// A spreadsheet takes a text that begins like a formula for one, and a formula may open programs. The
/// apostrophe says that it is text.
fn harmless(text: &str) -> String {
    let text = printable(text);
    match text.trim_start().starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn nothing_of_a_kernel_is_a_formula() {
        assert_eq!(harmless("=HYPERLINK(\"x\")"), "'=HYPERLINK(\"x\")");
        assert_eq!(harmless("\t@SUM(1)"), "' @SUM(1)");
        assert_eq!(harmless("wrong result"), "wrong result");
    }
}
