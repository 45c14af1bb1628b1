//! Honest kernels: configs of what ships. Hardly any may be refused.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use kiln_core::input;
use kiln_core::trial::Assignment;
use serde::Serialize;

use super::files::Bundle;
use super::{side_by_side, trial};
use crate::cli::Backend;
use crate::engine::bench::LiveBench;
use crate::engine::interrupt;
use crate::exit::Failure;
use crate::printer;
use crate::report::terminal::config_text;
use crate::rows::Rows;
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

/// Different inputs for the configs of a kernel.
const INPUTS: usize = 4;
/// Answers of the reference that serve configs with the same inputs.
const ANSWERS: usize = 96;

#[derive(Debug, Serialize)]
pub struct Row {
    kernel: &'static str,
    config: String,
    answer: String,
    words: String,
    is_refused: bool,
    seconds: f64,
}

#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub rows: Vec<Row>,
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
pub fn run(
    ground: &Ground,
    limit: Option<usize>,
    filter: &str,
    told: &Rows,
) -> Result<Findings, Failure> {
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
        match try_subject(ground, subject, count, &mut findings, told) {
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
    told: &Rows,
) -> Result<(), Failure> {
    let mut bundle = Bundle::of(subject.folder, subject.manifest)?;
    super::mutants::make_quick(&mut bundle, subject.folder)?;
    let place = format!("honest/{}", subject.folder);
    let task = bundle.task(ground, &place)?;
    let configs = spread(&task, count);
    let builds: Vec<_> = configs.iter().map(|c| task.candidate_build(c)).collect();
    ground.pool.build_all(&builds)?;
    let total = configs.len();
    printer::talk(&format!("  {total} configs of {}", subject.folder));
    let done = AtomicUsize::new(0);
    let judge = |bench: &mut LiveBench<'_>, number: usize, config: &Assignment| {
        let started = Instant::now();
        // Configs in a row share inputs, each in processes of its own, and so answers of the
        // reference.
        let inputs = number * INPUTS / total;
        let secret = trial::secret_of(&format!("honest {} {inputs}", subject.folder));
        let answer = trial::judge(&task, bench, config, secret)?;
        Ok(Row {
            kernel: subject.folder,
            config: config_text(config),
            answer: answer.name(),
            words: answer.words(),
            is_refused: answer.is_refused(),
            seconds: started.elapsed().as_secs_f64(),
        })
    };
    let decided = |row: &Row| {
        let verdict = match row.is_refused {
            true => format!("REFUSED: {}", row.words),
            false => row.words.clone(),
        };
        let number = 1 + done.fetch_add(1, Ordering::Relaxed);
        let words = format!("{number} of {total}: {}: {verdict}", row.config);
        told.decided("honest", row, &words)
    };
    let width = side_by_side::width(ground.backend, ground.side_by_side);
    let pool = &ground.pool;
    let open = || Ok(LiveBench::new(&task, pool)?.remembering(ANSWERS));
    let rows = side_by_side::each(&configs, width, open, |bench, number, config| {
        let row = judge(bench, number, config)?;
        let again = width > 1 && row.is_refused && side_by_side::rests_on_a_clock(&row.answer);
        if !again {
            decided(&row)?;
        }
        Ok((row, again))
    })?;
    for (number, (mut row, again)) in rows.into_iter().enumerate() {
        if again {
            row = judge(&mut open()?, number, &configs[number])?;
            decided(&row)?;
        }
        findings.tried += 1;
        if row.is_refused {
            let what = format!("{} {}: {}", row.kernel, row.config, row.words);
            findings.refused.push(what);
        }
        findings.rows.push(row);
    }
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
