//! What to allow where an answer is nearly right everywhere, and misses the reference in double precision by what its own
//! type loses in long sums: not a mistake of the function, but of what is allowed.

use kiln_core::manifest::{ArgumentKind, Role, Shape, Tolerance};
use kiln_core::numerics::{Expected, sum_tolerance_for, tolerance_for};
use kiln_core::trial::{Fault, Mismatch, NumericFault};

use crate::engine::admission;
use crate::engine::oracle::Oracle;
use crate::task::{Part, Task};

pub(super) fn hint(
    task: &Task,
    oracle: &mut Oracle,
    secret: u64,
    mismatch: &Mismatch,
) -> Option<String> {
    let Fault::Numerics(fault) = &mismatch.fault else {
        return None;
    };
    let manifest = task.manifest();
    let shape = manifest.shapes.iter().find(|s| s.name == mismatch.shape)?;
    let config = task.any_config().ok()?;
    let problem = task.problem(Part::Candidate, shape, &config, 0).ok()?;
    let outputs = task.outputs(&problem).ok()?;
    let output = outputs.iter().find(|o| o.argument == fault.argument)?;
    let elements = problem.arguments.iter().filter_map(|a| a.elements());
    let (dtype, most) = (output.dtype, elements.max().unwrap_or(1));
    let enough = tolerance_for(fault, dtype, output.tolerance, most)?;
    let so_far = format!(
        "the whole of `{}` is off by {:.1e} only, which rounding in `{dtype}` may explain: sums over many elements lose \
         more than is allowed here; if that is so, allow it, e.g.",
        fault.argument,
        fault.relative_error.unwrap_or(0.0),
    );
    if let Some(summands) = admission::summands(&problem, output) {
        let place = for_sums(task, oracle, secret, (fault, output), (shape, summands))?;
        return Some(format!("{so_far} {place}"));
    }
    let values = match enough.atol {
        Some(atol) => format!("{{ rtol = {:e}, atol = {atol:e} }}", enough.rtol),
        None => format!("{:e}", enough.rtol),
    };
    let argument = manifest
        .arguments
        .iter()
        .find(|a| a.name == fault.argument)?;
    let place = match &argument.kind {
        ArgumentKind::Buffer {
            tolerance: Some(_), ..
        } => format!(
            "`tolerance = {values}` of `{}` in [arguments]",
            fault.argument
        ),
        _ => format!("`{dtype} = {values}` in [tolerance]"),
    };
    Some(format!("{so_far} {place}"))
}

/// A few sums are off by what is lost on the way, wherever they end: near zero no relative tolerance is enough. What is
/// proposed is tried on the stand-ins first, so that it is not refused in its turn.
fn for_sums(
    task: &Task,
    oracle: &mut Oracle,
    secret: u64,
    (fault, output): (&NumericFault, &Expected),
    (shape, summands): (&Shape, u64),
) -> Option<String> {
    let enough = sum_tolerance_for(fault, summands)?;
    let name = &fault.argument;
    let count = largest_input(task, shape)?;
    let per_root = enough.per_root;
    let allowed = Tolerance {
        rtol: enough.rtol,
        atol: Some(per_root * (summands as f64).sqrt()),
    };
    let passing = admission::passing_with(task, oracle, secret, (name, allowed)).ok()?;
    let place = format!(
        "`tolerance = {{ rtol = {:e}, atol = \"{per_root:e} * sqrt({count})\" }}` of `{name}` in [arguments]",
        enough.rtol,
    );
    if passing.is_empty() {
        return Some(place);
    }
    // Whatever else passes is no question of rounding.
    if !passing.iter().all(|stand_in| stand_in.is_coarser()) {
        return None;
    }
    let already = &task.manifest().admits;
    let mut words: Vec<&str> = already.iter().map(String::as_str).collect();
    for stand_in in &passing {
        if !words.contains(&stand_in.word()) {
            words.push(stand_in.word());
        }
    }
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    Some(format!(
        "{place}, with `admits = [{}]` in [tolerance]: a sum that loses so much in `{}` is no better than one in a \
         coarser type",
        words.join(", "),
        output.dtype
    ))
}

/// Its elements over dimensions, as the manifest writes them.
fn largest_input(task: &Task, shape: &Shape) -> Option<String> {
    let config = task.any_config().ok()?;
    let problem = task.problem(Part::Candidate, shape, &config, 0).ok()?;
    let arguments = task.manifest().arguments.iter().zip(&problem.arguments);
    let inputs = arguments.filter_map(|(argument, spec)| match &argument.kind {
        ArgumentKind::Buffer {
            shape,
            role: Role::Input | Role::InOut,
            ..
        } if argument.dtype.is_float() => Some((spec.elements()?, shape)),
        _ => None,
    });
    let (_, shape) = inputs.max_by_key(|(elements, _)| *elements)?;
    let extents = shape
        .iter()
        .map(|extent| match (shape.len(), extent.text()) {
            (1, text) => text.to_string(),
            (_, text) if text.contains(['+', '-']) => format!("({text})"),
            (_, text) => text.to_string(),
        });
    Some(extents.collect::<Vec<_>>().join(" * "))
}
