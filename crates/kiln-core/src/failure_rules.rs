//! Which tunable values make configs fail: the smallest rule that tells failing configs from working ones, for
//! each way they fail, with its counts and as a constraint for the manifest.
//!
//! Flow: trials -> groups by how they failed (compile errors by their first line) -> for each group the rule
//! with the shortest description (`search`) over conditions of the constraints' language (`literal`). A rule that
//! chance would find as well is not said.

mod group;
mod literal;
mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::manifest::BaselineKind;
use crate::space::Tunable;
use crate::study::Study;
use crate::trial::{Assignment, Outcome, Trial};
use crate::value::Value;
use search::{Formula, Found};

pub use group::{FailureKind, kind_of};

/// Trials named for each group.
const MOST_NAMED: usize = 8;

/// How the trials of a study failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failures {
    pub trials: usize,
    pub working: usize,
    /// The largest first.
    pub groups: Vec<FailureGroup>,
    /// One rule for failures of several kinds, where it says more than theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<Rule>,
}

/// Trials that failed in the same way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureGroup {
    /// As in counts elsewhere: `misaligned_address`.
    pub reason: String,
    /// In words, or the first line of the compiler's error.
    pub label: String,
    pub failed: usize,
    /// The first few, by number.
    pub trials: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// One sentence.
    pub sentence: String,
}

/// When configs fail.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// In the constraints' language: `BLOCK_M != 64 or NUM_WARPS != 4`.
    pub when: String,
    /// How many of the failing configs meet it, of how many.
    pub failing_met: usize,
    pub failing: usize,
    /// How many of the working configs meet it all the same, of how many.
    pub working_met: usize,
    pub working: usize,
    /// Bits it is shorter than a list of the failures; chance saves so many in 1 of 2^bits cases at the most.
    pub saved_bits: f64,
    /// Other rules that the trials cannot tell from this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<String>,
    /// Values of its tunables that no trial has tried: the rule only guesses there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<String>,
    /// What keeps such configs out, where no working config would be lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Constraint>,
}

/// A line for `[constraints]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Constraint {
    pub name: String,
    pub expression: String,
    /// `name = "expression"`, as TOML.
    pub line: String,
}

impl Rule {
    /// Every failing config meets it and no working one.
    pub fn is_exact(&self) -> bool {
        self.failing_met == self.failing && self.working_met == 0
    }
}

impl Failures {
    pub fn of_study(study: &Study) -> Failures {
        let manifest = study.own_manifest().ok();
        let listed = manifest.as_ref().map_or(&[][..], |m| &m.tunables);
        let taken = manifest.iter().flat_map(|m| &m.constraints);
        let taken: Vec<&str> = taken.map(|c| c.name.as_str()).collect();
        // A finalist that failed when it was looked at again is no working config.
        let dropped = study.confirmation.iter().flat_map(|c| &c.dropped);
        let dropped: Vec<(u64, &Outcome)> = dropped.map(|d| (d.trial, &d.outcome)).collect();
        let ended = study.trials.iter().map(|trial| {
            let later = dropped.iter().find(|(number, _)| *number == trial.number);
            (trial, later.map_or(&trial.outcome, |(_, outcome)| *outcome))
        });
        // A baseline that is a config of the kernel itself was checked and timed like any other.
        let baseline = manifest.as_ref().and_then(|m| m.baseline.as_ref());
        let also_works: Vec<&Assignment> = match baseline.map(|b| &b.kind) {
            Some(BaselineKind::Config { values, .. }) if study.baseline_ns().is_some() => {
                vec![values]
            }
            _ => Vec::new(),
        };
        Failures::of(listed, &taken, &also_works, ended)
    }

