//! Several shapes tuned together: every config is tried on all shapes it is legal on, and a few configs that
//! serve all of them are chosen.
//!
//! Each shape has a strategy and a study of its own. A strategy asks for its own shape; what it asked for is
//! checked and timed there first and then, unless it turned out hopeless, on the other shapes, whose strategies are
//! told too. Every trial is stored in the study of its shape before the next begins. In the end the configs
//! that cover the shapes best are confirmed, each on the shapes it serves, as any winner is.

mod choice;

use std::time::Instant;

use kiln_core::cover::{self, Cover, Objective};
use kiln_core::event::{Event, StopReason};
use kiln_core::search::{self, Setup, Strategy};
use kiln_core::study::Study;
use kiln_core::trial::{Assignment, Outcome, Trial};

use super::bench::{Bench, LiveBench};
use super::evaluate::Seeds;
use super::tune::{Observer, Options};
use super::{earlier, interrupt, interrupted, opening};
use crate::exit::Failure;
use crate::store::Store;
use crate::task::Task;

/// What is asked of all shapes together.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    pub objective: Objective,
    /// How many configs to settle for; `None`: as few as come within 1 % of all.
    pub configs: Option<usize>,
}

pub struct Findings {
    pub studies: Vec<Study>,
    /// Every config that was measured somewhere.
    pub configs: Vec<Assignment>,
    /// The best choice of one config, of two, and so on.
    pub covers: Vec<Cover>,
    /// Position of the one that was confirmed.
    pub chosen: Option<usize>,
    pub weights: Vec<f64>,
    pub aim: Aim,
    pub stop: StopReason,
    /// Shapes a config was not tried on because it was hopeless on others.
    pub given_up: u64,
}

struct Together<'t, 's> {
    tasks: &'t [Task],
    options: &'s Options,
    aim: Aim,
    bench: &'s mut LiveBench<'t>,
    store: &'s mut dyn Store,
    observer: &'s mut dyn Observer,
    studies: Vec<Study>,
    strategies: Vec<Box<dyn Strategy + Send>>,
    /// Strategies that have nothing more to ask.
    exhausted: Vec<bool>,
    /// Wall time of earlier processes on these studies.
    earlier_ms: u64,
    started: Instant,
    tried: Vec<Assignment>,
    given_up: u64,
}

/// A config is not given up before it was tried on so many shapes: the best on one may be the worst on another.
const LEAST_TRIED: usize = 3;

/// A config that was asked for, and by which shape's strategy.
struct Asked {
    shape: usize,
    config: Assignment,
    build: u64,
}

pub fn tune<'t>(
    tasks: &'t [Task],
    options: &Options,
    aim: Aim,
    bench: &mut LiveBench<'t>,
    store: &mut dyn Store,
    observer: &mut dyn Observer,
) -> Result<Findings, Failure> {
    let mut together = Together {
        tasks,
        options,
        aim,
        bench,
        store,
        observer,
        studies: Vec::new(),
        strategies: Vec::new(),
        exhausted: vec![false; tasks.len()],
        earlier_ms: 0,
        started: Instant::now(),
        tried: Vec::new(),
        given_up: 0,
    };
    for task in tasks {
        together.open(task)?;
    }
    together.earlier_ms = together
        .studies
        .iter()
        .map(|s| s.wall_ms)
        .max()
        .unwrap_or(0);
    let stop = together.search()?;
    together.bench.cancel();
    for at in 0..tasks.len() {
        if together.studies[at].stop.is_none() {
            together.record(at, Event::SearchFinished { stop })?;
        }
    }
    together.settle(stop)
}

