//! Ten kernels from a few microseconds to milliseconds, timed by kiln and by PyTorch in turn.
//!
//! Both launch the very same image from a CUDA graph, warm. PyTorch's process stays alive while
//! kiln measures and the other way round; neither does anything meanwhile.

use kiln_core::stats;
use kiln_core::units::human_ns;
use serde_json::json;

use super::aa::subjects::{COMPUTE_N, timing};
use super::configs;
use super::ground::Ground;
use super::kernels::{self, Edit};
use super::report::{Mark, Report};
use super::torch::{Job, Torch};
use crate::engine::bench::{Bench, LiveBench};
use crate::exit::{Exit, Failure};

const ROUNDS: usize = 3;
const LIMIT: f64 = 0.02;

/// Kernel, elements, repeats. The copy's 192 MiB fit no cache.
const SUBJECTS: [(&str, u64, u64); 10] = [
    ("compute", COMPUTE_N, 300),
    ("compute", COMPUTE_N, 2_300),
    ("compute", COMPUTE_N, 7_000),
    ("compute", COMPUTE_N, 23_000),
    ("compute", COMPUTE_N, 230_000),
    ("compute", COMPUTE_N, 700_000),
    ("l2", 1 << 22, 3),
    ("l2", 1 << 22, 30),
    ("l2", 1 << 22, 300),
    ("copy", 1 << 24, 1),
];

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    let mut torch = match Torch::start()? {
        Ok(torch) => torch,
        Err(reason) => {
            report.skip("kiln's times against PyTorch's", reason);
            return Ok(());
        }
    };
    report.row(&format!("against PyTorch {}", torch.version));
    report.number("torch", &torch.version);
    let (mut within, mut worst) = (0, 0.0f64);
    for (entry, n, repeats) in SUBJECTS {
        let difference = compare(ground, report, &mut torch, entry, n, repeats)?;
        within += usize::from(difference.abs() <= LIMIT);
        worst = if difference.abs() > worst.abs() {
            difference
        } else {
            worst
        };
    }
    report.number("worst_difference", worst);
    report.judge(
        format!(
            "{within} of {} kernels timed as PyTorch times them, worst {:+.2} %",
            SUBJECTS.len(),
            100.0 * worst
        ),
        format!("each within {:.0} %", 100.0 * LIMIT),
        Mark::when(within == SUBJECTS.len()),
    );
    Ok(())
}

/// As many samples as PyTorch takes.
fn edits(entry: &str, n: u64, repeats: u64) -> Vec<Edit<'static>> {
    let mut edits = timing(entry, n, repeats);
    edits.push((
        "[budget]",
        "[measure]\nmin_samples = 15\n\n[budget]".to_string(),
    ));
    edits
}

/// How much longer kiln's time is than PyTorch's, as a part of it.
fn compare(
    ground: &Ground,
    report: &mut Report,
    torch: &mut Torch,
    entry: &str,
    n: u64,
    repeats: u64,
) -> Result<f64, Failure> {
    let edits = edits(entry, n, repeats);
    let place = format!("timing-{entry}-{repeats}");
    let task = ground.task(&kernels::TIMING, &place, &edits, &ground.pool)?;
    let config = configs::with(&task, &[])?;
    let contender = configs::contender(&task, &ground.pool, &config)?;
    let problem = contender.problem(&task, task.manifest().target(), 1)?;
    let job = Job::new(&contender.program, &problem)?;
    let mut bench = LiveBench::new(&task, &ground.pool)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        theirs.push(torch.time(&job)?);
        let build = bench.submit(std::slice::from_ref(&config)).start;
        let seeds = configs::seeds(&task, round as u64);
        let outcome = bench.run(build, &config, seeds, None)?.outcome;
        let ns = outcome
            .median_ns()
            .ok_or_else(|| Failure::new(Exit::No, format!("{entry} r={repeats}: {outcome}")))?;
        ours.push(ns);
    }
    let (kiln_ns, torch_ns) = (stats::median(&ours), stats::median(&theirs));
    let difference = kiln_ns / torch_ns - 1.0;
    report.row(&format!(
        "{:24} kiln {:>9}, PyTorch {:>9}: {:+.2} %",
        format!("{entry} n={n} r={repeats}"),
        human_ns(kiln_ns),
        human_ns(torch_ns),
        100.0 * difference
    ));
    report.item(
        "kernels",
        json!({
            "kernel": entry, "n": n, "repeats": repeats,
            "kiln_ns": ours, "torch_ns": theirs, "difference": difference,
        }),
    );
    Ok(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_has_a_manifest() {
        for (entry, n, repeats) in SUBJECTS {
            let text = kernels::TIMING.manifest_with(&edits(entry, n, repeats));
            let text = text.expect("edits fit");
            let manifest = kiln_core::manifest::Manifest::parse(&text).expect("a valid manifest");
            assert_eq!(manifest.kernel.entry.value, format!("timing_{entry}"));
            assert_eq!(manifest.target().dimensions[0].1, n as i64);
        }
    }
}
