//! Edits of a kernel's source, and whether anybody had looked at a profile first.

use super::{History, began_unix_ms};
use crate::study::Study;

/// An edit, known by the study or the iteration that first saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The study it came before; the next one, for an edit that an iteration tried.
    pub leads_to: u64,
    pub unix_ms: u64,
    /// No profile since the edit before.
    pub blind: bool,
}

/// When a version of the source was seen.
struct Seen<'a> {
    unix_ms: u64,
    sources: &'a str,
}

/// All edits up to a study, in order.
pub fn changes(study: &Study, history: &History<'_>) -> Vec<Change> {
    let began = began_unix_ms(study);
    let mut studies = history.before(study);
    studies.retain(|s| s.header.manifest == study.header.manifest);
    studies.push(study);
    let mut seen: Vec<Seen> = studies
        .iter()
        .map(|s| Seen {
            unix_ms: began_unix_ms(s),
            sources: &s.header.identity.sources,
        })
        .collect();
    let tried = history.iterations_of(study);
    seen.extend(
        tried
            .iter()
            .filter(|(at, _)| *at <= began)
            .map(|(at, i)| Seen {
                unix_ms: *at,
                sources: &i.candidate.sources,
            }),
    );
    seen.sort_by_key(|s| s.unix_ms);
    let mut changes = Vec::new();
    let mut last: Option<(&str, u64)> = None;
    for now in &seen {
        match last {
            Some((sources, _)) if sources == now.sources => {}
            Some((_, since)) => {
                let leads_to = studies.iter().find(|s| began_unix_ms(s) >= now.unix_ms);
                changes.push(Change {
                    leads_to: leads_to.map_or(study.id, |s| s.id),
                    unix_ms: now.unix_ms,
                    blind: is_blind(history, &study.header.kernel, since, now.unix_ms),
                });
                last = Some((now.sources, now.unix_ms));
            }
            None => last = Some((now.sources, now.unix_ms)),
        }
    }
    changes
}

/// Whether nobody profiled the kernel between two moments.
pub fn is_blind(history: &History<'_>, kernel: &str, since: u64, until: u64) -> bool {
    let mut profiles = history.profiles_of(kernel);
    !profiles.any(|p| (since..=until).contains(&p.unix_ms))
}
