//! Before anything is measured: the machine, the build, the source, the shapes.

use super::source_text::{code_only, overridden, static_assertions as assertions_in};
use super::{Answer, Record, fires, not_applicable, passes};
use crate::manifest::ShapePurpose;

/// The smallest shape should be so many times smaller than the target.
const TINY: f64 = 16.0;
/// With fewer tunables nothing can clash.
const FEW_TUNABLES: usize = 2;

/// `kiln doctor` has looked at the machine, and nobody disturbed the study.
pub(super) fn environment_validated(record: &Record<'_>) -> Answer {
    let header = &record.study.header;
    if header.replayed_from.is_some() {
        return not_applicable("nothing was measured");
    }
    let neighbours = header
        .device
        .environment
        .iter()
        .find(|(name, _)| name == "other_processes");
    if let Some((_, pids)) = neighbours {
        return fires(format!(
            "other processes were on the device (pid {pids}); `kiln doctor` shows them"
        ));
    }
    // When it was entered: when it began is reckoned back from there, and comes out some milliseconds too early for a
    // doctor that ran right before.
    let entered = header.created_unix_ms;
    let runs = record.history.doctor_runs();
    let before: Vec<_> = runs.filter(|(at, _)| *at <= entered).collect();
    match before.last() {
        None => fires("`kiln doctor` was never run in this project before the study"),
        // About the machine as a whole, problems may be with what this kernel does not need.
        Some((_, run)) if run.problems > 0 && run.manifest == header.manifest => fires(format!(
            "the last `kiln doctor` before the study found {} that keep kernels from being tuned",
            counted(run.problems, "problem")
        )),
        Some(_) => passes("`kiln doctor` found nothing in the way before the study"),
    }
}

/// One place says how the kernel is built: the manifest, with one compiler.
pub(super) fn one_build(record: &Record<'_>) -> Answer {
    let Some(manifest) = &record.manifest else {
        return not_applicable("the manifest was not kept");
    };
    let tunables: Vec<&str> = manifest.tunables.iter().map(|t| t.name.as_str()).collect();
    // That a flag sets a tunable is refused when the manifest is read.
    let mut both: Vec<&str> = Vec::new();
    for text in &record.sources {
        both.extend(overridden(&code_only(text), &tunables));
    }
    if !both.is_empty() {
        return fires(format!(
            "the source defines {} itself: what the search sets never arrives; put it inside `#ifndef`",
            quoted(&both)
        ));
    }
    let header = &record.study.header;
    let before = record.history.before(record.study);
    let same_device = |s: &&&crate::study::Study| s.header.device.name == header.device.name;
    let last = before.iter().rev().find(same_device);
    if let Some(last) = last.filter(|s| s.header.identity.compiler != header.identity.compiler) {
        return fires(format!(
            "study {} was built by another compiler ({}; now {}): times before and after are of two builds",
            last.id,
            first_line(&last.header.identity.compiler),
            first_line(&header.identity.compiler)
        ));
    }
    passes("flags, tunables and compiler come from one place")
}

/// Combinations that cannot work are refused by the compiler, in words, and not by a crash.
pub(super) fn static_assertions(record: &Record<'_>) -> Answer {
    let Some(manifest) = &record.manifest else {
        return not_applicable("the manifest was not kept");
    };
    if record.sources.is_empty() {
        return not_applicable("the source was not kept");
    }
    let choices = manifest.tunables.iter().filter(|t| t.values.len() > 1);
    if choices.count() < FEW_TUNABLES {
        return not_applicable("there are too few tunables to clash");
    }
    let texts = record.sources.iter();
    let count: usize = texts.map(|text| assertions_in(&code_only(text))).sum();
    match count {
        0 => fires(
            "the source asserts nothing at compile time: combinations it was not written for crash or are wrong; \
             `static_assert` says so by name",
        ),
        count => passes(format!(
            "the source has {}",
            counted(count as u64, "static assertion")
        )),
    }
}

/// Answers are checked on a shape that is small enough to look at, before the real one.
pub(super) fn tiny_shape_first(record: &Record<'_>) -> Answer {
    let Some(manifest) = &record.manifest else {
        return not_applicable("the manifest was not kept");
    };
    let header = &record.study.header;
    let size = |dimensions: &[(String, i64)]| -> f64 {
        dimensions.iter().map(|(_, n)| (*n).max(1) as f64).product()
    };
    let target = size(&header.dimensions);
    if target < TINY {
        return not_applicable("the target itself is tiny");
    }
    let checked = manifest
        .shapes
        .iter()
        .filter(|s| s.name != header.shape && s.purpose == ShapePurpose::Check);
    let smallest = checked.min_by(|a, b| size(&a.dimensions).total_cmp(&size(&b.dimensions)));
    match smallest {
        Some(shape) if size(&shape.dimensions) * TINY <= target => passes(format!(
            "shape `{}` is checked first, {:.0} times smaller than the target",
            shape.name,
            target / size(&shape.dimensions)
        )),
        Some(shape) => fires(format!(
            "the smallest shape that is checked, `{}`, is only {:.1} times smaller than the target: add a tiny one",
            shape.name,
            target / size(&shape.dimensions)
        )),
        None => fires("no shape but the target is checked: add a tiny one, e.g. `[shapes.tiny]`"),
    }
}

pub(super) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

pub(super) fn quoted(names: &[&str]) -> String {
    let each: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    each.join(", ")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
