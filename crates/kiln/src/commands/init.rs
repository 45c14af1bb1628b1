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
use crate::settings;

pub fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let shown = args.source.display();
    let source = packed::read_text(&args.source).map_err(|e| {
        Failure::usage(format!("cannot read `{shown}`: {e}"))
            .hint("give the C or CUDA file that holds the function to tune: `kiln init blur.c`")
    })?;
    // No other command would take the manifest.
    if let Ok(whole) = args.source.canonicalize() {
        settings::as_text(&whole)?;
    }
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
    if !first.guesses.is_empty() {
        printer::talk(&format!(
            "guessed, so look twice: {}",
            first.guesses.join("; ")
        ));
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

/// With `--force` what kiln wrote and nobody changed since is written anew: it is of an older version of the function,
/// or of another one. What somebody wrote or changed stays, unless it is for another function and so of no use to this one.
fn write_beside(source: &Path, file: Beside, existing: Existing) -> Result<(), Failure> {
    let path = source.with_file_name(&file.name);
    let shown = path.display();
    let is_there = path.symlink_metadata();
    let kept = |why: &str| {
        printer::talk(&format!("kept {shown}, which {why}"));
        Ok(())
    };
    if let Ok(found) = &is_there {
        let text = match found.is_file() {
            true => fs::read_to_string(&path).unwrap_or_default(),
            false => String::new(),
        };
        let is_for_another = file.is_for_another(&text);
        let is_untouched = Beside::is_untouched(&text);
        match existing {
            _ if text == file.text => return kept("was there"),
            Existing::Keep if is_for_another => {
                return kept("`kiln init` wrote for another function: `--force` replaces it");
            }
            Existing::Keep if is_untouched => {
                return kept("`kiln init` wrote from an older version: `--force` replaces it");
            }
            Existing::Replace if is_for_another || is_untouched => {}
            _ if Beside::is_written_by_init(&text) => {
                return kept("was edited since `kiln init` wrote it");
            }
            _ => return kept("was there"),
        }
    }
    packed::write(file.text.into_bytes(), &path, existing)
        .map_err(|e| e.hint("`kiln init --force` writes what is missing"))?;
    let done = match is_there {
        Ok(_) => "replaced",
        Err(_) => "wrote",
    };
    printer::talk(&format!("{done} {shown}: {}", file.what));
    Ok(())
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
