//! Between studies: look first, change one thing, and do not walk into the same wall twice.

use std::collections::BTreeMap;

use super::preparing::counted;
use super::{Answer, Record, fires, not_applicable, passes};
use crate::manifest::{Language, Manifest};
use crate::retrospective::changes;
use crate::study::Study;

/// Below this part of the baseline's speed a profile comes before more tuning.
const FAR_BEHIND: f64 = 0.5;
/// So many trials of one kind, and this part of all, are a pattern and not an accident.
const MANY_ALIKE: u64 = 5;
const PART_ALIKE: f64 = 0.25;

pub(super) fn profile_before_optimise(record: &Record<'_>) -> Answer {
    let study = record.study;
    let has_no_profile = |m: &Manifest| m.kernel.language == Language::C && m.stages.is_empty();
    if record.manifest.as_ref().is_some_and(has_no_profile) {
        return not_applicable(
            "kiln profiles kernels on GPUs, and those on CPUs by their [stages]",
        );
    }
    let since_last: Vec<_> = changes(study, record.history)
        .into_iter()
        .filter(|c| c.leads_to == study.id)
        .collect();
    let blind = since_last.iter().filter(|c| c.blind).count();
    if blind > 0 {
        return fires(format!(
            "{} of the source before this study without a profile since the last: `kiln profile` says what to change",
            counted(blind as u64, "edit")
        ));
    }
    let profiled = record
        .history
        .profiles_of(&study.header.kernel)
        .next()
        .is_some();
    let speedup = study.winner().map(|w| w.comparison.speedup).or_else(|| {
        let (_, best) = study.best()?;
        Some(study.baseline_ns()? / best)
    });
    match speedup {
        Some(speedup) if speedup < FAR_BEHIND && !profiled => fires(format!(
            "{speedup:.2}x of the baseline's speed and never profiled: tuning will not close that gap"
        )),
        _ if !since_last.is_empty() => passes(format!(
            "{} of the source, each after a profile",
            counted(since_last.len() as u64, "edit")
        )),
        _ if profiled => passes("the kernel was profiled"),
        _ => not_applicable("the source has not been edited between studies"),
    }
}

pub(super) fn one_change_at_a_time(record: &Record<'_>) -> Answer {
    let study = record.study;
    let before = record.history.before(study);
    let same_manifest = |s: &&&Study| s.header.manifest == study.header.manifest;
    let Some(last) = before.iter().rev().find(same_manifest) else {
        return not_applicable("it is the first study of this kernel");
    };
    let (was, is) = (&last.header, &study.header);
    let changed: Vec<&str> = [
        ("the source", was.identity.sources != is.identity.sources),
        ("the manifest", was.manifest_text != is.manifest_text),
        ("the shape", was.shape != is.shape),
        ("the device", was.device.name != is.device.name),
        (
            "the compiler",
            was.identity.compiler != is.identity.compiler,
        ),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect();
    match changed.as_slice() {
        [] => passes(format!("nothing changed since study {}", last.id)),
        [one] => passes(format!("only {one} changed since study {}", last.id)),
        several => fires(format!(
            "{} changed since study {}: what made the difference cannot be told",
            several.join(" and "),
            last.id
        )),
    }
}

/// The way most trials failed, where it is a pattern.
fn pattern(study: &Study) -> Option<(&'static str, u64)> {
    let counts: BTreeMap<&'static str, u64> = study.outcomes();
    let (reason, count) = counts
        .into_iter()
        .filter(|(reason, _)| *reason != "measured")
        .max_by_key(|(_, count)| *count)?;
    let part = count as f64 / study.trials.len().max(1) as f64;
    (count >= MANY_ALIKE && part >= PART_ALIKE).then_some((reason, count))
}

pub(super) fn systematic_debugging(record: &Record<'_>) -> Answer {
    let study = record.study;
    if study.trials.is_empty() {
        return not_applicable("nothing was tried yet");
    }
    let Some((reason, count)) = pattern(study) else {
        return passes("no kind of failure is frequent");
    };
    let trials = study.trials.len();
    let before = record.history.before(study);
    let again: Vec<String> = before
        .iter()
        .filter(|s| pattern(s).is_some_and(|(r, _)| r == reason))
        .map(|s| s.id.to_string())
        .collect();
    let id = study.id;
    let way_out = format!("`kiln explain {id}` says which values cause it");
    match again.as_slice() {
        [] => fires(format!(
            "{count} of {trials} trials ended as `{reason}`: {way_out}"
        )),
        studies => fires(format!(
            "{count} of {trials} trials ended as `{reason}`, as in study {}: the same wall again; {way_out}",
            studies.join(", ")
        )),
    }
}
