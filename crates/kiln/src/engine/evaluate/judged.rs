//! What answers and ends of workers mean: right, wrong, or broken.

use std::time::Duration;

use kiln_core::input;
use kiln_core::manifest::Role;
use kiln_core::numerics::Expected;
use kiln_core::protocol::{ArgumentSpec, Problem, Refusal, Response};
use kiln_core::stats;
use kiln_core::trial::{CrashCause, Fault, GuardHit};

use crate::engine::broken;
use crate::engine::worker::WorkerEnd;
use crate::exit::Failure;

/// A floor, in nanoseconds and by what it is bound, that samples lie below.
pub(super) fn faster_than((floor_ns, bound): (f64, &str), samples_ns: &[f64]) -> Option<Fault> {
    let measured_ns = stats::median(samples_ns);
    (measured_ns < floor_ns).then(|| Fault::BelowFloor {
        measured_ns,
        floor_ns,
        bound: bound.into(),
    })
}

/// What the end of a worker says about the candidate in it.
pub enum Judged {
    Crash(CrashCause),
    Fault(Fault),
    TimedOut(Duration),
    Kiln(Failure),
}

pub fn judge(end: WorkerEnd, argument_name: &dyn Fn(usize) -> String) -> Judged {
    match end {
        WorkerEnd::Signal(signal) => Judged::Crash(CrashCause::Signal { signal }),
        WorkerEnd::Exited(code) => Judged::Crash(CrashCause::Exited { code }),
        WorkerEnd::OutputFlood(bytes) => Judged::Crash(CrashCause::OutputFlood { bytes }),
        WorkerEnd::Fault(fault) if fault.inside => Judged::Fault(Fault::InputModified {
            argument: argument_name(fault.argument),
        }),
        WorkerEnd::Fault(fault) => Judged::Fault(Fault::Canary {
            argument: argument_name(fault.argument),
            offset: fault.offset,
            access: GuardHit::PageHit,
        }),
        WorkerEnd::Forbidden(call) => Judged::Crash(CrashCause::Forbidden { call }),
        WorkerEnd::Garbled(message) => Judged::Crash(CrashCause::Garbled { message }),
        WorkerEnd::TimedOut(after) => Judged::TimedOut(after),
        WorkerEnd::Refused(refusal) => match refusal {
            Refusal::NotLoadable { message } => Judged::Crash(CrashCause::NotLoadable { message }),
            Refusal::OutOfMemory { bytes } => Judged::Crash(CrashCause::OutOfMemory { bytes }),
            Refusal::LeftProcesses { count } => Judged::Crash(CrashCause::LeftProcesses { count }),
            Refusal::GuardZone { argument, offset } => Judged::Fault(Fault::Canary {
                argument: argument_name(argument),
                offset,
                access: GuardHit::ZoneOverwritten,
            }),
            Refusal::Device(error) => Judged::Crash(CrashCause::Device(error)),
            Refusal::InputModified { argument } => Judged::Fault(Fault::InputModified {
                argument: argument_name(argument),
            }),
            refusal @ Refusal::NoDevice { .. } => {
                Judged::Kiln(broken(&WorkerEnd::Refused(refusal)))
            }
            Refusal::BadTask { message } => Judged::Kiln(Failure::usage(message)),
        },
        end @ (WorkerEnd::Interrupted | WorkerEnd::Broken(_)) => Judged::Kiln(broken(&end)),
    }
}

/// All outputs, or nothing where they are those of the last time and that was asked for.
pub fn inspected(
    answer: (Response, Vec<u8>),
    same_will_do: bool,
) -> Result<Option<Vec<u8>>, WorkerEnd> {
    match answer {
        (Response::Same, _) if same_will_do => Ok(None),
        other => answer_outputs(other).map(Some),
    }
}

pub fn answer_outputs(answer: (Response, Vec<u8>)) -> Result<Vec<u8>, WorkerEnd> {
    match answer {
        (Response::Outputs, bytes) => Ok(bytes),
        (other, _) => Err(WorkerEnd::misplaced(&other, "for outputs")),
    }
}

/// Compares all outputs; `Ok` is the largest error relative to what is allowed.
pub fn compare(
    problem: &Problem,
    expected: &[Expected],
    outputs: &[u8],
    poison_seed: u64,
) -> Result<f64, Fault> {
    let results = problem
        .arguments
        .iter()
        .enumerate()
        .filter(|(_, a)| a.is_result());
    let mut rest = outputs;
    let mut worst: f64 = 0.0;
    for ((index, argument), expected) in results.zip(expected) {
        let length = argument.bytes().unwrap_or(0) as usize;
        let (mine, others) = rest.split_at(length.min(rest.len()));
        rest = others;
        let written_fresh = matches!(
            argument,
            ArgumentSpec::Buffer {
                role: Role::Output,
                ..
            }
        );
        let poison = written_fresh.then(|| input::mix(&[poison_seed, index as u64]));
        worst = worst.max(expected.compare(mine, poison).map_err(Fault::Numerics)?);
    }
    Ok(worst)
}

#[cfg(test)]
mod tests;
