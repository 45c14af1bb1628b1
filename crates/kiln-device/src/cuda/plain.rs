//! The plain harness on a GPU: two modules in this context, and one ordinary allocation.

use std::ffi::c_void;
use std::time::Instant;

use cudarc::driver::sys;
use kiln_core::protocol::{
    ArgumentSpec, DeviceError, LaunchSpec, PlainFinding, PlainTrial, Refusal,
};

use super::driver::{Driver, check};
use super::launch::Function;
use super::{CudaBackend, refusal};
use crate::contents;
use crate::plain::{self, Layout, TIMED, WARM_UPS};

/// Device memory from the driver's own allocator.
struct Block {
    start: sys::CUdeviceptr,
    bytes: usize,
}

impl Block {
    fn new(bytes: usize) -> Driver<Block> {
        let mut start = 0;
        // SAFETY: writes one address.
        check(unsafe { sys::cuMemAlloc_v2(&mut start, bytes) })?;
        Ok(Block { start, bytes })
    }

    fn write(&self, bytes: &[u8]) -> Driver<()> {
        let length = bytes.len().min(self.bytes);
        // SAFETY: both sides have that many bytes.
        check(unsafe { sys::cuMemcpyHtoD_v2(self.start, bytes.as_ptr().cast(), length) })
    }

    fn read(&self) -> Driver<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: both sides have that many bytes.
        check(unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), self.start, self.bytes) })?;
        Ok(bytes)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: nothing runs on it any more; a dead context refuses, which is as good.
        let _ = unsafe { sys::cuMemFree_v2(self.start) };
    }
}

/// A kernel with all it is launched with.
struct Entrant {
    function: Function,
    launch: LaunchSpec,
    values: Vec<[u8; 8]>,
    stream: sys::CUstream,
}

impl Entrant {
    fn launch(&mut self) -> Driver<()> {
        let values = self.values.iter_mut();
        let mut parameters: Vec<*mut c_void> = values.map(|v| v.as_mut_ptr().cast()).collect();
        self.function
            .launch_with(self.launch, &mut parameters, self.stream)
    }

    fn run(&mut self) -> Driver<()> {
        self.launch()?;
        self.wait()
    }

    fn wait(&self) -> Driver<()> {
        // SAFETY: a stream of this context.
        check(unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    fn time(&mut self) -> Driver<f64> {
        for _ in 0..WARM_UPS {
            self.launch()?;
        }
        self.wait()?;
        let started = Instant::now();
        for _ in 0..TIMED {
            self.launch()?;
        }
        self.wait()?;
        Ok(started.elapsed().as_nanos() as f64 / TIMED as f64)
    }
}

impl CudaBackend {
    /// Judges a candidate as a plain benchmark script would.
    pub fn plain_trial(&mut self, trial: &PlainTrial) -> Result<PlainFinding, Refusal> {
        let problem = &trial.problem;
        let tensor_map = |spec: &ArgumentSpec| matches!(spec, ArgumentSpec::Tma { .. });
        if problem.arguments.iter().any(tensor_map) {
            return Err(Refusal::BadTask {
                message: "the plain harness knows no tensor maps".into(),
            });
        }
        let no_geometry = || Refusal::BadTask {
            message: "the problem has no launch geometry".into(),
        };
        let layout = Layout::new(problem)?;
        let initial = plain::initial(problem, &layout)?;
        let block = Block::new(layout.bytes).map_err(|e| refusal(e, layout.bytes as u64))?;
        let values = |places: &[Option<usize>]| {
            let arguments = problem.arguments.iter().zip(places);
            let value = |(spec, place): (&ArgumentSpec, &Option<usize>)| match (spec, place) {
                (ArgumentSpec::Scalar { dtype, value, .. }, _) => {
                    contents::of_scalar(*dtype, value)
                }
                (_, place) => (block.start + place.unwrap_or(0) as u64).to_le_bytes(),
            };
            arguments.map(value).collect::<Vec<_>>()
        };
        let stream = self.stream;
        let mut candidate = Entrant {
            function: Function::load(&trial.candidate.image, &trial.candidate.symbol)?,
            launch: problem.launch.ok_or_else(no_geometry)?,
            values: values(&layout.offsets),
            stream,
        };
        let mut honest = Entrant {
            function: Function::load(&trial.honest.image, &trial.honest.symbol)?,
            launch: trial.honest_launch.ok_or_else(no_geometry)?,
            values: values(&layout.expected),
            stream,
        };
        let mut judge = || -> Result<PlainFinding, DeviceError> {
            block.write(&initial)?;
            let expected = std::mem::replace(&mut honest.values, values(&layout.offsets));
            honest.run()?;
            honest.values = expected;
            honest.run()?;
            candidate.run()?;
            honest.run()?;
            let (elements, mismatched) = plain::compare(problem, &layout, &block.read()?);
            Ok(PlainFinding {
                elements,
                mismatched,
                honest_nanos: honest.time()?,
                candidate_nanos: candidate.time()?,
            })
        };
        let judged = judge();
        judged.map_err(|error| self.refuse(error))
    }
}
