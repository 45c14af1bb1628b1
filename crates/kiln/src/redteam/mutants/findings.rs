//! How mutants ended, and what is said about it.

use std::collections::BTreeMap;

use kiln_core::trial::{Assignment, Outcome};
use serde::Serialize;

use super::listed::Listed;
use super::subjects::Subject;
use crate::redteam::mutate::{Mutation, Operator};
use crate::redteam::side_by_side;
use crate::report::terminal::config_text;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// No mutant at all.
    NotCompiled,
    Refused {
        reason: &'static str,
    },
    /// The same machine code in every config tried: code that those leave out, or no change.
    SameCode,
    /// Other code, the same bits on every problem.
    Identical {
        problems: usize,
    },
    /// Other bits, no larger errors. Errors are relative to what the task allows.
    AsAccurate {
        problems: usize,
        original_ratio: f64,
        mutant_ratio: f64,
    },
    /// Within the task's tolerance, and clearly worse than the original.
    LessAccurate {
        original_ratio: f64,
        mutant_ratio: f64,
    },
    /// Wrong where kiln did not look.
    Wrong {
        how: String,
    },
}

impl Ending {
    pub fn refused(outcome: &Outcome) -> Ending {
        Ending::Refused {
            reason: outcome.reason(),
        }
    }

    /// A refusal that says nothing where other candidates ran at the same time.
    pub fn rests_on_a_clock(&self) -> bool {
        matches!(self, Ending::Refused { reason } if side_by_side::rests_on_a_clock(reason))
    }

    fn is_equivalent(&self) -> bool {
        matches!(
            self,
            Ending::SameCode | Ending::Identical { .. } | Ending::AsAccurate { .. }
        )
    }

    fn is_accepted(&self) -> bool {
        matches!(self, Ending::LessAccurate { .. } | Ending::Wrong { .. })
    }

