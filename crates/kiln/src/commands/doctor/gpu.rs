//! What the driver and the GPUs mean for tuning.

use serde_json::json;

use super::finding::Finding;
use crate::nvml::{Absence, AbsenceReason, Access, Answer, Driver, Gpu};

/// NVML's bits for lowered clocks, `nvmlClocksEventReason*`: those that mean trouble, and words.
const SLOWDOWNS: [(u64, &str); 4] = [
    (0x08, "the hardware slowed itself down"),
    (0x20, "too hot (software slowdown)"),
    (0x40, "too hot (hardware slowdown)"),
    (0x80, "the power supply asks for it"),
];
const POWER_CAP: u64 = 0x04;
const CLOCKS_SET: u64 = 0x02;

pub fn judge(answer: &Answer) -> Vec<Finding> {
    match answer {
        Answer::None(absence) => judge_absence(absence),
        Answer::Driver(driver) => judge_driver(driver),
    }
}

fn judge_absence(absence: &Absence) -> Vec<Finding> {
    let what = match absence.reason {
        AbsenceReason::NoLibrary => "NVIDIA driver: `libnvidia-ml.so.1` cannot be loaded".into(),
        AbsenceReason::NotLoaded => {
            "NVIDIA driver: installed, but its kernel module is not loaded".into()
        }
        AbsenceReason::VersionMismatch => {
            "NVIDIA driver: its library and its kernel module have different versions".into()
        }
        AbsenceReason::Other => format!("NVIDIA driver: {}", absence.message),
    };
    let fix = match (absence.reason, absence.hardware) {
        (AbsenceReason::NotLoaded, _) => "sudo modprobe nvidia",
        (AbsenceReason::VersionMismatch, _) => {
            "sudo reboot   # the driver was updated while running"
        }
        (AbsenceReason::NoLibrary, 0) => {
            "use a machine with an NVIDIA GPU; in a container: docker run --gpus all …"
        }
        _ => {
            "sudo ubuntu-drivers install   # or your system's way; in a container: docker run --gpus all …"
        }
    };
    let driver = Finding::missing("driver", what)
        .why("nothing can run on a GPU without it")
        .fix(fix)
        .fact("message", absence.message.clone());
    let gpu = match absence.hardware {
        0 => Finding::missing("gpu", "GPU: no NVIDIA device on the PCI bus"),
        n => Finding::missing(
            "gpu",
            format!("GPU: {n} on the PCI bus, out of reach without a driver"),
        ),
    };
    let gpu = gpu.why("there is nothing to run CUDA kernels on").fix(fix);
    vec![driver, gpu.fact("on_bus", absence.hardware)]
}

fn judge_driver(driver: &Driver) -> Vec<Finding> {
    let cuda = driver
        .cuda
        .map_or("unknown".into(), |cuda| cuda.to_string());
    let mut findings = vec![
        Finding::ok("driver", format!("driver {} (CUDA {cuda})", driver.version))
            .fact("version", driver.version.clone())
            .fact("cuda", cuda),
    ];
    if driver.libcuda.is_none() {
        let finding = Finding::missing("libcuda", "`libcuda.so.1` is nowhere to be found")
            .why("the driver answers, but kernels cannot be launched")
            .fix("in a container: docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …");
        findings.push(finding);
    }
    for silent in &driver.silent {
        let finding = Finding::warning("gpu", silent.clone())
            .why("the driver lists it and cannot talk to it")
            .fix("sudo dmesg | grep -i xid; reboot if it has fallen off the bus");
        findings.push(finding);
    }
    if driver.gpus.is_empty() {
        let finding = Finding::missing("gpu", "GPU: the driver sees none")
            .why("there is nothing to run kernels on")
            .fix("nvidia-smi -L; in a container: docker run --gpus all …");
        findings.push(finding);
    }
    for gpu in &driver.gpus {
        findings.extend(judge_gpu(gpu));
    }
    findings
}

fn judge_gpu(gpu: &Gpu) -> Vec<Finding> {
    let mut findings = vec![identity(gpu), conditions(gpu)];
    findings.extend(slowdown(gpu));
    findings.extend(power_limit(gpu));
    findings.extend(neighbours(gpu));
    let index = gpu.index;
    if gpu.persistence == Some(false) {
        let finding = Finding::warning(
            "persistence",
            format!("GPU {index}: persistence mode is off"),
        )
        .why("the driver starts anew for every process: workers take longer, clocks start low")
        .fix(format!("sudo nvidia-smi -i {index} -pm 1"));
        findings.push(finding);
    }
    if gpu.mig == Some(true) {
        let finding = Finding::warning("mig", format!("GPU {index}: MIG is on"))
            .why("kernels see one slice of the GPU, and its neighbours share the memory bandwidth")
            .fix(format!(
                "sudo nvidia-smi -i {index} -mig 0   # or tune for the slice on purpose"
            ));
        findings.push(finding);
    }
    findings
}

