//! Driver and GPU facts through NVML. Asks; judges nothing.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use nvml_wrapper::enum_wrappers::device::{Clock, ComputeMode, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::engine::children;

/// A CUDA version, `13.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion {
    pub major: u32,
    pub minor: u32,
}

impl CudaVersion {
    /// From the first two numbers of a text such as `13.0.88`.
    pub fn parse(text: &str) -> Option<CudaVersion> {
        let mut parts = text.split('.').map(|part| part.trim().parse().ok());
        let major = parts.next()??;
        let minor = parts.next().flatten().unwrap_or(0);
        Some(CudaVersion { major, minor })
    }
}

impl std::fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

pub enum Answer {
    Driver(Driver),
    None(Absence),
}

impl Answer {
    pub fn driver_cuda(&self) -> Option<CudaVersion> {
        match self {
            Answer::Driver(driver) => driver.cuda,
            Answer::None(_) => None,
        }
    }

    /// Architectures of the GPUs, e.g. `sm_90`.
    pub fn architectures(&self) -> Vec<String> {
        match self {
            Answer::Driver(driver) => driver.gpus.iter().filter_map(Gpu::architecture).collect(),
            Answer::None(_) => Vec::new(),
        }
    }
}

/// Why the driver does not answer.
pub struct Absence {
    pub reason: AbsenceReason,
    /// The library's own words.
    pub message: String,
    /// NVIDIA devices on the PCI bus, driver or not.
    pub hardware: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsenceReason {
    NoLibrary,
    NotLoaded,
    VersionMismatch,
    Other,
}

pub struct Driver {
    pub version: String,
    pub cuda: Option<CudaVersion>,
    /// The library that launches kernels, which containers may lack.
    pub libcuda: Option<PathBuf>,
    pub gpus: Vec<Gpu>,
    /// GPUs that could not be asked, and why.
    pub silent: Vec<String>,
}

/// What one GPU says about itself; `None` where it does not say.
#[derive(Clone, Debug, Default)]
pub struct Gpu {
    pub index: u32,
    pub name: String,
    pub uuid: String,
    pub capability: Option<(i32, i32)>,
    pub memory_bytes: u64,
    pub memory_used_bytes: u64,
    pub sm_clock_mhz: Option<u32>,
    pub max_sm_clock_mhz: Option<u32>,
    pub memory_clock_mhz: Option<u32>,
    pub throttle: u64,
    pub temperature_c: Option<u32>,
    pub power_watts: Option<f64>,
    pub power_limit_watts: Option<f64>,
    pub default_power_limit_watts: Option<f64>,
    pub persistence: Option<bool>,
    pub ecc: Option<bool>,
    pub mig: Option<bool>,
    pub access: Access,
    /// Process ids and the bytes they use.
    pub processes: Vec<(u32, Option<u64>)>,
}

impl Gpu {
    pub fn architecture(&self) -> Option<String> {
        let (major, minor) = self.capability?;
        Some(format!("sm_{major}{minor}"))
    }
}

/// Who may have a context on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    Shared,
    OneProcess,
    Nobody,
}

/// Processes on a GPU that are not ours.
pub fn neighbours(uuid: &str) -> Vec<u32> {
    let Answer::Driver(driver) = look() else {
        return Vec::new();
    };
    let mine = driver.gpus.into_iter().filter(|gpu| gpu.uuid == uuid);
    mine.flat_map(|gpu| gpu.processes)
        .map(|(pid, _)| pid)
        .filter(|pid| !children::is_ours(*pid))
        .collect()
}

pub fn look() -> Answer {
    // The name that a driver installs; the one without a number comes with developer packages only.
    let library = OsStr::new("libnvidia-ml.so.1");
    match Nvml::builder().lib_path(library).init() {
        Ok(nvml) => Answer::Driver(ask(&nvml)),
        Err(error) => Answer::None(Absence {
            reason: match error {
                NvmlError::LibloadingError(_) => AbsenceReason::NoLibrary,
                NvmlError::DriverNotLoaded => AbsenceReason::NotLoaded,
                NvmlError::LibRmVersionMismatch => AbsenceReason::VersionMismatch,
                _ => AbsenceReason::Other,
            },
            message: error.to_string(),
            hardware: hardware(),
        }),
    }
}

