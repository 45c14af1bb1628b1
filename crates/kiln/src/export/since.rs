//! Whether what is there now is what won: a study says nothing about a kernel that was edited after it.

use kiln_core::manifest::Manifest;
use kiln_core::study::Study;

use super::winners::Unproven;
use crate::engine::opening;
use crate::exit::Failure;
use crate::project::{self, ManifestFile};
use crate::task::Task;

/// What changed, in words for the package; nothing where everything is as it was. An edit is refused unless
/// winners without proof are welcome.
pub fn changed_since(
    file: &ManifestFile,
    studies: &[Study],
    unproven: Unproven,
) -> Result<Vec<String>, Failure> {
    let Some(first) = studies.first() else {
        return Ok(Vec::new());
    };
    for study in studies {
        same_dimensions(file, study)?;
    }
    let mut own = project::read(&file.path)?;
    own.aim_at(Some(&first.header.shape))?;
    let task = Task::new(own, first.header.device.clone(), None)?;
    let now = task.sources_hash()[..16].to_string();
    let edited: Vec<String> = studies
        .iter()
        .filter(|s| s.header.identity.sources != now)
        .map(|s| s.id.to_string())
        .collect();
    let mut changed = Vec::new();
    if !edited.is_empty() {
        changed.push(told("source files", &edited.join(", ")));
    }
    for study in studies {
        if let Some(what) = manifest_differs(file, study) {
            changed.push(told(&what, &study.id.to_string()));
        }
    }
    match (unproven, changed.first()) {
        (Unproven::Refuse, Some(first)) => Err(Failure::usage(first.clone()).hint(
            "tune again, go back to the sources of then, or say --unconfirmed; the package then says so too",
        )),
        _ => Ok(changed),
    }
}

fn told(what: &str, studies: &str) -> String {
    format!("{what} changed since study {studies}: what won is not what is there now")
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

/// A table that says one size, over a manifest that says another, would help nobody: not exported in any case.
fn same_dimensions(file: &ManifestFile, study: &Study) -> Result<(), Failure> {
    let header = &study.header;
    let mut shapes = file.manifest.shapes.iter();
    let sorted = |dimensions: &[(String, i64)]| {
        let mut dimensions = dimensions.to_vec();
        dimensions.sort();
        dimensions
    };
    // That there is none of the name is said where it is looked up.
    let is_other = shapes.any(|shape| {
        shape.name == header.shape && sorted(&shape.dimensions) != sorted(&header.dimensions)
    });
    match is_other {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "the dimensions of shape `{}` in `{}` changed since study {}",
            header.shape,
            file.name(),
            study.id
        ))
        .hint("tune the shape again, or write its dimensions as they were")),
    }
}
