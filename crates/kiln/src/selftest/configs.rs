//! Configs by name: a config of a task with some values set.

use kiln_core::trial::Assignment;
use kiln_core::value::Value;

use crate::engine::compile_pool::CompilePool;
use crate::engine::evaluate::{Contender, Seeds};
use crate::exit::{Exit, Failure};
use crate::task::{Part, Task};

/// The first config of the space, with these values instead; 0 and 1 stand for false and true.
pub fn with(task: &Task, settings: &[(&str, i64)]) -> Result<Assignment, Failure> {
    let mut config = task.any_config()?;
    for (name, value) in &mut config {
        if let Some((_, wanted)) = settings.iter().find(|(n, _)| n == name) {
            *value = Value::Int(*wanted);
        }
    }
    let found = task.space.config_from(&config);
    let found = found.map_err(|e| Failure::new(Exit::Bug, e.to_string()))?;
    Ok(task.space.assignment(&found))
}

pub fn all(task: &Task) -> Vec<Assignment> {
    let configs = task.space.iter();
    configs.map(|c| task.space.assignment(&c)).collect()
}

/// Where inputs come from: the same for all trials of a task, as within a batch of a search.
pub fn seeds(task: &Task, trial: u64) -> Seeds {
    Seeds {
        secret: 1,
        batch: 0,
        trial,
        timed_inputs_are_checked: task.is_cuda(),
    }
}

/// A config ready to be run.
pub fn contender(
    task: &Task,
    pool: &CompilePool,
    config: &Assignment,
) -> Result<Contender, Failure> {
    let build = task.candidate_build(config);
    let built = pool
        .build_one(&build)?
        .map_err(|outcome| Failure::new(Exit::Bug, format!("a kernel of kiln's own {outcome}")))?;
    Ok(Contender {
        program: built.program(&build),
        part: Part::Candidate,
        config: config.clone(),
        style: task.style(config),
        own: None,
        is_beside: false,
    })
}
