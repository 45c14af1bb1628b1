//! One turn of the loop by hand: a hypothesis, an edit, a measurement, and whether the hypothesis held.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::journal::{Dated, Entry};
use crate::stats::Interval;
use crate::trial::Assignment;
use crate::verdict::Verdict;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// Counts from 1 over the project.
    pub number: u64,
    pub kernel: String,
    /// Relative to the project.
    pub manifest: String,
    pub shape: String,
    pub dimensions: Vec<(String, i64)>,
    pub device: String,
    /// In the author's words.
    pub hypothesis: String,
    /// The speedup it promises; `None` where it only says "faster".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// The rule that advised the edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    pub incumbent: Version,
    pub candidate: Version,
    /// From the incumbent's files to the candidate's.
    pub diff: String,
    pub found: Found,
    pub prediction: Prediction,
    pub decision: Decision,
    /// Nobody had profiled the kernel since the edit before.
    pub blind: bool,
    pub margin: f64,
    pub kiln_version: String,
}

/// A kernel as it once was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// Where it comes from, in words: `study 3`, `iteration 2`, `git:HEAD`.
    pub label: String,
    /// Its sources, as studies name them.
    pub sources: String,
    /// Its files, manifest included, as the journal has them; empty where they are not kept.
    pub files: String,
    pub config: Assignment,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum Found {
    Measured {
        verdict: Verdict,
        /// The incumbent's time over the candidate's.
        speedup: f64,
        /// That decides, all looks counted in.
        interval: Interval,
        incumbent_ns: f64,
        candidate_ns: f64,
    },
    /// A side gives no right answer.
    Wrong { of_candidate: bool, message: String },
}

/// Whether what was measured is what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prediction {
    Exceeded,
    Held,
    /// Better than before, and less than promised.
    FellShort,
    /// No gain, or a loss.
    Failed,
    /// Too noisy to say, or nothing could be measured.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The candidate is the new incumbent.
    Kept,
    Rejected,
}

impl Prediction {
    /// `expected` against the interval of the speedup. A promise counts as kept within the margin that verdicts
    /// have: nobody can tell 1.10 from 1.09.
    pub fn of(found: &Found, expected: Option<f64>, margin: f64) -> Prediction {
        let Found::Measured {
            verdict, interval, ..
        } = found
        else {
            return Prediction::Open;
        };
        let gains = *verdict == Verdict::Faster;
        let Some(expected) = expected else {
            return match verdict {
                Verdict::Faster => Prediction::Held,
                Verdict::Undecided => Prediction::Open,
                Verdict::Same | Verdict::Slower => Prediction::Failed,
            };
        };
        let (low, high) = (expected / (1.0 + margin), expected * (1.0 + margin));
        match verdict {
            _ if interval.low > high => Prediction::Exceeded,
            // Wide enough to hold the promise and its opposite: nothing is known.
            Verdict::Undecided if interval.high >= low => Prediction::Open,
            _ if interval.high >= low => Prediction::Held,
            _ if gains => Prediction::FellShort,
            Verdict::Undecided => Prediction::FellShort,
            _ => Prediction::Failed,
        }
    }

    pub fn is_hit(self) -> bool {
        matches!(self, Prediction::Exceeded | Prediction::Held)
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Prediction::Exceeded => "more than predicted",
            Prediction::Held => "as predicted",
            Prediction::FellShort => "less than predicted",
            Prediction::Failed => "not as predicted",
            Prediction::Open => "not decided",
        }
    }
}

impl Decision {
    pub fn of(found: &Found) -> Decision {
        match found {
            Found::Measured {
                verdict: Verdict::Faster,
                ..
            } => Decision::Kept,
            _ => Decision::Rejected,
        }
    }
}

impl Iteration {
    /// One sentence: what was measured, and what that says about the hypothesis.
    pub fn sentence(&self) -> String {
        let promised = self
            .expected
            .map_or(String::new(), |e| format!(" ({e:.2}x was expected)"));
        match &self.found {
            Found::Wrong {
                of_candidate,
                message,
            } => {
                let side = match of_candidate {
                    true => "the edited kernel",
                    false => "the incumbent",
                };
                format!("nothing was timed: {side} fails: {message}")
            }
            Found::Measured {
                verdict,
                speedup,
                interval,
                ..
            } => format!(
                "{}: {speedup:.3}x [{:.3}, {:.3}], {}{promised}",
                verdict.name(),
                interval.low,
                interval.high,
                self.prediction.in_words()
            ),
        }
    }
}

/// All iterations of a project, in order.
pub fn iterations(entries: &[Dated]) -> Vec<(u64, &Iteration)> {
    entries
        .iter()
        .filter_map(|dated| match &dated.entry {
            Entry::Iterated(iteration) => Some((dated.unix_ms, &**iteration)),
            _ => None,
        })
        .collect()
}

/// How often predictions came true: of a rule of advice, or of a person's own hypotheses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HitRate {
    pub tried: u64,
    /// As predicted, or better.
    pub hits: u64,
    /// Tries without an answer; not among the rest.
    pub open: u64,
    pub kept: u64,
    /// Geometric means over tries that promised a number and were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
}

