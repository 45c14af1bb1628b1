//! Files put back as they were. What they replace is kept first, so that nothing is ever lost.

use std::collections::BTreeMap;
use std::path::Path;

use kiln_core::diagnostic::printable;
use kiln_core::gate_file::Sources;
use kiln_core::journal::{Entry, KeptSources};
use serde_json::json;

use super::incumbent::latest_version;
use super::place;
use crate::cli::IterateArgs;
use crate::commands::compare;
use crate::exit::{Exit, Failure};
use crate::learn::history::Past;
use crate::learn::{now_unix_ms, sources};
use crate::packed::{self, Existing};
use crate::store::{SqliteStore, Store};
use crate::{printer, project};

pub fn run(args: &IterateArgs, digest: &str) -> Result<Exit, Failure> {
    let manifest = compare::manifest(args.path.as_deref())?;
    let manifest = manifest
        .canonicalize()
        .map_err(|e| Failure::bad_path(format!("cannot use `{}`", manifest.display()), &e))?;
    // The manifest itself may be what is broken: it is not read.
    let root = project::project_root(manifest.parent().unwrap_or(Path::new("/")));
    let name = manifest.strip_prefix(&root).unwrap_or(&manifest);
    let name = name.display().to_string();
    let none = || {
        Failure::usage("there is nothing to put back: nothing of this kernel was tuned here")
            .hint("`kiln tune` keeps the sources of each study")
    };
    let mut store = SqliteStore::open_existing(&root)?.ok_or_else(none)?;
    let (label, wanted) = wanted(&store, &name, digest)?.ok_or_else(none)?;
    // Before any of them is read.
    for path in wanted.files.keys() {
        place::usable(&root, path)?;
    }
    let differing: Vec<(&String, &String)> = wanted
        .files
        .iter()
        .filter(|(path, text)| current(&root, path).as_ref() != Some(*text))
        .collect();
    for (path, _) in &differing {
        place::writable(path, &name)?;
    }
    let replaced = keep_current(&root, &wanted, &mut store)?;
    for (path, text) in &differing {
        let place = root.join(path);
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|e| Failure::io(format!("cannot make `{}`", folder.display()), &e))?;
        }
        packed::write(text.as_bytes().to_vec(), &place, Existing::Replace)?;
    }
    let names: Vec<&String> = differing.iter().map(|(path, _)| *path).collect();
    if args.json {
        printer::document(&json!({
            "schema_version": 1, "restored": names, "from": label, "replaced": replaced,
        }));
    } else if names.is_empty() {
        printer::talk(&format!("nothing to do: the files are those of {label}"));
    } else {
        let shown: Vec<String> = names.iter().map(|n| printable(n)).collect();
        printer::talk(&format!(
            "put back {} of {label}; `kiln iterate --restore {replaced}` brings back what was there",
            shown.join(", ")
        ));
    }
    Ok(Exit::Success)
}

fn wanted(
    store: &SqliteStore,
    manifest: &str,
    digest: &str,
) -> Result<Option<(String, Sources)>, Failure> {
    if !digest.is_empty() {
        let journal = store.journal()?;
        let found = sources::by_digest(&journal, digest).ok_or_else(|| {
            Failure::usage(format!("no files `{}` are kept here", printable(digest)))
                .hint("`kiln iterate --history --json` names those of each iteration")
        })?;
        return Ok(Some((format!("`{digest}`"), found.clone())));
    }
    let mut summaries = store.studies()?.into_iter().rev();
    let Some(summary) = summaries.find(|s| s.header.manifest == manifest) else {
        return Ok(None);
    };
    let past = Past::of_kernel(store, &summary.header.kernel)?;
    let found = latest_version(manifest, &past)?;
    Ok(found.map(|(version, files, _)| (version.label, files)))
}

fn current(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(root.join(path)).ok()
}

/// What is about to be replaced, under a digest of its own.
fn keep_current(root: &Path, wanted: &Sources, store: &mut SqliteStore) -> Result<String, Failure> {
    let files: BTreeMap<String, String> = wanted
        .files
        .keys()
        .filter_map(|path| Some((path.clone(), current(root, path)?)))
        .collect();
    let now = Sources {
        revision: None,
        manifest: wanted.manifest.clone(),
        files,
    };
    let digest = now.digest();
    if sources::by_digest(&store.journal()?, &digest).is_none() {
        let kept = KeptSources {
            identity: String::new(),
            sources: now,
        };
        store.enter(now_unix_ms(), &Entry::SourcesKept(Box::new(kept)))?;
    }
    Ok(digest)
}
