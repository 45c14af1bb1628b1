//! Pure reasoning for kiln: no files, processes, clocks, environment or printing.
#![forbid(unsafe_code)]

pub mod acceptance;
pub mod admission;
pub mod architecture;
pub mod bottleneck;
pub mod cache_entry;
pub mod diagnostic;
pub mod dtype;
pub mod escape;
pub mod event;
pub mod expression;
pub mod gate_file;
pub mod input;
pub mod interchange;
pub mod iteration;
pub mod journal;
pub mod lesson;
pub mod manifest;
pub mod numerics;
pub mod occupancy;
pub mod practice;
pub mod precision;
pub mod protocol;
pub mod recording;
pub mod retrospective;
pub mod sandbox;
pub mod search;
pub mod space;
pub mod stats;
pub mod study;
pub mod threads;
pub mod trial;
pub mod units;
pub mod unseen;
pub mod value;
pub mod verdict;
