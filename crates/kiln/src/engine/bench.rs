//! Where candidates are built, run and compared: a real device here, a recording in `replay`.

mod rounding;

use std::ops::Range;
use std::time::{Duration, Instant};

use kiln_core::admission::Admission;
use kiln_core::event::Confirmation;
use kiln_core::trial::{
    Assignment, CompileFacts, Crash, CrashCause, Fault, Outcome, Phase, Spent, Trial,
};

use super::compile_pool::{Build, Built, CompilePool};
use super::confirm::{Candidate, Confirmer, in_python};
use super::crew::Crew;
use super::evaluate::{self, Contender, Seeds};
use super::oracle::Oracle;
use super::oracle::advice::about_indices;
use super::worker::{Starting, Worker, WorkerKind};
use super::{admission, broken, interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::task::{Part, Source, Task};

/// What became of one config.
pub struct Tried {
    pub outcome: Outcome,
    pub skipped_shapes: Vec<String>,
    pub compile: Option<CompileFacts>,
    pub spent: Option<Spent>,
}

/// The dangerous and slow half of a study. The other half, `tune`, decides and stores.
pub trait Bench {
    /// Refuses a task whose check is weak; `None` where nothing is checked.
    fn admit(&mut self, secret: u64) -> Result<Option<Admission>, Failure>;
    /// Checks and times the baseline like any candidate; one that fails ends everything.
    fn baseline(&mut self, secret: u64) -> Result<(String, Outcome), Failure>;
    /// Other implementations the manifest names.
    fn also(&mut self, secret: u64) -> Result<Vec<(String, Outcome)>, Failure>;
    /// Starts building configs; the numbers are for `run`.
    fn submit(&mut self, configs: &[Assignment]) -> Range<u64>;
    /// Gets ready for a batch whose builds were submitted.
    fn expect_batch(&mut self, builds: Range<u64>, seeds: Seeds) -> Result<(), Failure>;
    /// Checks and times a config that was submitted.
    fn run(
        &mut self,
        build: u64,
        config: &Assignment,
        seeds: Seeds,
        best_ns: Option<f64>,
    ) -> Result<Tried, Failure>;
    /// The search is over: builds nobody waits for are dropped.
    fn cancel(&mut self);
    fn confirm(
        &mut self,
        finalists: &[Trial],
        baseline_ns: f64,
        secret: u64,
        status: &mut dyn FnMut(&str),
    ) -> Result<Confirmation, Failure>;
    fn timings(&self) -> Timings;
}

/// Where the time of a search went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// The device had nothing to do but wait for compilers.
    pub waiting_for_compilers: Duration,
    pub reference: Duration,
    /// Checking and timing candidates, copies and comparisons included.
    pub running: Duration,
    /// Of which the device itself was at work, where it can tell.
    pub on_device: Duration,
    /// Compile time of all images, over all compilers.
    pub compiling: Duration,
    pub candidates: u64,
}

pub struct LiveBench<'a> {
    task: &'a Task,
    pool: &'a CompilePool,
    oracle: Oracle,
    crew: Crew,
    baseline: Contender,
    baseline_label: String,
    builds: std::collections::HashMap<u64, Build>,
    /// Importing PyTorch takes longer than most that is done with it, so these begin early.
    python: Vec<Starting>,
    timings: Timings,
}

