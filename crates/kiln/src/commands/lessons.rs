//! `kiln lessons`: what was learnt, and what speaks for and against it.

use std::path::{Path, PathBuf};

use kiln_core::diagnostic::printable;
use kiln_core::journal::Entry;
use kiln_core::lesson::{self, Evidence, Lesson, LessonFile, Status, evidence_text};
use serde_json::json;

use crate::cli::{LessonFormat, LessonsArgs, LessonsVerb, ProjectArgs};
use crate::exit::{Exit, Failure};
use crate::learn::{lessons, now_unix_ms};
use crate::packed::{self, Existing};
use crate::store::{SqliteStore, Store, no_studies};
use crate::{printer, project};

pub fn run(args: &LessonsArgs) -> Result<Exit, Failure> {
    match &args.verb {
        LessonsVerb::List {
            all,
            kernel,
            project,
        } => list(project, *all, kernel.as_deref()),
        LessonsVerb::Show { lesson, project } => show(project, lesson),
        LessonsVerb::Learn { study, project } => learn(project, *study),
        LessonsVerb::Export {
            to,
            format,
            kernel,
            force,
            project,
        } => {
            let existing = Existing::from_force(*force);
            export(project, to, *format, kernel.as_deref(), existing)
        }
        LessonsVerb::Import {
            file,
            kernel,
            project,
        } => import(project, file, kernel.as_deref()),
        LessonsVerb::Forget {
            lesson,
            because,
            project,
        } => forget(project, lesson, because),
    }
}

fn root(folder: &Path) -> Result<PathBuf, Failure> {
    let absolute = folder
        .canonicalize()
        .map_err(|e| Failure::bad_path(format!("cannot use `{}`", folder.display()), &e))?;
    Ok(project::project_root(&absolute))
}

fn all_of(args: &ProjectArgs) -> Result<Vec<Lesson>, Failure> {
    match SqliteStore::open_existing(&root(&args.project)?)? {
        Some(store) => lessons::of_project(&store),
        None => Ok(Vec::new()),
    }
}

fn list(args: &ProjectArgs, all: bool, kernel: Option<&str>) -> Result<Exit, Failure> {
    let mut found = all_of(args)?;
    found.retain(|l| all || l.status != Status::Retired);
    found.retain(|l| kernel.is_none_or(|kernel| l.kernel == kernel));
    if args.json {
        printer::document(&json!({"schema_version": 1, "lessons": found}));
    } else if found.is_empty() {
        printer::talk(
            "no lessons here yet; a finished `kiln tune` leaves some where values clearly matter or fail",
        );
    } else {
        let line = |l: &Lesson| {
            format!(
                "{}  {:<12} {:<10} {} on {}\n    {}",
                l.id,
                l.status.name(),
                l.claim.kind(),
                printable(&l.kernel),
                printable(&l.device),
                printable(&l.statement)
            )
        };
        let lines: Vec<String> = found.iter().map(line).collect();
        printer::data(&lines.join("\n"));
    }
    Ok(Exit::Success)
}

/// A lesson by its name, or the beginning of it.
fn find(found: Vec<Lesson>, name: &str) -> Result<Lesson, Failure> {
    let name = name.trim();
    let mut meant: Vec<Lesson> = found
        .into_iter()
        .filter(|l| !name.is_empty() && l.id.starts_with(name))
        .collect();
    match (meant.pop(), meant.is_empty()) {
        (Some(lesson), true) => Ok(lesson),
        (Some(_), false) => Err(Failure::usage(format!(
            "several lessons begin with `{}`",
            printable(name)
        ))
        .hint("give more of its name; `kiln lessons list --all` shows them")),
        (None, _) => Err(
            Failure::usage(format!("there is no lesson `{}` here", printable(name)))
                .hint("`kiln lessons list --all` shows them"),
        ),
    }
}

fn show(args: &ProjectArgs, name: &str) -> Result<Exit, Failure> {
    let lesson = find(all_of(args)?, name)?;
    if args.json {
        printer::document(&json!({"schema_version": 1, "lesson": lesson}));
        return Ok(Exit::Success);
    }
    let evidence = |of: &[Evidence], count: u64| match (of, count) {
        ([], _) => "nothing".to_string(),
        (some, 1) => printable(&evidence_text(some)),
        (some, count) => format!("{count} trials: {}", printable(&evidence_text(some))),
    };
    let (supporting, opposing) = lesson.counts();
    let date = crate::report::terminal::date;
    let lines = [
        format!("{}: {}", lesson.id, printable(&lesson.statement)),
        format!(
            "  {:<10} {}, revision {}",
            "status",
            lesson.status.name(),
            lesson.revision
        ),
        format!(
            "  {:<10} {} on {} ({})",
            "about",
            printable(&lesson.kernel),
            printable(&lesson.device),
            printable(&lesson.architecture)
        ),
        format!("  {:<10} {}", "for", evidence(&lesson.evidence, supporting)),
        format!(
            "  {:<10} {}",
            "against",
            evidence(&lesson.counter_evidence, opposing)
        ),
        format!(
            "  {:<10} {} to {} (UTC), by kiln {}",
            "seen",
            date(lesson.first_seen_unix_ms),
            date(lesson.last_seen_unix_ms),
            printable(&lesson.kiln_version)
        ),
        format!(
            "  {:<10} {}",
            "claim",
            printable(&json!(lesson.claim).to_string())
        ),
    ];
    printer::data(&lines.join("\n"));
    Ok(Exit::Success)
}

