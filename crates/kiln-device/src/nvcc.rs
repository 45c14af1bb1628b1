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
        let list = format!("{}.d", job.output);
        let last = ["-MD", "-MF", &list, "-o", &job.output];
        let (log, dependencies) = Run {
            job,
            command,
            architecture,
            entry,
            first: FIXED_FLAGS,
            last: &last,
            list: &list,
        }
        .to_its_end()?;
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

    fn reads(&mut self, job: &CompileJob) -> Result<Vec<String>, CompileFailure> {
        let Tool::Nvcc {
            command,
            architecture,
            entry,
        } = &job.tool
        else {
            return Err(failure("this toolchain compiles CUDA with nvcc", ""));
        };
        let list = format!("{}.d", job.output);
        let (_, files) = Run {
            // The list is all that is to be written.
            job: &CompileJob {
                output: list.clone(),
                ..job.clone()
            },
            command,
            architecture,
            entry,
            first: &["-x", "cu"],
            last: &["-M", "-MF", &list],
            list: &list,
        }
        .to_its_end()?;
        Ok(files)
    }
}

/// One call of nvcc.
struct Run<'r> {
    job: &'r CompileJob,
    command: &'r [String],
    architecture: &'r str,
    entry: &'r str,
    /// Before the manifest's own flags, and behind them.
    first: &'r [&'r str],
    last: &'r [&'r str],
    /// Where nvcc is told to write which files it read.
    list: &'r str,
}

impl Run<'_> {
    /// What nvcc printed, and the files it read.
    fn to_its_end(&self) -> Result<(String, Vec<String>), CompileFailure> {
        let unit_file = format!("{}.cu", self.list);
        fs::write(&unit_file, &self.job.unit)
            .map_err(|e| failure(&format!("cannot write `{unit_file}`: {e}"), ""))?;
        let result = self.start(&unit_file);
        let dependencies: Vec<String> = fs::read_to_string(self.list)
            .map(|text| parse_dependencies(&text))
            .unwrap_or_default()
            .into_iter()
            .filter(|file| *file != unit_file)
            .collect();
        // Leftovers go with the cache's own staging folder; failing to remove them harms nothing.
        let _ = fs::remove_file(&unit_file);
        let _ = fs::remove_file(self.list);
        let log = result.map_err(|error| {
            let first = error.first_error.replace(&unit_file, ADDED_LINES);
            let log = error.log.replace(&unit_file, ADDED_LINES);
            CompileFailure {
                first_error: match is_added(&first) {
                    true => explain_added(self.entry, &first, &log),
                    false => first,
                },
                log,
            }
        })?;
        match dependencies.is_empty() {
            true => Err(failure(
                "nvcc did not say which files it read (-MD -MF)",
                &log,
            )),
            false => Ok((log, dependencies)),
        }
    }

    fn start(&self, unit_file: &str) -> Result<String, CompileFailure> {
        let job = self.job;
        let (program, fixed) = self
            .command
            .split_first()
            .ok_or_else(|| failure("no nvcc was named", ""))?;
        let make = || {
            let mut command = Command::new(program);
            command.args(fixed);
            command.arg(format!("-arch={}", self.architecture));
            let chooses = |flag: &String| flag.starts_with("-std") || flag.starts_with("--std");
            if !job.flags.iter().any(chooses) {
                command.arg(DEFAULT_STANDARD);
            }
            command
                .args(self.first)
                .args(job.include_dirs.iter().map(|dir| format!("-I{dir}")))
                .args(
                    job.defines
                        .iter()
                        .map(|(name, value)| format!("-D{name}={value}")),
                )
                .args(&job.flags)
                .args(self.last)
                .arg(unit_file);
            command
        };
        compiler_process::run(job, make, None)
    }
}

#[cfg(test)]
mod tests;
