//! What was found, in sentences.

use super::reading::{PairReading, Relation, StageReading, Standing};
use super::{Stages, TimedVariant, Variant, VariantResult};

/// `` `a` ``, `` `a` and `b` ``, `` `a`, `b` and `c` ``.
pub(super) fn named(stages: &[String]) -> String {
    let quoted: Vec<String> = stages.iter().map(|stage| format!("`{stage}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// `` without `loads` 0.62x of the time [0.61, 0.63] ``.
pub(super) fn ratio(without: &[String], timed: &TimedVariant) -> String {
    // As many digits for all three.
    let digits = if timed.ratio < 0.095 { 3 } else { 2 };
    format!(
        "without {} {:.digits$}x of the time [{:.digits$}, {:.digits$}]",
        named(without),
        timed.ratio,
        timed.ratio_ci_95.low,
        timed.ratio_ci_95.high
    )
}

/// What a stage costs, with its numbers.
pub(super) fn of_stage(reading: &StageReading, timed: &TimedVariant) -> String {
    let ratio = ratio(std::slice::from_ref(&reading.stage), timed);
    match reading.standing {
        Standing::Costs => {
            // What another stage lost by it is not to be gained.
            let shared = match 1.0 / timed.ratio - reading.gain > 0.02 {
                true => ", for part of another goes with it",
                false => "",
            };
            format!(
                "{ratio}: at most {} to gain there{shared}",
                gain(reading.gain)
            )
        }
        Standing::Hidden => format!("{ratio}: hidden, nothing to gain there alone"),
        Standing::Slower => format!("{ratio}: slower, so the rest became something else"),
        Standing::Unclear => format!("{ratio}: too noisy to tell"),
    }
}

fn gain(gain: f64) -> String {
    match gain {
        // A launch with nothing left in it.
        100.0.. => "all".into(),
        10.0.. => format!("{gain:.0}x"),
        2.0.. => format!("{gain:.1}x"),
        _ => format!("{gain:.2}x"),
    }
}

fn of_pair(pair: &PairReading) -> Option<String> {
    let [first, second] = &pair.stages;
    match pair.relation {
        Relation::SideBySide => Some(format!(
            "`{first}` and `{second}` hide behind each other: {} of the time is both at once",
            percent(pair.share)
        )),
        Relation::InTurn => Some(format!(
            "`{first}` and `{second}` run one after the other: together they save the sum"
        )),
        Relation::Entangled | Relation::Unclear => None,
    }
}

pub(super) fn entangled(pair: &PairReading) -> String {
    let [first, second] = &pair.stages;
    format!(
        "`{first}` and `{second}` save {} less together than one by one: with one goes part of the other",
        percent(pair.share)
    )
}

pub(super) fn same_code(without: &[String], same_as: &[String]) -> String {
    let gone: Vec<String> = without
        .iter()
        .filter(|stage| !same_as.contains(stage))
        .cloned()
        .collect();
    format!(
        "without {} the compiler drops {} too: the machine code is the same",
        named(same_as),
        named(&gone)
    )
}

pub(super) fn below_floor(variant: &Variant, found: &TimedVariant, floor: &Variant) -> String {
    let slower = match &floor.result {
        VariantResult::Timed(slower) => slower.ratio,
        _ => f64::NAN,
    };
    format!(
        "without {} it takes {:.2}x of the time, less than without {} ({slower:.2}x): more than the stage is gone",
        named(&variant.without),
        found.ratio,
        named(&floor.without)
    )
}

pub(super) fn more_than_all(sum: f64, at_once: f64) -> String {
    format!(
        "one by one the stages save {} of the time, all at once {}: with one goes part of another",
        percent(sum),
        percent(at_once)
    )
}

pub(super) fn more_warps(stage: &str, whole: f64, without: f64) -> String {
    format!(
        "without `{stage}` {} of the warps fit instead of {}: part of what it saves is that",
        percent(without),
        percent(whole)
    )
}

impl Stages {
    /// Everything that was found, the weightiest stage first.
    pub fn sentences(&self) -> Vec<String> {
        let mut ranked: Vec<&StageReading> = self.reading.stages.iter().collect();
        ranked.sort_by(|a, b| b.saving.total_cmp(&a.saving));
        let mut lines: Vec<String> = ranked
            .into_iter()
            .filter_map(|reading| Some(of_stage(reading, self.without(&[&reading.stage])?)))
            .collect();
        lines.extend(self.reading.pairs.iter().filter_map(of_pair));
        if let Some(rest) = self.reading.rest {
            lines.push(format!(
                "without any of them {} of the time is left",
                percent(rest)
            ));
        }
        lines.extend(self.variants.iter().filter_map(of_variant));
        lines
    }
}

/// Why a variant has no time.
fn of_variant(variant: &Variant) -> Option<String> {
    let without = named(&variant.without);
    match &variant.result {
        VariantResult::Timed(_) => None,
        VariantResult::SameCode => Some(format!(
            "{without} changes nothing here: without it the machine code is the same"
        )),
        VariantResult::NotCompiled { message } => {
            Some(format!("without {without} it does not compile: {message}"))
        }
        VariantResult::Failed { message } => Some(format!("without {without}: {message}")),
    }
}
