//! From the records of a file to the configs of a space, with errors that name the record.

use std::collections::HashMap;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::space::{BuildLimits, Config, Space, SpaceError, Tunable};
use crate::value::Value;

use super::json::Item;
use super::table::{FailureKind, Origin, Record, RecordedOutcome, Table};

/// Collects records and checks them against the space.
pub(super) struct Rows {
    space: Arc<Space>,
    /// Whether the space was given; otherwise it is what the file recorded.
    given: bool,
    tunables: HashMap<String, usize>,
    /// By tunable, where its values are in its list, which may be long.
    places: Vec<Places>,
    records: Vec<Record>,
    seen: HashMap<Config, u32>,
    outside: usize,
}

/// The positions of a tunable's values.
struct Places {
    /// Most values are integers.
    integers: HashMap<i64, u16>,
    /// By their text, in which all values of a tunable differ.
    printed: HashMap<String, u16>,
    /// By what they are as numbers, the first of each.
    numbers: HashMap<u64, u16>,
}

impl Places {
    fn of(values: &[Value]) -> Places {
        let mut places = Places {
            integers: HashMap::new(),
            printed: HashMap::new(),
            numbers: HashMap::new(),
        };
        for (position, value) in values.iter().enumerate() {
            let position = position as u16;
            match value {
                Value::Int(i) => drop(places.integers.insert(*i, position)),
                other => drop(places.printed.insert(other.to_string(), position)),
            }
            if let Some(number) = number(value) {
                places.numbers.entry(number).or_insert(position);
            }
        }
        places
    }

    /// `1` finds `1.0` and `true`, unless the list holds the very value itself.
    fn find(&self, value: &Value, values: &[Value]) -> Option<u16> {
        let exact = match value {
            Value::Int(i) => self.integers.get(i),
            other => self.printed.get(&other.to_string()),
        };
        let is = |position: &&u16| values[usize::from(**position)] == *value;
        if let Some(position) = exact.filter(is) {
            return Some(*position);
        }
        let near = self.numbers.get(&number(value)?)?;
        match values[usize::from(*near)].loosely_equals(value) {
            true => Some(*near),
            // Integers so large that several are one number.
            false => {
                let loose = values.iter().position(|v| v.loosely_equals(value));
                loose.map(|p| p as u16)
            }
        }
    }
}

/// The same for values that are equal as numbers; text has none.
fn number(value: &Value) -> Option<u64> {
    // Adding zero makes one of the two zeros.
    value.as_f64().map(|x| (x + 0.0).to_bits())
}

/// The values of one record, filled in tunable by tunable.
pub(super) struct Cells(Vec<Option<u16>>);

impl Rows {
    pub(super) fn within(space: Arc<Space>) -> Rows {
        Rows::new(space, true)
    }

    /// For a file that brings its own values.
    pub(super) fn of(tunables: Vec<Tunable>) -> Result<Rows, SpaceError> {
        let space = Space::build(tunables, Vec::new(), Vec::new(), BuildLimits::default())?;
        Ok(Rows::new(Arc::new(space), false))
    }

    fn new(space: Arc<Space>, given: bool) -> Rows {
        let tunables = space.tunables();
        let places = tunables.iter().map(|t| Places::of(&t.values));
        Rows {
            given,
            tunables: tunables
                .iter()
                .enumerate()
                .map(|(t, tunable)| (tunable.name.clone(), t))
                .collect(),
            places: places.collect(),
            records: Vec::new(),
            seen: HashMap::new(),
            outside: 0,
            space,
        }
    }

    pub(super) fn tunable(&self, name: &str) -> Option<usize> {
        self.tunables.get(name).copied()
    }

