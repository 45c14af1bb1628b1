//! Too little at once: launches, blocks, warps, and warps that wait for each other.

use super::{Case, Finding, percent};
use crate::bottleneck::load::Unit;
use crate::bottleneck::related::{Wanted, Wish};
use crate::bottleneck::{Cause, Counters};

/// A launch shorter than this is mostly beginning and end.
const SHORT_NS: f64 = 10e3;
/// What ncu tells of a launch that does next to nothing (H200: 2.1 us with eight blocks of one load each).
const EMPTY_NS: f64 = 1.8e3;

/// Batching is worth more than a hundredfold where a launch is a single block.
const MOST_BATCHED: f64 = 1000.0;

/// What keeps more blocks off a multiprocessor: in words, and how many blocks there are.
pub fn limiter(c: &Counters) -> Option<(&'static str, f64)> {
    let limits = limits(c);
    limits
        .into_iter()
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cause, blocks)| (limit_in_words(cause), blocks))
}

fn limit_in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::SharedMemoryPerBlock => "shared memory",
        Cause::RegistersPerThread => "registers",
        _ => "the size of blocks",
    }
}

/// Blocks per multiprocessor by each limit. What cannot be changed comes first: among equals it is named.
fn limits(c: &Counters) -> Vec<(Cause, f64)> {
    let told = [
        (Cause::ThreadsPerBlock, c.blocks_by_warps),
        (Cause::ThreadsPerBlock, c.blocks_by_slots),
        (Cause::RegistersPerThread, c.blocks_by_registers),
        (Cause::SharedMemoryPerBlock, c.blocks_by_shared),
    ];
    let known = told
        .into_iter()
        .filter_map(|(cause, blocks)| Some((cause, blocks?)));
    known.filter(|(_, blocks)| *blocks > 0.0).collect()
}

/// A launch that is over before it has begun.
pub fn launches(case: &Case<'_>) -> Option<Finding> {
    let c = case.counters;
    let duration = c.duration_ns.filter(|ns| *ns > 0.0)?;
    let waves = c.waves_exactly().filter(|waves| *waves > 0.0)?;
    if duration > SHORT_NS {
        return None;
    }
    // As many launches' blocks as fill the device once run in about the time of one, until a unit has its fill.
    // Where one fills it already, what is saved is the beginning and the end.
    let room = (1.0 / waves).clamp(1.0, MOST_BATCHED);
    let busiest = case
        .load
        .busiest()
        .map_or(0.0, |(unit, load)| load / unit.attainable());
    let by_room = room / (busiest * room).max(1.0);
    // Where every multiprocessor has a block, those without a warp have yet to begin or are done.
    let has_all_at_work = c
        .grid_blocks
        .zip(c.multiprocessors)
        .is_some_and(|(b, all)| b >= all);
    let idle = c
        .active_part()
        .filter(|_| has_all_at_work)
        .map_or(0.0, |active| 1.0 - active);
    let around = EMPTY_NS.max(duration * idle);
    let gain = by_room.max(duration / (duration - around).max(0.1 * duration));
    let idle = match idle > 0.0 {
        true => format!(
            ", whose multiprocessors have no warp for {} of that",
            percent(idle)
        ),
        false => String::new(),
    };
    let overhead = case.around.ceilings.map_or(String::new(), |ceilings| {
        format!(
            "; an empty launch takes {:.1} us of a stream of them",
            ceilings.launch_ns / 1e3
        )
    });
    Some(Finding {
        rule: "batch-launches",
        cause: Cause::Launches,
        is_inefficiency: true,
        gain,
        evidence: format!(
            "the launch takes {:.1} us and fills {} of the device{idle}{overhead}",
            duration / 1e3,
            percent_fine(waves.min(1.0))
        ),
        change: format!(
            "do the work of several launches in one: batch, fuse with a neighbour, or stay resident and loop (the \
             blocks of {room:.0} of them fit on the device at once)"
        ),
        tunables: Vec::new(),
    })
}

fn percent_fine(fraction: f64) -> String {
    match fraction < 0.1 {
        true => format!("{:.1} %", 100.0 * fraction),
        false => percent(fraction),
    }
}

/// A long launch of too few blocks.
pub fn small_grid(case: &Case<'_>) -> Option<Finding> {
    let c = case.counters;
    let (waves, blocks) = (c.waves_exactly()?, c.grid_blocks?);
    if c.duration_ns? <= SHORT_NS || waves >= 0.95 {
        return None;
    }
    let idle = match c.multiprocessors {
        Some(all) if blocks < all => 1.0 - blocks / all,
        _ => 1.0 - c.active_part().unwrap_or(1.0),
    };
    // Twice as many blocks of half the size: idle multiprocessors get their share of the work.
    let gain = case.load.gain(1.0 - idle, |_| 1.0);
    Some(Finding {
        rule: "fill-the-device",
        cause: Cause::SmallGrid,
        is_inefficiency: true,
        gain,
        evidence: format!(
            "{blocks:.0} blocks are {} of what the device holds at once, and {} of the multiprocessors' time is idle",
            percent(waves),
            percent(idle)
        ),
        change: "split the work into more blocks: smaller tiles, or several blocks along the reduction (split-K)".into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["SPLIT", "BLOCK", "TILE"],
            wanted: Wanted::Any,
        }),
    })
}

