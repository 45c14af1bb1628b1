//! What all toolchains share: a compiler as a child process with limits, and its messages.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

use kiln_core::manifest::plain_name;
use kiln_core::protocol::CompileJob;
use kiln_core::trial::CompileFailure;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What is kept of a compiler's messages; template errors can run to megabytes.
pub(crate) const LOG_LIMIT: usize = 16 << 10;

/// What is read at all. `ptxas` says what a kernel uses after the front end's warnings.
const READ_LIMIT: usize = 4 << 20;

const KILLS_FORGIVEN: usize = 3;
const KILLED: &str = "the compiler was killed (SIGKILL); it may have run out of memory";
/// Nobody needs a kernel of this size; a runaway array would fill the disk.
pub(crate) const IMAGE_LIMIT_BYTES: u64 = 1 << 30;

/// Runs a compiler that is to write `job.output`, and returns all it printed. One killed from
/// outside (memory pressure, an operator) has said nothing about the source, so it runs again.
pub(crate) fn run(
    job: &CompileJob,
    make: impl Fn() -> Command,
    stdin: Option<&str>,
) -> Result<String, CompileFailure> {
    let mut result = run_once(job, make(), stdin);
    for _ in 0..KILLS_FORGIVEN {
        match &result {
            Err(failure) if was_killed(failure) => result = run_once(job, make(), stdin),
            _ => break,
        }
    }
    result
}

