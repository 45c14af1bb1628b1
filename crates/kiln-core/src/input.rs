//! Contents of buffers from a seed: inputs, and the poison outputs are filled with before a launch.
//!
//! Supervisor, reference and candidate each make the same bytes from the same seed, so expected
//! values never have to travel to the process that runs the candidate.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

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

/// Of fewer elements each may decide how much work there is.
pub const LEAST_NUDGED: usize = 256;

/// Elements of an input that take the value of another one, each named once: `(which, whose)`.
pub fn nudges(seed: u64, argument: usize, elements: usize) -> Vec<(usize, usize)> {
    const NUDGED: u64 = 8;
    if elements < LEAST_NUDGED {
        return Vec::new();
    }
    let (count, argument) = (elements as u64, argument as u64);
    let mut nudges: Vec<(usize, usize)> = Vec::new();
    for number in 0..NUDGED {
        let which = (mix(&[seed, argument, number, 0]) % count) as usize;
        let further = 1 + mix(&[seed, argument, number, 1]) % (count - 1);
        if nudges.iter().all(|(other, _)| *other != which) {
            nudges.push((which, (which + further as usize) % elements));
        }
    }
    nudges
}

/// Elements drawn from one stream. Each chunk has a stream of its own, so that a large buffer can
/// be drawn by many threads and comes out the same.
const CHUNK: usize = 1 << 16;

/// Bytes of `elements` values of `dtype`. `Fill::File` has no contents here and yields nothing.
pub fn draw(fill: &Fill, dtype: DType, elements: usize, seed: u64) -> Vec<u8> {
    if matches!(fill, Fill::File { .. }) {
        return Vec::new();
    }
    let size = dtype.size_bytes();
    let mut out = vec![0; elements * size];
    parallel_chunks(&mut out, CHUNK * size, |chunk, bytes| {
        let drawn = draw_chunk(fill, dtype, chunk, bytes.len() / size, seed);
        bytes.copy_from_slice(&drawn);
    });
    out
}

/// Runs `work` on pieces of a buffer with their numbers, on as many threads as pay.
fn parallel_chunks(buffer: &mut [u8], piece: usize, work: impl Fn(usize, &mut [u8]) + Sync) {
    let pieces = buffer.len().div_ceil(piece.max(1));
    let threads = crate::threads::worth(pieces);
    if threads <= 1 {
        for (number, bytes) in buffer.chunks_mut(piece).enumerate() {
            work(number, bytes);
        }
        return;
    }
    let share = pieces.div_ceil(threads);
    std::thread::scope(|scope| {
        for (number, part) in buffer.chunks_mut(share * piece).enumerate() {
            let work = &work;
            scope.spawn(move || {
                for (offset, bytes) in part.chunks_mut(piece).enumerate() {
                    work(number * share + offset, bytes);
                }
            });
        }
    });
}

