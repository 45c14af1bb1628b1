//! The loop: compile, check, time, search, confirm. One thread decides; workers do the dangerous
//! things.

pub mod admission;
pub mod bench;
pub mod children;
pub mod compile_pool;
pub mod confirm;
pub mod crew;
pub mod earlier;
pub mod evaluate;
pub mod interrupt;
pub mod jail;
pub mod opening;
pub mod oracle;
pub mod pair;
pub mod relay;
pub mod replay;
pub mod rerun;
pub mod sampling;
pub mod standby;
pub mod together;
pub mod tune;
pub mod versus;
pub mod worker;

use std::time::Duration;

use kiln_core::protocol::Refusal;

use crate::exit::{Exit, Failure};
use worker::WorkerEnd;

/// Purposes of random streams; no two uses of the study's secret share one.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    Check = 1,
    Sample = 2,
    Poison = 3,
    Playoff = 4,
    Final = 5,
    Order = 6,
    Fresh = 7,
    Inputs = 8,
    Admission = 9,
    Accept = 10,
    Unseen = 11,
}

/// The error for a worker that failed for reasons of kiln's own.
pub fn broken(end: &WorkerEnd) -> Failure {
    match end {
        WorkerEnd::Interrupted => interrupted(),
        WorkerEnd::Refused(Refusal::NoDevice { message }) => Failure::machine(message.clone())
            .hint("`kiln doctor` says what is missing and how to get it"),
        WorkerEnd::Broken(failure) => failure.clone(),
        other => Failure::new(Exit::Bug, format!("a worker failed: {other}")),
    }
}

pub fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted")
}

/// A deadline for a request that runs candidate code.
pub fn run_deadline(task: &crate::task::Task) -> Duration {
    Duration::from_secs_f64(task.manifest().measure.run_timeout_seconds)
}
