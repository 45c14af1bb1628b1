//! `kiln.gate.toml`: what `kiln gate` compares with, kept in the user's repository.
//!
//! It holds no times to compare with, for times are of a machine and a day. It holds the kernel
//! itself: for each shape a config and the sources it was recorded with, whole, so that a shallow
//! clone is enough. `kiln gate` builds and measures them beside the kernel of today.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kiln_core::trial::Assignment;
use kiln_core::value::Value;
use serde::{Deserialize, Serialize};

use super::git;
use super::tree::Tree;
use crate::exit::Failure;
use crate::packed::{self, Existing};
use crate::task::Task;

/// Raised when an older kiln could no longer make sense of the file.
const VERSION: u32 = 1;
const MOST_BYTES: u64 = 64 << 20;

const HEADER: &str = "\
# What `kiln gate` compares this kernel with: for each shape a config, and the sources it had. Both sides are built and
# measured anew; the recorded times are for orientation only. Written by `kiln gate --record`, moved forward by
# `kiln gate --ratchet`; keep it under version control.

";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineFile {
    version: u32,
    pub kernel: String,
    /// Differences inside this fraction pass; `--margin` overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    pub shapes: BTreeMap<String, Entry>,
    /// By digest.
    sources: BTreeMap<String, Sources>,
}

/// What was recorded of one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub source: String,
    pub device: String,
    /// For orientation only.
    pub recorded_us: f64,
    pub kiln: String,
    pub dimensions: BTreeMap<String, i64>,
    pub config: BTreeMap<String, Value>,
}

impl Entry {
    pub fn values(&self) -> Vec<(String, Value)> {
        self.config.clone().into_iter().collect()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    /// The commit, with `+` when files were changed; for orientation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    /// Path of the manifest among the files.
    manifest: String,
    /// Texts by path, from the top of the project.
    files: BTreeMap<String, String>,
}

impl Sources {
    /// Manifest, kernel source and what that includes from the project, as they are now.
    fn of(task: &Task) -> Result<Sources, Failure> {
        let root = &task.file.root;
        let relative = |path: &Path| -> Result<String, Failure> {
            let inside = path.strip_prefix(root).ok().and_then(Path::to_str);
            inside.map(str::to_string).ok_or_else(|| {
                Failure::usage(format!(
                    "`{}` cannot be recorded: it lies outside the project `{}`",
                    path.display(),
                    root.display()
                ))
                .hint("copy it into the project")
            })
        };
        let mut files = BTreeMap::new();
        for (path, text) in task.kernel_files() {
            let path = path.canonicalize().unwrap_or(path);
            files.insert(relative(&path)?, text);
        }
        let manifest = relative(&task.file.path)?;
        files.insert(manifest.clone(), task.file.text.clone());
        Ok(Sources {
            revision: git::head(task.file.dir()),
            manifest,
            files,
        })
    }

    /// Of manifest and files, whatever line ends a checkout gave them.
    fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let pairs = self.files.iter();
        for text in pairs
            .flat_map(|(path, text)| [path, text])
            .chain([&self.manifest])
        {
            let text = text.replace("\r\n", "\n");
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.finalize().to_hex()[..16].to_string()
    }
}

/// Where the file of a manifest is by default: beside it, `kiln.gate.toml` for `kiln.toml`.
pub fn default_path(manifest: &Path) -> PathBuf {
    manifest.with_extension("gate.toml")
}

impl BaselineFile {
    pub fn new(kernel: &str) -> BaselineFile {
        BaselineFile {
            version: VERSION,
            kernel: kernel.into(),
            margin: None,
            shapes: BTreeMap::new(),
            sources: BTreeMap::new(),
        }
    }

    pub fn read(path: &Path) -> Result<BaselineFile, Failure> {
        let shown = path.display();
        let cannot = |why: String| Failure::usage(format!("cannot read `{shown}`: {why}"));
        let facts = fs::metadata(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Failure::usage(format!(
                "there is no `{shown}`: nothing to compare with"
            ))
            .hint(
                "`kiln gate --record` records the kernel as it is now; commit the file it writes",
            ),
            _ => cannot(e.to_string()),
        })?;
        if !facts.is_file() || facts.len() > MOST_BYTES {
            return Err(cannot("it is no file of reasonable size".into()));
        }
        let text = fs::read_to_string(path).map_err(|e| cannot(e.to_string()))?;
        let again = "`kiln gate --record --force` writes it anew from the kernel as it is now";
        let file: BaselineFile = match toml::from_str(&text) {
            Ok(file) => file,
            Err(e) => {
                let newer = toml::from_str::<toml::Table>(&text)
                    .ok()
                    .and_then(|t| t.get("version")?.as_integer())
                    .is_some_and(|version| version > i64::from(VERSION));
                return Err(match newer {
                    true => cannot("a newer kiln wrote it".into()).hint("update kiln"),
                    false => cannot(e.to_string().trim_end().to_string()).hint(again),
                });
            }
        };
        if file.version != VERSION {
            return Err(cannot(format!("it is of version {}", file.version)).hint(again));
        }
        if file.shapes.is_empty() {
            return Err(cannot("it has no shapes".into()).hint(again));
        }
        if file.margin.is_some_and(|m| !(0.0..1.0).contains(&m)) {
            return Err(cannot("its margin is not from 0 to below 1".into()));
        }
        for (digest, sources) in &file.sources {
            if sources.digest() != *digest {
                return Err(
                    cannot(format!("the sources `{digest}` are not what was recorded"))
                        .hint("undo the edit, for instance with `git checkout`")
                        .hint(again),
                );
            }
        }
        for (name, entry) in &file.shapes {
            if !file.sources.contains_key(&entry.source) {
                return Err(
                    cannot(format!("shape `{name}` names sources that are not there")).hint(again),
                );
            }
        }
        Ok(file)
    }

