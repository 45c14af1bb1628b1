//! The set of configs a kernel may be tried with: tunables, rules, exact enumeration, sampling.
//!
//! Flow: tunables + rules -> connected components -> one table of valid rows per component. Two
//! tunables are connected when a rule reads both; the valid set is the product of the components,
//! so tunables no rule mentions cost nothing and counts stay exact. What is not here: where rules
//! come from (manifest, device limits) and which config to try next (`search`).

use std::collections::BTreeSet;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::diagnostic::nearest;
use crate::expression::{BoundExpr, EvalError};
use crate::trial::Assignment;
use crate::value::Value;

mod build;
mod component;
mod design;
mod id;
mod rules;
#[cfg(test)]
mod tests;

use component::Component;
pub(crate) use design::shuffle;
pub use id::ConfigId;
use rules::Rules;

/// One compile-time choice of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tunable {
    pub name: String,
    pub values: Vec<Value>,
}

/// Far more than any kernel has; what is done for each pair of them stays cheap.
pub const MOST_TUNABLES: usize = 1024;

/// One value per tunable, as positions in each tunable's list of values, in the space's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Config(pub Box<[u16]>);

/// A condition every config of a space meets.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    pub kind: RuleKind,
    /// Bound over the tunables (slots `0..n`), then the constants (slots `n..`).
    pub expr: BoundExpr,
}

/// Both kinds remove configs; they are reported apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleKind {
    /// Written by the author of the kernel.
    Constraint,
    /// A limit of the device.
    Gate,
}

/// When one component stops being enumerated and is sampled instead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuildLimits {
    /// Valid rows of one component; each takes 2 bytes per tunable and about 8 for the index.
    pub rows: u64,
    /// Partial rows looked at.
    pub nodes: u64,
}

impl Default for BuildLimits {
    fn default() -> BuildLimits {
        BuildLimits {
            rows: 20_000_000,
            nodes: 200_000_000,
        }
    }
}

/// What one rule took out of the Cartesian product.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    pub name: String,
    pub kind: RuleKind,
    /// Every removed config is counted for exactly one rule: the one that rejected it, or the
    /// partial config it begins with, first. The sum is `cartesian - count` for an enumerated
    /// space; otherwise each is what was seen before enumeration gave up, a lower bound.
    pub removed: u128,
    /// One config that breaks this rule.
    pub example: Option<Config>,
}

#[derive(Clone, Debug, Error, PartialEq)]
pub enum SpaceError {
    #[error("tunable `{tunable}` has no values")]
    NoValues { tunable: String },
    #[error("tunable `{tunable}` has {count} values; the most is 65536")]
    TooManyValues { tunable: String, count: usize },
    #[error("tunable `{tunable}` lists `{value}` twice")]
    DuplicateValue { tunable: String, value: Value },
    #[error("tunable `{tunable}` lists a value that is not a number (NaN)")]
    NotANumber { tunable: String },
    #[error("there are {count} tunables; the most is {MOST_TUNABLES}")]
    TooManyTunables { count: usize },
    #[error("the name `{name}` is used twice")]
    DuplicateName { name: String },
    #[error("rule `{rule}` reads slot {slot}, but only {known} names are known")]
    OutOfScope {
        rule: String,
        slot: usize,
        known: usize,
    },
    /// No other rule over these tunables removes the config, so the rule had to decide.
    #[error("rule `{rule}` cannot be evaluated{}: {error}", at(.values))]
    Rule {
        rule: String,
        error: EvalError,
        /// The tunables and constants the rule reads.
        values: Assignment,
    },
}

fn at(values: &Assignment) -> String {
    let shown: Vec<String> = values.iter().map(|(n, v)| format!("{n}={v}")).collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!(" at {}", shown.join(" ")),
    }
}

