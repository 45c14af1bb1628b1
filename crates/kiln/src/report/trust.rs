//! What is said about how far a verdict can be trusted: the task's admission, the winner's acceptance.

use kiln_core::acceptance::{Acceptance, SanitizerRun};
use kiln_core::admission::Admission;
use kiln_core::event::Winner;
use kiln_core::study::Study;
use kiln_core::trial::Outcome;

/// Variables named in a note; the record has them all.
const MOST_NAMED: usize = 3;

/// For `kiln check`: what came nearest to being taken for an answer.
pub fn admission_lines(admission: &Admission) -> Vec<String> {
    let mut lines = Vec::new();
    let nearest = admission
        .probes
        .iter()
        .filter(|probe| !probe.passes())
        .min_by(|a, b| a.error_ratio.total_cmp(&b.error_ratio));
    lines.push(match nearest {
        Some(probe) => format!(
            "admitted: of {} kernels that do not do the work, the nearest {}: off by {} of what `{}` is allowed",
            admission.probes.len(),
            probe.stand_in.deed(),
            probe.error,
            probe.output
        ),
        None => "admitted".into(),
    });
    lines.extend(said(admission).map(|note| format!("warning: {note}")));
    lines
}

fn said(admission: &Admission) -> impl Iterator<Item = String> + '_ {
    let accepted = (!admission.accepted.is_empty()).then(|| {
        format!(
            "the check does not tell {}, which the manifest accepts (`admits`)",
            admission.accepted.join(", ")
        )
    });
    accepted.into_iter().chain(admission.notes.iter().cloned())
}

pub fn admission_notes(study: &Study) -> Vec<String> {
    let admission = study.header.admission.as_deref();
    admission.map_or_else(Vec::new, |admission| said(admission).collect())
}

pub fn acceptance_notes(study: &Study, winner: &Winner) -> Vec<String> {
    let mut notes = winner
        .acceptance
        .as_deref()
        .map_or_else(Vec::new, Acceptance::notes);
    notes.extend(variables_note(study, winner));
    notes
}

/// Variables that outlive a launch are where answers are kept and calls are counted; most are
/// harmless.
fn variables_note(study: &Study, winner: &Winner) -> Option<String> {
    let trial = study.trials.iter().find(|t| t.number == winner.trial)?;
    let writable = trial.compile.as_ref()?.writable.as_deref()?;
    let named: Vec<String> = writable
        .iter()
        .take(MOST_NAMED)
        .map(|global| format!("`{}` ({} bytes)", global.name, global.bytes))
        .collect();
    let more = match writable.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!writable.is_empty()).then(|| {
        format!(
            "the winner has variables that outlive a launch: {}{more}; see what it keeps there",
            named.join(", ")
        )
    })
}

/// What the author can do about a failure on a shape that kiln made up.
pub fn way_out(outcome: &Outcome) -> &'static str {
    let shape = match outcome {
        Outcome::Wrong(mismatch) => Some(mismatch.shape.as_str()),
        Outcome::Crashed(crash) => crash.shape.as_deref(),
        _ => None,
    };
    match shape.is_some_and(|name| name.starts_with("unseen ")) {
        true => {
            "; if the kernel is not meant for such sizes, add a constraint, or narrow `domain` in [confirm] \
             (`unseen_shapes = 0` tries none)"
        }
        false => "",
    }
}

/// Unseen shapes that are named; the record has them all.
const MOST_SHAPES_NAMED: usize = 3;

/// What the winner passed beside the samples.
pub fn accepted_text(acceptance: &Acceptance) -> String {
    let shapes: Vec<String> = acceptance
        .unseen
        .iter()
        .map(|shape| {
            let sizes = shape.dimensions.iter();
            let sizes: Vec<String> = sizes.map(|(name, n)| format!("{name}={n}")).collect();
            sizes.join(" ")
        })
        .collect();
    let unseen = match shapes.len() {
        0 => "no unseen shape".to_string(),
        1 => format!("right on 1 unseen shape ({})", shapes[0]),
        n if n <= MOST_SHAPES_NAMED => {
            format!("right on {n} unseen shapes ({})", shapes.join("; "))
        }
        n => format!(
            "right on {n} unseen shapes ({}; …)",
            shapes[..MOST_SHAPES_NAMED].join("; ")
        ),
    };
    let repeats = acceptance
        .repeats
        .map_or(String::new(), |r| match r.differing {
            0 => format!(", {} launches alike to the bit", r.launches),
            _ => format!(", {} launches right and not alike", r.launches),
        });
    let sanitizer = match &acceptance.sanitizer {
        Some(SanitizerRun::Ran { tools }) => {
            let clean = tools.iter().filter(|t| t.result == "clean");
            let clean: Vec<&str> = clean.map(|t| t.tool.as_str()).collect();
            format!(", clean under {}", clean.join(", "))
        }
        _ => String::new(),
    };
    format!("{unseen}{repeats}{sanitizer}")
}