fn ask(nvml: &Nvml) -> Driver {
    let mut gpus = Vec::new();
    let mut silent = Vec::new();
    for index in 0..nvml.device_count().unwrap_or(0) {
        match nvml.device_by_index(index) {
            Ok(device) => gpus.push(describe(index, &device)),
            Err(error) => silent.push(format!("GPU {index}: {error}")),
        }
    }
    let cuda = nvml.sys_cuda_driver_version().ok().map(|version| {
        let version = version.max(0) as u32;
        CudaVersion {
            major: version / 1000,
            minor: version % 1000 / 10,
        }
    });
    Driver {
        version: nvml
            .sys_driver_version()
            .unwrap_or_else(|_| "unknown".into()),
        cuda,
        libcuda: find_libcuda(),
        gpus,
        silent,
    }
}

fn describe(index: u32, device: &Device) -> Gpu {
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
    let memory = device.memory_info();
    let processes = device.running_compute_processes().unwrap_or_default();
    Gpu {
        index,
        name: device.name().unwrap_or_else(|_| "unknown GPU".into()),
        uuid: device.uuid().unwrap_or_default(),
        capability: device
            .cuda_compute_capability()
            .ok()
            .map(|c| (c.major, c.minor)),
        memory_bytes: memory.as_ref().map_or(0, |m| m.total),
        memory_used_bytes: memory.as_ref().map_or(0, |m| m.used),
        sm_clock_mhz: device.clock_info(Clock::SM).ok(),
        max_sm_clock_mhz: device.max_clock_info(Clock::SM).ok(),
        memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
        throttle: device
            .current_throttle_reasons()
            .map_or(0, |reasons| reasons.bits()),
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
        power_watts: device.power_usage().ok().map(watts),
        power_limit_watts: device.enforced_power_limit().ok().map(watts),
        default_power_limit_watts: device.power_management_limit_default().ok().map(watts),
        persistence: device.is_in_persistent_mode().ok(),
        ecc: device
            .is_ecc_enabled()
            .ok()
            .map(|state| state.currently_enabled),
        mig: device.mig_mode().ok().map(|mode| mode.current == 1),
        access: match device.compute_mode() {
            Ok(ComputeMode::Prohibited) => Access::Nobody,
            Ok(ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread) => Access::OneProcess,
            _ => Access::Shared,
        },
        processes: processes
            .iter()
            .map(|process| {
                let bytes = match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                };
                (process.pid, bytes)
            })
            .collect(),
    }
}

/// Display and compute devices of NVIDIA on the PCI bus.
fn hardware() -> usize {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    fs::read_dir("/sys/bus/pci/devices")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|device| read(device.path().join("vendor")).trim() == "0x10de")
        .filter(|device| read(device.path().join("class")).starts_with("0x03"))
        .count()
}

/// Looks for the library without loading it: beside NVML, which is loaded, then where systems and
/// containers put it.
fn find_libcuda() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let beside = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("libnvidia-ml.so"))
        .and_then(|path| Path::new(path).parent())
        .map(Path::to_path_buf);
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
        "/usr/local/nvidia/lib64",
        "/run/opengl-driver/lib",
    ];
    beside
        .into_iter()
        .chain(std::env::split_paths(&named))
        .chain(usual.iter().map(PathBuf::from))
        .map(|folder| folder.join("libcuda.so.1"))
        .find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_versions_parse_and_compare() {
        let parse = |text| CudaVersion::parse(text);
        assert_eq!(
            parse("13.0.88").map(|v| v.to_string()).as_deref(),
            Some("13.0")
        );
        assert_eq!(parse("12").map(|v| v.to_string()).as_deref(), Some("12.0"));
        assert!(parse("12.8") < parse("13.0"));
        assert_eq!(parse("cpu"), None);
    }
}
