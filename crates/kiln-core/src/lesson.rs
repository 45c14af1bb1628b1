//! What studies, profiles and iterations taught about a kernel on a device, with what speaks for and against it.
//!
//! A lesson is the fold of observations about one claim. It is never a prohibition: kernels are edited, and what
//! failed yesterday may work today. The search takes a learnt constraint as a small chance, which its own trials
//! may correct.

use serde::{Deserialize, Serialize};

use crate::expression::Expr;
use crate::journal::{Dated, Entry};
use crate::space::Tunable;
use crate::trial::Assignment;
use crate::value::Value;

mod file;
mod markdown;
pub mod study;
mod words;

pub use file::{FileError, LessonFile};
pub use markdown::{evidence_text, markdown};

/// Of trials that meet a learnt constraint, from this part on that worked it no longer holds.
const TOO_MANY_WORK: f64 = 0.2;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// Follows from kernel, architecture and claim, so that the same lesson has the same name everywhere.
    pub id: String,
    pub kernel: String,
    pub device: String,
    /// E.g. `sm_90`; `cpu` for processors.
    pub architecture: String,
    /// In words.
    pub statement: String,
    pub status: Status,
    /// How many observations it is made of.
    pub revision: u64,
    pub first_seen_unix_ms: u64,
    pub last_seen_unix_ms: u64,
    /// The kiln that saw it last.
    pub kiln_version: String,
    pub claim: Claim,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counter_evidence: Vec<Evidence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Holds,
    /// What speaks against it weighs more.
    Contradicted,
    /// Forgotten on purpose.
    Retired,
}

/// The machine-readable form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Claim {
    /// Configs that meet the expression fail.
    Constraint { when: String, reason: String },
    /// A tunable's value against its worst at one shape.
    Effect {
        tunable: String,
        value: Value,
        against: Value,
        /// Time with `against` over time with `value`, less 1: 0.06 is 6 % slower.
        change: f64,
        low: f64,
        high: f64,
        dimensions: Vec<(String, i64)>,
    },
    /// What limits a kernel at one shape.
    Bottleneck {
        class: String,
        cause: String,
        dimensions: Vec<(String, i64)>,
    },
    /// Whether advice came true.
    Advice {
        rule: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected: Option<f64>,
        speedup: f64,
        low: f64,
        high: f64,
    },
}

/// Where a lesson comes from. Trials are those of the study, the first few of `count`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The project it is in; empty for the one at hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub project: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<u64>,
    /// How many trials there are of it.
    pub count: u64,
    /// The version of the kernel, as studies name it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sources: String,
}

/// One thing seen that bears on a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    pub kernel: String,
    pub device: String,
    pub architecture: String,
    pub claim: Claim,
    pub statement: String,
    pub stance: Stance,
    pub evidence: Evidence,
    pub kiln_version: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stance {
    Supports,
    Contradicts,
}

impl Claim {
    pub fn kind(&self) -> &'static str {
        match self {
            Claim::Constraint { .. } => "constraint",
            Claim::Effect { .. } => "effect",
            Claim::Bottleneck { .. } => "bottleneck",
            Claim::Advice { .. } => "advice",
        }
    }

    /// What makes two claims the same one, whatever was measured.
    fn subject(&self) -> String {
        match self {
            Claim::Constraint { when, .. } => when.clone(),
            Claim::Effect {
                tunable,
                value,
                dimensions,
                ..
            } => format!("{tunable}={value} {}", dimensions_text(dimensions)),
            // At one shape a kernel has one bottleneck: another class contradicts.
            Claim::Bottleneck {
                class, dimensions, ..
            } => format!("{class} {}", dimensions_text(dimensions)),
            Claim::Advice { rule, .. } => rule.clone(),
        }
    }
}

impl Observation {
    pub fn lesson(&self) -> String {
        lesson_id(&self.kernel, &self.architecture, &self.claim)
    }
}

/// `L` and ten digits: the same for the same claim, in every project.
pub fn lesson_id(kernel: &str, architecture: &str, claim: &Claim) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [kernel, architecture, claim.kind(), &claim.subject()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    format!("L{}", &hasher.finalize().to_hex()[..10])
}

/// `N=4096 M=16`.
pub fn dimensions_text(dimensions: &[(String, i64)]) -> String {
    let each = dimensions.iter().map(|(name, n)| format!("{name}={n}"));
    each.collect::<Vec<_>>().join(" ")
}

impl Lesson {
    /// How many trials failed as a learnt constraint says, and how many worked all the same.
    pub fn counts(&self) -> (u64, u64) {
        let sum = |of: &[Evidence]| of.iter().map(|e| e.count).sum();
        (sum(&self.evidence), sum(&self.counter_evidence))
    }

    fn settle(&mut self, latest: Stance) {
        let (failed, worked) = self.counts();
        let is_contradicted = match &self.claim {
            Claim::Constraint { .. } => {
                worked as f64 >= TOO_MANY_WORK * (failed + worked).max(1) as f64
            }
            // Numbers of one kernel on one device: the latest measurement is of the latest source.
            _ => latest == Stance::Contradicts,
        };
        self.status = match is_contradicted {
            true => Status::Contradicted,
            false => Status::Holds,
        };
    }

