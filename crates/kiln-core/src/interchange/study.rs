//! A study as a table: its trials in the terms that other tuners use.

use std::collections::HashSet;
use std::sync::Arc;

use thiserror::Error;

use crate::manifest::Manifest;
use crate::space::{BuildLimits, ConfigError, Space, SpaceError};
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
    /// Every trial of a study that measured. A config's time is the median of its samples, by which
    /// kiln ranks, where other tuners write a mean; the samples are all there.
    pub fn of_study(study: &Study) -> Result<Table, StudyError> {
        if let Some(from) = &study.header.replayed_from {
            return Err(StudyError::Replayed { from: from.clone() });
        }
        let manifest = study.own_manifest()?;
        // Without rules: a trial is what was tried, whatever a later kiln thinks of it.
        let space = Space::build(
            manifest.tunables.clone(),
            Vec::new(),
            Vec::new(),
            BuildLimits::default(),
        )
        .map_err(StudyError::Space)?;
        let mut seen = HashSet::new();
        let mut records = Vec::with_capacity(study.trials.len());
        for trial in &study.trials {
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
        let header = &study.header;
        let origin = Origin {
            kernel: Some(header.kernel.clone()),
            device: Some(header.device.name.clone()),
            problem_size: header.dimensions.iter().map(|(_, n)| *n).collect(),
            unfinished: false,
            outside: 0,
        };
        let tried = records.iter().map(|r| r.config.clone());
        let space = Arc::new(space.restricted_to(tried, "recorded"));
        Ok(Table::new(space, origin, records).expect("each config was taken once"))
    }
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
