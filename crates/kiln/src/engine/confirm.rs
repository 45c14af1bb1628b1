//! Is it really faster? Finalists meet the baseline in fresh processes on inputs nobody has seen.
//!
//! First a play-off picks the winner among the finalists, then the winner's claim is measured
//! anew: the published number never comes from the samples that selected it.

use std::time::Duration;

use kiln_core::event::{Confirmation, Dropped, Finalist, Winner};
use kiln_core::input;
use kiln_core::protocol::{Cores, Problem, Request, SamplePlan};
use kiln_core::stats;
use kiln_core::trial::{Assignment, Crash, Fault, Mismatch, Outcome, Phase, Trial};
use kiln_core::verdict;

use super::evaluate::{self, Judged};
use super::oracle::Oracle;
use super::sampling;
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Worker, WorkerEnd, WorkerKind};
use super::{Stream, broken, run_deadline};
use crate::cache::Artifact;
use crate::exit::{Exit, Failure};
use crate::task::{Precision, Task};

/// Fewer than this many samples per process cannot tell anything.
const LEAST_PER_ROUND: usize = 5;
/// One side of a comparison.
pub struct Contender {
    pub image: Artifact,
    pub config: Assignment,
    pub cores: Cores,
}

pub struct Candidate<'t> {
    pub trial: &'t Trial,
    pub contender: Contender,
}

/// Samples of both sides from one process, in nanoseconds per launch.
struct Duel {
    baseline_ns: Vec<f64>,
    candidate_ns: Vec<f64>,
}

pub struct Confirmer<'a> {
    pub task: &'a Task,
    pub oracle: &'a mut Oracle,
    pub baseline: &'a Contender,
    /// As measured in the search; decides only how many samples there is time for.
    pub baseline_ns: f64,
    pub secret: u64,
    /// Told before each step.
    pub status: &'a mut dyn FnMut(&str),
}

