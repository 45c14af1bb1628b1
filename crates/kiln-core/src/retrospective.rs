//! How a study went, looked at afterwards: how soon something worked, was measured and was decided, what was changed
//! without looking first, and what the time and the money went into.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::iteration::{Iteration, iterations};
use crate::journal::{Dated, DoctorRun, Entry, KeptSources};
use crate::practice::{self, Finding};
use crate::study::Study;

mod changes;
mod trend;

pub use changes::{Change, changes, is_blind};
pub use trend::{Trend, TrendRow, trend};

/// Part of the best found that counts as having arrived.
const ARRIVED: f64 = 0.95;

/// What is known of a project beside the study that is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct History<'a> {
    /// Measured studies of the same kernel, oldest first, the one looked at among them.
    pub studies: &'a [Study],
    pub journal: &'a [Dated],
    pub profiles: &'a [ProfileMark],
}

/// That somebody profiled a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileMark {
    pub unix_ms: u64,
    pub kernel: String,
    /// The study it belongs to, where it belongs to one.
    pub study: Option<u64>,
}

impl<'a> History<'a> {
    /// Studies that began before this one, oldest first.
    pub fn before(&self, study: &Study) -> Vec<&'a Study> {
        let studies = self.studies.iter();
        studies.filter(|s| s.id < study.id).collect()
    }

    pub fn profiles_of(&self, kernel: &str) -> impl Iterator<Item = &'a ProfileMark> {
        let kernel = kernel.to_string();
        self.profiles.iter().filter(move |p| p.kernel == kernel)
    }

    pub fn iterations_of(&self, study: &Study) -> Vec<(u64, &'a Iteration)> {
        let all = iterations(self.journal).into_iter();
        all.filter(|(_, i)| i.manifest == study.header.manifest)
            .collect()
    }

    pub fn doctor_runs(&self) -> impl Iterator<Item = (u64, &'a DoctorRun)> {
        self.journal.iter().filter_map(|dated| match &dated.entry {
            Entry::DoctorRan(run) => Some((dated.unix_ms, run)),
            _ => None,
        })
    }

    /// The kernel's files as a study found them.
    pub fn sources_of(&self, identity: &str) -> Option<&'a KeptSources> {
        self.journal.iter().find_map(|dated| match &dated.entry {
            Entry::SourcesKept(kept) if kept.identity == identity => Some(&**kept),
            _ => None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Retrospective {
    pub study: u64,
    /// Until the first config compiled, ran and was right. Seconds of work on the study, as all that follow.
    pub first_working_build_s: Option<f64>,
    pub baseline_s: Option<f64>,
    pub verdict_s: Option<f64>,
    pub bottleneck: Bottleneck,
    /// Edits of the source since the study before, and those of them made without a profile since the last edit.
    pub changes: u64,
    pub blind_changes: u64,
    pub trials: u64,
    pub outcomes: BTreeMap<&'static str, u64>,
    /// The first trial within 5 % of the best one.
    pub trials_to_95_percent: Option<u64>,
    /// Where the time went, in the order of the loop; adds up to the study's time.
    pub phases: Vec<Spending>,
    /// Time the device was held for checking, timing and confirming.
    pub device_minutes: f64,
    /// Of all compilers together, side by side.
    pub compiler_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    pub practice: Vec<Finding>,
}

/// When the kernel was first profiled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    Never,
    /// This source had been profiled when the study began.
    KnownBefore,
    /// Seconds after the study began, by the clock on the wall.
    After(f64),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spending {
    pub phase: Phase,
    pub seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Baseline,
    /// Waiting for compilers, and what kiln itself takes.
    Compile,
    Check,
    Time,
    /// Checking and timing, in studies of kilns that did not tell them apart.
    CheckAndTime,
    Confirm,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Baseline => "baseline",
            Phase::Compile => "compile",
            Phase::Check => "check",
            Phase::Time => "time",
            Phase::CheckAndTime => "check and time",
            Phase::Confirm => "confirm",
        }
    }
}

