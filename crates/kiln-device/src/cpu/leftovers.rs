//! What lies in memory that nobody has written: garbage, on purpose.
//!
//! A fresh process has zeros where a long-lived one has anything, and zeros are often what a kernel
//! that forgot to write would have written.

use std::hint::black_box;
use std::mem::MaybeUninit;

use kiln_core::input;

/// What a kernel's own frames are likely to reach, workspaces on its stack included.
const STACK_WORDS: usize = (1 << 20) / 8;

/// Leaves garbage on the stack below the caller, and has the heap hand out garbage until `tidy`.
pub fn strew(seed: u64) {
    // Never zero, which would switch it off.
    perturb(seed as i32 & 0xfe | 1);
    strew_stack(seed);
}

/// The heap as it is for everybody: filling takes time, and timed launches pay for nothing.
pub fn tidy() {
    perturb(0);
}

#[inline(never)]
fn strew_stack(seed: u64) {
    const STACK: u64 = 0x7374_6163;
    let seed = input::mix(&[seed, STACK]);
    let mut words = [const { MaybeUninit::<u64>::uninit() }; STACK_WORDS];
    for (place, word) in words.iter_mut().enumerate() {
        word.write(garbage(seed, place));
    }
    black_box(&mut words);
}

/// Half of it random. Random bits rarely make a float that shows in a largest value or survives a factor of zero, so
/// a quarter is NaN in every format and a quarter a large number.
fn garbage(seed: u64, place: usize) -> u64 {
    /// About 1e38 in single and 1e300 in double precision.
    const LARGE: u64 = 0x7e7e_7e7e_7e7e_7e7e;
    let word = input::random_word(seed, place as u64);
    match word % 4 {
        0 => u64::MAX,
        1 => LARGE,
        _ => word,
    }
}

#[cfg(target_env = "gnu")]
fn perturb(byte: i32) {
    /// Allocated memory is filled with the complement of this byte, freed memory with it.
    const M_PERTURB: i32 = -6;
    // SAFETY: sets a number inside the allocator.
    unsafe { libc::mallopt(M_PERTURB, byte) };
}

#[cfg(not(target_env = "gnu"))]
fn perturb(_byte: i32) {}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// The first words of a block from the C heap.
    fn fresh_words() -> [u32; 64] {
        // SAFETY: a block of that size, read as it is; the allocator has filled it.
        unsafe {
            let block = libc::malloc(256).cast::<u32>();
            let mut words = [0; 64];
            for (place, word) in words.iter_mut().enumerate() {
                *word = block.add(place).read_volatile();
            }
            libc::free(block.cast());
            words
        }
    }

    #[test]
    fn garbage_has_numbers_that_show() {
        let floats: Vec<f32> = (0..1000)
            .map(|place| f32::from_bits(garbage(7, place) as u32))
            .collect();
        let nan = floats.iter().filter(|f| f.is_nan()).count();
        let large = floats.iter().filter(|f| **f > 1e30).count();
        assert!(
            nan > 200 && large > 200 && nan + large < 700,
            "{nan} {large}"
        );
    }

    #[test]
    fn the_heap_hands_out_garbage_while_it_is_asked_to() {
        strew(0x5a);
        let words = fresh_words();
        tidy();
        assert!(words.iter().skip(8).all(|w| *w != 0), "{words:x?}");
    }
}
