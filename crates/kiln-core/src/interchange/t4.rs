//! T4: the results of any tuner as JSON.

use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::space::{MOST_TUNABLES, Space, Tunable};
use crate::value::Value;

use super::json::{Item, Object};
use super::kernel_tuner::{duration, problem_size};
use super::rows::{Rows, failure, plausible};
use super::table::{Costs, FailureKind, Origin, Record, RecordedOutcome, Table};

pub(super) mod write;

pub(super) fn read(root: &Object<'_>, space: Option<Arc<Space>>) -> Result<Table, Diagnostic> {
    let results = root.require("results", "the T4 file")?;
    let records = results.array()?;
    let mut unit = 1.0;
    let mut origin = Origin::default();
    if let Some(metadata) = root.get("metadata").filter(|m| !m.is_null()) {
        let metadata = metadata.object()?;
        if let Some(named) = metadata.get("timeunit").filter(|u| !u.is_null()) {
            unit = ms_per(named)?;
        }
        let text = |key: &str| Some(metadata.get(key)?.text().ok()?.into_owned());
        origin.kernel = text("kernel_name");
        origin.device = text("device_name");
        origin.problem_size = problem_size(&metadata);
    }
    let mut rows = match space {
        Some(space) => Rows::within(space),
        None => Rows::of(observed(&records)?).map_err(|e| results.error(e.to_string()))?,
    };
    for (number, item) in records.into_iter().enumerate() {
        record(&mut rows, &format!("result {number}"), item, unit)?;
    }
    rows.finish(origin)
}

/// How many milliseconds one of the file's time unit has. Published files misspell it.
fn ms_per(item: Item<'_>) -> Result<f64, Diagnostic> {
    let unit = item.text()?;
    Ok(match unit.trim().to_lowercase().as_str() {
        "" | "ms" | "milliseconds" | "miliseconds" | "millisecond" => 1.0,
        "s" | "seconds" | "second" => 1e3,
        "us" | "microseconds" | "microsecond" => 1e-3,
        "ns" | "nanoseconds" | "nanosecond" => 1e-6,
        _ => {
            return Err(item
                .error(format!("`{unit}` is no unit of time"))
                .hint("units are nanoseconds, microseconds, milliseconds and seconds"));
        }
    })
}

