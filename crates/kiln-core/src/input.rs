//! Contents of buffers from a seed: inputs, and the poison outputs are filled with before a launch.
//!
//! Supervisor, reference and candidate each make the same bytes from the same seed, so expected
//! values never have to travel to the process that runs the candidate.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::dtype::DType;
use crate::manifest::Fill;

/// Mixes numbers into one seed. Every use of randomness names its purpose through the parts, so
/// no two uses share a stream.
pub fn mix(parts: &[u64]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&part.to_le_bytes());
    }
    let bytes = hasher.finalize();
    u64::from_le_bytes(bytes.as_bytes()[..8].try_into().expect("hash has 32 bytes"))
}

/// Bytes of `elements` values of `dtype`. `Fill::File` has no contents here and yields nothing.
pub fn draw(fill: &Fill, dtype: DType, elements: usize, seed: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(elements * dtype.size_bytes());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    match fill {
        Fill::Normal { mean, std } => {
            let mut left = elements;
            while left > 0 {
                let (a, b) = normal_pair(&mut rng);
                dtype.push_f64(mean + std * a, &mut out);
                if left > 1 {
                    dtype.push_f64(mean + std * b, &mut out);
                }
                left = left.saturating_sub(2);
            }
        }
        Fill::Uniform { low, high } => {
            for _ in 0..elements {
                dtype.push_f64(low + (high - low) * unit(&mut rng), &mut out);
            }
        }
        Fill::Integers { low, high } => {
            // The width fits u128 even for the whole i64 range; the tiny bias of the remainder
            // does not matter for test data.
            let width = (i128::from(*high) - i128::from(*low) + 1) as u128;
            for _ in 0..elements {
                let offset = (u128::from(rng.next_u64()) % width) as i128;
                push_integer(dtype, i128::from(*low) + offset, &mut out);
            }
        }
        Fill::Iota => {
            for i in 0..elements {
                dtype.push_f64(i as f64, &mut out);
            }
        }
        Fill::Constant { value } => {
            for _ in 0..elements {
                dtype.push_f64(*value, &mut out);
            }
        }
        Fill::File { .. } => {}
    }
    out
}

/// Random bytes; what a kernel did not write still equals them, element by element.
pub fn poison(seed: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut out);
    out
}

/// Uniform in (0, 1): never 0, so its logarithm is finite.
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
}

/// Two independent standard normals (Box-Muller).
fn normal_pair(rng: &mut ChaCha8Rng) -> (f64, f64) {
    let radius = (-2.0 * unit(rng).ln()).sqrt();
    let (sin, cos) = (std::f64::consts::TAU * unit(rng)).sin_cos();
    (radius * cos, radius * sin)
}

/// `push_f64` would round 64-bit integers, so wide integers go in exactly.
fn push_integer(dtype: DType, value: i128, out: &mut Vec<u8>) {
    match dtype {
        DType::I64 => out.extend((value as i64).to_le_bytes()),
        DType::U64 => out.extend((value as u64).to_le_bytes()),
        other => other.push_f64(value as f64, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(bytes: &[u8]) -> Vec<f64> {
        bytes.chunks(4).map(|b| DType::F32.read_f64(b)).collect()
    }

    #[test]
    fn normal_has_the_asked_mean_and_spread() {
        let fill = Fill::Normal {
            mean: 2.0,
            std: 3.0,
        };
        let values = floats(&draw(&fill, DType::F32, 100_001, 7));
        assert_eq!(values.len(), 100_001);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!((mean - 2.0).abs() < 0.05, "{mean}");
        assert!((variance.sqrt() - 3.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn same_seed_same_bytes_other_seed_other_bytes() {
        let fill = Fill::Uniform {
            low: -1.0,
            high: 1.0,
        };
        let a = draw(&fill, DType::F16, 64, 1);
        assert_eq!(a, draw(&fill, DType::F16, 64, 1));
        assert_ne!(a, draw(&fill, DType::F16, 64, 2));
    }

    #[test]
    fn integers_cover_both_ends_of_any_range() {
        let fill = Fill::Integers {
            low: i64::MIN,
            high: i64::MAX,
        };
        assert_eq!(draw(&fill, DType::I64, 10, 3).len(), 80);
        let fill = Fill::Integers { low: -2, high: 1 };
        let bytes = draw(&fill, DType::I8, 1000, 3);
        let mut seen: Vec<i8> = bytes.iter().map(|b| *b as i8).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [-2, -1, 0, 1]);
    }

    #[test]
    fn mixed_seeds_differ_by_every_part() {
        assert_ne!(mix(&[1, 2]), mix(&[2, 1]));
        assert_ne!(mix(&[1]), mix(&[1, 0]));
    }
}
