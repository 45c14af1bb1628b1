//! Seventy-two configs of attention from nothing: compiled, checked on three shapes, timed.

use std::time::Instant;

use serde_json::json;

use super::ground::Ground;
use super::kernels::{self, Edit};
use super::report::{Mark, Report};
use super::watch::{self, Watch};
use crate::engine::bench::{Bench, LiveBench};
use crate::exit::Failure;

/// Kernel Tuner with its check on, on the same kind of work.
const FIELD_PER_MINUTE: f64 = 30.0;
const LEAST_PER_MINUTE: f64 = 305.0;

/// The winner is not the question here.
fn edits() -> [Edit<'static>; 1] {
    let confirm = "[confirm]\nfinalists = 1\nrounds = 1\nsamples = 10\n";
    [("[budget]", format!("{confirm}\n[budget]"))]
}

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    let started = Instant::now();
    let pool = ground.cold_pool("throughput")?;
    let task = ground.task(&kernels::ANCHOR, "throughput", &edits(), &pool)?;
    let mut bench = LiveBench::new(&task, &pool)?;
    let mut watch = Watch::default();
    let study = watch::tune(ground, &task, &mut bench, &mut watch)?;
    let until = watch.search_ended.unwrap_or_else(Instant::now);
    let from_nothing = (until - started).as_secs_f64();

    let timings = bench.timings();
    let seconds = watch.search_seconds().max(1e-9);
    let (tried, right) = (study.trials.len(), study.ranked().len());
    let per_minute = tried as f64 / seconds * 60.0;
    let share = |part: std::time::Duration| part.as_secs_f64() / seconds;
    let idle = 1.0 - share(timings.on_device);
    report.row(&format!(
        "{tried} configs in {seconds:.1} s of search, {from_nothing:.1} s from nothing to the end of it \
         ({:.0} per minute)",
        tried as f64 / from_nothing * 60.0
    ));
    report.row(&format!(
        "GPU idle {:.0} %, waiting for compilers {:.0} % ({:.1} s of compiling by {} compilers), \
         in the reference {:.0} %, checking and timing {:.0} %",
        100.0 * idle,
        100.0 * share(timings.waiting_for_compilers),
        timings.compiling.as_secs_f64(),
        ground.jobs,
        100.0 * share(timings.reference),
        100.0 * share(timings.running),
    ));
    report.number("per_minute", per_minute);
    report.number("field_per_minute", FIELD_PER_MINUTE);
    report.number("search_seconds", seconds);
    report.number("seconds_from_nothing", from_nothing);
    report.number("idle_share", idle);
    report.number(
        "waiting_for_compilers_share",
        share(timings.waiting_for_compilers),
    );
    report.number("reference_share", share(timings.reference));
    report.number("running_share", share(timings.running));
    report.number("compiling_seconds", timings.compiling.as_secs_f64());
    report.number("compilers", ground.jobs);
    report.number("outcomes", study.outcomes());
    report.number("configs", json!({ "tried": tried, "right": right }));
    report.judge(
        format!(
            "{per_minute:.0} configs per minute, checked, nothing cached; GPU idle {:.0} % \
             (Kernel Tuner with its check: {FIELD_PER_MINUTE:.0})",
            100.0 * idle
        ),
        format!(">= {LEAST_PER_MINUTE:.0}"),
        Mark::when(per_minute >= LEAST_PER_MINUTE),
    );
    report.judge(
        format!("{right} of {tried} configs are right"),
        "all 72",
        Mark::when(right == 72 && tried == 72),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_its_configs_are_tried() {
        let text = kernels::ANCHOR.manifest_with(&edits());
        let text = text.expect("edits fit");
        let manifest = kiln_core::manifest::Manifest::parse(&text).expect("a valid manifest");
        assert_eq!(manifest.budget.trials, 72);
        assert_eq!(manifest.confirm.finalists, 1);
    }
}
