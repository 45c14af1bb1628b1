//! What binds the winner and the baseline, where somebody had them profiled.

use kiln_core::bottleneck::{Profile, Subject};
use kiln_core::diagnostic::printable;
use kiln_core::study::Study;

use super::markup::Markup;
use crate::profile::report::gain_text;
use crate::report::terminal::config_text;

const MOST_EVIDENCE: usize = 3;
const MOST_ADVICE: usize = 3;

pub fn section(page: &mut Markup, study: &Study) {
    let profiles = latest(study);
    if profiles.is_empty() {
        // Nothing is asked of who looks at a recording or at a study that runs on.
        let can_be = study.header.device.cuda.is_some() && study.header.replayed_from.is_none();
        if can_be && study.finished && study.winner().is_some() && study.id > 0 {
            page.raw("<p class=\"fine\">Not profiled: <code>kiln profile ")
                .text(study.id)
                .raw("</code> says what binds the winner, and what to change next.</p>\n");
        }
        return;
    }
    page.raw("<h3>What binds it</h3>\n<ul id=\"binds\">\n");
    for profile in profiles {
        let found = &profile.diagnosis;
        page.raw("<li><strong>")
            .text(printable(&name(profile)))
            .raw("</strong>")
            .text(place(profile))
            .raw(": <strong>")
            .text(found.class.in_words())
            .raw("</strong>, ")
            .text(found.cause.in_words());
        for evidence in found.evidence.iter().take(MOST_EVIDENCE) {
            page.raw("; ").prose(&printable(evidence));
        }
        page.raw(".");
        if !found.advice.is_empty() {
            page.raw("<ol>\n");
        }
        for advice in found.advice.iter().take(MOST_ADVICE) {
            page.raw("<li>").prose(&printable(&advice.change));
            // Where the gain cannot be computed none is promised.
            if advice.predicted_gain > 1.0 {
                page.raw(" (up to ")
                    .text(gain_text(advice.predicted_gain))
                    .raw(")");
            }
            page.raw("</li>\n");
        }
        if !found.advice.is_empty() {
            page.raw("</ol>");
        }
        page.raw("</li>\n");
    }
    page.raw("</ul>\n");
}

/// The last profile of each subject and shape, as they were made.
fn latest(study: &Study) -> Vec<&Profile> {
    let is_same = |a: &Profile, b: &Profile| a.subject == b.subject && a.shape == b.shape;
    let all = study.profiles.iter().enumerate();
    all.filter(|(at, profile)| !study.profiles[at + 1..].iter().any(|p| is_same(p, profile)))
        .map(|(_, profile)| profile)
        .collect()
}

/// A table that was made elsewhere does not say of which shape it is.
fn place(profile: &Profile) -> String {
    match profile.shape.as_str() {
        "" => String::new(),
        shape => format!(" on {}", printable(shape)),
    }
}

fn name(profile: &Profile) -> String {
    match &profile.subject {
        Subject::Candidate { config } => config_text(config),
        other => other.in_words(),
    }
}
