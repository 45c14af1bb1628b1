//! One candidate in a fresh process: load, check on every shape, time, check what was timed.

use std::time::Duration;

use kiln_core::input;
use kiln_core::manifest::{Role, Shape};
use kiln_core::numerics::Expected;
use kiln_core::protocol::{Cores, Problem, Refusal, Request, Response};
use kiln_core::trial::{
    Assignment, Crash, CrashCause, Fault, GuardHit, Measurement, Mismatch, Outcome, Phase,
};

use super::oracle::Oracle;
use super::sampling;
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Worker, WorkerEnd, WorkerKind};
use super::{Stream, broken, run_deadline};
use crate::cache::Artifact;
use crate::exit::Failure;
use crate::task::{ENTRY_SYMBOL, Precision, Task};

/// Where the inputs of one trial come from.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    pub secret: u64,
    /// Candidates asked for together share inputs: each still sees them for the first time, in a
    /// process of its own, and the reference runs once for all of them.
    pub batch: u64,
    pub trial: u64,
}

impl Seeds {
    pub fn inputs(&self, stream: Stream, shape: usize) -> u64 {
        input::mix(&[self.secret, stream as u64, self.batch, shape as u64])
    }

    pub fn poison(&self, step: u64) -> u64 {
        input::mix(&[
            self.secret,
            Stream::Poison as u64,
            self.batch,
            self.trial,
            step,
        ])
    }
}

pub struct Evaluated {
    pub outcome: Outcome,
    pub skipped_shapes: Vec<String>,
}

/// Computes the expected outputs a batch will need, so that timing does not wait for them.
pub fn foresee(task: &Task, oracle: &mut Oracle, seeds: Seeds) -> Result<(), Failure> {
    for (index, shape) in task.checked_shapes().into_iter().enumerate() {
        oracle.expected(task, shape, seeds.inputs(Stream::Check, index))?;
    }
    oracle.expected(
        task,
        task.manifest().target(),
        seeds.inputs(Stream::Sample, 0),
    )?;
    Ok(())
}

/// Checks and times one image. `Err` only when kiln itself cannot go on.
pub fn evaluate(
    task: &Task,
    oracle: &mut Oracle,
    image: &Artifact,
    config: &Assignment,
    cores: Cores,
    seeds: Seeds,
    best_ns: Option<f64>,
) -> Result<Evaluated, Failure> {
    let skipped_shapes = task
        .checked_shapes()
        .into_iter()
        .filter(|shape| task.skips(shape, config).is_some())
        .map(|shape| shape.name.clone())
        .collect();
    let mut forgiven = 0;
    loop {
        let mut run = Run {
            task,
            oracle,
            config,
            seeds,
            cores,
            phase: Phase::Load,
            shape: None,
        };
        let mut worker = Worker::spawn(WorkerKind::Run).map_err(|end| broken(&end))?;
        let outcome = match run.everything(&mut worker, image, best_ns) {
            Ok(measurement) => Outcome::Measured(measurement),
            Err(Stop::Kiln(failure)) => return Err(failure),
            Err(Stop::Wrong(mismatch)) => Outcome::Wrong(mismatch),
            Err(Stop::Worker(WorkerEnd::Signal(9))) if forgiven < OUTSIDE_KILLS_FORGIVEN => {
                forgiven += 1;
                continue;
            }
            Err(Stop::Worker(end)) => run.outcome_of(end, &worker)?,
        };
        return Ok(Evaluated {
            outcome,
            skipped_shapes,
        });
    }
}

enum Stop {
    Kiln(Failure),
    Worker(WorkerEnd),
    Wrong(Mismatch),
}

impl From<WorkerEnd> for Stop {
    fn from(end: WorkerEnd) -> Stop {
        Stop::Worker(end)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Kiln(failure)
    }
}

struct Run<'t> {
    task: &'t Task,
    oracle: &'t mut Oracle,
    config: &'t Assignment,
    seeds: Seeds,
    cores: Cores,
    phase: Phase,
    shape: Option<String>,
}