/// Which GPU it is, and whether processes may use it.
fn identity(gpu: &Gpu) -> Finding {
    let index = gpu.index;
    let architecture = gpu.architecture();
    let what = format!(
        "GPU {index}: {}, {}, {} GB, {}",
        gpu.name,
        architecture.as_deref().unwrap_or("unknown architecture"),
        gpu.memory_bytes / 1_000_000_000,
        gpu.uuid
    );
    let finding = match gpu.access {
        Access::Shared => Finding::ok("gpu", what),
        Access::OneProcess => Finding::warning("gpu", format!("{what}; one process at a time"))
            .why("workers and a Python baseline are several processes on one GPU")
            .fix(format!("sudo nvidia-smi -i {index} -c DEFAULT")),
        Access::Nobody => Finding::missing("gpu", format!("{what}; compute mode forbids its use"))
            .why("no process can create a context on it")
            .fix(format!("sudo nvidia-smi -i {index} -c DEFAULT")),
    };
    finding
        .fact("index", index)
        .fact("name", gpu.name.clone())
        .fact("uuid", gpu.uuid.clone())
        .fact("architecture", architecture)
        .fact("memory_bytes", gpu.memory_bytes)
        .fact("memory_used_bytes", gpu.memory_used_bytes)
}

/// Clocks, heat and power, as they are now.
fn conditions(gpu: &Gpu) -> Finding {
    let mut parts = Vec::new();
    if let (Some(now), Some(most)) = (gpu.sm_clock_mhz, gpu.max_sm_clock_mhz) {
        parts.push(format!("SM clock {now} of {most} MHz"));
    }
    parts.extend(gpu.temperature_c.map(|t| format!("{t} C")));
    if let (Some(now), Some(limit)) = (gpu.power_watts, gpu.power_limit_watts) {
        parts.push(format!("{now:.0} of {limit:.0} W"));
    }
    parts.extend(
        gpu.ecc
            .map(|on| format!("ECC {}", if on { "on" } else { "off" })),
    );
    if gpu.throttle & POWER_CAP != 0 {
        parts.push("clocks held by the power limit".into());
    }
    if gpu.throttle & CLOCKS_SET != 0 {
        parts.push("clocks set by hand".into());
    }
    if parts.is_empty() {
        parts.push("clocks, heat and power are not told".into());
    }
    Finding::ok("clocks", format!("GPU {}: {}", gpu.index, parts.join(", ")))
        .fact("sm_clock_mhz", gpu.sm_clock_mhz)
        .fact("max_sm_clock_mhz", gpu.max_sm_clock_mhz)
        .fact("memory_clock_mhz", gpu.memory_clock_mhz)
        .fact("temperature_c", gpu.temperature_c)
        .fact("power_watts", gpu.power_watts)
        .fact("power_limit_watts", gpu.power_limit_watts)
        .fact("throttle", gpu.throttle)
        .fact("ecc", gpu.ecc)
        .fact("persistence", gpu.persistence)
        .fact("mig", gpu.mig)
}

fn slowdown(gpu: &Gpu) -> Option<Finding> {
    let reasons: Vec<&str> = SLOWDOWNS
        .iter()
        .filter(|(bit, _)| gpu.throttle & bit != 0)
        .map(|(_, words)| *words)
        .collect();
    if reasons.is_empty() {
        return None;
    }
    let what = format!(
        "GPU {} runs slower than it could: {}",
        gpu.index,
        reasons.join(", ")
    );
    let finding = Finding::warning("throttle", what)
        .why("what is timed now says more about heat and power than about kernels")
        .fix("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; let it cool, look at fans and power");
    Some(finding)
}

fn power_limit(gpu: &Gpu) -> Option<Finding> {
    let (limit, default) = (gpu.power_limit_watts?, gpu.default_power_limit_watts?);
    if limit >= default - 0.5 {
        return None;
    }
    let index = gpu.index;
    let what = format!("GPU {index}: power limit {limit:.0} W, by default {default:.0} W");
    let finding = Finding::warning("power_limit", what)
        .why("kernels that draw much power run at lower clocks than elsewhere")
        .fix(format!("sudo nvidia-smi -i {index} -pl {default:.0}"));
    Some(finding)
}

