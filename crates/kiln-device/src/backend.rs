//! The two traits a device family implements.

use kiln_core::protocol::{CompileJob, Compiled, Cores, DeviceInfo, Problem, Refusal, SamplePlan};
use kiln_core::trial::CompileFailure;

/// Makes images. Runs in a compile worker; needs no device.
pub trait Toolchain {
    fn compile(&mut self, job: &CompileJob) -> Result<Compiled, CompileFailure>;
}

/// Loads and runs images. Runs in a device worker. One method per step of the loop.
pub trait Backend {
    fn device(&self) -> DeviceInfo;
    fn load(&mut self, image: &str, symbol: &str) -> Result<(), Refusal>;
    /// Makes the buffers of a problem, in place of the last one's.
    fn prepare(&mut self, problem: &Problem) -> Result<(), Refusal>;
    /// Fills every output with bytes drawn from the seed and restores inout buffers.
    fn poison(&mut self, seed: u64) -> Result<(), Refusal>;
    fn launch(&mut self, cores: Cores) -> Result<(), Refusal>;
    /// Nanoseconds of each burst.
    fn sample(&mut self, plan: &SamplePlan) -> Result<Vec<u64>, Refusal>;
    /// Verifies guard zones, then returns all outputs one after another, as they were the moment
    /// the last launch returned.
    fn inspect(&mut self) -> Result<Vec<u8>, Refusal>;
}
