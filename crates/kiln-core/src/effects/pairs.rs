//! Pairs of tunables that go together: what one's value does depends on the other's.

use serde::Serialize;

use super::model::{Change, Model, Variances};
use super::words::{plain, range, size};
use super::{Cost, Finding, Observations, TunableEffect, Varied};
use crate::value::Value;

/// Pairs that account for less are not looked at.
const LEAST_SHARE: f64 = 0.01;
const MOST_PAIRS: usize = 3;
/// Values of each tunable that are looked at, those with most trials.
const MOST_VALUES: usize = 4;
/// An interaction is the largest of some dozens, so it has to stand out more than a single one.
const DEVIATIONS: f64 = 3.3;

/// Two tunables that go together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairEffect {
    /// The one whose value decides what the other does.
    pub given: String,
    pub tunable: String,
    /// The part of what is explained that only both together account for.
    pub share: f64,
    /// The values of `tunable` that are compared.
    pub from: Value,
    pub to: Value,
    /// What the change does at two values of the other.
    pub at: [PairCost; 2],
    pub sentence: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairCost {
    pub given: Value,
    pub cost: Cost,
}

pub(super) fn pairs(
    observations: &Observations,
    varied: &Varied,
    model: &Model<'_>,
    variances: &Variances,
    effects: &[TunableEffect],
) -> Vec<PairEffect> {
    let count = varied.tunables.len();
    let matters: Vec<bool> = varied
        .tunables
        .iter()
        .map(|&t| {
            let name = &observations.tunables[t].name;
            let effect = effects.iter().find(|e| e.tunable == *name);
            effect.is_some_and(|e| e.finding == Finding::Matters)
        })
        .collect();
    let mut shares: Vec<(f64, usize, usize)> = (0..count)
        .flat_map(|a| (a + 1..count).map(move |b| (a, b)))
        .filter(|&(a, b)| matters[a] && matters[b])
        .map(|(a, b)| (variances.pairs[a * count + b] / variances.all, a, b))
        .filter(|(share, ..)| *share >= LEAST_SHARE)
        .collect();
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let found = shares.into_iter().filter_map(|(share, a, b)| {
        // The weightier one is the circumstance, the other what is chosen in it.
        let (given, tunable) = match variances.single[a] >= variances.single[b] {
            true => (a, b),
            false => (b, a),
        };
        strongest(observations, varied, model, given, tunable, share)
    });
    found.take(MOST_PAIRS).collect()
}

/// The change of one tunable whose effect differs most with the other's value.
fn strongest(
    observations: &Observations,
    varied: &Varied,
    model: &Model<'_>,
    given: usize,
    tunable: usize,
    share: f64,
) -> Option<PairEffect> {
    let mut best: Option<(f64, Change, Change)> = None;
    for first in changes(varied, given) {
        for second in changes(varied, tunable) {
            let estimate = model.interaction(first, second);
            let clearness = estimate.mean.abs() - DEVIATIONS * estimate.deviation;
            if clearness > best.map_or(0.0, |(most, ..)| most) {
                best = Some((clearness, first, second));
            }
        }
    }
    let (_, held, change) = best?;
    let value = |t: usize, v: usize| {
        observations.tunables[varied.tunables[t]].values[varied.positions[t][v]].clone()
    };
    let name = |t: usize| observations.tunables[varied.tunables[t]].name.clone();
    let cost = |at: usize| PairCost {
        given: value(given, at),
        cost: varied.cost(model.difference(tunable, change.to, change.from, Some((given, at)))),
    };
    let mut pair = PairEffect {
        given: name(given),
        tunable: name(tunable),
        share,
        from: value(tunable, change.from),
        to: value(tunable, change.to),
        at: [cost(held.from), cost(held.to)],
        sentence: String::new(),
    };
    pair.sentence = sentence(&pair);
    Some(pair)
}

/// Every change between two values that were tried often, in one direction.
fn changes(varied: &Varied, tunable: usize) -> Vec<Change> {
    let mut counts = vec![0; varied.positions[tunable].len()];
    for &value in &varied.places.columns[tunable] {
        counts[value] += 1;
    }
    let mut values: Vec<usize> = (0..counts.len()).collect();
    values.sort_by_key(|&v| std::cmp::Reverse(counts[v]));
    values.truncate(MOST_VALUES);
    values.sort_unstable();
    let pairs = values.iter().enumerate();
    pairs
        .flat_map(|(at, &from)| values[at + 1..].iter().map(move |&to| (from, to)))
        .map(|(from, to)| Change { tunable, from, to })
        .collect()
}

fn sentence(pair: &PairEffect) -> String {
    let does = |cost: Cost| match cost.change {
        ..0.0 => format!(
            "{} faster {}",
            size(cost.reversed()),
            range(cost.reversed())
        ),
        _ => format!("{} slower {}", size(cost), range(cost)),
    };
    let [first, second] = &pair.at;
    format!(
        "{} goes with {}: {} instead of {} is {} at {}={}, {} at {}={}",
        pair.tunable,
        pair.given,
        plain(&pair.to),
        plain(&pair.from),
        does(first.cost),
        pair.given,
        plain(&first.given),
        does(second.cost),
        pair.given,
        plain(&second.given)
    )
}
