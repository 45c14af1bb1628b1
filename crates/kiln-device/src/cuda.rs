//! The CUDA backend: a kernel is a cubin, launched by this process on the first GPU.
//!
//! The candidate is device code only. It can read and write what is mapped in this context, so
//! expected outputs are never here, inputs are summed before and after, and after any error that
//! is not a plain refusal the process ends.

use cudarc::driver::sys;
use kiln_core::input;
use kiln_core::protocol::{Cores, DeviceError, DeviceInfo, Problem, Refusal, SamplePlan};

use crate::backend::{Backend, Samples};

mod arguments;
mod clocks;
mod driver;
mod launch;
mod measure;
mod memory;
mod plain;
mod support;
mod zones;

use arguments::{Prepared, refusal};
use clocks::Clocks;
use driver::{Device, check};
use launch::Function;
use measure::{Graph, Meter, Subject};
use memory::HostBuffer;
use support::Support;

/// kiln's helper kernels, to be compiled for the device at hand.
pub const SUPPORT_SOURCE: &str = include_str!("cuda/support.cu");

/// Problems kept on the device, as far as they fit into this part of its memory.
const KEPT_PROBLEMS: usize = 24;
const KEPT_MEMORY: f64 = 0.6;

pub struct CudaBackend {
    device: Device,
    stream: sys::CUstream,
    support: Option<Support>,
    /// Until the meter takes them.
    clocks: Option<Clocks>,
    meter: Option<Meter>,
    function: Option<Function>,
    /// The current problem first.
    problems: Vec<Kept>,
    /// Where outputs arrive on the host.
    results: HostBuffer,
    secret: u64,
    poison: u64,
    device_nanos: f64,
    /// The context is lost.
    broken: bool,
}

struct Kept {
    prepared: Prepared,
    graph: Option<Graph>,
    /// Sum of the outputs sent last.
    sent: Option<u64>,
}

impl Kept {
    fn subject<'a>(&'a mut self, function: &'a Function, support: &'a Support) -> Subject<'a> {
        Subject {
            function,
            prepared: &mut self.prepared,
            graph: &mut self.graph,
            support,
        }
    }
}

impl CudaBackend {
    /// `support` is the image of kiln's helper kernels; without it only `device` works.
    pub fn new(support: Option<&str>, secret: u64) -> Result<CudaBackend, Refusal> {
        let device = driver::open()?;
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle.
        check(unsafe { sys::cuStreamCreate(&mut stream, flags) }).map_err(|e| refusal(e, 0))?;
        let support = support
            .map(|image| Support::load(image, stream))
            .transpose()?;
        let clocks = support.is_some().then(|| Clocks::new(&device.facts.uuid));
        Ok(CudaBackend {
            clocks,
            device,
            stream,
            support,
            meter: None,
            function: None,
            problems: Vec::new(),
            results: HostBuffer::default(),
            secret,
            poison: 0,
            device_nanos: 0.0,
            broken: false,
        })
    }

    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Blocks of the loaded function per multiprocessor, as the driver counts.
    pub fn occupancy(&self, threads: u32, shared_bytes: u32) -> Result<u32, Refusal> {
        let function = self.function.as_ref().ok_or_else(nothing_loaded)?;
        function
            .occupancy(threads, shared_bytes)
            .map_err(|e| refusal(e, 0))
    }

    fn refuse(&mut self, error: DeviceError) -> Refusal {
        self.noted(refusal(error, 0))
    }

    /// After an error that loses the context this process is of no more use.
    fn noted(&mut self, refusal: Refusal) -> Refusal {
        if let Refusal::Device(error) = &refusal {
            self.broken |= driver::is_sticky(error);
        }
        refusal
    }

    fn support(&self) -> Result<&Support, Refusal> {
        self.support.as_ref().ok_or_else(|| Refusal::BadTask {
            message: "this worker has no helper kernels".into(),
        })
    }

    /// Runs something on the current problem with everything it needs.
    fn with_subject<T>(
        &mut self,
        act: impl FnOnce(&mut Meter, &mut Subject<'_>) -> driver::Driver<T>,
    ) -> Result<T, Refusal> {
        self.with_sets(|meter, function, support, sets| {
            act(meter, &mut sets[0].subject(function, support))
        })
    }

    /// The same with all problems that are kept, the current one first; there is at least that.
    fn with_sets<T>(
        &mut self,
        act: impl FnOnce(&mut Meter, &Function, &Support, &mut [Kept]) -> driver::Driver<T>,
    ) -> Result<T, Refusal> {
        if self.meter.is_none() {
            let l2_bytes = self.device.facts.l2_bytes;
            let clocks = self.clocks.take();
            let clocks = clocks.unwrap_or_else(|| Clocks::new(&self.device.facts.uuid));
            let made = Meter::new(self.stream, self.support()?, clocks, l2_bytes);
            self.meter = Some(made.map_err(|e| refusal(e, l2_bytes))?);
        }
        let (Some(meter), Some(support), Some(function), [_, ..]) = (
            &mut self.meter,
            &self.support,
            &self.function,
            &mut self.problems[..],
        ) else {
            return Err(nothing_loaded());
        };
        let result = act(meter, function, support, &mut self.problems);
        result.map_err(|error| self.refuse(error))
    }

    /// Looks at guards and inputs of the current problem and sums up its outputs.
    fn verified_sum(&mut self) -> Result<u64, Refusal> {
        let support = self.support()?;
        let kept = self.problems.first().ok_or_else(nothing_loaded)?;
        let verified = kept.prepared.verify(support);
        verified.map_err(|refusal| {
            // Never to be used again.
            self.problems.remove(0);
            self.noted(refusal)
        })
    }

    /// Forgets problems from the least recently used on, until what is kept fits.
    fn trim(&mut self) {
        let budget = KEPT_MEMORY * self.device.info.memory_bytes as f64;
        self.problems.truncate(KEPT_PROBLEMS);
        while self.problems.len() > 1 {
            let total: u64 = self.problems.iter().map(|k| k.prepared.bytes()).sum();
            if total as f64 <= budget {
                break;
            }
            self.problems.pop();
        }
    }
}

fn nothing_loaded() -> Refusal {
    Refusal::BadTask {
        message: "nothing is loaded and prepared".into(),
    }
}

impl Backend for CudaBackend {
    fn device(&self) -> DeviceInfo {
        self.device.info.clone()
    }

