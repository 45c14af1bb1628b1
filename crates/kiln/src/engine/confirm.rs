//! Is it really faster? Finalists meet the baseline in fresh processes on inputs nobody has seen.
//!
//! First a play-off picks the winner among the finalists, then the winner's claim is measured
//! anew: the published number never comes from the samples that selected it.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::event::{Confirmation, Dropped, EnergyPair, Finalist, OtherCaches, Winner};
use kiln_core::input;
use kiln_core::numerics::Expected;
use kiln_core::protocol::{Caches, Problem, Request, SamplePlan};
use kiln_core::stats;
use kiln_core::trial::{Fault, Mismatch, Outcome, Phase, Trial};
use kiln_core::verdict;

use super::evaluate::{self, Contender, Place, Stop};
use super::oracle::Oracle;
use super::sampling::{self, Style};
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Starting, Worker, WorkerEnd, WorkerKind};
use super::{Stream, broken, run_deadline};
use crate::exit::{Exit, Failure};
use crate::task::Task;

const PLAYOFF: Turn = Turn {
    extras: false,
    more_follow: true,
};
/// Fewer than this many samples per process cannot tell anything.
const LEAST_PER_ROUND: usize = 5;
pub struct Candidate<'t> {
    pub trial: &'t Trial,
    pub contender: Contender,
}

/// Samples of both sides from one process, in nanoseconds per launch.
pub(super) struct Duel {
    pub(super) baseline_ns: Vec<f64>,
    pub(super) candidate_ns: Vec<f64>,
    other_caches: Option<OtherCaches>,
    energy_mj: Option<EnergyPair>,
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
    /// A baseline in Python keeps its process: importing PyTorch anew for every round would take
    /// longer than all the rest.
    pub python: Option<Worker>,
    /// Workers for the next duel.
    pub started: Vec<Starting>,
}

/// One duel among others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Also measure what is shown beside the verdict.
    pub extras: bool,
    pub more_follow: bool,
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
            let seed = self.seed_of(Stream::Playoff, number);
            match self.duel(&candidate.contender, per_round, seed, PLAYOFF)? {
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
        let (mut other_caches, mut energy_mj) = (None, None);
        for round in 0..rounds {
            (self.status)(&format!("confirming: round {} of {rounds}", round + 1));
            let seed = self.seed_of(Stream::Final, round as u64);
            let last = round + 1 == rounds;
            let turn = Turn {
                extras: last,
                more_follow: !last,
            };
            match self.duel(&candidate.contender, per_round, seed, turn)? {
                Ok(duel) => {
                    if let Some(fault) = evaluate::below_floor(self.task, &duel.candidate_ns) {
                        return Ok(Err(Outcome::Wrong(Mismatch {
                            shape: self.task.manifest().target().name.clone(),
                            phase: Phase::Sample,
                            fault,
                        })));
                    }
                    other_caches = other_caches.or(duel.other_caches);
                    energy_mj = energy_mj.or(duel.energy_mj);
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
            other_caches,
            energy_mj,
        }))
    }

    /// What decides the inputs of one duel. Every process of a GPU meets its inputs for the first
    /// time, so there a few sets serve all duels: answers for more would take longer than all
    /// the rest.
    pub(super) fn seed_of(&self, stream: Stream, number: u64) -> u64 {
        const FINAL_SETS: u64 = 2;
        let number = match (self.task.is_cuda(), stream) {
            (false, _) => number,
            (true, Stream::Final) => number % FINAL_SETS,
            (true, _) => 0,
        };
        input::mix(&[self.secret, stream as u64, number])
    }

    /// A worker for a contender; on a GPU perhaps one that was started while others ended.
    fn start(&mut self, contender: &Contender) -> Result<Starting, Failure> {
        let kind = &contender.program.worker;
        let ready = match kind {
            WorkerKind::Cuda { .. } => self.started.pop(),
            _ => None,
        };
        match ready {
            Some(starting) => Ok(starting),
            None => Worker::start(kind).map_err(|end| broken(&end)),
        }
    }

    /// Starts what the next duel needs: on a GPU processes take long to start and to end, and one
    /// can be done while the other is.
    fn start_next(&mut self, candidate: &Contender) -> Result<(), Failure> {
        for contender in [candidate, self.baseline] {
            if matches!(contender.program.worker, WorkerKind::Cuda { .. }) {
                let started = Worker::start(&contender.program.worker);
                self.started.push(started.map_err(|end| broken(&end))?);
            }
        }
        Ok(())
    }

    /// Each side in a fresh process of its own. `Ok(Err(outcome))`: the candidate failed.
    pub(super) fn duel(
        &mut self,
        candidate: &Contender,
        samples: usize,
        seed: u64,
        turn: Turn,
    ) -> Result<Result<Duel, Outcome>, Failure> {
        let mut forgiven = 0;
        loop {
            let python = matches!(self.baseline.program.worker, WorkerKind::Python(_));
            // Both start side by side.
            let challenger = self.start(candidate)?;
            let baseline = match self.python.take() {
                Some(worker) => worker,
                None => {
                    let starting = self.start(self.baseline)?;
                    greet(starting, self.baseline)?
                }
            };
            let mut corners = [
                Corner::new(baseline, self.baseline),
                Corner::new(greet(challenger, candidate)?, candidate),
            ];
            let mut arena = Arena {
                task: self.task,
                oracle: self.oracle,
                seed,
                secret: self.secret,
                extras: turn.extras,
                acting: Side::Baseline,
            };
            let fought = arena.fight(&mut corners, samples);
            let acting = arena.acting;
            let stop = match fought {
                Ok(duel) => {
                    if turn.more_follow {
                        self.start_next(candidate)?;
                    }
                    self.python = dismiss(corners, python);
                    return Ok(Ok(duel));
                }
                Err(stop) => stop,
            };
            if matches!(stop, Stop::Worker(WorkerEnd::Signal(9)))
                && forgiven < OUTSIDE_KILLS_FORGIVEN
            {
                forgiven += 1;
                continue;
            }
            let place = Place {
                phase: Phase::Sample,
                shape: Some(self.task.manifest().target().name.clone()),
            };
            let outcome = place.outcome_of(stop, self.task, &corners[acting as usize].worker)?;
            if acting == Side::Baseline {
                return Err(Failure::new(
                    Exit::No,
                    format!("the baseline failed while confirming: {outcome}"),
                ));
            }
            self.python = dismiss(corners, python);
            return Ok(Err(outcome));
        }
    }
}