fn neighbours(gpu: &Gpu) -> Option<Finding> {
    if gpu.processes.is_empty() {
        return None;
    }
    let list: Vec<String> = gpu
        .processes
        .iter()
        .take(5)
        .map(|(pid, bytes)| match bytes {
            Some(bytes) => format!("pid {pid}: {:.1} GB", *bytes as f64 / 1e9),
            None => format!("pid {pid}"),
        })
        .collect();
    let (verb, count) = match gpu.processes.len() {
        1 => ("uses", "1 other process".to_string()),
        n => ("use", format!("{n} other processes")),
    };
    let what = format!("{count} {verb} GPU {} ({})", gpu.index, list.join(", "));
    let pids: Vec<u32> = gpu.processes.iter().map(|(pid, _)| *pid).collect();
    let finding = Finding::warning("processes", what)
        .why("their work shows up in every timing")
        .fix("wait for them to end, or choose another GPU: CUDA_VISIBLE_DEVICES=1 kiln tune …")
        .fact("pids", json!(pids));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Status;
    use crate::nvml::CudaVersion;

    fn healthy() -> Gpu {
        Gpu {
            name: "NVIDIA H200".into(),
            uuid: "GPU-1".into(),
            capability: Some((9, 0)),
            memory_bytes: 150_754_820_096,
            sm_clock_mhz: Some(345),
            max_sm_clock_mhz: Some(1980),
            temperature_c: Some(31),
            power_watts: Some(76.2),
            power_limit_watts: Some(700.0),
            default_power_limit_watts: Some(700.0),
            persistence: Some(true),
            ecc: Some(true),
            mig: Some(false),
            ..Gpu::default()
        }
    }

    fn driver(gpus: Vec<Gpu>) -> Answer {
        Answer::Driver(Driver {
            version: "580.95.05".into(),
            cuda: CudaVersion::parse("13.0"),
            libcuda: Some("/usr/lib64/libcuda.so.1".into()),
            gpus,
            silent: vec![],
        })
    }

    #[test]
    fn a_healthy_gpu_gives_no_advice() {
        let findings = judge(&driver(vec![healthy()]));
        let lines: Vec<&str> = findings.iter().map(|f| f.what.as_str()).collect();
        assert_eq!(
            lines,
            [
                "driver 580.95.05 (CUDA 13.0)",
                "GPU 0: NVIDIA H200, sm_90, 150 GB, GPU-1",
                "GPU 0: SM clock 345 of 1980 MHz, 31 C, 76 of 700 W, ECC on",
            ]
        );
        assert!(findings.iter().all(|f| f.status == Status::Ok));
    }

    #[test]
    fn every_trouble_is_named_once_with_a_fix() {
        let troubled = Gpu {
            throttle: 0x04 | 0x40,
            power_limit_watts: Some(300.0),
            persistence: Some(false),
            mig: Some(true),
            access: Access::OneProcess,
            processes: vec![(12, Some(3_100_000_000)), (13, None)],
            ..healthy()
        };
        let findings = judge(&driver(vec![troubled]));
        let troubles: Vec<_> = findings
            .iter()
            .filter(|f| f.status == Status::Warning)
            .collect();
        let checks: Vec<_> = troubles.iter().map(|f| f.check).collect();
        assert_eq!(
            checks,
            [
                "gpu",
                "throttle",
                "power_limit",
                "processes",
                "persistence",
                "mig"
            ]
        );
        assert!(troubles.iter().all(|f| f.fix.is_some() && f.why.is_some()));
        assert!(
            findings
                .iter()
                .any(|f| f.what.contains("pid 12: 3.1 GB, pid 13"))
        );
    }

    #[test]
    fn a_gpu_nobody_may_use_and_a_driver_without_gpus_are_missing() {
        let forbidden = Gpu {
            access: Access::Nobody,
            ..healthy()
        };
        for gpus in [vec![forbidden], vec![]] {
            let findings = judge(&driver(gpus));
            let found = findings.iter().find(|f| f.check == "gpu");
            assert_eq!(found.map(|f| f.status), Some(Status::Missing));
        }
    }

    #[test]
    fn each_reason_for_a_missing_driver_has_its_own_fix() {
        let fix = |reason, hardware| {
            let absence = Absence {
                reason,
                message: "m".into(),
                hardware,
            };
            judge(&Answer::None(absence))[0]
                .fix
                .clone()
                .unwrap_or_default()
        };
        assert!(fix(AbsenceReason::NotLoaded, 1).contains("modprobe"));
        assert!(fix(AbsenceReason::VersionMismatch, 1).contains("reboot"));
        assert!(fix(AbsenceReason::NoLibrary, 0).contains("with an NVIDIA GPU"));
        assert!(fix(AbsenceReason::NoLibrary, 1).contains("drivers install"));
    }
}
