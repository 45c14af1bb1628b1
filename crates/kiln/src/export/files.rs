//! The folder a package becomes: put together out of sight, given checksums, then its name.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{package, sealed};
use crate::durable::Existing;
use crate::exit::Failure;
use crate::printer;

/// One line per file, as `sha256sum` writes and reads them.
pub const SUMS: &str = "SHA256SUMS";

/// How folders are called while they are put together.
const STAGED: &str = ".kiln-export-";
/// A folder that is younger may have been made a moment ago, and its lock not taken yet.
const YOUNG: Duration = Duration::from_secs(10);
/// Where an earlier package is meanwhile.
const OLD: &str = "old";

pub struct Folder {
    staged: TempDir,
    /// Says to others that the folder is in use; ends with this process, however that ends.
    _lock: Option<fs::File>,
    /// Paths inside, in the order written.
    files: Vec<String>,
}

fn cannot(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |e| Failure::io(format!("cannot write `{}`", path.display()), &e)
}

pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Folder {
    /// For a package that will be called `to`: it is put together beside that, on the same disk.
    pub fn beside(to: &Path) -> Result<Folder, Failure> {
        let parent = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(cannot(parent))?;
        remove_left(parent);
        let staged = tempfile::Builder::new()
            .prefix(STAGED)
            .tempdir_in(parent)
            .map_err(cannot(parent))?;
        Ok(Folder {
            _lock: locked(staged.path()),
            staged,
            files: Vec::new(),
        })
    }

    /// Where it is while it is put together.
    pub fn path(&self) -> &Path {
        self.staged.path()
    }

    pub fn text(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        self.bytes(name, text.as_bytes())
    }

    pub fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.staged.path().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(cannot(parent))?;
        }
        fs::write(&path, bytes).map_err(cannot(&path))?;
        if !self.files.iter().any(|f| f == name) {
            self.files.push(name.to_string());
        }
        Ok(())
    }

    /// Writes the checksums of all files there are.
    pub fn sums(&mut self) -> Result<(), Failure> {
        let lines = self.sum_lines()?;
        self.text(SUMS, &lines)
    }

    fn sum_lines(&self) -> Result<String, Failure> {
        let mut lines = String::new();
        let mut names = self.files.clone();
        names.sort();
        for name in names {
            let path = self.staged.path().join(&name);
            let bytes = fs::read(&path).map_err(cannot(&path))?;
            lines.push_str(&format!("{}  {name}\n", sha256(&bytes)));
        }
        Ok(lines)
    }

    /// Of all files there are so far.
    pub fn digest(&self) -> Result<String, Failure> {
        Ok(sha256(self.sum_lines()?.as_bytes()))
    }

    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Gives the folder its name. Only an earlier package is ever replaced, and only where all in it is its own; it
    /// goes when the new one is in its place.
    pub fn publish(self, to: &Path, existing: Existing) -> Result<(), Failure> {
        use std::os::unix::fs::PermissionsExt;
        let is_replaced = replaces(to, existing)?;
        // A temporary folder is its owner's alone; a package is for sharing.
        let everyone = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.staged.path(), everyone).map_err(cannot(to))?;
        let aside = match is_replaced {
            false => None,
            true => {
                let kept = Folder::beside(to)?.staged;
                fs::rename(to, kept.path().join(OLD)).map_err(cannot(to))?;
                Some(kept)
            }
        };
        let staged = self.staged.keep();
        let Err(e) = fs::rename(&staged, to) else {
            return Ok(());
        };
        let _ = fs::remove_dir_all(&staged);
        let failure = cannot(to)(e);
        let Some(aside) = aside else {
            return Err(failure);
        };
        match fs::rename(aside.path().join(OLD), to) {
            Ok(()) => Err(failure),
            Err(_) => {
                let place = aside.keep().join(OLD);
                Err(failure.hint(format!("the earlier package is in `{}`", place.display())))
            }
        }
    }
}

/// The folder, locked; nothing where somebody has it, or where folders cannot be locked.
fn locked(folder: &Path) -> Option<fs::File> {
    let open = fs::File::open(folder).ok()?;
    open.try_lock().ok()?;
    Some(open)
}

/// Removes what exports left that were stopped on their way. What is not theirs, or in use, stays; so does an earlier
/// package that was put aside, for it may be the only one.
fn remove_left(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(STAGED));
        let is_staged =
            random.is_some_and(|r| r.len() == 6 && r.bytes().all(|b| b.is_ascii_alphanumeric()));
        let Some(facts) = entry.metadata().ok().filter(|f| is_staged && f.is_dir()) else {
            continue;
        };
        let age = facts.modified().ok().and_then(|then| then.elapsed().ok());
        let path = entry.path();
        if age.is_none_or(|age| age < YOUNG) || locked(&path).is_none() {
            continue;
        }
        match path.join(OLD).symlink_metadata().is_ok() {
            true => printer::talk(&format!(
                "note: an export that was stopped left the earlier package in `{}`",
                path.join(OLD).display()
            )),
            // What cannot be removed does no harm.
            false => drop(fs::remove_dir_all(&path)),
        }
    }
}

/// Whether an earlier package has to make room; refuses where somebody's own files would have to.
fn replaces(to: &Path, existing: Existing) -> Result<bool, Failure> {
    let shown = to.display();
    let Ok(facts) = to.symlink_metadata() else {
        return Ok(false);
    };
    let is_empty = || fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
    if facts.is_dir() && is_empty() {
        return Ok(false);
    }
    let is_package = || {
        let described = to.join(package::FILE).symlink_metadata();
        described.is_ok_and(|facts| facts.is_file())
    };
    if !facts.is_dir() || !is_package() {
        return Err(
            Failure::usage(format!("`{shown}` is there and is no package of kiln's"))
                .hint("name another folder with --out"),
        );
    }
    if existing == Existing::Keep {
        return Err(
            Failure::usage(format!("there is a package in `{shown}` already"))
                .hint("--force replaces it, --out writes to another folder"),
        );
    }
    /// So many names fit into an error.
    const NAMED: usize = 8;
    let strangers = sealed::strangers(to)?;
    if strangers.is_empty() {
        return Ok(true);
    }
    let more = match strangers.len().saturating_sub(NAMED) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let named: Vec<&str> = strangers.iter().take(NAMED).map(String::as_str).collect();
    Err(Failure::usage(format!(
        "`{shown}` holds files that are not the package's as it was exported: {}{more}",
        named.join(", ")
    ))
    .hint("move them away, or name another folder with --out: --force deletes nothing of yours"))
}

/// A path that stays inside the folder it is relative to.
pub fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let relative = Path::new(name);
    let plain = |c: Component| matches!(c, Component::Normal(_));
    let fits = !name.is_empty() && relative.components().all(plain);
    fits.then(|| folder.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_sha256sum() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn no_name_leads_out_of_a_package() {
        let folder = Path::new("/p");
        assert_eq!(inside(folder, "a/b.c"), Some(PathBuf::from("/p/a/b.c")));
        for name in ["", "/etc/passwd", "../x", "a/../../x", "./a"] {
            assert_eq!(inside(folder, name), None, "{name}");
        }
    }
}
