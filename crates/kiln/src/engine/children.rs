//! Child processes that cannot be lost: every spawn is registered, every stray is found and killed.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, Once};

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::Pid;

/// Set when the program is about to end: what would be spawned now would be left behind.
static CLOSED: AtomicBool = AtomicBool::new(false);

static KNOWN: LazyLock<Mutex<HashSet<i32>>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, HashSet<i32>> {
    KNOWN.lock().expect("no holder panics")
}

/// Whether a process was started here and has not been seen to end.
pub fn is_ours(pid: u32) -> bool {
    known().contains(&(pid as i32))
}

/// Spawns a worker, which begins by opening a session of its own.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    adopt_orphans();
    // The lock is held across the spawn: a sweep must not mistake the new child for a stray.
    let mut registered = known();
    if CLOSED.load(Ordering::SeqCst) {
        return Err(io::Error::other("kiln is ending"));
    }
    let child = command.spawn()?;
    registered.insert(child.id() as i32);
    Ok(child)
}

/// Kills the child's whole group and reaps the child.
pub fn kill_family(child: &mut Child) -> Option<std::process::ExitStatus> {
    let pid = child.id() as i32;
    // The group may be gone already, or not be there yet, or have been left.
    let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    let status = child.wait().ok();
    known().remove(&pid);
    sweep_strays();
    status
}

/// Kills every child that is still registered and lets no more be started, for a program that ends
/// without waiting for threads that wait for children.
pub fn kill_all() {
    let registered = known();
    CLOSED.store(true, Ordering::SeqCst);
    for pid in registered.iter() {
        let _ = killpg(Pid::from_raw(*pid), Signal::SIGKILL);
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
}

/// Stops the child's whole group and waits until the child has stopped (or died).
pub fn stop_family(child: &Child) {
    let pid = Pid::from_raw(child.id() as i32);
    let _ = killpg(pid, Signal::SIGSTOP);
    let _ = kill(pid, Signal::SIGSTOP);
    // WNOWAIT: a death stays to be collected by whoever asks how the child ended.
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    let _ = waitid(Id::Pid(pid), flags);
}

pub fn continue_family(child: &Child) {
    let pid = Pid::from_raw(child.id() as i32);
    let _ = killpg(pid, Signal::SIGCONT);
    let _ = kill(pid, Signal::SIGCONT);
}

/// Orphaned descendants become our children instead of init's, where `sweep_strays` finds them,
/// even if they left the process group.
fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without it strays are still killed through their group.
        let _ = nix::sys::prctl::set_child_subreaper(true);
    });
}

/// Kills children nobody spawned here: what candidates or compilers left behind.
fn sweep_strays() {
    // A killed stray may hand over children of its own; families are finite, but a hostile one
    // may breed faster than it is swept, so the effort is bounded.
    for _ in 0..100 {
        let registered = known();
        let strays: Vec<i32> = children().filter(|pid| !registered.contains(pid)).collect();
        drop(registered);
        if strays.is_empty() {
            return;
        }
        for pid in strays {
            let pid = Pid::from_raw(pid);
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, Some(WaitPidFlag::empty()));
        }
    }
}

fn children() -> impl Iterator<Item = i32> {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
}
