//! A baseline in Python runs in a process with PyTorch in it, and so does what is compared with it.
//!
//! A program that would use the kernel in the baseline's place is such a process, with several graphs, in which
//! launches of a short kernel take longer than in kiln's own (on an H200 0.17 us to 0.35 us,
//! docs/results/2026-11-18-export-h200.md). So it is launched there as a package would launch it, and timed by
//! the very code that times the baseline. Cheats are looked for in kiln's own process, before.

use kiln_core::trial::Outcome;
use kiln_core::units::human_ns;
use kiln_device::python::Mode;

use crate::engine::broken;
use crate::engine::evaluate::Contender;
use crate::engine::worker::{Starting, Worker, WorkerKind};
use crate::exit::Failure;
use crate::task::Task;

/// Nothing makes an honest kernel this much faster than it is in a process of its own.
const LEAST_OF_ALONE: f64 = 0.95;

/// Where a process's memory lies shifts all its times (on an H200 by up to 3 % of 9 us), so not all rounds may
/// have the same; but importing PyTorch takes as long as many of them.
const ROUNDS_TO_A_PROCESS: usize = 2;

/// Importing PyTorch, on a machine that has done so before.
const START_SECONDS: f64 = 6.0;

/// What is waited for between that many rounds: all new processes but the first pair of them, which waits already.
pub fn starting_seconds(rounds: usize) -> f64 {
    let renewals = rounds.saturating_sub(1) / ROUNDS_TO_A_PROCESS;
    START_SECONDS * renewals.saturating_sub(1) as f64
}

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

/// Whether processes may wait beside those that are timed: each holds memory of the GPU before it does anything.
pub fn has_room_to_wait(task: &Task) -> bool {
    const CONTEXTS_BYTES: u64 = 6 << 30;
    // Two sides with two sets of inputs, and as much again for what a function allocates.
    let problems = task.target_bytes().and_then(|b| b.checked_mul(8));
    problems.is_some_and(|b| b.saturating_add(CONTEXTS_BYTES) <= task.device.memory_bytes)
}

/// Starts what of a pair is missing, one process for each side of a comparison with this baseline.
pub fn start_pair(pair: &mut [Option<Starting>; 2], baseline: &Contender) -> Result<(), Failure> {
    for side in pair.iter_mut().filter(|side| side.is_none()) {
        *side = Some(Worker::start(&baseline.program.worker).map_err(|end| broken(&end))?);
    }
    Ok(())
}

/// Waits until they have started, so that it disturbs nothing that is timed.
pub fn settle(pair: &mut [Option<Starting>; 2]) {
    for side in pair {
        *side = side.take().map(Starting::settled);
    }
}

/// What rounds beside the baseline come to.
#[derive(Debug, PartialEq)]
pub enum Beside<T> {
    Counts(T),
    /// The kernel's own process does, and this is why: it did not run there, or it was faster where kiln looks
    /// less closely, and may have noticed.
    Discounted(String),
    /// A wrong answer is wrong wherever it was given.
    Wrong(Outcome),
}

pub fn judged<T>(
    alone_ns: f64,
    beside: Result<T, Outcome>,
    beside_ns: impl FnOnce(&T) -> f64,
) -> Beside<T> {
    let why = match beside {
        Err(wrong @ Outcome::Wrong(_)) => return Beside::Wrong(wrong),
        Err(ended) => ended.to_string(),
        Ok(beside) => match beside_ns(&beside) {
            ns if ns < LEAST_OF_ALONE * alone_ns => {
                format!("{} there, {} alone", human_ns(ns), human_ns(alone_ns))
            }
            _ => return Beside::Counts(beside),
        },
    };
    let note = "the kernel is timed in a process of its own, not in one like the baseline's";
    Beside::Discounted(format!("note: {note}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::trial::{Fault, Mismatch, Phase};

    #[test]
    fn what_is_faster_beside_the_baseline_is_not_believed() {
        let judged = |beside: Result<f64, Outcome>| judged(100.0, beside, |ns| *ns);
        assert_eq!(judged(Ok(103.0)), Beside::Counts(103.0));
        assert_eq!(judged(Ok(96.0)), Beside::Counts(96.0));
        let says = |judged, words: &str| match judged {
            Beside::Discounted(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        };
        says(judged(Ok(60.0)), "60.0 ns there, 100.0 ns alone");
        let late = Outcome::TimedOut {
            phase: Phase::Sample,
            after_ms: 5000,
        };
        says(judged(Err(late)), "baseline's: still running after");
    }

    #[test]
    fn a_wrong_answer_beside_the_baseline_is_wrong() {
        let wrong = Outcome::Wrong(Mismatch {
            shape: "target".into(),
            phase: Phase::Sample,
            fault: Fault::InputModified {
                argument: "x".into(),
            },
        });
        let judged = judged(100.0, Err::<f64, _>(wrong.clone()), |ns| *ns);
        assert_eq!(judged, Beside::Wrong(wrong));
    }
}