/// From studies that were finished before lessons were kept, or whose run ended before they were.
fn learn(args: &ProjectArgs, study: Option<u64>) -> Result<Exit, Failure> {
    let root = root(&args.project)?;
    let mut store = SqliteStore::open_existing(&root)?.ok_or_else(|| no_studies(&root))?;
    let ids: Vec<u64> = match study {
        Some(id) => vec![id],
        None => store.studies()?.iter().map(|s| s.id).collect(),
    };
    let mut learnt = lessons::Learnt::default();
    for id in ids {
        let study = store.study(id)?;
        let more = lessons::learn(&study, &mut store)?;
        learnt.new += more.new;
        learnt.confirmed += more.confirmed;
        learnt.contradicted += more.contradicted;
    }
    if args.json {
        printer::document(&json!({
            "schema_version": 1, "new": learnt.new, "confirmed": learnt.confirmed,
            "contradicted": learnt.contradicted,
        }));
    } else {
        let nothing = || "nothing new: finished studies have been learnt from".to_string();
        printer::talk(&learnt.sentence().unwrap_or_else(nothing));
    }
    Ok(Exit::Success)
}

fn export(
    args: &ProjectArgs,
    to: &Path,
    format: Option<LessonFormat>,
    kernel: Option<&str>,
    existing: Existing,
) -> Result<Exit, Failure> {
    let mut found = all_of(args)?;
    found.retain(|l| l.status != Status::Retired);
    found.retain(|l| kernel.is_none_or(|kernel| l.kernel == kernel));
    if found.is_empty() {
        return Err(Failure::usage("there is no lesson to export")
            .hint("a finished `kiln tune` leaves some; `kiln lessons list` shows them"));
    }
    // Numbers of studies mean something in this project only.
    let root = root(&args.project)?;
    let name = root
        .file_name()
        .map_or("project".into(), |n| n.to_string_lossy());
    for lesson in &mut found {
        let all = lesson
            .evidence
            .iter_mut()
            .chain(&mut lesson.counter_evidence);
        for evidence in all.filter(|e| e.project.is_empty()) {
            evidence.project = name.to_string();
        }
    }
    let by_name = match to.extension().and_then(|e| e.to_str()) {
        Some("toml") => Some(LessonFormat::Toml),
        Some("md") => Some(LessonFormat::Markdown),
        _ => None,
    };
    let count = found.len();
    let text = match format.or(by_name) {
        Some(LessonFormat::Markdown) => lesson::markdown(&found),
        Some(LessonFormat::Toml) => LessonFile::new(found)
            .text()
            .map_err(|e| Failure::usage(format!("the lessons cannot be written as TOML: {e}")))?,
        None => {
            return Err(Failure::usage(format!(
                "`{}` ends neither in .toml nor in .md",
                to.display()
            ))
            .hint("`--format toml` or `--format markdown` says what it is to be"));
        }
    };
    let bytes = packed::write(text.into_bytes(), to, existing)?;
    if args.json {
        printer::document(&json!({
            "schema_version": 1, "file": to.display().to_string(), "bytes": bytes, "lessons": count,
        }));
    } else {
        let noun = if count == 1 { "lesson" } else { "lessons" };
        printer::talk(&format!("wrote {count} {noun} to {}", to.display()));
    }
    Ok(Exit::Success)
}

fn import(args: &ProjectArgs, file: &Path, kernel: Option<&str>) -> Result<Exit, Failure> {
    let shown = file.display();
    let cannot = |why: String| Failure::usage(format!("cannot read lessons from `{shown}`: {why}"));
    let contents = packed::read(file).map_err(|e| cannot(e.to_string()))?;
    let text = std::str::from_utf8(contents.plain()).map_err(|e| cannot(e.to_string()))?;
    let parsed = LessonFile::parse(text).map_err(|e| cannot(e.to_string()).hint(e.hint()))?;
    let mut store = SqliteStore::open(&root(&args.project)?)?;
    let known = lessons::of_project(&store)?;
    let (mut new, mut merged) = (0, 0);
    for mut lesson in parsed.lessons {
        if let Some(kernel) = kernel {
            lesson.kernel = kernel.to_string();
            lesson.id = lesson::lesson_id(&lesson.kernel, &lesson.architecture, &lesson.claim);
        }
        let all = lesson
            .evidence
            .iter_mut()
            .chain(&mut lesson.counter_evidence);
        for evidence in all.filter(|e| e.project.is_empty()) {
            evidence.project = "another project".into();
        }
        lesson.restate();
        match known.iter().any(|l| l.id == lesson.id) {
            true => merged += 1,
            false => new += 1,
        }
        store.enter(now_unix_ms(), &Entry::LessonImported(Box::new(lesson)))?;
    }
    if args.json {
        printer::document(&json!({"schema_version": 1, "new": new, "merged": merged}));
    } else {
        printer::talk(&format!(
            "imported: {new} new, {merged} that were known; `kiln lessons list` shows them"
        ));
    }
    Ok(Exit::Success)
}

fn forget(args: &ProjectArgs, name: &str, because: &str) -> Result<Exit, Failure> {
    let lesson = find(all_of(args)?, name)?;
    let mut store = SqliteStore::open(&root(&args.project)?)?;
    let entry = Entry::LessonRetired {
        lesson: lesson.id.clone(),
        reason: because.to_string(),
    };
    store.enter(now_unix_ms(), &entry)?;
    match args.json {
        true => printer::document(&json!({"schema_version": 1, "retired": lesson.id})),
        false => printer::talk(&format!(
            "lesson {} is retired: it is neither shown nor used; its evidence stays in the store",
            lesson.id
        )),
    }
    Ok(Exit::Success)
}
