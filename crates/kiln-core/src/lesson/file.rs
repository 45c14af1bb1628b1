//! Lessons as TOML, to be kept beside a kernel or taken to another project.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Claim, Lesson, lesson_id};
use crate::expression::Expr;
use crate::value::Value;

/// Raised when an older kiln could no longer make sense of the file.
pub const VERSION: u32 = 1;
const MOST_LESSONS: usize = 10_000;

const HEADER: &str = "\
# What kiln learnt about kernels, with what speaks for and against it. `kiln lessons import FILE` takes it into another
# project.

";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LessonFile {
    version: u32,
    #[serde(default, rename = "lesson")]
    pub lessons: Vec<Lesson>,
}

/// Why a text holds no lessons.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FileError {
    #[error("it has no `version`: it is no file of lessons")]
    NoVersion,
    #[error("a newer kiln wrote it (version {0}; this kiln reads version {VERSION})")]
    Newer(i64),
    #[error("there is no version {0}")]
    Version(i64),
    #[error("{0}")]
    Syntax(String),
    #[error("it holds no lesson")]
    Empty,
    #[error("it holds {0} lessons; {MOST_LESSONS} is the most")]
    Many(usize),
    #[error("lesson `{id}`: {problem}")]
    Lesson { id: String, problem: String },
}

impl FileError {
    pub fn hint(&self) -> &'static str {
        match self {
            FileError::Newer(_) => "update kiln",
            FileError::Lesson { .. } => {
                "mend that lesson or take it out; `kiln lessons export` in the project it comes from writes it anew"
            }
            _ => "`kiln lessons export --to lessons.toml` writes one",
        }
    }
}

impl LessonFile {
    pub fn new(lessons: Vec<Lesson>) -> LessonFile {
        LessonFile {
            version: VERSION,
            lessons,
        }
    }

    pub fn text(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("{HEADER}{}", toml::to_string_pretty(self)?))
    }

    /// Reads and checks: what comes back can be folded in and evaluated.
    pub fn parse(text: &str) -> Result<LessonFile, FileError> {
        let syntax = |e: toml::de::Error| FileError::Syntax(e.to_string().trim_end().to_string());
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        let version = table.get("version").and_then(toml::Value::as_integer);
        match version.ok_or(FileError::NoVersion)? {
            version if version > i64::from(VERSION) => return Err(FileError::Newer(version)),
            version if version != i64::from(VERSION) => return Err(FileError::Version(version)),
            _ => {}
        }
        let file: LessonFile = toml::from_str(text).map_err(syntax)?;
        match file.lessons.len() {
            0 => return Err(FileError::Empty),
            count if count > MOST_LESSONS => return Err(FileError::Many(count)),
            _ => {}
        }
        let mut seen = BTreeSet::new();
        for lesson in &file.lessons {
            let wrong = |problem: String| FileError::Lesson {
                id: lesson.id.clone(),
                problem,
            };
            check(lesson).map_err(wrong)?;
            if !seen.insert(&lesson.id) {
                return Err(wrong("it is there twice".into()));
            }
        }
        Ok(file)
    }
}

/// What the types do not say.
fn check(lesson: &Lesson) -> Result<(), String> {
    for (what, text) in [
        ("kernel", &lesson.kernel),
        ("architecture", &lesson.architecture),
        ("statement", &lesson.statement),
    ] {
        if text.trim().is_empty() {
            return Err(format!("its `{what}` is empty"));
        }
    }
    let numbers = |numbers: &[f64]| match numbers.iter().all(|n| n.is_finite()) {
        true => Ok(()),
        false => Err("a number of its claim is not finite".to_string()),
    };
    match &lesson.claim {
        Claim::Constraint { when, .. } => {
            let parsed = Expr::parse(when)
                .map_err(|e| format!("its condition `{when}` cannot be read: {}", e.message))?;
            if parsed.names().is_empty() {
                return Err(format!("its condition `{when}` names no tunable"));
            }
        }
        Claim::Effect {
            value,
            against,
            change,
            low,
            high,
            ..
        } => {
            let of = |value: &Value| match value {
                Value::Float(number) => *number,
                _ => 0.0,
            };
            numbers(&[of(value), of(against), *change, *low, *high])?;
            if low > high {
                return Err(format!("its interval [{low}, {high}] is upside down"));
            }
        }
        Claim::Advice {
            expected,
            speedup,
            low,
            high,
            ..
        } => {
            numbers(&[expected.unwrap_or(1.0), *speedup, *low, *high])?;
            if *speedup <= 0.0 || low > high {
                return Err("its speedup or interval cannot be".into());
            }
        }
        Claim::Bottleneck { .. } => {}
    }
    let expected = lesson_id(&lesson.kernel, &lesson.architecture, &lesson.claim);
    if lesson.id != expected {
        return Err(format!(
            "its claim was edited: it would be called `{expected}`"
        ));
    }
    if lesson.evidence.is_empty() {
        return Err("it names no evidence".into());
    }
    Ok(())
}
