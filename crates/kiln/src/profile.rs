//! Profiling: counters of one launch from NVIDIA's ncu, and what they mean.
//!
//! `ncu` runs the profiler around a worker, `ceilings` measures what the device can do, `stages` what leaving parts of the
//! kernel out brings, `session` puts them together for one subject, `report` shows it. The reasoning itself is `kiln_core::bottleneck`. Measurement and profiling never
//! share a run: times come from workers nobody watches.

pub mod ceilings;
pub mod ncu;
pub mod report;
pub mod session;
pub mod stages;
