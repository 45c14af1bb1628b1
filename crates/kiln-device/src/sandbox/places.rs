//! Where an operating system keeps what every program needs.

/// Libraries, headers and programs. Not `/etc`, `/home`, `/root`, `/var`, `/srv`, `/mnt`, `/tmp`.
pub const SYSTEM: &[&str] = &[
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/bin",
    "/sbin",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
];

/// What the loader and the run-time libraries of C and OpenMP look at. Single files of `/proc`:
/// other processes' command lines are nobody's business.
pub const READABLE: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/ld-musl-x86_64.path",
    "/etc/ld-musl-aarch64.path",
    "/etc/localtime",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/version",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

pub const WRITABLE: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

/// What the CUDA driver writes to and controls after a context exists. The device files appear by
/// name only where there is such a device; threads are named through `/proc/self/task/*/comm`.
pub fn driver_writes() -> Vec<String> {
    let named = |folder: &str, prefix: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folder = folder.to_string();
        let prefix = prefix.to_string();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(move |name| name.starts_with(&prefix))
            .map(move |name| format!("{folder}/{name}"))
    };
    // `/dev/nvidia-caps` is a folder and covers what is in it. Under WSL the device is `/dev/dxg`,
    // on Jetson boards `/dev/nvhost-*` and `/dev/nvmap`.
    let devices = ["nvidia", "nvhost", "nvmap", "nvgpu", "dxg", "dri"];
    let fixed = ["/dev/shm", "/proc/self", "/proc/driver/nvidia"];
    devices
        .iter()
        .flat_map(|prefix| named("/dev", prefix))
        .chain(fixed.map(String::from))
        .collect()
}
