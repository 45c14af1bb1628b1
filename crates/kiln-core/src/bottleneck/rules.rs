//! From evidence to the next change: each rule is one inefficiency, and what its removal would bring.
//!
//! A gain is today's time over the time after. It is bounded twice: by the work that is left for each unit
//! ([`Load::floor_after`]), for nothing is faster than its busiest unit; and by the waiting that is left, for a warp's
//! time between two instructions is the sum of what it waits for (a stall's share of it is what removing that
//! stall saves, other things being equal). Rules know only what was counted: how a kernel was made to be slow is not
//! among it.

mod compute;
mod memory;
mod parallelism;

use super::load::Load;
use super::related::{self, Related, Wish};
use super::stalls::Waiting;
use super::{Cause, Circumstances, Counters};

pub use parallelism::limiter;

/// All there is to judge by.
pub struct Case<'a> {
    pub counters: &'a Counters,
    pub load: Load,
    pub waiting: Waiting,
    pub around: &'a Circumstances<'a>,
}

impl Case<'_> {
    fn related(&self, wish: &Wish<'_>) -> Vec<Related> {
        related::find(self.around.choices, wish)
    }
}

/// A rule that applies.
#[derive(Clone, Debug)]
pub struct Finding {
    pub rule: &'static str,
    pub cause: Cause,
    /// Something that can be removed; otherwise work that has to be done in another way.
    pub is_inefficiency: bool,
    pub gain: f64,
    pub evidence: String,
    pub change: String,
    pub tunables: Vec<Related>,
}

type Rule = fn(&Case<'_>) -> Option<Finding>;

const RULES: &[Rule] = &[
    memory::uncoalesced,
    memory::bank_conflicts,
    memory::spills,
    memory::excess_bytes,
    memory::at_the_bandwidth,
    memory::l2_traffic,
    memory::loads_in_flight,
    compute::divergence,
    compute::excess_products,
    compute::wgmma,
    compute::special_functions,
    compute::polynomial,
    compute::instructions,
    compute::independent_instructions,
    compute::turns,
    parallelism::launches,
    parallelism::small_grid,
    parallelism::tail,
    parallelism::occupancy,
    parallelism::barriers,
];

pub fn all(case: &Case<'_>) -> Vec<Finding> {
    RULES.iter().filter_map(|rule| rule(case)).collect()
}

/// `0.873` as `87 %`.
fn percent(fraction: f64) -> String {
    format!("{:.0} %", 100.0 * fraction)
}

/// What is left of warps' time when a part of it becomes `left` of what it was.
fn waiting_after(share: f64, left: f64) -> f64 {
    1.0 - share * (1.0 - left.clamp(0.0, 1.0))
}

/// Clocks from a load of device memory to its use, when nobody else is in the way (H200: 695).
const IDLE_MEMORY_CLOCKS: f64 = 700.0;

/// The same for waits for memory that has `left` of its work. Most of a wait for busy memory is a queue, which goes
/// when the work does: what stays is at most the latency of idle memory, once for every load of a warp, with the warps
/// of a multiprocessor side by side.
fn memory_waiting_after(case: &Case<'_>, left: f64) -> f64 {
    let c = case.counters;
    let memory = case.waiting.memory;
    let idle = (|| {
        let loads = c.global_load_requests? / c.multiprocessors?;
        let warps = c.occupancy_pct? / 100.0 * WARPS;
        Some(loads * IDLE_MEMORY_CLOCKS / warps / c.sm_cycles?)
    })();
    let stays = match idle.filter(|idle| idle.is_finite()) {
        Some(idle) => idle.min(memory * left),
        None => memory * left,
    };
    1.0 - memory + stays
}

/// Warps a multiprocessor has room for; fewer on small devices, where the estimate is then too careful.
const WARPS: f64 = 64.0;
