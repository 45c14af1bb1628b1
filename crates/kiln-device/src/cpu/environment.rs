//! What machine this is, and where on it a kernel runs.

use std::fs;
use std::sync::{LazyLock, Mutex};

use kiln_core::protocol::{Cores, DeviceInfo};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

pub fn device_info() -> DeviceInfo {
    let cores = allowed_cores().len().max(1);
    let mut environment = Vec::new();
    let mut note = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            environment.push((name.to_string(), value));
        }
    };
    note(
        "governor",
        read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    );
    note(
        "turbo",
        read_line("/sys/devices/system/cpu/cpufreq/boost")
            .map(|b| if b == "1" { "on".into() } else { "off".into() }),
    );
    note("load", read_line("/proc/loadavg"));
    note("kernel", read_line("/proc/sys/kernel/osrelease"));
    note("virtual", cpu_field("hypervisor").map(|_| "yes".into()));
    DeviceInfo {
        cuda: None,
        kind: "cpu".into(),
        name: cpu_name(),
        cores,
        memory_bytes: memory_bytes().unwrap_or(0),
        environment,
    }
}

/// How often other programs took a core from this process so far, from any of its threads.
pub fn interruptions() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
        u64::try_from(usage.involuntary_context_switches()).unwrap_or(0)
    })
}

/// Keeps the process on as many cores as the kernel uses threads, so that the scheduler does not
/// move it between samples, and starts it on the last of them: interrupts tend to land on the
/// first. Called before every timed request, so that all processes that take turns start from the
/// same core. Where they did not, the core one had just left still looked busy to the scheduler,
/// which then put both threads of the next one on the same core: 6.8 ms instead of 3.5.
/// Failing to pin changes noise, not results.
pub fn pin(on: Cores) {
    let cores = allowed_cores();
    let wanted = match on {
        Cores::Any => cores.len(),
        Cores::Pinned(count) => count.clamp(1, cores.len().max(1)),
    };
    let allow = |count: usize| {
        let mut set = CpuSet::new();
        for core in cores.iter().rev().take(count) {
            let _ = set.set(*core);
        }
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    };
    allow(1);
    allow(wanted);
}

/// Cores this process was allowed when it started; later pinning must not shrink the answer.
/// Reads and writes more than the caches hold, so that nothing of use is left in them.
pub fn empty_caches() {
    const LINE: usize = 64;
    static FILLER: LazyLock<Mutex<Vec<u8>>> = LazyLock::new(|| Mutex::new(vec![1; filler_bytes()]));
    let Ok(mut filler) = FILLER.lock() else {
        return;
    };
    for byte in filler.iter_mut().step_by(LINE) {
        *byte = byte.wrapping_add(1);
    }
    std::hint::black_box(&mut *filler);
}

/// Twice the largest cache, where the system tells its size.
fn filler_bytes() -> usize {
    const LEAST: usize = 64 << 20;
    const MOST: usize = 512 << 20;
    let size = read_line("/sys/devices/system/cpu/cpu0/cache/index3/size").unwrap_or_default();
    let kib: usize = size.trim_end_matches('K').parse().unwrap_or(0);
    (2 * kib * 1024).clamp(LEAST, MOST)
}

fn allowed_cores() -> &'static [usize] {
    static CORES: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    CORES.get_or_init(|| {
        let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        (0..CpuSet::count())
            .filter(|core| set.is_set(*core).unwrap_or(false))
            .collect()
    })
}

fn read_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_string())
}

fn cpu_name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'))
        .map_or_else(
            || std::env::consts::ARCH.to_string(),
            |(_, name)| name.trim().to_string(),
        )
}

fn cpu_field(flag: &str) -> Option<()> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|l| l.starts_with("flags"))?;
    flags.split_whitespace().any(|f| f == flag).then_some(())
}

fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes: u64 = text
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(kilobytes * 1024)
}
