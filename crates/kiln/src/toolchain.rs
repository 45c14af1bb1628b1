//! Where the CUDA compiler comes from: found on this machine, or installed by kiln.
//!
//! Flow: [`places`] lists where an NVRTC library could be, [`layout`] what lies around one, a
//! compile worker loads it and tells its version, and the first that works is used. The library
//! itself is never loaded here.

pub(crate) mod child;
pub mod install;
mod layout;
mod places;

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use kiln_core::protocol::{NvrtcInfo, Refusal, Request, Response};

use crate::engine::jail;
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::engine::{broken, interrupted};
use crate::exit::Failure;
use crate::settings;
use layout::Layout;
use places::Place;

/// Loading a hundred megabytes from a cold disk, and compiling nothing with them.
const DESCRIBE_DEADLINE: Duration = Duration::from_secs(120);

/// NVRTC, the headers that belong to it, and nvcc where there is one.
#[derive(Clone, Debug)]
pub struct CudaToolchain {
    pub library: PathBuf,
    pub builtins: Option<PathBuf>,
    /// Major and minor, e.g. `13.0`.
    pub version: String,
    /// Compute capabilities it compiles for, as 10 * major + minor.
    pub architectures: Vec<u32>,
    pub include_dirs: Vec<PathBuf>,
    /// Headers kernels usually need and that are not there.
    pub missing_headers: Vec<&'static str>,
    /// Where it was found, in words.
    pub origin: String,
    pub nvcc: Option<PathBuf>,
    /// Changes whenever the compiler or its headers may have changed.
    pub identity: String,
}

/// A library that is there, and what became of it.
pub struct Found {
    pub origin: String,
    pub library: PathBuf,
    pub result: Result<CudaToolchain, String>,
}

/// Everything that was looked at.
pub struct Survey {
    pub found: Vec<Found>,
    /// Places without a library, in words.
    pub empty: Vec<String>,
}

impl CudaToolchain {
    /// The first one that can be loaded and has its headers; without headers if there is no other.
    pub fn find() -> Result<CudaToolchain, Failure> {
        CudaToolchain::search(None, None)
    }

    /// The first one that also compiles for an architecture such as `sm_90a`, and whose kernels the
    /// driver loads, where there is one. `driver` is its CUDA as 1000 * major + 10 * minor.
    pub fn find_for(architecture: &str, driver: Option<u32>) -> Result<CudaToolchain, Failure> {
        CudaToolchain::search(Some(architecture), driver)
    }

    fn search(architecture: Option<&str>, driver: Option<u32>) -> Result<CudaToolchain, Failure> {
        let mut incomplete = None;
        let mut survey = Survey {
            found: Vec::new(),
            empty: Vec::new(),
        };
        for place in places::all()? {
            for found in look_at(&place, &mut survey.empty)? {
                let result = found.result.and_then(|toolchain| match architecture {
                    Some(name) if !toolchain.compiles_for(name) => Err(format!(
                        "CUDA {} does not compile for {name}",
                        toolchain.version
                    )),
                    _ => match driver {
                        Some(driver) => loadable(&toolchain.version, driver).map(|()| toolchain),
                        None => Ok(toolchain),
                    },
                });
                match result {
                    Ok(toolchain) if toolchain.missing_headers.is_empty() => return Ok(toolchain),
                    Ok(toolchain) => incomplete = incomplete.or(Some(toolchain)),
                    Err(_) => survey.found.push(Found { result, ..found }),
                }
            }
        }
        incomplete.ok_or_else(|| survey.nothing_works(architecture, driver))
    }

    fn new(mut layout: Layout, info: NvrtcInfo, origin: &str) -> CudaToolchain {
        // Wheels have NVRTC without nvcc; the one people call by name will do.
        layout.nvcc = layout.nvcc.or_else(|| settings::on_path("nvcc"));
        let (major, minor) = info.version;
        let version = format!("{major}.{minor}");
        let builtins = layout.builtins(&version);
        let identity = identity(&layout, builtins.as_deref(), &version);
        CudaToolchain {
            missing_headers: layout.missing_headers(),
            library: layout.library,
            builtins,
            version,
            architectures: info.architectures,
            include_dirs: layout.include_dirs,
            origin: origin.to_string(),
            nvcc: layout.nvcc,
            identity,
        }
    }

    /// For kernels that ask for it.
    pub fn require_nvcc(&self) -> Result<&Path, Failure> {
        self.nvcc.as_deref().ok_or_else(|| {
            Failure::machine(format!(
                "the kernel asks for nvcc, which CUDA {} from {} does not have",
                self.version, self.origin
            ))
            .hint("set KILN_CUDA to a CUDA toolkit, or use `compiler = \"nvrtc\"`")
        })
    }

