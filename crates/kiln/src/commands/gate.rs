//! `kiln gate`: the kernel as it is against the baseline in the repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_core::gate_file::{BaselineFile, Entry};
use serde_json::json;

use super::compare::{manifest, settings, tell, wanted};
use crate::cli::{GateArgs, UndecidedArg};
use crate::engine::oracle::Oracle;
use crate::engine::standby::Standby;
use crate::exit::{Exit, Failure};
use crate::gate::baseline;
use crate::gate::judge::{Checker, Pairing};
use crate::gate::junit::Undecided;
use crate::gate::{
    Answer, Chosen, Findings, Origin, Shapes, Side, Stage, config_on, contender, default_config,
    judge, parse_config,
};
use crate::packed::Existing;
use crate::report::terminal::config_text;
use crate::task::Task;
use crate::{cache, printer};

const CURRENT: &str = "the kernel as it is";

pub fn run(args: &GateArgs) -> Result<Exit, Failure> {
    let path = manifest(args.path.as_deref())?;
    let baseline = match &args.baseline {
        Some(file) => file.clone(),
        None => baseline::default_path(&path),
    };
    match args.record {
        true => record(args, &path, &baseline),
        false => check(args, &path, &baseline),
    }
}

fn current(args: &GateArgs) -> Result<Side, Failure> {
    Ok(Side {
        label: CURRENT.into(),
        origin: Origin::Current,
        config: args
            .config
            .as_deref()
            .map(parse_config)
            .transpose()?
            .map(Chosen::from),
        notes: Vec::new(),
        letter: Some('B'),
    })
}

fn record(args: &GateArgs, path: &Path, baseline: &Path) -> Result<Exit, Failure> {
    // Before minutes are spent.
    if baseline.exists() && !args.force {
        return Err(
            Failure::usage(format!("`{}` is already there", baseline.display()))
                .hint("`kiln gate --ratchet` moves it forward when the kernel got faster")
                .hint("`--force` replaces it, faster or not"),
        );
    }
    let stage = Stage::open(path, args.how.no_wait)?;
    let shapes = stage.shapes(&wanted(&stage, &args.how.shapes))?;
    let mut file = BaselineFile::new(&stage.file.manifest.kernel.name);
    file.margin = args.how.margin;
    let (mut rows, mut told) = (Vec::new(), Vec::new());
    for shape in &shapes {
        let task = stage.task(shape, &shapes)?;
        let mut side = current(args)?;
        if side.config.is_none() {
            side.config = Some(default_config(&stage, &task)?);
        }
        let ns = right_and_timed(&stage, &task, &side)?;
        let values = side.config.clone().unwrap_or_default();
        let config = config_on(&task, CURRENT, &values)?;
        baseline::record(&mut file, &task, &config, ns)?;
        // Where several shapes have winners of their own, whose config it is is the next question.
        told.push(match &values.from {
            Some(from) => format!("{shape} ({from})"),
            None => shape.clone(),
        });
        rows.push(json!({"shape": shape, "recorded_ns": ns, "config": config_text(&config), "from": values.from}));
    }
    baseline::write(&file, baseline, Existing::from_force(args.force))?;
    let shown = baseline.display().to_string();
    if args.tell.json {
        let document =
            json!({"schema_version": 1, "verb": "gate", "recorded": shown, "shapes": rows});
        printer::data(&format!("{document:#}"));
    } else {
        printer::talk(&format!(
            "recorded {} in {shown}; commit it, and `kiln gate` compares with it",
            told.join(", ")
        ));
    }
    Ok(Exit::Success)
}

/// A baseline that is wrong would make a gate of nothing.
fn right_and_timed(stage: &Stage, task: &Task, side: &Side) -> Result<f64, Failure> {
    let wrong = |what: String| {
        Failure::new(Exit::Wrong, format!("{CURRENT} {what}")).hint("nothing was recorded")
    };
    let contender = contender(stage, task, side)?.map_err(|o| wrong(o.to_string()))?;
    let mut oracle = Oracle::new(task, &stage.pool)?;
    let mut checker = Checker::new(task, &mut Standby::default());
    let timed = checker.check(task, &mut oracle, &contender, cache::random_u64())?;
    timed.map_err(|o| wrong(o.to_string()))
}

fn check(args: &GateArgs, path: &Path, baseline: &Path) -> Result<Exit, Failure> {
    let mut file = baseline::read(baseline)?;
    let stage = Stage::open(path, args.how.no_wait)?;
    let shapes = judged_shapes(args, &stage, &file, baseline)?;
    let before = stage.file_hash()?;
    let mut pairings = Vec::new();
    for shape in &shapes {
        let entry = &file.shapes[shape];
        let mut b = current(args)?;
        b.notes = notes(&stage, entry, args.config.is_some());
        b.config.get_or_insert_with(|| {
            let from = format!("the config in `{}`", baseline.display());
            Chosen::from_place(entry.values(), from)
        });
        pairings.push(Pairing {
            shape: shape.clone(),
            a: recorded(&file, entry, baseline)?,
            b,
        });
    }
    let mut findings = judge(&stage, &pairings, settings(&args.how, file.margin))?;
    let exit = findings.exit(|answer| exit_code(answer, args.undecided));
    if args.ratchet {
        // A gate that does not pass moves nothing, and one that was interrupted compiles nothing any more.
        if exit == Exit::Success && stage.file_hash()? != before {
            return Err(
                Failure::usage("a source file was changed while it was measured")
                    .hint("the baseline was not moved; run `kiln gate --ratchet` again"),
            );
        }
        ratchet(&stage, &mut file, baseline, &mut findings, exit)?;
    }
    let undecided = match args.undecided {
        Some(UndecidedArg::Pass) => Undecided::Passes,
        _ => Undecided::Fails,
    };
    tell(&stage, &findings, "gate", &args.tell, exit, undecided)?;
    Ok(exit)
}

