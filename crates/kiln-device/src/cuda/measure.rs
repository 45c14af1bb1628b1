//! Timing on a GPU: events around bursts, with the stream held until everything is queued.
//!
//! Warm: a burst is a CUDA graph of launches, back to back, as in a program that runs the kernel
//! again and again. Cold: the L2 cache is flushed before each launch, and each is timed by itself.
//! The time between two events with nothing in between is measured and taken off.

mod run_up;

use std::time::{Duration, Instant};

use cudarc::driver::sys;
use kiln_core::input;
use kiln_core::protocol::{Caches, Conditions, SamplePlan};

use super::arguments::Prepared;
use super::clocks::Clocks;
use super::driver::{Driver, check};
use super::launch::Function;
use super::support::Support;
use crate::backend::Samples;

/// The energy counter ticks slowly, so a reading takes this long.
const ENERGY_TIME: Duration = Duration::from_millis(500);
/// Samples taken again before a slowed-down device is accepted as it is.
const MOST_DISCARDED: u32 = 20;
/// A device that stood still before a burst is slower at its beginning, up to a pause of about this
/// long (on an H200, by 6 us of 300 us). A baseline in Python cannot be queued in less.
const PAUSE_BEFORE_BURST: Duration = Duration::from_micros(100);

pub struct Meter {
    stream: sys::CUstream,
    begin: sys::CUevent,
    end: sys::CUevent,
    clocks: Clocks,
    /// Written to push everything else out of the L2 cache.
    flush: sys::CUdeviceptr,
    flush_bytes: usize,
    flushes: u32,
    /// Nanoseconds between two events with nothing in between.
    empty_ns: f64,
}

/// A burst ready to be launched again.
pub struct Graph {
    executable: sys::CUgraphExec,
    pub launches: u32,
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any more; the stream was waited for.
        let _ = unsafe { sys::cuGraphExecDestroy(self.executable) };
    }
}

pub struct Subject<'a> {
    pub function: &'a Function,
    pub prepared: &'a mut Prepared,
    pub graph: &'a mut Option<Graph>,
    pub support: &'a Support,
}

impl Subject<'_> {
    /// Of the graph that was prepared last.
    fn executable(&self) -> sys::CUgraphExec {
        let graph = self.graph.as_ref();
        graph.map_or(std::ptr::null_mut(), |g| g.executable)
    }
}

impl Meter {
    pub fn new(
        stream: sys::CUstream,
        support: &Support,
        clocks: Clocks,
        l2_bytes: u64,
    ) -> Driver<Meter> {
        let event = || {
            let mut event = std::ptr::null_mut();
            // SAFETY: writes one handle.
            check(unsafe { sys::cuEventCreate(&mut event, 0) })?;
            Ok(event)
        };
        let flush_bytes = (2 * l2_bytes as usize).next_multiple_of(4);
        let mut flush = 0;
        // SAFETY: plain allocation, kept as long as the process.
        check(unsafe { sys::cuMemAlloc_v2(&mut flush, flush_bytes.max(4)) })?;
        let mut meter = Meter {
            stream,
            begin: event()?,
            end: event()?,
            clocks,
            flush,
            flush_bytes,
            flushes: 0,
            empty_ns: 0.0,
        };
        meter.empty_ns = meter.measure_empty(support)?;
        Ok(meter)
    }

    fn measure_empty(&self, support: &Support) -> Driver<f64> {
        const PAIRS: usize = 31;
        let mut pairs = Vec::with_capacity(PAIRS);
        for _ in 0..PAIRS {
            support.hold(Duration::ZERO)?;
            self.record(self.begin)?;
            self.record(self.end)?;
            support.release();
            self.wait()?;
            pairs.push(self.elapsed_ns()?);
        }
        pairs.sort_by(f64::total_cmp);
        Ok(pairs[PAIRS / 2])
    }

    fn record(&self, event: sys::CUevent) -> Driver<()> {
        // SAFETY: a live event and stream of this context.
        check(unsafe { sys::cuEventRecord(event, self.stream) })
    }

