//! The class of a bottleneck, its evidence, and what to do next.

use serde::{Deserialize, Serialize};

use super::load::{Load, Unit};
use super::related::Related;
use super::rules::{self, Case, Finding};
use super::stalls::{StallShare, Waiting, stalls};
use super::{Circumstances, Counters};

/// What a kernel is bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Memory,
    Compute,
    Latency,
    Launch,
    Synchronisation,
    SpecialFunction,
    Occupancy,
    /// A stage of the kernel that nobody said the nature of.
    Stage,
    /// Nothing that was counted or timed tells.
    Unknown,
}

impl Class {
    pub fn in_words(self) -> &'static str {
        match self {
            Class::Memory => "memory-bound",
            Class::Compute => "compute-bound",
            Class::Latency => "latency-bound",
            Class::Launch => "launch-bound",
            Class::Synchronisation => "synchronisation-bound",
            Class::SpecialFunction => "special-function-bound",
            Class::Occupancy => "occupancy-bound",
            Class::Stage => "stage-bound",
            Class::Unknown => "not known",
        }
    }
}

/// The same, finer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Uncoalesced,
    BankConflicts,
    Spills,
    /// Too few warps, because blocks take too much of …
    SharedMemoryPerBlock,
    RegistersPerThread,
    ThreadsPerBlock,
    /// Too few blocks for the device.
    SmallGrid,
    /// Multiprocessors that are done wait for others.
    Tail,
    Barriers,
    Launches,
    Dram,
    L2,
    DataStage,
    Tensor,
    Arithmetic,
    DoublePrecision,
    SpecialFunctions,
    Divergence,
    Instructions,
    MemoryLatency,
    InstructionLatency,
    /// Units that could work at once work one after the other.
    Turns,
    /// One stage of the kernel, found by leaving it out.
    Stage,
    /// Several, each of which hides behind the others.
    StagesTogether,
    /// What stays when all stages are out.
    OutsideStages,
    /// Nothing that was counted explains the time.
    Unexplained,
}

impl Cause {
    pub fn class(self) -> Class {
        match self {
            Cause::Uncoalesced
            | Cause::BankConflicts
            | Cause::Spills
            | Cause::Dram
            | Cause::L2
            | Cause::DataStage => Class::Memory,
            Cause::Tensor
            | Cause::Arithmetic
            | Cause::DoublePrecision
            | Cause::Divergence
            | Cause::Instructions => Class::Compute,
            Cause::SpecialFunctions => Class::SpecialFunction,
            Cause::SharedMemoryPerBlock
            | Cause::RegistersPerThread
            | Cause::ThreadsPerBlock
            | Cause::SmallGrid
            | Cause::Tail => Class::Occupancy,
            Cause::Barriers => Class::Synchronisation,
            Cause::Launches => Class::Launch,
            Cause::MemoryLatency
            | Cause::InstructionLatency
            | Cause::Turns
            | Cause::OutsideStages => Class::Latency,
            Cause::Unexplained => Class::Unknown,
            Cause::Stage | Cause::StagesTogether => Class::Stage,
        }
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Cause::Uncoalesced => "uncoalesced global accesses",
            Cause::BankConflicts => "bank conflicts in shared memory",
            Cause::Spills => "registers spilled to local memory",
            Cause::SharedMemoryPerBlock => "low occupancy by shared memory",
            Cause::RegistersPerThread => "low occupancy by registers",
            Cause::ThreadsPerBlock => "low occupancy by the size of blocks",
            Cause::SmallGrid => "too few blocks to fill the device",
            Cause::Tail => "multiprocessors that run dry before the others",
            Cause::Barriers => "waiting at barriers",
            Cause::Launches => "launch overhead",
            Cause::Dram => "bandwidth of device memory",
            Cause::L2 => "bandwidth of the L2 cache",
            Cause::DataStage => "bandwidth of the L1 cache and shared memory",
            Cause::Tensor => "rate of the tensor cores",
            Cause::Arithmetic => "rate of the arithmetic pipes",
            Cause::DoublePrecision => "rate of double precision",
            Cause::SpecialFunctions => "rate of special functions",
            Cause::Divergence => "divergent branches",
            Cause::Instructions => "rate at which instructions are issued",
            Cause::MemoryLatency => "latency of memory",
            Cause::InstructionLatency => "latency of dependent instructions",
            Cause::Turns => "units that take turns",
            Cause::Stage => "one of its stages",
            Cause::StagesTogether => "stages that hide behind each other",
            Cause::OutsideStages => "what is in none of its stages",
            Cause::Unexplained => "nothing that was counted",
        }
    }
}

impl From<Unit> for Cause {
    fn from(unit: Unit) -> Cause {
        match unit {
            Unit::Dram => Cause::Dram,
            Unit::L2 => Cause::L2,
            Unit::DataStage => Cause::DataStage,
            Unit::Tensor => Cause::Tensor,
            Unit::Special => Cause::SpecialFunctions,
            Unit::Fma | Unit::Alu => Cause::Arithmetic,
            Unit::Fp64 => Cause::DoublePrecision,
            Unit::Issue => Cause::Instructions,
        }
    }
}

