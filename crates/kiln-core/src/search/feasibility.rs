//! Whether candidates should work, from which trials did.

use super::posterior::{Factor, Panel};
use crate::space::Config;

/// However alike it is to failures, a candidate may work: no estimate from few trials is sure.
const LEAST: f64 = 0.03;

/// The model of times, given what worked instead.
pub(super) struct Feasibility {
    whitened: Vec<f64>,
    /// The part that works where nothing like a candidate was tried.
    share: f64,
}

impl Feasibility {
    /// `None` while nothing has failed.
    pub(super) fn new(factor: &Factor, told: &[(Config, Option<f64>)]) -> Option<Feasibility> {
        let worked = told.iter().filter(|(_, time)| time.is_some()).count();
        if worked == told.len() {
            return None;
        }
        let share = (worked as f64 + 1.0) / (told.len() as f64 + 2.0);
        let works = |time: &Option<f64>| f64::from(u8::from(time.is_some()));
        let unforeseen: Vec<f64> = told.iter().map(|(_, t)| works(t) - share).collect();
        Some(Feasibility {
            whitened: factor.whiten(&unforeseen),
            share,
        })
    }

    /// The logarithm of each candidate's chance to work.
    pub(super) fn of(&self, panel: &Panel) -> Vec<f64> {
        let means = panel.means(&self.whitened);
        let chance = |mean: &f32| (self.share + f64::from(*mean)).clamp(LEAST, 1.0).ln();
        means.iter().map(chance).collect()
    }
}
