//! What can be said without hardware counters: the compiler's report, the floor, the time.

use super::diagnosis::{Advice, Cause, Class, Diagnosis};
use super::related::{self, Wanted, Wish};
use super::{Ceilings, Circumstances};
use crate::occupancy::{Limiter, Occupancy};

/// Where a launch stands against what the device can do, by time alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timed {
    pub time_ns: Option<f64>,
    pub occupancy: Option<Occupancy>,
}

/// Below this a launch is mostly overhead.
const SHORT_NS: f64 = 5e3;
/// A ceiling that is reached to this part is what binds.
const NEAR: f64 = 0.6;

/// A diagnosis from what else is known. Weaker than one from counters, and its words say on what it rests.
pub fn diagnose(timed: &Timed, around: &Circumstances<'_>) -> Diagnosis {
    let mut evidence = Vec::new();
    let mut advice = Vec::new();
    let mut cause = Cause::Unexplained;
    let reached = timed
        .time_ns
        .zip(around.ceilings)
        .map(|(ns, ceilings)| Reached::of(ns, ceilings, around));
    if let Some(reached) = reached {
        evidence.extend(reached.in_words());
        if let Some(found) = reached.binding() {
            cause = found;
        }
    }
    if timed.time_ns.is_some_and(|ns| ns < SHORT_NS) {
        cause = Cause::Launches;
        evidence.push("a launch this short is mostly its beginning and end".into());
        advice.push(plain(
            "batch-launches",
            "do the work of several launches in one",
        ));
    }
    if let Some(resources) = around
        .resources
        .filter(|r| r.spill_store_bytes + r.spill_load_bytes > 0)
    {
        evidence.push(format!(
            "the compiler spilled {} bytes per thread at {} registers",
            resources.spill_store_bytes, resources.registers
        ));
        if cause == Cause::Unexplained {
            cause = Cause::Spills;
        }
        let mut stop = plain(
            "stop-spilling",
            "keep fewer values per thread, or allow more registers",
        );
        stop.tunables = related::find(
            around.choices,
            &Wish {
                shared: None,
                block: Some(Wanted::Smaller),
                words: &[
                    "BLOCKS", "UNROLL", "TILE", "ROWS", "COLS", "STAGES", "BLOCK",
                ],
                wanted: Wanted::Smaller,
            },
        );
        advice.push(stop);
    }
    if let Some(occupancy) = timed.occupancy.filter(|o| o.fraction < 0.5) {
        evidence.push(format!(
            "at most {:.0} % of the warps fit, by {}",
            100.0 * occupancy.fraction,
            occupancy.limiter
        ));
        let (found, rule) = match occupancy.limiter {
            Limiter::SharedMemory => (
                Cause::SharedMemoryPerBlock,
                "fit-more-blocks-by-shared-memory",
            ),
            Limiter::Registers => (Cause::RegistersPerThread, "fit-more-blocks-by-registers"),
            _ => (Cause::ThreadsPerBlock, "larger-blocks"),
        };
        if cause == Cause::Unexplained {
            cause = found;
        }
        advice.push(plain(
            rule,
            &format!("less of what limits it ({}) per block", occupancy.limiter),
        ));
    }
    if evidence.is_empty() {
        evidence.push("neither a time nor a compiler's report to judge by".into());
    }
    // Far from what memory and arithmetic could do, it waits.
    let is_far = timed.time_ns.is_some() && around.ceilings.is_some();
    let is_far = is_far && around.bytes.is_some() && around.flops.is_some();
    Diagnosis {
        class: match cause {
            Cause::Unexplained if is_far => Class::Latency,
            known => known.class(),
        },
        cause,
        evidence,
        load: Vec::new(),
        stalls: Vec::new(),
        advice,
    }
}

