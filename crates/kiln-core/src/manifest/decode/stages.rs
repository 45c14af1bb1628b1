//! `[stages]`: what can be left out of the kernel, and by which macros.

use super::Problems;
use super::kernel::refuse_tunables;
use super::section::{Entry, Item, Section};
use crate::diagnostic::Diagnostic;
use crate::manifest::{Kernel, Spanned, Stage, StageKind, macro_name};
use crate::space::Tunable;

/// Each is timed in a process of its own, side by side with the others.
const MOST_STAGES: usize = 8;

pub(super) fn decode(
    section: &Section,
    kernel: &Kernel,
    tunables: &[Tunable],
    problems: &mut Problems,
) -> Vec<Stage> {
    let entries = section.entries();
    if let Some(first_too_many) = entries.get(MOST_STAGES) {
        problems.push(
            Diagnostic::new(
                format!("there are {} stages", entries.len()),
                first_too_many.key.span(),
            )
            .label(format!("expected at most {MOST_STAGES}"))
            .hint("leave the small ones together: a stage may have several flags"),
        );
    }
    let mut stages: Vec<Stage> = Vec::new();
    for entry in entries {
        let stage = stage(section, &entry, kernel, tunables, problems);
        refuse_twins(&stages, &stage, problems);
        stages.push(stage);
    }
    stages
}

fn stage(
    section: &Section,
    entry: &Entry,
    kernel: &Kernel,
    tunables: &[Tunable],
    problems: &mut Problems,
) -> Stage {
    let form = section.entry_section(entry);
    let items: Vec<&Item> = match &form {
        Some(form) => form.items("flags"),
        None => match entry.value.get_ref().as_array() {
            Some(items) => items.iter().collect(),
            None => vec![entry.value],
        },
    };
    let flags: Vec<Spanned<String>> = items
        .into_iter()
        .filter_map(|item| {
            Some(Spanned {
                value: item.get_ref().as_str()?.to_string(),
                span: item.span(),
            })
        })
        .collect();
    for flag in &flags {
        if let Some(problem) = wrong_flag(entry.name(), flag, kernel) {
            problems.push(problem);
        }
    }
    refuse_tunables(&flags, tunables, problems);
    Stage {
        name: entry.name().to_string(),
        flags: flags.into_iter().map(|flag| flag.value).collect(),
        kind: form.and_then(|form| kind(&form.written_text("kind")?.value)),
        span: entry.key.span(),
    }
}

/// Other flags would change the rest of the kernel too, and what is measured would be that.
fn wrong_flag(stage: &str, flag: &Spanned<String>, kernel: &Kernel) -> Option<Diagnostic> {
    let text = &flag.value;
    if macro_name(text).is_none() {
        return Some(
            Diagnostic::new(
                format!("`{text}` cannot leave out stage `{stage}`"),
                flag.span.clone(),
            )
            .label("expected `-DNAME`, `-DNAME=value` or `-UNAME`")
            .hint(
                "the source leaves a stage out where a macro says so; other flags would change the rest of it too",
            ),
        );
    }
    kernel.flags.contains(text).then(|| {
        Diagnostic::new(
            format!("`{text}` leaves nothing out of stage `{stage}`"),
            flag.span.clone(),
        )
        .label("it is among the `flags` of the kernel itself")
        .hint("take it out of `flags` in `[kernel]`, or give the stage a macro of its own")
    })
}

/// Two names for the same thing would be two numbers for it.
fn refuse_twins(stages: &[Stage], stage: &Stage, problems: &mut Problems) {
    let sorted = |stage: &Stage| {
        let mut flags = stage.flags.clone();
        flags.sort();
        flags
    };
    let twin = stages
        .iter()
        .find(|other| !stage.flags.is_empty() && sorted(other) == sorted(stage));
    if let Some(twin) = twin {
        problems.push(
            Diagnostic::new(
                format!(
                    "stages `{}` and `{}` are left out by the same flags",
                    twin.name, stage.name
                ),
                stage.span.clone(),
            )
            .label("expected flags of its own")
            .hint("give each a macro of its own, or make them one stage"),
        );
    }
}

fn kind(word: &str) -> Option<StageKind> {
    match word {
        "memory" => Some(StageKind::Memory),
        "compute" => Some(StageKind::Compute),
        "special_function" => Some(StageKind::SpecialFunction),
        "synchronisation" => Some(StageKind::Synchronisation),
        _ => None,
    }
}
