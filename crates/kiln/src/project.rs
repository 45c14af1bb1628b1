//! Where a manifest is, which project it belongs to, and which files it may name.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_core::diagnostic::Diagnostic;
use kiln_core::manifest::{Manifest, Spanned};

use crate::exit::Failure;
use crate::packed;
use crate::printer;
use crate::recording::RecordedFile;
use crate::report::terminal::shell_word;
use crate::settings;

pub const MANIFEST_NAME: &str = "kiln.toml";

/// A manifest that was read, with all that is needed to report on it.
pub struct ManifestFile {
    pub path: PathBuf,
    pub text: String,
    pub manifest: Manifest,
    /// Folder that holds `.kiln/`; no file outside it may be named.
    pub root: PathBuf,
}

impl ManifestFile {
    /// Tunes another shape than the manifest says.
    pub fn aim_at(&mut self, shape: Option<&str>) -> Result<(), Failure> {
        let Some(shape) = shape else {
            return Ok(());
        };
        if self.manifest.aim_at(shape) {
            return Ok(());
        }
        let names: Vec<String> = self
            .manifest
            .shapes
            .iter()
            .map(|s| format!("`{}`", s.name))
            .collect();
        Err(Failure::usage(format!(
            "`{}` has no shape `{}`",
            self.name(),
            kiln_core::diagnostic::printable(shape)
        ))
        .hint(format!("its shapes: {}", names.join(", "))))
    }
}

/// The kernels that come with the binary, so that `kiln tune` works anywhere.
const EMBEDDED: &[(&str, &str)] = &[
    (
        "kiln.toml",
        include_str!("../../../kernels/attention_cpu/kiln.toml"),
    ),
    (
        "attention.c",
        include_str!("../../../kernels/attention_cpu/attention.c"),
    ),
    (
        "reference.c",
        include_str!("../../../kernels/attention_cpu/reference.c"),
    ),
    (
        "baseline.c",
        include_str!("../../../kernels/attention_cpu/baseline.c"),
    ),
];
const DEFAULT_KERNEL: &str = "kernels/attention_cpu";

/// The manifest a user means: a file, a folder with `kiln.toml`, or without a path the current
/// folder's, else the default kernel of this machine.
pub fn locate(path: Option<&Path>) -> Result<PathBuf, Failure> {
    match path {
        Some(path) if path.is_dir() => {
            let inside = path.join(MANIFEST_NAME);
            if inside.is_file() {
                return Ok(inside);
            }
            Err(Failure::usage(format!(
                "the folder `{}` has no {MANIFEST_NAME}",
                path.display()
            ))
            .hint("write a first one with `kiln init FILE.c`"))
        }
        Some(path) if path.is_file() => {
            let is_source = path.extension().is_some_and(|e| e == "c" || e == "cu");
            if is_source {
                return Err(Failure::usage(format!(
                    "`{}` is a source file, not a manifest",
                    path.display()
                ))
                .hint(format!(
                    "write its manifest with `kiln init {}`",
                    shell_word(path.display().to_string())
                )));
            }
            Ok(path.to_path_buf())
        }
        Some(path) => Err(Failure::usage(format!("there is no `{}`", path.display()))
            .hint("give a manifest, or a folder with a kiln.toml")),
        None if Path::new(MANIFEST_NAME).is_file() => Ok(MANIFEST_NAME.into()),
        // Who works beside a kernel of their own does not mean the built-in one.
        None => match sources_here() {
            sources if sources.is_empty() => default_kernel(),
            sources => {
                let failure = Failure::usage(format!("there is no {MANIFEST_NAME} here"));
                Err(match sources.iter().find(|source| may_be_tuned(source)) {
                    Some(source) => {
                        let shown = source.display();
                        let word = shell_word(shown.to_string());
                        failure.hint(format!("`kiln init {word}` writes one for `{shown}`"))
                    }
                    None => {
                        failure.hint("`kiln init FILE.c` writes one for the function in FILE.c")
                    }
                })
            }
        },
    }
}

fn default_kernel() -> Result<PathBuf, Failure> {
    let here = Path::new(DEFAULT_KERNEL).join(MANIFEST_NAME);
    printer::talk(&format!(
        "no {MANIFEST_NAME} here: taking the built-in kernel attention_cpu"
    ));
    match here.is_file() {
        true => Ok(here),
        false => unpack_default(),
    }
}

fn sources_here() -> Vec<PathBuf> {
    let entries = fs::read_dir(".").into_iter().flatten();
    let names = entries
        .flatten()
        .map(|entry| PathBuf::from(entry.file_name()));
    let sources = names.filter(|name| name.extension().is_some_and(|e| e == "c" || e == "cu"));
    let mut sources: Vec<PathBuf> = sources.filter(|name| name.is_file()).collect();
    sources.sort();
    sources
}

/// What `kiln init` writes beside a kernel is no kernel to begin with.
fn may_be_tuned(source: &Path) -> bool {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    !["baseline", "reference"].contains(&&*stem) && !stem.ends_with("_tunable")
}

