//! Compiles candidates side by side, each in a worker process with a deadline, through the cache.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kiln_core::protocol::{CompileJob, Request, Response, Tool};
use kiln_core::trial::{CompileFailure, Crash, CrashCause, Outcome, Phase};

use super::jail;
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Worker, WorkerEnd, WorkerKind};
use crate::cache::{Artifact, Cache, Recipe};
use crate::durable;
use crate::exit::Failure;
use crate::task::{ENTRY_SYMBOL, Program, Source};

/// A unit to compile and the key it is cached under.
#[derive(Clone, Debug)]
pub struct Build {
    pub recipe: Recipe,
    pub job: CompileJob,
    pub deadline: Duration,
    /// The folder a compiler may read, beside its own and the system's.
    pub project: PathBuf,
    /// Who runs the image.
    pub worker: WorkerKind,
}

#[derive(Clone, Debug)]
pub struct Built {
    pub artifact: Artifact,
    pub cached: bool,
}

impl Built {
    /// What a worker needs to run it.
    pub fn program(&self, build: &Build) -> Program {
        let compiled = &self.artifact.compiled;
        let asked_for = match &build.job.tool {
            Tool::Cc { .. } => ENTRY_SYMBOL,
            Tool::Nvrtc { entry, .. } | Tool::Nvcc { entry, .. } => entry,
        };
        Program {
            worker: match self.artifact.image.parent() {
                Some(folder) => build.worker.reading(folder),
                None => build.worker.clone(),
            },
            image: self.artifact.image.display().to_string(),
            symbol: compiled
                .symbol
                .clone()
                .unwrap_or_else(|| asked_for.to_string()),
        }
    }
}

/// `Ok(Err(outcome))` is a candidate that does not compile; `Err` means kiln cannot go on.
pub type BuildResult = Result<Result<Built, Outcome>, Failure>;

/// May be used by several threads at once.
pub struct CompilePool {
    jobs: Option<Sender<(u64, Build)>>,
    arrivals: Arc<Arrivals>,
    next: AtomicU64,
    /// Builds with lower numbers are not worth starting any more.
    cancelled: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// Where results wait for whoever asked for them.
#[derive(Default)]
struct Arrivals {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    results: HashMap<u64, BuildResult>,
    /// Threads that compile.
    serving: usize,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().expect("no holder panics")
    }

    fn put(&self, number: u64, result: BuildResult) {
        self.lock().results.insert(number, result);
        self.changed.notify_all();
    }

    /// Waits until `take` finds what it wants.
    fn wait<T>(&self, mut take: impl FnMut(&mut Waiting) -> Option<T>) -> T {
        let mut waiting = self.lock();
        loop {
            if let Some(found) = take(&mut waiting) {
                return found;
            }
            assert!(waiting.serving > 0, "pool threads outlive the pool");
            waiting = self.changed.wait(waiting).expect("no holder panics");
        }
    }
}

/// A thread at work; nobody waits for one that has ended, however it did.
struct Serving(Arc<Arrivals>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.lock().serving -= 1;
        self.0.changed.notify_all();
    }
}

impl CompilePool {
    pub fn new(cache: Arc<Cache>, size: usize) -> CompilePool {
        let (jobs, queue) = channel::<(u64, Build)>();
        let arrivals = Arc::new(Arrivals::default());
        let size = size.max(1);
        arrivals.lock().serving = size;
        let queue = Arc::new(Mutex::new(queue));
        let cancelled = Arc::new(AtomicU64::new(0));
        let threads = (0..size)
            .map(|_| {
                let (queue, cache) = (Arc::clone(&queue), Arc::clone(&cache));
                let cancelled = Arc::clone(&cancelled);
                let serving = Serving(Arc::clone(&arrivals));
                thread::spawn(move || serve(&queue, &serving.0, &cache, &cancelled))
            })
            .collect();
        CompilePool {
            jobs: Some(jobs),
            arrivals,
            next: AtomicU64::new(0),
            cancelled,
            threads,
        }
    }

