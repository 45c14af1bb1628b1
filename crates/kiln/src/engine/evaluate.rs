//! One candidate in a worker: load, check on every shape, time, check what was timed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_core::input;
use kiln_core::manifest::Shape;
use kiln_core::protocol::{Problem, Request, Response};
use kiln_core::trial::{Assignment, Crash, Fault, Measurement, Mismatch, Outcome, Phase};

mod judged;

pub use judged::{Judged, answer_outputs, compare, inspected, judge};

use super::crew::Crew;
use super::oracle::Oracle;
use super::sampling::{self, Style};
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Worker, WorkerEnd};
use super::{Stream, broken, run_deadline};
use crate::exit::Failure;
use crate::task::{Part, Program, Task};
use judged::faster_than;

/// A sound worker forgets an image at once.
const UNLOAD_DEADLINE: Duration = Duration::from_secs(10);

/// Where the inputs of one trial come from.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    pub secret: u64,
    /// Candidates asked for together share inputs: each still sees them for the first time, in a
    /// process of its own, and the reference runs once for all of them.
    pub batch: u64,
    pub trial: u64,
    /// Time on the inputs the target was checked on.
    pub timed_inputs_are_checked: bool,
}

impl Seeds {
    pub fn inputs(&self, stream: Stream, shape: usize) -> u64 {
        input::mix(&[self.secret, stream as u64, self.batch, shape as u64])
    }