/// The values that occur: numbers ascending, so that neighbours are near; others as they come.
fn observed(records: &[Item<'_>]) -> Result<Vec<Tunable>, Diagnostic> {
    let mut tunables: Vec<Tunable> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for item in records {
        let configuration = item.object()?.require("configuration", "the result")?;
        for (name, value) in configuration.object()?.members {
            let value = value.value()?;
            let place = match tunables.iter().position(|t| t.name == name) {
                Some(place) => place,
                None if tunables.len() == MOST_TUNABLES => {
                    let many = format!("there are more than {MOST_TUNABLES} parameters");
                    return Err(configuration.error(many));
                }
                None => {
                    tunables.push(Tunable {
                        name: name.to_string(),
                        values: Vec::new(),
                    });
                    tunables.len() - 1
                }
            };
            if seen.insert((place, value.to_string())) {
                tunables[place].values.push(value);
            }
        }
    }
    for tunable in &mut tunables {
        if !tunable.values.iter().any(|v| matches!(v, Value::Text(_))) {
            tunable.values.sort_by(|a, b| {
                let number = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
                number(a).total_cmp(&number(b))
            });
        }
    }
    Ok(tunables)
}

fn record(rows: &mut Rows, name: &str, item: Item<'_>, unit: f64) -> Result<(), Diagnostic> {
    let result = item.object()?;
    let mut cells = rows.cells();
    let configuration = result.require("configuration", name)?;
    for (key, value) in configuration.object()?.members {
        match rows.tunable(&key) {
            Some(tunable) => rows.set(&mut cells, tunable, value, name)?,
            None => return Err(rows.unknown(&key, value, name)),
        }
    }
    let mut costs = Costs::default();
    let mut times: Box<[f64]> = Box::default();
    if let Some(parts) = result.get("times").filter(|t| !t.is_null()) {
        for (key, part) in parts.object()?.members {
            let ms = |part| match duration(part)? {
                Some(time) => scaled(time, unit, part, name).map(Some),
                None => Ok(None),
            };
            match key.as_ref() {
                "compilation" | "compilation_time" => costs.compile_ms = ms(part)?,
                "validation" => costs.verification_ms = ms(part)?,
                "benchmark" => costs.benchmark_ms = ms(part)?,
                "framework" => costs.framework_ms = ms(part)?,
                "runtimes" => {
                    let given = part.numbers()?.into_iter();
                    let in_ms = given.map(|t| scaled(t, unit, part, name));
                    times = in_ms.collect::<Result<_, _>>()?;
                }
                _ => {}
            }
        }
    }
    let invalidity = result.require("invalidity", name)?;
    let word = invalidity.text()?;
    let outcome = match word.as_ref() {
        "correct" => match measured(&result, name, unit)? {
            Some(outcome) => outcome,
            None if !times.is_empty() => {
                let mean = times.iter().sum::<f64>() / times.len() as f64;
                RecordedOutcome::Time(plausible(mean, item, name)?)
            }
            None => {
                let start = item.span().start;
                return Err(Diagnostic::new(
                    format!("{name} is correct, but has neither a `time` nor runtimes"),
                    start..start + 1,
                ));
            }
        },
        "timeout" | "compile" | "runtime" | "correctness" | "constraints" => {
            // The measurement may have a word of the tuner's own; T4's counts unless that is vague.
            match measured(&result, name, unit)? {
                Some(RecordedOutcome::Failed(own @ FailureKind::Other(_))) => {
                    RecordedOutcome::Failed(own)
                }
                _ => RecordedOutcome::Failed(failure(&word, invalidity, name)?),
            }
        }
        other => {
            return Err(invalidity
                .error(format!("{name}: `{other}` is no invalidity"))
                .hint("T4 knows timeout, compile, runtime, correctness, constraints and correct"));
        }
    };
    rows.push(cells, item, name, |config| Record {
        config,
        outcome,
        times_ms: times,
        costs,
    })
}

/// In milliseconds; a number near the largest there is may have no such.
fn scaled(time: f64, unit: f64, item: Item<'_>, record: &str) -> Result<f64, Diagnostic> {
    match (time * unit).is_finite() {
        true => Ok(time * unit),
        false => Err(item.error(format!("{record}: a time of {time} is too long"))),
    }
}

/// The measurement called `time`, or the first objective's.
fn measured(
    result: &Object<'_>,
    name: &str,
    unit: f64,
) -> Result<Option<RecordedOutcome>, Diagnostic> {
    let Some(list) = result.get("measurements").filter(|m| !m.is_null()) else {
        return Ok(None);
    };
    let objective = match result.get("objectives").filter(|o| !o.is_null()) {
        Some(objectives) => match objectives.array()?.first() {
            Some(first) => Some(first.text()?),
            None => None,
        },
        None => None,
    };
    let mut found = None;
    for item in list.array()? {
        let measurement = item.object()?;
        let label = measurement.require("name", "the measurement")?.text()?;
        if label == "time" || (Some(&label) == objective.as_ref() && found.is_none()) {
            found = Some(measurement);
        }
    }
    let Some(measurement) = found else {
        return Ok(None);
    };
    let value = measurement.require("value", "the measurement")?;
    if value.is_string() {
        let word = value.text()?;
        return Ok(Some(RecordedOutcome::Failed(failure(&word, value, name)?)));
    }
    let unit = match measurement.get("unit").filter(|u| !u.is_null()) {
        Some(item) if !item.text()?.is_empty() => ms_per(item)?,
        _ => unit,
    };
    let ms = plausible(value.number()? * unit, value, name)?;
    Ok(Some(RecordedOutcome::Time(ms)))
}