    /// Writes everything or nothing; a reader sees the old file or the new one.
    pub fn write(&self, path: &Path, existing: Existing) -> Result<(), Failure> {
        let body = toml::to_string_pretty(self)
            .map_err(|e| Failure::usage(format!("the baseline cannot be written as TOML: {e}")))?;
        packed::write(format!("{HEADER}{body}").into_bytes(), path, existing)?;
        Ok(())
    }

    /// Records the kernel as it is now for the target of a task.
    pub fn record(
        &mut self,
        task: &Task,
        config: &Assignment,
        measured_ns: f64,
    ) -> Result<(), Failure> {
        let sources = Sources::of(task)?;
        let digest = sources.digest();
        let target = task.manifest().target();
        let entry = Entry {
            source: digest.clone(),
            device: task.device.name.clone(),
            recorded_us: (measured_ns / 10.0).round() / 100.0,
            kiln: env!("CARGO_PKG_VERSION").into(),
            dimensions: target.dimensions.iter().cloned().collect(),
            config: config.iter().cloned().collect(),
        };
        self.shapes.insert(target.name.clone(), entry);
        self.sources.insert(digest, sources);
        // What no shape names any more goes.
        let used: BTreeSet<&str> = self.shapes.values().map(|e| e.source.as_str()).collect();
        let used: BTreeSet<String> = used.into_iter().map(str::to_string).collect();
        self.sources.retain(|digest, _| used.contains(digest));
        Ok(())
    }

    /// The project an entry was recorded with, unpacked.
    pub fn tree(&self, entry: &Entry) -> Result<Tree, Failure> {
        let missing = || Failure::usage("the baseline names sources that are not there");
        let sources = self.sources.get(&entry.source).ok_or_else(missing)?;
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

    /// The commit an entry was recorded at, where it is known.
    pub fn revision(&self, entry: &Entry) -> Option<&str> {
        self.sources.get(&entry.source)?.revision.as_deref()
    }
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

    fn sample() -> BaselineFile {
        let sources = Sources {
            revision: None,
            manifest: "k/kiln.toml".into(),
            files: [
                ("k/kiln.toml".to_string(), "[kernel]\n".to_string()),
                ("k/a.c".into(), "/* ''' \"\"\" \\ \t*/\nint x;\n".into()),
            ]
            .into(),
        };
        let mut file = BaselineFile::new("a");
        let entry = Entry {
            source: sources.digest(),
            device: "some \"CPU\"".into(),
            recorded_us: 12.34,
            kiln: "0".into(),
            dimensions: [("N".to_string(), 5)].into(),
            config: [
                ("UNROLL".to_string(), Value::Int(4)),
                ("FAST".into(), Value::Bool(true)),
            ]
            .into(),
        };
        file.sources.insert(sources.digest(), sources);
        file.shapes.insert("target".into(), entry);
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kiln.gate.toml");
        let file = sample();
        file.write(&path, Existing::Keep).expect("written");
        assert_eq!(BaselineFile::read(&path).expect("read"), file);
        assert!(file.write(&path, Existing::Keep).is_err(), "kept");
        file.write(&path, Existing::Replace).expect("replaced");
    }

    #[test]
    fn damage_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kiln.gate.toml");
        sample().write(&path, Existing::Keep).expect("written");
        let text = fs::read_to_string(&path).expect("text");
        for (from, to, said) in [
            ("int x;", "int y;", "not what was recorded"),
            ("version = 1", "version = 9", "version 9"),
            ("version = 1", "version = 9\nmore = 1", "newer kiln"),
            ("kernel =", "kernl =", "unknown field"),
        ] {
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replacen(from, to, 1)).expect("written");
            let failure = BaselineFile::read(&path).expect_err(from);
            assert!(failure.to_string().contains(said), "{failure}");
        }
        // A checkout with other line ends is the same file.
        fs::write(&path, text.replace('\n', "\r\n")).expect("written");
        assert!(BaselineFile::read(&path).is_ok());
    }
}
