//! The NVIDIA driver, loaded while the program runs: no CUDA toolkit is needed to build or to use this.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::Error;

type Result<T> = std::result::Result<T, Error>;
type Code = c_int;

#[link(name = "dl")]
unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A descriptor for the tensor memory accelerator.
#[repr(C, align(64))]
pub struct TensorMap {
    opaque: [u64; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct LaunchAttribute {
    id: c_uint,
    pad: [u8; 4],
    value: [c_uint; 16],
}

#[repr(C)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: *mut c_void,
    attributes: *mut LaunchAttribute,
    attribute_count: c_uint,
}

const ATTRIBUTE_COOPERATIVE: c_uint = 2;
const ATTRIBUTE_CLUSTER_DIMENSION: c_uint = 4;
const FUNCTION_MAX_DYNAMIC_SHARED: c_int = 8;
const FUNCTION_NON_PORTABLE_CLUSTER: c_int = 14;
const DEVICE_CAPABILITY_MAJOR: c_int = 75;
const DEVICE_CAPABILITY_MINOR: c_int = 76;
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;
const PORTABLE_CLUSTER: u32 = 8;

macro_rules! driver {
    ($($field:ident = $symbol:literal ($($kind:ty),*);)*) => {
        /// The driver's functions that are used here.
        pub struct Driver {
            $($field: unsafe extern "C" fn($($kind),*) -> Code,)*
        }

        impl Driver {
            fn open() -> Result<Driver> {
                const RTLD_NOW: c_int = 2;
                // SAFETY: a name that ends in a zero; the library's constructors are the driver's own.
                let library = unsafe { dlopen(c"libcuda.so.1".as_ptr(), RTLD_NOW) };
                if library.is_null() {
                    return Err(Error("no NVIDIA driver: libcuda.so.1 cannot be loaded".into()));
                }
                let find = |name: &'static CStr| {
                    // SAFETY: an open library and a name that ends in a zero.
                    let found = unsafe { dlsym(library, name.as_ptr()) };
                    match found.is_null() {
                        true => Err(Error(format!(
                            "the NVIDIA driver is too old: it has no {} (CUDA 12.0 has)", name.to_string_lossy()
                        ))),
                        false => Ok(found),
                    }
                };
                let driver = Driver {
                    // SAFETY: the driver's documentation gives these functions these types.
                    $($field: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> Code>(find($symbol)?)
                    },)*
                };
                // SAFETY: takes no pointer.
                driver.check(unsafe { (driver.init)(0) }, "the NVIDIA driver finds no usable GPU")?;
                Ok(driver)
            }
        }
    };
}

driver! {
    init = c"cuInit" (c_uint);
    device_get = c"cuDeviceGet" (*mut c_int, c_int);
    device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    retain_context = c"cuDevicePrimaryCtxRetain" (*mut *mut c_void, c_int);
    current_context = c"cuCtxGetCurrent" (*mut *mut c_void);
    set_context = c"cuCtxSetCurrent" (*mut c_void);
    synchronize = c"cuCtxSynchronize" ();
    allocate = c"cuMemAlloc_v2" (*mut u64, usize);
    free = c"cuMemFree_v2" (u64);
    upload = c"cuMemcpyHtoD_v2" (u64, *const c_void, usize);
    download = c"cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
    fill = c"cuMemsetD8_v2" (u64, u8, usize);
    load_module = c"cuModuleLoadData" (*mut *mut c_void, *const c_void);
    get_function = c"cuModuleGetFunction" (*mut *mut c_void, *mut c_void, *const c_char);
    set_function = c"cuFuncSetAttribute" (*mut c_void, c_int, c_int);
    launch = c"cuLaunchKernelEx" (*const LaunchConfig, *mut c_void, *mut *mut c_void, *mut *mut c_void);
    encode = c"cuTensorMapEncodeTiled" (*mut TensorMap, c_int, c_uint, *mut c_void, *const u64, *const u64, *const u32, *const u32, c_int, c_int, c_int, c_int);
    error_name = c"cuGetErrorName" (c_int, *mut *const c_char);
}

impl Driver {
    /// The driver, opened on first use.
    pub fn get() -> Result<&'static Driver> {
        static DRIVER: OnceLock<std::result::Result<Driver, Error>> = OnceLock::new();
        DRIVER.get_or_init(Driver::open).as_ref().map_err(Clone::clone)
    }

    fn check(&self, code: Code, what: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: writes one pointer to a static string, or none.
        let known = unsafe { (self.error_name)(code, &mut name) } == 0 && !name.is_null();
        let name = match known {
            // SAFETY: the driver's names are static and end in a zero.
            true => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
            false => "CUDA_ERROR_UNKNOWN".into(),
        };
        Err(Error(format!("{what}: {name} ({code})")))
    }
}

