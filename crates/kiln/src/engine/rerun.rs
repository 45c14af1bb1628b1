//! A trial once more, watched: where in the source did it fail?
//!
//! In C the kernel is built with line numbers and launched as before; a process that a signal ends says where it
//! was. Then it is built with the compiler's checks, which stop at the first bad access and not at the first
//! that hurts. On a GPU it runs under compute-sanitizer. Nothing is timed, and nothing is compared: that it
//! fails is known.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kiln_core::protocol::{Request, Response, SourcePlace, StoppedAt};
use kiln_core::study::Study;
use kiln_core::trial::{Assignment, Outcome, Phase, Trial};
use kiln_device::sandbox::{Inmate, Jail};
use serde::Serialize;

use super::compile_pool::CompilePool;
use super::confirm::sanitizer::{self, Details};
use super::evaluate::{self, Contender, Place, Seeds, Stop};
use super::worker::{Worker, WorkerKind};
use super::{Stream, broken, run_deadline};
use crate::exit::Failure;
use crate::task::{Part, Task};

/// Launches on the target beside the checked one: some fail only later.
const MORE_LAUNCHES: u64 = 4;
/// For finding a line in an image.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(30);
/// How a compiler's trap ends a process: SIGILL on x86, SIGTRAP elsewhere.
const TRAPS: [i32; 2] = [4, 5];
const LONGEST_LINE: usize = 160;

/// What watching a trial showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rerun {
    pub trial: u64,
    pub config: Assignment,
    /// How it ended in the study.
    pub was: String,
    pub looks: Vec<Look>,
}

/// One way of watching.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Look {
    /// In words.
    pub with: String,
    /// How it ended this time.
    pub result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<FaultPlace>,
}

/// Where it failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FaultPlace {
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Relative to the manifest's folder where it lies in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The line itself, where the file belongs to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl Rerun {
    /// The first place that was found.
    pub fn place(&self) -> Option<&FaultPlace> {
        let places = self.looks.iter().filter_map(|look| look.place.as_ref());
        let mut known = places.clone().filter(|place| place.line.is_some());
        known
            .next()
            .or_else(|| self.looks.iter().find_map(|look| look.place.as_ref()))
    }
}

/// Watches one trial of a study, with the sources as they are now.
pub fn rerun(
    task: &Task,
    pool: &CompilePool,
    study: &Study,
    trial: &Trial,
) -> Result<Rerun, Failure> {
    let looks = match task.is_cuda() {
        true => look_on_gpu(task, pool, study, trial)?,
        false => look_on_cpu(task, pool, study, trial)?,
    };
    Ok(Rerun {
        trial: trial.number,
        config: trial.config.clone(),
        was: trial.outcome.to_string(),
        looks,
    })
}

fn contender(task: &Task, config: &Assignment, program: crate::task::Program) -> Contender {
    Contender {
        program,
        part: Part::Candidate,
        config: config.clone(),
        style: task.style(config),
        own: None,
        is_beside: false,
    }
}

fn look_on_cpu(
    task: &Task,
    pool: &CompilePool,
    study: &Study,
    trial: &Trial,
) -> Result<Vec<Look>, Failure> {
    let traced = Some(("line numbers", task.traced_build(&trial.config)));
    let trapping = task.trapping_build(&trial.config);
    let builds = traced
        .into_iter()
        .chain(trapping.map(|build| ("the compiler's checks", build)));
    let mut looks = Vec::new();
    for (with, build) in builds {
        let built = match pool.build_one(&build)? {
            Ok(built) => built,
            Err(outcome) => {
                looks.push(Look {
                    with: with.into(),
                    result: outcome.to_string(),
                    place: None,
                });
                continue;
            }
        };
        let contender = contender(task, &trial.config, built.program(&build));
        let (outcome, stopped) = launch(task, &contender, seeds(study, trial))?;
        let place = match stopped {
            Some(stopped) => Some(place_of(task, &contender.program.image, stopped)?),
            None => None,
        };
        looks.push(Look {
            with: with.into(),
            result: outcome.map_or("ran to its end".into(), |o| o.to_string()),
            place,
        });
    }
    Ok(looks)
}

/// The inputs the trial had.
fn seeds(study: &Study, trial: &Trial) -> Seeds {
    let batch = study.header.batch.max(1) as u64;
    Seeds {
        secret: study.header.secret,
        batch: trial.number.saturating_sub(1) / batch,
        trial: trial.number,
        timed_inputs_are_checked: false,
    }
}

/// Launches on every shape as a trial does, and looks how the process ends.
fn launch(
    task: &Task,
    contender: &Contender,
    seeds: Seeds,
) -> Result<(Option<Outcome>, Option<StoppedAt>), Failure> {
    let mut worker = Worker::spawn(&contender.program.worker).map_err(|end| broken(&end))?;
    let mut place = Place::default();
    let done = launches(task, contender, seeds, &mut worker, &mut place);
    let outcome = match done {
        Ok(()) => None,
        Err(stop) => Some(place.outcome_of(stop, task, &worker)?),
    };
    Ok((outcome, worker.stopped_at))
}

