//! `kiln tune`: the whole loop.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use kiln_core::manifest::Language;
use kiln_core::search;

use crate::cache::Cache;
use crate::cli::TuneArgs;
use crate::engine::compile_pool::CompilePool;
use crate::engine::tune::{self, Options};
use crate::engine::worker::{Worker, WorkerKind};
use crate::engine::{broken, interrupt};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::project;
use crate::report::{self, Progress};
use crate::settings;
use crate::store::SqliteStore;
use crate::task::Task;

pub fn run(args: &TuneArgs) -> Result<Exit, Failure> {
    let path = project::locate(args.path.as_deref())?;
    let file = project::read(&path)?;
    if file.manifest.kernel.language == Language::Cuda {
        return Err(Failure::machine(
            "this kiln cannot run CUDA kernels yet: it has no CUDA backend",
        )
        .hint("`kiln check` reads the manifest, counts its space and applies the gates"));
    }
    let device = Worker::spawn(WorkerKind::Run)
        .map_err(|end| broken(&end))?
        .device
        .clone();
    let task = Task::new(file, device)?;
    // Only now: until here Ctrl-C just ends the program, also in the middle of a large space.
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    let mut store = SqliteStore::open(&task.file.root)?;
    let options = options(args, &task);
    // A misspelt strategy should not cost the user a measured baseline.
    search::strategy(&options.strategy, Arc::clone(&task.space), 0, 1)
        .map_err(|e| Failure::usage(e.to_string()).hint(e.hint))?;
    // The project's turn first: two homes may share a project, and one study has one writer.
    let _project = wait_for_turn(
        &task.file.root.join(".kiln").join("tune.lock"),
        args.no_wait,
    )?;
    let _machine = wait_for_turn(&settings::home()?.join("cpu.lock"), args.no_wait)?;
    let cache = Arc::new(Cache::open()?);
    let pool = CompilePool::new(cache, options.jobs);
    let mut progress = Progress::new(&task, &options, args.events);
    let result = tune::tune(&task, &options, &pool, &mut store, &mut progress);
    progress.close();
    let study = result.map_err(|failure| explain_interruption(failure, args.path.as_deref()))?;
    let place = store.path().display().to_string();
    if args.json {
        printer::data(&format!("{:#}", report::json::document(&study, &place)));
    } else if !args.events {
        printer::data(&report::terminal::summary(&study, &place));
    }
    Ok(report::exit_code(&study))
}

fn options(args: &TuneArgs, task: &Task) -> Options {
    let manifest = task.manifest();
    Options {
        seed: args.seed.or(manifest.search.seed),
        strategy: args
            .strategy
            .clone()
            .unwrap_or_else(|| manifest.search.strategy.clone()),
        trials: args.trials.unwrap_or(manifest.budget.trials),
        minutes: args.minutes.or(manifest.budget.minutes),
        jobs: args
            .jobs
            .map_or_else(settings::compile_jobs, |n| n as usize),
        fresh: args.fresh,
    }
}

/// Two kilns timing on the same cores would both measure nonsense, so they take turns. The lock
/// belongs to the open file: the system frees it however this process ends.
fn wait_for_turn(path: &Path, no_wait: bool) -> Result<File, Failure> {
    let cannot =
        |e: std::io::Error| Failure::machine(format!("cannot lock `{}`: {e}", path.display()));
    let file = File::create(path).map_err(cannot)?;
    let mut said = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) => {
                if no_wait {
                    return Err(
                        Failure::machine("another kiln is measuring on this machine")
                            .hint("wait for it, or leave out --no-wait to queue behind it"),
                    );
                }
                if !said {
                    printer::talk("waiting: another kiln is measuring on this machine");
                    said = true;
                }
                if interrupt::asked() {
                    return Err(crate::engine::interrupted());
                }
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            Err(std::fs::TryLockError::Error(e)) => return Err(cannot(e)),
        }
    }
}

fn explain_interruption(failure: Failure, path: Option<&Path>) -> Failure {
    if failure.exit != Exit::Interrupted {
        return failure;
    }
    let again = match path {
        Some(path) => format!("kiln tune {}", path.display()),
        None => "kiln tune".into(),
    };
    Failure::new(
        Exit::Interrupted,
        "interrupted; every finished trial is kept",
    )
    .hint(format!("`{again}` continues where it stopped"))
}
