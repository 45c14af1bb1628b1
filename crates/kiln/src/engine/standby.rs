//! Processes that outlive one comparison, or begin before it: starting them takes longer than timing does.

use super::confirm::in_python;
use super::evaluate::Contender;
use super::oracle::Oracle;
use super::worker::Starting;
use crate::exit::Failure;
use crate::task::Task;

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
    pub both: [Option<Starting>; 2],
    /// Another pair, for its later rounds; serves the next comparison where this one had none.
    pub spare: [Option<Starting>; 2],
}

impl Standby {
    /// Where the baseline is in Python, both sides import PyTorch while answers are checked.
    pub fn start(&mut self, task: &Task, baseline: &Contender) -> Result<(), Failure> {
        (self.both, self.spare) = match in_python::is_in(baseline) {
            // One that nobody has used yet is as good as a new one.
            true => (std::mem::take(&mut self.spare), Default::default()),
            false => Default::default(),
        };
        if in_python::is_in(baseline) {
            in_python::start_pair(&mut self.both, baseline)?;
            if in_python::has_room_to_wait(task) {
                in_python::start_pair(&mut self.spare, baseline)?;
            }
        }
        Ok(())
    }
}
