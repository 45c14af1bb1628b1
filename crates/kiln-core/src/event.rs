//! Events: what happened in a study, in order. Stored as they happen; everything else is derived.

use serde::{Deserialize, Serialize};

use crate::acceptance::Acceptance;
use crate::admission::Admission;
use crate::bottleneck::Profile;
use crate::protocol::{Caches, DeviceInfo};
use crate::sandbox::Sandbox;
use crate::trial::{Assignment, Outcome, Trial};
use crate::verdict::Comparison;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    StudyStarted(Box<StudyHeader>),
    /// A later process took the study up again.
    Resumed {
        kiln_version: String,
        /// What candidates are kept from in the later process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Sandbox>,
    },
    BaselineMeasured {
        label: String,
        outcome: Outcome,
    },
    /// Another implementation measured for comparison.
    AlsoMeasured {
        label: String,
        outcome: Outcome,
    },
    TrialFinished(Box<Trial>),
    /// The search is over; what follows is confirmation.
    SearchFinished {
        stop: StopReason,
    },
    Confirmed(Box<Confirmation>),
    StudyFinished,
    /// A candidate or the baseline was profiled, usually after the study's end.
    Profiled(Box<Profile>),
}

/// Everything that decides what a study will do, fixed at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyHeader {
    pub kernel: String,
    /// Relative to the project.
    pub manifest: String,
    /// As it was at the start, so that the study can be recorded when the file has moved on. Empty
    /// in studies of kilns that did not keep it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest_text: String,
    /// The recording whose outcomes this study repeats; `None` for one that measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<String>,
    pub shape: String,
    pub dimensions: Vec<(String, i64)>,
    pub identity: Identity,
    /// Fixes the search; the same seed and measurements give the same trials.
    pub seed: u64,
    /// Fixes inputs and poison; drawn anew for every study so that no candidate can know them.
    pub secret: u64,
    pub strategy: String,
    /// What the search was told of an earlier study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
    /// Learnt constraints that the search was told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<LearntConstraint>,
    /// Compilers side by side when the search weighs gain against cost; `None` when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compilers: Option<usize>,
    /// Candidates asked for at a time.
    pub batch: usize,
    /// The speedup that counts as success.
    pub target_speedup: f64,
    pub price_per_hour: Option<f64>,
    /// What one launch must do at least, where the manifest says.
    pub flops: Option<f64>,
    pub bytes: Option<f64>,
    /// What candidates are kept from. `None` where nothing runs, and in studies of older kilns,
    /// which had no sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    pub device: DeviceInfo,
    pub space: SpaceFacts,
    /// What the task's check can tell; `None` in records of kilns that did not look, and in replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Box<Admission>>,
    pub created_unix_ms: u64,
    pub kiln_version: String,
}

/// Trials of an earlier study of the same tunables. Kept whole, so that a study can be resumed and
/// recorded whatever becomes of the earlier one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Earlier {
    /// Which one, in words.
    pub from: String,
    pub trials: Vec<EarlierTrial>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierTrial {
    pub config: Assignment,
    /// `None` for a failure.
    pub ns: Option<f64>,
}

/// A learnt constraint, as far as the search needs it. Kept whole, for the lesson may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearntConstraint {
    pub lesson: String,
    /// Configs that meet it fail.
    pub when: String,
    /// Trials that met it and failed, and that met it and worked.
    pub failed: f64,
    pub worked: f64,
}

/// What must be equal for an interrupted study to be continued. Each part has a name so that a
/// difference can be said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    pub manifest: String,
    pub sources: String,
    pub space: String,
    pub device: String,
    pub compiler: String,
    pub strategy: String,
    /// Hash of what is replayed; empty when measuring.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recording: String,
}

impl Identity {
    /// Names of the parts that differ, in words.
    pub fn differences(&self, other: &Identity) -> Vec<&'static str> {
        [
            ("the manifest", &self.manifest, &other.manifest),
            ("the source files", &self.sources, &other.sources),
            ("the space", &self.space, &other.space),
            ("the device", &self.device, &other.device),
            ("the compiler", &self.compiler, &other.compiler),
            ("the strategy", &self.strategy, &other.strategy),
            ("the recording", &self.recording, &other.recording),
        ]
        .into_iter()
        .filter(|(_, mine, theirs)| mine != theirs)
        .map(|(name, _, _)| name)
        .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpaceFacts {
    /// As text: a count may pass what JSON numbers hold.
    pub cartesian: String,
    /// `None` when the space is too large to count.
    pub valid: Option<String>,
    pub removed: Vec<RemovedBy>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedBy {
    /// `constraint:NAME` or `gate:NAME`.
    pub rule: String,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Trials,
    Exhausted,
    Minutes,
    Cost,
    SpeedupReached,
    Stagnation,
    /// The best was below half the baseline's speed after the seed trials.
    Hopeless,
    /// Not one of the seed trials gave a right answer.
    NothingWorks,
}

impl StopReason {
    pub fn sentence(self) -> &'static str {
        match self {
            StopReason::Trials => "the trial budget is used up",
            StopReason::Exhausted => "every config was tried",
            StopReason::Minutes => "the time budget is used up",
            StopReason::Cost => "the cost budget is used up",
            StopReason::SpeedupReached => "the asked-for speedup was seen",
            StopReason::Stagnation => "no better config turned up for a while",
            StopReason::NothingWorks => "not one config gave a right answer",
            StopReason::Hopeless => {
                "the best of the seed trials is far slower than the baseline: profile before tuning"
            }
        }
    }
}

/// The finalists against each other, then the best of them against the baseline, each time in
/// fresh processes on fresh inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    pub playoff: Vec<Finalist>,
    /// Finalists that failed here although they had passed before.
    pub dropped: Vec<Dropped>,
    pub winner: Option<Winner>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    pub trial: u64,
    pub median_ns: f64,
    /// Against the baseline in the same process.
    pub speedup: f64,
    pub samples_ns: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    pub trial: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    pub trial: u64,
    pub config: Assignment,
    pub comparison: Comparison,
    /// Samples of each round of fresh processes, in nanoseconds per launch.
    pub baseline_rounds_ns: Vec<Vec<f64>>,
    pub winner_rounds_ns: Vec<Vec<f64>>,
    /// Its median in a process of its own, where the samples are from one like a Python baseline's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_ns: Option<f64>,
    /// The same pair with the caches in the state that was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_caches: Option<OtherCaches>,
    /// Millijoules of one launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_mj: Option<EnergyPair>,
    /// What it passed beside the samples; `None` in records of kilns that did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<Box<Acceptance>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherCaches {
    pub caches: Caches,
    pub baseline_ns: f64,
    pub winner_ns: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyPair {
    pub baseline: f64,
    pub winner: f64,
}
