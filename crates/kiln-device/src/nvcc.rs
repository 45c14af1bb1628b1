//! NVIDIA's offline compiler as a toolchain, for sources that NVRTC cannot take.

use std::fs;
use std::process::Command;
use std::time::Instant;

use kiln_core::protocol::{CompileJob, Compiled, Tool};
use kiln_core::trial::CompileFailure;

use crate::backend::Toolchain;
use crate::compiler_process::{
    self, ADDED_LINES, explain_added, failure, is_added, parse_dependencies, shorten,
};
use crate::ptxas;
use crate::symbols;

/// Given to every compilation, before the manifest's own flags. Part of the cache key.
pub const FIXED_FLAGS: &[&str] = &["-cubin", "-Xptxas", "-v", "-x", "cu"];

/// For flags that choose no standard themselves.
const DEFAULT_STANDARD: &str = "-std=c++17";

/// Runs `nvcc`. It reads a unit only from a file, which lies beside the output while it runs.
pub struct Nvcc;

impl Toolchain for Nvcc {
    fn compile(&mut self, job: &CompileJob) -> Result<Compiled, CompileFailure> {
        let Tool::Nvcc {
            command,
            architecture,
            entry,
        } = &job.tool
        else {
            return Err(failure("this toolchain compiles CUDA with nvcc", ""));
        };
        let started = Instant::now();
        let unit_file = format!("{}.cu", job.output);
        let dependency_file = format!("{}.d", job.output);
        fs::write(&unit_file, &job.unit)
            .map_err(|e| failure(&format!("cannot write `{unit_file}`: {e}"), ""))?;
        let result = run(job, command, architecture, &unit_file, &dependency_file);
        let dependencies: Vec<String> = fs::read_to_string(&dependency_file)
            .map(|text| parse_dependencies(&text))
            .unwrap_or_default()
            .into_iter()
            .filter(|file| *file != unit_file)
            .collect();
        // Leftovers go with the cache's own staging folder; failing to remove them harms nothing.
        let _ = fs::remove_file(&unit_file);
        let _ = fs::remove_file(&dependency_file);
        let log = result.map_err(|error| {
            let first = error.first_error.replace(&unit_file, ADDED_LINES);
            let log = error.log.replace(&unit_file, ADDED_LINES);
            CompileFailure {
                first_error: match is_added(&first) {
                    true => explain_added(entry, &first, &log),
                    false => first,
                },
                log,
            }
        })?;
        if dependencies.is_empty() {
            let silent = "nvcc did not say which files it read (-MD -MF)";
            return Err(failure(silent, &log));
        }
        if fs::metadata(&job.output).map_or(0, |facts| facts.len()) == 0 {
            return Err(failure("nvcc wrote an empty image", &log));
        }
        let kernels = ptxas::kernels(&log);
        let names = kernels.iter().map(|(name, _)| name.as_str());
        let symbol = ptxas::find_symbol(entry, names).map_err(|why| failure(&why, &log))?;
        let resources = kernels.iter().find(|(name, _)| *name == symbol);
        Ok(Compiled {
            resources: resources.map(|(_, resources)| *resources),
            symbol: (symbol != *entry).then_some(symbol),
            log: shorten(&ptxas::without_numbers(&log)).to_string(),
            compile_ms: started.elapsed().as_secs_f64() * 1e3,
            dependencies,
            absent: Vec::new(),
            is_uncacheable: false,
            writable: symbols::writable(&job.output),
        })
    }
}

fn run(
    job: &CompileJob,
    command: &[String],
    architecture: &str,
    unit_file: &str,
    dependency_file: &str,
) -> Result<String, CompileFailure> {
    let (program, fixed) = command
        .split_first()
        .ok_or_else(|| failure("no nvcc was named", ""))?;
    let make = || {
        let mut command = Command::new(program);
        command.args(fixed).arg(format!("-arch={architecture}"));
        let chooses = |flag: &String| flag.starts_with("-std") || flag.starts_with("--std");
        if !job.flags.iter().any(chooses) {
            command.arg(DEFAULT_STANDARD);
        }
        command
            .args(FIXED_FLAGS)
            .args(job.include_dirs.iter().map(|dir| format!("-I{dir}")))
            .args(
                job.defines
                    .iter()
                    .map(|(name, value)| format!("-D{name}={value}")),
            )
            .args(&job.flags)
            .args(["-MD", "-MF", dependency_file, "-o", &job.output, unit_file]);
        command
    };
    compiler_process::run(job, make, None)
}

#[cfg(test)]
mod tests;
