//! What `[reference]` and `[baseline]` have in common: one of several kinds, and what goes with it.

use super::Problems;
use super::check::split_function;
use super::expressions::Names;
use super::section::Section;
use crate::diagnostic::Diagnostic;
use crate::manifest::keys::quoted_list;
use crate::manifest::{Kernel, Language, PythonFunction, Spanned};

/// What was read before and the tables refer to.
pub(super) struct Known<'a> {
    pub names: &'a Names<'a>,
    /// `None` when the manifest does not tell.
    pub language: Option<Language>,
    pub kernel: &'a Kernel,
}

/// A file and a function.
pub(super) struct Function {
    pub source: Spanned<String>,
    pub entry: String,
}

/// Splits `file.c:function`; the span is that of the whole string.
pub(super) fn function(text: Spanned<String>) -> Option<Function> {
    let (path, entry) = split_function(&text.value)?;
    Some(Function {
        source: Spanned {
            value: path.to_string(),
            span: text.span.clone(),
        },
        entry: entry.to_string(),
    })
}

pub(super) fn python(text: Spanned<String>) -> Option<PythonFunction> {
    let Function { source, entry } = function(text)?;
    Some(PythonFunction {
        source,
        function: entry,
    })
}

/// The one of `kinds` that is written. Reports none, several, and keys that go with another kind.
pub(super) fn chosen(
    section: &Section,
    title: &str,
    kinds: [&'static str; 4],
    language: Option<Language>,
    problems: &mut Problems,
) -> Option<&'static str> {
    let written: Vec<&'static str> = kinds.into_iter().filter(|k| section.has(k)).collect();
    let problem = match written[..] {
        [kind] => {
            stray_keys(section, title, kind, problems);
            return Some(kind);
        }
        [one, other, ..] => Diagnostic::new(
            format!("`[{title}]` has both `{one}` and `{other}`"),
            section.place(other),
        )
        .label("only one of them can be used"),
        [] => {
            let usual = match language {
                Some(Language::Cuda) => "python",
                _ => "c",
            };
            let example = section.spec.key(usual).map_or("", |k| k.example);
            Diagnostic::new(
                format!("`[{title}]` has none of {}", quoted_list(&kinds)),
                section.span.clone(),
            )
            .label("expected one of them")
            .hint(format!("add a line such as `{example}`"))
        }
    };
    problems.push(problem);
    None
}

fn stray_keys(section: &Section, title: &str, kind: &str, problems: &mut Problems) {
    let compiled: &[&str] = &["c", "kernel"];
    let launched: &[&str] = &["kernel"];
    for (key, kinds) in [
        ("flags", compiled),
        ("precision", launched),
        ("grid", launched),
        ("block", launched),
        ("cluster", launched),
        ("shared", launched),
        ("cooperative", launched),
    ] {
        let is_known = section.spec.key(key).is_some();
        if is_known && section.has(key) && !kinds.contains(&kind) {
            problems.push(
                Diagnostic::new(
                    format!(
                        "`{key}` in `[{title}]` goes with `{}`",
                        kinds.join("` or `")
                    ),
                    section.place(key),
                )
                .label(format!("there is only `{kind}`")),
            );
        }
    }
}
