//! A whole study, as `kiln tune` runs it, with nobody to tell but a stopwatch.

use std::time::Instant;

use kiln_core::event::Event;
use kiln_core::study::Study;

use super::ground::Ground;
use crate::engine::bench::Bench;
use crate::engine::earlier::EarlierChoice;
use crate::engine::tune::{self, Observer, Options};
use crate::exit::Failure;
use crate::store::SqliteStore;
use crate::task::Task;

/// When things happened in a study.
#[derive(Default)]
pub struct Watch {
    pub search_began: Option<Instant>,
    pub search_ended: Option<Instant>,
    /// What was being done, and since when.
    pub steps: Vec<(String, Instant)>,
}

impl Watch {
    /// How long configs were built, checked and timed: not the baseline, not the confirmation.
    pub fn search_seconds(&self) -> f64 {
        let both = self.search_began.zip(self.search_ended);
        both.map_or(0.0, |(began, ended)| (ended - began).as_secs_f64())
    }
}

impl Observer for Watch {
    fn event(&mut self, _: &Study, event: &Event) -> Result<(), Failure> {
        match event {
            Event::BaselineMeasured { .. } => {
                self.search_began = Some(Instant::now());
                self.note("searching");
            }
            Event::SearchFinished { .. } => {
                self.search_ended = Some(Instant::now());
                self.note("confirming");
            }
            Event::StudyFinished => self.note("done"),
            _ => {}
        }
        Ok(())
    }

    fn status(&mut self, _: &Study, text: &str) {
        self.note(text);
    }

    fn note(&mut self, text: &str) {
        self.steps.push((text.to_string(), Instant::now()));
    }
}

/// Tunes as the manifest says, into a store beside it.
pub fn tune(
    ground: &Ground,
    task: &Task,
    bench: &mut dyn Bench,
    watch: &mut Watch,
) -> Result<Study, Failure> {
    let manifest = task.manifest();
    let options = Options {
        seed: Some(1),
        strategy: manifest.search.strategy.clone(),
        trials: manifest.budget.trials,
        minutes: manifest.budget.minutes,
        jobs: ground.jobs,
        fresh: true,
        earlier: EarlierChoice::None,
        among: Vec::new(),
        doubts: None,
        recorded: None,
    };
    let mut store = SqliteStore::open(&task.file.root)?;
    tune::tune(task, &options, bench, &mut store, watch)
}
