//! `[constraints]`, `[launch]` and `[work]`: tables of expressions.

use super::Problems;
use super::expressions::{self, Names, Scope};
use super::section::Section;
use crate::diagnostic::Diagnostic;
use crate::expression::Expr;
use crate::manifest::{Constraint, Language, Launch, Work};

pub(super) fn constraints(
    text: &str,
    section: &Section,
    names: &Names,
    problems: &mut Problems,
) -> Vec<Constraint> {
    let constraints = section.entries().into_iter().map(|entry| {
        let scope = Scope::TunablesAndDimensions;
        Constraint {
            name: entry.name().to_string(),
            expr: expressions::read(text, entry.value, scope, names, problems),
            span: entry.value.span(),
        }
    });
    constraints.collect()
}

pub(super) fn decode(
    text: &str,
    section: &Section,
    language: Option<Language>,
    names: &Names,
    problems: &mut Problems,
) -> Launch {
    let scope = Scope::TunablesAndDimensions;
    let mut several = |key: &str| -> Vec<Expr> {
        let Some(item) = section.get(key) else {
            return Vec::new();
        };
        match item.get_ref().as_array() {
            Some(items) => items
                .iter()
                .map(|item| expressions::read(text, item, scope, names, problems))
                .collect(),
            None => vec![expressions::read(text, item, scope, names, problems)],
        }
    };
    let (grid, block, cluster) = (several("grid"), several("block"), several("cluster"));
    let mut one = |key: &str| {
        let item = section.get(key)?;
        Some(expressions::read(text, item, scope, names, problems))
    };
    let launch = Launch {
        grid,
        block,
        cluster,
        shared: one("shared"),
        threads: one("threads"),
    };
    match language {
        Some(Language::C) => {
            for key in ["grid", "block", "cluster", "shared"] {
                if section.has(key) {
                    problems.push(
                        Diagnostic::new(
                            format!("`{key}` in `[launch]` is for CUDA kernels"),
                            section.place(key),
                        )
                        .label("this kernel is written in C")
                        .hint("a C entry is called once per launch; only `threads` says something about it"),
                    );
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
            for (key, example) in [("grid", "\"ceil_div(N, BLOCK)\""), ("block", "\"BLOCK\"")] {
                if section.has(key) {
                    continue;
                }
                let message = format!("a CUDA kernel needs `{key}` in `[launch]`");
                let problem = match section.is_written() {
                    true => Diagnostic::new(message, section.span.clone())
                        .label(format!("`{key}` is missing")),
                    false => Diagnostic::whole_file(message),
                };
                problems.push(problem.hint(format!("add a line such as `{key} = {example}`")));
            }
        }
        None => {}
    }
    launch
}

pub(super) fn work(text: &str, section: &Section, names: &Names, problems: &mut Problems) -> Work {
    let scope = Scope::Dimensions("the work of a problem cannot depend on how it is done");
    let mut one = |key: &str| {
        let item = section.get(key)?;
        Some(expressions::read(text, item, scope, names, problems))
    };
    Work {
        flops: one("flops"),
        bytes: one("bytes"),
    }
}
