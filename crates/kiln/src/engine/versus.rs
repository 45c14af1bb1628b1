//! Two programs against each other until it is decided, by the very code that confirms a winner.
//!
//! Rounds of fresh processes (on a GPU two rounds share a pair, each with buffers of its own) go on to the next look that was planned; each look has its share of
//! the error (`kiln_core::verdict::sequential`), so that looking again does not find what is not there.

use std::time::{Duration, Instant};

use kiln_core::stats;
use kiln_core::trial::Outcome;
use kiln_core::verdict::Verdict;
use kiln_core::verdict::sequential::{Design, Look, Rounds};

use super::Stream;
use super::confirm::in_python::{self, Beside};
use super::confirm::{Confirmer, Duel, Lost, Turn};
use super::evaluate::Contender;
use super::oracle::Oracle;
use super::sampling::Style;
use super::standby::Standby;
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::task::Task;

/// Fewer samples per process cannot tell anything.
const LEAST_PER_ROUND: usize = 5;
const MOST_PER_ROUND: usize = 20;

/// Rounds after which the samples are looked at. A GPU's processes differ less from each other.
const LOOKS_CPU: [usize; 4] = [3, 6, 12, 24];
const LOOKS_GPU: [usize; 4] = [2, 4, 8, 16];

/// Everything that is fixed before the first sample.
#[derive(Clone, Debug)]
pub struct Plan {
    pub design: Design,
    /// Rounds at each look, ascending.
    pub looks: Vec<usize>,
    /// Samples of each side in each round.
    pub per_round: usize,
    /// No further round is begun after this long.
    pub patience: Duration,
    /// Also look for kernels that remember inputs or skip work.
    pub catch_cheats: bool,
}

/// What counts as a difference, among how many shapes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub margin: f64,
    pub shapes: usize,
}

/// What the user is willing to spend on one shape.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub seconds: f64,
    /// Of each side.
    pub samples: Option<u64>,
}

impl Plan {
    /// `pair_ns` is what one launch of each side takes together.
    pub fn new(style: Style, limits: Limits, budget: Budget, pair_ns: f64) -> Plan {
        let looks = if style.on_gpu { LOOKS_GPU } else { LOOKS_CPU };
        Plan::on(looks, style.burst_nanos(), limits, budget, pair_ns)
    }

    fn on(all: [usize; 4], burst_ns: f64, limits: Limits, budget: Budget, pair_ns: f64) -> Plan {
        // All looks should fit into the time, and two of them into the samples: the first calls no
        // difference.
        let last = all[all.len() - 1] as f64;
        let pair_seconds = pair_ns.max(2.0 * burst_ns) / 1e9;
        let affordable = budget.seconds / (last * pair_seconds);
        let fit_first_look = budget.seconds / (all[0] as f64 * pair_seconds);
        let asked = budget.samples.map_or(usize::MAX, |n| n as usize / all[1]);
        let per_round = (affordable as usize)
            .clamp(LEAST_PER_ROUND, MOST_PER_ROUND)
            .min(fit_first_look as usize)
            .min(asked)
            .max(2);
        let most_rounds = budget
            .samples
            .map_or(usize::MAX, |n| (n as usize / per_round).max(all[1]));
        let looks: Vec<usize> = all.into_iter().filter(|r| *r <= most_rounds).collect();
        Plan {
            design: Design {
                margin: limits.margin,
                looks: looks.len(),
                shapes: limits.shapes,
            },
            looks,
            per_round,
            patience: Duration::from_secs_f64(budget.seconds),
            catch_cheats: true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Decided,
    AllLooks,
    OutOfTime,
}

pub struct Judged {
    pub look: Look,
    pub times: Rounds,
    pub rounds: usize,
    /// Samples that other programs took a core from, of all.
    pub interrupted: f64,
    pub looks: usize,
    pub ended: Ended,
}

impl Judged {
    /// The budget ended at the first look, which may call two sides the same, but not different.
    pub fn had_too_few_rounds(&self) -> bool {
        self.ended == Ended::OutOfTime && self.looks == 1
    }
}

/// The sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    A,
    B,
}

/// A side that gives no right answer, and how it ended.
pub struct Fallen {
    pub side: Side,
    pub outcome: Outcome,
}

impl Fallen {
    pub fn new(side: Side, outcome: Outcome) -> Fallen {
        Fallen { side, outcome }
    }
}

pub struct Match<'a> {
    pub task: &'a Task,
    pub oracle: &'a mut Oracle,
    pub baseline: &'a Contender,
    pub candidate: &'a Contender,
    pub secret: u64,
    pub status: &'a mut dyn FnMut(&str),
}

