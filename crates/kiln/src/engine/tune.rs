//! The study: baseline, search, confirmation. Every step is stored before the next begins, and a
//! resumed study walks the same path over what is stored.

use std::time::Instant;

use kiln_core::event::{Event, StopReason};
use kiln_core::search::{self, Strategy};
use kiln_core::space::Config;
use kiln_core::study::Study;
use kiln_core::trial::{CompileFacts, Outcome, Trial};

use super::compile_pool::{Built, CompilePool};
use super::confirm::{Candidate, Confirmer, Contender};
use super::evaluate::{self, Seeds};
use super::oracle::Oracle;
use super::{interrupt, interrupted, opening};
use crate::cache;
use crate::exit::{Exit, Failure};
use crate::store::Store;
use crate::task::Task;

/// A search without a single success after this many trials is looking in the wrong place.
const ENOUGH_FAILURES: u64 = 20;

/// What a run of `kiln tune` decided on top of the manifest.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: Option<u64>,
    pub strategy: String,
    pub trials: u64,
    pub minutes: Option<f64>,
    pub jobs: usize,
    /// Never resume.
    pub fresh: bool,
}

/// Watches a study happen. All methods are called on the deciding thread.
pub trait Observer {
    fn event(&mut self, study: &Study, event: &Event);
    /// What is being done right now, for a status line.
    fn status(&mut self, study: &Study, text: &str);
    fn note(&mut self, text: &str);
}

pub fn tune(
    task: &Task,
    options: &Options,
    pool: &CompilePool,
    store: &mut dyn Store,
    observer: &mut dyn Observer,
) -> Result<Study, Failure> {
    let (baseline_build, label) = task.baseline_build()?;
    if task.space.count() == Some(0) {
        return Err(nothing_left(task));
    }
    let mut oracle = Oracle::new(task, pool)?;
    let image = match pool.build_one(&baseline_build)? {
        Ok(built) => built.artifact,
        Err(_) if interrupt::asked() => return Err(interrupted()),
        Err(outcome) => return Err(bad_baseline(&outcome)),
    };
    let baseline = Contender {
        image,
        config: task.baseline_config()?,
        cores: task.baseline_cores()?,
    };
    let started = Instant::now();
    // A study begins when its baseline is known to be right: a mistake in the task leaves none.
    let (study, baseline_outcome) = match opening::resume(task, options, store, observer)? {
        Some(study) if study.baseline.is_some() => (study, None),
        Some(study) => {
            let secret = study.header.secret;
            let outcome = measure_baseline(task, &mut oracle, &baseline, secret, observer)?;
            (study, Some(outcome))
        }
        None => {
            let secret = cache::random_u64();
            let outcome = measure_baseline(task, &mut oracle, &baseline, secret, observer)?;
            let study = opening::create(task, options, secret, store, observer)?;
            (study, Some(outcome))
        }
    };
    let mut tuner = Tuner {
        task,
        options,
        pool,
        store,
        observer,
        earlier_ms: study.wall_ms,
        started,
        study,
        oracle,
    };
    if let Some(outcome) = baseline_outcome {
        tuner.record(Event::BaselineMeasured { label, outcome })?;
    }
    let stop = tuner.search()?;
    if tuner.study.stop.is_none() {
        tuner.record(Event::SearchFinished { stop })?;
    }
    if tuner.study.confirmation.is_none() {
        tuner.confirm(&baseline)?;
    }
    if !tuner.study.finished {
        tuner.record(Event::StudyFinished)?;
    }
    Ok(tuner.study)
}

fn nothing_left(task: &Task) -> Failure {
    let mut message = format!(
        "no config is left: all {} were rejected before compiling",
        task.space.cartesian()
    );
    for removed in task.space_facts().removed {
        message.push_str(&format!("\n  {:>10} by {}", removed.count, removed.rule));
    }
    Failure::usage(message).hint("`kiln check --explain` shows one example of each")
}

fn bad_baseline(outcome: &Outcome) -> Failure {
    let log = match outcome {
        Outcome::NotCompiled(failure) => format!("\n{}", failure.log.trim_end()),
        _ => String::new(),
    };
    Failure::usage(format!("the baseline {outcome}{log}"))
        .hint("the baseline takes exactly the kernel's parameters")
}

/// Checks and times the baseline like any candidate; one that fails ends everything.
fn measure_baseline(
    task: &Task,
    oracle: &mut Oracle,
    baseline: &Contender,
    secret: u64,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    observer.note("measuring the baseline");
    let seeds = Seeds {
        secret,
        batch: u64::MAX,
        trial: 0,
    };
    let (image, config) = (&baseline.image, &baseline.config);
    let evaluated = evaluate::evaluate(task, oracle, image, config, baseline.cores, seeds, None)?;
    if evaluated.outcome.measurement().is_none() {
        return Err(Failure::new(
            Exit::Usage,
            format!("the baseline is not usable: {}", evaluated.outcome),
        )
        .hint("baseline and reference must compute the same; nothing was tuned"));
    }
    Ok(evaluated.outcome)
}

