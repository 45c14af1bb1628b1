//! Kernels that are compared with themselves, from a few microseconds to a good part of a
//! millisecond, bound by arithmetic, by the L2 cache and by memory.

use crate::cli::Backend;
use crate::selftest::kernels::{self, Edit, Kernel};

type Settings = &'static [(&'static str, i64)];

pub struct Subject {
    pub name: String,
    pub kernel: Kernel,
    pub edits: Vec<Edit<'static>>,
    /// Pairs to be compared in turn, first against second.
    pub pairs: &'static [(Settings, Settings)],
}

impl Subject {
    /// A name for a folder.
    pub fn place(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        self.name.chars().map(plain).collect()
    }
}

const TWINS: &[(Settings, Settings)] = &[(&[("TWIN", 0)], &[("TWIN", 1)])];
const ITSELF: &[(Settings, Settings)] = &[(&[], &[]), (&[("LANES", 16)], &[("LANES", 16)])];
const SLOWED: &[(Settings, Settings)] =
    &[(&[("SLOWDOWN_PERMILLE", 0)], &[("SLOWDOWN_PERMILLE", 20)])];

/// One of the kernels of timing.cu, on `n` elements with `repeats`.
pub fn timing(entry: &str, n: u64, repeats: u64) -> Vec<Edit<'static>> {
    vec![
        (
            "entry = \"timing_compute\"",
            format!("entry = \"timing_{entry}\""),
        ),
        ("N = 135168\nR = 20000", format!("N = {n}\nR = {repeats}")),
        (
            "timing.cu:timing_compute_reference",
            format!("timing.cu:timing_{entry}_reference"),
        ),
    ]
}

/// 1,024 threads on each of 132 multiprocessors.
pub const COMPUTE_N: u64 = 135_168;

fn of_timing(entry: &str, n: u64, repeats: u64, pairs: &'static [(Settings, Settings)]) -> Subject {
    Subject {
        name: format!("{entry} n={n} r={repeats}"),
        kernel: kernels::TIMING,
        edits: timing(entry, n, repeats),
        pairs,
    }
}

/// Pairs without a difference.
pub fn same(backend: Backend) -> Vec<Subject> {
    if backend == Backend::Cpu {
        let twin: Edit<'static> = ("TWIN      = { value = 0 }", "TWIN      = [0, 1]".into());
        let of = |n: u32| Subject {
            name: format!("hello_cpu n={n}"),
            kernel: kernels::HELLO_CPU,
            edits: vec![twin.clone(), ("N = 262144", format!("N = {n}"))],
            pairs: TWINS,
        };
        let honest = |name: &str, kernel: Kernel| Subject {
            name: name.into(),
            kernel,
            edits: Vec::new(),
            pairs: ITSELF,
        };
        return vec![
            // Through memory, and inside the nearest cache.
            of(262_144),
            of(2_048),
            honest("softmax", kernels::SOFTMAX_CPU),
            honest("layernorm", kernels::LAYERNORM_CPU),
            honest("mean", kernels::MEAN_CPU),
            honest("matmul", kernels::MATMUL_CPU),
        ];
    }
    let mut subjects = vec![
        Subject {
            name: "hello".into(),
            kernel: kernels::HELLO,
            // Outputs travel to the host to be checked: smaller ones leave time for more pairs.
            edits: vec![("N = 4194304", "N = 1048576".into())],
            pairs: &[
                (&[("BLOCK", 64)], &[("BLOCK", 64)]),
                (&[("BLOCK", 256)], &[("BLOCK", 256)]),
                (
                    &[("BLOCK", 128), ("VECTOR", 4)],
                    &[("BLOCK", 128), ("VECTOR", 4)],
                ),
                (
                    &[("BLOCK", 512), ("VECTOR", 4)],
                    &[("BLOCK", 512), ("VECTOR", 4)],
                ),
            ],
        },
        Subject {
            name: "anchor".into(),
            kernel: kernels::ANCHOR,
            edits: vec![("B = 32\nH = 8", "B = 2\nH = 8".into())],
            pairs: &[
                (&[("BLOCK_N", 64)], &[("BLOCK_N", 64)]),
                (
                    &[("BLOCK_N", 32), ("STAGES", 2)],
                    &[("BLOCK_N", 32), ("STAGES", 2)],
                ),
                (
                    &[("BLOCK_M", 128), ("WARPS", 8), ("CP_ASYNC", 1)],
                    &[("BLOCK_M", 128), ("WARPS", 8), ("CP_ASYNC", 1)],
                ),
            ],
        },
        of_timing("copy", 1 << 20, 1, TWINS),
    ];
    for repeats in [700, 2_000, 6_000, 20_000, 60_000, 150_000] {
        subjects.push(of_timing("compute", COMPUTE_N, repeats, TWINS));
    }
    for repeats in [5, 25, 100] {
        subjects.push(of_timing("l2", 1 << 20, repeats, TWINS));
    }
    subjects
}

/// Pairs where the second is 2 % longer, of 30 us and more.
pub fn slowed() -> Vec<Subject> {
    let mut subjects = Vec::new();
    for repeats in [10_000, 20_000, 40_000, 80_000, 150_000] {
        subjects.push(of_timing("compute", COMPUTE_N, repeats, SLOWED));
    }
    subjects
}

/// Pairs where the second takes 1, 2 or 5 % longer. (More reads from the L2 cache also need a loop of their own: 1 % of them
/// take 3 % longer.)
pub fn slowed_by(percent: u32) -> Vec<Subject> {
    const BY_1: &[(Settings, Settings)] =
        &[(&[("SLOWDOWN_PERMILLE", 0)], &[("SLOWDOWN_PERMILLE", 10)])];
    const BY_5: &[(Settings, Settings)] =
        &[(&[("SLOWDOWN_PERMILLE", 0)], &[("SLOWDOWN_PERMILLE", 50)])];
    let pairs = match percent {
        1 => BY_1,
        5 => BY_5,
        _ => SLOWED,
    };
    let compute = [10_000, 20_000, 40_000, 80_000, 150_000];
    let compute = compute.map(|repeats| of_timing("compute", COMPUTE_N, repeats, pairs));
    let mut subjects: Vec<Subject> = compute.into_iter().collect();
    for subject in &mut subjects {
        subject.edits.push((
            "SLOWDOWN_PERMILLE = [0, 20]",
            "SLOWDOWN_PERMILLE = [0, 10, 20, 50]".into(),
        ));
    }
    subjects
}

#[cfg(test)]
mod tests {
    use kiln_core::manifest::Manifest;
    use kiln_core::value::Value;

    use super::*;

    #[test]
    fn every_pair_is_in_its_space() {
        let all = [
            same(Backend::Cuda),
            same(Backend::Cpu),
            slowed(),
            slowed_by(1),
            slowed_by(2),
            slowed_by(5),
        ];
        for subject in all.into_iter().flatten() {
            let text = subject
                .kernel
                .manifest_with(&subject.edits)
                .expect("edits fit");
            let manifest = Manifest::parse(&text).expect("a valid manifest");
            let settings = subject.pairs.iter().flat_map(|(a, b)| a.iter().chain(*b));
            for (name, value) in settings {
                let tunable = manifest.tunables.iter().find(|t| t.name == *name);
                let wanted = |v: &Value| v.loosely_equals(&Value::Int(*value));
                assert!(
                    tunable.is_some_and(|t| t.values.iter().any(wanted)),
                    "{}: {name} = {value}",
                    subject.name
                );
            }
        }
    }
}
