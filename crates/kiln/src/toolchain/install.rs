//! kiln's own toolchains: NVIDIA's wheels, fetched with the user's pip into kiln's folder.
//!
//! A toolchain appears whole or not at all: it is unpacked beside its place, compiled with, and
//! then renamed. A list of hashes lies with it, so that damage is told from a user's mistake.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use kiln_core::protocol::{CompileJob, NvrtcInfo, Request, Response, Tool};
use serde::{Deserialize, Serialize};

use super::layout::{Layout, wheel_roots};
use super::{child, describe, places};
use crate::engine::jail;
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::engine::{broken, interrupt, interrupted};
use crate::exit::Failure;
use crate::settings;

pub const DEFAULT_CUDA: &str = "13.0";

const RECORD: &str = "kiln-toolchain.json";

/// Locked as long as the process lives that works in a staging folder.
const LOCK: &str = "lock";

/// Leftovers without a lock, of an older kiln or a file system without locks, are removed when they
/// are this old.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// A kernel that needs every package: half types, matrix units, atomics of the C++ library.
const TRIAL_KERNEL: &str = "\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <cooperative_groups.h>
#include <cuda/std/cstdint>
__global__ void trial(const __half *x, __nv_bfloat16 *y, cuda::std::uint32_t n) {
    cuda::std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(__half2float(x[i]));
}
";

/// Written when an installation is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    schema_version: u32,
    cuda: String,
    packages: Vec<String>,
    files: Vec<FileRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileRecord {
    path: String,
    bytes: u64,
    blake3: String,
}

/// One that kiln installed.
#[derive(Debug)]
pub struct Installed {
    pub version: String,
    pub folder: PathBuf,
}

/// What an installation would do.
#[derive(Debug)]
pub struct Plan {
    pub version: String,
    pub python: String,
    pub packages: Vec<String>,
    pub folder: PathBuf,
}

#[derive(Debug, PartialEq)]
pub enum Done {
    Installed,
    WasThere,
}

/// Newest first. Where kiln has no home there is none.
pub fn installed() -> Vec<Installed> {
    let Ok(root) = root() else {
        return Vec::new();
    };
    places::versioned(&root, "cuda-")
        .into_iter()
        .filter_map(|folder| {
            let name = folder.file_name()?.to_str()?;
            Some(Installed {
                version: name.strip_prefix("cuda-")?.to_string(),
                folder,
            })
        })
        .collect()
}

/// `cuda` as typed, e.g. `13.0`.
pub fn plan(cuda: &str, python: Option<&str>) -> Result<Plan, Failure> {
    let unknown = || {
        Failure::usage(format!("`{cuda}` is not a CUDA version kiln can install"))
            .hint("versions look like `13.0` or `12.8`; CUDA 12 and 13 can be installed")
    };
    let (major, minor) = cuda.split_once('.').ok_or_else(unknown)?;
    let minor: u32 = minor.parse().map_err(|_| unknown())?;
    let names: &[&str] = match major {
        "12" => &[
            "nvidia-cuda-nvrtc-cu12",
            "nvidia-cuda-runtime-cu12",
            "nvidia-cuda-cccl-cu12",
            // For the headers in `crt`.
            "nvidia-cuda-nvcc-cu12",
        ],
        "13" => &[
            "nvidia-cuda-nvrtc",
            "nvidia-cuda-runtime",
            "nvidia-cuda-cccl",
            "nvidia-cuda-crt",
        ],
        _ => return Err(unknown()),
    };
    let version = format!("{major}.{minor}");
    Ok(Plan {
        packages: names
            .iter()
            .map(|name| format!("{name}=={version}.*"))
            .collect(),
        folder: root()?.join(format!("cuda-{version}")),
        python: python.map_or_else(settings::python, str::to_string),
        version,
    })
}

