//! The file formats other tuners use: T1 (tunables and conditions), T4 and Kernel Tuner's cache
//! files (results). Text in, types out; files and compression are the caller's business.
//!
//! Flow: T1 -> `t1::Definition` -> `Space`; a recording + that space -> `Table`; and back.

mod json;
mod kernel_tuner;
mod list;
mod rows;
mod study;
pub mod t1;
mod t4;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use study::StudyError;
pub use table::{Costs, FailureKind, Origin, Record, RecordedOutcome, Table};

use crate::diagnostic::Diagnostic;
use crate::space::Space;

/// Which of the formats a recording is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    KernelTuner,
    T4,
}

/// Reads a recording: a Kernel Tuner cache file or a T4 file, told apart by their keys.
///
/// Without a space it is made of the values the recording has, and only what was recorded is
/// valid. With one, every record must be a valid config of it. Spans of an error are in `text`.
pub fn read_recording(text: &str, space: Option<Arc<Space>>) -> Result<Table, Diagnostic> {
    let document = kernel_tuner::Document::open(text)?;
    let root = document.root()?.object().map_err(not_a_recording)?;
    if root.get("cache").is_some() {
        kernel_tuner::read(&document, &root, space)
    } else if root.get("results").is_some() {
        t4::read(&root, space)
    } else if root.get("ConfigurationSpace").is_some() {
        Err(Diagnostic::whole_file("this is a T1 file: it describes a space and has no results")
            .hint("give it as the space, and a Kernel Tuner cache file or a T4 file as the recording"))
    } else {
        let keys: Vec<&str> = root
            .members
            .iter()
            .map(|(k, _)| k.as_ref())
            .take(8)
            .collect();
        Err(not_a_recording(Diagnostic::whole_file(format!(
            "the recording has neither `cache` nor `results`; it has: {}",
            keys.join(", ")
        ))))
    }
}

/// The results as a T4 document.
pub fn write_t4(table: &Table) -> serde_json::Value {
    t4::write::document(table)
}

/// The results as a Kernel Tuner cache file, laid out as Kernel Tuner does: its reader looks at
/// the last characters to see whether the file was closed.
pub fn write_kernel_tuner(table: &Table) -> String {
    kernel_tuner::write::text(table)
}

fn not_a_recording(error: Diagnostic) -> Diagnostic {
    error.hint("a recording is a Kernel Tuner cache file or a T4 file")
}
