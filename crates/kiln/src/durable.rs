//! Files that are whole or not there, also after the power failed.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use nix::sys::statvfs::statvfs;
use tempfile::NamedTempFile;

/// Whether a file that is already there may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Keep,
    Replace,
}

impl Existing {
    pub fn from_force(force: bool) -> Existing {
        match force {
            true => Existing::Replace,
            false => Existing::Keep,
        }
    }
}

/// Gives a file that was written beside `path` its name. Whoever looks, at any time and also after a
/// power loss, finds what was there before or all of the new; once this returns, the new.
pub fn publish(file: NamedTempFile, path: &Path, existing: Existing) -> io::Result<()> {
    // Before the name: a name may reach the disk ahead of the contents.
    file.as_file().sync_all()?;
    name(file, path, existing)?;
    sync_folder(folder_of(path))
}

/// The same for what may be lost with the power, and is checked when it is read.
pub fn publish_unsynced(file: NamedTempFile, path: &Path) -> io::Result<()> {
    name(file, path, Existing::Replace)
}

fn name(file: NamedTempFile, path: &Path, existing: Existing) -> io::Result<()> {
    let written = file.into_temp_path();
    match existing {
        Existing::Replace => {
            fs::rename(&written, path)?;
            // The name it would remove is gone, and may be another's by then.
            written.keep().map(|_| ()).map_err(|e| e.error)
        }
        // A link needs a free name; the first one goes when `written` does.
        Existing::Keep => match fs::hard_link(&written, path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(e),
            // Not every file system has links.
            Err(_) => written.persist_noclobber(path).map_err(|e| e.error),
            Ok(()) => Ok(()),
        },
    }
}

/// The folder a name is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Makes the names in a folder survive a power loss, where the file system can promise that.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    let opened = match File::open(folder) {
        // One may write into a folder that one may not list.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        opened => opened?,
    };
    match opened.sync_all() {
        Err(e) if is_not_for_folders(&e) => Ok(()),
        result => result,
    }
}

/// Some network and user-space file systems sync files only.
fn is_not_for_folders(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Whether an operation failed for want of space.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// What programs print when they run out of space, in the C locale.
pub fn says_full(text: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"]
        .iter()
        .any(|words| text.contains(words))
}

/// Whether there is next to no space where a folder is.
pub fn is_almost_full(folder: &Path) -> bool {
    const NEXT_TO_NOTHING: u64 = 64 << 10;
    statvfs(folder).is_ok_and(|facts| {
        let free = facts.blocks_available() * facts.fragment_size();
        // Some file systems count no inodes at all.
        let lacks_inodes = facts.files() > 0 && facts.files_available() == 0;
        // Some, such as the kernel's own, have no size.
        facts.blocks() > 0 && (free < NEXT_TO_NOTHING || lacks_inodes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn written(folder: &Path, text: &str) -> NamedTempFile {
        let mut file = NamedTempFile::new_in(folder).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_name_is_kept_or_replaced_and_nothing_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        publish(written(folder.path(), "one"), &path, Existing::Keep).unwrap();
        let refused = publish(written(folder.path(), "two"), &path, Existing::Keep).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        publish(written(folder.path(), "three"), &path, Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        publish_unsynced(written(folder.path(), "four"), &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "four");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_disk_is_told_from_other_troubles() {
        assert!(is_full(&io::Error::from_raw_os_error(28)));
        assert!(!is_full(&io::Error::from_raw_os_error(5)));
        assert!(says_full("ld: final link failed: No space left on device"));
        assert!(!is_almost_full(Path::new("/proc")));
    }
}
