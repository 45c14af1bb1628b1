//! The two traits a device family implements.

use kiln_core::protocol::{
    CompileJob, Compiled, Conditions, Cores, DeviceInfo, Problem, Refusal, SamplePlan,
};
use kiln_core::trial::CompileFailure;

/// Makes images. Runs in a compile worker; needs no device.
pub trait Toolchain {
    fn compile(&mut self, job: &CompileJob) -> Result<Compiled, CompileFailure>;
    /// Which files the compiler would read for the job, by its own account where it gives one. Nothing is made.
    fn reads(&mut self, job: &CompileJob) -> Result<Vec<String>, CompileFailure>;
}

/// Total nanoseconds of each burst, and how the device was meanwhile.
#[derive(Debug)]
pub struct Samples {
    pub nanos: Vec<u64>,
    pub conditions: Option<Conditions>,
    /// How often other programs took a core from this process meanwhile, on a CPU.
    pub interruptions: u64,
}

/// Loads and runs images. Runs in a device worker. One method per step of the loop.
pub trait Backend {
    fn device(&self) -> DeviceInfo;
    fn load(&mut self, image: &str, symbol: &str) -> Result<(), Refusal>;
    /// Forgets the image and verifies that the device still works.
    /// Answers with the nanoseconds the device was at work since the image was loaded.
    fn unload(&mut self) -> Result<u64, Refusal>;
    /// Makes a problem the current one.
    fn prepare(&mut self, problem: &Problem) -> Result<(), Refusal>;
    /// Fills every output with bytes drawn from the seed and restores inout buffers.
    fn poison(&mut self, seed: u64) -> Result<(), Refusal>;
    fn launch(&mut self, cores: Cores) -> Result<(), Refusal>;
    fn sample(&mut self, plan: &SamplePlan) -> Result<Samples, Refusal>;
    /// Verifies guard zones like `inspect` and says whether the outputs are, bit for bit, what
    /// `inspect` returned last for this problem. `false` from a backend that cannot tell.
    fn same_as_sent(&mut self) -> Result<bool, Refusal>;
    /// Verifies guard zones, then returns all outputs one after another, as they were the moment
    /// the last launch returned.
    fn inspect(&mut self) -> Result<&[u8], Refusal>;
}
