//! Bytes that need not move, and those that move badly.

use super::{Case, Finding, memory_waiting_after, percent, waiting_after};
use crate::bottleneck::Cause;
use crate::bottleneck::load::Unit;
use crate::bottleneck::related::{Wanted, Wish};

const SECTOR_BYTES: f64 = 32.0;

/// Sectors fetched for bytes nobody asked for.
pub fn uncoalesced(case: &Case<'_>) -> Option<Finding> {
    let c = case.counters;
    let sides = [
        (
            c.global_load_sectors,
            c.global_load_bytes_per_sector,
            c.global_load_requests,
        ),
        (
            c.global_store_sectors,
            c.global_store_bytes_per_sector,
            c.global_store_requests,
        ),
    ];
    let (mut sectors, mut used, mut requests) = (0.0, 0.0, 0.0);
    for (side_sectors, bytes, side_requests) in sides {
        let side = side_sectors.unwrap_or(0.0);
        sectors += side;
        requests += side_requests.unwrap_or(0.0);
        // A side nobody counted is taken to be in order; so are sectors without a byte that was asked for, which
        // asynchronous copies to shared memory leave behind: their sectors are counted, their bytes are not.
        let bytes = bytes.filter(|bytes| *bytes > 0.0).unwrap_or(SECTOR_BYTES);
        used += side * (bytes / SECTOR_BYTES).clamp(0.0, 1.0);
    }
    if sectors <= 0.0 || requests <= 0.0 {
        return None;
    }
    let left = used / sectors;
    if left > 0.8 {
        return None;
    }
    // What caches gave back to other warps did not move between memory and L2, and will not move less.
    let asked_bytes = used * SECTOR_BYTES;
    let moved = c.dram_read_bytes.unwrap_or(0.0) + c.dram_write_bytes.unwrap_or(0.0);
    // Memory moves in units larger than a sector, and a sector written in part is read first, so that it may shed
    // more than the sectors do.
    let dram_left = if moved > 0.0 {
        (asked_bytes / moved).min(1.0)
    } else {
        left
    };
    let wavefronts = c.data_stage_wavefronts.unwrap_or(0.0);
    let shared = c.shared_wavefronts.unwrap_or(0.0);
    let global_part = if wavefronts > 0.0 {
        ((wavefronts - shared) / wavefronts).clamp(0.0, 1.0)
    } else {
        1.0
    };
    let gain = case
        .load
        .gain(memory_waiting_after(case, left), |unit| match unit {
            Unit::Dram => dram_left,
            // Part of its traffic is with the memory behind it.
            Unit::L2 => left.min(dram_left),
            Unit::DataStage => 1.0 - global_part * (1.0 - left),
            _ => 1.0,
        });
    Some(Finding {
        rule: "coalesce-global-accesses",
        cause: Cause::Uncoalesced,
        is_inefficiency: true,
        gain,
        evidence: format!(
            "{:.1} sectors of 32 bytes per global request, and {} of their bytes are used",
            sectors / requests,
            percent(left)
        ),
        change: "let neighbouring threads access neighbouring addresses: swap the loop that `threadIdx.x` walks, or \
                 go through a tile in shared memory"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["STRIDE", "LAYOUT", "TRANSPOSE", "COALESCE", "VECTOR", "VEC", "ORDER"],
            wanted: Wanted::Any,
        }),
    })
}

