//! A genetic algorithm without generations: the fastest configs so far are the population, and
//! every ask is one child.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::explorer::{History, Rule};
use crate::space::{Config, shuffle};

const POPULATION: usize = 20;
/// A parent is the fastest of this many drawn from the population.
const TOURNAMENT: usize = 3;
/// How often a child is moved to one of its neighbours.
const MUTATION: f64 = 0.4;

pub(super) struct Genetic;

impl Rule for Genetic {
    const NAME: &'static str = "genetic";

    fn propose(&self, history: &History, rng: &mut ChaCha8Rng) -> Option<Config> {
        let (mother, father) = (parent(history, rng)?, parent(history, rng)?);
        let child = cross(history, mother, father, rng);
        // A child that is its parent's twin is moved in any case.
        let twin = child == *mother || child == *father;
        match twin || rng.random_bool(MUTATION) {
            true => history.fresh_neighbour(&child, rng).or(Some(child)),
            false => Some(child),
        }
    }
}

fn parent<'h>(history: &'h History, rng: &mut ChaCha8Rng) -> Option<&'h Config> {
    let population = history.ranked.len().min(POPULATION);
    if population == 0 {
        return None;
    }
    // The population is sorted, so the lowest place wins the tournament.
    let winner = (0..TOURNAMENT)
        .map(|_| rng.random_range(0..population))
        .min()?;
    Some(&history.ranked[winner].0)
}

/// Each value from either parent. A child that breaks a rule takes the mother's values one after
/// the other until it does not.
fn cross(history: &History, mother: &Config, father: &Config, rng: &mut ChaCha8Rng) -> Config {
    let mut child = mother.clone();
    let mut taken: Vec<usize> = Vec::new();
    for (tunable, &position) in father.0.iter().enumerate() {
        if position != child.0[tunable] && rng.random_bool(0.5) {
            child.0[tunable] = position;
            taken.push(tunable);
        }
    }
    shuffle(&mut taken, rng);
    while !history.space.contains(&child) {
        let Some(tunable) = taken.pop() else { break };
        child.0[tunable] = mother.0[tunable];
    }
    child
}
