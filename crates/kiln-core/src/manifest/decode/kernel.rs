//! `[kernel]`, `[reference]` and `[baseline]`: what is compiled and what it is compared with.

use super::Problems;
use super::section::{Section, scalar};
use crate::diagnostic::{Diagnostic, nearest};
use crate::manifest::keys::C_FLAGS;
use crate::manifest::{
    Argument, ArgumentKind, Baseline, BaselineKind, Fill, Kernel, Language, Reference, Role, Shape,
    Spanned,
};
use crate::space::Tunable;
use crate::value::Value;

/// The language written, or told from the source's suffix.
pub(super) fn language(section: &Section, problems: &mut Problems) -> Option<Language> {
    if section.has("language") {
        return match section.text("language").as_str() {
            "c" => Some(Language::C),
            "cuda" => Some(Language::Cuda),
            _ => None,
        };
    }
    let source = section.written_text("source")?;
    if source.value.ends_with(".c") {
        return Some(Language::C);
    }
    if source.value.ends_with(".cu") {
        return Some(Language::Cuda);
    }
    problems.push(
        Diagnostic::new(
            format!("cannot tell the language of `{}`", source.value),
            source.span,
        )
        .label("neither `.c` nor `.cu`")
        .hint("add a line such as `language = \"c\"`"),
    );
    None
}

pub(super) fn decode(section: &Section, language: Option<Language>) -> Kernel {
    let text = |key: &str| {
        section.written_text(key).unwrap_or(Spanned {
            value: String::new(),
            span: section.span.clone(),
        })
    };
    let entry = text("entry");
    let language = language.unwrap_or(Language::C);
    let default_flags = match language {
        Language::C => c_flags(),
        Language::Cuda => Vec::new(),
    };
    Kernel {
        name: match section.has("name") {
            true => section.text("name"),
            false => entry.value.clone(),
        },
        language,
        source: text("source"),
        entry,
        flags: flags(section).unwrap_or(default_flags),
        include_dirs: section.texts("include_dirs").unwrap_or_default(),
    }
}

fn c_flags() -> Vec<String> {
    C_FLAGS.map(String::from).to_vec()
}

fn flags(section: &Section) -> Option<Vec<String>> {
    let flags = section.texts("flags")?;
    Some(flags.into_iter().map(|f| f.value).collect())
}

/// A file and a function.
struct Function {
    source: Spanned<String>,
    entry: String,
}

/// Splits `file.c:function`; the span is that of the whole string.
fn function(section: &Section) -> Option<Function> {
    let text = section.written_text("c")?;
    let (path, entry) = text.value.rsplit_once(':')?;
    Some(Function {
        source: Spanned {
            value: path.to_string(),
            span: text.span.clone(),
        },
        entry: entry.to_string(),
    })
}

/// Reports unless exactly one of two keys is written; says whether that is so.
fn exactly_one(section: &Section, what: &str, keys: [&str; 2], problems: &mut Problems) -> bool {
    let [one, other] = keys;
    let problem = match (section.has(one), section.has(other)) {
        (true, true) => Diagnostic::new(
            format!("`[{what}]` has both `{one}` and `{other}`"),
            section.place(other),
        )
        .label("only one of them can be used"),
        (false, false) => {
            let example = section.spec.key(one).map_or("", |k| k.example);
            Diagnostic::new(
                format!("`[{what}]` has neither `{one}` nor `{other}`"),
                section.span.clone(),
            )
            .label("expected one of them")
            .hint(format!("add a line such as `{example}`"))
        }
        _ => {
            if section.has("flags") && section.has(other) {
                problems.push(
                    Diagnostic::new(
                        format!("`flags` in `[{what}]` are for a C function"),
                        section.place("flags"),
                    )
                    .label(format!("there is only `{other}`")),
                );
            }
            return true;
        }
    };
    problems.push(problem);
    false
}

