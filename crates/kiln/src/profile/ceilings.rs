//! What the device at hand can do at the most, measured by kernels that do one thing; kept per device.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kiln_core::bottleneck::Ceilings;
use kiln_core::bottleneck::ceilings::CEILINGS_VERSION;
use kiln_core::protocol::DeviceInfo;

use crate::cache::Cache;
use crate::commands::tune::{prepare_support, wait_for_machine};
use crate::engine::bench::{Bench, LiveBench};
use crate::engine::compile_pool::CompilePool;
use crate::engine::evaluate::Seeds;
use crate::engine::worker::{Worker, WorkerKind};
use crate::engine::{broken, interrupt};
use crate::exit::{Exit, Failure};
use crate::packed::{self, Existing};
use crate::printer;
use crate::project;
use crate::settings;
use crate::task::Task;

const SOURCE: &str = include_str!("kernels/ceilings.cu");

/// A kernel that reaches one ceiling.
struct Probe {
    name: &'static str,
    manifest: &'static str,
}

const COPY: Probe = Probe {
    name: "copy",
    manifest: include_str!("kernels/copy.toml"),
};
const LAUNCH: Probe = Probe {
    name: "launch",
    manifest: include_str!("kernels/launch.toml"),
};
const EXPONENTIAL: Probe = Probe {
    name: "exponential",
    manifest: include_str!("kernels/exponential.toml"),
};
const MULTIPLY_ADD: Probe = Probe {
    name: "multiply_add",
    manifest: include_str!("kernels/multiply_add.toml"),
};
const MMA: Probe = Probe {
    name: "mma",
    manifest: include_str!("kernels/mma.toml"),
};
const WGMMA: Probe = Probe {
    name: "wgmma",
    manifest: include_str!("kernels/wgmma.toml"),
};

/// Known ones, else measured ones. `fresh` measures in any case.
pub fn of_device(
    device: &DeviceInfo,
    pool: &CompilePool,
    fresh: bool,
) -> Result<Ceilings, Failure> {
    let place = place(device)?;
    if !fresh && let Some(known) = read(&place, device) {
        return Ok(known);
    }
    printer::talk("measuring what this device can do at the most (once per device)");
    let measured = measure(device, pool)?;
    let text = serde_json::to_string_pretty(&measured)
        .map_err(|e| Failure::new(Exit::Bug, format!("cannot encode ceilings: {e}")))?;
    packed::write(text.into_bytes(), &place, Existing::Replace)?;
    Ok(measured)
}

/// The same where they are wanted, not needed: a device on which they cannot be measured is judged without.
pub fn if_possible(
    device: &DeviceInfo,
    pool: &CompilePool,
    fresh: bool,
) -> Result<Option<Ceilings>, Failure> {
    match of_device(device, pool, fresh) {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.exit == Exit::Interrupted => Err(failure),
        Err(failure) => {
            printer::talk(&format!(
                "warning: what this device can do is not known: {}",
                failure.message
            ));
            Ok(None)
        }
    }
}

/// The same for the first GPU of this machine, with nothing else at hand.
pub fn measure_here(fresh: bool, no_wait: bool) -> Result<Ceilings, Failure> {
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    // Kept until the end: an idle process on the GPU makes starting the next one quicker.
    let scout = Worker::spawn(&WorkerKind::cuda(None)).map_err(|end| broken(&end))?;
    let _machine = wait_for_machine(&scout.device, no_wait)?;
    let pool = CompilePool::new(Arc::new(Cache::open()?), settings::compile_jobs());
    of_device(&scout.device, &pool, fresh)
}

/// By the device's own number, and the driver, which decides what a launch costs.
fn place(device: &DeviceInfo) -> Result<PathBuf, Failure> {
    let gpu = device.cuda.as_ref().ok_or_else(|| {
        Failure::machine("ceilings are measured on a GPU")
            .hint("`kiln doctor` says what is missing")
    })?;
    let folder = settings::home()?.join("ceilings");
    settings::private_dir(&folder)?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let uuid: String = gpu.uuid.chars().map(plain).collect();
    Ok(folder.join(format!("{uuid}-{}.json", gpu.driver_cuda)))
}

/// What cannot be read, or is of another version or device, is measured again.
fn read(place: &Path, device: &DeviceInfo) -> Option<Ceilings> {
    let text = fs::read_to_string(place).ok()?;
    let known: Ceilings = serde_json::from_str(&text).ok()?;
    (known.is_sound() && known.device == device.name).then_some(known)
}

