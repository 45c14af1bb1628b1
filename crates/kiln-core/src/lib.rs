//! Pure reasoning for kiln: no files, processes, clocks, environment or printing.
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod dtype;
pub mod expression;
pub mod manifest;
pub mod search;
pub mod space;
pub mod stats;
pub mod trial;
pub mod value;
