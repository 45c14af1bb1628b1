//! `kiln.gate.toml` as text: what `kiln gate` compares with, kept in the user's repository.
//!
//! It holds no times to compare with, for times are of a machine and a day. It holds the kernel
//! itself: for each shape a config and the sources it was recorded with, whole, so that a shallow
//! clone is enough.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::value::Value;

/// Raised when an older kiln could no longer make sense of the file.
const VERSION: u32 = 1;

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
pub struct Sources {
    /// The commit, with `+` when files were changed; for orientation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Path of the manifest among the files.
    pub manifest: String,
    /// Texts by path, from the top of the project.
    pub files: BTreeMap<String, String>,
}

impl Sources {
    /// Of manifest and files, whatever line ends a checkout gave them.
    pub fn digest(&self) -> String {
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

/// Why a text is no baseline to compare with.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum BaselineError {
    #[error("a newer kiln wrote it")]
    Newer,
    #[error("{0}")]
    Syntax(String),
    #[error("it is of version {0}")]
    Version(u32),
    #[error("it has no shapes")]
    NoShapes,
    #[error("its margin is not from 0 to below 1")]
    Margin,
    #[error("the sources `{0}` are not what was recorded")]
    Edited(String),
    #[error("the sources `{0}` are without their manifest")]
    NoManifest(String),
    #[error("shape `{0}` names sources that are not there")]
    NoSources(String),
}

impl BaselineError {
    pub fn hints(&self) -> &'static [&'static str] {
        const AGAIN: &str =
            "`kiln gate --record --force` writes it anew from the kernel as it is now";
        match self {
            BaselineError::Newer => &["update kiln"],
            BaselineError::Margin => &[],
            BaselineError::Edited(_) => &["undo the edit, for instance with `git checkout`", AGAIN],
            _ => &[AGAIN],
        }
    }
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

    /// Reads and checks; every shape of what comes back has its sources, as they were recorded.
    pub fn parse(text: &str) -> Result<BaselineFile, BaselineError> {
        let file: BaselineFile = toml::from_str(text).map_err(|e| {
            let newer = toml::from_str::<toml::Table>(text)
                .ok()
                .and_then(|t| t.get("version")?.as_integer())
                .is_some_and(|version| version > i64::from(VERSION));
            match newer {
                true => BaselineError::Newer,
                false => BaselineError::Syntax(e.to_string().trim_end().to_string()),
            }
        })?;
        if file.version != VERSION {
            return Err(BaselineError::Version(file.version));
        }
        if file.shapes.is_empty() {
            return Err(BaselineError::NoShapes);
        }
        if file.margin.is_some_and(|m| !(0.0..1.0).contains(&m)) {
            return Err(BaselineError::Margin);
        }
        for (digest, sources) in &file.sources {
            if sources.digest() != *digest {
                return Err(BaselineError::Edited(digest.clone()));
            }
            if !sources.files.contains_key(&sources.manifest) {
                return Err(BaselineError::NoManifest(digest.clone()));
            }
        }
        for (name, entry) in &file.shapes {
            if !file.sources.contains_key(&entry.source) {
                return Err(BaselineError::NoSources(name.clone()));
            }
        }
        Ok(file)
    }

    /// The text of the file, for people too.
    pub fn text(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("{HEADER}{}", toml::to_string_pretty(self)?))
    }

    /// Puts a shape's entry in place of what it had; sources that no shape names any more go.
    pub fn insert(&mut self, shape: String, entry: Entry, sources: Sources) {
        self.sources.insert(sources.digest(), sources);
        self.shapes.insert(shape, entry);
        let used: BTreeSet<&str> = self.shapes.values().map(|e| e.source.as_str()).collect();
        self.sources
            .retain(|digest, _| used.contains(digest.as_str()));
    }

    pub fn sources(&self, entry: &Entry) -> Option<&Sources> {
        self.sources.get(&entry.source)
    }

    /// The commit an entry was recorded at, where it is known.
    pub fn revision(&self, entry: &Entry) -> Option<&str> {
        self.sources(entry)?.revision.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        file.insert("target".into(), entry, sources);
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let file = sample();
        let text = file.text().unwrap();
        assert_eq!(BaselineFile::parse(&text).unwrap(), file);
        // A checkout with other line ends is the same file.
        assert!(BaselineFile::parse(&text.replace('\n', "\r\n")).is_ok());
    }

    #[test]
    fn damage_is_noticed() {
        let text = sample().text().unwrap();
        for (from, to, said) in [
            ("int x;", "int y;", "not what was recorded"),
            ("version = 1", "version = 9", "version 9"),
            ("version = 1", "version = 9\nmore = 1", "newer kiln"),
            ("kernel =", "kernl =", "unknown field"),
        ] {
            assert!(text.contains(from), "{text}");
            let error = BaselineFile::parse(&text.replacen(from, to, 1)).expect_err(from);
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn sources_that_no_shape_names_go() {
        let mut file = sample();
        let mut entry = file.shapes["target"].clone();
        let sources = Sources {
            revision: None,
            manifest: "kiln.toml".into(),
            files: BTreeMap::new(),
        };
        entry.source = sources.digest();
        file.insert("target".into(), entry, sources);
        assert_eq!(file.sources.len(), 1);
        assert!(file.sources(&file.shapes["target"]).is_some());
    }
}
