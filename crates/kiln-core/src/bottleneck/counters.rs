//! What kiln reads of a profiled launch, by kiln's own names.
//!
//! Every counter has one or more metrics of ncu that tell it, the first one found counts: chips and versions
//! differ in names. All are optional: a report made elsewhere holds what its maker asked for.

use serde::{Deserialize, Serialize};

use super::raw_csv::Launch;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $field:ident: [$($name:literal),+],)+) => {
        /// The counters of one launch. Times in nanoseconds, `_pct` in percent of what is possible.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Counters {
            $(
                $(#[doc = $doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<f64>,
            )+
        }

        /// Names to ask ncu for.
        pub const METRICS: &[&str] = &[$($($name),+),+];

        impl Counters {
            pub fn of(launch: &Launch) -> Counters {
                let first = |names: &[&str]| {
                    names.iter().find_map(|name| launch.metrics.get(*name)).copied()
                };
                Counters {
                    $($field: first(&[$($name),+]),)+
                }
            }

            /// Every counter that has a value, by name.
            pub fn known(&self) -> Vec<(&'static str, f64)> {
                let all = [$((stringify!($field), self.$field)),+];
                all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
            }
        }
    };
}

counters! {
    /// Of the launch on the device, at whatever clocks there were.
    duration_ns: ["gpu__time_duration.sum"],
    sm_cycles: ["sm__cycles_elapsed.max", "sm__cycles_elapsed.avg"],
    /// Clocks with a warp on the multiprocessor, the average of all.
    sm_active_cycles: ["sm__cycles_active.avg"],
    multiprocessors: ["device__attribute_multiprocessor_count", "launch__sm_count"],

    dram_read_bytes: ["dram__bytes_read.sum"],
    dram_write_bytes: ["dram__bytes_write.sum"],
    dram_pct: [
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    ],
    l2_pct: ["lts__throughput.avg.pct_of_peak_sustained_elapsed"],
    l2_hit_pct: ["lts__t_sector_hit_rate.pct"],
    l1_pct: ["l1tex__throughput.avg.pct_of_peak_sustained_active"],
    l1_hit_pct: ["l1tex__t_sector_hit_rate.pct"],
    /// Of the clocks in which the L1 cache's data stage can serve a warp: global, local and shared memory.
    data_stage_pct: ["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_active"],
    data_stage_wavefronts: ["l1tex__data_pipe_lsu_wavefronts.sum"],
    shared_wavefronts: ["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"],
    shared_conflicts: ["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"],
    shared_load_conflicts: ["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"],
    shared_store_conflicts: ["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"],
    global_load_requests: ["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"],
    global_load_sectors: ["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
    global_store_requests: ["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"],
    global_store_sectors: ["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"],
    /// Of the 32 bytes of a sector, those a warp asked for.
    global_load_bytes_per_sector: ["smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"],
    global_store_bytes_per_sector: ["smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"],
    local_load_requests: ["l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum"],
    local_store_requests: ["l1tex__t_requests_pipe_lsu_mem_local_op_st.sum"],
    local_load_sectors: ["l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"],
    local_store_sectors: ["l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"],

    occupancy_pct: ["sm__warps_active.avg.pct_of_peak_sustained_active"],
    occupancy_limit_pct: ["sm__maximum_warps_per_active_cycle_pct"],
    registers: ["launch__registers_per_thread"],
    block_threads: ["launch__block_size"],
    grid_blocks: ["launch__grid_size"],
    waves: ["launch__waves_per_multiprocessor"],
    shared_dynamic_bytes: ["launch__shared_mem_per_block_dynamic"],
    shared_static_bytes: ["launch__shared_mem_per_block_static"],
    blocks_by_slots: ["launch__occupancy_limit_blocks"],
    blocks_by_registers: ["launch__occupancy_limit_registers"],
    blocks_by_shared: ["launch__occupancy_limit_shared_mem"],
    blocks_by_warps: ["launch__occupancy_limit_warps"],
    blocks_by_barriers: ["launch__occupancy_limit_barriers"],

    instructions: ["smsp__inst_executed.sum", "sm__inst_executed.sum"],
    issue_pct: ["smsp__issue_active.avg.pct_of_peak_sustained_active"],
    threads_per_instruction: ["smsp__thread_inst_executed_per_inst_executed.ratio"],
    tensor_pct: [
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"
    ],
    special_pct: ["sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"],
    fma_pct: [
        "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"
    ],
    alu_pct: [
        "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active"
    ],
    fp64_pct: ["sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active"],
    fp16_pct: ["sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_active"],
    /// Multiplications and additions of the tensor cores, by type of the factors.
    tensor_fp16_ops: [
        "sm__ops_path_tensor_src_fp16.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum"
    ],
    tensor_bf16_ops: ["sm__ops_path_tensor_src_bf16_dst_fp32.sum"],
    tensor_tf32_ops: ["sm__ops_path_tensor_src_tf32_dst_fp32.sum"],
    tensor_int8_ops: ["sm__ops_path_tensor_src_int8.sum"],
    tensor_fp8_ops: ["sm__ops_path_tensor_src_fp8.sum"],
    wgmma_instructions: ["sm__inst_executed_pipe_tensor_op_gmma.sum"],
    tensor_instructions: ["sm__inst_executed_pipe_tensor.sum"],
    special_instructions: ["sm__inst_executed_pipe_xu.sum"],
    fma_instructions: ["sm__inst_executed_pipe_fma.sum"],
    alu_instructions: ["sm__inst_executed_pipe_alu.sum"],
    fp64_instructions: ["sm__inst_executed_pipe_fp64.sum"],
    fp16_instructions: ["sm__inst_executed_pipe_fp16.sum"],
    memory_instructions: ["sm__inst_executed_pipe_lsu.sum"],
    control_instructions: ["sm__inst_executed_pipe_cbu.sum"],
    uniform_instructions: ["sm__inst_executed_pipe_uniform.sum"],

    /// Warps that waited for this, on average, whenever one was issued: with `stall_selected`, the clocks
    /// between two instructions of a warp and what they went into.
    stall_barrier: ["smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"],
    stall_branch: ["smsp__average_warps_issue_stalled_branch_resolving_per_issue_active.ratio"],
    stall_dispatch: ["smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio"],
    stall_drain: ["smsp__average_warps_issue_stalled_drain_per_issue_active.ratio"],
    stall_wgmma: ["smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio"],
    stall_constant: ["smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio"],
    stall_memory_queue: ["smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio"],
    stall_memory: ["smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"],
    stall_pipe: ["smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio"],
    stall_fence: ["smsp__average_warps_issue_stalled_membar_per_issue_active.ratio"],
    stall_shared_queue: ["smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio"],
    stall_other: ["smsp__average_warps_issue_stalled_misc_per_issue_active.ratio"],
    stall_fetch: ["smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio"],
    stall_not_selected: ["smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio"],
    stall_selected: ["smsp__average_warps_issue_stalled_selected_per_issue_active.ratio"],
    stall_shared: ["smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio"],
    stall_sleep: ["smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio"],
    stall_texture: ["smsp__average_warps_issue_stalled_tex_throttle_per_issue_active.ratio"],
    stall_wait: ["smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"],
}

/// Whether a metric is one of those.
pub fn is_read(metric: &str) -> bool {
    METRICS.contains(&metric)
}

impl Counters {
    /// Operations of the tensor cores, where any were counted.
    pub fn tensor_flops(&self) -> Option<f64> {
        let counted = [
            self.tensor_fp16_ops,
            self.tensor_bf16_ops,
            self.tensor_tf32_ops,
            self.tensor_int8_ops,
            self.tensor_fp8_ops,
        ];
        Some(counted.into_iter().flatten().sum()).filter(|ops| *ops > 0.0)
    }

    /// Whether products are issued by warpgroups.
    pub fn uses_wgmma(&self) -> bool {
        self.wgmma_instructions.is_some_and(|count| count > 0.0)
    }

    /// Blocks of the grid over those that fit on the device at once. ncu's own number has two decimals.
    pub fn waves_exactly(&self) -> Option<f64> {
        let limits = [
            self.blocks_by_slots,
            self.blocks_by_registers,
            self.blocks_by_shared,
            self.blocks_by_warps,
        ];
        let fitting = limits.into_iter().flatten().fold(f64::INFINITY, f64::min);
        match (self.grid_blocks, self.multiprocessors) {
            (Some(blocks), Some(all)) if fitting.is_finite() && fitting * all > 0.0 => {
                Some(blocks / (fitting * all))
            }
            _ => self.waves,
        }
    }

    /// Part of the launch's clocks in which a multiprocessor had work, on average.
    pub fn active_part(&self) -> Option<f64> {
        let all = self.sm_cycles.filter(|all| *all > 0.0)?;
        Some((self.sm_active_cycles? / all).clamp(0.0, 1.0))
    }
}