impl Confirmer<'_> {
    pub fn confirm(&mut self, finalists: Vec<Candidate<'_>>) -> Result<Confirmation, Failure> {
        let settings = self.task.manifest().confirm.clone();
        let rounds = settings.rounds.max(1) as usize;
        let per_round = samples_per_round(&settings, rounds, &finalists, self.baseline_ns);
        let seconds = self.estimate_seconds(&finalists, rounds, per_round);
        let mut confirmation = Confirmation {
            playoff: Vec::new(),
            dropped: Vec::new(),
            winner: None,
        };
        let mut standing: Vec<(f64, Candidate<'_>)> = Vec::new();
        let count = finalists.len();
        for (place, candidate) in finalists.into_iter().enumerate() {
            (self.status)(&format!(
                "confirming (about {seconds:.0} s): play-off, finalist {} of {count}",
                place + 1
            ));
            let number = candidate.trial.number;
            let seed = input::mix(&[self.secret, Stream::Playoff as u64, number]);
            match self.duel(&candidate.contender, per_round, seed)? {
                Ok(duel) => {
                    let median_ns = stats::median(&duel.candidate_ns);
                    // Against the baseline of the same process: a slow minute hits both.
                    let speedup = stats::median(&duel.baseline_ns) / median_ns;
                    confirmation.playoff.push(Finalist {
                        trial: number,
                        median_ns,
                        speedup,
                        samples_ns: duel.candidate_ns,
                    });
                    standing.push((speedup, candidate));
                }
                Err(outcome) => confirmation.dropped.push(Dropped {
                    trial: number,
                    outcome,
                }),
            }
        }
        standing.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, candidate) in standing {
            match self.final_rounds(&candidate, rounds, per_round)? {
                Ok(winner) => {
                    confirmation.winner = Some(winner);
                    break;
                }
                Err(outcome) => confirmation.dropped.push(Dropped {
                    trial: candidate.trial.number,
                    outcome,
                }),
            }
        }
        Ok(confirmation)
    }

    /// Time of all samples, plus what starting a pair of processes takes.
    fn estimate_seconds(
        &self,
        finalists: &[Candidate<'_>],
        rounds: usize,
        per_round: usize,
    ) -> f64 {
        let pairs = (rounds + finalists.len()) as f64;
        pairs * (per_round as f64 * pair_seconds(finalists, self.baseline_ns) + 0.2)
    }

    fn final_rounds(
        &mut self,
        candidate: &Candidate<'_>,
        rounds: usize,
        per_round: usize,
    ) -> Result<Result<Winner, Outcome>, Failure> {
        let margin = self.task.manifest().confirm.margin;
        let (mut baseline_rounds_ns, mut winner_rounds_ns) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            (self.status)(&format!("confirming: round {} of {rounds}", round + 1));
            let seed = input::mix(&[self.secret, Stream::Final as u64, round as u64]);
            match self.duel(&candidate.contender, per_round, seed)? {
                Ok(duel) => {
                    baseline_rounds_ns.push(duel.baseline_ns);
                    winner_rounds_ns.push(duel.candidate_ns);
                }
                Err(outcome) => return Ok(Err(outcome)),
            }
        }
        let comparison =
            verdict::compare(&baseline_rounds_ns, &winner_rounds_ns, margin, self.secret);
        Ok(Ok(Winner {
            trial: candidate.trial.number,
            config: candidate.trial.config.clone(),
            comparison,
            baseline_rounds_ns,
            winner_rounds_ns,
        }))
    }

    /// Each side in a fresh process of its own. `Ok(Err(outcome))`: the candidate failed.
    fn duel(
        &mut self,
        candidate: &Contender,
        samples: usize,
        seed: u64,
    ) -> Result<Result<Duel, Outcome>, Failure> {
        let mut forgiven = 0;
        loop {
            let mut arena = Arena {
                task: self.task,
                oracle: self.oracle,
                seed,
                acting: Side::Baseline,
            };
            let spawn = || Worker::spawn(WorkerKind::Run).map_err(|end| broken(&end));
            let mut corners = [
                Corner::new(spawn()?, self.baseline),
                Corner::new(spawn()?, candidate),
            ];
            let stop = match arena.fight(&mut corners, samples) {
                Ok(duel) => return Ok(Ok(duel)),
                Err(stop) => stop,
            };
            let acting = arena.acting;
            let outcome = match stop {
                Stop::Kiln(failure) => return Err(failure),
                Stop::Worker(WorkerEnd::Signal(9)) if forgiven < OUTSIDE_KILLS_FORGIVEN => {
                    forgiven += 1;
                    continue;
                }
                Stop::Worker(end) => self.outcome_of(end, &corners[acting as usize].worker)?,
                Stop::Wrong(fault) => self.wrong(fault),
            };
            if acting == Side::Baseline {
                return Err(Failure::new(
                    Exit::No,
                    format!("the baseline failed while confirming: {outcome}"),
                ));
            }
            return Ok(Err(outcome));
        }
    }

    fn wrong(&self, fault: Fault) -> Outcome {
        Outcome::Wrong(Mismatch {
            shape: self.task.manifest().target().name.clone(),
            phase: Phase::Sample,
            fault,
        })
    }

    fn outcome_of(&self, end: WorkerEnd, worker: &Worker) -> Result<Outcome, Failure> {
        let name = |argument| self.task.argument_name(argument);
        Ok(match evaluate::judge(end, &name) {
            Judged::Crash(cause) => Outcome::Crashed(Crash {
                phase: Phase::Sample,
                shape: Some(self.task.manifest().target().name.clone()),
                cause,
                output: worker.output_tail(),
            }),
            Judged::Fault(fault) => self.wrong(fault),
            Judged::TimedOut(after) => Outcome::TimedOut {
                phase: Phase::Sample,
                after_ms: after.as_millis() as u64,
            },
            Judged::Kiln(failure) => return Err(failure),
        })
    }
}

