//! One subject on one shape: timed by kiln, launched once more under the profiler, and judged.

use kiln_core::bottleneck::raw_csv::Launch;
use kiln_core::bottleneck::stages::refine;
use kiln_core::bottleneck::without_counters::{self, Timed};
use kiln_core::bottleneck::{
    Ceilings, Choice, Circumstances, Counters, Diagnosis, KernelProfile, Profile, Subject, diagnose,
};
use kiln_core::manifest::BaselineKind;
use kiln_core::occupancy::Occupancy;
use kiln_core::protocol::Resources;
use kiln_core::trial::{Assignment, Outcome};

use super::ncu::{Ncu, NoCounters};
use super::stages;
use crate::engine::bench::{Bench, LiveBench};
use crate::engine::compile_pool::CompilePool;
use crate::engine::crew::Crew;
use crate::engine::evaluate::{self, Contender, Seeds};
use crate::engine::oracle::Oracle;
use crate::exit::{Exit, Failure};
use crate::task::{Part, Task};

/// What a profile is made with.
pub struct Tools {
    pub ncu: Result<Ncu, NoCounters>,
    pub ceilings: Option<Ceilings>,
    pub stages: StagesWanted,
}

/// When the manifest's stages are left out one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagesWanted {
    Always,
    WithoutCounters,
    Never,
}

/// A program with what is known of it before it is profiled.
pub struct Profiled {
    pub subject: Subject,
    contender: Contender,
    resources: Option<Resources>,
    occupancy: Option<Occupancy>,
    pub time_ns: Option<f64>,
}

/// A config of the kernel: built, checked and timed on the task's target.
pub fn candidate(
    task: &Task,
    pool: &CompilePool,
    config: &Assignment,
) -> Result<Profiled, Failure> {
    let build = task.candidate_build(config);
    let built = pool
        .build_one(&build)?
        .map_err(|outcome| not_run(task, &outcome))?;
    let facts = task.compile_facts(&built, config);
    if let Some(outcome) = task.gate_after_compiling(&facts, config) {
        return Err(not_run(task, &outcome));
    }
    let contender = Contender {
        program: built.program(&build),
        part: Part::Candidate,
        config: config.clone(),
        style: task.style(config),
        own: None,
        is_beside: false,
    };
    Ok(Profiled {
        subject: Subject::Candidate {
            config: config.clone(),
        },
        occupancy: task.occupancy(facts.resources.as_ref(), config),
        resources: facts.resources,
        contender,
        time_ns: None,
    })
}

/// The same with its time by kiln's own clock, which also checks its answers.
pub fn timed_candidate(
    task: &Task,
    pool: &CompilePool,
    config: &Assignment,
) -> Result<Profiled, Failure> {
    let mut found = candidate(task, pool, config)?;
    let outcome = match (&task.manifest().baseline, &task.manifest().reference) {
        // Nothing to hold its answers against, so it is not timed either.
        (None, None) => return Ok(found),
        // A profile needs no verdict.
        (None, Some(_)) => {
            let mut oracle = Oracle::new(task, pool)?;
            let mut crew = Crew::new(found.contender.program.worker.clone());
            let contender = &found.contender;
            evaluate::evaluate(task, &mut oracle, &mut crew, contender, seeds(), None)?.outcome
        }
        (Some(_), _) => {
            let mut bench = LiveBench::new(task, pool)?;
            let build = bench.submit(std::slice::from_ref(config)).start;
            bench.run(build, config, seeds(), None)?.outcome
        }
    };
    let ns = outcome.median_ns().ok_or_else(|| not_run(task, &outcome))?;
    found.time_ns = Some(ns);
    Ok(found)
}

/// The manifest's [baseline], where there is one.
pub fn baseline(task: &Task, pool: &CompilePool) -> Result<Option<Profiled>, Failure> {
    if task.manifest().baseline.is_none() {
        return Ok(None);
    }
    let mut bench = LiveBench::new(task, pool)?;
    let (label, outcome) = bench.baseline(1)?;
    let contender = bench.into_baseline();
    Ok(Some(Profiled {
        subject: Subject::Baseline { label },
        contender,
        resources: None,
        occupancy: None,
        time_ns: outcome.median_ns(),
    }))
}

fn seeds() -> Seeds {
    Seeds {
        secret: 1,
        batch: 0,
        trial: 0,
        timed_inputs_are_checked: true,
    }
}

fn not_run(task: &Task, outcome: &Outcome) -> Failure {
    let shape = &task.manifest().target().name;
    let failure = Failure::new(
        Exit::No,
        format!("the kernel cannot be profiled on shape `{shape}`: it {outcome}"),
    );
    match outcome {
        Outcome::NotCompiled(compile) => Failure {
            message: format!("{}\n{}", failure.message, compile.log.trim_end()),
            ..failure
        },
        _ => failure.hint("a profile of wrong work explains nothing: mend that first"),
    }
}

/// Whether it has the kernel's stages: a config of the kernel, as candidate or as baseline.
fn has_stages(task: &Task, found: &Profiled) -> bool {
    let is_own = match found.subject {
        Subject::Candidate { .. } => true,
        Subject::Baseline { .. } => {
            let kind = task.manifest().baseline.as_ref().map(|b| &b.kind);
            matches!(kind, Some(BaselineKind::Config { .. }))
        }
        Subject::Imported { .. } => false,
    };
    is_own && !task.manifest().stages.is_empty()
}

/// Whether anything but its time could be told of the baseline.
pub fn says_something(tools: &Tools, task: &Task) -> bool {
    let kind = task.manifest().baseline.as_ref().map(|b| &b.kind);
    let is_own = matches!(kind, Some(BaselineKind::Config { .. }));
    !matches!(tools.ncu, Err(NoCounters::OnCpu)) || (is_own && !task.manifest().stages.is_empty())
}

