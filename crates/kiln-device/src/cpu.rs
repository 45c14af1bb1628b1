//! The CPU backend: a kernel is a function in a shared library, called in this process.

use std::ffi::c_void;
use std::time::Instant;

use kiln_core::dtype::DType;
use kiln_core::input;
use kiln_core::manifest::{Fill, Role};
use kiln_core::protocol::{ArgumentSpec, Burst, DeviceInfo, Placement, Problem, Refusal};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::backend::Backend;
use crate::npy;

mod environment;
mod fault;
mod guarded;

use guarded::{Access, GuardedBuffer};

/// The generated wrapper every image exports: takes one pointer per argument.
type Entry = unsafe extern "C" fn(*const *mut c_void);

struct Slot {
    entry: Entry,
    /// Kept so the code stays mapped.
    _library: Library,
}

enum Storage {
    Scalar([u8; 8]),
    Buffer {
        memory: GuardedBuffer,
        role: Role,
        /// Contents to restore before a launch, for inout buffers.
        original: Vec<u8>,
    },
}

/// The buffers and scalars of one problem.
struct Set {
    storage: Vec<Storage>,
    has_inout: bool,
}

#[derive(Default)]
pub struct CpuBackend {
    slots: Vec<Option<Slot>>,
    sets: Vec<Set>,
    pinned_to: Option<usize>,
}

impl CpuBackend {
    pub fn new() -> CpuBackend {
        CpuBackend::default()
    }

    fn entry(&self, slot: usize) -> Result<Entry, Refusal> {
        let found = self.slots.get(slot).and_then(Option::as_ref);
        found
            .map(|slot| slot.entry)
            .ok_or_else(|| bad_task(format!("slot {slot} is empty")))
    }

    fn set(&mut self, set: usize) -> Result<&mut Set, Refusal> {
        self.sets
            .get_mut(set)
            .ok_or_else(|| bad_task(format!("there is no set {set}")))
    }

    fn pin(&mut self, cores: usize) {
        if self.pinned_to != Some(cores) {
            environment::pin(cores);
            self.pinned_to = Some(cores);
        }
    }
}

fn bad_task(message: String) -> Refusal {
    Refusal::BadTask { message }
}

impl Set {
    fn pointers(&mut self) -> Vec<*mut c_void> {
        self.storage
            .iter_mut()
            .map(|s| match s {
                Storage::Scalar(bytes) => bytes.as_mut_ptr().cast(),
                Storage::Buffer { memory, .. } => memory.as_mut_ptr().cast(),
            })
            .collect()
    }

    fn restore_inout(&mut self) {
        for storage in &mut self.storage {
            if let Storage::Buffer {
                memory,
                role: Role::InOut,
                original,
            } = storage
            {
                memory.bytes_mut().copy_from_slice(original);
            }
        }
    }

    fn poison(&mut self, seed: u64) {
        for (index, storage) in self.storage.iter_mut().enumerate() {
            if let Storage::Buffer {
                memory,
                role: Role::Output | Role::Scratch,
                ..
            } = storage
            {
                let bytes = memory.bytes_mut();
                let pattern = input::poison(input::mix(&[seed, index as u64]), bytes.len());
                bytes.copy_from_slice(&pattern);
            }
        }
        self.restore_inout();
    }
}

impl Backend for CpuBackend {
    fn device(&self) -> DeviceInfo {
        environment::device_info()
    }

    fn load(&mut self, slot: usize, image: &str, symbol: &str) -> Result<(), Refusal> {
        let not_loadable = |e: libloading::Error| {
            // The loader's own words are in the error's cause.
            let cause = std::error::Error::source(&e).map(ToString::to_string);
            Refusal::NotLoadable {
                message: cause.unwrap_or_else(|| e.to_string()),
            }
        };
        // SAFETY: loading runs the image's constructors, which are the candidate's own code; this
        // process exists to contain what they may do.
        let library =
            unsafe { Library::open(Some(image), RTLD_NOW | RTLD_LOCAL) }.map_err(not_loadable)?;
        // SAFETY: the wrapper that kiln generates gives this symbol exactly the type `Entry`.
        let entry = *unsafe { library.get::<Entry>(symbol) }.map_err(not_loadable)?;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(Slot {
            entry,
            _library: library,
        });
        Ok(())
    }

    fn clear(&mut self) {
        fault::forget_regions();
        self.sets.clear();
    }

    fn prepare(&mut self, problem: &Problem) -> Result<(), Refusal> {
        let mut storage = Vec::with_capacity(problem.arguments.len());
        for (index, spec) in problem.arguments.iter().enumerate() {
            let stream = input::mix(&[problem.seed, index as u64]);
            let made = make_storage(spec, stream)?;
            if let Storage::Buffer { memory, role, .. } = &made {
                fault::watch_region(index, memory, *role == Role::Input);
            }
            storage.push(made);
        }
        let has_inout = storage.iter().any(|s| {
            matches!(
                s,
                Storage::Buffer {
                    role: Role::InOut,
                    ..
                }
            )
        });
        self.sets.push(Set { storage, has_inout });
        Ok(())
    }

