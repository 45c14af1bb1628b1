//! What a project knows beside its studies: sources as they were, lessons, iterations. Kept in the store's journal;
//! what follows from it is `kiln_core`'s business.

pub mod history;
pub mod lessons;
pub mod sources;

/// Milliseconds since 1970.
pub fn now_unix_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}
