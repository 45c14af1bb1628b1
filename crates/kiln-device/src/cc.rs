//! The system's C compiler as a toolchain: one child process per image.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Instant;

use kiln_core::protocol::{CompileJob, Compiled};
use kiln_core::trial::CompileFailure;
use nix::sys::resource::{Resource, setrlimit};

use crate::backend::Toolchain;

/// What is kept of a compiler's messages; template errors can run to megabytes.
const LOG_LIMIT: usize = 16 << 10;

const KILLS_FORGIVEN: usize = 3;
const KILLED: &str = "the compiler was killed (SIGKILL); it may have run out of memory";
/// Nobody needs a kernel of this size; a runaway array would fill the disk.
const IMAGE_LIMIT_BYTES: u64 = 1 << 30;

/// Given to every compilation, before the manifest's own flags. Part of the cache key.
pub const FIXED_FLAGS: &[&str] = &[
    "-x",
    "c",
    "-shared",
    "-fPIC",
    // An entry called `step` or `index` must not be taken for the C library's.
    "-fvisibility=hidden",
    // A function that is missing is an error of the linker, with its name, not of the loader.
    "-Wl,-z,defs",
    // A parameter whose type differs from the manifest's must not pass as a warning.
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Werror=implicit-function-declaration",
];

/// Runs `cc` (or whatever the job names). The unit goes in through standard input, so no
/// temporary source file is left behind, and messages name the user's own files.
pub struct Cc;

impl Toolchain for Cc {
    fn compile(&mut self, job: &CompileJob) -> Result<Compiled, CompileFailure> {
        let started = Instant::now();
        let dependency_file = format!("{}.d", job.output);
        let mut result = run(job, &dependency_file);
        // Killed from outside (memory pressure, an operator): no verdict on the source, so again.
        for _ in 0..KILLS_FORGIVEN {
            match &result {
                Err(failure) if was_killed(failure) => result = run(job, &dependency_file),
                _ => break,
            }
        }
        let dependencies = std::fs::read_to_string(&dependency_file)
            .map(|text| parse_dependencies(&text))
            .unwrap_or_default();
        let result = match result {
            // Without the list a changed header would go unnoticed.
            Ok(log) if dependencies.is_empty() => Err(failure(
                "the compiler did not say which files it read (-MD -MF)",
                &log,
            )),
            other => other,
        };
        // The file only carries the list to us; a failure to remove it harms nothing.
        let _ = std::fs::remove_file(&dependency_file);
        result.map(|log| Compiled {
            log,
            compile_ms: started.elapsed().as_secs_f64() * 1e3,
            dependencies,
        })
    }
}

fn run(job: &CompileJob, dependency_file: &str) -> Result<String, CompileFailure> {
    let (program, fixed) = job
        .compiler
        .split_first()
        .ok_or_else(|| failure("no compiler was named", ""))?;
    let mut command = Command::new(program);
    command
        .args(fixed)
        .args(FIXED_FLAGS)
        .args(&job.flags)
        .args(
            job.defines
                .iter()
                .map(|(name, value)| format!("-D{name}={value}")),
        )
        .args(job.include_dirs.iter().map(|dir| format!("-I{dir}")))
        .args(["-MD", "-MF", dependency_file, "-o", &job.output, "-", "-lm"])
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let (memory, seconds) = (job.memory_limit_bytes, job.cpu_limit_seconds);
    // SAFETY: the closure runs between fork and exec and only makes async-signal-safe system
    // calls (prctl, setrlimit); it allocates nothing.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            setrlimit(Resource::RLIMIT_AS, memory, memory)?;
            setrlimit(Resource::RLIMIT_CPU, seconds, seconds + 1)?;
            setrlimit(Resource::RLIMIT_FSIZE, IMAGE_LIMIT_BYTES, IMAGE_LIMIT_BYTES)?;
            Ok(())
        });
    }
    let mut child = command
        .spawn()
        .map_err(|e| failure(&format!("cannot run `{program}`: {e}"), ""))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A compiler that dies early closes the pipe; its exit status tells the story.
        let _ = stdin.write_all(job.unit.as_bytes());
    }
    let log = child.stderr.take().map(read_log).unwrap_or_default();
    let status = child
        .wait()
        .map_err(|e| failure(&format!("lost the compiler: {e}"), &log))?;
    if status.success() {
        if !std::path::Path::new(&job.output).is_file() {
            let lie = "the compiler reported success but wrote no image";
            return Err(failure(lie, &log));
        }
        return Ok(log);
    }
    if status.signal() == Some(9) {
        return Err(failure(KILLED, &log));
    }
    let first = first_error(&log).map_or_else(
        || format!("the compiler ended with {status}"),
        str::to_string,
    );
    Err(failure(&first, &log))
}

/// The driver itself, or as it reports it, the compiler proper.
fn was_killed(failure: &CompileFailure) -> bool {
    failure.first_error.contains(KILLED)
        || failure.log.contains("Killed signal terminated program")
        || failure.log.contains("killed by signal 9")
}

fn failure(first_error: &str, log: &str) -> CompileFailure {
    CompileFailure {
        first_error: first_error.to_string(),
        log: log.to_string(),
    }
}

/// Keeps the beginning, where the first error is, and drains the rest so the compiler can end.
fn read_log(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0u8; 8192];
    while let Ok(n) = stderr.read(&mut chunk) {
        if n == 0 {
            break;
        }
        let room = LOG_LIMIT.saturating_sub(kept.len());
        kept.extend(&chunk[..n.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

fn first_error(log: &str) -> Option<&str> {
    log.lines()
        .find(|line| line.contains("error:") || line.contains("fatal"))
        .or_else(|| log.lines().find(|line| !line.trim().is_empty()))
        .map(str::trim)
}

/// The prerequisites of a make rule as `-MD` writes it; spaces in names are escaped with `\`.
fn parse_dependencies(rule: &str) -> Vec<String> {
    let Some((_, list)) = rule.split_once(": ") else {
        return Vec::new();
    };
    let mut files = Vec::new();
    let mut current = String::new();
    let mut characters = list.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some('\n') | None => {}
                Some(escaped) => current.push(escaped),
            },
            '$' if characters.peek() == Some(&'$') => {
                characters.next();
                current.push('$');
            }
            c if c.is_whitespace() => {
                if !current.is_empty() {
                    files.push(std::mem::take(&mut current));
                }
            }
            c => current.push(c),
        }
    }
    if !current.is_empty() {
        files.push(current);
    }
    // The unit itself comes from standard input and shows up as `-`.
    files.retain(|f| f != "-" && f != "<stdin>");
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_with_spaces_and_continuations() {
        let rule = "a.so: - /usr/include/stdio.h \\\n /home/a\\ b/k.c \\\n  x$$y.h\n";
        assert_eq!(
            parse_dependencies(rule),
            ["/usr/include/stdio.h", "/home/a b/k.c", "x$y.h"]
        );
    }

    #[test]
    fn first_error_is_found_behind_warnings() {
        let log = "k.c:1: warning: x\nk.c:2:3: error: boom\nk.c:9: error: later\n";
        assert_eq!(first_error(log), Some("k.c:2:3: error: boom"));
    }
}
