//! The kernels the sections run, as text in the binary.

use crate::exit::{Exit, Failure};

pub struct Kernel {
    pub manifest: &'static str,
    /// Names and texts of what the manifest needs.
    pub files: &'static [(&'static str, &'static str)],
}

/// A passage of a manifest and what stands there instead.
pub type Edit<'a> = (&'a str, String);

impl Kernel {
    /// The manifest with some passages replaced; each must be there.
    pub fn manifest_with(&self, edits: &[Edit<'_>]) -> Result<String, Failure> {
        let mut text = self.manifest.to_string();
        for (from, to) in edits {
            if !text.contains(from) {
                return Err(Failure::new(
                    Exit::Bug,
                    format!("a built-in manifest does not say `{from}`"),
                ));
            }
            text = text.replacen(from, to, 1);
        }
        Ok(text)
    }
}

macro_rules! kernel {
    ($manifest:literal, $($file:literal),+) => {
        Kernel {
            manifest: include_str!(concat!("kernels/", $manifest)),
            files: &[$(($file, include_str!(concat!("kernels/", $file)))),+],
        }
    };
}

pub const HELLO: Kernel = kernel!("hello.toml", "hello.cu");
pub const HELLO_CPU: Kernel = kernel!("hello_cpu.toml", "hello_cpu.c", "hello_cpu_reference.c");
pub const FAULTS: Kernel = kernel!("faults.toml", "faults.cu");
pub const TIMING: Kernel = kernel!("timing.toml", "timing.cu");
pub const ANCHOR: Kernel = kernel!("anchor.toml", "anchor.cu", "anchor_reference.cu");
pub const TMA: Kernel = kernel!("tma.toml", "tma.cu");
pub const CLUSTER: Kernel = kernel!("cluster.toml", "cluster.cu");
pub const COOPERATIVE: Kernel = kernel!("cooperative.toml", "cooperative.cu");

/// The honest kernel of one of the red team's tasks.
macro_rules! honest {
    ($task:literal) => {
        honest!(@ $task, "kiln.toml", "honest.c", "task.h", "job.h", "reference.c", "baseline.c")
    };
    (@ $task:literal, $manifest:literal, $($file:literal),+) => {
        Kernel {
            manifest: include_str!(concat!("../../../../redteam/tasks/", $task, "/", $manifest)),
            files: &[$((
                $file,
                include_str!(concat!("../../../../redteam/tasks/", $task, "/", $file)),
            )),+],
        }
    };
}

pub const SOFTMAX_CPU: Kernel = honest!("softmax");
pub const LAYERNORM_CPU: Kernel = honest!("layernorm");
pub const MEAN_CPU: Kernel = honest!("mean");
pub const MATMUL_CPU: Kernel = honest!("matmul");

/// The example that ships, with the manifest that needs no Python.
pub const MATMUL: Kernel = Kernel {
    manifest: include_str!("../../../../kernels/matmul/kiln.kernel.toml"),
    files: &[
        (
            "matmul.cu",
            include_str!("../../../../kernels/matmul/matmul.cu"),
        ),
        (
            "naive.cu",
            include_str!("../../../../kernels/matmul/naive.cu"),
        ),
    ],
};

/// A kernel with one mistake; its files, the manifest first.
pub struct Bottleneck {
    pub name: &'static str,
    pub files: &'static [(&'static str, &'static str)],
}

macro_rules! bottleneck {
    ($name:literal, $($file:literal),+) => {
        Bottleneck {
            name: $name,
            files: &[$((
                $file,
                include_str!(concat!("../../../../kernels/bottlenecks/", $name, "/", $file)),
            )),+],
        }
    };
}

/// What is expected of them.
pub const EXPECTED_BOTTLENECKS: &str =
    include_str!("../../../../kernels/bottlenecks/expected.toml");

pub const BOTTLENECKS: &[Bottleneck] = &[
    bottleneck!("uncoalesced", "kiln.toml", "kernel.cu", "reference.cu"),
    bottleneck!("bank_conflicts", "kiln.toml", "kernel.cu", "reference.cu"),
    bottleneck!("spills", "kiln.toml", "kernel.cu", "reference.cu"),
    bottleneck!("shared_occupancy", "kiln.toml", "kernel.cu"),
    bottleneck!("barriers", "kiln.toml", "kernel.cu", "reference.cu"),
    bottleneck!("launch", "kiln.toml", "kernel.cu", "reference.cu"),
    bottleneck!("dram", "kiln.toml", "kernel.cu", "reference.cu"),
    bottleneck!("tensor", "kiln.toml", "kernel.cu", "reference.cu"),
    bottleneck!(
        "special_functions",
        "kiln.toml",
        "kernel.cu",
        "reference.cu"
    ),
    bottleneck!("divergence", "kiln.toml", "kernel.cu", "reference.cu"),
];