/// Why a list of names and values is not a config of a space. It says nothing about rules.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ConfigError {
    #[error("unknown tunable `{name}`")]
    UnknownTunable {
        name: String,
        nearest: Option<String>,
    },
    #[error("tunable `{name}` has no value")]
    MissingTunable { name: String },
    #[error("tunable `{name}` is given twice")]
    GivenTwice { name: String },
    #[error("tunable `{name}` cannot be `{value}`")]
    NotInList {
        name: String,
        value: Value,
        allowed: Vec<Value>,
    },
}

impl ConfigError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ConfigError::UnknownTunable { nearest, .. } => {
                nearest.as_ref().map(|n| format!("did you mean `{n}`?"))
            }
            ConfigError::NotInList { allowed, .. } => {
                const SHOWN: usize = 16;
                let mut list: Vec<String> =
                    allowed.iter().take(SHOWN).map(Value::to_string).collect();
                if allowed.len() > SHOWN {
                    list.push(format!("… ({} values)", allowed.len()));
                }
                Some(format!("its values are {}", list.join(", ")))
            }
            ConfigError::MissingTunable { .. } | ConfigError::GivenTwice { .. } => None,
        }
    }
}

/// Tunables and rules, proven consistent: every rule can be evaluated wherever it matters.
#[derive(Clone, Debug)]
pub struct Space {
    rules: Rules,
    components: Vec<Component>,
    /// The component of each tunable.
    homes: Vec<usize>,
    /// False when a rule that reads no tunable fails, so that no config is valid.
    possible: bool,
    removals: Vec<Removal>,
}

impl Space {
    /// Enumerates the valid configs, component by component.
    ///
    /// A rule that cannot be evaluated (division by zero, kinds that do not compare) is an error
    /// when some config is removed by no other rule of its component: the rule had to decide and
    /// could not. Whether that happens does not depend on the order of enumeration. In a component
    /// too large to enumerate such errors may go unseen; a config that meets one is not valid.
    pub fn build(
        tunables: Vec<Tunable>,
        constants: Vec<(String, Value)>,
        rules: Vec<Rule>,
        limits: BuildLimits,
    ) -> Result<Space, SpaceError> {
        build::build(Rules::new(tunables, constants, rules)?, limits)
    }

    pub fn tunables(&self) -> &[Tunable] {
        self.rules.tunables()
    }

    /// In the order they are reported: constraints as given, then gates.
    pub fn rules(&self) -> &[Rule] {
        self.rules.rules()
    }

    /// The same space with no valid configs but these. Those that are not valid are left out; the
    /// rest keep their order. What is lost is reported as a gate of the given name.
    pub fn restricted_to(&self, configs: impl IntoIterator<Item = Config>, name: &str) -> Space {
        let kept: BTreeSet<(Option<u128>, Config)> = configs
            .into_iter()
            .filter(|config| self.contains(config))
            .map(|config| (self.index_of(&config), config))
            .collect();
        let width = self.homes.len();
        let count = self.count();
        if count == Some(kept.len() as u128) || width == 0 {
            return self.clone();
        }
        let rows = kept.iter().flat_map(|(_, config)| config.0.iter().copied());
        let mut space = Space {
            rules: self.rules.clone(),
            components: vec![Component::listed(width, rows.collect())],
            homes: vec![0; width],
            possible: self.possible,
            removals: self.removals.clone(),
        };
        space.removals.push(Removal {
            name: name.to_string(),
            kind: RuleKind::Gate,
            removed: count.map_or(0, |count| count - kept.len() as u128),
            example: None,
        });
        space
    }

    /// How many configs there are before any rule; the largest `u128` when there are more.
    pub fn cartesian(&self) -> u128 {
        self.tunables()
            .iter()
            .fold(1, |n: u128, t| n.saturating_mul(t.values.len() as u128))
    }

    /// The exact number of valid configs; `None` when a component was too large to enumerate, or
    /// the number does not fit.
    pub fn count(&self) -> Option<u128> {
        if !self.possible {
            return Some(0);
        }
        // An empty component makes the product zero even beside one that was not enumerated.
        if self.components.iter().any(|c| c.len() == Some(0)) {
            return Some(0);
        }
        self.components
            .iter()
            .try_fold(1, |n: u128, c| n.checked_mul(u128::from(c.len()?)))
    }

