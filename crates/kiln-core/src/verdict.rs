//! Two sets of timing samples -> FASTER, SLOWER, SAME or UNDECIDED, with the numbers behind it.
//!
//! `Same` is shown: the interval of the speedup lies within the margin. `Undecided` is not knowing.
//! This module owns the rule and its wording; the statistics are `stats`, and how many samples to
//! take is the caller's business.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stats::{Interval, cliffs_delta, mann_whitney, median, ratio_intervals};

mod rounds;
mod sentence;
pub mod sequential;

/// Resamples behind each interval. At 10,000, from seed to seed, the ends of a 95 % interval of
/// 100 samples a side move by about 1 % of its width.
pub const RESAMPLES: usize = 10_000;

/// Fewer samples on a side decide nothing: below 6 not even the smallest and largest sample enclose
/// the median with 95 % probability (2 / 2^5 > 5 %), yet a bootstrap of them may look narrow.
pub const MIN_SAMPLES: usize = 6;

const LEVEL: f64 = 0.95;
const ALPHA: f64 = 0.05;

/// Beyond this many times the samples at hand, asking for more is no advice.
const MAX_GROWTH: f64 = 100.0;

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    Faster,
    Slower,
    Same,
    Undecided,
}

impl Verdict {
    /// The rule. `interval` is that of the speedup; a margin that is negative or NaN counts as 0.
    pub fn decide(interval: Interval, p_value: f64, margin: f64) -> Verdict {
        let same = same_band(margin);
        let is_significant = p_value < ALPHA;
        if interval.low > same.high && is_significant {
            Verdict::Faster
        } else if interval.high < same.low && is_significant {
            Verdict::Slower
        } else if interval.low >= same.low && interval.high <= same.high {
            Verdict::Same
        } else {
            Verdict::Undecided
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "FASTER",
            Verdict::Slower => "SLOWER",
            Verdict::Same => "SAME",
            Verdict::Undecided => "UNDECIDED",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A verdict with all that led to it. In JSON a number that does not exist is `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub verdict: Verdict,
    /// `median(baseline) / median(candidate)`: above 1 when the candidate is faster.
    #[serde(with = "nan_as_null")]
    pub speedup: f64,
    pub speedup_ci_95: Interval,
    #[serde(with = "nan_as_null")]
    pub baseline_ns: f64,
    pub baseline_ci_95: Interval,
    #[serde(with = "nan_as_null")]
    pub candidate_ns: f64,
    pub candidate_ci_95: Interval,
    /// Two-sided Mann-Whitney, all rounds pooled.
    #[serde(with = "nan_as_null")]
    pub p_value: f64,
    /// Positive when the candidate is faster.
    #[serde(with = "nan_as_null")]
    pub cliffs_delta: f64,
    /// Speedups from `1 / (1 + margin)` to `1 + margin` count as the same.
    pub margin: f64,
    pub samples: SampleCounts,
    /// For an undecided one, about how many samples a side would decide at this noise. `None` when
    /// decided, or when more samples are no remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_needed: Option<usize>,
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleCounts {
    pub baseline: usize,
    pub candidate: usize,
}

impl SampleCounts {
    pub fn fewest(self) -> usize {
        self.baseline.min(self.candidate)
    }
}

/// Compares times in nanoseconds, one inner vector per round of fresh processes.
///
/// FASTER: the 95 % interval of the speedup lies wholly above `1 + margin`, and the rank test agrees.
/// SLOWER: wholly below `1 / (1 + margin)`, likewise. SAME: within these two. Else, and always with
/// fewer than [`MIN_SAMPLES`] on a side, UNDECIDED. The same input and seed give the same answer.
///
/// A bootstrap of five rounds takes them for more alike than they may be: where they differ a lot, it called 2 of
/// 100 comparisons of a kernel with itself. So a difference has to stand among the rounds as well, each one number
/// and at 99 %; where it does not, the interval is as wide as theirs.
pub fn compare(
    baseline_rounds: &[Vec<f64>],
    candidate_rounds: &[Vec<f64>],
    margin: f64,
    seed: u64,
) -> Comparison {
    let margin = margin.max(0.0);
    let baseline = baseline_rounds.concat();
    let candidate = candidate_rounds.concat();
    let samples = SampleCounts {
        baseline: baseline.len(),
        candidate: candidate.len(),
    };
    let (baseline_ns, candidate_ns) = (median(&baseline), median(&candidate));
    let speedup = baseline_ns / candidate_ns;
    let mut intervals = ratio_intervals(baseline_rounds, candidate_rounds, LEVEL, RESAMPLES, seed);
    let p_value = mann_whitney(&baseline, &candidate).p_value;
    let has_times = [baseline_ns, candidate_ns]
        .iter()
        .all(|ns| ns.is_finite() && *ns > 0.0);
    let decide = |interval| match has_times && samples.fewest() >= MIN_SAMPLES {
        true => Verdict::decide(interval, p_value, margin),
        false => Verdict::Undecided,
    };
    let mut verdict = decide(intervals.ratio);
    if matches!(verdict, Verdict::Faster | Verdict::Slower)
        && let Some(of_rounds) = rounds::interval(baseline_rounds, candidate_rounds)
        && decide(of_rounds) != verdict
    {
        intervals.ratio = Interval {
            low: intervals.ratio.low.min(of_rounds.low),
            high: intervals.ratio.high.max(of_rounds.high),
        };
        verdict = decide(intervals.ratio);
    }
    let mut comparison = Comparison {
        verdict,
        speedup,
        speedup_ci_95: intervals.ratio,
        baseline_ns,
        baseline_ci_95: intervals.numerator,
        candidate_ns,
        candidate_ci_95: intervals.denominator,
        p_value,
        cliffs_delta: cliffs_delta(&baseline, &candidate),
        margin,
        samples,
        samples_needed: None,
        sentence: String::new(),
    };
    let rounds = baseline_rounds.len().min(candidate_rounds.len());
    let growth = comparison.growth_needed();
    comparison.samples_needed = growth.map(|growth| round_up(samples.fewest(), growth));
    comparison.sentence = comparison.describe(rounds, growth);
    comparison
}

impl Comparison {
    /// How many times the samples it would take to decide, if the speedup stays where it is and the
    /// interval shrinks with the square root of their number. `None` when that would not decide.
    fn growth_needed(&self) -> Option<f64> {
        if self.verdict != Verdict::Undecided || self.samples.fewest() < MIN_SAMPLES {
            return None;
        }
        let same = same_band(self.margin);
        let at = self.speedup.ln();
        let (low, high) = (self.speedup_ci_95.low.ln(), self.speedup_ci_95.high.ln());
        let (same_low, same_high) = (same.low.ln(), same.high.ln());
        // Each end's distance from the speedup, over the distance it may have.
        let excess = if self.speedup > same.high {
            (at - low) / (at - same_high)
        } else if self.speedup < same.low {
            (high - at) / (same_low - at)
        } else {
            ((at - low) / (at - same_low)).max((high - at) / (same_high - at))
        };
        let growth = excess * excess;
        (excess > 1.0 && growth <= MAX_GROWTH).then_some(growth)
    }
}

/// Speedups that count as no change.
fn same_band(margin: f64) -> Interval {
    let high = 1.0 + margin.max(0.0);
    Interval {
        low: 1.0 / high,
        high,
    }
}

/// `count * growth` with two significant digits, rounded up: an estimate should look like one.
fn round_up(count: usize, growth: f64) -> usize {
    let exact = count as f64 * growth;
    let step = 10f64.powf(exact.log10().floor() - 1.0).max(1.0);
    ((exact / step).ceil() * step) as usize
}

/// JSON has no NaN; a number that does not exist is `null` there.
mod nan_as_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    #[test]
    fn boundaries_are_exact() {
        let above = f64::next_up;
        let below = f64::next_down;
        let (low, high) = (1.0 / 1.03, 1.03);
        let p = 0.049;
        for (ends, p_value, expected) in [
            (interval(above(high), 2.0), p, Verdict::Faster),
            (interval(high, 2.0), p, Verdict::Undecided),
            (interval(above(high), 2.0), 0.05, Verdict::Undecided),
            (interval(above(high), 2.0), below(0.05), Verdict::Faster),
            (interval(above(high), 2.0), f64::NAN, Verdict::Undecided),
            (interval(0.5, below(low)), p, Verdict::Slower),
            (interval(0.5, low), p, Verdict::Undecided),
            (interval(0.5, below(low)), 0.05, Verdict::Undecided),
            (interval(low, high), p, Verdict::Same),
            (interval(low, high), 0.9, Verdict::Same),
            (interval(high, high), p, Verdict::Same),
            (interval(low, low), p, Verdict::Same),
            (interval(below(low), high), p, Verdict::Undecided),
            (interval(low, above(high)), p, Verdict::Undecided),
            (Interval::NAN, p, Verdict::Undecided),
            (interval(f64::NAN, 1.0), p, Verdict::Undecided),
        ] {
            let verdict = Verdict::decide(ends, p_value, 0.03);
            assert_eq!(verdict, expected, "{ends:?}, p = {p_value}");
        }
    }

    #[test]
    fn without_a_margin_only_1_is_the_same() {
        for margin in [0.0, -0.5, f64::NAN] {
            let decide = |low, high| Verdict::decide(interval(low, high), 0.01, margin);
            assert_eq!(decide(1.0, 1.0), Verdict::Same);
            assert_eq!(decide(1.0, 1.1), Verdict::Undecided);
            assert_eq!(decide(1.0001, 1.1), Verdict::Faster);
            assert_eq!(decide(0.9, 0.9999), Verdict::Slower);
        }
    }

    /// `count` samples spread evenly over `centre` plus or minus `spread`.
    fn spread(centre: f64, spread: f64, count: usize) -> Vec<f64> {
        let step = |i: usize| 2.0 * (i as f64 + 0.5) / count as f64 - 1.0;
        (0..count)
            .map(|i| centre * (1.0 + spread * step(i)))
            .collect()
    }

    #[test]
    fn clear_cases() {
        let slow = [spread(52_300.0, 0.01, 50), spread(52_300.0, 0.01, 50)];
        let fast = [spread(41_800.0, 0.01, 50), spread(41_800.0, 0.01, 50)];
        let faster = compare(&slow, &fast, 0.03, 1);
        assert_eq!(faster.verdict, Verdict::Faster);
        assert_eq!(faster.cliffs_delta, 1.0);
        assert!(faster.p_value < 1e-30);
        assert!(faster.baseline_ci_95.contains(faster.baseline_ns));
        assert!(faster.candidate_ci_95.contains(faster.candidate_ns));
        assert_eq!(
            faster.samples,
            SampleCounts {
                baseline: 100,
                candidate: 100
            }
        );
        assert_eq!(faster.samples_needed, None);

        let slower = compare(&fast, &slow, 0.03, 1);
        assert_eq!(slower.verdict, Verdict::Slower);
        assert_eq!(slower.cliffs_delta, -1.0);
        assert_eq!(compare(&slow, &slow, 0.03, 1).verdict, Verdict::Same);
    }

    #[test]
    fn same_seed_same_comparison() {
        let (first, second) = ([spread(100.0, 0.3, 40)], [spread(104.0, 0.3, 30)]);
        assert_eq!(
            compare(&first, &second, 0.03, 9),
            compare(&first, &second, 0.03, 9)
        );
    }

    #[test]
    fn too_few_samples_decide_nothing() {
        for count in 0..MIN_SAMPLES {
            for (baseline, candidate) in [(10.0, 10.0), (10.0, 20.0)] {
                let few = vec![baseline; count];
                let comparison = compare(&[few], &[vec![candidate; 50]], 0.03, 1);
                assert_eq!(comparison.verdict, Verdict::Undecided);
                assert_eq!(comparison.samples_needed, None);
            }
        }
        let enough = compare(&[vec![10.0; 6]], &[vec![10.0; 6]], 0.03, 1);
        assert_eq!(enough.verdict, Verdict::Same);
    }

    #[test]
    fn times_that_make_no_speedup_decide_nothing() {
        for (baseline, candidate) in [(0.0, 0.0), (1.0, 0.0), (-1.0, -1.0), (f64::NAN, 1.0)] {
            let comparison = compare(&[vec![baseline; 9]], &[vec![candidate; 9]], 0.03, 1);
            assert_eq!(
                comparison.verdict,
                Verdict::Undecided,
                "{baseline} / {candidate}"
            );
        }
    }

    #[test]
    fn samples_needed_follows_the_square_root() {
        let comparison = |speedup, ends| Comparison {
            verdict: Verdict::Undecided,
            speedup,
            speedup_ci_95: ends,
            ..compare(&[vec![1.0; 30]], &[vec![1.0; 30]], 0.03, 1)
        };
        // The lower end is twice as far from the speedup as the margin's edge is.
        let at = |offset: f64| (1.03f64.ln() + offset).exp();
        let faster = comparison(at(0.02), interval(at(-0.02), at(0.06)));
        assert!((faster.growth_needed().unwrap() - 4.0).abs() < 1e-9);
        let slower = comparison(1.0 / at(0.02), interval(1.0 / at(0.06), 1.0 / at(-0.02)));
        assert!((slower.growth_needed().unwrap() - 4.0).abs() < 1e-9);
        let around_1 = comparison(1.0, interval(1.0 / 1.03f64.powi(3), 1.03));
        assert!((around_1.growth_needed().unwrap() - 9.0).abs() < 1e-9);
        let on_the_edge = comparison(1.03, interval(1.02, 1.04));
        assert_eq!(on_the_edge.growth_needed(), None);
        let only_p_fails = comparison(1.2, interval(1.1, 1.3));
        assert_eq!(only_p_fails.growth_needed(), None);
        assert_eq!(round_up(30, 4.0), 120);
        assert_eq!(round_up(100, 12.34), 1300);
        assert_eq!(round_up(6, 1.01), 7);
    }

    #[test]
    fn verdicts_keep_their_words() {
        for verdict in [
            Verdict::Faster,
            Verdict::Slower,
            Verdict::Same,
            Verdict::Undecided,
        ] {
            let text = serde_json::to_string(&verdict).unwrap();
            assert_eq!(text, format!("\"{verdict}\""));
            assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
        }
        assert_eq!(format!("{:>9}", Verdict::Same), "     SAME");
    }

    #[test]
    fn comparison_round_trips_through_json() {
        let noisy = compare(
            &[spread(100.0, 0.1, 20)],
            &[spread(105.0, 0.1, 20)],
            0.03,
            1,
        );
        assert!(noisy.samples_needed.is_some());
        let clear = compare(&[spread(100.0, 0.1, 20)], &[spread(50.0, 0.1, 20)], 0.03, 1);
        for comparison in [noisy, clear] {
            let text = serde_json::to_string(&comparison).unwrap();
            let back: Comparison = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
        let nothing = compare(&[], &[], 0.03, 1);
        let value = serde_json::to_value(&nothing).unwrap();
        assert!(value["speedup"].is_null() && value["p_value"].is_null());
        let back: Comparison = serde_json::from_value(value).unwrap();
        assert!(back.speedup.is_nan() && back.speedup_ci_95.low.is_nan());
    }
}
