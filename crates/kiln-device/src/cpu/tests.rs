//! The backend with kernels of our own: what is handed to them, what is taken from them, and what
//! they are caught at.

mod sampled;
mod storage;

use std::sync::{Mutex, MutexGuard, PoisonError};

use kiln_core::dtype::DType;
use kiln_core::manifest::{Fill, Role};
use kiln_core::protocol::{ArgumentSpec, Gap, Nudge, Variation};
use kiln_core::value::Value;

use super::guarded::GuardedBuffer;
use super::*;
use crate::contents;

/// Where buffers lie is known to the whole process, so tests that prepare problems take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn buffer(name: &str, role: Role, elements: u64) -> ArgumentSpec {
    ArgumentSpec::Buffer {
        name: name.into(),
        dtype: DType::F32,
        extents: vec![elements],
        role,
        fill: Fill::Uniform {
            low: 1.0,
            high: 2.0,
        },
        seen_as: DType::F32,
    }
}

fn problem(seed: u64, arguments: Vec<ArgumentSpec>) -> Problem {
    Problem {
        shape: "test".into(),
        seed,
        dimensions: Vec::new(),
        arguments,
        launch: None,
        variation: None,
    }
}

/// `n`, `x`, `y`, as kernels here take them, and what is appended.
fn doubling(seed: u64, elements: u64, more: &[ArgumentSpec]) -> Problem {
    let count = ArgumentSpec::Scalar {
        name: "n".into(),
        dtype: DType::I64,
        value: Value::Int(elements as i64),
    };
    let mut arguments = vec![
        count,
        buffer("x", Role::Input, elements),
        buffer("y", Role::Output, elements),
    ];
    arguments.extend_from_slice(more);
    problem(seed, arguments)
}

/// Number of elements, input and output of `doubling`.
///
/// # Safety
/// `arguments` are those of a prepared problem.
unsafe fn taken<'a>(arguments: *const *mut c_void) -> (&'a [f32], &'a mut [f32]) {
    // SAFETY: as promised by the caller; buffers are as long as the scalar says.
    unsafe {
        let n = *(*arguments).cast::<i64>() as usize;
        let x = std::slice::from_raw_parts((*arguments.add(1)).cast::<f32>(), n);
        let y = std::slice::from_raw_parts_mut((*arguments.add(2)).cast::<f32>(), n);
        (x, y)
    }
}

unsafe extern "C" fn doubles(arguments: *const *mut c_void) {
    // SAFETY: launched on problems made by `doubling`.
    let (x, y) = unsafe { taken(arguments) };
    for (y, x) in y.iter_mut().zip(x) {
        *y = 2.0 * x;
    }
}

unsafe extern "C" fn does_nothing(_: *const *mut c_void) {}

/// Doubles, and adds one to an inout buffer that follows.
unsafe extern "C" fn doubles_and_counts(arguments: *const *mut c_void) {
    // SAFETY: launched on problems made by `doubling` with an inout buffer of the same length.
    unsafe {
        doubles(arguments);
        let n = *(*arguments).cast::<i64>() as usize;
        let z = std::slice::from_raw_parts_mut((*arguments.add(3)).cast::<f32>(), n);
        z.iter_mut().for_each(|z| *z += 1.0);
    }
}

unsafe extern "C" fn writes_before_its_output(arguments: *const *mut c_void) {
    // SAFETY: the byte before the output belongs to its guard zone.
    unsafe {
        doubles(arguments);
        let y = (*arguments.add(2)).cast::<u8>();
        *y.sub(1) = !*y.sub(1);
    }
}

fn backend(entry: Entry, problem: &Problem) -> CpuBackend {
    let mut backend = CpuBackend::new();
    backend.image = Some(Image {
        entry,
        garbage_seed: None,
        _library: Library::this(),
    });
    backend.prepare(problem).expect("prepares");
    backend
}

/// The input `x` of a problem, times two.
fn doubled(problem: &Problem) -> Vec<u8> {
    let x = contents::of_input(problem, 1, &problem.arguments[1]).expect("drawn");
    let words = x.chunks_exact(4);
    words
        .flat_map(|w| (2.0 * DType::F32.read_f64(w) as f32).to_le_bytes())
        .collect()
}

fn memory(set: &mut Set, argument: usize) -> &mut GuardedBuffer {
    match &mut set.storage[argument] {
        Storage::Buffer { memory, .. } => memory,
        Storage::Scalar(_) => panic!("argument {argument} is a scalar"),
    }
}
