//! A package on this machine: is every file as it was exported, does it fit the device, is every answer right,
//! and is it as fast against the baseline as it was where it was tuned?

use std::path::{Path, PathBuf};

use kiln_core::diagnostic::printable;
use kiln_core::manifest::Language;
use kiln_core::stats::Interval;
use kiln_core::trial::Assignment;

use super::files::inside;
use super::importable::{self, Importable};
use super::package::{self, Dispatch, Image, Package, PackagedConfig, Target};
use super::plan::SOURCES;
use super::sealed;
use crate::cache;
use crate::engine::evaluate::Contender;
use crate::engine::oracle::Oracle;
use crate::engine::standby::Standby;
use crate::engine::versus::{self, Budget, Limits, Match};
use crate::engine::worker::WorkerKind;
use crate::engine::{interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::gate::{self, Answer, Checker, Origin, Side, Stage};
use crate::printer;
use crate::task::{Part, Program, Task};

/// How far a package is to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    Files,
    Answers,
    Speed,
}

pub struct Wanted {
    pub depth: Depth,
    /// None: all.
    pub shapes: Vec<String>,
    pub seconds: f64,
    pub no_wait: bool,
}

/// What came of one shape.
pub struct ShapeResult {
    pub entry: Dispatch,
    /// What is wrong with its answer.
    pub wrong: Option<String>,
    /// Against the baseline, here.
    pub speed: Option<Speed>,
    pub note: Option<String>,
}

pub struct Speed {
    pub answer: Answer,
    pub speedup: f64,
    pub interval: [f64; 2],
    pub baseline_ns: f64,
    pub kernel_ns: f64,
    pub kernel_ci_95: Interval,
}

pub struct Verified {
    pub package: Package,
    /// Files that are not as they were exported, or not part of it, or at odds with each other.
    pub problems: Vec<String>,
    /// Files that Python or a build made in the folder.
    pub made: usize,
    pub device: Option<String>,
    pub shapes: Vec<ShapeResult>,
    /// Shapes that an interruption left out.
    pub left_out: Vec<String>,
    /// What the check of the answers need not tell, by the manifest's `admits`.
    pub admits: Vec<String>,
}

impl Verified {
    pub fn exit(&self) -> Exit {
        if !self.left_out.is_empty() {
            return Exit::Interrupted;
        }
        let slower = |s: &ShapeResult| s.speed.as_ref().is_some_and(|s| s.answer == Answer::Slower);
        if self.shapes.iter().any(|s| s.wrong.is_some()) {
            return Exit::Wrong;
        }
        match self.problems.is_empty() && !self.shapes.iter().any(slower) {
            true => Exit::Success,
            false => Exit::No,
        }
    }
}

const MARGIN: f64 = 0.03;

/// The description of a package, with nothing in it that leads elsewhere.
pub fn read(folder: &Path) -> Result<Package, Failure> {
    let path = folder.join(package::FILE);
    let shown = path.display();
    let text = sealed::text(&path).map_err(|e| {
        Failure::usage(format!("cannot read `{shown}`: {e}"))
            .hint("give the folder that `kiln export` wrote")
    })?;
    let bad = |why: String| Failure::usage(format!("`{shown}` describes no package: {why}"));
    let version = serde_json::from_str::<serde_json::Value>(&text)
        .map_err(|e| bad(e.to_string()))?
        .get("schema_version")
        .and_then(serde_json::Value::as_u64);
    if version != Some(package::SCHEMA_VERSION) {
        return Err(bad(match version {
            Some(version) => format!(
                "it is of format {version}, this kiln reads {}",
                package::SCHEMA_VERSION
            ),
            None => "it says no `schema_version`".into(),
        })
        .hint("use the kiln it was exported with, or export again"));
    }
    let package: Package = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let files = package
        .configs
        .iter()
        .flat_map(|c| &c.images)
        .map(|i| &i.file);
    for name in files.chain([&package.manifest]) {
        if inside(folder, name).is_none() {
            return Err(bad(format!("`{}` lies outside it", printable(name))));
        }
    }
    for entry in &package.dispatch {
        if package.config(&entry.config).is_none() {
            return Err(bad(format!(
                "it has no config `{}`",
                printable(&entry.config)
            )));
        }
    }
    Ok(package)
}

