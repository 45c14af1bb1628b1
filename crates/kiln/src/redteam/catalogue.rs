//! What cheats there are: `redteam/cheats.toml`, read and checked.

use serde::{Deserialize, Serialize};

use super::files::{self, Bundle};
use crate::cli::Backend;
use crate::exit::{Exit, Failure};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiesAbout {
    /// What it computes is not what was asked for: calling it right is accepting it.
    Answer,
    /// Answers are right whenever somebody looks, the speed is not real: FASTER is accepting it.
    Time,
}

/// How a plain harness decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlainRule {
    /// No element may differ.
    #[default]
    Allclose,
    /// 95 % of the elements must not.
    Ratio,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cheat {
    pub name: String,
    pub class: String,
    /// The row of the suite's list of known exploits; README.md says what each is.
    pub family: String,
    pub lies_about: LiesAbout,
    backends: Vec<BackendName>,
    pub tasks: Vec<String>,
    /// Refusals that name it.
    pub refused_as: Vec<String>,
    #[serde(default)]
    pub plain_rule: PlainRule,
    /// Where kiln is known to be fooled, and why.
    #[serde(default)]
    still_accepted: Vec<Acceptance>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    backend: BackendName,
    tasks: Vec<String>,
    pub because: String,
    /// Not every time: then neither way is a surprise.
    #[serde(default)]
    pub sometimes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum BackendName {
    Cpu,
    Cuda,
}

impl BackendName {
    fn is(self, backend: Backend) -> bool {
        matches!(
            (self, backend),
            (BackendName::Cpu, Backend::Cpu) | (BackendName::Cuda, Backend::Cuda)
        )
    }
}

#[derive(Deserialize)]
struct Document {
    cheat: Vec<Cheat>,
}

impl Cheat {
    pub fn runs_on(&self, backend: Backend) -> bool {
        self.backends.iter().any(|b| b.is(backend))
    }

    /// That kiln is known to accept it on a task, where it is.
    pub fn known_acceptance(&self, backend: Backend, task: &str) -> Option<&Acceptance> {
        let covers = |a: &&Acceptance| a.backend.is(backend) && a.tasks.iter().any(|t| t == task);
        self.still_accepted.iter().find(covers)
    }

    /// The cheat as the candidate of one of its tasks.
    pub fn bundle(&self, task: &str, backend: Backend) -> Result<Bundle, Failure> {
        let ending = match backend {
            Backend::Cpu => "c",
            Backend::Cuda => "cu",
        };
        let source = format!("{}.{ending}", self.name);
        let mut bundle = Bundle::of_suite(task, backend)?;
        bundle.add(&source, files::text(&format!("redteam/cheats/{source}"))?);
        let header = match backend {
            Backend::Cpu => ".h",
            Backend::Cuda => ".cuh",
        };
        for (name, text) in files::folder("redteam/cheats") {
            if name.ends_with(header) {
                bundle.add(name, text);
            }
        }
        let honest = format!("source = \"honest.{ending}\"");
        bundle.edit(&honest, &format!("source = \"{source}\""))?;
        Ok(bundle)
    }
}

pub fn cheats() -> Result<Vec<Cheat>, Failure> {
    let text = files::text("redteam/cheats.toml")?;
    let document: Document = toml::from_str(text)
        .map_err(|e| Failure::new(Exit::Bug, format!("redteam/cheats.toml: {e}")))?;
    Ok(document.cheat)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kiln_core::manifest::Manifest;

    use super::*;

    #[test]
    fn every_cheat_is_a_valid_task() {
        let cheats = cheats().expect("a valid catalogue");
        let mut names = BTreeSet::new();
        for cheat in &cheats {
            assert!(names.insert(&cheat.name), "{} is there twice", cheat.name);
            assert!(!cheat.refused_as.is_empty(), "{}", cheat.name);
            for backend in [Backend::Cpu, Backend::Cuda] {
                for task in cheat.tasks.iter().filter(|_| cheat.runs_on(backend)) {
                    let bundle = cheat.bundle(task, backend).expect("its files are there");
                    Manifest::parse(&bundle.manifest).expect("a valid manifest");
                }
            }
        }
    }

    #[test]
    fn the_suite_is_as_large_as_promised() {
        let cheats = cheats().expect("a valid catalogue");
        let classes: BTreeSet<&str> = cheats.iter().map(|c| c.class.as_str()).collect();
        assert!(classes.len() >= 25, "{} classes", classes.len());
        for backend in [Backend::Cpu, Backend::Cuda] {
            let here: Vec<&Cheat> = cheats.iter().filter(|c| c.runs_on(backend)).collect();
            assert!(here.len() >= 35, "{} sources for {backend:?}", here.len());
            let kernels: usize = here.iter().map(|c| c.tasks.len()).sum();
            assert!(kernels >= 60, "{kernels} kernels for {backend:?}");
        }
    }

    #[test]
    fn every_source_is_in_the_catalogue() {
        let cheats = cheats().expect("a valid catalogue");
        let sources = files::FILES
            .iter()
            .filter_map(|(name, text)| Some((name.strip_prefix("redteam/cheats/")?, text)));
        for (name, text) in sources {
            let Some((stem, ending)) = name.rsplit_once('.') else {
                continue;
            };
            let backend = match ending {
                "c" => Backend::Cpu,
                "cu" => Backend::Cuda,
                _ => continue,
            };
            let cheat = cheats.iter().find(|c| c.name == stem);
            let cheat = cheat.unwrap_or_else(|| panic!("{name} is in no catalogue"));
            assert!(cheat.runs_on(backend), "{name}");
            let header = format!("Class: {} ({}).", cheat.class, cheat.family);
            let first = text.lines().next().unwrap_or_default();
            assert!(first.contains(&header), "{name} begins with `{first}`");
        }
    }
}
