//! One launch, timed right behind a burst of others: what a burst promises must hold for the first
//! launch on inputs nobody has met.

use std::time::Duration;

use cudarc::driver::sys;
use kiln_core::protocol::{Gap, RunUp};

use super::Meter;
use crate::backend::Samples;
use crate::cuda::Kept;
use crate::cuda::driver::{Driver, check};
use crate::cuda::launch::Function;
use crate::cuda::support::Support;

/// Launches before the timed one at the least: a kernel may want to see the same inputs a few
/// times before it keeps an answer.
const FEWEST_BEFORE: u32 = 8;
/// Between the last look at the buffers and the timed launch, where that is to follow closely.
const JUST_BEFORE: u32 = 2;

impl Meter {
    /// Times one launch on the first of `sets`, behind bursts of `launches` on the second, or on the
    /// first itself. The stream is held meanwhile, so that none of them waits for this process.
    pub fn behind(
        &mut self,
        function: &Function,
        support: &Support,
        sets: &mut [Kept],
        launches: u32,
        run_up: RunUp,
        poison: u64,
    ) -> Driver<Samples> {
        let (on_others, gap) = match run_up {
            RunUp::OnTheSame(gap) => (false, gap),
            RunUp::OnOthers(gap) => (true, gap),
            // A CPU's; here the nearest to it.
            RunUp::OnOriginals | RunUp::Nudged(_) => (false, Gap::Nothing),
        };
        let leader = usize::from(on_others && sets.len() > 1);
        let mut subject = sets[leader].subject(function, support);
        if !function.has_run() {
            self.run_once(&mut subject)?;
        }
        let in_a_graph = match subject.prepared.has_inout() {
            // Each launch needs its input back.
            true => 1,
            false => launches.max(1),
        };
        self.prepare_graph(&mut subject, in_a_graph)?;
        let executable = subject.executable();
        sets[0].prepared.poison(support, self.stream, poison)?;
        self.wait()?;
        support.hold(Duration::ZERO)?;
        for _ in 0..FEWEST_BEFORE.div_ceil(in_a_graph) {
            sets[leader].prepared.restore(self.stream)?;
            // SAFETY: instantiated for this context by `prepare_graph`.
            check(unsafe { sys::cuGraphLaunch(executable, self.stream) })?;
        }
        sets[0].prepared.restore(self.stream)?;
        sets[0].prepared.touch_all(support)?;
        if gap == Gap::Nothing {
            for _ in 0..JUST_BEFORE {
                sets[leader].prepared.restore(self.stream)?;
                function.launch(&mut sets[leader].prepared, self.stream)?;
            }
            sets[0].prepared.restore(self.stream)?;
        }
        self.record(self.begin)?;
        function.launch(&mut sets[0].prepared, self.stream)?;
        self.record(self.end)?;
        support.release();
        self.wait()?;
        let nanos = (self.elapsed_ns()? - self.empty_ns).max(1.0);
        Ok(Samples {
            nanos: vec![nanos as u64],
            conditions: None,
            interruptions: 0,
        })
    }
}
