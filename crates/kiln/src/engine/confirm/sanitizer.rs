//! The winner under NVIDIA's compute-sanitizer, where it is installed: accesses outside
//! allocations, races in shared memory, reads of memory nobody wrote.

mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_core::acceptance::{SanitizerRun, SanitizerTool};
use kiln_core::input;
use kiln_core::manifest::{Sanitize, Shape};
use kiln_core::protocol::Request;
use kiln_core::trial::{Fault, Mismatch, Outcome, Phase};

use super::Confirmer;
use crate::engine::evaluate::{self, Contender};
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::engine::{Stream, broken};
use crate::exit::Failure;
use crate::settings;
use crate::task::Task;
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

impl Confirmer<'_> {
    /// `Ok(Err(outcome))`: a tool found something. `None` for kernels that are not for a GPU.
    pub(super) fn sanitize(
        &mut self,
        candidate: &Contender,
    ) -> Result<Result<Option<SanitizerRun>, Outcome>, Failure> {
        let WorkerKind::Cuda { support } = &candidate.program.worker else {
            return Ok(Ok(None));
        };
        let wanted = self.task.manifest().confirm.sanitize;
        if wanted == Sanitize::Off {
            return Ok(Ok(Some(SanitizerRun::Off)));
        }
        let Some(sanitizer) = find(self.task) else {
            let why = "compute-sanitizer is not installed".to_string();
            return match wanted {
                Sanitize::On => Err(Failure::machine(why)
                    .hint("it comes with the CUDA toolkit; `--sanitize off` confirms without it")),
                _ => Ok(Ok(Some(SanitizerRun::NotAvailable { why }))),
            };
        };
        let shapes = smallest_shapes(self.task, candidate);
        let mut tools = Vec::new();
        for tool in TOOLS {
            (self.status)(&format!("confirming: compute-sanitizer, {tool}"));
            let log =
                settings::home()?.join(format!("sanitizer-{}-{tool}.log", std::process::id()));
            let kind = WorkerKind::Watched {
                by: command(&sanitizer, tool, &log),
                support: support.clone(),
            };
            let ended = self.under(&kind, candidate, &shapes);
            let text = fs::read_to_string(&log).unwrap_or_default();
            // It only carries the report to us.
            let _ = fs::remove_file(&log);
            let ended = match ended {
                Err(Stop::Kiln(failure)) => return Err(failure),
                Err(Stop::Worker(end @ WorkerEnd::Interrupted)) => return Err(broken(&end)),
                Err(Stop::Worker(end)) => Err(end),
                Ok(()) => Ok(()),
            };
            let report = Report::read(&text, &ignored(self.task));
            let errors = report.of(Severity::Error);
            if !errors.is_empty() {
                return Ok(Err(Outcome::Wrong(Mismatch {
                    shape: shapes.last().map_or_else(String::new, |s| s.name.clone()),
                    phase: Phase::Accept,
                    fault: Fault::Sanitizer {
                        tool: tool.into(),
                        count: errors.len() as u64,
                        findings: errors.into_iter().take(MOST_FINDINGS_KEPT).collect(),
                    },
                })));
            }
            tools.push(concluded(tool, &report, ended));
        }
        let broken_off = tools.iter().find(|tool| !tool.is_complete());
        match broken_off.filter(|_| wanted == Sanitize::On) {
            Some(tool) => Err(Failure::machine(format!(
                "compute-sanitizer's {} was asked for and {}",
                tool.tool, tool.result
            ))
            .hint("`--sanitize auto` takes what can be had and says so")),
            None => Ok(Ok(Some(SanitizerRun::Ran { tools }))),
        }
    }

    /// One launch on each shape, in a process that a tool watches over.
    fn under(
        &mut self,
        kind: &WorkerKind,
        candidate: &Contender,
        shapes: &[&Shape],
    ) -> Result<(), Stop> {
        let started = Instant::now();
        let left = || TOOL_BUDGET.saturating_sub(started.elapsed());
        let mut worker = Worker::spawn(kind)?;
        evaluate::load(&mut worker, &candidate.program, left())?;
        for shape in shapes {
            let seed = input::mix(&[self.secret, Stream::Accept as u64, 1 << 32]);
            let problem = candidate
                .problem(self.task, shape, seed)
                .map_err(Stop::Kiln)?;
            worker.prepare(&problem, left())?;
            let check = Request::Check {
                cores: candidate.style.cores,
                poison: input::mix(&[seed, Stream::Poison as u64]),
            };
            worker.request(&check, left())?;
        }
        worker.finish(left().max(Duration::from_secs(5)))?;
        Ok(())
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
