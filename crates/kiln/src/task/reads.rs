//! Which files of the project a task's sources are made of.
//!
//! Two answers, taken together. `closure` follows the includes that stand in the sources, whatever `#if` they
//! stand under. The compiler says what it reads for a config (`cc -M`, `nvcc -M`, in the sandbox of compilers), which no
//! macro, flag or odd spelling hides from; NVRTC does not say, so for it what it could read counts. Headers of the system
//! and of the CUDA toolkit are not the project's.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use kiln_core::compiler_flags::{self, Dialect};
use kiln_core::protocol::{CompileJob, Request, Response, Tool};
use kiln_core::trial::{Assignment, CompileFailure};
use kiln_device::includes::{Reached, reachable};

use super::includes::{imported, included};
use super::{ReferenceFile, Source, Task};
use crate::cache::Cache;
use crate::engine::compile_pool::Build;
use crate::engine::jail;
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::exit::Failure;

/// Configs a compiler is asked about, where what is read may depend on them.
const MOST_CONFIGS: usize = 64;
/// The same for nvcc, which takes a second each.
const MOST_CONFIGS_OF_NVCC: usize = 8;
/// Reading is quick: a compiler that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file of the project that the kernel's source takes in.
pub struct KernelFile {
    pub path: PathBuf,
    pub text: String,
    /// Whether the compiler reads it, or could where it does not say; otherwise a directive names it.
    pub is_read: bool,
}

/// What files in Python import from beside them, and what that imports.
fn modules(files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut open: Vec<PathBuf> = files.iter().cloned().collect();
    let mut found = BTreeSet::new();
    while let Some(path) = open.pop() {
        if path.extension().is_none_or(|e| e != "py") {
            continue;
        }
        for module in imported(&path, &text_of(&path)) {
            if found.insert(module.clone()) {
                open.push(module);
            }
        }
    }
    found
}

impl Task {
    /// Hash of every file of the project the sources pull in, and of its data files.
    pub fn sources_hash(&self) -> String {
        if self.replayed.is_some() {
            return blake3::hash(b"").to_hex().to_string();
        }
        let mut roots = vec![self.source.clone()];
        roots.extend(self.baseline.clone());
        if let ReferenceFile::C { path }
        | ReferenceFile::Kernel { path }
        | ReferenceFile::Python { path } = &self.reference
        {
            roots.push(path.clone());
        }
        let mut hasher = blake3::Hasher::new();
        for path in self.data_files() {
            hasher.update(&fs::read(path).unwrap_or_default());
        }
        let mut known = BTreeSet::new();
        for (path, text) in self.closure(roots) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
            known.insert(whole(&path));
        }
        // Behind the others, and only where there are any: older studies of kernels without them stay what they are.
        let mut builds = self.kernel_builds();
        builds.extend(self.other_builds());
        let mut others = self.read_where_possible(&builds);
        others.extend(modules(&known));
        for path in others.difference(&known) {
            let bytes = fs::read(path).unwrap_or_default();
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
        hasher.finalize().to_hex().to_string()
    }

    /// The kernel's source and all it takes in from the project.
    pub fn kernel_files(&self) -> Vec<KernelFile> {
        let read = self.read_where_possible(&self.kernel_builds());
        let mut known = BTreeSet::from([whole(&self.source)]);
        let mut files = Vec::new();
        for (path, text) in self.closure(vec![self.source.clone()]) {
            let place = whole(&path);
            files.push(KernelFile {
                is_read: path == self.source || read.contains(&place),
                path,
                text,
            });
            known.insert(place);
        }
        files.extend(read.difference(&known).map(|path| KernelFile {
            path: path.clone(),
            text: text_of(path),
            is_read: true,
        }));
        files
    }

    /// A file and all it includes from the project.
    pub fn files_from(&self, path: &Path) -> Vec<(PathBuf, String)> {
        self.closure(vec![path.to_path_buf()])
    }

    /// The files of the project that the compiler reads for these configs of the kernel, and for the reference and
    /// the baseline, by their whole paths.
    pub fn read_for(&self, configs: &[Assignment]) -> Result<BTreeSet<PathBuf>, Failure> {
        let mut builds: Vec<Build> = configs.iter().map(|c| self.candidate_build(c)).collect();
        builds.extend(self.other_builds());
        let mut found = BTreeSet::new();
        for told in self.told(&builds) {
            found.extend(told.map_err(|why| {
                Failure::usage(format!(
                    "the compiler does not say which files `{}` reads: {why}",
                    self.manifest().kernel.source.value
                ))
                .hint("`kiln check --compile` compiles it and shows all it says")
            })?);
        }
        Ok(found)
    }

    pub fn source_path(&self) -> &Path {
        &self.source
    }

