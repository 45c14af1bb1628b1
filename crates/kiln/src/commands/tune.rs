//! `kiln tune`: the whole loop.

mod shapes;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use kiln_core::manifest::{Language, Sanitize};
use kiln_core::protocol::DeviceInfo;
use kiln_core::recording::Recording;
use kiln_core::search;
use kiln_core::trial::Outcome;

use crate::cache::Cache;
use crate::cli::{SanitizeArg, TuneArgs};
use crate::engine::bench::{Bench, LiveBench};
use crate::engine::compile_pool::CompilePool;
use crate::engine::earlier::EarlierChoice;
use crate::engine::replay::ReplayBench;
use crate::engine::tune::{self, Options, Recorded};
use crate::engine::worker::{Worker, WorkerKind};
use crate::engine::{broken, interrupt};
use crate::exit::{Exit, Failure};
use crate::learn;
use crate::nvml;
use crate::printer;
use crate::project;
use crate::recording;
use crate::report::{self, Progress};
use crate::serve::Live;
use crate::settings;
use crate::store::SqliteStore;
use crate::task::Task;

pub fn run(args: &TuneArgs) -> Result<Exit, Failure> {
    match &args.replay {
        Some(recording) => replay(args, recording),
        None if !args.shapes.is_empty() => shapes::run(args),
        None => measure(args),
    }
}

fn measure(args: &TuneArgs) -> Result<Exit, Failure> {
    if args.no_sandbox {
        settings::leave_sandbox();
    }
    let path = project::locate(args.path.as_deref())?;
    let mut file = project::read(&path)?;
    file.aim_at(args.shape.as_deref())?;
    let kind = match file.manifest.kernel.language {
        Language::C => WorkerKind::cpu(),
        Language::Cuda => WorkerKind::cuda(None),
    };
    // Kept for a while: an idle process on the GPU makes starting the next one quicker.
    let scout = Worker::spawn(&kind).map_err(|end| broken(&end))?;
    let mut task = Task::new(file, scout.device.clone(), None)?;
    task.sandbox = scout.sandbox.clone();
    sanitize(args, &mut task);
    let options = options(args, &task);
    let (mut store, _project) = open(args, &task, &options)?;
    let _machine = wait_for_machine(&task.device, args.no_wait)?;
    let cache = Arc::new(Cache::open()?);
    let pool = CompilePool::new(cache, options.jobs);
    prepare_support(&mut task, &pool)?;
    note_neighbours(&mut task);
    let live = serve(args, &task, &store)?;
    let progress = Progress::new(&task, &options, args.events, live);
    tune::something_is_left(&task)?;
    let bench = LiveBench::new(&task, &pool).inspect(|_| drop(scout));
    study(args, &task, &options, bench, &mut store, progress)
}

fn sanitize(args: &TuneArgs, task: &mut Task) {
    if let Some(when) = args.sanitize {
        task.file.manifest.confirm.sanitize = match when {
            SanitizeArg::Auto => Sanitize::Auto,
            SanitizeArg::On => Sanitize::On,
            SanitizeArg::Off => Sanitize::Off,
        };
    }
}

/// Neither a device nor a compiler is asked for anything, so the machine stays free for others.
fn replay(args: &TuneArgs, recording: &Path) -> Result<Exit, Failure> {
    let recorded = recording::read(recording)?;
    let mut file = match &args.path {
        Some(path) => project::read(&project::locate(Some(path))?)?,
        None => project::from_recording(&recorded)?,
    };
    file.aim_at(args.shape.as_deref())?;
    let task = Task::for_replay(file, &recorded)?;
    let mut options = options(args, &task);
    options.recorded = Some(Recorded {
        seed: recorded.recording.seed,
        batch: recorded.recording.batch,
    });
    if args.path.is_none() {
        repeat(args, &recorded.recording, &mut options);
    }
    let (mut store, _project) = open(args, &task, &options)?;
    let live = serve(args, &task, &store)?;
    let progress = Progress::new(&task, &options, args.events, live);
    let bench = ReplayBench::new(&task, &recorded.recording);
    study(args, &task, &options, Ok(bench), &mut store, progress)
}

/// The live page, where it is wanted.
fn serve(args: &TuneArgs, task: &Task, store: &SqliteStore) -> Result<Option<Live>, Failure> {
    let place = format!("{} (running)", store.path().display());
    let kernel = &task.manifest().kernel.name;
    let live = args.serve.map(|port| Live::start(kernel, place, port));
    live.transpose()
}

/// The store of the project, and its turn: two homes may share a project, and one study has one
/// writer.
fn open(args: &TuneArgs, task: &Task, options: &Options) -> Result<(SqliteStore, File), Failure> {
    // Only now: until here Ctrl-C just ends the program, also in the middle of a large space.
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    let store = SqliteStore::open(&task.file.root)?;
    // A misspelt strategy should not cost the user a measured baseline.
    search::strategy(&options.strategy, Arc::clone(&task.space), 0, 1)
        .map_err(|e| Failure::usage(e.to_string()).hint(e.hint))?;
    let lock = task.file.root.join(".kiln").join("tune.lock");
    Ok((store, wait_for_turn(&lock, args.no_wait)?))
}

