//! Lessons out of a study: rules of its failures, effects of its tunables, and what its trials say about lessons that
//! were known before.

use super::{Claim, Evidence, Lesson, Observation, Stance, Status, meets};
use crate::effects::{Cost, Effects, Finding, MARGIN, Observations, TunableEffect};
use crate::failure_rules::Failures;
use crate::study::Study;
use crate::value::Value;

/// Trials named with a lesson; all are counted.
const MOST_TRIALS_NAMED: usize = 8;
/// A rule with fewer failures behind it may be an accident.
const FEWEST_FAILURES: usize = 3;
/// Effects kept of one study, the most important first.
const MOST_EFFECTS: usize = 4;

/// What a study taught, and what it says about what was known.
pub fn observations(study: &Study, architecture: &str, known: &[Lesson]) -> Vec<Observation> {
    let observe = |claim: Claim, statement: String, stance: Stance, trials: Vec<u64>| Observation {
        kernel: study.header.kernel.clone(),
        device: study.header.device.name.clone(),
        architecture: architecture.to_string(),
        claim,
        statement,
        stance,
        evidence: Evidence {
            study: Some(study.id),
            count: trials.len() as u64,
            trials: trials.into_iter().take(MOST_TRIALS_NAMED).collect(),
            sources: study.header.identity.sources.clone(),
            ..Evidence::default()
        },
        kiln_version: study.header.kiln_version.clone(),
    };
    let mut seen: Vec<Observation> = Vec::new();
    let here = |lesson: &&Lesson| {
        let is_here = lesson.kernel == study.header.kernel && lesson.architecture == architecture;
        is_here && lesson.status != Status::Retired
    };
    let known: Vec<&Lesson> = known.iter().filter(here).collect();

    for rule in rules(study) {
        let (failed, worked) = split(study, &rule.when);
        if failed.len() < FEWEST_FAILURES {
            continue;
        }
        let claim = Claim::Constraint {
            when: rule.when,
            reason: rule.reason,
        };
        seen.push(observe(
            claim.clone(),
            rule.sentence.clone(),
            Stance::Supports,
            failed,
        ));
        if !worked.is_empty() {
            seen.push(observe(claim, rule.sentence, Stance::Contradicts, worked));
        }
    }
    for lesson in &known {
        let Claim::Constraint { when, .. } = &lesson.claim else {
            continue;
        };
        if seen.iter().any(|o| o.lesson() == lesson.id) {
            continue;
        }
        let (failed, worked) = split(study, when);
        for (trials, stance) in [(failed, Stance::Supports), (worked, Stance::Contradicts)] {
            if !trials.is_empty() {
                let (claim, statement) = (lesson.claim.clone(), lesson.statement.clone());
                seen.push(observe(claim, statement, stance, trials));
            }
        }
    }
    for (claim, statement, stance) in effects(study, &known) {
        let measured = study.trials.iter();
        let measured = measured.filter(|t| t.outcome.measurement().is_some());
        seen.push(observe(
            claim,
            statement,
            stance,
            measured.map(|t| t.number).collect(),
        ));
    }
    seen
}

struct FailureRule {
    when: String,
    reason: String,
    sentence: String,
}

fn rules(study: &Study) -> Vec<FailureRule> {
    let failures = Failures::of_study(study);
    let groups = failures.groups.iter().filter_map(|group| {
        let rule = group.rule.as_ref()?;
        Some(FailureRule {
            when: rule.when.clone(),
            reason: group.reason.clone(),
            sentence: group.sentence.clone(),
        })
    });
    let mut rules: Vec<FailureRule> = groups.collect();
    if let (Some(rule), Some(sentence)) = (&failures.together, failures.together_sentence()) {
        rules.push(FailureRule {
            when: rule.when.clone(),
            reason: "several".into(),
            sentence,
        });
    }
    // Two groups may follow the same rule.
    let mut said: Vec<String> = Vec::new();
    rules.retain(|rule| {
        let is_new = !said.contains(&rule.when);
        said.push(rule.when.clone());
        is_new
    });
    rules
}

/// Trials that meet a rule: those that failed, and those that worked.
fn split(study: &Study, when: &str) -> (Vec<u64>, Vec<u64>) {
    let met = study
        .trials
        .iter()
        .filter(|t| meets(when, &t.config) == Some(true));
    let (mut failed, mut worked) = (Vec::new(), Vec::new());
    for trial in met {
        match trial.outcome.measurement() {
            Some(_) => worked.push(trial.number),
            None => failed.push(trial.number),
        }
    }
    (failed, worked)
}

/// The fastest value of each tunable that matters, against its slowest; and what that says of earlier claims.
fn effects(study: &Study, known: &[&Lesson]) -> Vec<(Claim, String, Stance)> {
    let found = Effects::of(&Observations::of_study(study));
    let dimensions = &study.header.dimensions;
    let mut seen = Vec::new();
    for effect in found
        .important()
        .filter(|e| e.finding == Finding::Matters)
        .take(MOST_EFFECTS)
    {
        let Some(best) = &effect.best else {
            continue;
        };
        let costs = effect
            .values
            .iter()
            .filter(|v| v.value != *best)
            .filter_map(|v| Some((v, v.cost?)));
        let Some((worst, cost)) = costs
            .filter(|(_, cost)| cost.low > MARGIN)
            .max_by(|a, b| a.1.change.total_cmp(&b.1.change))
        else {
            continue;
        };
        let claim = Claim::Effect {
            tunable: effect.tunable.clone(),
            value: best.clone(),
            against: worst.value.clone(),
            change: cost.change,
            low: cost.low,
            high: cost.high,
            dimensions: dimensions.clone(),
        };
        let statement = claim.sentence((0, 0));
        let about_others = about_other_values(known, effect, dimensions, best);
        let is_level_with_another = about_others.iter().any(|(_, s)| *s == Stance::Supports);
        if !is_level_with_another {
            seen.push((claim, statement, Stance::Supports));
        }
        let repeated = about_others.into_iter();
        seen.extend(repeated.map(|(l, stance)| (l.claim.clone(), l.statement.clone(), stance)));
    }
    seen
}

/// What a study says about lessons by which other values are the fastest. One that is clearly slower was no lesson; one
/// that is level as far as can be told stands, and there is no second claim beside it.
pub(super) fn about_other_values<'l>(
    known: &[&'l Lesson],
    effect: &TunableEffect,
    dimensions: &[(String, i64)],
    best: &Value,
) -> Vec<(&'l Lesson, Stance)> {
    let mut found: Vec<(&Lesson, Stance)> = Vec::new();
    for lesson in known {
        let Some(cost) = cost_of_claimed(lesson, effect, dimensions, best) else {
            continue;
        };
        if cost.low > MARGIN {
            found.push((lesson, Stance::Contradicts));
        } else if lesson.status == Status::Holds
            && !found.iter().any(|(_, s)| *s == Stance::Supports)
        {
            found.push((lesson, Stance::Supports));
        }
    }
    found
}

/// What the value that a lesson calls the fastest costs by a later study, which found another to be.
fn cost_of_claimed(
    lesson: &Lesson,
    effect: &TunableEffect,
    dimensions: &[(String, i64)],
    best: &Value,
) -> Option<Cost> {
    let Claim::Effect {
        tunable,
        value,
        dimensions: at,
        ..
    } = &lesson.claim
    else {
        return None;
    };
    let is_about_this = *tunable == effect.tunable && at == dimensions && value != best;
    let claimed = effect.values.iter().find(|v| v.value == *value);
    claimed.filter(|_| is_about_this)?.cost
}
