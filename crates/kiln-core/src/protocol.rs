//! What supervisor and worker say to each other. Plain data; framing lives with the pipes.
//!
//! A frame is a header (JSON, one of the enums here) and a payload (raw bytes, for outputs).

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::manifest::{Fill, Role};
use crate::trial::CompileFailure;
use crate::value::Value;

/// Changes whenever a message changes; a worker of another version is refused.
pub const PROTOCOL_VERSION: u32 = 1;

/// Frames beyond this are a protocol error, not an allocation.
pub const MAX_HEADER_BYTES: u32 = 64 << 20;
pub const MAX_PAYLOAD_BYTES: u64 = 16 << 30;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Compile(CompileJob),
    /// Loads the image this worker is about.
    Load {
        image: String,
        symbol: String,
    },
    /// Allocates and fills the buffers of a problem, in place of the last one.
    Prepare(Problem),
    /// Poisons the outputs, launches once, and answers like `Inspect`.
    Check {
        cores: Cores,
        poison: u64,
    },
    /// Poisons the outputs and times bursts of launches.
    Sample {
        plan: SamplePlan,
        poison: u64,
    },
    /// Verifies guard zones and answers with all outputs as the last launch left them.
    Inspect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplePlan {
    /// Launches timed together.
    pub launches: u32,
    pub bursts: u32,
    /// Launch for this long before the clock starts, so that what ran before has left the caches
    /// and cores that slept are awake.
    pub warm_nanos: u64,
    pub cores: Cores,
}

/// Where a launch may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cores {
    /// Wherever the system puts it.
    Any,
    /// On this many processor cores, always the same ones.
    Pinned(usize),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    Hello {
        protocol: u32,
        device: DeviceInfo,
    },
    Compiled(Compiled),
    NotCompiled(CompileFailure),
    Done,
    /// The payload holds every output and inout buffer, in argument order.
    Outputs,
    Sampled {
        /// Total nanoseconds of each burst.
        nanos: Vec<u64>,
    },
    /// The candidate is at fault, and the worker still answers.
    Refused(Refusal),
    /// Written by the signal handler just before the process dies.
    Fault(MemoryFault),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Refusal {
    NotLoadable {
        message: String,
    },
    OutOfMemory {
        bytes: u64,
    },
    LeftProcesses {
        count: u64,
    },
    GuardZone {
        argument: usize,
        offset: i64,
    },
    /// The task's own files are at fault (an input file is missing, say), not the candidate.
    BadTask {
        message: String,
    },
}

/// A bad address that lies in or beside one of the arguments' buffers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryFault {
    pub argument: usize,
    /// Bytes from the start of the buffer.
    pub offset: i64,
    /// Inside the buffer itself: it is a read-only input.
    pub inside: bool,
}

/// All a toolchain needs to make one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileJob {
    /// The program and its fixed first arguments, e.g. `["cc"]`.
    pub compiler: Vec<String>,
    /// Complete text of the translation unit handed to the compiler.
    pub unit: String,
    pub flags: Vec<String>,
    pub defines: Vec<(String, String)>,
    pub include_dirs: Vec<String>,
    /// Where to write the image.
    pub output: String,
    pub memory_limit_bytes: u64,
    pub cpu_limit_seconds: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    pub log: String,
    pub compile_ms: f64,
    /// Every file the compiler read.
    pub dependencies: Vec<String>,
}

/// Arguments of one launch, with everything needed to make their contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    pub shape: String,
    pub seed: u64,
    pub arguments: Vec<ArgumentSpec>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ArgumentSpec {
    Scalar {
        name: String,
        dtype: DType,
        value: Value,
    },
    Buffer {
        name: String,
        dtype: DType,
        extents: Vec<u64>,
        role: Role,
        fill: Fill,
        /// The kernel sees this type instead: the reference computes in `f64`.
        seen_as: DType,
    },
}

impl ArgumentSpec {
    pub fn name(&self) -> &str {
        match self {
            ArgumentSpec::Scalar { name, .. } | ArgumentSpec::Buffer { name, .. } => name,
        }
    }

    /// Whether the worker sends this argument back after a launch.
    pub fn is_result(&self) -> bool {
        matches!(
            self,
            ArgumentSpec::Buffer {
                role: Role::Output | Role::InOut,
                ..
            }
        )
    }

    /// Elements of a buffer; 1 for a scalar. `None` on overflow.
    pub fn elements(&self) -> Option<u64> {
        match self {
            ArgumentSpec::Scalar { .. } => Some(1),
            ArgumentSpec::Buffer { extents, .. } => {
                extents.iter().try_fold(1u64, |n, e| n.checked_mul(*e))
            }
        }
    }

    /// Bytes the kernel sees. `None` on overflow.
    pub fn bytes(&self) -> Option<u64> {
        let size = match self {
            ArgumentSpec::Scalar { dtype, .. } => dtype.size_bytes(),
            ArgumentSpec::Buffer { seen_as, .. } => seen_as.size_bytes(),
        };
        self.elements()?.checked_mul(size as u64)
    }
}

/// What a worker says about the device it runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `cpu` or `cuda`.
    pub kind: String,
    pub name: String,
    pub cores: usize,
    pub memory_bytes: u64,
    /// Governor, kernel release, load: what a reader needs to judge a timing.
    pub environment: Vec<(String, String)>,
}
