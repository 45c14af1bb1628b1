//! Device memory: every buffer in an address range of its own, between guard zones and beyond them
//! nothing at all.
//!
//! ```text
//! unmapped | front guard (random) | buffer | back guard (random) | unmapped
//! ```
//!
//! A write just outside is found in the guard; a reach further out is an illegal address.

use cudarc::driver::sys;
use kiln_core::protocol::DeviceError;

use super::driver::{Driver, check};
use super::zones;

pub struct Buffer {
    /// First byte of the kernel's part.
    pub start: sys::CUdeviceptr,
    pub bytes: usize,
    /// Seed of the pattern in the guards.
    pub guard_seed: u64,
    reserved: sys::CUdeviceptr,
    reserved_bytes: usize,
    mapped: sys::CUdeviceptr,
    mapped_bytes: usize,
    handle: sys::CUmemGenericAllocationHandle,
}

impl Buffer {
    /// Memory with undefined contents; the guards have to be filled.
    pub fn new(device: sys::CUdevice, bytes: usize, guard_seed: u64) -> Driver<Buffer> {
        let location = sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: device,
        };
        // SAFETY: plain data for which all zeros is a valid value.
        let mut wanted: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
        wanted.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.location = location;
        let mut unit = 0;
        let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: writes one size.
        check(unsafe { sys::cuMemGetAllocationGranularity(&mut unit, &wanted, minimum) })?;
        let too_large = || DeviceError {
            code: sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32,
            name: "CUDA_ERROR_OUT_OF_MEMORY".into(),
        };
        let mapped_bytes = bytes
            .checked_add(zones::MARGIN)
            .and_then(|n| n.checked_next_multiple_of(unit.max(1)))
            .ok_or_else(too_large)?;
        let reserved_bytes = mapped_bytes.checked_add(2 * unit).ok_or_else(too_large)?;
        let mut handle = 0;
        // SAFETY: writes one handle; failure leaves nothing behind.
        check(unsafe { sys::cuMemCreate(&mut handle, mapped_bytes, &wanted, 0) })?;
        let mut reserved = 0;
        // SAFETY: reserves addresses only; released again on every failure below.
        let result =
            check(unsafe { sys::cuMemAddressReserve(&mut reserved, reserved_bytes, unit, 0, 0) });
        if let Err(error) = result {
            // SAFETY: the handle was just made and is used nowhere.
            let _ = unsafe { sys::cuMemRelease(handle) };
            return Err(error);
        }
        let mapped = reserved + unit as u64;
        let access = sys::CUmemAccessDesc {
            location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // From here on dropping undoes everything.
        let buffer = Buffer {
            start: zones::place(mapped, mapped_bytes, bytes),
            bytes,
            guard_seed,
            reserved,
            reserved_bytes,
            mapped,
            mapped_bytes,
            handle,
        };
        // SAFETY: the range was reserved above and the handle is as large as the mapping.
        check(unsafe { sys::cuMemMap(mapped, mapped_bytes, 0, handle, 0) })?;
        // SAFETY: mapped just now.
        check(unsafe { sys::cuMemSetAccess(mapped, mapped_bytes, &access, 1) })?;
        Ok(buffer)
    }

    /// The watched zones, each with the offset of its first byte from the buffer's start.
    pub fn guards(&self) -> [(sys::CUdeviceptr, usize, i64); 2] {
        zones::guards(self.start, self.bytes, self.mapped, self.mapped_bytes)
    }
}

/// Pinned memory of this process, for copies at full speed. Grows, never shrinks.
#[derive(Default)]
pub struct HostBuffer {
    start: Option<std::ptr::NonNull<u8>>,
    bytes: usize,
}

impl HostBuffer {
    pub fn make_room(&mut self, bytes: usize) -> Driver<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        self.free();
        let mut start = std::ptr::null_mut();
        // SAFETY: freed in `free`, which forgets it.
        check(unsafe { sys::cuMemHostAlloc(&mut start, bytes, 0) })?;
        // SAFETY: the driver gave `bytes` bytes, which have to be initialised once.
        unsafe { std::ptr::write_bytes(start.cast::<u8>(), 0, bytes) };
        self.start = std::ptr::NonNull::new(start.cast());
        self.bytes = bytes;
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        match self.start {
            // SAFETY: `bytes` initialised bytes that belong to this buffer alone.
            Some(start) => unsafe { std::slice::from_raw_parts(start.as_ptr(), self.bytes) },
            None => &[],
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self.start {
            // SAFETY: as in `bytes`, and borrowed mutably.
            Some(start) => unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes) },
            None => &mut [],
        }
    }

    fn free(&mut self) {
        if let Some(start) = self.start.take() {
            // SAFETY: allocated by `make_room`, and forgotten now.
            let _ = unsafe { sys::cuMemFreeHost(start.as_ptr().cast()) };
        }
        self.bytes = 0;
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        self.free();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: all three belong to this buffer alone. In a dead context the calls fail, and the
        // end of the process frees everything.
        unsafe {
            let _ = sys::cuMemUnmap(self.mapped, self.mapped_bytes);
            let _ = sys::cuMemAddressFree(self.reserved, self.reserved_bytes);
            let _ = sys::cuMemRelease(self.handle);
        }
    }
}
