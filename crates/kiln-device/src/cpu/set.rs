//! The buffers and scalars of one problem: what a candidate is launched on.

use std::ffi::c_void;

use kiln_core::input;
use kiln_core::manifest::Role;
use kiln_core::protocol::{ArgumentSpec, Problem, Refusal};

use super::guarded::{Access, GuardedBuffer};
use super::{bad_task, fault};
use crate::contents;

pub enum Storage {
    Scalar([u8; 8]),
    Buffer {
        memory: GuardedBuffer,
        role: Role,
        element_bytes: usize,
        /// Contents to restore before a launch, for inout buffers.
        original: Vec<u8>,
    },
}

/// The buffers and scalars of one problem.
pub struct Set {
    pub(super) problem: Problem,
    pub(super) storage: Vec<Storage>,
    pub(super) has_inout: bool,
    /// All outputs as they were the moment the last launch returned. Work that a candidate
    /// finishes behind the clock comes too late for it.
    pub(super) snapshot: Vec<u8>,
    /// A timed launch returned before its work was done; the snapshot shows it.
    pub(super) is_caught: bool,
}

impl Set {
    pub(super) fn new(problem: &Problem) -> Result<Set, Refusal> {
        let mut storage = Vec::with_capacity(problem.arguments.len());
        for (index, spec) in problem.arguments.iter().enumerate() {
            storage.push(make_storage(problem, index, spec)?);
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
        Ok(Set {
            problem: problem.clone(),
            storage,
            has_inout,
            snapshot: Vec::new(),
            is_caught: false,
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        bytes_of(&self.problem)
    }

    /// Takes over the inputs of a problem with the same arguments.
    pub(super) fn refill(&mut self, problem: &Problem) -> Result<(), Refusal> {
        self.protect_inputs(Access::ReadWrite)?;
        for (index, spec) in problem.arguments.iter().enumerate() {
            let Storage::Buffer {
                memory,
                role: role @ (Role::Input | Role::InOut),
                original,
                ..
            } = &mut self.storage[index]
            else {
                continue;
            };
            let seen = contents::of_buffer(problem, index, spec)?;
            memory.bytes_mut().copy_from_slice(&seen);
            if *role == Role::InOut {
                *original = seen;
            }
        }
        self.protect_inputs(Access::ReadOnly)?;
        self.problem = problem.clone();
        Ok(())
    }

    /// Tells the fault handler where these buffers are.
    pub(super) fn watch(&self) {
        for (index, storage) in self.storage.iter().enumerate() {
            if let Storage::Buffer { memory, role, .. } = storage {
                fault::watch_region(index, memory, *role == Role::Input);
            }
        }
    }

    pub(super) fn pointers(&mut self) -> Vec<*mut c_void> {
        self.storage
            .iter_mut()
            .map(|s| match s {
                Storage::Scalar(bytes) => bytes.as_mut_ptr().cast(),
                Storage::Buffer { memory, .. } => memory.as_mut_ptr().cast(),
            })
            .collect()
    }

    pub(super) fn restore_inout(&mut self) {
        for storage in &mut self.storage {
            if let Storage::Buffer {
                memory,
                role: Role::InOut,
                original,
                ..
            } = storage
            {
                memory.bytes_mut().copy_from_slice(original);
            }
        }
    }

    pub(super) fn protect_inputs(&mut self, access: Access) -> Result<(), Refusal> {
        for storage in &mut self.storage {
            if let Storage::Buffer {
                memory,
                role: Role::Input,
                ..
            } = storage
            {
                let refused = |_| bad_task("access to the inputs' memory cannot be changed".into());
                memory.protect(access).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// One byte of every page of every output. A kernel that makes its outputs unreadable to do
    /// the work when somebody looks has to do it while the clock runs.
    pub(super) fn output_pages(&self) -> Vec<*const u8> {
        const PAGE: usize = 4096;
        self.results()
            .flat_map(|result| result.iter().step_by(PAGE))
            .map(std::ptr::from_ref)
            .collect()
    }

    /// Done before the launch: growing a vector takes time the candidate could use.
    pub(super) fn make_room_for_snapshot(&mut self) {
        let bytes = self.results().map(<[u8]>::len).sum();
        let mut snapshot = std::mem::take(&mut self.snapshot);
        snapshot.clear();
        // Written, not only reserved: fresh pages would fault in while the snapshot is taken.
        snapshot.resize(bytes, 0);
        self.snapshot = snapshot;
    }

    pub(super) fn take_snapshot(&mut self) {
        let mut snapshot = std::mem::take(&mut self.snapshot);
        let mut at = 0;
        for result in self.results() {
            snapshot[at..at + result.len()].copy_from_slice(result);
            at += result.len();
        }
        self.snapshot = snapshot;
    }

    pub(super) fn results(&self) -> impl Iterator<Item = &[u8]> {
        self.storage.iter().filter_map(|storage| match storage {
            Storage::Buffer {
                memory,
                role: Role::Output | Role::InOut,
                ..
            } => Some(memory.bytes()),
            _ => None,
        })
    }

    /// Reads all of it, so that it is in the caches as far as it fits.
    pub(super) fn touch(&self) {
        const CACHE_LINE: usize = 64;
        for storage in &self.storage {
            if let Storage::Buffer { memory, .. } = storage {
                for byte in memory.bytes().iter().step_by(CACHE_LINE) {
                    std::hint::black_box(*byte);
                }
            }
        }
    }

    /// Other bytes around every buffer: an answer that changes with them was read outside. Not for timed launches, which
    /// would find the pages of their inputs no longer known to the processor.
    pub(super) fn surround(&mut self, seed: u64) -> Result<(), Refusal> {
        self.protect_inputs(Access::ReadWrite)?;
        for (index, storage) in self.storage.iter_mut().enumerate() {
            if let Storage::Buffer { memory, .. } = storage {
                let stream = contents::stream(&self.problem, index);
                memory.surround(input::mix(&[seed, stream]));
            }
        }
        self.protect_inputs(Access::ReadOnly)
    }

    pub(super) fn poison(&mut self, seed: u64) {
        for (index, storage) in self.storage.iter_mut().enumerate() {
            let Storage::Buffer { memory, role, .. } = storage else {
                continue;
            };
            match role {
                Role::Output | Role::Scratch => {
                    let bytes = memory.bytes_mut();
                    let pattern = input::poison(input::mix(&[seed, index as u64]), bytes.len());
                    bytes.copy_from_slice(&pattern);
                }
                Role::Zeroed => memory.bytes_mut().fill(0),
                Role::Input | Role::InOut => {}
            }
        }
        self.restore_inout();
    }
}

pub fn bytes_of(problem: &Problem) -> u64 {
    let sizes = problem.arguments.iter().filter_map(ArgumentSpec::bytes);
    sizes.fold(0, u64::saturating_add)
}

fn make_storage(problem: &Problem, index: usize, spec: &ArgumentSpec) -> Result<Storage, Refusal> {
    let too_large = |bytes| Refusal::OutOfMemory { bytes };
    match spec {
        // For the kernel on a GPU; its reference in C does not take it.
        ArgumentSpec::Tma { tile, .. } if tile.is_empty() => Ok(Storage::Scalar([0; 8])),
        ArgumentSpec::Tma { name, .. } => Err(bad_task(format!(
            "argument `{name}` is a TMA descriptor, which a CPU does not have"
        ))),
        ArgumentSpec::Scalar { dtype, value, .. } => {
            let bytes = contents::of_scalar(*dtype, value);
            Ok(Storage::Scalar(bytes))
        }
        ArgumentSpec::Buffer { role, seen_as, .. } => {
            let total = spec.bytes().ok_or(too_large(u64::MAX))?;
            let length = usize::try_from(total).map_err(|_| too_large(total))?;
            let guard_seed = contents::stream(problem, index);
            let mut memory =
                GuardedBuffer::new(length, guard_seed).map_err(|_| too_large(total))?;
            let mut original = Vec::new();
            if matches!(role, Role::Input | Role::InOut) {
                let seen = contents::of_buffer(problem, index, spec)?;
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
                element_bytes: seen_as.size_bytes(),
                original,
            })
        }
    }
}
