//! Is it really faster? Finalists meet the baseline in fresh processes on inputs nobody has seen.
//!
//! First a play-off picks the winner among the finalists, then the winner's claim is measured
//! anew: the published number never comes from the samples that selected it.

use std::time::Duration;

use kiln_core::event::{Confirmation, Dropped, Finalist, Winner};
use kiln_core::input;
use kiln_core::protocol::{Burst, Placement, Request};
use kiln_core::stats;
use kiln_core::trial::{Assignment, Crash, Mismatch, Outcome, Phase, Trial};
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
/// Pairs of bursts sent in one request; one where a pair takes longer than this.
const PAIRS_PER_REQUEST: usize = 4;
const LONG_PAIR_NANOS: f64 = 50e6;
/// One side of a comparison.
pub struct Contender {
    pub image: Artifact,
    pub config: Assignment,
    pub cores: usize,
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
        let mut confirmation = Confirmation {
            playoff: Vec::new(),
            dropped: Vec::new(),
            winner: None,
        };
        let mut standing: Vec<(f64, Candidate<'_>)> = Vec::new();
        let count = finalists.len();
        for (place, candidate) in finalists.into_iter().enumerate() {
            (self.status)(&format!(
                "confirming: play-off, finalist {} of {count}",
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

    fn final_rounds(
        &mut self,
        candidate: &Candidate<'_>,
        rounds: usize,
        per_round: usize,
    ) -> Result<Result<Winner, Outcome>, Failure> {
        let margin = self.task.manifest().confirm.margin;
        let (mut baseline_rounds_ns, mut winner_rounds_ns) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            (self.status)(&format!("confirming: process {} of {rounds}", round + 1));
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

    /// Both sides in one fresh process. `Ok(Err(outcome))`: the candidate failed.
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
                sides: [self.baseline, candidate],
                seed,
                acting: None,
            };
            let mut worker = Worker::spawn(WorkerKind::Run).map_err(|end| broken(&end))?;
            let stop = match arena.fight(&mut worker, samples) {
                Ok(duel) => return Ok(Ok(duel)),
                Err(stop) => stop,
            };
            let blames_baseline = arena.acting == Some(Side::Baseline);
            let outcome = match stop {
                Stop::Kiln(failure) => return Err(failure),
                Stop::Worker(WorkerEnd::Signal(9)) if forgiven < OUTSIDE_KILLS_FORGIVEN => {
                    forgiven += 1;
                    continue;
                }
                Stop::Worker(end) => self.outcome_of(end, &worker)?,
                Stop::Wrong(fault) => self.wrong(fault),
            };
            if blames_baseline {
                return Err(Failure::new(
                    Exit::No,
                    format!("the baseline failed while confirming: {outcome}"),
                ));
            }
            return Ok(Err(outcome));
        }
    }

    fn wrong(&self, fault: kiln_core::trial::Fault) -> Outcome {
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
    let slowest = finalists
        .iter()
        .filter_map(|c| c.trial.outcome.median_ns())
        .fold(0.0, f64::max);
    let pair_seconds = (baseline_ns + slowest) / 1e9;
    let processes = (rounds + finalists.len()) as f64;
    let affordable = settings.max_seconds / (pair_seconds * processes);
    asked.min(affordable as usize).max(LEAST_PER_ROUND)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Baseline = 0,
    Candidate = 1,
}

enum Stop {
    Kiln(Failure),
    Worker(WorkerEnd),
    Wrong(kiln_core::trial::Fault),
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

struct Arena<'a> {
    task: &'a Task,
    oracle: &'a mut Oracle,
    sides: [&'a Contender; 2],
    seed: u64,
    /// Who alone was running when something went wrong; `None` while both take turns.
    acting: Option<Side>,
}

impl Arena<'_> {
    fn fight(&mut self, worker: &mut Worker, samples: usize) -> Result<Duel, Stop> {
        let deadline = run_deadline(self.task);
        let placements = self.set_up(worker, deadline)?;
        let mut launches = [1, 1];
        let mut pair_nanos = 0.0;
        for side in [Side::Baseline, Side::Candidate] {
            self.acting = Some(side);
            let poison = input::mix(&[self.seed, 10 + side as u64]);
            let warm = sampling::warm_up(worker, placements[side as usize], poison, deadline)?;
            launches[side as usize] = warm.launches;
            pair_nanos += warm.burst_nanos;
        }
        self.acting = None;
        let at_once = if pair_nanos > LONG_PAIR_NANOS {
            1
        } else {
            PAIRS_PER_REQUEST
        };
        // Each side has its own time limit, and a request holds at least one burst of both.
        let deadline = 2 * deadline;
        let mut taken = [Vec::new(), Vec::new()];
        let mut step = 0;
        while taken[0].len() < samples {
            let pairs = at_once.min(samples - taken[0].len());
            let order: Vec<Side> = (0..pairs)
                .flat_map(|p| self.order_of_pair(step, p))
                .collect();
            let bursts = order
                .iter()
                .map(|side| Burst {
                    on: placements[*side as usize],
                    launches: launches[*side as usize],
                })
                .collect();
            let poison = input::mix(&[self.seed, 100 + step]);
            let nanos = sampling::run_bursts(worker, bursts, poison, deadline)?;
            for (side, nanos) in order.iter().zip(nanos) {
                taken[*side as usize].push(nanos);
            }
            step += 1;
        }
        self.check_timed(worker, placements, launches, deadline)?;
        let [baseline_ns, candidate_ns] = taken;
        Ok(Duel {
            baseline_ns,
            candidate_ns,
        })
    }

    /// Who goes first is drawn for each pair, so that neither side always runs on the other's
    /// caches and clocks.
    fn order_of_pair(&self, step: u64, pair: usize) -> [Side; 2] {
        let toss = input::mix(&[self.seed, Stream::Order as u64, step, pair as u64]);
        if toss & 1 == 0 {
            [Side::Baseline, Side::Candidate]
        } else {
            [Side::Candidate, Side::Baseline]
        }
    }

    /// Loads both and gives them the same buffers, unless their arguments differ.
    fn set_up(&mut self, worker: &mut Worker, deadline: Duration) -> Result<[Placement; 2], Stop> {
        let target = self.task.manifest().target();
        let mut problems = Vec::new();
        for side in [Side::Baseline, Side::Candidate] {
            self.acting = Some(side);
            let contender = self.sides[side as usize];
            evaluate::load(worker, side as usize, &contender.image, deadline)?;
            problems.push(self.task.problem(
                target,
                &contender.config,
                self.seed,
                Precision::Declared,
            )?);
        }
        self.acting = None;
        worker.request(&Request::Prepare(problems[0].clone()), deadline)?;
        let shared = problems[0] == problems[1];
        if !shared {
            worker.request(&Request::PrepareAlso(problems[1].clone()), deadline)?;
        }
        Ok([Side::Baseline, Side::Candidate].map(|side| Placement {
            slot: side as usize,
            set: if shared { 0 } else { side as usize },
            cores: self.sides[side as usize].cores,
        }))
    }

    /// What a timed burst writes must be right: each side runs one more on poisoned outputs.
    fn check_timed(
        &mut self,
        worker: &mut Worker,
        placements: [Placement; 2],
        launches: [u32; 2],
        deadline: Duration,
    ) -> Result<(), Stop> {
        let target = self.task.manifest().target();
        let expected = self.oracle.expected(self.task, target, self.seed)?;
        for side in [Side::Baseline, Side::Candidate] {
            self.acting = Some(side);
            let on = placements[side as usize];
            let poison = input::mix(&[self.seed, 20 + side as u64]);
            let burst = Burst {
                on,
                launches: launches[side as usize],
            };
            sampling::run_bursts(worker, vec![burst], poison, deadline)?;
            let answer = worker.request(&Request::Inspect { set: on.set }, deadline)?;
            let outputs = evaluate::answer_outputs(answer)?;
            let config = &self.sides[side as usize].config;
            let problem = self
                .task
                .problem(target, config, self.seed, Precision::Declared)?;
            evaluate::compare(&problem, &expected, &outputs, poison).map_err(Stop::Wrong)?;
        }
        self.acting = None;
        Ok(())
    }
}
