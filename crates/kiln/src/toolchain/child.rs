//! Programs asked for their output: with a deadline, and gone when the user interrupts.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::{children, interrupt};

/// What is kept of each stream: the end, where errors are.
const KEPT_BYTES: usize = 256 << 10;

pub(crate) struct Output {
    /// Nothing when the time was up or the user interrupted.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

pub(crate) fn output(command: &mut Command, deadline: Option<Duration>) -> io::Result<Output> {
    output_keeping(command, deadline, KEPT_BYTES)
}

/// The same for a program whose whole output is wanted: up to `kept` bytes of each stream.
pub(crate) fn output_keeping(
    command: &mut Command,
    deadline: Option<Duration>,
    kept: usize,
) -> io::Result<Output> {
    // A group of its own: Ctrl-C reaches kiln, which ends the child and then cleans up.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = children::spawn(command)?;
    let stdout = child
        .stdout
        .take()
        .map(|pipe| thread::spawn(move || tail(pipe, kept)));
    let stderr = child
        .stderr
        .take()
        .map(|pipe| thread::spawn(move || tail(pipe, kept)));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        let late = deadline.is_some_and(|deadline| started.elapsed() > deadline);
        if late || interrupt::asked() {
            break None;
        }
        thread::sleep(Duration::from_millis(10));
    };
    children::kill_family(&mut child);
    let text = |reader: Option<thread::JoinHandle<String>>| {
        reader
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    };
    Ok(Output {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn tail(mut pipe: impl Read, limit: usize) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0u8; 8192];
    while let Ok(n) = pipe.read(&mut chunk) {
        if n == 0 {
            break;
        }
        kept.extend_from_slice(&chunk[..n]);
        let excess = kept.len().saturating_sub(limit);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
