//! The kernel's files as they were, so that a version can be measured again when the user has moved on. Git is not
//! needed: what matters is kept in the store, once for each version.

use kiln_core::gate_file::Sources;
use kiln_core::journal::{Dated, Entry, KeptSources};
use kiln_core::study::Study;

use super::now_unix_ms;
use crate::exit::Failure;
use crate::gate::baseline::sources_of;
use crate::store::Store;
use crate::task::Task;

/// Digits of a hash that studies are told apart by.
const IDENTITY_DIGITS: usize = 16;

/// The name studies give to the sources of a task.
pub fn identity(task: &Task) -> String {
    task.sources_hash()[..IDENTITY_DIGITS].to_string()
}

/// Keeps the files of a task if they can be kept: a study must not fail because a header lies in an odd place.
pub fn keep_if_possible(task: &Task, store: &mut dyn Store) -> Result<(), Failure> {
    match sources_of(task) {
        Ok(_) => keep(task, store).map(|_| ()),
        Err(_) => Ok(()),
    }
}

/// Keeps the files of a task, if they are not kept yet, and returns their digest.
pub fn keep(task: &Task, store: &mut dyn Store) -> Result<String, Failure> {
    let sources = sources_of(task)?;
    let digest = sources.digest();
    let journal = store.journal()?;
    let is_kept = all(&journal).any(|kept| kept.sources.digest() == digest);
    if !is_kept {
        let kept = KeptSources {
            identity: identity(task),
            sources,
        };
        store.enter(now_unix_ms(), &Entry::SourcesKept(Box::new(kept)))?;
    }
    Ok(digest)
}

pub fn all(journal: &[Dated]) -> impl DoubleEndedIterator<Item = &KeptSources> {
    journal.iter().filter_map(|dated| match &dated.entry {
        Entry::SourcesKept(kept) => Some(&**kept),
        _ => None,
    })
}

/// The files with that digest.
pub fn by_digest<'j>(journal: &'j [Dated], digest: &str) -> Option<&'j Sources> {
    let mut kept = all(journal).map(|kept| &kept.sources);
    kept.find(|sources| sources.digest() == digest)
}

/// The files a study was about.
pub fn of_study<'j>(journal: &'j [Dated], study: &Study) -> Option<&'j Sources> {
    let header = &study.header;
    let is_it = |kept: &&KeptSources| {
        let manifest = kept.sources.files.get(&kept.sources.manifest);
        kept.identity == header.identity.sources && manifest == Some(&header.manifest_text)
    };
    all(journal).rev().find(is_it).map(|kept| &kept.sources)
}