impl<'a> LiveBench<'a> {
    pub fn new(task: &'a Task, pool: &'a CompilePool) -> Result<LiveBench<'a>, Failure> {
        let (source, baseline_label) = task.baseline_source()?;
        let oracle = Oracle::new(task, pool)?;
        let program = match pool.program(&source)? {
            Ok(program) => program,
            Err(_) if interrupt::asked() => return Err(interrupted()),
            Err(outcome) => return Err(bad_baseline(&outcome)),
        };
        let mut style = task.style(&task.baseline_config()?);
        style.cores = task.baseline_cores()?;
        let kind = match task.is_cuda() {
            true => WorkerKind::cuda(task.support.clone()),
            // The baseline is an image in the same folder.
            false => program.worker.clone(),
        };
        Ok(LiveBench {
            task,
            pool,
            oracle,
            crew: Crew::new(kind),
            baseline: Contender {
                program,
                part: Part::Baseline,
                config: task.baseline_config()?,
                style,
                own: None,
                is_beside: false,
            },
            baseline_label,
            builds: Default::default(),
            python: Vec::new(),
            timings: Timings::default(),
        })
    }

    /// Keeps more answers of the reference than a search needs.
    pub fn remembering(self, answers: usize) -> LiveBench<'a> {
        LiveBench {
            oracle: self.oracle.remembering(answers),
            ..self
        }
    }

    /// Turns to another shape of the same manifest: workers, reference and builds stay.
    pub fn aim(&mut self, task: &'a Task) -> Result<(), Failure> {
        if std::ptr::eq(self.task, task) {
            return Ok(());
        }
        self.task = task;
        self.baseline.config = task.baseline_config()?;
        self.baseline.style = task.style(&self.baseline.config);
        self.baseline.style.cores = task.baseline_cores()?;
        Ok(())
    }

    /// Only the baseline, for whoever brings candidates of its own.
    pub fn into_baseline(self) -> Contender {
        self.baseline
    }

    fn contender(&self, built: &Built, build: &Build, config: &Assignment) -> Contender {
        Contender {
            program: built.program(build),
            part: Part::Candidate,
            config: config.clone(),
            style: self.task.style(config),
            own: None,
            is_beside: false,
        }
    }

    /// What will be needed soon and takes long to start: workers on a GPU, and of Python one for
    /// each implementation to be measured and two for the confirmation.
    fn start_early(&mut self) -> Result<(), Failure> {
        self.crew.start_early().map_err(|end| broken(&end))?;
        let kind = &self.baseline.program.worker;
        if matches!(kind, WorkerKind::Python(_)) {
            while self.python.len() < 3 + self.task.also_sources()?.len() {
                let starting = Worker::start(kind).map_err(|end| broken(&end))?;
                self.python.push(starting);
            }
        }
        Ok(())
    }

    /// In a crew of its own where it is no image like the candidates'.
    fn measure(&mut self, contender: &Contender, secret: u64) -> Result<Outcome, Failure> {
        let seeds = Seeds {
            secret,
            batch: u64::MAX,
            trial: 0,
            timed_inputs_are_checked: self.task.is_cuda(),
        };
        let kind = &contender.program.worker;
        let started = match kind {
            WorkerKind::Python(_) => self.python.pop(),
            _ => None,
        };
        let mut own = Crew::with(kind.clone(), started);
        let crew = match kind {
            WorkerKind::Cuda { .. } => &mut self.crew,
            _ => &mut own,
        };
        let evaluated =
            evaluate::evaluate(self.task, &mut self.oracle, crew, contender, seeds, None)?;
        Ok(evaluated.outcome)
    }
}

fn bad_baseline(outcome: &Outcome) -> Failure {
    let log = match outcome {
        Outcome::NotCompiled(failure) => format!("\n{}", failure.log.trim_end()),
        _ => String::new(),
    };
    let failure = Failure::usage(format!("the baseline {outcome}{log}"));
    if crate::settings::is_sandboxed() && log.contains("Permission denied") {
        return failure.hint(
            "compilers run in a sandbox: name further folders they need in KILN_COMPILER_DIRS, \
             or tune with --no-sandbox what you trust",
        );
    }
    failure.hint("the baseline takes exactly the kernel's parameters")
}

/// What is most likely to be done about it comes first.
fn unusable_baseline(task: &Task, oracle: &mut Oracle, secret: u64, outcome: &Outcome) -> Failure {
    let failure = Failure::usage(format!("the baseline is not usable: {outcome}"));
    let fault = match outcome {
        Outcome::Wrong(mismatch) => Some(&mismatch.fault),
        _ => None,
    };
    let is_lost = match fault {
        Some(Fault::Canary { .. }) => true,
        Some(Fault::Numerics(fault)) => fault.nonfinite > 0,
        _ => matches!(outcome, Outcome::Crashed(_)),
    };
    let indices = about_indices(task).filter(|_| is_lost);
    let rounding = match outcome {
        Outcome::Wrong(mismatch) => rounding::hint(task, oracle, secret, mismatch),
        _ => None,
    };
    let hints = indices.into_iter().chain(rounding);
    hints
        .fold(failure, Failure::hint)
        .hint("baseline and reference must compute the same; nothing was tuned")
}

