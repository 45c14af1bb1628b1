//! The only place that writes to standard output or standard error.
//!
//! Standard output is data, standard error is talk. A closed pipe changes nothing but what is seen.

use std::io::{self, IsTerminal, Write};

use kiln_core::diagnostic::printable_lines;

use crate::exit::Exit;

/// Writes data to standard output.
pub fn data(text: &str) {
    write_or_leave(&mut io::stdout().lock(), text);
}

/// Writes talk to standard error. Failing to talk is no reason to stop. Much of what is said comes
/// from files and other programs: none of it can move the cursor.
pub fn talk(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable_lines(text));
}

pub fn talks_to_terminal() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Writes a line of a stream; false when nobody reads any more, which is no reason to stop.
pub fn stream(line: &str) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

fn write_or_leave(out: &mut impl Write, text: &str) {
    let ends_with_newline = text.ends_with('\n');
    let result = out
        .write_all(text.as_bytes())
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
            talk(&format!("error: cannot write to standard output: {e}"));
            std::process::exit(Exit::Machine as i32);
        }
    }
}
