//! The whole loop on a small kernel, with nothing compiled before: how long until a verdict?

use std::time::Instant;

use serde_json::json;

use super::ground::Ground;
use super::kernels;
use super::report::{Mark, Report};
use super::watch::{self, Watch};
use crate::cli::Backend;
use crate::engine::bench::LiveBench;
use crate::exit::Failure;

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    // A processor's clock is coarser than a GPU's, so its samples take longer; and it has other work to do.
    let (kernel, limit_seconds) = match ground.backend {
        Backend::Cuda => (kernels::HELLO, 10.0),
        Backend::Cpu => (kernels::HELLO_CPU, 120.0),
    };
    let started = Instant::now();
    let pool = ground.cold_pool("hello")?;
    let task = ground.task(&kernel, "hello", &[], &pool)?;
    let mut bench = LiveBench::new(&task, &pool)?;
    let mut watch = Watch::default();
    let study = watch::tune(ground, &task, &mut bench, &mut watch)?;
    let seconds = started.elapsed().as_secs_f64();

    let right = study.ranked().len();
    let tried = study.trials.len();
    report.number("seconds", seconds);
    let steps = watch.steps.iter().map(|(step, at)| {
        let since_start = at.duration_since(started).as_secs_f64();
        json!({ "step": step, "at_seconds": since_start })
    });
    report.number("steps", steps.collect::<Vec<_>>());
    report.number("search_seconds", watch.search_seconds());
    report.number("configs", json!({ "tried": tried, "right": right }));
    report.number("comparison", study.winner().map(|w| &w.comparison));
    let verdict = study.winner().map_or("no verdict".to_string(), |winner| {
        let comparison = &winner.comparison;
        format!("{} at {:.3}x", comparison.verdict, comparison.speedup)
    });
    report.judge(
        format!("{seconds:.1} s from nothing to a verdict: {verdict}"),
        format!("< {limit_seconds:.0} s"),
        Mark::when(seconds < limit_seconds && study.winner().is_some()),
    );
    report.judge(
        format!("{right} of {tried} configs are right"),
        "all",
        Mark::when(right == tried && tried > 0),
    );
    Ok(())
}
