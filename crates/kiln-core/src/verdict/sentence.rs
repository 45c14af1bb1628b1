//! One sentence for a comparison: candidate first, then baseline, and the counts in that order.

use super::{Comparison, MIN_SAMPLES, Verdict, same_band};
use crate::units::human_ns;

impl Comparison {
    /// `rounds` is how many there were, and `growth` how many times the samples it would take.
    pub(super) fn describe(&self, rounds: usize, growth: Option<f64>) -> String {
        let counts = format!(
            "(n = {}, {})",
            self.samples.candidate, self.samples.baseline
        );
        let times = format!(
            "{}: {} vs {}",
            self.verdict,
            human_ns(self.candidate_ns),
            human_ns(self.baseline_ns)
        );
        if self.samples.fewest() < MIN_SAMPLES {
            return format!("{times} {counts}; at least {MIN_SAMPLES} samples a side are needed");
        }
        if !(self.speedup > 0.0 && self.speedup_ci_95.is_finite()) {
            return format!("{times} {counts}; these times have no speedup");
        }
        let decimals = self.decimals();
        let speedup = format!(
            "speedup {:.decimals$} [{:.decimals$}, {:.decimals$}]",
            self.speedup, self.speedup_ci_95.low, self.speedup_ci_95.high
        );
        match self.verdict {
            Verdict::Faster | Verdict::Slower => format!("{times}, {speedup} {counts}"),
            Verdict::Same if self.margin == 0.0 => format!("{times}, {speedup} {counts}"),
            Verdict::Same => {
                let margin = percent(self.margin);
                format!("{times}, {speedup} is within {margin} of equal {counts}")
            }
            Verdict::Undecided if self.is_clear_of_the_margin() => format!(
                "{times}, {speedup} is not confirmed by the rank test: p = {:.2} {counts}",
                self.p_value
            ),
            Verdict::Undecided => {
                let (doubt, remedy) = (self.doubt(), self.remedy(rounds, growth));
                format!("{times}, {speedup} includes {doubt} {counts}; {remedy}")
            }
        }
    }

    fn is_clear_of_the_margin(&self) -> bool {
        let same = same_band(self.margin);
        self.speedup_ci_95.low > same.high || self.speedup_ci_95.high < same.low
    }

    /// What the interval includes that keeps it from deciding.
    fn doubt(&self) -> String {
        let same = same_band(self.margin);
        let margin = percent(self.margin);
        let interval = self.speedup_ci_95;
        match (interval.low < same.low, interval.high > same.high) {
            _ if self.margin == 0.0 => "1".to_string(),
            (true, true) => format!("{margin} slower and {margin} faster"),
            (true, false) => format!("both less and more than {margin} slower"),
            (false, _) => format!("both less and more than {margin} faster"),
        }
    }

    fn remedy(&self, rounds: usize, growth: Option<f64>) -> String {
        let (Some(samples), Some(growth)) = (self.samples_needed, growth) else {
            return "it is too close to the margin for more samples to decide".to_string();
        };
        // More samples in the same rounds would not shrink what differs between rounds.
        let in_rounds = match rounds {
            0 | 1 => String::new(),
            several => format!(" in {:.0} rounds", (several as f64 * growth).ceil()),
        };
        format!("at this noise about {samples} samples a side{in_rounds} are needed")
    }

    /// Enough decimals that the written ends lie where the real ones do: a low end of 1.0304 is
    /// above a margin of 3 %, and `1.03` would not be.
    fn decimals(&self) -> usize {
        let same = same_band(self.margin);
        let interval = self.speedup_ci_95;
        let is_faithful = |decimals: &usize| {
            let scale = 10f64.powi(*decimals as i32);
            let written = |x: f64| (x * scale).round();
            [interval.low, interval.high].into_iter().all(|end| {
                [same.low, 1.0, same.high].into_iter().all(|limit| {
                    end.partial_cmp(&limit) == written(end).partial_cmp(&written(limit))
                })
            })
        };
        (2..MAX_DECIMALS).find(is_faithful).unwrap_or(MAX_DECIMALS)
    }
}

const MAX_DECIMALS: usize = 6;

/// `0.03` as `3%`, `0.025` as `2.5%`.
fn percent(fraction: f64) -> String {
    let rounded = (fraction * 1e4).round() / 1e2;
    format!("{rounded}%")
}

#[cfg(test)]
mod tests {
    use super::super::{SampleCounts, compare};
    use super::*;
    use crate::stats::Interval;

    fn comparison(verdict: Verdict, speedup: f64, low: f64, high: f64) -> Comparison {
        Comparison {
            verdict,
            speedup,
            speedup_ci_95: Interval { low, high },
            baseline_ns: 52_300.0,
            candidate_ns: 52_300.0 / speedup,
            p_value: 0.2,
            samples: SampleCounts {
                baseline: 100,
                candidate: 90,
            },
            ..compare(&[], &[], 0.03, 1)
        }
    }

