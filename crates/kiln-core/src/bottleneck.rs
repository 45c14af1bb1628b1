//! Why a kernel is as slow as it is, from what the hardware counted: pure reasoning.
//!
//! Flow: ncu's table ([`raw_csv`]) -> [`Counters`] -> [`Load`], how busy each unit was -> rules ([`rules`]), each an
//! inefficiency with the gain to be had by removing it -> [`Diagnosis`]: the class, its evidence, ranked advice.
//! Nothing here runs anything; without counters [`without_counters`] says what else is known, and [`stages`] what
//! leaving parts of the kernel out brings.

pub mod ceilings;
pub mod counters;
mod diagnosis;
mod load;
mod profile;
pub mod raw_csv;
mod related;
mod rules;
pub mod stages;
mod stalls;
pub mod without_counters;

pub use ceilings::Ceilings;
pub use counters::Counters;
pub use diagnosis::{Advice, Cause, Class, Diagnosis, diagnose};
pub use load::{Load, Unit};
pub use profile::{KernelProfile, Profile, Subject};
pub use related::{Choice, Related};
pub use stages::Stages;
pub use stalls::{StallShare, stalls};

use crate::protocol::Resources;

/// What is known about a launch beside its counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances<'a> {
    /// What one launch must do at the least, where the manifest says.
    pub flops: Option<f64>,
    pub bytes: Option<f64>,
    pub ceilings: Option<&'a Ceilings>,
    /// The compiler's own numbers.
    pub resources: Option<Resources>,
    /// The choices of this kernel, for advice that names them.
    pub choices: &'a [Choice],
}