    /// Starts all builds and returns their numbers, for `wait`.
    pub fn submit(&self, builds: &[Build]) -> Range<u64> {
        let jobs = self.jobs.as_ref().expect("the pool is open until dropped");
        let count = builds.len() as u64;
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        for (number, build) in (first..).zip(builds) {
            jobs.send((number, build.clone()))
                .expect("pool threads outlive the pool");
        }
        first..first + count
    }

    /// The result of a submitted build; to be asked for once.
    pub fn wait(&self, number: u64) -> Result<Result<Built, Outcome>, Failure> {
        self.arrivals.wait(|w| w.results.remove(&number))
    }

    pub fn wait_for_all(&self, numbers: Range<u64>) {
        self.arrivals.wait(|w| {
            let mut numbers = numbers.clone();
            numbers.all(|n| w.results.contains_key(&n)).then_some(())
        });
    }

    /// Drops every build that has not been started.
    pub fn cancel(&self) {
        let next = self.next.load(Ordering::Relaxed);
        self.cancelled.store(next, Ordering::Relaxed);
    }

    pub fn build_all(&self, builds: &[Build]) -> Result<Vec<Result<Built, Outcome>>, Failure> {
        self.submit(builds)
            .map(|number| self.wait(number))
            .collect()
    }

    /// Compiles what has to be compiled.
    pub fn program(&self, source: &Source) -> Result<Result<Program, Outcome>, Failure> {
        match source {
            Source::Ready(program) => Ok(Ok(program.clone())),
            Source::Build(build) => Ok(self.build_one(build)?.map(|built| built.program(build))),
        }
    }

    pub fn build_one(&self, build: &Build) -> Result<Result<Built, Outcome>, Failure> {
        let mut results = self.build_all(std::slice::from_ref(build))?;
        Ok(results.remove(0))
    }
}

impl Drop for CompilePool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A pool thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

fn serve(
    queue: &Mutex<Receiver<(u64, Build)>>,
    arrivals: &Arrivals,
    cache: &Cache,
    cancelled: &AtomicU64,
) {
    // Started when first needed: a warm cache starts no compiler at all.
    let mut worker = Compilers::default();
    loop {
        let next = queue.lock().expect("no holder panics").recv();
        let Ok((number, build)) = next else {
            return;
        };
        if number < cancelled.load(Ordering::Relaxed) {
            arrivals.put(number, Ok(Err(not_reached())));
            continue;
        }
        let result = match cache.look_up(&build.recipe) {
            Some(artifact) => Ok(Ok(Built {
                artifact,
                cached: true,
            })),
            None => compile_forgivingly(&mut worker, &build, cache),
        };
        arrivals.put(number, result);
    }
}

/// A pool thread's worker, kept while jobs may reach the same things.
#[derive(Default)]
struct Compilers {
    idle: Option<(WorkerKind, Worker)>,
}

impl Compilers {
    fn take(&mut self, kind: &WorkerKind) -> Result<Worker, WorkerEnd> {
        match self.idle.take() {
            Some((known, worker)) if known == *kind => Ok(worker),
            _ => Worker::spawn(kind),
        }
    }

    fn give_back(&mut self, kind: WorkerKind, worker: Worker) {
        self.idle = Some((kind, worker));
    }
}

/// A worker killed from outside says nothing about the candidate, so it is tried again; killed
/// every time, it is the candidate after all (memory, most likely).
fn compile_forgivingly(worker: &mut Compilers, build: &Build, cache: &Cache) -> BuildResult {
    for _ in 0..OUTSIDE_KILLS_FORGIVEN {
        let result = compile(worker, build, cache);
        let killed = matches!(
            &result,
            Ok(Err(Outcome::Crashed(crash))) if crash.cause == CrashCause::Signal { signal: 9 }
        );
        if !killed {
            return result;
        }
    }
    compile(worker, build, cache)
}