    fn sentence(comparison: &mut Comparison, rounds: usize) -> String {
        let growth = comparison.growth_needed();
        comparison.samples_needed = growth.map(|growth| super::super::round_up(90, growth));
        comparison.describe(rounds, growth)
    }

    #[test]
    fn decided_sentences() {
        let mut faster = comparison(Verdict::Faster, 1.2512, 1.2301, 1.2702);
        insta::assert_snapshot!(sentence(&mut faster, 5), @"FASTER: 41.8 us vs 52.3 us, speedup 1.25 [1.23, 1.27] (n = 90, 100)");
        let mut barely = comparison(Verdict::Faster, 1.05, 1.03004, 1.07);
        insta::assert_snapshot!(sentence(&mut barely, 5), @"FASTER: 49.8 us vs 52.3 us, speedup 1.05000 [1.03004, 1.07000] (n = 90, 100)");
        let mut slower = comparison(Verdict::Slower, 0.8, 0.78, 0.82);
        insta::assert_snapshot!(sentence(&mut slower, 5), @"SLOWER: 65.4 us vs 52.3 us, speedup 0.80 [0.78, 0.82] (n = 90, 100)");
        let mut same = comparison(Verdict::Same, 1.001, 0.992, 1.011);
        insta::assert_snapshot!(sentence(&mut same, 5), @"SAME: 52.2 us vs 52.3 us, speedup 1.00 [0.99, 1.01] is within 3% of equal (n = 90, 100)");
        let mut identical = Comparison {
            margin: 0.0,
            ..comparison(Verdict::Same, 1.0, 1.0, 1.0)
        };
        insta::assert_snapshot!(sentence(&mut identical, 5), @"SAME: 52.3 us vs 52.3 us, speedup 1.00 [1.00, 1.00] (n = 90, 100)");
    }

    #[test]
    fn undecided_sentences() {
        let mut wide = comparison(Verdict::Undecided, 1.01, 0.9, 1.1);
        insta::assert_snapshot!(sentence(&mut wide, 1), @"UNDECIDED: 51.8 us vs 52.3 us, speedup 1.01 [0.90, 1.10] includes 3% slower and 3% faster (n = 90, 100); at this noise about 1800 samples a side are needed");
        let mut upper = comparison(Verdict::Undecided, 1.06, 1.02, 1.1);
        insta::assert_snapshot!(sentence(&mut upper, 5), @"UNDECIDED: 49.3 us vs 52.3 us, speedup 1.06 [1.02, 1.10] includes both less and more than 3% faster (n = 90, 100); at this noise about 170 samples a side in 9 rounds are needed");
        let mut lower = comparison(Verdict::Undecided, 0.99, 0.96, 1.02);
        insta::assert_snapshot!(sentence(&mut lower, 1), @"UNDECIDED: 52.8 us vs 52.3 us, speedup 0.99 [0.96, 1.02] includes both less and more than 3% slower (n = 90, 100); at this noise about 230 samples a side are needed");
        let mut edge = comparison(Verdict::Undecided, 1.03, 1.02, 1.04);
        insta::assert_snapshot!(sentence(&mut edge, 1), @"UNDECIDED: 50.8 us vs 52.3 us, speedup 1.03 [1.02, 1.04] includes both less and more than 3% faster (n = 90, 100); it is too close to the margin for more samples to decide");
        let mut unconfirmed = comparison(Verdict::Undecided, 1.2, 1.1, 1.3);
        insta::assert_snapshot!(sentence(&mut unconfirmed, 1), @"UNDECIDED: 43.6 us vs 52.3 us, speedup 1.20 [1.10, 1.30] is not confirmed by the rank test: p = 0.20 (n = 90, 100)");
        let mut no_margin = Comparison {
            margin: 0.0,
            ..comparison(Verdict::Undecided, 1.02, 0.99, 1.05)
        };
        insta::assert_snapshot!(sentence(&mut no_margin, 1), @"UNDECIDED: 51.3 us vs 52.3 us, speedup 1.02 [0.99, 1.05] includes 1 (n = 90, 100); at this noise about 210 samples a side are needed");
    }

    #[test]
    fn sentences_without_a_speedup() {
        let few = compare(&[vec![10.0; 3]], &[vec![20.0; 50]], 0.03, 1).sentence;
        insta::assert_snapshot!(few, @"UNDECIDED: 20.0 ns vs 10.00 ns (n = 50, 3); at least 6 samples a side are needed");
        let none = compare(&[], &[], 0.03, 1).sentence;
        insta::assert_snapshot!(none, @"UNDECIDED: unknown vs unknown (n = 0, 0); at least 6 samples a side are needed");
        let zero = compare(&[vec![10.0; 9]], &[vec![0.0; 9]], 0.03, 1).sentence;
        insta::assert_snapshot!(zero, @"UNDECIDED: 0 ns vs 10.00 ns (n = 9, 9); these times have no speedup");
    }

    #[test]
    fn percent_is_short() {
        assert_eq!(percent(0.03), "3%");
        assert_eq!(percent(0.025), "2.5%");
        assert_eq!(percent(0.0), "0%");
    }
}
