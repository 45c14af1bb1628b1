//! `kiln profile`: what binds a kernel, and what to change next.

use std::path::{Path, PathBuf};

use kiln_core::bottleneck::{Choice, Circumstances, Profile, raw_csv};
use kiln_core::diagnostic::printable;
use kiln_core::event::Event;
use kiln_core::manifest::{Language, Shape};
use kiln_core::study::Study;
use kiln_core::value::Value;

use crate::cli::ProfileArgs;
use crate::commands::compare;
use crate::exit::{Exit, Failure};
use crate::gate::{Chosen, Shapes, Stage, config_on, default_config, parse_config};
use crate::learn;
use crate::packed;
use crate::printer;
use crate::profile::ceilings;
use crate::profile::ncu::{Ncu, NoCounters};
use crate::profile::report::{self, Context};
use crate::profile::session::{self, StagesWanted, Tools};
use crate::project::{self, ManifestFile};
use crate::store::{SqliteStore, Store, no_studies};

type Values = Vec<(String, Value)>;

pub fn run(args: &ProfileArgs) -> Result<Exit, Failure> {
    if args.ceilings {
        return print_ceilings(args);
    }
    let meant = Meant::of(args)?;
    match &args.import {
        Some(file) => import(args, meant, file),
        None => profile(args, meant),
    }
}

/// The manifest and the study a user means.
struct Meant {
    /// `None` only where a table is imported by itself.
    manifest: Option<PathBuf>,
    study: Option<Study>,
    store: Option<SqliteStore>,
}

impl Meant {
    fn of(args: &ProfileArgs) -> Result<Meant, Failure> {
        let number = args.what.as_deref().and_then(study_number);
        if let Some(id) = number {
            let here = Path::new(".").canonicalize();
            let here = here.map_err(|e| Failure::io("cannot use the current folder", &e))?;
            let root = project::project_root(&here);
            let store = SqliteStore::open_existing(&root)?.ok_or_else(|| no_studies(&root))?;
            let study = store.study(id)?;
            return Ok(Meant {
                manifest: Some(root.join(&study.header.manifest)),
                study: Some(study),
                store: Some(store),
            });
        }
        let path = args.what.as_ref().map(PathBuf::from);
        let is_here = Path::new(project::MANIFEST_NAME).is_file();
        let manifest = match (&path, &args.import) {
            (None, Some(_)) if !is_here || args.config.is_none() => None,
            _ => Some(compare::manifest(path.as_deref())?),
        };
        Ok(Meant {
            manifest,
            study: None,
            store: None,
        })
    }

    /// The study that profiles are stored with: the named one, else the latest of this manifest.
    fn home_of(&mut self, file: &ManifestFile) -> Result<Option<u64>, Failure> {
        if let Some(study) = &self.study {
            return Ok(Some(study.id));
        }
        let Some(store) = SqliteStore::open_existing(&file.root)? else {
            return Ok(None);
        };
        let name = file.name();
        let latest = store
            .studies()?
            .into_iter()
            .rev()
            .find(|s| s.header.manifest == name && s.header.replayed_from.is_none());
        let id = latest.map(|summary| summary.id);
        if let Some(id) = id {
            self.study = Some(store.study(id)?);
            self.store = Some(store);
        }
        Ok(id)
    }

    fn keep(&mut self, profiles: &[Profile]) -> Result<(), Failure> {
        if let (Some(store), Some(study)) = (&mut self.store, &self.study) {
            for profile in profiles {
                let event = Event::Profiled(Box::new(profile.clone()));
                store.append(study.id, study.wall_ms, &event)?;
            }
            learn::lessons::from_profiles(study, profiles, store)?;
        }
        Ok(())
    }
}

/// `3` or `study:3`, unless a file has that name.
fn study_number(text: &str) -> Option<u64> {
    match text.strip_prefix("study:") {
        Some(number) => number.parse().ok(),
        None if Path::new(text).exists() => None,
        None => text.parse().ok(),
    }
}

