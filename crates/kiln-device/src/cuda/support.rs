//! kiln's own kernels on the device, and their twins on the host.

use std::ffi::{CStr, CString, c_void};
use std::time::Duration;

use cudarc::driver::sys;
use kiln_core::input::split_mix;
use kiln_core::protocol::Refusal;

use super::driver::{Driver, check};

/// Blocks for work that is bound by memory; a few per multiprocessor of any device.
const BLOCKS: u32 = 1024;
const THREADS: u32 = 256;
/// A held stream is let go after this long even if the host never says so.
const HOLD_LIMIT_NS: u64 = 500_000_000;
const SENTINEL_WORDS: usize = 1024;

/// The helper kernels, loaded, and the memory they report into.
pub struct Support {
    hold: sys::CUfunction,
    fill: sys::CUfunction,
    check_fill: sys::CUfunction,
    sum: sys::CUfunction,
    sentinel: sys::CUfunction,
    /// Results of checks, one word each.
    results: sys::CUdeviceptr,
    results_len: usize,
    /// Pinned; the device sees it under the same address.
    flag: *mut u32,
    stream: sys::CUstream,
}

impl Support {
    pub fn load(image: &str, stream: sys::CUstream) -> Result<Support, Refusal> {
        let bad = |e| Refusal::NoDevice {
            message: format!("kiln's helper kernels do not run here: {e:?}"),
        };
        Support::try_load(image, stream).map_err(bad)
    }

    fn try_load(image: &str, stream: sys::CUstream) -> Driver<Support> {
        let mut module = std::ptr::null_mut();
        let path = CString::new(image).unwrap_or_default();
        // SAFETY: a path that ends in a zero; the module is never unloaded.
        check(unsafe { sys::cuModuleLoad(&mut module, path.as_ptr()) })?;
        let function = |name: &CStr| {
            let mut found = std::ptr::null_mut();
            // SAFETY: a loaded module and a name that ends in a zero.
            check(unsafe { sys::cuModuleGetFunction(&mut found, module, name.as_ptr()) })?;
            Ok(found)
        };
        let results_len = 256.max(SENTINEL_WORDS);
        let mut results = 0;
        // SAFETY: plain allocation, kept as long as the process.
        check(unsafe { sys::cuMemAlloc_v2(&mut results, results_len * 8) })?;
        let mut flag: *mut c_void = std::ptr::null_mut();
        let mapped = sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: pinned memory, kept as long as the process.
        check(unsafe { sys::cuMemHostAlloc(&mut flag, 64, mapped) })?;
        Ok(Support {
            hold: function(c"kiln_hold")?,
            fill: function(c"kiln_fill")?,
            check_fill: function(c"kiln_check_fill")?,
            sum: function(c"kiln_sum")?,
            sentinel: function(c"kiln_sentinel")?,
            results,
            results_len,
            flag: flag.cast(),
            stream,
        })
    }

    fn launch(
        &self,
        function: sys::CUfunction,
        blocks: u32,
        args: &mut [*mut c_void],
    ) -> Driver<()> {
        let threads = if blocks == 1 { 1 } else { THREADS };
        // SAFETY: each helper kernel takes exactly the arguments its caller below passes, and they
        // live until the call returns.
        check(unsafe {
            sys::cuLaunchKernel(
                function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                self.stream,
                args.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    }

    pub fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Holds the stream until `release`, so that what is queued behind starts at once, and for this
    /// long at the least.
    pub fn hold(&self, at_least: Duration) -> Driver<()> {
        // SAFETY: pinned memory of this process, aligned; the device only reads it.
        unsafe { self.flag.write_volatile(0) };
        let (mut flag, mut limit) = (self.flag, HOLD_LIMIT_NS);
        let mut least = at_least.as_nanos() as u64;
        self.launch(
            self.hold,
            1,
            &mut [
                (&raw mut flag).cast(),
                (&raw mut least).cast(),
                (&raw mut limit).cast(),
            ],
        )
    }

    pub fn release(&self) {
        // SAFETY: as in `hold`.
        unsafe { self.flag.write_volatile(1) };
    }

    pub fn fill(&self, at: sys::CUdeviceptr, bytes: usize, seed: u64) -> Driver<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (mut at, mut bytes, mut seed, mut first) = (at, bytes as u64, seed, 0u64);
        self.launch(
            self.fill,
            blocks_for(bytes),
            &mut [
                (&raw mut at).cast(),
                (&raw mut bytes).cast(),
                (&raw mut seed).cast(),
                (&raw mut first).cast(),
            ],
        )
    }

    /// Runs several checks and brings their results back together.
    pub fn checks(&self, checks: &[Check]) -> Driver<Vec<u64>> {
        let mut found = Vec::with_capacity(checks.len());
        for group in checks.chunks(self.results_len) {
            let mut words: Vec<u64> = group.iter().map(Check::before).collect();
            let bytes = words.len() * 8;
            let source = words.as_ptr().cast();
            // On the stream of the checks themselves, so that none of them comes first.
            // SAFETY: the results buffer holds a whole group; `words` lives until the wait below.
            check(unsafe { sys::cuMemcpyHtoDAsync_v2(self.results, source, bytes, self.stream) })?;
            for (place, one) in group.iter().enumerate() {
                self.start(one, self.results + 8 * place as u64)?;
            }
            // SAFETY: a live stream of this context.
            check(unsafe { sys::cuStreamSynchronize(self.stream) })?;
            // SAFETY: reads back as many words as were written above.
            check(unsafe { sys::cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), self.results, bytes) })?;
            found.extend(words);
        }
        Ok(found)
    }

