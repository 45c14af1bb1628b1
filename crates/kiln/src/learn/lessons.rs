//! Lessons: learnt at the end of a study, shown and used at the beginning of the next.

use kiln_core::bottleneck::{Class, Profile, Subject};
use kiln_core::diagnostic::printable;
use kiln_core::event::LearntConstraint;
use kiln_core::expression::Expr;
use kiln_core::journal::{Dated, Entry, ProfileRun};
use kiln_core::lesson::{
    self, Claim, Evidence, Lesson, Observation, Stance, Status, dimensions_text,
};
use kiln_core::protocol::DeviceInfo;
use kiln_core::search::Doubt;
use kiln_core::space::Space;
use kiln_core::study::Study;

use super::now_unix_ms;
use super::sources::identity;
use crate::engine::earlier::LISTENER;
use crate::engine::tune::Options;
use crate::exit::Failure;
use crate::store::Store;
use crate::task::Task;

/// More would scroll the study itself away.
const MOST_SHOWN: usize = 6;
/// A lesson about a source that has been edited since weighs as this many trials at the most.
const EDITED_SINCE: f64 = 5.0;

/// `sm_90`, or `cpu`.
pub fn architecture(device: &DeviceInfo) -> String {
    match &device.cuda {
        Some(gpu) => gpu.architecture.clone(),
        None => device.kind.clone(),
    }
}

pub fn of_project(store: &dyn Store) -> Result<Vec<Lesson>, Failure> {
    Ok(lesson::lessons(&store.journal()?))
}

/// Lessons that bear on a task: those of the same device first, constraints before effects.
pub fn that_apply(task: &Task, store: &dyn Store) -> Result<Vec<Lesson>, Failure> {
    // A replay is the same on every machine.
    if task.replayed.is_some() {
        return Ok(Vec::new());
    }
    let here = architecture(&task.device);
    let kernel = &task.manifest().kernel.name;
    let mut lessons = of_project(store)?;
    lessons
        .retain(|l| l.status == Status::Holds && l.applies(kernel, &here, task.space.tunables()));
    let dimensions = &task.manifest().target().dimensions;
    let is_elsewhere = |l: &Lesson| match &l.claim {
        Claim::Effect { dimensions: d, .. } | Claim::Bottleneck { dimensions: d, .. } => {
            d != dimensions
        }
        _ => false,
    };
    let order = |l: &Lesson| match l.claim {
        Claim::Constraint { .. } => 0,
        Claim::Bottleneck { .. } => 1,
        Claim::Effect { .. } => 2,
        Claim::Advice { .. } => 3,
    };
    lessons.sort_by_key(|l| (is_elsewhere(l), l.device != task.device.name, order(l)));
    Ok(lessons)
}

/// Lines for a person who is about to tune.
pub fn shown(lessons: &[Lesson]) -> Vec<String> {
    let mut lines: Vec<String> = lessons
        .iter()
        .take(MOST_SHOWN)
        .map(|l| format!("lesson {}: {}", l.id, printable(&l.statement)))
        .collect();
    let more = lessons.len().saturating_sub(MOST_SHOWN);
    if more > 0 {
        lines.push(format!(
            "{more} more lessons apply; `kiln lessons list` shows them"
        ));
    }
    lines
}

/// What the search is told. Only one strategy listens.
pub fn learnt_constraints(
    lessons: &[Lesson],
    task: &Task,
    options: &Options,
) -> Vec<LearntConstraint> {
    if options.strategy != LISTENER {
        return Vec::new();
    }
    let sources = identity(task);
    lessons
        .iter()
        .filter_map(|lesson| {
            let Claim::Constraint { when, .. } = &lesson.claim else {
                return None;
            };
            let (failed, worked) = lesson.counts();
            let (failed, worked) = (failed as f64, worked as f64);
            let all = lesson.evidence.iter().chain(&lesson.counter_evidence);
            let is_of_this_source = all.clone().any(|e| e.sources == sources);
            let scale = match is_of_this_source {
                true => 1.0,
                false => (EDITED_SINCE / (failed + worked).max(1.0)).min(1.0),
            };
            Some(LearntConstraint {
                lesson: lesson.id.clone(),
                when: when.clone(),
                failed: scale * failed,
                worked: scale * worked,
            })
        })
        .collect()
}

/// As the search takes them; one that names what is no tunable here says nothing.
pub fn doubts(learnt: &[LearntConstraint], space: &Space) -> Vec<Doubt> {
    let names: Vec<&str> = space.tunables().iter().map(|t| t.name.as_str()).collect();
    learnt
        .iter()
        .filter_map(|learnt| {
            Some(Doubt {
                when: Expr::parse(&learnt.when).ok()?.bind(&names).ok()?,
                failed: learnt.failed,
                worked: learnt.worked,
            })
        })
        .collect()
}