impl Retrospective {
    pub fn new(study: &Study, history: &History<'_>) -> Retrospective {
        let moments = &study.moments;
        let seconds = |ms: u64| ms as f64 / 1e3;
        let phases = phases(study);
        let held = phases.iter().filter(|s| s.phase != Phase::Compile);
        let device_s: f64 = held.map(|s| s.seconds).sum();
        let since_last: Vec<Change> = changes(study, history)
            .into_iter()
            .filter(|change| change.leads_to == study.id)
            .collect();
        let compilers = study.trials.iter().filter_map(|t| t.compile.as_ref());
        let compile_ms: f64 = compilers
            .filter(|c| !c.cached)
            .map(|c| c.compile_ms)
            .fold(0.0, |sum, ms| sum + ms);
        Retrospective {
            study: study.id,
            first_working_build_s: moments.first_working_ms.map(seconds),
            baseline_s: moments.baseline_ms.map(seconds),
            verdict_s: moments.confirmed_ms.map(seconds),
            bottleneck: bottleneck(study, history),
            changes: since_last.len() as u64,
            blind_changes: since_last.iter().filter(|c| c.blind).count() as u64,
            trials: study.trials.len() as u64,
            outcomes: study.outcomes(),
            trials_to_95_percent: trials_to_95(study),
            device_minutes: device_s / 60.0,
            compiler_seconds: compile_ms / 1e3,
            cost: price(study, seconds(study.wall_ms)),
            phases,
            practice: practice::review(study, history),
        }
    }
}

fn price(study: &Study, seconds: f64) -> Option<f64> {
    Some(study.header.price_per_hour? * seconds / 3600.0)
}

/// The first trial that came within 5 % of the best of the study.
pub fn trials_to_95(study: &Study) -> Option<u64> {
    let (_, best) = study.best()?;
    let arrived = |ns: f64| best / ns >= ARRIVED;
    let mut trials = study.trials.iter();
    trials
        .find(|t| t.outcome.median_ns().is_some_and(arrived))
        .map(|t| t.number)
}

/// When a study began, by the clock: its header is written after the baseline was measured.
pub fn began_unix_ms(study: &Study) -> u64 {
    let baseline = study.moments.baseline_ms.unwrap_or(0);
    study.header.created_unix_ms.saturating_sub(baseline)
}

fn bottleneck(study: &Study, history: &History<'_>) -> Bottleneck {
    let began = began_unix_ms(study);
    let sources = &study.header.identity.sources;
    let same_source = |s: &&&Study| s.header.identity.sources == *sources;
    let earlier = history.before(study);
    let first = earlier.iter().find(same_source);
    let known_since = first.map_or(began, |s| began_unix_ms(s));
    let profiles = history.profiles_of(&study.header.kernel);
    let next = history
        .studies
        .iter()
        .filter(|s| s.id > study.id && s.header.identity.sources != *sources)
        .map(began_unix_ms)
        .min();
    // A profile after the next edit is of another source.
    let of_this: Vec<u64> = profiles
        .map(|p| p.unix_ms)
        .filter(|at| *at >= known_since && next.is_none_or(|next| *at < next))
        .collect();
    match of_this.iter().min() {
        None => Bottleneck::Never,
        Some(at) if *at < began => Bottleneck::KnownBefore,
        Some(at) => Bottleneck::After((at - began) as f64 / 1e3),
    }
}

/// The study's time, each millisecond in one place.
fn phases(study: &Study) -> Vec<Spending> {
    let moments = &study.moments;
    let baseline = moments.baseline_ms.unwrap_or(study.wall_ms);
    let searched = moments.search_finished_ms.unwrap_or(study.wall_ms);
    let confirmed = moments.confirmed_ms.unwrap_or(searched);
    let searching = searched.saturating_sub(baseline) as f64;
    let (mut check, mut time, mut unknown) = (0.0, 0.0, 0.0);
    for trial in &study.trials {
        match trial.spent {
            Some(spent) => {
                check += spent.checking_ms;
                time += spent.timing_ms;
            }
            None if trial.outcome.measurement().is_some() => unknown += trial.run_ms,
            None => {}
        }
    }
    let spent = |phase, ms: f64| Spending {
        phase,
        seconds: ms / 1e3,
        cost: price(study, ms / 1e3),
    };
    let mut phases = vec![
        spent(Phase::Baseline, baseline as f64),
        spent(
            Phase::Compile,
            (searching - check - time - unknown).max(0.0),
        ),
        spent(Phase::Check, check),
        spent(Phase::Time, time),
        spent(Phase::CheckAndTime, unknown),
        spent(Phase::Confirm, confirmed.saturating_sub(searched) as f64),
    ];
    phases.retain(|s| s.phase != Phase::CheckAndTime || s.seconds > 0.0);
    phases
}

#[cfg(test)]
pub(crate) mod tests;
