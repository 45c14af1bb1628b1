//! A strategy against a recording: looking a config up is the measurement, so that thousands of
//! searches cost seconds and no device.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kiln_core::input;
use kiln_core::interchange::{FailureKind, Record, RecordedOutcome, Table};
use kiln_core::search::{self, Setup, Strategy, UnknownStrategy};
use kiln_core::space::{Config, Space};
use kiln_core::trial::{
    CompileFailure, Crash, CrashCause, Measurement, Outcome, Phase, SampleStop,
};

use crate::engine::earlier::{LISTENER, config_here};

mod chance;
mod summary;

pub use chance::Chance;
pub use summary::Summary;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    pub trials: usize,
    /// Configs asked for together, before any of them is told.
    pub batch: usize,
    /// Recorded seconds of compiling and measuring after which a search ends.
    pub seconds: Option<f64>,
    /// Size of the design that strategies begin with.
    pub seed_trials: usize,
    pub repeats: usize,
    pub seed: u64,
}

/// One search.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The best time in milliseconds after each trial; infinite while nothing has worked.
    pub best_ms: Vec<f64>,
    pub failed: usize,
    /// In the strategy itself, asking and telling.
    pub strategy_s: f64,
}

/// All repeats of one strategy, in the order of their seeds whatever finished first. With `earlier`,
/// a recording of the same tunables, each begins with what a search there would have found.
pub fn repeats(
    table: &Table,
    earlier: Option<&Table>,
    name: &str,
    plan: &Plan,
) -> Result<Vec<Run>, UnknownStrategy> {
    let space = table.recorded_space();
    // A misspelt name is found before any thread starts.
    search::strategy(name, Arc::clone(&space), 0, 1)?;
    let next = AtomicUsize::new(0);
    let runs: Mutex<Vec<Option<Run>>> = Mutex::new(vec![None; plan.repeats]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(plan.repeats) {
            scope.spawn(|| {
                loop {
                    let repeat = next.fetch_add(1, Ordering::Relaxed);
                    if repeat >= plan.repeats {
                        return;
                    }
                    let seed = input::mix(&[plan.seed, repeat as u64]);
                    let setup = Setup {
                        seed_trials: plan.seed_trials,
                        earlier: match earlier.filter(|_| name == LISTENER) {
                            Some(earlier) => found_earlier(earlier, &space, seed),
                            None => Vec::new(),
                        },
                        by_time: plan.seconds.is_some(),
                        doubts: Vec::new(),
                    };
                    let Ok(mut strategy) =
                        search::strategy_with(name, Arc::clone(&space), seed, &setup)
                    else {
                        return;
                    };
                    let run = run(table, &space, strategy.as_mut(), plan, &mut |_, _| {});
                    let mut runs = runs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    runs[repeat] = Some(run);
                }
            });
        }
    });
    let runs = runs
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(runs.into_iter().flatten().collect())
}

/// How many configs of one recording are also in another.
pub fn shared_configs(of: &Table, also_in: &Table) -> usize {
    let (there, here) = (of.space(), also_in.recorded_space());
    let records = of.records().iter();
    records
        .filter(|record| config_here(&here, &there.assignment(&record.config)).is_some())
        .count()
}

/// What 200 trials on another recording tell, as far as their configs are valid here.
fn found_earlier(table: &Table, here: &Space, seed: u64) -> Vec<(Config, Option<f64>)> {
    let there = table.recorded_space();
    let plan = Plan {
        trials: 200,
        batch: 1,
        seconds: None,
        seed_trials: 20,
        repeats: 1,
        seed,
    };
    let Ok(mut strategy) = search::strategy(LISTENER, Arc::clone(&there), seed, plan.seed_trials)
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    run(
        table,
        &there,
        strategy.as_mut(),
        &plan,
        &mut |config, ns| {
            let same = config_here(here, &there.assignment(config));
            found.extend(same.map(|c| (c, ns)));
        },
    );
    found
}

/// Ends early only when every config has been tried, or the seconds are used up. `seen` is shown
/// every config and its nanoseconds.
fn run(
    table: &Table,
    space: &Space,
    strategy: &mut dyn Strategy,
    plan: &Plan,
    seen: &mut dyn FnMut(&Config, Option<f64>),
) -> Run {
    let mut run = Run {
        best_ms: Vec::with_capacity(plan.trials),
        failed: 0,
        strategy_s: 0.0,
    };
    let (mut best, mut cost) = (f64::INFINITY, 0.0);
    while run.best_ms.len() < plan.trials {
        let left = plan.trials - run.best_ms.len();
        let started = Instant::now();
        let asked = strategy.ask(plan.batch.clamp(1, left));
        run.strategy_s += started.elapsed().as_secs_f64();
        if asked.is_empty() {
            break;
        }
        for config in asked {
            debug_assert!(space.contains(&config));
            let record = table.find(&config);
            let outcome = record.map_or_else(unrecorded, outcome);
            seen(&config, outcome.median_ns());
            let seconds = record.map_or(0.0, |r| r.costs.total_seconds());
            cost += seconds;
            if plan.seconds.is_some_and(|most| cost > most) {
                return run;
            }
            match record.and_then(Record::time_ms) {
                Some(ms) => best = best.min(ms),
                None => run.failed += 1,
            }
            run.best_ms.push(best);
            let started = Instant::now();
            strategy.spent(&config, seconds);
            strategy.tell(&config, &outcome);
            run.strategy_s += started.elapsed().as_secs_f64();
        }
    }
    run
}

/// The outcome as a study would have it.
fn outcome(record: &Record) -> Outcome {
    match &record.outcome {
        RecordedOutcome::Time(ms) => Outcome::Measured(Measurement {
            samples_ns: vec![ms * 1e6],
            batch: 1,
            stop: SampleStop::Precise,
            error_ratio: 0.0,
            conditions: None,
        }),
        RecordedOutcome::Failed(FailureKind::Timeout) => Outcome::TimedOut {
            phase: Phase::Sample,
            after_ms: 0,
        },
        RecordedOutcome::Failed(FailureKind::Runtime | FailureKind::Wrong) => {
            Outcome::Crashed(Crash {
                phase: Phase::Check,
                shape: None,
                cause: CrashCause::Exited { code: 1 },
                output: String::new(),
            })
        }
        RecordedOutcome::Failed(_) => unrecorded(),
    }
}

/// A space that is larger than its recording is cut to what was recorded, so this is not reached
/// by a strategy that keeps its promises.
fn unrecorded() -> Outcome {
    Outcome::NotCompiled(CompileFailure {
        first_error: String::new(),
        log: String::new(),
    })
}
