//! Learnt constraints: configs that should fail, by what earlier studies saw. A lesson may be wrong, most of all
//! when the source was edited since. So it makes configs improbable, not impossible: its word weighs as a few trials,
//! which those of this study outvote, and some of the best such configs are tried on purpose.

use crate::expression::BoundExpr;
use crate::space::{Config, Space};

/// The most trials that a lesson weighs.
const MOST_BELIEVED: f64 = 20.0;
/// Trials after which the most promising of the improbable configs is tried.
const PROBES: [usize; 2] = [12, 30];
/// A rule that this many trials of the study have met needs no probe.
const ENOUGH_MET: f64 = 2.0;

/// A learnt constraint.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// Over the space's tunables, in their order: configs that meet it fail.
    pub when: BoundExpr,
    /// Trials that met it and failed, and that met it and worked.
    pub failed: f64,
    pub worked: f64,
}

#[derive(Clone, Copy, Default)]
struct Met {
    failed: f64,
    worked: f64,
}

/// What is doubted, and what this study has seen of it.
pub(super) struct Doubts {
    rules: Vec<Doubt>,
    here: Vec<Met>,
}

impl Doubts {
    pub(super) fn new(doubts: &[Doubt]) -> Doubts {
        let rules: Vec<Doubt> = doubts
            .iter()
            .map(|doubt| {
                // Counts may come from a file that anybody has edited.
                let (failed, worked) = (doubt.failed.max(0.0), doubt.worked.max(0.0));
                let scale = (MOST_BELIEVED / (failed + worked).max(1.0)).min(1.0);
                Doubt {
                    when: doubt.when.clone(),
                    failed: scale * failed,
                    worked: scale * worked,
                }
            })
            .collect();
        Doubts {
            here: vec![Met::default(); rules.len()],
            rules,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn meets(&self, rule: usize, space: &Space, config: &Config) -> bool {
        let value = |slot: usize| space.value(config, slot);
        let found = self.rules[rule].when.eval_with(&value);
        // A rule that cannot be evaluated says nothing.
        found.is_ok_and(|value| value.is_truthy())
    }

    /// The rules that a config meets.
    pub(super) fn of(&self, space: &Space, config: &Config) -> Vec<u16> {
        let rules = (0..self.rules.len()).filter(|&rule| self.meets(rule, space, config));
        rules.map(|rule| rule as u16).collect()
    }

    pub(super) fn tell(&mut self, space: &Space, config: &Config, worked: bool) {
        for rule in 0..self.rules.len() {
            if self.meets(rule, space, config) {
                match worked {
                    true => self.here[rule].worked += 1.0,
                    false => self.here[rule].failed += 1.0,
                }
            }
        }
    }

    /// The logarithm of the chance to work of a config that meets these rules.
    pub(super) fn log_chance(&self, met: &[u16]) -> f64 {
        let chance = |rule: &u16| {
            let (rule, here) = (&self.rules[*rule as usize], &self.here[*rule as usize]);
            let worked = rule.worked + here.worked + 1.0;
            worked / (worked + rule.failed + here.failed + 1.0)
        };
        let worst = met.iter().map(chance).fold(1.0, f64::min);
        worst.ln()
    }

    /// Whether the next config, after so many, is to put a rule to the test that this study knows little of.
    pub(super) fn is_probe(&self, asked: usize) -> bool {
        PROBES.contains(&asked) && (0..self.rules.len()).any(|rule| self.is_open(rule))
    }

    fn is_open(&self, rule: usize) -> bool {
        self.here[rule].failed + self.here[rule].worked < ENOUGH_MET
    }

    /// Whether a config would put such a rule to the test.
    pub(super) fn tests(&self, met: &[u16]) -> bool {
        met.iter().any(|rule| self.is_open(usize::from(*rule)))
    }
}
