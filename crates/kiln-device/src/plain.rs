//! A benchmark script as people write them: the counter-example to kiln's own measurements.
//!
//! One process, one input, one answer looked at, no poison, no guards, and a loop around the
//! clock. The red-team suite shows with it that its cheats are none that anybody would notice.
//!
//! ```text
//! reference(x) -> expected, out      a warm-up
//! candidate(x) -> out                out is memory that was used before
//! reference(x) -> expected           from inputs the candidate has had in its hands
//! allclose(out, expected)
//! time a loop of reference(x), then a loop of candidate(x)
//! ```

use kiln_core::dtype::DType;
use kiln_core::manifest::Role;
use kiln_core::protocol::{ArgumentSpec, Problem, Refusal};

use crate::contents;

const RTOL: f64 = 1e-2;
const ATOL: f64 = 1e-2;
/// Launches before the clock starts, and while it runs.
pub const WARM_UPS: usize = 3;
pub const TIMED: usize = 20;
/// Allocations follow each other at this distance, as a caching allocator hands them out.
const ALIGNMENT: usize = 256;
/// Room in front of the outputs and behind everything: memory like any other, that nobody looks at.
const SLACK: usize = 64 << 10;

/// Where each argument lies in one block of memory: inputs, room, outputs, and behind the outputs a
/// second set of them for the reference.
pub struct Layout {
    pub bytes: usize,
    /// One per argument; scalars have none.
    pub offsets: Vec<Option<usize>>,
    /// Where the reference writes the same argument; for inputs the same place.
    pub expected: Vec<Option<usize>>,
}

impl Layout {
    pub fn new(problem: &Problem) -> Result<Layout, Refusal> {
        let count = problem.arguments.len();
        let mut layout = Layout {
            bytes: SLACK,
            offsets: vec![None; count],
            expected: vec![None; count],
        };
        for (index, spec) in problem.arguments.iter().enumerate() {
            if is_buffer(spec) && !spec.is_result() {
                let place = layout.take(spec)?;
                layout.offsets[index] = Some(place);
                layout.expected[index] = Some(place);
            }
        }
        layout.bytes += SLACK;
        for pass in 0..2 {
            for (index, spec) in problem.arguments.iter().enumerate() {
                if spec.is_result() {
                    let place = Some(layout.take(spec)?);
                    match pass {
                        0 => layout.offsets[index] = place,
                        _ => layout.expected[index] = place,
                    }
                }
            }
        }
        layout.bytes += SLACK;
        Ok(layout)
    }

    fn take(&mut self, spec: &ArgumentSpec) -> Result<usize, Refusal> {
        let too_large = Refusal::OutOfMemory { bytes: u64::MAX };
        let bytes = spec.bytes().and_then(|b| usize::try_from(b).ok());
        let end = bytes.and_then(|b| self.bytes.checked_add(b));
        let end = end.and_then(|e| e.checked_next_multiple_of(ALIGNMENT));
        let place = self.bytes;
        self.bytes = end.ok_or(too_large)?;
        Ok(place)
    }
}

fn is_buffer(spec: &ArgumentSpec) -> bool {
    matches!(spec, ArgumentSpec::Buffer { .. })
}

/// The whole block as it is before anything runs.
pub fn initial(problem: &Problem, layout: &Layout) -> Result<Vec<u8>, Refusal> {
    let mut block = vec![0; layout.bytes];
    for (index, spec) in problem.arguments.iter().enumerate() {
        let ArgumentSpec::Buffer {
            role: Role::Input | Role::InOut,
            ..
        } = spec
        else {
            continue;
        };
        let bytes = contents::of_buffer(problem, index, spec)?;
        let places = [layout.offsets[index], layout.expected[index]];
        for place in places.into_iter().flatten() {
            block[place..place + bytes.len()].copy_from_slice(&bytes);
        }
    }
    Ok(block)
}

/// How many elements there are, and how many differ by too much.
pub fn compare(problem: &Problem, layout: &Layout, block: &[u8]) -> (u64, u64) {
    let (mut elements, mut mismatched) = (0, 0);
    for (index, spec) in problem.arguments.iter().enumerate() {
        let (ArgumentSpec::Buffer { seen_as, .. }, Some(got), Some(expected), true) = (
            spec,
            layout.offsets[index],
            layout.expected[index],
            spec.is_result(),
        ) else {
            continue;
        };
        let bytes = spec.bytes().unwrap_or(0) as usize;
        let (got, expected) = (&block[got..got + bytes], &block[expected..expected + bytes]);
        let size = seen_as.size_bytes();
        let pairs = got.chunks_exact(size).zip(expected.chunks_exact(size));
        elements += (bytes / size) as u64;
        mismatched += pairs.filter(|(g, e)| is_too_far(*seen_as, g, e)).count() as u64;
    }
    (elements, mismatched)
}

/// As it is commonly written, so that NaN is never too far from anything.
fn is_too_far(dtype: DType, got: &[u8], expected: &[u8]) -> bool {
    let (got, expected) = (dtype.read_f64(got), dtype.read_f64(expected));
    (got - expected).abs() > ATOL + RTOL * expected.abs()
}
