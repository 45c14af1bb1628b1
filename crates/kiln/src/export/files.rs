//! The folder a package becomes: put together out of sight, given checksums, then its name.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::package;
use crate::durable::Existing;
use crate::exit::Failure;

/// One line per file, as `sha256sum` writes and reads them.
pub const SUMS: &str = "SHA256SUMS";

pub struct Folder {
    staged: TempDir,
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
        let staged = tempfile::Builder::new()
            .prefix(".kiln-export-")
            .tempdir_in(parent)
            .map_err(cannot(parent))?;
        Ok(Folder {
            staged,
            files: Vec::new(),
        })
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
        let mut lines = String::new();
        let mut names = self.files.clone();
        names.sort();
        for name in names {
            let path = self.staged.path().join(&name);
            let bytes = fs::read(&path).map_err(cannot(&path))?;
            lines.push_str(&format!("{}  {name}\n", sha256(&bytes)));
        }
        self.text(SUMS, &lines)
    }

    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Gives the folder its name. Only an earlier package is ever replaced.
    pub fn publish(self, to: &Path, existing: Existing) -> Result<(), Failure> {
        use std::os::unix::fs::PermissionsExt;
        if to.symlink_metadata().is_ok() {
            let is_empty = fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
            let is_package = to.join(package::FILE).is_file();
            match (is_empty, is_package, existing) {
                (true, _, _) => fs::remove_dir(to).map_err(cannot(to))?,
                (_, true, Existing::Replace) => fs::remove_dir_all(to).map_err(cannot(to))?,
                (_, true, Existing::Keep) => {
                    return Err(Failure::usage(format!(
                        "there is a package in `{}` already",
                        to.display()
                    ))
                    .hint("--force replaces it, --out writes to another folder"));
                }
                (_, false, _) => {
                    return Err(Failure::usage(format!(
                        "`{}` is there and is no package of kiln's",
                        to.display()
                    ))
                    .hint("name another folder with --out"));
                }
            }
        }
        // A temporary folder is its owner's alone; a package is for sharing.
        let everyone = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.staged.path(), everyone).map_err(cannot(to))?;
        let staged = self.staged.keep();
        match fs::rename(&staged, to) {
            Ok(()) => Ok(()),
            Err(e) => {
                let _ = fs::remove_dir_all(&staged);
                Err(cannot(to)(e))
            }
        }
    }
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