/// Measures until decided, or until the last look or the end of the budget. Processes on standby
/// serve this comparison, and those it leaves the next.
pub fn judge(
    sides: Match<'_>,
    plan: &Plan,
    standby: &mut Standby,
) -> Result<Result<Judged, Fallen>, Failure> {
    let mut quiet = |_: &str| {};
    let mut confirmer = Confirmer {
        task: sides.task,
        oracle: sides.oracle,
        baseline: sides.baseline,
        // Only decides how many samples there is time for, which the plan does here.
        baseline_ns: 0.0,
        secret: sides.secret,
        status: &mut quiet,
        python: std::mem::take(&mut standby.both),
        spare: std::mem::take(&mut standby.spare),
        started: std::mem::take(&mut standby.fresh),
        kept: None,
        pool: None,
    };
    in_python::settle(&mut confirmer.spare);
    let mut rounds = Looking {
        confirmer: &mut confirmer,
        plan,
        status: sides.status,
    };
    let judged = match in_python::beside(sides.baseline, sides.candidate) {
        None => rounds.look(sides.candidate, plan.catch_cheats),
        Some(beside) => rounds.beside(sides.candidate, &beside),
    };
    standby.fresh = std::mem::take(&mut confirmer.started);
    standby.spare = std::mem::take(&mut confirmer.spare);
    judged
}

/// A comparison under way.
struct Looking<'a, 'c> {
    confirmer: &'a mut Confirmer<'c>,
    plan: &'a Plan,
    status: &'a mut dyn FnMut(&str),
}

impl Looking<'_, '_> {
    /// The candidate in a process like the baseline's, once nothing was found against it in kiln's own.
    fn beside(
        &mut self,
        candidate: &Contender,
        beside: &Contender,
    ) -> Result<Result<Judged, Fallen>, Failure> {
        let alone = match self.round(candidate, 0, self.plan.catch_cheats)? {
            Ok(duel) => stats::median(&duel.candidate_ns),
            Err(fallen) => return Ok(Err(fallen)),
        };
        let judged = match self.look(beside, false)? {
            Err(fallen) if fallen.side == Side::A => return Ok(Err(fallen)),
            judged => judged.map_err(|fallen| fallen.outcome),
        };
        let candidate_ns = |judged: &Judged| judged.look.comparison.candidate_ns;
        match in_python::judged(alone, judged, candidate_ns) {
            Beside::Counts(judged) => Ok(Ok(judged)),
            Beside::Wrong(outcome) => Ok(Err(Fallen::new(Side::B, outcome))),
            Beside::Discounted(why) => {
                printer::talk(&why);
                self.look(candidate, self.plan.catch_cheats)
            }
        }
    }

    fn round(
        &mut self,
        candidate: &Contender,
        round: usize,
        extras: bool,
    ) -> Result<Result<Duel, Fallen>, Failure> {
        if in_python::begins_anew(candidate, round) {
            self.confirmer.renew_python();
        }
        let turn = Turn {
            extras,
            more_follow: true,
            // On a GPU starting processes takes longer than all the rest, and where buffers lie
            // matters, not which process has them: two rounds share a pair of them.
            keep_processes: self.confirmer.task.is_cuda() && round.is_multiple_of(2),
        };
        let seed = self.confirmer.seed_of(Stream::Final, round as u64);
        let fought = self
            .confirmer
            .duel_of_equals(candidate, self.plan.per_round, seed, turn)?;
        Ok(fought.map_err(|lost| match lost {
            Lost::Baseline(outcome) => Fallen::new(Side::A, outcome),
            Lost::Candidate(outcome) => Fallen::new(Side::B, outcome),
        }))
    }

