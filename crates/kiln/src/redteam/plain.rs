//! A candidate in the hands of a plain harness; `kiln_device::plain` says what that does.

use std::time::Duration;

use kiln_core::protocol::{LoadedFrom, PlainFinding, PlainTrial, Request, Response};
use kiln_core::trial::Assignment;

use super::catalogue::{LiesAbout, PlainRule};
use crate::engine::broken;
use crate::engine::compile_pool::CompilePool;
use crate::engine::worker::{Worker, WorkerEnd};
use crate::exit::{Exit, Failure};
use crate::task::{Part, Program, Task};

const DEADLINE: Duration = Duration::from_secs(60);
/// A loop around a clock is noisy; a cheat that fools it now and then fools it.
const ATTEMPTS: u64 = 20;
/// What a script would print as a win.
const A_WIN: f64 = 1.05;
/// Elements that may be wrong where a script asks for 95 %.
const WRONG_ALLOWED: f64 = 0.05;

/// What a plain harness made of a candidate.
#[derive(Clone, Copy, Debug)]
pub struct Impression {
    pub finding: PlainFinding,
    pub is_fooled: bool,
}

impl Impression {
    pub fn speedup(&self) -> f64 {
        self.finding.honest_nanos / self.finding.candidate_nanos
    }
}

/// The first impression that fools it, or the last one.
pub fn judge(
    task: &Task,
    pool: &CompilePool,
    candidate: &Program,
    config: &Assignment,
    lies_about: LiesAbout,
    rule: PlainRule,
) -> Result<Result<Impression, WorkerEnd>, Failure> {
    let (source, _) = task.baseline_source()?;
    let honest = pool.program(&source)?.map_err(|outcome| {
        Failure::new(Exit::Bug, format!("the honest kernel of a task {outcome}"))
    })?;
    let mut last = None;
    for attempt in 0..ATTEMPTS {
        let target = task.manifest().target();
        let seed = 1 + attempt;
        let baseline = task.problem(Part::Baseline, target, config, seed)?;
        let trial = PlainTrial {
            honest: loaded_from(&honest),
            candidate: loaded_from(candidate),
            problem: task.problem(Part::Candidate, target, config, seed)?,
            honest_launch: baseline.launch,
            cores: task.style(config).cores,
        };
        let mut worker = Worker::spawn(&candidate.worker).map_err(|end| broken(&end))?;
        let request = Request::PlainTrial(Box::new(trial));
        let finding = match worker.request(&request, DEADLINE) {
            Ok((Response::PlainFinding(finding), _)) => finding,
            Ok((other, _)) => {
                last = Some(Err(WorkerEnd::misplaced(&other, "for a plain trial")));
                continue;
            }
            Err(end @ (WorkerEnd::Interrupted | WorkerEnd::Broken(_))) => return Err(broken(&end)),
            Err(end) => {
                last = Some(Err(end));
                continue;
            }
        };
        let is_fooled = fools(&finding, lies_about, rule);
        last = Some(Ok(Impression { finding, is_fooled }));
        if is_fooled {
            break;
        }
    }
    Ok(last.expect("at least one attempt"))
}

fn fools(finding: &PlainFinding, lies_about: LiesAbout, rule: PlainRule) -> bool {
    let wrong = finding.mismatched as f64 / finding.elements.max(1) as f64;
    let looks_right = match rule {
        PlainRule::Allclose => finding.mismatched == 0,
        PlainRule::Ratio => wrong <= WRONG_ALLOWED,
    };
    let speedup = finding.honest_nanos / finding.candidate_nanos;
    let wins = lies_about == LiesAbout::Answer || speedup >= A_WIN;
    looks_right && finding.elements > 0 && wins
}

fn loaded_from(program: &Program) -> LoadedFrom {
    LoadedFrom {
        image: program.image.clone(),
        symbol: program.symbol.clone(),
    }
}
