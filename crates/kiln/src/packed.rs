//! Text that people and other programs wrote, and JSON files, plain or compressed with gzip.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use thiserror::Error;

use crate::durable;
pub use crate::durable::Existing;
use crate::exit::Failure;

/// The largest text a file may unpack to; real ones have a few megabytes.
const MAX_BYTES: u64 = 256 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// What some editors and spreadsheets write before text in UTF-8. It is no part of the text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A file that was read.
#[derive(Debug)]
pub struct Contents {
    /// As they are on the disk.
    pub stored: Vec<u8>,
    /// `None` when they are not compressed.
    unpacked: Option<Vec<u8>>,
}

impl Contents {
    /// Unpacked, without a byte-order mark.
    pub fn plain(&self) -> &[u8] {
        let all = self.unpacked.as_ref().unwrap_or(&self.stored);
        all.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(all)
    }
}

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("{0}")]
    Unreadable(io::Error),
    #[error("it is named `.gz`, but is not compressed with gzip")]
    NotGzip,
    #[error("it is cut off or damaged: {0}")]
    Damaged(io::Error),
}

/// Compressed or not is told by what is in the file; a name that promises gzip is held to it.
pub fn read(path: &Path) -> Result<Contents, ReadError> {
    let stored = contents(path).map_err(ReadError::Unreadable)?;
    let is_gzip = stored.starts_with(&GZIP_MAGIC);
    if named_gzip(path) && !is_gzip {
        return Err(ReadError::NotGzip);
    }
    let unpacked = match is_gzip {
        true => Some(unpack(&stored).map_err(ReadError::Damaged)?),
        false => None,
    };
    Ok(Contents { stored, unpacked })
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

/// The text of a file that a person wrote, without a byte-order mark.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = fs::read_to_string(path)?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(text)
}

/// What a name stands for that is to be written to.
enum Place {
    /// A regular file, there or not.
    File,
    /// A pipe, or a device such as `/dev/null` or a terminal; nothing in it is replaced.
    Through,
}

impl Place {
    fn of(path: &Path) -> Result<Place, String> {
        // That there is nothing, or that one may not look, shows when it is written.
        let Ok(own) = path.symlink_metadata() else {
            return Ok(Place::File);
        };
        // `/dev/stdout` is a link.
        let kind = fs::metadata(path).map_or(own.file_type(), |facts| facts.file_type());
        if kind.is_fifo() || kind.is_char_device() {
            return Ok(Place::Through);
        }
        if kind.is_block_device() || kind.is_socket() {
            return Err("it is a disk or a socket".into());
        }
        // Neither the link nor what it leads to, which may lie anywhere, is meant to go.
        match own.is_symlink() {
            true => Err("it is a link".into()),
            false => Ok(Place::File),
        }
    }
}

/// Writes everything or nothing, also if the power fails meanwhile; compressed when the name ends in `.gz`, and returns the size in bytes.
pub fn write(plain: Vec<u8>, path: &Path, existing: Existing) -> Result<u64, Failure> {
    let cannot = |e: io::Error| Failure::io(format!("cannot write `{}`", path.display()), &e);
    let place = Place::of(path).map_err(|why| {
        Failure::usage(format!("cannot write `{}`: {why}", path.display()))
            .hint("name a regular file, new or to be replaced; of a link, the file it leads to")
    })?;
    let bytes = match named_gzip(path) {
        true => pack(&plain).map_err(cannot)?,
        false => plain,
    };
    if let Place::Through = place {
        let mut stream = fs::File::options().write(true).open(path).map_err(cannot)?;
        stream.write_all(&bytes).map_err(cannot)?;
        return Ok(bytes.len() as u64);
    }
    // For sharing: readable as the user's other files are.
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(durable::folder_of(path))
        .map_err(cannot)?;
    file.write_all(&bytes).map_err(cannot)?;
    match durable::publish(file, path, existing) {
        Ok(()) => Ok(bytes.len() as u64),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(Failure::usage(format!(
            "`{}` is already there",
            path.display()
        ))
        .hint("--force replaces it")),
        Err(e) => Err(cannot(e)),
    }
}

fn named_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "gz")
}

/// Whether the name is that of a JSON file.
pub fn is_json_name(path: &Path) -> bool {
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
