//! Recordings as files: JSON, plain or compressed.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use kiln_core::recording::Recording;

use crate::exit::{Exit, Failure};

/// The largest text a recording may unpack to; real ones have a few megabytes.
const MAX_BYTES: u64 = 256 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A recording that was read, and which one it is.
#[derive(Debug)]
pub struct RecordedFile {
    /// As given.
    pub path: String,
    pub hash: String,
    pub recording: Recording,
}

pub fn read(path: &Path) -> Result<RecordedFile, Failure> {
    let shown = path.display().to_string();
    let refuse = |why: String| Failure::usage(format!("cannot replay `{shown}`: {why}"));
    let bytes = contents(path).map_err(|e| refuse(e.to_string()))?;
    let is_gzip = bytes.starts_with(&GZIP_MAGIC);
    if named_gzip(path) && !is_gzip {
        return Err(
            refuse("it is named `.gz`, but is not compressed with gzip".into())
                .hint("copy it again from where it was recorded"),
        );
    }
    let unpacked = match is_gzip {
        true => unpack(&bytes).map_err(|e| {
            refuse(format!("it is cut off or damaged: {e}"))
                .hint("copy it again from where it was recorded")
        })?,
        false => bytes.clone(),
    };
    let recording =
        Recording::parse(&unpacked).map_err(|e| refuse(e.to_string()).hint(e.hint()))?;
    Ok(RecordedFile {
        path: shown,
        hash: blake3::hash(&bytes).to_hex()[..16].to_string(),
        recording,
    })
}

/// All of a file, if it is one and not too large: a device may have no end.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened: a pipe nobody writes to would keep us waiting.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    limited(fs::File::open(path)?)
}

/// Reads to the end, unless that is too far away.
fn limited(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("it has more than 256 MiB")),
        false => Ok(bytes),
    }
}

/// Whether a file that is already there may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Keep,
    Replace,
}

/// Writes the whole recording or nothing, and returns its size in bytes.
pub fn write(recording: &Recording, path: &Path, existing: Existing) -> Result<u64, Failure> {
    let cannot = |e: io::Error| Failure::machine(format!("cannot write `{}`: {e}", path.display()));
    check_name(path)?;
    let json = serde_json::to_vec(recording)
        .map_err(|e| Failure::new(Exit::Bug, format!("cannot encode the recording: {e}")))?;
    let bytes = match named_gzip(path) {
        true => pack(&json).map_err(cannot)?,
        false => json,
    };
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    // For sharing: readable as the user's other files are.
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(cannot)?;
    file.write_all(&bytes).map_err(cannot)?;
    let persisted = match existing {
        Existing::Keep => file.persist_noclobber(path),
        Existing::Replace => file.persist(path),
    };
    match persisted {
        Ok(_) => Ok(bytes.len() as u64),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Err(Failure::usage(format!(
            "`{}` is already there",
            path.display()
        ))
        .hint("--force replaces it")),
        Err(e) => Err(cannot(e.error)),
    }
}

/// Whether a recording may be called this.
pub fn check_name(path: &Path) -> Result<(), Failure> {
    if has_known_name(path) {
        return Ok(());
    }
    Err(
        Failure::usage(format!("`{}` is no name for a recording", path.display()))
            .hint("call it NAME.kiln.json, or NAME.kiln.json.gz to compress it"),
    )
}

fn named_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "gz")
}

fn has_known_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".json", ".json.gz"].iter().any(|end| name.ends_with(end))
}

fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn unpack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut decoder = GzDecoder::new(bytes);
    let unpacked = limited(&mut decoder)?;
    match decoder.into_inner().len() {
        0 => Ok(unpacked),
        more => Err(io::Error::other(format!(
            "{more} bytes follow the end of the compressed data"
        ))),
    }
}
