//! From many runs to a few numbers.

use super::{Chance, Run};

/// The part of the optimum that counts as having arrived.
const ARRIVED: f64 = 0.95;

/// What many searches of one strategy found.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// By repeat: optimum over best found; 0 where nothing worked.
    pub fractions: Vec<f64>,
    pub best_ms: Vec<f64>,
    /// By repeat: the first trial that reached 95 % of the optimum.
    pub trials_to_95: Vec<Option<usize>>,
    /// By repeat: how many trials it came to.
    pub trials: Vec<usize>,
    pub at_end: Quantiles,
    /// After each trial.
    pub curve: Vec<Quantiles>,
    /// How far from random search (0) to the optimum (1), on average over all trials.
    pub score: f64,
    /// By repeat: spent in the strategy itself.
    pub strategy_s: Vec<f64>,
    pub seconds_per_ask: f64,
    /// Part of the trials that failed.
    pub failed: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    pub mean: f64,
    pub median: f64,
    pub p10: f64,
}

impl Quantiles {
    /// `values` in any order, not empty.
    pub fn of(values: &[f64]) -> Quantiles {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Quantiles {
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            median: quantile(&sorted, 0.5),
            p10: quantile(&sorted, 0.1),
        }
    }
}

/// Linear between neighbours; `sorted` is not empty.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

impl Summary {
    /// `None` when there is nothing to compare with: no run, or no config that works.
    pub fn new(runs: &[Run], chance: &Chance) -> Option<Summary> {
        let optimum = chance.optimum_ms()?;
        let length = runs
            .iter()
            .map(|r| r.best_ms.len())
            .max()
            .filter(|&n| n > 0)?;
        let fraction = |run: &Run, trial: usize| optimum / best_at(run, trial);
        let curve: Vec<Quantiles> = (0..length)
            .map(|t| Quantiles::of(&runs.iter().map(|r| fraction(r, t)).collect::<Vec<_>>()))
            .collect();
        let asked: usize = runs.iter().map(|r| r.best_ms.len()).sum();
        Some(Summary {
            fractions: runs.iter().map(|r| fraction(r, length - 1)).collect(),
            best_ms: runs.iter().map(|r| best_at(r, length - 1)).collect(),
            trials_to_95: runs
                .iter()
                .map(|run| {
                    let arrived = |best: &f64| optimum / best >= ARRIVED;
                    run.best_ms.iter().position(arrived).map(|t| t + 1)
                })
                .collect(),
            trials: runs.iter().map(|r| r.best_ms.len()).collect(),
            at_end: curve[length - 1],
            score: score(runs, chance, optimum, length),
            curve,
            strategy_s: runs.iter().map(|r| r.strategy_s).collect(),
            seconds_per_ask: runs.iter().map(|r| r.strategy_s).sum::<f64>() / asked as f64,
            failed: runs.iter().map(|r| r.failed).sum::<usize>() as f64 / asked as f64,
        })
    }

    /// The median over repeats; `None` when most never arrive.
    pub fn median_trials_to_95(&self) -> Option<usize> {
        let mut sorted: Vec<usize> = self
            .trials_to_95
            .iter()
            .map(|t| t.unwrap_or(usize::MAX))
            .collect();
        sorted.sort_unstable();
        let middle = sorted.get(sorted.len() / 2)?;
        (*middle != usize::MAX).then_some(*middle)
    }
}

/// A search that ran out of configs keeps what it has.
fn best_at(run: &Run, trial: usize) -> f64 {
    let last = run.best_ms.len().saturating_sub(1);
    run.best_ms
        .get(trial.min(last))
        .copied()
        .unwrap_or(f64::INFINITY)
}

/// The score that the auto-tuning community compares strategies by, with trials as the budget:
/// what of the way from random search to the optimum is gone, averaged over all budgets up to the
/// given one. Where random search itself has arrived there is nothing left to win or lose.
fn score(runs: &[Run], chance: &Chance, optimum: f64, length: usize) -> f64 {
    let slowest = chance.slowest_ms();
    let mut scores = Vec::with_capacity(length);
    for trial in 0..length {
        let random = chance.mean_ms(trial + 1);
        if random - optimum <= 1e-9 * optimum {
            break;
        }
        let found = runs
            .iter()
            .map(|r| best_at(r, trial).min(slowest))
            .sum::<f64>()
            / runs.len() as f64;
        scores.push((random - found) / (random - optimum));
    }
    match scores.is_empty() {
        true => 0.0,
        false => scores.iter().sum::<f64>() / scores.len() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(best_ms: &[f64]) -> Run {
        Run {
            best_ms: best_ms.to_vec(),
            failed: 0,
            strategy_s: 0.5,
        }
    }

    #[test]
    fn fractions_and_arrivals_by_hand() {
        let chance = Chance::of(vec![1.0, 2.0, 4.0], 4);
        let runs = [
            run(&[4.0, 2.0, 1.0]),
            run(&[f64::INFINITY, 2.0, 2.0]),
            run(&[1.0, 1.0, 1.0]),
        ];
        let summary = Summary::new(&runs, &chance).unwrap();
        assert_eq!(summary.fractions, [1.0, 0.5, 1.0]);
        assert_eq!(summary.trials_to_95, [Some(3), None, Some(1)]);
        assert_eq!(summary.median_trials_to_95(), Some(3));
        assert_eq!(summary.curve[0].median, 0.25);
        assert_eq!(summary.curve[0].mean, (0.25 + 0.0 + 1.0) / 3.0);
        assert_eq!(summary.at_end.median, 1.0);
        assert!((summary.at_end.p10 - 0.6).abs() < 1e-12);
        assert!((summary.seconds_per_ask - 1.5 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn the_score_of_the_optimum_is_one_and_of_chance_nought() {
        let times: Vec<f64> = (1..=50).map(f64::from).collect();
        let chance = Chance::of(times, 60);
        let perfect = Summary::new(&[run(&[1.0; 20])], &chance).unwrap();
        assert!((perfect.score - 1.0).abs() < 1e-12);
        let average: Vec<f64> = (1..=20).map(|n| chance.mean_ms(n)).collect();
        let level = Summary::new(&[run(&average)], &chance).unwrap();
        assert!(level.score.abs() < 1e-12);
    }

    #[test]
    fn a_search_that_ended_early_keeps_what_it_found() {
        let chance = Chance::of(vec![1.0, 2.0], 2);
        let summary = Summary::new(&[run(&[2.0, 1.0]), run(&[2.0])], &chance).unwrap();
        assert_eq!(summary.fractions, [1.0, 0.5]);
        assert_eq!(summary.curve.len(), 2);
        assert!(Summary::new(&[], &chance).is_none());
        assert!(Summary::new(&[run(&[])], &chance).is_none());
    }
}
