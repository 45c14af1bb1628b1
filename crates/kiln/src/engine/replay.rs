//! A recording in place of a device. Where it knows the answer it gives it; a verdict is drawn anew
//! from the recorded samples.
//!
//! Nothing is compiled, run or timed here, and no clock is read: the same recording and seed give
//! the same study. What is never done is to draw more samples than were recorded, which would make
//! a verdict surer than the measurement was.

use std::collections::HashMap;
use std::ops::Range;

use kiln_core::admission::Admission;
use kiln_core::event::{Confirmation, Dropped, Finalist, Winner};
use kiln_core::input;
use kiln_core::recording::{RecordedTrial, Recording};
use kiln_core::space::Config;
use kiln_core::stats;
use kiln_core::trial::{Assignment, CompileFacts, Mismatch, Outcome, Phase, Trial};
use kiln_core::verdict;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::bench::{Bench, Timings, Tried};
use super::evaluate::{self, Seeds};
use super::{Stream, interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::report::terminal::config_text;
use crate::task::Task;

pub struct ReplayBench<'a> {
    task: &'a Task,
    recording: &'a Recording,
    trials: HashMap<Config, &'a RecordedTrial>,
    submitted: u64,
    timings: Timings,
}

impl<'a> ReplayBench<'a> {
    /// The task must be one made for this recording.
    pub fn new(task: &'a Task, recording: &'a Recording) -> ReplayBench<'a> {
        let known = |trial: &'a RecordedTrial| {
            let config = task.space.config_from(&recording.assignment(trial)).ok()?;
            Some((config, trial))
        };
        ReplayBench {
            task,
            recording,
            trials: recording.trials.iter().filter_map(known).collect(),
            submitted: 0,
            timings: Timings::default(),
        }
    }

    fn recorded(&self, config: &Assignment) -> Result<&'a RecordedTrial, Failure> {
        let found = self.task.space.config_from(config).ok();
        let found = found.and_then(|config| self.trials.get(&config).copied());
        found.ok_or_else(|| {
            Failure::new(
                Exit::Bug,
                format!(
                    "asked for a config that is not in the recording: {}",
                    config_text(config)
                ),
            )
        })
    }

    fn entrant<'t>(&self, trial: &'t Trial) -> Result<Entrant<'t, 'a>, Failure> {
        let recorded = self.recorded(&trial.config)?;
        let number = recorded.number;
        let confirmation = self.recording.confirmation.as_ref();
        Ok(Entrant {
            trial,
            samples_ns: samples(&recorded.outcome),
            playoff: confirmation.and_then(|c| c.playoff.iter().find(|f| f.trial == number)),
            dropped: confirmation.and_then(|c| c.dropped.iter().find(|d| d.trial == number)),
            won: confirmation
                .and_then(|c| c.winner.as_ref())
                .filter(|w| w.trial == number),
        })
    }

    fn playoff(&self, entrant: &Entrant<'_, '_>, secret: u64) -> Finalist {
        let number = entrant.trial.number;
        let seed = input::mix(&[secret, Stream::Playoff as u64, number]);
        let baseline = samples(&self.recording.baseline.outcome);
        let asked = self.samples_per_round(self.rounds());
        let duel = Duel::draw(baseline, entrant.samples_ns, asked, seed);
        let median_ns = stats::median(&duel.candidate_ns);
        Finalist {
            trial: number,
            median_ns,
            speedup: stats::median(&duel.baseline_ns) / median_ns,
            samples_ns: duel.candidate_ns,
        }
    }

    fn final_rounds(&self, entrant: &Entrant<'_, '_>, secret: u64) -> Result<Winner, Outcome> {
        let asked_rounds = self.rounds();
        let rounds = match entrant.won {
            Some(won) => asked_rounds.min(won.winner_rounds_ns.len()),
            None => asked_rounds,
        };
        let asked = self.samples_per_round(asked_rounds);
        let (mut baseline_rounds_ns, mut winner_rounds_ns) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let seed = input::mix(&[secret, Stream::Final as u64, round as u64]);
            // Like is compared with like: rounds with rounds, what the search measured with what
            // the search measured, of which each round then gets its share.
            let duel = match entrant.won {
                Some(won) => Duel::draw(
                    &won.baseline_rounds_ns[round],
                    &won.winner_rounds_ns[round],
                    asked,
                    seed,
                ),
                None => {
                    let baseline = samples(&self.recording.baseline.outcome);
                    let fewest = baseline.len().min(entrant.samples_ns.len());
                    let share = asked.min(fewest / rounds).max(1);
                    Duel::draw(baseline, entrant.samples_ns, share, seed)
                }
            };
            if let Some(fault) = evaluate::below_floor(self.task, &duel.candidate_ns) {
                return Err(Outcome::Wrong(Mismatch {
                    shape: self.task.manifest().target().name.clone(),
                    phase: Phase::Sample,
                    fault,
                }));
            }
            baseline_rounds_ns.push(duel.baseline_ns);
            winner_rounds_ns.push(duel.candidate_ns);
        }
        let margin = self.task.manifest().confirm.margin;
        Ok(Winner {
            trial: entrant.trial.number,
            config: entrant.trial.config.clone(),
            comparison: verdict::compare(&baseline_rounds_ns, &winner_rounds_ns, margin, secret),
            baseline_rounds_ns,
            winner_rounds_ns,
            alone_ns: entrant.won.and_then(|won| won.alone_ns),
            other_caches: entrant.won.and_then(|won| won.other_caches),
            energy_mj: entrant.won.and_then(|won| won.energy_mj),
            acceptance: entrant.won.and_then(|won| won.acceptance.clone()),
        })
    }

    fn rounds(&self) -> usize {
        self.task.manifest().confirm.rounds.max(1) as usize
    }

    fn samples_per_round(&self, rounds: usize) -> usize {
        (self.task.manifest().confirm.samples as usize).div_ceil(rounds)
    }
}