fn exit_code(answer: Answer, undecided: Option<UndecidedArg>) -> Exit {
    match (answer, undecided) {
        (Answer::Faster | Answer::Same, _) => Exit::Success,
        (Answer::Undecided, Some(UndecidedArg::Pass)) => Exit::Success,
        (Answer::Undecided, None) => Exit::Undecided,
        (Answer::Undecided, Some(UndecidedArg::Fail)) | (Answer::Slower, _) => Exit::No,
        (Answer::Wrong, _) => Exit::Wrong,
    }
}

/// The recorded kernel, unpacked.
fn recorded(file: &BaselineFile, entry: &Entry, path: &Path) -> Result<Side, Failure> {
    let name = PathBuf::from(path.file_name().unwrap_or_default());
    let revision = file.revision(entry).map_or(String::new(), |commit| {
        let short: String = commit.chars().take(10).collect();
        let changed = if commit.ends_with('+') {
            " with changes"
        } else {
            ""
        };
        format!(", recorded at {short}{changed}")
    });
    Ok(Side {
        label: format!("{}{revision}", name.display()),
        origin: Origin::Tree(Arc::new(baseline::tree(file, entry)?)),
        config: Some(entry.values().into()),
        notes: Vec::new(),
        letter: Some('A'),
    })
}

fn notes(stage: &Stage, entry: &Entry, has_config: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if entry.device != stage.device.name {
        notes.push(format!(
            "recorded on {}, measured here on {}: both sides, so the comparison holds; the config may \
             not be the best one here",
            entry.device, stage.device.name
        ));
    }
    if has_config {
        notes.push("the config of the kernel as it is was given by --config".into());
    }
    notes
}

/// Shapes of the baseline that were asked for; each must be in the manifest as it was.
fn judged_shapes(
    args: &GateArgs,
    stage: &Stage,
    file: &BaselineFile,
    path: &Path,
) -> Result<Vec<String>, Failure> {
    let shown = path.display();
    let manifest = &stage.file.manifest;
    let again = "`kiln gate --record --force` records the kernel as it is now, with the shapes `--shape` names";
    if file.kernel != manifest.kernel.name {
        return Err(Failure::usage(format!(
            "`{shown}` is of the kernel `{}`, not of `{}`",
            file.kernel, manifest.kernel.name
        ))
        .hint("`--baseline FILE` names another file")
        .hint(again));
    }
    let names = match wanted(stage, &args.how.shapes) {
        Shapes::Named(names) => names,
        Shapes::Target | Shapes::All => file.shapes.keys().cloned().collect(),
    };
    for name in &names {
        let Some(entry) = file.shapes.get(name) else {
            let known: Vec<&str> = file.shapes.keys().map(String::as_str).collect();
            return Err(Failure::usage(format!("`{shown}` has no shape `{name}`"))
                .hint(format!("it has {}", known.join(", ")))
                .hint(again));
        };
        let Some(shape) = manifest.shapes.iter().find(|s| s.name == *name) else {
            return Err(Failure::usage(format!(
                "shape `{name}` of `{shown}` is not in the manifest any more"
            ))
            .hint("`--shape` names those to judge")
            .hint(again));
        };
        let now: std::collections::BTreeMap<String, i64> =
            shape.dimensions.iter().cloned().collect();
        if now != entry.dimensions {
            return Err(Failure::usage(format!(
                "shape `{name}` was {} when it was recorded, and is {} now",
                sizes(&entry.dimensions),
                sizes(&now)
            ))
            .hint(again));
        }
    }
    Ok(names)
}

fn sizes(dimensions: &std::collections::BTreeMap<String, i64>) -> String {
    let pairs = dimensions
        .iter()
        .map(|(name, size)| format!("{name}={size}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Forward only: shapes that are FASTER, and only when the gate as a whole passes.
fn ratchet(
    stage: &Stage,
    file: &mut BaselineFile,
    path: &Path,
    findings: &mut Findings,
    exit: Exit,
) -> Result<(), Failure> {
    let shown = path.display();
    if exit != Exit::Success {
        let note = format!("`{shown}` stays as it is: it moves only when the gate passes");
        findings.notes.push(note);
        return Ok(());
    }
    let names: Vec<String> = findings.shapes.iter().map(|s| s.shape.clone()).collect();
    let mut moved = Vec::new();
    for finding in &findings.shapes {
        let (Answer::Faster, Ok(judged), Some(config)) =
            (finding.answer(), &finding.result, &finding.b_config)
        else {
            continue;
        };
        let entry = &file.shapes[&finding.shape];
        if entry.device != stage.device.name {
            findings.notes.push(format!(
                "the baseline of {} stays: it belongs to {}",
                finding.shape, entry.device
            ));
            continue;
        }
        let task = stage.task(&finding.shape, &names)?;
        baseline::record(file, &task, config, judged.look.comparison.candidate_ns)?;
        moved.push(finding.shape.clone());
    }
    if moved.is_empty() {
        let note = format!("`{shown}` stays as it is: nothing is FASTER");
        findings.notes.push(note);
        return Ok(());
    }
    baseline::write(file, path, Existing::Replace)?;
    let note = format!(
        "`{shown}` moved forward for {}; commit it",
        moved.join(", ")
    );
    findings.notes.push(note);
    Ok(())
}
