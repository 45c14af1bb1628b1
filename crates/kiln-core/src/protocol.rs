//! What supervisor and worker say to each other. Plain data; framing lives with the pipes.
//!
//! A frame is a header (JSON, one of the enums here) and a payload (raw bytes, for outputs).

mod problem;

pub use problem::{ArgumentSpec, LaunchSpec, Problem, Variation};

use serde::{Deserialize, Serialize};

use crate::sandbox::Sandbox;
use crate::trial::CompileFailure;

/// Changes whenever a message changes; a worker of another version is refused.
pub const PROTOCOL_VERSION: u32 = 6;

/// Frames beyond this are a protocol error, not an allocation.
pub const MAX_HEADER_BYTES: u32 = 64 << 20;
pub const MAX_PAYLOAD_BYTES: u64 = 16 << 30;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Compile(CompileJob),
    /// Asks a compile worker which files the compiler would read for a job; nothing is made.
    Reads(CompileJob),
    /// Asks a compile worker what an NVRTC library is.
    DescribeNvrtc {
        library: String,
        builtins: Option<String>,
    },
    /// Asks a compile worker which line of source an instruction of an image comes from.
    Locate {
        image: String,
        /// From where the image begins in memory.
        offset: u64,
    },
    /// Loads the image this worker is about.
    Load {
        image: String,
        symbol: String,
    },
    /// Makes a problem the current one. Buffers of the last few problems are kept: coming back to
    /// one costs little. The payload, where a worker cannot draw inputs itself, holds every input
    /// and inout buffer in argument order.
    Prepare(Problem),
    /// Forgets the image and verifies that the device still works, so that the next candidate can
    /// have this process. Not every backend can.
    Unload,
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
    /// How many blocks of the loaded image fit on a multiprocessor, by the driver's own count.
    Occupancy {
        threads: u32,
        shared_bytes: u32,
    },
    /// Judges a candidate as a plain benchmark script would; needs nothing loaded or prepared.
    PlainTrial(Box<PlainTrial>),
    /// Verifies guard zones and answers with all outputs as the last launch left them, or with
    /// `Same` if `same_will_do` and they are, bit for bit, those of this problem sent last.
    Inspect {
        same_will_do: bool,
    },
    /// Ends a GPU worker in the ordinary way, exit handlers and all: a tool that watches over it
    /// writes its report there.
    Finish,
}

/// What a plain harness is given: the counter-example to everything else here. It is what the
/// red-team suite shows each cheat to fool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlainTrial {
    /// Also plays the reference.
    pub honest: LoadedFrom,
    pub candidate: LoadedFrom,
    /// Of the candidate; the honest kernel takes the same arguments.
    pub problem: Problem,
    pub honest_launch: Option<LaunchSpec>,
    pub cores: Cores,
}

/// An image and the function in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedFrom {
    pub image: String,
    pub symbol: String,
}

/// What a plain harness found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlainFinding {
    pub elements: u64,
    /// Elements whose difference was seen to be too large.
    pub mismatched: u64,
    /// Nanoseconds per launch.
    pub honest_nanos: f64,
    pub candidate_nanos: f64,
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
    pub caches: Caches,
    /// Also measure the energy of a launch, where the device can; takes half a second.
    #[serde(default)]
    pub energy: bool,
    /// Leave the outputs of one burst for the next to find, instead of poisoning them each time.
    #[serde(default)]
    pub keep_outputs: bool,
    /// One launch, timed right behind others.
    #[serde(default)]
    pub run_up: Option<RunUp>,
}

/// What is launched right before a launch that is timed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunUp {
    /// The same inputs.
    OnTheSame(Gap),
    /// The inputs that were prepared before these, where they are still there, so that the timed launch meets its own for
    /// the first time.
    OnOthers(Gap),
    /// The same inputs, of which the timed launch gets a copy in the place of the others, as new ones would be. Known ones
    /// then differ from new ones in nothing but being known. Only on a CPU.
    OnOriginals,
    /// The same buffers, of which some elements are written right before the timed launch. Only on a CPU.
    Nudged(Nudge),
}

/// What comes between the launches of a run-up and the timed one. On a CPU it is always nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gap {
    Nothing,
    /// Its buffers are read, so that the caches hold them whoever ran before.
    Reading,
}

/// Elements of inputs that are written between two launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nudge {
    pub seed: u64,
    /// They take values of others, as in `Variation::Nudged`; otherwise their own, which only takes the same time.
    pub changes: bool,
}

/// What a GPU launch finds in the L2 cache. A CPU's caches are always as the last launch left them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Caches {
    /// What the launch before left: launches of a burst run back to back.
    #[default]
    Warm,
    /// Nothing of use: flushed before every launch, and every launch is timed by itself.
    Cold,
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
        /// `None` from those that run the user's own code, which is not kept from anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Sandbox>,
    },
    Compiled(Compiled),
    NotCompiled(CompileFailure),
    /// The answer to `Reads`: every file, headers of the system included.
    Reads(Vec<String>),
    Nvrtc(NvrtcInfo),
    /// The answer to `Locate`: nothing where the image does not say.
    Located(Option<SourcePlace>),
    Done,
    /// The answer to `Unload`: how long the device was at work since the image was loaded.
    Unloaded {
        device_nanos: u64,
    },
    Occupancy {
        blocks: u32,
    },
    PlainFinding(PlainFinding),
    Same,
    /// The payload holds every output and inout buffer, in argument order.
    Outputs,
    Sampled {
        /// Total nanoseconds of each burst.
        nanos: Vec<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conditions: Option<Conditions>,
        /// How often other programs took a core from the worker meanwhile, on a CPU.
        #[serde(default)]
        interruptions: u64,
    },
    /// The candidate is at fault, and the worker still answers.
    Refused(Refusal),
    /// Written by the signal handler just before the process dies, for any deadly signal; more may follow.
    Stopped(StoppedAt),
    /// Written by the signal handler just before the process dies.
    Fault(MemoryFault),
    /// Likewise, for a system call that candidates may not make.
    Forbidden {
        /// Its number on this machine.
        call: i64,
    },
}

