//! A buffer between two fences: patterned bytes next to it, unreadable pages beyond.
//!
//! The data ends as close to the upper fence as its alignment allows, so that a kernel that runs
//! past the end hits the unreadable page at once, or changes the pattern and is found later.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use kiln_core::input;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Kernels may use aligned vector loads of a whole cache line.
const ALIGNMENT: usize = 64;
/// Wide enough to stop a loop that strides by rows.
const FENCE_BYTES: usize = 256 << 10;
/// The pattern below the data is at least this long.
const ZONE_BYTES: usize = 256;

pub struct GuardedBuffer {
    mapping: NonNull<std::ffi::c_void>,
    mapping_bytes: usize,
    /// Accessible bytes between the fences.
    body_bytes: usize,
    /// Start of the data within the accessible bytes.
    front: usize,
    length: usize,
    pattern: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

impl GuardedBuffer {
    pub fn new(length: usize, seed: u64) -> nix::Result<GuardedBuffer> {
        let page = page_bytes();
        let padded = length
            .checked_add(ZONE_BYTES + ALIGNMENT + page)
            .ok_or(nix::Error::ENOMEM)?;
        let body_bytes = padded / page * page;
        let mapping_bytes = body_bytes
            .checked_add(2 * FENCE_BYTES)
            .and_then(NonZeroUsize::new)
            .ok_or(nix::Error::ENOMEM)?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe {
            mmap_anonymous(
                None,
                mapping_bytes,
                ProtFlags::PROT_NONE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
            )
        }?;
        let front = (body_bytes - length) / ALIGNMENT * ALIGNMENT;
        let mut buffer = GuardedBuffer {
            mapping,
            mapping_bytes: mapping_bytes.get(),
            body_bytes,
            front,
            length,
            pattern: input::poison(input::mix(&[seed, 0x6775_6172]), 251),
        };
        buffer.protect(Access::ReadWrite)?;
        let pattern = buffer.pattern.clone();
        let body = buffer.body_mut();
        for at in (0..front).chain(front + length..body.len()) {
            body[at] = pattern[at % pattern.len()];
        }
        Ok(buffer)
    }

    pub fn protect(&mut self, access: Access) -> nix::Result<()> {
        let flags = match access {
            Access::ReadOnly => ProtFlags::PROT_READ,
            Access::ReadWrite => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        };
        // SAFETY: the range lies inside this buffer's own mapping.
        unsafe { mprotect(self.body(), self.body_bytes, flags) }
    }

    fn body(&self) -> NonNull<std::ffi::c_void> {
        // SAFETY: the fence is smaller than the mapping, so the result stays inside it.
        unsafe { self.mapping.byte_add(FENCE_BYTES) }
    }

    fn body_mut(&mut self) -> &mut [u8] {
        // SAFETY: the accessible part is mapped and belongs to this buffer alone; callers write
        // only while it is writable.
        unsafe { std::slice::from_raw_parts_mut(self.body().as_ptr().cast(), self.body_bytes) }
    }

    fn body_bytes(&self) -> &[u8] {
        // SAFETY: as in `body_mut`; both access modes allow reading.
        unsafe { std::slice::from_raw_parts(self.body().as_ptr().cast(), self.body_bytes) }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.body_bytes()[self.front..self.front + self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.front..self.front + self.length;
        &mut self.body_mut()[range]
    }

    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        let front = self.front;
        self.body_mut()[front..].as_mut_ptr()
    }

    /// Offset from the data's start of the first changed byte outside it.
    pub fn first_damage(&self) -> Option<i64> {
        let body = self.body_bytes();
        (0..self.front)
            .chain(self.front + self.length..body.len())
            .find(|at| body[*at] != self.pattern[at % self.pattern.len()])
            .map(|at| at as i64 - self.front as i64)
    }

    /// Addresses of the whole mapping and of the data within it.
    pub fn addresses(&self) -> Addresses {
        let mapping = self.mapping.as_ptr() as usize;
        let data = mapping + FENCE_BYTES + self.front;
        Addresses {
            mapping_start: mapping,
            mapping_end: mapping + self.mapping_bytes,
            data_start: data,
            data_end: data + self.length,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Addresses {
    pub mapping_start: usize,
    pub mapping_end: usize,
    pub data_start: usize,
    pub data_end: usize,
}

impl Drop for GuardedBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and nothing refers to it any more. A failure
        // leaves it mapped until the process ends.
        let _ = unsafe { munmap(self.mapping, self.mapping_bytes) };
    }
}

fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_on_either_side_is_found_with_its_offset() {
        for length in [0, 1, 63, 64, 4096, 5000, 1 << 20] {
            let mut buffer = GuardedBuffer::new(length, 1).unwrap();
            assert_eq!(buffer.bytes().len(), length);
            assert_eq!(buffer.as_mut_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.front >= ZONE_BYTES);
            buffer.bytes_mut().fill(7);
            assert_eq!(buffer.first_damage(), None);
            let front = buffer.front;
            buffer.body_mut()[front - 4] ^= 1;
            assert_eq!(buffer.first_damage(), Some(-4));
            buffer.body_mut()[front - 4] ^= 1;
            if front + length < buffer.body_bytes {
                buffer.body_mut()[front + length] ^= 1;
                assert_eq!(buffer.first_damage(), Some(length as i64));
            }
        }
    }

    #[test]
    fn the_data_ends_within_a_cache_line_of_the_fence() {
        let buffer = GuardedBuffer::new(4096 * 3 + 4, 1).unwrap();
        assert!(buffer.body_bytes - (buffer.front + buffer.length) < ALIGNMENT);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(GuardedBuffer::new(usize::MAX - 10, 1).is_err());
        assert!(GuardedBuffer::new(1 << 60, 1).is_err());
    }
}