/// Profiles a program on the task's target.
pub fn profile(
    tools: &Tools,
    task: &Task,
    pool: &CompilePool,
    found: &Profiled,
) -> Result<Profile, Failure> {
    let target = task.manifest().target();
    let launches = match &tools.ncu {
        Ok(ncu) => ncu.profile(task, &found.contender, target)?,
        Err(reason) => Err(reason.clone()),
    };
    let choices = choices(task, found);
    let work = &task.manifest().work;
    let around = Circumstances {
        flops: task.work(work.flops.as_ref()),
        bytes: task.work(work.bytes.as_ref()),
        ceilings: tools.ceilings.as_ref(),
        resources: found.resources,
        choices: &choices,
    };
    let timed = Timed {
        time_ns: found.time_ns,
        occupancy: found.occupancy,
    };
    let is_wanted = match tools.stages {
        StagesWanted::Always => true,
        StagesWanted::WithoutCounters => launches.is_err(),
        StagesWanted::Never => false,
    };
    let stages = match is_wanted && has_stages(task, found) {
        true => {
            let whole = &found.contender;
            Some(stages::measure(task, pool, whole, found.time_ns)?)
        }
        false => None,
    };
    let judged = match &launches {
        Ok(launches) => Judged::of(launches, &around),
        Err(_) => {
            let known = match task.is_cuda() {
                true => without_counters::diagnose(&timed, &around),
                false => without_counters::on_cpu(&timed, &around),
            };
            let named = &task.manifest().stages;
            Judged {
                kernels: Vec::new(),
                diagnosis: match &stages {
                    Some(stages) => refine(known, stages, named),
                    None => known,
                },
            }
        }
    };
    Ok(Profile {
        subject: found.subject.clone(),
        shape: target.name.clone(),
        dimensions: target.dimensions.clone(),
        kernels: judged.kernels,
        time_ns: found.time_ns,
        without_counters: launches.err().map(|reason| reason.in_words()),
        stages,
        diagnosis: judged.diagnosis,
        sources: task.sources_hash()[..16].to_string(),
        profiler: tools
            .ncu
            .as_ref()
            .map_or(String::new(), |ncu| format!("ncu {}", ncu.version)),
        kiln_version: env!("CARGO_PKG_VERSION").to_string(),
    })
}

/// A table that was made elsewhere.
pub fn imported(file: &str, launches: &[Launch], around: &Circumstances<'_>) -> Profile {
    let judged = Judged::of(launches, around);
    Profile {
        subject: Subject::Imported { file: file.into() },
        shape: String::new(),
        dimensions: Vec::new(),
        kernels: judged.kernels,
        time_ns: None,
        without_counters: None,
        stages: None,
        diagnosis: judged.diagnosis,
        sources: String::new(),
        profiler: String::new(),
        kiln_version: env!("CARGO_PKG_VERSION").to_string(),
    }
}

struct Judged {
    kernels: Vec<KernelProfile>,
    diagnosis: Diagnosis,
}

impl Judged {
    /// Launches by kernel, the one that takes longest first; that one is judged.
    fn of(launches: &[Launch], around: &Circumstances<'_>) -> Judged {
        let time = |counters: &Counters| counters.duration_ns.unwrap_or(0.0);
        let all: f64 = launches.iter().map(|l| time(&Counters::of(l))).sum();
        let mut kernels: Vec<KernelProfile> = Vec::new();
        for launch in launches {
            let counters = Counters::of(launch);
            let share = if all > 0.0 {
                time(&counters) / all
            } else {
                0.0
            };
            match kernels
                .iter_mut()
                .find(|known| known.kernel == launch.kernel)
            {
                Some(known) => {
                    known.launches += 1;
                    known.share += share;
                    if time(&counters) > time(&known.counters) {
                        known.counters = counters;
                    }
                }
                None => kernels.push(KernelProfile {
                    kernel: launch.kernel.clone(),
                    launches: 1,
                    share,
                    counters,
                }),
            }
        }
        kernels.sort_by(|a, b| b.share.total_cmp(&a.share));
        let longest = kernels
            .first()
            .map_or_else(Counters::default, |k| k.counters.clone());
        // What [work] says is about the whole call: of several kernels none has to do all of it.
        let around = match kernels.len() {
            1 => *around,
            _ => Circumstances {
                flops: None,
                bytes: None,
                ..*around
            },
        };
        Judged {
            diagnosis: diagnose(&longest, &around),
            kernels,
        }
    }
}

/// Tunables only say something about the kernel they belong to.
fn choices(task: &Task, found: &Profiled) -> Vec<Choice> {
    let kind = task.manifest().baseline.as_ref().map(|b| &b.kind);
    match (&found.subject, kind) {
        (Subject::Candidate { config }, _) => Choice::all(task.manifest(), config),
        (Subject::Baseline { .. }, Some(BaselineKind::Config { .. })) => {
            Choice::all(task.manifest(), &found.contender.config)
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_a_call_are_told_apart_by_their_time() {
        let launch = |kernel: &str, ns: f64| Launch {
            kernel: kernel.into(),
            metrics: [("gpu__time_duration.sum".to_string(), ns)].into(),
        };
        let launches = [
            launch("copy", 10.0),
            launch("main", 60.0),
            launch("copy", 30.0),
        ];
        let profile = imported("x.csv", &launches, &Circumstances::default());
        let told: Vec<(&str, u64, f64)> = profile
            .kernels
            .iter()
            .map(|k| (k.kernel.as_str(), k.launches, k.share))
            .collect();
        assert_eq!(told, [("main", 1, 0.6), ("copy", 2, 0.4)]);
        assert_eq!(profile.kernels[1].counters.duration_ns, Some(30.0));
    }
}
