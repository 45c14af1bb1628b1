//! Files of other tuners: T1 definitions, Kernel Tuner cache files and T4 results.

use std::path::Path;
use std::sync::Arc;

use kiln_core::interchange::t1::Definition;
use kiln_core::interchange::{self, Table};
use kiln_core::space::{BuildLimits, Space};

use crate::exit::Failure;
use crate::packed;
use crate::recording;

/// What a T1 file says, and the space it stands for.
#[derive(Debug)]
pub struct DefinedSpace {
    pub definition: Definition,
    pub space: Space,
}

pub fn read_space(path: &Path) -> Result<DefinedSpace, Failure> {
    let text = read_text(path)?;
    let shown = path.display().to_string();
    let definition = Definition::parse(&text);
    let built = definition.and_then(|definition| {
        let space = definition.build(BuildLimits::default())?;
        Ok(DefinedSpace { definition, space })
    });
    built.map_err(|e| Failure::rendered(e.render(&shown, &text)))
}

/// A recording of kiln's own, of what was tried.
fn own_recording(path: &Path) -> Result<Table, Failure> {
    let recorded = recording::read(path)?;
    Table::of_recording(&recorded.recording)
        .map_err(|e| Failure::usage(format!("cannot use `{}`: {e}", path.display())))
}

/// A recording against a space; without one, what was recorded is the space.
pub fn read_table(path: &Path, space: Option<Arc<Space>>) -> Result<Table, Failure> {
    if recording::is_recording(path) {
        return own_recording(path);
    }
    let text = read_text(path)?;
    let shown = path.display().to_string();
    interchange::read_recording(&text, space)
        .map_err(|e| Failure::rendered(e.render(&shown, &text)))
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let refuse = |why: String| Failure::usage(format!("cannot read `{}`: {why}", path.display()));
    let contents = packed::read(path).map_err(|e| refuse(e.to_string()))?;
    match std::str::from_utf8(contents.plain()) {
        Ok(text) => Ok(text.to_string()),
        Err(e) => Err(refuse(format!(
            "it is not text: byte {} is not UTF-8",
            e.valid_up_to()
        ))),
    }
}
