//! A project as it once was, unpacked into a temporary folder.

use std::fs;
use std::path::{Component, Path, PathBuf};

use kiln_core::trial::{CompileFailure, Outcome};
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

    /// A compiler's words with files named from the project's folder: where they lay for a moment says nothing to anybody.
    pub fn without_folder(&self, outcome: Outcome) -> Outcome {
        let Outcome::NotCompiled(failure) = outcome else {
            return outcome;
        };
        let resolved = self.root().canonicalize();
        let roots = [resolved.unwrap_or_default(), self.root().to_path_buf()];
        let shorten = |text: String| {
            roots.iter().fold(text, |text, root| {
                let folder = format!("{}/", root.display());
                // Of a folder that is gone nothing but the slash would be left.
                match folder.len() > 1 {
                    true => text.replace(&folder, ""),
                    false => text,
                }
            })
        };
        Outcome::NotCompiled(CompileFailure {
            first_error: shorten(failure.first_error),
            log: shorten(failure.log),
        })
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
    fn a_compiler_s_words_name_files_from_the_project() {
        let tree = Tree::new(Path::new("k/kiln.toml")).expect("a folder");
        let file = tree.root().join("k/a.c");
        let said = format!("{0}:1:14: error: x\n{0}:2: note: y", file.display());
        let failure = CompileFailure {
            first_error: said.clone(),
            log: said,
        };
        let shown = CompileFailure {
            first_error: "k/a.c:1:14: error: x\nk/a.c:2: note: y".into(),
            log: "k/a.c:1:14: error: x\nk/a.c:2: note: y".into(),
        };
        assert_eq!(
            tree.without_folder(Outcome::NotCompiled(failure)),
            Outcome::NotCompiled(shown)
        );
    }

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
