//! Every `KILN_*` variable and the directories they decide.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use std::os::unix::fs::{DirBuilderExt, MetadataExt};

use crate::exit::Failure;

pub const HELP: &str = "\
Environment:
  KILN_HOME          cache and locks (default: $XDG_CACHE_HOME/kiln or ~/.cache/kiln)
  KILN_CC            C compiler (default: $CC, then cc)
  KILN_CUDA          CUDA toolkit, a wheel's nvidia/cu13 folder, or the libnvrtc file
                     (default: searched for; `kiln toolchain` shows where)
  KILN_PYTHON        Python for references and baselines in Python (default: python3)
  KILN_COMPILER_DIRS further folders a compiler in the sandbox may read and run programs from
  KILN_CACHE_BYTES   size limit of the compile cache (default: 2147483648)
  NO_COLOR, TERM     plain output when set / when `dumb`";

/// Where compiled images and locks live.
pub fn home() -> Result<PathBuf, Failure> {
    let path = match env::var_os("KILN_HOME").filter(|v| !v.is_empty()) {
        Some(home) => PathBuf::from(home),
        None => env::var_os("XDG_CACHE_HOME")
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")))
            .map(|cache| cache.join("kiln"))
            .ok_or_else(|| {
                Failure::machine("no place for the cache: neither HOME nor KILN_HOME is set")
                    .hint("set KILN_HOME to a writable folder")
            })?,
    };
    as_text(&path).map_err(|failure| failure.hint("or set KILN_HOME to another folder"))?;
    private_dir(&path)?;
    Ok(path)
}

/// A path as text, which is how compilers, workers, studies and packages are told of it: one that is not UTF-8 would reach
/// them as another path.
pub fn as_text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::usage(format!(
            "the path `{}` is not in UTF-8, so compilers and studies cannot be told of it",
            path.display()
        ))
        .hint("rename the part that is shown with a `�`, or work on a copy elsewhere")
    })
}

/// Creates a folder only its owner can use. Images in it are executed later, so a folder that
/// others own or may write to is refused, and so is a link: a cloned project may bring a `.kiln` that
/// points anywhere. One that others may only read is the user's choice: nothing in it is secret.
pub fn private_dir(path: &Path) -> Result<(), Failure> {
    let is_of_project = path.file_name().is_some_and(|name| name == ".kiln");
    let cannot = |e: io::Error| {
        let hint = match (is_of_project, e.kind()) {
            (true, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => "free some space",
            (true, _) => {
                "studies are kept beside the kernel: make the project's folder writable, or work on a copy"
            }
            (false, _) => "free some space or set KILN_HOME to a writable folder",
        };
        Failure::machine(format!("cannot use the folder `{}`: {e}", path.display())).hint(hint)
    };
    refuse_link(path)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(cannot)?;
    let facts = fs::symlink_metadata(path).map_err(cannot)?;
    if !facts.is_dir() {
        return Err(cannot(io::ErrorKind::NotADirectory.into()));
    }
    if facts.uid() != nix::unistd::geteuid().as_raw() {
        return Err(Failure::machine(format!(
            "the folder `{}` belongs to somebody else; kiln trusts what is in it",
            path.display()
        ))
        .hint(match is_of_project {
            true => take_over(path),
            false => format!("{}, or choose another KILN_HOME", take_over(path)),
        }));
    }
    if facts.mode() & 0o022 != 0 {
        let own = format!("chmod go-w '{}'", path.display());
        return Err(Failure::machine(format!(
            "the folder `{}` is writable by others; kiln trusts what is in it",
            path.display()
        ))
        .hint(match is_of_project {
            true => own,
            false => format!("{own}, or choose another KILN_HOME"),
        }));
    }
    Ok(())
}

/// What helps where a folder was made by another user, often by `sudo kiln`.
pub fn take_over(path: &Path) -> String {
    format!(
        "if it is left from a run as another user (`sudo kiln …`): sudo chown -R \"$(id -u)\" '{}'",
        path.display()
    )
}

/// kiln writes only to files and folders that are what they seem to be.
pub fn refuse_link(path: &Path) -> Result<(), Failure> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink());
    if !is_link {
        return Ok(());
    }
    let target = fs::read_link(path).unwrap_or_default();
    let shown = path.display();
    Err(Failure::machine(format!(
        "`{shown}` is a link to `{}`; kiln does not write through links",
        target.display()
    ))
    .hint(format!(
        "if the link is yours, name its target instead (KILN_HOME for the cache); else `rm '{shown}'`"
    )))
}