impl Response {
    /// For people who are told about an answer that does not belong.
    pub fn name(&self) -> &'static str {
        match self {
            Response::Hello { .. } => "hello",
            Response::Compiled(_) => "compiled",
            Response::NotCompiled(_) => "not compiled",
            Response::Reads(_) => "reads",
            Response::Nvrtc(_) => "nvrtc",
            Response::Located(_) => "located",
            Response::Stopped(_) => "stopped",
            Response::Done => "done",
            Response::Unloaded { .. } => "unloaded",
            Response::Occupancy { .. } => "occupancy",
            Response::PlainFinding(_) => "plain finding",
            Response::Same => "same",
            Response::Outputs => "outputs",
            Response::Sampled { .. } => "sampled",
            Response::Refused(_) => "refused",
            Response::Fault(_) => "fault",
            Response::Forbidden { .. } => "forbidden",
        }
    }
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
    /// The driver refused or aborted a launch.
    Device(DeviceError),
    /// An input buffer changed.
    InputModified {
        argument: usize,
    },
    /// There is no device, or none that can be used; for Python functions also no array library.
    NoDevice {
        message: String,
    },
    /// The task's own files are at fault (an input file is missing, say), not the candidate.
    BadTask {
        message: String,
    },
}

/// Where a process was when a signal ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedAt {
    pub signal: i32,
    /// The address that was touched, where the signal is about one.
    pub address: Option<u64>,
    /// The instruction, from where the image begins in memory; `None` outside the image.
    pub offset: Option<u64>,
    /// The instruction itself is the image's. Otherwise something the image called, such as `memcpy` or
    /// `abort`, and the offset is behind the call.
    pub is_own: bool,
    /// The thread that launches, and not one the candidate has started.
    pub is_main_thread: bool,
}

/// A place in a source file, as the compiler wrote it down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePlace {
    pub function: Option<String>,
    pub file: String,
    pub line: u32,
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

/// A driver's error code. Judged by code, never by its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceError {
    pub code: i32,
    /// The driver's own name, e.g. `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
}

/// How the device was while samples were taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// SM clock at each burst, in MHz.
    pub clocks_mhz: Vec<u32>,
    /// Reasons for lowered clocks at any time, as NVML's bits.
    pub throttle: u64,
    pub temperature_c: Option<u32>,
    /// Samples taken again because the hardware had slowed itself down.
    pub discarded: u32,
    /// Millijoules of one launch.
    pub energy_mj: Option<f64>,
}

/// All a toolchain needs to make one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileJob {
    pub tool: Tool,
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
pub enum Tool {
    /// The program and its fixed first arguments, e.g. `["cc"]`.
    Cc { command: Vec<String> },
    /// NVIDIA's compiler as a library, loaded into the compile worker.
    Nvrtc {
        library: String,
        /// Loaded first, where it does not lie beside the library.
        builtins: Option<String>,
        /// E.g. `sm_90a`.
        architecture: String,
        /// The `__global__` function to find in the image.
        entry: String,
    },
    Nvcc {
        command: Vec<String>,
        architecture: String,
        entry: String,
    },
}

/// What an NVRTC library says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvrtcInfo {
    /// Major and minor.
    pub version: (u32, u32),
    /// Compute capabilities it compiles for, as 10 * major + minor.
    pub architectures: Vec<u32>,
}

/// What the device compiler says about a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Per thread.
    pub registers: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    pub stack_bytes: u32,
    /// Per block, beside what a launch asks for.
    pub static_shared_bytes: u32,
    pub constant_bytes: u32,
    pub barriers: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    /// The entry's name in the image, where it is not the one asked for.
    #[serde(default)]
    pub symbol: Option<String>,
    #[serde(default)]
    pub resources: Option<Resources>,
    pub log: String,
    pub compile_ms: f64,
    /// Every file the compiler read.
    pub dependencies: Vec<String>,
    /// Files the compiler looked for in vain: were one to appear, the image would be another.
    #[serde(default)]
    pub absent: Vec<String>,
    /// What the compiler read is not known in full, so the image is for this run only.
    #[serde(default)]
    pub is_uncacheable: bool,
    /// Variables of the image that outlive a launch; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writable: Option<Vec<WritableGlobal>>,
}

/// A variable in which a kernel can keep something from one launch to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritableGlobal {
    /// Its symbol, or its section where symbols were stripped.
    pub name: String,
    pub bytes: u64,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<CudaDevice>,
}

/// What matters about a GPU for gates, floors and measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CudaDevice {
    /// E.g. `sm_90`.
    pub architecture: String,
    pub uuid: String,
    /// The CUDA version the driver supports, as 1000 * major + 10 * minor.
    pub driver_cuda: u32,
    pub multiprocessors: u32,
    pub clock_khz: u64,
    pub memory_clock_khz: u64,
    pub memory_bus_bits: u32,
    pub l2_bytes: u64,
    pub shared_per_block: u32,
    pub shared_per_block_optin: u32,
    pub shared_per_multiprocessor: u32,
    pub registers_per_multiprocessor: u32,
    pub threads_per_multiprocessor: u32,
    pub blocks_per_multiprocessor: u32,
}

impl CudaDevice {
    /// Bytes per second the memory can move at the most.
    pub fn memory_bandwidth(&self) -> f64 {
        2.0 * self.memory_clock_khz as f64 * 1e3 * f64::from(self.memory_bus_bits) / 8.0
    }
}
