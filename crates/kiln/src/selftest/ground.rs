//! Where sections work: a temporary folder with projects and a cache, and the device at hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_core::protocol::DeviceInfo;
use kiln_core::sandbox::Sandbox;
use tempfile::TempDir;

use super::kernels::{Edit, Kernel};
use super::report::{Header, utc_now};
use crate::cache::Cache;
use crate::cli::Backend;
use crate::commands::tune::prepare_support;
use crate::engine::broken;
use crate::engine::compile_pool::CompilePool;
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::exit::{Exit, Failure};
use crate::rows::Rows;
use crate::task::{Compiler, Task};
use crate::toolchain::CudaToolchain;
use crate::{project, settings};

/// How often things are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Full,
    Quick,
}

impl Size {
    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Size::Full => full,
            Size::Quick => quick,
        }
    }
}

pub struct Ground {
    pub backend: Backend,
    pub size: Size,
    /// Pairs for the gate, where the user wants another number.
    pub pairs: Option<usize>,
    /// Candidates of the red team that run at a time, likewise.
    pub side_by_side: Option<usize>,
    /// Takes pairs of the gate as they are judged.
    pub rows: Rows,
    pub device: DeviceInfo,
    pub jobs: usize,
    /// For everything that is not about compiling.
    pub pool: CompilePool,
    compiler: String,
    /// An idle process on the GPU makes starting the next one quicker, as in every study.
    scout: Worker,
    // Dropped last: everything above may use it.
    folder: TempDir,
}

impl Ground {
    pub fn open(backend: Backend, size: Size) -> Result<Ground, Failure> {
        let kind = match backend {
            Backend::Cuda => WorkerKind::cuda(None),
            Backend::Cpu => WorkerKind::cpu(),
        };
        let scout = Worker::spawn(&kind).map_err(|end| match (backend, end) {
            (_, end @ WorkerEnd::Interrupted) => broken(&end),
            (Backend::Cuda, end) => no_gpu(&end),
            (Backend::Cpu, end) => broken(&end),
        })?;
        // Without a compiler no section can run, and that is the machine's doing.
        let compiler = match backend {
            Backend::Cuda => {
                let found = CudaToolchain::find()?;
                format!("CUDA toolkit {} ({})", found.version, found.origin)
            }
            Backend::Cpu => {
                let identity = Compiler::find()?.identity;
                let words = identity.split(" | ");
                words.take(2).collect::<Vec<_>>().join(", ")
            }
        };
        let folder = tempfile::Builder::new()
            .prefix("kiln-selftest-")
            .tempdir()
            .map_err(|e| Failure::io("cannot make a temporary folder", &e))?;
        let jobs = settings::compile_jobs();
        Ok(Ground {
            backend,
            size,
            pairs: None,
            side_by_side: None,
            rows: Rows::new(None)?,
            device: scout.device.clone(),
            jobs,
            pool: pool_in(&folder.path().join("home"), jobs)?,
            compiler,
            scout,
            folder,
        })
    }

    pub fn header(&self) -> Header {
        let driver = self.device.cuda.as_ref().map(|c| c.driver_cuda);
        Header {
            date: utc_now(),
            backend: match self.backend {
                Backend::Cuda => "cuda",
                Backend::Cpu => "cpu",
            },
            device: self.device.name.clone(),
            driver_cuda: driver.map(|v| format!("{}.{}", v / 1000, v % 1000 / 10)),
            compiler: self.compiler.clone(),
            kiln_version: env!("CARGO_PKG_VERSION"),
            host_cores: std::thread::available_parallelism().map_or(0, usize::from),
            quick: self.size == Size::Quick,
        }
    }

    /// What workers are kept from, by what the first one found when it tried.
    pub fn sandbox(&self) -> Sandbox {
        self.scout.sandbox.clone().unwrap_or_default()
    }

    /// A number such as 90 for `sm_90`.
    pub fn compute_capability(&self) -> u32 {
        let name = self.device.cuda.as_ref().map(|c| c.architecture.as_str());
        let number = name.and_then(|n| n.strip_prefix("sm_"));
        number.and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// A compiler pool with a cache that has nothing in it.
    pub fn cold_pool(&self, name: &str) -> Result<CompilePool, Failure> {
        pool_in(&self.folder.path().join(format!("cold-{name}")), self.jobs)
    }

    /// A kernel of kiln's own as a task, in a project of its own.
    pub fn task(
        &self,
        kernel: &Kernel,
        place: &str,
        edits: &[Edit<'_>],
        pool: &CompilePool,
    ) -> Result<Task, Failure> {
        let text = kernel.manifest_with(edits)?;
        self.unpack(&text, kernel.files.iter().copied(), place, pool)
    }

    /// A task of any other sources, in a project of its own.
    pub fn task_from<'s>(
        &self,
        manifest: &'s str,
        files: impl Iterator<Item = (&'s str, &'s str)>,
        place: &str,
    ) -> Result<Task, Failure> {
        self.unpack(manifest, files, place, &self.pool)
    }

    /// The same with its manifest among its files, aimed at a shape.
    pub fn task_on(
        &self,
        files: &[(&str, &str)],
        name: &str,
        shape: Option<&str>,
    ) -> Result<Task, Failure> {
        let folder = self.folder.path().join("projects").join(name);
        let (manifest, others) = files
            .split_first()
            .ok_or_else(|| Failure::new(Exit::Bug, "a kernel without files"))?;
        let manifest = unpack(manifest.1, others.iter().copied(), &folder)?;
        let mut file = project::read(&manifest)?;
        file.aim_at(shape)?;
        let mut task = Task::new(file, self.device.clone(), None)?;
        prepare_support(&mut task, &self.pool)?;
        Ok(task)
    }

    fn unpack<'s>(
        &self,
        manifest: &'s str,
        files: impl Iterator<Item = (&'s str, &'s str)>,
        place: &str,
        pool: &CompilePool,
    ) -> Result<Task, Failure> {
        let folder = self.folder.path().join("projects").join(place);
        let manifest = unpack(manifest, files, &folder)?;
        let file = project::read(&manifest)?;
        let mut task = Task::new(file, self.device.clone(), None)?;
        prepare_support(&mut task, pool)?;
        Ok(task)
    }
}

fn pool_in(home: &Path, jobs: usize) -> Result<CompilePool, Failure> {
    Ok(CompilePool::new(Arc::new(Cache::open_in(home)?), jobs))
}

/// Writes a task's files and returns the path of its manifest.
fn unpack<'s>(
    manifest_text: &'s str,
    files: impl Iterator<Item = (&'s str, &'s str)>,
    folder: &Path,
) -> Result<PathBuf, Failure> {
    // Makes the folder a project, whatever lies above it.
    settings::private_dir(&folder.join(".kiln"))?;
    let manifest = folder.join(project::MANIFEST_NAME);
    let files = files.map(|(name, text)| (folder.join(name), text));
    for (path, text) in files.chain([(manifest.clone(), manifest_text)]) {
        fs::write(&path, text)
            .map_err(|e| Failure::io(format!("cannot write `{}`", path.display()), &e))?;
    }
    Ok(manifest)
}

fn no_gpu(end: &WorkerEnd) -> Failure {
    let cause = broken(end);
    Failure::new(
        Exit::Machine,
        format!("no GPU that kiln can use: {}", cause.message),
    )
    .hint("`kiln selftest --backend cpu` works without one")
    .hint("`kiln doctor` says what is missing and how to get it")
}