    fn observe(&mut self, unix_ms: u64, observation: &Observation) {
        self.revision += 1;
        self.last_seen_unix_ms = unix_ms;
        self.kiln_version.clone_from(&observation.kiln_version);
        let evidence = observation.evidence.clone();
        match observation.stance {
            Stance::Supports => {
                self.evidence.push(evidence);
                self.claim = observation.claim.clone();
                self.statement.clone_from(&observation.statement);
                self.device.clone_from(&observation.device);
            }
            Stance::Contradicts => self.counter_evidence.push(evidence),
        }
        if let Claim::Advice { .. } = &observation.claim {
            self.claim = observation.claim.clone();
            self.statement.clone_from(&observation.statement);
        }
        // What was forgotten on purpose stays so, and its evidence is kept.
        if self.status != Status::Retired {
            self.settle(observation.stance);
        }
    }

    /// Whether it bears on a kernel: its own, on the same architecture, whose tunables are still there.
    pub fn applies(&self, kernel: &str, architecture: &str, tunables: &[Tunable]) -> bool {
        let is_there = |name: &str| tunables.iter().any(|t| t.name == name);
        let names_are_there = match &self.claim {
            Claim::Constraint { when, .. } => {
                Expr::parse(when).is_ok_and(|e| e.names().iter().all(|n| is_there(&n.name)))
            }
            Claim::Effect { tunable, value, .. } => tunables
                .iter()
                .any(|t| t.name == *tunable && t.values.contains(value)),
            Claim::Bottleneck { .. } | Claim::Advice { .. } => true,
        };
        self.kernel == kernel && self.architecture == architecture && names_are_there
    }
}

/// The lessons of a project, in the order they were first seen.
pub fn lessons(entries: &[Dated]) -> Vec<Lesson> {
    let mut lessons: Vec<Lesson> = Vec::new();
    for dated in entries {
        match &dated.entry {
            Entry::Observed(observation) => {
                let id = observation.lesson();
                let place = match lessons.iter().position(|l| l.id == id) {
                    Some(place) => place,
                    // Nothing to contradict: the claim was never made here. Advice is a claim of its own.
                    None if observation.stance == Stance::Contradicts
                        && !matches!(observation.claim, Claim::Advice { .. }) =>
                    {
                        continue;
                    }
                    None => {
                        lessons.push(new_lesson(id, dated.unix_ms, observation));
                        lessons.len() - 1
                    }
                };
                lessons[place].observe(dated.unix_ms, observation);
            }
            Entry::LessonImported(imported) => {
                match lessons.iter_mut().find(|l| l.id == imported.id) {
                    Some(known) => merge(known, imported),
                    None => lessons.push((**imported).clone()),
                }
            }
            Entry::LessonRetired { lesson, .. } => {
                if let Some(known) = lessons.iter_mut().find(|l| l.id == *lesson) {
                    known.status = Status::Retired;
                    known.last_seen_unix_ms = dated.unix_ms;
                }
            }
            _ => {}
        }
    }
    lessons
}

fn new_lesson(id: String, unix_ms: u64, observation: &Observation) -> Lesson {
    Lesson {
        id,
        kernel: observation.kernel.clone(),
        device: observation.device.clone(),
        architecture: observation.architecture.clone(),
        statement: observation.statement.clone(),
        status: Status::Holds,
        revision: 0,
        first_seen_unix_ms: unix_ms,
        last_seen_unix_ms: unix_ms,
        kiln_version: observation.kiln_version.clone(),
        claim: observation.claim.clone(),
        evidence: Vec::new(),
        counter_evidence: Vec::new(),
    }
}

/// Whether what comes from elsewhere is there already: imported before, or this project's own come home.
fn is_same_piece(known: &Evidence, imported: &Evidence) -> bool {
    let at_home = Evidence {
        project: String::new(),
        ..imported.clone()
    };
    known == imported || (known.project.is_empty() && *known == at_home)
}

/// What another project saw of the same claim is added, each piece once; importing a file twice changes nothing.
fn merge(known: &mut Lesson, imported: &Lesson) {
    let mut added = 0;
    for (into, from) in [
        (&mut known.evidence, &imported.evidence),
        (&mut known.counter_evidence, &imported.counter_evidence),
    ] {
        for evidence in from {
            if !into.iter().any(|known| is_same_piece(known, evidence)) {
                into.push(evidence.clone());
                added += 1;
            }
        }
    }
    if added == 0 && known.status != Status::Retired {
        return;
    }
    known.revision += added;
    known.first_seen_unix_ms = known.first_seen_unix_ms.min(imported.first_seen_unix_ms);
    known.last_seen_unix_ms = known.last_seen_unix_ms.max(imported.last_seen_unix_ms);
    let latest = match known.status {
        Status::Contradicted => Stance::Contradicts,
        Status::Holds | Status::Retired => Stance::Supports,
    };
    known.settle(latest);
}

/// Whether a config meets an expression over its tunables; `None` where it cannot be evaluated.
pub fn meets(when: &str, config: &Assignment) -> Option<bool> {
    let names: Vec<&str> = config.iter().map(|(name, _)| name.as_str()).collect();
    let values: Vec<Value> = config.iter().map(|(_, value)| value.clone()).collect();
    let bound = Expr::parse(when).ok()?.bind(&names).ok()?;
    Some(bound.eval(&values).ok()?.is_truthy())
}

#[cfg(test)]
mod tests;
