//! `kiln init FILE`: a first manifest from a source file.

use std::fs;

use kiln_core::manifest;

use crate::cli::InitArgs;
use crate::exit::{Exit, Failure};
use crate::packed::{self, Existing};
use crate::printer;
use crate::project::MANIFEST_NAME;

pub fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let shown = args.source.display();
    let source = fs::read_to_string(&args.source)
        .map_err(|e| Failure::usage(format!("cannot read `{shown}`: {e}")))?;
    let name = args
        .source
        .file_name()
        .and_then(|n| n.to_str())
        .ok_or_else(|| Failure::usage(format!("`{shown}` is not a file name")))?;
    let text = manifest::first_manifest(name, &source)
        .map_err(|e| Failure::usage(format!("`{shown}`: {e}")))?;
    let path = args.source.with_file_name(MANIFEST_NAME);
    packed::write(text.into_bytes(), &path, Existing::from_force(args.force))?;
    printer::data(&path.display().to_string());
    printer::talk(&format!(
        "next: fill in shapes, reference and baseline, then `kiln check {}`",
        path.display()
    ));
    Ok(Exit::Success)
}
