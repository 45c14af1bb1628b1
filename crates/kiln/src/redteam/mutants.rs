//! Kernels that ship, broken in one place: none may be accepted.
//!
//! A mutant that is refused was found out. One that is not is either the same program after all, which
//! [`proof`] tries and [`listed`] argues, or kiln was fooled.

mod findings;
mod listed;
mod proof;
mod subjects;
mod wanted;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_core::input;
use kiln_core::trial::{Assignment, Outcome, Trial};
use kiln_core::value::Value;

use super::mutate::{self, Mutation};
use super::{honest, side_by_side};
use crate::engine::bench::LiveBench;
use crate::engine::compile_pool::{Build, Built, CompilePool};
use crate::engine::confirm::{Candidate, Confirmer};
use crate::engine::crew::Crew;
use crate::engine::evaluate::{self, Contender, Seeds};
use crate::engine::oracle::Oracle;
use crate::engine::worker::WorkerKind;
use crate::engine::{interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::image;
use crate::printer;
use crate::rows::Rows;
use crate::selftest::Ground;
use crate::task::{Part, Program, Task};

pub use findings::Findings;
use findings::{Ending, Row};
use listed::Listed;
use subjects::Subject;
pub use subjects::make_quick;
use wanted::Wanted;

/// Fixes which mutants a sample holds.
const SHUFFLE: u64 = 29;
const SECRET: u64 = 41;
/// Answers that serve all mutants of a kernel: those of the checks and those of a proof.
const ANSWERS: usize = 256;
/// Problems are larger there, and each thread has its own.
const ANSWERS_ON_A_GPU: usize = 48;

/// Tries mutants of all kernels, `limit` in all, spread over them in proportion.
pub fn run(
    ground: &Ground,
    limit: Option<usize>,
    filter: &str,
    told: &Rows,
) -> Result<Findings, Failure> {
    let wanted = Wanted::read(filter)?;
    let mut plans = Vec::new();
    for subject in subjects::of(ground.backend) {
        let Some(lines) = wanted.lines_of(subject.name) else {
            continue;
        };
        let source = subject.source()?;
        let mut mutations = mutate::mutations(source);
        mutations.retain(|m| lines.contains(m.line));
        plans.push((subject, source, mutations));
    }
    let all: usize = plans.iter().map(|(_, _, mutations)| mutations.len()).sum();
    let share = limit.map_or(1.0, |limit| limit as f64 / all.max(1) as f64);
    let mut findings = Findings::default();
    for (subject, source, mutations) in plans {
        let count = (mutations.len() as f64 * share).ceil() as usize;
        let all_here = mutations.len();
        let chosen = sample(mutations, count);
        printer::talk(&format!(
            "  {} of {all_here} mutants of {}",
            chosen.len(),
            subject.name
        ));
        match try_subject(ground, &subject, source, &chosen, &mut findings, told) {
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

/// Some configs, and as many more as it takes to have every value of every tunable among them: code that only some
/// values compile is no code that does nothing.
fn covering(task: &Task, mut configs: Vec<Assignment>) -> Vec<Assignment> {
    const CANDIDATES: usize = 256;
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    let values = |config: &Assignment| -> Vec<(String, String)> {
        let value = |(name, value): &(String, Value)| (name.clone(), value.define());
        config.iter().map(value).collect()
    };
    seen.extend(configs.iter().flat_map(values));
    let candidates = honest::spread(task, CANDIDATES);
    loop {
        let news =
            |config: &&Assignment| values(config).iter().filter(|v| !seen.contains(v)).count();
        // The first of the best, whatever the order of equals is to `max_by_key`.
        let best = candidates.iter().rev().max_by_key(news);
        let Some(best) = best.filter(|config| news(config) > 0) else {
            return configs;
        };
        seen.extend(values(best));
        configs.push(best.clone());
    }
}

fn try_subject(
    ground: &Ground,
    subject: &Subject,
    source: &str,
    mutations: &[Mutation],
    findings: &mut Findings,
    told: &Rows,
) -> Result<(), Failure> {
    let task = subject
        .bundle(source)?
        .task(ground, &format!("mutants/{}/original", subject.name))?;
    let configs = covering(&task, honest::spread(&task, subject.configs));
    let builds: Vec<Build> = configs.iter().map(|c| task.candidate_build(c)).collect();
    let mut originals = Vec::new();
    for (built, build) in ground.pool.build_all(&builds)?.into_iter().zip(&builds) {
        originals.push(built_or_bug(built, build)?);
    }
    // Compilers run ahead of the trials.
    let mut queue = Vec::new();
    for (number, mutation) in mutations.iter().enumerate() {
        let text = mutation.apply(source, subject.language);
        let place = format!("mutants/{}/{number}", subject.name);
        let task = subject.bundle(&text)?.task(ground, &place)?;
        // A mutation may lie in code that only some configs have.
        let first =
            input::mix(&[SHUFFLE, number as u64]) as usize % subject.configs.min(configs.len());
        let build = task.candidate_build(&configs[first]);
        queue.push(Mutant {
            mutation,
            ticket: ground.pool.submit(&[build]).start,
            task: Arc::new(task),
            first,
        });
    }
    let listed = Listed::read()?;
    let trial = Trials {
        pool: &ground.pool,
        task: &task,
        configs,
        originals,
    };
    let done = AtomicUsize::new(0);
    let decided = |mutant: &Mutant<'_>, judged: (usize, Ending)| {
        let config = &trial.configs[judged.0];
        let row = Row::new(subject, source, mutant.mutation, config, judged.1, &listed);
        let number = 1 + done.fetch_add(1, Ordering::Relaxed);
        told.decided("mutant", &row, &row.words_for(number, queue.len()))?;
        Ok::<Row, Failure>(row)
    };
    let width = side_by_side::width(ground.backend, ground.side_by_side);
    let pool = &ground.pool;
    let open = || Court::new(pool, &task);
    let judged = side_by_side::each(&queue, width, open, |court, _, mutant| {
        let (index, ending) = trial.judge(court, mutant, pool.wait(mutant.ticket)?)?;
        match width > 1 && ending.rests_on_a_clock() {
            true => Ok(None),
            false => decided(mutant, (index, ending)).map(Some),
        }
    });
    let judged = judged.inspect_err(|_| pool.cancel())?;
    let mut court = None;
    for (mutant, row) in queue.iter().zip(judged) {
        let row = match row {
            Some(row) => row,
            None => {
                let court = match &mut court {
                    Some(court) => court,
                    none => none.insert(open()?),
                };
                let build = mutant.task.candidate_build(&trial.configs[mutant.first]);
                let built = pool.build_one(&build)?;
                decided(mutant, trial.judge(court, mutant, built)?)?
            }
        };
        findings.rows.push(row);
    }
    Ok(())
}

struct Mutant<'a> {
    mutation: &'a Mutation,
    task: Arc<Task>,
    /// Which config is tried first, and the number of its build.
    first: usize,
    ticket: u64,
}

/// What all mutants of a kernel have in common.
struct Trials<'a> {
    pool: &'a CompilePool,
    /// The original.
    task: &'a Task,
    configs: Vec<Assignment>,
    /// One per config, with its machine code.
    originals: Vec<(Program, Vec<u8>)>,
}

impl Trials<'_> {
    /// Tries configs from the first on until one makes a difference, and says which that was.
    fn judge(
        &self,
        court: &mut Court<'_>,
        mutant: &Mutant<'_>,
        first_built: Result<Built, Outcome>,
    ) -> Result<(usize, Ending), Failure> {
        let mut built = first_built;
        let count = self.configs.len();
        for index in (mutant.first..mutant.first + count).map(|place| place % count) {
            let config = &self.configs[index];
            let build = mutant.task.candidate_build(config);
            if index != mutant.first {
                built = self.pool.build_one(&build)?;
            }
            let program = match &built {
                Ok(built) => built.program(&build),
                Err(_) if interrupt::asked() => return Err(interrupted()),
                Err(Outcome::NotCompiled(_) | Outcome::TimedOut { .. }) => {
                    return Ok((index, Ending::NotCompiled));
                }
                Err(outcome) => {
                    return Err(Failure::new(Exit::Bug, format!("a mutant {outcome}")));
                }
            };
            let (original, original_code) = &self.originals[index];
            if image::code(Path::new(&program.image))? == *original_code {
                continue;
            }
            let contender = |program, own| Contender {
                program,
                part: Part::Candidate,
                config: config.clone(),
                style: self.task.style(config),
                own,
                is_beside: false,
            };
            let original = contender(original.clone(), None);
            // Its own sources, where it has to be compiled anew.
            let broken = contender(program, Some(Arc::clone(&mutant.task)));
            let ending = court.judge(&original, &broken)?;
            return Ok((index, ending));
        }
        Ok((mutant.first, Ending::SameCode))
    }
}

fn built_or_bug(
    built: Result<Built, Outcome>,
    build: &Build,
) -> Result<(Program, Vec<u8>), Failure> {
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
    trials: u64,
    pool: &'a CompilePool,
}

impl<'a> Court<'a> {
    fn new(pool: &'a CompilePool, task: &'a Task) -> Result<Court<'a>, Failure> {
        let baseline = LiveBench::new(task, pool)?.into_baseline();
        let kind = match task.is_cuda() {
            true => WorkerKind::cuda(task.support.clone()),
            // The baseline is an image in the same folder.
            false => baseline.program.worker.clone(),
        };
        let answers = match task.is_cuda() {
            true => ANSWERS_ON_A_GPU,
            false => ANSWERS,
        };
        Ok(Court {
            task,
            oracle: Oracle::new(task, pool)?.remembering(answers),
            crew: Crew::new(kind),
            baseline,
            trials: 0,
            pool,
        })
    }

    fn judge(&mut self, original: &Contender, mutant: &Contender) -> Result<Ending, Failure> {
        let number = self.trials;
        self.trials += 1;
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
            python: Default::default(),
            spare: Default::default(),
            started: Vec::new(),
            kept: None,
            pool: Some(self.pool),
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
        spent: None,
    }
}
