//! What was done with a kernel so far, read from the store.

use kiln_core::journal::{Dated, Entry};
use kiln_core::retrospective::{History, ProfileMark};
use kiln_core::study::Study;

use crate::exit::Failure;
use crate::store::Store;

pub struct Past {
    pub studies: Vec<Study>,
    pub journal: Vec<Dated>,
    pub profiles: Vec<ProfileMark>,
}

impl Past {
    /// Measured studies of a kernel, oldest first, and the journal. A replay measured nothing and teaches nothing.
    pub fn of_kernel(store: &dyn Store, kernel: &str) -> Result<Past, Failure> {
        let summaries = store.studies()?.into_iter();
        let measured = summaries
            .filter(|s| s.header.kernel == kernel && s.header.replayed_from.is_none())
            .map(|s| store.study(s.id));
        let journal = store.journal()?;
        let profiles = journal.iter().filter_map(|dated| match &dated.entry {
            Entry::Profiled(run) => Some(ProfileMark {
                unix_ms: dated.unix_ms,
                kernel: run.kernel.clone(),
                study: run.study,
            }),
            _ => None,
        });
        Ok(Past {
            studies: measured.collect::<Result<_, _>>()?,
            profiles: profiles.collect(),
            journal,
        })
    }

    /// Rules and what they promised, of the latest profile that has advice.
    pub fn advice(&self) -> Vec<(String, f64)> {
        let profiles = self.studies.iter().flat_map(|s| &s.profiles);
        let advised: Vec<_> = profiles
            .map(|profile| &profile.diagnosis.advice)
            .filter(|advice| !advice.is_empty())
            .collect();
        let latest = advised.last().into_iter().flat_map(|advice| advice.iter());
        latest.map(|a| (a.rule.clone(), a.predicted_gain)).collect()
    }

    pub fn history(&self) -> History<'_> {
        History {
            studies: &self.studies,
            journal: &self.journal,
            profiles: &self.profiles,
        }
    }
}
