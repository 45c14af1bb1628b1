//! The winner under NVIDIA's compute-sanitizer, where it is installed: accesses outside
//! allocations, races in shared memory, reads of memory nobody wrote.

mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kiln_core::acceptance::{SanitizerRun, SanitizerTool};
use kiln_core::input;
use kiln_core::manifest::{Sanitize, Shape};
use kiln_core::protocol::Request;
use kiln_core::trial::{Fault, Mismatch, Outcome, Phase};

use crate::engine::evaluate::{self, Contender};
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::engine::{Stream, broken};
use crate::exit::Failure;
use crate::settings;
use crate::task::Task;
pub use report::Details;
use report::{Report, Severity};

const TOOLS: [&str; 3] = ["memcheck", "racecheck", "initcheck"];
/// A tool that has come to no end by then is given up.
const TOOL_BUDGET: Duration = Duration::from_secs(120);
/// Shapes run under each tool, the smallest ones: instrumented code is many times slower.
const MOST_SHAPES: usize = 2;
const MOST_FINDINGS_KEPT: usize = 8;
/// Kernels of kiln's own that run in the same process.
const SUPPORT_KERNELS: [&str; 5] = [
    "kiln_hold",
    "kiln_fill",
    "kiln_check_fill",
    "kiln_sum",
    "kiln_sentinel",
];

/// A candidate to be run under the tools. Needs nothing of what else a confirmation is busy with.
pub(super) struct Inspection<'a> {
    task: &'a Task,
    candidate: &'a Contender,
    secret: u64,
    sanitizer: PathBuf,
    support: Option<String>,
    home: PathBuf,
    shapes: Vec<&'a Shape>,
}

/// What there is to do about a candidate.
pub(super) enum Plan<'a> {
    /// Nothing, and what to say of that: `None` for kernels that are not for a GPU.
    Nothing(Option<SanitizerRun>),
    Inspect(Inspection<'a>),
}

impl<'a> Plan<'a> {
    pub fn of(task: &'a Task, candidate: &'a Contender, secret: u64) -> Result<Plan<'a>, Failure> {
        let WorkerKind::Cuda { support, .. } = &candidate.program.worker else {
            return Ok(Plan::Nothing(None));
        };
        let wanted = task.manifest().confirm.sanitize;
        if wanted == Sanitize::Off {
            return Ok(Plan::Nothing(Some(SanitizerRun::Off)));
        }
        let Some(sanitizer) = find(task) else {
            let why = "compute-sanitizer is not installed".to_string();
            return match wanted {
                Sanitize::On => Err(Failure::machine(why)
                    .hint("it comes with the CUDA toolkit; `--sanitize off` confirms without it")),
                _ => Ok(Plan::Nothing(Some(SanitizerRun::NotAvailable { why }))),
            };
        };
        Ok(Plan::Inspect(Inspection {
            task,
            candidate,
            secret,
            sanitizer,
            support: support.clone(),
            home: settings::home()?,
            shapes: smallest_shapes(task, candidate),
        }))
    }

    /// `Ok(Err(outcome))`: a tool found something.
    pub fn carry_out(&self) -> Result<Result<Option<SanitizerRun>, Outcome>, Failure> {
        match self {
            Plan::Nothing(said) => Ok(Ok(said.clone())),
            Plan::Inspect(inspection) => Ok(inspection.run()?.map(Some)),
        }
    }
}

/// What one tool has to say of a candidate that is known to fail.
pub struct Look {
    pub tool: &'static str,
    pub errors: Vec<Details>,
    /// How the process it watched ended, where not by itself.
    pub ended: Option<String>,
}

