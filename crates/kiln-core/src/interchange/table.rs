//! A recording of a space: what every config took, or how it failed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::space::{Config, Space};

/// Looking a config up in a table is the measurement.
#[derive(Clone, Debug)]
pub struct Table {
    space: Arc<Space>,
    origin: Origin,
    records: Vec<Record>,
    /// From a config to its place in `records`.
    places: HashMap<Config, u32>,
}

/// Where a table comes from, as far as its file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    pub kernel: Option<String>,
    pub device: Option<String>,
    /// One number per dimension; empty when the file has none.
    pub problem_size: Vec<i64>,
    /// The file was not closed: the tuner was still running, or was stopped.
    pub unfinished: bool,
    /// Records of configs outside the space that the file itself calls invalid; left out.
    pub outside: usize,
}

/// One config and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub config: Config,
    pub outcome: RecordedOutcome,
    /// Each repeat in milliseconds, as recorded; empty when the file does not have them. Some
    /// files have repeats that do not average to the recorded time; that one counts.
    pub times_ms: Box<[f64]>,
    pub costs: Costs,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RecordedOutcome {
    /// What the tuner took as the config's time, in milliseconds: usually the mean of its repeats.
    Time(f64),
    Failed(FailureKind),
}

/// How a config failed, as far as the formats tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureKind {
    /// It breaks a constraint or a limit of the device; nothing was run.
    Invalid,
    Compile,
    Runtime,
    Timeout,
    /// It ran, and its answer was wrong.
    Wrong,
    /// A word of the file's own.
    Other(String),
}

/// What trying a config cost beside the launches themselves, in milliseconds, where recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    pub compile_ms: Option<f64>,
    pub verification_ms: Option<f64>,
    /// All launches of the benchmark, with what surrounds them.
    pub benchmark_ms: Option<f64>,
    pub framework_ms: Option<f64>,
}

impl Costs {
    /// What the config took from the budget of a tuner, as far as it is known.
    pub fn total_seconds(&self) -> f64 {
        let parts = [
            self.compile_ms,
            self.verification_ms,
            self.benchmark_ms,
            self.framework_ms,
        ];
        parts
            .into_iter()
            .flatten()
            .map(|ms| ms.max(0.0))
            .sum::<f64>()
            / 1e3
    }
}

impl Record {
    /// The time that counts, `None` for a failure.
    pub fn time_ms(&self) -> Option<f64> {
        match self.outcome {
            RecordedOutcome::Time(ms) => Some(ms),
            RecordedOutcome::Failed(_) => None,
        }
    }

    /// Of the repeats; `time_ms` where there are none.
    pub fn median_ms(&self) -> Option<f64> {
        let time = self.time_ms()?;
        if self.times_ms.is_empty() {
            return Some(time);
        }
        let mut sorted = self.times_ms.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        Some(match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        })
    }

    pub fn failure(&self) -> Option<&FailureKind> {
        match &self.outcome {
            RecordedOutcome::Time(_) => None,
            RecordedOutcome::Failed(kind) => Some(kind),
        }
    }
}

impl Table {
    /// An error when a config is recorded twice: the place of its second record.
    pub fn new(space: Arc<Space>, origin: Origin, records: Vec<Record>) -> Result<Table, usize> {
        let mut places = HashMap::with_capacity(records.len());
        for (place, record) in records.iter().enumerate() {
            let number = u32::try_from(place).expect("files are far smaller than 2^32 records");
            if places.insert(record.config.clone(), number).is_some() {
                return Err(place);
            }
        }
        Ok(Table {
            space,
            origin,
            records,
            places,
        })
    }

    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// In the order of the file.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub fn find(&self, config: &Config) -> Option<&Record> {
        self.places
            .get(config)
            .map(|&place| &self.records[place as usize])
    }

    /// The fastest record; `None` when every config failed.
    pub fn optimum(&self) -> Option<&Record> {
        let timed = self.records.iter().filter_map(|r| Some((r, r.time_ms()?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(r, _)| r)
    }

    pub fn failed(&self) -> usize {
        self.records
            .iter()
            .filter(|r| r.failure().is_some())
            .count()
    }

    /// Valid configs of the space without a record; `None` when those cannot be counted.
    pub fn missing(&self) -> Option<u128> {
        let valid = self.space.count()?;
        Some(valid.saturating_sub(self.records.len() as u128))
    }

    /// The space of what was recorded: the same space when nothing is missing.
    pub fn recorded_space(&self) -> Arc<Space> {
        if self.missing() == Some(0) {
            return self.space.clone();
        }
        let recorded = self.records.iter().map(|r| r.config.clone());
        Arc::new(self.space.restricted_to(recorded, "recorded"))
    }
}
