//! Progress while tuning: a status line on a terminal, plain lines elsewhere, JSON lines on demand.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln_core::diagnostic::{printable, printable_lines};
use kiln_core::event::Event;
use kiln_core::study::Study;
use kiln_core::units::human_ns;

use super::cost;
use super::terminal::{config_text, group_digits};
use crate::engine::tune::{Observer, Options};
use crate::exit::Failure;
use crate::printer;
use crate::task::Task;

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
    bar: Option<ProgressBar>,
    events: bool,
    budget_trials: u64,
    started: Instant,
    /// Trials an earlier process did; they say nothing about this one's pace.
    already: Option<u64>,
}

impl Progress {
    pub fn new(task: &Task, options: &Options, events: bool) -> Progress {
        let manifest = task.manifest();
        let valid = task.space.count();
        let trials = valid.map_or(options.trials, |v| {
            options.trials.min(u64::try_from(v).unwrap_or(u64::MAX))
        });
        let bar = terminal_bar(trials);
        let progress = Progress {
            bar,
            events,
            budget_trials: trials,
            started: Instant::now(),
            already: None,
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
        progress
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(printable_lines(text)),
            None => printer::talk(text),
        }
    }

    pub fn close(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn eta(&self, study: &Study) -> String {
        let done = study.trials.len() as u64;
        let fresh = done.saturating_sub(self.already.unwrap_or(0));
        if fresh < 3 || done >= self.budget_trials {
            return String::new();
        }
        let per_trial = self.started.elapsed().as_secs_f64() / fresh as f64;
        let left = per_trial * (self.budget_trials - done) as f64;
        format!(", about {} left", human_seconds(left))
    }

    fn state(&self, study: &Study) -> String {
        let failed: u64 = study
            .outcomes()
            .iter()
            .filter(|(reason, _)| **reason != "measured")
            .map(|(_, count)| count)
            .sum();
        let failed = if failed > 0 {
            format!(", {failed} failed")
        } else {
            String::new()
        };
        let best = match (study.best(), study.baseline_ns()) {
            (Some((_, ns)), Some(baseline)) => {
                format!("best {} ({:.2}x)", human_ns(ns), baseline / ns)
            }
            _ => "no result yet".into(),
        };
        let cost = cost(study).map_or(String::new(), |c| format!(", cost {c:.2}"));
        format!("{best}{failed}{cost}{}", self.eta(study))
    }
}

fn human_seconds(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} min", seconds / 60.0)
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
                if let Some(bar) = &self.bar {
                    bar.set_position(done);
                    bar.set_message(printable(&self.state(study)));
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
                        self.budget_trials,
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
        Ok(())
    }

    fn status(&mut self, study: &Study, text: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(study.trials.len() as u64);
                bar.set_message(printable(&format!("{text}; {}", self.state(study))));
            }
            None if text.starts_with("confirming") => self.say(text),
            None => {}
        }
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
