//! `[constraints]`, `[launch]` and `[work]`: tables of expressions.

use super::expressions::{self, Names, Scope};
use super::section::Section;
use super::{Problems, only_for_cuda};
use crate::diagnostic::Diagnostic;
use crate::expression::Expr;
use crate::manifest::{Constraint, Language, Launch, Work};

pub(super) fn constraints(
    section: &Section,
    names: &Names,
    problems: &mut Problems,
) -> Vec<Constraint> {
    let constraints = section.entries().into_iter().map(|entry| {
        let scope = Scope::TunablesAndDimensions;
        Constraint {
            name: entry.name().to_string(),
            expr: expressions::read(entry.value, scope, names, problems),
            span: entry.value.span(),
        }
    });
    constraints.collect()
}

pub(super) fn decode(
    section: &Section,
    language: Option<Language>,
    names: &Names,
    problems: &mut Problems,
) -> Launch {
    let scope = Scope::TunablesAndDimensions;
    let threads = section
        .get("threads")
        .map(|item| expressions::read(item, scope, names, problems));
    match language {
        Some(Language::C) => {
            for key in ["grid", "block", "cluster", "shared", "cooperative"] {
                if section.has(key) {
                    problems.push(only_for_cuda(section, "launch", key).hint(
                        "a C entry is called once per launch; only `threads` says something about it",
                    ));
                }
            }
        }
        Some(Language::Cuda) => {
            if section.has("threads") {
                problems.push(
                    Diagnostic::new(
                        "`threads` in `[launch]` is for C kernels",
                        section.place("threads"),
                    )
                    .label("this kernel is written in CUDA")
                    .hint("`block` says how many threads a block has"),
                );
            }
            let message = |key: &str| format!("a CUDA kernel needs `{key}` in `[launch]`");
            needs_size(section, message, problems);
        }
        None => {}
    }
    Launch {
        threads,
        ..geometry(section, scope, names, problems)
    }
}

/// The launch of a kernel without tunables, in the table that names it.
pub(super) fn fixed(
    section: &Section,
    title: &str,
    names: &Names,
    problems: &mut Problems,
) -> Launch {
    let message = |key: &str| format!("`kernel` in `[{title}]` needs `{key}`");
    needs_size(section, message, problems);
    let scope = Scope::Dimensions("this kernel is compiled without tunables");
    geometry(section, scope, names, problems)
}

fn geometry(section: &Section, scope: Scope, names: &Names, problems: &mut Problems) -> Launch {
    let mut several = |key: &str| -> Vec<Expr> {
        let items = section.items(key).into_iter();
        items
            .map(|item| expressions::read(item, scope, names, problems))
            .collect()
    };
    Launch {
        grid: several("grid"),
        block: several("block"),
        cluster: several("cluster"),
        shared: several("shared").pop(),
        cooperative: section.flag("cooperative"),
        threads: None,
    }
}

/// Reports a launch without `grid` or `block`.
fn needs_size(section: &Section, message: impl Fn(&str) -> String, problems: &mut Problems) {
    for key in ["grid", "block"] {
        if section.has(key) {
            continue;
        }
        let problem = match section.is_written() {
            true => Diagnostic::new(message(key), section.span.clone())
                .label(format!("`{key}` is missing")),
            false => Diagnostic::whole_file(message(key)),
        };
        let example = section.spec.key(key).map_or("", |k| k.example);
        problems.push(problem.hint(format!("add a line such as `{example}`")));
    }
}

pub(super) fn work(section: &Section, names: &Names, problems: &mut Problems) -> Work {
    let scope = Scope::Dimensions("the work of a problem cannot depend on how it is done");
    let mut one = |key: &str| {
        let item = section.get(key)?;
        Some(expressions::read(item, scope, names, problems))
    };
    Work {
        flops: one("flops"),
        bytes: one("bytes"),
    }
}
