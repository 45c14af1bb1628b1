//! Whether the kernel compiles without each of its stages, in one config.

use kiln_core::trial::{Assignment, Outcome};
use serde::Serialize;

use crate::engine::compile_pool::CompilePool;
use crate::engine::{interrupt, interrupted};
use crate::exit::Failure;
use crate::image;
use crate::task::Task;

/// What became of the kernel without one stage.
#[derive(Debug, Serialize)]
pub(super) struct LeftOut {
    stage: String,
    /// The machine code is another one without it.
    changes_code: bool,
    /// Why it does not compile.
    error: Option<String>,
    /// Per thread, by the device compiler.
    registers: Option<u32>,
}

pub(super) fn compile(
    task: &Task,
    pool: &CompilePool,
    config: &Assignment,
) -> Result<Vec<LeftOut>, Failure> {
    let stages = &task.manifest().stages;
    if stages.is_empty() {
        return Ok(Vec::new());
    }
    let mut builds = vec![task.candidate_build(config)];
    for stage in stages {
        builds.push(task.staged_build(std::slice::from_ref(&stage.name), config));
    }
    let mut built = pool.build_all(&builds)?.into_iter();
    if interrupt::asked() {
        return Err(interrupted());
    }
    let whole = match built.next() {
        Some(Ok(built)) => image::code(&built.artifact.image)?,
        // It compiled a moment ago.
        _ => return Ok(Vec::new()),
    };
    let mut found = Vec::new();
    for (stage, built) in stages.iter().zip(built) {
        let mut left_out = LeftOut {
            stage: stage.name.clone(),
            changes_code: false,
            error: None,
            registers: None,
        };
        match built {
            Ok(built) => {
                left_out.changes_code = image::code(&built.artifact.image)? != whole;
                let resources = built.artifact.compiled.resources;
                left_out.registers = resources.map(|r| r.registers);
            }
            Err(Outcome::NotCompiled(failure)) => left_out.error = Some(failure.first_error),
            Err(outcome) => left_out.error = Some(outcome.to_string()),
        }
        found.push(left_out);
    }
    Ok(found)
}

pub(super) fn any_fails(stages: &[LeftOut]) -> bool {
    stages.iter().any(|stage| stage.error.is_some())
}

pub(super) fn lines(stages: &[LeftOut]) -> Vec<String> {
    if stages.is_empty() {
        return Vec::new();
    }
    let compiling = stages.iter().filter(|s| s.error.is_none()).count();
    let mut lines = vec![format!(
        "{compiling} of {} stages can be left out",
        stages.len()
    )];
    for stage in stages {
        let name = &stage.stage;
        if let Some(error) = &stage.error {
            lines.push(format!(
                "{:>12} does not compile without `{name}`: {error}",
                ""
            ));
        } else if !stage.changes_code {
            lines.push(format!(
                "{:>12} `{name}` changes nothing in the config that was tried: the machine code is the same",
                ""
            ));
        }
    }
    lines
}
