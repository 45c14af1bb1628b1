//! Disk, memory, and a home for the cache.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::finding::Finding;
use crate::exit::Failure;
use crate::settings;

/// Room for the compile cache and a study's files.
const COMFORTABLE_BYTES: u64 = 4 << 30;
/// Below this the first images already fail to be written.
const LEAST_BYTES: u64 = 64 << 20;

pub struct Found {
    home: Result<PathBuf, Failure>,
    home_free: Option<u64>,
    project: PathBuf,
    project_free: Option<u64>,
    project_writable: bool,
    kernel: String,
    cores: usize,
    memory_bytes: u64,
    memory_free_bytes: u64,
}

pub fn look(project: &Path) -> Found {
    let home = settings::home().and_then(|home| {
        writable(&home).map_err(|e| {
            Failure::machine(format!("cannot write into `{}`: {e}", home.display()))
                .hint("free some space or set KILN_HOME to a writable folder")
        })?;
        Ok(home)
    });
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Found {
        home_free: home.as_deref().ok().and_then(free_bytes),
        home,
        project: project.to_path_buf(),
        project_free: free_bytes(project),
        project_writable: writable(project).is_ok(),
        kernel: kernel.trim().to_string(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory_field(&memory, "MemTotal:"),
        memory_free_bytes: memory_field(&memory, "MemAvailable:"),
    }
}

/// Tried, not deduced: quotas, read-only mounts and rights all show.
fn writable(folder: &Path) -> std::io::Result<()> {
    tempfile::tempfile_in(folder).map(|_| ())
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let facts = statvfs(folder).ok()?;
    Some(facts.blocks_available() as u64 * facts.fragment_size() as u64)
}

fn memory_field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// `is_meant`: somebody named a kernel to be tuned there.
pub fn judge(found: &Found, is_meant: bool) -> Vec<Finding> {
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let machine = format!(
        "Linux {}, {} cores, {:.1} of {:.1} GiB memory free",
        found.kernel,
        found.cores,
        gib(found.memory_free_bytes),
        gib(found.memory_bytes)
    );
    vec![
        judge_home(found),
        judge_project(found, is_meant),
        Finding::ok("machine", machine)
            .fact("kernel", found.kernel.clone())
            .fact("cores", found.cores)
            .fact("memory_bytes", found.memory_bytes)
            .fact("memory_free_bytes", found.memory_free_bytes),
    ]
}

fn judge_home(found: &Found) -> Finding {
    match &found.home {
        Ok(home) => disk("home", "cache", home, found.home_free, Use::Needed),
        Err(failure) => Finding::missing("home", format!("cache: {}", failure.message))
            .why("compiled kernels and locks are kept there")
            .fix(failure.hints.join("; ")),
    }
}

fn judge_project(found: &Found, is_meant: bool) -> Finding {
    let path = &found.project;
    if !found.project_writable {
        let what = format!("project {}: cannot be written", path.display());
        let finding = match is_meant {
            true => Finding::missing("project", what),
            false => Finding::warning("project", what),
        };
        return finding
            .why("studies are stored in its folder `.kiln`")
            .fix("run kiln in a folder of your own");
    }
    disk("project", "project", path, found.project_free, Use::Wanted)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Needed,
    Wanted,
}

fn disk(check: &'static str, name: &str, path: &Path, free: Option<u64>, used: Use) -> Finding {
    let shown = path.display();
    let finding = match free {
        None => Finding::note(check, format!("{name} {shown}: free space unknown")),
        Some(free) => {
            let what = format!(
                "{name} {shown}: {:.1} GiB free",
                free as f64 / (1u64 << 30) as f64
            );
            if free >= COMFORTABLE_BYTES {
                Finding::ok(check, what)
            } else {
                let finding = match free < LEAST_BYTES && used == Use::Needed {
                    true => Finding::missing(check, what),
                    false => Finding::warning(check, what),
                };
                finding
                    .why("a full disk ends a study")
                    .fix("kiln cache clear, or set KILN_HOME to a folder with more room")
            }
        }
    };
    finding
        .fact("path", shown.to_string())
        .fact("free_bytes", free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Status;

    #[test]
    fn a_full_disk_is_missing_only_where_it_is_needed() {
        let status = |free, used| disk("home", "cache", Path::new("/x"), free, used).status;
        assert_eq!(status(Some(8 << 30), Use::Needed), Status::Ok);
        assert_eq!(status(Some(1 << 30), Use::Needed), Status::Warning);
        assert_eq!(status(Some(1 << 20), Use::Needed), Status::Missing);
        assert_eq!(status(Some(1 << 20), Use::Wanted), Status::Warning);
        assert_eq!(status(None, Use::Needed), Status::Note);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(
            memory_field("MemTotal:  2 kB\nMemFree: 1 kB\n", "MemTotal:"),
            2048
        );
        assert_eq!(memory_field("", "MemTotal:"), 0);
    }
}
