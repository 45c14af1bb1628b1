//! Several programs in turns, each in a process of its own that is frozen while another runs.
//!
//! For programs whose answers nobody asks for: a kernel and its variants with a stage left out. They must run, end, and
//! write nothing outside their buffers; what they write into them is not looked at. The first is the one the
//! others are compared with, and is known to be right.

use kiln_core::input;
use kiln_core::protocol::{Request, SamplePlan};
use kiln_core::trial::{Outcome, Phase};

use super::evaluate::{self, Contender, Place, Stop};
use super::sampling::{self, Style};
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Starting, Worker, WorkerEnd};
use super::{Stream, broken, run_deadline};
use crate::exit::{Exit, Failure};
use crate::task::Task;

/// Intervals of fewer rounds are too narrow (`kiln_core::stats::ratio_intervals`); a GPU's processes differ less from
/// each other, and take longer to start.
const ROUNDS_CPU: usize = 5;
const ROUNDS_GPU: usize = 3;
const MOST_PER_ROUND: usize = 10;
const LEAST_PER_ROUND: usize = 3;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayPlan {
    /// Fresh processes for each.
    pub rounds: usize,
    /// Samples of each in each.
    pub per_round: usize,
}

impl RelayPlan {
    /// As many samples as there is time for, of `runners` that take at most about `launch_ns` each.
    pub fn new(style: Style, runners: usize, launch_ns: f64, seconds: f64) -> RelayPlan {
        let rounds = if style.on_gpu { ROUNDS_GPU } else { ROUNDS_CPU };
        let sample_seconds = launch_ns.max(style.burst_nanos()) / 1e9;
        let affordable = seconds / (sample_seconds * (rounds * runners.max(1)) as f64);
        RelayPlan {
            rounds,
            per_round: (affordable as usize).clamp(LEAST_PER_ROUND, MOST_PER_ROUND),
        }
    }
}

/// What became of one of them.
pub enum Lane {
    /// Nanoseconds per launch, one list per round.
    Timed(Vec<Vec<f64>>),
    Fell(Outcome),
}

/// Runs all in turns. `Err` when kiln cannot go on, or the first of them fails.
pub fn run(
    task: &Task,
    contenders: &[Contender],
    plan: RelayPlan,
    secret: u64,
) -> Result<Vec<Lane>, Failure> {
    let mut lanes: Vec<Lane> = contenders.iter().map(|_| Lane::Timed(Vec::new())).collect();
    for round in 0..plan.rounds {
        let mut forgiven = 0;
        let runners = loop {
            let lap = Lap {
                task,
                plan,
                seed: input::mix(&[secret, Stream::Final as u64, round as u64]),
                is_first: round == 0,
            };
            match lap.run(contenders, &lanes)? {
                // Killed from outside: the others waited meanwhile, so all begin anew.
                None if forgiven < OUTSIDE_KILLS_FORGIVEN => forgiven += 1,
                None => {
                    return Err(Failure::machine(
                        "processes are being killed from outside, over and over",
                    )
                    .hint("is the machine out of memory? `dmesg` says so"));
                }
                Some(runners) => break runners,
            }
        };
        for runner in runners {
            match (&mut lanes[runner.lane], runner.fell) {
                (Lane::Timed(rounds), None) => rounds.push(runner.samples_ns),
                (lane, Some(outcome)) => *lane = Lane::Fell(outcome),
                (Lane::Fell(_), None) => {}
            }
        }
        if let Some(Lane::Fell(outcome)) = lanes.first() {
            return Err(Failure::new(
                Exit::No,
                format!("the kernel failed while its stages were timed: it {outcome}"),
            )
            .hint("it passed its check before, so it fails now and then: mend that first"));
        }
    }
    Ok(lanes)
}

/// One round.
struct Lap<'a> {
    task: &'a Task,
    plan: RelayPlan,
    seed: u64,
    /// Each is launched once by itself before anything is timed.
    is_first: bool,
}

struct Runner<'a> {
    lane: usize,
    contender: &'a Contender,
    worker: Worker,
    plan: Option<SamplePlan>,
    samples_ns: Vec<f64>,
    fell: Option<Outcome>,
}

