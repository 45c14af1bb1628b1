//! The study: baseline, search, confirmation. Every step is stored before the next begins, and a
//! resumed study walks the same path over what is stored.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use kiln_core::event::{Event, LearntConstraint, StopReason};
use kiln_core::input;
use kiln_core::search::{self, Setup, Strategy};
use kiln_core::space::Config;
use kiln_core::study::Study;
use kiln_core::trial::{Assignment, Trial};

use super::bench::{Bench, Timings};
use super::earlier::{self, EarlierChoice};
use super::evaluate::Seeds;
use super::{interrupt, interrupted, opening};
use crate::cache;
use crate::exit::{Exit, Failure};
use crate::learn::lessons;
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
    pub earlier: EarlierChoice,
    /// Names of all shapes, where several are tuned together.
    pub among: Vec<String>,
    /// Learnt constraints, as recorded; `None` to take those of the project.
    pub doubts: Option<Vec<LearntConstraint>>,
    /// Set for a replay.
    pub recorded: Option<Recorded>,
}

/// What a replay takes from its recording, so that it is the same on every machine.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Unless the user gives one.
    pub seed: u64,
    pub batch: usize,
}

impl Options {
    /// Decides inputs and poison, so nobody may know it beforehand; a replay has neither and must
    /// come out the same every time.
    fn new_secret(&self) -> u64 {
        match self.recorded {
            Some(recorded) => input::mix(&[self.seed.unwrap_or(recorded.seed)]),
            None => cache::random_u64(),
        }
    }
}

/// Watches a study happen. All methods are called on the deciding thread.
pub trait Observer {
    /// Called when the event is stored. An error ends the run and takes nothing back.
    fn event(&mut self, study: &Study, event: &Event) -> Result<(), Failure>;
    /// What is being done right now, for a status line.
    fn status(&mut self, study: &Study, text: &str);
    /// Where the time has gone so far.
    fn timings(&mut self, _timings: Timings) {}
    fn note(&mut self, text: &str);
}

pub fn tune(
    task: &Task,
    options: &Options,
    bench: &mut dyn Bench,
    store: &mut dyn Store,
    observer: &mut dyn Observer,
) -> Result<Study, Failure> {
    let started = Instant::now();
    // A study begins when its baseline is known to be right: a mistake in the task leaves none.
    let (study, measured) = match opening::resume(task, options, store, observer)? {
        Some(study) if study.baseline.is_some() => (study, Vec::new()),
        Some(study) => {
            let measured = measure_baselines(bench, options, study.header.secret, observer)?;
            (study, measured)
        }
        None => {
            let earlier = earlier::find(task, options, store)?;
            let lessons = lessons::that_apply(task, store)?;
            let secret = options.new_secret();
            let admission = bench.admit(secret)?;
            let measured = measure_baselines(bench, options, secret, observer)?;
            let study = {
                let known = opening::Known { earlier, lessons };
                opening::create(task, options, secret, admission, known, store, observer)?
            };
            (study, measured)
        }
    };
    let mut tuner = Tuner {
        task,
        options,
        bench,
        store,
        observer,
        earlier_ms: study.wall_ms,
        started,
        study,
    };
    for event in measured {
        tuner.record(event)?;
    }
    let stop = tuner.search()?;
    tuner.bench.cancel();
    if tuner.study.stop.is_none() {
        tuner.record(Event::SearchFinished { stop })?;
    }
    if tuner.study.confirmation.is_none() {
        tuner.confirm()?;
    }
    if !tuner.study.finished {
        tuner.record(Event::StudyFinished)?;
    }
    Ok(tuner.study)
}

/// The baseline, and what else the manifest wants to see beside it.
fn measure_baselines(
    bench: &mut dyn Bench,
    options: &Options,
    secret: u64,
    observer: &mut dyn Observer,
) -> Result<Vec<Event>, Failure> {
    if options.recorded.is_none() {
        observer.note("measuring the baseline");
    }
    let (label, outcome) = bench.baseline(secret)?;
    let mut events = vec![Event::BaselineMeasured { label, outcome }];
    let also = bench.also(secret)?.into_iter();
    events.extend(also.map(|(label, outcome)| Event::AlsoMeasured { label, outcome }));
    Ok(events)
}