impl Plan {
    /// Carries it out, for one that is not there or damaged. On any error nothing is left behind.
    pub fn run(&self) -> Result<Done, Failure> {
        interrupt::install()
            .map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
        let root = root()?;
        remove_stale(&root);
        let staging = Staging::new(&root).map_err(|e| cannot_write(&root, &e))?;
        let packages = staging.path().join("packages");
        self.fetch(staging.path(), &packages)?;
        drop_alternatives(&packages);
        let layout = self.try_out(staging.path(), &packages)?;
        let record = record(&self.version, &packages).map_err(|e| cannot_write(&root, &e))?;
        debug_assert!(layout.library.starts_with(&packages));
        let text = serde_json::to_vec_pretty(&record).expect("plain data");
        fs::write(packages.join(RECORD), text).map_err(|e| cannot_write(&root, &e))?;
        self.move_into_place(&packages, staging.path())
    }

    /// Every file that is not as it was installed; `None` where nothing is installed.
    pub fn damage(&self) -> Option<Vec<String>> {
        let is_there = self.folder.is_dir();
        is_there.then(|| damage(&self.folder, Depth::Contents))
    }

    /// Whole, with every byte read: whoever is sent here because of damage must get it repaired.
    fn is_there(&self) -> bool {
        self.damage().is_some_and(|damage| damage.is_empty())
    }

    fn fetch(&self, staging: &Path, packages: &Path) -> Result<(), Failure> {
        let temporary = staging.join("pip");
        fs::create_dir(&temporary).map_err(|e| cannot_write(staging, &e))?;
        let mut pip = Command::new(&self.python);
        pip.args(["-m", "pip", "install", "--no-deps", "--no-input"])
            .args(["--disable-pip-version-check", "--no-compile"])
            // Wheels only: nothing that comes over the network is run to install it.
            .args(["--only-binary", ":all:", "--target"])
            .arg(packages)
            .args(&self.packages)
            // On the disk that has to hold the result anyway, and gone with the staging folder.
            .env("TMPDIR", &temporary)
            // Settings that contradict `--target`.
            .env_remove("PIP_USER")
            .env_remove("PIP_REQUIRE_VIRTUALENV");
        let output = child::output(&mut pip, None).map_err(|e| {
            Failure::machine(format!("cannot run `{}`: {e}", self.python))
                .hint("name a Python that has pip: `kiln toolchain install --python PYTHON`")
        })?;
        if interrupt::asked() {
            return Err(interrupted());
        }
        if output.succeeded() {
            return Ok(());
        }
        Err(self.explain(&output.stderr))
    }

    fn explain(&self, stderr: &str) -> Failure {
        let has = |text: &str| stderr.contains(text);
        if has("No module named pip") {
            return Failure::machine(format!("`{}` has no pip", self.python))
                .hint("name a Python that has it: `kiln toolchain install --python PYTHON`")
                .hint("or set KILN_CUDA to a CUDA toolkit that is already there");
        }
        if has("No space left on device") {
            return Failure::machine(format!(
                "the disk is full: no place for CUDA {} in `{}`",
                self.version,
                self.folder.display()
            ))
            .hint("free 1 GB, or set KILN_HOME to a folder on another disk");
        }
        let errors = stderr.lines().filter(|line| line.starts_with("ERROR"));
        let last = errors
            .clone()
            .next_back()
            .or_else(|| stderr.lines().rfind(|line| !line.trim().is_empty()))
            .unwrap_or("it did not say why");
        let failure = Failure::machine(format!(
            "pip cannot fetch CUDA {}: {}",
            self.version,
            last.trim_start_matches("ERROR: ").trim()
        ));
        let failure = if has("(from versions: none)") {
            failure.hint("pip sees no version at all: can it reach its package index?")
        } else if has("No matching distribution") {
            failure.hint(format!("`--cuda {DEFAULT_CUDA}` is known to be there"))
        } else {
            failure
        };
        failure.hint("or set KILN_CUDA to a CUDA toolkit that is already there")
    }

    /// Compiles with it, for the oldest, the newest and a usual architecture.
    fn try_out(&self, staging: &Path, packages: &Path) -> Result<Layout, Failure> {
        let wrong = |why: String| {
            Failure::machine(format!(
                "what pip fetched for CUDA {} does not work: {why}",
                self.version
            ))
        };
        let layout = wheel_roots(packages)
            .iter()
            .find_map(|root| Layout::of(root))
            .ok_or_else(|| wrong("there is no NVRTC library in it".into()))?;
        let info = describe(&layout.library)?.map_err(wrong)?;
        let (major, minor) = info.version;
        if format!("{major}.{minor}") != self.version {
            return Err(wrong(format!("its version is {major}.{minor}")));
        }
        for architecture in trial_architectures(&info) {
            compile_trial(&layout, &architecture, staging)?
                .map_err(|why| wrong(format!("compiling for {architecture}: {why}")))?;
        }
        Ok(layout)
    }

