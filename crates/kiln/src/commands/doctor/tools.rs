//! Profiler, memory checker and C compiler.

use std::fs;
use std::path::PathBuf;

use super::finding::Finding;
use super::probe;
use super::toolkit::{self, Program};
use crate::settings;

pub struct Found {
    ncu: Option<Program>,
    sanitizer: Option<Program>,
    counters: Counters,
}

/// Whether this user may read the GPU's hardware counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counters {
    ForEverybody,
    /// For administrators, and this process is one.
    ForUs,
    ForOthers,
    NotTold,
}

pub fn look() -> Found {
    let mut folders = toolkit::folders();
    let ncu_folders: Vec<PathBuf> = folders.iter().cloned().chain(nsight_folders()).collect();
    let ncu = probe::start(move || Program::find("ncu", &ncu_folders));
    folders.push("/usr/local/cuda/compute-sanitizer".into());
    let sanitizer = Program::find("compute-sanitizer", &folders);
    let params = fs::read_to_string("/proc/driver/nvidia/params").ok();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Found {
        ncu: ncu
            .take(std::time::Instant::now() + super::PATIENCE)
            .flatten(),
        sanitizer,
        counters: judge_counters(params.as_deref(), &status),
    }
}

/// Nsight Compute installs itself under a folder of its version; the newest first.
fn nsight_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir("/opt/nvidia/nsight-compute");
    let mut folders: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    folders.sort();
    folders.reverse();
    folders
}

/// From the driver's parameters and this process's capabilities. The driver asks for CAP_SYS_ADMIN,
/// which root in a container need not have.
fn judge_counters(params: Option<&str>, status: &str) -> Counters {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches(':').trim().to_string())
    };
    let capabilities = field(status, "CapEff").and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    match params
        .and_then(|text| field(text, "RmProfilingAdminOnly"))
        .as_deref()
    {
        None => Counters::NotTold,
        Some("0") => Counters::ForEverybody,
        Some(_) if capabilities.is_some_and(|bits| bits & CAP_SYS_ADMIN != 0) => Counters::ForUs,
        Some(_) => Counters::ForOthers,
    }
}

pub fn judge(found: &Found) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &found.ncu {
        Some(ncu) => {
            findings.push(ncu.judge("ncu", "ncu"));
            findings.extend(judge_permission(found.counters));
        }
        None => findings.push(
            Finding::note("ncu", "ncu: not found")
                .why("without Nsight Compute kiln cannot say why a kernel is slow")
                .fix("install Nsight Compute, which is part of the CUDA toolkit"),
        ),
    }
    findings.push(match &found.sanitizer {
        Some(sanitizer) => sanitizer.judge("compute_sanitizer", "compute-sanitizer"),
        None => Finding::note("compute_sanitizer", "compute-sanitizer: not found")
            .why("without it a crash is not traced to a source line")
            .fix("install the CUDA toolkit's compute-sanitizer"),
    });
    findings
}

fn judge_permission(counters: Counters) -> Option<Finding> {
    let check = "counters";
    match counters {
        Counters::NotTold => None,
        Counters::ForEverybody => Some(Finding::ok(check, "hardware counters: for everybody")),
        Counters::ForUs => Some(Finding::ok(
            check,
            "hardware counters: for administrators, as here",
        )),
        Counters::ForOthers => Some(
            Finding::warning(check, "hardware counters: for administrators only")
                .why("ncu ends with ERR_NVGPUCTRPERM and nothing can be profiled")
                .fix(
                    "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | \
                     sudo tee /etc/modprobe.d/nvidia-profiling.conf, then reboot; \
                     in a container: docker run --cap-add=SYS_ADMIN …",
                ),
        ),
    }
}

pub struct CCompiler {
    command: Vec<String>,
    answer: Result<String, String>,
}

pub fn look_for_c_compiler() -> CCompiler {
    let command = settings::c_compiler();
    let mut arguments: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
    arguments.push("--version");
    let answer = probe::output(command[0].as_ref(), &arguments);
    CCompiler { command, answer }
}

pub fn judge_c_compiler(found: &CCompiler) -> Finding {
    let command = found.command.join(" ");
    match &found.answer {
        Ok(text) => {
            let first = text.lines().next().unwrap_or("").trim().to_string();
            Finding::ok("c_compiler", format!("C compiler `{command}`: {first}"))
                .fact("version", first)
        }
        Err(why) => Finding::missing("c_compiler", format!("C compiler `{command}`: {why}"))
            .why("C kernels, references and baselines are compiled with it")
            .fix("sudo apt install gcc   # or your system's way; KILN_CC names another"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_for_whom_the_driver_says() {
        let params =
            |value| format!("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {value}\n");
        let plain = "Name:\tkiln\nCapEff:\t00000000a80425fb\n";
        let admin = "Name:\tkiln\nCapEff:\t000001ffffffffff\n";
        assert_eq!(judge_counters(None, admin), Counters::NotTold);
        assert_eq!(
            judge_counters(Some(&params(0)), plain),
            Counters::ForEverybody
        );
        assert_eq!(judge_counters(Some(&params(1)), admin), Counters::ForUs);
        assert_eq!(judge_counters(Some(&params(1)), plain), Counters::ForOthers);
    }
}
