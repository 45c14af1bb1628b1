//! The files of the project a package carries: what its answers are checked with, and what it can be built
//! from again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kiln_core::diagnostic::printable;

use super::files::Folder;
use super::plan::{packaged, packaged_path};
use crate::exit::Failure;
use crate::gate::git;
use crate::project::ManifestFile;
use crate::publishable::{self, Obstacle};
use crate::task::includes::{imported, included};

/// More than this is data, not source; a package would be no fun to share.
const MOST_BYTES: u64 = 64 << 20;

/// The manifest, the kernel, the reference, the baseline and the fallback, each with what the compiler reads for it.
/// Returns a note about every file that a source names and the package lacks.
pub fn copy(
    file: &ManifestFile,
    read_files: &BTreeSet<PathBuf>,
    folder: &mut Folder,
) -> Result<Vec<String>, Failure> {
    let manifest = &file.manifest;
    let mut named = manifest.sources();
    named.extend(manifest.export.fallback.iter().map(|f| &f.source));
    let mut include_dirs = vec![file.dir().to_path_buf()];
    for dir in &manifest.kernel.include_dirs {
        include_dirs.push(file.resolve(dir)?);
    }
    let mut roots = Vec::new();
    for source in named {
        roots.push(file.resolve(source)?);
    }
    folder.text(&packaged(&file.name()), &file.text)?;
    let is_named: BTreeSet<PathBuf> = roots.iter().cloned().collect();
    roots.extend(read_files.iter().cloned());
    let mut packed: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let mut mentions = BTreeMap::new();
    while let Some(path) = roots.pop() {
        if packed.contains_key(&path) {
            continue;
        }
        let bytes = read(&path)?;
        let text = String::from_utf8_lossy(&bytes);
        match path.extension().is_some_and(|e| e == "py") {
            true => roots.extend(imported(&path, &text)),
            false => mention(file, &path, &text, &include_dirs, &mut mentions),
        }
        packed.insert(path, bytes);
    }
    // What the manifest itself names is meant, be it in the repository or not.
    let others = packed.keys().filter(|path| !is_named.contains(*path));
    let ignored = git::ignored(file.dir(), others.map(PathBuf::as_path));
    for (path, bytes) in &packed {
        let by_git = ignored.contains(path).then_some(Obstacle::Ignored);
        let obstacle = publishable::obstacle(file, path, bytes).or(by_git);
        if let Some(obstacle) = obstacle {
            let failure = obstacle.failure(file, path, "a package");
            let place = match mentions.get(path) {
                Some(place) => place.clone(),
                None if is_named.contains(path) => format!("`{}` names it", file.name()),
                None => format!("a macro, or a flag in `{}`, includes it", file.name()),
            };
            return Err(Failure {
                message: format!("{}; {place}", failure.message),
                ..failure
            });
        }
        put(file, path, bytes, folder)?;
    }
    // A folder of headers that none is taken from has to be there all the same.
    for dir in &include_dirs[1..] {
        let name = packaged_path(file, &dir.display().to_string())?;
        folder.text(&format!("{name}/.keep"), "")?;
    }
    let left_out = mentions
        .iter()
        .filter(|(path, _)| !packed.contains_key(*path));
    let notes = left_out.map(|(path, place)| {
        let name = publishable::shown(file, path);
        format!("`{name}` is not in the package: {place}, and the compiler does not read it for these configs")
    });
    Ok(notes.collect())
}

/// Where each file of the project that a text includes is included, in words.
fn mention(
    file: &ManifestFile,
    from: &Path,
    text: &str,
    include_dirs: &[PathBuf],
    mentions: &mut BTreeMap<PathBuf, String>,
) {
    for (number, line) in (1..).zip(text.lines()) {
        let found = included(from, line, include_dirs).into_iter();
        let found = found.filter_map(|path| path.canonicalize().ok());
        for path in found.filter(|path| path.starts_with(&file.root)) {
            let place = format!("{}:{number}", publishable::shown(file, from));
            mentions
                .entry(path)
                .or_insert_with(|| format!("`{place}` includes it (`{}`)", printable(line.trim())));
        }
    }
}

/// A further file of the project, such as inputs.
pub fn put(
    file: &ManifestFile,
    path: &Path,
    bytes: &[u8],
    folder: &mut Folder,
) -> Result<(), Failure> {
    let Ok(relative) = path.strip_prefix(&file.root) else {
        return Ok(());
    };
    if let Some(obstacle) = publishable::obstacle(file, path, bytes) {
        return Err(obstacle.failure(file, path, "a package"));
    }
    folder.bytes(&packaged(&relative.display().to_string()), bytes)
}

pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let shown = path.display();
    let size = fs::metadata(path).map_or(0, |m| m.len());
    if size > MOST_BYTES {
        return Err(Failure::usage(format!(
            "`{shown}` has {size} bytes: too much for a package"
        ))
        .hint("draw inputs instead of reading them from a file"));
    }
    fs::read(path).map_err(|e| Failure::bad_path(format!("cannot read `{shown}`"), &e))
}
