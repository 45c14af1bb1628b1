//! The arguments of a launch in device memory.

use std::ffi::c_void;

use cudarc::driver::sys;
use kiln_core::dtype::DType;
use kiln_core::input;
use kiln_core::manifest::{Role, Swizzle};
use kiln_core::protocol::{ArgumentSpec, DeviceError, Problem, Refusal};

use super::driver::{Driver, check};
use super::memory::{Buffer, HostBuffer};
use super::support::{Check, CheckKind, Support};
use super::zones::{self, Zone};
use crate::contents;

/// Seeds of checksums and guards; a kernel cannot know them.
const SUM: u64 = 0x73_756d;
const GUARD: u64 = 0x67_7561_7264;

pub enum Storage {
    Scalar([u8; 8]),
    Buffer(Tensor),
    Tma(Box<sys::CUtensorMap>),
    /// A descriptor that this kernel does not take.
    Absent,
}

pub struct Tensor {
    pub memory: Buffer,
    pub role: Role,
    /// For inputs: what they sum up to as long as nobody touches them.
    sum: u64,
    /// For inout buffers: what they hold before a launch.
    original: Option<Buffer>,
}

/// One problem on the device.
pub struct Prepared {
    pub problem: Problem,
    pub storage: Vec<Storage>,
    secret: u64,
}

pub fn refusal(error: DeviceError, bytes: u64) -> Refusal {
    match error.code {
        2 => Refusal::OutOfMemory { bytes },
        _ => Refusal::Device(error),
    }
}

impl Prepared {
    pub fn new(
        device: sys::CUdevice,
        support: &Support,
        problem: &Problem,
        secret: u64,
    ) -> Result<Prepared, Refusal> {
        let mut prepared = Prepared {
            problem: problem.clone(),
            storage: Vec::with_capacity(problem.arguments.len()),
            secret,
        };
        for (index, spec) in problem.arguments.iter().enumerate() {
            let storage = prepared.make(device, support, spec, index)?;
            prepared.storage.push(storage);
        }
        prepared.encode_tensor_maps()?;
        Ok(prepared)
    }

    /// Whether the other problem has the same inputs and outputs; scalars, descriptors and scratch
    /// follow the config and are made anew.
    pub fn serves(&self, problem: &Problem) -> bool {
        zones::has_same_buffers(&self.problem, problem)
    }

    /// Takes over what depends on the config.
    pub fn adapt(
        &mut self,
        device: sys::CUdevice,
        support: &Support,
        problem: &Problem,
    ) -> Result<(), Refusal> {
        for (index, spec) in problem.arguments.iter().enumerate() {
            if self.problem.arguments[index] != *spec {
                self.storage[index] = self.make(device, support, spec, index)?;
            }
        }
        self.problem = problem.clone();
        self.encode_tensor_maps()
    }

    pub fn bytes(&self) -> u64 {
        let arguments = self.problem.arguments.iter();
        arguments.filter_map(ArgumentSpec::bytes).sum()
    }

    fn make(
        &self,
        device: sys::CUdevice,
        support: &Support,
        spec: &ArgumentSpec,
        index: usize,
    ) -> Result<Storage, Refusal> {
        match spec {
            ArgumentSpec::Scalar { dtype, value, .. } => {
                Ok(Storage::Scalar(contents::of_scalar(*dtype, value)))
            }
            ArgumentSpec::Tma { tile, .. } if tile.is_empty() => Ok(Storage::Absent),
            // Encoded when all buffers have addresses.
            ArgumentSpec::Tma { .. } => {
                Ok(Storage::Tma(Box::new(sys::CUtensorMap { opaque: [0; 16] })))
            }
            ArgumentSpec::Buffer { role, .. } => {
                let total = spec
                    .bytes()
                    .ok_or(Refusal::OutOfMemory { bytes: u64::MAX })?;
                self.make_tensor(device, support, spec, index, *role, total)
                    .map(Storage::Buffer)
            }
        }
    }