    fn move_into_place(&self, packages: &Path, staging: &Path) -> Result<Done, Failure> {
        // One that is there is damaged, or another kiln was faster.
        if self.is_there() {
            return Ok(Done::WasThere);
        }
        if self.folder.exists() {
            // It goes with the staging folder. That somebody else moved it first is as good.
            let _ = fs::rename(&self.folder, staging.join("damaged"));
        }
        match fs::rename(packages, &self.folder) {
            Ok(()) => Ok(Done::Installed),
            Err(_) if self.is_there() => Ok(Done::WasThere),
            Err(e) => Err(cannot_write(&self.folder, &e)),
        }
    }
}

/// Removes one; returns the bytes it had.
pub fn remove(installed: &Installed) -> Result<u64, Failure> {
    let cannot = |e: io::Error| {
        Failure::io(
            format!("cannot remove `{}`", installed.folder.display()),
            &e,
        )
    };
    let bytes = files_below(&installed.folder)
        .iter()
        .filter_map(|path| Some(fs::symlink_metadata(path).ok()?.len()))
        .sum();
    // Away from its name first: whoever looks meanwhile sees all of it or nothing.
    let staging = Staging::new(&root()?).map_err(cannot)?;
    fs::rename(&installed.folder, staging.path().join("removed")).map_err(cannot)?;
    staging.folder.close().map_err(cannot)?;
    Ok(bytes)
}

/// Every file that is not as it was installed.
pub fn verify(installed: &Installed) -> Vec<String> {
    damage(&installed.folder, Depth::Contents)
}

/// For a folder in one of kiln's own toolchains: what a quick look finds wrong.
pub(super) fn damage_at(root: &Path) -> Option<String> {
    let own = installed()
        .into_iter()
        .find(|own| root.starts_with(&own.folder))?;
    let found = damage(&own.folder, Depth::Sizes);
    let first = found.first()?;
    Some(format!(
        "CUDA {} is damaged ({first}); `kiln toolchain install --cuda {}` repairs it",
        own.version, own.version
    ))
}

#[derive(Clone, Copy, PartialEq)]
enum Depth {
    /// Of the libraries only: looked at on every use.
    Sizes,
    Contents,
}

fn damage(folder: &Path, depth: Depth) -> Vec<String> {
    let record = fs::read(folder.join(RECORD))
        .map_err(|e| e.to_string())
        .and_then(|text| serde_json::from_slice::<Record>(&text).map_err(|e| e.to_string()));
    let record = match record {
        Ok(record) => record,
        Err(why) => return vec![format!("{RECORD}: {why}")],
    };
    if record.files.is_empty() {
        return vec![format!("{RECORD}: it lists no files")];
    }
    let files = record
        .files
        .iter()
        .filter(|file| depth == Depth::Contents || file.path.contains(".so"));
    files
        .filter_map(|file| {
            let Some(path) = inside(folder, &file.path) else {
                return Some(format!("{RECORD}: `{}` leads out of the folder", file.path));
            };
            let problem = match fs::metadata(&path) {
                Err(_) => "is missing".to_string(),
                Ok(facts) if facts.len() != file.bytes => {
                    format!("has {} bytes instead of {}", facts.len(), file.bytes)
                }
                Ok(_) if depth == Depth::Sizes => return None,
                Ok(_) => match file_hash(&path) {
                    Ok(hash) if hash == file.blake3 => return None,
                    Ok(_) => "has changed".to_string(),
                    Err(e) => format!("cannot be read: {e}"),
                },
            };
            Some(format!("{} {problem}", file.path))
        })
        .collect()
}

/// The place of a recorded file, unless the record has been made to point elsewhere.
fn inside(folder: &Path, recorded: &str) -> Option<PathBuf> {
    let mut parts = Path::new(recorded).components();
    let stays = parts.all(|part| matches!(part, Component::Normal(_)));
    (stays && !recorded.is_empty()).then(|| folder.join(recorded))
}

