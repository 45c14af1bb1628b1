//! A C kernel built a second time, to be checked and never timed: every access to its own arrays is looked at, and
//! its threads start on stacks full of garbage.

use kiln_core::manifest::Language;
use kiln_core::trial::Assignment;

use super::build::Compiler;
use super::{Precision, Task};
use crate::engine::compile_pool::Build;
use crate::engine::worker::WorkerKind;

/// Known to gcc and clang. Traps need no library.
const BOUNDS: [&str; 2] = ["-fsanitize=bounds", "-fsanitize-undefined-trap-on-error"];
/// Registers hide what arrays would show, so no more is optimised than the many shapes ask for.
const FURTHER: [&str; 3] = ["-O1", "-pthread", "-Wl,--wrap=pthread_create"];
const ADDRESSES: &str = "-fsanitize=address";
const THREADS: &str = include_str!("checked_threads.c");

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
        // Looked up, not asked for: a compiler runs in a sandbox or not at all.
        let mut version = self.identity.split_whitespace().filter_map(|word| {
            let (major, _) = word.split_once('.')?;
            major.parse::<u32>().ok()
        });
        let Some(major) = version.next_back() else {
            return Err("the compiler's version is not known".into());
        };
        let places = ["/usr/lib/gcc", "/usr/lib64/gcc"];
        let targets = places
            .iter()
            .filter_map(|place| std::fs::read_dir(place).ok());
        let found = targets.flatten().flatten().find_map(|target| {
            let library = target.path().join(major.to_string()).join(NAME);
            library.is_file().then(|| library.display().to_string())
        });
        found.ok_or_else(|| format!("gcc {major} has no {NAME} here"))
    }
}
