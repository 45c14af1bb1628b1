//! The last pass, over a manifest without mistakes so far: what sizes, scalars and work come to.
//!
//! Expressions that name tunables are left alone: which values meet is known only in the space.

use std::ops::RangeInclusive;

use toml::de::DeTable;

use super::Problems;
use super::section::{Item, Section};
use super::table;
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::expression::Expr;
use crate::manifest::fill::whole_range;
use crate::manifest::{
    ArgumentKind, BaselineKind, FillRule, Launch, Manifest, Reference, Shape, Swizzle,
    ToleranceRule,
};
use crate::value::Value;

/// A buffer larger than this (one pebibyte) is a mistake in its shape.
const MOST_BYTES: i64 = 1 << 50;

const ANY_SIZE: RangeInclusive<i64> = 1..=i64::MAX;

pub(super) fn check<'a>(manifest: &Manifest, root: &'a DeTable<'a>, problems: &mut Problems) {
    let section = table(root, "arguments");
    for (argument, entry) in manifest.arguments.iter().zip(section.entries()) {
        let Some(fields) = section.entry_section(&entry) else {
            continue;
        };
        let what = format!("argument `{}`", argument.name);
        match &argument.kind {
            ArgumentKind::Scalar { value } => {
                if let Some(item) = fields.get("value") {
                    check_scalar(manifest, &what, argument.dtype, value, item, problems);
                }
            }
            ArgumentKind::Tma { tile, swizzle, .. } => {
                let tile = Tile {
                    what: &what,
                    element_bytes: argument.dtype.size_bytes() as i64,
                    extents: tile,
                    swizzle: *swizzle,
                };
                check_tile(manifest, &tile, &fields, problems);
            }
            ArgumentKind::Buffer { shape, fill, .. } => {
                check_buffer(manifest, &what, argument.dtype, shape, &fields, problems);
                check_fill(manifest, &what, argument.dtype, fill, &fields, problems);
            }
        }
    }
    if let Some(Reference::Kernel { launch, .. }) = &manifest.reference {
        check_launch(manifest, "reference", launch, root, problems);
    }
    if let Some(BaselineKind::Kernel { launch, .. }) = manifest.baseline.as_ref().map(|b| &b.kind) {
        check_launch(manifest, "baseline", launch, root, problems);
    }
    check_tolerances(manifest, root, problems);
    let section = table(root, "work");
    for (key, expr) in [
        ("flops", &manifest.work.flops),
        ("bytes", &manifest.work.bytes),
    ] {
        if let (Some(expr), Some(item)) = (expr, section.get(key)) {
            check_work(manifest, key, expr, item, problems);
        }
    }
}

/// What `expr` is on a shape; `None` when it needs more than dimensions. Failures are reported.
fn on_shape(
    what: &str,
    expr: &Expr,
    shape: &Shape,
    item: &Item,
    problems: &mut Problems,
) -> Option<Value> {
    let scope: Vec<&str> = shape.dimensions.iter().map(|(n, _)| n.as_str()).collect();
    let values: Vec<Value> = shape
        .dimensions
        .iter()
        .map(|(_, v)| Value::Int(*v))
        .collect();
    match expr.bind(&scope).ok()?.eval(&values) {
        Ok(value) => Some(value),
        Err(error) => {
            problems.push(Diagnostic::new(
                format!(
                    "{what} cannot be computed on shape `{}`: {error}",
                    shape.name
                ),
                item.span(),
            ));
            None
        }
    }
}

/// Like `on_shape`, for an integer within a range.
fn size_on_shape(
    what: &str,
    expr: &Expr,
    shape: &Shape,
    item: &Item,
    allowed: RangeInclusive<i64>,
    problems: &mut Problems,
) -> Option<i64> {
    let value = on_shape(what, expr, shape, item, problems)?;
    if let Value::Int(n) = value
        && allowed.contains(&n)
    {
        return Some(n);
    }
    let (least, most) = allowed.into_inner();
    let problem = Diagnostic::new(
        format!("{what} is {value} on shape `{}`", shape.name),
        item.span(),
    )
    .label(match most {
        i64::MAX => format!("expected an integer from {least}"),
        _ => format!("expected an integer from {least} to {most}"),
    });
    problems.push(division_hint(problem, &value));
    None
}

