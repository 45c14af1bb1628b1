//! `[shapes.NAME]`: dimensions, those computed from others, and which shape is the target.

use std::ops::Range;

use super::Problems;
use super::expressions::{self, Names, Scope};
use super::section::{Entry, Section, whole};
use crate::diagnostic::{Diagnostic, nearest};
use crate::expression::Expr;
use crate::manifest::keys::quoted_list;
use crate::manifest::{Shape, ShapePurpose};
use crate::value::Value;

/// No kernel has more; bounds the work on a hostile file.
const MOST_DIMENSIONS: usize = 64;

/// Every name the tunables and shapes introduce, right or wrong, so that one mistake in a shape
/// does not make every expression wrong too.
pub(super) fn names<'a>(text: &'a str, tunables: &Section, shapes: &Section) -> Names<'a> {
    let mut names = Names {
        text,
        tunables: tunables
            .entries()
            .iter()
            .map(|e| e.name().to_string())
            .collect(),
        ..Names::default()
    };
    for entry in shapes.entries() {
        let Some(shape) = shapes.entry_section(&entry) else {
            continue;
        };
        names.dimensions_known = true;
        for dimension in shape.entries() {
            if !names.dimensions.iter().any(|d| d == dimension.name()) {
                names.dimensions.push(dimension.name().to_string());
            }
        }
    }
    names
}

pub(super) fn decode(section: &Section, names: &Names, problems: &mut Problems) -> Vec<Shape> {
    let entries = section.entries();
    let sections: Vec<(Entry, Section)> = entries
        .into_iter()
        .filter_map(|entry| Some((entry, section.entry_section(&entry)?)))
        .collect();
    if sections.is_empty() {
        if section.is_written() {
            problems.push(
                Diagnostic::new("`[shapes]` has no shape", section.span.clone())
                    .hint("add a table `[shapes.target]` with e.g. `N = 1024`"),
            );
        }
        return Vec::new();
    }
    let purposes = purposes(&sections, section.span.clone(), problems);
    let mut shapes = Vec::new();
    for ((entry, shape), purpose) in sections.iter().zip(purposes) {
        let sizes = dimensions(entry.name(), shape, names, problems);
        shapes.push(Shape {
            name: entry.name().to_string(),
            purpose,
            weight: shape.real("weight"),
            dimensions: sizes.dimensions,
            formulas: sizes.formulas,
            span: shape.span.clone(),
        });
    }
    let model = shapes
        .iter()
        .position(|s| s.purpose == ShapePurpose::Target)
        .unwrap_or(0);
    same_dimensions(&mut shapes, model, &sections, problems);
    shapes
}

fn purposes(
    sections: &[(Entry, Section)],
    table: Range<usize>,
    problems: &mut Problems,
) -> Vec<ShapePurpose> {
    let written: Vec<Option<ShapePurpose>> = sections
        .iter()
        .map(|(_, shape)| match shape.text("use").as_str() {
            "target" => Some(ShapePurpose::Target),
            "check" => Some(ShapePurpose::Check),
            "sweep" => Some(ShapePurpose::Sweep),
            _ => None,
        })
        .collect();
    let targets: Vec<usize> = (0..sections.len())
        .filter(|i| written[*i] == Some(ShapePurpose::Target))
        .collect();
    if let [first, second, ..] = targets[..] {
        let (one, other) = (sections[first].0.name(), &sections[second]);
        problems.push(
            Diagnostic::new(
                format!(
                    "two shapes are the target: `{one}` and `{}`",
                    other.0.name()
                ),
                other.1.place("use"),
            )
            .label("only one shape is tuned")
            .hint("use `check` or `sweep` for the others"),
        );
    }
    let by_name = || {
        let only = sections.len() == 1;
        (0..sections.len())
            .find(|i| written[*i].is_none() && (only || sections[*i].0.name() == "target"))
    };
    let target = targets.first().copied().or_else(by_name);
    if target.is_none() {
        let names: Vec<&str> = sections.iter().map(|(e, _)| e.name()).collect();
        problems.push(
            Diagnostic::new("no shape is the target", table)
                .label(format!("shapes: {}", names.join(", ")))
                .hint("call one `[shapes.target]`, or write `use = \"target\"` in it"),
        );
    }
    (0..sections.len())
        .map(|i| match written[i] {
            _ if Some(i) == target => ShapePurpose::Target,
            Some(purpose) => purpose,
            None => ShapePurpose::Check,
        })
        .collect()
}

/// A dimension on the way to its value.
struct Pending<'a> {
    entry: Entry<'a>,
    expr: Expr,
    value: Option<i64>,
}

/// The dimensions of a shape, and how those are computed that were written as expressions.
#[derive(Default)]
struct Sizes {
    dimensions: Vec<(String, i64)>,
    formulas: Vec<(String, Expr)>,
}

