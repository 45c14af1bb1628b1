//! What warps wait for between two of their instructions.

use serde::{Deserialize, Serialize};

use super::Counters;

/// One reason, and its part of the time warps spend between instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StallShare {
    pub reason: String,
    pub share: f64,
}

const BARRIER: &str = "barriers of the block";
const MEMORY: &str = "global or local memory";
const MEMORY_QUEUE: &str = "the queue to global and local memory";
const SHARED: &str = "shared memory or special functions";
const SHARED_QUEUE: &str = "the queue to shared memory and special functions";
const PIPE: &str = "an arithmetic pipe that is busy";
const WGMMA: &str = "wgmma results";
const WAIT: &str = "the fixed latency of the last instruction";
const SELECTED: &str = "issuing";
const DRAIN: &str = "stores at the end";

/// All reasons, largest first; empty where none was counted.
pub fn stalls(counters: &Counters) -> Vec<StallShare> {
    let c = counters;
    let told = [
        (BARRIER, c.stall_barrier),
        ("branches", c.stall_branch),
        ("dispatch", c.stall_dispatch),
        (DRAIN, c.stall_drain),
        (WGMMA, c.stall_wgmma),
        ("constants", c.stall_constant),
        (MEMORY_QUEUE, c.stall_memory_queue),
        (MEMORY, c.stall_memory),
        (PIPE, c.stall_pipe),
        ("memory fences", c.stall_fence),
        (SHARED_QUEUE, c.stall_shared_queue),
        ("other reasons", c.stall_other),
        ("instructions to be fetched", c.stall_fetch),
        ("others that were issued first", c.stall_not_selected),
        (SELECTED, c.stall_selected),
        (SHARED, c.stall_shared),
        ("sleep", c.stall_sleep),
        ("the texture queue", c.stall_texture),
        (WAIT, c.stall_wait),
    ];
    let all: f64 = told.iter().filter_map(|(_, v)| *v).sum();
    if all <= 0.0 {
        return Vec::new();
    }
    let mut shares: Vec<StallShare> = told
        .into_iter()
        .filter_map(|(reason, value)| {
            Some(StallShare {
                reason: reason.to_string(),
                share: value? / all,
            })
        })
        .filter(|stall| stall.share > 0.0)
        .collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

/// Parts of a warp's time, grouped the way rules ask.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    pub barrier: f64,
    /// For global or local memory, or for room in its queues.
    pub memory: f64,
    /// The same for shared memory.
    pub shared: f64,
    /// The same for special functions.
    pub special: f64,
    pub pipe: f64,
    pub wgmma: f64,
    /// For the latency of plain instructions.
    pub plain: f64,
    pub issuing: f64,
}

impl Waiting {
    pub fn of(counters: &Counters) -> Waiting {
        let shares = stalls(counters);
        let sum = |reasons: &[&str]| -> f64 {
            let wanted = shares
                .iter()
                .filter(|s| reasons.contains(&s.reason.as_str()));
            wanted.map(|s| s.share).sum()
        };
        // One queue leads to shared memory, special functions and the memory pipeline alike, and a wait there does
        // not say for which. It is shared out by the clocks each of them is kept busy.
        let queue = sum(&[SHARED, SHARED_QUEUE]);
        let [to_memory, to_shared, to_special] = queue_parts(counters);
        Waiting {
            barrier: sum(&[BARRIER]),
            memory: sum(&[MEMORY, MEMORY_QUEUE, DRAIN]) + queue * to_memory,
            shared: queue * to_shared,
            special: queue * to_special,
            pipe: sum(&[PIPE]),
            wgmma: sum(&[WGMMA]),
            plain: sum(&[WAIT]),
            issuing: sum(&[SELECTED]),
        }
    }
}

/// Clocks of a multiprocessor for a special function of a whole warp: 16 threads a clock.
const SPECIAL_CLOCKS: f64 = 2.0;

/// Parts of the common queue's work: global and local memory, shared memory, special functions.
fn queue_parts(c: &Counters) -> [f64; 3] {
    let shared = c.shared_wavefronts.unwrap_or(0.0);
    let memory = (c.data_stage_wavefronts.unwrap_or(0.0) - shared).max(0.0);
    let special = c.special_instructions.unwrap_or(0.0) * SPECIAL_CLOCKS;
    let all = memory + shared + special;
    match all > 0.0 {
        true => [memory / all, shared / all, special / all],
        // Nothing was counted: the name of the stall says shared memory.
        false => [0.0, 1.0, 0.0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_one() {
        let counters = Counters {
            stall_barrier: Some(6.0),
            stall_memory: Some(1.0),
            stall_memory_queue: Some(1.0),
            stall_selected: Some(2.0),
            ..Counters::default()
        };
        let shares = stalls(&counters);
        assert_eq!(shares[0].reason, BARRIER);
        assert!((shares.iter().map(|s| s.share).sum::<f64>() - 1.0).abs() < 1e-12);
        let waiting = Waiting::of(&counters);
        assert!((waiting.barrier - 0.6).abs() < 1e-12);
        assert!((waiting.memory - 0.2).abs() < 1e-12);
        assert!(stalls(&Counters::default()).is_empty());
    }
}