    fn make_tensor(
        &self,
        device: sys::CUdevice,
        support: &Support,
        spec: &ArgumentSpec,
        index: usize,
        role: Role,
        total: u64,
    ) -> Result<Tensor, Refusal> {
        let refuse = |e| refusal(e, total);
        let guard_seed = input::mix(&[self.secret, GUARD, index as u64]);
        let memory = Buffer::new(device, total as usize, guard_seed).map_err(refuse)?;
        for (at, bytes, _) in memory.guards() {
            support.fill(at, bytes, guard_seed).map_err(refuse)?;
        }
        let mut tensor = Tensor {
            memory,
            role,
            sum: 0,
            original: None,
        };
        if matches!(role, Role::Input | Role::InOut) {
            let host = contents::of_buffer(&self.problem, index, spec)?;
            let stream = support.stream();
            upload(&tensor.memory, &host, stream).map_err(refuse)?;
            if role == Role::InOut {
                let original = Buffer::new(device, total as usize, guard_seed).map_err(refuse)?;
                upload(&original, &host, stream).map_err(refuse)?;
                tensor.original = Some(original);
            }
            let sums = support.checks(&[sum_check(&tensor.memory, self.secret)]);
            tensor.sum = sums.map_err(refuse)?[0];
        }
        Ok(tensor)
    }

    /// Fills outputs and scratch with the pattern of a seed, or zeros, and restores inout buffers. Queued,
    /// not waited for.
    pub fn poison(&self, support: &Support, stream: sys::CUstream, seed: u64) -> Driver<()> {
        for (index, storage) in self.storage.iter().enumerate() {
            let Storage::Buffer(tensor) = storage else {
                continue;
            };
            let memory = &tensor.memory;
            match tensor.role {
                Role::Output | Role::Scratch => {
                    let seed = input::mix(&[seed, index as u64]);
                    support.fill(memory.start, memory.bytes, seed)?;
                }
                Role::Zeroed => {
                    // SAFETY: a live buffer of this size.
                    check(unsafe { sys::cuMemsetD8Async(memory.start, 0, memory.bytes, stream) })?;
                }
                Role::Input | Role::InOut => {}
            }
        }
        self.restore(stream)
    }

    /// Reads all inputs, so that they are in the caches as far as they fit. Queued, not waited for.
    pub fn touch_inputs(&self, support: &Support) -> Driver<()> {
        for storage in &self.storage {
            if let Storage::Buffer(tensor) = storage
                && tensor.role == Role::Input
            {
                support.touch(tensor.memory.start, tensor.memory.bytes)?;
            }
        }
        Ok(())
    }

    /// Reads all buffers, as `touch_inputs` does.
    pub fn touch_all(&self, support: &Support) -> Driver<()> {
        for storage in &self.storage {
            if let Storage::Buffer(tensor) = storage {
                support.touch(tensor.memory.start, tensor.memory.bytes)?;
            }
        }
        Ok(())
    }

    pub fn has_inout(&self) -> bool {
        let is_inout = |s: &Storage| matches!(s, Storage::Buffer(t) if t.original.is_some());
        self.storage.iter().any(is_inout)
    }

    pub fn restore(&self, stream: sys::CUstream) -> Driver<()> {
        for storage in &self.storage {
            if let Storage::Buffer(Tensor {
                memory,
                original: Some(original),
                ..
            }) = storage
            {
                // SAFETY: two live buffers of the same size.
                check(unsafe {
                    sys::cuMemcpyDtoDAsync_v2(memory.start, original.start, memory.bytes, stream)
                })?;
            }
        }
        Ok(())
    }

    /// Looks at guards and inputs, and returns a sum over all results.
    pub fn verify(&self, support: &Support) -> Result<u64, Refusal> {
        let mut checks = Vec::new();
        let mut meaning: Vec<(usize, Zone)> = Vec::new();
        for (index, storage) in self.storage.iter().enumerate() {
            let Storage::Buffer(tensor) = storage else {
                continue;
            };
            for (at, bytes, offset) in tensor.memory.guards() {
                checks.push(Check {
                    kind: CheckKind::Pattern,
                    at,
                    bytes,
                    seed: tensor.memory.guard_seed,
                });
                meaning.push((index, Zone::Guard(offset)));
            }
            if let Some(zone) = zones::contents(tensor.role, tensor.sum) {
                checks.push(sum_check(&tensor.memory, self.secret));
                meaning.push((index, zone));
            }
            if let Some(original) = &tensor.original {
                checks.push(sum_check(original, self.secret));
                meaning.push((index, Zone::Untouched(tensor.sum)));
            }
        }
        let found = support.checks(&checks).map_err(|e| refusal(e, 0))?;
        zones::conclude(&meaning, &found)
    }

