//! One trial: a config and how it ended. A failing kernel is data, not an error.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::protocol::{Conditions, DeviceError, Resources, WritableGlobal};
use crate::units::human_ns;
use crate::value::Value;

/// A config spelled out, in the manifest's order of tunables.
pub type Assignment = Vec<(String, Value)>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Counts from 1 in the order the strategy asked.
    pub number: u64,
    pub config: Assignment,
    pub outcome: Outcome,
    /// Shapes left out because a constraint that names dimensions does not hold there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_shapes: Vec<String>,
    pub compile: Option<CompileFacts>,
    /// Wall time spent on this trial outside the compiler.
    pub run_ms: f64,
    /// What of it went where; `None` in records of kilns that did not look, and where nothing ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

/// Wall time of one trial by step, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Until its compiler was done.
    pub waiting_ms: f64,
    /// Loading and checking, the reference included.
    pub checking_ms: f64,
    pub timing_ms: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileFacts {
    pub artifact: String,
    pub cached: bool,
    pub compile_ms: f64,
    pub image_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Part of a multiprocessor's warps that can be active, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
    /// Gates set to `warn` that the config breaks, known after compiling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_warnings: Vec<String>,
    /// Warnings and notes of the compiler, cut to a few kilobytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
    /// Variables of the image that outlive a launch; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writable: Option<Vec<WritableGlobal>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    NotCompiled(CompileFailure),
    /// Compiled, and then refused by a gate on what the compiler made of it.
    Gated {
        gate: String,
        message: String,
    },
    Crashed(Crash),
    TimedOut {
        phase: Phase,
        after_ms: u64,
    },
    Wrong(Mismatch),
    Measured(Measurement),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileFailure {
    /// The compiler's first error line.
    pub first_error: String,
    pub log: String,
}

/// The step of a trial a failure happened in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Compile,
    Load,
    Check,
    Sample,
    /// Looked at once more before it may win: on shapes the search never saw, again and again.
    Accept,
}

/// The candidate ended its worker process, or made it unusable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crash {
    pub phase: Phase,
    pub shape: Option<String>,
    pub cause: CrashCause,
    /// What the candidate printed last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum CrashCause {
    Signal {
        signal: i32,
    },
    Exited {
        code: i32,
    },
    /// The image could not be loaded or has no such entry.
    NotLoadable {
        message: String,
    },
    OutputFlood {
        bytes: u64,
    },
    /// It made a system call that the sandbox refuses.
    Forbidden {
        /// Its name; empty where signals were blocked and nothing could tell.
        call: String,
    },
    /// The worker's answers stopped making sense: the candidate damaged it or its pipe.
    Garbled {
        message: String,
    },
    /// Child processes were left behind.
    LeftProcesses {
        count: u64,
    },
    OutOfMemory {
        bytes: u64,
    },
    /// The GPU's driver refused or aborted a launch.
    Device(DeviceError),
    /// A program of the user's own gave up, and said why.
    Failed {
        message: String,
    },
}

/// The candidate ran to its end and its answer is not acceptable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    pub shape: String,
    pub phase: Phase,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    Numerics(Box<NumericFault>),
    /// Memory outside a buffer was touched: a guard zone changed, or a guard page was hit.
    Canary {
        argument: String,
        /// Bytes from the start of the buffer; negative before it.
        offset: i64,
        access: GuardHit,
    },
    InputModified {
        argument: String,
    },
    /// Faster than the device can be.
    BelowFloor {
        measured_ns: f64,
        floor_ns: f64,
        /// What the floor is made of: `bytes` or `flops`.
        bound: String,
    },
    /// Faster when its outputs are right already: it looks, and skips the work.
    WorkSkipped {
        poisoned_ns: f64,
        kept_ns: f64,
    },
    /// Far slower on inputs it has not met before: it answers from memory.
    InputsRemembered {
        fresh_ns: f64,
        repeated_ns: f64,
        /// Other programs interrupted nearly every launch on new inputs.
        #[serde(default)]
        disturbed: bool,
    },
    /// NVIDIA's sanitizer, or the compiler's checks, found something in it.
    Sanitizer {
        tool: String,
        count: u64,
        /// The first findings, in its words.
        findings: Vec<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardHit {
    ZoneOverwritten,
    PageHit,
}

/// How an output differs from the expected values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumericFault {
    pub argument: String,
    pub elements: u64,
    pub wrong: u64,
    /// Elements that still hold the poison written before the launch.
    pub unwritten: u64,
    /// Elements that are NaN or infinite where the expected value is not.
    pub nonfinite: u64,
    pub worst: WorstElement,
    /// Relative error of the whole output, in the Euclidean norm.
    pub relative_error: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorstElement {
    pub index: Vec<u64>,
    /// As text: JSON has no NaN.
    pub got: String,
    pub expected: String,
    pub allowed: String,
    /// How often the error is what is allowed, where that is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_allowed: Option<f64>,
}

/// Raw samples and how they were taken. Statistics are recomputable, samples are not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Nanoseconds per launch, one per sample; a sample is the mean over `batch` launches.
    pub samples_ns: Vec<f64>,
    pub batch: u32,
    pub stop: SampleStop,
    /// Largest error seen in the checks, relative to what was allowed (1 = at the limit).
    pub error_ratio: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
}

