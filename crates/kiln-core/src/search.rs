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

mod lhs;
mod order;
mod parzen;
#[cfg(test)]
mod tests;
mod tpe;

/// Proposes configs. Deterministic under its seed: the same tells give the same asks.
pub trait Strategy {
    fn name(&self) -> &'static str;

    /// Up to `n` distinct valid configs that were neither asked nor told before; fewer only when
    /// no more are to be had. Asking for four is asking four times for one.
    fn ask(&mut self, n: usize) -> Vec<Config>;

    /// How a trial ended. It need not have been asked for: a resumed study tells all it has.
    fn tell(&mut self, config: &Config, outcome: &Outcome);
}

/// Every strategy and what it does, in one line.
pub const STRATEGIES: &[(&str, &str)] = &[
    (
        "tpe",
        "learns from every trial which values go with fast configs (tree-structured Parzen estimator)",
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

/// The strategy of that name. `seed_trials` is the size of the Latin hypercube that `lhs` and
/// `tpe` begin with.
pub fn strategy(
    name: &str,
    space: Arc<Space>,
    seed: u64,
    seed_trials: usize,
) -> Result<Box<dyn Strategy + Send>, UnknownStrategy> {
    Ok(match name {
        "tpe" => Box::new(tpe::Tpe::new(space, seed, seed_trials)),
        "random" => Box::new(order::Random::new(space, seed)),
        "lhs" => Box::new(lhs::Lhs::new(space, seed, seed_trials)),
        "exhaustive" => Box::new(order::Exhaustive::new(space, seed)),
        _ => {
            let known = STRATEGIES.iter().map(|(name, _)| *name);
            let hint = match nearest(name, known.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {}", known.collect::<Vec<_>>().join(", ")),
            };
            return Err(UnknownStrategy {
                name: name.to_string(),
                hint,
            });
        }
    })
}

/// Configs that were asked or told.
type Visited = HashSet<Config>;

/// An independent generator for each use: what one use draws does not shift another's numbers.
fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}
