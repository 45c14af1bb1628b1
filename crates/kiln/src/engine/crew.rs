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
    spare: Spare,
}

enum Spare {
    None,
    Starting(Starting),
    Ready(Worker),
}

impl Crew {
    pub fn new(kind: WorkerKind) -> Crew {
        Crew {
            kind,
            ready: None,
            spare: Spare::None,
        }
    }

    pub fn keeps_workers(&self) -> bool {
        matches!(self.kind, WorkerKind::Cuda { .. })
    }

    pub fn take(&mut self) -> Result<Worker, WorkerEnd> {
        if !self.keeps_workers() {
            return Worker::spawn(&self.kind);
        }
        let worker = match self.ready.take() {
            Some(worker) => worker,
            None => match std::mem::replace(&mut self.spare, Spare::None) {
                Spare::Ready(worker) => worker,
                Spare::Starting(starting) => starting.greet()?,
                Spare::None => Worker::spawn(&self.kind)?,
            },
        };
        if matches!(self.spare, Spare::None) {
            self.spare = Spare::Starting(Worker::start(&self.kind)?);
        }
        Ok(worker)
    }

    /// Waits until no worker is being started: starting one disturbs whatever is timed meanwhile.
    /// A spare that does not come up is no reason to stop; the next `take` tries again.
    pub fn settle(&mut self) {
        self.spare = match std::mem::replace(&mut self.spare, Spare::None) {
            Spare::Starting(starting) => match starting.greet() {
                Ok(worker) => Spare::Ready(worker),
                Err(_) => Spare::None,
            },
            other => other,
        };
    }

    /// Takes back a worker that has verified itself.
    pub fn give_back(&mut self, worker: Worker) {
        if self.keeps_workers() {
            self.ready = Some(worker);
        }
    }
}