/// Runs a candidate that is known to fail under one tool after the other, until one finds something. `None` where
/// compute-sanitizer is not installed.
pub fn look(
    task: &Task,
    candidate: &Contender,
    secret: u64,
    shape: Option<&str>,
) -> Result<Option<Vec<Look>>, Failure> {
    let (WorkerKind::Cuda { support, .. }, Some(sanitizer)) =
        (&candidate.program.worker, find(task))
    else {
        return Ok(None);
    };
    let failed_on = task
        .checked_shapes()
        .into_iter()
        .filter(|s| Some(s.name.as_str()) == shape);
    let mut shapes: Vec<&Shape> = failed_on.collect();
    if shapes.is_empty() {
        shapes = smallest_shapes(task, candidate);
    }
    let inspection = Inspection {
        task,
        candidate,
        secret,
        sanitizer,
        support: support.clone(),
        home: settings::home()?,
        shapes,
    };
    let mut looks = Vec::new();
    for tool in TOOLS {
        let watched = inspection.watch_with(tool);
        let ended = match watched.ended {
            Ok(()) => None,
            Err(Stop::Kiln(failure)) => return Err(failure),
            Err(Stop::Worker(end @ WorkerEnd::Interrupted)) => return Err(broken(&end)),
            Err(Stop::Worker(end)) => Some(end.in_words(&|index| task.argument_name(index))),
        };
        let errors = Report::read(&watched.log, &ignored(task)).errors();
        let is_found = !errors.is_empty();
        looks.push(Look {
            tool,
            errors,
            ended,
        });
        if is_found {
            break;
        }
    }
    Ok(Some(looks))
}

