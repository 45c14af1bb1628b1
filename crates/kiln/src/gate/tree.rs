//! A project as it once was, unpacked into a temporary folder.

use std::fs;
use std::path::{Component, Path, PathBuf};

use tempfile::TempDir;

use crate::exit::Failure;

pub struct Tree {
    folder: TempDir,
    /// The manifest, from the folder.
    manifest: PathBuf,
}

impl Tree {
    /// An empty one; kiln takes its folder for a project, whatever lies above it.
    pub fn new(manifest: &Path) -> Result<Tree, Failure> {
        let folder = tempfile::Builder::new().prefix("kiln-tree-").tempdir();
        let folder = folder.map_err(|e| Failure::io("cannot make a temporary folder", &e))?;
        let tree = Tree {
            folder,
            manifest: manifest.to_path_buf(),
        };
        tree.make_folder(Path::new(".kiln"))?;
        Ok(tree)
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn manifest(&self) -> PathBuf {
        self.root().join(&self.manifest)
    }

    pub fn make_folder(&self, relative: &Path) -> Result<(), Failure> {
        let path = self.inside(relative)?;
        fs::create_dir_all(&path)
            .map_err(|e| Failure::io(format!("cannot make `{}`", path.display()), &e))
    }

    pub fn write(&self, relative: &Path, contents: &[u8]) -> Result<(), Failure> {
        let path = self.inside(relative)?;
        if let Some(parent) = relative.parent() {
            self.make_folder(parent)?;
        }
        fs::write(&path, contents)
            .map_err(|e| Failure::io(format!("cannot write `{}`", path.display()), &e))
    }

    /// Names come from files that anybody may have edited: none leads out of the folder, and none makes a repository
    /// of it, whose settings git would follow.
    fn inside(&self, relative: &Path) -> Result<PathBuf, Failure> {
        let stays = |part: Component<'_>| match part {
            Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
            Component::CurDir => true,
            _ => false,
        };
        match relative.components().all(stays) {
            true => Ok(self.root().join(relative)),
            false => Err(Failure::usage(format!(
                "`{}` leads out of the project",
                relative.display()
            ))
            .hint("names in a package or a baseline file stay inside its project: was it edited?")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_outside() {
        let tree = Tree::new(Path::new("k/kiln.toml")).expect("a folder");
        assert!(tree.write(Path::new("k/a.c"), b"x").is_ok());
        assert!(tree.root().join("k/a.c").is_file());
        for name in ["../a.c", "/tmp/kiln-a.c", "k/../../a.c", "k/.git/config"] {
            assert!(tree.write(Path::new(name), b"x").is_err(), "{name}");
        }
    }
}