fn run_once(
    job: &CompileJob,
    mut command: Command,
    stdin: Option<&str>,
) -> Result<String, CompileFailure> {
    command
        .env("LC_ALL", "C")
        // kiln caches itself, and in the sandbox there is no other cache to write to.
        .env("CCACHE_DISABLE", "1")
        .stdin(match stdin {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let (memory, seconds) = (job.memory_limit_bytes, job.cpu_limit_seconds);
    // SAFETY: the closure runs between fork and exec and only makes async-signal-safe system
    // calls (prctl, getrlimit, setrlimit); it allocates nothing.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            limit(Resource::RLIMIT_AS, memory, memory)?;
            limit(Resource::RLIMIT_CPU, seconds, seconds + 1)?;
            limit(Resource::RLIMIT_FSIZE, IMAGE_LIMIT_BYTES, IMAGE_LIMIT_BYTES)
        });
    }
    let mut child = command.spawn().map_err(|e| {
        let program = command.get_program().to_string_lossy();
        failure(&format!("cannot run `{program}`: {e}"), "")
    })?;
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), stdin) {
        // A compiler that dies early closes the pipe; its exit status tells the story.
        let _ = pipe.write_all(text.as_bytes());
    }
    let log = child.stderr.take().map(read_log).unwrap_or_default();
    let status = child
        .wait()
        .map_err(|e| failure(&format!("lost the compiler: {e}"), &log))?;
    if status.success() {
        if !Path::new(&job.output).is_file() {
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

pub(crate) fn failure(first_error: &str, log: &str) -> CompileFailure {
    CompileFailure {
        first_error: first_error.to_string(),
        log: shorten(log).to_string(),
    }
}

/// The beginning of a log, where the first error is.
pub(crate) fn shorten(log: &str) -> &str {
    let mut end = log.len().min(LOG_LIMIT);
    while !log.is_char_boundary(end) {
        end -= 1;
    }
    &log[..end]
}

/// Keeps the beginning and drains the rest, so that the compiler can end.
fn read_log(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0u8; 8192];
    while let Ok(n) = stderr.read(&mut chunk) {
        if n == 0 {
            break;
        }
        let room = READ_LIMIT.saturating_sub(kept.len());
        kept.extend(&chunk[..n.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// GNU compilers and NVIDIA's front end write `error:`, `ptxas` writes `error   :`.
pub(crate) fn first_error(log: &str) -> Option<&str> {
    let is_error = |line: &&str| {
        line.contains("error:") || line.contains("error   :") || line.contains("fatal")
    };
    log.lines()
        .find(is_error)
        .or_else(|| log.lines().find(|line| !line.trim().is_empty()))
        .map(str::trim)
}

/// What the lines that kiln adds to a unit are called in messages. They check the user's source
/// against the manifest.
pub(crate) const ADDED_LINES: &str = "kiln's check";

/// The text of an assertion that kiln added, which says all by itself.
pub(crate) fn assertion(error: &str) -> Option<&str> {
    let text = error.strip_prefix(ADDED_LINES)?;
    let (_, text) = text.split_once("static assertion failed with \"")?;
    text.strip_suffix('"')
}

/// What NVRTC calls the lines it makes from a name expression.
const NAME_EXPRESSIONS: &str = "__nv_name_map(";

/// Whether an error is in lines that are not the user's: kiln's, or those NVRTC makes of a name.
pub(crate) fn is_added(error: &str) -> bool {
    error.starts_with(ADDED_LINES) || error.starts_with(NAME_EXPRESSIONS)
}

/// What an error in added lines means in the user's terms. An entry that cannot be named breaks
/// kiln's assertions before the compiler comes to the name itself, which says more.
pub(crate) fn explain_added(entry: &str, first: &str, log: &str) -> String {
    let mut added = log
        .lines()
        .map(str::trim)
        .filter(|l| is_added(l) && l.contains("error:"));
    let by_name = added.find_map(|error| explain_name(entry, error));
    by_name.unwrap_or_else(|| assertion(first).unwrap_or(first).to_string())
}

/// What an error in naming the entry means; the compiler's own words speak of its inside.
fn explain_name(entry: &str, error: &str) -> Option<String> {
    let plain = plain_name(entry);
    let is_instance = entry.contains('<');
    let undefined = error
        .contains("is undefined")
        .then(|| error.split('"').nth(1).unwrap_or_default());
    let in_entry = |name: &str| {
        let mut words = entry.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.any(|word| word == name)
    };
    let why = if undefined.is_some_and(|name| !in_entry(name)) {
        return None;
    } else if let Some(name) = undefined.filter(|name| *name != plain) {
        format!("`{name}` in the entry `{entry}` is not defined in the source")
    } else if [
        "is undefined",
        "has no member",
        "must be a class or namespace",
    ]
    .iter()
    .any(|words| error.contains(words))
    {
        format!("there is no kernel `{entry}` in the source")
    } else if error.contains("function template") && is_instance {
        format!("`{entry}` is not one instance of the template: give all of its arguments")
    } else if error.contains("function template") {
        format!("`{entry}` is a template: name an instance, e.g. `{entry}<float>`")
    } else if error.contains("overloaded function") {
        format!("there are several kernels `{entry}`: give the one to tune a name of its own")
    } else if error.contains("non-__global__") || error.contains("__global__ function") {
        format!("`{entry}` is not a `__global__` function")
    } else if is_instance && error.contains("type name is not allowed") {
        format!("`{entry}` is not an instance: `{plain}` is no template")
    } else {
        return None;
    };
    Some(why)
}

/// The prerequisites of a make rule as `-MD` writes it; spaces in names are escaped with `\`.
pub(crate) fn parse_dependencies(rule: &str) -> Vec<String> {
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

/// A user's own limit (`ulimit -f`, `-v`, `-t`) may be lower still, and only root could raise it.
fn limit(resource: Resource, soft: u64, hard: u64) -> std::io::Result<()> {
    let (_, highest) = getrlimit(resource)?;
    Ok(setrlimit(resource, soft.min(highest), hard.min(highest))?)
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
        let log =
            "ptxas warning : x\nptxas error   : Entry function 'k' uses too much shared data\n";
        assert!(first_error(log).unwrap().starts_with("ptxas error"));
    }

    #[test]
    fn assertions_of_kilns_own_speak_for_themselves() {
        let ours = "kiln's check of k.cu(45): error: static assertion failed with \"n is no f32\"";
        assert_eq!(assertion(ours), Some("n is no f32"));
        assert_eq!(assertion(&ours["kiln's check of ".len()..]), None);
        assert_eq!(assertion("kiln's check of k.cu(45): error: x"), None);
    }

    #[test]
    fn an_entry_that_cannot_be_named_is_the_first_error() {
        let check = "kiln's check of k.cu(61): error: ";
        let told = |entry: &str, first: &str, second: &str| {
            let first = format!("{check}{first}");
            let log = format!("{first}\n  static_assert(\n__nv_name_map(2): error: {second}\n");
            explain_added(entry, &first, &log)
        };
        let incomplete = "incomplete type \"kiln_signature_<int (float *)>\" is not allowed";
        let not_global = "Name expression cannot form address of a non-__global__ function.";
        for (entry, first, second, words) in [
            (
                "k",
                incomplete,
                not_global,
                "`k` is not a `__global__` function",
            ),
            (
                "k",
                "identifier \"k\" is undefined",
                "",
                "there is no kernel `k`",
            ),
            (
                "a::k",
                "namespace \"a\" has no member \"k\"",
                "",
                "there is no kernel `a::k`",
            ),
            (
                "k<T>",
                "identifier \"T\" is undefined",
                "",
                "`T` in the entry `k<T>`",
            ),
            (
                "k<4>",
                "cannot determine which instance of function template \"k\"",
                "",
                "all of its arguments",
            ),
            (
                "k<float>",
                "type name is not allowed",
                "",
                "`k` is no template",
            ),
            (
                "k",
                "static assertion failed with \"n is no f32\"",
                "",
                "n is no f32",
            ),
        ] {
            let told = told(entry, first, second);
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn logs_are_cut_between_characters() {
        let log = "ä".repeat(LOG_LIMIT);
        assert!(shorten(&log).len() <= LOG_LIMIT);
        assert_eq!(shorten("short"), "short");
    }
}