impl Inspection<'_> {
    fn run(&self) -> Result<Result<SanitizerRun, Outcome>, Failure> {
        let mut tools = Vec::new();
        for (tool, watched) in TOOLS.iter().zip(self.watch()) {
            let ended = match watched.ended {
                Err(Stop::Kiln(failure)) => return Err(failure),
                Err(Stop::Worker(end @ WorkerEnd::Interrupted)) => return Err(broken(&end)),
                Err(Stop::Worker(end)) => Err(end),
                Ok(()) => Ok(()),
            };
            let report = Report::read(&watched.log, &ignored(self.task));
            let errors = report.of(Severity::Error);
            if !errors.is_empty() {
                let last = self.shapes.last();
                return Ok(Err(Outcome::Wrong(Mismatch {
                    shape: last.map_or_else(String::new, |shape| shape.name.clone()),
                    phase: Phase::Accept,
                    fault: Fault::Sanitizer {
                        tool: (*tool).into(),
                        count: errors.len() as u64,
                        findings: errors.into_iter().take(MOST_FINDINGS_KEPT).collect(),
                    },
                })));
            }
            tools.push(concluded(tool, &report, ended));
        }
        let wanted = self.task.manifest().confirm.sanitize;
        let broken_off = tools.iter().find(|tool| !tool.is_complete());
        match broken_off.filter(|_| wanted == Sanitize::On) {
            Some(tool) => Err(Failure::machine(format!(
                "compute-sanitizer's {} was asked for and {}",
                tool.tool, tool.result
            ))
            .hint("`--sanitize auto` takes what can be had and says so")),
            None => Ok(Ok(SanitizerRun::Ran { tools })),
        }
    }

    /// All tools side by side: most of what one takes is starting up.
    fn watch(&self) -> Vec<Watched> {
        std::thread::scope(|scope| {
            let running = TOOLS.map(|tool| scope.spawn(move || self.watch_with(tool)));
            let done = running.into_iter().map(|thread| thread.join());
            done.map(|watched| watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    fn watch_with(&self, tool: &str) -> Watched {
        let log = self.home.join(log_name(tool));
        let kind = WorkerKind::Watched {
            by: command(&self.sanitizer, tool, &log),
            support: self.support.clone(),
        };
        let ended = self.launch_once(&kind);
        let text = fs::read_to_string(&log).unwrap_or_default();
        // It only carries the report to us.
        let _ = fs::remove_file(&log);
        Watched { log: text, ended }
    }

    /// One launch on each shape, in a process that a tool watches over.
    fn launch_once(&self, kind: &WorkerKind) -> Result<(), Stop> {
        let started = Instant::now();
        let left = || TOOL_BUDGET.saturating_sub(started.elapsed());
        let mut worker = Worker::spawn(kind)?;
        evaluate::load(&mut worker, &self.candidate.program, left())?;
        for shape in &self.shapes {
            let seed = input::mix(&[self.secret, Stream::Accept as u64, 1 << 32]);
            let problem = self.candidate.problem(self.task, shape, seed);
            worker.prepare(&problem.map_err(Stop::Kiln)?, left())?;
            let check = Request::Check {
                cores: self.candidate.style.cores,
                poison: input::mix(&[seed, Stream::Poison as u64]),
            };
            worker.request(&check, left())?;
        }
        worker.finish(left().max(Duration::from_secs(5)))?;
        Ok(())
    }
}

/// What a tool wrote, and how the process it watched ended.
struct Watched {
    log: String,
    ended: Result<(), Stop>,
}

/// Of its own for every run, in this process and in others.
fn log_name(tool: &str) -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    format!("sanitizer-{}-{run}-{tool}.log", std::process::id())
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

/// What is recorded of a tool that found no error.
fn concluded(tool: &str, report: &Report, ended: Result<(), WorkerEnd>) -> SanitizerTool {
    let warnings = report.of(Severity::Warning);
    let result = match ended {
        Err(WorkerEnd::TimedOut(_)) => {
            format!("was given up after {} s", TOOL_BUDGET.as_secs())
        }
        Err(end) => format!("came to no end: {end}"),
        Ok(()) if !report.is_complete => "wrote no summary".into(),
        Ok(()) if !warnings.is_empty() => SanitizerTool::WARNINGS.into(),
        Ok(()) => SanitizerTool::CLEAN.into(),
    };
    SanitizerTool {
        tool: tool.into(),
        result,
        findings: warnings.into_iter().take(MOST_FINDINGS_KEPT).collect(),
    }
}

/// Beside nvcc, or on the path.
fn find(task: &Task) -> Option<PathBuf> {
    let beside = task.cuda.as_ref().and_then(|cuda| {
        let folder = cuda.nvcc.as_ref()?.parent()?;
        [
            folder.join("compute-sanitizer"),
            folder.join("../compute-sanitizer/compute-sanitizer"),
        ]
        .into_iter()
        .find(|path| path.is_file())
    });
    beside
        .or_else(|| settings::on_path("compute-sanitizer"))
        .or_else(|| {
            let usual = PathBuf::from("/usr/local/cuda/bin/compute-sanitizer");
            usual.is_file().then_some(usual)
        })
}

fn command(sanitizer: &Path, tool: &str, log: &Path) -> Vec<String> {
    [
        &sanitizer.display().to_string(),
        "--tool",
        tool,
        "--log-file",
        &log.display().to_string(),
        "--print-limit",
        "100",
    ]
    .map(str::to_string)
    .to_vec()
}

fn smallest_shapes<'t>(task: &'t Task, candidate: &Contender) -> Vec<&'t Shape> {
    let shapes = task.checked_shapes().into_iter();
    let fitting = shapes.filter(|shape| task.skips(shape, &candidate.config).is_none());
    fitting.take(MOST_SHAPES).collect()
}

/// Names of kiln's own kernels, whose findings are not the candidate's, unless its source uses such a
/// name itself.
fn ignored(task: &Task) -> Vec<&'static str> {
    let source = task.file.dir().join(&task.manifest().kernel.source.value);
    let source = fs::read_to_string(source).unwrap_or_default();
    let own = SUPPORT_KERNELS.into_iter();
    own.filter(|name| !source.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARNING: &str = "\
========= Warning: Race reported between Read access at tile(float *)+0x90 in k.cu:12
=========     and Write access at tile(float *)+0xa0 in k.cu:14 [4 hazards]
";
    const SUMMARY: &str = "========= ERROR SUMMARY: 0 errors\n";

    fn told(log: &str, ended: Result<(), WorkerEnd>) -> SanitizerTool {
        concluded("racecheck", &Report::read(log, &[]), ended)
    }

    #[test]
    fn a_tool_is_clean_only_when_it_came_to_its_end() {
        let clean = told(SUMMARY, Ok(()));
        assert_eq!(
            (clean.tool.as_str(), clean.result.as_str()),
            ("racecheck", "clean")
        );
        assert!(clean.findings.is_empty());
        let torn = told("", Ok(()));
        assert_eq!(torn.result, "wrote no summary");
        let warned = told(&format!("{WARNING}{SUMMARY}"), Ok(()));
        assert_eq!(
            (warned.result.as_str(), warned.findings.len()),
            ("found warnings", 1)
        );
        for end in [WorkerEnd::TimedOut(TOOL_BUDGET), WorkerEnd::Exited(1)] {
            assert!(!told(SUMMARY, Err(end)).is_complete());
        }
    }
}
