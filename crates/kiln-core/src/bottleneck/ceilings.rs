//! What a device can do at the most, as measured by kiln itself.

use serde::{Deserialize, Serialize};

/// Raised when the kernels that measure change; older measurements are then made again.
pub const CEILINGS_VERSION: u32 = 1;

/// Rates of plain kernels that do one thing, on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    pub version: u32,
    pub device: String,
    /// Bytes read plus bytes written, of a copy that fits no cache.
    pub copy_bytes_per_second: f64,
    /// Products of `f16` with `f32` sums through `mma.sync`.
    pub mma_flops_per_second: f64,
    /// The same through `wgmma`, where there is one (Hopper).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wgmma_flops_per_second: Option<f64>,
    /// Results of `ex2.approx` on all multiprocessors.
    pub exponentials_per_second: f64,
    /// What a kernel that does nothing adds to a stream of launches.
    pub launch_ns: f64,
    /// Of one `f32` multiply-add per thread and clock: two operations each.
    pub fma_flops_per_second: f64,
    pub measured_unix_ms: u64,
}

impl Ceilings {
    /// The fastest way to multiply matrices that was measured.
    pub fn matrix_flops_per_second(&self) -> f64 {
        self.wgmma_flops_per_second
            .map_or(self.mma_flops_per_second, |wgmma| {
                wgmma.max(self.mma_flops_per_second)
            })
    }

    /// Whether they can be believed: all positive and finite.
    pub fn is_sound(&self) -> bool {
        let all = [
            self.copy_bytes_per_second,
            self.mma_flops_per_second,
            self.wgmma_flops_per_second.unwrap_or(1.0),
            self.exponentials_per_second,
            self.launch_ns,
            self.fma_flops_per_second,
        ];
        self.version == CEILINGS_VERSION && all.iter().all(|v| v.is_finite() && *v > 0.0)
    }
}
