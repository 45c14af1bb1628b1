//! Processes that outlive one comparison, or begin before it: starting them takes longer than timing does.

use super::broken;
use super::evaluate::Contender;
use super::oracle::Oracle;
use super::worker::{Starting, Worker, WorkerKind};
use crate::exit::Failure;

#[derive(Default)]
pub struct Standby {
    /// For a GPU, and used by nobody yet.
    pub fresh: Vec<Starting>,
    /// Python that has imported PyTorch, for answers to be checked: what is timed has a process of its own, for
    /// one that has run other shapes may be slower.
    pub python: Option<Starting>,
    /// The last shape's, with the reference at work.
    pub oracle: Option<Oracle>,
    /// Python for both sides of the comparison that comes.
    both: [Option<Starting>; 2],
}

impl Standby {
    /// Where the baseline is in Python, both sides import PyTorch while answers are checked.
    pub fn start(&mut self, baseline: &Contender) -> Result<(), Failure> {
        let kind = &baseline.program.worker;
        for side in &mut self.both {
            *side = match kind {
                WorkerKind::Python(_) => Some(Worker::start(kind).map_err(|end| broken(&end))?),
                _ => None,
            };
        }
        Ok(())
    }

    pub fn take_both(&mut self) -> [Option<Worker>; 2] {
        self.both.each_mut().map(|side| side.take()?.greet().ok())
    }
}
