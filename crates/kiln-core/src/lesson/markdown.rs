//! Lessons as Markdown, to be read.

use super::{Evidence, Lesson, Status};
use crate::escape;

/// A section for each kernel and device; retired lessons are left out.
pub fn markdown(lessons: &[Lesson]) -> String {
    let shown: Vec<&Lesson> = lessons
        .iter()
        .filter(|l| l.status != Status::Retired)
        .collect();
    let mut places: Vec<(&str, &str)> = Vec::new();
    for lesson in &shown {
        let place = (lesson.kernel.as_str(), lesson.device.as_str());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut out = String::from("# Lessons\n");
    for (kernel, device) in places {
        out += &format!(
            "\n## {} on {}\n\n| lesson | kind | what | for | against | status |\n| --- | --- | --- | --- | --- | --- |\n",
            escape::markdown(kernel),
            escape::markdown(device)
        );
        let here = |l: &&&Lesson| l.kernel == kernel && l.device == device;
        for lesson in shown.iter().filter(here) {
            out += &format!(
                "| {} | {} | {} | {} | {} | {} |\n",
                escape::markdown(&lesson.id),
                lesson.claim.kind(),
                escape::markdown(&lesson.statement),
                escape::markdown(&evidence_text(&lesson.evidence)),
                escape::markdown(&evidence_text(&lesson.counter_evidence)),
                lesson.status.name()
            );
        }
    }
    out
}

/// `study 3 (trials 4, 7, 9 and 12 more), iteration 2`.
pub fn evidence_text(evidence: &[Evidence]) -> String {
    let each = evidence.iter().map(|e| {
        let project = match e.project.is_empty() {
            true => String::new(),
            false => format!(" of {}", e.project),
        };
        let place = match (e.study, e.iteration) {
            (_, Some(iteration)) => format!("iteration {iteration}"),
            (Some(study), None) => format!("study {study}"),
            (None, None) => "elsewhere".into(),
        };
        let named: Vec<String> = e.trials.iter().map(u64::to_string).collect();
        let more = e.count.saturating_sub(named.len() as u64);
        let trials = match (named.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => format!(" (trials {})", named.join(", ")),
            (false, more) => format!(" (trials {} and {more} more)", named.join(", ")),
        };
        format!("{place}{project}{trials}")
    });
    each.collect::<Vec<_>>().join(", ")
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Holds => "holds",
            Status::Contradicted => "contradicted",
            Status::Retired => "retired",
        }
    }
}
