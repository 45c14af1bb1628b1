//! Simulated annealing: a walk that accepts slower configs too, ever less readily, and begins anew
//! when it no longer moves.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::explorer::{History, Rule};
use super::generator;
use crate::space::Config;

/// A config slower by this factor, as a logarithm, is accepted in one case out of e at first.
const HOT: f64 = 0.3;
/// What a trial leaves of the temperature.
const COOLING: f64 = 0.97;
/// After this many rejections in a row the walk begins anew.
const PATIENCE: usize = 20;
/// A walk that begins anew starts this many steps from the best config so far.
const RESTART_STEPS: usize = 4;

pub(super) struct Annealing {
    seed: u64,
    current: Option<(Config, f64)>,
    temperature: f64,
    rejected: usize,
}

impl Annealing {
    pub(super) fn new(seed: u64) -> Annealing {
        Annealing {
            seed,
            current: None,
            temperature: HOT,
            rejected: 0,
        }
    }
}

impl Rule for Annealing {
    const NAME: &'static str = "annealing";

    fn learn(&mut self, history: &History, config: &Config, time: Option<f64>) {
        self.temperature *= COOLING;
        let accepted = time.filter(|&time| {
            let Some((_, current)) = &self.current else {
                return true;
            };
            // A stream for each trial, far from those of the asks.
            let mut rng = generator(self.seed, (1 << 32) + history.told.len() as u64);
            let slower = time - current;
            slower <= 0.0 || rng.random::<f64>() < (-slower / self.temperature).exp()
        });
        match accepted {
            Some(time) => {
                self.current = Some((config.clone(), time));
                self.rejected = 0;
            }
            None => self.rejected += 1,
        }
        if self.rejected >= PATIENCE {
            *self = Annealing::new(self.seed);
        }
    }

    fn propose(&self, history: &History, rng: &mut ChaCha8Rng) -> Option<Config> {
        match &self.current {
            Some((config, _)) => history
                .fresh_neighbour(config, rng)
                .or_else(|| Some(history.wander(config, 2, rng))),
            None => {
                let (best, _) = history.ranked.first()?;
                Some(history.wander(best, RESTART_STEPS, rng))
            }
        }
    }
}
