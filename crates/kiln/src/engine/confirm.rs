//! Is it really faster? Finalists meet the baseline in fresh processes on inputs nobody has seen.
//!
//! First a play-off picks the winner among the finalists, then the winner's claim is measured
//! anew: the published number never comes from the samples that selected it.

mod acceptance;
mod arena;
mod checked;
mod fresh;
pub(super) mod in_python;
pub mod sanitizer;
mod suspicion;

use kiln_core::acceptance::FreshInputs;
use kiln_core::event::{Confirmation, Dropped, EnergyPair, Finalist, OtherCaches, Winner};
use kiln_core::input;
use kiln_core::stats;
use kiln_core::trial::{Mismatch, Outcome, Phase, Trial};
use kiln_core::verdict;

pub(super) use acceptance::depends_on_leftovers;
use arena::{Arena, Corner, Side};
use in_python::Beside;

use super::compile_pool::CompilePool;
use super::evaluate::{self, Contender, Place, Stop};
use super::oracle::Oracle;
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Starting, Worker, WorkerEnd};
use super::{Stream, broken};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::task::Task;

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
    /// How many of them other programs took a core from.
    pub(super) interrupted: usize,
    /// The clocks of baseline and candidate at each sample, where all are known.
    pub(super) clocks_mhz: Option<[Vec<u32>; 2]>,
    other_caches: Option<OtherCaches>,
    energy_mj: Option<EnergyPair>,
    fresh_inputs: Option<FreshInputs>,
}

/// What rounds of duels left.
#[derive(Default)]
struct Fought {
    baseline: Vec<Vec<f64>>,
    candidate: Vec<Vec<f64>>,
    other_caches: Option<OtherCaches>,
    energy_mj: Option<EnergyPair>,
    fresh_inputs: Option<FreshInputs>,
}

impl Fought {
    fn candidate_ns(&self) -> f64 {
        stats::median(&self.candidate.concat())
    }
}

/// The side of a duel that failed, and how.
pub(super) enum Lost {
    Baseline(Outcome),
    Candidate(Outcome),
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
    /// What runs in Python keeps its process for some rounds, baseline and candidate each its own:
    /// importing PyTorch anew for every one would take longer than all the rest.
    pub python: [Option<Starting>; 2],
    /// The pair that takes their place, where both sides run in Python: it imports PyTorch while nothing is timed.
    pub spare: [Option<Starting>; 2],
    /// Workers for the next duel.
    pub started: Vec<Starting>,
    /// Those of the last duel, where the next one is to have them.
    pub kept: Option<[Worker; 2]>,
    /// For what a winner has to be compiled anew for.
    pub pool: Option<&'a CompilePool>,
}