    /// `listed` are the tunables as the manifest has them, `taken` names of its constraints, `also_works` configs
    /// that are known to work beside the trials.
    pub fn of<'t>(
        listed: &[Tunable],
        taken: &[&str],
        also_works: &[&'t Assignment],
        trials: impl IntoIterator<Item = (&'t Trial, &'t Outcome)>,
    ) -> Failures {
        let trials: Vec<(&Trial, &Outcome)> = trials.into_iter().collect();
        let measured = trials.iter().filter(|(_, o)| o.measurement().is_some());
        let mut working: Vec<&Assignment> = measured.map(|(trial, _)| &trial.config).collect();
        for config in also_works {
            let is_tried = |(trial, _): &(&Trial, &Outcome)| same(&trial.config, config);
            if !trials.iter().any(is_tried) {
                working.push(config);
            }
        }
        let mut kinds: Vec<(FailureKind, Vec<&Trial>)> = Vec::new();
        for (trial, outcome) in &trials {
            let Some(kind) = kind_of(outcome) else {
                continue;
            };
            match kinds.iter_mut().find(|(k, _)| k.key() == kind.key()) {
                Some((_, members)) => members.push(trial),
                None => kinds.push((kind, vec![trial])),
            }
        }
        kinds.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
        let configs = trials.iter().map(|(trial, _)| &trial.config);
        let untried = &untried(listed, configs.chain(also_works.iter().copied()))[..];
        let mut namer = Namer::new(taken);
        let groups: Vec<FailureGroup> = kinds
            .iter()
            .map(|(kind, members)| {
                let failing: Vec<&Assignment> = members.iter().map(|t| &t.config).collect();
                let rule = find(untried, &failing, &working, &kind.reason, &mut namer);
                group(kind, members, rule, working.len())
            })
            .collect();
        Failures {
            trials: trials.len(),
            working: working.len(),
            together: together(untried, &kinds, &groups, &working, &mut namer),
            groups,
        }
    }

    /// Constraints worth adding to the manifest, each once.
    pub fn constraints(&self) -> Vec<&Constraint> {
        let rules = self.groups.iter().filter_map(|g| g.rule.as_ref());
        let mut found: Vec<&Constraint> = Vec::new();
        for constraint in rules
            .chain(&self.together)
            .filter_map(|r| r.constraint.as_ref())
        {
            if !found.iter().any(|c| c.expression == constraint.expression) {
                found.push(constraint);
            }
        }
        found
    }

    /// Sentences of the groups that follow a rule, then of the rule for several.
    pub fn headlines(&self) -> Vec<String> {
        let ruled = self.groups.iter().filter(|g| g.rule.is_some());
        let groups = ruled.map(|g| g.sentence.clone());
        groups.chain(self.together_sentence()).collect()
    }

    pub fn together_sentence(&self) -> Option<String> {
        let rule = self.together.as_ref()?;
        Some(sentence(
            "failures of all kinds",
            Some(rule),
            rule.failing,
            self.working,
        ))
    }
}

/// One rule for everything that failed when it ran, where the kinds by themselves follow none: memory that is
/// damaged shows in many ways.
fn together(
    untried: &[Tunable],
    kinds: &[(FailureKind, Vec<&Trial>)],
    groups: &[FailureGroup],
    working: &[&Assignment],
    namer: &mut Namer,
) -> Option<Rule> {
    let ran: Vec<usize> = (0..kinds.len()).filter(|&k| kinds[k].0.ran).collect();
    let is_explained = |&k: &usize| groups[k].rule.as_ref().is_some_and(Rule::is_exact);
    if ran.len() < 2 || ran.iter().all(is_explained) {
        return None;
    }
    let members = ran.iter().flat_map(|&k| &kinds[k].1);
    let failing: Vec<&Assignment> = members.map(|t| &t.config).collect();
    find(untried, &failing, working, "failure", namer)
}

fn find(
    untried: &[Tunable],
    failing: &[&Assignment],
    working: &[&Assignment],
    reason: &str,
    namer: &mut Namer,
) -> Option<Rule> {
    let tried = tried(failing.iter().chain(working).copied());
    let found = search::shortest(&tried, failing, working)?;
    Some(rule(
        untried,
        &found,
        failing.len(),
        working.len(),
        reason,
        namer,
    ))
}

/// Values of the manifest that no trial had, however it ended.
fn untried<'a>(listed: &[Tunable], configs: impl Iterator<Item = &'a Assignment>) -> Vec<Tunable> {
    let tried = tried(configs);
    let of = |tunable: &Tunable| {
        let known = tried.iter().find(|t| t.name == tunable.name)?;
        let is_new = |v: &&Value| !known.values.iter().any(|k| k.loosely_equals(v));
        Some(Tunable {
            name: tunable.name.clone(),
            values: tunable.values.iter().filter(is_new).cloned().collect(),
        })
    };
    listed.iter().filter_map(of).collect()
}

