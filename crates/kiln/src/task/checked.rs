//! A C kernel built a second time, to be checked and never timed: every access to its own arrays is looked at, and
//! its threads start on stacks full of garbage.

use std::process::Command;
use std::time::Duration;

use kiln_core::manifest::Language;
use kiln_core::trial::Assignment;

use super::build::Compiler;
use super::{Precision, Task};
use crate::engine::compile_pool::Build;
use crate::engine::worker::WorkerKind;
use crate::toolchain::child;

/// Known to gcc and clang. Traps need no library.
const BOUNDS: [&str; 2] = ["-fsanitize=bounds", "-fsanitize-undefined-trap-on-error"];
/// Registers hide what arrays would show, so no more is optimised than the many shapes ask for.
const FURTHER: [&str; 3] = ["-O1", "-pthread", "-Wl,--wrap=pthread_create"];
const ADDRESSES: &str = "-fsanitize=address";
const THREADS: &str = include_str!("checked_threads.c");
/// For a compiler to say where its library is.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a checked build looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Indices into arrays of known size.
    Bounds,
    /// Those, and every address that is read or written; by this library, which has to be in the worker first.
    Addresses { library: String },
}

impl Task {
    /// Whether addresses can be watched here; `Err` says why not.
    pub fn watched_addresses(&self) -> Result<Watched, String> {
        let compiler = self.compiler.as_ref().ok_or("there is no C compiler")?;
        let library = compiler.address_library()?;
        Ok(Watched::Addresses { library })
    }

    /// The candidate built to be checked; `None` where it is no C.
    pub fn checked_build(&self, config: &Assignment, watched: &Watched) -> Option<Build> {
        let kernel = &self.manifest().kernel;
        if kernel.language != Language::C {
            return None;
        }
        let mut flags = kernel.flags.clone();
        flags.extend(BOUNDS.iter().chain(&FURTHER).map(|flag| flag.to_string()));
        if matches!(watched, Watched::Addresses { .. }) {
            flags.push(ADDRESSES.into());
        }
        let unit = self.unit(&self.source, &kernel.entry.value, Precision::Declared);
        let mut build = self.c_build(format!("{unit}{THREADS}"), &flags, config);
        if let (WorkerKind::Cpu { first_library, .. }, Watched::Addresses { library }) =
            (&mut build.worker, watched)
        {
            *first_library = Some(library.clone());
        }
        Some(build)
    }
}

impl Compiler {
    /// Where gcc keeps the address sanitizer's library. Clang has another, in places that differ from system to
    /// system, and finds gcc's too.
    fn address_library(&self) -> Result<String, String> {
        const NAME: &str = "libasan.so";
        if self.identity.contains("clang") {
            return Err("only gcc's address sanitizer is used".into());
        }
        let mut asked = Command::new(&self.command[0]);
        asked
            .args(&self.command[1..])
            .arg(format!("-print-file-name={NAME}"))
            .env("LC_ALL", "C");
        let answer = child::output(&mut asked, Some(PATIENCE)).map_err(|e| e.to_string())?;
        let path = answer.stdout.trim().to_string();
        // What a compiler does not find it repeats without a folder.
        match answer.succeeded() && path.contains('/') {
            true => Ok(path),
            false => Err(format!("the compiler has no {NAME}")),
        }
    }
}
