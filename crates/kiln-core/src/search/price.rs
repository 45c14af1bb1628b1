//! What candidates should cost in seconds, from what trials did cost.

use std::collections::HashMap;

use super::posterior::{Factor, Panel};
use crate::space::Config;

/// The model of times, given costs instead: what makes configs alike in time makes them nearly
/// alike in what they cost, and this takes no fit of its own.
pub(super) struct Prices {
    whitened: Vec<f64>,
    /// One standard deviation, as a logarithm.
    scale: f64,
}

impl Prices {
    /// `costs` are logarithms of seconds, where known.
    pub(super) fn new(
        factor: &Factor,
        told: &[(Config, Option<f64>)],
        costs: &HashMap<Config, f64>,
    ) -> Prices {
        let known: Vec<Option<f64>> = told
            .iter()
            .map(|(config, _)| costs.get(config).copied())
            .collect();
        let count = known.iter().flatten().count().max(1) as f64;
        let mean = known.iter().flatten().sum::<f64>() / count;
        let squares = known.iter().flatten().map(|cost| (cost - mean).powi(2));
        let scale = (squares.sum::<f64>() / count).sqrt().max(1e-6);
        let standard: Vec<f64> = known
            .iter()
            .map(|cost| cost.map_or(0.0, |cost| (cost - mean) / scale))
            .collect();
        Prices {
            whitened: factor.whiten(&standard),
            scale,
        }
    }

    /// The logarithm of each candidate's price over the usual price.
    pub(super) fn of(&self, panel: &Panel) -> Vec<f64> {
        let means = panel.means(&self.whitened);
        means.iter().map(|m| self.scale * f64::from(*m)).collect()
    }
}