impl Bench for LiveBench<'_> {
    fn admit(&mut self, secret: u64) -> Result<Option<Admission>, Failure> {
        self.start_early()?;
        admission::admit(self.task, &mut self.oracle, secret).map(Some)
    }

    fn baseline(&mut self, secret: u64) -> Result<(String, Outcome), Failure> {
        let baseline = self.baseline.clone();
        let outcome = self.measure(&baseline, secret)?;
        if outcome.measurement().is_none() {
            return Err(unusable_baseline(
                self.task,
                &mut self.oracle,
                secret,
                &outcome,
            ));
        }
        Ok((self.baseline_label.clone(), outcome))
    }

    fn also(&mut self, secret: u64) -> Result<Vec<(String, Outcome)>, Failure> {
        let mut measured = Vec::new();
        for (source, label) in self.task.also_sources()? {
            let Source::Ready(program) = source else {
                continue;
            };
            let contender = Contender {
                program,
                is_beside: true,
                ..self.baseline.clone()
            };
            let outcome = match self.measure(&contender, secret) {
                // Of no consequence for anything else.
                Err(failure) if failure.exit == Exit::Usage => Outcome::Crashed(Crash {
                    phase: Phase::Check,
                    shape: Some(self.task.manifest().target().name.clone()),
                    cause: CrashCause::Failed {
                        message: failure.message,
                    },
                    output: String::new(),
                }),
                measured => measured?,
            };
            measured.push((label, outcome));
        }
        Ok(measured)
    }

    fn submit(&mut self, configs: &[Assignment]) -> Range<u64> {
        let builds: Vec<Build> = configs
            .iter()
            .map(|config| self.task.candidate_build(config))
            .collect();
        let numbers = self.pool.submit(&builds);
        self.builds.extend(numbers.clone().zip(builds));
        numbers
    }

    /// The reference computes while compilers work. On a CPU, compilers and kernels share the
    /// cores, so all of them are waited for before anything is timed.
    fn expect_batch(&mut self, builds: Range<u64>, seeds: Seeds) -> Result<(), Failure> {
        let started = Instant::now();
        evaluate::foresee(self.task, &mut self.oracle, seeds)?;
        self.timings.reference += started.elapsed();
        if !self.task.is_cuda() {
            let started = Instant::now();
            self.pool.wait_for_all(builds);
            self.timings.waiting_for_compilers += started.elapsed();
        }
        Ok(())
    }

    fn run(
        &mut self,
        number: u64,
        config: &Assignment,
        seeds: Seeds,
        best_ns: Option<f64>,
    ) -> Result<Tried, Failure> {
        let started = Instant::now();
        let built = self.pool.wait(number)?;
        let waited = started.elapsed();
        self.timings.waiting_for_compilers += waited;
        let build = self.builds.remove(&number).expect("submitted before");
        if interrupt::asked() {
            return Err(interrupted());
        }
        let built = match built {
            Ok(built) => built,
            Err(outcome) => return Ok(not_run(outcome, None)),
        };
        let facts = self.task.compile_facts(&built, config);
        if !built.cached {
            let ms = built.artifact.compiled.compile_ms;
            self.timings.compiling += Duration::from_secs_f64(ms / 1e3);
        }
        if let Some(outcome) = self.task.gate_after_compiling(&facts, config) {
            return Ok(not_run(outcome, Some(facts)));
        }
        let started = Instant::now();
        let contender = self.contender(&built, &build, config);
        let evaluated = evaluate::evaluate(
            self.task,
            &mut self.oracle,
            &mut self.crew,
            &contender,
            seeds,
            best_ns,
        )?;
        let ran = started.elapsed();
        self.timings.running += ran;
        self.timings.on_device += evaluated.on_device;
        self.timings.candidates += 1;
        Ok(Tried {
            outcome: evaluated.outcome,
            skipped_shapes: evaluated.skipped_shapes,
            compile: Some(facts),
            spent: Some(Spent {
                waiting_ms: milliseconds(waited),
                checking_ms: milliseconds(ran.saturating_sub(evaluated.timing)),
                timing_ms: milliseconds(evaluated.timing),
            }),
        })
    }

    fn cancel(&mut self) {
        self.pool.cancel();
    }

    fn confirm(
        &mut self,
        finalists: &[Trial],
        baseline_ns: f64,
        secret: u64,
        status: &mut dyn FnMut(&str),
    ) -> Result<Confirmation, Failure> {
        let mut candidates = Vec::new();
        for trial in finalists {
            // Usually in the cache; a cleared cache compiles again.
            let build = self.task.candidate_build(&trial.config);
            let Ok(built) = self.pool.build_one(&build)? else {
                continue;
            };
            let contender = self.contender(&built, &build, &trial.config);
            candidates.push(Candidate { trial, contender });
        }
        if interrupt::asked() {
            return Err(interrupted());
        }
        // For the first duel of the play-off, which only chooses and takes them all: what is
        // published comes from fresh processes.
        let mut started = self.crew.disband();
        let on_gpu = |contender: &Contender| {
            usize::from(matches!(contender.program.worker, WorkerKind::Cuda { .. }))
        };
        let both = candidates.first().map(|candidate| &candidate.contender);
        started.truncate(both.map_or(0, on_gpu) + on_gpu(&self.baseline));
        let mut python = match &self.baseline.program.worker {
            WorkerKind::Python(_) => [self.python.pop(), self.python.pop()],
            _ => Default::default(),
        };
        in_python::settle(&mut python);
        Confirmer {
            task: self.task,
            oracle: &mut self.oracle,
            baseline: &self.baseline,
            baseline_ns,
            secret,
            status,
            python,
            spare: Default::default(),
            started,
            kept: None,
            pool: Some(self.pool),
        }
        .confirm(candidates)
    }

    fn timings(&self) -> Timings {
        self.timings
    }
}

fn not_run(outcome: Outcome, compile: Option<CompileFacts>) -> Tried {
    Tried {
        outcome,
        skipped_shapes: Vec::new(),
        compile,
        spent: None,
    }
}

fn milliseconds(time: Duration) -> f64 {
    // Microseconds are enough, and keep the record short.
    (time.as_secs_f64() * 1e6).round() / 1e3
}
