//! What each kind of worker may reach, and whether a worker's walls are the ones it was given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use kiln_core::protocol::{CompileJob, Tool};
use kiln_core::sandbox::{Guard, Sandbox};
use kiln_device::sandbox::{Inmate, Jail};

use crate::exit::Failure;
use crate::settings;

/// For a C candidate: the images, and the task's input files.
pub fn for_candidate(reads: &[String]) -> Jail {
    let mut jail = Jail::new(Inmate::Candidate);
    jail.reads.extend_from_slice(reads);
    jail.reads.extend(settings::library_path().iter().map(text));
    jail
}

/// For the process on the GPU.
pub fn for_driver() -> Jail {
    Jail::new(Inmate::Driver)
}

/// For compiling one job: its tool, the system's headers, the project; one folder to write to.
pub fn for_compiler(job: &CompileJob, project: &Path, staging: &Path) -> Jail {
    let mut jail = match &job.tool {
        Tool::Nvrtc {
            library, builtins, ..
        } => {
            let mut jail = for_library(Path::new(library));
            let builtins = builtins.as_deref().map(Path::new);
            jail.reads.extend(builtins.and_then(Path::parent).map(text));
            jail
        }
        Tool::Cc { command } | Tool::Nvcc { command, .. } => for_command(command),
    };
    jail.reads.push(text(project));
    jail.reads.extend(job.include_dirs.iter().cloned());
    jail.writes.push(text(staging));
    jail
}

/// For NVRTC: where the library lies, also when it is reached through links.
pub fn for_library(library: &Path) -> Jail {
    let mut jail = Jail::new(Inmate::CompilerLibrary);
    let real = library.canonicalize().ok();
    let places = [Some(library.to_path_buf()), real];
    let folders = places.iter().flatten().filter_map(|path| path.parent());
    jail.reads.extend(folders.map(text));
    jail.reads.extend(settings::library_path().iter().map(text));
    jail
}

fn for_command(command: &[String]) -> Jail {
    let mut jail = Jail::new(Inmate::CompilerCommand);
    // `ccache gcc` has two programs.
    let words = command.iter().filter(|word| !word.starts_with('-'));
    for program in words.filter_map(|word| find(word)) {
        let real = program.canonicalize().ok();
        for path in [Some(program), real].into_iter().flatten() {
            jail.programs.extend(installation(&path).map(text));
            jail.programs.push(text(&path));
        }
    }
    let folders = settings::compiler_dirs();
    jail.programs.extend(folders.iter().map(text));
    jail.programs.dedup();
    jail
}

fn find(program: &str) -> Option<PathBuf> {
    match program.contains('/') {
        true => std::path::absolute(program).ok().filter(|p| p.is_file()),
        false => settings::on_path(program),
    }
}

/// `PREFIX` of `PREFIX/bin/program`, unless that is somebody's whole home.
fn installation(program: &Path) -> Option<&Path> {
    let folder = program.parent()?;
    let prefix = folder.parent()?;
    let is_named_so = folder.file_name().is_some_and(|name| name == "bin");
    (is_named_so && !holds_home(prefix)).then_some(prefix)
}

/// Whether a folder is the user's home, or has it somewhere inside.
pub fn holds_home(folder: &Path) -> bool {
    settings::user_home().is_some_and(|home| home.starts_with(folder))
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

/// What the first worker of each kind was kept from.
static FIRST: LazyLock<Mutex<BTreeMap<String, Sandbox>>> = LazyLock::new(Mutex::default);

/// A wall that was claimed and does not hold is an error, and so is a worker that is kept from less
/// than the ones before it: the record speaks for all of them.
pub fn accept(inmate: Inmate, sandbox: &Sandbox) -> Result<(), Failure> {
    let in_words = |guards: &[Guard]| {
        let open: Vec<&str> = guards.iter().map(|guard| guard.without()).collect();
        open.join(", ")
    };
    let refused = |message: String| {
        Failure::machine(message).hint(
            "tune only sources you trust with `--no-sandbox`, and please report this: \
             the kernel accepted the rules",
        )
    };
    if !sandbox.broken.is_empty() {
        let open = in_words(&sandbox.broken);
        return Err(refused(format!(
            "a worker's sandbox does not hold: tried and not refused: {open}"
        )));
    }
    let mut first = FIRST.lock().expect("no holder panics");
    let known = first
        .entry(format!("{inmate:?}"))
        .or_insert_with(|| sandbox.clone());
    match known == sandbox {
        true => Ok(()),
        false => Err(refused(format!(
            "a worker's sandbox differs from the first one's: {}",
            sandbox.caution().unwrap_or_else(|| "it is whole".into())
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_a_prefix_with_bin() {
        let of = |path: &str| installation(Path::new(path)).map(Path::to_path_buf);
        assert_eq!(of("/opt/gcc-14/bin/gcc"), Some("/opt/gcc-14".into()));
        assert_eq!(of("/project/my-cc"), None);
        assert_eq!(of("/bin/cc"), None);
    }

    #[test]
    fn a_broken_wall_is_an_error() {
        let broken = Sandbox {
            broken: vec![Guard::Network],
            ..Sandbox::default()
        };
        let failure = accept(Inmate::Driver, &broken).unwrap_err();
        assert!(
            failure.message.contains("the network"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn later_workers_are_kept_from_as_much_as_the_first() {
        let whole = Sandbox {
            enforced: vec![Guard::Network],
            ..Sandbox::default()
        };
        let weaker = Sandbox::none(&[Guard::Network], "no seccomp");
        assert!(accept(Inmate::CompilerLibrary, &whole).is_ok());
        assert!(accept(Inmate::CompilerLibrary, &whole).is_ok());
        assert!(accept(Inmate::CompilerLibrary, &weaker).is_err());
    }
}
