//! Iterated local search: take the first neighbour that is faster; when none is, jump away from the
//! best and descend again.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::explorer::{History, Rule};
use crate::space::Config;

/// How far a jump goes.
const JUMP_STEPS: usize = 3;
/// How often a new descent begins anywhere instead of near the best.
const ANYWHERE: f64 = 0.3;

#[derive(Default)]
pub(super) struct Local {
    /// Where the descent stands.
    current: Option<(Config, f64)>,
}

impl Rule for Local {
    const NAME: &'static str = "local";

    fn learn(&mut self, history: &History, config: &Config, time: Option<f64>) {
        let Some(time) = time else { return };
        let moves = match &self.current {
            None => true,
            Some((_, current)) if time < *current => true,
            // Not a step of this descent, whose neighbours are all visited: the start of another.
            Some((current, _)) => distance(current, config) > 1 && is_done(history, current),
        };
        if moves {
            self.current = Some((config.clone(), time));
        }
    }

    fn propose(&self, history: &History, rng: &mut ChaCha8Rng) -> Option<Config> {
        let (current, _) = self.current.as_ref()?;
        if let Some(config) = history.fresh_neighbour(current, rng) {
            return Some(config);
        }
        let (best, _) = history.ranked.first()?;
        match rng.random_bool(ANYWHERE) {
            true => history.space.sample(rng),
            false => Some(history.wander(best, JUMP_STEPS, rng)),
        }
    }
}

/// In how many tunables two configs differ.
fn distance(a: &Config, b: &Config) -> usize {
    a.0.iter().zip(&*b.0).filter(|(x, y)| x != y).count()
}

fn is_done(history: &History, config: &Config) -> bool {
    let neighbours = history.space.neighbours(config);
    neighbours.iter().all(|c| history.visited.contains(c))
}
