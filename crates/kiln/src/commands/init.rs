//! `kiln init FILE`: a first manifest from a source file, and what it names: a reference, a baseline, and the
//! first tunables of a function that has none.

use std::fs;
use std::path::Path;

use kiln_core::manifest::{self, Beside};

use crate::cli::InitArgs;
use crate::exit::{Exit, Failure};
use crate::packed::{self, Existing};
use crate::printer;
use crate::project::MANIFEST_NAME;
use crate::report::terminal::shell_word;

pub fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let shown = args.source.display();
    let source = packed::read_text(&args.source).map_err(|e| {
        Failure::usage(format!("cannot read `{shown}`: {e}"))
            .hint("give the C or CUDA file that holds the function to tune: `kiln init blur.c`")
    })?;
    let name = args
        .source
        .file_name()
        .and_then(|n| n.to_str())
        .ok_or_else(|| {
            Failure::usage(format!("`{shown}` is not a file name"))
                .hint("give a file whose name is plain text: `kiln init blur.c`")
        })?;
    let first = manifest::first_manifest(name, &source, args.entry.as_deref())
        .map_err(|e| Failure::usage(format!("`{shown}`: {e}")).hint(e.fix()))?;
    let path = args.source.with_file_name(MANIFEST_NAME);
    // The first line explains the mark.
    let guesses = first.text.lines().skip(1).filter(|l| l.contains("fill in"));
    let guesses = guesses.count();
    packed::write(
        first.text.into_bytes(),
        &path,
        Existing::from_force(args.force),
    )?;
    printer::data(&path.display().to_string());
    if args.entry.is_none() && !first.others.is_empty() {
        printer::talk(&format!(
            "took `{}`; `{shown}` also has {}: `kiln init {} --force --entry NAME` takes another",
            first.entry,
            quoted(&first.others),
            shell_word(shown.to_string())
        ));
    }
    for file in first.beside {
        write_beside(&args.source, file, Existing::from_force(args.force))?;
    }
    let folder = match path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(folder) => format!(" {}", shell_word(folder.display().to_string())),
        None => String::new(),
    };
    printer::talk(&format!(
        "next: look at the {guesses} places marked `fill in` in {}, then `kiln check{folder}` and `kiln tune{folder}`",
        path.display()
    ));
    Ok(Exit::Success)
}

/// A reference or baseline that is there stays, with `--force` too: it is the author's, and may be older and
/// better than the source is now. Only one that kiln wrote for another function is of no use to this one.
fn write_beside(source: &Path, file: Beside, existing: Existing) -> Result<(), Failure> {
    let path = source.with_file_name(&file.name);
    let shown = path.display();
    let mut replaced = "wrote";
    if path.symlink_metadata().is_ok() {
        match (is_for_another(&path, &file), existing) {
            (true, Existing::Replace) => replaced = "replaced",
            (true, Existing::Keep) => {
                printer::talk(&format!(
                    "kept {shown}, which `kiln init` wrote for another function: `--force` replaces it"
                ));
                return Ok(());
            }
            (false, _) => {
                printer::talk(&format!("kept {shown}, which was there"));
                return Ok(());
            }
        }
    }
    packed::write(file.text.into_bytes(), &path, existing)
        .map_err(|e| e.hint("`kiln init --force` writes what is missing"))?;
    printer::talk(&format!("{replaced} {shown}: {}", file.what));
    Ok(())
}

/// Whether kiln's own note at the top of a file is there, and names another source or function.
fn is_for_another(path: &Path, file: &Beside) -> bool {
    let note = |text: &str| -> Vec<String> {
        let lines = text.lines().take_while(|line| line.starts_with("//"));
        lines.map(str::to_string).collect()
    };
    let is_plain_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let Ok(text) = fs::read_to_string(path) else {
        return false;
    };
    is_plain_file
        && text.starts_with("// Written by `kiln init`")
        && note(&text) != note(&file.text)
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