/// A folder beside the toolchains that goes when dropped, or when its owner is seen to be gone.
struct Staging {
    folder: tempfile::TempDir,
    _lock: fs::File,
}

impl Staging {
    fn new(root: &Path) -> io::Result<Staging> {
        let folder = tempfile::Builder::new().prefix("new-").tempdir_in(root)?;
        // It gets its name when it is locked: nobody ever sees it unlocked while its owner lives.
        let unnamed = folder.path().join("unlocked");
        let lock = fs::File::create(&unnamed)?;
        // Where locks do not work, age decides.
        if lock.try_lock().is_ok() {
            fs::rename(&unnamed, folder.path().join(LOCK))?;
        }
        Ok(Staging {
            folder,
            _lock: lock,
        })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn root() -> Result<PathBuf, Failure> {
    let root = settings::home()?.join("toolchains");
    settings::private_dir(&root)?;
    Ok(root)
}

fn remove_stale(root: &Path) {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    for entry in entries {
        let ours = entry.file_name().to_string_lossy().starts_with("new-");
        let age = entry
            .metadata()
            .and_then(|facts| facts.modified())
            .ok()
            .and_then(|changed| SystemTime::now().duration_since(changed).ok());
        let is_stale = match fs::File::open(entry.path().join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => age.is_some_and(|age| age > STALE),
        };
        if ours && is_stale {
            // Only space is lost if it stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A second build of the same library, as large as the first, that nobody here loads.
fn drop_alternatives(packages: &Path) {
    for path in files_below(packages) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libnvrtc") && name.contains(".alt.") {
            let _ = fs::remove_file(path);
        }
    }
}

fn record(version: &str, packages: &Path) -> io::Result<Record> {
    let mut files = Vec::new();
    let mut names = Vec::new();
    for path in files_below(packages) {
        let relative = path.strip_prefix(packages).unwrap_or(&path);
        if relative.ends_with("METADATA")
            && let Some(package) = relative.parent().and_then(Path::file_name)
        {
            let package = package.to_string_lossy();
            names.push(package.trim_end_matches(".dist-info").to_string());
        }
        files.push(FileRecord {
            path: relative.display().to_string(),
            bytes: fs::metadata(&path)?.len(),
            blake3: file_hash(&path)?,
        });
    }
    Ok(Record {
        schema_version: 1,
        cuda: version.to_string(),
        packages: names,
        files,
    })
}

fn file_hash(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Sorted; links are not followed.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                _ => files.push(entry.path()),
            }
        }
    }
    files.sort();
    files
}

fn trial_architectures(info: &NvrtcInfo) -> Vec<String> {
    let all = &info.architectures;
    let mut chosen: Vec<u32> = [80, 90]
        .into_iter()
        .filter(|usual| all.contains(usual))
        .chain(all.iter().min().copied())
        .chain(all.iter().max().copied())
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen.iter().map(|number| format!("sm_{number}")).collect()
}