    fn look(
        &mut self,
        candidate: &Contender,
        catch_cheats: bool,
    ) -> Result<Result<Judged, Fallen>, Failure> {
        let plan = self.plan;
        let began = Instant::now();
        let mut times = Rounds::default();
        let mut cycles = Some(Rounds::default());
        let last = plan.looks.last().copied().unwrap_or(1);
        let (mut round, mut interrupted, mut samples) = (0, 0, 0);
        for (index, until) in plan.looks.iter().enumerate() {
            let mut out_of_time = false;
            while round < *until && !out_of_time {
                (self.status)(&format!("round {} of {last} at most", round + 1));
                let duel = match self.round(candidate, round, catch_cheats && round == 0)? {
                    Ok(duel) => duel,
                    Err(fallen) => return Ok(Err(fallen)),
                };
                round += 1;
                interrupted += duel.interrupted;
                samples += duel.baseline_ns.len() + duel.candidate_ns.len();
                cycles = cycles
                    .zip(duel.clocks_mhz.as_ref())
                    .map(|(so_far, clocks)| {
                        with_cycles(so_far, clocks, &duel.baseline_ns, &duel.candidate_ns)
                    });
                times.baseline.push(duel.baseline_ns);
                times.candidate.push(duel.candidate_ns);
                out_of_time = began.elapsed() >= plan.patience && round >= plan.looks[0];
            }
            // The first look has too few rounds to call a difference.
            let look = plan
                .design
                .look(&times, cycles.as_ref(), index > 0, self.confirmer.secret);
            let decided = look.verdict != Verdict::Undecided;
            let is_last = index + 1 == plan.looks.len();
            let ended = match (decided, is_last, out_of_time) {
                (true, _, _) => Ended::Decided,
                (false, true, _) => Ended::AllLooks,
                (false, false, true) => Ended::OutOfTime,
                (false, false, false) => continue,
            };
            return Ok(Ok(Judged {
                look,
                times,
                rounds: round,
                interrupted: interrupted as f64 / samples.max(1) as f64,
                looks: index + 1,
                ended,
            }));
        }
        Err(Failure::new(
            Exit::Bug,
            "a comparison was planned without a look",
        ))
    }
}

/// Cycles of a launch: nanoseconds by the clock while it ran.
fn with_cycles(
    mut so_far: Rounds,
    clocks_mhz: &[Vec<u32>; 2],
    baseline_ns: &[f64],
    candidate_ns: &[f64],
) -> Rounds {
    let cycles = |ns: &[f64], mhz: &[u32]| -> Vec<f64> {
        let pairs = ns.iter().zip(mhz);
        pairs.map(|(ns, mhz)| ns * f64::from(*mhz) / 1e3).collect()
    };
    so_far.baseline.push(cycles(baseline_ns, &clocks_mhz[0]));
    so_far.candidate.push(cycles(candidate_ns, &clocks_mhz[1]));
    so_far
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seconds: f64, samples: Option<u64>, pair_ns: f64) -> Plan {
        let budget = Budget { seconds, samples };
        Plan::on(
            LOOKS_CPU,
            1e6,
            Limits {
                margin: 0.03,
                shapes: 1,
            },
            budget,
            pair_ns,
        )
    }

    #[test]
    fn a_budget_decides_samples_and_looks() {
        let usual = plan(60.0, None, 100e3);
        assert_eq!((usual.per_round, usual.looks.len()), (20, 4));
        let slow = plan(60.0, None, 500e6);
        assert_eq!(slow.per_round, 5);
        let very_slow = plan(60.0, None, 10e9);
        assert_eq!(very_slow.per_round, 2, "the first look is always reached");
        let few = plan(60.0, Some(12), 100e3);
        assert_eq!((few.per_round, few.looks), (2, vec![3, 6]));
        let some = plan(60.0, Some(120), 100e3);
        assert_eq!((some.per_round, some.looks), (20, vec![3, 6]));
        assert_eq!(some.design.looks, 2);
    }

    #[test]
    fn cycles_are_time_by_clock() {
        let clocks = [vec![1000, 2000], vec![500, 1000]];
        let cycles = with_cycles(Rounds::default(), &clocks, &[10.0, 10.0], &[8.0, 8.0]);
        assert_eq!(cycles.baseline, [vec![10.0, 20.0]]);
        assert_eq!(cycles.candidate, [vec![4.0, 8.0]]);
    }
}