/// Turns at the banks of shared memory that a better layout would not need.
pub fn bank_conflicts(case: &Case<'_>) -> Option<Finding> {
    let c = case.counters;
    let conflicts = c.shared_conflicts.or_else(|| {
        let (loads, stores) = (c.shared_load_conflicts, c.shared_store_conflicts);
        (loads.is_some() || stores.is_some()).then(|| loads.unwrap_or(0.0) + stores.unwrap_or(0.0))
    })?;
    let shared = c.shared_wavefronts?;
    if shared <= 0.0 || conflicts / shared < 0.05 {
        return None;
    }
    let left = (1.0 - conflicts / shared).clamp(0.0, 1.0);
    let all = c.data_stage_wavefronts.unwrap_or(shared).max(shared);
    let stage_left = 1.0 - (conflicts / all).clamp(0.0, 1.0);
    let gain = case.load.gain(
        waiting_after(case.waiting.shared, left),
        |unit| match unit {
            Unit::DataStage => stage_left,
            _ => 1.0,
        },
    );
    Some(Finding {
        rule: "avoid-bank-conflicts",
        cause: Cause::BankConflicts,
        is_inefficiency: true,
        gain,
        evidence: format!(
            "{} of the wavefronts to shared memory are bank conflicts: {:.1} turns where one would do",
            percent(conflicts / shared),
            1.0 / left.max(1e-3)
        ),
        change: "pad the rows of the tile by one access, or swizzle its columns".into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["PAD", "SWIZZLE", "SKEW"],
            wanted: Wanted::Any,
        }),
    })
}

/// Local memory traffic of registers that did not fit.
pub fn spills(case: &Case<'_>) -> Option<Finding> {
    let c = case.counters;
    let requests = c.local_load_requests.unwrap_or(0.0) + c.local_store_requests.unwrap_or(0.0);
    let sectors = c.local_load_sectors.unwrap_or(0.0) + c.local_store_sectors.unwrap_or(0.0);
    let instructions = c.instructions?;
    if requests <= 0.0 || instructions <= 0.0 {
        return None;
    }
    let global = c.global_load_requests.unwrap_or(0.0) + c.global_store_requests.unwrap_or(0.0);
    let global_sectors =
        c.global_load_sectors.unwrap_or(0.0) + c.global_store_sectors.unwrap_or(0.0);
    let of_instructions = (requests / instructions).clamp(0.0, 1.0);
    let of_requests = requests / (requests + global);
    let of_sectors = sectors / (sectors + global_sectors).max(1.0);
    // A local access of a whole warp is one wavefront.
    let wavefronts = c
        .data_stage_wavefronts
        .unwrap_or(requests + global)
        .max(requests);
    let gain = case.load.gain(
        waiting_after(case.waiting.memory, 1.0 - of_requests),
        |unit| match unit {
            Unit::Dram | Unit::L2 => 1.0 - of_sectors,
            Unit::DataStage => 1.0 - requests / wavefronts,
            Unit::Issue => 1.0 - of_instructions,
            _ => 1.0,
        },
    );
    let compiled = case.around.resources.map_or(String::new(), |r| {
        format!(
            "; the compiler spilled {} bytes per thread at {} registers",
            r.spill_store_bytes, r.registers
        )
    });
    Some(Finding {
        rule: "stop-spilling",
        cause: Cause::Spills,
        is_inefficiency: true,
        gain,
        evidence: format!(
            "{} of the instructions and {} of the memory requests are to local memory{compiled}",
            percent(of_instructions),
            percent(of_requests)
        ),
        change: "keep fewer values per thread (smaller tiles, less unrolling), or allow more registers: \
                 fewer blocks in `__launch_bounds__`, fewer threads per block"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: Some(Wanted::Smaller),
            words: &["BLOCKS", "MINBLOCKS", "UNROLL", "TILE", "VALUES", "ROWS", "COLS", "STAGES", "BLOCK", "MAXREG"],
            wanted: Wanted::Smaller,
        }),
    })
}

