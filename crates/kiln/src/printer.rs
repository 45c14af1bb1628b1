//! The only place that writes to standard output or standard error.
//!
//! Standard output is data, standard error is talk. A closed pipe changes nothing but what is seen.

use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kiln_core::diagnostic::printable_lines;
use kiln_core::escape;

use crate::exit::Failure;

/// Writes text for people to standard output. Names and messages in it come from files and other
/// programs, here as in `talk`, and a pipe may end at a terminal too.
pub fn data(text: &str) {
    write_or_leave(&mut io::stdout().lock(), printable_lines(text).as_bytes());
}

/// Writes a path to standard output so that whoever reads it finds the file again: one that is not UTF-8 as it is, unless
/// it could move a cursor.
pub fn path(path: &Path) {
    let bytes = path.as_os_str().as_bytes();
    let is_harmless = |byte: &u8| !byte.is_ascii_control() && !(0x80..0xa0).contains(byte);
    match path.to_str() {
        None if bytes.iter().all(is_harmless) && !io::stdout().is_terminal() => {
            write_or_leave(&mut io::stdout().lock(), bytes);
        }
        _ => data(&path.display().to_string()),
    }
}

/// Writes one JSON document to standard output.
pub fn document(json: &impl std::fmt::Display) {
    write_or_leave(
        &mut io::stdout().lock(),
        escape::json(&format!("{json:#}")).as_bytes(),
    );
}

/// Writes talk to standard error. Failing to talk is no reason to stop. Much of what is said comes
/// from files and other programs: none of it can move the cursor.
pub fn talk(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable_lines(text));
}

/// Writes to a terminal as it is, cursor movements included. Text of others in it was made printable before.
pub fn draw(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

pub fn talks_to_terminal() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Whether a person sees standard output as it is.
pub fn shows_data_on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes a line of a stream; false when nobody reads any more, which is no reason to stop. Anything
/// else is: a file of events with a hole in it looks like one without.
pub fn stream(line: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", escape::json(line)).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(cannot_write(&e)),
    }
}

fn cannot_write(error: &io::Error) -> Failure {
    Failure::io("cannot write to standard output", error)
}

fn write_or_leave(out: &mut impl Write, text: &[u8]) {
    let ends_with_newline = text.ends_with(b"\n");
    let result = out
        .write_all(text)
        .and_then(|()| {
            if ends_with_newline {
                Ok(())
            } else {
                out.write_all(b"\n")
            }
        })
        .and_then(|()| out.flush());
    match result {
        Ok(()) => {}
        // The reader (`head`, a pager) has seen enough.
        // It says nothing about the answer, whose exit code is still to come.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        Err(e) => {
            let failure = cannot_write(&e);
            talk(&failure.to_string());
            std::process::exit(failure.exit as i32);
        }
    }
}
