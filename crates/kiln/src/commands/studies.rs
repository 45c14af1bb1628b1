//! `kiln studies`: what was tuned here before.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::{StudiesArgs, StudiesVerb};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::project;
use crate::report;
use crate::store::{SqliteStore, Store};

pub fn run(args: &StudiesArgs) -> Result<Exit, Failure> {
    match &args.verb {
        StudiesVerb::List { project } => list(&project.project, project.json),
        StudiesVerb::Show {
            id,
            trials,
            project,
        } => show(&project.project, *id, *trials, project.json),
    }
}

fn open(folder: &Path) -> Result<Option<SqliteStore>, Failure> {
    let absolute: PathBuf = folder
        .canonicalize()
        .map_err(|e| Failure::usage(format!("cannot use `{}`: {e}", folder.display())))?;
    SqliteStore::open_existing(&project::project_root(&absolute))
}

fn list(folder: &Path, json: bool) -> Result<Exit, Failure> {
    let store = open(folder)?;
    let studies = match &store {
        Some(store) => store.studies()?,
        None => Vec::new(),
    };
    if json {
        let rows: Vec<_> = studies
            .iter()
            .map(|s| {
                json!({
                    "study": s.id, "kernel": s.header.kernel, "shape": s.header.shape,
                    "manifest": s.header.manifest, "trials": s.trials, "finished": s.finished,
                    "created_unix_ms": s.header.created_unix_ms, "device": s.header.device.name,
                    "verdict": s.winner.as_ref().map(|c| c.verdict),
                    "speedup": s.winner.as_ref().map(|c| c.speedup),
                })
            })
            .collect();
        printer::data(&format!(
            "{:#}",
            json!({"schema_version": 1, "studies": rows})
        ));
    } else if studies.is_empty() {
        printer::talk("no studies here yet; `kiln tune` makes one");
    } else {
        printer::data(&report::terminal::study_list(&studies));
    }
    Ok(Exit::Success)
}

fn show(folder: &Path, id: Option<u64>, trials: bool, json: bool) -> Result<Exit, Failure> {
    let none = || Failure::usage("no studies here yet").hint("`kiln tune` makes one");
    let store = open(folder)?.ok_or_else(none)?;
    let id = match id {
        Some(id) => id,
        None => store.studies()?.last().map(|s| s.id).ok_or_else(none)?,
    };
    let study = store.study(id)?;
    let place = store.path().display().to_string();
    if json {
        let mut document = report::json::document(&study, &place);
        if trials {
            document["trial_list"] = json!(study.trials);
        }
        printer::data(&format!("{document:#}"));
    } else {
        printer::data(&report::terminal::summary(&study, &place));
        if trials {
            printer::data(&report::terminal::trial_list(&study));
        }
    }
    Ok(Exit::Success)
}
