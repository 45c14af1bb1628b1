//! Exit codes, a documented part of the interface.

use std::fmt;
use std::io;

use crate::durable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; the answer is yes.
    Success = 0,
    /// Done; the answer is no: nothing beat the baseline, or a result is wrong.
    No = 1,
    /// Bad usage or a bad manifest.
    Usage = 2,
    /// The machine cannot: no device, driver or compiler, or the disk is full.
    Machine = 3,
    /// Not decided: too noisy to say.
    Undecided = 4,
    /// `compare`: neither side is faster, which is shown, not merely unknown.
    Same = 5,
    /// `compare` and `gate`: a side gives no right answer, so nothing was timed.
    Wrong = 6,
    /// A bug in kiln.
    Bug = 70,
    /// Interrupted; finished trials are kept.
    Interrupted = 130,
}

pub const HELP: &str = "\
Exit codes:
  0    done; for `tune`: a confirmed winner that reaches the target
  1    the answer is no: nothing beat the baseline, or a result is wrong
  2    bad usage or a bad manifest
  3    the machine cannot: no compiler, no device, disk full
  4    not decided: the measurements are too noisy to say
  5    `compare`: both sides are equally fast
  6    `compare`, `gate`, `iterate`, `verify`: a side is wrong, crashes or does not compile
  70   a bug in kiln
  130  interrupted; every finished trial is kept, `kiln tune` continues";

pub const COMPARE_HELP: &str = "\
Exit codes, by the worst shape:
  0    FASTER: B is faster than A by more than the margin
  1    SLOWER: B is slower than A by more than the margin
  2    bad usage or a bad manifest
  3    the machine cannot: no compiler, no device, disk full
  4    UNDECIDED: the measurements are too noisy to say
  5    SAME: the difference is within the margin
  6    a side is wrong, crashes or does not compile; nothing was timed
  130  interrupted";

pub const ITERATE_HELP: &str = "\
Exit codes:
  0    kept: the edited kernel is faster than the incumbent by more than the margin
  1    rejected: it is slower, or not faster
  2    bad usage, a bad manifest, no incumbent, or nothing was edited
  3    the machine cannot: no compiler, no device, disk full
  4    UNDECIDED: the measurements are too noisy to say; rejected for now
  6    a side is wrong, crashes or does not compile; nothing was timed
  130  interrupted";

pub const GATE_HELP: &str = "\
Exit codes, by the worst shape:
  0    pass: FASTER or SAME on every shape (with `--undecided pass`, or UNDECIDED)
  1    SLOWER than the baseline by more than the margin (with `--undecided fail`, or UNDECIDED)
  2    bad usage, a bad manifest, no baseline or one that does not fit
  3    the machine cannot: no compiler, no device, disk full
  4    UNDECIDED: the measurements are too noisy to say
  6    a side is wrong, crashes or does not compile; nothing was timed
  130  interrupted";

pub const VERIFY_HELP: &str = "\
Exit codes, by the worst that was found:
  0    files and answers are right, and no shape is slower than the baseline
  1    a file is not as it was exported, or a shape is slower than the baseline
  2    bad usage, or no package
  3    the machine cannot: no device, or one the package is not for
  6    an answer is wrong
  130  interrupted";

pub const DOCTOR_HELP: &str = "\
Exit codes:
  0    GPU kernels, or the manifest's own, can be tuned here
  2    bad usage or a bad manifest
  3    they cannot; the last lines say what is missing and what works without";

pub const SELFTEST_HELP: &str = "\
Exit codes:
  0    nothing failed; what was skipped is named
  1    something is not as promised
  2    bad usage
  3    the machine cannot: no GPU, no compiler
  130  interrupted";

/// What to do where nothing more can be said.
pub const DISK_FULL: &str = "the disk is full: free some space there and run the command again";

/// What ends every message that is kiln's own fault and not the user's.
const BUG: &str =
    "this is a bug in kiln: please report it with the command, the manifest and this message";

/// An error with the exit code it should end the program with.
#[derive(Clone, Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    pub hints: Vec<String>,
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    pub fn machine(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Machine, message)
    }

    /// Something could not be read or written, and the way out for each way in which that happens.
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Failure {
        Failure::machine(format!("{what}: {error}")).hint(way_out(error))
    }

    /// A path the user named that cannot be used, and the way out.
    pub fn bad_path(what: impl fmt::Display, error: &io::Error) -> Failure {
        Failure::usage(format!("{what}: {error}")).hint(way_out(error))
    }

    /// What `Diagnostic::render` wrote, hints and all.
    pub fn rendered(text: String) -> Failure {
        Failure::new(Exit::Usage, text)
    }

    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure {
            exit,
            message: message.into(),
            hints: Vec::new(),
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }
}

fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if durable::is_full(error) => DISK_FULL,
        io::ErrorKind::PermissionDenied => "see who may use it: `ls -ld` on the path",
        io::ErrorKind::NotFound => "see that the path, and the folder it is in, are there",
        io::ErrorKind::ReadOnlyFilesystem => "use a folder on a disk that can be written",
        io::ErrorKind::NotADirectory => {
            "something on the path is a file: name another place, or move it away"
        }
        io::ErrorKind::IsADirectory => "this is a folder: name a file",
        io::ErrorKind::InvalidData => "it is not text (UTF-8): is it the file that was meant?",
        _ => "see that the disk works and that you may use the path, and run the command again",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rendered diagnostics already start with `error:`.
        if !self.message.starts_with("error:") {
            f.write_str("error: ")?;
        }
        f.write_str(&self.message)?;
        for hint in &self.hints {
            write!(f, "\nhint: {hint}")?;
        }
        if self.exit == Exit::Bug {
            write!(f, "\nhint: {BUG}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/messages.rs` takes this for granted.
    #[test]
    fn what_goes_wrong_with_files_and_in_kiln_says_what_to_do() {
        let kinds = [
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::NotFound,
            io::ErrorKind::StorageFull,
            io::ErrorKind::Other,
        ];
        for kind in kinds {
            let error = io::Error::from(kind);
            for failure in [
                Failure::io("cannot write `x`", &error),
                Failure::bad_path("cannot read `x`", &error),
            ] {
                assert_eq!(failure.hints.len(), 1, "{kind:?}");
                assert!(failure.to_string().contains("\nhint: "), "{failure}");
            }
        }
        let bug = Failure::new(Exit::Bug, "a count is wrong").to_string();
        assert!(
            bug.ends_with("this message") && bug.contains("\nhint: this is a bug in kiln"),
            "{bug}"
        );
    }
}
