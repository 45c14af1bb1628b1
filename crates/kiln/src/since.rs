//! Whether what is there now is what won: a study says nothing about a kernel that was edited after it. Export and
//! comparisons ask the same question here, and each says what it makes of the answer.

use kiln_core::manifest::Manifest;
use kiln_core::study::Study;

use crate::engine::opening;
use crate::project::ManifestFile;
use crate::task::Task;

/// What is not as a study found it.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    /// A source, something it takes in, or a data file.
    Sources,
    /// Of the manifest, in words: "the flags in `kiln.toml`".
    Manifest(String),
}

/// Everything that changed since a study, by the task of the manifest as it is now.
pub fn changes(task: &Task, file: &ManifestFile, study: &Study) -> Vec<Changed> {
    let is_edited = task.sources_hash()[..16] != study.header.identity.sources;
    let sources = is_edited.then_some(Changed::Sources);
    let manifest = manifest_differs(file, study).map(Changed::Manifest);
    sources.into_iter().chain(manifest).collect()
}

/// What of the manifest is not as the study found it.
fn manifest_differs(file: &ManifestFile, study: &Study) -> Option<String> {
    let header = &study.header;
    if opening::manifest_hash(&file.text, &header.shape) == header.identity.manifest {
        return None;
    }
    let name = file.name();
    // Older kilns kept no text, and what this one cannot read it cannot compare.
    let Ok(then) = Manifest::parse(&header.manifest_text) else {
        return Some(format!("`{name}`"));
    };
    match file.manifest.differences(&then).as_slice() {
        [] => None,
        words => Some(format!("the {} in `{name}`", words.join(" and the "))),
    }
}
