//! The processes below this one, whatever they did to their environment, group or session.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// From here on whoever loses its parent below this process becomes its child, so nothing that a
/// run leaves behind can hide. For a test that is alone in its program.
pub fn adopt_orphans() {
    nix::sys::prctl::set_child_subreaper(true).expect("Linux lets a process adopt orphans");
}

/// Everything alive below a process, with its command line.
pub fn below(ancestor: i32) -> BTreeMap<i32, String> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let mut dead = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        // `pid (name) state parent …`; the name may hold anything, also brackets.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(") ") else {
            continue;
        };
        let mut words = rest.split(' ');
        let state = words.next().unwrap_or_default();
        let Some(parent) = words.next().and_then(|w| w.parse().ok()) else {
            continue;
        };
        children.entry(parent).or_default().push(pid);
        if matches!(state, "Z" | "X") {
            dead.insert(pid);
        }
    }
    let mut found = BTreeMap::new();
    let mut queue = vec![ancestor];
    while let Some(pid) = queue.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            queue.push(*child);
            if !dead.contains(child) {
                let command = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
                let command = super::text(&command).replace('\0', " ");
                found.insert(*child, command.trim().to_string());
            }
        }
    }
    found
}

/// Waits for everything below this process to be gone, after its own children have been waited
/// for, and returns what stays.
pub fn left_after(patience: Duration) -> BTreeMap<i32, String> {
    let until = Instant::now() + patience;
    loop {
        // The dead among the adopted.
        while let Ok(status) = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        let has_none = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) == Err(Errno::ECHILD);
        let left = below(std::process::id() as i32);
        if (has_none && left.is_empty()) || Instant::now() >= until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
