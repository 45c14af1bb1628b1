//! The inputs of a task, as stand-ins for its kernels see them.

use kiln_core::admission::{self, InputContents};
use kiln_core::manifest::{ArgumentKind, Role};
use kiln_core::numerics::Expected;
use kiln_core::precision::Coarser;
use kiln_core::protocol::{ArgumentSpec, Problem, Refusal};
use kiln_device::contents;

use crate::engine::broken;
use crate::engine::worker::WorkerEnd;
use crate::exit::Failure;
use crate::task::Task;

pub(super) struct InputKinds {
    pub(super) any: bool,
    /// At least one is drawn anew for every seed.
    pub(super) drawn: bool,
}

pub(super) fn input_kinds(task: &Task) -> InputKinds {
    let kinds = task.manifest().arguments.iter().map(|a| &a.kind);
    let is_input = |kind: &&ArgumentKind| {
        matches!(
            kind,
            ArgumentKind::Buffer {
                role: Role::Input | Role::InOut,
                ..
            }
        )
    };
    InputKinds {
        any: kinds.clone().any(|kind| is_input(&kind)),
        drawn: kinds.clone().any(is_drawn_input),
    }
}

pub(super) fn is_drawn_input(kind: &ArgumentKind) -> bool {
    matches!(
        kind,
        ArgumentKind::Buffer {
            role: Role::Input | Role::InOut,
            fill,
            ..
        } if fill.is_drawn()
    )
}

/// How many numbers each element of an output is made from, where it is a reduction of a floating input.
pub fn summands(problem: &Problem, output: &Expected) -> Option<u64> {
    let inputs = problem
        .arguments
        .iter()
        .filter_map(|argument| match argument {
            ArgumentSpec::Buffer {
                dtype,
                role: Role::Input | Role::InOut,
                ..
            } if dtype.is_float() => argument.elements(),
            _ => None,
        });
    admission::summands(output.extents.iter().product(), inputs.max()?)
}

/// Whether rounding to a format changes the type of any input.
pub(super) fn rounds_inputs(task: &Task, format: Coarser) -> bool {
    task.manifest().arguments.iter().any(|argument| {
        let is_buffer = matches!(
            argument.kind,
            ArgumentKind::Buffer {
                role: Role::Input | Role::InOut,
                ..
            }
        );
        is_buffer && Coarser::than(argument.dtype).contains(&format)
    })
}

pub(super) fn inputs_of(problem: &Problem) -> Result<Vec<InputContents>, Failure> {
    let mut found = Vec::new();
    for (index, spec) in problem.arguments.iter().enumerate() {
        if let ArgumentSpec::Buffer {
            name,
            dtype,
            role: Role::Input | Role::InOut,
            ..
        } = spec
        {
            let bytes = contents::of_input(problem, index, spec);
            let bytes = bytes.map_err(|refusal| match refusal {
                Refusal::BadTask { message } => Failure::usage(message),
                other => broken(&WorkerEnd::Refused(other)),
            })?;
            found.push(InputContents {
                name: name.clone(),
                dtype: *dtype,
                bytes,
            });
        }
    }
    Ok(found)
}
