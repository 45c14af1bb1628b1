//! What the model is to predict, made from times.

/// How strongly slow trials are drawn together.
const COMPRESSION: f64 = 3.0;
/// The least distance, as a logarithm, of the median time from the best: closer is noise.
const LEAST_SCALE: f64 = 1e-3;
/// Failed trials count as this many standard deviations slower than the mean.
const FAILURE: f64 = 1.0;

/// Times on a scale on which the fast ones are told apart and the slow ones are just slow.
pub(super) struct Targets {
    /// In the order given, with mean 0 and variance 1 over the measured trials.
    pub(super) values: Vec<f64>,
    pub(super) best: f64,
}

impl Targets {
    /// From logarithms of times; `None` is a failure.
    pub(super) fn new(times: &[Option<f64>]) -> Targets {
        let mut sorted: Vec<f64> = times.iter().flatten().copied().collect();
        if sorted.is_empty() {
            return Targets {
                values: vec![FAILURE; times.len()],
                best: 0.0,
            };
        }
        sorted.sort_by(f64::total_cmp);
        let (best, median) = (sorted[0], sorted[(sorted.len() - 1) / 2]);
        let scale = (median - best).max(LEAST_SCALE);
        let bent = |time: f64| (COMPRESSION * (time - best) / scale).ln_1p();
        let count = sorted.len() as f64;
        let mean = sorted.iter().map(|&t| bent(t)).sum::<f64>() / count;
        let variance = sorted
            .iter()
            .map(|&t| (bent(t) - mean).powi(2))
            .sum::<f64>()
            / count;
        let deviation = variance.sqrt().max(1e-6);
        Targets {
            values: times
                .iter()
                .map(|time| time.map_or(FAILURE, |t| (bent(t) - mean) / deviation))
                .collect(),
            best: -mean / deviation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_trials_are_spread_and_slow_ones_drawn_together() {
        let times = [0.0, 0.1, 1.0, 5.0, 5.1].map(Some);
        let t = Targets::new(&times);
        assert!(t.values[1] - t.values[0] > 5.0 * (t.values[4] - t.values[3]));
        assert_eq!(t.best, t.values[0]);
        let mean: f64 = t.values.iter().sum::<f64>() / 5.0;
        let variance: f64 = t.values.iter().map(|v| v * v).sum::<f64>() / 5.0;
        assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-12);
    }

    #[test]
    fn failures_and_equal_times_are_no_trouble() {
        assert_eq!(Targets::new(&[None, None]).values, [FAILURE; 2]);
        let equal = Targets::new(&[Some(3.0), None, Some(3.0)]);
        assert_eq!(equal.values, [0.0, FAILURE, 0.0]);
        assert!(Targets::new(&[]).values.is_empty());
    }
}
