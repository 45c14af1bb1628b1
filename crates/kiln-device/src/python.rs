//! A Python process that serves the worker protocol for a function in a user's file.
//!
//! The script itself explains what it does and how it is started; here is only its text and the
//! command. PyTorch and NumPy are what the user's interpreter has, never what kiln is built with.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::Signal;

/// The whole program, handed over on the command line so that nothing has to be installed.
pub const CHILD: &str = concat!(
    include_str!("python/start.py"),
    include_str!("python/pipes.py"),
    include_str!("python/arrays.py"),
    include_str!("python/problem.py"),
    include_str!("python/kernel.py"),
    include_str!("python/timing.py"),
    include_str!("python/child.py"),
);

/// Problems the child remembers: coming back to one needs no inputs.
pub const REMEMBERED_PROBLEMS: usize = 4;

/// What the function is for, which decides the types it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Floating inputs arrive as `f64` and floating outputs come back as `f64`.
    Reference,
    /// Every buffer has its declared type; calls can be timed on a CUDA device.
    Baseline,
    /// The same, with the profiler switched on for the function's own calls and no others.
    Profiled,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Reference => "reference",
            Mode::Baseline => "baseline",
            Mode::Profiled => "profiled",
        }
    }
}

/// Starts the child under an interpreter. Its pipes are the caller's to set.
///
/// Unlike other workers it takes seconds to greet: it imports torch first, where there is one. Until
/// it has read its own program nothing in it notices the supervisor's death, so that is asked of the
/// system beforehand; it survives the `exec` of scripts in front of the real interpreter.
pub fn command(python: &str, mode: Mode) -> Command {
    command_under(&[], python, mode)
}

/// The same, started by another program that is given the interpreter's command line.
pub fn command_under(by: &[String], python: &str, mode: Mode) -> Command {
    let words = by.iter().map(String::as_str);
    let own = [python, "-u", "-c", CHILD, mode.name()];
    let mut words = words.chain(own);
    let mut command = Command::new(words.next().unwrap_or(python));
    command.args(words);
    // SAFETY: the closure runs between fork and exec and only makes an async-signal-safe system
    // call (prctl); it allocates nothing.
    unsafe {
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::protocol::{MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, PROTOCOL_VERSION};

    #[test]
    fn the_script_speaks_this_protocol() {
        assert!(CHILD.contains(&format!("\nPROTOCOL = {PROTOCOL_VERSION}\n")));
        assert!(CHILD.contains(&format!("\nREMEMBERED_PROBLEMS = {REMEMBERED_PROBLEMS}\n")));
        assert!(CHILD.contains("\nMAX_HEADER_BYTES = 64 << 20\n"));
        assert!(CHILD.contains("\nMAX_PAYLOAD_BYTES = 16 << 30\n"));
        assert_eq!((MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES), (64 << 20, 16 << 30));
    }

    /// The kernel takes no single argument of more than 128 KiB.
    #[test]
    fn the_script_fits_on_a_command_line() {
        assert!(CHILD.len() < 100 << 10);
    }
}
