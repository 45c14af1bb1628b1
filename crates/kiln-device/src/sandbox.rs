//! Walls around worker processes: no writes outside their folder, no network, no other programs.
//!
//! A worker builds them itself, with what an unprivileged process may use: `no_new_privs`, resource
//! limits, Landlock for files and signals, seccomp for everything that is not a file. Then it tries
//! to break each one, before any code of a candidate is near, and tells the supervisor what holds.
//! Nothing is enforced "as far as possible" in silence: a wall that cannot be built is named.

mod calls;
mod files;
mod limits;
mod places;
mod probe;

use kiln_core::sandbox::{Guard, Missing, Sandbox};
use serde::{Deserialize, Serialize};

pub use calls::{install_handler, name as call_name};

/// What runs behind the walls decides which ones can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inmate {
    /// A C candidate: code of the kernel's author in this very process.
    Candidate,
    /// The process that talks to the CUDA driver. Candidates are code on the device; the driver
    /// opens what it wants, so reading and threads are left alone, and a refused call is an error
    /// for the driver to handle, never the end of the process.
    Driver,
    /// Starts a compiler, which starts programs of its own.
    CompilerCommand,
    /// A compiler inside this process.
    CompilerLibrary,
}

impl Inmate {
    pub fn guards(self) -> &'static [Guard] {
        use Guard::*;
        match self {
            Inmate::Candidate => &[Writes, Reads, Exec, Processes, Network, Trace, Signals],
            Inmate::Driver => &[Writes, Exec, Network, Trace],
            Inmate::CompilerCommand => &[Writes, Reads, Network, Trace, Signals],
            Inmate::CompilerLibrary => &[Writes, Reads, Exec, Network, Trace, Signals],
        }
    }
}

/// What a worker may still reach. Made by the supervisor, which knows the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jail {
    pub inmate: Inmate,
    /// Files and folders to read, beside the system's own.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Folders with programs to run and all they need.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Folders to write to.
    #[serde(default)]
    pub writes: Vec<String>,
}

impl Jail {
    pub fn new(inmate: Inmate) -> Jail {
        Jail {
            inmate,
            reads: Vec::new(),
            programs: Vec::new(),
            writes: Vec::new(),
        }
    }
}

/// Builds the walls and tries them. To be called before the first thread is started, where that is
/// possible: Landlock binds the thread that asks for it and those it starts later.
pub fn enter(jail: &Jail) -> Sandbox {
    let wanted = jail.inmate.guards();
    let mut sandbox = Sandbox::default();
    let mut note = |guards: &[Guard], result: &Result<(), String>| {
        for guard in guards.iter().filter(|guard| wanted.contains(guard)) {
            match result {
                Ok(()) => sandbox.enforced.push(*guard),
                Err(why) => sandbox.missing.push(Missing {
                    guard: *guard,
                    why: why.clone(),
                }),
            }
        }
    };
    limits::set(jail.inmate);
    // Before both: neither Landlock nor seccomp may be used without it.
    if let Err(error) = nix::sys::prctl::set_no_new_privs() {
        return Sandbox::none(wanted, &format!("PR_SET_NO_NEW_PRIVS: {error}"));
    }
    let walls = files::restrict(jail);
    note(&[Guard::Writes, Guard::Reads], &walls.files);
    note(&[Guard::Signals], &walls.signals);
    let filtered = calls::filter(jail.inmate);
    let by_calls = [Guard::Exec, Guard::Processes, Guard::Network, Guard::Trace];
    note(&by_calls, &filtered);
    let tried = std::mem::take(&mut sandbox.enforced);
    (sandbox.enforced, sandbox.broken) = tried.into_iter().partition(|guard| probe::holds(*guard));
    sandbox
}
