//! What is kept of a profile: counters as they were read, and what was made of them.

use serde::{Deserialize, Serialize};

use super::{Counters, Diagnosis, Stages};
use crate::trial::Assignment;

/// Who was profiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A config of the kernel.
    Candidate { config: Assignment },
    /// The manifest's [baseline].
    Baseline { label: String },
    /// A report that was made elsewhere.
    Imported { file: String },
}

impl Subject {
    pub fn in_words(&self) -> String {
        match self {
            Subject::Candidate { .. } => "candidate".into(),
            Subject::Baseline { label } => format!("baseline {label}"),
            Subject::Imported { file } => file.clone(),
        }
    }
}

/// One subject on one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub subject: Subject,
    /// Empty for a report made elsewhere.
    pub shape: String,
    pub dimensions: Vec<(String, i64)>,
    /// Kernels of one call, longest first; a baseline may launch several.
    pub kernels: Vec<KernelProfile>,
    /// As kiln times it, not as ncu does; nothing where it was not timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<f64>,
    /// Why there are no counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_counters: Option<String>,
    /// What leaving stages out brings, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
    /// Of the longest kernel, or of what is known without counters.
    pub diagnosis: Diagnosis,
    /// Hash of the sources that were profiled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sources: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profiler: String,
    pub kiln_version: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelProfile {
    pub kernel: String,
    /// Times it was launched.
    pub launches: u64,
    /// Part of the time of all kernels of the call.
    pub share: f64,
    pub counters: Counters,
}
