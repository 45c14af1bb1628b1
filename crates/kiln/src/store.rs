//! What happened, kept for good. Append-only: a finished trial never changes.

use std::path::Path;

use kiln_core::event::{Event, StudyHeader};
use kiln_core::journal::{Dated, Entry};
use kiln_core::study::Study;
use kiln_core::verdict::Comparison;

use crate::exit::Failure;

#[cfg(test)]
mod conformance;
mod sqlite;

pub use sqlite::SqliteStore;

/// For commands about studies where there is none.
pub fn no_studies(root: &Path) -> Failure {
    let whole = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let store = crate::project::project_root(&whole).join(".kiln/kiln.db");
    if is_empty_file(&store) {
        return Failure::usage(format!(
            "no studies here: the store `{}` is empty (0 bytes)",
            store.display()
        ))
        .hint(EMPTY_STORE);
    }
    Failure::usage(format!("no studies here yet (`{}`)", root.display()))
        .hint("`kiln tune` makes one, in the folder of a kiln.toml; `kiln init FILE` writes that")
}

/// A file without a byte is no store yet: SQLite makes it so, and writes a moment later. It is what is left where kiln is
/// stopped in between, and where something emptied a store.
const EMPTY_STORE: &str = "kiln was stopped while it made the file, or something emptied it: if there were studies, bring it back from a copy; \
     else `kiln tune` begins anew";

fn is_empty_file(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|facts| facts.is_file() && facts.len() == 0)
}

pub struct StudySummary {
    pub id: u64,
    pub header: StudyHeader,
    pub finished: bool,
    pub trials: u64,
    /// What was confirmed, if it came to that.
    pub winner: Option<Comparison>,
}

/// Every implementation passes the suite in `conformance.rs`.
pub trait Store {
    /// Starts a study with its first event and returns its number.
    fn create(&mut self, started: &Event) -> Result<u64, Failure>;
    /// Returns only when the event is safe against the loss of this process and of power.
    fn append(&mut self, study: u64, wall_ms: u64, event: &Event) -> Result<(), Failure>;
    fn study(&self, id: u64) -> Result<Study, Failure>;
    /// All studies, oldest first.
    fn studies(&self) -> Result<Vec<StudySummary>, Failure>;
    /// Adds to what the project keeps beside its studies; as safe as an event.
    fn enter(&mut self, unix_ms: u64, entry: &Entry) -> Result<(), Failure>;
    /// All entries, oldest first.
    fn journal(&self) -> Result<Vec<Dated>, Failure>;
}