    fn words(&self) -> String {
        match self {
            Ending::NotCompiled => "does not compile".into(),
            Ending::Refused { reason } => (*reason).to_string(),
            Ending::SameCode => "the same machine code".into(),
            Ending::Identical { problems } => {
                format!("the same bits on {problems} problems, half of them on other shapes")
            }
            Ending::AsAccurate {
                problems,
                original_ratio,
                mutant_ratio,
            } => format!(
                "errors up to {mutant_ratio:.3} of what is allowed on {problems} problems, the original's {original_ratio:.3}"
            ),
            Ending::LessAccurate {
                original_ratio,
                mutant_ratio,
            } => format!(
                "errors up to {mutant_ratio:.3} of what is allowed, the original's {original_ratio:.3}"
            ),
            Ending::Wrong { how } => how.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Row {
    kernel: &'static str,
    file: String,
    line: usize,
    operator: Operator,
    change: String,
    source_line: String,
    config: String,
    /// Why it is known to be accepted, where it is.
    known: Option<String>,
    /// Why it is the same program, where that was shown.
    proof: Option<String>,
    #[serde(flatten)]
    ending: Ending,
}

impl Row {
    pub fn new(
        subject: &Subject,
        source: &str,
        mutation: &Mutation,
        config: &Assignment,
        ending: Ending,
        listed: &Listed,
    ) -> Row {
        let (file, change) = (subject.file(), mutation.words(source));
        let source_line = source.lines().nth(mutation.line - 1).unwrap_or_default();
        let source_line = source_line.trim().to_string();
        let known = listed.acceptance(&file, &source_line, &change);
        let proof = listed.proof(&file, &source_line, &change);
        Row {
            kernel: subject.name,
            known: known.map(str::to_string),
            proof: proof.map(str::to_string),
            file,
            line: mutation.line,
            operator: mutation.operator,
            change,
            source_line,
            config: config_text(config),
            ending,
        }
    }

    /// The same machine code, or a listed proof that it is as right as the original: for all inputs the
    /// same, or at least within the tolerance.
    fn is_proven(&self) -> bool {
        let is_provable = self.looks_equivalent() || self.is_less_accurate();
        self.ending == Ending::SameCode || is_provable && self.proof.is_some()
    }

    fn is_less_accurate(&self) -> bool {
        matches!(self.ending, Ending::LessAccurate { .. })
    }

    fn is_accepted(&self) -> bool {
        self.ending.is_accepted() && !self.is_proven()
    }

    /// Nothing tells it from the original but its code.
    fn looks_equivalent(&self) -> bool {
        self.ending.is_equivalent() && self.ending != Ending::SameCode
    }

    /// For those who watch.
    pub fn words_for(&self, number: usize, total: usize) -> String {
        format!("{number} of {total}: {}", self.words())
    }

    fn words(&self) -> String {
        format!(
            "{}:{} {}: {} ({}): {}",
            self.file,
            self.line,
            self.operator.name(),
            self.change,
            self.config,
            self.ending.words()
        )
    }
}

#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub rows: Vec<Row>,
    /// Kernels that could not be tried here, and why.
    pub skipped: Vec<String>,
}

impl Findings {
    fn compiled(&self) -> impl Iterator<Item = &Row> {
        let compiles = |r: &&Row| r.ending != Ending::NotCompiled;
        self.rows.iter().filter(compiles)
    }

    /// One line per kernel and operator.
    pub fn table(&self) -> Vec<[String; 7]> {
        let mut groups: BTreeMap<(&str, Operator), [usize; 5]> = BTreeMap::new();
        for row in self.compiled() {
            let counts = groups.entry((row.kernel, row.operator)).or_default();
            counts[0] += 1;
            counts[1] += usize::from(matches!(row.ending, Ending::Refused { .. }));
            counts[2] += usize::from(row.is_proven());
            counts[3] += usize::from(row.looks_equivalent() && !row.is_proven());
            counts[4] += usize::from(row.is_accepted());
        }
        let line = |((kernel, operator), counts): ((&str, Operator), [usize; 5])| {
            let [all, refused, equivalent, unproven, accepted] = counts.map(|n| n.to_string());
            [
                kernel.to_string(),
                operator.name().to_string(),
                all,
                refused,
                equivalent,
                unproven,
                accepted,
            ]
        };
        groups.into_iter().map(line).collect()
    }

    pub fn summary(&self) -> String {
        let count =
            |wanted: fn(&Ending) -> bool| self.compiled().filter(|r| wanted(&r.ending)).count();
        let unproven = || {
            let survived = self.compiled().filter(|r| r.looks_equivalent());
            survived.filter(|r| !r.is_proven())
        };
        let same_code = count(|e| *e == Ending::SameCode);
        let proven = self.compiled().filter(|r| r.is_proven()).count();
        let mut lines = vec![format!(
            "{} of {} mutants accepted; {} refused; {} equivalent: {} the same machine code, {} by a proof that \
             is listed; {} more cannot be told from the original ({} more do not compile)",
            self.compiled().filter(|r| r.is_accepted()).count(),
            self.compiled().count(),
            count(|e| matches!(e, Ending::Refused { .. })),
            proven,
            same_code,
            proven - same_code,
            unproven().count(),
            self.rows.len() - self.compiled().count(),
        )];
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &self.rows {
            if let Ending::Refused { reason } = row.ending {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        let reasons: Vec<String> = reasons.iter().map(|(r, n)| format!("{n} {r}")).collect();
        lines.push(format!("refused as: {}", reasons.join(", ")));
        for row in self.compiled().filter(|r| r.is_accepted()) {
            if let Some(why) = &row.known {
                lines.push(format!(
                    "still accepted, as listed: {} ({why})",
                    row.words()
                ));
            }
        }
        for row in unproven() {
            lines.push(format!("not told from the original: {}", row.words()));
        }
        lines.extend(self.skipped.iter().map(|s| format!("skipped: {s}")));
        lines.join("\n")
    }

    pub fn still_accepted(&self) -> usize {
        let is_listed = |r: &&Row| r.is_accepted() && r.known.is_some();
        self.rows.iter().filter(is_listed).count()
    }

    /// What kiln should have refused and is not known to accept.
    pub fn acceptances(&self) -> Vec<String> {
        let is_news = |r: &&Row| r.is_accepted() && r.known.is_none();
        let accepted = self.rows.iter().filter(is_news);
        accepted
            .map(|row| format!("mutant accepted: {}", row.words()))
            .collect()
    }
}
