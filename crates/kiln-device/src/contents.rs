//! What buffers hold before a launch, made on the host.

use kiln_core::dtype::DType;
use kiln_core::input;
use kiln_core::manifest::{Fill, Role};
use kiln_core::precision::Coarser;
use kiln_core::protocol::{ArgumentSpec, Problem, Refusal, Variation};
use kiln_core::threads;
use kiln_core::value::Value;

use crate::npy;

/// Contents of an input or inout buffer of a problem, in the type the kernel sees. `spec` is the
/// argument at `index`.
pub fn of_buffer(problem: &Problem, index: usize, spec: &ArgumentSpec) -> Result<Vec<u8>, Refusal> {
    let ArgumentSpec::Buffer { dtype, seen_as, .. } = spec else {
        return Ok(Vec::new());
    };
    Ok(widen(of_input(problem, index, spec)?, *dtype, *seen_as))
}

/// Contents of an input or inout buffer in its declared type; nothing for other arguments.
pub fn of_input(problem: &Problem, index: usize, spec: &ArgumentSpec) -> Result<Vec<u8>, Refusal> {
    let ArgumentSpec::Buffer {
        role: Role::Input | Role::InOut,
        dtype,
        fill,
        ..
    } = spec
    else {
        return Ok(Vec::new());
    };
    let too_large = Refusal::OutOfMemory { bytes: u64::MAX };
    let elements = spec.elements().ok_or(too_large)? as usize;
    let bytes = drawn(spec, fill, *dtype, elements, stream(problem, index))?;
    Ok(match &problem.variation {
        Some(Variation::Rounded(format)) if Coarser::than(*dtype).contains(format) => {
            rounded(&bytes, *dtype, *format)
        }
        Some(Variation::Nudged { seed }) if spec.is_nudged() => {
            let size = dtype.size_bytes();
            let mut nudged = bytes.clone();
            for (which, whose) in input::nudges(*seed, index, elements) {
                nudged[which * size..][..size].copy_from_slice(&bytes[whose * size..][..size]);
            }
            nudged
        }
        _ => bytes,
    })
}

/// The seed of one argument's contents.
pub fn stream(problem: &Problem, argument: usize) -> u64 {
    let seed = match problem.variation {
        Some(Variation::Redrawn {
            argument: one,
            seed,
        }) if one == argument => seed,
        _ => problem.seed,
    };
    input::mix(&[seed, argument as u64])
}

/// All inputs of a problem one after another in their declared types, for a worker that cannot
/// draw them itself.
pub fn inputs(problem: &Problem) -> Result<Vec<u8>, Refusal> {
    let mut all = Vec::new();
    for (index, spec) in problem.arguments.iter().enumerate() {
        all.extend(of_input(problem, index, spec)?);
    }
    Ok(all)
}

fn rounded(bytes: &[u8], dtype: DType, format: Coarser) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for element in bytes.chunks_exact(dtype.size_bytes()) {
        dtype.push_f64(format.round(dtype.read_f64(element)), &mut out);
    }
    out
}

/// The bytes of a scalar, little-endian and padded to eight.
pub fn of_scalar(dtype: DType, value: &Value) -> [u8; 8] {
    let mut bytes = Vec::with_capacity(8);
    match (value, dtype) {
        // Exact for 64-bit integers, which `push_f64` would round.
        (Value::Int(i), DType::I64 | DType::U64) => bytes.extend(i.to_le_bytes()),
        _ => dtype.push_f64(value.as_f64().unwrap_or(f64::NAN), &mut bytes),
    }
    bytes.resize(8, 0);
    bytes.try_into().expect("resized to eight")
}

fn drawn(
    spec: &ArgumentSpec,
    fill: &Fill,
    dtype: DType,
    elements: usize,
    stream: u64,
) -> Result<Vec<u8>, Refusal> {
    match fill {
        Fill::File { path } => {
            npy::read(path, dtype, elements).map_err(|message| Refusal::BadTask {
                message: format!("input `{}`: {message}", spec.name()),
            })
        }
        fill => Ok(input::draw(fill, dtype, elements, stream)),
    }
}

/// The same values in a wider type: the reference must see what the kernel sees, rounding included.
fn widen(bytes: Vec<u8>, from: DType, to: DType) -> Vec<u8> {
    const PIECE: usize = 1 << 16;
    if from == to {
        return bytes;
    }
    let elements = bytes.len() / from.size_bytes();
    let pieces = threads::map(elements.div_ceil(PIECE), |piece| {
        let last = elements.min((piece + 1) * PIECE);
        let mine = &bytes[piece * PIECE * from.size_bytes()..last * from.size_bytes()];
        let mut wide = Vec::with_capacity((last - piece * PIECE) * to.size_bytes());
        for element in mine.chunks_exact(from.size_bytes()) {
            to.push_f64(from.read_f64(element), &mut wide);
        }
        wide
    });
    pieces.concat()
}

#[cfg(test)]
mod tests;