fn check_buffer(
    manifest: &Manifest,
    what: &str,
    dtype: DType,
    extents: &[Expr],
    fields: &Section,
    problems: &mut Problems,
) {
    let Some(shape_item) = fields.get("shape") else {
        return;
    };
    let what_size = format!("a size of {what}");
    for shape in &manifest.shapes {
        let before = problems.found.len();
        let mut bytes = Some(dtype.size_bytes() as i64);
        for (expr, item) in extents.iter().zip(fields.items("shape")) {
            if let Some(n) = size_on_shape(&what_size, expr, shape, item, ANY_SIZE, problems) {
                bytes = bytes
                    .and_then(|b| b.checked_mul(n))
                    .filter(|b| *b <= MOST_BYTES);
            }
        }
        if bytes.is_none() {
            problems.push(
                Diagnostic::new(
                    format!("{what} is too large on shape `{}`", shape.name),
                    shape_item.span(),
                )
                .label("more than a pebibyte"),
            );
        }
        // The other shapes most likely have the same problem.
        if problems.found.len() > before {
            return;
        }
    }
}

fn check_fill(
    manifest: &Manifest,
    what: &str,
    dtype: DType,
    fill: &FillRule,
    fields: &Section,
    problems: &mut Problems,
) {
    let wrong = manifest.shapes.iter().find_map(|shape| {
        let why = fill.on(&shape.dimensions, dtype).err()?;
        Some((shape, why))
    });
    if let (Some((shape, why)), Some(draw)) = (wrong, fields.key_section("draw")) {
        let told = format!("the draw of {what}: {}", why.message);
        // An end that is not written is the default, and the other one is wrong beside it.
        let written = ["low", "high"].into_iter().find(|key| draw.has(key));
        let item = draw
            .get(why.end.key())
            .or_else(|| draw.get(written.unwrap_or("kind")));
        let span = item.map_or(draw.span.clone(), Item::span);
        problems.push(Diagnostic::new(told, span).label(format!("on shape `{}`", shape.name)));
    }
}

/// The box of a descriptor.
struct Tile<'a> {
    what: &'a str,
    element_bytes: i64,
    extents: &'a [Expr],
    swizzle: Swizzle,
}

/// Limits of `cuTensorMapEncodeTiled` in the CUDA driver API.
fn check_tile(manifest: &Manifest, tile: &Tile, fields: &Section, problems: &mut Problems) {
    let what = format!("a size of the box of {}", tile.what);
    for shape in &manifest.shapes {
        let before = problems.found.len();
        let mut inner = None;
        for (expr, item) in tile.extents.iter().zip(fields.items("box")) {
            let size = size_on_shape(&what, expr, shape, item, 1..=256, problems);
            inner = size.map(|n| (n * tile.element_bytes, item));
        }
        if let Some((bytes, item)) = inner {
            let problem = Diagnostic::new(
                format!(
                    "the last size of the box of {} is {bytes} bytes on shape `{}`",
                    tile.what, shape.name
                ),
                item.span(),
            );
            if bytes % 16 != 0 {
                problems.push(problem.label("expected a multiple of 16 bytes"));
            } else if let Some(row) = tile.swizzle.row_bytes().filter(|row| bytes > *row) {
                problems.push(
                    problem
                        .label(format!("expected at most the {row} bytes of `swizzle`"))
                        .hint("make the box narrower and load several of them"),
                );
            }
        }
        if problems.found.len() > before {
            return;
        }
    }
}