struct Tuner<'a> {
    task: &'a Task,
    options: &'a Options,
    pool: &'a CompilePool,
    store: &'a mut dyn Store,
    observer: &'a mut dyn Observer,
    study: Study,
    /// Wall time of earlier processes on this study.
    earlier_ms: u64,
    started: Instant,
    oracle: Oracle,
}

impl Tuner<'_> {
    fn wall_ms(&self) -> u64 {
        self.earlier_ms + self.started.elapsed().as_millis() as u64
    }

    /// Stores first, then shows: what a person has seen is never lost.
    fn record(&mut self, event: Event) -> Result<(), Failure> {
        let wall_ms = self.wall_ms();
        self.store.append(self.study.id, wall_ms, &event)?;
        self.study.apply(wall_ms, event.clone());
        self.observer.event(&self.study, &event);
        Ok(())
    }

    fn status(&mut self, text: &str) {
        self.observer.status(&self.study, text);
    }

    fn search(&mut self) -> Result<StopReason, Failure> {
        if let Some(stop) = self.study.stop {
            return Ok(stop);
        }
        let header = &self.study.header;
        let mut strategy = search::strategy(
            &self.options.strategy,
            std::sync::Arc::clone(&self.task.space),
            header.seed,
            self.task.manifest().search.seed_trials as usize,
        )
        .map_err(|e| Failure::usage(e.to_string()))?;
        let batch_size = header.batch;
        let stored = self.study.trials.len() as u64;
        for batch in 0.. {
            // Always whole batches are asked for, whatever the budget: the sequence of asks must
            // not depend on when a study was cut.
            let asked = strategy.ask(batch_size);
            if asked.is_empty() {
                return Ok(StopReason::Exhausted);
            }
            let first = batch as u64 * batch_size as u64 + 1;
            let left = self.options.trials.saturating_sub(first - 1) as usize;
            let affordable = &asked[..asked.len().min(left)];
            let known = stored
                .saturating_sub(first - 1)
                .min(affordable.len() as u64) as usize;
            let stop = self.run_batch(strategy.as_mut(), affordable, first, known, batch as u64)?;
            if let Some(stop) = stop {
                return Ok(stop);
            }
        }
        unreachable!("the loop has no end of its own")
    }

    /// Runs one batch; the first `known` of it were run by an earlier process.
    fn run_batch(
        &mut self,
        strategy: &mut dyn Strategy,
        batch: &[Config],
        first: u64,
        known: usize,
        number: u64,
    ) -> Result<Option<StopReason>, Failure> {
        for (offset, config) in batch[..known].iter().enumerate() {
            let trial = &self.study.trials[(first - 1) as usize + offset];
            if trial.config != self.task.space.assignment(config) {
                return Err(Failure::new(
                    Exit::Bug,
                    format!(
                        "study {} does not replay: trial {} differs",
                        self.study.id, trial.number
                    ),
                )
                .hint("`kiln tune --fresh` starts a new study"));
            }
            strategy.tell(config, &trial.outcome.clone());
        }
        let todo = &batch[known..];
        let built = self.build_batch(todo, number)?;
        for (offset, (config, built)) in todo.iter().zip(built).enumerate() {
            if let Some(stop) = self.stop_reason() {
                return Ok(Some(stop));
            }
            if interrupt::asked() {
                return Err(interrupted());
            }
            let trial = self.run_trial(config, built, first + (known + offset) as u64, number)?;
            strategy.tell(config, &trial.outcome);
            self.record(Event::TrialFinished(Box::new(trial)))?;
        }
        Ok(self.stop_reason())
    }

    /// Compiles a batch while the reference computes what the batch will be checked against.
    /// Nothing is timed meanwhile: on a CPU, compilers and kernels share the cores.
    fn build_batch(
        &mut self,
        configs: &[Config],
        number: u64,
    ) -> Result<Vec<Result<Built, Outcome>>, Failure> {
        if configs.is_empty() {
            return Ok(Vec::new());
        }
        self.check_sources()?;
        self.status(&format!("compiling {}", configs.len()));
        let builds: Vec<_> = configs
            .iter()
            .map(|config| {
                self.task
                    .candidate_build(&self.task.space.assignment(config))
            })
            .collect();
        self.pool.submit(&builds);
        let seeds = self.seeds(number, 0);
        let foreseen = evaluate::foresee(self.task, &mut self.oracle, seeds);
        let built = self.pool.collect(builds.len())?;
        foreseen?;
        if interrupt::asked() {
            return Err(interrupted());
        }
        Ok(built)
    }

    /// One study is about one program.
    fn check_sources(&self) -> Result<(), Failure> {
        if self.task.sources_hash()[..16] == self.study.header.identity.sources {
            return Ok(());
        }
        Err(
            Failure::usage("a source file was changed while tuning; finished trials are kept")
                .hint("`kiln tune` starts a new study of the source as it is now"),
        )
    }

    fn seeds(&self, batch: u64, trial: u64) -> Seeds {
        Seeds {
            secret: self.study.header.secret,
            batch,
            trial,
        }
    }

    fn run_trial(
        &mut self,
        config: &Config,
        built: Result<Built, Outcome>,
        number: u64,
        batch: u64,
    ) -> Result<Trial, Failure> {
        let assignment = self.task.space.assignment(config);
        let started = Instant::now();
        self.status("checking and timing");
        let best_ns = self.study.best().map(|(_, ns)| ns);
        let seeds = self.seeds(batch, number);
        let (outcome, skipped_shapes, compile) = match built {
            Err(outcome) => (outcome, Vec::new(), None),
            Ok(built) => {
                let evaluated = evaluate::evaluate(
                    self.task,
                    &mut self.oracle,
                    &built.artifact,
                    &assignment,
                    self.task.cores(&assignment),
                    seeds,
                    best_ns,
                )?;
                (
                    evaluated.outcome,
                    evaluated.skipped_shapes,
                    Some(facts(&built)),
                )
            }
        };
        Ok(Trial {
            number,
            config: assignment,
            outcome,
            skipped_shapes,
            compile,
            run_ms: started.elapsed().as_secs_f64() * 1e3,
        })
    }

    fn stop_reason(&self) -> Option<StopReason> {
        let budget = &self.task.manifest().budget;
        let minutes = self.wall_ms() as f64 / 60e3;
        let trials = self.study.trials.len() as u64;
        let best = self.study.best();
        let speedup = self
            .study
            .baseline_ns()
            .zip(best)
            .map(|(baseline, (_, ns))| baseline / ns);
        if trials >= self.options.trials {
            return Some(StopReason::Trials);
        }
        if self.options.minutes.is_some_and(|limit| minutes >= limit) {
            return Some(StopReason::Minutes);
        }
        let cost = budget.price_per_hour.map(|price| price * minutes / 60.0);
        if cost
            .zip(budget.cost)
            .is_some_and(|(spent, limit)| spent >= limit)
        {
            return Some(StopReason::Cost);
        }
        if speedup
            .zip(budget.stop_at_speedup)
            .is_some_and(|(s, limit)| s >= limit)
        {
            return Some(StopReason::SpeedupReached);
        }
        let seeded = trials >= self.task.manifest().search.seed_trials;
        if best.is_none()
            && trials >= ENOUGH_FAILURES.min(self.task.manifest().search.seed_trials.max(1))
        {
            return Some(StopReason::NothingWorks);
        }
        if seeded && speedup.is_some_and(|s| s < budget.hopeless_below) {
            return Some(StopReason::Hopeless);
        }
        let since_best = best.map_or(trials, |(trial, _)| trials - trial.number);
        let stagnant = budget.stagnation.is_some_and(|limit| since_best >= limit);
        (seeded && stagnant).then_some(StopReason::Stagnation)
    }

    fn confirm(&mut self, baseline: &Contender) -> Result<(), Failure> {
        let finalists = self.task.manifest().confirm.finalists.max(1) as usize;
        let ranked: Vec<Trial> = self
            .study
            .ranked()
            .into_iter()
            .take(finalists)
            .map(|(trial, _)| trial.clone())
            .collect();
        self.check_sources()?;
        let mut candidates = Vec::new();
        for trial in &ranked {
            // Usually in the cache; a cleared cache compiles again.
            let build = self.task.candidate_build(&trial.config);
            let Ok(built) = self.pool.build_one(&build)? else {
                continue;
            };
            candidates.push(Candidate {
                trial,
                contender: Contender {
                    image: built.artifact,
                    config: trial.config.clone(),
                    cores: self.task.cores(&trial.config),
                },
            });
        }
        if interrupt::asked() {
            return Err(interrupted());
        }
        let study = &self.study;
        let observer = &mut *self.observer;
        let mut status = |text: &str| observer.status(study, text);
        let confirmation = Confirmer {
            task: self.task,
            oracle: &mut self.oracle,
            baseline,
            baseline_ns: study.baseline_ns().unwrap_or(0.0),
            secret: study.header.secret,
            status: &mut status,
        }
        .confirm(candidates)?;
        self.record(Event::Confirmed(Box::new(confirmation)))
    }
}

fn facts(built: &Built) -> CompileFacts {
    CompileFacts {
        artifact: built.artifact.key.clone(),
        cached: built.cached,
        compile_ms: built.artifact.compile_ms,
        image_bytes: built.artifact.image_bytes,
        log: built.artifact.log.clone(),
    }
}
