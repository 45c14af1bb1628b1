//! Trials as effects see them: positions of values, times, and what the compiler said.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::manifest::Manifest;
use crate::space::{BuildLimits, Config, Rule, RuleKind, Space, Tunable};
use crate::study::Study;
use crate::trial::Trial;
use crate::value::Value;

/// Trials to learn from.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    pub tunables: Vec<Tunable>,
    pub rows: Vec<Observation>,
    /// The configs there are, over the same tunables; `None` for all combinations.
    pub space: Option<Arc<Space>>,
}

/// One trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub trial: u64,
    /// By tunable, the position of its value.
    pub positions: Vec<usize>,
    /// `None` for a failure.
    pub ns: Option<f64>,
    pub compiled: Option<CompiledFacts>,
}

/// What the compiler said of a kernel for a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompiledFacts {
    pub registers: u32,
    pub spilled_bytes: u32,
    /// From 0 to 1.
    pub occupancy: Option<f64>,
}

impl Observations {
    /// The trials of a study. Values that the manifest lists and nobody tried are known as such.
    pub fn of_study(study: &Study) -> Observations {
        let Ok(manifest) = study.own_manifest() else {
            return Observations::of_trials(&[], &study.trials);
        };
        let mut observations = Observations::of_trials(&manifest.tunables, &study.trials);
        observations.space = valid_configs(&observations.tunables, &manifest, study);
        observations
    }

    /// `listed` may miss tunables and values that trials have. A time that is none counts as a failure.
    pub fn of_trials(listed: &[Tunable], trials: &[Trial]) -> Observations {
        let mut tunables: Vec<Tunable> = Vec::new();
        for (name, _) in trials.iter().flat_map(|trial| &trial.config) {
            if !tunables.iter().any(|t| t.name == *name) {
                let known = listed.iter().find(|t| t.name == *name);
                tunables.push(known.cloned().unwrap_or_else(|| Tunable {
                    name: name.clone(),
                    values: Vec::new(),
                }));
            }
        }
        let mut rows = Vec::new();
        for trial in trials {
            let Some(positions) = positions(&mut tunables, trial) else {
                continue;
            };
            rows.push(Observation {
                trial: trial.number,
                positions,
                ns: trial.outcome.median_ns().filter(|ns| is_time(*ns)),
                compiled: compiled(trial),
            });
        }
        Observations {
            tunables,
            rows,
            space: None,
        }
    }

    /// Configs of a space with their times.
    pub fn of_configs(
        space: &Arc<Space>,
        tried: impl IntoIterator<Item = (Config, Option<f64>)>,
    ) -> Observations {
        let rows = tried.into_iter().zip(1..).map(|((config, ns), trial)| {
            let positions = config.0.iter().map(|&p| usize::from(p));
            Observation {
                trial,
                positions: positions.collect(),
                ns: ns.filter(|ns| is_time(*ns)),
                compiled: None,
            }
        });
        Observations {
            tunables: space.tunables().to_vec(),
            rows: rows.collect(),
            space: Some(Arc::clone(space)),
        }
    }

    pub fn measured(&self) -> impl Iterator<Item = (&Observation, f64)> {
        self.rows.iter().filter_map(|row| Some((row, row.ns?)))
    }

    /// By value of a tunable: how many trials were measured and how many failed.
    pub fn counts(&self, tunable: usize) -> Vec<Counts> {
        let mut counts = vec![Counts::default(); self.tunables[tunable].values.len()];
        for row in &self.rows {
            let count = &mut counts[row.positions[tunable]];
            match row.ns {
                Some(_) => count.measured += 1,
                None => count.failed += 1,
            }
        }
        counts
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub measured: usize,
    pub failed: usize,
}

/// What the manifest's constraints leave; the device's limits are not asked. `None` where that cannot be said.
fn valid_configs(tunables: &[Tunable], manifest: &Manifest, study: &Study) -> Option<Arc<Space>> {
    // Small enough to be listed in an instant; a larger space is sampled.
    let limits = BuildLimits {
        rows: 1_000_000,
        nodes: 10_000_000,
    };
    let dimensions = &study.header.dimensions;
    let names: Vec<&str> = tunables
        .iter()
        .map(|t| t.name.as_str())
        .chain(dimensions.iter().map(|(name, _)| name.as_str()))
        .collect();
    let rules = manifest.constraints.iter().map(|constraint| {
        let expr = constraint.expr.bind(&names).ok()?;
        Some(Rule {
            name: constraint.name.clone(),
            kind: RuleKind::Constraint,
            expr,
        })
    });
    let constants = dimensions.iter().map(|(n, v)| (n.clone(), Value::Int(*v)));
    let space = Space::build(
        tunables.to_vec(),
        constants.collect(),
        rules.collect::<Option<_>>()?,
        limits,
    );
    space.ok().map(Arc::new)
}

fn is_time(ns: f64) -> bool {
    ns.is_finite() && ns > 0.0
}

/// `None` for a trial that lacks a tunable the others have.
fn positions(tunables: &mut [Tunable], trial: &Trial) -> Option<Vec<usize>> {
    let config: BTreeMap<&str, &Value> =
        trial.config.iter().map(|(n, v)| (n.as_str(), v)).collect();
    tunables
        .iter_mut()
        .map(|tunable| {
            let value = *config.get(tunable.name.as_str())?;
            let known = tunable.values.iter().position(|v| v == value);
            Some(known.unwrap_or_else(|| {
                tunable.values.push(value.clone());
                tunable.values.len() - 1
            }))
        })
        .collect()
}

fn compiled(trial: &Trial) -> Option<CompiledFacts> {
    let facts = trial.compile.as_ref()?;
    let resources = facts.resources?;
    Some(CompiledFacts {
        registers: resources.registers,
        spilled_bytes: resources.spill_store_bytes,
        occupancy: facts.occupancy,
    })
}
