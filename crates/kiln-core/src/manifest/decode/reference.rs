//! `[reference]`: where right answers come from.

use super::comparison::{Function, Known, chosen, function, python};
use super::kernel::{flags, refuse_architectures};
use super::section::Section;
use super::{Problems, launch, only_for_cuda};
use crate::diagnostic::{Diagnostic, nearest};
use crate::manifest::{
    Argument, ArgumentKind, Language, Reference, ReferencePrecision, Role, Shape, Spanned,
    plain_name,
};

pub(super) fn decode(
    section: &Section,
    known: &Known,
    arguments: &[Argument],
    shapes: &[Shape],
    problems: &mut Problems,
) -> Option<Reference> {
    if !section.is_written() {
        problems.push(missing(known)?);
        return None;
    }
    let kinds = ["c", "python", "kernel", "file"];
    let kind = chosen(section, "reference", kinds, known.language, problems)?;
    let written = section.written_text(kind)?;
    match kind {
        "c" => {
            let given = section.texts("flags").unwrap_or_default();
            super::flags::check(&given, Language::C, problems);
            let Function { source, entry } = function(written)?;
            Some(Reference::C {
                source,
                entry,
                flags: flags(section).unwrap_or(vec!["-O2".to_string()]),
            })
        }
        "python" => Some(Reference::Python(python(written)?)),
        "kernel" => {
            if known.language == Some(Language::C) {
                problems.push(
                    only_for_cuda(section, "reference", "kernel")
                        .hint("use a C function, e.g. `c = \"reference.c:kernel\"`"),
                );
                return None;
            }
            let given = section.texts("flags").unwrap_or_default();
            refuse_architectures(&given, problems);
            super::flags::check(&given, Language::Cuda, problems);
            let launch = launch::fixed(section, "reference", known.names, problems);
            let Function { source, entry } = function(written)?;
            Some(Reference::Kernel {
                source,
                entry,
                flags: flags(section).unwrap_or_default(),
                launch,
                precision: match section.text("precision").as_str() {
                    "declared" => ReferencePrecision::Declared,
                    _ => ReferencePrecision::Double,
                },
            })
        }
        _ => {
            stored(&written, arguments, shapes, problems);
            Some(Reference::File { path: written })
        }
    }
}

fn missing(known: &Known) -> Option<Diagnostic> {
    let (language, example) = match known.language? {
        Language::C => ("C", "c = \"reference.c"),
        Language::Cuda => ("CUDA", "python = \"reference.py"),
    };
    let entry = plain_name(&known.kernel.entry.value);
    let message = format!("a {language} kernel needs a `[reference]` table");
    Some(Diagnostic::whole_file(message).hint(format!(
        "add a table `[reference]` with e.g. `{example}:{entry}\"`"
    )))
}

/// Reports answers in files that cannot be the answers.
fn stored(
    path: &Spanned<String>,
    arguments: &[Argument],
    shapes: &[Shape],
    problems: &mut Problems,
) {
    placeholders(path, &["argument", "shape"], problems);
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
        fill,
        ..
    } = &argument.kind
        && fill.is_drawn()
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