/// As many samples as asked for, or as there is time for.
fn samples_per_round(
    settings: &kiln_core::manifest::Confirm,
    rounds: usize,
    finalists: &[Candidate<'_>],
    baseline_ns: f64,
) -> usize {
    let asked = (settings.samples as usize).div_ceil(rounds);
    let pair_seconds = pair_seconds(finalists, baseline_ns);
    let processes = (rounds + finalists.len()) as f64;
    let affordable = settings.max_seconds / (pair_seconds * processes);
    asked.min(affordable as usize).max(LEAST_PER_ROUND)
}

/// One sample of each side, as the search measured them.
fn pair_seconds(finalists: &[Candidate<'_>], baseline_ns: f64) -> f64 {
    let slowest = finalists
        .iter()
        .filter_map(|c| c.trial.outcome.median_ns())
        .fold(0.0, f64::max);
    (baseline_ns.max(sampling::BURST_NANOS) + slowest.max(sampling::BURST_NANOS)) / 1e9
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Baseline = 0,
    Candidate = 1,
}

enum Stop {
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

/// One side at work: its process, frozen while the other one runs.
struct Corner<'a> {
    worker: Worker,
    contender: &'a Contender,
    /// What one sample is; known after warming up.
    plan: SamplePlan,
    samples_ns: Vec<f64>,
    /// The faster of a few single launches, each on inputs met for the first time.
    fresh_ns: f64,
}

/// A cold launch is slower than a warm one for everybody; the baseline says by how much. A
/// candidate that loses far more keeps answers instead of computing them. Launches too short to be
/// timed singly prove nothing.
fn remembers_inputs(baseline: &Corner<'_>, candidate: &Corner<'_>) -> Option<Fault> {
    const SHORTEST_JUDGED_NS: f64 = 20e3;
    const SUSPICIOUS: f64 = 4.0;
    let slowdown = |corner: &Corner<'_>| corner.fresh_ns / stats::median(&corner.samples_ns);
    let usual = slowdown(baseline).max(1.0);
    let suspicious = slowdown(candidate) > SUSPICIOUS * usual;
    (suspicious && candidate.fresh_ns > SHORTEST_JUDGED_NS).then(|| Fault::InputsRemembered {
        fresh_ns: candidate.fresh_ns,
        repeated_ns: stats::median(&candidate.samples_ns),
    })
}

impl<'a> Corner<'a> {
    fn new(worker: Worker, contender: &'a Contender) -> Corner<'a> {
        Corner {
            worker,
            contender,
            plan: SamplePlan {
                launches: 1,
                bursts: 1,
                warm_nanos: 0,
                cores: contender.cores,
            },
            samples_ns: Vec::new(),
            fresh_ns: f64::INFINITY,
        }
    }
}

struct Arena<'a> {
    task: &'a Task,
    oracle: &'a mut Oracle,
    seed: u64,
    /// Whose turn it is; whatever goes wrong is that side's doing.
    acting: Side,
}

impl Arena<'_> {
    fn fight(&mut self, corners: &mut [Corner<'_>; 2], samples: usize) -> Result<Duel, Stop> {
        let deadline = run_deadline(self.task);
        for side in [Side::Baseline, Side::Candidate] {
            self.turn(corners, side, |arena, corner| {
                arena.set_up(corner, deadline)
            })?;
        }
        for step in 0..samples as u64 {
            for side in self.order(step) {
                self.turn(corners, side, |arena, corner| {
                    arena.take_sample(corner, step, deadline)
                })?;
            }
        }
        for side in [Side::Baseline, Side::Candidate] {
            self.turn(corners, side, |arena, corner| {
                arena.meet_fresh_inputs(corner, deadline)
            })?;
        }
        let [baseline, candidate] = corners;
        if let Some(fault) = remembers_inputs(baseline, candidate) {
            return Err(Stop::Wrong(fault));
        }
        Ok(Duel {
            baseline_ns: std::mem::take(&mut baseline.samples_ns),
            candidate_ns: std::mem::take(&mut candidate.samples_ns),
        })
    }

    /// Lets one side run while the other is frozen: threads a candidate leaves behind, its
    /// floating-point modes and its memory cannot touch the other side's times.
    fn turn(
        &mut self,
        corners: &mut [Corner<'_>; 2],
        side: Side,
        act: impl FnOnce(&mut Self, &mut Corner<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.acting = side;
        let corner = &mut corners[side as usize];
        corner.worker.thaw();
        act(self, corner)?;
        corner.worker.freeze();
        Ok(())
    }

    /// Who goes first is drawn for each pair, so that neither side always runs on the other's
    /// caches and clocks.
    fn order(&self, step: u64) -> [Side; 2] {
        if input::mix(&[self.seed, Stream::Order as u64, step]) & 1 == 0 {
            [Side::Baseline, Side::Candidate]
        } else {
            [Side::Candidate, Side::Baseline]
        }
    }

    fn set_up(&mut self, corner: &mut Corner<'_>, deadline: Duration) -> Result<(), Stop> {
        evaluate::load(&mut corner.worker, &corner.contender.image, deadline)?;
        let problem = self.problem(corner, self.seed)?;
        corner
            .worker
            .request(&Request::Prepare(problem), deadline)?;
        let poison = input::mix(&[self.seed, 10]);
        let cores = corner.contender.cores;
        corner.plan = sampling::warm_up(&mut corner.worker, cores, poison, deadline)?;
        Ok(())
    }

    fn problem(&self, corner: &Corner<'_>, seed: u64) -> Result<Problem, Failure> {
        let target = self.task.manifest().target();
        let config = &corner.contender.config;
        self.task.problem(target, config, seed, Precision::Declared)
    }

    /// Times single launches on inputs this process has never seen.
    fn meet_fresh_inputs(
        &mut self,
        corner: &mut Corner<'_>,
        deadline: Duration,
    ) -> Result<(), Stop> {
        // More than one, because a single launch may be unlucky.
        const FRESH_INPUTS: u64 = 2;
        for draw in 0..FRESH_INPUTS {
            let seed = input::mix(&[self.seed, Stream::Fresh as u64, draw]);
            let poison = input::mix(&[seed, Stream::Poison as u64]);
            let problem = self.problem(corner, seed)?;
            let worker = &mut corner.worker;
            worker.request(&Request::Prepare(problem), deadline)?;
            let plan = SamplePlan {
                launches: 1,
                bursts: 1,
                warm_nanos: 0,
                cores: corner.contender.cores,
            };
            let nanos = sampling::run_bursts(worker, plan, poison, deadline)?[0];
            corner.fresh_ns = corner.fresh_ns.min(nanos);
            self.check_outputs(corner, seed, poison, deadline)?;
        }
        Ok(())
    }

    /// One timed burst, and what it wrote must be right: a kernel that is wrong now and then is
    /// wrong.
    fn take_sample(
        &mut self,
        corner: &mut Corner<'_>,
        step: u64,
        deadline: Duration,
    ) -> Result<(), Stop> {
        let poison = input::mix(&[self.seed, 100 + step]);
        let worker = &mut corner.worker;
        let nanos = sampling::run_bursts(worker, corner.plan, poison, deadline)?;
        corner.samples_ns.extend(nanos);
        self.check_outputs(corner, self.seed, poison, deadline)
    }

    fn check_outputs(
        &mut self,
        corner: &mut Corner<'_>,
        seed: u64,
        poison: u64,
        deadline: Duration,
    ) -> Result<(), Stop> {
        let answer = corner.worker.request(&Request::Inspect, deadline)?;
        let outputs = evaluate::answer_outputs(answer)?;
        let target = self.task.manifest().target();
        let expected = self.oracle.expected(self.task, target, seed)?;
        let problem = self.problem(corner, seed)?;
        evaluate::compare(&problem, &expected, &outputs, poison).map_err(Stop::Wrong)?;
        Ok(())
    }
}
