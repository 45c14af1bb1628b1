//! What strategies that walk the space have in common: memory, a design to begin with, and a way
//! out when they are stuck.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::order::Shuffle;
use super::{Strategy, Visited, generator, log_time};
use crate::space::{Config, Space};
use crate::trial::Outcome;

/// How often a rule may propose something visited before chance takes over.
const ATTEMPTS: usize = 32;

/// All that is known. Times are logarithms of nanoseconds; a failure has none.
pub(super) struct History {
    pub(super) space: Arc<Space>,
    pub(super) told: Vec<(Config, Option<f64>)>,
    /// Measured trials, fastest first; equals in the order told.
    pub(super) ranked: Vec<(Config, f64)>,
    pub(super) pending: Vec<Config>,
    pub(super) visited: Visited,
}

impl History {
    /// A random neighbour that was not visited.
    pub(super) fn fresh_neighbour(&self, of: &Config, rng: &mut ChaCha8Rng) -> Option<Config> {
        let mut neighbours = self.space.neighbours(of);
        neighbours.retain(|config| !self.visited.contains(config));
        match neighbours.len() {
            0 => None,
            n => Some(neighbours.swap_remove(rng.random_range(0..n))),
        }
    }

    /// A few random steps away from a config.
    pub(super) fn wander(&self, from: &Config, steps: usize, rng: &mut ChaCha8Rng) -> Config {
        let mut config = from.clone();
        for _ in 0..steps {
            let mut neighbours = self.space.neighbours(&config);
            if neighbours.is_empty() {
                break;
            }
            let step = rng.random_range(0..neighbours.len());
            config = neighbours.swap_remove(step);
        }
        config
    }
}

/// How one strategy moves. What it proposes may depend on the history, on what it made of each
/// trial told, and on the generator, which is new for every ask; never on earlier proposals.
pub(super) trait Rule {
    const NAME: &'static str;

    /// Called once for each trial, after it entered the history.
    fn learn(&mut self, _history: &History, _config: &Config, _time: Option<f64>) {}

    /// A config worth trying. One that was visited is not used.
    fn propose(&self, history: &History, rng: &mut ChaCha8Rng) -> Option<Config>;
}

pub(super) struct Explorer<R> {
    rule: R,
    history: History,
    seed: u64,
    design: VecDeque<Config>,
    rest: Shuffle,
}

impl<R: Rule> Explorer<R> {
    pub(super) fn new(rule: R, space: Arc<Space>, seed: u64, design: usize) -> Explorer<R> {
        Explorer {
            rule,
            design: space
                .latin_hypercube(design, &mut generator(seed, 0))
                .into(),
            rest: Shuffle::new(space.clone(), generator(seed, u64::MAX)),
            history: History {
                space,
                told: Vec::new(),
                ranked: Vec::new(),
                pending: Vec::new(),
                visited: Visited::new(),
            },
            seed,
        }
    }

    fn next(&mut self) -> Option<Config> {
        while let Some(config) = self.design.pop_front() {
            if !self.history.visited.contains(&config) {
                return Some(config);
            }
        }
        // One stream for each ask: a resumed study has visited as many and draws the same.
        let mut rng = generator(self.seed, 1 + self.history.visited.len() as u64);
        for _ in 0..ATTEMPTS {
            let Some(config) = self.rule.propose(&self.history, &mut rng) else {
                break;
            };
            if !self.history.visited.contains(&config) {
                return Some(config);
            }
        }
        self.rest.next(&self.history.visited)
    }
}

impl<R: Rule> Strategy for Explorer<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn ask(&mut self, n: usize) -> Vec<Config> {
        let mut asked = Vec::new();
        while asked.len() < n {
            let Some(config) = self.next() else { break };
            self.history.visited.insert(config.clone());
            self.history.pending.push(config.clone());
            asked.push(config);
        }
        asked
    }

    fn tell(&mut self, config: &Config, outcome: &Outcome) {
        let time = log_time(outcome);
        let history = &mut self.history;
        history.visited.insert(config.clone());
        history.pending.retain(|c| c != config);
        history.told.push((config.clone(), time));
        if let Some(time) = time {
            let place = history.ranked.partition_point(|(_, t)| *t <= time);
            history.ranked.insert(place, (config.clone(), time));
        }
        self.rule.learn(&self.history, config, time);
    }
}
