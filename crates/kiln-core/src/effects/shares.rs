//! How much of the differences in time each tunable accounts for, over the configs there are.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::model::Model;
use super::{Observations, Varied};
use crate::space::{BuildLimits, Config, Space};

/// Configs looked at, each with all that differ from it in one tunable.
const REFERENCES: usize = 300;
/// Draws that may meet values nobody measured.
const MOST_DRAWS: usize = 20 * REFERENCES;

/// By tunable of the model: the part of the variance that is left when all others are kept as they are. `None`
/// where no config could be drawn.
///
/// Changing one tunable at a time is what a reader would do, and constraints are kept: a combination that does
/// not exist says nothing.
pub(super) fn shares(
    observations: &Observations,
    varied: &Varied,
    model: &Model<'_>,
) -> Option<Vec<f64>> {
    let all;
    let space = match &observations.space {
        Some(space) => space.as_ref(),
        None => {
            let tunables = observations.tunables.clone();
            all = Space::build(tunables, Vec::new(), Vec::new(), BuildLimits::default()).ok()?;
            &all
        }
    };
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut expected = Vec::with_capacity(REFERENCES);
    let mut within = vec![0.0; varied.tunables.len()];
    for _ in 0..MOST_DRAWS {
        if expected.len() == REFERENCES {
            break;
        }
        let config = space.sample(&mut rng)?;
        let Some(here) = varied.place(&config) else {
            continue;
        };
        let own = model.expected(&here);
        expected.push(own);
        let mut sides = vec![Spread::with(own); varied.tunables.len()];
        for neighbour in space.neighbours(&config) {
            let Some(there) = varied.place(&neighbour) else {
                continue;
            };
            let changed = (0..here.len()).find(|&t| here[t] != there[t]);
            if let Some(t) = changed {
                sides[t].add(model.expected(&there));
            }
        }
        for (sum, side) in within.iter_mut().zip(&sides) {
            *sum += side.variance();
        }
    }
    let mut whole = Spread::default();
    expected.iter().for_each(|value| whole.add(*value));
    let variance = whole.variance() * expected.len() as f64;
    let part = |sum: f64| match variance > 0.0 {
        true => (sum / variance).min(1.0),
        false => 0.0,
    };
    (expected.len() > 1).then(|| within.into_iter().map(part).collect())
}

impl Varied {
    /// By tunable of the model; `None` for a config with a value nobody measured.
    fn place(&self, config: &Config) -> Option<Vec<usize>> {
        let place = |(tunable, positions): (&usize, &Vec<usize>)| {
            positions
                .binary_search(&usize::from(config.0[*tunable]))
                .ok()
        };
        self.tunables
            .iter()
            .zip(&self.positions)
            .map(place)
            .collect()
    }
}

#[derive(Clone, Copy, Default)]
struct Spread {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Spread {
    fn with(value: f64) -> Spread {
        let mut spread = Spread::default();
        spread.add(value);
        spread
    }

    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn variance(&self) -> f64 {
        (self.squares / self.count - (self.sum / self.count).powi(2)).max(0.0)
    }
}
