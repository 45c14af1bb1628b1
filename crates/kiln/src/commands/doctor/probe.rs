//! Looking at things that may hang: in a thread, with a deadline.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::interrupt;
use crate::toolchain::child;

/// A program that says no more than its version has this long.
const COMMAND_LIMIT: Duration = Duration::from_millis(3500);

/// A person who presses Ctrl-C does not wait for more.
const GLANCE: Duration = Duration::from_millis(20);

pub struct Pending<T> {
    answer: Receiver<T>,
}

/// Starts looking. A look that never ends is left behind: the process is about to exit anyway.
pub fn start<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
    let (sender, answer) = channel();
    thread::spawn(move || {
        let _ = sender.send(look());
    });
    Pending { answer }
}

impl<T> Pending<T> {
    /// What was found, or `None` when it took too long or the user interrupted.
    pub fn take(self, until: Instant) -> Option<T> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.answer.recv_timeout(left.min(GLANCE)) {
                Ok(found) => return Some(found),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if left.is_zero() || interrupt::asked() => {
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// What a program printed on standard output, or why it did not, in words.
pub fn output(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    let answer = child::output(command.args(arguments), Some(COMMAND_LIMIT));
    let answer = answer.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => "there is no such program".to_string(),
        _ => format!("it cannot be started: {e}"),
    })?;
    let Some(status) = answer.status else {
        return Err(format!(
            "no answer within {} s",
            COMMAND_LIMIT.as_secs_f64()
        ));
    };
    if status.success() {
        return Ok(answer.stdout);
    }
    match answer.stderr.trim().lines().last() {
        Some(last) => Err(last.to_string()),
        None => Err(format!("it ended with {status}")),
    }
}

/// Where a program lies: in the folders named first, then on the search path.
pub fn find_program(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).collect::<Vec<_>>();
    folders
        .iter()
        .chain(&on_path)
        .map(|folder| folder.join(name))
        .find(|program| is_executable(program))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The first thing in a text that looks like a version: digits with dots between.
pub fn version_in(text: &str) -> Option<String> {
    text.split(|c: char| c.is_whitespace() || ",()".contains(c))
        .map(|word| word.trim_start_matches(['V', 'v']))
        .find(|word| {
            word.contains('.')
                && word.starts_with(|c: char| c.is_ascii_digit())
                && word.ends_with(|c: char| c.is_ascii_digit())
        })
        .map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let nvcc = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n";
        assert_eq!(version_in(nvcc).as_deref(), Some("13.0"));
        let ncu =
            "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880)";
        assert_eq!(version_in(ncu).as_deref(), Some("2025.3.1.0"));
        assert_eq!(version_in("no numbers here. None."), None);
    }

    #[test]
    fn a_program_that_hangs_is_given_up() {
        let started = Instant::now();
        let answer = output(Path::new("/bin/sh"), &["-c", "sleep 60"]);
        assert!(answer.is_err_and(|why| why.starts_with("no answer")));
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_program_that_fails_says_why_in_its_last_line() {
        let answer = output(
            Path::new("/bin/sh"),
            &["-c", "echo a >&2; echo b >&2; exit 1"],
        );
        assert_eq!(answer, Err("b".into()));
        let absent = output(Path::new("/nonexistent/program"), &[]);
        assert_eq!(absent, Err("there is no such program".into()));
    }
}
