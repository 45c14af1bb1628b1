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
        let Layout {
            body_bytes,
            mapping_bytes,
            front,
        } = layout(length, page_bytes()).ok_or(nix::Error::ENOMEM)?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe {
            mmap_anonymous(
                None,
                mapping_bytes,
                ProtFlags::PROT_NONE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
            )
        }?;
        let mut buffer = GuardedBuffer {
            mapping,
            mapping_bytes: mapping_bytes.get(),
            body_bytes,
            front,
            length,
            pattern: Vec::new(),
        };
        buffer.protect(Access::ReadWrite)?;
        buffer.surround(seed);
        Ok(buffer)
    }

    /// Another pattern around the data, which has to be writable: what reads outside finds something else there.
    pub fn surround(&mut self, seed: u64) {
        self.pattern = input::poison(input::mix(&[seed, 0x6775_6172]), 251);
        self.draw_pattern();
    }

    fn draw_pattern(&mut self) {
        let pattern = std::mem::take(&mut self.pattern);
        let (front, behind) = (self.front, self.front + self.length);
        let body = self.body_mut();
        for at in (0..front).chain(behind..body.len()) {
            body[at] = guard(&pattern, at);
        }
        self.pattern = pattern;
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
            .find(|at| body[*at] != guard(&self.pattern, *at))
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

/// What stands at a place outside the data. Of random bits half the floats are too small to show in a sum, so the upper
/// byte of each is one of a number of at least 2, or of none.
fn guard(pattern: &[u8], at: usize) -> u8 {
    const LARGE: u8 = 0x40;
    match at % 2 {
        0 => pattern[at % pattern.len()],
        _ => pattern[at % pattern.len()] | LARGE,
    }
}

/// How a buffer of some length lies in its mapping.
struct Layout {
    body_bytes: usize,
    mapping_bytes: NonZeroUsize,
    front: usize,
}

/// `None` for more bytes than there are addresses.
fn layout(length: usize, page: usize) -> Option<Layout> {
    let padded = length.checked_add(ZONE_BYTES + ALIGNMENT + page)?;
    let body_bytes = padded / page * page;
    let mapping_bytes = body_bytes.checked_add(2 * FENCE_BYTES)?;
    Some(Layout {
        body_bytes,
        mapping_bytes: NonZeroUsize::new(mapping_bytes)?,
        front: (body_bytes - length) / ALIGNMENT * ALIGNMENT,
    })
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

    /// What the system says of the page at an address: `r--p`, say.
    fn permissions(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let of_line = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let from = usize::from_str_radix(from, 16).ok()?;
            let to = usize::from_str_radix(to, 16).ok()?;
            (from..to).contains(&address).then(|| rest[..4].to_string())
        };
        maps.lines().find_map(of_line).unwrap_or_default()
    }

    #[test]
    fn nothing_beyond_the_fences_can_be_touched() {
        for length in [4, 4096, 100_000] {
            let mut buffer = GuardedBuffer::new(length, 1).unwrap();
            let start = buffer.as_mut_ptr() as usize;
            let end = start + length;
            assert_eq!(permissions(start), "rw-p");
            assert_eq!(permissions(end - 1), "rw-p");
            assert_eq!(permissions(end + ALIGNMENT), "---p");
            let body = start - buffer.front;
            let body_end = body + buffer.body_bytes;
            assert_eq!(permissions(body_end - 1), "rw-p");
            assert_eq!(permissions(body_end), "---p");
            assert_eq!(permissions(body_end + (256 << 10) - 1), "---p");
            assert_eq!(permissions(body), "rw-p");
            assert_eq!(permissions(body - 1), "---p");
            assert_eq!(permissions(body - (256 << 10)), "---p");
            buffer.protect(Access::ReadOnly).unwrap();
            assert_eq!(permissions(start), "r--p");
            assert_eq!(permissions(end - 1), "r--p");
        }
    }

    #[test]
    fn addresses_are_those_of_data_and_mapping() {
        let mut buffer = GuardedBuffer::new(5000, 1).unwrap();
        let start = buffer.as_mut_ptr() as usize;
        let addresses = buffer.addresses();
        assert_eq!(
            (addresses.data_start, addresses.data_end),
            (start, start + 5000)
        );
        let fence = 256 << 10;
        let body = start - buffer.front;
        assert_eq!(addresses.mapping_start, body - fence);
        assert_eq!(addresses.mapping_end, body + buffer.body_bytes + fence);
        assert_eq!(buffer.bytes().as_ptr() as usize, start);
    }

    #[test]
    fn every_guarded_byte_is_watched() {
        let mut buffer = GuardedBuffer::new(5, 1).unwrap();
        let (front, behind) = (buffer.front as i64, buffer.body_bytes - buffer.front);
        for offset in (-front..0).step_by(61).chain(5..behind as i64) {
            let at = (front + offset) as usize;
            buffer.body_mut()[at] ^= 0x10;
            assert_eq!(buffer.first_damage(), Some(offset));
            buffer.body_mut()[at] ^= 0x10;
        }
        assert_eq!(buffer.first_damage(), None);
        // A kernel that copies a pattern it has seen elsewhere is found out.
        let other = GuardedBuffer::new(5, 2).unwrap();
        assert_ne!(buffer.pattern, other.pattern);
    }

    #[test]
    fn what_is_read_outside_is_never_too_small_to_show() {
        for seed in 0..100 {
            let buffer = GuardedBuffer::new(4 * 33, seed).unwrap();
            let behind = &buffer.body_bytes()[buffer.front + 4 * 33..];
            let single = f32::from_le_bytes(behind[..4].try_into().unwrap());
            let double = f64::from_le_bytes(behind[..8].try_into().unwrap());
            assert!(single.is_nan() || single.abs() >= 2.0, "{single}");
            assert!(double.is_nan() || double.abs() >= 2.0, "{double}");
        }
    }

    #[test]
    fn another_pattern_leaves_the_data_alone() {
        let mut buffer = GuardedBuffer::new(5, 1).unwrap();
        buffer.bytes_mut().fill(7);
        let behind = buffer.front + 5;
        let before = buffer.body_bytes()[behind..behind + 8].to_vec();
        buffer.surround(2);
        assert_ne!(buffer.body_bytes()[behind..behind + 8], before);
        assert_eq!(buffer.bytes(), [7; 5]);
        assert_eq!(buffer.first_damage(), None);
    }

    #[test]
    fn the_zone_in_front_has_its_least_width_and_no_page_is_wasted() {
        let page = 4096;
        for length in 0..2 * page {
            let layout = layout(length, page).unwrap();
            assert!((ZONE_BYTES..=ZONE_BYTES + ALIGNMENT + page).contains(&layout.front));
            assert!(layout.front.is_multiple_of(ALIGNMENT));
            assert!(layout.body_bytes.is_multiple_of(page));
            let behind = layout.body_bytes - layout.front - length;
            assert!(behind < ALIGNMENT);
            let fences = layout.mapping_bytes.get() - layout.body_bytes;
            assert_eq!(fences, 512 << 10);
        }
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(GuardedBuffer::new(usize::MAX - 10, 1).is_err());
        assert!(GuardedBuffer::new(1 << 60, 1).is_err());
    }
}
