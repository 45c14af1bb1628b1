//! What a user can do about a reference that failed: what is likeliest first.

use std::path::Path;

use kiln_core::manifest::{ArgumentKind, Role, Shape};
use kiln_core::protocol::Refusal;

use crate::engine::worker::{WorkerEnd, WorkerKind};
use crate::settings;
use crate::task::{Program, Task};

const SEGMENTATION_FAULT: i32 = 11;
const BUS_ERROR: i32 = 7;

pub(super) struct Advice {
    pub first: String,
    pub others: Vec<String>,
}

/// Hints for a reference that ended like this on a shape.
pub(super) fn after(end: &WorkerEnd, task: &Task, shape: &Shape, program: &Program) -> Advice {
    let legal = about_made_up(task, shape);
    let size = outside_of(end).map(|argument| {
        let whose = match argument {
            Some(argument) => format!("`{}`", task.argument_name(argument)),
            None => "each buffer".to_string(),
        };
        format!(
            "is the `shape` of {whose} in [arguments] as large as what the reference reads and writes there? \
             buffers are exactly as large as declared"
        )
    });
    let is_outside = outside_of(end).is_some();
    let indices = about_indices(task).filter(|_| is_outside);
    // Of a shape that kiln made up, that it did is the likelier cause.
    let mut hints = legal.into_iter().chain(indices).chain(size);
    match hints.next() {
        Some(first) => Advice {
            first,
            others: hints.chain([how_to_look(program)]).collect(),
        },
        None => Advice {
            first: how_to_look(program),
            others: Vec::new(),
        },
    }
}

/// Of a shape that is not in the manifest: is it one at all?
pub(super) fn about_made_up(task: &Task, shape: &Shape) -> Option<String> {
    let is_known = |known: &Shape| known.dimensions == shape.dimensions;
    let is_made_up = !task.manifest().shapes.iter().any(is_known);
    is_made_up.then(|| {
        "kiln made this shape from those of the manifest; where it is not one the kernel is for, say which are: in \
         [constraints] (such as `pitch = \"COLS <= STRIDE\"`), or with `domain` in [confirm]"
            .to_string()
    })
}

/// Integers that nobody said anything about, where something read outside its buffers or came to nothing: are they indices?
pub fn about_indices(task: &Task) -> Option<String> {
    let unchosen = task.manifest().arguments.iter().filter_map(|argument| {
        let ArgumentKind::Buffer {
            role: Role::Input | Role::InOut,
            fill,
            ..
        } = &argument.kind
        else {
            return None;
        };
        let (low, high) = fill.unchosen_range(argument.dtype)?;
        Some((&argument.name, low, high))
    });
    let unchosen: Vec<_> = unchosen.collect();
    let (first, ..) = unchosen.first()?;
    let questions = unchosen.iter().map(|(name, low, high)| {
        format!("is `{name}` used as an index? it is drawn from {low} to {high}")
    });
    let questions: Vec<String> = questions.collect();
    let size = task.manifest().dimension_names().first().copied()?;
    Some(format!(
        "{}; an index is drawn from what stays inside: `{first} = {{ ..., draw = {{ kind = \"integers\", low = 0, \
         high = \"{size} - 1\" }} }}`",
        questions.join("; ")
    ))
}

/// Whether it looked outside its buffers, and beside which, where that is known.
fn outside_of(end: &WorkerEnd) -> Option<Option<usize>> {
    match end {
        WorkerEnd::Fault(fault) => Some(Some(fault.argument)),
        WorkerEnd::Refused(Refusal::GuardZone { argument, .. }) => Some(Some(*argument)),
        WorkerEnd::Signal(SEGMENTATION_FAULT | BUS_ERROR) => Some(None),
        _ => None,
    }
}

/// How a user finds out why a reference fails: by the kind of program it is.
fn how_to_look(program: &Program) -> String {
    match program.worker {
        WorkerKind::Python(_) | WorkerKind::WatchedPython { .. } => {
            let path = Path::new(&program.image);
            let folder = path.parent().unwrap_or(Path::new("."));
            let module = path.file_stem().unwrap_or_default().to_string_lossy();
            format!(
                "call it by hand on arrays of this shape: cd '{}' && {} -c 'import {module}; print({module}.{}(...))'",
                folder.display(),
                settings::python(),
                program.symbol
            )
        }
        WorkerKind::Cuda { .. } | WorkerKind::Watched { .. } => {
            "launch it from a small program of your own under `compute-sanitizer`".into()
        }
        WorkerKind::Cpu { .. } | WorkerKind::Compile(_) => {
            "run it under a debugger or -fsanitize=address".into()
        }
    }
}