impl Lap<'_> {
    /// `None`: somebody else killed one of the processes.
    fn run<'a>(
        &self,
        contenders: &'a [Contender],
        lanes: &[Lane],
    ) -> Result<Option<Vec<Runner<'a>>>, Failure> {
        let standing = contenders.iter().zip(lanes).enumerate();
        let standing: Vec<(usize, &Contender)> = standing
            .filter(|(_, (_, lane))| matches!(lane, Lane::Timed(_)))
            .map(|(lane, (contender, _))| (lane, contender))
            .collect();
        let mut runners = Vec::new();
        for (lane, contender, starting) in start_all(&standing)? {
            let worker = match starting.greet() {
                Err(WorkerEnd::Signal(9)) => Worker::spawn(&contender.program.worker),
                greeted => greeted,
            };
            let runner = Runner {
                lane,
                contender,
                worker: worker.map_err(|end| broken(&end))?,
                plan: None,
                samples_ns: Vec::new(),
                fell: None,
            };
            runner.rest(self.task);
            runners.push(runner);
        }
        for runner in &mut runners {
            if !self.turn(runner, Phase::Check, |lap, runner| lap.set_up(runner))? {
                return Ok(None);
            }
        }
        for step in 0..self.plan.per_round as u64 {
            let mut order: Vec<usize> = (0..runners.len()).collect();
            // Drawn anew each time, so that nobody always runs on the same one's caches and clocks.
            let draw =
                |place: &usize| input::mix(&[self.seed, Stream::Order as u64, step, *place as u64]);
            order.sort_by_key(draw);
            for place in order {
                let take = |lap: &Self, runner: &mut Runner<'_>| lap.take_sample(runner, step);
                if !self.turn(&mut runners[place], Phase::Sample, take)? {
                    return Ok(None);
                }
            }
        }
        for runner in &mut runners {
            if !self.turn(runner, Phase::Sample, |lap, runner| lap.inspect(runner))? {
                return Ok(None);
            }
        }
        Ok(Some(runners))
    }

    /// Lets one run while the others are frozen. `false`: somebody else killed it.
    fn turn(
        &self,
        runner: &mut Runner<'_>,
        phase: Phase,
        act: impl FnOnce(&Self, &mut Runner<'_>) -> Result<(), Stop>,
    ) -> Result<bool, Failure> {
        if runner.fell.is_some() {
            return Ok(true);
        }
        if !self.task.is_cuda() {
            runner.worker.thaw();
        }
        match act(self, runner) {
            Ok(()) => {
                runner.rest(self.task);
                Ok(true)
            }
            Err(Stop::Worker(WorkerEnd::Signal(9))) => Ok(false),
            Err(stop) => {
                let place = Place {
                    phase,
                    shape: Some(self.task.manifest().target().name.clone()),
                };
                runner.fell = Some(place.outcome_of(stop, self.task, &runner.worker)?);
                runner.rest(self.task);
                Ok(true)
            }
        }
    }

    fn set_up(&self, runner: &mut Runner<'_>) -> Result<(), Stop> {
        let deadline = run_deadline(self.task);
        let (worker, contender) = (&mut runner.worker, runner.contender);
        evaluate::load(worker, &contender.program, deadline)?;
        let target = self.task.manifest().target();
        let problem = contender.problem(self.task, target, self.seed)?;
        worker.prepare(&problem, deadline)?;
        let poison = input::mix(&[self.seed, Stream::Poison as u64]);
        if self.is_first {
            // Guard zones are looked at; the answers are wrong by construction.
            let check = Request::Check {
                cores: contender.style.cores,
                poison,
            };
            evaluate::answer_outputs(worker.request(&check, deadline)?)?;
        }
        let (plan, _) = sampling::warm_up(worker, contender.style, poison, deadline)?;
        runner.plan = Some(plan);
        Ok(())
    }

    fn take_sample(&self, runner: &mut Runner<'_>, step: u64) -> Result<(), Stop> {
        let Some(plan) = runner.plan else {
            return Ok(());
        };
        let poison = input::mix(&[self.seed, Stream::Poison as u64, 1 + step]);
        let deadline = run_deadline(self.task);
        let taken = sampling::run_bursts(&mut runner.worker, plan, poison, deadline)?;
        runner.samples_ns.extend(taken.nanos);
        Ok(())
    }

    /// Guard zones once more, after all that was timed.
    fn inspect(&self, runner: &mut Runner<'_>) -> Result<(), Stop> {
        let inspect = Request::Inspect {
            same_will_do: false,
        };
        let answer = runner.worker.request(&inspect, run_deadline(self.task))?;
        evaluate::answer_outputs(answer)?;
        Ok(())
    }
}

impl Runner<'_> {
    /// On a GPU the worker's own code is all that runs in it, and it waits for us.
    fn rest(&self, task: &Task) {
        if !task.is_cuda() {
            self.worker.freeze();
        }
    }
}

/// All at once: on a GPU processes take long to start.
fn start_all<'a>(
    standing: &[(usize, &'a Contender)],
) -> Result<Vec<(usize, &'a Contender, Starting)>, Failure> {
    standing
        .iter()
        .map(|(lane, contender)| {
            let starting = Worker::start(&contender.program.worker);
            Ok((*lane, *contender, starting.map_err(|end| broken(&end))?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::protocol::{Caches, Cores};

    #[test]
    fn slow_kernels_get_fewer_samples() {
        let style = |on_gpu| Style {
            cores: Cores::Any,
            caches: Caches::Warm,
            on_gpu,
        };
        let plan = |ns, on_gpu| {
            let plan = RelayPlan::new(style(on_gpu), 8, ns, 60.0);
            (plan.rounds, plan.per_round)
        };
        assert_eq!(plan(1e4, false), (5, 10));
        assert_eq!(plan(200e6, false), (5, 7));
        assert_eq!(plan(5e9, false), (5, 3));
        assert_eq!(plan(1e4, true), (3, 10));
    }
}
