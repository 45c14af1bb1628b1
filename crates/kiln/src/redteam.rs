//! Kernels that cheat, kernels that were broken on purpose, and honest ones: does kiln tell them
//! apart, through the same engine that tunes?
//!
//! Flow: [`files`] holds the sources that are compiled into the binary, [`catalogue`] says what
//! cheats there are, [`trial`] puts one candidate through search and confirmation, [`plain`] through
//! what a benchmark script does, and [`Rows`](crate::rows::Rows) tell what was decided. [`cheats`], [`mutants`] and [`honest`] are the three questions.

mod catalogue;
pub mod cheats;
mod files;
pub mod honest;
pub mod mutants;
mod mutate;
mod plain;
mod side_by_side;
mod trial;

pub use trial::Effort;
