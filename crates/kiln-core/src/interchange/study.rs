//! A study as a table: its trials in the terms that other tuners use.

use std::collections::HashSet;
use std::sync::Arc;

use thiserror::Error;

use crate::manifest::Manifest;
use crate::recording::Recording;
use crate::space::{BuildLimits, ConfigError, Space, SpaceError, Tunable};
use crate::study::Study;
use crate::trial::{Outcome, Trial};

use super::table::{Costs, FailureKind, Origin, Record, RecordedOutcome, Table};

/// Why a study cannot be exported.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum StudyError {
    #[error("it was stored without its manifest, by an older kiln")]
    NoManifest,
    #[error("the manifest stored with it cannot be read by this kiln")]
    Manifest,
    #[error("it is itself a replay of `{from}`: nothing was measured")]
    Replayed { from: String },
    #[error("it has no trials yet")]
    NoTrials,
    #[error("its space cannot be built: {0}")]
    Space(SpaceError),
    #[error("trial {number} does not fit the manifest stored with it: {error}")]
    Trial { number: u64, error: ConfigError },
}

impl Study {
    /// The manifest as it was when the study began.
    pub fn own_manifest(&self) -> Result<Manifest, StudyError> {
        if self.header.manifest_text.is_empty() {
            return Err(StudyError::NoManifest);
        }
        Manifest::parse(&self.header.manifest_text).map_err(|_| StudyError::Manifest)
    }
}

impl Table {
    /// What kiln itself recorded of a study. The time a run took is not in a recording.
    pub fn of_recording(recording: &Recording) -> Result<Table, StudyError> {
        let names = recording.tunables.iter().map(|t| t.name.clone());
        let names: Vec<String> = names.collect();
        let trials = recording.trials.iter().map(|trial| Trial {
            number: trial.number,
            config: names
                .iter()
                .cloned()
                .zip(trial.config.iter().cloned())
                .collect(),
            outcome: trial.outcome.clone(),
            skipped_shapes: Vec::new(),
            compile: trial.compile.clone(),
            run_ms: 0.0,
            spent: None,
        });
        let origin = Origin {
            kernel: Some(recording.kernel.clone()),
            device: Some(recording.device.name.clone()),
            problem_size: recording.dimensions.iter().map(|(_, n)| *n).collect(),
            unfinished: false,
            outside: 0,
        };
        of_trials(&recording.tunables, &trials.collect::<Vec<_>>(), origin)
    }

    /// Every trial of a study that measured. A config's time is the median of its samples, by which
    /// kiln ranks, where other tuners write a mean; the samples are all there.
    pub fn of_study(study: &Study) -> Result<Table, StudyError> {
        if let Some(from) = &study.header.replayed_from {
            return Err(StudyError::Replayed { from: from.clone() });
        }
        let manifest = study.own_manifest()?;
        let header = &study.header;
        let origin = Origin {
            kernel: Some(header.kernel.clone()),
            device: Some(header.device.name.clone()),
            problem_size: header.dimensions.iter().map(|(_, n)| *n).collect(),
            unfinished: false,
            outside: 0,
        };
        of_trials(&manifest.tunables, &study.trials, origin)
    }
}

fn of_trials(tunables: &[Tunable], trials: &[Trial], origin: Origin) -> Result<Table, StudyError> {
    // Without rules: a trial is what was tried, whatever a later kiln thinks of it.
    let limits = BuildLimits::default();
    let space = Space::build(tunables.to_vec(), Vec::new(), Vec::new(), limits)
        .map_err(StudyError::Space)?;
    let mut seen = HashSet::new();
    let mut records = Vec::with_capacity(trials.len());
    for trial in trials {
        let config = space.config_from(&trial.config);
        let config = config.map_err(|error| StudyError::Trial {
            number: trial.number,
            error,
        })?;
        if seen.insert(config.clone()) {
            records.push(record(trial, config));
        }
    }
    if records.is_empty() {
        return Err(StudyError::NoTrials);
    }
    let tried = records.iter().map(|r| r.config.clone());
    let space = Arc::new(space.restricted_to(tried, "recorded"));
    Ok(Table::new(space, origin, records).expect("each config was taken once"))
}

fn record(trial: &Trial, config: crate::space::Config) -> Record {
    let times_ms: Box<[f64]> = match trial.outcome.measurement() {
        Some(measured) => measured.samples_ns.iter().map(|ns| ns / 1e6).collect(),
        None => Box::default(),
    };
    let outcome = match &trial.outcome {
        Outcome::Measured(_) => match trial.outcome.median_ns() {
            Some(ns) => RecordedOutcome::Time(ns / 1e6),
            // Nothing was timed.
            None => RecordedOutcome::Failed(FailureKind::Runtime),
        },
        Outcome::NotCompiled(_) => RecordedOutcome::Failed(FailureKind::Compile),
        Outcome::Gated { .. } => RecordedOutcome::Failed(FailureKind::Invalid),
        Outcome::Crashed(_) => RecordedOutcome::Failed(FailureKind::Runtime),
        Outcome::TimedOut { .. } => RecordedOutcome::Failed(FailureKind::Timeout),
        Outcome::Wrong(_) => RecordedOutcome::Failed(FailureKind::Wrong),
    };
    Record {
        config,
        outcome,
        times_ms,
        costs: Costs {
            compile_ms: Some(trial.compile.as_ref().map_or(0.0, |c| c.compile_ms)),
            // kiln checks and times in one go and clocks the two together.
            verification_ms: Some(0.0),
            benchmark_ms: Some(trial.run_ms),
            framework_ms: Some(0.0),
        },
    }
}
