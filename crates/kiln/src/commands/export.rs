//! `kiln export`: confirmed winners as a package.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::{ExportArgs, ExportTarget};
use crate::durable::Existing;
use crate::engine::interrupt;
use crate::exit::{Exit, Failure};
use crate::export::package::{Package, Target};
use crate::export::winners::{self, Unproven, Winners};
use crate::export::{self, Request};
use crate::printer;
use crate::project::{self, ManifestFile};
use crate::report::terminal::shell_word;
use crate::settings;

pub fn run(args: &ExportArgs) -> Result<Exit, Failure> {
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    let unproven = match args.unconfirmed {
        true => Unproven::Accept,
        false => Unproven::Refuse,
    };
    let (file, mut winners) = chosen(args, unproven)?;
    let target = target(args.to);
    let out = match &args.out {
        Some(out) => out.clone(),
        None => default_folder(&file, target),
    };
    let request = Request {
        target,
        out: out.clone(),
        architectures: args.arch.clone(),
    };
    settings::as_text(&out)?;
    importable(&out, request.target)?;
    winners
        .chosen
        .sort_by(|a, b| a.dimensions.cmp(&b.dimensions));
    let (package, folder) = export::build(file, &winners, &request)?;
    let files = folder.file_count();
    folder.publish(&out, Existing::from_force(args.force))?;
    tell(args, &package, &out, files);
    Ok(Exit::Success)
}

fn chosen(args: &ExportArgs, unproven: Unproven) -> Result<(ManifestFile, Winners), Failure> {
    if let (Some(path), Some(manifest)) = (&args.winners, &args.manifest) {
        let file = project::read(&project::locate(Some(manifest))?)?;
        let winners = winners::of_file(path, &file, unproven)?;
        return Ok((file, winners));
    }
    let folder = args
        .project
        .canonicalize()
        .map_err(|e| Failure::bad_path(format!("cannot use `{}`", args.project.display()), &e))?;
    let root = project::project_root(&folder);
    let studies = winners::studies(&root, &args.studies)?;
    let mut found = winners::of_studies(&studies, unproven)?;
    let file = project::read(&winners::manifest_of(&root, &studies)?)?;
    let changed = export::changed_since(&file, &studies, unproven)?;
    if !changed.is_empty() {
        found.notes.extend(changed);
        for chosen in &mut found.chosen {
            chosen.confirmed = false;
        }
    }
    Ok((file, found))
}

fn target(to: ExportTarget) -> Target {
    match to {
        ExportTarget::Torch => Target::Torch,
        ExportTarget::Cpp => Target::Cpp,
        ExportTarget::Rust => Target::Rust,
        ExportTarget::Cubin => Target::Cubin,
        ExportTarget::Header => Target::Header,
        ExportTarget::Json => Target::Json,
    }
}

/// A Python module is called as its folder is.
fn default_folder(file: &ManifestFile, target: Target) -> PathBuf {
    let name = export::identifier(&file.manifest.kernel.name);
    match target {
        // Beside a program it would hide Python's own.
        Target::Torch if export::is_taken(&name) => format!("{name}_kernel").into(),
        Target::Torch => name.into(),
        other => format!("{name}_{}", other.name()).into(),
    }
}

/// A folder that Python can import, and that hides no module a program needs.
fn importable(out: &Path, target: Target) -> Result<(), Failure> {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let refuse = |why: &str| {
        Err(
            Failure::usage(format!("a Python module cannot be called `{name}`: {why}"))
                .hint("name another folder with --out, e.g. `--out my_kernel`"),
        )
    };
    match target {
        Target::Torch if export::identifier(&name) != name => {
            refuse("letters, digits and `_` make a name")
        }
        Target::Torch if export::is_taken(&name) => refuse(
            "beside a program it would hide the module of that name, which Python or PyTorch needs",
        ),
        _ => Ok(()),
    }
}

fn tell(args: &ExportArgs, package: &Package, out: &Path, files: usize) {
    let shown = out.display().to_string();
    if args.json {
        printer::document(&json!({
            "schema_version": 1, "package": shown, "files": files, "kernel": package.kernel,
            "target": package.target, "confirmed": package.confirmed, "notes": package.notes,
            "configs": package.configs.len(), "dispatch": package.dispatch,
        }));
        return;
    }
    for note in &package.notes {
        printer::talk(&format!("note: {note}"));
    }
    if !package.confirmed {
        let open = package.dispatch.iter().filter(|d| !d.confirmed).count();
        printer::talk(&format!(
            "warning: {open} of {} configs are not confirmed; the package says so",
            package.dispatch.len()
        ));
    }
    printer::talk(&format!(
        "exported {} for {} to {shown}: {}, {}; {}",
        package.kernel,
        package.target.name(),
        counted(package.dispatch.len(), "shape"),
        counted(package.configs.len(), "config"),
        next(package.target, package, &shown)
    ));
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn next(target: Target, package: &Package, out: &str) -> String {
    let name = export::identifier(&package.kernel);
    let inside = |file: &str| shell_word(format!("{out}/{file}"));
    match target {
        Target::Torch => format!(
            "in Python, beside it: `import {}`",
            out.rsplit('/').next().unwrap_or(out)
        ),
        Target::Cpp => format!(
            "`#include \"{name}.hpp\"`; `sh {}` builds the example",
            inside("build.sh")
        ),
        Target::Rust => format!(
            "`cargo run --release --manifest-path {} --example run`",
            inside("Cargo.toml")
        ),
        Target::Header => "include it before the source".into(),
        Target::Cubin | Target::Json => {
            format!("what runs where is in {out}/{}", export::package::FILE)
        }
    }
}
