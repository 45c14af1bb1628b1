//! Recordings as files: JSON, plain or compressed.

use std::path::Path;

use kiln_core::recording::Recording;

use crate::exit::{Exit, Failure};
use crate::packed::{self, Existing, ReadError};
use crate::settings;

/// A recording that was read, and which one it is.
#[derive(Debug)]
pub struct RecordedFile {
    /// As given.
    pub path: String,
    pub hash: String,
    pub recording: Recording,
}

pub fn read(path: &Path) -> Result<RecordedFile, Failure> {
    let shown = settings::as_text(path)?.to_string();
    let refuse = |why: String| Failure::usage(format!("cannot replay `{shown}`: {why}"));
    let contents = packed::read(path).map_err(|e| match e {
        ReadError::Unreadable(e) => refuse(e.to_string()),
        damaged => refuse(damaged.to_string()).hint("copy it again from where it was recorded"),
    })?;
    let recording =
        Recording::parse(contents.plain()).map_err(|e| refuse(e.to_string()).hint(e.hint()))?;
    Ok(RecordedFile {
        path: shown,
        hash: blake3::hash(&contents.stored).to_hex()[..16].to_string(),
        recording,
    })
}

/// Writes the whole recording or nothing, and returns its size in bytes.
pub fn write(recording: &Recording, path: &Path, existing: Existing) -> Result<u64, Failure> {
    check_name(path)?;
    let json = serde_json::to_vec(recording)
        .map_err(|e| Failure::new(Exit::Bug, format!("cannot encode the recording: {e}")))?;
    packed::write(json, path, existing)
}

/// Whether a recording may be called this.
/// Whether a file is named as kiln names its own recordings.
pub fn is_recording(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".kiln.json") || name.ends_with(".kiln.json.gz")
}

pub fn check_name(path: &Path) -> Result<(), Failure> {
    if packed::is_json_name(path) {
        return Ok(());
    }
    Err(
        Failure::usage(format!("`{}` is no name for a recording", path.display()))
            .hint("call it NAME.kiln.json, or NAME.kiln.json.gz to compress it"),
    )
}
