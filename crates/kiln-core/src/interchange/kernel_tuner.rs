//! Kernel Tuner's cache files.

use std::borrow::Cow;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::space::{MOST_TUNABLES, Space, Tunable};

use super::json::{self, Item, Object};
use super::rows::{Cells, Rows, failure, plausible};
use super::table::{Costs, Origin, Record, RecordedOutcome, Table};

pub(super) mod write;

/// The text of a recording, closed where the tuner left it open.
pub(super) struct Document<'t> {
    text: Cow<'t, str>,
    unfinished: bool,
}

impl<'t> Document<'t> {
    /// Kernel Tuner appends records to its file and writes the two closing braces when it is
    /// done; while it runs, and when it was stopped, they are missing. Python's `NaN` and
    /// `Infinity`, which JSON has not, are taken as well. Every byte keeps its place.
    pub(super) fn open(text: &'t str) -> Result<Document<'t>, Diagnostic> {
        let error = match json::raw(text) {
            Ok(_) => {
                return Ok(Document {
                    text: Cow::Borrowed(text),
                    unfinished: false,
                });
            }
            Err(error) => error,
        };
        let (plain, had_names) = without_named_numbers(text);
        if had_names && json::raw(&plain).is_ok() {
            return Ok(Document {
                text: Cow::Owned(plain),
                unfinished: false,
            });
        }
        let is_cache = plain.contains("\"cache\"");
        let open = plain.trim_end().trim_end_matches(',');
        // The last record may be cut off itself.
        let whole_records = open.rfind("},").map(|at| &open[..=at]);
        for kept in std::iter::once(open).chain(whole_records) {
            let closed = format!("{kept}}}\n}}");
            if is_cache && json::raw(&closed).is_ok() {
                return Ok(Document {
                    text: Cow::Owned(closed),
                    unfinished: true,
                });
            }
        }
        // After replacing names the error may be another one, further on.
        Err(match json::raw(&plain) {
            Err(later) if had_names => json::syntax_error(text, &later),
            _ => json::syntax_error(text, &error),
        })
    }

    pub(super) fn root(&self) -> Result<Item<'_>, Diagnostic> {
        json::parse(&self.text)
    }
}

/// Replaces `NaN` by an empty string and `Infinity` by null, both padded to their length: neither
/// is a time, so a record that has one in place of its time is refused, not misread.
fn without_named_numbers(text: &str) -> (String, bool) {
    let mut bytes = text.as_bytes().to_vec();
    let mut in_string = false;
    let mut replaced = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'N' if !in_string && bytes[at..].starts_with(b"NaN") => {
                bytes[at..at + 3].copy_from_slice(b"\"\" ");
                replaced = true;
                // Past the quotes just written.
                at += 2;
            }
            b'-' if !in_string && bytes[at..].starts_with(b"-Infinity") => {
                bytes[at..at + 9].copy_from_slice(b"null     ");
                replaced = true;
            }
            b'I' if !in_string && bytes[at..].starts_with(b"Infinity") => {
                bytes[at..at + 8].copy_from_slice(b"null    ");
                replaced = true;
            }
            _ => {}
        }
        at += 1;
    }
    let text = String::from_utf8(bytes).expect("only ASCII was replaced by ASCII");
    (text, replaced)
}

pub(super) fn read(
    document: &Document<'_>,
    root: &Object<'_>,
    space: Option<Arc<Space>>,
) -> Result<Table, Diagnostic> {
    let mut rows = match space {
        Some(space) => {
            let rows = Rows::within(space);
            if let Some(keys) = root.get("tune_params_keys") {
                for key in keys.array()? {
                    let name = key.text()?;
                    if rows.tunable(&name).is_none() {
                        return Err(rows.unknown(&name, key, "`tune_params_keys`"));
                    }
                }
            }
            rows
        }
        None => {
            let listed = root.require("tune_params", "the cache file")?;
            let tunables = tunables(root, listed.object()?)?;
            Rows::of(tunables).map_err(|e| listed.error(e.to_string()))?
        }
    };
    let objective = objective(root)?;
    for (key, item) in root.require("cache", "the cache file")?.object()?.members {
        record(&mut rows, &format!("record `{key}`"), item, &objective)?;
    }
    let text = |key: &str| {
        let text = root.get(key)?.text().ok()?;
        (!text.is_empty()).then(|| text.into_owned())
    };
    rows.finish(Origin {
        kernel: text("kernel_name"),
        device: text("device_name"),
        problem_size: problem_size(root),
        unfinished: document.unfinished,
        outside: 0,
    })
}

