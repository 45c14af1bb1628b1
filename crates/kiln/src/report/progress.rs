//! Progress while tuning: a few lines at the foot of a terminal, plain lines elsewhere, JSON lines on demand.
//!
//! The terminal stays in its usual mode and keeps its cursor, so that there is nothing to restore however
//! kiln ends; lines are cut to the width the terminal has when they are drawn.

mod lines;
mod view;

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln_core::diagnostic::{printable, printable_lines};
use kiln_core::event::Event;
use kiln_core::study::Study;

use super::terminal::{config_text, group_digits};
use crate::engine::bench::Timings;
use crate::engine::tune::{Observer, Options};
use crate::exit::Failure;
use crate::printer;
use crate::serve::Live;
use crate::task::Task;
use lines::Budget;
use view::{Texts, View};

/// A bar on a terminal; elsewhere nothing.
fn terminal_bar(length: u64) -> Option<ProgressBar> {
    printer::talks_to_terminal().then(|| {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    })
}

/// Progress of compiling many configs: a bar on a terminal, one line elsewhere.
pub struct CompileProgress {
    bar: Option<ProgressBar>,
}

impl CompileProgress {
    pub fn new(configs: usize, jobs: usize) -> CompileProgress {
        let what = format!("compiling {configs} configs, {jobs} at a time");
        let bar = terminal_bar(configs as u64);
        match &bar {
            Some(bar) => bar.set_message(printable(&what)),
            None => printer::talk(&what),
        }
        CompileProgress { bar }
    }

    pub fn step(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    pub fn close(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

pub struct Progress {
    view: Option<View>,
    events: bool,
    budget: Budget,
    jobs: usize,
    on_gpu: bool,
    started: Instant,
    /// Trials an earlier process did; they say nothing about this one's pace.
    already: Option<u64>,
    timings: Timings,
    live: Option<Live>,
}

impl Progress {
    pub fn new(task: &Task, options: &Options, events: bool, live: Option<Live>) -> Progress {
        let manifest = task.manifest();
        let valid = task.space.count();
        let trials = valid.map_or(options.trials, |v| {
            options.trials.min(u64::try_from(v).unwrap_or(u64::MAX))
        });
        let progress = Progress {
            view: View::open(trials),
            events,
            budget: Budget {
                trials,
                minutes: options.minutes,
                cost: manifest.budget.cost,
            },
            jobs: options.jobs,
            on_gpu: task.is_cuda(),
            started: Instant::now(),
            already: None,
            timings: Timings::default(),
            live,
        };
        progress.say(&format!(
            "{}: {} of {} configs are valid; trying up to {trials} with {}, on {} ({} cores)",
            printable(&manifest.kernel.name),
            valid.map_or("too many to count".into(), group_digits),
            group_digits(task.space.cartesian()),
            options.strategy,
            printable(&task.device.name),
            task.device.cores
        ));
        for caution in task.cautions() {
            progress.say(&printable(&format!("warning: {caution}")));
        }
        if let Some(live) = &progress.live {
            progress.say(&format!("live: {}", live.url()));
        }
        progress
    }

    fn say(&self, text: &str) {
        match &self.view {
            Some(view) => view.say(&printable_lines(text)),
            None => printer::talk(text),
        }
    }

    /// Gives the terminal back as it was.
    pub fn close(&mut self) {
        if let Some(view) = self.view.take() {
            view.close();
        }
    }

    /// Shows the end to who looks at the live page.
    pub fn finish(&mut self, study: &Study) {
        if let Some(live) = &mut self.live {
            live.finish(study);
        }
    }

    /// The time a trial of this process takes; unknown before the third.
    fn pace(&self, study: &Study) -> Option<Duration> {
        let done = study.trials.len() as u64;
        let fresh = done.saturating_sub(self.already.unwrap_or(0));
        let fresh = u32::try_from(fresh).ok().filter(|n| *n >= 3)?;
        Some(self.started.elapsed() / fresh)
    }

    /// The state in one line, for lines that scroll by.
    fn state(&self, study: &Study) -> String {
        let left = self.budget.left(study, self.pace(study));
        format!("{}; {}; {left}", lines::best(study), lines::outcomes(study))
    }

    fn draw(&self, study: &Study, doing: &str) {
        if let Some(view) = &self.view {
            let elapsed = self.started.elapsed();
            let busy = lines::busy(&self.timings, self.jobs, elapsed, self.on_gpu);
            let texts = Texts {
                budget: self.budget.left(study, self.pace(study)),
                best: lines::best(study),
                spark: lines::sparkline(study, view.spark_columns()),
                outcomes: lines::outcomes(study),
                doing: match busy {
                    Some(busy) => format!("{doing}; {busy}"),
                    None => doing.to_string(),
                },
            };
            view.show(study.trials.len() as u64, texts);
        }
    }
}

impl Observer for Progress {
    fn event(&mut self, study: &Study, event: &Event) -> Result<(), Failure> {
        if self.events {
            match serde_json::to_string(event) {
                Ok(line) => {
                    let kept = "every finished trial is kept; `kiln tune` continues";
                    self.events = printer::stream(&line).map_err(|e| e.hint(kept))?;
                }
                Err(e) => printer::talk(&format!("warning: an event could not be shown: {e}")),
            }
        }
        match event {
            Event::BaselineMeasured { label, outcome } => {
                self.say(&printable(&format!("baseline {label}: {outcome}")));
            }
            Event::AlsoMeasured { label, outcome } => {
                self.say(&printable(&format!("beside it {label}: {outcome}")));
            }
            Event::TrialFinished(trial) => {
                let done = study.trials.len() as u64;
                if self.already.is_none() {
                    self.already = Some(done - 1);
                }
                let is_best = study
                    .best()
                    .is_some_and(|(best, _)| best.number == trial.number);
                let failed = trial.outcome.measurement().is_none();
                if self.view.is_some() {
                    self.draw(study, "searching");
                    if is_best || failed {
                        self.say(&line(trial, is_best));
                    }
                } else {
                    let state = if done.is_multiple_of(10) {
                        format!("  [{}]", self.state(study))
                    } else {
                        String::new()
                    };
                    self.say(&format!(
                        "{done}/{}  {}{state}",
                        self.budget.trials,
                        line(trial, is_best)
                    ));
                }
            }
            Event::SearchFinished { stop } => {
                self.say(&format!("search ended: {}", stop.sentence()))
            }
            Event::StudyStarted(_)
            | Event::Resumed { .. }
            | Event::Confirmed(_)
            | Event::StudyFinished
            | Event::Profiled(_) => {}
        }
        if let Some(live) = &mut self.live {
            live.show(study);
        }
        Ok(())
    }

    fn status(&mut self, study: &Study, text: &str) {
        match &self.view {
            Some(_) => self.draw(study, text),
            None if text.starts_with("confirming") => self.say(text),
            None => {}
        }
    }

    fn timings(&mut self, timings: Timings) {
        self.timings = timings;
    }

    fn note(&mut self, text: &str) {
        self.say(text);
    }
}

fn line(trial: &kiln_core::trial::Trial, is_best: bool) -> String {
    let mark = if is_best { " best so far" } else { "" };
    let outcome = printable(&trial.outcome.to_string());
    format!(
        "#{} {outcome}{mark}  {}",
        trial.number,
        config_text(&trial.config)
    )
}