fn compile(worker: &mut Compilers, build: &Build, cache: &Cache) -> BuildResult {
    let staged = cache.staging_path();
    let mut job = build.job.clone();
    job.output = staged.display().to_string();
    let result = compile_staged(worker, build, job, cache, &staged);
    // Already renamed on success; a failed or killed compiler may leave part of it.
    let _ = std::fs::remove_file(&staged);
    let _ = std::fs::remove_file(staged.with_extension("so.d"));
    result
}

fn compile_staged(
    worker: &mut Compilers,
    build: &Build,
    job: CompileJob,
    cache: &Cache,
    staged: &Path,
) -> BuildResult {
    let kind = WorkerKind::Compile(jail::for_compiler(
        &build.job,
        &build.project,
        &cache.staging_folder(),
    ));
    let mut alive = match worker.take(&kind) {
        Ok(alive) => alive,
        Err(WorkerEnd::Interrupted) => return Ok(Err(not_reached())),
        Err(end) => {
            return Err(
                Failure::machine(format!("cannot start a compile worker: {end}")).hint(
                    "see that there is memory and that processes may be started (`ulimit -u`)",
                ),
            );
        }
    };
    match alive.request(&Request::Compile(job), build.deadline) {
        Ok((Response::Compiled(compiled), _)) => {
            worker.give_back(kind, alive);
            let published = cache.publish(&build.recipe, staged, &compiled);
            match published {
                Ok(artifact) => Ok(Ok(Built {
                    artifact,
                    cached: false,
                })),
                Err(e) => {
                    let place = cache.staging_folder();
                    let what = format!("cannot put an image into the cache `{}`", place.display());
                    Err(Failure::io(what, &e))
                }
            }
        }
        Ok((Response::NotCompiled(failure), _)) => {
            worker.give_back(kind, alive);
            // The disk says nothing about the candidate.
            match ran_out_of_space(&failure, &cache.staging_folder()) {
                true => Err(no_space(&cache.staging_folder())),
                false => Ok(Err(Outcome::NotCompiled(failure))),
            }
        }
        Ok((other, _)) => Err(Failure::machine(
            WorkerEnd::misplaced(&other, "to compile").to_string(),
        )),
        Err(WorkerEnd::TimedOut(after)) => Ok(Err(Outcome::TimedOut {
            phase: Phase::Compile,
            after_ms: after.as_millis() as u64,
        })),
        Err(WorkerEnd::Signal(signal)) => Ok(Err(died(signal, alive.output_tail()))),
        Err(WorkerEnd::Interrupted) => Ok(Err(not_reached())),
        Err(end) => Err(Failure::machine(format!("a compile worker failed: {end}"))
            .hint("run it again: what was finished is kept; `kiln doctor` tries the compiler")),
    }
}

/// A linker that maps its output dies of a signal instead of saying so, hence the look at the disk.
fn ran_out_of_space(failure: &CompileFailure, staging: &Path) -> bool {
    let said = [&failure.first_error, &failure.log];
    said.iter().any(|text| durable::says_full(text)) || durable::is_almost_full(staging)
}

fn no_space(staging: &Path) -> Failure {
    Failure::machine(format!(
        "the compiler ran out of disk space in `{}`",
        staging.display()
    ))
    .hint("free some space there, or set KILN_HOME to a folder on another disk; then run again")
}

fn died(signal: i32, output: String) -> Outcome {
    Outcome::Crashed(Crash {
        phase: Phase::Compile,
        shape: None,
        cause: CrashCause::Signal { signal },
        output,
    })
}

/// Stands in for a build that an interrupt overtook; the caller ends before recording it.
fn not_reached() -> Outcome {
    Outcome::NotCompiled(CompileFailure {
        first_error: "interrupted".into(),
        log: String::new(),
    })
}