/// By rule; hypotheses without one are under the empty name.
pub fn hit_rates<'i>(
    iterations: impl IntoIterator<Item = &'i Iteration>,
) -> BTreeMap<String, HitRate> {
    let mut rates: BTreeMap<String, HitRate> = BTreeMap::new();
    let mut logs: BTreeMap<String, (f64, f64, f64)> = BTreeMap::new();
    for iteration in iterations {
        let name = iteration.advice.clone().unwrap_or_default();
        let rate = rates.entry(name.clone()).or_default();
        rate.kept += u64::from(iteration.decision == Decision::Kept);
        if iteration.prediction == Prediction::Open {
            rate.open += 1;
            continue;
        }
        rate.tried += 1;
        rate.hits += u64::from(iteration.prediction.is_hit());
        if let (Some(expected), Found::Measured { speedup, .. }) =
            (iteration.expected, &iteration.found)
        {
            let sums = logs.entry(name).or_default();
            sums.0 += 1.0;
            sums.1 += expected.ln();
            sums.2 += speedup.ln();
        }
    }
    for (name, (count, expected, measured)) in logs {
        if let Some(rate) = rates.get_mut(&name) {
            rate.expected = Some((expected / count).exp());
            rate.measured = Some((measured / count).exp());
        }
    }
    rates
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn measured(verdict: Verdict, low: f64, high: f64) -> Found {
        Found::Measured {
            verdict,
            speedup: (low * high).sqrt(),
            interval: Interval { low, high },
            incumbent_ns: 100.0,
            candidate_ns: 90.0,
        }
    }

    #[test]
    fn promises_are_held_against_the_interval() {
        let of = |verdict, low, high, expected| {
            Prediction::of(&measured(verdict, low, high), expected, 0.03)
        };
        assert_eq!(
            of(Verdict::Faster, 1.08, 1.12, Some(1.10)),
            Prediction::Held
        );
        assert_eq!(
            of(Verdict::Faster, 1.05, 1.08, Some(1.10)),
            Prediction::Held
        );
        assert_eq!(
            of(Verdict::Faster, 1.04, 1.06, Some(1.10)),
            Prediction::FellShort
        );
        assert_eq!(
            of(Verdict::Faster, 1.30, 1.40, Some(1.10)),
            Prediction::Exceeded
        );
        assert_eq!(
            of(Verdict::Same, 0.99, 1.01, Some(1.10)),
            Prediction::Failed
        );
        assert_eq!(
            of(Verdict::Slower, 0.8, 0.9, Some(1.10)),
            Prediction::Failed
        );
        assert_eq!(
            of(Verdict::Undecided, 0.95, 1.2, Some(1.10)),
            Prediction::Open
        );
        assert_eq!(of(Verdict::Faster, 1.04, 1.06, None), Prediction::Held);
        assert_eq!(of(Verdict::Same, 0.99, 1.01, None), Prediction::Failed);
        assert_eq!(of(Verdict::Undecided, 0.9, 1.2, None), Prediction::Open);
        // A harmless clean-up, promised to cost nothing, costs nothing.
        assert_eq!(of(Verdict::Same, 0.99, 1.01, Some(1.0)), Prediction::Held);
        let wrong = Found::Wrong {
            of_candidate: true,
            message: String::new(),
        };
        assert_eq!(Prediction::of(&wrong, Some(1.1), 0.03), Prediction::Open);
        assert_eq!(Decision::of(&wrong), Decision::Rejected);
        assert_eq!(
            Decision::of(&measured(Verdict::Faster, 1.1, 1.2)),
            Decision::Kept
        );
        assert_eq!(
            Decision::of(&measured(Verdict::Undecided, 0.9, 1.2)),
            Decision::Rejected
        );
    }

    pub(crate) fn iteration(
        advice: Option<&str>,
        expected: Option<f64>,
        found: Found,
    ) -> Iteration {
        let version = |label: &str| Version {
            label: label.into(),
            sources: label.into(),
            files: label.into(),
            config: Vec::new(),
        };
        Iteration {
            number: 1,
            kernel: "k".into(),
            manifest: "kiln.toml".into(),
            shape: "target".into(),
            dimensions: Vec::new(),
            device: "d".into(),
            hypothesis: "h".into(),
            expected,
            advice: advice.map(str::to_string),
            incumbent: version("a"),
            candidate: version("b"),
            diff: String::new(),
            prediction: Prediction::of(&found, expected, 0.03),
            decision: Decision::of(&found),
            found,
            blind: false,
            margin: 0.03,
            kiln_version: "0".into(),
        }
    }

    #[test]
    fn rates_are_kept_by_rule() {
        let all = [
            iteration(
                Some("swizzle"),
                Some(1.2),
                measured(Verdict::Faster, 1.18, 1.22),
            ),
            iteration(
                Some("swizzle"),
                Some(1.2),
                measured(Verdict::Same, 0.99, 1.01),
            ),
            iteration(
                Some("swizzle"),
                Some(1.2),
                measured(Verdict::Undecided, 0.9, 1.3),
            ),
            iteration(None, None, measured(Verdict::Faster, 1.1, 1.2)),
        ];
        let rates = hit_rates(&all);
        let swizzle = &rates["swizzle"];
        assert_eq!(
            (swizzle.tried, swizzle.hits, swizzle.open, swizzle.kept),
            (2, 1, 1, 1)
        );
        assert!((swizzle.expected.unwrap_or(0.0) - 1.2).abs() < 1e-9);
        assert!(swizzle.measured.is_some_and(|m| m > 1.05 && m < 1.12));
        assert_eq!((rates[""].tried, rates[""].expected), (1, None));
    }
}