    pub fn wait(&self) -> Driver<()> {
        // SAFETY: a live stream of this context.
        check(unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    fn elapsed_ns(&self) -> Driver<f64> {
        let mut ms = 0.0f32;
        // SAFETY: both events were recorded and waited for.
        check(unsafe { sys::cuEventElapsedTime(&mut ms, self.begin, self.end) })?;
        Ok(f64::from(ms) * 1e6)
    }

    /// One launch, waited for; how long the device worked on it.
    pub fn run_once(&self, subject: &mut Subject<'_>) -> Driver<f64> {
        self.record(self.begin)?;
        subject.function.launch(subject.prepared, self.stream)?;
        self.record(self.end)?;
        self.wait()?;
        self.elapsed_ns()
    }

    /// Runs a plan. Before each burst the outputs are poisoned anew; `poison` is what they held
    /// before the last one.
    pub fn sample(
        &mut self,
        subject: &mut Subject<'_>,
        plan: &SamplePlan,
        poison: u64,
    ) -> Driver<Samples> {
        let mut nanos = Vec::with_capacity(plan.bursts as usize);
        let mut conditions = Conditions::default();
        // Loading code lazily behind a held stream would never end.
        if !subject.function.has_run() {
            self.run_once(subject)?;
        }
        // Everything that does not need these inputs comes first: the first launch that meets new
        // inputs and poisoned outputs is a timed one.
        let together = plan.caches == Caches::Warm && !subject.prepared.has_inout();
        self.prepare_graph(subject, if together { plan.launches } else { 1 })?;
        while nanos.len() < plan.bursts as usize {
            let left = plan.bursts as u64 - nanos.len() as u64;
            let seed = match left {
                1 => poison,
                _ => input::mix(&[poison, left, u64::from(conditions.discarded)]),
            };
            if !plan.keep_outputs {
                subject
                    .prepared
                    .poison(subject.support, self.stream, seed)?;
            }
            let total = match together {
                true => {
                    // By kiln's own kernel: a launch of the candidate would leave it right outputs.
                    subject.prepared.touch_inputs(subject.support)?;
                    self.warm_burst(subject)?
                }
                false => self.single_launches(subject, plan.launches, plan.caches)?,
            };
            let reading = self.clocks.read();
            conditions.throttle |= reading.throttle;
            if reading.is_slowed() && conditions.discarded < MOST_DISCARDED {
                conditions.discarded += 1;
                continue;
            }
            conditions.clocks_mhz.extend(reading.clock_mhz);
            nanos.push(total.max(1.0) as u64);
        }
        conditions.temperature_c = self.clocks.temperature_c();
        if plan.energy {
            conditions.energy_mj = self.energy(subject, plan.launches)?;
        }
        Ok(Samples {
            nanos,
            conditions: Some(conditions),
            interruptions: 0,
        })
    }

    fn warm_burst(&self, subject: &mut Subject<'_>) -> Driver<f64> {
        let executable = subject.executable();
        subject.support.hold(PAUSE_BEFORE_BURST)?;
        self.record(self.begin)?;
        // SAFETY: instantiated for this context by `prepare_graph`.
        check(unsafe { sys::cuGraphLaunch(executable, self.stream) })?;
        self.record(self.end)?;
        subject.support.release();
        self.wait()?;
        Ok(self.elapsed_ns()? - self.empty_ns)
    }

    fn prepare_graph(&self, subject: &mut Subject<'_>, launches: u32) -> Driver<()> {
        if subject
            .graph
            .as_ref()
            .is_some_and(|g| g.launches == launches)
        {
            return Ok(());
        }
        *subject.graph = None;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: a stream of this context with nothing under way.
        check(unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode) })?;
        let mut launched = Ok(());
        for _ in 0..launches {
            launched = subject.function.launch(subject.prepared, self.stream);
            if launched.is_err() {
                break;
            }
        }
        let mut graph = std::ptr::null_mut();
        // SAFETY: ends the capture begun above, also after a failed launch.
        let ended = check(unsafe { sys::cuStreamEndCapture(self.stream, &mut graph) });
        launched?;
        ended?;
        let mut executable = std::ptr::null_mut();
        // SAFETY: a graph captured above; the executable does not need it afterwards.
        let made = check(unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) });
        // SAFETY: used nowhere else.
        let _ = unsafe { sys::cuGraphDestroy(graph) };
        made?;
        *subject.graph = Some(Graph {
            executable,
            launches,
        });
        // Otherwise the first launch would, while it is timed.
        // SAFETY: as above; nothing is run.
        check(unsafe { sys::cuGraphUpload(executable, self.stream) })?;
        self.wait()
    }

    /// Launches timed one by one: after a flush, or because each needs its input back first.
    fn single_launches(
        &mut self,
        subject: &mut Subject<'_>,
        launches: u32,
        caches: Caches,
    ) -> Driver<f64> {
        let mut total = 0.0;
        // A graph of one, for a baseline of several launches has to be a graph.
        let executable = subject.executable();
        for _ in 0..launches {
            subject.support.hold(Duration::ZERO)?;
            subject.prepared.restore(self.stream)?;
            if caches == Caches::Cold {
                self.flush()?;
            }
            self.record(self.begin)?;
            // SAFETY: instantiated for this context by `prepare_graph`.
            check(unsafe { sys::cuGraphLaunch(executable, self.stream) })?;
            self.record(self.end)?;
            subject.support.release();
            self.wait()?;
            total += self.elapsed_ns()? - self.empty_ns;
        }
        Ok(total)
    }

    fn flush(&mut self) -> Driver<()> {
        self.flushes = self.flushes.wrapping_add(1);
        // SAFETY: no arguments; devices without such lines do nothing.
        let _ = unsafe { sys::cuCtxResetPersistingL2Cache() };
        // SAFETY: the buffer has that many words.
        check(unsafe {
            sys::cuMemsetD32Async(self.flush, self.flushes, self.flush_bytes / 4, self.stream)
        })
    }

    /// Millijoules of one launch, over many.
    fn energy(&mut self, subject: &mut Subject<'_>, launches: u32) -> Driver<Option<f64>> {
        // A kernel that updates its input would run on anything but its input.
        if subject.prepared.has_inout() {
            return Ok(None);
        }
        let Some(before) = self.clocks.energy_mj() else {
            return Ok(None);
        };
        let started = Instant::now();
        let mut done = 0u64;
        while started.elapsed() < ENERGY_TIME {
            for _ in 0..launches.max(1) {
                subject.function.launch(subject.prepared, self.stream)?;
            }
            self.wait()?;
            done += u64::from(launches.max(1));
        }
        let after = self.clocks.energy_mj();
        Ok(after.map(|after| after.saturating_sub(before) as f64 / done as f64))
    }
}