/// One GPU and its primary context, which other libraries of the process share.
pub struct Device {
    driver: &'static Driver,
    context: *mut c_void,
    major: i32,
    minor: i32,
}

impl Device {
    pub fn new(index: i32) -> Result<Device> {
        let driver = Driver::get()?;
        let (mut handle, mut major, mut minor) = (0, 0, 0);
        let mut context = std::ptr::null_mut();
        // SAFETY: each call writes one value.
        unsafe {
            driver.check((driver.device_get)(&mut handle, index), "there is no such GPU")?;
            driver.check((driver.retain_context)(&mut context, handle), "the GPU refuses a context")?;
            driver.check((driver.device_attribute)(&mut major, DEVICE_CAPABILITY_MAJOR, handle), "the GPU does not answer")?;
            driver.check((driver.device_attribute)(&mut minor, DEVICE_CAPABILITY_MINOR, handle), "the GPU does not answer")?;
        }
        Ok(Device { driver, context, major, minor })
    }

    /// Makes the context current in this thread, unless one is.
    pub fn enter(&self) -> Result<()> {
        let mut current = std::ptr::null_mut();
        // SAFETY: writes one pointer; the context lives as long as the process.
        unsafe {
            self.driver.check((self.driver.current_context)(&mut current), "the driver does not answer")?;
            if current.is_null() {
                self.driver.check((self.driver.set_context)(self.context), "the context cannot be made current")?;
            }
        }
        Ok(())
    }

    /// Waits for everything that was queued.
    pub fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: takes no pointer.
        self.driver.check(unsafe { (self.driver.synchronize)() }, "the kernel")
    }

    /// Whether an image made for an architecture, such as `sm_90a`, runs here.
    pub fn fits(&self, architecture: &str) -> bool {
        let digits = architecture.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic);
        let Ok(number) = digits.parse::<i32>() else {
            return false;
        };
        let (major, minor) = (number / 10, number % 10);
        match architecture.ends_with('a') {
            true => (major, minor) == (self.major, self.minor),
            false => major == self.major && minor <= self.minor,
        }
    }
}

/// Memory on the GPU, freed with its owner.
pub struct DeviceBuffer {
    driver: &'static Driver,
    pub address: u64,
    bytes: usize,
}

impl DeviceBuffer {
    /// Zeros, so many bytes.
    pub fn zeros(device: &Device, bytes: usize) -> Result<DeviceBuffer> {
        device.enter()?;
        let driver = device.driver;
        let mut address = 0;
        // SAFETY: writes one address, then fills what was just allocated.
        unsafe {
            driver.check((driver.allocate)(&mut address, bytes.max(1)), "memory")?;
            driver.check((driver.fill)(address, 0, bytes.max(1)), "memory")?;
        }
        Ok(DeviceBuffer { driver, address, bytes })
    }