fn launches(
    task: &Task,
    contender: &Contender,
    seeds: Seeds,
    worker: &mut Worker,
    place: &mut Place,
) -> Result<(), Stop> {
    let deadline = run_deadline(task);
    evaluate::load(worker, &contender.program, deadline)?;
    let shapes = task.checked_shapes();
    for (index, shape) in shapes.iter().enumerate() {
        if task.skips(shape, &contender.config).is_some() {
            continue;
        }
        *place = Place {
            phase: Phase::Check,
            shape: Some(shape.name.clone()),
        };
        let seed = seeds.inputs(Stream::Check, index);
        worker.prepare(&contender.problem(task, shape, seed)?, deadline)?;
        let further = match index + 1 == shapes.len() {
            true => MORE_LAUNCHES,
            false => 0,
        };
        for step in 0..=further {
            let check = Request::Check {
                cores: contender.style.cores,
                poison: seeds.poison(index as u64 + (step << 32)),
            };
            evaluate::answer_outputs(worker.request(&check, deadline)?)?;
        }
    }
    Ok(())
}

fn place_of(task: &Task, image: &str, stopped: StoppedAt) -> Result<FaultPlace, Failure> {
    let mut place = FaultPlace {
        what: match (TRAPS.contains(&stopped.signal), stopped.is_own) {
            (true, true) => "a check of the compiler failed".into(),
            (_, true) => "stopped".into(),
            (_, false) => "stopped in something that was called".into(),
        },
        thread: Some(match stopped.is_main_thread {
            true => "the launching thread".into(),
            false => "a thread of the kernel's own".into(),
        }),
        address: stopped.address.map(|address| format!("{address:#x}")),
        ..FaultPlace::default()
    };
    let Some(offset) = stopped.offset else {
        return Ok(place);
    };
    if let Some(source) = locate(image, offset)? {
        let (file, text) = in_project(task, &source.file, source.line);
        place.function = source.function;
        place.file = Some(file);
        place.line = Some(source.line);
        place.text = text;
    }
    Ok(place)
}

/// Asks a compile worker: the supervisor reads no image.
fn locate(image: &str, offset: u64) -> Result<Option<SourcePlace>, Failure> {
    let mut jail = Jail::new(Inmate::CompilerLibrary);
    let folder = Path::new(image).parent().unwrap_or(Path::new("/"));
    jail.reads.push(folder.display().to_string());
    let mut worker = Worker::spawn(&WorkerKind::Compile(jail)).map_err(|end| broken(&end))?;
    let request = Request::Locate {
        image: image.to_string(),
        offset,
    };
    match worker.request(&request, LOOKUP_DEADLINE) {
        Ok((Response::Located(place), _)) => Ok(place),
        // An image that its reader chokes on has no line to show.
        _ => Ok(None),
    }
}

/// The file as a reader knows it, and its line. An image may name any file there is; only those of the project are
/// opened.
fn in_project(task: &Task, file: &str, line: u32) -> (String, Option<String>) {
    let folder = task.file.dir();
    let Ok(real) = folder.join(file).canonicalize() else {
        return (file.to_string(), None);
    };
    let shown = match real.strip_prefix(folder) {
        Ok(relative) => relative.display().to_string(),
        Err(_) => file.to_string(),
    };
    if !real.starts_with(&task.file.root) {
        return (shown, None);
    }
    let text = fs::read_to_string(&real).ok().and_then(|text| {
        let found = text.lines().nth(line.checked_sub(1)? as usize)?;
        Some(found.trim_end().chars().take(LONGEST_LINE).collect())
    });
    (shown, text)
}

fn look_on_gpu(
    task: &Task,
    pool: &CompilePool,
    study: &Study,
    trial: &Trial,
) -> Result<Vec<Look>, Failure> {
    let build = task.traced_build(&trial.config);
    let built = match pool.build_one(&build)? {
        Ok(built) => built,
        Err(outcome) => {
            return Ok(vec![Look {
                with: "line numbers".into(),
                result: outcome.to_string(),
                place: None,
            }]);
        }
    };
    let contender = contender(task, &trial.config, built.program(&build));
    let shape = match &trial.outcome {
        Outcome::Crashed(crash) => crash.shape.as_deref(),
        Outcome::Wrong(mismatch) => Some(mismatch.shape.as_str()),
        _ => None,
    };
    let Some(looks) = sanitizer::look(task, &contender, study.header.secret, shape)? else {
        return Err(Failure::machine("compute-sanitizer is not installed")
            .hint("it comes with the CUDA toolkit; `kiln doctor` says where it is looked for"));
    };
    let looks = looks.into_iter().map(|look| {
        let first = look.errors.first();
        Look {
            with: format!("compute-sanitizer's {}", look.tool),
            result: match (look.errors.len(), look.ended) {
                (0, None) => "found nothing".into(),
                (0, Some(ended)) => format!("found nothing; {ended}"),
                (count, _) => format!("found {count}"),
            },
            place: first.map(|details| device_place(task, details)),
        }
    });
    Ok(looks.collect())
}

fn device_place(task: &Task, details: &Details) -> FaultPlace {
    let found = details.file.as_ref().zip(details.line);
    let found = found.map(|(file, line)| in_project(task, file, line));
    let (file, text) = match found {
        Some((file, text)) => (Some(file), text),
        None => (details.file.clone(), None),
    };
    FaultPlace {
        what: details.what.clone(),
        function: details.function.clone(),
        file,
        line: details.line,
        text,
        thread: details.thread.clone(),
        block: details.block.clone(),
        address: details.address.clone(),
    }
}
