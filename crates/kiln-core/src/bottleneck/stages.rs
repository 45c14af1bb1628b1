//! What a kernel costs without one of its stages, and what binds it by that.
//!
//! Flow: times of the whole kernel and of variants with stages left out -> [`Stages`], ratios with intervals ->
//! [`Reading`]: what each stage costs, which run side by side, what binds, and what is not to be believed ->
//! [`refine`], a diagnosis where there are no counters. A variant computes wrong answers by construction; only its
//! time is looked at, and whether the compiler left out more than it was told to.

use serde::{Deserialize, Serialize};

use crate::stats::{Interval, median, ratio_interval};
use crate::verdict::RESAMPLES;

mod diagnosis;
mod reading;
#[cfg(test)]
mod tests;
mod words;

pub use diagnosis::refine;
pub use reading::{Bound, PairReading, Reading, Relation, StageReading, Standing};

/// Pairs are timed up to this many stages: beyond it they would be more than the stages themselves.
const MOST_PAIRED: usize = 4;

/// A kernel with stages left out, beside the whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// The whole kernel, timed between the variants.
    pub whole_ns: f64,
    /// One list per round of fresh processes.
    pub whole_rounds_ns: Vec<Vec<f64>>,
    /// Part of the warps that fit, by the compiler's report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_occupancy: Option<f64>,
    /// Single stages in the manifest's order, then pairs, then all of them.
    pub variants: Vec<Variant>,
    pub reading: Reading,
}

/// The kernel without some of its stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    pub without: Vec<String>,
    #[serde(flatten)]
    pub result: VariantResult,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum VariantResult {
    Timed(TimedVariant),
    /// Its machine code is that of the whole kernel: in this config the stage does not exist.
    SameCode,
    NotCompiled {
        message: String,
    },
    /// It crashed, hung, or wrote outside its buffers.
    Failed {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedVariant {
    pub time_ns: f64,
    /// Its time over that of the whole kernel.
    pub ratio: f64,
    pub ratio_ci_95: Interval,
    pub rounds_ns: Vec<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
    /// A variant with fewer stages left out that has the same machine code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_code_as: Vec<String>,
}

/// What was measured of a variant.
#[derive(Clone, Debug)]
pub struct Measured {
    pub without: Vec<String>,
    pub result: MeasuredResult,
}

#[derive(Clone, Debug)]
pub enum MeasuredResult {
    Timed {
        rounds_ns: Vec<Vec<f64>>,
        occupancy: Option<f64>,
        same_code_as: Vec<String>,
    },
    SameCode,
    NotCompiled {
        message: String,
    },
    Failed {
        message: String,
    },
}

/// Which stages are left out together: each alone, pairs where there are few stages, and all.
pub fn combinations(stages: &[String]) -> Vec<Vec<String>> {
    let mut sets: Vec<Vec<String>> = stages.iter().map(|stage| vec![stage.clone()]).collect();
    if stages.len() <= MOST_PAIRED {
        for (place, first) in stages.iter().enumerate() {
            let pairs = stages[place + 1..].iter();
            sets.extend(pairs.map(|second| vec![first.clone(), second.clone()]));
        }
    }
    if !sets.iter().any(|set| set.len() == stages.len()) && !stages.is_empty() {
        sets.push(stages.to_vec());
    }
    sets
}

impl Stages {
    /// Ratios and what they mean. The same times and seed give the same answer.
    pub fn of(
        whole_rounds_ns: Vec<Vec<f64>>,
        whole_occupancy: Option<f64>,
        measured: Vec<Measured>,
        seed: u64,
    ) -> Stages {
        let whole_ns = median(&whole_rounds_ns.concat());
        let variants: Vec<Variant> = measured
            .into_iter()
            .map(|found| Variant {
                without: found.without,
                result: match found.result {
                    MeasuredResult::SameCode => VariantResult::SameCode,
                    MeasuredResult::NotCompiled { message } => {
                        VariantResult::NotCompiled { message }
                    }
                    MeasuredResult::Failed { message } => VariantResult::Failed { message },
                    MeasuredResult::Timed {
                        rounds_ns,
                        occupancy,
                        same_code_as,
                    } => {
                        let time_ns = median(&rounds_ns.concat());
                        VariantResult::Timed(TimedVariant {
                            time_ns,
                            ratio: time_ns / whole_ns,
                            ratio_ci_95: ratio_interval(
                                &rounds_ns,
                                &whole_rounds_ns,
                                0.95,
                                RESAMPLES,
                                seed,
                            ),
                            rounds_ns,
                            occupancy,
                            same_code_as,
                        })
                    }
                },
            })
            .collect();
        Stages {
            reading: Reading::of(&variants, whole_occupancy),
            whole_ns,
            whole_rounds_ns,
            whole_occupancy,
            variants,
        }
    }

    /// The time of the kernel without exactly these.
    pub fn without(&self, stages: &[&str]) -> Option<&TimedVariant> {
        timed(&self.variants, stages)
    }
}

impl Variant {
    fn timed(&self) -> Option<&TimedVariant> {
        match &self.result {
            VariantResult::Timed(timed) if timed.ratio.is_finite() && timed.ratio > 0.0 => {
                Some(timed)
            }
            _ => None,
        }
    }

    fn leaves_out(&self, stages: &[&str]) -> bool {
        self.without.len() == stages.len()
            && stages.iter().all(|s| self.without.iter().any(|w| w == s))
    }
}

fn timed<'a>(variants: &'a [Variant], stages: &[&str]) -> Option<&'a TimedVariant> {
    variants
        .iter()
        .find(|variant| variant.leaves_out(stages))?
        .timed()
}