    pub fn is_enumerated(&self) -> bool {
        self.count().is_some()
    }

    /// The config at a position of the enumeration, for `index < count`.
    pub fn config(&self, mut index: u128) -> Option<Config> {
        if index >= self.count()? {
            return None;
        }
        let mut config = self.blank();
        for component in self.components.iter().rev() {
            let len = u128::from(component.len()?);
            component.write(u64::try_from(index % len).ok()?, &mut config.0);
            index /= len;
        }
        Some(config)
    }

    /// The inverse of `config`; `None` for a config that is not valid.
    pub fn index_of(&self, config: &Config) -> Option<u128> {
        self.count()?;
        if !self.possible || !self.fits(config) {
            return None;
        }
        let mut index = 0;
        for component in &self.components {
            let row = component.find(&config.0)?;
            index = index * u128::from(component.len()?) + u128::from(row);
        }
        Some(index)
    }

    /// Whether a config meets every rule.
    pub fn contains(&self, config: &Config) -> bool {
        self.possible
            && self.fits(config)
            && self
                .components
                .iter()
                .all(|c| c.contains(&self.rules, &config.0))
    }

    /// One valid config: uniform over the valid set when it is enumerated. A component that is not
    /// enumerated is sampled by a randomised descent, which is close to uniform but not exactly;
    /// `None` then means that none was found, and otherwise that there is none.
    pub fn sample(&self, rng: &mut (impl Rng + ?Sized)) -> Option<Config> {
        if !self.possible {
            return None;
        }
        let mut config = self.blank();
        for component in &self.components {
            match component.len() {
                Some(0) => return None,
                Some(len) => component.write(rng.random_range(0..len), &mut config.0),
                None => {
                    let row = component.draw(&self.rules, rng)?;
                    component.put(&row, &mut config.0);
                }
            }
        }
        Some(config)
    }

    /// Distinct valid configs whose values are spread evenly: each tunable's values (or, with more
    /// values than `n`, each of `n` equal runs of them) appear equally often as far as the rules
    /// allow. Fewer than `n` only when the space has fewer.
    pub fn latin_hypercube(&self, n: usize, rng: &mut (impl Rng + ?Sized)) -> Vec<Config> {
        self.spread(n, rng, &|_| false)
    }

    /// All valid configs that differ from this one in exactly one tunable.
    pub fn neighbours(&self, config: &Config) -> Vec<Config> {
        if !self.possible || !self.fits(config) {
            return Vec::new();
        }
        let broken: Vec<usize> = (0..self.components.len())
            .filter(|&c| !self.components[c].contains(&self.rules, &config.0))
            .collect();
        let mut found = Vec::new();
        for (tunable, &home) in self.homes.iter().enumerate() {
            // Changing a tunable can only mend its own component.
            if broken.iter().any(|&c| c != home) {
                continue;
            }
            let component = &self.components[home];
            let mut changed = config.clone();
            for position in 0..self.tunables()[tunable].values.len() {
                changed.0[tunable] = position as u16;
                if changed.0[tunable] != config.0[tunable]
                    && component.contains(&self.rules, &changed.0)
                {
                    found.push(changed.clone());
                }
            }
        }
        found
    }