    pub fn from_bytes(device: &Device, bytes: &[u8]) -> Result<DeviceBuffer> {
        let buffer = DeviceBuffer::zeros(device, bytes.len())?;
        // SAFETY: both sides have so many bytes.
        let code = unsafe { (buffer.driver.upload)(buffer.address, bytes.as_ptr().cast(), bytes.len()) };
        buffer.driver.check(code, "a copy")?;
        Ok(buffer)
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: both sides have so many bytes.
        let code = unsafe { (self.driver.download)(bytes.as_mut_ptr().cast(), self.address, self.bytes) };
        self.driver.check(code, "a copy")?;
        Ok(bytes)
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeros`, freed once; a failure leaves it to the end of the process.
        let _ = unsafe { (self.driver.free)(self.address) };
    }
}

/// Geometry of one launch.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: Option<[u32; 3]>,
    pub shared: u32,
    pub cooperative: bool,
}

/// Kernels were checked on buffers that begin at multiples of this, and may load whole vectors.
pub fn aligned(name: &str, address: u64) -> Result<()> {
    match address % 16 {
        0 => Ok(()),
        _ => Err(Error(format!("`{name}` begins at an address that is no multiple of 16 bytes"))),
    }
}

/// Sizes of a grid, block or cluster.
pub fn three(extents: &[i64], what: &str) -> Result<[u32; 3]> {
    let mut made = [1; 3];
    for (to, from) in made.iter_mut().zip(extents) {
        *to = u32::try_from(*from)
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| Error(format!("{what} of {from} cannot be launched")))?;
    }
    Ok(made)
}

/// A kernel that was loaded from a file.
pub struct Function {
    driver: &'static Driver,
    handle: *mut c_void,
    granted: u32,
}

impl Function {
    pub fn load(device: &Device, image: &[u8], symbol: &str) -> Result<Function> {
        // Bytes in a program may begin anywhere; the driver reads numbers from them.
        let image = image.to_vec();
        device.enter()?;
        let driver = device.driver;
        let name = CString::new(symbol).map_err(|_| Error("a symbol with a zero in it".into()))?;
        let (mut module, mut handle) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a whole image in memory, which the driver checks and copies; each call writes one handle.
        unsafe {
            driver.check((driver.load_module)(&mut module, image.as_ptr().cast()), &format!("the driver does not take the image of `{symbol}`"))?;
            driver.check((driver.get_function)(&mut handle, module, name.as_ptr()), &format!("no kernel `{symbol}` in its image"))?;
        }
        Ok(Function { driver, handle, granted: SHARED_WITHOUT_ASKING })
    }

    /// Queues one launch.
    ///
    /// # Safety
    /// `parameters` points to the value of each of the kernel's parameters, and every address among them is of a
    /// buffer on the device that is large enough and lives until the launch has run.
    pub unsafe fn launch(&mut self, geometry: &Geometry, stream: *mut c_void, parameters: &mut [*mut c_void]) -> Result<()> {
        let set = |attribute, value, what: &str| {
            // SAFETY: a function of a loaded module.
            self.driver.check(unsafe { (self.driver.set_function)(self.handle, attribute, value) }, what)
        };
        if geometry.shared > self.granted {
            set(FUNCTION_MAX_DYNAMIC_SHARED, geometry.shared as c_int, "shared memory")?;
            self.granted = geometry.shared;
        }
        let mut attributes = Vec::new();
        if let Some([x, y, z]) = geometry.cluster {
            if x * y * z > PORTABLE_CLUSTER {
                set(FUNCTION_NON_PORTABLE_CLUSTER, 1, "a cluster of this size")?;
            }
            let mut value = [0; 16];
            value[..3].copy_from_slice(&[x, y, z]);
            attributes.push(LaunchAttribute { id: ATTRIBUTE_CLUSTER_DIMENSION, pad: [0; 4], value });
        }
        if geometry.cooperative {
            let mut value = [0; 16];
            value[0] = 1;
            attributes.push(LaunchAttribute { id: ATTRIBUTE_COOPERATIVE, pad: [0; 4], value });
        }
        let config = LaunchConfig {
            grid: geometry.grid,
            block: geometry.block,
            shared: geometry.shared,
            stream,
            attributes: attributes.as_mut_ptr(),
            attribute_count: attributes.len() as c_uint,
        };
        // SAFETY: the caller's promise; the driver copies all values before it returns.
        let code = unsafe { (self.driver.launch)(&config, self.handle, parameters.as_mut_ptr(), std::ptr::null_mut()) };
        self.driver.check(code, "the launch")
    }
}

/// A descriptor of a tensor. Extents and tile are outermost first; a tensor of higher rank is seen with its leading
/// dimensions merged.
pub fn tensor_map(device: &Device, address: u64, kind: i32, element_bytes: u64, extents: &[i64], tile: &[i64], swizzle: i32) -> Result<TensorMap> {
    let rank = tile.len();
    let merged = (extents.len() + 1).saturating_sub(rank).max(1).min(extents.len());
    let mut dims: Vec<u64> = vec![extents[..merged].iter().map(|e| *e as u64).product()];
    dims.extend(extents[merged..].iter().map(|e| *e as u64));
    dims.reverse();
    let mut strides = Vec::new();
    let mut stride = element_bytes;
    for extent in dims.iter().take(rank.saturating_sub(1)) {
        stride *= extent;
        strides.push(stride);
    }
    let tile: Vec<u32> = tile.iter().rev().map(|e| *e as u32).collect();
    let steps = vec![1u32; rank];
    let mut map = TensorMap { opaque: [0; 16] };
    const INTERLEAVE_NONE: c_int = 0;
    const PROMOTION_128B: c_int = 2;
    const OUTSIDE_IS_ZERO: c_int = 0;
    // SAFETY: all lists have the rank the driver is told (strides one less), and the map is aligned by its type.
    let code = unsafe {
        (device.driver.encode)(
            &mut map, kind, rank as c_uint, address as *mut c_void, dims.as_ptr(), strides.as_ptr(), tile.as_ptr(),
            steps.as_ptr(), INTERLEAVE_NONE, swizzle, PROMOTION_128B, OUTSIDE_IS_ZERO,
        )
    };
    device.driver.check(code, "a descriptor of a tensor")?;
    Ok(map)
}
