//! `kiln.gate.toml` as a file: read and written whole, made from a task, unpacked to be built again.
//! What is in it and why is `kiln_core::gate_file`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_core::gate_file::{BaselineFile, Entry, Sources};
use kiln_core::trial::Assignment;

use super::git;
use super::tree::Tree;
use crate::exit::Failure;
use crate::packed::{self, Existing};
use crate::publishable;
use crate::task::Task;

const MOST_BYTES: u64 = 64 << 20;

/// Where the file of a manifest is by default: beside it, `kiln.gate.toml` for `kiln.toml`.
pub fn default_path(manifest: &Path) -> PathBuf {
    manifest.with_extension("gate.toml")
}

pub fn read(path: &Path) -> Result<BaselineFile, Failure> {
    let shown = path.display();
    let cannot = |why: String| Failure::usage(format!("cannot read `{shown}`: {why}"));
    let facts = fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(format!(
            "there is no `{shown}`: nothing to compare with"
        ))
        .hint("`kiln gate --record` records the kernel as it is now; commit the file it writes"),
        _ => cannot(e.to_string()),
    })?;
    if !facts.is_file() || facts.len() > MOST_BYTES {
        return Err(cannot("it is no file of reasonable size".into()));
    }
    let text = packed::read_text(path).map_err(|e| cannot(e.to_string()))?;
    BaselineFile::parse(&text).map_err(|e| {
        let failure = cannot(e.to_string());
        e.hints().iter().fold(failure, |f, hint| f.hint(*hint))
    })
}

/// Writes everything or nothing; a reader sees the old file or the new one.
pub fn write(file: &BaselineFile, path: &Path, existing: Existing) -> Result<(), Failure> {
    let text = file
        .text()
        .map_err(|e| Failure::usage(format!("the baseline cannot be written as TOML: {e}")))?;
    packed::write(text.into_bytes(), path, existing)?;
    Ok(())
}

/// Records the kernel as it is now for the target of a task.
pub fn record(
    file: &mut BaselineFile,
    task: &Task,
    config: &Assignment,
    measured_ns: f64,
) -> Result<(), Failure> {
    let sources = sources_of(task)?;
    let target = task.manifest().target();
    let entry = Entry {
        source: sources.digest(),
        device: task.device.name.clone(),
        recorded_us: (measured_ns / 10.0).round() / 100.0,
        kiln: env!("CARGO_PKG_VERSION").into(),
        dimensions: target.dimensions.iter().cloned().collect(),
        config: config.iter().cloned().collect(),
    };
    file.insert(target.name.clone(), entry, sources);
    Ok(())
}

/// The project an entry was recorded with, unpacked.
pub fn tree(file: &BaselineFile, entry: &Entry) -> Result<Tree, Failure> {
    let missing = || {
        Failure::usage("the baseline names sources that are not there")
            .hint("take the file back from git, or record it anew: `kiln gate --record --force`")
    };
    unpack(file.sources(entry).ok_or_else(missing)?)
}

/// A project with these files.
pub fn unpack(sources: &Sources) -> Result<Tree, Failure> {
    let tree = Tree::new(Path::new(&sources.manifest))?;
    for (path, text) in &sources.files {
        tree.write(Path::new(path), text.as_bytes())?;
    }
    // Folders the manifest names need not hold anything that was recorded.
    let file = crate::project::read(&tree.manifest())?;
    let folder = Path::new(&sources.manifest)
        .parent()
        .unwrap_or(Path::new(""));
    for dir in &file.manifest.kernel.include_dirs {
        tree.make_folder(&folder.join(&dir.value))?;
    }
    Ok(tree)
}

/// Manifest, kernel source and what that includes from the project, as they are now.
pub fn sources_of(task: &Task) -> Result<Sources, Failure> {
    let mut files = BTreeMap::new();
    for file in task.kernel_files() {
        let path = file.path.canonicalize().unwrap_or(file.path);
        let obstacle = publishable::obstacle(&task.file, &path, file.text.as_bytes());
        match obstacle.filter(|_| path != task.source_path()) {
            // What others are given to read holds no file that a source merely names.
            Some(_) if !file.is_read => continue,
            Some(obstacle) => return Err(obstacle.failure(&task.file, &path, "a baseline file")),
            None => {}
        }
        files.insert(within_project(task, &path)?, file.text);
    }
    let manifest = within_project(task, &task.file.path)?;
    files.insert(manifest.clone(), task.file.text.clone());
    Ok(Sources {
        revision: git::head(task.file.dir()),
        manifest,
        files,
    })
}

/// A path as seen from the project's folder.
pub fn within_project(task: &Task, path: &Path) -> Result<String, Failure> {
    let root = &task.file.root;
    let inside = path.strip_prefix(root).ok().and_then(Path::to_str);
    inside.map(str::to_string).ok_or_else(|| {
        Failure::usage(format!(
            "`{}` cannot be taken along: it lies outside the project `{}`",
            path.display(),
            root.display()
        ))
        .hint("copy it into the project")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_in_one_folder_have_their_own() {
        let of = |name| default_path(Path::new(name));
        assert_eq!(of("k/kiln.toml"), Path::new("k/kiln.gate.toml"));
        assert_eq!(of("kiln.cuda.toml"), Path::new("kiln.cuda.gate.toml"));
    }

    #[test]
    fn a_baseline_is_replaced_only_when_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kiln.gate.toml");
        let file = BaselineFile::new("a");
        write(&file, &path, Existing::Keep).expect("written");
        assert!(write(&file, &path, Existing::Keep).is_err(), "kept");
        write(&file, &path, Existing::Replace).expect("replaced");
        // It has no shapes: nothing to compare with.
        let failure = read(&path).expect_err("empty").to_string();
        assert!(failure.contains("it has no shapes"), "{failure}");
        assert!(failure.contains("--record --force"), "{failure}");
    }
}
