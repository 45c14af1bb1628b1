//! Latin hypercube after Latin hypercube.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::{Strategy, Visited, generator};
use crate::space::{Config, Space};
use crate::trial::Outcome;

pub(super) struct Lhs {
    space: Arc<Space>,
    seed: u64,
    batch_size: usize,
    batches: u64,
    queue: VecDeque<Config>,
    /// What the batches so far held. A new batch avoids these and not what was told, so that a
    /// resumed study makes the same batches.
    designed: HashSet<Config>,
    visited: Visited,
}

impl Lhs {
    pub(super) fn new(space: Arc<Space>, seed: u64, batch_size: usize) -> Lhs {
        Lhs {
            space,
            seed,
            batch_size: batch_size.max(1),
            batches: 0,
            queue: VecDeque::new(),
            designed: HashSet::new(),
            visited: Visited::new(),
        }
    }

    fn next(&mut self) -> Option<Config> {
        loop {
            match self.queue.pop_front() {
                Some(config) if !self.visited.contains(&config) => return Some(config),
                Some(_) => {}
                None => {
                    let mut rng = generator(self.seed, self.batches);
                    let used = |config: &Config| self.designed.contains(config);
                    let batch = self.space.spread(self.batch_size, &mut rng, &used);
                    if batch.is_empty() {
                        return None;
                    }
                    self.batches += 1;
                    self.designed.extend(batch.iter().cloned());
                    self.queue.extend(batch);
                }
            }
        }
    }
}

impl Strategy for Lhs {
    fn name(&self) -> &'static str {
        "lhs"
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
