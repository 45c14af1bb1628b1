//! What plots show of each tunable: the median time of the configs that have each of its values, from the trials alone.
//! How much it matters is the model's to say, where there is time for it.

use kiln_core::effects::Effects;
use kiln_core::stats::median;
use kiln_core::study::Study;
use kiln_core::value::Value;

/// A tunable that took more than one value in the trials.
pub struct Effect {
    pub tunable: String,
    /// Its place in a config.
    pub place: usize,
    /// In the order of the values.
    pub values: Vec<ValueEffect>,
    /// The part of the differences between times that this tunable explains, from 0 to 1, where a model says.
    pub importance: Option<f64>,
}

pub struct ValueEffect {
    pub value: Value,
    /// Of the trials that were measured; `None` where none was.
    pub median_ns: Option<f64>,
    pub measured: usize,
    pub failed: usize,
}

impl Effect {
    /// The slowest value's median over the fastest one's.
    pub fn spread(&self) -> Option<f64> {
        let medians = || self.values.iter().filter_map(|v| v.median_ns);
        let fastest = medians().min_by(f64::total_cmp)?;
        let slowest = medians().max_by(f64::total_cmp)?;
        Some(slowest / fastest).filter(|spread| spread.is_finite())
    }
}

/// Every tunable that varied, those that matter most first: by the model, else by how far medians are apart.
pub fn effects(study: &Study, model: Option<&Effects>) -> Vec<Effect> {
    let Some(first) = study.trials.first() else {
        return Vec::new();
    };
    let model = model.filter(|model| model.silent.is_none());
    let share = |name: &str| {
        let found = model?.tunables.iter().find(|t| t.tunable == name)?;
        found.p_value.map(|_| found.share)
    };
    let names = first.config.iter().map(|(name, _)| name);
    let mut effects: Vec<Effect> = names
        .enumerate()
        .map(|(place, name)| Effect {
            tunable: name.clone(),
            place,
            values: values(study, place),
            importance: share(name),
        })
        .filter(|effect| effect.values.len() > 1)
        .collect();
    // What the model leaves out comes last.
    let weight = |e: &Effect| match model {
        Some(_) => e.importance.unwrap_or(-1.0),
        None => e.spread().unwrap_or(0.0),
    };
    effects.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    effects
}

fn values(study: &Study, place: usize) -> Vec<ValueEffect> {
    let mut groups: Vec<(Value, Vec<f64>, usize)> = Vec::new();
    for trial in &study.trials {
        let Some((_, value)) = trial.config.get(place) else {
            continue;
        };
        let group = match groups.iter_mut().find(|(known, ..)| known == value) {
            Some(group) => group,
            None => {
                groups.push((value.clone(), Vec::new(), 0));
                groups.last_mut().expect("one was just pushed")
            }
        };
        match trial.outcome.median_ns() {
            Some(ns) => group.1.push(ns),
            None => group.2 += 1,
        }
    }
    groups.sort_by(|(a, ..), (b, ..)| {
        let by_text = || a.to_string().cmp(&b.to_string());
        a.loosely_compares(b).unwrap_or_else(by_text)
    });
    let groups = groups
        .into_iter()
        .map(|(value, times, failed)| ValueEffect {
            value,
            median_ns: (!times.is_empty()).then(|| median(&times)),
            measured: times.len(),
            failed,
        });
    groups.collect()
}
