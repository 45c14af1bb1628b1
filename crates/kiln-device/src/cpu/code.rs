//! Where the candidate's instructions lie in memory. Read by a signal handler, so it is made of atomics.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Words of the stack that are looked through for a way back into the image.
const MOST_WORDS: usize = 512;

pub(super) struct Code {
    base: AtomicUsize,
    /// Its instructions.
    start: AtomicUsize,
    end: AtomicUsize,
}

/// What the loader is asked to find.
struct Wanted {
    entry: usize,
    base: usize,
    start: usize,
    end: usize,
}

impl Code {
    pub(super) const fn unknown() -> Code {
        Code {
            base: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
        }
    }

    /// Remembers the image whose instructions include this one.
    pub(super) fn watch(&self, entry: usize) {
        let mut wanted = Wanted {
            entry,
            base: 0,
            start: 0,
            end: 0,
        };
        // SAFETY: `look` gets the pointer handed in here, which lives until the call returns.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut wanted).cast()) };
        self.base.store(wanted.base, Ordering::SeqCst);
        self.start.store(wanted.start, Ordering::SeqCst);
        self.end.store(wanted.end, Ordering::SeqCst);
    }

    /// Where an instruction lies in the image, if it is one of its own.
    pub(super) fn offset(&self, instruction: usize) -> Option<u64> {
        let get = |place: &AtomicUsize| place.load(Ordering::SeqCst);
        let is_own = (get(&self.start)..get(&self.end)).contains(&instruction);
        is_own.then(|| (instruction - get(&self.base)) as u64)
    }

    /// The first word on the stack that leads back into the image: most likely where it called what stopped.
    pub(super) fn caller(&self, stack: usize) -> Option<u64> {
        if stack == 0 || !stack.is_multiple_of(align_of::<usize>()) {
            return None;
        }
        let words = stack as *const usize;
        (0..MOST_WORDS).find_map(|at| {
            // SAFETY: reads upwards from the stack pointer of a thread whose callers' frames lie there. Where
            // they do not, the process ends, which it is about to do anyway.
            let word = unsafe { words.add(at).read_volatile() };
            // A return address is behind its call; one byte before it is inside.
            self.offset(word.wrapping_sub(1))
        })
    }
}

/// Called for every loaded object, until it finds the one.
unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    wanted: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a valid description, and our own pointer back.
    let (info, wanted) = unsafe { (&*info, &mut *wanted.cast::<Wanted>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader says how many headers there are.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr as usize;
    let is_code = |flags: u32| flags & libc::PF_X != 0;
    let segments = headers
        .iter()
        .filter(|h| h.p_type == libc::PT_LOAD && is_code(h.p_flags));
    for segment in segments {
        let start = base.wrapping_add(segment.p_vaddr as usize);
        let end = start.wrapping_add(segment.p_memsz as usize);
        if (start..end).contains(&wanted.entry) {
            (wanted.base, wanted.start, wanted.end) = (base, start, end);
            return 1;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_own_instructions() {
        let code = Code::unknown();
        let here = knows_its_own_instructions as *const () as usize;
        assert_eq!(code.offset(here), None);
        code.watch(here);
        assert!(code.offset(here).is_some_and(|offset| offset > 0));
        let data = Box::new(0u8);
        assert_eq!(code.offset(&raw const *data as usize), None);
        code.watch(&raw const *data as usize);
        assert_eq!(code.offset(here), None, "of another image nothing is known");
    }

    #[test]
    fn finds_the_way_back_on_a_stack() {
        let code = Code::unknown();
        let here = finds_the_way_back_on_a_stack as *const () as usize;
        code.watch(here);
        let mut stack = vec![0usize; MOST_WORDS];
        assert_eq!(code.caller(stack.as_ptr() as usize), None);
        stack[7] = here + 5;
        assert_eq!(code.caller(stack.as_ptr() as usize), code.offset(here + 4));
        assert_eq!(code.caller(0), None);
        assert_eq!(code.caller(stack.as_ptr() as usize + 1), None);
    }
}