/// What a study taught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    pub new: usize,
    pub confirmed: usize,
    pub contradicted: usize,
}

impl Learnt {
    pub fn sentence(&self) -> Option<String> {
        let parts: Vec<String> = [
            (self.new, "new"),
            (self.confirmed, "seen again"),
            (self.contradicted, "spoken against"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "lessons: {}; `kiln lessons list` shows them",
                parts.join(", ")
            )
        })
    }
}

/// Whether a study has been learnt from.
fn is_known(journal: &[Dated], study: u64) -> bool {
    journal.iter().any(|dated| match &dated.entry {
        Entry::Observed(o) => {
            let of_trials = matches!(o.claim, Claim::Constraint { .. } | Claim::Effect { .. });
            of_trials && o.evidence.study == Some(study)
        }
        _ => false,
    })
}

/// Stores what a finished study taught, once. A replay measured nothing and teaches nothing.
pub fn learn(study: &Study, store: &mut dyn Store) -> Result<Learnt, Failure> {
    let journal = store.journal()?;
    if !study.finished || study.header.replayed_from.is_some() || is_known(&journal, study.id) {
        return Ok(Learnt::default());
    }
    let known = lesson::lessons(&journal);
    let architecture = architecture(&study.header.device);
    let seen = lesson::study::observations(study, &architecture, &known);
    enter(seen, &known, store)
}

/// Stores observations and counts what they are.
pub fn enter(
    seen: Vec<Observation>,
    known: &[Lesson],
    store: &mut dyn Store,
) -> Result<Learnt, Failure> {
    let mut learnt = Learnt::default();
    for observation in seen {
        let id = observation.lesson();
        let is_new = !known.iter().any(|l| l.id == id);
        match observation.stance {
            Stance::Contradicts => learnt.contradicted += 1,
            Stance::Supports if is_new => learnt.new += 1,
            Stance::Supports => learnt.confirmed += 1,
        }
        store.enter(now_unix_ms(), &Entry::Observed(Box::new(observation)))?;
    }
    Ok(learnt)
}

/// What profiles of a study's kernel taught: when somebody looked, and what was found to bind it.
pub fn from_profiles(
    study: &Study,
    profiles: &[Profile],
    store: &mut dyn Store,
) -> Result<(), Failure> {
    let run = ProfileRun {
        kernel: study.header.kernel.clone(),
        study: Some(study.id),
    };
    store.enter(now_unix_ms(), &Entry::Profiled(run))?;
    let known = of_project(store)?;
    let architecture = architecture(&study.header.device);
    let mut seen = Vec::new();
    for profile in profiles {
        if matches!(profile.subject, Subject::Candidate { .. }) {
            seen.extend(bottlenecks(study, profile, &architecture, &known));
        }
    }
    enter(seen, &known, store)?;
    Ok(())
}

/// The bottleneck at the profile's shape, and what that says of those named there before.
fn bottlenecks(
    study: &Study,
    profile: &Profile,
    architecture: &str,
    known: &[Lesson],
) -> Vec<Observation> {
    let found = &profile.diagnosis;
    // Nothing found is nothing learnt.
    if found.class == Class::Unknown {
        return Vec::new();
    }
    let observation = |claim: Claim, statement: String, stance: Stance| Observation {
        kernel: study.header.kernel.clone(),
        device: study.header.device.name.clone(),
        architecture: architecture.to_string(),
        claim,
        statement,
        stance,
        evidence: Evidence {
            study: Some(study.id),
            count: 1,
            sources: profile.sources.clone(),
            ..Evidence::default()
        },
        kiln_version: profile.kiln_version.clone(),
    };
    let class = found.class.in_words().to_string();
    let evidence = found
        .evidence
        .first()
        .map_or(String::new(), |first| format!(" ({first})"));
    let mut seen = vec![observation(
        Claim::Bottleneck {
            class: class.clone(),
            cause: found.cause.in_words().into(),
            dimensions: profile.dimensions.clone(),
        },
        format!(
            "{class} at {}: {}{evidence}",
            dimensions_text(&profile.dimensions),
            found.cause.in_words()
        ),
        Stance::Supports,
    )];
    for lesson in known {
        let Claim::Bottleneck {
            class: before,
            dimensions,
            ..
        } = &lesson.claim
        else {
            continue;
        };
        let is_here = lesson.kernel == study.header.kernel && lesson.architecture == architecture;
        if is_here && *dimensions == profile.dimensions && *before != class {
            let (claim, statement) = (lesson.claim.clone(), lesson.statement.clone());
            seen.push(observation(claim, statement, Stance::Contradicts));
        }
    }
    seen
}
