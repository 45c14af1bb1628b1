//! A baseline in Python runs in a process with PyTorch in it, and so does what is compared with it.
//!
//! Between launches of a short kernel more time passes there than in a process with nothing else (on an
//! H200 0.17 us, docs/results/2026-11-18-export-h200.md), and a program that would use the kernel in the
//! baseline's place is such a process. So it is launched there as a package would launch it, and timed by
//! the very code that times the baseline. Cheats are looked for in kiln's own process, before.

use std::fmt;

use kiln_core::units::human_ns;
use kiln_device::python::Mode;

use crate::engine::evaluate::Contender;
use crate::engine::worker::WorkerKind;

/// Nothing makes an honest kernel this much faster than it is in a process of its own.
const LEAST_OF_ALONE: f64 = 0.95;

/// Where a process's memory lies shifts all its times (on an H200 by up to 3 % of 9 us), so not all rounds may
/// have the same; but importing PyTorch takes as long as many of them.
const ROUNDS_TO_A_PROCESS: usize = 2;

/// Whether a round of this contender begins with new processes in Python.
pub fn begins_anew(contender: &Contender, round: usize) -> bool {
    is_in(contender) && round > 0 && round.is_multiple_of(ROUNDS_TO_A_PROCESS)
}

pub fn is_in(contender: &Contender) -> bool {
    matches!(contender.program.worker, WorkerKind::Python(_))
}

/// The candidate as it runs beside the baseline; `None` where it runs like it anyway.
pub fn beside(baseline: &Contender, candidate: &Contender) -> Option<Contender> {
    let on_gpu = matches!(candidate.program.worker, WorkerKind::Cuda { .. });
    (is_in(baseline) && on_gpu).then(|| {
        let mut beside = candidate.clone();
        beside.program.worker = WorkerKind::Python(Mode::Baseline);
        beside
    })
}

/// What was measured beside the baseline, or why the kernel's own process counts: it did not run there, or it
/// was faster where kiln looks less closely, and may have noticed.
pub fn judged<T>(
    alone_ns: f64,
    beside: Result<T, impl fmt::Display>,
    beside_ns: impl FnOnce(&T) -> f64,
) -> Result<T, String> {
    let why = match beside {
        Err(ended) => format!("it {ended}"),
        Ok(beside) => match beside_ns(&beside) {
            ns if ns < LEAST_OF_ALONE * alone_ns => {
                format!("{} there, {} alone", human_ns(ns), human_ns(alone_ns))
            }
            _ => return Ok(beside),
        },
    };
    let note = "the kernel is timed in a process of its own, not in one like the baseline's";
    Err(format!("note: {note}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_faster_beside_the_baseline_is_not_believed() {
        let judged = |beside: Result<f64, &str>| judged(100.0, beside, |ns| *ns);
        assert_eq!(judged(Ok(103.0)), Ok(103.0));
        assert_eq!(judged(Ok(96.0)), Ok(96.0));
        let why = judged(Ok(60.0)).unwrap_err();
        assert!(why.ends_with("60.0 ns there, 100.0 ns alone"), "{why}");
        let why = judged(Err("crashed")).unwrap_err();
        assert!(why.ends_with(": it crashed"), "{why}");
    }
}
