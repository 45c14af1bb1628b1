//! How many blocks of a kernel a multiprocessor holds at once.
//!
//! The rules of the driver's `cuOccupancyMaxActiveBlocksPerMultiprocessor`, with all of the L1 cache
//! that can be given to shared memory given to it. Checked against NVIDIA's `cuda_occupancy.h`
//! (`tests/occupancy_oracles.rs`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::architecture::{Architecture, SUB_PARTITIONS, WARP_THREADS};
use crate::protocol::Resources;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// 0: the kernel cannot be launched like this.
    pub blocks_per_multiprocessor: u32,
    pub warps_per_multiprocessor: u32,
    /// Part of the warps a multiprocessor has room for, from 0 to 1.
    pub fraction: f64,
    /// What would have to be less for one more block.
    pub limiter: Limiter,
}

/// In the order they are named when several bind at once: what cannot be changed comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    Threads,
    Blocks,
    Registers,
    SharedMemory,
    Barriers,
}

/// Occupancy of a kernel that uses `resources`, launched in blocks of `threads_per_block` with
/// `dynamic_shared_bytes` each.
pub fn occupancy(
    architecture: &Architecture,
    resources: &Resources,
    dynamic_shared_bytes: u32,
    threads_per_block: u32,
) -> Occupancy {
    let warps = threads_per_block.div_ceil(WARP_THREADS);
    let limits = [
        (
            Limiter::Threads,
            by_threads(architecture, threads_per_block),
        ),
        (Limiter::Blocks, architecture.blocks_per_multiprocessor),
        (
            Limiter::Registers,
            by_registers(architecture, resources.registers, warps),
        ),
        (
            Limiter::SharedMemory,
            by_shared(
                architecture,
                resources.static_shared_bytes,
                dynamic_shared_bytes,
            ),
        ),
        (
            Limiter::Barriers,
            by_barriers(architecture, resources.barriers),
        ),
    ];
    let (limiter, blocks) = limits
        .into_iter()
        .min_by_key(|(_, blocks)| *blocks)
        .expect("the list is not empty");
    let resident = blocks * warps;
    Occupancy {
        blocks_per_multiprocessor: blocks,
        warps_per_multiprocessor: resident,
        fraction: f64::from(resident) / f64::from(architecture.warps_per_multiprocessor().max(1)),
        limiter,
    }
}

/// Registers of one block as they are allocated: in units, warp by warp.
pub fn registers_of_block(architecture: &Architecture, registers: u32, threads: u32) -> u64 {
    u64::from(registers_of_warp(architecture, registers))
        * u64::from(threads.div_ceil(WARP_THREADS))
}

fn registers_of_warp(architecture: &Architecture, registers: u32) -> u32 {
    registers
        .saturating_mul(WARP_THREADS)
        .checked_next_multiple_of(architecture.register_unit)
        .unwrap_or(u32::MAX)
}

fn by_threads(architecture: &Architecture, threads: u32) -> u32 {
    if threads == 0 || threads > architecture.threads_per_block {
        return 0;
    }
    architecture.warps_per_multiprocessor() / threads.div_ceil(WARP_THREADS)
}

/// Registers belong to warps, and a warp to one of four partitions with a quarter of the registers.
fn by_registers(architecture: &Architecture, registers: u32, warps: u32) -> u32 {
    if registers == 0 || warps == 0 {
        return u32::MAX;
    }
    if registers > architecture.registers_per_thread + 1 {
        return 0;
    }
    let per_warp = registers_of_warp(architecture, registers);
    // The hardware's own check of a launch counts as if every partition got the same.
    let assumed = u64::from(per_warp) * u64::from(warps).next_multiple_of(SUB_PARTITIONS.into());
    if assumed > u64::from(architecture.registers_per_block) {
        return 0;
    }
    let per_partition = architecture.registers_per_multiprocessor / SUB_PARTITIONS;
    per_partition / per_warp * SUB_PARTITIONS / warps
}

