//! Revisions, through the user's own git: read into a temporary folder, with an index of its own, so
//! that neither working tree nor index of the user is touched.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::tree::Tree;
use crate::engine::{interrupt, interrupted};
use crate::exit::Failure;
use crate::project::{MANIFEST_NAME, ManifestFile};
use crate::toolchain::child;

const PATIENCE: Duration = Duration::from_secs(120);

/// Runs git in a folder and returns what it says; no hooks, no prompts.
fn git(folder: &Path, index: Option<&Path>, arguments: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new("git");
    command
        .args(["--no-optional-locks"])
        .args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C");
    // Set inside hooks; the folder decides which repository is meant.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    let output = child::output(&mut command, Some(PATIENCE)).map_err(|e| {
        Failure::machine(format!("cannot run git: {e}"))
            .hint("`git:` needs the git program; a source file can be compared without")
    })?;
    if output.succeeded() {
        return Ok(output.stdout.trim_end().to_string());
    }
    if interrupt::asked() {
        return Err(interrupted());
    }
    let said = output.stderr.lines().next().unwrap_or("it gave no reason");
    Err(Failure::usage(
        said.trim_start_matches("fatal: ").to_string(),
    ))
}

/// The commit a project stands at, with `+` when files are changed; nothing outside a repository.
pub fn head(folder: &Path) -> Option<String> {
    let commit = git(folder, None, &["rev-parse", "--verify", "HEAD"]).ok()?;
    let changed = git(folder, None, &["status", "--porcelain", "--", "."]).ok()?;
    let mark = if changed.is_empty() { "" } else { "+" };
    Some(format!("{commit}{mark}"))
}

/// Those of some files that the project's own rules keep out of its repository: none where there is no repository, and
/// none that was added all the same.
pub fn ignored<'f>(folder: &Path, files: impl Iterator<Item = &'f Path>) -> Vec<PathBuf> {
    /// Words a command line has room for.
    const AT_ONCE: usize = 500;
    let Ok(top) = git(folder, None, &["rev-parse", "--show-toplevel"]) else {
        return Vec::new();
    };
    let top = PathBuf::from(top);
    // `check-ignore` would give up at the first file of a submodule, and either at one outside.
    let asked = [
        "--literal-pathspecs",
        "ls-files",
        "-z",
        "--full-name",
        "--others",
        "--ignored",
        "--exclude-standard",
        "--",
    ];
    let inside = files.filter(|file| file.starts_with(&top));
    let names: Vec<&str> = inside.filter_map(Path::to_str).collect();
    let mut found = Vec::new();
    for names in names.chunks(AT_ONCE) {
        let said = git(folder, None, &[&asked[..], names].concat()).unwrap_or_default();
        let listed = said.split('\0').filter(|name| !name.is_empty());
        found.extend(listed.map(|name| top.join(name)));
    }
    found
}

/// The project of a manifest as of a revision. `path` names another manifest, or its folder, from
/// the top of the repository.
pub fn checkout(file: &ManifestFile, revision: &str, path: Option<&str>) -> Result<Tree, Failure> {
    let folder = file.dir();
    let top =
        git(folder, None, &["rev-parse", "--show-toplevel"]).map_err(|failure| {
            match failure.message.contains("not a git repository") {
                true => Failure::usage(format!(
                    "`git:{revision}`: `{}` is in no git repository",
                    folder.display()
                ))
                .hint("give a source file instead, or run kiln inside the repository"),
                false => failure,
            }
        })?;
    let top = PathBuf::from(top);
    let wanted = format!("{revision}^{{commit}}");
    let commit = git(
        folder,
        None,
        &["rev-parse", "--verify", "--end-of-options", &wanted],
    );
    let commit = commit.map_err(|failure| {
        Failure::usage(format!(
            "git knows no revision `{revision}`: {}",
            failure.message
        ))
        .hint("`git log --oneline` lists commits; in CI fetch the history (fetch-depth: 0)")
    })?;
    let manifest = match path {
        Some(path) => PathBuf::from(path),
        None => file
            .path
            .strip_prefix(&top)
            .unwrap_or(&file.path)
            .to_path_buf(),
    };
    let manifest = match manifest.extension().is_some_and(|e| e == "toml") {
        true => manifest,
        false => manifest.join(MANIFEST_NAME),
    };
    let tree = Tree::new(&manifest)?;
    let scratch =
        tempfile::tempdir().map_err(|e| Failure::io("cannot make a temporary folder", &e))?;
    let index = scratch.path().join("index");
    let prefix = format!("--prefix={}/", tree.root().display());
    git(&top, Some(&index), &["read-tree", &commit])?;
    git(
        &top,
        Some(&index),
        &["checkout-index", "--all", "--force", &prefix],
    )?;
    if !tree.manifest().is_file() {
        return Err(Failure::usage(format!(
            "revision `{revision}` has no `{}`",
            manifest.display()
        ))
        .hint(format!(
            "`git:{revision}:PATH` names a manifest of that revision, from the top of the repository"
        )));
    }
    Ok(tree)
}