    fn load(&mut self, image: &str, symbol: &str) -> Result<(), Refusal> {
        for kept in &mut self.problems {
            kept.graph = None;
            kept.sent = None;
        }
        self.function = None;
        self.device_nanos = 0.0;
        self.function = Some(Function::load(image, symbol)?);
        Ok(())
    }

    /// Verifies that the device computes as the host does and that inputs of kept problems are
    /// untouched; problems that are not are forgotten.
    fn unload(&mut self) -> Result<u64, Refusal> {
        for kept in &mut self.problems {
            kept.graph = None;
        }
        self.function = None;
        let seed = input::mix(&[self.secret, self.poison]);
        let support = self.support()?;
        let sound = support.is_sound(seed);
        if !sound.map_err(|error| self.refuse(error))? {
            self.broken = true;
            return Err(Refusal::BadTask {
                message: "the device computes wrong results".into(),
            });
        }
        let support = self.support()?;
        let mut untouched = Vec::with_capacity(self.problems.len());
        for kept in &self.problems {
            untouched.push(kept.prepared.verify(support).is_ok());
        }
        let mut untouched = untouched.into_iter();
        self.problems.retain(|_| untouched.next().unwrap_or(false));
        Ok(self.device_nanos as u64)
    }

    fn prepare(&mut self, problem: &Problem) -> Result<(), Refusal> {
        let known = self
            .problems
            .iter()
            .position(|k| k.prepared.serves(problem));
        if let Some(place) = known {
            let mut kept = self.problems.remove(place);
            if kept.prepared.problem != *problem {
                kept.graph = None;
                let support = self.support()?;
                kept.prepared.adapt(self.device.handle, support, problem)?;
            }
            self.problems.insert(0, kept);
            return Ok(());
        }
        self.trim();
        let (handle, secret) = (self.device.handle, self.secret);
        let mut made = Prepared::new(handle, self.support()?, problem, secret);
        if matches!(made, Err(Refusal::OutOfMemory { .. })) {
            // What is kept from other problems may be what is in the way.
            self.problems.clear();
            made = Prepared::new(handle, self.support()?, problem, secret);
        }
        let kept = Kept {
            prepared: made?,
            graph: None,
            sent: None,
        };
        self.problems.insert(0, kept);
        Ok(())
    }

    fn poison(&mut self, seed: u64) -> Result<(), Refusal> {
        self.poison = seed;
        let support = self.support()?;
        let poisoned = match self.problems.first() {
            Some(kept) => kept.prepared.poison(support, self.stream, seed),
            None => Ok(()),
        };
        poisoned.map_err(|error| self.refuse(error))
    }

    fn launch(&mut self, _cores: Cores) -> Result<(), Refusal> {
        let nanos = self.with_subject(|meter, subject| meter.run_once(subject))?;
        self.device_nanos += nanos;
        Ok(())
    }

    fn sample(&mut self, plan: &SamplePlan) -> Result<Samples, Refusal> {
        let poison = self.poison;
        let samples = self.with_sets(|meter, function, support, sets| match plan.run_up {
            Some(run_up) => meter.behind(function, support, sets, plan.launches, run_up, poison),
            None => meter.sample(&mut sets[0].subject(function, support), plan, poison),
        })?;
        self.device_nanos += samples.nanos.iter().sum::<u64>() as f64;
        Ok(samples)
    }

    fn same_as_sent(&mut self) -> Result<bool, Refusal> {
        let sum = self.verified_sum()?;
        Ok(self.problems.first().is_some_and(|k| k.sent == Some(sum)))
    }

    fn inspect(&mut self) -> Result<&[u8], Refusal> {
        let sum = self.verified_sum()?;
        let kept = self.problems.first_mut().ok_or_else(nothing_loaded)?;
        kept.sent = Some(sum);
        let read = kept.prepared.read_results(&mut self.results);
        match read {
            Ok(length) => Ok(&self.results.bytes()[..length]),
            Err(error) => Err(self.refuse(error)),
        }
    }
}
