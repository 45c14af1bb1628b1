//! Expected outputs: computed by the reference in a process of its own, never near a candidate.

pub mod advice;
mod unwritten;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kiln_core::input;
use kiln_core::manifest::{Fill, Role, Shape};
use kiln_core::numerics::{BadReference, Expected};
use kiln_core::protocol::{ArgumentSpec, Cores, Problem, Refusal, Request, Response, Variation};

use super::compile_pool::CompilePool;
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Starting, Worker, WorkerEnd, WorkerKind};
use super::{broken, evaluate, interrupted};
use crate::exit::Failure;
use crate::task::{Part, Program, Task};
use advice::about_indices;

/// A reference may be far slower than the kernel.
const REFERENCE_DEADLINE: Duration = Duration::from_secs(600);
/// Answers kept: one batch's worth of shapes and purposes.
const REMEMBERED: usize = 32;

struct Answer {
    shape: String,
    seed: u64,
    outputs: Arc<Vec<Expected>>,
}

pub struct Oracle {
    program: Option<Program>,
    worker: Option<Worker>,
    /// Python takes seconds to start, so it begins before it is asked.
    starting: Option<Starting>,
    answers: VecDeque<Answer>,
    remembered: usize,
}

impl Oracle {
    pub fn new(task: &Task, pool: &CompilePool) -> Result<Oracle, Failure> {
        Oracle::after(None, task, pool)
    }

    /// One that goes on with the process of an earlier one, where that has the same reference.
    pub fn after(
        earlier: Option<Oracle>,
        task: &Task,
        pool: &CompilePool,
    ) -> Result<Oracle, Failure> {
        let program = match task.reference_source() {
            None => None,
            Some(source) => match pool.program(&source)? {
                Ok(program) => Some(program),
                Err(_) if super::interrupt::asked() => return Err(interrupted()),
                Err(outcome) => {
                    let log = match &outcome {
                        kiln_core::trial::Outcome::NotCompiled(f) => {
                            format!("\n{}", f.log.trim_end())
                        }
                        _ => String::new(),
                    };
                    return Err(Failure::usage(format!("the reference {outcome}{log}"))
                        .hint("the reference takes the kernel's parameters with `double` in place of every floating type"));
                }
            },
        };
        if let Some(earlier) = earlier
            && earlier.program == program
        {
            return Ok(Oracle {
                answers: VecDeque::new(),
                ..earlier
            });
        }
        let starting = match &program {
            Some(program) if is_python(program) => {
                Some(Worker::start(&program.worker).map_err(|end| broken(&end))?)
            }
            _ => None,
        };
        Ok(Oracle {
            program,
            worker: None,
            starting,
            answers: VecDeque::new(),
            remembered: REMEMBERED,
        })
    }

    /// For whoever asks for the same answers again and again.
    pub fn remembering(self, answers: usize) -> Oracle {
        Oracle {
            remembered: answers,
            ..self
        }
    }

    /// The right outputs for a shape and a seed of its inputs.
    pub fn expected(
        &mut self,
        task: &Task,
        shape: &Shape,
        seed: u64,
    ) -> Result<Arc<Vec<Expected>>, Failure> {
        let known = |a: &&Answer| a.shape == shape.name && a.seed == seed;
        if let Some(answer) = self.answers.iter().find(known) {
            return Ok(Arc::clone(&answer.outputs));
        }
        let outputs = self.answer(task, shape, seed, None)?;
        let weak = |e: BadReference| self.not_to_judge_by(e, task, shape);
        for output in &outputs {
            output.validate(task.manifest().nonfinite).map_err(weak)?;
        }
        let config = task.any_config()?;
        let problem = task.problem(Part::Candidate, shape, &config, seed)?;
        for (output, original) in outputs.iter().zip(originals(&problem)) {
            if let Some(original) = original {
                output.validate_original(&original).map_err(weak)?;
            }
        }
        let outputs = Arc::new(outputs);
        self.answers.push_back(Answer {
            shape: shape.name.clone(),
            seed,
            outputs: Arc::clone(&outputs),
        });
        if self.answers.len() > self.remembered {
            self.answers.pop_front();
        }
        Ok(outputs)
    }

