//! A study as data: the fold of its events.

mod passed_over;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bottleneck::Profile;
use crate::event::{Confirmation, Event, StopReason, StudyHeader, Winner};
use crate::trial::{Outcome, Trial};
pub use passed_over::{PassedOver, Why};

#[derive(Clone, Debug, Serialize)]
pub struct Study {
    pub id: u64,
    pub header: StudyHeader,
    pub baseline: Option<Baseline>,
    /// Other implementations, measured for comparison.
    pub also: Vec<Baseline>,
    pub trials: Vec<Trial>,
    /// The study's wall time when each trial ended, in the order of `trials`.
    pub trial_ended_ms: Vec<u64>,
    pub stop: Option<StopReason>,
    pub confirmation: Option<Confirmation>,
    pub finished: bool,
    /// In the order they were made.
    pub profiles: Vec<Profile>,
    pub resumed: u64,
    /// Time spent in all processes that worked on this study.
    pub wall_ms: u64,
    pub moments: Moments,
}

/// When things happened, in milliseconds of wall time since the study began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Moments {
    pub baseline_ms: Option<u64>,
    /// The first trial that compiled, ran and was right.
    pub first_working_ms: Option<u64>,
    pub search_finished_ms: Option<u64>,
    pub confirmed_ms: Option<u64>,
    pub longest_silence: Option<Silence>,
}

/// A stretch without anything to report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Silence {
    pub ms: u64,
    /// What ended it.
    pub before: Milestone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Milestone {
    Baseline,
    Trial(u64),
    SearchFinished,
    Confirmed,
    Finished,
}

impl Moments {
    fn note(&mut self, before_ms: u64, wall_ms: u64, event: &Event) {
        let milestone = match event {
            // A profile is made whenever somebody looks, and takes nothing from the study's time.
            Event::StudyStarted(_) | Event::Resumed { .. } | Event::Profiled(_) => return,
            Event::BaselineMeasured { .. } | Event::AlsoMeasured { .. } => {
                self.baseline_ms.get_or_insert(wall_ms);
                Milestone::Baseline
            }
            Event::TrialFinished(trial) => {
                if trial.outcome.measurement().is_some() {
                    self.first_working_ms.get_or_insert(wall_ms);
                }
                Milestone::Trial(trial.number)
            }
            Event::SearchFinished { .. } => {
                self.search_finished_ms = Some(wall_ms);
                Milestone::SearchFinished
            }
            Event::Confirmed(_) => {
                self.confirmed_ms = Some(wall_ms);
                Milestone::Confirmed
            }
            Event::StudyFinished => Milestone::Finished,
        };
        let ms = wall_ms.saturating_sub(before_ms);
        if self.longest_silence.is_none_or(|longest| ms > longest.ms) {
            let before = milestone;
            self.longest_silence = Some(Silence { ms, before });
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    pub label: String,
    pub outcome: Outcome,
}

/// The first stored event of a study must be its start.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("study {0} does not begin with its header")]
pub struct NoHeader(pub u64);

impl Study {
    /// Folds stored events; each comes with the study's wall time when it happened.
    pub fn from_events(
        id: u64,
        events: impl IntoIterator<Item = (u64, Event)>,
    ) -> Result<Study, NoHeader> {
        let mut events = events.into_iter();
        let Some((_, Event::StudyStarted(header))) = events.next() else {
            return Err(NoHeader(id));
        };
        let mut study = Study {
            id,
            header: *header,
            baseline: None,
            also: Vec::new(),
            trials: Vec::new(),
            trial_ended_ms: Vec::new(),
            stop: None,
            confirmation: None,
            finished: false,
            profiles: Vec::new(),
            resumed: 0,
            wall_ms: 0,
            moments: Moments::default(),
        };
        for (wall_ms, event) in events {
            study.apply(wall_ms, event);
        }
        Ok(study)
    }

    pub fn apply(&mut self, wall_ms: u64, event: Event) {
        self.moments.note(self.wall_ms, wall_ms, &event);
        self.wall_ms = self.wall_ms.max(wall_ms);
        match event {
            // A second header cannot be written; the first one counts.
            Event::StudyStarted(_) => {}
            Event::Resumed { sandbox, .. } => {
                self.resumed += 1;
                // A study is as safe as its weakest part.
                self.header.sandbox = match (self.header.sandbox.take(), sandbox) {
                    (Some(first), Some(later)) => Some(first.weaker(later)),
                    (first, _) => first,
                };
            }
            Event::BaselineMeasured { label, outcome } => {
                self.baseline = Some(Baseline { label, outcome });
            }
            Event::AlsoMeasured { label, outcome } => self.also.push(Baseline { label, outcome }),
            Event::TrialFinished(trial) => {
                self.trials.push(*trial);
                self.trial_ended_ms.push(wall_ms);
            }
            Event::SearchFinished { stop } => self.stop = Some(stop),
            Event::Confirmed(confirmation) => self.confirmation = Some(*confirmation),
            Event::StudyFinished => self.finished = true,
            Event::Profiled(profile) => self.profiles.push(*profile),
        }
    }

    /// The measured trial with the lowest median.
    pub fn best(&self) -> Option<(&Trial, f64)> {
        self.ranked().into_iter().next()
    }

    /// Measured trials with their median nanoseconds, fastest first.
    pub fn ranked(&self) -> Vec<(&Trial, f64)> {
        let mut ranked: Vec<(&Trial, f64)> = self
            .trials
            .iter()
            .filter_map(|t| Some((t, t.outcome.median_ns()?)))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked
    }

    pub fn baseline_ns(&self) -> Option<f64> {
        self.baseline.as_ref()?.outcome.median_ns()
    }

    pub fn winner(&self) -> Option<&Winner> {
        self.confirmation.as_ref()?.winner.as_ref()
    }

    /// How many trials ended in each way, by reason.
    pub fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for trial in &self.trials {
            *counts.entry(trial.outcome.reason()).or_default() += 1;
        }
        counts
    }
}