/// Whether two configs have the same values, in whatever order.
fn same(a: &Assignment, b: &Assignment) -> bool {
    let has = |(name, value): &(String, Value)| {
        b.iter().any(|(n, v)| n == name && v.loosely_equals(value))
    };
    a.len() == b.len() && a.iter().all(has)
}

/// Tunables with the values that were tried, in the order of first appearance.
fn tried<'a>(configs: impl Iterator<Item = &'a Assignment>) -> Vec<Tunable> {
    let mut tunables: Vec<Tunable> = Vec::new();
    for (name, value) in configs.flatten() {
        match tunables.iter_mut().find(|t| t.name == *name) {
            None => tunables.push(Tunable {
                name: name.clone(),
                values: vec![value.clone()],
            }),
            Some(tunable) if tunable.values.contains(value) => {}
            Some(tunable) => tunable.values.push(value.clone()),
        }
    }
    tunables
}

fn rule(
    untried: &[Tunable],
    found: &Found,
    failing: usize,
    working: usize,
    reason: &str,
    namer: &mut Namer,
) -> Rule {
    let names: BTreeSet<&str> = found.formula.tunables().into_iter().collect();
    let untried = names.iter().flat_map(|name| {
        let of_name = untried.iter().filter(|t| t.name == *name);
        let values = of_name.flat_map(|t| &t.values);
        values.map(move |value| format!("{name}={value}"))
    });
    let expression = found.formula.negated().text();
    Rule {
        when: found.formula.text(),
        failing_met: found.failing_met,
        failing,
        working_met: found.working_met,
        working,
        saved_bits: found.gain,
        alike: found.alike.iter().map(Formula::text).collect(),
        untried: untried.collect(),
        constraint: (found.working_met == 0).then(|| namer.constraint(reason, expression)),
    }
}

/// Names for constraints that the manifest does not have yet.
struct Namer {
    taken: BTreeSet<String>,
}

impl Namer {
    fn new(taken: &[&str]) -> Namer {
        Namer {
            taken: taken.iter().map(|name| name.to_string()).collect(),
        }
    }

    fn constraint(&mut self, reason: &str, expression: String) -> Constraint {
        let plain = format!("no_{reason}");
        let names = std::iter::once(plain.clone()).chain((2..).map(|n| format!("{plain}_{n}")));
        let name = names.into_iter().find(|name| !self.taken.contains(name));
        let name = name.unwrap_or(plain);
        self.taken.insert(name.clone());
        Constraint {
            line: format!("{name} = {}", toml::Value::String(expression.clone())),
            name,
            expression,
        }
    }
}

fn group(
    kind: &FailureKind,
    members: &[&Trial],
    rule: Option<Rule>,
    working: usize,
) -> FailureGroup {
    FailureGroup {
        reason: kind.reason.clone(),
        label: kind.label.clone(),
        failed: members.len(),
        trials: members.iter().map(|t| t.number).take(MOST_NAMED).collect(),
        sentence: sentence(&kind.label, rule.as_ref(), members.len(), working),
        rule,
    }
}

/// `misaligned address <= BLOCK_M != 64, 118 of 118; none of 40 working configs`.
fn sentence(label: &str, rule: Option<&Rule>, failed: usize, working: usize) -> String {
    let Some(rule) = rule else {
        return match working {
            0 => format!("{label}: {failed}, and no config works to compare with"),
            _ => format!(
                "{label}: {failed}; no rule over tunable values tells them from the {working} that work"
            ),
        };
    };
    let mut said = format!(
        "{label} <= {}, {} of {}",
        rule.when, rule.failing_met, rule.failing
    );
    said.push_str(&match rule.working_met {
        0 => format!(" and none of {} that work", rule.working),
        some => format!(", but also {some} of {} that work", rule.working),
    });
    if !rule.alike.is_empty() {
        let others = rule.alike.join("`, `");
        said.push_str(&format!(" (as far as tried the same as `{others}`)"));
    }
    if !rule.untried.is_empty() {
        said.push_str(&format!(" (never tried: {})", rule.untried.join(", ")));
    }
    said
}