    /// Whether kernels can be compiled for an architecture such as `sm_90a`.
    pub fn compiles_for(&self, architecture: &str) -> bool {
        let digits: String = architecture.chars().filter(char::is_ascii_digit).collect();
        digits
            .parse()
            .is_ok_and(|n| self.architectures.contains(&n))
    }
}

impl Survey {
    /// Loads every library there is, for people to look at.
    pub fn make() -> Result<Survey, Failure> {
        let mut survey = Survey {
            found: Vec::new(),
            empty: Vec::new(),
        };
        for place in places::all()? {
            let found = look_at(&place, &mut survey.empty)?;
            survey.found.extend(found);
        }
        Ok(survey)
    }

    /// What [`CudaToolchain::find_for`] uses, if it compiles for the device.
    pub fn used(&self) -> Option<usize> {
        let works = |found: &Found| found.result.is_ok();
        let complete = |found: &Found| {
            let toolchain = found.result.as_ref();
            toolchain.is_ok_and(|toolchain| toolchain.missing_headers.is_empty())
        };
        let complete = self.found.iter().position(complete);
        complete.or_else(|| self.found.iter().position(works))
    }

    fn nothing_works(&self, architecture: Option<&str>, driver: Option<u32>) -> Failure {
        let target = architecture.map_or(String::new(), |name| format!(" for {name}"));
        let too_new = |found: &Found| {
            found
                .result
                .as_ref()
                .is_err_and(|why| why.contains(TOO_NEW))
        };
        let too_new = driver.filter(|_| self.found.iter().any(too_new));
        let mut lines = vec![match too_new {
            Some(_) => format!("no CUDA compiler (NVRTC){target} that suits the driver was found"),
            None => format!("no CUDA compiler (NVRTC){target} was found"),
        }];
        for found in &self.found {
            if let Err(why) = &found.result {
                lines.push(format!("  {}: {why}", found.origin));
            }
        }
        lines.extend(self.empty.iter().map(|place| format!("  not in {place}")));
        if let Some(driver) = too_new {
            return without_older(lines.join("\n"), driver);
        }
        let which = match architecture.is_some_and(is_before_cuda_13) {
            true => " --cuda 12.8",
            false => "",
        };
        Failure::machine(lines.join("\n"))
            .hint(format!(
                "`kiln toolchain install{which}` fetches one for kiln alone, without root"
            ))
            .hint("or set KILN_CUDA to a CUDA toolkit")
    }
}

/// CUDA 13 compiles for Turing and later.
fn is_before_cuda_13(architecture: &str) -> bool {
    let digits: String = architecture.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u32>().is_ok_and(|number| number < 75)
}

const TOO_NEW: &str = "is newer than the driver";

/// Whether a driver loads what a CUDA version compiles: any minor version of its own major one, and
/// everything older.
fn loadable(version: &str, driver: u32) -> Result<(), String> {
    let major = version
        .split('.')
        .next()
        .and_then(|n| n.parse::<u32>().ok());
    match major {
        Some(major) if major > driver / 1000 => Err(format!(
            "CUDA {version} {TOO_NEW}, which is for CUDA {}.{}: it cannot load its kernels",
            driver / 1000,
            driver % 1000 / 10
        )),
        _ => Ok(()),
    }
}

fn without_older(message: String, driver: u32) -> Failure {
    let failure = Failure::machine(message);
    let newer = "install a newer driver";
    // What `kiln toolchain install` knows begins with CUDA 12.
    if driver / 1000 < 12 {
        return failure.hint(newer);
    }
    let install = "`kiln toolchain install --cuda 12.8` fetches one for kiln alone, without root";
    match settings::cuda() {
        Some(_) => failure.hint(format!("{install}; unset KILN_CUDA then")),
        None => failure.hint(install),
    }
    .hint(format!("or {newer}"))
}

/// Loads what a place has. Several names of one file are one.
fn look_at(place: &Place, empty: &mut Vec<String>) -> Result<Vec<Found>, Failure> {
    let mut found: Vec<Found> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for root in &place.roots {
        let Some(layout) = Layout::of(root) else {
            continue;
        };
        let real = layout.library.canonicalize();
        let real = real.unwrap_or_else(|_| layout.library.clone());
        if seen.contains(&real) {
            continue;
        }
        seen.push(real);
        let library = layout.library.clone();
        let result = match install::damage_at(root) {
            Some(damage) => Err(damage),
            None => describe(&library)?.map(|info| CudaToolchain::new(layout, info, &place.origin)),
        };
        found.push(Found {
            origin: place.origin.clone(),
            library,
            result,
        });
    }
    if found.is_empty() {
        empty.push(place.searched.clone());
    }
    Ok(found)
}

