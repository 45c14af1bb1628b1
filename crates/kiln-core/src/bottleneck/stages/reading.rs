//! From ratios to what each stage costs, what hides what, and what is not to be believed.

use serde::{Deserialize, Serialize};

use super::words;
use super::{TimedVariant, Variant, VariantResult, timed};
use crate::stats::Interval;

/// Parts of the time below this are nothing.
const MARGIN: f64 = 0.03;
/// Two stages that save this much more, or less, together than one by one are not independent.
const TOGETHER: f64 = 0.05;
/// Within this they are: the interval of three ratios is wide.
const APART: f64 = 0.10;
/// What has to be gained without a stage for it to bind the kernel.
const LEAST_GAIN: f64 = 1.1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    pub bound: Bound,
    /// Of stages that were timed.
    pub stages: Vec<StageReading>,
    pub pairs: Vec<PairReading>,
    /// Part of the time that is left when all stages are out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<f64>,
    /// Signs that a variant lost more, or other things, than its stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// What binds the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Bound {
    /// Without it most is gained.
    Stage { stage: String },
    /// Little is gained without one of them, much without all: each hides behind the others.
    Together { stages: Vec<String> },
    /// Without any stage it takes about as long: latency, launches, or what is in no stage.
    Rest,
    /// The times do not tell.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReading {
    pub stage: String,
    pub standing: Standing,
    /// Part of the whole kernel's time that goes with it; what another stage lost by it is not counted.
    pub saving: f64,
    /// The most that can be gained there.
    pub gain: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The kernel is faster without it.
    Costs,
    /// It takes as long without it: others take its time anyway.
    Hidden,
    /// The kernel is slower without it: the rest became something else.
    Slower,
    /// Too noisy to tell.
    Unclear,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairReading {
    pub stages: [String; 2],
    pub relation: Relation,
    /// Part of the whole kernel's time that both have in common.
    pub share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// One after the other: together they save the sum.
    InTurn,
    /// At the same time: together they save more than the sum, for each hides a part of the other.
    SideBySide,
    /// With one goes part of the other: together they save less than the sum.
    Entangled,
    Unclear,
}

impl Reading {
    pub(super) fn of(variants: &[Variant], whole_occupancy: Option<f64>) -> Reading {
        let singles: Vec<(&str, &TimedVariant)> = variants
            .iter()
            .filter_map(|variant| match variant.without.as_slice() {
                [stage] => Some((stage.as_str(), variant.timed()?)),
                _ => None,
            })
            .collect();
        let pairs = pairs(variants, &singles);
        let stages: Vec<StageReading> = singles
            .iter()
            .map(|(stage, timed)| stage_reading(stage, timed, &singles, &pairs))
            .collect();
        let all = everything(variants);
        Reading {
            bound: bound(variants, &stages, all),
            doubts: doubts(variants, &singles, &pairs, whole_occupancy),
            rest: all.map(|(_, timed)| timed.ratio),
            stages,
            pairs,
        }
    }
}

/// The variant with the most stages left out, where that is all of them.
fn everything(variants: &[Variant]) -> Option<(&Variant, &TimedVariant)> {
    let most = variants
        .iter()
        .max_by_key(|variant| variant.without.len())?;
    let has_all = variants
        .iter()
        .filter(|variant| !matches!(variant.result, VariantResult::SameCode))
        .flat_map(|variant| &variant.without)
        .all(|stage| most.without.contains(stage));
    has_all.then_some((most, most.timed()?))
}

fn pairs(variants: &[Variant], singles: &[(&str, &TimedVariant)]) -> Vec<PairReading> {
    let mut readings = Vec::new();
    for (place, (first, one)) in singles.iter().enumerate() {
        for (second, other) in &singles[place + 1..] {
            let Some(both) = timed(variants, &[first, second]) else {
                continue;
            };
            let (relation, share) = relation(one, other, both);
            readings.push(PairReading {
                stages: [first.to_string(), second.to_string()],
                relation,
                share,
            });
        }
    }
    readings
}

/// What two save together beyond what each saves alone, as a part of the whole.
fn relation(one: &TimedVariant, other: &TimedVariant, both: &TimedVariant) -> (Relation, f64) {
    let more = one.ratio + other.ratio - both.ratio - 1.0;
    let (a, b, ab) = (one.ratio_ci_95, other.ratio_ci_95, both.ratio_ci_95);
    // The ends of three intervals at once: wider than need be, so that noise is called nothing.
    let interval = Interval {
        low: a.low + b.low - ab.high - 1.0,
        high: a.high + b.high - ab.low - 1.0,
    };
    let relation = match interval {
        Interval { low, .. } if low > TOGETHER => Relation::SideBySide,
        Interval { high, .. } if high < -TOGETHER => Relation::Entangled,
        Interval { low, high } if low >= -APART && high <= APART => Relation::InTurn,
        _ => Relation::Unclear,
    };
    (relation, more.abs())
}

fn standing(ratio: f64, interval: Interval) -> Standing {
    match interval {
        Interval { low, .. } if low > 1.0 + MARGIN => Standing::Slower,
        Interval { high, .. } if high < 1.0 && ratio <= 1.0 - MARGIN => Standing::Costs,
        Interval { low, .. } if low >= 1.0 - MARGIN => Standing::Hidden,
        _ => Standing::Unclear,
    }
}