fn dimensions(shape_name: &str, shape: &Section, names: &Names, problems: &mut Problems) -> Sizes {
    let entries = shape.entries();
    if entries.len() > MOST_DIMENSIONS {
        problems.push(
            Diagnostic::new(
                format!("shape `{shape_name}` has {} dimensions", entries.len()),
                shape.span.clone(),
            )
            .label(format!("expected at most {MOST_DIMENSIONS}")),
        );
        return Sizes::default();
    }
    let own = Names {
        text: names.text,
        tunables: names.tunables.clone(),
        dimensions: entries.iter().map(|e| e.name().to_string()).collect(),
        dimensions_known: true,
    };
    let scope = Scope::Dimensions("the size of a problem cannot depend on a tunable");
    let mut pending: Vec<Pending> = Vec::new();
    for entry in entries {
        if names.tunables.iter().any(|t| t == entry.name()) {
            problems.push(
                Diagnostic::new(
                    format!("`{}` is both a tunable and a dimension", entry.name()),
                    entry.key.span(),
                )
                .label("expressions could not tell them apart")
                .hint("rename one of them"),
            );
        }
        let before = problems.found.len();
        let expr = expressions::read(entry.value, scope, &own, problems);
        let is_wrong = problems.found.len() > before;
        let value = match whole(entry.value) {
            Some(n) => Some(n),
            None if is_wrong || !entry.value.get_ref().is_str() => Some(1),
            None => None,
        };
        pending.push(Pending { entry, expr, value });
    }
    let mut order = Vec::new();
    for start in 0..pending.len() {
        let path = &mut Vec::new();
        resolve(start, path, &mut order, &mut pending, shape_name, problems);
    }
    let resolved = pending
        .iter()
        .map(|p| (p.entry.name().to_string(), p.value.unwrap_or(1)));
    let formulas = order.into_iter().map(|at: usize| {
        let computed = &pending[at];
        (computed.entry.name().to_string(), computed.expr.clone())
    });
    Sizes {
        dimensions: resolved.collect(),
        formulas: formulas.collect(),
    }
}

/// Computes a dimension after those it needs. `path` is how it was reached, `order` what was
/// computed so far.
fn resolve(
    at: usize,
    path: &mut Vec<usize>,
    order: &mut Vec<usize>,
    pending: &mut [Pending],
    shape_name: &str,
    problems: &mut Problems,
) {
    if pending[at].value.is_some() {
        return;
    }
    if let Some(start) = path.iter().position(|p| *p == at) {
        let mut cycle: Vec<String> = path[start..]
            .iter()
            .map(|p| format!("`{}`", pending[*p].entry.name()))
            .collect();
        cycle.push(cycle[0].clone());
        problems.push(
            Diagnostic::new(
                format!("dimensions of shape `{shape_name}` need each other"),
                pending[at].entry.value.span(),
            )
            .label(format!("the cycle is {}", cycle.join(" -> ")))
            .hint("give one of them as an integer"),
        );
        for member in path[start..].iter() {
            pending[*member].value = Some(1);
        }
        return;
    }
    path.push(at);
    let scope: Vec<String> = pending.iter().map(|p| p.entry.name().to_string()).collect();
    let bound = pending[at].expr.bind(&scope);
    if let Ok(bound) = &bound {
        for slot in bound.slots() {
            resolve(*slot, path, order, pending, shape_name, problems);
        }
    }
    path.pop();
    // A cycle through here was reported and has put a stand-in.
    if pending[at].value.is_some() {
        return;
    }
    let values: Vec<Value> = pending
        .iter()
        .map(|p| Value::Int(p.value.unwrap_or(1)))
        .collect();
    let dimension = pending[at].entry;
    let problem = |message: String| {
        let name = dimension.name();
        let message = format!("dimension `{name}` of shape `{shape_name}` {message}");
        Diagnostic::new(message, dimension.value.span()).label("expected an integer from 1")
    };
    let value = match bound.map(|bound| bound.eval(&values)) {
        Ok(Ok(Value::Int(n))) if n >= 1 => n,
        Ok(Ok(other)) => {
            let problem = problem(format!("is {other}"));
            problems.push(match other {
                Value::Float(_) => problem.hint("`/` is real division; `//` stays whole"),
                _ => problem,
            });
            1
        }
        Ok(Err(error)) => {
            problems.push(problem(format!("cannot be computed: {error}")));
            1
        }
        Err(_) => 1,
    };
    pending[at].value = Some(value);
    order.push(at);
}

/// Compares every shape with the model and puts its dimensions in the model's order.
fn same_dimensions(
    shapes: &mut [Shape],
    model: usize,
    sections: &[(Entry, Section)],
    problems: &mut Problems,
) {
    let model_name = shapes[model].name.clone();
    let expected: Vec<String> = shapes[model]
        .dimensions
        .iter()
        .map(|(n, _)| n.clone())
        .collect();
    for (shape, (_, section)) in shapes.iter_mut().zip(sections) {
        let has = |name: &str| shape.dimensions.iter().any(|(n, _)| n == name);
        let mut missing: Vec<&String> = expected.iter().filter(|n| !has(n)).collect();
        let extra: Vec<&str> = shape
            .dimensions
            .iter()
            .map(|(n, _)| n.as_str())
            .filter(|n| !expected.iter().any(|e| e == n))
            .collect();
        let mut misspelt = Vec::new();
        for name in extra {
            let problem = Diagnostic::new(
                format!("shape `{model_name}` has no dimension `{name}`"),
                section.place(name),
            )
            .label(format!("shape `{}` has", shape.name));
            let near = nearest(name, missing.iter().map(|m| m.as_str()));
            misspelt.extend(near);
            problems.push(match near {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint("every shape gives a value to the same dimensions"),
            });
        }
        missing.retain(|name| !misspelt.contains(&name.as_str()));
        if !missing.is_empty() {
            problems.push(
                Diagnostic::new(
                    format!("shape `{}` has no {}", shape.name, quoted_list(&missing)),
                    section.span.clone(),
                )
                .label(format!("shape `{model_name}` has"))
                .hint("every shape gives a value to the same dimensions"),
            );
        }
        shape.dimensions.sort_by_key(|(name, _)| {
            expected
                .iter()
                .position(|e| e == name)
                .unwrap_or(expected.len())
        });
    }
}
