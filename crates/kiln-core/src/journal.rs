//! What a project keeps beside its studies: one list of entries, only ever added to.
//!
//! Lessons and iterations are folds over it, as a study is a fold over its events. Reading and writing are the
//! store's business.

use serde::{Deserialize, Serialize};

use crate::gate_file::Sources;
use crate::iteration::Iteration;
use crate::lesson::{Lesson, Observation};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// The kernel's source as a study or an iteration found it, once for each version.
    SourcesKept(Box<KeptSources>),
    /// Somebody looked at the machine before measuring on it.
    DoctorRan(DoctorRun),
    /// A study, a profile or an iteration supports a lesson, or speaks against it.
    Observed(Box<Observation>),
    /// Brought from another project.
    LessonImported(Box<Lesson>),
    LessonRetired {
        lesson: String,
        reason: String,
    },
    Iterated(Box<Iteration>),
    /// A kernel was profiled; the profile itself is an event of its study.
    Profiled(ProfileRun),
}

impl Entry {
    /// The name it is stored under.
    pub fn kind(&self) -> &'static str {
        match self {
            Entry::SourcesKept(_) => "sources_kept",
            Entry::DoctorRan(_) => "doctor_ran",
            Entry::Observed(_) => "observed",
            Entry::LessonImported(_) => "lesson_imported",
            Entry::LessonRetired { .. } => "lesson_retired",
            Entry::Iterated(_) => "iterated",
            Entry::Profiled(_) => "profiled",
        }
    }
}

/// An entry and when it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Dated {
    pub unix_ms: u64,
    pub entry: Entry,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptSources {
    /// What studies call them: `identity.sources` of their header.
    pub identity: String,
    pub sources: Sources,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileRun {
    pub kernel: String,
    /// The study it is stored with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoctorRun {
    /// The manifest it was asked about, relative to the project; empty for the machine as a whole.
    pub manifest: String,
    /// Findings that keep kernels from being tuned.
    pub problems: u64,
}