/// One duel among others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Also measure what is shown beside the verdict.
    pub extras: bool,
    pub more_follow: bool,
    /// The next duel may have their processes: images loaded anew, on buffers of their own. Only on
    /// a GPU, where a candidate cannot touch its process.
    pub keep_processes: bool,
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
            let turn = Turn {
                extras: false,
                more_follow: true,
                keep_processes: place + 1 < count,
            };
            match self.duel(&candidate.contender, per_round, seed, turn)? {
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
            match self.crown(&candidate, rounds, per_round)? {
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
        let is_beside =
            |c: &Candidate<'_>| in_python::beside(self.baseline, &c.contender).is_some();
        let (of_its_own, starting) = match finalists.iter().any(is_beside) {
            true => (1, in_python::starting_seconds(rounds)),
            false => (0, 0.0),
        };
        let pairs = (of_its_own + rounds + finalists.len()) as f64;
        starting + pairs * (per_round as f64 * pair_seconds(finalists, self.baseline_ns) + 0.2)
    }

    /// All that stands between a finalist and its victory.
    fn crown(
        &mut self,
        candidate: &Candidate<'_>,
        rounds: usize,
        per_round: usize,
    ) -> Result<Result<Winner, Outcome>, Failure> {
        let contender = &candidate.contender;
        if in_python::beside(self.baseline, contender).is_some()
            && in_python::has_room_to_wait(self.task)
        {
            in_python::start_pair(&mut self.spare, self.baseline)?;
        }
        let plan = sanitizer::Plan::of(self.task, contender, self.secret)?;
        // Neither is timed, so both at once.
        let (inspected, accepted) = std::thread::scope(|scope| {
            let inspecting = scope.spawn(|| plan.carry_out());
            let accepted = self.accept(contender);
            let inspected = inspecting.join();
            let inspected = inspected.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (inspected, accepted)
        });
        let mut acceptance = match accepted? {
            Ok(acceptance) => acceptance,
            Err(outcome) => return Ok(Err(outcome)),
        };
        match inspected? {
            Ok(None) => {}
            Ok(run) => acceptance.sanitizer = run,
            Err(outcome) => return Ok(Err(outcome)),
        }
        let (mut winner, fresh_inputs) = match self.final_rounds(candidate, rounds, per_round)? {
            Ok(found) => found,
            Err(outcome) => return Ok(Err(outcome)),
        };
        acceptance.fresh_inputs = fresh_inputs;
        winner.acceptance = Some(Box::new(acceptance));
        Ok(Ok(winner))
    }

    fn final_rounds(
        &mut self,
        candidate: &Candidate<'_>,
        rounds: usize,
        per_round: usize,
    ) -> Result<Result<(Winner, Option<FreshInputs>), Outcome>, Failure> {
        let margin = self.task.manifest().confirm.margin;
        let contender = &candidate.contender;
        let beside = in_python::beside(self.baseline, contender);
        in_python::settle(&mut self.spare);
        // What a kernel might do to be taken for faster than it is, is looked for in kiln's own process.
        let of_its_own = if beside.is_some() { 1 } else { rounds };
        let mut fought = match self.fight(contender, of_its_own, per_round, true)? {
            Ok(fought) => fought,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let mut alone_ns = None;
        if let Some(beside) = beside {
            let alone = fought.candidate_ns();
            let together = self.fight(&beside, rounds, per_round, false)?;
            match in_python::judged(alone, together, Fought::candidate_ns) {
                Beside::Wrong(outcome) => return Ok(Err(outcome)),
                Beside::Counts(together) => {
                    (fought.baseline, fought.candidate) = (together.baseline, together.candidate);
                    alone_ns = Some(alone);
                }
                Beside::Discounted(why) => {
                    printer::talk(&why);
                    fought = match self.fight(contender, rounds, per_round, true)? {
                        Ok(fought) => fought,
                        Err(outcome) => return Ok(Err(outcome)),
                    };
                }
            }
        }
        let comparison = verdict::compare(&fought.baseline, &fought.candidate, margin, self.secret);
        let winner = Winner {
            trial: candidate.trial.number,
            config: candidate.trial.config.clone(),
            comparison,
            baseline_rounds_ns: fought.baseline,
            winner_rounds_ns: fought.candidate,
            alone_ns,
            other_caches: fought.other_caches,
            energy_mj: fought.energy_mj,
            acceptance: None,
        };
        Ok(Ok((winner, fought.fresh_inputs)))
    }

    /// So many rounds; with the last one what is shown beside the verdict, if it is asked for.
    fn fight(
        &mut self,
        contender: &Contender,
        rounds: usize,
        per_round: usize,
        extras: bool,
    ) -> Result<Result<Fought, Outcome>, Failure> {
        let mut fought = Fought::default();
        for round in 0..rounds {
            // The one round of a kernel's own before those beside the baseline.
            let is_before = rounds == 1 && in_python::beside(self.baseline, contender).is_some();
            (self.status)(&match is_before {
                true => "confirming: in a process of its own".to_string(),
                false => format!("confirming: round {} of {rounds}", round + 1),
            });
            if in_python::begins_anew(contender, round) {
                self.renew_python();
            }
            let seed = self.seed_of(Stream::Final, round as u64);
            let last = round + 1 == rounds;
            let turn = Turn {
                extras: extras && last,
                more_follow: !last,
                keep_processes: false,
            };
            let duel = match self.duel(contender, per_round, seed, turn)? {
                Ok(duel) => duel,
                Err(outcome) => return Ok(Err(outcome)),
            };
            if let Some(fault) = evaluate::below_floor(self.task, &duel.candidate_ns) {
                return Ok(Err(Outcome::Wrong(Mismatch {
                    shape: self.task.manifest().target().name.clone(),
                    phase: Phase::Sample,
                    fault,
                })));
            }
            fought.other_caches = fought.other_caches.or(duel.other_caches);
            fought.energy_mj = fought.energy_mj.or(duel.energy_mj);
            fought.fresh_inputs = fought.fresh_inputs.or(duel.fresh_inputs);
            fought.baseline.push(duel.baseline_ns);
            fought.candidate.push(duel.candidate_ns);
        }
        Ok(Ok(fought))
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
        let ready = match kind.is_interchangeable() {
            true => self.started.pop(),
            false => None,
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
            if contender.program.worker.is_interchangeable() {
                let started = Worker::start(&contender.program.worker);
                self.started.push(started.map_err(|end| broken(&end))?);
            }
        }
        Ok(())
    }

    /// Ends what runs in Python; the pair that waits comes next, if there is one.
    pub(super) fn renew_python(&mut self) {
        let ended = std::mem::replace(&mut self.python, std::mem::take(&mut self.spare));
        std::thread::scope(|scope| {
            for worker in ended {
                scope.spawn(|| drop(worker));
            }
        });
    }

    /// Both start side by side.
    fn start_both(&mut self, candidate: &Contender) -> Result<[Worker; 2], Failure> {
        let [baseline, challenger] =
            [(0, self.baseline), (1, candidate)].map(|(side, contender)| {
                match in_python::is_in(contender) {
                    true => self.python[side].take(),
                    false => None,
                }
            });
        let challenger = match challenger {
            Some(kept) => kept,
            None => self.start(candidate)?,
        };
        let baseline = match baseline {
            Some(kept) => kept,
            None => self.start(self.baseline)?,
        };
        Ok([
            greet(baseline, self.baseline)?,
            greet(challenger, candidate)?,
        ])
    }

    /// A duel for the candidate's sake: nothing goes on without the baseline. `Ok(Err(outcome))`: the candidate failed.
    pub(super) fn duel(
        &mut self,
        candidate: &Contender,
        samples: usize,
        seed: u64,
        turn: Turn,
    ) -> Result<Result<Duel, Outcome>, Failure> {
        match self.duel_of_equals(candidate, samples, seed, turn)? {
            Ok(duel) => Ok(Ok(duel)),
            Err(Lost::Candidate(outcome)) => Ok(Err(outcome)),
            Err(Lost::Baseline(outcome)) => Err(Failure::new(
                Exit::No,
                format!("the baseline failed while confirming: {outcome}"),
            )
            .hint("a baseline has to work each time: mend it, or name another in [baseline]")),
        }
    }

    /// Each side in a fresh process of its own.
    pub(super) fn duel_of_equals(
        &mut self,
        candidate: &Contender,
        samples: usize,
        seed: u64,
        turn: Turn,
    ) -> Result<Result<Duel, Lost>, Failure> {
        let mut forgiven = 0;
        loop {
            let [baseline, challenger] = match self.kept.take() {
                Some(workers) => workers,
                None => self.start_both(candidate)?,
            };
            let mut corners = [
                Corner::new(baseline, self.baseline),
                Corner::new(challenger, candidate),
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
                    if turn.keep_processes && corners.iter_mut().all(Corner::is_sound) {
                        self.kept = Some(corners.map(|corner| corner.worker));
                        return Ok(Ok(duel));
                    }
                    if turn.more_follow {
                        self.start_next(candidate)?;
                    }
                    self.dismiss(corners);
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
                return Ok(Err(Lost::Baseline(outcome)));
            }
            // A candidate that failed has no process to keep.
            let [baseline, candidate] = corners;
            self.dismiss([baseline]);
            drop(candidate);
            return Ok(Err(Lost::Candidate(outcome)));
        }
    }

    /// Ends the workers of a duel side by side, for a GPU's take their time; keeps those in Python.
    fn dismiss<const SIDES: usize>(&mut self, corners: [Corner<'_>; SIDES]) {
        let mut ended = Vec::new();
        for (side, corner) in corners.into_iter().enumerate() {
            match in_python::is_in(corner.contender) {
                true => self.python[side] = Some(Starting::ready(corner.worker)),
                false => ended.push(corner.worker),
            }
        }
        std::thread::scope(|scope| {
            for worker in ended {
                scope.spawn(|| drop(worker));
            }
        });
    }
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
