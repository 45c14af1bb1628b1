//! What an edit is measured against: the last kernel that was kept, as it was then.

use std::collections::BTreeSet;
use std::sync::Arc;

use kiln_core::gate_file::Sources;
use kiln_core::iteration::{Decision, Version, iterations};
use kiln_core::retrospective::began_unix_ms;
use similar::TextDiff;

use crate::cli::IterateArgs;
use crate::exit::Failure;
use crate::gate::baseline::{sources_of, unpack};
use crate::gate::{Chosen, Origin, Side, Stage, config_on, default_config, resolve};
use crate::learn::history::Past;
use crate::learn::sources;
use crate::task::Task;

pub struct Incumbent {
    pub version: Version,
    pub sources: Sources,
    pub side: Side,
    /// When its source was first seen.
    pub since_unix_ms: u64,
}

impl Incumbent {
    pub fn find(
        args: &IterateArgs,
        stage: &Stage,
        task: &Task,
        past: &Past,
    ) -> Result<Incumbent, Failure> {
        match &args.against {
            Some(text) => Incumbent::named(text, stage, task, past),
            None => Incumbent::latest(stage, past)?.ok_or_else(|| {
                Failure::usage(
                    "there is no incumbent: nothing of this kernel was tuned or kept yet",
                )
                .hint("`kiln tune` finds one; or name one with `--against git:HEAD@NAME=VALUE,…`")
            }),
        }
    }

    /// Its config, for the edited kernel too.
    pub fn config(&self) -> Chosen {
        let label = &self.version.label;
        let from = match label.starts_with("study ") {
            true => format!("{label}'s winner"),
            false => format!("the config of {label}"),
        };
        Chosen::from_place(self.version.config.clone(), from)
    }

    fn named(text: &str, stage: &Stage, task: &Task, past: &Past) -> Result<Incumbent, Failure> {
        let mut side = resolve(stage, text)?;
        if matches!(side.origin, Origin::Baseline) {
            return Err(
                Failure::usage("`--against baseline` is no version of this kernel")
                    .hint("`kiln compare` measures against the baseline"),
            );
        }
        let values = match side.config.take() {
            Some(values) => values,
            None => default_config(stage, task)?,
        };
        let own = stage.own_task(&side, task)?;
        let of = own.as_deref().unwrap_or(task);
        let config = config_on(of, text, &values).map_err(|failure| side.blamed(failure))?;
        side.config = Some(config.clone().into());
        let files = match &own {
            Some(own) => sources_of(own)?,
            None => sources_of(task)?,
        };
        Ok(Incumbent {
            version: Version {
                label: text.to_string(),
                sources: sources::identity(of),
                files: String::new(),
                config,
            },
            sources: files,
            side,
            since_unix_ms: past.studies.last().map_or(0, began_unix_ms),
        })
    }

    /// The winner of the last study, or the last iteration that was kept: whichever came later.
    pub fn latest(stage: &Stage, past: &Past) -> Result<Option<Incumbent>, Failure> {
        let Some(found) = latest_version(&stage.file.name(), past)? else {
            return Ok(None);
        };
        let (version, sources, since_unix_ms) = found;
        let tree = unpack(&sources)?;
        Ok(Some(Incumbent {
            side: Side {
                label: version.label.clone(),
                origin: Origin::Tree(Arc::new(tree)),
                config: Some(version.config.clone().into()),
                notes: Vec::new(),
                letter: None,
            },
            version,
            sources,
            since_unix_ms,
        }))
    }
}

/// Of a manifest, with its files and when it was first seen.
pub fn latest_version(
    manifest: &str,
    past: &Past,
) -> Result<Option<(Version, Sources, u64)>, Failure> {
    let kept = iterations(&past.journal)
        .into_iter()
        .rev()
        .find(|(_, i)| i.manifest == manifest && i.decision == Decision::Kept);
    let won = past
        .studies
        .iter()
        .rev()
        .find(|s| s.header.manifest == manifest && s.winner().is_some());
    let study_is_later = match (&kept, won) {
        (Some((at, _)), Some(study)) => began_unix_ms(study) > *at,
        (None, Some(_)) => true,
        _ => false,
    };
    if let (true, Some(study)) = (study_is_later, won) {
        let Some(winner) = study.winner() else {
            return Ok(None);
        };
        let files = sources::of_study(&past.journal, study).ok_or_else(|| {
            Failure::usage(format!(
                "the sources of study {} were not kept: an older kiln made it",
                study.id
            ))
            .hint("`kiln tune` makes a new one; or name what to measure against: `--against git:HEAD`")
        })?;
        let version = Version {
            label: format!("study {}", study.id),
            sources: study.header.identity.sources.clone(),
            files: files.digest(),
            config: winner.config.clone(),
        };
        return Ok(Some((version, files.clone(), began_unix_ms(study))));
    }
    let Some((at, iteration)) = kept else {
        return Ok(None);
    };
    let version = iteration.candidate.clone();
    let files = sources::by_digest(&past.journal, &version.files).ok_or_else(|| {
        Failure::machine(format!(
            "the files of iteration {} are not in the store",
            iteration.number
        ))
        .hint("name what to measure against: `--against git:HEAD`")
    })?;
    Ok(Some((version, files.clone(), at)))
}

/// Unified, file by file; empty where nothing differs.
pub fn difference(before: &Sources, after: &Sources) -> String {
    let paths: BTreeSet<&String> = before.files.keys().chain(after.files.keys()).collect();
    let mut out = String::new();
    for path in paths {
        let text = |of: &Sources| of.files.get(path).map_or("", String::as_str).to_string();
        let (old, new) = (text(before), text(after));
        if old != new {
            let diff = TextDiff::from_lines(&old, &new);
            let mut unified = diff.unified_diff();
            out += &unified
                .header(&format!("a/{path}"), &format!("b/{path}"))
                .to_string();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn differences_are_unified_and_only_of_what_differs() {
        let sources = |files: &[(&str, &str)]| Sources {
            revision: None,
            manifest: "kiln.toml".into(),
            files: files
                .iter()
                .map(|(path, text)| (path.to_string(), text.to_string()))
                .collect::<BTreeMap<_, _>>(),
        };
        let before = sources(&[("a.c", "one\ntwo\n"), ("kiln.toml", "x\n")]);
        let after = sources(&[("a.c", "one\n2\n"), ("b.h", "new\n"), ("kiln.toml", "x\n")]);
        let diff = difference(&before, &after);
        assert!(diff.contains("--- a/a.c\n+++ b/a.c"), "{diff}");
        assert!(diff.contains("-two\n+2"), "{diff}");
        assert!(diff.contains("+new"), "{diff}");
        assert!(!diff.contains("kiln.toml"), "{diff}");
        assert_eq!(difference(&after, &after), "");
    }
}