/// What is known of a kernel on a CPU: how fast it does the work. What the processor could do is not known.
pub fn on_cpu(timed: &Timed, around: &Circumstances<'_>) -> Diagnosis {
    let rate = |amount: Option<f64>, unit: &str, what: &str| {
        let (amount, ns) = (amount?, timed.time_ns?);
        Some(format!(
            "{:.1} {unit}, by the {what} in [work]",
            amount / ns
        ))
    };
    let rates = [
        rate(around.flops, "GFLOP/s", "flops"),
        rate(around.bytes, "GB/s", "bytes"),
    ];
    Diagnosis {
        class: Cause::Unexplained.class(),
        cause: Cause::Unexplained,
        evidence: rates.into_iter().flatten().collect(),
        load: Vec::new(),
        stalls: Vec::new(),
        advice: Vec::new(),
    }
}

/// Advice whose gain cannot be computed promises none.
fn plain(rule: &str, change: &str) -> Advice {
    Advice {
        rule: rule.into(),
        change: change.into(),
        evidence: "without hardware counters the gain cannot be foretold".into(),
        predicted_gain: 1.0,
        tunables: Vec::new(),
    }
}

/// Parts of the device's ceilings.
#[derive(Clone, Copy, Debug)]
struct Reached {
    bytes: Option<f64>,
    products: Option<f64>,
}

impl Reached {
    fn of(ns: f64, ceilings: &Ceilings, around: &Circumstances<'_>) -> Reached {
        let seconds = ns / 1e9;
        Reached {
            bytes: around
                .bytes
                .map(|bytes| bytes / seconds / ceilings.copy_bytes_per_second),
            products: around
                .flops
                .map(|flops| flops / seconds / ceilings.matrix_flops_per_second()),
        }
    }

    fn in_words(self) -> Vec<String> {
        let told = [
            (self.bytes, "of the copy bandwidth, by the bytes in [work]"),
            (
                self.products,
                "of the rate of matrix products, by the flops in [work]",
            ),
        ];
        let told = told
            .into_iter()
            .filter_map(|(part, what)| Some((part?, what)));
        told.map(|(part, what)| format!("{:.0} % {what}", 100.0 * part))
            .collect()
    }

    fn binding(self) -> Option<Cause> {
        let (bytes, products) = (self.bytes.unwrap_or(0.0), self.products.unwrap_or(0.0));
        match () {
            () if bytes >= NEAR && bytes >= products => Some(Cause::Dram),
            () if products >= NEAR => Some(Cause::Tensor),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::Class;
    use crate::protocol::Resources;

    fn ceilings() -> Ceilings {
        Ceilings {
            version: super::super::ceilings::CEILINGS_VERSION,
            device: "a device".into(),
            copy_bytes_per_second: 4e12,
            mma_flops_per_second: 600e12,
            wgmma_flops_per_second: Some(800e12),
            exponentials_per_second: 3.5e12,
            launch_ns: 550.0,
            fma_flops_per_second: 50e12,
            measured_unix_ms: 0,
        }
    }

    #[test]
    fn time_against_the_ceilings_names_what_binds() {
        let ceilings = ceilings();
        let class = |bytes: f64, flops: f64, ns: f64| {
            let around = Circumstances {
                bytes: Some(bytes),
                flops: Some(flops),
                ceilings: Some(&ceilings),
                ..Circumstances::default()
            };
            let timed = Timed {
                time_ns: Some(ns),
                occupancy: None,
            };
            diagnose(&timed, &around).class
        };
        assert_eq!(class(3.6e9, 1e9, 1e6), Class::Memory);
        assert_eq!(class(1e6, 600e9, 1e6), Class::Compute);
        assert_eq!(class(1e6, 1e6, 2e3), Class::Launch);
        assert_eq!(class(1e6, 1e6, 1e6), Class::Latency);
    }

    #[test]
    fn a_compilers_report_is_evidence() {
        let around = Circumstances {
            resources: Some(Resources {
                registers: 40,
                spill_store_bytes: 372,
                spill_load_bytes: 372,
                ..Resources::default()
            }),
            ..Circumstances::default()
        };
        let found = diagnose(&Timed::default(), &around);
        assert_eq!(found.cause, Cause::Spills);
        assert_eq!(found.advice[0].rule, "stop-spilling");
        assert!(found.evidence[0].contains("372 bytes"));
        let nothing = diagnose(&Timed::default(), &Circumstances::default());
        assert_eq!(nothing.cause, Cause::Unexplained);
        assert!(!nothing.evidence.is_empty());
    }
}
