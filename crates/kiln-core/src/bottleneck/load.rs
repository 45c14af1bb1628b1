//! How busy each unit of the device was, and what a launch would take if some had less to do.

use serde::{Deserialize, Serialize};

use super::Counters;

/// A part of the device that can be the one all others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Dram,
    L2,
    /// The L1 cache's data stage: one wavefront a clock for global, local and shared memory together.
    DataStage,
    Tensor,
    Special,
    Fma,
    Alu,
    Fp64,
    /// The schedulers: one instruction a clock each.
    Issue,
}

impl Unit {
    pub fn in_words(self) -> &'static str {
        match self {
            Unit::Dram => "device memory",
            Unit::L2 => "the L2 cache",
            Unit::DataStage => "the L1 cache's data stage (shared, local and global accesses)",
            Unit::Tensor => "the tensor cores",
            Unit::Special => "the special-function units",
            Unit::Fma => "the multiply-add pipes",
            Unit::Alu => "the integer and logic pipes",
            Unit::Fp64 => "the double-precision pipes",
            Unit::Issue => "the instruction schedulers",
        }
    }

    /// For lists.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Dram => "device memory",
            Unit::L2 => "L2 cache",
            Unit::DataStage => "L1 data stage",
            Unit::Tensor => "tensor cores",
            Unit::Special => "special functions",
            Unit::Fma => "multiply-add",
            Unit::Alu => "integer and logic",
            Unit::Fp64 => "double precision",
            Unit::Issue => "issue",
        }
    }

    /// The most of its nominal peak that a kernel which does nothing else was seen to reach (H200, ncu 2025.3:
    /// streams 0.92 of the memory's bandwidth, register loops 0.98 of the schedulers and pipes, conflicts 0.999 of the
    /// data stage). A prediction that hopes for more is a dream.
    pub fn attainable(self) -> f64 {
        match self {
            Unit::Dram => 0.92,
            Unit::DataStage | Unit::Issue => 0.95,
            Unit::L2 | Unit::Tensor | Unit::Special | Unit::Fma | Unit::Alu | Unit::Fp64 => 0.97,
        }
    }
}

/// Part of its peak that each unit reached, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    units: Vec<(Unit, f64)>,
}

impl Load {
    pub fn of(counters: &Counters) -> Load {
        // Pipes are told as a part of the clocks in which a multiprocessor had work; a grid too small for the
        // device leaves the others idle, and the launch's time counts all of them.
        let active = counters.active_part().unwrap_or(1.0);
        let told = [
            (Unit::Dram, counters.dram_pct, 1.0),
            (Unit::L2, counters.l2_pct, 1.0),
            (Unit::DataStage, counters.data_stage_pct, active),
            (Unit::Tensor, counters.tensor_pct, active),
            (Unit::Special, counters.special_pct, active),
            (Unit::Fma, counters.fma_pct, active),
            (Unit::Alu, counters.alu_pct, active),
            (Unit::Fp64, counters.fp64_pct, active),
            (Unit::Issue, counters.issue_pct, active),
        ];
        let units = told
            .into_iter()
            .filter_map(|(unit, pct, part)| Some((unit, (pct? / 100.0 * part).clamp(0.0, 1.0))));
        Load {
            units: units.collect(),
        }
    }

    pub fn get(&self, unit: Unit) -> f64 {
        let found = self.units.iter().find(|(u, _)| *u == unit);
        found.map_or(0.0, |(_, load)| *load)
    }

    /// The units, busiest first.
    pub fn ranked(&self) -> Vec<(Unit, f64)> {
        let mut ranked = self.units.clone();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    /// The unit nearest to what it can attain.
    pub fn busiest(&self) -> Option<(Unit, f64)> {
        let nearest = |unit: Unit| self.get(unit) / unit.attainable();
        let units = self.units.iter().map(|(unit, _)| *unit);
        let found = units.max_by(|a, b| nearest(*a).total_cmp(&nearest(*b)))?;
        // What streams through device memory passes the L2 cache too, which counts more ways in and out and so
        // shows a little more. It is the narrower place only where the memory behind it is not busy.
        let found = match found {
            Unit::L2 if nearest(Unit::Dram) > 0.8 * nearest(Unit::L2) => Unit::Dram,
            other => other,
        };
        Some((found, self.get(found)))
    }

    /// Part of today's time that a launch would still take if every unit had `left` of its work and none of them
    /// ever waited: nothing can be faster. At most 1.
    pub fn floor_after(&self, left: impl Fn(Unit) -> f64) -> f64 {
        let units = self.units.iter();
        units
            .map(|(unit, load)| load * left(*unit) / unit.attainable())
            .fold(0.0, f64::max)
            .min(1.0)
    }

    /// The same when a cause is removed that made warps wait: what is left of the waiting is `waiting` of today's
    /// time. The larger of the two holds.
    pub fn gain(&self, waiting: f64, left: impl Fn(Unit) -> f64) -> f64 {
        let time = self.floor_after(left).max(waiting).clamp(LEAST_TIME, 1.0);
        1.0 / time
    }
}

/// No rule promises more than a hundredfold.
const LEAST_TIME: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(dram: f64, issue: f64, active: f64) -> Load {
        Load::of(&Counters {
            dram_pct: Some(dram),
            issue_pct: Some(issue),
            sm_active_cycles: Some(active),
            sm_cycles: Some(100.0),
            ..Counters::default()
        })
    }

    #[test]
    fn the_next_unit_bounds_the_gain() {
        let both = load(92.0, 47.5, 100.0);
        assert_eq!(both.busiest(), Some((Unit::Dram, 0.92)));
        let less_memory = |unit| if unit == Unit::Dram { 0.1 } else { 1.0 };
        assert!((both.gain(0.0, less_memory) - 2.0).abs() < 1e-9);
        assert!((both.gain(0.8, less_memory) - 1.25).abs() < 1e-9, "waiting");
    }

    #[test]
    fn idle_multiprocessors_count() {
        assert_eq!(load(10.0, 50.0, 50.0).get(Unit::Issue), 0.25);
        assert_eq!(load(10.0, 50.0, 50.0).get(Unit::Dram), 0.10);
        assert_eq!(load(10.0, 50.0, 50.0).get(Unit::Tensor), 0.0);
    }

    proptest! {
        #[test]
        fn a_gain_is_no_loss(dram in 0.0..150.0f64, issue in 0.0..150.0f64, waiting in -1.0..2.0f64, left in 0.0..1.0f64) {
            let gain = load(dram, issue, 100.0).gain(waiting, |_| left);
            prop_assert!((1.0..=100.0).contains(&gain), "{gain}");
        }
    }
}