fn profile(args: &ProfileArgs, mut meant: Meant) -> Result<Exit, Failure> {
    let path = meant.manifest.as_deref().ok_or_else(|| {
        Failure::usage("no manifest is named")
            .hint("give the folder with kiln.toml: `kiln profile PATH`")
    })?;
    refuse_blind(path, args.stages)?;
    let stage = Stage::open(path, args.no_wait)?;
    let wanted = wanted(&stage, args);
    let shapes = stage.shapes(&wanted)?;
    let values = values(args, &stage, &shapes, &meant)?;
    let tools = tools(args, &stage)?;
    let mut notes = Vec::new();
    let has_stages = !stage.file.manifest.stages.is_empty();
    if let Some(reason) = tools
        .ncu
        .as_ref()
        .err()
        .filter(|r| **r != NoCounters::OnCpu)
    {
        let also = match has_stages {
            true => ", and on what leaving stages out brings",
            false => "",
        };
        printer::talk(&format!(
            "warning: {}; what is said below rests on the compiler's report and on times{also}\nhint: {}",
            reason.in_words(),
            reason.fix()
        ));
    }
    let mut profiles = Vec::new();
    for shape in &shapes {
        let task = stage.task(shape, &shapes)?;
        let config = match config_on(&task, shape, &values) {
            Ok(config) => config,
            // A sweep shows what there is; one shape is all or nothing.
            Err(failure) if shapes.len() > 1 => {
                notes.push(format!("shape `{shape}` is left out: {}", failure.message));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        printer::talk(&format!("profiling on shape `{}`", printable(shape)));
        let candidate = session::timed_candidate(&task, &stage.pool, &config)?;
        profiles.push(session::profile(&tools, &task, &stage.pool, &candidate)?);
        if !args.no_baseline
            && session::says_something(&tools, &task)
            && let Some(found) = session::baseline(&task, &stage.pool)?
        {
            profiles.push(session::profile(&tools, &task, &stage.pool, &found)?);
        }
    }
    let refused = profiles.iter().find_map(|p| p.without_counters.as_ref());
    if let (Ok(_), Some(why)) = (&tools.ncu, refused) {
        let fix = no_counters_fix(why);
        printer::talk(&format!("warning: {why}\nhint: {fix}"));
    }
    let study = meant.home_of(&stage.file)?;
    meant.keep(&profiles)?;
    let context = Context {
        kernel: &stage.file.manifest.kernel.name,
        device: &stage.device.name,
        ceilings: tools.ceilings.as_ref(),
        study,
        notes: &notes,
    };
    tell(args, &context, &profiles);
    Ok(Exit::Success)
}

fn no_counters_fix(why: &str) -> &'static str {
    match why == NoCounters::NotPermitted.in_words() {
        true => NoCounters::NotPermitted.fix(),
        false => NoCounters::Failed(String::new()).fix(),
    }
}

/// Before a device is asked for: where there are neither counters nor stages there is nothing to say.
fn refuse_blind(path: &Path, stages: bool) -> Result<(), Failure> {
    const WAY_OUT: &str = "say what can be left out, as `[stages]` with `loads = \"-DNO_LOADS\"`: see docs/profile.md, Stages";
    let file = project::read(path)?;
    if !file.manifest.stages.is_empty() {
        return Ok(());
    }
    match file.manifest.kernel.language {
        Language::Cuda if !stages => Ok(()),
        Language::Cuda => {
            Err(Failure::usage(format!("`{}` has no [stages]", file.name())).hint(WAY_OUT))
        }
        Language::C => Err(Failure::usage(format!(
            "`{}` is a C kernel without [stages]: kiln reads no counters of a CPU",
            file.name()
        ))
        .hint(WAY_OUT)),
    }
}

fn wanted(stage: &Stage, args: &ProfileArgs) -> Shapes {
    match &args.shape {
        Some(shape) => Shapes::Named(vec![shape.clone()]),
        None => compare::wanted(stage, &args.shapes),
    }
}

/// The config that is profiled on every shape.
fn values(
    args: &ProfileArgs,
    stage: &Stage,
    shapes: &[String],
    meant: &Meant,
) -> Result<Chosen, Failure> {
    if let Some(text) = &args.config {
        return Ok(parse_config(text)?.into());
    }
    if let Some(study) = &meant.study {
        return of_study(study);
    }
    let first = shapes.first().map(String::as_str).unwrap_or_default();
    default_config(stage, &stage.task(first, shapes)?)
}

/// The winner of a study, else the fastest there was.
fn of_study(study: &Study) -> Result<Chosen, Failure> {
    if let Some(winner) = study.winner() {
        return Ok(Chosen::winner_of(study, &winner.config));
    }
    let best = study.best().map(|(trial, _)| {
        let from = format!("study {}'s best config", study.id);
        Chosen::from_place(trial.config.clone(), from)
    });
    best.ok_or_else(|| {
        Failure::usage(format!("study {} has no config that works", study.id)).hint(format!(
            "`kiln studies show {}` says what came of it",
            study.id
        ))
    })
}

fn tools(args: &ProfileArgs, stage: &Stage) -> Result<Tools, Failure> {
    let stages = match args.stages {
        true => StagesWanted::Always,
        false => StagesWanted::WithoutCounters,
    };
    Ok(match stage.file.manifest.kernel.language {
        Language::Cuda => Tools {
            ncu: Ncu::find(),
            ceilings: ceilings::if_possible(&stage.device, &stage.pool, args.fresh)?,
            stages,
        },
        Language::C => Tools {
            ncu: Err(NoCounters::OnCpu),
            ceilings: None,
            stages,
        },
    })
}

fn import(args: &ProfileArgs, mut meant: Meant, file: &Path) -> Result<Exit, Failure> {
    let shown = file.display().to_string();
    let contents = packed::read(file)
        .map_err(|e| Failure::usage(format!("cannot read `{}`: {e}", printable(&shown))))?;
    let text = String::from_utf8_lossy(contents.plain());
    let launches = raw_csv::parse(&text).map_err(|e| {
        Failure::usage(format!("`{}` is no table that kiln can read: {e}", printable(&shown)))
            .hint("make one with `ncu --csv --page raw --set full PROGRAM > FILE`, or from a report: `ncu --import FILE.ncu-rep --csv --page raw`")
    })?;
    let known = meant
        .manifest
        .as_deref()
        .map(|path| Known::of(path, args, meant.study.as_ref()));
    let known = known.transpose()?.unwrap_or_default();
    let around = Circumstances {
        flops: known.flops,
        bytes: known.bytes,
        ceilings: None,
        resources: None,
        choices: &known.choices,
    };
    // A table of several kernels is usually a whole program: each is judged by itself.
    let mut by_kernel: Vec<Vec<raw_csv::Launch>> = Vec::new();
    for launch in launches {
        match by_kernel
            .iter_mut()
            .find(|known| known[0].kernel == launch.kernel)
        {
            Some(known) => known.push(launch),
            None => by_kernel.push(vec![launch]),
        }
    }
    let several = by_kernel.len() > 1;
    let profiles: Vec<Profile> = by_kernel
        .iter()
        .map(|launches| {
            let name = match several {
                true => format!("{shown}: {}", launches[0].kernel),
                false => shown.clone(),
            };
            session::imported(&name, launches, &around)
        })
        .collect();
    let study = meant.study.as_ref().map(|study| study.id);
    meant.keep(&profiles)?;
    let context = Context {
        kernel: &known.kernel,
        device: "",
        ceilings: None,
        study,
        notes: &[],
    };
    tell(args, &context, &profiles);
    Ok(Exit::Success)
}

/// What a manifest adds to a table: how much work there is, and which choices.
#[derive(Default)]
struct Known {
    kernel: String,
    flops: Option<f64>,
    bytes: Option<f64>,
    choices: Vec<Choice>,
}

impl Known {
    fn of(path: &Path, args: &ProfileArgs, study: Option<&Study>) -> Result<Known, Failure> {
        let mut file = project::read(path)?;
        file.aim_at(
            args.shape
                .as_deref()
                .or(study.map(|s| s.header.shape.as_str())),
        )?;
        let manifest = &file.manifest;
        let values = match (&args.config, study) {
            (Some(text), _) => parse_config(text)?,
            (None, Some(study)) => of_study(study)?.values,
            (None, None) => Values::new(),
        };
        if let Some((unknown, _)) = values
            .iter()
            .find(|(name, _)| manifest.tunables.iter().all(|t| t.name != *name))
        {
            return Err(Failure::usage(format!(
                "`{}` has no tunable `{}`",
                file.name(),
                printable(unknown)
            ))
            .hint("`kiln space` lists the tunables of the manifest"));
        }
        Ok(Known {
            kernel: manifest.kernel.name.clone(),
            flops: amount(manifest.target(), manifest.work.flops.as_ref()),
            bytes: amount(manifest.target(), manifest.work.bytes.as_ref()),
            choices: Choice::all(manifest, &values),
        })
    }
}

/// An amount of work on a shape, without a device.
fn amount(shape: &Shape, expr: Option<&kiln_core::expression::Expr>) -> Option<f64> {
    let names: Vec<&str> = shape
        .dimensions
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let values: Vec<Value> = shape
        .dimensions
        .iter()
        .map(|(_, n)| Value::Int(*n))
        .collect();
    expr?.bind(&names).ok()?.eval(&values).ok()?.as_f64()
}

fn tell(args: &ProfileArgs, context: &Context<'_>, profiles: &[Profile]) {
    match args.json {
        true => printer::document(&report::document(context, profiles)),
        false => printer::data(&report::text(context, profiles)),
    }
}

fn print_ceilings(args: &ProfileArgs) -> Result<Exit, Failure> {
    let found = ceilings::measure_here(args.fresh, args.no_wait)?;
    match args.json {
        true => printer::document(&report::ceilings_document(&found)),
        false => printer::data(&report::ceilings_text(&found)),
    }
    Ok(Exit::Success)
}