/// What the file minimised. `time` is there in every file whatever the objective was.
fn objective(root: &Object<'_>) -> Result<String, Diagnostic> {
    let Some(item) = root.get("objective").filter(|o| !o.is_null()) else {
        return Ok("time".to_string());
    };
    match item.is_array() {
        true => match item.array()?.first() {
            Some(first) => Ok(first.text()?.into_owned()),
            None => Ok("time".to_string()),
        },
        false => Ok(item.text()?.into_owned()),
    }
}

/// A number, a list of numbers, or something that only the tuner's own program understands.
pub(super) fn problem_size(root: &Object<'_>) -> Vec<i64> {
    let numbers = root.get("problem_size").map(|item| match item.is_array() {
        true => item.numbers().unwrap_or_default(),
        false => item.number().into_iter().collect(),
    });
    numbers
        .unwrap_or_default()
        .into_iter()
        .map(|n| n as i64)
        .collect()
}

/// The file's own tunables, in the order of `tune_params_keys` where it has them.
fn tunables(root: &Object<'_>, listed: Object<'_>) -> Result<Vec<Tunable>, Diagnostic> {
    let names: Vec<String> = match root.get("tune_params_keys") {
        Some(keys) => keys
            .array()?
            .into_iter()
            .map(|key| key.text().map(Cow::into_owned))
            .collect::<Result<_, _>>()?,
        None => listed.members.iter().map(|(k, _)| k.to_string()).collect(),
    };
    if names.len() > MOST_TUNABLES {
        let many = format!("there are more than {MOST_TUNABLES} parameters");
        return Err(listed.item.error(many));
    }
    let mut tunables = Vec::with_capacity(names.len());
    for name in names {
        let values = listed.require(&name, "`tune_params`")?.array()?;
        let values = values
            .into_iter()
            .map(Item::value)
            .collect::<Result<Vec<_>, _>>()?;
        tunables.push(Tunable { name, values });
    }
    Ok(tunables)
}

fn record(rows: &mut Rows, name: &str, item: Item<'_>, objective: &str) -> Result<(), Diagnostic> {
    let fields = item.object()?;
    let mut cells: Cells = rows.cells();
    let mut costs = Costs::default();
    let mut times = Box::default();
    let mut time: Option<Item<'_>> = None;
    let mut other_objective: Option<Item<'_>> = None;
    let mut error: Option<Item<'_>> = None;
    for (key, field) in &fields.members {
        if let Some(tunable) = rows.tunable(key) {
            rows.set(&mut cells, tunable, *field, name)?;
            continue;
        }
        match key.as_ref() {
            "time" => time = Some(*field),
            "__error__" => error = error.or(Some(*field)),
            // Beside Kernel Tuner's own name of a failure, which says less.
            "failure" if field.is_string() => error = Some(*field),
            "times" if field.is_array() => times = field.numbers()?.into(),
            "compile_time" => costs.compile_ms = duration(*field)?,
            "verification_time" => costs.verification_ms = duration(*field)?,
            "benchmark_time" => costs.benchmark_ms = duration(*field)?,
            "framework_time" => costs.framework_ms = duration(*field)?,
            other if other == objective => other_objective = Some(*field),
            _ => {}
        }
    }
    let outcome = if let Some(word) = error.filter(|e| e.is_string()) {
        RecordedOutcome::Failed(failure(&word.text()?, word, name)?)
    } else {
        let Some(measured) = time.or(other_objective) else {
            return Err(fields
                .require("time", name)
                .expect_err("there is no such field")
                .hint("`time` is a number of milliseconds, or the name of a failure"));
        };
        if time.is_none() && objective.contains('/') {
            return Err(measured
                .error(format!("{name} has no `time`, and `{objective}` is a rate"))
                .hint("kiln looks for the shortest time; record `time` as well"));
        }
        match measured.is_string() {
            true => RecordedOutcome::Failed(failure(&measured.text()?, measured, name)?),
            false => RecordedOutcome::Time(plausible(measured.number()?, measured, name)?),
        }
    };
    rows.push(cells, item, name, |config| Record {
        config,
        outcome,
        times_ms: times,
        costs,
    })
}

/// Milliseconds; null where the tuner did not get there.
pub(super) fn duration(item: Item<'_>) -> Result<Option<f64>, Diagnostic> {
    match item.is_null() {
        true => Ok(None),
        false => item.number().map(Some),
    }
}
