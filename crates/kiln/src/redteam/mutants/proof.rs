//! Is a mutant that nobody refused the same program? Original and mutant side by side, on shapes and
//! inputs that neither search nor confirmation has used.

use std::time::Duration;

use kiln_core::input;
use kiln_core::manifest::{Shape, ShapePurpose};
use kiln_core::protocol::{Problem, Request};

use super::findings::Ending;
use crate::engine::broken;
use crate::engine::evaluate::{self, Contender};
use crate::engine::oracle::Oracle;
use crate::engine::worker::{Worker, WorkerEnd};
use crate::exit::Failure;
use crate::task::Task;

const DEADLINE: Duration = Duration::from_secs(10);
/// Inputs for each shape of the manifest, and shapes that are not in it.
const SEEDS: u64 = 3;
const OTHER_SHAPES: u64 = 16;
const STREAM: u64 = 0x70_726f_6f66;
/// A mutant this much worse than the original is a worse kernel. Honest configs of layernorm were seen
/// to differ by 1.65, in the order they add up. Below the second number, a part of what the task
/// allows, all errors are negligible.
const MUCH_WORSE: f64 = 3.0;
const NEGLIGIBLE: f64 = 0.02;

pub fn compare(
    task: &Task,
    oracle: &mut Oracle,
    original: &Contender,
    mutant: &Contender,
) -> Result<Ending, Failure> {
    let mut problems = 0;
    let (mut original_ratio, mut mutant_ratio) = (0f64, 0f64);
    let mut is_identical = true;
    let mut sides = [original, mutant].map(|contender| (contender, None));
    for (shape, seed) in cases(task, original) {
        // Some shapes have no usable answer (a mean of nothing, say).
        let Ok(expected) = oracle.expected(task, &shape, seed) else {
            continue;
        };
        let problem = original.problem(task, &shape, seed)?;
        let poison = input::mix(&[STREAM, seed, 1]);
        let mut outputs = Vec::new();
        for (contender, worker) in &mut sides {
            match run(worker, contender, &problem, poison) {
                Ok(bytes) => outputs.push(bytes),
                Err(end @ (WorkerEnd::Interrupted | WorkerEnd::Broken(_))) => {
                    return Err(broken(&end));
                }
                // The original came first, so this is the mutant, unless kiln's own kernel is bad.
                Err(end) => {
                    let who = if outputs.is_empty() {
                        "the original"
                    } else {
                        "it"
                    };
                    return Ok(Ending::Wrong {
                        how: format!("{who} failed on {}: {end}", in_words(&shape)),
                    });
                }
            }
        }
        problems += 1;
        is_identical &= outputs[0] == outputs[1];
        let judge = |bytes: &[u8]| evaluate::compare(&problem, &expected, bytes, poison);
        original_ratio = original_ratio.max(judge(&outputs[0]).unwrap_or(f64::INFINITY));
        match judge(&outputs[1]) {
            Ok(ratio) => mutant_ratio = mutant_ratio.max(ratio),
            Err(_) => {
                return Ok(Ending::Wrong {
                    how: format!("wrong on {}", in_words(&shape)),
                });
            }
        }
    }
    Ok(if is_identical {
        Ending::Identical { problems }
    } else if mutant_ratio <= (MUCH_WORSE * original_ratio).max(NEGLIGIBLE) {
        Ending::AsAccurate {
            problems,
            original_ratio,
            mutant_ratio,
        }
    } else {
        Ending::LessAccurate {
            original_ratio,
            mutant_ratio,
        }
    })
}

/// Every shape of the manifest on several inputs, and other shapes of about their sizes.
fn cases(task: &Task, contender: &Contender) -> Vec<(Shape, u64)> {
    let mut cases = Vec::new();
    let fits = |shape: &Shape| task.skips(shape, &contender.config).is_none();
    let shapes = task.checked_shapes();
    for (index, shape) in shapes.iter().enumerate() {
        let count = match shape.purpose {
            ShapePurpose::Target => 1,
            _ => SEEDS,
        };
        for seed in (0..count).filter(|_| fits(shape)) {
            cases.push(((*shape).clone(), input::mix(&[STREAM, index as u64, seed])));
        }
    }
    let small: Vec<&&Shape> = shapes
        .iter()
        .filter(|s| s.purpose != ShapePurpose::Target)
        .collect();
    let Some(first) = small.first() else {
        return cases;
    };
    for number in 0..OTHER_SHAPES {
        let mut shape = (**first).clone();
        shape.name = format!("other {number}");
        for (place, (_, extent)) in shape.dimensions.iter_mut().enumerate() {
            let largest = small.iter().map(|s| s.dimensions[place].1).max();
            let most = 2 * largest.unwrap_or(1).max(1) as u64;
            let drawn = input::mix(&[STREAM, number, place as u64, 7]);
            *extent = 1 + (drawn % most) as i64;
        }
        if fits(&shape) {
            let seed = input::mix(&[STREAM, 100 + number]);
            cases.push((shape, seed));
        }
    }
    cases
}

fn in_words(shape: &Shape) -> String {
    let extents: Vec<String> = shape
        .dimensions
        .iter()
        .map(|(name, extent)| format!("{name} = {extent}"))
        .collect();
    extents.join(", ")
}

/// One launch, in a process that lives as long as nothing goes wrong.
fn run(
    worker: &mut Option<Worker>,
    contender: &Contender,
    problem: &Problem,
    poison: u64,
) -> Result<Vec<u8>, WorkerEnd> {
    let mut current = match worker.take() {
        Some(current) => current,
        None => {
            let mut fresh = Worker::spawn(&contender.program.worker)?;
            evaluate::load(&mut fresh, &contender.program, DEADLINE)?;
            fresh
        }
    };
    current.prepare(problem, DEADLINE)?;
    let check = Request::Check {
        cores: contender.style.cores,
        poison,
    };
    let bytes = evaluate::answer_outputs(current.request(&check, DEADLINE)?)?;
    *worker = Some(current);
    Ok(bytes)
}
