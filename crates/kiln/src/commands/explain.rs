//! `kiln explain`: why a study came out as it did, and where its trials failed.

use std::path::Path;
use std::sync::Arc;

use kiln_core::effects::{Effects, Observations};
use kiln_core::failure_rules::{FailureGroup, Failures};
use kiln_core::manifest::Language;
use kiln_core::study::Study;
use kiln_core::trial::Trial;

use super::studies;
use super::tune::prepare_support;
use crate::cache::Cache;
use crate::cli::ExplainArgs;
use crate::engine::compile_pool::CompilePool;
use crate::engine::rerun::{Rerun, rerun};
use crate::engine::worker::{Worker, WorkerKind};
use crate::engine::{broken, interrupt};
use crate::exit::{Exit, Failure};
use crate::packed;
use crate::printer;
use crate::project;
use crate::report::explain as report;
use crate::task::Task;

/// Groups of failures of which one trial is run again.
const MOST_RERUN: usize = 3;
/// Failures whose place in the source is worth looking for without being asked: the process or its memory came to
/// harm. A wrong number has no place of its own.
const WITH_A_PLACE: [&str; 9] = [
    "crashed",
    "canary",
    "input_modified",
    "illegal_address",
    "misaligned_address",
    "illegal_instruction",
    "invalid_address_space",
    "invalid_program_counter",
    "launch_failed",
];

pub fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    let (_, study) = studies::find(&args.project.project, args.study)?;
    match args.trial {
        Some(number) => one_trial(args, &study, number),
        None => whole_study(args, &study),
    }
}

fn whole_study(args: &ExplainArgs, study: &Study) -> Result<Exit, Failure> {
    let effects = Effects::of(&Observations::of_study(study));
    let failures = Failures::of_study(study);
    let wanted: Vec<&Trial> = failures
        .groups
        .iter()
        .filter(|group| WITH_A_PLACE.contains(&group.reason.as_str()))
        .filter_map(|group| first_trial(study, group))
        .take(MOST_RERUN)
        .collect();
    let mut reruns = Vec::new();
    if !wanted.is_empty() && !args.no_run && study.header.replayed_from.is_none() {
        match watch(&args.project.project, study, &wanted) {
            Ok(found) => reruns = found,
            Err(failure) if failure.exit == Exit::Interrupted => return Err(failure),
            // What is stored can be explained all the same.
            Err(failure) => printer::talk(&format!(
                "warning: no failed trial could be run again\n{failure}"
            )),
        }
    }
    if args.project.json {
        printer::document(&report::document(study, &effects, &failures, &reruns));
    } else {
        let manifest = manifest_text(&args.project.project, study);
        printer::data(&report::text(
            study, &effects, &failures, &reruns, &manifest,
        ));
    }
    Ok(Exit::Success)
}

/// The manifest as it is now, which advice is for; as it was, where it is not there any more.
fn manifest_text(folder: &Path, study: &Study) -> String {
    let root = folder.canonicalize().map(|f| project::project_root(&f));
    let now = root.and_then(|root| packed::read_text(&root.join(&study.header.manifest)));
    now.unwrap_or_else(|_| study.header.manifest_text.clone())
}

fn first_trial<'s>(study: &'s Study, group: &FailureGroup) -> Option<&'s Trial> {
    let number = group.trials.first()?;
    study.trials.iter().find(|trial| trial.number == *number)
}

fn one_trial(args: &ExplainArgs, study: &Study, number: u64) -> Result<Exit, Failure> {
    let trial = study.trials.iter().find(|trial| trial.number == number);
    let trial = trial.ok_or_else(|| {
        Failure::usage(format!("study {} has no trial {number}", study.id)).hint(format!(
            "its trials are 1 to {}; `kiln studies show {} --trials` lists them",
            study.trials.len(),
            study.id
        ))
    })?;
    if let Some(from) = &study.header.replayed_from {
        return Err(Failure::usage(format!(
            "study {} is a replay of `{}`: there is nothing to run again",
            study.id,
            kiln_core::diagnostic::printable(from)
        ))
        .hint("`kiln explain` without a trial reads what is stored"));
    }
    let reruns = watch(&args.project.project, study, &[trial])?;
    if args.project.json {
        printer::document(&report::trial_document(study, &reruns));
    } else {
        printer::data(&report::trial_text(&reruns));
    }
    Ok(Exit::Success)
}

/// Runs trials of a study once more on this machine.
fn watch(folder: &Path, study: &Study, trials: &[&Trial]) -> Result<Vec<Rerun>, Failure> {
    let cannot =
        |e: std::io::Error| Failure::bad_path(format!("cannot use `{}`", folder.display()), &e);
    let root = project::project_root(&folder.canonicalize().map_err(cannot)?);
    let mut file = project::read(&root.join(&study.header.manifest))?;
    file.aim_at(Some(&study.header.shape))?;
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    let kind = match file.manifest.kernel.language {
        Language::C => WorkerKind::cpu(),
        Language::Cuda => WorkerKind::cuda(None),
    };
    let scout = Worker::spawn(&kind).map_err(|end| broken(&end))?;
    let mut task = Task::new(file, scout.device.clone(), None)?;
    drop(scout);
    if task.sources_hash()[..16] != study.header.identity.sources {
        printer::talk(&format!(
            "warning: a source file changed since study {}: trials are run again with the source as it is now",
            study.id
        ));
    }
    let pool = CompilePool::new(Arc::new(Cache::open()?), 1);
    prepare_support(&mut task, &pool)?;
    let each = trials.iter().map(|trial| rerun(&task, &pool, study, trial));
    each.collect()
}