impl Run<'_> {
    fn everything(
        &mut self,
        worker: &mut Worker,
        image: &Artifact,
        best_ns: Option<f64>,
    ) -> Result<Measurement, Stop> {
        let deadline = run_deadline(self.task);
        load(worker, image, deadline)?;
        let mut error_ratio: f64 = 0.0;
        for (index, shape) in self.task.checked_shapes().into_iter().enumerate() {
            if self.task.skips(shape, self.config).is_some() {
                continue;
            }
            error_ratio = error_ratio.max(self.check(worker, shape, index, deadline)?);
        }
        let (measurement, ratio) = self.time(worker, best_ns, deadline)?;
        Ok(Measurement {
            error_ratio: error_ratio.max(ratio),
            ..measurement
        })
    }

    fn check(
        &mut self,
        worker: &mut Worker,
        shape: &Shape,
        index: usize,
        deadline: Duration,
    ) -> Result<f64, Stop> {
        (self.phase, self.shape) = (Phase::Check, Some(shape.name.clone()));
        let seed = self.seeds.inputs(Stream::Check, index);
        let expected = self.oracle.expected(self.task, shape, seed)?;
        let problem = self
            .task
            .problem(shape, self.config, seed, Precision::Declared)?;
        worker.request(&Request::Prepare(problem.clone()), deadline)?;
        let poison = self.seeds.poison(index as u64);
        let outputs = answer_outputs(worker.request(
            &Request::Check {
                cores: self.cores,
                poison,
            },
            deadline,
        )?)?;
        compare(&problem, &expected, &outputs, poison).map_err(|fault| self.wrong(fault))
    }

    fn time(
        &mut self,
        worker: &mut Worker,
        best_ns: Option<f64>,
        deadline: Duration,
    ) -> Result<(Measurement, f64), Stop> {
        let shape = self.task.manifest().target();
        (self.phase, self.shape) = (Phase::Sample, Some(shape.name.clone()));
        let seed = self.seeds.inputs(Stream::Sample, 0);
        let expected = self.oracle.expected(self.task, shape, seed)?;
        let problem = self
            .task
            .problem(shape, self.config, seed, Precision::Declared)?;
        worker.request(&Request::Prepare(problem.clone()), deadline)?;
        let measure = &self.task.manifest().measure;
        let first_poison = self.seeds.poison(1 << 32);
        let mut ratio: f64 = 0.0;
        let verify = |worker: &mut Worker, poison: u64| {
            let outputs = answer_outputs(worker.request(&Request::Inspect, deadline)?)?;
            let found = compare(&problem, &expected, &outputs, poison);
            ratio = ratio.max(found.map_err(|fault| self.wrong(fault))?);
            Ok::<(), Stop>(())
        };
        let sampled = sampling::sample(
            worker,
            self.cores,
            measure,
            best_ns,
            first_poison,
            deadline,
            verify,
        )?;
        let measurement = Measurement {
            samples_ns: sampled.samples_ns,
            batch: sampled.batch,
            stop: sampled.stop,
            error_ratio: 0.0,
        };
        Ok((measurement, ratio))
    }

    fn wrong(&self, fault: Fault) -> Stop {
        Stop::Wrong(Mismatch {
            shape: self.shape.clone().unwrap_or_default(),
            phase: self.phase,
            fault,
        })
    }

    fn outcome_of(&self, end: WorkerEnd, worker: &Worker) -> Result<Outcome, Failure> {
        let name = |argument| self.task.argument_name(argument);
        match judge(end, &name) {
            Judged::Crash(cause) => Ok(Outcome::Crashed(Crash {
                phase: self.phase,
                shape: self.shape.clone(),
                cause,
                output: worker.output_tail(),
            })),
            Judged::Fault(fault) => match self.wrong(fault) {
                Stop::Wrong(mismatch) => Ok(Outcome::Wrong(mismatch)),
                _ => unreachable!("wrong() makes a mismatch"),
            },
            Judged::TimedOut(after) => Ok(Outcome::TimedOut {
                phase: self.phase,
                after_ms: after.as_millis() as u64,
            }),
            Judged::Kiln(failure) => Err(failure),
        }
    }
}