    fn poison(&mut self, seed: u64) -> Result<(), Refusal> {
        for set in &mut self.sets {
            set.poison(seed);
        }
        Ok(())
    }

    fn launch(&mut self, on: Placement) -> Result<(), Refusal> {
        let entry = self.entry(on.slot)?;
        self.pin(on.cores);
        let pointers = self.set(on.set)?.pointers();
        // SAFETY: `pointers` holds one valid pointer per argument of the wrapper, and the buffers
        // live until the call returns. What the candidate does beyond that is contained by this
        // process.
        unsafe { entry(pointers.as_ptr()) };
        Ok(())
    }

    fn sample(&mut self, bursts: &[Burst]) -> Result<Vec<u64>, Refusal> {
        let mut nanos = Vec::with_capacity(bursts.len());
        for burst in bursts {
            let entry = self.entry(burst.on.slot)?;
            self.pin(burst.on.cores);
            let set = self.set(burst.on.set)?;
            let pointers = set.pointers();
            let mut total = 0;
            if set.has_inout {
                // Each launch needs its input back, outside the clock.
                for _ in 0..burst.launches {
                    set.restore_inout();
                    let start = Instant::now();
                    // SAFETY: as in `launch`.
                    unsafe { entry(pointers.as_ptr()) };
                    total += start.elapsed().as_nanos() as u64;
                }
            } else {
                let start = Instant::now();
                for _ in 0..burst.launches {
                    // SAFETY: as in `launch`.
                    unsafe { entry(pointers.as_ptr()) };
                }
                total = start.elapsed().as_nanos() as u64;
            }
            nanos.push(total);
        }
        Ok(nanos)
    }

    fn inspect(&mut self, set: usize) -> Result<Vec<u8>, Refusal> {
        let mut outputs = Vec::new();
        for (index, storage) in self.set(set)?.storage.iter().enumerate() {
            let Storage::Buffer { memory, role, .. } = storage else {
                continue;
            };
            if let Some(offset) = memory.first_damage() {
                return Err(Refusal::GuardZone {
                    argument: index,
                    offset,
                });
            }
            if matches!(role, Role::Output | Role::InOut) {
                outputs.extend_from_slice(memory.bytes());
            }
        }
        Ok(outputs)
    }
}

/// Installs the handler that turns a bad address near a buffer into a message.
pub fn install_fault_handler(protocol_fd: i32) -> std::io::Result<()> {
    fault::install(protocol_fd)
}

fn make_storage(spec: &ArgumentSpec, stream: u64) -> Result<Storage, Refusal> {
    let too_large = |bytes| Refusal::OutOfMemory { bytes };
    match spec {
        ArgumentSpec::Scalar { dtype, value, .. } => {
            let mut bytes = Vec::with_capacity(8);
            match (value, dtype) {
                // Exact for 64-bit integers, which `push_f64` would round.
                (kiln_core::value::Value::Int(i), DType::I64 | DType::U64) => {
                    bytes.extend(i.to_le_bytes());
                }
                _ => dtype.push_f64(value.as_f64().unwrap_or(f64::NAN), &mut bytes),
            }
            bytes.resize(8, 0);
            let bytes = bytes.try_into().expect("resized to eight");
            Ok(Storage::Scalar(bytes))
        }
        ArgumentSpec::Buffer {
            dtype,
            role,
            fill,
            seen_as,
            ..
        } => {
            let total = spec.bytes().ok_or(too_large(u64::MAX))?;
            let length = usize::try_from(total).map_err(|_| too_large(total))?;
            let elements = length / seen_as.size_bytes();
            let mut memory = GuardedBuffer::new(length, stream).map_err(|_| too_large(total))?;
            let mut original = Vec::new();
            if matches!(role, Role::Input | Role::InOut) {
                let drawn = contents(spec, fill, *dtype, elements, stream)?;
                let seen = widen(drawn, *dtype, *seen_as);
                memory.bytes_mut().copy_from_slice(&seen);
                if *role == Role::InOut {
                    original = seen;
                }
            }
            if *role == Role::Input {
                memory
                    .protect(Access::ReadOnly)
                    .map_err(|_| too_large(total))?;
            }
            Ok(Storage::Buffer {
                memory,
                role: *role,
                original,
            })
        }
    }
}

fn contents(
    spec: &ArgumentSpec,
    fill: &Fill,
    dtype: DType,
    elements: usize,
    stream: u64,
) -> Result<Vec<u8>, Refusal> {
    match fill {
        Fill::File { path } => {
            npy::read(path, dtype, elements).map_err(|message| Refusal::BadTask {
                message: format!("input `{}`: {message}", spec.name()),
            })
        }
        fill => Ok(input::draw(fill, dtype, elements, stream)),
    }
}

/// The same values in a wider type: the reference must see what the kernel sees, rounding included.
fn widen(bytes: Vec<u8>, from: DType, to: DType) -> Vec<u8> {
    if from == to {
        return bytes;
    }
    let mut wide = Vec::with_capacity(bytes.len() / from.size_bytes() * to.size_bytes());
    for element in bytes.chunks_exact(from.size_bytes()) {
        to.push_f64(from.read_f64(element), &mut wide);
    }
    wide
}