pub fn verify(folder: &Path, wanted: &Wanted) -> Result<Verified, Failure> {
    let package = read(folder)?;
    let seal = sealed::examine(folder, &package)?;
    let mut verified = Verified {
        problems: seal.problems,
        made: seal.made,
        package,
        device: None,
        shapes: Vec::new(),
        left_out: Vec::new(),
        admits: Vec::new(),
    };
    let entries = chosen(&verified.package, &wanted.shapes)?;
    if verified.problems.is_empty()
        && wanted.depth != Depth::Files
        && verified.package.target == Target::Torch
        && let Importable::Broken(why) = importable::examine(folder, None)
    {
        verified
            .problems
            .push(format!("the module cannot be imported: {why}"));
    }
    // What was changed is not what was exported: there is nothing to find out about it.
    if wanted.depth == Depth::Files || !verified.problems.is_empty() {
        return Ok(verified);
    }
    let absolute = folder
        .canonicalize()
        .map_err(|e| Failure::bad_path(format!("cannot use `{}`", folder.display()), &e))?;
    let manifest = absolute.join(&verified.package.manifest);
    let stage = Stage::open_in(&manifest, Some(absolute.join(SOURCES)), wanted.no_wait)?;
    verified.device = Some(stage.device.name.clone());
    verified.admits.clone_from(&stage.file.manifest.admits);
    fits(&stage, &verified.package)?;
    let names: Vec<String> = entries.iter().map(|e| e.shape.clone()).collect();
    let mut standby = Standby::default();
    for (index, entry) in entries.into_iter().enumerate() {
        printer::talk(&format!(
            "shape `{}` ({} of {})",
            entry.shape,
            index + 1,
            names.len()
        ));
        let found = match interrupt::asked() {
            true => Err(interrupted()),
            false => shape(
                &stage,
                &absolute,
                &verified.package,
                &entry,
                &names,
                wanted,
                &mut standby,
            ),
        };
        match found {
            Ok(found) => verified.shapes.push(found),
            // What was found until then is not lost.
            Err(failure) if failure.exit == Exit::Interrupted => {
                verified.left_out = names[index..].to_vec();
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(verified)
}

fn chosen(package: &Package, wanted: &[String]) -> Result<Vec<Dispatch>, Failure> {
    let known: Vec<&str> = package.dispatch.iter().map(|e| e.shape.as_str()).collect();
    if let Some(unknown) = wanted.iter().find(|w| !known.contains(&w.as_str())) {
        return Err(
            Failure::usage(format!("the package has no shape `{}`", printable(unknown)))
                .hint(format!("it has {}", known.join(", "))),
        );
    }
    let is_wanted = |e: &&Dispatch| wanted.is_empty() || wanted.contains(&e.shape);
    Ok(package.dispatch.iter().filter(is_wanted).cloned().collect())
}

/// The image of a config that runs here, where the package has images at all.
fn image_for<'p>(config: &'p PackagedConfig, stage: &Stage) -> Option<&'p Image> {
    let mut images = config.images.iter();
    match &stage.device.cuda {
        Some(gpu) => images.find(|i| runs_on(&i.architecture, &gpu.architecture)),
        None => images.find(|i| i.architecture == std::env::consts::ARCH),
    }
}

/// Whether an image for one architecture, such as `sm_90a`, runs on a device of another.
fn runs_on(image: &str, device: &str) -> bool {
    let number = |name: &str| -> Option<(u32, u32)> {
        let digits = name
            .strip_prefix("sm_")?
            .trim_end_matches(char::is_alphabetic);
        let number: u32 = digits.parse().ok()?;
        Some((number / 10, number % 10))
    };
    match (number(image), number(device)) {
        (Some(made), Some(own)) if image.ends_with('a') => made == own,
        (Some(made), Some(own)) => made.0 == own.0 && made.1 <= own.1,
        _ => false,
    }
}

fn fits(stage: &Stage, package: &Package) -> Result<(), Failure> {
    let with_images = package.configs.iter().filter(|c| !c.images.is_empty());
    for config in with_images {
        if image_for(config, stage).is_none() {
            let made: Vec<&str> = config
                .images
                .iter()
                .map(|i| i.architecture.as_str())
                .collect();
            let own = stage
                .device
                .cuda
                .as_ref()
                .map_or(std::env::consts::ARCH, |gpu| &gpu.architecture);
            return Err(Failure::machine(format!(
                "the package is for {}, this machine has {} ({own})",
                made.join(", "),
                stage.device.name
            ))
            .hint(format!(
                "export it with `--arch {own}`, or tune the kernel here"
            )));
        }
    }
    Ok(())
}

fn shape(
    stage: &Stage,
    folder: &Path,
    package: &Package,
    entry: &Dispatch,
    names: &[String],
    wanted: &Wanted,
    standby: &mut Standby,
) -> Result<ShapeResult, Failure> {
    let task = stage.task(&entry.shape, names)?;
    let mut result = ShapeResult {
        entry: entry.clone(),
        wrong: None,
        speed: None,
        note: None,
    };
    let contender = match contender(stage, folder, package, entry, &task)? {
        Ok(contender) => contender,
        Err(why) => {
            result.wrong = Some(why);
            return Ok(result);
        }
    };
    if task.manifest().reference.is_none() {
        result.note = Some("the manifest has no [reference]: the answer was not checked".into());
        return Ok(result);
    }
    let mut oracle = Oracle::after(standby.oracle.take(), &task, &stage.pool)?;
    let examined = examine(
        stage,
        (&task, &contender),
        &mut oracle,
        (wanted, names.len()),
        standby,
        &mut result,
    );
    standby.oracle = Some(oracle);
    examined.map(|()| result)
}

/// Answers first, then times against the baseline.
fn examine(
    stage: &Stage,
    (task, contender): (&Task, &Contender),
    oracle: &mut Oracle,
    (wanted, shapes): (&Wanted, usize),
    standby: &mut Standby,
    result: &mut ShapeResult,
) -> Result<(), Failure> {
    let secret = cache::random_u64();
    let mut checker = Checker::new(task, standby);
    let own_ns = match checker.check(task, oracle, contender, secret)? {
        Ok(ns) => ns,
        Err(outcome) => {
            result.wrong = Some(outcome.to_string());
            checker.dismiss(standby);
            return Ok(());
        }
    };
    if wanted.depth != Depth::Speed || task.manifest().baseline.is_none() {
        checker.dismiss(standby);
        return Ok(());
    }
    let side = Side {
        label: "baseline".into(),
        origin: Origin::Baseline,
        config: None,
        notes: Vec::new(),
        letter: None,
    };
    // Whether the baseline can run here says nothing about the package.
    let ready = match gate::contender(stage, task, &side) {
        Ok(Ok(baseline)) => {
            standby.start(task, &baseline)?;
            match checker.check(task, oracle, &baseline, secret) {
                Ok(Ok(ns)) => Ok((baseline, ns)),
                Ok(Err(outcome)) => Err(outcome.to_string()),
                Err(failure) if failure.exit != Exit::Interrupted => Err(failure.message),
                Err(failure) => return Err(failure),
            }
        }
        Ok(Err(outcome)) => Err(outcome.to_string()),
        Err(failure) if failure.exit != Exit::Interrupted => Err(failure.message),
        Err(failure) => return Err(failure),
    };
    checker.dismiss(standby);
    let (baseline, baseline_ns) = match ready {
        Ok(ready) => ready,
        Err(why) => {
            result.note = Some(format!(
                "not timed: the baseline cannot be used here: {why}"
            ));
            return Ok(());
        }
    };
    let limits = Limits {
        margin: MARGIN,
        shapes,
    };
    let budget = Budget {
        seconds: wanted.seconds,
        samples: None,
    };
    let plan = versus::Plan::new(baseline.style, limits, budget, own_ns + baseline_ns);
    let sides = Match {
        task,
        oracle,
        baseline: &baseline,
        candidate: contender,
        secret,
        status: &mut |_| {},
    };
    match versus::judge(sides, &plan, standby)? {
        Ok(judged) => {
            if judged.ended == versus::Ended::OutOfTime {
                let few = match judged.had_too_few_rounds() {
                    true => ", too few to call a difference",
                    false => "",
                };
                result.note = Some(format!(
                    "the time was up after {} rounds{few}; `--seconds` allows more",
                    judged.rounds
                ));
            }
            result.speed = Some(Speed {
                answer: judged.look.verdict.into(),
                speedup: judged.look.comparison.speedup,
                interval: [judged.look.interval.low, judged.look.interval.high],
                baseline_ns: judged.look.comparison.baseline_ns,
                kernel_ns: judged.look.comparison.candidate_ns,
                kernel_ci_95: judged.look.comparison.candidate_ci_95,
            });
        }
        Err(fallen) if fallen.side == versus::Side::B => {
            result.wrong = Some(fallen.outcome.to_string())
        }
        Err(fallen) => {
            result.note = Some(format!("not timed: the baseline {}", fallen.outcome));
        }
    }
    Ok(())
}

/// The packaged image, or what this machine's compiler makes of the packaged source.
fn contender(
    stage: &Stage,
    folder: &Path,
    package: &Package,
    entry: &Dispatch,
    task: &Task,
) -> Result<Result<Contender, String>, Failure> {
    let Some(packaged) = package.config(&entry.config) else {
        return Ok(Err("the package does not have its config".into()));
    };
    let values: Assignment = packaged.values.clone().into_iter().collect();
    let config = gate::config_on(task, &packaged.id, &values.into())?;
    if let Some(image) = image_for(packaged, stage) {
        let path: PathBuf = inside(folder, &image.file).ok_or_else(|| {
            Failure::usage("an image lies outside the package")
                .hint("the package was edited: export it again with `kiln export`")
        })?;
        let kind = match package.language {
            Language::Cuda => WorkerKind::cuda(task.support.clone()),
            Language::C => WorkerKind::reading_only(task.data_files()),
        };
        return Ok(Ok(Contender {
            program: Program {
                worker: kind.reading(path.parent().unwrap_or(folder)),
                image: path.display().to_string(),
                symbol: image.symbol.clone(),
            },
            part: Part::Candidate,
            style: task.style(&config),
            config,
            own: None,
            is_beside: false,
        }));
    }
    let side = Side {
        label: packaged.id.clone(),
        origin: Origin::Current,
        config: Some(config.into()),
        notes: Vec::new(),
        letter: None,
    };
    Ok(gate::contender(stage, task, &side)?.map_err(|outcome| outcome.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_run_where_they_were_made_for() {
        for (image, device, runs) in [
            ("sm_90a", "sm_90", true),
            ("sm_90a", "sm_100", false),
            ("sm_80", "sm_86", true),
            ("sm_89", "sm_86", false),
            ("sm_80", "sm_90", false),
            ("sm_100a", "sm_103", false),
            ("sm_100", "sm_103", true),
            ("x86_64", "sm_90", false),
        ] {
            assert_eq!(runs_on(image, device), runs, "{image} on {device}");
        }
    }
}
