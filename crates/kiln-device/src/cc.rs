//! The system's C compiler as a toolchain: one child process per image.

use std::process::Command;
use std::time::Instant;

use kiln_core::protocol::{CompileJob, Compiled, Tool};
use kiln_core::trial::CompileFailure;

use crate::backend::Toolchain;
use crate::compiler_process::{self, failure, parse_dependencies, shorten};
use crate::symbols;

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
        let list = format!("{}.d", job.output);
        let last = ["-MD", "-MF", &list, "-o", &job.output, "-", "-lm"];
        let made = run(job, &list, &last)?;
        Ok(Compiled {
            symbol: None,
            resources: None,
            log: shorten(&made.log).to_string(),
            compile_ms: started.elapsed().as_secs_f64() * 1e3,
            dependencies: made.files,
            absent: Vec::new(),
            is_uncacheable: false,
            writable: symbols::writable(&job.output),
        })
    }

    fn reads(&mut self, job: &CompileJob) -> Result<Vec<String>, CompileFailure> {
        // The list is all that is to be written.
        let job = CompileJob {
            output: format!("{}.d", job.output),
            ..job.clone()
        };
        let made = run(&job, &job.output, &["-M", "-MF", &job.output, "-"])?;
        Ok(made.files)
    }
}

/// What a compiler said: on standard error, and about the files it read.
struct Made {
    log: String,
    files: Vec<String>,
}

/// With further words that make the compiler write `list`.
fn run(job: &CompileJob, list: &str, last: &[&str]) -> Result<Made, CompileFailure> {
    let result = run_compiler(job, last);
    let files = std::fs::read_to_string(list)
        .map(|text| parse_dependencies(&text))
        .unwrap_or_default();
    // The file only carries the list to us; a failure to remove it harms nothing.
    let _ = std::fs::remove_file(list);
    match result {
        // Without the list a changed header would go unnoticed.
        Ok(log) if files.is_empty() => Err(failure(
            "the compiler did not say which files it read (-MD -MF)",
            &log,
        )),
        Ok(log) => Ok(Made { log, files }),
        Err(failure) => Err(failure),
    }
}

fn run_compiler(job: &CompileJob, last: &[&str]) -> Result<String, CompileFailure> {
    let Tool::Cc { command } = &job.tool else {
        return Err(failure("this toolchain compiles C", ""));
    };
    let (program, fixed) = command
        .split_first()
        .ok_or_else(|| failure("no compiler was named", ""))?;
    let make = || {
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
            .args(last);
        command
    };
    compiler_process::run(job, make, Some(&job.unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_says_what_it_would_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("one.h"), "").unwrap();
        std::fs::write(path("two.h"), "").unwrap();
        let job = |unit: &str| CompileJob {
            tool: Tool::Cc {
                command: vec!["cc".into()],
            },
            unit: unit.into(),
            flags: vec!["-include".into(), path("one.h")],
            defines: vec![("H".into(), "<two.h>".into())],
            include_dirs: vec![path("")],
            output: path("image.so"),
            memory_limit_bytes: 8 << 30,
            cpu_limit_seconds: 60,
        };
        // A mistake behind the directives does not matter.
        let read = Cc.reads(&job("#include H\nint x = y;\n")).unwrap();
        assert!(read.contains(&path("one.h")), "{read:?}");
        assert!(read.iter().any(|file| file.ends_with("two.h")), "{read:?}");
        let error = Cc.reads(&job("#include \"three.h\"\n")).unwrap_err();
        assert!(error.first_error.contains("three.h"), "{error:?}");
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "nothing is made: {left:?}");
    }
}