    /// Brings all outputs and inout buffers to the host, one after another; returns their length.
    pub fn read_results(&self, host: &mut HostBuffer) -> Driver<usize> {
        let buffers: Vec<&Buffer> = self
            .storage
            .iter()
            .filter_map(|storage| match storage {
                Storage::Buffer(t) if matches!(t.role, Role::Output | Role::InOut) => {
                    Some(&t.memory)
                }
                _ => None,
            })
            .collect();
        let total = buffers.iter().map(|b| b.bytes).sum();
        host.make_room(total)?;
        let mut rest = &mut host.bytes_mut()[..total];
        for buffer in buffers {
            let (mine, others) = rest.split_at_mut(buffer.bytes);
            if !mine.is_empty() {
                // SAFETY: both sides are as long as said.
                check(unsafe {
                    sys::cuMemcpyDtoH_v2(mine.as_mut_ptr().cast(), buffer.start, mine.len())
                })?;
            }
            rest = others;
        }
        Ok(total)
    }

    /// Pointers to the value of each parameter, for a launch. Valid as long as `self`.
    pub fn parameters(&mut self) -> Vec<*mut c_void> {
        self.storage
            .iter_mut()
            .filter_map(|storage| match storage {
                Storage::Scalar(bytes) => Some(bytes.as_mut_ptr().cast()),
                Storage::Buffer(tensor) => Some((&raw mut tensor.memory.start).cast()),
                Storage::Tma(map) => Some((&raw mut **map).cast()),
                Storage::Absent => None,
            })
            .collect()
    }

    fn encode_tensor_maps(&mut self) -> Result<(), Refusal> {
        for index in 0..self.storage.len() {
            let ArgumentSpec::Tma {
                name,
                tensor,
                dtype,
                extents,
                tile,
                swizzle,
            } = &self.problem.arguments[index]
            else {
                continue;
            };
            if tile.is_empty() {
                continue;
            }
            let address = match &self.storage[*tensor] {
                Storage::Buffer(tensor) => tensor.memory.start,
                _ => 0,
            };
            let map = encode(address, *dtype, extents, tile, *swizzle).map_err(|e| {
                Refusal::Device(DeviceError {
                    name: format!(
                        "{} from cuTensorMapEncodeTiled for `{name}`: {extents:?} {dtype} in boxes of {tile:?}",
                        e.name
                    ),
                    ..e
                })
            })?;
            self.storage[index] = Storage::Tma(Box::new(map));
        }
        Ok(())
    }
}

fn sum_check(buffer: &Buffer, secret: u64) -> Check {
    Check {
        kind: CheckKind::Sum,
        at: buffer.start,
        bytes: buffer.bytes,
        seed: input::mix(&[secret, SUM]),
    }
}

/// On the stream of everything else: a plain copy may return before the device has it all.
fn upload(buffer: &Buffer, bytes: &[u8], stream: sys::CUstream) -> Driver<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let length = bytes.len().min(buffer.bytes);
    let source = bytes.as_ptr().cast();
    // SAFETY: neither side is shorter than `length`, and the source lives until the copy has ended.
    check(unsafe { sys::cuMemcpyHtoDAsync_v2(buffer.start, source, length, stream) })?;
    // SAFETY: a live stream of this context.
    check(unsafe { sys::cuStreamSynchronize(stream) })
}

fn encode(
    address: sys::CUdeviceptr,
    dtype: DType,
    extents: &[u64],
    tile: &[u32],
    swizzle: Swizzle,
) -> Driver<sys::CUtensorMap> {
    use sys::CUtensorMapDataType as Type;
    use sys::CUtensorMapSwizzle as Mode;
    let kind = match dtype {
        DType::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        DType::I8 | DType::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        DType::I16 | DType::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        DType::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        DType::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        DType::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        DType::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
    };
    let swizzle = match swizzle {
        Swizzle::None => Mode::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Bytes32 => Mode::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Bytes64 => Mode::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Bytes128 => Mode::CU_TENSOR_MAP_SWIZZLE_128B,
    };
    // The driver counts dimensions from the innermost.
    let dims: Vec<u64> = extents.iter().rev().copied().collect();
    let tile: Vec<u32> = tile.iter().rev().copied().collect();
    let mut strides = Vec::new();
    let mut stride = dtype.size_bytes() as u64;
    for extent in dims.iter().take(dims.len().saturating_sub(1)) {
        stride *= extent;
        strides.push(stride);
    }
    let steps = vec![1u32; dims.len()];
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: all lists have the rank the driver is told (strides one less), and the map is
    // aligned by its type.
    check(unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut map,
            kind,
            dims.len() as u32,
            address as *mut c_void,
            dims.as_ptr(),
            strides.as_ptr(),
            tile.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    })?;
    Ok(map)
}
