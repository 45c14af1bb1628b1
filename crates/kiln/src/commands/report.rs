//! `kiln report`: a study to look at, as a file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiln_core::interchange::{self, Table};
use kiln_core::recording::Recording;
use kiln_core::study::Study;

use super::studies;
use crate::cli::{ReportArgs, ReportFormat};
use crate::engine::opening;
use crate::exit::{Exit, Failure};
use crate::packed::{self, Existing};
use crate::printer;
use crate::recording;
use crate::report;
use crate::report::html::{Context, View};
use crate::settings;
use crate::store::{Store, StudySummary};

/// A study, and where it comes from.
struct Found {
    study: Study,
    place: String,
    others: Vec<StudySummary>,
    /// The page, where no name is given.
    page: Page,
    /// Where it comes from a file.
    recording: Option<Recording>,
}

enum Page {
    /// In kiln's own folder: what is there is an earlier report of the same study.
    OfProject(PathBuf),
    /// Where kiln runs.
    Here(PathBuf, Existing),
}

impl Page {
    /// Made sure of only where it is about to be written: a link in its place stops no report that goes elsewhere.
    fn place(&self) -> Result<(PathBuf, Existing), Failure> {
        match self {
            Page::Here(page, existing) => Ok((page.clone(), *existing)),
            Page::OfProject(page) => {
                let elsewhere = "`--out FILE` writes the report elsewhere";
                settings::private_dir(crate::durable::folder_of(page))
                    .and_then(|()| settings::refuse_link(page))
                    .map_err(|failure| failure.hint(elsewhere))?;
                Ok((page.clone(), Existing::Replace))
            }
        }
    }
}

pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    if args.open && args.format != ReportFormat::Html {
        return Err(Failure::usage("--open shows the HTML report")
            .hint("leave out --format, or leave out --open"));
    }
    let found = find(args)?;
    let study = &found.study;
    let text = match args.format {
        ReportFormat::Html => {
            let context = Context {
                place: &found.place,
                others: &found.others,
                view: View::File,
            };
            report::html::page(study, &context)
        }
        ReportFormat::Md => report::markdown::text(study),
        ReportFormat::Json => {
            let document = report::json::document(study, &found.place);
            kiln_core::escape::json(&format!("{document:#}\n")).into_owned()
        }
        ReportFormat::Csv => report::csv::table(study)?,
        ReportFormat::T4 => {
            let table = match &found.recording {
                Some(recording) => Table::of_recording(recording),
                None => Table::of_study(study),
            };
            let table = table
                .map_err(|e| Failure::usage(format!("{} cannot be exported: {e}", found.place)))?;
            format!("{}\n", interchange::write_t4(&table))
        }
    };
    let (path, existing) = match (&args.out, args.format) {
        (Some(path), _) => (path.clone(), Existing::from_force(args.force)),
        (None, ReportFormat::Html) => found.page.place()?,
        (None, _) => {
            printer::data(&text);
            return Ok(Exit::Success);
        }
    };
    let bytes = packed::write(text.into_bytes(), &path, existing)?;
    if !study.finished {
        printer::talk("note: the study is not finished; the report shows what there is so far");
    }
    printer::talk(&format!(
        "report of {} ({} trials, {})",
        found.place,
        study.trials.len(),
        report::terminal::human_bytes(bytes)
    ));
    printer::path(&path);
    if args.open {
        open(&path)?;
    }
    Ok(Exit::Success)
}

fn find(args: &ReportArgs) -> Result<Found, Failure> {
    let number = args.study.as_deref().map(str::parse::<u64>);
    match (number, &args.study) {
        (Some(Err(_)), Some(file)) => recorded(args, Path::new(file)),
        (number, _) => {
            let id = number.and_then(Result::ok);
            let (store, study) = studies::find(&args.project, id)?;
            let folder = store.path().with_file_name("reports");
            let page = folder.join(format!("study-{}.html", study.id));
            Ok(Found {
                place: format!("study {} in {}", study.id, store.path().display()),
                others: store.studies()?,
                page: Page::OfProject(page),
                recording: None,
                study,
            })
        }
    }
}

/// A recording is a study without its store.
fn recorded(args: &ReportArgs, file: &Path) -> Result<Found, Failure> {
    if file.is_dir() {
        let why = crate::cli::study_number(&file.to_string_lossy());
        return Err(Failure::usage(why.err().unwrap_or_default())
            .hint("`kiln studies list` shows the numbers"));
    }
    if !file.exists() {
        return Err(Failure::usage(format!(
            "`{}` is neither the number of a study nor a recording",
            file.display()
        ))
        .hint("`kiln studies list` shows the numbers"));
    }
    let recorded = recording::read(file)?;
    let study = opening::recorded_study(&recorded)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name
        .trim_end_matches(".gz")
        .trim_end_matches(".json")
        .trim_end_matches(".kiln");
    Ok(Found {
        place: format!("the recording {}", file.display()),
        others: Vec::new(),
        page: Page::Here(
            format!("{name}.html").into(),
            Existing::from_force(args.force),
        ),
        recording: Some(recorded.recording),
        study,
    })
}

/// Hands the file to whatever shows pages here. It may be a terminal's browser, so it keeps the terminal.
fn open(path: &Path) -> Result<(), Failure> {
    let cannot = |why: String| {
        Failure::machine(format!("cannot open a browser: {why}"))
            .hint(format!("open `{}` yourself", path.display()))
    };
    let program = ["xdg-open", "open"]
        .into_iter()
        .find_map(settings::on_path)
        .ok_or_else(|| cannot("neither `xdg-open` nor `open` is installed".into()))?;
    let path = path.canonicalize().map_err(|e| cannot(e.to_string()))?;
    let status = Command::new(&program)
        .arg(&path)
        .stdout(Stdio::null())
        .status()
        .map_err(|e| cannot(e.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(cannot(format!(
            "`{}` ended with {status}",
            program.display()
        ))),
    }
}
