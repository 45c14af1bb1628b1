//! `kiln tune --shapes`: several shapes together.

use std::sync::Arc;

use kiln_core::cover::Objective;
use kiln_core::manifest::{Language, ShapePurpose};

use super::{
    explain_interruption, note_neighbours, open, options, prepare_support, sanitize,
    wait_for_machine,
};
use crate::cache::Cache;
use crate::cli::{ObjectiveArg, TuneArgs};
use crate::engine::bench::LiveBench;
use crate::engine::broken;
use crate::engine::compile_pool::CompilePool;
use crate::engine::together::{self, Aim};
use crate::engine::tune;
use crate::engine::worker::{Worker, WorkerKind};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::project::{self, ManifestFile};
use crate::report::shapes::{self as report, ShapesProgress};
use crate::settings;
use crate::task::Task;

pub fn run(args: &TuneArgs) -> Result<Exit, Failure> {
    if args.no_sandbox {
        settings::leave_sandbox();
    }
    let path = project::locate(args.path.as_deref())?;
    let file = project::read(&path)?;
    let names = wanted(&file, &args.shapes)?;
    let kind = match file.manifest.kernel.language {
        Language::C => WorkerKind::cpu(),
        Language::Cuda => WorkerKind::cuda(None),
    };
    let scout = Worker::spawn(&kind).map_err(|end| broken(&end))?;
    let mut tasks = Vec::new();
    for name in &names {
        let mut own = project::read(&path)?;
        own.aim_at(Some(name))?;
        let mut task = Task::new(own, scout.device.clone(), None)?;
        task.sandbox = scout.sandbox.clone();
        sanitize(args, &mut task);
        tune::something_is_left(&task).map_err(|f| Failure {
            message: format!("shape `{name}`: {}", f.message),
            ..f
        })?;
        tasks.push(task);
    }
    let mut options = options(args, &tasks[0]);
    options.among.clone_from(&names);
    let (mut store, _project) = open(args, &tasks[0], &options)?;
    let _machine = wait_for_machine(&tasks[0].device, args.no_wait)?;
    let pool = CompilePool::new(Arc::new(Cache::open()?), options.jobs);
    for task in &mut tasks {
        prepare_support(task, &pool)?;
        note_neighbours(task);
    }
    let mut progress = ShapesProgress::new(&tasks, &options);
    let aim = Aim {
        objective: match args.objective {
            ObjectiveArg::Geomean => Objective::Geomean,
            ObjectiveArg::Worst => Objective::Worst,
        },
        configs: args.configs.map(|n| n as usize),
    };
    // Every shape is checked and timed in turn: all their answers are needed again and again.
    let answers = 2 * (tasks.len() + tasks[0].checked_shapes().len()) + 32;
    let mut bench = LiveBench::new(&tasks[0], &pool)?.remembering(answers);
    drop(scout);
    let found = together::tune(&tasks, &options, aim, &mut bench, &mut store, &mut progress);
    let found = found.map_err(|failure| explain_interruption(failure, args))?;
    let place = store.path().display().to_string();
    match args.json {
        true => printer::document(&report::document(&found, &place)),
        false => printer::data(&report::summary(&found, &place)),
    }
    Ok(report::exit_code(&found))
}

/// Names in the manifest's order. `all` means all that are tuned or wait for a sweep, unless a shape has that name.
fn wanted(file: &ManifestFile, asked: &[String]) -> Result<Vec<String>, Failure> {
    let shapes = &file.manifest.shapes;
    let known: Vec<&str> = shapes.iter().map(|s| s.name.as_str()).collect();
    let is_all = matches!(asked, [all] if all == "all" && !known.contains(&"all"));
    if let Some(unknown) = asked
        .iter()
        .find(|a| !is_all && !known.contains(&a.as_str()))
    {
        return Err(Failure::usage(format!(
            "`{}` has no shape `{}`",
            file.name(),
            kiln_core::diagnostic::printable(unknown)
        ))
        .hint(format!("its shapes are {}", known.join(", "))));
    }
    let names: Vec<String> = shapes
        .iter()
        .filter(|s| match is_all {
            true => s.purpose != ShapePurpose::Check,
            false => asked.contains(&s.name),
        })
        .map(|s| s.name.clone())
        .collect();
    match names.len() {
        0 | 1 => Err(Failure::usage(format!(
            "there is only one shape to tune: `{}`",
            names.join("")
        ))
        .hint("name several, or give others `use = \"sweep\"`; `--shape` tunes one")),
        _ => Ok(names),
    }
}
