//! The kinds of workers: how each is started, and what it may reach.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kiln_device::python::{self, Mode};
use kiln_device::sandbox::Jail;

use crate::engine::jail;
use crate::settings;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// For one tool and project.
    Compile(Jail),
    Cpu {
        /// Files and folders it may read, beside the system's.
        reads: Vec<String>,
        walls: Walls,
    },
    /// On the first GPU. Without kiln's helper kernels it can only say what the device is.
    Cuda {
        support: Option<String>,
        walls: Walls,
    },
    /// A GPU worker started by another program that watches over it.
    Watched {
        /// The program and its arguments.
        by: Vec<String>,
        support: Option<String>,
    },
    Python(Mode),
    /// A Python worker started likewise. Only the function's own calls are for the other program to see.
    WatchedPython {
        by: Vec<String>,
    },
}

/// Whether a worker has its sandbox around it. Without only where kiln measures what that costs; a user
/// who wants none says so for all workers (`settings`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walls {
    Up,
    Down,
}

impl WorkerKind {
    /// One that only says what the processor is.
    pub fn cpu() -> WorkerKind {
        WorkerKind::reading_only(Vec::new())
    }

    /// A candidate's on the CPU.
    pub fn reading_only(reads: Vec<String>) -> WorkerKind {
        let walls = Walls::Up;
        WorkerKind::Cpu { reads, walls }
    }

    pub fn cuda(support: Option<String>) -> WorkerKind {
        let walls = Walls::Up;
        WorkerKind::Cuda { support, walls }
    }

    /// The same without a sandbox.
    pub fn without_walls(&self) -> WorkerKind {
        let mut kind = self.clone();
        if let WorkerKind::Cpu { walls, .. } | WorkerKind::Cuda { walls, .. } = &mut kind {
            *walls = Walls::Down;
        }
        kind
    }

    fn walls(&self) -> Walls {
        match self {
            WorkerKind::Cpu { walls, .. } | WorkerKind::Cuda { walls, .. } => *walls,
            _ => Walls::Up,
        }
    }

    /// One that may have been started before it is known who needs it.
    pub fn is_interchangeable(&self) -> bool {
        matches!(
            self,
            WorkerKind::Cuda {
                walls: Walls::Up,
                ..
            }
        )
    }

    /// The same for an image in another folder.
    pub fn reading(&self, folder: &Path) -> WorkerKind {
        let mut kind = self.clone();
        let folder = folder.display().to_string();
        if let WorkerKind::Cpu { reads, .. } = &mut kind
            && !reads.contains(&folder)
        {
            reads.push(folder);
        }
        kind
    }

    /// Python runs the user's own files, with the user's rights.
    pub(super) fn jail(&self) -> Option<Jail> {
        match self {
            _ if !settings::is_sandboxed() || self.walls() == Walls::Down => None,
            WorkerKind::Compile(jail) => Some(jail.clone()),
            WorkerKind::Cpu { reads, .. } => Some(jail::for_candidate(reads)),
            WorkerKind::Cuda { .. } => Some(jail::for_driver()),
            // The program that watches needs pipes, files and memory of its own in the worker.
            WorkerKind::Python(_)
            | WorkerKind::Watched { .. }
            | WorkerKind::WatchedPython { .. } => None,
        }
    }

    /// The running binary itself, also when a newer one has taken its place on disk.
    pub(super) fn command(&self) -> Command {
        let mut kiln = Command::new("/proc/self/exe");
        kiln.arg("worker");
        match self {
            WorkerKind::Compile(_) => kiln.arg("compile"),
            WorkerKind::Cpu { .. } => kiln.arg("cpu"),
            WorkerKind::Cuda { support, .. } => kiln.arg("cuda").args(support),
            WorkerKind::Watched { by, support } => return watched(by, support.as_deref()),
            WorkerKind::Python(mode) => return python::command(&settings::python(), *mode),
            WorkerKind::WatchedPython { by } => {
                return python::command_under(by, &settings::python(), Mode::Profiled);
            }
        };
        if let Some(jail) = self.jail() {
            // The only place where a compiler can put its temporary files.
            if let Some(folder) = jail.writes.first() {
                kiln.env("TMPDIR", folder);
            }
            let text = serde_json::to_string(&jail).unwrap_or_default();
            kiln.arg("--jail").arg(text);
        }
        kiln
    }

    /// A program of the user's, as named and by what; the others are kiln itself.
    pub(super) fn foreign_program(&self) -> Option<String> {
        self.is_python().then(settings::python_in_words)
    }

    /// Whether the worker is a Python process, which is sent its inputs.
    pub(super) fn is_python(&self) -> bool {
        matches!(
            self,
            WorkerKind::Python(_) | WorkerKind::WatchedPython { .. }
        )
    }

    pub(super) fn greeting_deadline(&self) -> Duration {
        match self {
            // Importing PyTorch from a cold disk takes its time.
            WorkerKind::Python(_)
            | WorkerKind::Watched { .. }
            | WorkerKind::WatchedPython { .. } => Duration::from_secs(180),
            _ => Duration::from_secs(30),
        }
    }
}

/// Another program starts the worker, so `/proc/self/exe` would be that program: this one is named by
/// its path.
fn watched(by: &[String], support: Option<&str>) -> Command {
    let own = std::env::current_exe().unwrap_or_else(|_| "kiln".into());
    let (program, arguments) = by
        .split_first()
        .map_or(("", by), |(p, rest)| (p.as_str(), rest));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(own)
        .args(["worker", "cuda"])
        .args(support);
    command
}