fn draw_chunk(fill: &Fill, dtype: DType, chunk: usize, elements: usize, seed: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(elements * dtype.size_bytes());
    let mut rng = ChaCha8Rng::seed_from_u64(mix(&[seed, chunk as u64]));
    match fill {
        Fill::Normal { mean, std } => {
            for _ in 0..elements {
                let drawn: f64 = StandardNormal.sample(&mut rng);
                dtype.push_f64(mean + std * drawn, &mut out);
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
                dtype.push_f64((chunk * CHUNK + i) as f64, &mut out);
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

/// Random bytes; what a kernel did not write still equals them, element by element. A GPU makes
/// the same bytes from the same seed.
pub fn poison(seed: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    poison_from(seed, 0, &mut out);
    out
}

/// The part of the poison that begins at byte `first`.
pub fn poison_from(seed: u64, first: usize, out: &mut [u8]) {
    let mut place = first;
    let mut rest = out;
    while !rest.is_empty() {
        let word = random_word(seed, (place / 8) as u64).to_le_bytes();
        let within = place % 8;
        let length = (8 - within).min(rest.len());
        let (now, later) = rest.split_at_mut(length);
        now.copy_from_slice(&word[within..within + length]);
        place += length;
        rest = later;
    }
}

/// SplitMix64: every word of a stream can be made by itself. For words in great numbers, where `mix`, which keeps streams
/// apart, would take a hundred times as long.
pub fn random_word(seed: u64, index: u64) -> u64 {
    split_mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// The finaliser of SplitMix64.
pub fn split_mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Uniform in (0, 1).
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
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
    fn a_few_elements_take_the_value_of_another() {
        assert!(nudges(1, 0, 0).is_empty() && nudges(1, 0, LEAST_NUDGED - 1).is_empty());
        assert_ne!(nudges(1, 0, 1000), nudges(2, 0, 1000));
        assert_ne!(nudges(1, 0, 1000), nudges(1, 1, 1000));
        for (seed, elements) in [(1, LEAST_NUDGED), (3, 1000), (4, 1 << 20)] {
            let nudges = nudges(seed, 0, elements);
            assert!((1..=8).contains(&nudges.len()));
            for (at, (which, whose)) in nudges.iter().enumerate() {
                assert!(*which < elements && *whose < elements && which != whose);
                assert!(nudges[..at].iter().all(|(other, _)| other != which));
            }
        }
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
    fn normal_is_the_mean_and_so_many_deviations() {
        let fill = Fill::Normal {
            mean: 2.0,
            std: 3.0,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(mix(&[7, 0]));
        let drawn: f64 = StandardNormal.sample(&mut rng);
        let bytes = draw(&fill, DType::F64, 1, 7);
        assert_eq!(DType::F64.read_f64(&bytes), 2.0 + 3.0 * drawn);
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
    fn poison_can_be_made_in_pieces() {
        let whole = poison(9, 100);
        for (first, length) in [(0, 100), (3, 5), (7, 1), (8, 8), (13, 80)] {
            let mut piece = vec![0; length];
            poison_from(9, first, &mut piece);
            assert_eq!(piece, whole[first..first + length]);
        }
        assert_ne!(whole, poison(10, 100));
    }

    #[test]
    fn large_buffers_do_not_repeat_themselves() {
        let fill = Fill::Uniform {
            low: 0.0,
            high: 1.0,
        };
        let bytes = draw(&fill, DType::F64, 3 * CHUNK + 5, 1);
        assert_eq!(bytes.len(), 8 * (3 * CHUNK + 5));
        assert_ne!(bytes[..64], bytes[8 * CHUNK..8 * CHUNK + 64]);
        let iota = draw(&Fill::Iota, DType::F64, CHUNK + 2, 1);
        assert_eq!(DType::F64.read_f64(&iota[8 * CHUNK..]), CHUNK as f64);
    }

    #[test]
    fn mixed_seeds_differ_by_every_part() {
        assert_ne!(mix(&[1, 2]), mix(&[2, 1]));
        assert_ne!(mix(&[1]), mix(&[1, 0]));
    }

    /// A GPU has to make the very same bytes, and the published generator says which.
    #[test]
    fn poison_is_splitmix64() {
        let words = |seed: u64| -> Vec<u64> {
            let bytes = poison(seed, 24);
            let words = bytes.chunks_exact(8);
            words
                .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
                .collect()
        };
        assert_eq!(
            words(1_234_567),
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        assert_eq!(words(0)[0], 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn uniform_covers_its_range_and_no_more() {
        let fill = Fill::Uniform {
            low: 2.0,
            high: 5.0,
        };
        let values = floats(&draw(&fill, DType::F32, 10_000, 7));
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        assert!((2.0..2.05).contains(&least), "{least}");
        assert!((4.95..=5.0).contains(&most), "{most}");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let drawn = rng.clone().next_u64() >> 11;
        // In the middle of its interval, so that neither end is met.
        assert_eq!(unit(&mut rng), (2 * drawn + 1) as f64 / 2f64.powi(54));
    }

    #[test]
    fn pieces_drawn_by_many_threads_are_in_their_places() {
        let elements = 9 * CHUNK + 3;
        let drawn = draw(&Fill::Iota, DType::U32, elements, 1);
        let words = drawn.chunks_exact(4);
        let in_order = words
            .enumerate()
            .all(|(i, word)| *word == (i as u32).to_le_bytes());
        assert!(in_order && drawn.len() == 4 * elements);
        let constant = draw(&Fill::Constant { value: 2.5 }, DType::F32, 3, 1);
        assert_eq!(floats(&constant), [2.5; 3]);
        assert_eq!(draw(&Fill::Iota, DType::F32, 0, 1), [0; 0]);
    }

    #[test]
    fn wide_integers_are_exact() {
        let fill = Fill::Integers {
            low: (1 << 60) + 1,
            high: (1 << 60) + 1,
        };
        for dtype in [DType::I64, DType::U64] {
            let bytes = draw(&fill, dtype, 1, 3);
            assert_eq!(dtype.read_i128(&bytes), Some((1 << 60) + 1));
        }
    }
}
