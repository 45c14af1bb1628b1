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
        let made = match is_linked_apart(job) {
            false => run(
                job,
                &list,
                &["-MD", "-MF", &list, "-o", &job.output, "-", "-lm"],
            )?,
            true => compile_then_link(job, &list)?,
        };
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

/// Flags that make many a compiler link `crtfastmath.o`, a constructor that sets the processor to take denormal numbers for
/// zero: also in a shared library, and so for the whole program that loads it. GCC 13 is the first that does not.
const SETTING_THE_PROCESSOR: &[&str] = &[
    "-Ofast",
    "-ffast-math",
    "-funsafe-math-optimizations",
    "-mdaz-ftz",
];

/// Whether compiling and linking are two commands, the second without some of the flags.
pub fn is_linked_apart(job: &CompileJob) -> bool {
    let Tool::Cc { command } = &job.tool else {
        return false;
    };
    let mut words = command.iter().skip(1).chain(&job.flags);
    words.any(|word| SETTING_THE_PROCESSOR.contains(&word.as_str()))
}

fn without_setting(words: &[String]) -> Vec<String> {
    words
        .iter()
        .filter(|word| !SETTING_THE_PROCESSOR.contains(&word.as_str()))
        .cloned()
        .collect()
}

/// The code is compiled as the flags say; only the processor's mode stays the loading program's.
fn compile_then_link(job: &CompileJob, list: &str) -> Result<Made, CompileFailure> {
    let Tool::Cc { command } = &job.tool else {
        return Err(failure("this toolchain compiles C", ""));
    };
    let object = format!("{}.o", job.output);
    let compiling = CompileJob {
        output: object.clone(),
        ..job.clone()
    };
    let compiled = run(
        &compiling,
        list,
        &["-MD", "-MF", list, "-c", "-o", &object, "-"],
    );
    let linked = compiled.and_then(|mut made| {
        let (program, fixed) = command
            .split_first()
            .ok_or_else(|| failure("no compiler was named", ""))?;
        let make = || {
            let mut command = Command::new(program);
            command
                .args(without_setting(fixed))
                .args(FIXED_FLAGS)
                .args(without_setting(&job.flags))
                // What follows is no source.
                .args(["-x", "none", "-o", &job.output, &object, "-lm"]);
            command
        };
        made.log.push_str(&compiler_process::run(job, make, None)?);
        Ok(made)
    });
    // It only leads from one command to the other; a failure to remove it harms nothing.
    let _ = std::fs::remove_file(&object);
    linked
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

    /// A library that sets the processor's mode has a constructor for it.
    #[test]
    fn fast_math_in_a_kernel_leaves_the_processor_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        for flag in [
            "-O2",
            "-ffast-math",
            "-Ofast",
            "-funsafe-math-optimizations",
        ] {
            let job = CompileJob {
                tool: Tool::Cc {
                    command: vec!["cc".into()],
                },
                unit: "float half(float x) { return x / 2; }\n".into(),
                flags: vec![flag.into(), "-L/nowhere".into()],
                defines: Vec::new(),
                include_dirs: Vec::new(),
                output: path("image.so"),
                memory_limit_bytes: 8 << 30,
                cpu_limit_seconds: 60,
            };
            Cc.compile(&job).unwrap();
            let image = std::fs::read(path("image.so")).unwrap();
            let name = b"set_fast_math";
            let sets = image.windows(name.len()).any(|part| part == name);
            assert!(!sets, "{flag}");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{flag}");
        }
    }

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