fn unpack_default() -> Result<PathBuf, Failure> {
    let dir = settings::home()?
        .join("kernels")
        .join(env!("CARGO_PKG_VERSION"))
        .join("attention_cpu");
    settings::private_dir(&dir)?;
    for (name, text) in EMBEDDED {
        let path = dir.join(name);
        // Rewritten only when different: an unchanged file keeps an interrupted study resumable.
        if fs::read_to_string(&path).is_ok_and(|found| found == *text) {
            continue;
        }
        fs::write(&path, text)
            .map_err(|e| Failure::io(format!("cannot write `{}`", path.display()), &e))?;
    }
    Ok(dir.join(MANIFEST_NAME))
}

pub fn read(path: &Path) -> Result<ManifestFile, Failure> {
    let shown = path.display().to_string();
    let text = packed::read_text(path)
        .map_err(|e| Failure::bad_path(format!("cannot read `{shown}`"), &e))?;
    let manifest = Manifest::parse(&text).map_err(|problems| {
        let rendered: Vec<String> = problems.iter().map(|p| p.render(&shown, &text)).collect();
        Failure::rendered(rendered.join("\n\n"))
    })?;
    let absolute = path
        .canonicalize()
        .map_err(|e| Failure::bad_path(format!("cannot resolve `{shown}`"), &e))?;
    settings::as_text(&absolute)?;
    let root = project_root(absolute.parent().unwrap_or(Path::new("/")));
    Ok(ManifestFile {
        path: absolute,
        text,
        manifest,
        root,
    })
}

/// The manifest inside a recording. Its project is the folder kiln runs in: what is learnt from a
/// recording is kept where it was asked for.
pub fn from_recording(recorded: &RecordedFile) -> Result<ManifestFile, Failure> {
    let path = Path::new(&recorded.path);
    let text = recorded.recording.manifest.clone();
    let mut manifest = Manifest::parse(&text).map_err(|problems| {
        let place = format!("{}, manifest", recorded.path);
        let rendered: Vec<String> = problems.iter().map(|p| p.render(&place, &text)).collect();
        Failure::rendered(rendered.join("\n\n"))
    })?;
    // The study may have been of another shape than its manifest says.
    manifest.aim_at(&recorded.recording.shape);
    let cannot = |e| Failure::bad_path(format!("cannot resolve `{}`", recorded.path), &e);
    let here = Path::new(".").canonicalize().map_err(cannot)?;
    Ok(ManifestFile {
        path: path.canonicalize().map_err(cannot)?,
        text,
        manifest,
        root: project_root(&here),
    })
}

/// The nearest folder upwards that is a project: one that has `.kiln` or `.git`.
pub fn project_root(dir: &Path) -> PathBuf {
    dir.ancestors()
        .find(|a| a.join(".kiln").is_dir() || a.join(".git").exists())
        .unwrap_or(dir)
        .to_path_buf()
}

impl ManifestFile {
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The manifest's path as shown and stored: relative to the project.
    pub fn name(&self) -> String {
        let relative = self.path.strip_prefix(&self.root).unwrap_or(&self.path);
        relative.display().to_string()
    }

    pub fn error(&self, diagnostic: &Diagnostic) -> Failure {
        Failure::rendered(diagnostic.render(&self.name(), &self.text))
    }

    /// Whether every file and folder the manifest names can be used; says so of all that cannot.
    pub fn resolve_all(&self) -> Result<(), Failure> {
        let manifest = &self.manifest;
        let mut named = manifest.sources();
        named.extend(&manifest.kernel.include_dirs);
        let mut seen = HashSet::new();
        let problems: Vec<String> = named
            .into_iter()
            .filter(|named| seen.insert(named.value.as_str()))
            .filter_map(|named| self.resolve(named).err())
            .map(|failure| failure.message)
            .collect();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Failure::rendered(problems.join("\n\n"))),
        }
    }

    /// A file or folder the manifest names, which must exist inside the project.
    pub fn resolve(&self, named: &Spanned<String>) -> Result<PathBuf, Failure> {
        let problem = |message: String| Diagnostic::new(message, named.span.clone());
        let joined = self.dir().join(&named.value);
        let found = joined.canonicalize().map_err(|e| {
            let what = match e.kind() {
                std::io::ErrorKind::NotFound => format!("there is no file `{}`", named.value),
                _ => format!("cannot use `{}`: {e}", named.value),
            };
            let hint = format!("paths are relative to the manifest: `{}`", joined.display());
            self.error(&problem(what).label("named here").hint(hint))
        })?;
        if !found.starts_with(&self.root) {
            return Err(self.error(
                &problem(format!("`{}` lies outside the project", named.value))
                    .label(format!("resolves to `{}`", found.display()))
                    .hint(format!(
                        "the project is `{}`; copy the file into it",
                        self.root.display()
                    )),
            ));
        }
        if !found.is_file() && !found.is_dir() {
            return Err(self.error(&problem(format!("`{}` is not a regular file", named.value))));
        }
        let text = settings::as_text(&found)?;
        if text.contains(['"', '\n', '\\']) {
            return Err(self.error(&problem(format!(
                "the path `{text}` holds a character that C includes cannot name"
            ))));
        }
        Ok(found)
    }
}
