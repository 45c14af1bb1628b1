//! The CUDA compilers: which there are, and whether driver and kernels can use what they make.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::needs::Needs;
use super::probe;
use crate::exit::Failure;
use crate::nvml::CudaVersion;
use crate::toolchain::CudaToolchain;

pub struct Found {
    toolchain: Result<CudaToolchain, Failure>,
    nvcc: Option<Program>,
    ptxas: Option<Program>,
}

/// A program and what it says its version is.
pub struct Program {
    pub path: PathBuf,
    pub version: Result<String, String>,
}

impl Program {
    pub fn find(name: &str, folders: &[PathBuf]) -> Option<Program> {
        let path = probe::find_program(name, folders)?;
        let version = probe::output(&path, &["--version"])
            .and_then(|text| probe::version_in(&text).ok_or_else(|| "says no version".into()));
        Some(Program { path, version })
    }

    /// `nvcc 13.0 (/usr/local/cuda/bin/nvcc)`, or that it is broken.
    pub fn judge(&self, check: &'static str, name: &str) -> Finding {
        let path = self.path.display().to_string();
        let finding = match &self.version {
            Ok(version) => Finding::ok(check, format!("{name} {version} ({path})")),
            Err(why) => Finding::warning(check, format!("{name} at {path} does not work: {why}"))
                .why("what needs it will fail")
                .fix("install it again, or put a working one first on PATH"),
        };
        finding
            .fact("path", path)
            .fact("version", self.version.clone().ok())
    }
}

pub fn look() -> Found {
    let toolchain = CudaToolchain::find();
    let mut folders = folders();
    let nvcc = toolchain.as_ref().ok().and_then(|t| t.nvcc.clone());
    if let Some(folder) = nvcc.as_deref().and_then(Path::parent) {
        folders.insert(0, folder.to_path_buf());
    }
    let ptxas_folders = folders.clone();
    let ptxas = probe::start(move || Program::find("ptxas", &ptxas_folders));
    Found {
        toolchain,
        nvcc: Program::find("nvcc", &folders),
        ptxas: ptxas
            .take(std::time::Instant::now() + super::PATIENCE)
            .flatten(),
    }
}

/// Where a toolkit's programs lie when they are not on the search path.
pub fn folders() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"];
    let homes = named.iter().filter_map(std::env::var_os).map(PathBuf::from);
    homes
        .chain([PathBuf::from("/usr/local/cuda")])
        .map(|home| home.join("bin"))
        .collect()
}

/// `gpus` are the architectures of the GPUs there are.
pub fn judge(
    found: &Found,
    driver: Option<CudaVersion>,
    gpus: &[String],
    needs: Option<&Needs>,
) -> Vec<Finding> {
    let mut findings = vec![judge_nvrtc(found)];
    if let Ok(toolchain) = &found.toolchain {
        findings.push(judge_headers(toolchain));
        let version = CudaVersion::parse(&toolchain.version);
        findings.extend(fits_driver(version, driver));
        findings.extend(gpus.iter().filter_map(|gpu| fits_gpu(toolchain, gpu)));
    }
    findings.push(judge_nvcc(found, needs));
    if let Some(ptxas) = &found.ptxas {
        findings.push(ptxas.judge("ptxas", "ptxas"));
    }
    findings
}

fn judge_nvrtc(found: &Found) -> Finding {
    match &found.toolchain {
        Ok(toolchain) => {
            let what = format!("NVRTC {} from {}", toolchain.version, toolchain.origin);
            Finding::ok("nvrtc", what)
                .fact("version", toolchain.version.clone())
                .fact("origin", toolchain.origin.clone())
                .fact("library", toolchain.library.display().to_string())
        }
        Err(failure) => {
            // The first line says that there is none, the others where it was not or what is broken.
            let mut lines = failure.message.lines().map(str::trim);
            let first = lines.next().unwrap_or("no CUDA compiler").to_string();
            let details: Vec<&str> = lines.collect();
            let mut why =
                "CUDA kernels are compiled with it; a GPU is not needed for that".to_string();
            for broken in details.iter().filter(|line| !line.starts_with("not in ")) {
                why = format!("{why}; {broken}");
            }
            Finding::missing("nvrtc", first)
                .why(why)
                .fix(failure.hints.join("; "))
                .fact("details", details)
        }
    }
}

fn judge_headers(toolchain: &CudaToolchain) -> Finding {
    let folders: Vec<String> = toolchain
        .include_dirs
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    let finding = match toolchain.missing_headers.as_slice() {
        [] => Finding::ok("headers", format!("CUDA headers in {}", folders.join(", "))),
        missing => {
            let what = format!("CUDA headers: without {}", missing.join(", "));
            Finding::warning("headers", what)
                .why("kernels that include them will not compile")
                .fix("kiln toolchain install")
        }
    };
    finding.fact("folders", folders)
}

fn judge_nvcc(found: &Found, needs: Option<&Needs>) -> Finding {
    if let Some(nvcc) = &found.nvcc {
        return nvcc.judge("nvcc", "nvcc");
    }
    match needs.is_some_and(|needs| needs.nvcc) {
        true => Finding::missing("nvcc", "nvcc: not found")
            .why("the manifest says `compiler = \"nvcc\"`")
            .fix("install your system's CUDA toolkit, or set CUDA_HOME to where it is"),
        false => Finding::note(
            "nvcc",
            "nvcc: not found; only `compiler = \"nvcc\"` needs it",
        ),
    }
}

/// A driver runs what compilers of its own major version make, and of older ones.
fn fits_driver(toolkit: Option<CudaVersion>, driver: Option<CudaVersion>) -> Option<Finding> {
    let (toolkit, driver) = (toolkit?, driver?);
    let finding = if toolkit.major > driver.major {
        let what = format!("the compiler is for CUDA {toolkit}, the driver only for {driver}");
        Finding::missing("toolkit_driver", what)
            .why("the driver refuses to load what the compiler makes")
            .fix(format!(
                "update the driver, or use a compiler of CUDA {}",
                driver.major
            ))
    } else if toolkit > driver {
        let what = format!("the compiler is for CUDA {toolkit}, the driver for {driver}");
        Finding::note(
            "toolkit_driver",
            format!("{what}: the same major version will do"),
        )
    } else {
        let what = format!("the driver's CUDA {driver} runs what CUDA {toolkit} compiles");
        Finding::ok("toolkit_driver", what)
    };
    Some(finding)
}

fn fits_gpu(toolchain: &CudaToolchain, architecture: &str) -> Option<Finding> {
    if toolchain.compiles_for(architecture) {
        return None;
    }
    let what = format!(
        "NVRTC {} does not compile for {architecture}",
        toolchain.version
    );
    let finding = Finding::missing("toolkit_gpu", what)
        .why("nothing it compiles will run on this GPU")
        .fix("kiln toolchain install --cuda VERSION   # newer for a newer GPU, 12.x for one before sm_75");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Status;

    #[test]
    fn a_newer_major_version_of_the_compiler_is_refused() {
        let status = |toolkit, driver| {
            let found = fits_driver(CudaVersion::parse(toolkit), CudaVersion::parse(driver));
            found.map(|f| f.status)
        };
        assert_eq!(status("13.0", "12.8"), Some(Status::Missing));
        assert_eq!(status("13.2", "13.0"), Some(Status::Note));
        assert_eq!(status("12.4", "13.0"), Some(Status::Ok));
        assert_eq!(status("13.0", "13.0"), Some(Status::Ok));
        assert_eq!(status("unknown", "13.0"), None);
    }
}
