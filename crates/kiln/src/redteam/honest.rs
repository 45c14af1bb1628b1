//! Honest kernels: configs of what ships. Hardly any may be refused.

use std::collections::BTreeSet;

use kiln_core::input;
use kiln_core::trial::Assignment;
use serde::Serialize;

use super::files::Bundle;
use super::trial;
use crate::cli::Backend;
use crate::engine::bench::{Bench, LiveBench};
use crate::engine::{interrupt, interrupted};
use crate::exit::Failure;
use crate::printer;
use crate::report::terminal::config_text;
use crate::selftest::Ground;
use crate::task::Task;

/// A kernel that ships, and how many of its configs are tried.
struct Subject {
    folder: &'static str,
    manifest: &'static str,
    configs: usize,
}

const fn subject(folder: &'static str, manifest: &'static str, configs: usize) -> Subject {
    Subject {
        folder,
        manifest,
        configs,
    }
}

const CPU: &[Subject] = &[
    subject("kernels/attention_cpu", "kiln.toml", 80),
    subject("kernels/matmul_cpu", "kiln.toml", 70),
    subject("kernels/vector_add", "kiln.toml", 40),
    subject("redteam/tasks/softmax", "kiln.toml", 4),
    subject("redteam/tasks/matmul", "kiln.toml", 4),
    subject("redteam/tasks/layernorm", "kiln.toml", 4),
    subject("redteam/tasks/mean", "kiln.toml", 4),
];

const CUDA: &[Subject] = &[
    subject("kernels/matmul", "kiln.kernel.toml", 120),
    subject("kernels/vector_add", "kiln.cuda.toml", 40),
    subject("kernels/attention", "kiln.toml", 40),
    subject("redteam/tasks/softmax", "kiln.cuda.toml", 4),
    subject("redteam/tasks/matmul", "kiln.cuda.toml", 4),
    subject("redteam/tasks/layernorm", "kiln.cuda.toml", 4),
    subject("redteam/tasks/mean", "kiln.cuda.toml", 4),
];

#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub tried: usize,
    /// Kernel, config and what was said.
    pub refused: Vec<String>,
    /// Kernels that could not be tried here, and why.
    pub skipped: Vec<String>,
}

impl Findings {
    pub fn summary(&self) -> String {
        let mut lines = vec![format!(
            "{} of {} honest configs refused",
            self.refused.len(),
            self.tried
        )];
        lines.extend(self.refused.iter().map(|r| format!("  {r}")));
        lines.extend(self.skipped.iter().map(|s| format!("skipped: {s}")));
        lines.join("\n")
    }
}

/// Tries configs spread over the spaces of all kernels, `limit` in all.
pub fn run(ground: &Ground, limit: Option<usize>, filter: &str) -> Result<Findings, Failure> {
    let subjects = match ground.backend {
        Backend::Cpu => CPU,
        Backend::Cuda => CUDA,
    };
    let wanted: Vec<&Subject> = subjects
        .iter()
        .filter(|s| s.folder.contains(filter))
        .collect();
    let all: usize = wanted.iter().map(|s| s.configs).sum();
    let share = limit.map_or(1.0, |limit| limit as f64 / all.max(1) as f64);
    let mut findings = Findings::default();
    for subject in wanted {
        let count = (subject.configs as f64 * share).ceil() as usize;
        match try_subject(ground, subject, count, &mut findings) {
            Ok(()) => {}
            // A reference in Python may have no array library here.
            Err(failure) if ground.backend == Backend::Cuda && !interrupt::asked() => findings
                .skipped
                .push(format!("{}: {}", subject.folder, failure.message)),
            Err(failure) => return Err(failure),
        }
    }
    Ok(findings)
}

fn try_subject(
    ground: &Ground,
    subject: &Subject,
    count: usize,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let mut bundle = Bundle::of(subject.folder, subject.manifest)?;
    super::mutants::make_quick(&mut bundle);
    let place = format!("honest/{}", subject.folder);
    let task = bundle.task(ground, &place)?;
    let configs = spread(&task, count);
    let builds: Vec<_> = configs.iter().map(|c| task.candidate_build(c)).collect();
    ground.pool.build_all(&builds)?;
    let mut bench = LiveBench::new(&task, &ground.pool)?;
    printer::talk(&format!(
        "  {} configs of {}",
        configs.len(),
        subject.folder
    ));
    for (number, config) in configs.iter().enumerate() {
        if interrupt::asked() {
            return Err(interrupted());
        }
        let secret = trial::secret_of(&format!("honest {} {number}", subject.folder));
        let answer = trial::judge(&task, &mut bench, config, secret)?;
        findings.tried += 1;
        if answer.is_refused() {
            findings.refused.push(format!(
                "{} {}: {}",
                subject.folder,
                config_text(config),
                answer.words()
            ));
        }
    }
    bench.cancel();
    Ok(())
}

/// Different configs from all over the space, the same ones each time.
pub fn spread(task: &Task, count: usize) -> Vec<Assignment> {
    const DRAW: u64 = 5;
    let total = task.space.count().unwrap_or(0);
    let mut places = BTreeSet::new();
    let mut draws = 0;
    while (places.len() as u128) < total.min(count as u128) {
        places.insert(u128::from(input::mix(&[DRAW, draws])) % total);
        draws += 1;
    }
    let configs = places.into_iter().filter_map(|i| task.space.config(i));
    configs.map(|c| task.space.assignment(&c)).collect()
}
