//! NVIDIA's profiler around one worker: where it is, how it is called, what it says when it cannot.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kiln_core::bottleneck::counters::METRICS;
use kiln_core::bottleneck::raw_csv::{self, Launch};
use kiln_core::input;
use kiln_core::manifest::Shape;
use kiln_core::protocol::{Caches, Request};

use crate::engine::evaluate::{self, Contender};
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::engine::{Stream, broken};
use crate::exit::{Exit, Failure};
use crate::settings;
use crate::task::Task;
use crate::toolchain::child;

/// Launches are repeated two dozen times, once per set of counters, and some of them instrumented.
const BUDGET: Duration = Duration::from_secs(300);
/// Reading a report back.
const IMPORT_BUDGET: Duration = Duration::from_secs(60);
/// A table of thousands of launches; a line is below 20 KB.
const TABLE_BYTES: usize = 64 << 20;
/// Asked for before the launch that counts.
const WARM_UPS: u32 = 1;

/// The profiler of this machine.
#[derive(Clone, Debug)]
pub struct Ncu {
    pub path: PathBuf,
    pub version: String,
}

/// Why there are no counters. The kernel is not at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCounters {
    /// There is no GPU in it.
    OnCpu,
    NotInstalled,
    NotPermitted,
    /// What the profiler says.
    Failed(String),
}

impl NoCounters {
    pub fn in_words(&self) -> String {
        match self {
            NoCounters::OnCpu => "kiln reads none of a CPU".into(),
            NoCounters::NotInstalled => "ncu is not installed".into(),
            NoCounters::NotPermitted => {
                "this user may not read the GPU's hardware counters (ERR_NVGPUCTRPERM)".into()
            }
            NoCounters::Failed(said) => format!("ncu gave no counters: {said}"),
        }
    }

    pub fn fix(&self) -> &'static str {
        match self {
            NoCounters::OnCpu => "`perf stat` and `perf record` read them",
            NoCounters::NotInstalled => {
                "install Nsight Compute, which is part of the CUDA toolkit, or profile elsewhere and give the table to \
                 `kiln profile --import`"
            }
            NoCounters::NotPermitted => {
                "run as root, or: echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | \
                 sudo tee /etc/modprobe.d/nvidia-profiling.conf, then reboot; \
                 in a container: docker run --cap-add=SYS_ADMIN …"
            }
            NoCounters::Failed(_) => {
                "`kiln doctor` shows which ncu is used and whether it may read counters"
            }
        }
    }
}

impl Ncu {
    /// On the path, in a toolkit, or where it installs itself.
    pub fn find() -> Result<Ncu, NoCounters> {
        let path = places().into_iter().find(|path| path.is_file());
        let path = path.ok_or(NoCounters::NotInstalled)?;
        let mut command = Command::new(&path);
        let answer = child::output(command.arg("--version"), Some(Duration::from_secs(20)));
        match answer {
            Ok(answer) if answer.succeeded() => {
                let version = answer
                    .stdout
                    .lines()
                    .find_map(|line| line.strip_prefix("Version "));
                let version = version.and_then(|rest| rest.split_whitespace().next());
                Ok(Ncu {
                    path,
                    version: version.unwrap_or("unknown").to_string(),
                })
            }
            Ok(_) => Err(NoCounters::Failed(format!(
                "`{}` does not run",
                path.display()
            ))),
            Err(e) => Err(NoCounters::Failed(format!("`{}`: {e}", path.display()))),
        }
    }

    /// Profiles one launch of a program on a shape; for Python every kernel of one call. The outer error is kiln's or
    /// the program's, the inner one the profiler's.
    pub fn profile(
        &self,
        task: &Task,
        contender: &Contender,
        shape: &Shape,
    ) -> Result<Result<Vec<Launch>, NoCounters>, Failure> {
        let files = Files::new()?;
        let by = self.command(contender, &files);
        let kind = match &contender.program.worker {
            WorkerKind::Cuda { support, .. } => WorkerKind::Watched {
                by,
                support: support.clone(),
            },
            WorkerKind::Python(_) => WorkerKind::WatchedPython { by },
            _ => {
                return Err(Failure::usage("only what runs on a GPU can be profiled")
                    .hint("`kiln explain` says what the tunables of a C kernel did"));
            }
        };
        let ended = launch(task, contender, shape, &kind);
        let log = fs::read_to_string(&files.log).unwrap_or_default();
        if log.contains(NO_PERMISSION) {
            return Ok(Err(NoCounters::NotPermitted));
        }
        match ended {
            Ok(()) => {}
            Err(Stop::Kiln(failure)) => return Err(failure),
            Err(Stop::Worker(end @ WorkerEnd::Interrupted)) => return Err(broken(&end)),
            Err(Stop::Worker(_)) if error_in(&log).is_some() => {
                return Ok(Err(NoCounters::Failed(last_words(&log))));
            }
            Err(Stop::Worker(end)) => {
                let name = |argument| task.argument_name(argument);
                return Err(Failure::new(
                    Exit::No,
                    format!(
                        "under ncu on shape `{}` the kernel came to no end: {}",
                        shape.name,
                        end.in_words(&name)
                    ),
                )
                .hint("does it run without? `kiln tune` checks it first"));
            }
        }
        self.read(&files, &log)
    }

