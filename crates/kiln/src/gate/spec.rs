//! What a user may name as a side: a study, a config, a source file, a git revision, the baseline.

use std::path::PathBuf;

use kiln_core::value::Value;

use crate::exit::Failure;

pub type Values = Vec<(String, Value)>;

#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// The manifest's [baseline].
    Baseline,
    Study(u64),
    /// The source as it is, in this config.
    Config(Values),
    /// Another source file in place of the kernel's.
    Source {
        path: PathBuf,
        config: Option<Values>,
    },
    /// Manifest and sources of a revision.
    Git {
        revision: String,
        /// Of the manifest, from the top of the repository.
        path: Option<String>,
        config: Option<Values>,
    },
}

const FORMS: &str = "a side is `study:3` (or `3`), a config `BLOCK=64,UNROLL=2`, a source file `other.c`, \
     a revision `git:HEAD~1` or `git:main:path/kiln.toml`, or `baseline`; files and revisions take a \
     config after `@`";

impl Spec {
    pub fn parse(text: &str) -> Result<Spec, Failure> {
        let unknown =
            || Failure::usage(format!("`{text}` is nothing kiln can compare")).hint(FORMS);
        if text == "baseline" {
            return Ok(Spec::Baseline);
        }
        let number = text.strip_prefix("study:").unwrap_or(text);
        if let Ok(id) = number.parse() {
            return Ok(Spec::Study(id));
        }
        if text.starts_with("study:") {
            return Err(
                Failure::usage(format!("`{number}` is no number of a study"))
                    .hint("`kiln studies list` shows them"),
            );
        }
        let (place, config) = split_config(text)?;
        if let Some(revision) = place.strip_prefix("git:") {
            let (revision, path) = match revision.split_once(':') {
                Some((revision, path)) => (revision, Some(path.to_string())),
                None => (revision, None),
            };
            if revision.is_empty() || revision.starts_with('-') {
                return Err(Failure::usage(format!("`{text}` names no revision"))
                    .hint("`git:HEAD~1` is the commit before the last"));
            }
            return Ok(Spec::Git {
                revision: revision.into(),
                path,
                config,
            });
        }
        if config.is_none() && looks_like_config(place) {
            return Ok(Spec::Config(parse_config(place)?));
        }
        let path = PathBuf::from(place);
        let is_source = path.extension().is_some_and(|e| e == "c" || e == "cu");
        match is_source || path.is_file() {
            true => Ok(Spec::Source { path, config }),
            false => Err(unknown()),
        }
    }
}

/// `NAME=…` without a folder before it.
fn looks_like_config(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default().trim();
    let is_word = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_word && text.contains('=')
}

/// A revision may hold an `@` of its own (`HEAD@{1}`), so only one before a config splits.
fn split_config(text: &str) -> Result<(&str, Option<Values>), Failure> {
    match text.rsplit_once('@') {
        Some((place, config)) if looks_like_config(config) => {
            Ok((place, Some(parse_config(config)?)))
        }
        _ => Ok((text, None)),
    }
}

/// `BLOCK=64,FAST=true`: values as in the manifest, text without quotes.
pub fn parse_config(text: &str) -> Result<Values, Failure> {
    let mut values = Values::new();
    for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
        let Some((name, value)) = part.split_once('=') else {
            return Err(Failure::usage(format!("`{part}` is not NAME=VALUE"))
                .hint("a config reads `BLOCK=64,UNROLL=2`"));
        };
        values.push((name.trim().to_string(), parse_value(value.trim())));
    }
    Ok(values)
}

fn parse_value(text: &str) -> Value {
    if let Ok(boolean) = text.parse() {
        return Value::Bool(boolean);
    }
    if let Ok(integer) = text.parse() {
        return Value::Int(integer);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Value::Float(number),
        _ => Value::Text(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(revision: &str, path: Option<&str>, config: Option<Values>) -> Spec {
        Spec::Git {
            revision: revision.into(),
            path: path.map(str::to_string),
            config,
        }
    }

    #[test]
    fn every_form_is_understood() {
        let unroll = vec![("UNROLL".to_string(), Value::Int(2))];
        for (text, expected) in [
            ("baseline", Spec::Baseline),
            ("3", Spec::Study(3)),
            ("study:12", Spec::Study(12)),
            ("UNROLL=2", Spec::Config(unroll.clone())),
            (
                "A=true,B=1.5,C=row",
                Spec::Config(vec![
                    ("A".into(), Value::Bool(true)),
                    ("B".into(), Value::Float(1.5)),
                    ("C".into(), Value::Text("row".into())),
                ]),
            ),
            (
                "other.c",
                Spec::Source {
                    path: "other.c".into(),
                    config: None,
                },
            ),
            (
                "x/other.cu@UNROLL=2",
                Spec::Source {
                    path: "x/other.cu".into(),
                    config: Some(unroll.clone()),
                },
            ),
            ("git:HEAD~1", git("HEAD~1", None, None)),
            ("git:HEAD@{1}", git("HEAD@{1}", None, None)),
            (
                "git:main:k/kiln.toml@UNROLL=2",
                git("main", Some("k/kiln.toml"), Some(unroll)),
            ),
        ] {
            assert_eq!(Spec::parse(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "nothing", "study:x", "git:", "git:--all", "A=1,B"] {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
    }
}