impl<'t> Together<'t, '_> {
    /// A study for a shape, or the one that was interrupted, and a strategy that knows its trials.
    fn open(&mut self, task: &'t Task) -> Result<(), Failure> {
        let shape = task.manifest().target().name.clone();
        self.bench.aim(task)?;
        let resumed = opening::resume_among(task, self.options, self.store, self.observer)?;
        let mut study = match resumed {
            Some(study) => study,
            None => {
                self.observer
                    .note(&format!("shape `{shape}`: measuring the baseline"));
                let earlier = earlier::find(task, self.options, self.store)?;
                // One for all: inputs of shapes that are checked for each of them are made, and answered, once.
                let first = self.studies.first().map(|s| s.header.secret);
                let secret = first.unwrap_or_else(crate::cache::random_u64);
                let admission = self.bench.admit(secret)?;
                let (label, outcome) = self.bench.baseline(secret)?;
                let also = self.bench.also(secret)?;
                let mut study = opening::create(
                    task,
                    self.options,
                    secret,
                    admission,
                    // Told once per shape they would drown all else.
                    opening::Known {
                        earlier,
                        lessons: Vec::new(),
                    },
                    self.store,
                    self.observer,
                )?;
                let mut events = vec![Event::BaselineMeasured { label, outcome }];
                let also = also.into_iter();
                events.extend(also.map(|(label, outcome)| Event::AlsoMeasured { label, outcome }));
                for event in events {
                    self.store.append(study.id, 0, &event)?;
                    study.apply(0, event.clone());
                    self.observer.event(&study, &event)?;
                }
                study
            }
        };
        if study.baseline.is_none() {
            let (label, outcome) = self.bench.baseline(study.header.secret)?;
            let event = Event::BaselineMeasured { label, outcome };
            self.store.append(study.id, study.wall_ms, &event)?;
            study.apply(study.wall_ms, event);
        }
        let setup = Setup {
            seed_trials: task.manifest().search.seed_trials as usize,
            earlier: earlier::configs(study.header.earlier.as_ref(), &task.space),
            by_time: study.header.compilers.is_some(),
            doubts: Vec::new(),
        };
        let space = std::sync::Arc::clone(&task.space);
        let mut strategy =
            search::strategy_with(&self.options.strategy, space, study.header.seed, &setup)
                .map_err(|e| {
                    Failure::usage(e.to_string()).hint("`kiln tune --help` lists the strategies")
                })?;
        for trial in &study.trials {
            if !self.tried.contains(&trial.config) {
                self.tried.push(trial.config.clone());
            }
            if let Ok(config) = task.space.config_from(&trial.config) {
                strategy.tell(&config, &trial.outcome);
            }
        }
        self.studies.push(study);
        self.strategies.push(strategy);
        Ok(())
    }

    fn record(&mut self, at: usize, event: Event) -> Result<(), Failure> {
        let wall_ms = self.earlier_ms + self.started.elapsed().as_millis() as u64;
        self.store.append(self.studies[at].id, wall_ms, &event)?;
        self.studies[at].apply(wall_ms, event.clone());
        self.observer.event(&self.studies[at], &event)
    }

    fn search(&mut self) -> Result<StopReason, Failure> {
        if let Some(stop) = self.studies.iter().find_map(|s| s.stop) {
            return Ok(stop);
        }
        // As many at a time as keep the compilers busy while the device waits for none.
        let batch = 2 * self.options.jobs.max(1);
        for number in 0.. {
            let left = self.options.trials.saturating_sub(self.tried.len() as u64) as usize;
            if left == 0 {
                return Ok(StopReason::Trials);
            }
            let asked = self.ask(batch.min(left))?;
            if asked.is_empty() {
                return Ok(StopReason::Exhausted);
            }
            for one in asked {
                if interrupt::asked() {
                    return Err(interrupted());
                }
                if self.out_of_time() {
                    return Ok(StopReason::Minutes);
                }
                self.try_everywhere(&one, number)?;
            }
        }
        unreachable!("the loop has no end of its own")
    }

    fn out_of_time(&self) -> bool {
        let minutes = (self.earlier_ms as f64 + self.started.elapsed().as_secs_f64() * 1e3) / 60e3;
        self.options.minutes.is_some_and(|limit| minutes >= limit)
    }

    /// So many configs that were not tried, from the strategies whose turn it is; their builds are started.
    fn ask(&mut self, count: usize) -> Result<Vec<Asked>, Failure> {
        let mut asked: Vec<Asked> = Vec::new();
        let mut turns = vec![0.0; self.tasks.len()];
        while asked.len() < count {
            let Some(shape) = self.next_shape(&turns) else {
                break;
            };
            turns[shape] += 1.0;
            let Some(config) = self.strategies[shape].ask(1).pop() else {
                self.exhausted[shape] = true;
                continue;
            };
            let config = self.tasks[shape].space.assignment(&config);
            // Another shape's strategy may have had it tried here, or be having it tried now. One that was given
            // up on this shape is worth a trial now that its own strategy asks for it.
            let is_known = self.studies[shape]
                .trials
                .iter()
                .any(|t| t.config == config);
            if is_known || asked.iter().any(|a| a.config == config) {
                continue;
            }
            if !self.tried.contains(&config) {
                self.tried.push(config.clone());
            }
            self.bench.aim(&self.tasks[shape])?;
            let build = self.bench.submit(std::slice::from_ref(&config)).start;
            asked.push(Asked {
                shape,
                config,
                build,
            });
        }
        Ok(asked)
    }

    /// Whose turn it is: by weight, or for the worst case that of the shape that is worst off.
    fn next_shape(&self, turns: &[f64]) -> Option<usize> {
        let need = |at: &usize| match self.aim.objective {
            Objective::Geomean => {
                let tried = self.studies[*at].trials.len() as f64;
                let weight = self.tasks[*at].manifest().target().weight;
                (turns[*at] * self.tasks.len() as f64 + tried) / weight
            }
            Objective::Worst => turns[*at] + self.best_speedup(*at).unwrap_or(0.0),
        };
        let open = (0..self.tasks.len()).filter(|at| !self.exhausted[*at]);
        open.min_by(|a, b| need(a).total_cmp(&need(b)))
    }

    fn best_speedup(&self, at: usize) -> Option<f64> {
        let study = &self.studies[at];
        Some(study.baseline_ns()? / study.best()?.1)
    }

    /// First where it was asked for, then on the others, the least alike first; those are left out once it is hopeless.
    /// How long it is timed where it is behind, its sampling decides as always.
    fn try_everywhere(&mut self, asked: &Asked, batch: u64) -> Result<(), Failure> {
        let mut others: Vec<usize> = (0..self.tasks.len())
            .filter(|at| *at != asked.shape)
            .collect();
        others.sort_by(|a, b| {
            self.apart(asked.shape, *b)
                .total_cmp(&self.apart(asked.shape, *a))
        });
        let legal: Vec<usize> = std::iter::once(asked.shape)
            .chain(others)
            .filter(|at| {
                let space = &self.tasks[*at].space;
                let config = space.config_from(&asked.config);
                config.is_ok_and(|config| space.contains(&config))
            })
            .collect();
        let mut behind: Vec<f64> = Vec::new();
        for at in &legal {
            let at = *at;
            let is_known = |t: &Trial| t.config == asked.config;
            if self.studies[at].trials.iter().any(is_known) {
                continue;
            }
            let best_ns = self.studies[at].best().map(|(_, ns)| ns);
            if best_ns.is_some() && self.is_hopeless(&behind, &legal) {
                self.given_up += 1;
                continue;
            }
            let trial = self.try_on(at, asked, batch, best_ns)?;
            if let Ok(config) = self.tasks[at].space.config_from(&asked.config) {
                self.strategies[at].tell(&config, &trial.outcome);
            }
            behind.push(match (trial.outcome.median_ns(), best_ns) {
                (Some(ns), Some(best)) => ns / best,
                (Some(_), None) => 1.0,
                (None, _) => f64::INFINITY,
            });
            let is_broken = matches!(trial.outcome, Outcome::NotCompiled(_));
            self.record(at, Event::TrialFinished(Box::new(trial)))?;
            // It is the same program for every shape.
            if is_broken {
                break;
            }
        }
        Ok(())
    }

    /// Far behind the best on every shape it was tried on, and as one config for all shapes far behind another.
    fn is_hopeless(&self, behind: &[f64], legal: &[usize]) -> bool {
        let cut = self.tasks[0].manifest().measure.cut_ratio;
        if behind.len() < LEAST_TRIED || behind.iter().any(|ratio| *ratio <= cut) {
            return false;
        }
        let mean =
            |ratios: &[f64]| ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64;
        let Some(first) = legal.first() else {
            return false;
        };
        // How far behind others are that were measured on all these shapes.
        let ratios = |config: &Assignment| -> Option<Vec<f64>> {
            legal
                .iter()
                .map(|at| {
                    let study = &self.studies[*at];
                    let trial = study.trials.iter().find(|t| t.config == *config)?;
                    Some(trial.outcome.median_ns()? / study.best()?.1)
                })
                .collect()
        };
        let others = self.studies[*first].trials.iter();
        let least = others
            .filter_map(|t| ratios(&t.config))
            .map(|r| mean(&r))
            .fold(f64::INFINITY, f64::min);
        mean(behind) > least + cut.ln()
    }

    /// How much two shapes differ: the same for twice as large whatever the size.
    fn apart(&self, a: usize, b: usize) -> f64 {
        let sizes = |at: usize| self.tasks[at].manifest().target().dimensions.iter();
        let pairs = sizes(a).zip(sizes(b));
        pairs
            .map(|((_, a), (_, b))| ((*a as f64).ln() - (*b as f64).ln()).abs())
            .sum()
    }

    fn try_on(
        &mut self,
        at: usize,
        asked: &Asked,
        batch: u64,
        best_ns: Option<f64>,
    ) -> Result<Trial, Failure> {
        let task = &self.tasks[at];
        self.bench.aim(task)?;
        let build = match at == asked.shape {
            true => asked.build,
            // In the cache by now.
            false => self.bench.submit(std::slice::from_ref(&asked.config)).start,
        };
        let number = self.studies[at].trials.len() as u64 + 1;
        let text = format!("config {} of {}", self.tried.len(), self.options.trials);
        self.observer.status(&self.studies[at], &text);
        // As for one shape: on a GPU a few batches share inputs.
        const BATCHES_PER_INPUT: u64 = 4;
        let seeds = Seeds {
            secret: self.studies[at].header.secret,
            batch: match task.is_cuda() {
                true => batch / BATCHES_PER_INPUT,
                false => batch,
            },
            trial: number,
            timed_inputs_are_checked: task.is_cuda(),
        };
        let started = Instant::now();
        self.bench.expect_batch(build..build + 1, seeds)?;
        let tried = self.bench.run(build, &asked.config, seeds, best_ns)?;
        Ok(Trial {
            number,
            config: asked.config.clone(),
            outcome: tried.outcome,
            skipped_shapes: tried.skipped_shapes,
            compile: tried.compile,
            run_ms: started.elapsed().as_secs_f64() * 1e3,
            spent: tried.spent,
        })
    }

    /// Chooses the configs and confirms each on the shapes it serves.
    fn settle(mut self, stop: StopReason) -> Result<Findings, Failure> {
        let weights: Vec<f64> = self
            .tasks
            .iter()
            .map(|t| t.manifest().target().weight)
            .collect();
        // Only their ratios count, and sums of the largest numbers are none.
        let largest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let weights: Vec<f64> = weights.iter().map(|w| w / largest).collect();
        let (configs, rows) = choice::matrix(&self.studies);
        let covers = cover::covers(&rows, &weights, self.aim.objective);
        let chosen = choice::enough(&covers, self.aim.configs);
        let serves = chosen.map(|at| covers[at].serves.clone());
        for at in 0..self.tasks.len() {
            if self.studies[at].finished {
                continue;
            }
            let config = serves.as_ref().and_then(|s| s[at]).map(|c| &configs[c]);
            let found = self.studies[at].trials.iter();
            let finalist: Vec<Trial> = found
                .filter(|t| Some(&t.config) == config && t.outcome.median_ns().is_some())
                .take(1)
                .cloned()
                .collect();
            if self.studies[at].confirmation.is_none() {
                let task = &self.tasks[at];
                let shape = &task.manifest().target().name;
                self.observer.note(&format!("shape `{shape}`: confirming"));
                self.bench.aim(task)?;
                let study = &self.studies[at];
                let observer = &mut *self.observer;
                let mut status = |text: &str| observer.status(study, text);
                let baseline_ns = study.baseline_ns().unwrap_or(0.0);
                let secret = study.header.secret;
                let confirmed = self
                    .bench
                    .confirm(&finalist, baseline_ns, secret, &mut status)?;
                self.record(at, Event::Confirmed(Box::new(confirmed)))?;
            }
            self.record(at, Event::StudyFinished)?;
        }
        Ok(Findings {
            studies: self.studies,
            configs,
            covers,
            chosen,
            weights,
            aim: self.aim,
            stop,
            given_up: self.given_up,
        })
    }
}
