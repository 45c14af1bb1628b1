//! `kiln compare`: which of two kernels is faster.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::cli::{CompareArgs, HowArgs, TellArgs};
use crate::engine::versus::Budget;
use crate::exit::{Exit, Failure};
use crate::gate::judge::{Pairing, Settings};
use crate::gate::junit::Undecided;
use crate::gate::{Findings, Shapes, Stage, judge, junit, markdown, report, resolve_both, settle};
use crate::packed::{self, Existing};
use crate::{printer, project};

const DEFAULT_MARGIN: f64 = 0.03;

pub fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let path = manifest(args.path.as_deref())?;
    let stage = Stage::open(&path, args.how.no_wait)?;
    let shapes = stage.shapes(&wanted(&stage, &args.how.shapes))?;
    let (mut a, mut b) = resolve_both(&stage, &args.a, &args.b)?;
    let first = shapes.first().map(String::as_str).unwrap_or_default();
    settle(&stage, &stage.task(first, &shapes)?, [&mut a, &mut b])?;
    let pairings: Vec<Pairing> = shapes
        .iter()
        .map(|shape| Pairing {
            shape: shape.clone(),
            a: a.clone(),
            b: b.clone(),
        })
        .collect();
    let findings = judge(&stage, &pairings, settings(&args.how, None))?;
    let exit = findings.exit(report::exit_code);
    tell(
        &stage,
        &findings,
        "compare",
        &args.tell,
        exit,
        Undecided::Fails,
    )?;
    Ok(exit)
}

/// The manifest a user means. Unlike `kiln tune`, a comparison is about a kernel of the user's own.
pub fn manifest(path: Option<&Path>) -> Result<PathBuf, Failure> {
    if path.is_none() && !Path::new(project::MANIFEST_NAME).is_file() {
        return Err(
            Failure::usage(format!("there is no {} here", project::MANIFEST_NAME))
                .hint("name a manifest, or a folder that has one"),
        );
    }
    project::locate(path)
}

pub fn settings(how: &HowArgs, margin: Option<f64>) -> Settings {
    Settings {
        margin: how.margin.or(margin).unwrap_or(DEFAULT_MARGIN),
        budget: Budget {
            seconds: how.seconds,
            samples: how.samples,
        },
    }
}

/// `all` means all, unless a shape has that name.
pub fn wanted(stage: &Stage, names: &[String]) -> Shapes {
    let is_name = |name: &String| {
        let shapes = &stage.file.manifest.shapes;
        shapes.iter().any(|s| s.name == *name)
    };
    match names {
        [] => Shapes::Target,
        [all] if all == "all" && !is_name(all) => Shapes::All,
        names => Shapes::Named(names.to_vec()),
    }
}

/// The findings in every form that was asked for. Annotations go where other talk goes.
pub fn tell(
    stage: &Stage,
    findings: &Findings,
    verb: &str,
    how: &TellArgs,
    exit: Exit,
    undecided: Undecided,
) -> Result<(), Failure> {
    let title = format!("kiln {verb}");
    if how.json {
        let document = report::document(stage, findings, verb, exit);
        printer::data(&format!("{document:#}"));
    } else {
        printer::data(&report::table(stage, findings, &title));
    }
    if verb == "gate" {
        let fails = undecided == Undecided::Fails;
        for line in report::annotations(stage, findings, fails) {
            printer::talk(&line);
        }
    }
    if let Some(path) = &how.junit {
        let xml = junit::text(stage, findings, verb, undecided);
        packed::write(xml.into_bytes(), path, Existing::Replace)?;
    }
    if let Some(path) = &how.markdown {
        append(path, &markdown::text(stage, findings, &title))?;
    }
    Ok(())
}

fn append(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| Failure::io(format!("cannot write `{}`", path.display()), &e))
}
