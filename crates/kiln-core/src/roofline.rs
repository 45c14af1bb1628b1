//! What a device can do at the most, and the shortest time that leaves for a launch.
//!
//! Peaks come from the architecture's tables and the device's own clocks, never from a measurement. Only GPUs
//! have them: what a CPU can do at the most cannot be read anywhere.

use crate::architecture::Architecture;
use crate::protocol::{Caches, CudaDevice, DeviceInfo};

/// Peak rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Of the fastest units for the numbers the kernel uses.
    pub flops_per_second: f64,
    pub bytes_per_second: f64,
    pub l2_bytes: f64,
}

/// What one launch must do at least, as the manifest says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    pub flops: Option<f64>,
    pub bytes: Option<f64>,
}

/// The shortest time any kernel can take, and what it is needed for: `bytes` or `flops`.
pub type Floor = (f64, &'static str);

impl Peaks {
    /// `has_bytes`: an argument has elements of one byte. Products of 8-bit numbers run at twice the rate
    /// of 16-bit ones; narrower types, which arrive packed in bytes, at four times.
    pub fn of(device: &CudaDevice, has_bytes: bool) -> Option<Peaks> {
        let architecture = Architecture::parse(&device.architecture)?;
        let faster = match has_bytes {
            true => 4.0,
            false => 1.0,
        };
        Some(Peaks {
            flops_per_second: faster
                * f64::from(architecture.tensor_fp16_flops_per_clock)
                * f64::from(device.multiprocessors)
                * device.clock_khz as f64
                * 1e3,
            bytes_per_second: device.memory_bandwidth(),
            l2_bytes: device.l2_bytes as f64,
        })
    }

    pub fn of_device(device: &DeviceInfo, has_bytes: bool) -> Option<Peaks> {
        Peaks::of(device.cuda.as_ref()?, has_bytes)
    }

    pub fn floor_ns(&self, work: Work, caches: Caches) -> Option<Floor> {
        let by_flops = work
            .flops
            .map(|flops| (flops / self.flops_per_second * 1e9, "flops"));
        // What is written may still be in the L2 cache at the end, and when that was not flushed,
        // what is read may have been there from the start.
        let caches_full = match caches {
            Caches::Cold => 1.0,
            Caches::Warm => 2.0,
        };
        let by_bytes = work.bytes.map(|bytes| {
            let beyond = bytes - caches_full * self.l2_bytes;
            (beyond / self.bytes_per_second * 1e9, "bytes")
        });
        [by_flops, by_bytes]
            .into_iter()
            .flatten()
            .max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEAKS: Peaks = Peaks {
        flops_per_second: 1e15,
        bytes_per_second: 4e12,
        l2_bytes: 50e6,
    };

    #[test]
    fn the_larger_need_is_the_floor() {
        let work = |flops, bytes| Work { flops, bytes };
        let floor = |work, caches| PEAKS.floor_ns(work, caches);
        assert_eq!(floor(work(None, None), Caches::Warm), None);
        assert_eq!(
            floor(work(Some(2e9), None), Caches::Warm),
            Some((2e3, "flops"))
        );
        let both = work(Some(2e9), Some(450e6));
        assert_eq!(floor(both, Caches::Cold), Some((1e5, "bytes")));
        assert_eq!(floor(both, Caches::Warm), Some((87_500.0, "bytes")));
        // All of it may lie in the cache: the arithmetic is the floor then.
        assert_eq!(
            floor(work(Some(2e9), Some(60e6)), Caches::Warm),
            Some((2e3, "flops"))
        );
    }
}
