//! A diagnosis from stages, where nothing was counted.

use super::reading::{Bound, Relation, Standing};
use super::{Stages, words};
use crate::bottleneck::{Advice, Cause, Class, Diagnosis};
use crate::manifest::{Stage, StageKind};

/// Advice that promises less is noise.
const LEAST_ADVICE: f64 = 1.03;

impl From<StageKind> for Class {
    fn from(kind: StageKind) -> Class {
        match kind {
            StageKind::Memory => Class::Memory,
            StageKind::Compute => Class::Compute,
            StageKind::SpecialFunction => Class::SpecialFunction,
            StageKind::Synchronisation => Class::Synchronisation,
        }
    }
}

/// What was known before, with what the stages add. A ceiling that is reached explains more than a stage does, and
/// keeps its name.
pub fn refine(base: Diagnosis, stages: &Stages, known: &[Stage]) -> Diagnosis {
    let is_explained = matches!(base.cause, Cause::Dram | Cause::Tensor | Cause::Launches);
    let (cause, class) = match &stages.reading.bound {
        _ if is_explained => (base.cause, base.class),
        Bound::Stage { stage } => (Cause::Stage, class_of(known, std::slice::from_ref(stage))),
        Bound::Together { stages } => (Cause::StagesTogether, class_of(known, stages)),
        Bound::Rest if base.cause == Cause::Unexplained => {
            (Cause::OutsideStages, Cause::OutsideStages.class())
        }
        Bound::Rest | Bound::Unknown => (base.cause, base.class),
    };
    let mut evidence = stages.sentences();
    // What binds comes first; the stages are ranked, so that is the first line unless it is several together.
    if let Bound::Together { stages: names } = &stages.reading.bound {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Some(timed) = stages.without(&names) {
            let all: Vec<String> = names.iter().map(ToString::to_string).collect();
            evidence.insert(0, words::ratio(&all, timed));
        }
    }
    let evidence = match is_explained {
        true => [base.evidence, evidence].concat(),
        false => [evidence, base.evidence].concat(),
    };
    let mut advice = advice(stages, known);
    advice.extend(base.advice);
    Diagnosis {
        class,
        cause,
        evidence,
        advice,
        ..base
    }
}

/// The class the author gave all of them; without one that they are stages is all that is known.
fn class_of(known: &[Stage], names: &[String]) -> Class {
    let mut kinds = names.iter().map(|name| kind_of(known, name));
    let Some(Some(first)) = kinds.next() else {
        return Class::Stage;
    };
    match kinds.all(|kind| kind == Some(first)) {
        true => first.into(),
        false => Class::Stage,
    }
}

fn kind_of(known: &[Stage], name: &str) -> Option<StageKind> {
    known.iter().find(|stage| stage.name == name)?.kind
}

fn advice(stages: &Stages, known: &[Stage]) -> Vec<Advice> {
    let mut found = Vec::new();
    for reading in &stages.reading.stages {
        let Some(timed) = stages.without(&[&reading.stage]) else {
            continue;
        };
        if reading.standing == Standing::Costs && reading.gain >= LEAST_ADVICE {
            found.push(Advice {
                rule: "shrink-stage".into(),
                change: format!(
                    "make `{}` cheaper: less work in it, or the same work while others wait",
                    reading.stage
                ),
                evidence: words::ratio(std::slice::from_ref(&reading.stage), timed),
                predicted_gain: reading.gain,
                tunables: Vec::new(),
            });
        }
    }
    if let Bound::Together { stages: names } = &stages.reading.bound {
        let plain: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Some(timed) = stages.without(&plain) {
            found.push(Advice {
                rule: "shrink-stages-together".into(),
                change: format!(
                    "make {} cheaper, all of them: one alone brings nothing while the others take its time",
                    words::named(names)
                ),
                evidence: words::ratio(names, timed),
                predicted_gain: 1.0 / timed.ratio,
                tunables: Vec::new(),
            });
        }
    }
    found.extend(overlap(stages, known));
    found.sort_by(|a, b| b.predicted_gain.total_cmp(&a.predicted_gain));
    found
}

/// Stages that take turns and keep different units busy could run at once: the shorter one is then free.
fn overlap(stages: &Stages, known: &[Stage]) -> Vec<Advice> {
    let saving = |name: &str| {
        let reading = stages.reading.stages.iter().find(|r| r.stage == name)?;
        (reading.standing == Standing::Costs).then_some(reading.saving)
    };
    let in_turn = stages
        .reading
        .pairs
        .iter()
        .filter(|pair| pair.relation == Relation::InTurn);
    in_turn
        .filter_map(|pair| {
            let [first, second] = &pair.stages;
            let (one, other) = (kind_of(known, first)?, kind_of(known, second)?);
            let shorter = saving(first)?.min(saving(second)?);
            let gain = 1.0 / (1.0 - shorter);
            (one != other && gain >= LEAST_ADVICE).then(|| Advice {
                rule: "overlap-stages".into(),
                change: format!(
                    "let `{first}` and `{second}` run at once: they keep different units busy"
                ),
                evidence: format!(
                    "they run one after the other; the shorter takes {:.0} % of the time",
                    100.0 * shorter
                ),
                predicted_gain: gain,
                tunables: Vec::new(),
            })
        })
        .collect()
}
