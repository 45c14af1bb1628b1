//! The files of the project a package carries: what its answers are checked with, and what it can be built
//! from again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_core::manifest::{BaselineKind, Reference};

use super::files::Folder;
use super::plan::{packaged, packaged_path};
use crate::exit::Failure;
use crate::project::ManifestFile;
use crate::task::includes::included;

/// More than this is data, not source; a package would be no fun to share.
const MOST_BYTES: u64 = 64 << 20;

/// The manifest, the kernel, the reference, the baseline and the fallback, each with what it pulls in.
pub fn copy(file: &ManifestFile, folder: &mut Folder) -> Result<(), Failure> {
    let manifest = &file.manifest;
    let mut named = vec![&manifest.kernel.source];
    match &manifest.reference {
        Some(Reference::C { source, .. } | Reference::Kernel { source, .. }) => named.push(source),
        Some(Reference::Python(function)) => named.push(&function.source),
        Some(Reference::File { .. }) | None => {}
    }
    if let Some(baseline) = &manifest.baseline {
        match &baseline.kind {
            BaselineKind::C { source, .. } | BaselineKind::Kernel { source, .. } => {
                named.push(source);
            }
            BaselineKind::Python(function) => named.push(&function.source),
            BaselineKind::Config { .. } => {}
        }
        named.extend(baseline.also.iter().map(|f| &f.source));
    }
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
    let mut seen = BTreeSet::new();
    while let Some(path) = roots.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let bytes = read(&path)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        roots.extend(match path.extension().is_some_and(|e| e == "py") {
            true => imported(&path, &text),
            false => {
                let found = included(&path, &text, &include_dirs);
                found.iter().filter_map(|p| p.canonicalize().ok()).collect()
            }
        });
        put(file, &path, &bytes, folder)?;
    }
    // A folder of headers that none is taken from has to be there all the same.
    for dir in &include_dirs[1..] {
        let name = packaged_path(file, &dir.display().to_string())?;
        folder.text(&format!("{name}/.keep"), "")?;
    }
    Ok(())
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

/// Modules that lie beside a Python file and that it imports.
fn imported(from: &Path, text: &str) -> Vec<PathBuf> {
    let dir = from.parent().unwrap_or(Path::new("/"));
    let names = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("import ")
            .or_else(|| line.strip_prefix("from "))
    });
    names
        .flat_map(|rest| rest.split(" import ").next().unwrap_or_default().split(','))
        .filter_map(|name| name.split_whitespace().next())
        .map(|name| dir.join(format!("{}.py", name.split('.').next().unwrap_or_default())))
        .filter(|path| path.is_file())
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}
