//! What is known about single mutants: `redteam/mutants.toml`, read and checked.

use serde::Deserialize;

use crate::exit::{Exit, Failure};
use crate::redteam::files;

/// Mutants that were looked at one by one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    #[serde(default)]
    accepted: Vec<Accepted>,
    #[serde(default)]
    equivalent: Vec<Equivalent>,
}

/// One that kiln is known to accept although it is wrong.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    file: String,
    /// The line as it stands in the source, without the space around it: line numbers move.
    line: String,
    change: String,
    because: String,
}

/// Some that compute what the original does, and why that is so.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Equivalent {
    files: Vec<String>,
    line: String,
    changes: Vec<String>,
    proof: String,
}

impl Listed {
    pub fn read() -> Result<Listed, Failure> {
        toml::from_str(files::text("redteam/mutants.toml")?)
            .map_err(|e| Failure::new(Exit::Bug, format!("redteam/mutants.toml: {e}")))
    }

    /// Why it is known to be accepted, where it is.
    pub fn acceptance(&self, file: &str, line: &str, change: &str) -> Option<&str> {
        let is_this = |a: &&Accepted| a.file == file && a.line == line && a.change == change;
        self.accepted
            .iter()
            .find(is_this)
            .map(|a| a.because.as_str())
    }

    /// Why it is no other program, where that was shown.
    pub fn proof(&self, file: &str, line: &str, change: &str) -> Option<&str> {
        let is_this = |e: &&Equivalent| {
            e.files.iter().any(|f| f == file)
                && e.line == line
                && e.changes.iter().any(|c| c == change)
        };
        self.equivalent
            .iter()
            .find(is_this)
            .map(|e| e.proof.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redteam::mutate;

    #[test]
    fn every_entry_is_about_a_mutant_there_is() {
        let listed = Listed::read().expect("a valid list");
        let accepted = listed
            .accepted
            .iter()
            .map(|a| (&a.file, &a.line, &a.change));
        let equivalent = listed.equivalent.iter().flat_map(|e| {
            let changes = move |file| e.changes.iter().map(move |c| (file, &e.line, c));
            e.files.iter().flat_map(changes)
        });
        for (file, line, change) in accepted.chain(equivalent) {
            let source = files::text(file).expect("a source in the binary");
            let mutations = mutate::mutations(source);
            let is_this = |m: &mutate::Mutation| {
                let stands = source.lines().nth(m.line - 1).unwrap_or_default();
                stands.trim() == line && m.words(source) == *change
            };
            assert!(mutations.iter().any(is_this), "{file}: {line}: {change}");
        }
    }
}
