//! Where a buffer and its guards lie in a mapping, and what checksums over them mean. Plain numbers:
//! no device is needed to get them right.

use kiln_core::input;
use kiln_core::manifest::Role;
use kiln_core::protocol::{ArgumentSpec, Problem, Refusal};

/// Watched in front of and behind a buffer at the least; in front it is all that is mapped there.
pub const GUARD_BYTES: usize = 4096;
/// Frameworks promise this much; kernels may rely on it.
const ALIGNMENT: usize = 512;
/// What a mapping needs beside the buffer.
pub const MARGIN: usize = 2 * GUARD_BYTES + ALIGNMENT;

/// As far back in the mapping as alignment and the guard behind allow.
pub fn place(mapped: u64, mapped_bytes: usize, bytes: usize) -> u64 {
    let end = mapped + mapped_bytes as u64;
    let latest = end - GUARD_BYTES as u64 - bytes as u64;
    latest / ALIGNMENT as u64 * ALIGNMENT as u64
}

/// Address and length of the watched zones, each with the offset of its first byte from the buffer's
/// start.
pub fn guards(
    start: u64,
    bytes: usize,
    mapped: u64,
    mapped_bytes: usize,
) -> [(u64, usize, i64); 2] {
    let before = (start - mapped) as usize;
    let end = start + bytes as u64;
    let behind = (mapped + mapped_bytes as u64 - end) as usize;
    [
        (mapped, before, -(before as i64)),
        (end, behind, bytes as i64),
    ]
}

/// What one check looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// A guard, from this offset on. Its check tells the first byte that is not the pattern's.
    Guard(i64),
    /// What nobody may write: its sum stays the same.
    Untouched(u64),
    /// What the kernel writes.
    Result,
}

/// What the contents of a buffer are; `None` for those that may hold anything. `sum` is what they
/// summed up to before the launch.
pub fn contents(role: Role, sum: u64) -> Option<Zone> {
    match role {
        Role::Input => Some(Zone::Untouched(sum)),
        Role::Output | Role::InOut => Some(Zone::Result),
        Role::Scratch | Role::Zeroed => None,
    }
}

/// Refuses damage; otherwise one sum over all results. `meaning` names the argument of each finding.
pub fn conclude(meaning: &[(usize, Zone)], found: &[u64]) -> Result<u64, Refusal> {
    let mut total = 0;
    for ((argument, zone), found) in meaning.iter().zip(found) {
        let argument = *argument;
        match zone {
            Zone::Guard(offset) if *found != u64::MAX => {
                let offset = offset + *found as i64;
                return Err(Refusal::GuardZone { argument, offset });
            }
            Zone::Untouched(sum) if found != sum => {
                return Err(Refusal::InputModified { argument });
            }
            Zone::Guard(_) | Zone::Untouched(_) => {}
            Zone::Result => total = input::mix(&[total, *found]),
        }
    }
    Ok(total)
}

/// Whether two problems have the same inputs and outputs; scalars, descriptors and scratch follow the
/// config and are made anew.
pub fn has_same_buffers(a: &Problem, b: &Problem) -> bool {
    let lasting = |argument: &ArgumentSpec| {
        !matches!(
            argument,
            ArgumentSpec::Scalar { .. }
                | ArgumentSpec::Tma { .. }
                | ArgumentSpec::Buffer {
                    role: Role::Scratch | Role::Zeroed,
                    ..
                }
        )
    };
    let (mine, theirs) = (&a.arguments, &b.arguments);
    a.seed == b.seed
        && a.shape == b.shape
        && a.variation == b.variation
        && mine.len() == theirs.len()
        && mine
            .iter()
            .zip(theirs)
            .all(|(a, b)| lasting(a) == lasting(b) && (!lasting(a) || a == b))
}

#[cfg(test)]
mod tests;
