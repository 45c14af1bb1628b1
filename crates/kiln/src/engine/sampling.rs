//! How many launches and samples: decided by precision and time, never by who is winning.

use std::time::{Duration, Instant};

use kiln_core::manifest::Measure;
use kiln_core::protocol::{Cores, Request, Response, SamplePlan};
use kiln_core::stats;
use kiln_core::trial::SampleStop;

use super::worker::{Worker, WorkerEnd};

/// A sample shorter than this is mostly clock and cache noise, so short kernels run in bursts.
pub const BURST_NANOS: f64 = 1e6;
const MAX_BURST: f64 = 100_000.0;
/// A burst should not keep anybody waiting longer than this, whatever part of it is timed.
const MOST_WAITED_NANOS: f64 = 50e6;
/// Warm-up before anything counts: caches, page tables, clocks.
const WARM_UP: Duration = Duration::from_millis(20);
const WARM_UP_LAUNCHES: u64 = 2;
/// Samples asked for in one request take about this long, so that stopping rules get a say.
const REQUEST_NANOS: f64 = 50e6;
/// A candidate is not cut before this many samples.
const SAMPLES_BEFORE_CUT: usize = 3;

pub struct Sampled {
    pub samples_ns: Vec<f64>,
    pub batch: u32,
    pub stop: SampleStop,
}

/// Times bursts and returns nanoseconds per launch for each.
pub fn run_bursts(
    worker: &mut Worker,
    plan: SamplePlan,
    poison: u64,
    deadline: Duration,
) -> Result<Vec<f64>, WorkerEnd> {
    match worker.request(&Request::Sample { plan, poison }, deadline)? {
        (Response::Sampled { nanos }, _) if nanos.len() == plan.bursts as usize => Ok(nanos
            .iter()
            .map(|total| (*total).max(1) as f64 / f64::from(plan.launches.max(1)))
            .collect()),
        (other, _) => Err(WorkerEnd::Garbled(format!(
            "unexpected answer {other:?} to a sample"
        ))),
    }
}

/// Warms an image up and finds out what makes one sample.
pub fn warm_up(
    worker: &mut Worker,
    cores: Cores,
    poison: u64,
    deadline: Duration,
) -> Result<SamplePlan, WorkerEnd> {
    let started = Instant::now();
    let mut plan = SamplePlan {
        launches: 1,
        bursts: 1,
        warm_nanos: 0,
        cores,
    };
    let mut rounds = 0;
    loop {
        let asked = Instant::now();
        let per_launch = run_bursts(worker, plan, poison.wrapping_add(rounds), deadline)?[0];
        // Restoring inout buffers takes time that is not measured but has to be waited for.
        let waited_per_launch = asked.elapsed().as_nanos() as f64 / f64::from(plan.launches);
        rounds += 1;
        plan.launches = (BURST_NANOS / per_launch)
            .min(MOST_WAITED_NANOS / waited_per_launch)
            .ceil()
            .clamp(1.0, MAX_BURST) as u32;
        plan.warm_nanos = warm_nanos(per_launch);
        if rounds >= WARM_UP_LAUNCHES && started.elapsed() >= WARM_UP {
            return Ok(plan);
        }
    }
}

/// How long to warm up before each sample. Bursts of short launches are soon warm. Launches of
/// some milliseconds often start threads, and a core that slept meanwhile takes a few launches to
/// be used again: attention on two threads then took 6.6 ms instead of 3.8. For long launches a
/// cold start is a small part of a sample.
fn warm_nanos(per_launch: f64) -> u64 {
    const LONG_LAUNCH_NANOS: f64 = 20e6;
    if per_launch < BURST_NANOS {
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
    cores: Cores,
    measure: &Measure,
    best_ns: Option<f64>,
    poison_seed: u64,
    deadline: Duration,
    mut verify: impl FnMut(&mut Worker, u64) -> Result<(), E>,
) -> Result<Sampled, E> {
    let mut poison = poison_seed;
    let mut plan = warm_up(worker, cores, poison, deadline)?;
    let mut samples_ns: Vec<f64> = Vec::new();
    let started = Instant::now();
    loop {
        let per_launch = samples_ns.last().copied().unwrap_or(REQUEST_NANOS);
        let per_sample = per_launch * f64::from(plan.launches);
        let room = measure.max_samples as usize - samples_ns.len();
        plan.bursts = (REQUEST_NANOS / per_sample).clamp(1.0, room as f64) as u32;
        poison = poison.wrapping_add(1);
        samples_ns.extend(run_bursts(worker, plan, poison, deadline)?);
        verify(worker, poison)?;
        let elapsed = started.elapsed().as_secs_f64();
        if let Some(stop) = stop_reason(&samples_ns, measure, best_ns, elapsed) {
            return Ok(Sampled {
                samples_ns,
                batch: plan.launches,
                stop,
            });
        }
    }
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