fn compile_trial(
    layout: &Layout,
    architecture: &str,
    staging: &Path,
) -> Result<Result<(), String>, Failure> {
    let deadline = Duration::from_secs(120);
    let job = CompileJob {
        tool: Tool::Nvrtc {
            library: layout.library.display().to_string(),
            builtins: None,
            architecture: architecture.to_string(),
            entry: "trial".into(),
        },
        unit: TRIAL_KERNEL.into(),
        flags: Vec::new(),
        defines: Vec::new(),
        include_dirs: layout
            .include_dirs
            .iter()
            .map(|dir| dir.display().to_string())
            .collect(),
        output: staging.join("trial.cubin").display().to_string(),
        memory_limit_bytes: 8 << 30,
        cpu_limit_seconds: deadline.as_secs(),
    };
    let mut worker = Worker::spawn(&WorkerKind::Compile(jail::for_compiler(
        &job, staging, staging,
    )))
    .map_err(|end| broken(&end))?;
    match worker.request(&Request::Compile(job), deadline) {
        Ok((Response::Compiled(_), _)) => Ok(Ok(())),
        Ok((Response::NotCompiled(failure), _)) => Ok(Err(failure.first_error)),
        Ok((other, _)) => Ok(Err(WorkerEnd::misplaced(&other, "to compile").to_string())),
        Err(end) => match broken(&end) {
            failure if failure.exit == crate::exit::Exit::Interrupted => Err(failure),
            _ => Ok(Err(format!("the compiler failed: {end}"))),
        },
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::machine(format!("cannot write to `{}`: {error}", path.display()))
        .hint("free some space or set KILN_HOME to a writable folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(dir: &Path) -> Installed {
        let folder = dir.join("cuda-13.0");
        fs::create_dir_all(folder.join("lib")).unwrap();
        fs::write(folder.join("lib/libnvrtc.so.13"), "library").unwrap();
        fs::write(folder.join("header.h"), "header").unwrap();
        let record = record("13.0", &folder).unwrap();
        fs::write(folder.join(RECORD), serde_json::to_vec(&record).unwrap()).unwrap();
        Installed {
            version: "13.0".into(),
            folder,
        }
    }

    #[test]
    fn damage_is_found_quickly_in_libraries_and_fully_everywhere() {
        let dir = tempfile::tempdir().unwrap();
        let own = fake(dir.path());
        assert_eq!(verify(&own), [""; 0]);
        fs::write(own.folder.join("header.h"), "HEADER").unwrap();
        assert!(damage(&own.folder, Depth::Sizes).is_empty());
        assert_eq!(verify(&own), ["header.h has changed"]);
        fs::write(own.folder.join("lib/libnvrtc.so.13"), "lib").unwrap();
        let quick = damage(&own.folder, Depth::Sizes);
        assert_eq!(quick, ["lib/libnvrtc.so.13 has 3 bytes instead of 7"]);
        fs::remove_file(own.folder.join("lib/libnvrtc.so.13")).unwrap();
        assert_eq!(
            damage(&own.folder, Depth::Sizes),
            ["lib/libnvrtc.so.13 is missing"]
        );
        fs::write(own.folder.join(RECORD), "{").unwrap();
        assert!(verify(&own)[0].starts_with(RECORD));
    }

    #[test]
    fn a_record_that_leads_elsewhere_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let own = fake(dir.path());
        let outside = dir.path().join("outside.so");
        fs::write(&outside, "x").unwrap();
        let written = |paths: &[&str]| {
            let mut record = record("13.0", &own.folder).unwrap();
            record.files = paths
                .iter()
                .map(|path| FileRecord {
                    path: path.to_string(),
                    bytes: 1,
                    blake3: file_hash(&outside).unwrap(),
                })
                .collect();
            fs::write(
                own.folder.join(RECORD),
                serde_json::to_vec(&record).unwrap(),
            )
            .unwrap();
        };
        for path in [
            "../outside.so",
            &outside.display().to_string(),
            "lib/../../outside.so",
        ] {
            written(&[path]);
            let expected = [format!("{RECORD}: `{path}` leads out of the folder")];
            assert_eq!(verify(&own), expected);
            assert_eq!(damage(&own.folder, Depth::Sizes), expected);
        }
        written(&[]);
        assert_eq!(verify(&own), [format!("{RECORD}: it lists no files")]);
    }

    #[test]
    fn leftovers_go_when_their_owner_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let alive = Staging::new(dir.path()).unwrap();
        let dead = dir.path().join("new-dead");
        let young = dir.path().join("new-young");
        let other = dir.path().join("cuda-13.0");
        for folder in [&dead, &young, &other] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(other.join(LOCK), "").unwrap();
        remove_stale(dir.path());
        assert!(alive.path().is_dir() && young.is_dir() && other.is_dir());
        assert!(!dead.exists());
    }

    #[test]
    fn alternatives_go_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "libnvrtc.alt.so.13",
            "libnvrtc-builtins.alt.so.13.0",
            "libnvrtc.so.13",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        drop_alternatives(dir.path());
        assert_eq!(files_below(dir.path()), [dir.path().join("libnvrtc.so.13")]);
    }

    #[test]
    fn old_new_and_usual_architectures_are_tried() {
        let info = NvrtcInfo {
            version: (13, 0),
            architectures: vec![75, 80, 86, 90, 121],
        };
        assert_eq!(
            trial_architectures(&info),
            ["sm_75", "sm_80", "sm_90", "sm_121"]
        );
    }
}
