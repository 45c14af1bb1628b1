//! Kernels that ship, broken in one place: none may be accepted.
//!
//! A mutant that is refused was found out. One that is not is either the same program after all, and
//! [`proof`] says how that is known, or kiln was fooled.

mod findings;
mod proof;
mod subjects;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_core::input;
use kiln_core::trial::{Assignment, Outcome, Trial};

use super::mutate::{self, Mutation};
use super::{catalogue, honest, image};
use crate::engine::bench::LiveBench;
use crate::engine::compile_pool::{Build, Built};
use crate::engine::confirm::{Candidate, Confirmer};
use crate::engine::crew::Crew;
use crate::engine::evaluate::{self, Contender, Seeds};
use crate::engine::oracle::Oracle;
use crate::engine::worker::WorkerKind;
use crate::engine::{interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::selftest::Ground;
use crate::task::{Part, Task};

pub use findings::Findings;
use findings::{Ending, Row};
use subjects::Subject;
pub use subjects::make_quick;

/// Fixes which mutants a sample holds.
const SHUFFLE: u64 = 29;
const SECRET: u64 = 41;

/// Tries mutants of all kernels, `limit` in all, spread over them in proportion.
pub fn run(ground: &Ground, limit: Option<usize>, filter: &str) -> Result<Findings, Failure> {
    let mut plans = Vec::new();
    for subject in subjects::of(ground.backend) {
        if subject.name.contains(filter) {
            let source = subject.source()?;
            plans.push((subject, source, mutate::mutations(source)));
        }
    }
    let all: usize = plans.iter().map(|(_, _, mutations)| mutations.len()).sum();
    let share = limit.map_or(1.0, |limit| limit as f64 / all.max(1) as f64);
    let mut findings = Findings::default();
    for (subject, source, mutations) in plans {
        let count = (mutations.len() as f64 * share).ceil() as usize;
        let chosen = sample(mutations, count);
        printer::talk(&format!("  {} mutants of {}", chosen.len(), subject.name));
        match try_subject(ground, &subject, source, &chosen, &mut findings) {
            Ok(()) => {}
            // A reference in Python may have no array library here.
            Err(failure) if subject.needs_python && !interrupt::asked() => findings
                .skipped
                .push(format!("{}: {}", subject.name, failure.message)),
            Err(failure) => return Err(failure),
        }
    }
    Ok(findings)
}

/// Drawn by the seed, in the order of the source.
fn sample(mutations: Vec<Mutation>, count: usize) -> Vec<Mutation> {
    let mut drawn: Vec<(usize, Mutation)> = mutations.into_iter().enumerate().collect();
    drawn.sort_by_key(|(place, _)| input::mix(&[SHUFFLE, *place as u64]));
    drawn.truncate(count);
    drawn.sort_by_key(|(place, _)| *place);
    drawn.into_iter().map(|(_, mutation)| mutation).collect()
}

fn try_subject(
    ground: &Ground,
    subject: &Subject,
    source: &str,
    mutations: &[Mutation],
    findings: &mut Findings,
) -> Result<(), Failure> {
    let task = subject
        .bundle(source)?
        .task(ground, &format!("mutants/{}/original", subject.name))?;
    let configs = honest::spread(&task, subject.configs);
    let builds: Vec<Build> = configs.iter().map(|c| task.candidate_build(c)).collect();
    let mut originals = Vec::new();
    for (built, build) in ground.pool.build_all(&builds)?.into_iter().zip(&builds) {
        originals.push(built_or_bug(built, build)?);
    }
    let known = catalogue::accepted_mutants()?;
    let mut court = Court::new(ground, &task)?;
    // Compilers run ahead of the trials.
    let mut queue = Vec::new();
    for (number, mutation) in mutations.iter().enumerate() {
        let text = mutation.apply(source, subject.language);
        let place = format!("mutants/{}/{number}", subject.name);
        let mutant = subject.bundle(&text)?.task(ground, &place)?;
        // A mutation may lie in code that only some configs have.
        let first = input::mix(&[SHUFFLE, number as u64]) as usize % configs.len();
        let ticket = ground
            .pool
            .submit(&[mutant.candidate_build(&configs[first])])
            .start;
        queue.push((mutation, mutant, first, ticket));
    }
    let total = queue.len();
    for (done, (mutation, mutant, first, ticket)) in queue.into_iter().enumerate() {
        if interrupt::asked() {
            ground.pool.cancel();
            return Err(interrupted());
        }
        if done > 0 && done % 50 == 0 {
            printer::talk(&format!("    {done} of {total}"));
        }
        let mut ending = Ending::SameCode;
        let mut config = &configs[first];
        let mut built = ground.pool.wait(ticket)?;
        for turn in 0..configs.len() {
            let index = (first + turn) % configs.len();
            config = &configs[index];
            let build = mutant.candidate_build(config);
            if turn > 0 {
                built = ground.pool.build_one(&build)?;
            }
            let program = match &built {
                Ok(built) => built.program(&build),
                Err(Outcome::NotCompiled(_) | Outcome::TimedOut { .. }) => {
                    ending = Ending::NotCompiled;
                    break;
                }
                Err(outcome) => {
                    return Err(Failure::new(Exit::Bug, format!("a mutant {outcome}")));
                }
            };
            let (original, original_code) = &originals[index];
            if image::code(Path::new(&program.image))? == *original_code {
                continue;
            }
            let contender = |program| Contender {
                program,
                part: Part::Candidate,
                config: config.clone(),
                style: task.style(config),
                own: None,
                is_beside: false,
            };
            ending = court.judge(&contender(original.clone()), &contender(program))?;
            break;
        }
        findings
            .rows
            .push(Row::new(subject, source, mutation, config, ending, &known));
    }
    Ok(())
}

fn built_or_bug(
    built: Result<Built, Outcome>,
    build: &Build,
) -> Result<(crate::task::Program, Vec<u8>), Failure> {
    let built =
        built.map_err(|o| Failure::new(Exit::Bug, format!("a kernel of kiln's own {o}")))?;
    let program = built.program(build);
    let code = image::code(Path::new(&program.image))?;
    Ok((program, code))
}

/// All checks of search and confirmation on one task, with little timing.
struct Court<'a> {
    task: &'a Task,
    oracle: Oracle,
    crew: Crew,
    baseline: Contender,
    trials: AtomicUsize,
}

