//! Bayesian optimisation over a forest: expected improvement times the chance to work.

use rand_chacha::ChaCha8Rng;

use super::axes::Axes;
use super::explorer::{History, Rule};
use super::improvement::log_expected_improvement;
use super::target::Targets;
use super::trees::{Forest, Sample};
use crate::space::{Config, Space, shuffle};

const BEST_TO_VARY: usize = 5;
const MAX_NEIGHBOURS: usize = 200;
const RANDOM_CANDIDATES: usize = 200;
/// Doubt that is left where all trees agree: they saw the same few trials.
const LEAST_DEVIATION: f64 = 0.05;

pub(super) struct Surrogate {
    axes: Axes,
    ordered: Vec<bool>,
}

impl Surrogate {
    pub(super) fn new(space: &Space) -> Surrogate {
        let axes = Axes::new(space);
        Surrogate {
            ordered: axes.iter().map(|axis| axis.ordered).collect(),
            axes,
        }
    }

    fn candidates(&self, history: &History, rng: &mut ChaCha8Rng) -> Vec<Config> {
        let mut found = Vec::new();
        for (config, _) in history.ranked.iter().take(BEST_TO_VARY) {
            found.extend(history.space.neighbours(config));
        }
        shuffle(&mut found, rng);
        found.truncate(MAX_NEIGHBOURS);
        found.extend((0..RANDOM_CANDIDATES).filter_map(|_| history.space.sample(rng)));
        found.retain(|config| !history.visited.contains(config));
        found
    }
}

impl Rule for Surrogate {
    const NAME: &'static str = "forest";

    fn propose(&self, history: &History, rng: &mut ChaCha8Rng) -> Option<Config> {
        if history.ranked.is_empty() {
            return None;
        }
        let times: Vec<Option<f64>> = history.told.iter().map(|(_, time)| *time).collect();
        let targets = Targets::new(&times);
        let told = history.told.iter().zip(&targets.values);
        let mut samples: Vec<Sample> = told
            .map(|((config, time), target)| Sample {
                point: self.axes.place(config),
                target: time.map(|_| *target),
            })
            .collect();
        // Taken for average until told, so that the rest of a batch looks elsewhere.
        samples.extend(history.pending.iter().map(|config| Sample {
            point: self.axes.place(config),
            target: Some(0.0),
        }));
        let forest = Forest::grow(&samples, &self.ordered, rng);
        let mut best: Option<(f64, Config)> = None;
        for config in self.candidates(history, rng) {
            let expected = forest.predict(&self.axes.place(&config));
            let deviation = expected.deviation.max(LEAST_DEVIATION);
            let gain = log_expected_improvement(targets.best, expected.mean, deviation);
            let score = gain + expected.works.ln();
            if best.as_ref().is_none_or(|(high, _)| score > *high) {
                best = Some((score, config));
            }
        }
        best.map(|(_, config)| config)
    }
}