/// What the end of a worker says about the candidate in it.
pub enum Judged {
    Crash(CrashCause),
    Fault(Fault),
    TimedOut(Duration),
    Kiln(Failure),
}

pub fn judge(end: WorkerEnd, argument_name: &dyn Fn(usize) -> String) -> Judged {
    match end {
        WorkerEnd::Signal(signal) => Judged::Crash(CrashCause::Signal { signal }),
        WorkerEnd::Exited(code) => Judged::Crash(CrashCause::Exited { code }),
        WorkerEnd::OutputFlood(bytes) => Judged::Crash(CrashCause::OutputFlood { bytes }),
        WorkerEnd::Fault(fault) if fault.inside => Judged::Fault(Fault::InputModified {
            argument: argument_name(fault.argument),
        }),
        WorkerEnd::Fault(fault) => Judged::Fault(Fault::Canary {
            argument: argument_name(fault.argument),
            offset: fault.offset,
            access: GuardHit::PageHit,
        }),
        WorkerEnd::Garbled(message) => Judged::Crash(CrashCause::Garbled { message }),
        WorkerEnd::TimedOut(after) => Judged::TimedOut(after),
        WorkerEnd::Refused(refusal) => match refusal {
            Refusal::NotLoadable { message } => Judged::Crash(CrashCause::NotLoadable { message }),
            Refusal::OutOfMemory { bytes } => Judged::Crash(CrashCause::OutOfMemory { bytes }),
            Refusal::LeftProcesses { count } => Judged::Crash(CrashCause::LeftProcesses { count }),
            Refusal::GuardZone { argument, offset } => Judged::Fault(Fault::Canary {
                argument: argument_name(argument),
                offset,
                access: GuardHit::ZoneOverwritten,
            }),
            Refusal::BadTask { message } => Judged::Kiln(Failure::usage(message)),
        },
        end @ (WorkerEnd::Interrupted | WorkerEnd::Broken(_)) => Judged::Kiln(broken(&end)),
    }
}

pub fn load(worker: &mut Worker, image: &Artifact, deadline: Duration) -> Result<(), WorkerEnd> {
    let request = Request::Load {
        image: image.image.display().to_string(),
        symbol: ENTRY_SYMBOL.into(),
    };
    worker.request(&request, deadline).map(|_| ())
}

pub fn answer_outputs(answer: (Response, Vec<u8>)) -> Result<Vec<u8>, WorkerEnd> {
    match answer {
        (Response::Outputs, bytes) => Ok(bytes),
        (other, _) => Err(WorkerEnd::Garbled(format!(
            "unexpected answer {other:?} to a check"
        ))),
    }
}

/// Compares all outputs; `Ok` is the largest error relative to what is allowed.
pub fn compare(
    problem: &Problem,
    expected: &[Expected],
    outputs: &[u8],
    poison_seed: u64,
) -> Result<f64, Fault> {
    let results = problem
        .arguments
        .iter()
        .enumerate()
        .filter(|(_, a)| a.is_result());
    let mut rest = outputs;
    let mut worst: f64 = 0.0;
    for ((index, argument), expected) in results.zip(expected) {
        let length = argument.bytes().unwrap_or(0) as usize;
        let (mine, others) = rest.split_at(length.min(rest.len()));
        rest = others;
        let written_fresh = matches!(
            argument,
            kiln_core::protocol::ArgumentSpec::Buffer {
                role: Role::Output,
                ..
            }
        );
        let poison = if written_fresh {
            input::poison(input::mix(&[poison_seed, index as u64]), length)
        } else {
            Vec::new()
        };
        worst = worst.max(expected.compare(mine, &poison).map_err(Fault::Numerics)?);
    }
    Ok(worst)
}