pub(super) fn reference(
    section: &Section,
    kernel: &Kernel,
    language: Option<Language>,
    arguments: &[Argument],
    shapes: &[Shape],
    problems: &mut Problems,
) -> Option<Reference> {
    if !section.is_written() {
        if language == Some(Language::C) {
            let entry = &kernel.entry.value;
            problems.push(
                Diagnostic::whole_file("a C kernel needs a `[reference]` table").hint(format!(
                    "add a table `[reference]` with e.g. `c = \"reference.c:{entry}\"`"
                )),
            );
        }
        return None;
    }
    if !exactly_one(section, "reference", ["c", "file"], problems) {
        return None;
    }
    if let Some(Function { source, entry }) = function(section) {
        return Some(Reference::C {
            source,
            entry,
            flags: flags(section).unwrap_or(vec!["-O2".to_string()]),
        });
    }
    let path = section.written_text("file")?;
    placeholders(&path, &["argument", "shape"], problems);
    let outputs = arguments.iter().filter(|a| is_output(a)).count();
    let needed = [
        ("{argument}", outputs, "outputs"),
        ("{shape}", shapes.len(), "shapes"),
    ];
    for (placeholder, count, what) in needed {
        if count > 1 && !path.value.contains(placeholder) {
            problems.push(
                Diagnostic::new(
                    format!("one file cannot hold the answers of {count} {what}"),
                    path.span.clone(),
                )
                .label(format!("expected `{placeholder}` in the path")),
            );
        }
    }
    for argument in arguments {
        drawn_inputs_have_no_file(argument, problems);
    }
    Some(Reference::File { path })
}

fn is_output(argument: &Argument) -> bool {
    matches!(
        argument.kind,
        ArgumentKind::Buffer {
            role: Role::Output | Role::InOut,
            ..
        }
    )
}

/// Stored answers belong to stored inputs, or to inputs that are always the same.
fn drawn_inputs_have_no_file(argument: &Argument, problems: &mut Problems) {
    if let ArgumentKind::Buffer {
        role: Role::Input | Role::InOut,
        fill: Fill::Normal { .. } | Fill::Uniform { .. } | Fill::Integers { .. },
        ..
    } = argument.kind
    {
        let name = &argument.name;
        problems.push(
            Diagnostic::new(
                format!("input `{name}` is drawn anew, but the answers are in a file"),
                argument.span.clone(),
            )
            .label("the answers hold for one input only")
            .hint(format!("store it too: `file = \"{name}_{{shape}}.npy\"`, or use `draw = \"iota\"`, `\"zeros\"` or `\"ones\"`")),
        );
    }
}

/// Reports `{name}` in a path where `name` is not one of `known`.
pub(super) fn placeholders(path: &Spanned<String>, known: &[&str], problems: &mut Problems) {
    let list: Vec<String> = known.iter().map(|k| format!("`{{{k}}}`")).collect();
    let mut rest = path.value.as_str();
    while let Some(open) = rest.find('{') {
        let inside = &rest[open + 1..];
        let name = inside.find('}').map(|close| &inside[..close]);
        if !name.is_some_and(|name| known.contains(&name)) {
            let message = match name {
                Some(name) => format!("unknown placeholder `{{{name}}}` in a path"),
                None => "a placeholder in a path is not closed".to_string(),
            };
            let problem = Diagnostic::new(message, path.span.clone())
                .label(format!("known here: {}", list.join(", ")));
            problems.push(match name.and_then(|n| nearest(n, known.iter().copied())) {
                Some(near) => problem.hint(format!("did you mean `{{{near}}}`?")),
                None => problem,
            });
        }
        rest = inside;
    }
}

pub(super) fn baseline(
    section: &Section,
    kernel: &Kernel,
    tunables: &[Tunable],
    problems: &mut Problems,
) -> Option<Baseline> {
    if !section.is_written() || !exactly_one(section, "baseline", ["c", "config"], problems) {
        return None;
    }
    let kind = match function(section) {
        Some(Function { source, entry }) => BaselineKind::C {
            source,
            entry,
            flags: flags(section).unwrap_or_else(|| match kernel.language {
                Language::C => kernel.flags.clone(),
                Language::Cuda => c_flags(),
            }),
        },
        None => config(&section.key_section("config")?, tunables, problems),
    };
    Some(Baseline {
        kind,
        target: section.real("target"),
    })
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
            format!(
                "`config` has no value for {}",
                crate::manifest::keys::quoted_list(&names)
            ),
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