fn measure(device: &DeviceInfo, pool: &CompilePool) -> Result<Ceilings, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("kiln-ceilings-")
        .tempdir()
        .map_err(|e| Failure::io("cannot make a temporary folder", &e))?;
    let rate = |probe: &Probe| -> Result<f64, Failure> {
        let measured = run(probe, device, pool, folder.path())?;
        let work = measured.work.ok_or_else(|| {
            Failure::new(
                Exit::Bug,
                format!("the manifest of `{}` has no [work]", probe.name),
            )
        })?;
        Ok(work / measured.ns * 1e9)
    };
    let architecture = device
        .cuda
        .as_ref()
        .map_or("", |gpu| gpu.architecture.as_str());
    // Nothing else of kiln depends on it, and it exists on one architecture only.
    let wgmma = match architecture {
        "sm_90" => match rate(&WGMMA) {
            Ok(rate) => Some(rate),
            Err(failure) if failure.exit == Exit::Interrupted => return Err(failure),
            Err(failure) => {
                printer::talk(&format!("warning: no rate of wgmma: {}", failure.message));
                None
            }
        },
        _ => None,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(Ceilings {
        version: CEILINGS_VERSION,
        device: device.name.clone(),
        copy_bytes_per_second: rate(&COPY)?,
        mma_flops_per_second: rate(&MMA)?,
        wgmma_flops_per_second: wgmma,
        exponentials_per_second: rate(&EXPONENTIAL)?,
        fma_flops_per_second: rate(&MULTIPLY_ADD)?,
        launch_ns: run(&LAUNCH, device, pool, folder.path())?.ns,
        measured_unix_ms: now.map_or(0, |since| since.as_millis() as u64),
    })
}

struct Measured {
    ns: f64,
    /// What one launch does, in the unit of the manifest.
    work: Option<f64>,
}

/// Checks and times a probe as any candidate.
fn run(
    probe: &Probe,
    device: &DeviceInfo,
    pool: &CompilePool,
    folder: &Path,
) -> Result<Measured, Failure> {
    let project = folder.join(probe.name);
    // Makes the folder a project, whatever lies above it.
    settings::private_dir(&project.join(".kiln"))?;
    let manifest = project.join(project::MANIFEST_NAME);
    for (path, text) in [
        (&manifest, probe.manifest),
        (&project.join("ceilings.cu"), SOURCE),
    ] {
        fs::write(path, text)
            .map_err(|e| Failure::io(format!("cannot write `{}`", path.display()), &e))?;
    }
    let mut task = Task::new(project::read(&manifest)?, device.clone(), None)?;
    prepare_support(&mut task, pool)?;
    let config = task.any_config()?;
    let mut bench = LiveBench::new(&task, pool)?;
    let build = bench.submit(std::slice::from_ref(&config)).start;
    let seeds = Seeds {
        secret: 1,
        batch: 0,
        trial: 0,
        timed_inputs_are_checked: true,
    };
    let outcome = bench.run(build, &config, seeds, None)?.outcome;
    let ns = outcome.median_ns().ok_or_else(|| {
        Failure::new(
            Exit::No,
            format!("kiln's own kernel `{}` {outcome}", probe.name),
        )
    })?;
    let work = &task.manifest().work;
    let flops = task.work(work.flops.as_ref());
    Ok(Measured {
        ns,
        work: flops.or_else(|| task.work(work.bytes.as_ref())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::manifest::Manifest;

    #[test]
    fn every_probe_has_a_manifest_that_says_its_work() {
        for probe in [&COPY, &EXPONENTIAL, &MULTIPLY_ADD, &MMA, &WGMMA, &LAUNCH] {
            let manifest = Manifest::parse(probe.manifest).expect(probe.name);
            assert_eq!(manifest.kernel.entry.value, probe.name);
            let says = manifest.work.flops.is_some() || manifest.work.bytes.is_some();
            assert_eq!(says, probe.name != LAUNCH.name, "{}", probe.name);
            assert!(SOURCE.contains(&format!("{}_reference(", probe.name)));
        }
    }

    #[test]
    fn what_was_kept_for_another_device_or_version_is_measured_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("kept.json");
        let device = |name: &str| DeviceInfo {
            kind: "cuda".into(),
            name: name.into(),
            cores: 132,
            memory_bytes: 1,
            environment: Vec::new(),
            cuda: None,
        };
        let known = Ceilings {
            version: CEILINGS_VERSION,
            device: "A".into(),
            copy_bytes_per_second: 4e12,
            mma_flops_per_second: 6e14,
            wgmma_flops_per_second: None,
            exponentials_per_second: 3e12,
            launch_ns: 500.0,
            fma_flops_per_second: 5e13,
            measured_unix_ms: 0,
        };
        let keep = |ceilings: &Ceilings| {
            fs::write(&place, serde_json::to_string(ceilings).expect("JSON")).expect("written");
        };
        keep(&known);
        assert_eq!(read(&place, &device("A")), Some(known.clone()));
        assert_eq!(read(&place, &device("B")), None);
        keep(&Ceilings {
            version: 0,
            ..known.clone()
        });
        assert_eq!(read(&place, &device("A")), None);
        keep(&Ceilings {
            launch_ns: 0.0,
            ..known
        });
        assert_eq!(read(&place, &device("A")), None);
        fs::write(&place, "torn").expect("written");
        assert_eq!(read(&place, &device("A")), None);
    }
}
