//! The CUDA driver: opening it, its errors, and the few calls that need care.

use std::ffi::{CStr, c_char, c_int};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use kiln_core::protocol::{CudaDevice, DeviceError, DeviceInfo, Refusal};

/// The oldest driver whose interface has all that is used here: clusters, tensor maps.
const OLDEST_DRIVER: i32 = 12_000;

/// Codes after which the context still works: the launch was refused, nothing ran.
const HARMLESS: [i32; 5] = [1, 2, 701, 720, 912];

pub type Driver<T> = Result<T, DeviceError>;

/// An error code as a `Result`. Judged by code alone.
pub fn check(code: CUresult) -> Driver<()> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: `name` receives a pointer to a static string, or stays null.
    let known = unsafe { sys::cuGetErrorName(code, &mut name) } == CUresult::CUDA_SUCCESS;
    let name = match known && !name.is_null() {
        // SAFETY: checked above; the driver's strings are static and end in a zero.
        true => unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned(),
        false => "CUDA_ERROR_UNKNOWN".into(),
    };
    Err(DeviceError {
        code: code as i32,
        name,
    })
}

/// Whether the context is lost, and with it this process.
pub fn is_sticky(error: &DeviceError) -> bool {
    !HARMLESS.contains(&error.code)
}

/// The device this process works on.
pub struct Device {
    pub handle: sys::CUdevice,
    pub info: DeviceInfo,
    pub facts: CudaDevice,
}

/// Opens the driver and makes a context on the first device. The message says what is missing.
pub fn open() -> Result<Device, Refusal> {
    let no_device = |message: String| Refusal::NoDevice { message };
    // SAFETY: only tries to load the driver's library, whose constructors are trusted.
    if !unsafe { sys::is_culib_present() } {
        return Err(no_device(
            "no NVIDIA driver: libcuda.so.1 cannot be loaded".into(),
        ));
    }
    let cannot = |what: &str, e: DeviceError| no_device(format!("{what}: {} ({})", e.name, e.code));
    // SAFETY: the library is present; the symbol exists in every version of it.
    check(unsafe { sys::cuInit(0) })
        .map_err(|e| cannot("the NVIDIA driver finds no usable GPU", e))?;
    let mut version = 0;
    // SAFETY: writes one integer.
    check(unsafe { sys::cuDriverGetVersion(&mut version) })
        .map_err(|e| cannot("the driver does not tell its version", e))?;
    if version < OLDEST_DRIVER {
        return Err(no_device(format!(
            "the NVIDIA driver supports CUDA {}.{} only; kiln needs a driver for 12.0 or newer",
            version / 1000,
            version % 1000 / 10
        )));
    }
    let mut handle = 0;
    // SAFETY: writes one handle.
    check(unsafe { sys::cuDeviceGet(&mut handle, 0) }).map_err(|e| cannot("there is no GPU", e))?;
    let mut context = std::ptr::null_mut();
    // Spinning, not sleeping, while waiting for the device: a wake-up would be timed.
    let spin = sys::CUctx_flags::CU_CTX_SCHED_SPIN as u32;
    // SAFETY: a valid device; flags may be set before the context exists.
    let _ = unsafe { sys::cuDevicePrimaryCtxSetFlags_v2(handle, spin) };
    // SAFETY: a valid device; the context is made current in this thread, the only one that calls.
    let retained = check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, handle) });
    retained
        // SAFETY: as above.
        .and_then(|()| check(unsafe { sys::cuCtxSetCurrent(context) }))
        .map_err(|e| cannot("the GPU is there but refuses a context", e))?;
    // Lines a kernel marks as persisting would survive the flush.
    // SAFETY: a limit of the current context; devices without it refuse, which is as good.
    let _ = unsafe { sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0) };
    describe(handle, version).map_err(|e| cannot("the GPU does not answer", e))
}

fn attribute(device: sys::CUdevice, which: Attribute) -> Driver<u32> {
    let mut value: c_int = 0;
    // SAFETY: writes one integer.
    check(unsafe { sys::cuDeviceGetAttribute(&mut value, which, device) })?;
    Ok(value.max(0) as u32)
}

fn describe(handle: sys::CUdevice, version: i32) -> Driver<Device> {
    let get = |which| attribute(handle, which);
    let mut name = [0 as c_char; 256];
    // SAFETY: the buffer is as long as said, and the driver ends it with a zero.
    check(unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 255, handle) })?;
    // SAFETY: ends in a zero, see above.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }
        .to_string_lossy()
        .into_owned();
    let mut memory = 0;
    // SAFETY: writes one size.
    check(unsafe { sys::cuDeviceTotalMem_v2(&mut memory, handle) })?;
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: writes sixteen bytes.
    check(unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, handle) })?;
    let facts = CudaDevice {
        architecture: format!(
            "sm_{}{}",
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?
        ),
        uuid: format_uuid(&uuid),
        driver_cuda: version as u32,
        multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        clock_khz: get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?.into(),
        memory_clock_khz: get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?.into(),
        memory_bus_bits: get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
        l2_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        shared_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
        shared_per_block_optin: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        shared_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        registers_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        )?,
        threads_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
        )?,
        blocks_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
        )?,
    };
    let info = DeviceInfo {
        kind: "cuda".into(),
        name,
        cores: facts.multiprocessors as usize,
        memory_bytes: memory as u64,
        environment: vec![
            ("architecture".into(), facts.architecture.clone()),
            ("uuid".into(), facts.uuid.clone()),
            (
                "driver_cuda".into(),
                format!("{}.{}", version / 1000, version % 1000 / 10),
            ),
        ],
        cuda: Some(facts.clone()),
    };
    Ok(Device {
        handle,
        info,
        facts,
    })
}

/// As NVML writes it.
fn format_uuid(uuid: &sys::CUuuid) -> String {
    let hex: Vec<String> = uuid
        .bytes
        .iter()
        .map(|b| format!("{:02x}", *b as u8))
        .collect();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        hex[..4].concat(),
        hex[4..6].concat(),
        hex[6..8].concat(),
        hex[8..10].concat(),
        hex[10..].concat()
    )
}
