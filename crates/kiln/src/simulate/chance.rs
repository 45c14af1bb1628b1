//! What random search without repeats finds, exactly: no simulation, no noise.

use kiln_core::interchange::Table;

/// Distribution of the best of N distinct configs drawn at random.
#[derive(Clone, Debug)]
pub struct Chance {
    /// Times of the configs that work, fastest first.
    times: Vec<f64>,
    /// All configs, failed ones included.
    total: usize,
}

impl Chance {
    pub fn new(table: &Table) -> Chance {
        let times = table.records().iter().filter_map(|r| r.time_ms());
        Chance::of(times.collect(), table.records().len())
    }

    /// The times of the configs that work, and how many configs there are in all.
    pub(super) fn of(mut times: Vec<f64>, total: usize) -> Chance {
        times.sort_by(f64::total_cmp);
        Chance { times, total }
    }

    /// Probability that the best of `trials` is the `k`-th fastest config, for every k; what is
    /// missing to 1 is the probability that none of them works.
    fn weights(&self, trials: usize) -> Vec<f64> {
        let trials = trials.min(self.total);
        // P(none of the k fastest is drawn) = C(total - k, trials) / C(total, trials).
        let mut missed = 1.0;
        let mut weights = Vec::with_capacity(self.times.len());
        for k in 0..self.times.len() {
            let left = self.total - k;
            let still = match left > trials {
                true => missed * (left - trials) as f64 / left as f64,
                false => 0.0,
            };
            weights.push(missed - still);
            missed = still;
            if missed <= 0.0 {
                break;
            }
        }
        weights
    }

    /// Expected best time; while nothing works, the slowest time that does counts.
    pub fn mean_ms(&self, trials: usize) -> f64 {
        let weights = self.weights(trials);
        let sum: f64 = weights.iter().zip(&self.times).map(|(w, t)| w * t).sum();
        let none = (1.0 - weights.iter().sum::<f64>()).max(0.0);
        sum + none * self.slowest_ms()
    }

    /// Expected fraction of the optimum; nothing found is 0.
    pub fn mean_fraction(&self, trials: usize) -> f64 {
        let Some(&optimum) = self.times.first() else {
            return 0.0;
        };
        let weights = self.weights(trials);
        weights
            .iter()
            .zip(&self.times)
            .map(|(w, t)| w * optimum / t)
            .sum()
    }

    /// Half of all random searches are at least this good.
    pub fn median_fraction(&self, trials: usize) -> f64 {
        let Some(&optimum) = self.times.first() else {
            return 0.0;
        };
        let mut reached = 0.0;
        for (weight, time) in self.weights(trials).iter().zip(&self.times) {
            reached += weight;
            if reached >= 0.5 {
                return optimum / time;
            }
        }
        0.0
    }

    pub fn optimum_ms(&self) -> Option<f64> {
        self.times.first().copied()
    }

    pub fn slowest_ms(&self) -> f64 {
        self.times.last().copied().unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best of every subset of `trials` out of `total`, the last ones failing.
    fn every_subset(times: &[f64], total: usize, trials: usize) -> Vec<f64> {
        (0..1_u32 << total)
            .filter(|subset| subset.count_ones() as usize == trials)
            .map(|subset| {
                let drawn = (0..times.len()).filter(|k| subset >> k & 1 == 1);
                drawn.map(|k| times[k]).fold(f64::INFINITY, f64::min)
            })
            .collect()
    }

    #[test]
    fn agrees_with_counting_every_subset() {
        let times = [3.0, 5.0, 5.0, 8.0, 13.0, 40.0];
        let total = 10;
        let chance = Chance::of(times.to_vec(), total);
        for trials in 1..=total {
            let best = every_subset(&times, total, trials);
            let count = best.len() as f64;
            let fraction = best.iter().map(|b| 3.0 / b).sum::<f64>() / count;
            let mean = best.iter().map(|b| b.min(40.0)).sum::<f64>() / count;
            assert!(
                (chance.mean_fraction(trials) - fraction).abs() < 1e-12,
                "{trials}"
            );
            assert!((chance.mean_ms(trials) - mean).abs() < 1e-12, "{trials}");
            let at_least = |f: f64| best.iter().filter(|b| 3.0 / **b >= f).count() as f64;
            let median = chance.median_fraction(trials);
            assert!(at_least(median) >= 0.5 * count - 1e-9, "{trials}");
        }
    }

    #[test]
    fn more_trials_than_configs_find_the_optimum() {
        let chance = Chance::of(vec![2.0, 1.0], 3);
        assert_eq!(chance.mean_fraction(9), 1.0);
        assert_eq!(chance.mean_ms(9), 1.0);
        assert_eq!(Chance::of(Vec::new(), 3).mean_fraction(2), 0.0);
    }
}