/// To be asked before anything is built.
pub fn something_is_left(task: &Task) -> Result<(), Failure> {
    match task.space.count() {
        Some(0) => Err(nothing_left(task)),
        _ => Ok(()),
    }
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

struct Tuner<'a> {
    task: &'a Task,
    options: &'a Options,
    bench: &'a mut dyn Bench,
    store: &'a mut dyn Store,
    observer: &'a mut dyn Observer,
    study: Study,
    /// Wall time of earlier processes on this study.
    earlier_ms: u64,
    started: Instant,
}

/// Configs asked for together, whose builds have been started.
struct Batch {
    number: u64,
    /// The number of its first trial.
    first: u64,
    configs: Vec<Config>,
    /// How many of them an earlier process has run.
    known: usize,
    builds: Range<u64>,
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
        self.observer.event(&self.study, &event)
    }

    fn status(&mut self, text: &str) {
        self.observer.status(&self.study, text);
    }

    fn search(&mut self) -> Result<StopReason, Failure> {
        if let Some(stop) = self.study.stop {
            return Ok(stop);
        }
        let header = &self.study.header;
        let setup = Setup {
            seed_trials: self.task.manifest().search.seed_trials as usize,
            earlier: earlier::configs(header.earlier.as_ref(), &self.task.space),
            by_time: header.compilers.is_some(),
            doubts: lessons::doubts(&header.doubts, &self.task.space),
        };
        let mut strategy = search::strategy_with(
            &self.options.strategy,
            std::sync::Arc::clone(&self.task.space),
            header.seed,
            &setup,
        )
        .map_err(|e| {
            Failure::usage(e.to_string()).hint("`kiln tune --help` lists the strategies")
        })?;
        let batch_size = header.batch;
        // On a GPU the next batches compile while this one is timed. They are asked for before this
        // one is told, always, so that a resumed study walks the same path.
        const BATCHES_AHEAD: usize = 2;
        let ahead = match self.task.is_cuda() {
            true => BATCHES_AHEAD,
            false => 0,
        };
        let mut queue: VecDeque<Batch> = VecDeque::new();
        let mut exhausted = false;
        for number in 0.. {
            while !exhausted && queue.len() <= ahead {
                let next = number + queue.len() as u64;
                match self.ask(strategy.as_mut(), next, batch_size)? {
                    Some(batch) => queue.push_back(batch),
                    None => exhausted = true,
                }
            }
            let Some(batch) = queue.pop_front() else {
                return Ok(StopReason::Exhausted);
            };
            if let Some(stop) = self.run_batch(strategy.as_mut(), batch)? {
                return Ok(stop);
            }
        }
        unreachable!("the loop has no end of its own")
    }

    /// The next batch, its compilation started. Always whole batches are asked for, whatever the
    /// budget: the sequence of asks must not depend on when a study was cut.
    fn ask(
        &mut self,
        strategy: &mut dyn Strategy,
        number: u64,
        size: usize,
    ) -> Result<Option<Batch>, Failure> {
        let mut configs = strategy.ask(size);
        if configs.is_empty() {
            return Ok(None);
        }
        let first = number * size as u64 + 1;
        let left = self.options.trials.saturating_sub(first - 1) as usize;
        configs.truncate(left);
        let stored = self.study.trials.len() as u64;
        let known = stored.saturating_sub(first - 1).min(configs.len() as u64) as usize;
        let todo: Vec<Assignment> = configs[known..]
            .iter()
            .map(|config| self.task.space.assignment(config))
            .collect();
        if !todo.is_empty() {
            self.check_sources()?;
        }
        Ok(Some(Batch {
            number,
            first,
            known,
            builds: self.bench.submit(&todo),
            configs,
        }))
    }

    fn run_batch(
        &mut self,
        strategy: &mut dyn Strategy,
        batch: Batch,
    ) -> Result<Option<StopReason>, Failure> {
        for (offset, config) in batch.configs[..batch.known].iter().enumerate() {
            let trial = &self.study.trials[(batch.first - 1) as usize + offset];
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
            strategy.spent(config, self.seconds(trial));
            strategy.tell(config, &trial.outcome.clone());
        }
        let todo = &batch.configs[batch.known..];
        if !todo.is_empty() {
            self.status(&format!("compiling {}", todo.len()));
            let seeds = self.seeds(batch.number, 0);
            self.bench.expect_batch(batch.builds.clone(), seeds)?;
        }
        for (offset, (config, build)) in todo.iter().zip(batch.builds.clone()).enumerate() {
            if let Some(stop) = self.stop_reason() {
                return Ok(Some(stop));
            }
            if interrupt::asked() {
                return Err(interrupted());
            }
            let number = batch.first + (batch.known + offset) as u64;
            let trial = self.run_trial(config, build, number, batch.number)?;
            strategy.spent(config, self.seconds(&trial));
            strategy.tell(config, &trial.outcome);
            self.observer.timings(self.bench.timings());
            self.record(Event::TrialFinished(Box::new(trial)))?;
        }
        Ok(self.stop_reason())
    }

    /// What a trial takes from a budget of time: its run, and its share of the compilers' time.
    fn seconds(&self, trial: &Trial) -> f64 {
        let compilers = self.study.header.compilers.unwrap_or(1).max(1) as f64;
        let compile_ms = trial.compile.as_ref().map_or(0.0, |c| c.compile_ms);
        (trial.run_ms + compile_ms / compilers) / 1e3
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

    /// On a GPU a few batches share inputs: candidates cannot keep anything from each other's
    /// runs, and making inputs and answers would take longer than the trials.
    fn seeds(&self, batch: u64, trial: u64) -> Seeds {
        const BATCHES_PER_INPUT: u64 = 4;
        Seeds {
            secret: self.study.header.secret,
            batch: match self.task.is_cuda() {
                true => batch / BATCHES_PER_INPUT,
                false => batch,
            },
            trial,
            timed_inputs_are_checked: self.task.is_cuda(),
        }
    }

    fn run_trial(
        &mut self,
        config: &Config,
        build: u64,
        number: u64,
        batch: u64,
    ) -> Result<Trial, Failure> {
        let assignment = self.task.space.assignment(config);
        let started = Instant::now();
        self.status("checking and timing");
        let best_ns = self.study.best().map(|(_, ns)| ns);
        let seeds = self.seeds(batch, number);
        let tried = self.bench.run(build, &assignment, seeds, best_ns)?;
        Ok(Trial {
            number,
            config: assignment,
            outcome: tried.outcome,
            skipped_shapes: tried.skipped_shapes,
            compile: tried.compile,
            run_ms: started.elapsed().as_secs_f64() * 1e3,
            spent: tried.spent,
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
        if best.is_none() && trials >= ENOUGH_FAILURES {
            return Some(StopReason::NothingWorks);
        }
        if seeded && speedup.is_some_and(|s| s < budget.hopeless_below) {
            return Some(StopReason::Hopeless);
        }
        let since_best = best.map_or(trials, |(trial, _)| trials - trial.number);
        let stagnant = budget.stagnation.is_some_and(|limit| since_best >= limit);
        (seeded && stagnant).then_some(StopReason::Stagnation)
    }

    fn confirm(&mut self) -> Result<(), Failure> {
        let finalists = self.task.manifest().confirm.finalists.max(1) as usize;
        let ranked: Vec<Trial> = self
            .study
            .ranked()
            .into_iter()
            .take(finalists)
            .map(|(trial, _)| trial.clone())
            .collect();
        self.check_sources()?;
        let study = &self.study;
        let observer = &mut *self.observer;
        let mut status = |text: &str| observer.status(study, text);
        let baseline_ns = study.baseline_ns().unwrap_or(0.0);
        let secret = study.header.secret;
        let confirmation = self
            .bench
            .confirm(&ranked, baseline_ns, secret, &mut status)?;
        self.record(Event::Confirmed(Box::new(confirmation)))
    }
}