fn stage_reading(
    stage: &str,
    timed: &TimedVariant,
    singles: &[(&str, &TimedVariant)],
    pairs: &[PairReading],
) -> StageReading {
    let saving = 1.0 - timed.ratio;
    // Of two that are entangled, the one that saves more took part of the other with it.
    let others_part: f64 = pairs
        .iter()
        .filter(|pair| pair.relation == Relation::Entangled)
        .filter_map(|pair| Some((other_of(pair, stage)?, pair.share)))
        .filter(|(other, _)| {
            let found = singles.iter().find(|(name, _)| name == other);
            found.is_some_and(|(_, victim)| 1.0 - victim.ratio <= saving)
        })
        .map(|(_, share)| share)
        .sum();
    let saving = match others_part > 0.0 {
        true => (saving - others_part).max(0.0),
        false => saving,
    };
    StageReading {
        stage: stage.to_string(),
        standing: standing(timed.ratio, timed.ratio_ci_95),
        saving,
        gain: 1.0 / (1.0 - saving),
    }
}

fn other_of<'a>(pair: &'a PairReading, stage: &str) -> Option<&'a str> {
    match &pair.stages {
        [first, second] if first == stage => Some(second),
        [first, second] if second == stage => Some(first),
        _ => None,
    }
}

fn bound(
    variants: &[Variant],
    stages: &[StageReading],
    all: Option<(&Variant, &TimedVariant)>,
) -> Bound {
    let best = stages
        .iter()
        .filter(|stage| stage.standing == Standing::Costs)
        .max_by(|a, b| a.saving.total_cmp(&b.saving));
    if let Some(best) = best.filter(|best| best.gain >= LEAST_GAIN) {
        return Bound::Stage {
            stage: best.stage.clone(),
        };
    }
    // The fewest that bring something together.
    let several = variants
        .iter()
        .filter(|variant| variant.without.len() > 1)
        .filter_map(|variant| Some((variant, variant.timed()?)))
        .filter(|(_, timed)| timed.ratio_ci_95.high * LEAST_GAIN <= 1.0)
        .min_by(|(a, x), (b, y)| {
            let fewest = a.without.len().cmp(&b.without.len());
            fewest.then(x.ratio.total_cmp(&y.ratio))
        });
    if let Some((variant, _)) = several {
        return Bound::Together {
            stages: variant.without.clone(),
        };
    }
    match all {
        Some((_, timed)) if timed.ratio_ci_95.low * LEAST_GAIN > 1.0 => Bound::Rest,
        _ => Bound::Unknown,
    }
}

fn doubts(
    variants: &[Variant],
    singles: &[(&str, &TimedVariant)],
    pairs: &[PairReading],
    whole_occupancy: Option<f64>,
) -> Vec<String> {
    let mut doubts = Vec::new();
    for variant in variants {
        let Some(found) = variant.timed() else {
            continue;
        };
        if !found.same_code_as.is_empty() {
            doubts.push(words::same_code(&variant.without, &found.same_code_as));
        }
        if let Some(floor) = floor_of(variant, found, variants) {
            doubts.push(words::below_floor(variant, found, floor));
        }
    }
    let entangled = pairs
        .iter()
        .filter(|pair| pair.relation == Relation::Entangled);
    doubts.extend(entangled.map(words::entangled));
    doubts.extend(more_than_all(variants, singles, pairs));
    for (stage, found) in singles {
        if let (Some(whole), Some(without)) = (whole_occupancy, found.occupancy)
            && without > whole + TOGETHER
        {
            doubts.push(words::more_warps(stage, whole, without));
        }
    }
    doubts
}

/// A variant that leaves out all that this one does, and more, and yet takes longer: what remains cannot be that quick.
fn floor_of<'a>(
    variant: &Variant,
    found: &TimedVariant,
    variants: &'a [Variant],
) -> Option<&'a Variant> {
    variants.iter().find(|other| {
        let leaves_out_more = other.without.len() > variant.without.len()
            && variant.without.iter().all(|s| other.without.contains(s));
        leaves_out_more
            && other
                .timed()
                .is_some_and(|slower| found.ratio_ci_95.high < slower.ratio_ci_95.low - MARGIN)
    })
}

/// Without pairs to tell which: one by one the stages save more than all at once.
fn more_than_all(
    variants: &[Variant],
    singles: &[(&str, &TimedVariant)],
    pairs: &[PairReading],
) -> Option<String> {
    let (_, all) = everything(variants)?;
    if !pairs.is_empty() || singles.len() < 2 {
        return None;
    }
    let least: f64 = singles
        .iter()
        .map(|(_, found)| (1.0 - found.ratio_ci_95.high).max(0.0))
        .sum();
    let sum: f64 = singles.iter().map(|(_, found)| 1.0 - found.ratio).sum();
    let at_once = 1.0 - all.ratio_ci_95.low;
    (least > at_once + TOGETHER).then(|| words::more_than_all(sum, 1.0 - all.ratio))
}
