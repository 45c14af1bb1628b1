//! Launches of a candidate on one set of buffers, by the clock.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use kiln_core::input;
use kiln_core::manifest::Role;
use kiln_core::protocol::{Nudge, Refusal};

use super::guarded::Access;
use super::set::{Set, Storage};
use super::{Entry, environment};
use crate::backend::Samples;

/// An element of an input and a value for it.
struct Element {
    place: *mut u8,
    bytes: Vec<u8>,
}

impl Element {
    fn write(&self) {
        // SAFETY: made by `Set::nudged_elements` of a live buffer that is writable until its inputs are protected again.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), self.place, self.bytes.len()) };
    }
}

impl Set {
    /// Nanoseconds of a burst of launches on these buffers.
    ///
    /// Before each launch one element of each output is spoilt, so that a kernel that skips work
    /// because its answer is still there from the launch before leaves the wrong one behind.
    pub(super) fn run_burst(&mut self, entry: Entry, launches: u32) -> u64 {
        let pointers = self.pointers();
        // SAFETY: as in `CpuBackend::launch`.
        let launch = || unsafe { entry(pointers.as_ptr()) };
        let pages = self.output_pages();
        let look = || {
            for page in &pages {
                // SAFETY: each is a byte of a live buffer of this set.
                unsafe { std::ptr::read_volatile(*page) };
            }
        };
        if self.has_inout {
            // Each launch needs its input back, outside the clock.
            let mut total = 0;
            for _ in 0..launches {
                self.restore_inout();
                let start = Instant::now();
                launch();
                look();
                total += start.elapsed().as_nanos() as u64;
            }
            return total;
        }
        let spots = self.spots();
        let mut next = spots.iter().cycle();
        let start = Instant::now();
        for done in 0..launches {
            let Some(spot) = next.next() else {
                launch();
                continue;
            };
            // SAFETY: every spot is one byte of a live output buffer of this set.
            let spoilt = unsafe {
                **spot = !**spot;
                **spot
            };
            launch();
            // From the second launch on the byte was right before it was spoilt, so a launch that
            // did its work has changed it back by the time it returns.
            // SAFETY: as above; read as it is, whoever may be writing.
            if done > 0 && unsafe { std::ptr::read_volatile(*spot) } == spoilt {
                self.take_snapshot();
                self.is_caught = true;
                break;
            }
        }
        look();
        start.elapsed().as_nanos() as u64
    }

    /// Nanoseconds of one launch, behind some on the buffers of another set or on these. What it takes is made ready
    /// before: a kernel that keeps answers while launches follow each other closely must not be given a moment to notice.
    pub(super) fn run_right_behind(
        &mut self,
        other: Option<&mut Set>,
        entry: Entry,
        launches: u32,
    ) -> u64 {
        if self.has_inout {
            // Each launch needs its input back, which takes time.
            match other {
                Some(other) => other.run_burst(entry, launches),
                None => self.run_burst(entry, launches),
            };
            return self.run_burst(entry, 1);
        }
        let mine = self.pointers();
        let ahead = other.map_or_else(|| mine.clone(), Set::pointers);
        let pages = self.output_pages();
        for _ in 0..launches {
            // SAFETY: as in `CpuBackend::launch`.
            unsafe { entry(ahead.as_ptr()) };
        }
        timed(entry, &mine, &pages)
    }

    /// One launch right behind others, with nothing in between but that some elements of the inputs are written.
    pub(super) fn sample_nudged(
        &mut self,
        entry: Entry,
        lead: Duration,
        just_before: u32,
        nudge: Nudge,
    ) -> Result<Samples, Refusal> {
        self.protect_inputs(Access::ReadWrite)?;
        let started = Instant::now();
        while started.elapsed() < lead {
            self.run_burst(entry, just_before);
        }
        let (written, before) = self.nudged_elements(nudge);
        let spoilt = self.spots().first().copied();
        let (pointers, pages) = (self.pointers(), self.output_pages());
        let interrupted = environment::interruptions();
        for _ in 0..just_before {
            // SAFETY: as in `CpuBackend::launch`.
            unsafe { entry(pointers.as_ptr()) };
        }
        for element in &written {
            element.write();
        }
        if let Some(spot) = spoilt {
            // SAFETY: a byte of a live output buffer of this set. A kernel that skips its work leaves it wrong.
            unsafe { *spot = !*spot };
        }
        let nanos = timed(entry, &pointers, &pages);
        let interruptions = environment::interruptions().saturating_sub(interrupted);
        if !self.is_caught {
            self.take_snapshot();
        }
        for element in &before {
            element.write();
        }
        self.protect_inputs(Access::ReadOnly)?;
        Ok(Samples {
            nanos: vec![nanos],
            conditions: None,
            interruptions,
        })
    }

    /// What to write before the timed launch, and afterwards.
    fn nudged_elements(&mut self, nudge: Nudge) -> (Vec<Element>, Vec<Element>) {
        let (mut now, mut before) = (Vec::new(), Vec::new());
        for (index, spec) in self.problem.arguments.iter().enumerate() {
            let Storage::Buffer {
                memory,
                role: Role::Input,
                element_bytes,
                ..
            } = &mut self.storage[index]
            else {
                continue;
            };
            if !spec.is_nudged() {
                continue;
            }
            let size = *element_bytes;
            let start = memory.as_mut_ptr();
            let contents = memory.bytes();
            let value = |at: usize| contents[at * size..][..size].to_vec();
            for (which, whose) in input::nudges(nudge.seed, index, contents.len() / size) {
                // SAFETY: an element of this buffer.
                let place = unsafe { start.add(which * size) };
                let bytes = value(if nudge.changes { whose } else { which });
                now.push(Element { place, bytes });
                before.push(Element {
                    place,
                    bytes: value(which),
                });
            }
        }
        (now, before)
    }

    /// The most significant bytes of elements spread over all outputs, in an order a kernel cannot
    /// foresee: changing one changes the value beyond any tolerance.
    pub(super) fn spots(&mut self) -> Vec<*mut u8> {
        const SPOTS: u64 = 61;
        let draw = input::mix(&[self.snapshot.len() as u64, clock()]);
        let mut spots = Vec::new();
        for storage in &mut self.storage {
            let Storage::Buffer {
                memory,
                role: Role::Output,
                element_bytes,
                ..
            } = storage
            else {
                continue;
            };
            let bytes = memory.bytes_mut();
            let elements = (bytes.len() / *element_bytes) as u64;
            for _ in 0..SPOTS.min(elements) {
                let element = (input::random_word(draw, spots.len() as u64) % elements) as usize;
                spots.push(&raw mut bytes[(element + 1) * *element_bytes - 1]);
            }
        }
        // Outputs take turns.
        spots.sort_by_key(|spot| input::random_word(draw, *spot as u64));
        spots
    }
}

/// Something that differs from burst to burst.
fn clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_nanos() as u64)
}

/// Nanoseconds of a launch, and of a look at every page of what it wrote. Both belong to a live set.
fn timed(entry: Entry, pointers: &[*mut c_void], pages: &[*const u8]) -> u64 {
    let start = Instant::now();
    // SAFETY: as in `CpuBackend::launch`.
    unsafe { entry(pointers.as_ptr()) };
    for page in pages {
        // SAFETY: each is a byte of a live buffer.
        unsafe { std::ptr::read_volatile(*page) };
    }
    start.elapsed().as_nanos() as u64
}