    /// What the kernel's source includes itself, as far as it is the project's.
    pub fn included_by_source(&self) -> Vec<PathBuf> {
        let text = text_of(&self.source);
        let found = included(&self.source, &text, &self.include_folders());
        let found = found.into_iter().filter_map(|p| p.canonicalize().ok());
        found.filter(|p| p.starts_with(&self.file.root)).collect()
    }

    fn include_folders(&self) -> Vec<PathBuf> {
        self.include_dirs.iter().map(PathBuf::from).collect()
    }

    /// Some files and all they include from the project, with their texts.
    pub(super) fn closure(&self, mut roots: Vec<PathBuf>) -> Vec<(PathBuf, String)> {
        let folders = self.include_folders();
        let mut seen = BTreeSet::new();
        let mut texts = Vec::new();
        while let Some(path) = roots.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let text = text_of(&path);
            roots.extend(included(&path, &text, &folders));
            texts.push((path, text));
        }
        texts
    }

    /// The kernel in as many configs as it takes to reach whatever it may read.
    fn kernel_builds(&self) -> Vec<Build> {
        let Ok(first) = self.any_config() else {
            return Vec::new();
        };
        let first = self.candidate_build(&first);
        let flags = &first.job.flags;
        let dialect = dialect(&first.job.tool);
        let most = match dialect {
            Dialect::Cc => MOST_CONFIGS,
            Dialect::Nvcc => MOST_CONFIGS_OF_NVCC,
            // What could be read does not depend on a config.
            Dialect::Nvrtc => return vec![first],
        };
        // What stands in the sources is followed under every condition; this is about the rest.
        let is_computed = self.scanned(&first.job).has_computed;
        let by_flags = !compiler_flags::header_folders(flags, dialect).is_empty()
            || !compiler_flags::headers(flags, dialect).is_empty();
        let few = || {
            self.space
                .count()
                .is_some_and(|count| count <= most as u128)
        };
        let configs = match (is_computed, by_flags) {
            (false, false) => return vec![first],
            // A name may be put together from several tunables.
            (true, _) if few() => self
                .space
                .iter()
                .map(|c| self.space.assignment(&c))
                .collect(),
            _ => self.covering_configs(most),
        };
        configs.iter().map(|c| self.candidate_build(c)).collect()
    }

    /// Enough configs for every value of every tunable to be among them.
    fn covering_configs(&self, most: usize) -> Vec<Assignment> {
        const LOOKED_AT: usize = 10_000;
        let space = &self.space;
        let mut missing: BTreeSet<(usize, String)> = BTreeSet::new();
        for (place, tunable) in space.tunables().iter().enumerate() {
            missing.extend(tunable.values.iter().map(|v| (place, v.define())));
        }
        let mut chosen: Vec<Assignment> = self.any_config().into_iter().collect();
        for config in space.iter().take(LOOKED_AT) {
            if missing.is_empty() || chosen.len() >= most {
                break;
            }
            let config = space.assignment(&config);
            let values = config.iter().enumerate();
            let before = missing.len();
            for (place, (_, value)) in values {
                missing.remove(&(place, value.define()));
            }
            if missing.len() < before {
                chosen.push(config);
            }
        }
        chosen
    }

    /// The reference and the baseline, where they are compiled from sources of their own.
    fn other_builds(&self) -> Vec<Build> {
        let baseline = self.baseline.as_ref().and(self.baseline_source().ok());
        let sources = self.reference_source().into_iter();
        sources
            .chain(baseline.map(|(source, _)| source))
            .filter_map(|source| match source {
                Source::Build(build) => Some(*build),
                Source::Ready(_) => None,
            })
            .collect()
    }

    /// A config that does not compile says nothing about what others read.
    fn read_where_possible(&self, builds: &[Build]) -> BTreeSet<PathBuf> {
        if self.replayed.is_some() {
            return BTreeSet::new();
        }
        self.told(builds)
            .into_iter()
            .filter_map(Result::ok)
            .flatten()
            .collect()
    }

    /// What each build reads of the project.
    fn told(&self, builds: &[Build]) -> Vec<Result<Vec<PathBuf>, String>> {
        let mut compiler = None;
        builds
            .iter()
            .map(|build| {
                let scanned = self.scanned(&build.job);
                if dialect(&build.job.tool) == Dialect::Nvrtc {
                    return Ok(self.of_project(&scanned.files));
                }
                let watched = scanned.files.iter().chain(&scanned.absent).cloned();
                let key = build.recipe.name();
                if let Some(known) = remembered(key) {
                    return known.map(|files| self.of_project(&files));
                }
                let answer = ask(&mut compiler, build);
                let files = self.of_project(answer.as_deref().unwrap_or_default());
                let files = files.iter().map(|path| path.display().to_string());
                remember(key, &answer, watched.chain(files));
                answer.map(|files| self.of_project(&files))
            })
            .collect()
    }

    /// What could be reached from a job's unit through folders that are not the toolkit's.
    fn scanned(&self, job: &CompileJob) -> Reached {
        let dialect = dialect(&job.tool);
        let toolkit = self.toolkit_folders();
        let own = job.include_dirs.iter().cloned();
        let own = own.filter(|dir| !toolkit.iter().any(|known| Path::new(dir) == known));
        let folders: Vec<String> = own
            .chain(compiler_flags::header_folders(&job.flags, dialect))
            .collect();
        let forced = compiler_flags::headers(&job.flags, dialect);
        let forced = forced.iter().map(|file| format!("#include \"{file}\"\n"));
        let unit = compiler_flags::definitions(&job.flags) + &forced.collect::<String>();
        reachable(&(unit + &job.unit), &folders)
    }

    fn toolkit_folders(&self) -> &[PathBuf] {
        let cuda = self.cuda.as_ref();
        cuda.map_or(&[], |cuda| cuda.include_dirs.as_slice())
    }

    /// Those that are the project's, by their whole paths.
    fn of_project(&self, files: &[String]) -> Vec<PathBuf> {
        let project = self.readable_project();
        let toolkit: Vec<PathBuf> = self.toolkit_folders().iter().map(|d| whole(d)).collect();
        let own = files
            .iter()
            .filter_map(|f| Path::new(f).canonicalize().ok());
        own.filter(|path| path.starts_with(&project))
            .filter(|path| !toolkit.iter().any(|folder| path.starts_with(folder)))
            .collect()
    }
}

