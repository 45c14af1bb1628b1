//! The machine and the question: one manifest, its shapes, and a task for each of them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_core::manifest::{Fill, Language, Measure, Role, ShapePurpose};
use kiln_core::protocol::{ArgumentSpec, DeviceInfo, Problem};

use super::side::{Origin, Side};
use super::tree::Tree;
use crate::cache::Cache;
use crate::commands::tune::{prepare_support, wait_for_machine};
use crate::engine::compile_pool::CompilePool;
use crate::engine::worker::{Worker, WorkerKind};
use crate::engine::{broken, interrupt};
use crate::exit::Failure;
use crate::project::{self, ManifestFile};
use crate::settings;
use crate::task::{Part, Task};

/// Which shapes are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shapes {
    Target,
    All,
    Named(Vec<String>),
}

pub struct Stage {
    pub file: ManifestFile,
    /// The project's folder, where it is not found by looking upwards.
    root: Option<PathBuf>,
    pub device: DeviceInfo,
    pub pool: CompilePool,
    /// An idle process on the GPU makes starting the next one quicker.
    _scout: Worker,
    /// The right to measure here.
    _machine: File,
}

impl Stage {
    pub fn open(path: &Path, no_wait: bool) -> Result<Stage, Failure> {
        Stage::open_in(path, None, no_wait)
    }

    /// For a manifest whose project is said to be `root`.
    pub fn open_in(path: &Path, root: Option<PathBuf>, no_wait: bool) -> Result<Stage, Failure> {
        let file = read(path, root.as_deref())?;
        let kind = match file.manifest.kernel.language {
            Language::C => WorkerKind::cpu(),
            Language::Cuda => WorkerKind::cuda(None),
        };
        interrupt::install()
            .map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
        let scout = Worker::spawn(&kind).map_err(|end| broken(&end))?;
        let device = scout.device.clone();
        let machine = wait_for_machine(&device, no_wait)?;
        let cache = Arc::new(Cache::open()?);
        Ok(Stage {
            file,
            root,
            device,
            pool: CompilePool::new(cache, settings::compile_jobs()),
            _scout: scout,
            _machine: machine,
        })
    }

    /// Names of the shapes a user wants, in the manifest's order.
    pub fn shapes(&self, wanted: &Shapes) -> Result<Vec<String>, Failure> {
        let manifest = &self.file.manifest;
        if let Shapes::Named(names) = wanted {
            let known: Vec<&str> = manifest.shapes.iter().map(|s| s.name.as_str()).collect();
            if let Some(unknown) = names.iter().find(|n| !known.contains(&n.as_str())) {
                return Err(Failure::usage(format!(
                    "`{}` has no shape `{unknown}`",
                    self.file.name()
                ))
                .hint(format!("its shapes are {}", known.join(", "))));
            }
        }
        let is_wanted = |name: &str, purpose: ShapePurpose| match wanted {
            Shapes::Target => purpose == ShapePurpose::Target,
            Shapes::All => true,
            Shapes::Named(names) => names.iter().any(|n| n == name),
        };
        let shapes = manifest.shapes.iter();
        Ok(shapes
            .filter(|s| is_wanted(&s.name, s.purpose))
            .map(|s| s.name.clone())
            .collect())
    }

    /// The manifest with another shape as its target. Shapes that are judged have their own turn;
    /// those to be checked stay.
    pub fn task(&self, shape: &str, judged: &[String]) -> Result<Task, Failure> {
        let mut file = read(&self.file.path, self.root.as_deref())?;
        for found in &mut file.manifest.shapes {
            found.purpose = match found.purpose {
                _ if found.name == shape => ShapePurpose::Target,
                ShapePurpose::Target if judged.contains(&found.name) => ShapePurpose::Sweep,
                ShapePurpose::Target => ShapePurpose::Check,
                other => other,
            };
        }
        time_briefly(&mut file.manifest.measure);
        let mut task = Task::new(file, self.device.clone(), None)?;
        prepare_support(&mut task, &self.pool)?;
        Ok(task)
    }

    /// The task a side's kernel belongs to, where that is not the one at hand. It answers the same
    /// question: shapes, inputs, reference and tolerance are those of today.
    pub fn own_task(&self, side: &Side, task: &Task) -> Result<Option<Arc<Task>>, Failure> {
        let mut file = match &side.origin {
            Origin::Current | Origin::Baseline => return Ok(None),
            Origin::Source(path) => {
                let mut file = project::read(&self.file.path)?;
                file.manifest.kernel.source.value = path.display().to_string();
                file
            }
            Origin::Tree(tree) => {
                copy_data(task, tree)?;
                project::read(&tree.manifest()).map_err(|f| side.blamed(f))?
            }
        };
        let today = task.manifest();
        let manifest = &mut file.manifest;
        if manifest.kernel.language != today.kernel.language
            || manifest.dimension_names() != today.dimension_names()
        {
            return Err(another_question(
                side,
                &format!(
                    "its shapes have the dimensions {}, not {}",
                    manifest.dimension_names().join(", "),
                    today.dimension_names().join(", ")
                ),
            ));
        }
        manifest.shapes.clone_from(&today.shapes);
        manifest.measure = today.measure.clone();
        manifest.reference = None;
        manifest.baseline = None;
        let own = Task::new(file, self.device.clone(), None);
        let mut own = own.map_err(|f| side.blamed(f))?;
        own.support.clone_from(&task.support);
        same_question(side, task, &own)?;
        Ok(Some(Arc::new(own)))
    }

