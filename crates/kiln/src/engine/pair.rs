//! Two programs against each other, by the very code that confirms a winner.

use kiln_core::trial::Outcome;
use kiln_core::verdict::{self, Comparison};

use super::Stream;
use super::confirm::{Confirmer, Turn};
use super::evaluate::Contender;
use super::oracle::Oracle;
use crate::exit::Failure;
use crate::task::Task;

/// How much is measured before two programs are judged.
#[derive(Clone, Copy, Debug)]
pub struct PairPlan {
    /// Fresh processes for each side.
    pub rounds: usize,
    /// Samples of each side in each.
    pub per_round: usize,
    pub margin: f64,
}

/// Compares `candidate` with `baseline`. `Ok(Err(outcome))`: the candidate failed.
pub fn compare(
    task: &Task,
    oracle: &mut Oracle,
    baseline: &Contender,
    candidate: &Contender,
    plan: PairPlan,
    secret: u64,
) -> Result<Result<Comparison, Outcome>, Failure> {
    let mut confirmer = Confirmer {
        task,
        oracle,
        baseline,
        // Only decides how many samples there is time for, which the plan does here.
        baseline_ns: 0.0,
        secret,
        status: &mut |_| {},
        python: Default::default(),
        spare: Default::default(),
        started: Vec::new(),
        kept: None,
        pool: None,
    };
    let (mut baseline_rounds, mut candidate_rounds) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let seed = confirmer.seed_of(Stream::Final, round as u64);
        let turn = Turn {
            extras: false,
            more_follow: round + 1 < plan.rounds,
            keep_processes: false,
        };
        match confirmer.duel(candidate, plan.per_round, seed, turn)? {
            Ok(duel) => {
                baseline_rounds.push(duel.baseline_ns);
                candidate_rounds.push(duel.candidate_ns);
            }
            Err(outcome) => return Ok(Err(outcome)),
        }
    }
    Ok(Ok(verdict::compare(
        &baseline_rounds,
        &candidate_rounds,
        plan.margin,
        secret,
    )))
}