fn by_shared(architecture: &Architecture, fixed: u32, dynamic: u32) -> u32 {
    let used = u64::from(fixed) + u64::from(dynamic);
    let reserved = u64::from(architecture.shared_reserved_per_block);
    let allocated = (used + reserved).next_multiple_of(architecture.shared_unit.into());
    let most = u64::from(architecture.shared_per_block_optin) + reserved;
    if allocated > most {
        return 0;
    }
    match allocated {
        0 => u32::MAX,
        bytes => (u64::from(architecture.shared_per_multiprocessor) / bytes) as u32,
    }
}

fn by_barriers(architecture: &Architecture, barriers: u32) -> u32 {
    architecture
        .barriers_per_multiprocessor
        .and_then(|available| available.checked_div(barriers))
        .unwrap_or(u32::MAX)
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limiter::Threads => "threads",
            Limiter::Blocks => "blocks",
            Limiter::Registers => "registers",
            Limiter::SharedMemory => "shared memory",
            Limiter::Barriers => "barriers",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(
        name: &str,
        registers: u32,
        fixed: u32,
        dynamic: u32,
        threads: u32,
    ) -> (u32, Limiter) {
        let architecture = Architecture::parse(name).unwrap();
        let resources = Resources {
            registers,
            static_shared_bytes: fixed,
            barriers: 1,
            ..Resources::default()
        };
        let found = occupancy(&architecture, &resources, dynamic, threads);
        (found.blocks_per_multiprocessor, found.limiter)
    }

    #[test]
    fn well_known_values() {
        use Limiter::*;
        assert_eq!(blocks("sm_80", 32, 0, 0, 256), (8, Threads));
        assert_eq!(blocks("sm_80", 32, 0, 0, 32), (32, Blocks));
        // 33 registers become 40 per thread: 48 warps instead of 64.
        assert_eq!(blocks("sm_80", 33, 0, 0, 256), (6, Registers));
        assert_eq!(blocks("sm_90", 168, 0, 0, 384), (1, Registers));
        assert_eq!(blocks("sm_90", 128, 0, 0, 512), (1, Registers));
        // 48 KiB and the reserved one: four in 228.
        assert_eq!(blocks("sm_90", 32, 0, 48 << 10, 128), (4, SharedMemory));
        assert_eq!(blocks("sm_90", 32, 0, 227 << 10, 128), (1, SharedMemory));
        assert_eq!(blocks("sm_90", 32, 1, 227 << 10, 128), (0, SharedMemory));
        assert_eq!(blocks("sm_86", 32, 0, 0, 1024), (1, Threads));
        assert_eq!(blocks("sm_80", 65, 0, 0, 1024), (0, Registers));
        assert_eq!(blocks("sm_80", 16, 0, 0, 1025).0, 0);
        assert_eq!(blocks("sm_80", 16, 0, 0, 0).0, 0);
    }

    #[test]
    fn registers_are_allocated_warp_by_warp() {
        let architecture = Architecture::parse("sm_90").unwrap();
        let of_block = |registers, threads| registers_of_block(&architecture, registers, threads);
        // 33 become 40, and 100 threads are four warps.
        assert_eq!(of_block(33, 100), 40 * 128);
        assert_eq!(of_block(64, 1024), 65_536);
        assert_eq!(of_block(0, 1024), 0);
        assert!(of_block(u32::MAX, u32::MAX) > 1 << 32);
    }

    #[test]
    fn a_fraction_of_the_warps() {
        let architecture = Architecture::parse("sm_90").unwrap();
        let resources = Resources {
            registers: 64,
            barriers: 16,
            ..Resources::default()
        };
        let found = occupancy(&architecture, &resources, 0, 100);
        // 64 barriers for 16 a block; 100 threads are four warps.
        assert_eq!(found.limiter, Limiter::Barriers);
        assert_eq!(found.warps_per_multiprocessor, 16);
        assert_eq!(found.fraction, 0.25);
    }

    #[test]
    fn extreme_numbers_are_no_overflow() {
        let architecture = Architecture::parse("sm_90").unwrap();
        let resources = Resources {
            registers: u32::MAX,
            static_shared_bytes: u32::MAX,
            barriers: u32::MAX,
            ..Resources::default()
        };
        let found = occupancy(&architecture, &resources, u32::MAX, u32::MAX);
        assert_eq!(found.blocks_per_multiprocessor, 0);
    }
}
