//! Is this kernel as fast as that one? What `kiln compare` and `kiln gate` share.
//!
//! Flow: [`spec::Spec`] is what a user typed, a [`Stage`] holds the machine and makes a task for every
//! shape, a [`Side`] becomes a contender on it, [`judge`] checks both, measures them in turns and
//! corrects over all shapes, and [`report`] tells people, programs and CI.

pub mod baseline;
mod config;
pub mod git;
mod inside;
pub mod judge;
pub mod junit;
pub mod markdown;
pub mod report;
mod side;
mod spec;
mod stage;
mod tree;

pub use config::{Chosen, config_on, default_config};
pub use judge::{Answer, Checker, Findings, judge};
pub use side::{Origin, Side, contender, resolve, resolve_both, settle};
pub use spec::parse_config;
pub use stage::{Shapes, Stage, time_briefly};
