//! One side of a comparison: where its kernel comes from, and in which config it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_core::study::Study;
use kiln_core::trial::Outcome;

use super::config::{Chosen, config_on, default_config};
use super::git;
use super::inside::{self, Given, Place, Surroundings};
use super::spec::Spec;
use super::stage::Stage;
use super::tree::Tree;
use crate::engine::evaluate::Contender;
use crate::engine::worker::WorkerKind;
use crate::exit::{Exit, Failure};
use crate::report::terminal::config_text;
use crate::since::{self, Changed};
use crate::store::{SqliteStore, Store, no_studies};
use crate::task::{Part, Task};

#[derive(Clone)]
pub enum Origin {
    /// Manifest and source as they are.
    Current,
    /// Another source file.
    Source(PathBuf),
    /// Another time.
    Tree(Arc<Tree>),
    /// The manifest's [baseline].
    Baseline,
}

#[derive(Clone)]
pub struct Side {
    pub label: String,
    pub origin: Origin,
    /// `None` where the other side's will do.
    pub config: Option<Chosen>,
    pub notes: Vec<String>,
    /// Which of the two it is, where reports call them A and B.
    pub letter: Option<char>,
}

impl Side {
    /// A failure that is this side's own, said to be so. What the machine cannot do is nobody's.
    pub fn blamed(&self, failure: Failure) -> Failure {
        blamed(self.letter, &self.label, failure)
    }

    pub fn borrows_its_config(&self) -> bool {
        let lender = self.config.as_ref().and_then(|c| c.lender.as_ref());
        lender.is_some()
    }
}

fn blamed(letter: Option<char>, label: &str, failure: Failure) -> Failure {
    if failure.exit != Exit::Usage {
        return failure;
    }
    let message = failure.message.trim_start_matches("error: ");
    let quoted = format!("`{label}`");
    let message = match (letter, message.contains(&quoted)) {
        (None, true) => message.to_string(),
        (None, false) => format!("{quoted}: {message}"),
        (Some(letter), true) => format!("{letter}: {message}"),
        (Some(letter), false) => format!("{letter} ({quoted}): {message}"),
    };
    Failure { message, ..failure }
}

/// What a user named, ready to be built.
pub fn resolve(stage: &Stage, text: &str) -> Result<Side, Failure> {
    resolve_beside(stage, text, None)
}

/// Both sides of a comparison: a file on one may say where a file on the other belongs.
pub fn resolve_both(stage: &Stage, a: &str, b: &str) -> Result<(Side, Side), Failure> {
    let resolve = |letter, text, other| {
        let side = resolve_beside(stage, text, Some(other));
        let side = side.map_err(|failure| blamed(Some(letter), text, failure))?;
        Ok(Side {
            letter: Some(letter),
            ..side
        })
    };
    Ok((resolve('A', a, b)?, resolve('B', b, a)?))
}

fn resolve_beside(stage: &Stage, text: &str, other: Option<&str>) -> Result<Side, Failure> {
    let mut notes = Vec::new();
    let (origin, config) = match Spec::parse(text)? {
        Spec::Baseline => (Origin::Baseline, None),
        Spec::Config(values) => (Origin::Current, Some(values.into())),
        Spec::Study(id) => {
            let study = study(stage, id)?;
            let winner = study.winner().ok_or_else(|| {
                Failure::usage(format!("study {id} has no confirmed winner"))
                    .hint(format!("`kiln studies show {id}` says what came of it"))
            })?;
            notes.extend(changed_since(stage, &study)?);
            (
                Origin::Current,
                Some(Chosen::winner_of(&study, &winner.config)),
            )
        }
        Spec::Source { path, config } => {
            let absolute = path.canonicalize().map_err(|e| {
                Failure::usage(format!("cannot use `{}`: {e}", path.display()))
                    .hint("source files are found from the folder kiln runs in")
            })?;
            // What is wrong with the other side is said of that one.
            let other = match other.map(Spec::parse) {
                Some(Ok(Spec::Source { path, .. })) => path.canonicalize().ok(),
                _ => None,
            };
            let (origin, note) = source_origin(stage, &path, absolute, other.as_deref())?;
            notes.extend(note);
            (origin, config.map(Chosen::from))
        }
        Spec::Git {
            revision,
            path,
            config,
        } => {
            let tree = git::checkout(&stage.file, &revision, path.as_deref())?;
            (Origin::Tree(Arc::new(tree)), config.map(Chosen::from))
        }
    };
    Ok(Side {
        label: text.to_string(),
        origin,
        config,
        notes,
        letter: None,
    })
}

/// A file as a kernel by itself, or inside the manifest's source, and a note where it is the latter.
fn source_origin(
    stage: &Stage,
    typed: &Path,
    path: PathBuf,
    other: Option<&Path>,
) -> Result<(Origin, Option<String>), Failure> {
    let target = stage.file.manifest.target().name.clone();
    let task = stage.task(&target, &[])?;
    let (typed, source) = (typed.display(), &task.manifest().kernel.source.value);
    let place = Surroundings::of(&task).place(&Given::read(&task, &path), other);
    Ok(match place {
        Place::Whole => (Origin::Source(path), None),
        Place::Included => {
            let note = format!("`{typed}` is built inside `{source}`, which includes it");
            (Origin::Current, Some(note))
        }
        Place::Instead(replaced) => {
            let tree = inside::tree_with(&task, &replaced, &path)?;
            let name = replaced.strip_prefix(task.file.dir()).unwrap_or(&replaced);
            let note = format!(
                "`{typed}` is built inside `{source}`, in place of `{}`",
                name.display()
            );
            (Origin::Tree(Arc::new(tree)), Some(note))
        }
    })
}