/// Ends the workers of a duel side by side, for a GPU's take their time; keeps the baseline's
/// where it is to be used again.
fn dismiss(corners: [Corner<'_>; 2], keep_baseline: bool) -> Option<Worker> {
    let [baseline, candidate] = corners.map(|corner| corner.worker);
    if keep_baseline {
        return Some(baseline);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| drop(baseline));
        drop(candidate);
    });
    None
}

/// One killed from outside before it has done anything is simply replaced.
fn greet(starting: Starting, contender: &Contender) -> Result<Worker, Failure> {
    let worker = match starting.greet() {
        Err(WorkerEnd::Signal(9)) => Worker::spawn(&contender.program.worker),
        greeted => greeted,
    };
    worker.map_err(|end| broken(&end))
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
    let burst = finalists
        .first()
        .map_or(0.0, |c| c.contender.style.burst_nanos());
    (baseline_ns.max(burst) + slowest.max(burst)) / 1e9
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Baseline = 0,
    Candidate = 1,
}

/// One side at work: its process, frozen while the other one runs.
struct Corner<'a> {
    worker: Worker,
    contender: &'a Contender,
    /// What one sample is; known after warming up.
    plan: Option<SamplePlan>,
    samples_ns: Vec<f64>,
    /// The fastest of a few single launches with the caches emptied: on inputs met for the first
    /// time, and on those of the samples.
    fresh_ns: f64,
    known_ns: f64,
    other_caches_ns: Option<f64>,
    energy_mj: Option<f64>,
    /// Inputs whose outputs have been compared.
    found_right: Vec<u64>,
}

/// With the caches emptied, inputs a kernel has met are as far away as new ones. One that is far
/// slower on the new ones keeps answers instead of computing them. Launches too short to be timed
/// singly prove nothing.
fn remembers_inputs(candidate: &Corner<'_>) -> Option<Fault> {
    const SUSPICIOUS: f64 = 2.5;
    // A GPU's events are finer than a host's clock.
    let shortest_judged_ns = if candidate.contender.style.on_gpu {
        5e3
    } else {
        20e3
    };
    let measured = candidate.fresh_ns.is_finite() && candidate.known_ns.is_finite();
    let suspicious = candidate.fresh_ns > SUSPICIOUS * candidate.known_ns;
    (measured && suspicious && candidate.fresh_ns > shortest_judged_ns).then_some(
        Fault::InputsRemembered {
            fresh_ns: candidate.fresh_ns,
            repeated_ns: candidate.known_ns,
        },
    )
}

