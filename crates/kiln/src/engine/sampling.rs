//! How many launches and samples: decided by precision and time, never by who is winning.

use std::time::{Duration, Instant};

use kiln_core::manifest::Measure;
use kiln_core::protocol::{Caches, Conditions, Cores, Request, Response, RunUp, SamplePlan};
use kiln_core::stats;
use kiln_core::trial::SampleStop;

use super::worker::{Worker, WorkerEnd};

/// How samples are taken on one kind of device.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub cores: Cores,
    pub caches: Caches,
    pub on_gpu: bool,
}

impl Style {
    /// A sample shorter than this is mostly clock and cache noise, so short kernels run in bursts.
    /// A GPU's events are finer than a host's clock, and nothing else runs there.
    pub fn burst_nanos(self) -> f64 {
        if self.on_gpu { 300e3 } else { 1e6 }
    }

    /// Warm-up before anything counts: caches, page tables, clocks.
    fn warm_up(self) -> Duration {
        Duration::from_millis(if self.on_gpu { 4 } else { 20 })
    }

    fn one_launch(self) -> SamplePlan {
        SamplePlan {
            launches: 1,
            bursts: 1,
            warm_nanos: 0,
            cores: self.cores,
            caches: self.caches,
            energy: false,
            keep_outputs: false,
            run_up: None,
        }
    }
}

const MAX_BURST: f64 = 100_000.0;
/// A CUDA graph of more nodes takes longer to build than it saves.
const MAX_GRAPH: f64 = 512.0;
/// A burst should not keep anybody waiting longer than this, whatever part of it is timed.
const MOST_WAITED_NANOS: f64 = 50e6;
const WARM_UP_LAUNCHES: u64 = 2;
/// Samples asked for in one request take about this long, so that stopping rules get a say.
const REQUEST_NANOS: f64 = 50e6;
/// A candidate is not cut before this many samples.
const SAMPLES_BEFORE_CUT: usize = 3;

pub struct Sampled {
    pub samples_ns: Vec<f64>,
    pub batch: u32,
    pub stop: SampleStop,
    pub conditions: Option<Conditions>,
}

/// Bursts that were timed.
pub struct Bursts {
    /// Of each, per launch.
    pub nanos: Vec<f64>,
    pub conditions: Option<Conditions>,
    /// How often other programs took a core from them.
    pub interruptions: u64,
}

pub fn run_bursts(
    worker: &mut Worker,
    plan: SamplePlan,
    poison: u64,
    deadline: Duration,
) -> Result<Bursts, WorkerEnd> {
    match worker.request(&Request::Sample { plan, poison }, deadline)? {
        (
            Response::Sampled {
                nanos,
                conditions,
                interruptions,
            },
            _,
        ) if nanos.len() == plan.bursts as usize => {
            let per_launch = |total: &u64| (*total).max(1) as f64 / f64::from(plan.launches.max(1));
            Ok(Bursts {
                nanos: nanos.iter().map(per_launch).collect(),
                conditions,
                interruptions,
            })
        }
        (other, _) => Err(WorkerEnd::misplaced(&other, "for samples")),
    }
}

/// One launch, by the clock.
#[derive(Clone, Copy)]
pub struct Launch {
    pub nanos: f64,
    /// Other programs took a core from it, or from the launches right before it.
    pub interrupted: bool,
}

fn one_launch(
    worker: &mut Worker,
    plan: SamplePlan,
    poison: u64,
    deadline: Duration,
) -> Result<Launch, WorkerEnd> {
    let request = Request::Sample { plan, poison };
    match worker.request(&request, deadline)? {
        (
            Response::Sampled {
                nanos,
                interruptions,
                ..
            },
            _,
        ) if nanos.len() == 1 => Ok(Launch {
            nanos: nanos[0].max(1) as f64,
            interrupted: interruptions > 0,
        }),
        (other, _) => Err(WorkerEnd::misplaced(&other, "for a launch")),
    }
}

/// One launch on what is prepared, right behind others.
pub fn launch_behind(
    worker: &mut Worker,
    plan: SamplePlan,
    run_up: RunUp,
    poison: u64,
    deadline: Duration,
) -> Result<Launch, WorkerEnd> {
    /// On a CPU; on a GPU the bursts of the plan run ahead.
    const LEAD_NANOS: u64 = 2_000_000;
    let plan = SamplePlan {
        bursts: 1,
        warm_nanos: LEAD_NANOS,
        run_up: Some(run_up),
        ..plan
    };
    one_launch(worker, plan, poison, deadline)
}

/// One launch by itself, on whatever is prepared.
pub fn single_launch(
    worker: &mut Worker,
    style: Style,
    poison: u64,
    deadline: Duration,
) -> Result<Launch, WorkerEnd> {
    one_launch(worker, style.one_launch(), poison, deadline)
}

