//! What an earlier study of the same space, on another device or shape, lets one expect.
//!
//! Which configs are fast carries over far better than how fast they are. So the earlier trials
//! give a shape, a model of their own targets, and the trials of this study say how much of that
//! shape to believe: the share that predicts them best. A misleading study is soon not believed.

use super::axes::Axes;
use super::gaussian::Kernel;
use super::posterior::{Factor, likenesses_to};
use super::target::Targets;
use crate::space::Config;

const FIT_STEPS: usize = 20;
/// With fewer measured trials there is nothing to carry over.
const LEAST_MEASURED: usize = 5;
/// The share believed before any trial, and how many trials that belief weighs.
const BELIEF: f64 = 0.8;
const BELIEF_TRIALS: f64 = 4.0;
/// However well the earlier study predicts, this much of the spread is left to learn.
const LEAST_SPREAD: f64 = 0.25;

pub(super) struct Prior {
    kernel: Kernel,
    points: Vec<Vec<f32>>,
    /// How much each earlier trial moves what is expected of configs like it.
    pulls: Vec<f64>,
    /// The earlier configs, fastest first.
    pub(super) fastest: Vec<Config>,
}

/// How the earlier study bears on this one: `offset + share * expected`.
pub(super) struct Trust {
    pub(super) offset: f64,
    pub(super) share: f64,
    /// The standard deviation of what it leaves unexplained.
    pub(super) spread: f64,
}

impl Prior {
    pub(super) fn new(axes: &Axes, earlier: &[(Config, Option<f64>)]) -> Option<Prior> {
        let mut ranked: Vec<(f64, &Config)> = earlier
            .iter()
            .filter_map(|(config, time)| Some(((*time)?, config)))
            .collect();
        if ranked.len() < LEAST_MEASURED {
            return None;
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let times: Vec<Option<f64>> = earlier.iter().map(|(_, time)| *time).collect();
        let targets = Targets::new(&times).values;
        let points: Vec<Vec<f32>> = earlier
            .iter()
            .map(|(config, _)| axes.place(config))
            .collect();
        let mut kernel = Kernel::new(axes.iter().map(|axis| axis.ordered).collect());
        kernel.fit(&points, &targets, FIT_STEPS);
        let mut factor = Factor::default();
        for point in &points {
            factor.push(&kernel, point.clone());
        }
        Some(Prior {
            pulls: factor.solve(&targets),
            fastest: ranked
                .into_iter()
                .map(|(_, config)| config.clone())
                .collect(),
            kernel,
            points,
        })
    }

    /// What the earlier study lets expect at each point.
    pub(super) fn expect(&self, points: &[Vec<f32>]) -> Vec<f64> {
        let mut expected = vec![0.0; points.len()];
        for (trial, pull) in self.points.iter().zip(&self.pulls) {
            let likenesses = likenesses_to(&self.kernel, points, trial);
            for (sum, likeness) in expected.iter_mut().zip(likenesses) {
                *sum += pull * f64::from(likeness);
            }
        }
        expected
    }
}

impl Trust {
    /// No earlier study: the targets are all there is.
    pub(super) const NONE: Trust = Trust {
        offset: 0.0,
        share: 0.0,
        spread: 1.0,
    };

    /// From what was expected of this study's trials and what came.
    pub(super) fn new(expected: &[f64], targets: &[f64]) -> Trust {
        let count = expected.len().max(1) as f64;
        let centre = expected.iter().sum::<f64>() / count;
        let level = targets.iter().sum::<f64>() / count;
        let (mut product, mut square) = (BELIEF * BELIEF_TRIALS, BELIEF_TRIALS);
        for (e, t) in expected.iter().zip(targets) {
            product += (e - centre) * (t - level);
            square += (e - centre).powi(2);
        }
        let share = (product / square).max(0.0);
        let offset = level - share * centre;
        let left = expected.iter().zip(targets);
        let variance = left
            .map(|(e, t)| (t - offset - share * e).powi(2))
            .sum::<f64>()
            / count;
        Trust {
            offset,
            share,
            spread: variance.sqrt().clamp(LEAST_SPREAD, 1.0),
        }
    }

    /// What is left of a target, in units of the spread.
    pub(super) fn residual(&self, target: f64, expected: f64) -> f64 {
        (target - self.offset - self.share * expected) / self.spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_that_predicts_well_is_believed() {
        let targets: Vec<f64> = (0..40).map(|i| f64::from(i % 7) / 2.0 - 1.5).collect();
        let expected: Vec<f64> = targets.iter().map(|t| 0.5 * t + 3.0).collect();
        let trust = Trust::new(&expected, &targets);
        assert!(trust.share > 1.3, "{}", trust.share);
        assert!(trust.spread < 0.5);
        let rest = targets.iter().zip(&expected);
        assert!(
            rest.map(|(t, e)| trust.residual(*t, *e))
                .all(|r| r.abs() < 2.0)
        );
    }

    #[test]
    fn one_that_misleads_is_not() {
        let targets: Vec<f64> = (0..40).map(|i| f64::from(i % 7) / 2.0 - 1.5).collect();
        let expected: Vec<f64> = targets.iter().map(|t| -t).collect();
        assert_eq!(Trust::new(&expected, &targets).share, 0.0);
    }
}
