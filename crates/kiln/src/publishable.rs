//! Which files of a project may be put where others read them: into an exported package, a baseline file.
//!
//! A source can name any file of the project in an `#include`, and sources come from strangers too. What is hidden or
//! looks like a secret is never taken along unasked.

use std::path::{Component, Path};

use kiln_core::diagnostic::printable;

use crate::exit::Failure;
use crate::project::ManifestFile;

/// Why a file is not taken along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A part of its path begins with a dot.
    Hidden,
    /// By its name, or by what is in it.
    Secret,
    /// By the project's own `.gitignore`.
    Ignored,
}

/// What source files are called. Their names say nothing; `secrets.h` may be about random numbers.
const SOURCES: [&str; 20] = [
    "c", "cc", "cpp", "cxx", "cu", "cuh", "h", "hh", "hpp", "hxx", "inc", "inl", "ipp", "tpp",
    "def", "py", "npy", "toml", "ptx", "cl",
];
/// Endings of files that hold keys.
const KEYS: [&str; 11] = [
    "pem", "key", "p12", "pfx", "jks", "keystore", "kdbx", "ppk", "gpg", "asc", "env",
];
/// Parts of names that files with secrets have.
const WORDS: [&str; 9] = [
    "secret",
    "password",
    "passwd",
    "credential",
    "token",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// What speaks against showing a file to others.
pub fn obstacle(file: &ManifestFile, path: &Path, contents: &[u8]) -> Option<Obstacle> {
    let from_manifest = path.strip_prefix(file.dir());
    let inside = from_manifest.or_else(|_| path.strip_prefix(&file.root));
    let is_hidden = |part: Component<'_>| match part {
        Component::Normal(name) => name.to_string_lossy().starts_with('.'),
        _ => false,
    };
    if inside.unwrap_or(path).components().any(is_hidden) {
        return Some(Obstacle::Hidden);
    }
    (is_secret_by_name(path) || holds_key(contents)).then_some(Obstacle::Secret)
}

fn is_secret_by_name(path: &Path) -> bool {
    let lower = |part: Option<&std::ffi::OsStr>| {
        let part = part.unwrap_or_default().to_string_lossy();
        part.to_ascii_lowercase()
    };
    let (name, ending) = (lower(path.file_name()), lower(path.extension()));
    KEYS.contains(&ending.as_str())
        || (!SOURCES.contains(&ending.as_str()) && WORDS.iter().any(|word| name.contains(word)))
}

/// A private key, as every tool writes it.
fn holds_key(contents: &[u8]) -> bool {
    const MARK: &[u8] = b"PRIVATE KEY-----";
    contents.windows(MARK.len()).any(|window| window == MARK)
}

impl Obstacle {
    pub fn failure(self, file: &ManifestFile, path: &Path, into: &str) -> Failure {
        let name = shown(file, path);
        let (why, hint) = match self {
            Obstacle::Hidden => (
                "a part of its path begins with a dot",
                format!(
                    "take the include out, or, if everybody may read `{name}`, give it a path without such a part"
                ),
            ),
            Obstacle::Secret => (
                "it looks like a secret",
                format!(
                    "take the include out, or, if everybody may read `{name}`, rename it to a header (`.h`)"
                ),
            ),
            Obstacle::Ignored => (
                "git ignores it",
                format!(
                    "take the include out, or, if everybody may read `{name}`, say so: `git add --force {name}`"
                ),
            ),
        };
        Failure::usage(format!("`{name}` does not go into {into}: {why}")).hint(hint)
    }
}

/// A path as seen from the project, for people.
pub fn shown(file: &ManifestFile, path: &Path) -> String {
    let relative = path.strip_prefix(&file.root).unwrap_or(path);
    printable(&relative.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for name in [
            "a.pem",
            "server.KEY",
            "prod.env",
            "passwords.txt",
            "id_ed25519",
            "tokens",
        ] {
            assert!(is_secret_by_name(Path::new(name)), "{name}");
        }
        for name in [
            "secrets.h",
            "key.cuh",
            "tokenizer.c",
            "data.txt",
            "config.h.in",
            "x",
        ] {
            assert!(!is_secret_by_name(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn keys_are_known_by_their_first_line() {
        assert!(holds_key(b"/* */ \n-----BEGIN OPENSSH PRIVATE KEY-----\n"));
        assert!(!holds_key(b"int private_key;\n"));
    }
}
