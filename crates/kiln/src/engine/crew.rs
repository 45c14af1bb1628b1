//! Workers for one candidate after another.
//!
//! On a CPU a candidate is code in the worker's own process, so each gets a new one. On a GPU a
//! candidate cannot touch the process, only the device's memory: a worker that says it is sound
//! serves the next candidate too, and one that met a fault is replaced by a spare that was started
//! in time. The idle spare also keeps the driver awake, which makes starting others quicker.

use super::worker::{Starting, Worker, WorkerEnd, WorkerKind};

pub struct Crew {
    kind: WorkerKind,
    ready: Option<Worker>,
    spare: Option<Starting>,
}

impl Crew {
    pub fn new(kind: WorkerKind) -> Crew {
        Crew {
            kind,
            ready: None,
            spare: None,
        }
    }

    /// One whose first worker is on its way.
    pub fn with(kind: WorkerKind, first: Option<Starting>) -> Crew {
        Crew {
            spare: first,
            ..Crew::new(kind)
        }
    }

    /// One in Python takes seconds to start, and what it runs is not a candidate.
    pub fn keeps_workers(&self) -> bool {
        self.has_spare() || matches!(self.kind, WorkerKind::Python(_))
    }

    fn has_spare(&self) -> bool {
        matches!(self.kind, WorkerKind::Cuda { .. })
    }

    /// Starts a worker before it is needed, where that saves time.
    pub fn start_early(&mut self) -> Result<(), WorkerEnd> {
        if self.has_spare() && self.ready.is_none() && self.spare.is_none() {
            self.spare = Some(Worker::start(&self.kind)?);
        }
        Ok(())
    }

    pub fn take(&mut self) -> Result<Worker, WorkerEnd> {
        let worker = match (self.ready.take(), self.spare.take()) {
            (Some(worker), spare) => {
                self.spare = spare;
                worker
            }
            // One that did not come up may have been unlucky.
            (None, Some(spare)) => spare.greet().or_else(|_| Worker::spawn(&self.kind))?,
            (None, None) => Worker::spawn(&self.kind)?,
        };
        if self.has_spare() && self.spare.is_none() {
            self.spare = Some(Worker::start(&self.kind)?);
        }
        Ok(worker)
    }

    /// Waits until no worker is being started: starting one disturbs whatever is timed meanwhile.
    pub fn settle(&mut self) {
        self.spare = self.spare.take().map(Starting::settled);
    }

    /// Takes back a worker that has verified itself.
    pub fn give_back(&mut self, worker: Worker) {
        if self.keeps_workers() {
            self.ready = Some(worker);
        }
    }

    /// All it has, for others to use.
    pub fn disband(&mut self) -> Vec<Starting> {
        let ready = self.ready.take().map(Starting::ready);
        self.spare.take().into_iter().chain(ready).collect()
    }
}