    fn not_to_judge_by(&self, why: BadReference, task: &Task, shape: &Shape) -> Failure {
        let failure = Failure::usage(format!("shape `{}`: {why}", shape.name));
        let indices = match why {
            BadReference::Nonfinite { .. } => about_indices(task),
            _ => None,
        };
        let failure = indices.into_iter().fold(failure, Failure::hint).hint(
            "change how inputs are drawn, the reference, or the tolerance; \
             `nonfinite = \"match\"` in [tolerance] allows NaN and infinity",
        );
        let fills_buffers = self.program.as_ref().is_some_and(|p| !is_python(p));
        match why {
            // What outputs hold before a launch is often no number.
            BadReference::Nonfinite { argument, .. } if fills_buffers => failure.hint(format!(
                "or does the reference never write that element? then `{argument}` needs a smaller `shape`, or \
                 `role = \"inout\"` if it is to stay as it was"
            )),
            _ => failure,
        }
    }

    /// Whether answers are computed, and not read from files.
    pub fn computes(&self) -> bool {
        self.program.is_some()
    }

    /// What the reference makes of inputs that are not quite those of the seed.
    pub fn varied(
        &mut self,
        task: &Task,
        shape: &Shape,
        seed: u64,
        variation: Variation,
    ) -> Result<Vec<Expected>, Failure> {
        self.answer(task, shape, seed, Some(variation))
    }

    fn answer(
        &mut self,
        task: &Task,
        shape: &Shape,
        seed: u64,
        variation: Option<Variation>,
    ) -> Result<Vec<Expected>, Failure> {
        let config = task.any_config()?;
        let mut problem = task.problem(Part::Reference, shape, &config, seed)?;
        let mut outputs = task.outputs(&problem)?;
        if let Some(variation) = variation {
            // Workers tell problems apart by the shape's name and the seed.
            problem.shape = format!("{} with {variation}", shape.name);
            problem.variation = Some(variation);
        }
        let Some(program) = self.program.clone() else {
            for output in &mut outputs {
                output.fill(read_array(task, shape, output)?);
            }
            return Ok(outputs);
        };
        let bytes = self.run(task, &program, shape, &problem, 0)?;
        let narrow = task.reference_is_narrow();
        let mut rest = bytes.as_slice();
        for output in &mut outputs {
            let length = match narrow {
                true => output.declared_bytes(),
                false => output.expected_bytes(),
            };
            let (mine, others) = rest.split_at(length.min(rest.len()));
            match narrow {
                true => output.fill_from_declared(mine),
                false => output.fill(mine.to_vec()),
            }
            rest = others;
        }
        Ok(outputs)
    }

    fn run(
        &mut self,
        task: &Task,
        program: &Program,
        shape: &Shape,
        problem: &Problem,
        poison: u64,
    ) -> Result<Vec<u8>, Failure> {
        // A reference worker can be killed from outside (memory pressure, say); that is no
        // verdict on anything, so it is tried again.
        let mut attempts = 0;
        loop {
            match self.try_run(program, problem, poison) {
                Ok(bytes) => return Ok(bytes),
                Err(WorkerEnd::Signal(9)) if attempts < OUTSIDE_KILLS_FORGIVEN => {
                    attempts += 1;
                    self.worker = None;
                }
                Err(end @ (WorkerEnd::Interrupted | WorkerEnd::Broken(_))) => {
                    return Err(broken(&end));
                }
                Err(end @ WorkerEnd::Refused(Refusal::NoDevice { .. })) => {
                    return Err(broken(&end));
                }
                // About the task's files, unless it is Python that speaks.
                Err(WorkerEnd::Refused(Refusal::BadTask { message })) if !is_python(program) => {
                    return Err(Failure::usage(message));
                }
                Err(end) => {
                    self.worker = None;
                    let why = end.in_words(&|argument| task.argument_name(argument));
                    let advice = advice::after(&end, task, shape, program);
                    let failure = Failure::usage(format!(
                        "the reference failed on shape `{}`: {why}",
                        problem.shape
                    ))
                    .hint(advice.first);
                    return Err(advice.others.into_iter().fold(failure, Failure::hint));
                }
            }
        }
    }