    /// Of manifest and sources, to notice edits.
    pub fn file_hash(&self) -> Result<String, Failure> {
        let target = self.file.manifest.target().name.clone();
        let task = self.task(&target, &[])?;
        Ok(format!(
            "{} {}",
            task.sources_hash(),
            blake3::hash(task.file.text.as_bytes())
        ))
    }

    /// The manifest as a user would name it: relative to the folder kiln runs in, if it is below.
    pub fn shown_path(&self) -> String {
        let here = std::env::current_dir().and_then(|dir| dir.canonicalize());
        let path: PathBuf = match here {
            Ok(here) => self
                .file
                .path
                .strip_prefix(here)
                .unwrap_or(&self.file.path)
                .to_path_buf(),
            Err(_) => self.file.path.clone(),
        };
        path.display().to_string()
    }

    /// The line a shape stands on in the manifest.
    pub fn line_of(&self, shape: &str) -> usize {
        let found = self.file.manifest.shapes.iter().find(|s| s.name == shape);
        let before = found.and_then(|s| self.file.text.get(..s.span.start));
        1 + before.map_or(0, |text| text.matches('\n').count())
    }
}

fn read(path: &Path, root: Option<&Path>) -> Result<ManifestFile, Failure> {
    let mut file = project::read(path)?;
    if let Some(root) = root {
        file.root = root.to_path_buf();
    }
    Ok(file)
}

/// What is timed with a check decides only how many samples there is time for.
pub fn time_briefly(measure: &mut Measure) {
    measure.max_samples = measure.max_samples.min(5);
    measure.min_samples = measure.min_samples.min(3);
    measure.max_seconds = measure.max_seconds.min(0.5);
}

fn another_question(side: &Side, why: &str) -> Failure {
    let message = format!("`{}` is about another question: {why}", side.label);
    side.blamed(Failure::usage(message).hint(
        "two kernels can be compared when they take the same inputs and give the same outputs",
    ))
}

/// Inputs that come from files are today's on both sides.
fn copy_data(task: &Task, tree: &Tree) -> Result<(), Failure> {
    let manifest = tree.manifest();
    let folder = manifest
        .parent()
        .and_then(|p| p.strip_prefix(tree.root()).ok());
    let folder = folder.unwrap_or(Path::new(""));
    for name in task.data_files() {
        let Ok(relative) = Path::new(&name).strip_prefix(task.file.dir()) else {
            continue;
        };
        let contents = std::fs::read(&name)
            .map_err(|e| Failure::bad_path(format!("cannot read the data file `{name}`"), &e))?;
        tree.write(&folder.join(relative), &contents)?;
    }
    Ok(())
}

/// Buffers that are filled or compared must be the same, at the same places: these decide what they
/// hold. Scratch, scalars and descriptors are a kernel's own business.
fn same_question(side: &Side, task: &Task, own: &Task) -> Result<(), Failure> {
    let target = task.manifest().target();
    let problem = |of: &Task| of.problem(Part::Candidate, target, &of.any_config()?, 0);
    let (today, theirs) = (problem(task)?, problem(own).map_err(|f| side.blamed(f))?);
    match difference(&today, &theirs) {
        None => Ok(()),
        Some(why) => Err(another_question(side, &why)),
    }
}

fn difference(today: &Problem, theirs: &Problem) -> Option<String> {
    let judged = |problem: &Problem| -> Vec<(usize, String)> {
        let arguments = problem.arguments.iter().enumerate();
        arguments
            .filter_map(|(place, argument)| match argument {
                ArgumentSpec::Buffer {
                    role: Role::Scratch | Role::Zeroed,
                    ..
                } => None,
                ArgumentSpec::Buffer {
                    name,
                    dtype,
                    extents,
                    role,
                    fill,
                    ..
                } => {
                    let fill = match fill {
                        Fill::File { .. } => "from a file".into(),
                        drawn => format!("{drawn:?}"),
                    };
                    Some((
                        place,
                        format!("{name}: {dtype} {extents:?}, {role:?}, {fill}"),
                    ))
                }
                ArgumentSpec::Scalar { .. } | ArgumentSpec::Tma { .. } => None,
            })
            .collect()
    };
    let (today, theirs) = (judged(today), judged(theirs));
    let differing = today.iter().zip(&theirs).find(|(a, b)| a != b);
    if let Some(((_, mine), (_, other))) = differing {
        return Some(format!("it takes `{other}` where today's takes `{mine}`"));
    }
    (today.len() != theirs.len())
        .then(|| format!("it takes {} buffers, today's {}", theirs.len(), today.len()))
}
