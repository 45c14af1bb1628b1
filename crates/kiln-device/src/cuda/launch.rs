//! The candidate's entry and how it is launched.

use std::cell::Cell;
use std::ffi::{CString, c_void};

use cudarc::driver::sys;
use kiln_core::protocol::{DeviceError, LaunchSpec, Refusal};

use super::arguments::Prepared;
use super::driver::{Driver, check};

/// Blocks may use this much dynamic shared memory without asking.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;
/// Larger clusters run on some devices only.
const PORTABLE_CLUSTER: u32 = 8;

/// A loaded image and the function to launch.
pub struct Function {
    module: sys::CUmodule,
    handle: sys::CUfunction,
    /// Its code has been loaded by a launch.
    has_run: Cell<bool>,
}

impl Function {
    pub fn load(image: &str, symbol: &str) -> Result<Function, Refusal> {
        let not_loadable = |what: &str, e: DeviceError| Refusal::NotLoadable {
            message: format!("{what}: {} ({})", e.name, e.code),
        };
        let bytes = std::fs::read(image).map_err(|e| Refusal::NotLoadable {
            message: format!("{image}: {e}"),
        })?;
        let mut module = std::ptr::null_mut();
        // SAFETY: a cubin in memory; the driver checks it and copies what it needs.
        check(unsafe { sys::cuModuleLoadData(&mut module, bytes.as_ptr().cast()) })
            .map_err(|e| not_loadable("the driver does not take the image", e))?;
        let mut function = Function {
            module,
            handle: std::ptr::null_mut(),
            has_run: Cell::new(false),
        };
        let name = CString::new(symbol).unwrap_or_default();
        // SAFETY: a loaded module and a name that ends in a zero.
        check(unsafe { sys::cuModuleGetFunction(&mut function.handle, module, name.as_ptr()) })
            .map_err(|e| not_loadable(&format!("no kernel `{symbol}` in the image"), e))?;
        Ok(function)
    }

    /// Queues one launch.
    pub fn launch(&self, prepared: &mut Prepared, stream: sys::CUstream) -> Driver<()> {
        let launch = prepared.problem.launch.ok_or_else(|| DeviceError {
            code: 1,
            name: "the problem has no launch geometry".into(),
        })?;
        self.launch_with(launch, &mut prepared.parameters(), stream)
    }

    /// Queues one launch with these parameters, which must be the kernel's.
    pub fn launch_with(
        &self,
        launch: LaunchSpec,
        parameters: &mut [*mut c_void],
        stream: sys::CUstream,
    ) -> Driver<()> {
        if launch.shared_bytes > SHARED_WITHOUT_ASKING {
            let attribute =
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            self.set(attribute, launch.shared_bytes as i32)?;
        }
        let mut attributes = Vec::new();
        if let Some([x, y, z]) = launch.cluster {
            if x * y * z > PORTABLE_CLUSTER {
                let attribute =
                    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
                self.set(attribute, 1)?;
            }
            // SAFETY: plain data for which all zeros is a valid value.
            let mut cluster: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
            cluster.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            cluster.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            attributes.push(cluster);
        }
        if launch.cooperative {
            // SAFETY: as above.
            let mut cooperative: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
            cooperative.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            cooperative.value.cooperative = 1;
            attributes.push(cooperative);
        }
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        // SAFETY: one pointer per parameter, as the compile-time assertions of the unit have
        // checked; the driver copies the values before it returns. What the kernel itself does is
        // contained by this process.
        let launched = check(unsafe {
            sys::cuLaunchKernelEx(
                &config,
                self.handle,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        });
        self.has_run.set(true);
        launched
    }

    pub fn has_run(&self) -> bool {
        self.has_run.get()
    }

    fn set(&self, attribute: sys::CUfunction_attribute, value: i32) -> Driver<()> {
        // SAFETY: a function of a loaded module.
        check(unsafe { sys::cuFuncSetAttribute(self.handle, attribute, value) })
    }

    /// How many blocks the driver would put on one multiprocessor.
    pub fn occupancy(&self, threads: u32, shared_bytes: u32) -> Driver<u32> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        if shared_bytes > SHARED_WITHOUT_ASKING {
            self.set(attribute, shared_bytes as i32)?;
        }
        let mut blocks = 0;
        // SAFETY: writes one integer.
        check(unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.handle,
                threads as i32,
                shared_bytes as usize,
            )
        })?;
        Ok(blocks.max(0) as u32)
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // SAFETY: nothing of it runs any more; a dead context refuses, which is as good.
        let _ = unsafe { sys::cuModuleUnload(self.module) };
    }
}