    /// Inputs of the timed launches. On a GPU they are the target's from the check: a timed output
    /// then only has to be, bit for bit, the one that was found right.
    fn timed_inputs(&self, task: &Task) -> u64 {
        let target = task.checked_shapes().len() - 1;
        match self.timed_inputs_are_checked {
            true => self.inputs(Stream::Check, target),
            false => self.inputs(Stream::Sample, 0),
        }
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

/// One program and how it is run: a candidate or the baseline.
#[derive(Clone, Debug)]
pub struct Contender {
    pub program: Program,
    pub part: Part,
    pub config: Assignment,
    pub style: Style,
    /// Whose launch and arguments it has, where that is not the task it is judged by: a kernel of
    /// another revision.
    pub own: Option<Arc<Task>>,
    /// Only shown beside the verdict: it need not be able to do more than the target.
    pub is_beside: bool,
}

impl Contender {
    pub fn problem(&self, task: &Task, shape: &Shape, seed: u64) -> Result<Problem, Failure> {
        let task = self.own.as_deref().unwrap_or(task);
        task.problem(self.part, shape, &self.config, seed)
    }

    /// Whether a constraint keeps its config off a shape.
    fn skips(&self, task: &Task, shape: &Shape) -> bool {
        if self.is_beside && shape.name != task.manifest().target().name {
            return true;
        }
        let task = self.own.as_deref().unwrap_or(task);
        task.skips(shape, &self.config).is_some()
    }
}

pub struct Evaluated {
    pub outcome: Outcome,
    pub skipped_shapes: Vec<String>,
    /// Time the device itself was at work, where it can tell.
    pub on_device: Duration,
    /// In timing, up to where it ended; the rest was loading and checking.
    pub timing: Duration,
}

/// Computes the expected outputs a batch will need, so that timing does not wait for them.
pub fn foresee(task: &Task, oracle: &mut Oracle, seeds: Seeds) -> Result<(), Failure> {
    for (index, shape) in task.checked_shapes().into_iter().enumerate() {
        oracle.expected(task, shape, seeds.inputs(Stream::Check, index))?;
    }
    oracle.expected(task, task.manifest().target(), seeds.timed_inputs(task))?;
    Ok(())
}

/// Checks and times one program. `Err` only when kiln itself cannot go on.
pub fn evaluate(
    task: &Task,
    oracle: &mut Oracle,
    crew: &mut Crew,
    contender: &Contender,
    seeds: Seeds,
    best_ns: Option<f64>,
) -> Result<Evaluated, Failure> {
    let skipped_shapes = task
        .checked_shapes()
        .into_iter()
        .filter(|shape| contender.skips(task, shape))
        .map(|shape| shape.name.clone())
        .collect();
    let mut forgiven = 0;
    loop {
        let mut worker = crew.take().map_err(|end| broken(&end))?;
        let mut run = Run {
            task,
            oracle,
            crew,
            contender,
            seeds,
            place: Place::default(),
            timing: None,
        };
        let result = run.everything(&mut worker, best_ns);
        let place = run.place;
        let timing = run.timing.map_or(Duration::ZERO, |began| began.elapsed());
        let outcome = match result {
            Ok(measurement) => Outcome::Measured(measurement),
            Err(Stop::Worker(WorkerEnd::Signal(9))) if forgiven < OUTSIDE_KILLS_FORGIVEN => {
                forgiven += 1;
                continue;
            }
            Err(stop) => place.outcome_of(stop, task, &worker)?,
        };
        // Only one that answers and vouches for itself may serve the next candidate.
        let answers = matches!(outcome, Outcome::Measured(_) | Outcome::Wrong(_));
        let mut on_device = Duration::ZERO;
        if answers
            && crew.keeps_workers()
            && let Some(time) = unload(&mut worker)
        {
            on_device = time;
            crew.give_back(worker);
        }
        return Ok(Evaluated {
            outcome,
            skipped_shapes,
            on_device,
            timing,
        });
    }
}

/// Has a worker forget its image and vouch for itself; the time its device was at work, or nothing
/// when it is not to be used again.
pub fn unload(worker: &mut Worker) -> Option<Duration> {
    match worker.unload(UNLOAD_DEADLINE) {
        Ok((Response::Unloaded { device_nanos }, _)) => Some(Duration::from_nanos(device_nanos)),
        _ => None,
    }
}

/// Why a run did not end in a measurement.
pub enum Stop {
    Kiln(Failure),
    Worker(WorkerEnd),
    Wrong(Fault),
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

/// The step a run is in, for reporting how it ended.
pub struct Place {
    pub phase: Phase,
    pub shape: Option<String>,
}

impl Default for Place {
    fn default() -> Place {
        Place {
            phase: Phase::Load,
            shape: None,
        }
    }
}

impl Place {
    pub fn outcome_of(self, stop: Stop, task: &Task, worker: &Worker) -> Result<Outcome, Failure> {
        let wrong = |place: Place, fault| {
            Outcome::Wrong(Mismatch {
                shape: place.shape.unwrap_or_default(),
                phase: place.phase,
                fault,
            })
        };
        let end = match stop {
            Stop::Kiln(failure) => return Err(failure),
            Stop::Wrong(fault) => return Ok(wrong(self, fault)),
            Stop::Worker(end) => end,
        };
        let name = |argument| task.argument_name(argument);
        Ok(match judge(end, &name) {
            Judged::Crash(cause) => Outcome::Crashed(Crash {
                phase: self.phase,
                shape: self.shape,
                cause,
                output: worker.output_tail(),
            }),
            Judged::Fault(fault) => wrong(self, fault),
            Judged::TimedOut(after) => Outcome::TimedOut {
                phase: self.phase,
                after_ms: after.as_millis() as u64,
            },
            Judged::Kiln(failure) => return Err(failure),
        })
    }
}

struct Run<'t> {
    task: &'t Task,
    oracle: &'t mut Oracle,
    crew: &'t mut Crew,
    contender: &'t Contender,
    seeds: Seeds,
    place: Place,
    /// When timing began.
    timing: Option<Instant>,
}

impl Run<'_> {
    fn everything(
        &mut self,
        worker: &mut Worker,
        best_ns: Option<f64>,
    ) -> Result<Measurement, Stop> {
        let deadline = run_deadline(self.task);
        load(worker, &self.contender.program, deadline)?;
        let mut error_ratio: f64 = 0.0;
        for (index, shape) in self.task.checked_shapes().into_iter().enumerate() {
            if self.contender.skips(self.task, shape) {
                continue;
            }
            error_ratio = error_ratio.max(self.check(worker, shape, index, deadline)?);
        }
        self.crew.settle();
        self.timing = Some(Instant::now());
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
        self.place = Place {
            phase: Phase::Check,
            shape: Some(shape.name.clone()),
        };
        let seed = self.seeds.inputs(Stream::Check, index);
        let expected = self.oracle.expected(self.task, shape, seed)?;
        let problem = self.contender.problem(self.task, shape, seed)?;
        worker.prepare(&problem, deadline)?;
        let poison = self.seeds.poison(index as u64);
        let check = Request::Check {
            cores: self.contender.style.cores,
            poison,
        };
        let outputs = answer_outputs(worker.request(&check, deadline)?)?;
        compare(&problem, &expected, &outputs, poison).map_err(Stop::Wrong)
    }

    fn time(
        &mut self,
        worker: &mut Worker,
        best_ns: Option<f64>,
        deadline: Duration,
    ) -> Result<(Measurement, f64), Stop> {
        let shape = self.task.manifest().target();
        self.place = Place {
            phase: Phase::Sample,
            shape: Some(shape.name.clone()),
        };
        let seed = self.seeds.timed_inputs(self.task);
        let expected = self.oracle.expected(self.task, shape, seed)?;
        let problem = self.contender.problem(self.task, shape, seed)?;
        worker.prepare(&problem, deadline)?;
        let mut ratio: f64 = 0.0;
        let mut same_will_do = self.seeds.timed_inputs_are_checked;
        let verify = |worker: &mut Worker, poison: u64| {
            // Bit for bit what was found right before need not travel again.
            let inspect = Request::Inspect { same_will_do };
            let answer = worker.request(&inspect, deadline)?;
            if let Some(outputs) = inspected(answer, same_will_do)? {
                let found = compare(&problem, &expected, &outputs, poison);
                ratio = ratio.max(found.map_err(Stop::Wrong)?);
            }
            same_will_do = true;
            Ok::<(), Stop>(())
        };
        let sampled = sampling::sample(
            worker,
            self.contender.style,
            &self.task.manifest().measure,
            best_ns,
            self.seeds.poison(1 << 32),
            deadline,
            verify,
        )?;
        if let Some(fault) = below_floor(self.task, &sampled.samples_ns) {
            return Err(Stop::Wrong(fault));
        }
        let measurement = Measurement {
            samples_ns: sampled.samples_ns,
            batch: sampled.batch,
            stop: sampled.stop,
            error_ratio: 0.0,
            conditions: sampled.conditions,
        };
        Ok((measurement, ratio))
    }
}

/// Nothing is faster than the device.
pub fn below_floor(task: &Task, samples_ns: &[f64]) -> Option<Fault> {
    faster_than(task.floor_ns()?, samples_ns)
}

pub fn load(worker: &mut Worker, program: &Program, deadline: Duration) -> Result<(), WorkerEnd> {
    worker.load(&program.image, &program.symbol, deadline)
}
