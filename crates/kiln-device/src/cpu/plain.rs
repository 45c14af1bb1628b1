//! The plain harness on a CPU: two libraries in this process, and one block of ordinary memory.

use std::ffi::c_void;
use std::time::Instant;

use kiln_core::protocol::{ArgumentSpec, PlainFinding, PlainTrial, Refusal};

use super::{Entry, Image, environment};
use crate::contents;
use crate::plain::{self, Layout, TIMED, WARM_UPS};

#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page {
    _bytes: [u8; 4096],
}

pub fn plain_trial(trial: &PlainTrial) -> Result<PlainFinding, Refusal> {
    environment::pin(trial.cores);
    let honest = Image::open(&trial.honest.image, &trial.honest.symbol)?;
    let candidate = Image::open(&trial.candidate.image, &trial.candidate.symbol)?;
    let problem = &trial.problem;
    let layout = Layout::new(problem)?;
    let initial = plain::initial(problem, &layout)?;
    // Whole pages, so that addresses are aligned as an allocator's are.
    let pages = initial.len().div_ceil(size_of::<Page>());
    let mut memory = vec![Page { _bytes: [0; 4096] }; pages];
    let block: *mut u8 = memory.as_mut_ptr().cast();
    // SAFETY: the block has at least that many bytes, and nothing else refers to it.
    unsafe { std::ptr::copy_nonoverlapping(initial.as_ptr(), block, initial.len()) };

    let mut scalars: Vec<[u8; 8]> = problem
        .arguments
        .iter()
        .map(|spec| match spec {
            ArgumentSpec::Scalar { dtype, value, .. } => contents::of_scalar(*dtype, value),
            _ => [0; 8],
        })
        .collect();
    let scalars: Vec<*mut c_void> = scalars.iter_mut().map(|s| s.as_mut_ptr().cast()).collect();
    let pointers = |places: &[Option<usize>]| -> Vec<*mut c_void> {
        let arguments = places.iter().zip(&scalars);
        let pointer = |(place, scalar): (&Option<usize>, &*mut c_void)| match place {
            // SAFETY: every place lies inside the block.
            Some(place) => unsafe { block.add(*place) }.cast(),
            None => *scalar,
        };
        arguments.map(pointer).collect()
    };
    let (mine, expected) = (pointers(&layout.offsets), pointers(&layout.expected));
    // SAFETY: the wrappers take one pointer per argument. What the candidate does with them is
    // contained by this process, which ends after this trial.
    let launch = |entry: Entry, pointers: &[*mut c_void]| unsafe { entry(pointers.as_ptr()) };

    launch(honest.entry, &mine);
    launch(honest.entry, &expected);
    launch(candidate.entry, &mine);
    launch(honest.entry, &expected);
    // SAFETY: as above; the candidate has returned, and what it left running is why this is plain.
    let seen = unsafe { std::slice::from_raw_parts(block, initial.len()) }.to_vec();
    let (elements, mismatched) = plain::compare(problem, &layout, &seen);
    let time = |entry: Entry, pointers: &[*mut c_void]| {
        for _ in 0..WARM_UPS {
            launch(entry, pointers);
        }
        let started = Instant::now();
        for _ in 0..TIMED {
            launch(entry, pointers);
        }
        started.elapsed().as_nanos() as f64 / TIMED as f64
    };
    let honest_nanos = time(honest.entry, &expected);
    let candidate_nanos = time(candidate.entry, &mine);
    // Threads of the candidate may still write there.
    std::mem::forget((memory, honest, candidate));
    Ok(PlainFinding {
        elements,
        mismatched,
        honest_nanos,
        candidate_nanos,
    })
}
