//! What stands behind a config. Every target says it with the words from here.

use super::package::Dispatch;

/// From the strongest to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It won a confirmation of kiln's, in a study.
    Confirmed,
    /// A file of winners says so; kiln did not see it.
    Claimed,
    NotConfirmed,
}

impl Standing {
    /// A study has a verdict; a file of winners says what it wants.
    pub fn of(entry: &Dispatch) -> Standing {
        match (entry.confirmed, entry.evidence.verdict.is_some()) {
            (true, true) => Standing::Confirmed,
            (true, false) => Standing::Claimed,
            (false, _) => Standing::NotConfirmed,
        }
    }

    /// Of several configs: that of the weakest.
    pub fn of_all(entries: &[Dispatch]) -> Standing {
        let standings = entries.iter().map(Standing::of);
        standings.max().unwrap_or(Standing::NotConfirmed)
    }

    /// In tables and comments.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Confirmed => "confirmed",
            Standing::Claimed => "claimed",
            Standing::NotConfirmed => "NOT confirmed",
        }
    }

    /// About a package whose weakest config has it.
    pub fn sentence(self) -> &'static str {
        match self {
            Standing::Confirmed => "Every config won a confirmation on its shape.",
            Standing::Claimed => {
                "Every config won a confirmation on its shape, as claimed by the file it comes from; kiln did not see it."
            }
            Standing::NotConfirmed => {
                "Not every config was confirmed as it is here; it is said shape by shape."
            }
        }
    }
}