/// Why sampling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleStop {
    Precise,
    MaxSamples,
    MaxSeconds,
    /// Clearly slower than the best so far.
    Cut,
}

impl Outcome {
    /// A short stable name, used in counts and JSON.
    pub fn reason(&self) -> &'static str {
        match self {
            Outcome::NotCompiled(_) => "not_compiled",
            Outcome::Gated { .. } => "gated",
            Outcome::TimedOut {
                phase: Phase::Compile,
                ..
            } => "compile_timeout",
            Outcome::TimedOut { .. } => "timeout",
            Outcome::Crashed(crash) => match &crash.cause {
                CrashCause::Signal { .. } | CrashCause::Exited { .. } => "crashed",
                CrashCause::Failed { .. } => "failed",
                CrashCause::NotLoadable { .. } => "not_loadable",
                CrashCause::OutputFlood { .. } => "output_flood",
                CrashCause::Forbidden { .. } => "forbidden",
                CrashCause::Garbled { .. } => "garbled",
                CrashCause::LeftProcesses { .. } => "left_processes",
                CrashCause::OutOfMemory { .. } => "out_of_memory",
                CrashCause::Device(error) => error.reason(),
            },
            Outcome::Wrong(mismatch) => match mismatch.fault {
                Fault::Numerics(_) => "numerics",
                Fault::Canary { .. } => "canary",
                Fault::InputModified { .. } => "input_modified",
                Fault::BelowFloor { .. } => "below_floor",
                Fault::WorkSkipped { .. } => "work_skipped",
                Fault::InputsRemembered { .. } => "inputs_remembered",
                Fault::Sanitizer { .. } => "sanitizer",
            },
            Outcome::Measured(_) => "measured",
        }
    }

    pub fn measurement(&self) -> Option<&Measurement> {
        match self {
            Outcome::Measured(measurement) => Some(measurement),
            _ => None,
        }
    }

    /// Median nanoseconds per launch; `None` for every failure.
    pub fn median_ns(&self) -> Option<f64> {
        self.measurement()
            .map(|m| crate::stats::median(&m.samples_ns))
    }
}

impl DeviceError {
    /// A short stable name, used in counts and JSON. Codes as in the driver's `CUresult`.
    pub fn reason(&self) -> &'static str {
        match self.code {
            1 | 701 | 720 | 912 => "launch_refused",
            700 => "illegal_address",
            702 => "launch_timeout",
            710 => "device_assert",
            714 => "stack_overflow",
            715 => "illegal_instruction",
            716 => "misaligned_address",
            717 => "invalid_address_space",
            718 => "invalid_program_counter",
            _ => "launch_failed",
        }
    }

    fn in_words(&self) -> &'static str {
        match self.code {
            1 => "the driver refused the launch: an invalid value",
            701 => "the driver refused the launch: too many resources",
            720 => "the driver refused the cooperative launch: the grid does not fit on the device",
            912 => "the driver refused the launch: its clusters do not fit on the device",
            700 => "touched an illegal address",
            702 => "ran into the driver's own time limit",
            710 => "failed a device assert",
            714 => "overflowed its stack",
            715 => "executed an illegal instruction",
            716 => "touched a misaligned address",
            717 => "used an address of the wrong address space",
            718 => "jumped to an invalid address",
            _ => "failed on the device",
        }
    }
}

/// What happened, with the driver's name for it.
impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.in_words(), self.name)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Compile => "compiling",
            Phase::Load => "loading",
            Phase::Check => "the correctness check",
            Phase::Sample => "timing",
            Phase::Accept => "acceptance",
        })
    }
}