/// The launch of a kernel without tunables.
fn check_launch<'a>(
    manifest: &Manifest,
    title: &str,
    launch: &Launch,
    root: &'a DeTable<'a>,
    problems: &mut Problems,
) {
    let section = table(root, title);
    for (key, exprs, allowed) in [
        ("grid", &launch.grid[..], ANY_SIZE),
        ("block", &launch.block, ANY_SIZE),
        ("cluster", &launch.cluster, ANY_SIZE),
        ("shared", launch.shared.as_slice(), 0..=i64::MAX),
    ] {
        let what = format!("`{key}` in `[{title}]`");
        for (expr, item) in exprs.iter().zip(section.items(key)) {
            for shape in &manifest.shapes {
                let before = problems.found.len();
                size_on_shape(&what, expr, shape, item, allowed.clone(), problems);
                if problems.found.len() > before {
                    break;
                }
            }
        }
    }
}

fn division_hint(problem: Diagnostic, value: &Value) -> Diagnostic {
    match value {
        Value::Float(_) => problem.hint("`/` is real division; `//` stays whole"),
        _ => problem,
    }
}

fn check_scalar(
    manifest: &Manifest,
    what: &str,
    dtype: DType,
    expr: &Expr,
    item: &Item,
    problems: &mut Problems,
) {
    for shape in &manifest.shapes {
        let before = problems.found.len();
        let value = on_shape(&format!("the value of {what}"), expr, shape, item, problems);
        let (least, most) = whole_range(dtype);
        let wrong = match &value {
            None => None,
            Some(Value::Text(_)) => Some("expected a number".to_string()),
            Some(Value::Float(x)) if !dtype.is_float() || !x.is_finite() => {
                Some(format!("does not fit in `{dtype}`"))
            }
            Some(Value::Int(n)) if !dtype.is_float() && !(least..=most).contains(n) => {
                Some(format!("`{dtype}` holds {least} to {most}"))
            }
            Some(_) => None,
        };
        if let (Some(label), Some(value)) = (wrong, value) {
            let problem = Diagnostic::new(
                format!("the value of {what} is {value} on shape `{}`", shape.name),
                item.span(),
            )
            .label(label);
            problems.push(division_hint(problem, &value));
        }
        if problems.found.len() > before {
            return;
        }
    }
}

fn check_tolerances<'a>(manifest: &Manifest, root: &'a DeTable<'a>, problems: &mut Problems) {
    let section = table(root, "tolerance");
    let by_type = manifest.tolerance.iter().filter_map(|(dtype, rule)| {
        let item = section.get(dtype.name())?;
        Some((format!("tolerance `{dtype}`"), rule, item))
    });
    for (what, rule, item) in by_type {
        check_tolerance(manifest, &what, rule, item, problems);
    }
    let section = table(root, "arguments");
    for (argument, entry) in manifest.arguments.iter().zip(section.entries()) {
        if let ArgumentKind::Buffer {
            tolerance: Some(rule),
            ..
        } = &argument.kind
            && let Some(fields) = section.entry_section(&entry)
            && let Some(item) = fields.get("tolerance")
        {
            let what = format!("the tolerance of argument `{}`", argument.name);
            check_tolerance(manifest, &what, rule, item, problems);
        }
    }
}

fn check_tolerance(
    manifest: &Manifest,
    what: &str,
    rule: &ToleranceRule,
    item: &Item,
    problems: &mut Problems,
) {
    let wrong = manifest.shapes.iter().find_map(|shape| {
        let why = rule.on(&shape.dimensions).err()?;
        Some((shape, why))
    });
    if let Some((shape, why)) = wrong {
        let told = format!("{what} cannot be used on shape `{}`: {why}", shape.name);
        problems.push(Diagnostic::new(told, item.span()));
    }
}

fn check_work(manifest: &Manifest, key: &str, expr: &Expr, item: &Item, problems: &mut Problems) {
    for shape in &manifest.shapes {
        let before = problems.found.len();
        let value = on_shape(&format!("`{key}`"), expr, shape, item, problems);
        let is_wrong = value
            .as_ref()
            .is_some_and(|v| !v.as_f64().is_some_and(|x| x > 0.0 && x.is_finite()));
        if let (true, Some(value)) = (is_wrong, value) {
            problems.push(
                Diagnostic::new(
                    format!("`{key}` is {value} on shape `{}`", shape.name),
                    item.span(),
                )
                .label("expected a number above 0"),
            );
        }
        if problems.found.len() > before {
            return;
        }
    }
}