    /// An error for a tunable that the file has and the space has not.
    pub(super) fn unknown(&self, name: &str, item: Item<'_>, record: &str) -> Diagnostic {
        let known = self.space.tunables().iter().map(|t| t.name.as_str());
        let error = item.error(format!("{record}: the space has no parameter `{name}`"));
        match crate::diagnostic::nearest(name, known.clone()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!(
                "the space has: {}",
                known.collect::<Vec<_>>().join(", ")
            )),
        }
    }

    pub(super) fn cells(&self) -> Cells {
        Cells(vec![None; self.places.len()])
    }

    /// `record` names the record in errors.
    pub(super) fn set(
        &self,
        cells: &mut Cells,
        tunable: usize,
        item: Item<'_>,
        record: &str,
    ) -> Result<(), Diagnostic> {
        let value = item.value()?;
        let listed = &self.space.tunables()[tunable];
        let position = self.places[tunable].find(&value, &listed.values);
        let Some(position) = position else {
            const SHOWN: usize = 12;
            let mut shown: Vec<String> = listed
                .values
                .iter()
                .take(SHOWN)
                .map(Value::to_string)
                .collect();
            if listed.values.len() > SHOWN {
                shown.push("…".to_string());
            }
            return Err(item
                .error(format!(
                    "{record}: parameter `{}` cannot be `{value}`",
                    listed.name
                ))
                .hint(format!("its values in the space are {}", shown.join(", "))));
        };
        if cells.0[tunable].replace(position).is_some() {
            return Err(item.error(format!(
                "{record}: parameter `{}` is given twice",
                listed.name
            )));
        }
        Ok(())
    }

    /// Takes a record whose cells are all set. `item` is the whole record.
    pub(super) fn push(
        &mut self,
        cells: Cells,
        item: Item<'_>,
        record: &str,
        make: impl FnOnce(Config) -> Record,
    ) -> Result<(), Diagnostic> {
        let mut positions = Vec::with_capacity(cells.0.len());
        for (tunable, cell) in cells.0.into_iter().enumerate() {
            positions.push(cell.ok_or_else(|| {
                let name = &self.space.tunables()[tunable].name;
                start(
                    item,
                    format!("{record} has no value for parameter `{name}`"),
                )
                .hint("the recording and the space must be of the same kernel")
            })?);
        }
        let made = make(Config(positions.into()));
        if self.given && !self.space.contains(&made.config) {
            if made.outcome == RecordedOutcome::Failed(FailureKind::Invalid) {
                self.outside += 1;
                return Ok(());
            }
            return Err(self.outside_space(&made.config, item, record));
        }
        let number = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        if self.seen.insert(made.config.clone(), number).is_some() {
            return Err(
                start(item, format!("{record}: its config is recorded twice"))
                    .hint("keep one of the two records"),
            );
        }
        self.records.push(made);
        Ok(())
    }

    fn outside_space(&self, config: &Config, item: Item<'_>, record: &str) -> Diagnostic {
        let broken = self.space.broken_rules(config);
        let names: Vec<String> = broken.iter().map(|r| format!("`{}`", r.name)).collect();
        let why = match names.is_empty() {
            true => "it is not in the space".to_string(),
            false => format!("it breaks {}", names.join(" and ")),
        };
        start(item, format!("{record} is outside the space: {why}")).hint(
            "the recording and the space must be of the same kernel, with the same conditions",
        )
    }

    pub(super) fn finish(self, mut origin: Origin) -> Result<Table, Diagnostic> {
        if self.records.is_empty() {
            return Err(Diagnostic::whole_file("the recording has no records")
                .hint("record some configs first"));
        }
        origin.outside = self.outside;
        let space = match self.given {
            true => self.space,
            false => {
                let recorded = self.records.iter().map(|r| r.config.clone());
                Arc::new(self.space.restricted_to(recorded, "recorded"))
            }
        };
        Table::new(space, origin, self.records)
            .map_err(|_| Diagnostic::whole_file("a config is recorded twice"))
    }
}

/// An error at the beginning of a record: all of it may have kilobytes.
fn start(item: Item<'_>, message: String) -> Diagnostic {
    let start = item.span().start;
    Diagnostic::new(message, start..start + 1)
}

/// A time that can be compared: above zero and finite.
pub(super) fn plausible(ms: f64, item: Item<'_>, record: &str) -> Result<f64, Diagnostic> {
    match ms.is_finite() && ms > 0.0 {
        true => Ok(ms),
        false => Err(item.error(format!("{record}: a time of {ms} is not above 0"))),
    }
}

/// The word a file has in place of a time.
pub(super) fn failure(word: &str, item: Item<'_>, record: &str) -> Result<FailureKind, Diagnostic> {
    Ok(match word {
        "InvalidConfig" | "constraints" => FailureKind::Invalid,
        "CompilationFailedConfig" | "compile" => FailureKind::Compile,
        "RuntimeFailedConfig" | "runtime" => FailureKind::Runtime,
        "timeout" | "TimeoutConfig" => FailureKind::Timeout,
        "correctness" | "IncorrectConfig" => FailureKind::Wrong,
        "" => {
            return Err(item.error(format!(
                "{record}: neither a time nor the name of a failure"
            )));
        }
        // `12.3`, `12.3 ms`, `1,5`, `-inf`: a time in a form that nobody agreed on.
        number
            if number.trim().parse::<f64>().is_ok()
                || number
                    .trim_start()
                    .starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) =>
        {
            return Err(item
                .error(format!("{record}: the time `{number}` is a string"))
                .hint("write it as a number, without quotes"));
        }
        other => FailureKind::Other(other.to_string()),
    })
}
