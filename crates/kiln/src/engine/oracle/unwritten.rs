//! Whether a reference writes all of its outputs: it runs on two different fills of them, and elements that
//! still hold the fill were never written.
//!
//! No kernel can agree with such an element, and what it seems to hold is no arithmetic of the reference; so
//! this is asked before anything is made of the values. On a CPU what lies around the inputs changes with the fill, so that
//! a reference that reads outside of them shows too.

use std::ops::Range;

use kiln_core::input;
use kiln_core::manifest::{Role, Shape};
use kiln_core::numerics::Expected;
use kiln_core::protocol::{ArgumentSpec, Problem};

use super::advice::about_made_up;
use super::{Oracle, is_python};
use crate::engine::confirm::depends_on_leftovers;
use crate::exit::Failure;
use crate::task::{Part, Task};

/// The seeds of what outputs hold before the two launches.
const FILLS: [u64; 2] = [0, 1];

/// Elements of an output that a launch has to do with what they held before.
#[derive(Debug, PartialEq, Eq)]
struct LeftOver {
    /// Among the outputs.
    output: usize,
    count: usize,
    first: usize,
    /// They hold it still; else it went into the answer.
    is_unwritten: bool,
}

impl Oracle {
    /// Refuses a reference whose answer holds what was in memory before it ran. Python makes its own arrays.
    pub fn writes_every_element(
        &mut self,
        task: &Task,
        shape: &Shape,
        seed: u64,
    ) -> Result<(), Failure> {
        let Some(program) = self.program.clone().filter(|p| !is_python(p)) else {
            return Ok(());
        };
        let config = task.any_config()?;
        let problem = task.problem(Part::Reference, shape, &config, seed)?;
        let mut launch = |which: u64| {
            let fill = FILLS[which as usize];
            self.run(task, &program, shape, &problem, fill)
        };
        let first = launch(0)?;
        let second = launch(1)?;
        let Some(found) = left_over(&problem, [&first, &second]) else {
            return Ok(());
        };
        // Answers may also differ from launch to launch for no such reason.
        if !found.is_unwritten && !depends_on_leftovers(&first, launch)? {
            return Ok(());
        }
        let outputs = task.outputs(&problem)?;
        let mut failure = found.refusal(&outputs[found.output], shape);
        // Of a shape that kiln made up, that it did is the likelier cause.
        failure.hints.splice(0..0, about_made_up(task, shape));
        Err(failure)
    }
}

impl LeftOver {
    fn refusal(&self, output: &Expected, shape: &Shape) -> Failure {
        let name = &output.argument;
        let elements: u64 = output.extents.iter().product();
        let (count, first) = (self.count, output.index(self.first));
        if self.is_unwritten {
            return Failure::usage(format!(
                "shape `{}`: the reference never writes {count} of {elements} elements of `{name}`, first at {first:?}",
                shape.name
            ))
            .hint(format!(
                "give `{name}` a smaller `shape` in [arguments] if the rest is no part of the answer, or \
                 `role = \"inout\"` if the rest is to stay as it was"
            ));
        }
        Failure::usage(format!(
            "shape `{}`: {count} of {elements} elements of the reference's `{name}`, first at {first:?}, change with \
             what was in memory before it ran",
            shape.name
        ))
        .hint(format!(
            "set every element before adding to it (`{name}[i] = 0`), and every variable before reading it; or, if \
             the kernel is to add to what `{name}` holds, `role = \"inout\"`"
        ))
        .hint(format!(
            "or does it read past the end of an input? what lies there changes too: is every `shape` in [arguments] as \
             large as what the reference reads for element {first:?}?"
        ))
    }
}

