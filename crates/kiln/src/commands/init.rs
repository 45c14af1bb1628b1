//! `kiln init FILE`: a first manifest from a source file.

use std::fs;
use std::io::Write;

use kiln_core::manifest;

use crate::cli::InitArgs;
use crate::exit::{Exit, Failure};
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
    let mut options = fs::OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut file = options.open(&path).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("`{}` exists already", path.display()))
                .hint("`--force` replaces it")
        }
        _ => Failure::machine(format!("cannot write `{}`: {e}", path.display())),
    })?;
    file.write_all(text.as_bytes())
        .map_err(|e| Failure::machine(format!("cannot write `{}`: {e}", path.display())))?;
    printer::data(&path.display().to_string());
    printer::talk(&format!(
        "next: fill in shapes, reference and baseline, then `kiln check {}`",
        path.display()
    ));
    Ok(Exit::Success)
}
