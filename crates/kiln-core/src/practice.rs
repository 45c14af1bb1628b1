//! Twelve patterns of good practice, each a check on a study's own record.
//!
//! A check passes, fires, or does not apply; it says which with its evidence. None looks at anything but what is
//! stored: events, the manifest and the sources as they were, the studies before, profiles and iterations.

use serde::Serialize;

use crate::manifest::Manifest;
use crate::retrospective::History;
use crate::study::Study;

mod changing;
mod measuring;
mod preparing;
pub mod source_text;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Stable, for programs.
    pub check: &'static str,
    pub state: State,
    /// With its evidence.
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Passes,
    Fires,
    NotApplicable,
}

/// What a check may look at.
struct Record<'a> {
    study: &'a Study,
    history: &'a History<'a>,
    /// As it was when the study began; `None` where it was not kept or is of another kiln.
    manifest: Option<Manifest>,
    /// Texts of the kernel's files, likewise.
    sources: Vec<&'a str>,
}

type Answer = (State, String);
type Check = fn(&Record<'_>) -> Answer;

fn passes(sentence: impl Into<String>) -> Answer {
    (State::Passes, sentence.into())
}

fn fires(sentence: impl Into<String>) -> Answer {
    (State::Fires, sentence.into())
}

fn not_applicable(sentence: impl Into<String>) -> Answer {
    (State::NotApplicable, sentence.into())
}

/// Name and check, in the order of the loop.
const CHECKS: [(&str, Check); 12] = [
    ("environment_validated", preparing::environment_validated),
    ("one_build", preparing::one_build),
    ("static_assertions", preparing::static_assertions),
    ("tiny_shape_first", preparing::tiny_shape_first),
    ("baseline_first", measuring::baseline_first),
    ("profile_before_optimise", changing::profile_before_optimise),
    ("one_change_at_a_time", changing::one_change_at_a_time),
    ("measure_with_intervals", measuring::measure_with_intervals),
    ("keep_samples", measuring::keep_samples),
    (
        "negative_results_recorded",
        measuring::negative_results_recorded,
    ),
    ("progress_cadence", measuring::progress_cadence),
    ("systematic_debugging", changing::systematic_debugging),
];

/// All twelve, in the order of the loop.
pub fn review(study: &Study, history: &History<'_>) -> Vec<Finding> {
    let sources = history.sources_of(&study.header.identity.sources);
    let files = sources.iter().flat_map(|kept| {
        let manifest = &kept.sources.manifest;
        let files = kept.sources.files.iter();
        files.filter(move |(path, _)| *path != manifest)
    });
    let record = Record {
        study,
        history,
        manifest: Manifest::parse(&study.header.manifest_text).ok(),
        sources: files.map(|(_, text)| text.as_str()).collect(),
    };
    CHECKS
        .iter()
        .map(|(name, check)| {
            let (state, sentence) = check(&record);
            Finding {
                check: name,
                state,
                sentence,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
