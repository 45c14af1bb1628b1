//! Which config to try next. A strategy is asked for configs and told every outcome.
//!
//! Strategies are pure: what they ask follows from the space, the seed and what they were told, so
//! resuming a study is telling a new strategy the stored trials again. Failures are told like
//! measurements; "does not compile" is knowledge. When to stop is not decided here.

use std::collections::HashSet;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

use crate::diagnostic::nearest;
use crate::space::{Config, Space};
use crate::trial::Outcome;
pub use doubt::Doubt;
use explorer::Explorer;

mod annealing;
mod auto;
pub(crate) mod axes;
mod doubt;
mod explorer;
mod feasibility;
mod forest;
pub(crate) mod gaussian;
mod genetic;
mod improvement;
mod lhs;
mod local;
mod order;
mod parzen;
mod posterior;
mod price;
mod prior;
mod target;
#[cfg(test)]
mod tests;
mod tpe;
mod trees;

/// Proposes configs. Deterministic under its seed: the same tells give the same asks.
pub trait Strategy {
    fn name(&self) -> &'static str;

    /// Up to `n` distinct valid configs that were neither asked nor told before; fewer only when
    /// no more are to be had. Asking for four is asking four times for one.
    fn ask(&mut self, n: usize) -> Vec<Config>;

    /// What a trial cost in seconds, from compiling to measuring: said before how it ended, where it
    /// is known. Strategies that do not weigh cost need not listen.
    fn spent(&mut self, _config: &Config, _seconds: f64) {}

    /// How a trial ended. It need not have been asked for: a resumed study tells all it has.
    fn tell(&mut self, config: &Config, outcome: &Outcome);
}

/// Every strategy and what it does, in one line.
pub const STRATEGIES: &[(&str, &str)] = &[
    (
        "auto",
        "learns how much each tunable matters and tries what should gain most (Gaussian process)",
    ),
    (
        "tpe",
        "learns from every trial which values go with fast configs (tree-structured Parzen estimator)",
    ),
    (
        "forest",
        "learns times and failures with randomised trees and tries what should gain most",
    ),
    (
        "genetic",
        "crosses and mutates the fastest configs (genetic algorithm)",
    ),
    (
        "annealing",
        "walks from neighbour to neighbour, at first uphill too (simulated annealing)",
    ),
    (
        "local",
        "takes faster neighbours until there is none, then jumps (iterated local search)",
    ),
    ("random", "uniform over the valid configs, without repeats"),
    (
        "lhs",
        "spreads trials evenly over the values of every tunable (Latin hypercube)",
    ),
    ("exhaustive", "every valid config in index order"),
];

#[derive(Clone, Debug, Error, PartialEq)]
#[error("unknown strategy `{name}`")]
pub struct UnknownStrategy {
    pub name: String,
    pub hint: String,
}

/// What a search begins with.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The size of the Latin hypercube that most strategies begin with. `auto` begins with as many
    /// random configs, but ten at most; `random` and `exhaustive` have no use for it.
    pub seed_trials: usize,
    /// Trials of an earlier study of the same tunables, on another device or shape. `auto` tries the
    /// best of them first and learns how far to believe the rest; the others do not look at it.
    /// Nanoseconds, or `None` for a failure.
    pub earlier: Vec<(Config, Option<f64>)>,
    /// Whether seconds are scarce rather than trials. `auto` then weighs what a trial should gain
    /// against what it should cost, by what it was told with `spent`.
    pub by_time: bool,
    /// Learnt constraints. `auto` takes configs that meet one for improbable; the others do not look at it.
    pub doubts: Vec<Doubt>,
}

/// The strategy of that name, with nothing known beforehand.
pub fn strategy(
    name: &str,
    space: Arc<Space>,
    seed: u64,
    seed_trials: usize,
) -> Result<Box<dyn Strategy + Send>, UnknownStrategy> {
    let setup = Setup {
        seed_trials,
        ..Setup::default()
    };
    strategy_with(name, space, seed, &setup)
}

/// The strategy of that name.
pub fn strategy_with(
    name: &str,
    space: Arc<Space>,
    seed: u64,
    setup: &Setup,
) -> Result<Box<dyn Strategy + Send>, UnknownStrategy> {
    let seed_trials = setup.seed_trials;
    Ok(match name {
        "auto" => Box::new(auto::Auto::new(space, seed, setup)),
        "tpe" => Box::new(tpe::Tpe::new(space, seed, seed_trials)),
        "forest" => {
            let rule = forest::Surrogate::new(&space);
            Box::new(Explorer::new(rule, space, seed, seed_trials))
        }
        "genetic" => Box::new(Explorer::new(genetic::Genetic, space, seed, seed_trials)),
        "annealing" => {
            let rule = annealing::Annealing::new(seed);
            Box::new(Explorer::new(rule, space, seed, seed_trials))
        }
        "local" => {
            let rule = local::Local::default();
            Box::new(Explorer::new(rule, space, seed, seed_trials))
        }
        "random" => Box::new(order::Random::new(space, seed)),
        "lhs" => Box::new(lhs::Lhs::new(space, seed, seed_trials)),
        "exhaustive" => Box::new(order::Exhaustive::new(space, seed)),
        _ => return Err(unknown_strategy(name)),
    })
}

/// That there is no strategy of that name, and which one was meant.
pub fn unknown_strategy(name: &str) -> UnknownStrategy {
    let known = STRATEGIES.iter().map(|(name, _)| *name);
    let hint = match nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.collect::<Vec<_>>().join(", ")),
    };
    UnknownStrategy {
        name: name.to_string(),
        hint,
    }
}

/// Configs that were asked or told.
type Visited = HashSet<Config>;

/// An independent generator for each use: what one use draws does not shift another's numbers.
fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// The logarithm of a trial's time; `None` for a failure, and for a time that is none.
fn log_time(outcome: &Outcome) -> Option<f64> {
    log_of(outcome.median_ns()?)
}

fn log_of(time: f64) -> Option<f64> {
    (time.is_finite() && time > 0.0).then(|| time.ln())
}