/// Why a config says nothing about a side: its kernel reads no tunable, and the manifest's source does.
pub fn without_effect(task: &Task, side: &Side, contender: &Contender) -> Option<String> {
    let own = contender.own.as_deref()?;
    (own.reads_no_tunable() && !task.reads_no_tunable()).then(|| {
        format!(
            "`{}` reads none of the tunables that `{}` reads: the config has no effect on it",
            side.label,
            task.manifest().kernel.source.value
        )
    })
}

/// A side that named no config gets the other's, else the latest winner's, else the only one.
pub fn settle(stage: &Stage, task: &Task, sides: [&mut Side; 2]) -> Result<(), Failure> {
    let [a, b] = sides;
    let lent = |side: &Side| side.config.as_ref().map(|config| config.lent_by(side));
    let known = lent(a).or_else(|| lent(b));
    for side in [a, b] {
        if side.config.is_some() || matches!(side.origin, Origin::Baseline) {
            continue;
        }
        side.config = Some(match &known {
            Some(config) => config.clone(),
            None => default_config(stage, task).map_err(|failure| side.blamed(failure))?,
        });
    }
    Ok(())
}

pub fn study(stage: &Stage, id: u64) -> Result<Study, Failure> {
    let store = SqliteStore::open_existing(&stage.file.root)?;
    let store = store.ok_or_else(|| no_studies(&stage.file.root))?;
    store.study(id)
}

/// A study keeps configs and hashes, not the kernel itself: what is compared is what is there now.
fn changed_since(stage: &Stage, study: &Study) -> Result<Vec<String>, Failure> {
    let name = stage.file.name();
    if study.header.manifest != name {
        return Ok(vec![format!(
            "study {} was of `{}`: its config is taken, and the kernel of `{name}`",
            study.id, study.header.manifest
        )]);
    }
    let target = stage.file.manifest.target().name.clone();
    let task = stage.task(&target, &[])?;
    let changes = since::changes(&task, &stage.file, study).into_iter();
    let told = changes.map(|change| match change {
        Changed::Sources => format!(
            "a source file changed since study {0}: its config is compared on the source as it is now \
             (`git:REVISION@{1}` has the old one)",
            study.id,
            study.winner().map_or(String::new(), |w| config_text(&w.config).replace(' ', ","))
        ),
        Changed::Manifest(what) => format!(
            "{what} changed since study {}: its config is compared with the manifest as it is now",
            study.id
        ),
    });
    Ok(told.collect())
}

/// A side built for a task. `Ok(Err(outcome))`: it does not compile, or a gate refuses it.
pub fn contender(
    stage: &Stage,
    task: &Task,
    side: &Side,
) -> Result<Result<Contender, Outcome>, Failure> {
    if matches!(side.origin, Origin::Baseline) {
        return baseline(stage, task).map_err(|failure| side.blamed(failure));
    }
    let own = stage.own_task(side, task)?;
    let of = own.as_deref().unwrap_or(task);
    let config = config_on(of, &side.label, &side.config.clone().unwrap_or_default())
        .map_err(|failure| side.blamed(failure))?;
    let build = of.candidate_build(&config);
    let built = match stage.pool.build_one(&build)? {
        Ok(built) => built,
        Err(outcome) => {
            return Ok(Err(match &side.origin {
                Origin::Tree(tree) => tree.without_folder(outcome),
                _ => outcome,
            }));
        }
    };
    let facts = of.compile_facts(&built, &config);
    if let Some(outcome) = of.gate_after_compiling(&facts, &config) {
        return Ok(Err(outcome));
    }
    Ok(Ok(Contender {
        program: built.program(&build),
        part: Part::Candidate,
        style: of.style(&config),
        config,
        own,
        is_beside: false,
    }))
}

fn baseline(stage: &Stage, task: &Task) -> Result<Result<Contender, Outcome>, Failure> {
    let (source, _) = task.baseline_source()?;
    let program = match stage.pool.program(&source)? {
        Ok(program) => program,
        Err(outcome) => return Ok(Err(outcome)),
    };
    let config = task.baseline_config()?;
    let mut style = task.style(&config);
    style.cores = task.baseline_cores()?;
    Ok(Ok(Contender {
        program,
        part: Part::Baseline,
        config,
        style,
        own: None,
        is_beside: false,
    }))
}

/// Only the first side keeps its process, and one that imports PyTorch has to.
pub fn may_come_second(contender: &Contender) -> Result<(), Failure> {
    match contender.program.worker {
        WorkerKind::Python(_) => Err(Failure::usage(
            "a baseline in Python can only be the first side",
        )
        .hint("swap them: `kiln compare baseline OTHER`")),
        _ => Ok(()),
    }
}