    /// Reads a buffer and forgets what it read.
    pub fn touch(&self, at: sys::CUdeviceptr, bytes: usize) -> Driver<()> {
        let check = Check {
            kind: CheckKind::Sum,
            at,
            bytes,
            seed: 0,
        };
        self.start(&check, self.results)
    }

    fn start(&self, one: &Check, result: sys::CUdeviceptr) -> Driver<()> {
        let mut result = result;
        let (mut at, mut bytes, mut seed) = (one.at, one.bytes as u64, one.seed);
        let mut first = 0u64;
        let (at, bytes_arg, seed): (*mut c_void, *mut c_void, *mut c_void) = (
            (&raw mut at).cast(),
            (&raw mut bytes).cast(),
            (&raw mut seed).cast(),
        );
        let result: *mut c_void = (&raw mut result).cast();
        match one.kind {
            CheckKind::Sum => self.launch(
                self.sum,
                blocks_for(bytes),
                &mut [at, bytes_arg, seed, result],
            ),
            CheckKind::Pattern => self.launch(
                self.check_fill,
                blocks_for(bytes),
                &mut [at, bytes_arg, seed, (&raw mut first).cast(), result],
            ),
        }
    }

    /// Whether the device still computes what the host does.
    pub fn is_sound(&self, seed: u64) -> Driver<bool> {
        let (mut out, mut seed_arg, mut n) = (self.results, seed, SENTINEL_WORDS as i32);
        self.launch(
            self.sentinel,
            (SENTINEL_WORDS as u32).div_ceil(THREADS),
            &mut [
                (&raw mut out).cast(),
                (&raw mut seed_arg).cast(),
                (&raw mut n).cast(),
            ],
        )?;
        let mut words = vec![0u64; SENTINEL_WORDS];
        // SAFETY: a live stream of this context.
        check(unsafe { sys::cuStreamSynchronize(self.stream) })?;
        // SAFETY: both buffers hold that many words.
        check(unsafe {
            sys::cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), self.results, SENTINEL_WORDS * 8)
        })?;
        Ok((0..)
            .zip(&words)
            .all(|(index, word)| *word == sentinel(seed, index)))
    }
}

fn blocks_for(bytes: u64) -> u32 {
    // At least two, for one block means one thread here.
    let wanted = bytes.div_ceil(u64::from(THREADS) * 16);
    wanted.clamp(2, u64::from(BLOCKS)) as u32
}

pub enum CheckKind {
    /// A checksum of the bytes.
    Sum,
    /// Offset of the first byte that is not the pattern's; `u64::MAX` when all are.
    Pattern,
}

pub struct Check {
    pub kind: CheckKind,
    pub at: sys::CUdeviceptr,
    pub bytes: usize,
    pub seed: u64,
}

impl Check {
    fn before(&self) -> u64 {
        match self.kind {
            CheckKind::Sum => 0,
            CheckKind::Pattern => u64::MAX,
        }
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const SENTINEL_THREADS: u64 = THREADS as u64;

/// What the sum kernel computes.
#[cfg(test)]
fn checksum(bytes: &[u8], seed: u64) -> u64 {
    bytes
        .chunks(8)
        .enumerate()
        .fold(0, |sum: u64, (index, chunk)| {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            let place = split_mix(seed.wrapping_add(index as u64));
            sum.wrapping_add(split_mix(u64::from_le_bytes(padded).wrapping_add(place)))
        })
}

fn sentinel_word(seed: u64, index: u64) -> u64 {
    let x = split_mix(seed.wrapping_add((index + 1).wrapping_mul(GOLDEN)));
    let mut f = (x >> 40) as f32;
    for i in 0..16 {
        f = f.mul_add(0.999_023_44, ((x >> i) & 0xFF) as f32);
    }
    f = f.sqrt() / (f + 3.0);
    x ^ (u64::from(f.to_bits()) << 16)
}

/// What the sentinel kernel writes at `index`.
fn sentinel(seed: u64, index: u64) -> u64 {
    let sum = |thread: u64| {
        let block = index / SENTINEL_THREADS * SENTINEL_THREADS;
        let near = block + thread % SENTINEL_THREADS;
        let far = block + (thread + 97) % SENTINEL_THREADS;
        sentinel_word(seed, near).wrapping_add(split_mix(sentinel_word(seed, far)))
    };
    let thread = index % SENTINEL_THREADS;
    split_mix(sum(thread) ^ sum(thread + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_tell_places_apart() {
        let (a, b) = ([1u8, 0, 0, 0, 0, 0, 0, 0, 2], [2u8, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_ne!(checksum(&a, 7), checksum(&b, 7));
        assert_ne!(checksum(&a, 7), checksum(&a, 8));
    }

    /// The literal in the Rust twin and the one in the kernel are the same float.
    #[test]
    fn the_sentinel_uses_the_kernels_constant() {
        assert_eq!(0.999_023_44f32.to_bits(), (1023.0f32 / 1024.0).to_bits());
    }
}