impl<'a> Corner<'a> {
    fn new(worker: Worker, contender: &'a Contender) -> Corner<'a> {
        Corner {
            worker,
            contender,
            plan: None,
            samples_ns: Vec::new(),
            fresh_ns: f64::INFINITY,
            known_ns: f64::INFINITY,
            other_caches_ns: None,
            energy_mj: None,
            found_right: Vec::new(),
        }
    }
}

struct Arena<'a> {
    task: &'a Task,
    oracle: &'a mut Oracle,
    seed: u64,
    secret: u64,
    /// Also measure what is shown beside the verdict.
    extras: bool,
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
        // Once per candidate will do: it costs new inputs and answers.
        if self.extras {
            self.turn(corners, Side::Candidate, |arena, corner| {
                arena.meet_fresh_inputs(corner, deadline)
            })?;
            for side in [Side::Baseline, Side::Candidate] {
                self.turn(corners, side, |arena, corner| {
                    arena.measure_extras(corner, deadline)
                })?;
            }
        }
        let [baseline, candidate] = corners;
        if let Some(fault) = remembers_inputs(candidate) {
            return Err(Stop::Wrong(fault));
        }
        Ok(Duel {
            baseline_ns: std::mem::take(&mut baseline.samples_ns),
            candidate_ns: std::mem::take(&mut candidate.samples_ns),
            other_caches: baseline.other_caches_ns.zip(candidate.other_caches_ns).map(
                |(baseline_ns, winner_ns)| OtherCaches {
                    caches: other(self.task.manifest().measure.caches),
                    baseline_ns,
                    winner_ns,
                },
            ),
            energy_mj: baseline
                .energy_mj
                .zip(candidate.energy_mj)
                .map(|(baseline, winner)| EnergyPair { baseline, winner }),
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
        // On a GPU the worker's own code is all that runs in it, and it waits for us.
        if self.task.is_cuda() {
            return act(self, corner);
        }
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
        evaluate::load(&mut corner.worker, &corner.contender.program, deadline)?;
        // Answers first: the reference may use the same device.
        for inputs in 0..self.input_sets() {
            self.expected(self.inputs_seed(inputs))?;
        }
        self.prepare(corner, self.inputs_seed(0), deadline)?;
        let poison = input::mix(&[self.seed, 10]);
        let style = corner.contender.style;
        corner.plan = Some(sampling::warm_up(&mut corner.worker, style, poison, deadline)?.0);
        Ok(())
    }

    /// On a GPU samples alternate between inputs at different addresses, so that nothing a launch
    /// keeps about its inputs serves the next one.
    fn input_sets(&self) -> u64 {
        const MOST_BYTES: u64 = 1 << 29;
        let small = self.task.target_bytes().is_some_and(|b| b <= MOST_BYTES);
        if self.task.is_cuda() && small { 2 } else { 1 }
    }

    fn inputs_seed(&self, step: u64) -> u64 {
        match step % self.input_sets() {
            0 => self.seed,
            set => input::mix(&[self.seed, Stream::Inputs as u64, set]),
        }
    }

    fn expected(&mut self, seed: u64) -> Result<Arc<Vec<Expected>>, Failure> {
        let target = self.task.manifest().target();
        self.oracle.expected(self.task, target, seed)
    }

    fn prepare(
        &self,
        corner: &mut Corner<'_>,
        seed: u64,
        deadline: Duration,
    ) -> Result<Problem, Stop> {
        let target = self.task.manifest().target();
        let problem = corner.contender.problem(self.task, target, seed)?;
        corner.worker.prepare(&problem, deadline)?;
        Ok(problem)
    }

    fn fresh_seed(&self, draw: u64) -> u64 {
        let base = match self.task.is_cuda() {
            true => self.secret,
            false => self.seed,
        };
        input::mix(&[base, Stream::Fresh as u64, draw])
    }

    /// Times single launches on the inputs of the samples, and on inputs this process has never
    /// seen, the caches emptied before each.
    fn meet_fresh_inputs(
        &mut self,
        corner: &mut Corner<'_>,
        deadline: Duration,
    ) -> Result<(), Stop> {
        // More than one, because a single launch may be unlucky.
        const LAUNCHES: u64 = 3;
        let style = Style {
            caches: Caches::Cold,
            ..corner.contender.style
        };
        for launch in 0..LAUNCHES {
            // Where they are already, values and addresses.
            self.prepare(corner, self.seed, deadline)?;
            let poison = input::mix(&[self.seed, Stream::Poison as u64, launch]);
            let nanos = sampling::single_launch(&mut corner.worker, style, poison, deadline)?;
            corner.known_ns = corner.known_ns.min(nanos);
        }
        for draw in 0..LAUNCHES {
            let seed = self.fresh_seed(draw);
            let poison = input::mix(&[seed, Stream::Poison as u64]);
            self.expected(seed)?;
            let problem = self.prepare(corner, seed, deadline)?;
            let nanos = sampling::single_launch(&mut corner.worker, style, poison, deadline)?;
            corner.fresh_ns = corner.fresh_ns.min(nanos);
            self.check_outputs(corner, &problem, seed, poison, deadline)?;
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
        let seed = self.inputs_seed(step);
        let poison = input::mix(&[self.seed, 100 + step]);
        let problem = self.prepare(corner, seed, deadline)?;
        let plan = corner.plan.expect("set up before sampling");
        let (nanos, _) = sampling::run_bursts(&mut corner.worker, plan, poison, deadline)?;
        corner.samples_ns.extend(nanos);
        self.check_outputs(corner, &problem, seed, poison, deadline)
    }

    /// Times with the caches in their other state, and the energy of a launch. Shown, not judged.
    fn measure_extras(&mut self, corner: &mut Corner<'_>, deadline: Duration) -> Result<(), Stop> {
        const SAMPLES: u32 = 20;
        if !self.task.is_cuda() {
            return Ok(());
        }
        let style = Style {
            caches: other(corner.contender.style.caches),
            ..corner.contender.style
        };
        self.prepare(corner, self.seed, deadline)?;
        let poison = input::mix(&[self.seed, 11]);
        let worker = &mut corner.worker;
        let (mut plan, _) = sampling::warm_up(worker, style, poison, deadline)?;
        plan.bursts = SAMPLES;
        let (samples, _) = sampling::run_bursts(worker, plan, poison, deadline)?;
        corner.other_caches_ns = Some(stats::median(&samples));
        if self.task.manifest().measure.energy {
            let plan = SamplePlan {
                energy: true,
                ..corner.plan.expect("set up before sampling")
            };
            let (_, conditions) = sampling::run_bursts(worker, plan, poison, deadline)?;
            corner.energy_mj = conditions.and_then(|c| c.energy_mj);
        }
        self.catch_skipping(corner, deadline)
    }

    /// Within a burst all launches but the first find right outputs. Single launches tell whether
    /// that makes a difference: with the caches flushed nothing else does.
    fn catch_skipping(&self, corner: &mut Corner<'_>, deadline: Duration) -> Result<(), Stop> {
        const SAMPLES: u32 = 15;
        /// Below this a difference is noise, above it no honest kernel comes by one.
        const SUSPICIOUS: f64 = 1.3;
        const SUSPICIOUS_NS: f64 = 1e3;
        if self.acting == Side::Baseline {
            return Ok(());
        }
        let mut median = |keep_outputs: bool| {
            let plan = SamplePlan {
                launches: 1,
                bursts: SAMPLES,
                caches: Caches::Cold,
                energy: false,
                keep_outputs,
                ..corner.plan.expect("set up before sampling")
            };
            let poison = input::mix(&[self.seed, 12, u64::from(keep_outputs)]);
            let (samples, _) = sampling::run_bursts(&mut corner.worker, plan, poison, deadline)?;
            Ok::<f64, WorkerEnd>(stats::median(&samples))
        };
        let (poisoned_ns, kept_ns) = (median(false)?, median(true)?);
        if poisoned_ns > SUSPICIOUS * kept_ns + SUSPICIOUS_NS {
            return Err(Stop::Wrong(Fault::WorkSkipped {
                poisoned_ns,
                kept_ns,
            }));
        }
        Ok(())
    }

    fn check_outputs(
        &mut self,
        corner: &mut Corner<'_>,
        problem: &Problem,
        seed: u64,
        poison: u64,
        deadline: Duration,
    ) -> Result<(), Stop> {
        // Bit for bit what was found right before need not travel again.
        let same_will_do = corner.found_right.contains(&seed);
        let answer = corner
            .worker
            .request(&Request::Inspect { same_will_do }, deadline)?;
        if let Some(outputs) = evaluate::inspected(answer)? {
            let expected = self.expected(seed)?;
            evaluate::compare(problem, &expected, &outputs, poison).map_err(Stop::Wrong)?;
            corner.found_right.push(seed);
        }
        Ok(())
    }
}

fn other(caches: Caches) -> Caches {
    match caches {
        Caches::Warm => Caches::Cold,
        Caches::Cold => Caches::Warm,
    }
}
