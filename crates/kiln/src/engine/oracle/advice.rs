//! What a user can do about a reference that failed: what is likeliest first.

use std::path::Path;

use kiln_core::manifest::Shape;
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
    let is_known = |known: &Shape| known.dimensions == shape.dimensions;
    let is_made_up = !task.manifest().shapes.iter().any(is_known);
    let legal = is_made_up.then(|| {
        "kiln made this shape from those of the manifest; where it is not one the kernel is for, say which are: in \
         [constraints] (such as `pitch = \"COLS <= STRIDE\"`), or with `domain` in [confirm]"
            .to_string()
    });
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
    let mut hints = legal.into_iter().chain(size);
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
