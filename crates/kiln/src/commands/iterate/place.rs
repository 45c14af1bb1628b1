//! Where a kept file may be put back. Names come from the store, and a store may come with somebody else's project:
//! what is written by them must not be what git, a build or a shell runs.

use std::fs;
use std::path::{Component, Path};

use kiln_core::diagnostic::printable;

use crate::exit::Failure;

/// What kernels and the files they include are called.
const SOURCES: &[&str] = &[
    "c", "cc", "cpp", "cu", "cuh", "cxx", "def", "h", "hh", "hpp", "hxx", "inc", "inl", "ipp",
    "tpp",
];

const EDITED: &str = "kiln keeps the manifest and sources inside the project only: was .kiln/kiln.db edited? \
                      `kiln iterate --history --json` names other files to put back";

/// A name that stays in the project, passes no link and no hidden folder, and is not that of a folder or a pipe.
/// Looks before anything is opened.
pub fn usable(root: &Path, name: &str) -> Result<(), Failure> {
    let shown = printable(name);
    let refuse = |why: &str| Err(Failure::usage(format!("`{shown}` {why}")).hint(EDITED));
    let mut place = root.to_path_buf();
    let mut is_below_a_file = false;
    for part in Path::new(name).components() {
        let Component::Normal(part) = part else {
            return refuse("leads out of the project");
        };
        // `.git`, `.kiln`, `.cargo`, `.envrc`: what programs read unasked.
        if part.to_string_lossy().starts_with('.') {
            return refuse("is hidden, and nothing is put back there");
        }
        if is_below_a_file {
            return refuse("lies below a file");
        }
        place.push(part);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_symlink() => return refuse("passes a symbolic link"),
            Ok(found) if found.is_dir() => {}
            Ok(found) if found.is_file() => is_below_a_file = true,
            Ok(_) => return refuse("is neither a file nor a folder"),
            // Not there yet, and then nothing below it is.
            Err(_) => {}
        }
    }
    match place.is_dir() || name.ends_with('/') {
        true => refuse("is a folder"),
        false => Ok(()),
    }
}

/// Whether a file of that name may be written: the manifest that was asked for, or a source.
pub fn writable(name: &str, manifest: &str) -> Result<(), Failure> {
    let extension = Path::new(name).extension().and_then(|e| e.to_str());
    let is_source = extension.is_some_and(|e| SOURCES.contains(&e.to_ascii_lowercase().as_str()));
    match is_source || name == manifest {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "`{}` is neither the manifest nor a source: it is not put back",
            printable(name)
        ))
        .hint(format!("a source ends in .{}", SOURCES.join(", .")))
        .hint(EDITED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_inside_the_project_are_put_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir_all(root.join("k/.git/hooks")).expect("a folder");
        fs::write(root.join("k/a.c"), "x").expect("a file");
        std::os::unix::fs::symlink("/tmp", root.join("lk")).expect("a link");
        std::os::unix::fs::symlink("k/a.c", root.join("b.c")).expect("a link");
        for name in ["k/a.c", "k/new.c", "new/deep/er.h", "kiln.toml"] {
            assert!(usable(root, name).is_ok(), "{name}");
        }
        for (name, why) in [
            (".git/config", "hidden"),
            ("k/.git/hooks/post-checkout", "hidden"),
            (".GIT/config", "hidden"),
            (".gitattributes", "hidden"),
            (".kiln/kiln.db", "hidden"),
            ("lk/file.c", "symbolic link"),
            ("b.c", "symbolic link"),
            ("k/a.c/b.c", "below a file"),
            ("k", "a folder"),
            ("new/", "a folder"),
            ("", "a folder"),
            ("../a.c", "out of the project"),
            ("/tmp/a.c", "out of the project"),
            ("./a.c", "out of the project"),
        ] {
            let said = usable(root, name).expect_err(name).to_string();
            assert!(said.contains(why), "{name}: {said}");
        }
        for (name, fits) in [
            ("k/a.c", true),
            ("k/a.CUH", true),
            ("k/kiln.toml", true),
            ("Cargo.toml", false),
            ("build.rs", false),
            ("Makefile", false),
            ("conftest.py", false),
        ] {
            assert_eq!(writable(name, "k/kiln.toml").is_ok(), fits, "{name}");
        }
    }
}