impl<'a> Court<'a> {
    fn new(ground: &'a Ground, task: &'a Task) -> Result<Court<'a>, Failure> {
        let baseline = LiveBench::new(task, &ground.pool)?.into_baseline();
        let kind = match task.is_cuda() {
            true => WorkerKind::Cuda {
                support: task.support.clone(),
            },
            // The baseline is an image in the same folder.
            false => baseline.program.worker.clone(),
        };
        Ok(Court {
            task,
            oracle: Oracle::new(task, &ground.pool)?,
            crew: Crew::new(kind),
            baseline,
            trials: AtomicUsize::new(0),
        })
    }

    fn judge(&mut self, original: &Contender, mutant: &Contender) -> Result<Ending, Failure> {
        let number = self.trials.fetch_add(1, Ordering::Relaxed) as u64;
        let seeds = Seeds {
            secret: SECRET,
            // Mutants do not learn from each other; answers of the reference serve all of them.
            batch: 0,
            trial: number,
            timed_inputs_are_checked: self.task.is_cuda(),
        };
        let (oracle, crew) = (&mut self.oracle, &mut self.crew);
        let evaluated = evaluate::evaluate(self.task, oracle, crew, mutant, seeds, None)?;
        let Some(candidate_ns) = evaluated.outcome.median_ns() else {
            return Ok(Ending::refused(&evaluated.outcome));
        };
        let trial = trial_of(number, &mutant.config, evaluated.outcome);
        let confirmation = Confirmer {
            task: self.task,
            oracle: &mut self.oracle,
            baseline: &self.baseline,
            baseline_ns: candidate_ns,
            secret: SECRET,
            status: &mut |_| {},
            python: None,
            started: Vec::new(),
            kept: None,
        }
        .confirm(vec![Candidate {
            trial: &trial,
            contender: mutant.clone(),
        }])?;
        if let Some(dropped) = confirmation.dropped.first() {
            return Ok(Ending::refused(&dropped.outcome));
        }
        proof::compare(self.task, &mut self.oracle, original, mutant)
    }
}

fn trial_of(number: u64, config: &Assignment, outcome: Outcome) -> Trial {
    Trial {
        number,
        config: config.clone(),
        outcome,
        skipped_shapes: Vec::new(),
        compile: None,
        run_ms: 0.0,
    }
}