    fn try_run(
        &mut self,
        program: &Program,
        problem: &Problem,
        poison: u64,
    ) -> Result<Vec<u8>, WorkerEnd> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => {
                let mut worker = match self.starting.take() {
                    Some(starting) => starting.greet()?,
                    None => Worker::spawn(&program.worker)?,
                };
                evaluate::load(&mut worker, program, REFERENCE_DEADLINE)?;
                worker
            }
        };
        worker.prepare(problem, REFERENCE_DEADLINE)?;
        let answer = worker.request(
            &Request::Check {
                cores: Cores::Any,
                poison,
            },
            REFERENCE_DEADLINE,
        )?;
        self.worker = Some(worker);
        match answer {
            (Response::Outputs, bytes) => Ok(bytes),
            (other, _) => Err(WorkerEnd::misplaced(&other, "for outputs")),
        }
    }
}

/// What each result holds before a launch: drawn for inout buffers, nothing for outputs.
fn originals(problem: &Problem) -> Vec<Option<Vec<u8>>> {
    let arguments = problem.arguments.iter().enumerate();
    arguments
        .filter(|(_, argument)| argument.is_result())
        .map(|(index, argument)| match argument {
            ArgumentSpec::Buffer {
                role: Role::InOut,
                fill,
                dtype,
                ..
            } if !matches!(fill, Fill::File { .. }) => {
                let elements = argument.elements().unwrap_or(0) as usize;
                let stream = input::mix(&[problem.seed, index as u64]);
                Some(input::draw(fill, *dtype, elements, stream))
            }
            _ => None,
        })
        .collect()
}

fn is_python(program: &Program) -> bool {
    matches!(program.worker, WorkerKind::Python(_))
}

fn read_array(task: &Task, shape: &Shape, output: &Expected) -> Result<Vec<u8>, Failure> {
    let Some(path) = task.reference_array(shape, &output.argument)? else {
        return Err(
            Failure::usage("the manifest has no [reference]: answers cannot be checked")
                .hint("add `[reference]` with `c = \"reference.c:function\"`"),
        );
    };
    let elements = output.extents.iter().product::<u64>() as usize;
    kiln_device::npy::read_expected(&path, output.dtype, elements).map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::dtype::DType;

    fn buffer(role: Role, fill: Fill) -> ArgumentSpec {
        ArgumentSpec::Buffer {
            name: "b".into(),
            dtype: DType::F32,
            extents: vec![2, 3],
            role,
            fill,
            seen_as: DType::F64,
        }
    }

    #[test]
    fn what_inout_buffers_hold_before_a_launch_is_known() {
        let uniform = Fill::Uniform {
            low: 1.0,
            high: 2.0,
        };
        let file = Fill::File {
            path: "b.npy".into(),
        };
        let problem = Problem {
            shape: "test".into(),
            seed: 5,
            dimensions: Vec::new(),
            arguments: vec![
                buffer(Role::Input, uniform.clone()),
                buffer(Role::Output, uniform.clone()),
                buffer(Role::InOut, uniform.clone()),
                buffer(Role::Scratch, uniform.clone()),
                buffer(Role::InOut, file),
            ],
            launch: None,
            variation: None,
        };
        // In the type and with the values the candidate finds there.
        let held = input::draw(&uniform, DType::F32, 6, input::mix(&[5, 2]));
        assert_eq!(originals(&problem), [None, Some(held), None]);
    }
}