/// More bytes through device memory than the task needs.
pub fn excess_bytes(case: &Case<'_>) -> Option<Finding> {
    let c = case.counters;
    let needed = case.around.bytes.filter(|bytes| *bytes > 0.0)?;
    let moved = c.dram_read_bytes? + c.dram_write_bytes?;
    if moved < 1.15 * needed {
        return None;
    }
    let left = needed / moved;
    let gain = case
        .load
        .gain(memory_waiting_after(case, left), |unit| match unit {
            Unit::Dram => left,
            // What is not fetched again does not pass the L2 cache either.
            Unit::L2 => left,
            _ => 1.0,
        });
    Some(Finding {
        rule: "move-fewer-bytes",
        cause: Cause::Dram,
        is_inefficiency: false,
        gain,
        evidence: format!(
            "{:.3} GB pass through device memory, {:.2} times the {:.3} GB that [work] asks for",
            moved / 1e9,
            moved / needed,
            needed / 1e9
        ),
        change: "read everything once: keep what is used again in registers or shared memory, fuse passes, walk blocks \
                 so that neighbours meet in the L2 cache"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["MARCH", "FUSE", "GROUP", "REUSE", "TILE", "BLOCK", "ITEMS", "ROWS"],
            wanted: Wanted::Any,
        }),
    })
}

/// Nothing is wasted, and the memory is busy.
pub fn at_the_bandwidth(case: &Case<'_>) -> Option<Finding> {
    let load = case.load.get(Unit::Dram);
    // Other types are another task: what this one wastes comes first.
    if load < 0.6 || excess_bytes(case).is_some() {
        return None;
    }
    let attainable = Unit::Dram.attainable();
    Some(Finding {
        rule: "narrow-the-data",
        cause: Cause::Dram,
        is_inefficiency: false,
        // Half the bytes, as f16 in place of f32 would be.
        gain: case.load.gain(memory_waiting_after(case, 0.5), |unit| match unit {
            Unit::Dram | Unit::L2 => 0.5,
            _ => 1.0,
        }),
        evidence: format!(
            "device memory is at {}, of {} that can be had",
            percent(load),
            percent(attainable)
        ),
        change: "store narrower types (half the bytes are half the time), or fuse with the kernel before or after, \
                 whose intermediate then needs no memory"
            .into(),
        tunables: Vec::new(),
    })
}

/// The L2 cache is what all wait for.
pub fn l2_traffic(case: &Case<'_>) -> Option<Finding> {
    let load = case.load.get(Unit::L2);
    let (busiest, _) = case.load.busiest()?;
    if busiest != Unit::L2 || load < 0.6 {
        return None;
    }
    Some(Finding {
        rule: "reuse-before-the-l2-cache",
        cause: Cause::L2,
        is_inefficiency: false,
        gain: case.load.gain(memory_waiting_after(case, 0.5), |unit| match unit {
            Unit::L2 => 0.5,
            _ => 1.0,
        }),
        evidence: format!("the L2 cache is at {} of its bandwidth", percent(load)),
        change: "larger tiles in shared memory, or clusters that share them: each byte is then asked for less often"
            .into(),
        tunables: case.related(&Wish {
            shared: Some(Wanted::Larger),
            block: None,
            words: &["TILE", "BLOCK", "CLUSTER"],
            wanted: Wanted::Larger,
        }),
    })
}

/// Warps wait for memory that is not busy.
pub fn loads_in_flight(case: &Case<'_>) -> Option<Finding> {
    let memory = case.waiting.memory;
    let busy = case.load.get(Unit::Dram).max(case.load.get(Unit::L2));
    if memory < 0.3 || busy > 0.6 {
        return None;
    }
    Some(Finding {
        rule: "more-loads-in-flight",
        cause: Cause::MemoryLatency,
        is_inefficiency: false,
        // Twice as many loads per thread before the first use: half the waits.
        gain: case.load.gain(waiting_after(memory, 0.5), |_| 1.0),
        evidence: format!(
            "warps wait {} of their time for global or local memory, which is at {}",
            percent(memory),
            percent(busy)
        ),
        change: "issue several independent loads before the first use: unroll, load 16 bytes at a time, or copy \
                 ahead with `cp.async` or TMA into more stages"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["STAGES", "UNROLL", "PREFETCH", "ASYNC", "CP", "ITEMS", "VECTOR", "VEC"],
            wanted: Wanted::Larger,
        }),
    })
}
