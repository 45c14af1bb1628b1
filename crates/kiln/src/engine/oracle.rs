//! Expected outputs: computed by the reference in a process of its own, never near a candidate.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kiln_core::input;
use kiln_core::manifest::{Fill, Role, Shape};
use kiln_core::numerics::{BadReference, Expected};
use kiln_core::protocol::{ArgumentSpec, Cores, Problem, Request, Response};

use super::compile_pool::CompilePool;
use super::worker::{OUTSIDE_KILLS_FORGIVEN, Worker, WorkerEnd, WorkerKind};
use super::{broken, interrupted};
use crate::cache::Artifact;
use crate::exit::{Exit, Failure};
use crate::task::{ENTRY_SYMBOL, Precision, Task};

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
    image: Option<Artifact>,
    worker: Option<Worker>,
    answers: VecDeque<Answer>,
}

impl Oracle {
    pub fn new(task: &Task, pool: &CompilePool) -> Result<Oracle, Failure> {
        let image = match task.reference_build() {
            None => None,
            Some(build) => match pool.build_one(&build)? {
                Ok(built) => Some(built.artifact),
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
        Ok(Oracle {
            image,
            worker: None,
            answers: VecDeque::new(),
        })
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
        let config = task.any_config()?;
        let problem = task.problem(shape, &config, seed, Precision::Double)?;
        let mut outputs = task.outputs(&problem);
        match &self.image {
            Some(image) => {
                let image = image.clone();
                let bytes = self.run(&image, problem)?;
                let mut rest = bytes.as_slice();
                for output in &mut outputs {
                    let length = output.expected_bytes();
                    let (mine, others) = rest.split_at(length.min(rest.len()));
                    output.fill(mine.to_vec());
                    rest = others;
                }
            }
            None => {
                for output in &mut outputs {
                    output.fill(read_array(task, shape, output)?);
                }
            }
        }
        let weak = |e: BadReference| {
            Failure::usage(format!("shape `{}`: {e}", shape.name)).hint(
                "change how inputs are drawn, the reference, or the tolerance; \
                 `nonfinite = \"match\"` in [tolerance] allows NaN and infinity",
            )
        };
        for output in &outputs {
            output.validate(task.manifest().nonfinite).map_err(weak)?;
        }
        let problem = task.problem(shape, &config, seed, Precision::Declared)?;
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
        if self.answers.len() > REMEMBERED {
            self.answers.pop_front();
        }
        Ok(outputs)
    }

    fn run(&mut self, image: &Artifact, problem: Problem) -> Result<Vec<u8>, Failure> {
        let shape = problem.shape.clone();
        // A reference worker can be killed from outside (memory pressure, say); that is no
        // verdict on anything, so it is tried again.
        let mut attempts = 0;
        loop {
            match self.try_run(image, problem.clone()) {
                Ok(bytes) => return Ok(bytes),
                Err(WorkerEnd::Signal(9)) if attempts < OUTSIDE_KILLS_FORGIVEN => {
                    attempts += 1;
                    self.worker = None;
                }
                Err(end @ (WorkerEnd::Interrupted | WorkerEnd::Broken(_))) => {
                    return Err(broken(&end));
                }
                Err(WorkerEnd::Refused(kiln_core::protocol::Refusal::BadTask { message })) => {
                    return Err(Failure::usage(message));
                }
                Err(end) => {
                    self.worker = None;
                    return Err(Failure::new(
                        Exit::Usage,
                        format!("the reference failed on shape `{shape}`: {}", in_words(&end)),
                    )
                    .hint("run it under a debugger or -fsanitize=address: its buffers are exactly as large as declared"));
                }
            }
        }
    }

    fn try_run(&mut self, image: &Artifact, problem: Problem) -> Result<Vec<u8>, WorkerEnd> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => {
                let mut worker = Worker::spawn(WorkerKind::Run)?;
                let load = Request::Load {
                    image: image.image.display().to_string(),
                    symbol: ENTRY_SYMBOL.into(),
                };
                worker.request(&load, REFERENCE_DEADLINE)?;
                worker
            }
        };
        worker.request(&Request::Prepare(problem), REFERENCE_DEADLINE)?;
        let answer = worker.request(
            &Request::Check {
                cores: Cores::Any,
                poison: 0,
            },
            REFERENCE_DEADLINE,
        )?;
        self.worker = Some(worker);
        match answer {
            (Response::Outputs, bytes) => Ok(bytes),
            (other, _) => Err(WorkerEnd::Garbled(format!("unexpected answer {other:?}"))),
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

fn in_words(end: &WorkerEnd) -> String {
    match end {
        WorkerEnd::Signal(signal) => format!("killed by signal {signal}"),
        WorkerEnd::Exited(code) => format!("it ended the process with code {code}"),
        WorkerEnd::Fault(fault) => format!(
            "bad address {} bytes from the start of argument {}",
            fault.offset, fault.argument
        ),
        WorkerEnd::TimedOut(after) => format!("still running after {} s", after.as_secs()),
        WorkerEnd::OutputFlood(bytes) => format!("it printed more than {bytes} bytes"),
        WorkerEnd::Refused(refusal) => format!("{refusal:?}"),
        WorkerEnd::Interrupted => "interrupted".into(),
        WorkerEnd::Garbled(message) | WorkerEnd::Broken(message) => message.clone(),
    }
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