fn study<B: Bench>(
    args: &TuneArgs,
    task: &Task,
    options: &Options,
    bench: Result<B, Failure>,
    store: &mut SqliteStore,
    mut progress: Progress,
) -> Result<Exit, Failure> {
    let started = std::time::Instant::now();
    let result = bench.and_then(|mut bench| {
        let study = tune::tune(task, options, &mut bench, store, &mut progress)?;
        Ok((study, bench.timings()))
    });
    progress.close();
    let (study, timings) = result.map_err(|failure| explain_interruption(failure, args))?;
    if args.timings {
        printer::talk(&report::timings(&timings, started.elapsed()));
    }
    progress.finish(&study);
    let place = store.path().display().to_string();
    if args.json {
        printer::document(&report::json::document(&study, &place));
    } else if !args.events {
        printer::data(&report::terminal::summary(&study, &place));
    }
    // Last: what was found has been said, whatever becomes of what it teaches.
    if let Some(sentence) = learn::lessons::learn(&study, store)?.sentence() {
        printer::talk(&sentence);
    }
    Ok(report::exit_code(&study))
}

/// Whoever else is on the GPU goes into the study's record, and the report says so.
fn note_neighbours(task: &mut Task) {
    let Some(gpu) = &task.device.cuda else {
        return;
    };
    let pids: Vec<String> = nvml::neighbours(&gpu.uuid)
        .iter()
        .map(u32::to_string)
        .collect();
    if !pids.is_empty() {
        let found = ("other_processes".to_string(), pids.join(", "));
        task.device.environment.push(found);
    }
}

/// kiln's own kernels for the GPU at hand, from the cache after the first time.
pub fn prepare_support(task: &mut Task, pool: &CompilePool) -> Result<(), Failure> {
    if !task.is_cuda() {
        return Ok(());
    }
    match pool.build_one(&task.support_build())? {
        Ok(built) => {
            task.support = Some(built.artifact.image.display().to_string());
            Ok(())
        }
        Err(_) if interrupt::asked() => Err(crate::engine::interrupted()),
        Err(Outcome::NotCompiled(failure)) => Err(Failure::machine(format!(
            "the CUDA compiler does not take kiln's own kernels: {}\n{}",
            failure.first_error,
            failure.log.trim_end()
        ))
        .hint("`kiln toolchain` shows which compiler is used")),
        Err(outcome) => Err(Failure::machine(format!("kiln's own kernels: {outcome}"))
            .hint("`kiln doctor` says whether the CUDA compiler works; run the command again")),
    }
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
        earlier: match (&args.warm, args.cold) {
            (Some(from), _) => EarlierChoice::Named(from.clone()),
            (None, true) => EarlierChoice::None,
            (None, false) => EarlierChoice::Latest,
        },
        among: Vec::new(),
        doubts: args.cold.then(Vec::new),
        recorded: None,
    }
}

/// A recording by itself is repeated as it was made, whatever was typed then: with its strategy
/// and seed, and to its end.
fn repeat(args: &TuneArgs, recording: &Recording, options: &mut Options) {
    options.seed = args.seed;
    if args.strategy.is_none() {
        options.strategy.clone_from(&recording.strategy);
    }
    if let (EarlierChoice::Latest, Some(earlier)) = (&options.earlier, &recording.earlier) {
        options.earlier = EarlierChoice::Given(earlier.clone());
    }
    if !args.cold {
        options.doubts = Some(recording.doubts.clone());
    }
    if args.trials.is_none() {
        options.trials = options.trials.max(recording.trials.len() as u64);
    }
}

/// The right to measure on a device, for as long as the file stays open.
pub fn wait_for_machine(device: &DeviceInfo, no_wait: bool) -> Result<File, Failure> {
    let lock = match &device.cuda {
        Some(gpu) => format!("{}.lock", gpu.uuid),
        None => "cpu.lock".into(),
    };
    wait_for_turn(&settings::home()?.join(lock), no_wait)
}

/// Two kilns timing on the same cores would both measure nonsense, so they take turns. The lock
/// belongs to the open file: the system frees it however this process ends.
fn wait_for_turn(path: &Path, no_wait: bool) -> Result<File, Failure> {
    let cannot = |e: std::io::Error| Failure::io(format!("cannot lock `{}`", path.display()), &e);
    settings::refuse_link(path)?;
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

fn explain_interruption(failure: Failure, args: &TuneArgs) -> Failure {
    if failure.exit != Exit::Interrupted {
        return failure;
    }
    let mut again = "kiln tune".to_string();
    if let Some(path) = &args.path {
        again.push_str(&format!(" {}", path.display()));
    }
    if !args.shapes.is_empty() {
        again.push_str(&format!(" --shapes {}", args.shapes.join(",")));
    }
    if let Some(recording) = &args.replay {
        again.push_str(&format!(" --replay {}", recording.display()));
    }
    Failure::new(
        Exit::Interrupted,
        "interrupted; every finished trial is kept",
    )
    .hint(format!("`{again}` continues where it stopped"))
}