/// A change to try, and what it should bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Stable: how often a rule was right is kept under this name.
    pub rule: String,
    pub change: String,
    /// Because of what.
    pub evidence: String,
    /// Today's time over the time after the change, if it removes all that it is about.
    pub predicted_gain: f64,
    /// Choices of this manifest that the change can be made with, most likely first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunables: Vec<Related>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    pub class: Class,
    pub cause: Cause,
    /// In words, with numbers.
    pub evidence: Vec<String>,
    /// Part of its peak each unit reached, busiest first.
    pub load: Vec<(Unit, f64)>,
    pub stalls: Vec<StallShare>,
    /// Largest predicted gain first.
    pub advice: Vec<Advice>,
}

/// Below this an inefficiency is not what a kernel is bound by.
const LEAST_GAIN: f64 = 1.25;
/// A unit this near to what it can attain is what the others wait for.
const SATURATED: f64 = 0.8;
/// A unit this near is it, too, unless most of what it lacks is the time of another that works in turn with it.
const BUSY: f64 = 0.6;
const LEAST_TURNS: f64 = 1.2;
/// Advice that promises less is noise.
const LEAST_ADVICE: f64 = 1.03;

/// The bottleneck of one launch.
pub fn diagnose(counters: &Counters, around: &Circumstances<'_>) -> Diagnosis {
    let case = Case {
        counters,
        load: Load::of(counters),
        waiting: Waiting::of(counters),
        around,
    };
    let mut findings = rules::all(&case);
    findings.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    let (cause, mut evidence) = bound_by(&case, &findings);
    evidence.extend(background(&case));
    // The advice about what binds comes first; the rest by what it promises.
    findings.sort_by_key(|finding| finding.cause != cause);
    let advice = findings
        .into_iter()
        .filter(|finding| finding.gain >= LEAST_ADVICE)
        .map(|finding| Advice {
            rule: finding.rule.to_string(),
            change: finding.change,
            evidence: finding.evidence,
            predicted_gain: finding.gain,
            tunables: finding.tunables,
        });
    Diagnosis {
        class: cause.class(),
        cause,
        evidence,
        load: case.load.ranked(),
        stalls: stalls(counters),
        advice: advice.collect(),
    }
}

/// The largest removable inefficiency, else the busiest unit, else what warps wait for.
fn bound_by(case: &Case<'_>, findings: &[Finding]) -> (Cause, Vec<String>) {
    let removable = findings
        .iter()
        .find(|finding| finding.is_inefficiency && finding.gain >= LEAST_GAIN);
    if let Some(finding) = removable {
        return (finding.cause, vec![finding.evidence.clone()]);
    }
    let nearest = |least: f64| {
        let (unit, load) = case.load.busiest()?;
        let words = format!("{} at {:.0} % of the peak", unit.in_words(), 100.0 * load);
        (load / unit.attainable() >= least).then(|| (Cause::from(unit), vec![words]))
    };
    let turns = |least: f64| {
        let mut found = findings
            .iter()
            .filter(|f| f.cause == Cause::Turns && f.gain >= least);
        found
            .next()
            .map(|f| (Cause::Turns, vec![f.evidence.clone()]))
    };
    let by_units = nearest(SATURATED)
        .or_else(|| turns(LEAST_TURNS))
        .or_else(|| nearest(BUSY))
        .or_else(|| turns(1.0));
    if let Some(bound) = by_units {
        return bound;
    }
    let waiting = case.waiting;
    let (cause, share, what) = [
        (
            Cause::MemoryLatency,
            waiting.memory,
            "global or local memory",
        ),
        (Cause::Barriers, waiting.barrier, "barriers"),
        (
            Cause::InstructionLatency,
            waiting.plain + waiting.shared + waiting.special + waiting.wgmma + waiting.pipe,
            "results of earlier instructions",
        ),
    ]
    .into_iter()
    .fold((Cause::Unexplained, 0.0, ""), |best, next| {
        if next.1 > best.1 { next } else { best }
    });
    if cause == Cause::Unexplained {
        let words = match case.load.busiest() {
            Some(_) => "no unit is busy, and stalls were not counted",
            None => "no unit was counted",
        };
        return (cause, vec![words.into()]);
    }
    let words = format!(
        "no unit is busy, and warps spend {:.0} % of their time waiting for {what}",
        100.0 * share
    );
    (cause, vec![words])
}

/// What a reader wants to see whatever the cause.
fn background(case: &Case<'_>) -> Vec<String> {
    let c = case.counters;
    let mut lines = Vec::new();
    let ranked = case.load.ranked();
    let busy: Vec<String> = ranked
        .iter()
        .take(3)
        .map(|(unit, load)| format!("{} {:.0} %", unit.name(), 100.0 * load))
        .collect();
    if !busy.is_empty() {
        lines.push(format!("busiest: {}", busy.join(", ")));
    }
    if let (Some(achieved), Some(limit)) = (c.occupancy_pct, c.occupancy_limit_pct) {
        let limiter = rules::limiter(c).filter(|_| limit < 99.5);
        let limiter = limiter.map_or(String::new(), |(words, _)| format!(", limited by {words}"));
        lines.push(format!(
            "occupancy {achieved:.0} % of {limit:.0} % possible{limiter}"
        ));
    }
    let waits: Vec<String> = stalls(c)
        .iter()
        .take(3)
        .filter(|stall| stall.share >= 0.05)
        .map(|stall| format!("{} {:.0} %", stall.reason, 100.0 * stall.share))
        .collect();
    if !waits.is_empty() {
        lines.push(format!("warps' time: {}", waits.join(", ")));
    }
    lines
}