/// Asks a compile worker; `Ok(Err)` is a library that cannot be used.
fn describe(library: &Path) -> Result<Result<NvrtcInfo, String>, Failure> {
    let mut worker = Worker::spawn(&WorkerKind::Compile(jail::for_library(library)))
        .map_err(|end| broken(&end))?;
    let request = Request::DescribeNvrtc {
        library: library.display().to_string(),
        builtins: None,
    };
    match worker.request(&request, DESCRIBE_DEADLINE) {
        Ok((Response::Nvrtc(info), _)) => Ok(Ok(info)),
        Err(WorkerEnd::Refused(Refusal::NotLoadable { message })) => Ok(Err(message)),
        Err(WorkerEnd::Interrupted) => Err(interrupted()),
        Err(WorkerEnd::TimedOut(_)) => Ok(Err(format!(
            "`{}` cannot be loaded in two minutes",
            library.display()
        ))),
        Err(WorkerEnd::Signal(signal)) => Ok(Err(format!(
            "loading `{}` crashes with signal {signal}",
            library.display()
        ))),
        Ok((other, _)) => Ok(Err(WorkerEnd::misplaced(&other, "about NVRTC").to_string())),
        Err(end) => Err(broken(&end)),
    }
}

/// By size and time of change: reading a hundred megabytes at every start would be felt.
fn identity(layout: &Layout, builtins: Option<&Path>, version: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(version.as_bytes());
    let headers = layout.include_dirs.iter().flat_map(|dir| {
        [
            dir.clone(),
            dir.join("cuda_runtime_api.h"),
            dir.join("nv/target"),
        ]
    });
    let files = std::iter::once(layout.library.clone())
        .chain(builtins.map(Path::to_path_buf))
        .chain(layout.nvcc.clone())
        .chain(headers);
    for file in files {
        hasher.update(file.as_os_str().as_encoded_bytes());
        let facts = std::fs::metadata(&file).ok();
        let bytes = facts.as_ref().map_or(0, std::fs::Metadata::len);
        let changed = facts
            .and_then(|facts| facts.modified().ok())
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |time| time.as_nanos());
        hasher.update(&bytes.to_le_bytes());
        hasher.update(&changed.to_le_bytes());
    }
    hasher.finalize().to_hex()[..16].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_loads_its_own_major_version_and_older_ones() {
        for (version, driver) in [
            ("12.8", 12_080),
            ("12.9", 12_040),
            ("12.8", 13_000),
            ("13.2", 13_000),
            ("unknown", 12_040),
        ] {
            assert_eq!(loadable(version, driver), Ok(()), "{version} on {driver}");
        }
        assert_eq!(
            loadable("13.0", 12_040),
            Err("CUDA 13.0 is newer than the driver, which is for CUDA 12.4: it cannot load its kernels".into())
        );
        assert!(loadable("12.0", 11_080).is_err());
    }

    #[test]
    fn a_compiler_that_has_dropped_an_architecture_says_which_has_it() {
        let told = |architecture: &str| {
            let survey = Survey {
                found: vec![Found {
                    origin: "/usr/local/cuda".into(),
                    library: "libnvrtc.so".into(),
                    result: Err(format!("CUDA 13.0 does not compile for {architecture}")),
                }],
                empty: Vec::new(),
            };
            survey.nothing_works(Some(architecture), None).to_string()
        };
        assert!(told("sm_70").contains("`kiln toolchain install --cuda 12.8`"));
        assert!(told("sm_121").contains("`kiln toolchain install`"));
    }

    #[test]
    fn a_compiler_too_new_for_the_driver_says_what_to_do() {
        let survey = Survey {
            found: vec![Found {
                origin: "/usr/local/cuda".into(),
                library: "libnvrtc.so".into(),
                result: loadable("13.0", 12_040).map(|()| unreachable!("it is newer")),
            }],
            empty: Vec::new(),
        };
        let told = survey
            .nothing_works(Some("sm_90a"), Some(12_040))
            .to_string();
        for words in [
            "no CUDA compiler (NVRTC) for sm_90a that suits the driver was found",
            "/usr/local/cuda: CUDA 13.0 is newer than the driver",
            "`kiln toolchain install --cuda 12.8`",
            "install a newer driver",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        let told = without_older(String::new(), 11_080).to_string();
        assert!(!told.contains("--cuda 12.8"), "{told}");
    }
}
