//! What NVML says while samples are taken. Everything is optional: without NVML nothing is known,
//! and nothing is refused.

use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::thread::JoinHandle;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

/// The hardware or its firmware has slowed itself down: hardware slowdown, software thermal,
/// hardware thermal, power brake. The software power cap (0x4) is normal under load and is not
/// among them.
const SLOWED: u64 = 0x8 | 0x20 | 0x40 | 0x80;

pub struct Clocks {
    nvml: OnceCell<Option<Nvml>>,
    /// Opening NVML takes a while, and others have work to do meanwhile.
    opening: Cell<Option<JoinHandle<Option<Nvml>>>>,
    uuid: String,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    pub clock_mhz: Option<u32>,
    pub throttle: u64,
}

impl Reading {
    pub fn is_slowed(self) -> bool {
        self.throttle & SLOWED != 0
    }
}

/// By the name that a driver installs; the one without a number comes with developer packages.
fn open() -> Option<Nvml> {
    let library = OsStr::new("libnvidia-ml.so.1");
    Nvml::builder().lib_path(library).init().ok()
}

impl Clocks {
    pub fn new(uuid: &str) -> Clocks {
        Clocks {
            nvml: OnceCell::new(),
            opening: Cell::new(Some(std::thread::spawn(open))),
            uuid: uuid.to_string(),
        }
    }

    fn device(&self) -> Option<nvml_wrapper::Device<'_>> {
        let nvml = self.nvml.get_or_init(|| self.opening.take()?.join().ok()?);
        nvml.as_ref()?.device_by_uuid(self.uuid.as_str()).ok()
    }

    pub fn read(&self) -> Reading {
        let Some(device) = self.device() else {
            return Reading::default();
        };
        Reading {
            clock_mhz: device.clock_info(Clock::SM).ok(),
            throttle: device.current_throttle_reasons().map_or(0, |r| r.bits()),
        }
    }

    pub fn temperature_c(&self) -> Option<u32> {
        self.device()?.temperature(TemperatureSensor::Gpu).ok()
    }

    /// Millijoules since the driver was loaded.
    pub fn energy_mj(&self) -> Option<u64> {
        self.device()?.total_energy_consumption().ok()
    }
}