    /// Every valid config in index order; nothing when the space is not enumerated.
    pub fn iter(&self) -> impl Iterator<Item = Config> + '_ {
        let empty = self.count().is_none_or(|n| n == 0);
        let mut rows = (!empty).then(|| vec![0; self.components.len()]);
        std::iter::from_fn(move || {
            let current = rows.as_mut()?;
            let mut config = self.blank();
            for (component, &row) in self.components.iter().zip(current.iter()) {
                component.write(row, &mut config.0);
            }
            let advanced = (0..current.len()).rev().any(|c| {
                current[c] += 1;
                let carry = Some(current[c]) == self.components[c].len();
                if carry {
                    current[c] = 0;
                }
                !carry
            });
            if !advanced {
                rows = None;
            }
            Some(config)
        })
    }

    /// What the lists of valid rows take in memory, without tunables and rules.
    pub fn bytes(&self) -> usize {
        self.components.iter().map(Component::bytes).sum()
    }

    pub fn value(&self, config: &Config, tunable: usize) -> &Value {
        &self.tunables()[tunable].values[usize::from(config.0[tunable])]
    }

    /// The config spelled out, in the order of the tunables.
    pub fn assignment(&self, config: &Config) -> Assignment {
        (0..self.homes.len())
            .map(|t| {
                (
                    self.tunables()[t].name.clone(),
                    self.value(config, t).clone(),
                )
            })
            .collect()
    }

    /// Finds the positions of values given by name, in any order. The rules are not asked.
    pub fn config_from(&self, values: &[(String, Value)]) -> Result<Config, ConfigError> {
        let tunables = self.tunables();
        let mut positions = vec![None; tunables.len()];
        for (name, value) in values {
            let Some(t) = tunables.iter().position(|t| t.name == *name) else {
                let known = tunables.iter().map(|t| t.name.as_str());
                return Err(ConfigError::UnknownTunable {
                    name: name.clone(),
                    nearest: nearest(name, known).map(str::to_string),
                });
            };
            if positions[t].is_some() {
                return Err(ConfigError::GivenTwice { name: name.clone() });
            }
            // `1` finds `1.0` and `true`, unless the list holds the very value itself.
            let list = &tunables[t].values;
            let position = list
                .iter()
                .position(|v| v == value)
                .or_else(|| list.iter().position(|v| v.loosely_equals(value)))
                .ok_or_else(|| ConfigError::NotInList {
                    name: name.clone(),
                    value: value.clone(),
                    allowed: list.clone(),
                })?;
            positions[t] = Some(position as u16);
        }
        let digits = positions.iter().zip(tunables).map(|(position, tunable)| {
            position.ok_or_else(|| ConfigError::MissingTunable {
                name: tunable.name.clone(),
            })
        });
        Ok(Config(digits.collect::<Result<_, _>>()?))
    }

    pub fn id(&self, config: &Config) -> ConfigId {
        ConfigId::of(
            self.tunables()
                .iter()
                .enumerate()
                .map(|(t, tunable)| (tunable.name.as_str(), self.value(config, t))),
        )
    }

    /// What each rule removed, in the order of `rules`; then what `restricted_to` left out.
    pub fn removals(&self) -> &[Removal] {
        &self.removals
    }

    /// The rules a config breaks; one that cannot be evaluated there counts as broken.
    pub fn broken_rules(&self, config: &Config) -> Vec<&Rule> {
        (0..self.rules().len())
            .filter(|&r| !self.rules.check(r, &config.0).unwrap_or(false))
            .map(|r| &self.rules()[r])
            .collect()
    }

    /// For each tunable, how many valid configs have each of its values; `None` when the space is
    /// not enumerated.
    pub fn coverage(&self) -> Option<Vec<Vec<u128>>> {
        let count = self.count()?;
        let mut coverage: Vec<Vec<u128>> = self
            .tunables()
            .iter()
            .map(|t| vec![0; t.values.len()])
            .collect();
        if count == 0 {
            return Some(coverage);
        }
        for component in &self.components {
            let others = count / u128::from(component.len()?);
            component.for_each_cell(|tunable, position| {
                coverage[tunable][usize::from(position)] += others;
            });
        }
        Some(coverage)
    }

    /// Whether every position is within its tunable's list.
    fn fits(&self, config: &Config) -> bool {
        let tunables = self.tunables();
        config.0.len() == tunables.len()
            && config
                .0
                .iter()
                .zip(tunables)
                .all(|(&position, tunable)| usize::from(position) < tunable.values.len())
    }

    fn blank(&self) -> Config {
        Config(vec![0; self.homes.len()].into())
    }
}

/// The names of tunables and constants, each once.
fn check_names<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), SpaceError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(SpaceError::DuplicateName { name: name.into() });
        }
    }
    Ok(())
}