/// One line for people: what happened.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::NotCompiled(failure) => write!(f, "does not compile: {}", failure.first_error),
            Outcome::Gated { gate, message } => write!(f, "rejected by gate `{gate}`: {message}"),
            Outcome::TimedOut { phase, after_ms } => {
                write!(
                    f,
                    "still running after {after_ms} ms during {phase}; killed"
                )
            }
            Outcome::Crashed(crash) => {
                let place = match &crash.shape {
                    Some(shape) => format!("{} on shape `{shape}`", crash.phase),
                    None => crash.phase.to_string(),
                };
                match &crash.cause {
                    CrashCause::Signal { signal } => {
                        write!(f, "killed by {} during {place}", signal_name(*signal))
                    }
                    CrashCause::Exited { code } => {
                        write!(f, "ended the process with exit code {code} during {place}")
                    }
                    CrashCause::NotLoadable { message } => write!(f, "cannot be loaded: {message}"),
                    CrashCause::Failed { message } => write!(f, "failed during {place}: {message}"),
                    CrashCause::OutputFlood { bytes } => {
                        write!(f, "printed more than {bytes} bytes during {place}; killed")
                    }
                    CrashCause::Forbidden { call } if call.is_empty() => {
                        write!(
                            f,
                            "made a system call during {place} that the sandbox forbids"
                        )
                    }
                    CrashCause::Forbidden { call } => {
                        write!(
                            f,
                            "called `{call}` during {place}, which the sandbox forbids"
                        )
                    }
                    CrashCause::Garbled { message } => {
                        write!(f, "damaged its worker process during {place}: {message}")
                    }
                    CrashCause::LeftProcesses { count } => {
                        write!(f, "left {count} child process(es) behind during {place}")
                    }
                    CrashCause::OutOfMemory { bytes } => {
                        write!(
                            f,
                            "out of memory: {bytes} bytes were not to be had during {place}"
                        )
                    }
                    CrashCause::Device(error) => {
                        write!(f, "{error} during {place}")
                    }
                }
            }
            Outcome::Wrong(mismatch) => write!(f, "{}", mismatch),
            Outcome::Measured(m) => write!(
                f,
                "{}, median of {}",
                human_ns(crate::stats::median(&m.samples_ns)),
                m.samples_ns.len()
            ),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = &self.shape;
        match &self.fault {
            Fault::Numerics(n) => {
                write!(
                    f,
                    "wrong result on shape `{shape}`: output `{}` differs at {} of {} elements",
                    n.argument, n.wrong, n.elements
                )?;
                if n.unwritten > 0 {
                    write!(f, ", {} of them never written", n.unwritten)?;
                }
                if n.nonfinite > 0 {
                    write!(f, ", {} of them NaN or infinite", n.nonfinite)?;
                }
                write!(
                    f,
                    "; worst at {:?}: got {}, expected {}, allowed difference {}",
                    n.worst.index, n.worst.got, n.worst.expected, n.worst.allowed
                )
            }
            Fault::Canary {
                argument,
                offset,
                access,
            } => {
                let what = match access {
                    GuardHit::ZoneOverwritten => "wrote",
                    GuardHit::PageHit => "reached",
                };
                write!(
                    f,
                    "{what} outside buffer `{argument}` on shape `{shape}`: byte {offset} from its start"
                )
            }
            Fault::BelowFloor {
                measured_ns,
                floor_ns,
                bound,
            } => write!(
                f,
                "takes {} on shape `{shape}`, less than the {} the device needs for its {bound} at \
                 the least: the work cannot have been done, or [work] is wrong",
                human_ns(*measured_ns),
                human_ns(*floor_ns)
            ),
            Fault::WorkSkipped {
                poisoned_ns,
                kept_ns,
            } => write!(
                f,
                "takes {} on shape `{shape}`, and {} when its outputs are right already: it skips the work",
                human_ns(*poisoned_ns),
                human_ns(*kept_ns)
            ),
            Fault::InputsRemembered {
                fresh_ns,
                repeated_ns,
                disturbed,
            } => write!(
                f,
                "takes {} on inputs it has not met and {} on repeated ones: it answers from memory{}",
                human_ns(*fresh_ns),
                human_ns(*repeated_ns),
                match disturbed {
                    true =>
                        ", unless it was the other programs that interrupted nearly every launch: try again on a quieter machine",
                    false => "",
                }
            ),
            Fault::Sanitizer {
                tool,
                count,
                findings,
            } => {
                let first = findings.first().map_or("", String::as_str);
                let whose = match tool.as_str() {
                    "bounds" | "addresses" => "the compiler's",
                    "leftovers" => "kiln's",
                    _ => "compute-sanitizer's",
                };
                write!(
                    f,
                    "{whose} {tool} found {count} on shape `{shape}`, the first: {first}"
                )
            }
            Fault::InputModified { argument } => {
                write!(f, "modified its input `{argument}` on shape `{shape}`")
            }
        }
    }
}

pub(crate) fn signal_name(signal: i32) -> String {
    match signal {
        4 => "SIGILL (illegal instruction)".into(),
        6 => "SIGABRT (abort)".into(),
        7 => "SIGBUS (bad address)".into(),
        8 => "SIGFPE (arithmetic fault)".into(),
        9 => "SIGKILL".into(),
        11 => "SIGSEGV (bad address)".into(),
        other => format!("signal {other}"),
    }
}