/// Some multiprocessors are done long before others.
pub fn tail(case: &Case<'_>) -> Option<Finding> {
    let c = case.counters;
    let (waves, active) = (c.waves_exactly()?, c.active_part()?);
    if waves < 0.95 || active > 0.85 || c.duration_ns? <= SHORT_NS {
        return None;
    }
    Some(Finding {
        rule: "even-out-blocks",
        cause: Cause::Tail,
        is_inefficiency: true,
        gain: case.load.gain(active, |_| 1.0),
        evidence: format!(
            "a multiprocessor has work for {} of the time: {waves:.1} waves of blocks",
            percent(active)
        ),
        change: "make blocks smaller or equally long, or launch as many as fit and let them fetch work (persistent)".into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["BLOCK", "TILE", "PERSISTENT", "SPLIT"],
            wanted: Wanted::Any,
        }),
    })
}

/// Too few warps to hide what each waits for.
pub fn occupancy(case: &Case<'_>) -> Option<Finding> {
    let c = case.counters;
    let limit = c.occupancy_limit_pct.or(c.occupancy_pct)? / 100.0;
    let all = limits(c);
    let (cause, blocks) = all.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let of_others = all.iter().filter(|(other, _)| *other != cause);
    let next = of_others
        .map(|(_, blocks)| *blocks)
        .fold(f64::INFINITY, f64::min);
    // wgmma is meant to run with few warps: its results are waited for, not hidden.
    if limit >= 0.5 || c.uses_wgmma() || !next.is_finite() {
        return None;
    }
    // No more blocks than the grid has, and no more warps than a multiprocessor holds.
    let offered = match (c.grid_blocks, c.multiprocessors) {
        (Some(grid), Some(all)) if all > 0.0 => (grid / all).max(1.0),
        _ => f64::INFINITY,
    };
    let more = match cause {
        // Larger blocks: up to full.
        Cause::ThreadsPerBlock => 1.0 / limit,
        _ => (next / blocks).min(offered / blocks).min(1.0 / limit),
    };
    if more < 1.5 {
        return None;
    }
    // Throughput grows with the warps in flight until a unit has its fill. Only waiting that other warps can fill
    // counts: at a barrier they wait together.
    let hidden = 1.0 - case.waiting.barrier;
    let gain = case.load.gain(1.0 - hidden * (1.0 - 1.0 / more), |_| 1.0);
    let needs = match cause {
        Cause::SharedMemoryPerBlock => {
            let bytes =
                c.shared_dynamic_bytes.unwrap_or(0.0) + c.shared_static_bytes.unwrap_or(0.0);
            format!(": {:.0} KiB of shared memory per block", bytes / 1024.0)
        }
        Cause::RegistersPerThread => c
            .registers
            .map_or(String::new(), |n| format!(": {n:.0} registers per thread")),
        _ => c
            .block_threads
            .map_or(String::new(), |n| format!(": {n:.0} threads per block")),
    };
    let (rule, change, wish) = match cause {
        Cause::SharedMemoryPerBlock => (
            "fit-more-blocks-by-shared-memory",
            "use less shared memory per block (fewer stages, smaller tiles, narrower types), or give a block more warps \
             that share it",
            Wish {
                shared: Some(Wanted::Smaller),
                block: Some(Wanted::Larger),
                words: &["STAGES", "TILE", "BLOCK"],
                wanted: Wanted::Smaller,
            },
        ),
        Cause::RegistersPerThread => (
            "fit-more-blocks-by-registers",
            "use fewer registers per thread: smaller tiles per thread, less unrolling, `__launch_bounds__` with more \
             blocks (as long as nothing spills)",
            Wish {
                shared: None,
                block: None,
                words: &["UNROLL", "TILE", "ROWS", "COLS", "BLOCK"],
                wanted: Wanted::Smaller,
            },
        ),
        _ => (
            "larger-blocks",
            "launch blocks of more warps: a multiprocessor holds a limited number of blocks",
            Wish {
                shared: None,
                block: Some(Wanted::Larger),
                words: &["WARPS", "THREADS"],
                wanted: Wanted::Larger,
            },
        ),
    };
    Some(Finding {
        rule,
        cause,
        is_inefficiency: true,
        gain,
        evidence: format!(
            "at most {} of the warps fit, by {}{needs}; {more:.1} times as many could, and the busiest unit is at {}",
            percent(limit),
            limit_in_words(cause),
            percent(case.load.busiest().map_or(0.0, |(_, load)| load))
        ),
        change: change.into(),
        tunables: case.related(&wish),
    })
}

/// Warps that wait for the slowest of their block.
pub fn barriers(case: &Case<'_>) -> Option<Finding> {
    let waiting = case.waiting.barrier;
    if waiting < 0.15 {
        return None;
    }
    Some(Finding {
        rule: "synchronise-less",
        cause: Cause::Barriers,
        // Warps with roles (who loads, who multiplies) hand over at barriers, and the one that waits keeps nobody.
        is_inefficiency: !case.counters.uses_wgmma(),
        gain: case.load.gain(1.0 - waiting, |_| 1.0),
        evidence: format!(
            "warps spend {} of their time at barriers of the block, and instructions are issued in {} of the clocks",
            percent(waiting),
            percent(case.load.get(Unit::Issue))
        ),
        change: "meet less often: barriers of a warp (`__syncwarp`, shuffles) or of a group of warps, several steps \
                 between barriers, or work that takes all warps equally long"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: Some(Wanted::Smaller),
            words: &["SYNC", "BARRIER", "STAGES", "STEPS"],
            wanted: Wanted::Any,
        }),
    })
}
