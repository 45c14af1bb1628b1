//! Statistics against values of numpy and scipy. `oracles/make_stats_oracles.py` made them.

use kiln_core::stats;
use kiln_core::stats::Interval;
use serde::Deserialize;

#[derive(Deserialize)]
struct Oracles {
    level: f64,
    describe: Vec<Describe>,
    two_sample: Vec<TwoSample>,
    rank_interval: Vec<RankInterval>,
    median_bootstrap: Vec<MedianBootstrap>,
    ratio_bootstrap: Vec<RatioBootstrap<Vec<f64>>>,
    hierarchical_bootstrap: Vec<RatioBootstrap<Vec<Vec<f64>>>>,
}

#[derive(Deserialize)]
struct Describe {
    samples: Vec<f64>,
    median: f64,
    mad: f64,
    quantiles: Vec<(f64, f64)>,
    outliers_below: usize,
    outliers_above: usize,
}

#[derive(Deserialize)]
struct TwoSample {
    first: Vec<f64>,
    second: Vec<f64>,
    u: f64,
    p_value: f64,
    cliffs_delta: f64,
}

#[derive(Deserialize)]
struct RankInterval {
    samples: Vec<f64>,
    /// Level and ends; none where there are too few samples.
    intervals: Vec<(f64, Option<Interval>)>,
}

#[derive(Deserialize)]
struct MedianBootstrap {
    samples: Vec<f64>,
    ends: Interval,
}

#[derive(Deserialize)]
struct RatioBootstrap<Side> {
    numerator: Side,
    denominator: Side,
    ends: Interval,
}

fn oracles() -> Oracles {
    serde_json::from_str(include_str!("oracles/stats_oracles.json")).expect("oracles parse")
}

fn assert_close(found: f64, expected: f64, what: &str) {
    let tolerance = 1e-11 * expected.abs();
    assert!(
        (found - expected).abs() <= tolerance,
        "{what}: {found} is not {expected}"
    );
}

#[test]
fn stats_describe_agrees_with_numpy() {
    for case in oracles().describe {
        let samples = &case.samples;
        assert_close(stats::median(samples), case.median, "median");
        assert_close(stats::mad(samples), case.mad, "mad");
        for (q, expected) in case.quantiles {
            assert_close(stats::quantile(samples, q), expected, "quantile");
        }
        let outliers = stats::count_outliers(samples);
        assert_eq!(outliers.below, case.outliers_below);
        assert_eq!(outliers.above, case.outliers_above);
    }
}

#[test]
fn stats_mann_whitney_agrees_with_scipy() {
    for case in oracles().two_sample {
        let result = stats::mann_whitney(&case.first, &case.second);
        let sizes = format!("{} x {}", case.first.len(), case.second.len());
        assert_eq!(result.u, case.u, "{sizes}");
        assert_close(result.p_value, case.p_value, &sizes);
    }
}

#[test]
fn stats_cliffs_delta_agrees_with_counting_pairs() {
    for case in oracles().two_sample {
        let delta = stats::cliffs_delta(&case.first, &case.second);
        assert_close(delta, case.cliffs_delta, "delta");
    }
}

#[test]
fn stats_rank_interval_agrees_with_the_binomial() {
    let unbounded = Interval {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    };
    for case in oracles().rank_interval {
        for (level, ends) in case.intervals {
            let interval = stats::median_interval_by_rank(&case.samples, level);
            let count = case.samples.len();
            assert_eq!(interval, ends.unwrap_or(unbounded), "n = {count}, {level}");
        }
    }
}

/// Both sides are random (100,000 resamples there, 20,000 here), and the replicates of a median sit
/// on few distinct values, so an end may fall on the neighbouring one: a twentieth of the width.
fn assert_same_interval(found: Interval, expected: Interval) {
    let tolerance = 0.05 * expected.width();
    assert!(
        (found.low - expected.low).abs() <= tolerance,
        "{found:?} is not {expected:?}"
    );
    assert!(
        (found.high - expected.high).abs() <= tolerance,
        "{found:?} is not {expected:?}"
    );
}

const RESAMPLES: usize = 20_000;

#[test]
fn stats_median_interval_agrees_with_scipy() {
    let oracles = oracles();
    for case in oracles.median_bootstrap {
        let found = stats::median_interval(&case.samples, oracles.level, RESAMPLES, 1);
        assert_same_interval(found, case.ends);
    }
}

#[test]
fn stats_ratio_interval_agrees_with_scipy() {
    let oracles = oracles();
    for case in oracles.ratio_bootstrap {
        let (numerator, denominator) = ([case.numerator], [case.denominator]);
        let level = oracles.level;
        let found = stats::ratio_interval(&numerator, &denominator, level, RESAMPLES, 1);
        assert_same_interval(found, case.ends);
    }
}

#[test]
fn stats_ratio_interval_of_rounds_agrees_with_numpy() {
    let oracles = oracles();
    for case in oracles.hierarchical_bootstrap {
        let level = oracles.level;
        let found = stats::ratio_interval(&case.numerator, &case.denominator, level, RESAMPLES, 1);
        assert_same_interval(found, case.ends);
    }
}