/// A finalist of the replay and what the recording knows about its confirmation.
struct Entrant<'t, 'r> {
    trial: &'t Trial,
    /// As the search measured it.
    samples_ns: &'r [f64],
    playoff: Option<&'r Finalist>,
    dropped: Option<&'r Dropped>,
    won: Option<&'r Winner>,
}

/// Samples of both sides, drawn from recorded ones with replacement.
struct Duel {
    baseline_ns: Vec<f64>,
    candidate_ns: Vec<f64>,
}

impl Duel {
    /// At most as many samples as both sides have.
    fn draw(baseline: &[f64], candidate: &[f64], asked: usize, seed: u64) -> Duel {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = asked.min(baseline.len()).min(candidate.len());
        let mut some = |pool: &[f64]| {
            let one = |_| pool[rng.random_range(0..pool.len())];
            (0..count).map(one).collect()
        };
        Duel {
            baseline_ns: some(baseline),
            candidate_ns: some(candidate),
        }
    }
}

fn samples(outcome: &Outcome) -> &[f64] {
    outcome.measurement().map_or(&[], |m| &m.samples_ns)
}

impl Bench for ReplayBench<'_> {
    /// Recorded outcomes were judged when they were recorded.
    fn admit(&mut self, _: u64) -> Result<Option<Admission>, Failure> {
        Ok(None)
    }

    fn baseline(&mut self, _: u64) -> Result<(String, Outcome), Failure> {
        let baseline = &self.recording.baseline;
        Ok((baseline.label.clone(), baseline.outcome.clone()))
    }

    fn also(&mut self, _: u64) -> Result<Vec<(String, Outcome)>, Failure> {
        let also = self.recording.also.iter();
        Ok(also.map(|b| (b.label.clone(), b.outcome.clone())).collect())
    }

    fn submit(&mut self, configs: &[Assignment]) -> Range<u64> {
        let first = self.submitted;
        self.submitted += configs.len() as u64;
        first..self.submitted
    }

    fn expect_batch(&mut self, _: Range<u64>, _: Seeds) -> Result<(), Failure> {
        Ok(())
    }

    fn run(
        &mut self,
        _: u64,
        config: &Assignment,
        _: Seeds,
        _: Option<f64>,
    ) -> Result<Tried, Failure> {
        let recorded = self.recorded(config)?;
        self.timings.candidates += 1;
        // The manifest at hand may have other gates than the one that was recorded.
        let facts = recorded.compile.as_ref();
        let gated = facts.and_then(|facts| self.task.gate_after_compiling(facts, config));
        let compile = facts.map(|facts| CompileFacts {
            gate_warnings: self.task.gate_warnings(facts.resources.as_ref(), config),
            ..facts.clone()
        });
        Ok(Tried {
            outcome: gated.unwrap_or_else(|| recorded.outcome.clone()),
            skipped_shapes: recorded.skipped_shapes.clone(),
            compile,
            spent: None,
        })
    }

    fn cancel(&mut self) {}

    /// As in `confirm`: a play-off, then the best against the baseline. Finalists who met in the
    /// recorded play-off come out of it as they did then, so that a study repeated from its own
    /// recording has the same winner.
    fn confirm(
        &mut self,
        finalists: &[Trial],
        _: f64,
        secret: u64,
        status: &mut dyn FnMut(&str),
    ) -> Result<Confirmation, Failure> {
        if interrupt::asked() {
            return Err(interrupted());
        }
        status("confirming: drawing from the recorded samples");
        let entrants = finalists.iter().map(|trial| self.entrant(trial));
        let entrants = entrants.collect::<Result<Vec<_>, _>>()?;
        let met_before = entrants
            .iter()
            .all(|e| e.playoff.is_some() || e.dropped.is_some());
        let mut confirmation = Confirmation {
            playoff: Vec::new(),
            dropped: Vec::new(),
            winner: None,
        };
        let mut standing: Vec<(f64, Entrant<'_, '_>)> = Vec::new();
        for entrant in entrants {
            let finalist = match (entrant.playoff, entrant.dropped) {
                (None, Some(dropped)) => {
                    confirmation.dropped.push(Dropped {
                        trial: entrant.trial.number,
                        outcome: dropped.outcome.clone(),
                    });
                    continue;
                }
                (Some(playoff), _) if met_before => Finalist {
                    trial: entrant.trial.number,
                    ..playoff.clone()
                },
                _ => self.playoff(&entrant, secret),
            };
            standing.push((finalist.speedup, entrant));
            confirmation.playoff.push(finalist);
        }
        standing.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, entrant) in standing {
            let ended = match entrant.dropped {
                Some(dropped) => Err(dropped.outcome.clone()),
                None => self.final_rounds(&entrant, secret),
            };
            match ended {
                Ok(winner) => {
                    confirmation.winner = Some(winner);
                    break;
                }
                Err(outcome) => confirmation.dropped.push(Dropped {
                    trial: entrant.trial.number,
                    outcome,
                }),
            }
        }
        Ok(confirmation)
    }

    fn timings(&self) -> Timings {
        self.timings
    }
}