    fn command(&self, contender: &Contender, files: &Files) -> Vec<String> {
        let mut words = vec![
            self.path.display().to_string(),
            // kiln leaves clocks as they are.
            "--clock-control".into(),
            "none".into(),
            "--cache-control".into(),
            match contender.style.caches {
                Caches::Cold => "all".into(),
                Caches::Warm => "none".into(),
            },
            "--metrics".into(),
            METRICS.join(","),
            "--export".into(),
            files.report.display().to_string(),
            "--force-overwrite".into(),
            // Its talk would otherwise end up in the worker's answers.
            "--log-file".into(),
            files.log.display().to_string(),
        ];
        match &contender.program.worker {
            WorkerKind::Python(_) => words.extend(["--profile-from-start".into(), "off".into()]),
            _ => words.extend([
                // kiln's own kernels run in the same process.
                "--kernel-name-base".into(),
                "mangled".into(),
                "--kernel-name".into(),
                contender.program.symbol.clone(),
                "--launch-skip".into(),
                WARM_UPS.to_string(),
                "--launch-count".into(),
                "1".into(),
            ]),
        }
        words
    }

    fn read(&self, files: &Files, log: &str) -> Result<Result<Vec<Launch>, NoCounters>, Failure> {
        let Some(report) = files.reports().into_iter().find(|path| path.is_file()) else {
            return Ok(Err(NoCounters::Failed(last_words(log))));
        };
        let mut command = Command::new(&self.path);
        command.arg("--import").arg(report).args([
            "--csv",
            "--page",
            "raw",
            "--print-units",
            "base",
        ]);
        let answer = child::output_keeping(&mut command, Some(IMPORT_BUDGET), TABLE_BYTES)
            .map_err(|e| Failure::io(format!("cannot start `{}`", self.path.display()), &e))?;
        if crate::engine::interrupt::asked() {
            return Err(crate::engine::interrupted());
        }
        Ok(raw_csv::parse(&answer.stdout)
            .map_err(|e| NoCounters::Failed(format!("its report cannot be read: {e}"))))
    }
}

/// Where ncu may be: on the path, in a toolkit, in the folder of its own package, newest first.
fn places() -> Vec<PathBuf> {
    let homes = settings::cuda_homes().into_iter().map(|(_, home)| home);
    let toolkits = homes.chain([PathBuf::from("/usr/local/cuda")]);
    let mut own: Vec<PathBuf> = fs::read_dir("/opt/nvidia/nsight-compute")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("ncu"))
        .collect();
    own.sort();
    own.reverse();
    let on_path = settings::on_path("ncu").into_iter();
    on_path
        .chain(toolkits.map(|home| home.join("bin/ncu")))
        .chain(own)
        .collect()
}

/// What a run leaves behind, until it is dropped.
struct Files {
    report: PathBuf,
    log: PathBuf,
}

impl Files {
    fn new() -> Result<Files, Failure> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let stem = format!("profile-{}-{run}", std::process::id());
        let home = settings::home()?;
        Ok(Files {
            report: home.join(format!("{stem}.ncu-rep")),
            log: home.join(format!("{stem}.log")),
        })
    }
}

impl Files {
    /// Where the report may be: versions of ncu differ in whether they add the suffix to a name that has it.
    fn reports(&self) -> [PathBuf; 2] {
        [
            self.report.clone(),
            self.report.with_extension("ncu-rep.ncu-rep"),
        ]
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in self.reports().iter().chain([&self.log]) {
            // They only carry the report to us.
            let _ = fs::remove_file(path);
        }
    }
}

enum Stop {
    Kiln(Failure),
    Worker(WorkerEnd),
}

impl From<WorkerEnd> for Stop {
    fn from(end: WorkerEnd) -> Stop {
        Stop::Worker(end)
    }
}

/// Launches a program, the last time under the profiler's eyes.
fn launch(
    task: &Task,
    contender: &Contender,
    shape: &Shape,
    kind: &WorkerKind,
) -> Result<(), Stop> {
    let started = Instant::now();
    let left = || BUDGET.saturating_sub(started.elapsed());
    let mut worker = Worker::spawn(kind)?;
    evaluate::load(&mut worker, &contender.program, left())?;
    let seed = input::mix(&[1, Stream::Sample as u64]);
    let problem = contender.problem(task, shape, seed).map_err(Stop::Kiln)?;
    worker.prepare(&problem, left())?;
    for round in 0..=WARM_UPS {
        let check = Request::Check {
            cores: contender.style.cores,
            poison: input::mix(&[seed, Stream::Poison as u64, u64::from(round)]),
        };
        worker.request(&check, left())?;
    }
    worker.finish(left().max(Duration::from_secs(5)))?;
    Ok(())
}

const NO_PERMISSION: &str = "ERR_NVGPUCTRPERM";

/// The first thing that went wrong, in ncu's words.
fn error_in(log: &str) -> Option<&str> {
    let error = log
        .lines()
        .find_map(|line| line.strip_prefix("==ERROR=="))?;
    Some(error.trim())
}

fn last_words(log: &str) -> String {
    if let Some(error) = error_in(log) {
        return error.to_string();
    }
    let last = log.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or_else(
        || "it wrote no report and said nothing".into(),
        |line| format!("it wrote no report; its last words: {}", line.trim()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ncu_says_is_understood() {
        let denied = "==PROF== Connected to process 1\n\
             ==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance \
             Counters on the target device 0.\n";
        assert!(denied.contains(NO_PERMISSION));
        let failed = "==PROF== Connected\n==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n==PROF== x\n";
        assert_eq!(
            last_words(failed),
            "Failed to initialize the profiler: LibraryNotLoaded"
        );
        let fine = "==WARNING== Note: Running with unmodified GPU clocks.\n==PROF== Disconnected\n";
        assert_eq!(error_in(fine), None);
        assert!(last_words(fine).contains("==PROF== Disconnected"));
        assert!(
            NoCounters::NotPermitted
                .fix()
                .contains("NVreg_RestrictProfilingToAdminUsers=0")
        );
    }
}
