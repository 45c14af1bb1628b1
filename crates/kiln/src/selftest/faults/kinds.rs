//! Which faults there are, and what each may be called.

use crate::cli::Backend;
use crate::selftest::ground::Size;
use crate::selftest::kernels::{self, Edit, Kernel};

pub struct Kind {
    pub name: &'static str,
    pub settings: Vec<(&'static str, i64)>,
    /// Outcomes that name it. More than one where the driver has a choice.
    pub accepts: &'static [&'static str],
}

pub struct Plan {
    pub kernel: Kernel,
    pub edits: Vec<Edit<'static>>,
    pub kinds: Vec<Kind>,
    /// How often each of them is run.
    pub repeats: usize,
    /// Run once each, at the end.
    pub once: Vec<Kind>,
    /// Right whenever anybody looks; only the confirmation finds them out.
    pub sly: Vec<Kind>,
}

impl Plan {
    pub fn new(backend: Backend, size: Size, memory_bytes: u64) -> Plan {
        match backend {
            Backend::Cuda => Plan::cuda(size, memory_bytes),
            Backend::Cpu => Plan::cpu(size),
        }
    }

    fn cuda(size: Size, memory_bytes: u64) -> Plan {
        // A quarter more floats than the device has room for.
        let too_many = (memory_bytes / 16 * 5) as i64;
        let behaves = |name, behaviour, accepts| Kind {
            name,
            settings: vec![("BEHAVIOUR", behaviour)],
            accepts,
        };
        let asks = |name, setting, accepts| Kind {
            name,
            settings: vec![setting],
            accepts,
        };
        Plan {
            kernel: kernels::FAULTS,
            edits: vec![
                ("{ value = 256 }", "[256, 2048]".into()),
                ("{ value = 0 }", "[0, 300000]".into()),
                ("{ value = 1 }", format!("[1, {too_many}]")),
                // Twenty infinite loops take twenty of these.
                ("run_timeout_seconds = 5", "run_timeout_seconds = 1".into()),
            ],
            kinds: vec![
                behaves("illegal address", 1, &["illegal_address"]),
                behaves("misaligned address", 2, &["misaligned_address"]),
                behaves(
                    "illegal instruction",
                    3,
                    &["illegal_instruction", "invalid_program_counter"],
                ),
                behaves("device assert", 4, &["device_assert"]),
                behaves(
                    "stack overflow",
                    5,
                    &["stack_overflow", "illegal_address", "launch_failed"],
                ),
                behaves("infinite loop", 6, &["timeout"]),
                behaves("out of bounds", 7, &["canary", "illegal_address"]),
                asks(
                    "too much shared memory",
                    ("SHARED", 300_000),
                    &["launch_refused"],
                ),
                asks("too many threads", ("THREADS", 2048), &["launch_refused"]),
                asks("out of memory", ("SCRATCH", too_many), &["out_of_memory"]),
            ],
            repeats: size.pick(20, 3),
            once: vec![
                behaves(
                    "writes before its buffer",
                    8,
                    &["canary", "illegal_address"],
                ),
                behaves("reads far outside", 9, &["illegal_address", "numerics"]),
                behaves("slightly wrong", 10, &["numerics"]),
                behaves("writes nothing", 11, &["numerics"]),
                behaves("writes NaN", 12, &["numerics"]),
                behaves("overwrites its input", 13, &["input_modified"]),
                behaves("waits at a barrier", 14, &["timeout"]),
                behaves("traps", 15, &["launch_failed"]),
                behaves("wrong the second time", 17, &["numerics"]),
            ],
            sly: vec![
                behaves("skips work that is done", 18, &["work_skipped"]),
                behaves("remembers its inputs", 19, &["inputs_remembered"]),
            ],
        }
    }

    fn cpu(size: Size) -> Plan {
        let behaves = |name, behaviour, accepts| Kind {
            name,
            settings: vec![("BEHAVIOUR", behaviour)],
            accepts,
        };
        Plan {
            kernel: kernels::HELLO_CPU,
            edits: vec![
                (
                    "BEHAVIOUR = { value = 0 }",
                    "BEHAVIOUR = { from = 0, to = 6 }".into(),
                ),
                ("N = 262144", "N = 4096".into()),
                ("run_timeout_seconds = 30", "run_timeout_seconds = 1".into()),
            ],
            kinds: vec![
                behaves("bad address", 1, &["crashed"]),
                behaves("abort", 2, &["crashed"]),
                behaves("infinite loop", 3, &["timeout"]),
                behaves("slightly wrong", 4, &["numerics"]),
                behaves("out of bounds", 5, &["canary"]),
            ],
            repeats: size.pick(10, 2),
            once: vec![behaves("writes nothing", 6, &["numerics"])],
            sly: Vec::new(),
        }
    }
}