/// The first output whose contents differ between launches on the two fills.
fn left_over(problem: &Problem, launches: [&[u8]; 2]) -> Option<LeftOver> {
    let arguments = problem.arguments.iter().enumerate();
    let results = arguments.filter(|(_, argument)| argument.is_result());
    let mut start = 0;
    for (output, (index, argument)) in results.enumerate() {
        let bytes = argument.bytes()? as usize;
        let elements = argument.elements()? as usize;
        let size = bytes / elements.max(1);
        let place = |element: usize| start + element * size..start + (element + 1) * size;
        let differs = |element: &usize| {
            let place = place(*element);
            launches[0].get(place.clone()) != launches[1].get(place)
        };
        let differing: Vec<usize> = (0..elements).filter(differs).collect();
        if !differing.is_empty() {
            let holds_fills = |element: usize| {
                let within = element * size;
                FILLS.iter().zip(launches).all(|(fill, launch)| {
                    let fill = input::mix(&[*fill, index as u64]);
                    holds_fill(launch, place(element), fill, within)
                })
            };
            let is_fresh = matches!(
                argument,
                ArgumentSpec::Buffer {
                    role: Role::Output,
                    ..
                }
            );
            // A zero that is added keeps the fill too, so nothing else may show. Small elements may hold the same in
            // both fills, so all are counted and not only those that differ.
            let keeps_fills = is_fresh && differing.iter().all(|e| holds_fills(*e));
            let unwritten: Vec<usize> = match keeps_fills {
                true => (0..elements).filter(|e| holds_fills(*e)).collect(),
                false => Vec::new(),
            };
            let is_unwritten = !unwritten.is_empty();
            let found = if is_unwritten { &unwritten } else { &differing };
            return Some(LeftOver {
                output,
                count: found.len(),
                first: found[0],
                is_unwritten,
            });
        }
        start += bytes;
    }
    None
}

fn holds_fill(launch: &[u8], place: Range<usize>, fill: u64, within: usize) -> bool {
    let mut before = [0; 8];
    let before = &mut before[..place.len().min(8)];
    input::poison_from(fill, within, before);
    launch.get(place).is_some_and(|bytes| bytes == before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::dtype::DType;
    use kiln_core::manifest::Fill;

    fn buffer(role: Role, dtype: DType) -> ArgumentSpec {
        ArgumentSpec::Buffer {
            name: "b".into(),
            dtype,
            extents: vec![10, 100],
            role,
            fill: Fill::Iota,
            seen_as: dtype,
        }
    }

    fn problem(dtype: DType) -> Problem {
        Problem {
            shape: "test".into(),
            seed: 5,
            dimensions: Vec::new(),
            arguments: vec![
                buffer(Role::Input, dtype),
                buffer(Role::InOut, dtype),
                buffer(Role::Output, dtype),
            ],
            launch: None,
            variation: None,
        }
    }

    /// What both launches give where `writes` says what an element becomes of what it held.
    fn found(dtype: DType, writes: impl Fn(usize, u8) -> u8) -> Option<LeftOver> {
        let size = dtype.size_bytes();
        let launch = |fill: u64| {
            let held = input::poison(input::mix(&[fill, 2]), 1000 * size);
            let output = held.iter().enumerate();
            let output = output.map(|(at, byte)| writes(at / size, *byte));
            let inout = vec![7; 1000 * size];
            inout.into_iter().chain(output).collect::<Vec<u8>>()
        };
        left_over(&problem(dtype), [&launch(FILLS[0]), &launch(FILLS[1])])
    }

    #[test]
    fn elements_that_keep_their_fill_are_counted() {
        for dtype in [DType::U8, DType::I16, DType::F32, DType::F64] {
            assert_eq!(found(dtype, |_, _| 3), None, "{dtype}");
            let rest = found(dtype, |at, held| if at < 256 { 3 } else { held });
            let expected = LeftOver {
                output: 1,
                count: 744,
                first: 256,
                is_unwritten: true,
            };
            assert_eq!(rest, Some(expected), "{dtype}");
        }
    }

    #[test]
    fn what_went_into_the_answer_is_not_called_unwritten() {
        let added = found(DType::I32, |_, held| held.wrapping_add(1)).expect("it shows");
        assert!(!added.is_unwritten);
        assert_eq!((added.output, added.first, added.count), (1, 0, 1000));
        // Zeros that are added leave some as they were.
        let added = found(DType::I32, |at, held| held.wrapping_add((at % 3) as u8));
        assert!(!added.expect("it shows").is_unwritten);
    }
}
