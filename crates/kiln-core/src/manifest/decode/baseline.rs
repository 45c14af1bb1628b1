//! `[baseline]`: what the winner has to beat.

use super::comparison::{Function, Known, chosen, function, python};
use super::kernel::{flags, refuse_architectures};
use super::section::{Section, scalar};
use super::{Problems, launch, only_for_cuda};
use crate::diagnostic::{Diagnostic, nearest};
use crate::manifest::keys::quoted_list;
use crate::manifest::{Baseline, BaselineKind, Language};
use crate::space::Tunable;
use crate::value::Value;

pub(super) fn decode(
    section: &Section,
    known: &Known,
    tunables: &[Tunable],
    problems: &mut Problems,
) -> Option<Baseline> {
    if !section.is_written() {
        return None;
    }
    check_language(section, known.language, problems);
    let kinds = ["c", "python", "kernel", "config"];
    let kind = match chosen(section, "baseline", kinds, known.language, problems)? {
        "config" => config(&section.key_section("config")?, tunables, problems),
        "python" => BaselineKind::Python(python(section.written_text("python")?)?),
        // The language is reported above; what a launch lacks is then beside the point.
        "kernel" if known.language == Some(Language::C) => return None,
        kind => {
            if kind == "kernel" {
                refuse_architectures(&section.texts("flags").unwrap_or_default(), problems);
            }
            let language = match kind {
                "kernel" => Language::Cuda,
                _ => Language::C,
            };
            let written = section.texts("flags").unwrap_or_default();
            super::flags::check(&written, language, problems);
            let flags = flags(section).unwrap_or_else(|| known.kernel.flags.clone());
            let Function { source, entry } = function(section.written_text(kind)?)?;
            match kind {
                "kernel" => BaselineKind::Kernel {
                    source,
                    entry,
                    flags,
                    launch: launch::fixed(section, "baseline", known.names, problems),
                },
                _ => BaselineKind::C {
                    source,
                    entry,
                    flags,
                },
            }
        }
    };
    let also = section.texts("also").unwrap_or_default();
    Some(Baseline {
        kind,
        also: also.into_iter().filter_map(python).collect(),
        target: section.real("target"),
    })
}

/// Reports what cannot be timed beside a kernel of this language.
fn check_language(section: &Section, language: Option<Language>, problems: &mut Problems) {
    match language {
        Some(Language::C) => {
            for key in ["python", "kernel", "also"] {
                if section.has(key) {
                    problems.push(
                        only_for_cuda(section, "baseline", key)
                            .hint("it is timed on a GPU; use `c` or `config`"),
                    );
                }
            }
        }
        Some(Language::Cuda) if section.has("c") => problems.push(
            Diagnostic::new(
                "a C function is no baseline for a CUDA kernel",
                section.place("c"),
            )
            .label("it does not run on a GPU")
            .hint("use `config`, or e.g. `python = \"baseline.py:kernel\"`"),
        ),
        Some(Language::Cuda) | None => {}
    }
}

fn config(section: &Section, tunables: &[Tunable], problems: &mut Problems) -> BaselineKind {
    let entries = section.entries();
    let mut misspelt = Vec::new();
    for entry in &entries {
        if tunables.iter().any(|t| t.name == entry.name()) {
            continue;
        }
        let problem = Diagnostic::new(
            format!("unknown tunable `{}` in `config`", entry.name()),
            entry.key.span(),
        )
        .label("not in `[tunables]`");
        let near = nearest(entry.name(), tunables.iter().map(|t| t.name.as_str()));
        misspelt.extend(near);
        problems.push(match near {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem,
        });
    }
    let mut values = Vec::new();
    let mut missing = Vec::new();
    for tunable in tunables {
        let Some(entry) = entries.iter().find(|e| e.name() == tunable.name) else {
            if !misspelt.contains(&tunable.name.as_str()) {
                missing.push(tunable);
            }
            continue;
        };
        let Some(value) = scalar(entry.value) else {
            continue;
        };
        let value = match (value, tunable.values.first()) {
            (Value::Int(i), Some(Value::Float(_))) => Value::Float(i as f64),
            (value, Some(first)) if value.kind() != first.kind() => {
                problems.push(
                    Diagnostic::new(
                        format!("`{}` in `config` is {}", tunable.name, value.kind()),
                        entry.value.span(),
                    )
                    .label(format!(
                        "tunable `{}` has values like `{first}`",
                        tunable.name
                    )),
                );
                value
            }
            (value, _) => value,
        };
        values.push((tunable.name.clone(), value));
    }
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|t| t.name.as_str()).collect();
        let example = missing
            .iter()
            .find_map(|t| Some(format!("{} = {}", t.name, written(t.values.first()?))));
        let problem = Diagnostic::new(
            format!("`config` has no value for {}", quoted_list(&names)),
            section.span.clone(),
        )
        .label("expected a value for every tunable");
        problems.push(match example {
            Some(example) => problem.hint(format!("add e.g. `{example}`")),
            None => problem,
        });
    }
    BaselineKind::Config {
        values,
        span: section.span.clone(),
    }
}

/// A value as TOML writes it.
fn written(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}
