//! Strategies that do not learn: index order, and a random order without repeats.

use std::collections::HashMap;
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Strategy, Visited, generator};
use crate::space::{Config, Space};
use crate::trial::Outcome;

/// In a space that is not enumerated a draw may repeat; after this many in a row beyond what is
/// already visited, the rest is taken to be out of reach.
const FRUITLESS_DRAWS: usize = 1_000;

/// A random permutation of the valid configs, made as it is read.
///
/// Fisher-Yates over indices, keeping only the entries that were swapped: one step costs the same
/// whether the space is fresh or nearly exhausted. The order depends on the seed alone.
pub(super) struct Shuffle {
    space: Arc<Space>,
    rng: ChaCha8Rng,
    next: u128,
    swapped: HashMap<u128, u128>,
}

impl Shuffle {
    pub(super) fn new(space: Arc<Space>, rng: ChaCha8Rng) -> Shuffle {
        Shuffle {
            space,
            rng,
            next: 0,
            swapped: HashMap::new(),
        }
    }

    /// The next config of the permutation that is not visited.
    pub(super) fn next(&mut self, visited: &Visited) -> Option<Config> {
        let Some(count) = self.space.count() else {
            return self.draw(visited);
        };
        while self.next < count {
            let other = self.rng.random_range(self.next..count);
            let here = self.swapped.remove(&self.next).unwrap_or(self.next);
            let index = match other == self.next {
                true => here,
                false => self.swapped.insert(other, here).unwrap_or(other),
            };
            self.next += 1;
            let config = self.space.config(index).filter(|c| !visited.contains(c));
            if config.is_some() {
                return config;
            }
        }
        None
    }

    fn draw(&mut self, visited: &Visited) -> Option<Config> {
        (0..FRUITLESS_DRAWS + visited.len())
            .map_while(|_| self.space.sample(&mut self.rng))
            .find(|config| !visited.contains(config))
    }
}

pub(super) struct Random {
    shuffle: Shuffle,
    visited: Visited,
}

impl Random {
    pub(super) fn new(space: Arc<Space>, seed: u64) -> Random {
        Random {
            shuffle: Shuffle::new(space, generator(seed, 0)),
            visited: Visited::new(),
        }
    }
}

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn ask(&mut self, n: usize) -> Vec<Config> {
        let mut asked = Vec::new();
        while asked.len() < n {
            let Some(config) = self.shuffle.next(&self.visited) else {
                break;
            };
            self.visited.insert(config.clone());
            asked.push(config);
        }
        asked
    }

    fn tell(&mut self, config: &Config, _: &Outcome) {
        self.visited.insert(config.clone());
    }
}

/// Index order. A space that is not enumerated has none, and is drawn from at random instead.
pub(super) struct Exhaustive {
    space: Arc<Space>,
    next: u128,
    visited: Visited,
    unlisted: Shuffle,
}

impl Exhaustive {
    pub(super) fn new(space: Arc<Space>, seed: u64) -> Exhaustive {
        Exhaustive {
            unlisted: Shuffle::new(space.clone(), generator(seed, 0)),
            space,
            next: 0,
            visited: Visited::new(),
        }
    }

    fn next(&mut self) -> Option<Config> {
        if !self.space.is_enumerated() {
            return self.unlisted.next(&self.visited);
        }
        loop {
            let config = self.space.config(self.next)?;
            self.next += 1;
            if !self.visited.contains(&config) {
                return Some(config);
            }
        }
    }
}

impl Strategy for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn ask(&mut self, n: usize) -> Vec<Config> {
        let mut asked = Vec::new();
        while asked.len() < n {
            let Some(config) = self.next() else { break };
            self.visited.insert(config.clone());
            asked.push(config);
        }
        asked
    }

    fn tell(&mut self, config: &Config, _: &Outcome) {
        self.visited.insert(config.clone());
    }
}
