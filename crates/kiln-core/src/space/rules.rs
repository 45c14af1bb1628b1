//! Tunables, constants and rules, checked and ready to be evaluated on positions.

use std::collections::BTreeSet;

use super::{MOST_TUNABLES, Rule, SpaceError, Tunable, check_names};
use crate::expression::{EvalError, Predicate};
use crate::trial::Assignment;
use crate::value::Value;

#[derive(Clone, Debug)]
pub(super) struct Rules {
    tunables: Vec<Tunable>,
    constants: Vec<(String, Value)>,
    rules: Vec<Rule>,
    compiled: Vec<Compiled>,
}

#[derive(Clone, Debug)]
struct Compiled {
    /// Tunables the rule reads that can vary; one with a single value is as good as a constant.
    reads: Vec<usize>,
    predicate: Option<Predicate>,
}

impl Rules {
    pub(super) fn new(
        tunables: Vec<Tunable>,
        constants: Vec<(String, Value)>,
        mut rules: Vec<Rule>,
    ) -> Result<Rules, SpaceError> {
        if tunables.len() > MOST_TUNABLES {
            let count = tunables.len();
            return Err(SpaceError::TooManyTunables { count });
        }
        let names = tunables.iter().map(|t| t.name.as_str());
        check_names(names.chain(constants.iter().map(|(n, _)| n.as_str())))?;
        tunables.iter().try_for_each(check_values)?;
        rules.sort_by_key(|rule| rule.kind);

        let domains: Vec<&[Value]> = tunables
            .iter()
            .map(|t| t.values.as_slice())
            .chain(constants.iter().map(|(_, v)| std::slice::from_ref(v)))
            .collect();
        let mut compiled = Vec::with_capacity(rules.len());
        for rule in &rules {
            if let Some(&slot) = rule.expr.slots().iter().find(|&&s| s >= domains.len()) {
                return Err(SpaceError::OutOfScope {
                    rule: rule.name.clone(),
                    slot,
                    known: domains.len(),
                });
            }
            let varies = |slot: &usize| domains[*slot].len() > 1;
            compiled.push(Compiled {
                reads: rule.expr.slots().iter().copied().filter(varies).collect(),
                predicate: Predicate::compile(&rule.expr, &domains),
            });
        }
        Ok(Rules {
            tunables,
            constants,
            rules,
            compiled,
        })
    }

    pub(super) fn tunables(&self) -> &[Tunable] {
        &self.tunables
    }

    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The tunables with more than one value that a rule reads.
    pub(super) fn reads(&self, rule: usize) -> &[usize] {
        &self.compiled[rule].reads
    }

    /// The rule compiled; `None` for one that only the slow way can evaluate.
    pub(super) fn predicate(&self, rule: usize) -> Option<&Predicate> {
        self.compiled[rule].predicate.as_ref()
    }

    /// How many values a tunable has.
    pub(super) fn size(&self, tunable: usize) -> usize {
        self.tunables[tunable].values.len()
    }

    /// Whether a rule holds; only the positions of tunables it reads matter.
    #[inline]
    pub(super) fn check(&self, rule: usize, positions: &[u16]) -> Result<bool, EvalError> {
        let fast = self.compiled[rule].predicate.as_ref();
        match fast.and_then(|p| p.holds(positions)) {
            Some(holds) => Ok(holds),
            // Either not compiled, or an error whose text is wanted.
            None => self.check_slowly(rule, positions),
        }
    }

    /// The compiled rule alone.
    #[cfg(test)]
    pub(super) fn fast(&self, rule: usize, positions: &[u16]) -> Option<bool> {
        self.compiled[rule].predicate.as_ref()?.holds(positions)
    }

    #[cold]
    fn check_slowly(&self, rule: usize, positions: &[u16]) -> Result<bool, EvalError> {
        let value = |slot: usize| match self.tunables.get(slot) {
            Some(tunable) => &tunable.values[usize::from(positions[slot])],
            None => &self.constants[slot - self.tunables.len()].1,
        };
        let result = self.rules[rule].expr.eval_with(&value)?;
        Ok(result.is_truthy())
    }

    /// The error of a rule that cannot be evaluated at these positions.
    pub(super) fn error(&self, rule: usize, positions: &[u16], error: EvalError) -> SpaceError {
        let tunables = self.tunables.len();
        let values: Assignment = self.rules[rule]
            .expr
            .slots()
            .iter()
            .map(|&slot| match self.tunables.get(slot) {
                Some(t) => (
                    t.name.clone(),
                    t.values[usize::from(positions[slot])].clone(),
                ),
                None => self.constants[slot - tunables].clone(),
            })
            .collect();
        SpaceError::Rule {
            rule: self.rules[rule].name.clone(),
            error,
            values,
        }
    }
}

fn check_values(tunable: &Tunable) -> Result<(), SpaceError> {
    let name = || tunable.name.clone();
    if tunable.values.is_empty() {
        return Err(SpaceError::NoValues { tunable: name() });
    }
    if tunable.values.len() > usize::from(u16::MAX) + 1 {
        return Err(SpaceError::TooManyValues {
            tunable: name(),
            count: tunable.values.len(),
        });
    }
    let mut seen = BTreeSet::new();
    for value in &tunable.values {
        if matches!(value, Value::Float(x) if x.is_nan()) {
            return Err(SpaceError::NotANumber { tunable: name() });
        }
        // Compared as printed: `1` and `"1"` would be the same define and the same config id.
        if !seen.insert(value.to_string()) {
            return Err(SpaceError::DuplicateValue {
                tunable: name(),
                value: value.clone(),
            });
        }
    }
    Ok(())
}
