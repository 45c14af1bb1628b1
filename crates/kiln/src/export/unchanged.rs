//! What is exported has to be what won.

use kiln_core::study::Study;

use super::winners::Unproven;
use crate::exit::Failure;
use crate::project::{self, ManifestFile};
use crate::since::{self, Changed};
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
    let mut edited = Vec::new();
    let mut manifest = Vec::new();
    for study in studies {
        for change in since::changes(&task, file, study) {
            match change {
                Changed::Sources => edited.push(study.id.to_string()),
                Changed::Manifest(what) => manifest.push(told(&what, &study.id.to_string())),
            }
        }
    }
    let mut changed = Vec::new();
    if !edited.is_empty() {
        changed.push(told("source files", &edited.join(", ")));
    }
    changed.extend(manifest);
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