/// The CUDA compiler the user wants, and no other.
pub fn cuda() -> Option<PathBuf> {
    non_empty("KILN_CUDA").map(PathBuf::from)
}

/// Variables that name a toolkit for every program.
pub fn cuda_homes() -> Vec<(&'static str, PathBuf)> {
    ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(|name| Some((name, PathBuf::from(non_empty(name)?))))
        .collect()
}

/// Folders the dynamic loader is told to search first.
pub fn library_path() -> Vec<PathBuf> {
    let list = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    env::split_paths(&list)
        .filter(|path| !path.as_os_str().is_empty())
        .collect()
}

/// Folders the user lets compilers use: the variables that compilers themselves read, and kiln's.
pub fn compiler_dirs() -> Vec<PathBuf> {
    const VARIABLES: [&str; 8] = [
        "KILN_COMPILER_DIRS",
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "LIBRARY_PATH",
        "COMPILER_PATH",
        "GCC_EXEC_PREFIX",
        "LD_LIBRARY_PATH",
    ];
    let lists = VARIABLES.iter().filter_map(|name| non_empty(name));
    lists
        .flat_map(|list| env::split_paths(&list).collect::<Vec<_>>())
        .filter(|path| path.is_absolute())
        .collect()
}

/// Whether the user's own variables tell C compilers where to look for headers.
pub fn names_header_dirs() -> bool {
    let variables = ["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"];
    variables.iter().any(|name| non_empty(name).is_some())
}

pub fn user_home() -> Option<PathBuf> {
    non_empty("HOME").map(PathBuf::from)
}

static NO_SANDBOX: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// From here on workers are started without walls.
pub fn leave_sandbox() {
    NO_SANDBOX.store(true, std::sync::atomic::Ordering::SeqCst);
}

pub fn is_sandboxed() -> bool {
    !NO_SANDBOX.load(std::sync::atomic::Ordering::SeqCst)
}

/// The user's PATH and more behind it.
pub fn path_with(more: &str) -> std::ffi::OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":");
    path.push(more);
    path
}

/// A program that can be called by its name.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let list = env::var_os("PATH")?;
    let mut candidates = env::split_paths(&list).map(|dir| dir.join(program));
    candidates.find(|path| path.is_absolute() && path.is_file())
}

fn non_empty(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The Python that evaluates references and baselines.
pub fn python() -> String {
    env::var("KILN_PYTHON")
        .ok()
        .filter(|v| !v.is_empty())
        .unwrap_or_else(|| "python3".into())
}

/// The same for people, with the variable if that names it.
pub fn python_in_words() -> String {
    match non_empty("KILN_PYTHON") {
        Some(_) => format!("`{}` (KILN_PYTHON)", python()),
        None => format!("`{}`", python()),
    }
}

/// The C compiler as words; never passed through a shell.
pub fn c_compiler() -> Vec<String> {
    ["KILN_CC", "CC"]
        .iter()
        .filter_map(|name| env::var(name).ok())
        .map(|value| value.split_whitespace().map(str::to_string).collect())
        .find(|words: &Vec<String>| !words.is_empty())
        .unwrap_or_else(|| vec!["cc".into()])
}

pub fn cache_limit_bytes() -> Result<u64, Failure> {
    match env::var("KILN_CACHE_BYTES") {
        Err(_) => Ok(2 << 30),
        Ok(text) => text.parse().map_err(|_| {
            Failure::usage(format!(
                "KILN_CACHE_BYTES is `{text}`, not a number of bytes"
            ))
            .hint("write bytes without a unit, e.g. KILN_CACHE_BYTES=2000000000")
        }),
    }
}

/// Compilers to run side by side: one per core, fewer when memory is short.
pub fn compile_jobs() -> usize {
    const BYTES_PER_COMPILER: u64 = 1 << 30;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let by_memory = available_memory_bytes().map_or(cores, |b| (b / BYTES_PER_COMPILER) as usize);
    cores.min(by_memory).max(1)
}

fn available_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
