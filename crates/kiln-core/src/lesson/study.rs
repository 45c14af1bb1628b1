//! Lessons out of a study: rules of its failures, effects of its tunables, and what its trials say about lessons that
//! were known before.

use super::{Claim, Evidence, Lesson, Observation, Stance, Status, dimensions_text, meets};
use crate::study::Study;

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

fn rules(_study: &Study) -> Vec<FailureRule> { Vec::new() }

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

fn effects(_study: &Study, _known: &[&Lesson]) -> Vec<(Claim, String, Stance)> { Vec::new() }