pub(super) fn dialect(tool: &Tool) -> Dialect {
    match tool {
        Tool::Cc { .. } => Dialect::Cc,
        Tool::Nvrtc { .. } => Dialect::Nvrtc,
        Tool::Nvcc { .. } => Dialect::Nvcc,
    }
}

fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn text_of(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

type Answer = Result<Vec<String>, String>;

/// Asks the compiler, in a worker that is kept for the next job while it may reach the same things.
fn ask(compiler: &mut Option<(WorkerKind, Worker)>, build: &Build) -> Answer {
    let cache = Cache::open().map_err(|e| e.to_string())?;
    let walls = jail::for_compiler(&build.job, &build.project, &cache.staging_folder());
    let kind = WorkerKind::Compile(walls);
    let mut worker = match compiler.take() {
        Some((known, worker)) if known == kind => worker,
        _ => Worker::spawn(&kind).map_err(|e| e.to_string())?,
    };
    let staged = cache.staging_path();
    let mut job = build.job.clone();
    job.output = staged.display().to_string();
    let answer = worker.request(&Request::Reads(job), PATIENCE.min(build.deadline));
    // A killed compiler leaves its list behind.
    let _ = fs::remove_file(staged.with_extension("so.d"));
    match answer {
        Ok((Response::Reads(files), _)) => {
            *compiler = Some((kind, worker));
            Ok(files)
        }
        Ok((Response::NotCompiled(CompileFailure { first_error, .. }), _)) => {
            *compiler = Some((kind, worker));
            Err(first_error)
        }
        Ok((other, _)) => {
            Err(WorkerEnd::misplaced(&other, "to say what a compiler reads").to_string())
        }
        Err(end) => Err(end.to_string()),
    }
}

/// Size and time of change; nothing where there is no file.
type Stamp = Option<(u64, Option<SystemTime>)>;

struct Remembered {
    answer: Answer,
    stamps: Vec<(String, Stamp)>,
}

/// What compilers said in this process, by the recipe of the job: a batch of trials asks again for what is the same.
static REMEMBERED: LazyLock<Mutex<HashMap<String, Remembered>>> = LazyLock::new(Mutex::default);

fn stamp(path: &str) -> Stamp {
    let facts = fs::metadata(path).ok()?;
    Some((facts.len(), facts.modified().ok()))
}

/// An answer, if every file it depends on is as it was.
fn remembered(recipe: &str) -> Option<Answer> {
    let known = REMEMBERED.lock().expect("no holder panics");
    let known = known.get(recipe)?;
    let is_same = |(path, then): &(String, Stamp)| stamp(path) == *then;
    known
        .stamps
        .iter()
        .all(is_same)
        .then(|| known.answer.clone())
}

fn remember(recipe: &str, answer: &Answer, files: impl Iterator<Item = String>) {
    let stamps = files.map(|path| (stamp(&path), path));
    let kept = Remembered {
        answer: answer.clone(),
        stamps: stamps.map(|(stamp, path)| (path, stamp)).collect(),
    };
    let mut known = REMEMBERED.lock().expect("no holder panics");
    known.insert(recipe.to_string(), kept);
}