/// Warms an image up and finds out what makes one sample, and how long one launch takes.
pub fn warm_up(
    worker: &mut Worker,
    style: Style,
    poison: u64,
    deadline: Duration,
) -> Result<(SamplePlan, f64), WorkerEnd> {
    let started = Instant::now();
    let mut plan = style.one_launch();
    let mut rounds = 0;
    loop {
        let asked = Instant::now();
        let seed = poison.wrapping_add(rounds);
        let per_launch = run_bursts(worker, plan, seed, deadline)?.nanos[0];
        // Restoring inout buffers takes time that is not measured but has to be waited for.
        let waited_per_launch = asked.elapsed().as_nanos() as f64 / f64::from(plan.launches);
        rounds += 1;
        let most = match (style.on_gpu, style.caches) {
            // Flushed before every launch: no bursts.
            (true, Caches::Cold) => 1.0,
            (true, Caches::Warm) => MAX_GRAPH,
            (false, _) => (MOST_WAITED_NANOS / waited_per_launch).clamp(1.0, MAX_BURST),
        };
        plan.launches = (style.burst_nanos() / per_launch).ceil().clamp(1.0, most) as u32;
        plan.warm_nanos = match style.on_gpu {
            true => 0,
            false => warm_nanos(per_launch),
        };
        if rounds >= WARM_UP_LAUNCHES && started.elapsed() >= style.warm_up() {
            return Ok((plan, per_launch));
        }
    }
}

/// How long to warm up before each sample. Bursts of short launches are soon warm. Launches of
/// some milliseconds often start threads, and a core that slept meanwhile takes a few launches to
/// be used again: attention on two threads then took 6.6 ms instead of 3.8. For long launches a
/// cold start is a small part of a sample.
fn warm_nanos(per_launch: f64) -> u64 {
    const SHORT_LAUNCH_NANOS: f64 = 1e6;
    const LONG_LAUNCH_NANOS: f64 = 20e6;
    if per_launch < SHORT_LAUNCH_NANOS {
        1_000_000
    } else if per_launch < LONG_LAUNCH_NANOS {
        10_000_000
    } else {
        0
    }
}

/// Samples one image until the median is known well enough, time runs out, or it is clearly
/// slower than `best_ns`. `verify` looks at what the timed launches wrote, given the poison that
/// was there before.
pub fn sample<E: From<WorkerEnd>>(
    worker: &mut Worker,
    style: Style,
    measure: &Measure,
    best_ns: Option<f64>,
    poison_seed: u64,
    deadline: Duration,
    mut verify: impl FnMut(&mut Worker, u64) -> Result<(), E>,
) -> Result<Sampled, E> {
    let mut poison = poison_seed;
    let (mut plan, per_launch) = warm_up(worker, style, poison, deadline)?;
    let per_sample = per_launch * f64::from(plan.launches);
    let mut samples_ns: Vec<f64> = Vec::new();
    let mut conditions = None;
    let started = Instant::now();
    loop {
        let room = match samples_ns.len() {
            // On a CPU one burst by itself first: what a kernel does behind the clock may be done by
            // the next burst.
            0 if !style.on_gpu => 1,
            0 => measure.min_samples as usize,
            taken => measure.max_samples as usize - taken,
        };
        plan.bursts = (REQUEST_NANOS / per_sample).clamp(1.0, room.max(1) as f64) as u32;
        poison = poison.wrapping_add(1);
        let taken = run_bursts(worker, plan, poison, deadline)?;
        samples_ns.extend(taken.nanos);
        conditions = merge(conditions, taken.conditions);
        verify(worker, poison)?;
        let elapsed = started.elapsed().as_secs_f64();
        if let Some(stop) = stop_reason(&samples_ns, measure, best_ns, elapsed) {
            return Ok(Sampled {
                samples_ns,
                batch: plan.launches,
                stop,
                conditions,
            });
        }
    }
}

pub fn merge(earlier: Option<Conditions>, later: Option<Conditions>) -> Option<Conditions> {
    let (Some(earlier), Some(later)) = (&earlier, &later) else {
        return later.or(earlier);
    };
    Some(Conditions {
        clocks_mhz: [&earlier.clocks_mhz[..], &later.clocks_mhz].concat(),
        throttle: earlier.throttle | later.throttle,
        temperature_c: later.temperature_c.max(earlier.temperature_c),
        discarded: earlier.discarded + later.discarded,
        energy_mj: later.energy_mj.or(earlier.energy_mj),
    })
}

fn stop_reason(
    samples: &[f64],
    measure: &Measure,
    best_ns: Option<f64>,
    elapsed_seconds: f64,
) -> Option<SampleStop> {
    let fastest = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let hopeless = best_ns.is_some_and(|best| fastest > best * measure.cut_ratio);
    if samples.len() >= SAMPLES_BEFORE_CUT && hopeless {
        return Some(SampleStop::Cut);
    }
    if samples.len() >= measure.max_samples as usize {
        return Some(SampleStop::MaxSamples);
    }
    if samples.len() >= measure.min_samples as usize {
        let interval = stats::median_interval_by_rank(samples, 0.95);
        let half_width = (interval.high - interval.low) / 2.0;
        if half_width <= measure.precision * stats::median(samples) {
            return Some(SampleStop::Precise);
        }
    }
    (elapsed_seconds >= measure.max_seconds && samples.len() >= SAMPLES_BEFORE_CUT)
        .then_some(SampleStop::MaxSeconds)
}
