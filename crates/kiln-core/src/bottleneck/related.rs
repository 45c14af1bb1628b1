//! Which tunables of a manifest an advice is about.
//!
//! What an expression of `[launch]` says is certain: a tunable in `shared` decides shared memory. Beyond that only
//! names speak: a tunable called `SWIZZLE` is about bank conflicts. Advice names what it found and its other
//! values, never a tunable that is not in the manifest.

use serde::{Deserialize, Serialize};

use crate::manifest::Manifest;
use crate::trial::Assignment;
use crate::value::Value;

/// A tunable, the value it has, and what it takes part in.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub name: String,
    pub values: Vec<Value>,
    pub now: Value,
    pub in_shared: bool,
    pub in_block: bool,
    pub in_grid: bool,
}

/// A tunable worth another try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Related {
    pub tunable: String,
    pub now: Value,
    pub instead: Vec<Value>,
}

impl Choice {
    /// The tunables of a manifest that have more than one value, as a config sets them.
    pub fn all(manifest: &Manifest, config: &Assignment) -> Vec<Choice> {
        let launch = &manifest.launch;
        let names = |exprs: &mut dyn Iterator<Item = &crate::expression::Expr>| -> Vec<String> {
            let all = exprs.flat_map(|e| e.names().into_iter().map(|n| n.name.clone()));
            all.collect()
        };
        let in_shared = names(&mut launch.shared.iter());
        let in_block = names(&mut launch.block.iter());
        let in_grid = names(&mut launch.grid.iter());
        let tunables = manifest.tunables.iter().filter(|t| t.values.len() > 1);
        tunables
            .filter_map(|tunable| {
                let now = config.iter().find(|(name, _)| *name == tunable.name)?;
                Some(Choice {
                    name: tunable.name.clone(),
                    values: tunable.values.clone(),
                    now: now.1.clone(),
                    in_shared: in_shared.contains(&tunable.name),
                    in_block: in_block.contains(&tunable.name),
                    in_grid: in_grid.contains(&tunable.name),
                })
            })
            .collect()
    }

    /// Whether one of the words is part of the name: `MIN_BLOCKS` is about `BLOCKS`.
    fn is_about(&self, words: &[&str]) -> bool {
        let name = self.name.to_ascii_uppercase();
        let parts: Vec<&str> = name.split('_').collect();
        words.iter().any(|word| {
            parts
                .iter()
                .any(|part| part == word || part.starts_with(word))
        })
    }

    fn other_values(&self, wanted: Wanted) -> Vec<Value> {
        let now = self.now.as_f64();
        let others = self.values.iter().filter(|value| **value != self.now);
        let fits = |value: &&Value| match (wanted, value.as_f64(), now) {
            (Wanted::Smaller, Some(other), Some(now)) => other < now,
            (Wanted::Larger, Some(other), Some(now)) => other > now,
            _ => true,
        };
        others.filter(fits).cloned().collect()
    }
}

/// Which way a number has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Any,
    Smaller,
    Larger,
}

/// What a rule looks for.
pub struct Wish<'w> {
    /// Tunables in the expression of the launch's shared memory.
    pub shared: Option<Wanted>,
    pub block: Option<Wanted>,
    pub words: &'w [&'w str],
    pub wanted: Wanted,
}

/// The tunables that answer a wish, those the launch names first.
pub fn find(choices: &[Choice], wish: &Wish<'_>) -> Vec<Related> {
    let mut found = Vec::new();
    let mut add = |choice: &Choice, wanted: Wanted| {
        let instead = choice.other_values(wanted);
        let known = found.iter().any(|r: &Related| r.tunable == choice.name);
        if !instead.is_empty() && !known {
            found.push(Related {
                tunable: choice.name.clone(),
                now: choice.now.clone(),
                instead,
            });
        }
    };
    for choice in choices.iter().filter(|c| c.in_shared) {
        if let Some(wanted) = wish.shared {
            add(choice, wanted);
        }
    }
    for choice in choices.iter().filter(|c| c.in_block) {
        if let Some(wanted) = wish.block {
            add(choice, wanted);
        }
    }
    for choice in choices.iter().filter(|c| c.is_about(wish.words)) {
        add(choice, wish.wanted);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(name: &str, values: &[i64], now: i64, in_shared: bool) -> Choice {
        Choice {
            name: name.into(),
            values: values.iter().map(|v| Value::Int(*v)).collect(),
            now: Value::Int(now),
            in_shared,
            in_block: false,
            in_grid: false,
        }
    }

    #[test]
    fn the_launch_says_more_than_names() {
        let choices = [
            choice("PADDED", &[0, 1], 0, false),
            choice("STAGES", &[2, 3, 4], 3, true),
            choice("UNROLL", &[1, 2], 1, false),
        ];
        let wish = Wish {
            shared: Some(Wanted::Smaller),
            block: None,
            words: &["PAD"],
            wanted: Wanted::Any,
        };
        let found = find(&choices, &wish);
        let names: Vec<&str> = found.iter().map(|r| r.tunable.as_str()).collect();
        assert_eq!(names, ["STAGES", "PADDED"]);
        assert_eq!(found[0].instead, [Value::Int(2)]);
    }

    #[test]
    fn a_tunable_at_its_end_is_not_named() {
        let choices = [choice("STAGES", &[2, 3], 2, true)];
        let wish = Wish {
            shared: Some(Wanted::Smaller),
            block: None,
            words: &[],
            wanted: Wanted::Any,
        };
        assert!(find(&choices, &wish).is_empty());
    }
}
