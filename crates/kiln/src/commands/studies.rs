//! `kiln studies`: what was tuned here before.

mod export;

use std::path::{Path, PathBuf};

use kiln_core::recording::Recording;
use kiln_core::retrospective::{self, Retrospective};
use kiln_core::study::Study;
use serde_json::json;

use crate::cli::{StudiesArgs, StudiesVerb};
use crate::exit::{Exit, Failure};
use crate::learn::history::Past;
use crate::packed::Existing;
use crate::printer;
use crate::project;
use crate::recording;
use crate::report;
use crate::store::{SqliteStore, Store, StudySummary, no_studies};

pub fn run(args: &StudiesArgs) -> Result<Exit, Failure> {
    match &args.verb {
        StudiesVerb::List { project } => list(&project.project, project.json),
        StudiesVerb::Show {
            id,
            trials,
            practice,
            project,
        } => show(&project.project, *id, *trials, *practice, project.json),
        StudiesVerb::Trend { kernel, project } => {
            trend(&project.project, kernel.as_deref(), project.json)
        }
        StudiesVerb::Record {
            id,
            to,
            force,
            project,
        } => {
            let existing = Existing::from_force(*force);
            record(&project.project, *id, to, existing, project.json)
        }
        StudiesVerb::Export {
            id,
            to,
            out,
            force,
            project,
        } => {
            let study = match id {
                Some(id) => find(&project.project, Some(*id))?.1,
                None => {
                    let latest = latest_measured(&project.project)?;
                    find(&project.project, Some(latest))?.1
                }
            };
            let existing = Existing::from_force(*force);
            export::export(&study, *to, out, existing, project.json)
        }
    }
}

fn open(folder: &Path) -> Result<Option<SqliteStore>, Failure> {
    let absolute: PathBuf = folder
        .canonicalize()
        .map_err(|e| Failure::bad_path(format!("cannot use `{}`", folder.display()), &e))?;
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
                    "replayed_from": s.header.replayed_from,
                    "verdict": s.winner.as_ref().map(|c| c.verdict),
                    "speedup": s.winner.as_ref().map(|c| c.speedup),
                })
            })
            .collect();
        printer::document(&json!({"schema_version": 1, "studies": rows}));
    } else if studies.is_empty() {
        printer::talk(&no_studies(folder).message);
    } else {
        printer::data(&report::terminal::study_list(&studies));
    }
    Ok(Exit::Success)
}

/// The study of that number, or the latest.
pub fn find(folder: &Path, id: Option<u64>) -> Result<(SqliteStore, Study), Failure> {
    let none = || no_studies(folder);
    let store = open(folder)?.ok_or_else(none)?;
    let id = match id {
        Some(id) => id,
        None => store.studies()?.last().map(|s| s.id).ok_or_else(none)?,
    };
    let study = store.study(id)?;
    Ok((store, study))
}

/// The study to record where none is named: a replay is none, for nothing was measured in it.
fn latest_measured(folder: &Path) -> Result<u64, Failure> {
    let studies = match open(folder)? {
        Some(store) => store.studies()?,
        None => Vec::new(),
    };
    let measured = |s: &&StudySummary| s.header.replayed_from.is_none();
    if let Some(study) = studies.iter().rev().find(measured) {
        return Ok(study.id);
    }
    let replays: Vec<String> = studies.iter().map(|s| s.id.to_string()).collect();
    Err(match replays.as_slice() {
        [] => no_studies(folder),
        [one] => Failure::usage(format!(
            "nothing was measured here: study {one} is a replay"
        ))
        .hint("`kiln tune` without --replay measures"),
        all => Failure::usage(format!(
            "nothing was measured here: studies {} are replays",
            all.join(", ")
        ))
        .hint("`kiln tune` without --replay measures"),
    })
}

fn show(
    folder: &Path,
    id: Option<u64>,
    trials: bool,
    practice: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let (store, study) = find(folder, id)?;
    let place = store.path().display().to_string();
    let past = Past::of_kernel(&store, &study.header.kernel)?;
    let retrospective = Retrospective::new(&study, &past.history());
    if json {
        let mut document = report::json::document(&study, &place);
        if trials {
            document["trial_list"] = json!(study.trials);
        }
        if !study.profiles.is_empty() {
            document["profiles"] = json!(study.profiles);
        }
        document["retrospective"] = json!(retrospective);
        printer::document(&document);
    } else {
        printer::data(&report::terminal::summary(&study, &place));
        if trials {
            printer::data(&report::terminal::trial_list(&study));
        }
        printer::data(&report::retrospective::lines(&retrospective, practice));
    }
    Ok(Exit::Success)
}

fn trend(folder: &Path, kernel: Option<&str>, json: bool) -> Result<Exit, Failure> {
    let none = || no_studies(folder);
    let store = open(folder)?.ok_or_else(none)?;
    let kernel = match kernel {
        Some(kernel) => kernel.to_string(),
        None => store.study(latest_measured(folder)?)?.header.kernel,
    };
    let past = Past::of_kernel(&store, &kernel)?;
    if past.studies.is_empty() {
        let known: std::collections::BTreeSet<String> = store
            .studies()?
            .into_iter()
            .filter(|s| s.header.replayed_from.is_none())
            .map(|s| s.header.kernel)
            .collect();
        let known: Vec<String> = known.iter().map(|k| format!("`{k}`")).collect();
        return Err(Failure::usage(format!(
            "no study of a kernel `{}` was measured here",
            kiln_core::diagnostic::printable(&kernel)
        ))
        .hint(match known.is_empty() {
            true => "`kiln tune` makes one".to_string(),
            false => format!("there are studies of {}", known.join(", ")),
        }));
    }
    let trend = retrospective::trend(&kernel, &past.history());
    if json {
        let mut document = json!({"schema_version": 1});
        if let (Some(into), serde_json::Value::Object(fields)) =
            (document.as_object_mut(), json!(trend))
        {
            into.extend(fields);
        }
        printer::document(&document);
    } else {
        printer::data(&report::retrospective::trend_table(&trend));
    }
    Ok(Exit::Success)
}

fn record(
    folder: &Path,
    id: Option<u64>,
    to: &Path,
    existing: Existing,
    json: bool,
) -> Result<Exit, Failure> {
    recording::check_name(to)?;
    let id = match id {
        Some(id) => id,
        None => latest_measured(folder)?,
    };
    let (_, study) = find(folder, Some(id))?;
    let recording = Recording::of(&study)
        .map_err(|e| Failure::usage(format!("study {} cannot be recorded: {e}", study.id)))?;
    let bytes = recording::write(&recording, to, existing)?;
    if !study.finished {
        printer::talk(&format!(
            "warning: study {} is not finished; what it has so far is recorded",
            study.id
        ));
    }
    let to = to.display().to_string();
    if json {
        let document = json!({
            "schema_version": 1, "study": study.id, "file": to, "bytes": bytes,
            "trials": study.trials.len(), "finished": study.finished,
        });
        printer::document(&document);
    } else {
        printer::talk(&format!(
            "recorded study {} with {} trials in {to} ({}); `kiln tune --replay {}` repeats it",
            study.id,
            study.trials.len(),
            report::terminal::human_bytes(bytes),
            report::terminal::shell_word(to.clone())
        ));
    }
    Ok(Exit::Success)
}
