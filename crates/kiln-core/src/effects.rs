//! What each tunable did to time, from a study's own trials: also when nothing won.
//!
//! Flow: `Observations` (trials) -> a Gaussian process over sets of tunables (`model`) -> `Effects`: how much
//! of the differences in time each tunable accounts for, what each of its values costs against the best
//! one, with intervals, which pairs go together, and how registers and occupancy go with time (`relations`).
//! Times are taken as logarithms, so that everything is a percentage. Failures say nothing about time and
//! are only counted; which values cause them is `failure_rules`' business.
//!
//! A search does not try values evenly: it stays where configs are fast. The model knows where each trial
//! lies and takes that out; plain averages by value would not.

mod likeness;
mod model;
mod observations;
mod pairs;
mod relations;
mod shares;
#[cfg(test)]
mod tests;
mod words;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::space::Tunable;
use crate::value::Value;
use likeness::Likeness;
use model::{Estimate, Model, Places};
pub use observations::{CompiledFacts, Counts, Observation, Observations};
pub use pairs::PairEffect;
pub use relations::{Relation, RelationKind};

/// With fewer measured trials nothing is said.
pub const FEWEST_TRIALS: usize = 8;
/// More are thinned out: fitting takes time with the third power.
const MOST_TRIALS: usize = 400;
/// Changes of time below this are of no interest, as a part of the time.
pub const MARGIN: f64 = 0.01;
/// A tunable is said to matter when what it explains would come by chance less often than this.
const CHANCE: f64 = 0.02;
/// And when it accounts for this much.
const LEAST_SHARE: f64 = 0.01;
/// For intervals of 95 %. With 1.96 they held the costs of tunables that are at work 89 to 93 times in 100, for the fit
/// takes its parameters for known.
const DEVIATIONS: f64 = 2.3;
/// With few trials, moreover, effects come out smaller than they are: intervals have to be wider by the square of this
/// over the number of trials, found by simulation (`tests::intervals_hold_what_they_promise`).
const SMALL_SAMPLE: f64 = 18.0;

/// What tunables did to time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effects {
    pub trials: usize,
    pub measured: usize,
    /// Why nothing can be said, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<String>,
    /// The part of the differences in time that is not foreseen of a trial from all the others, from 0 to 1.
    pub unexplained: f64,
    /// The most important first.
    pub tunables: Vec<TunableEffect>,
    pub pairs: Vec<PairEffect>,
    /// How time goes with what the compiler reported.
    pub relations: Vec<Relation>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunableEffect {
    pub tunable: String,
    pub finding: Finding,
    /// The part of what is explained that goes when only this tunable is kept fixed: by itself and together
    /// with others, from 0 to 1. Parts of tunables that act together overlap.
    pub share: f64,
    /// The part it accounts for whatever the others are.
    pub alone: f64,
    /// How often chance alone would explain so much; `None` where it was never varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// The value that is fastest on average over all else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Value>,
    /// In the order of the manifest.
    pub values: Vec<ValueEffect>,
    /// In a sentence.
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    Matters,
    /// Shown, and not only not seen: every interval of the average lies within the margin, and so does what is
    /// expected of a change in the fastest config.
    DoesNotMatter,
    /// Too few or too noisy trials to say.
    Undecided,
    /// Only one of its values was ever measured.
    NeverVaried,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueEffect {
    pub value: Value,
    pub measured: usize,
    pub failed: usize,
    /// Time against the best value's, on average over all else. `None` where it was never measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Time of the fastest trial's config with this value, against that config as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_in_best: Option<Cost>,
}

/// A relative change of time with its interval of 95 %: 0.06 is 6 % slower.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    pub change: f64,
    pub low: f64,
    pub high: f64,
}

impl Cost {
    /// The same seen from the other side.
    pub fn reversed(self) -> Cost {
        let turn = |change: f64| 1.0 / (1.0 + change) - 1.0;
        Cost {
            change: turn(self.change),
            low: turn(self.high),
            high: turn(self.low),
        }
    }

    /// Whether the interval leaves out no change at all.
    pub fn is_clear(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    fn is_within(&self, margin: f64) -> bool {
        self.low > -margin && self.high < margin
    }
}

impl Effects {
    pub fn of(observations: &Observations) -> Effects {
        let measured = observations.measured().count();
        let mut effects = Effects {
            trials: observations.rows.len(),
            measured,
            silent: None,
            unexplained: 1.0,
            tunables: Vec::new(),
            pairs: Vec::new(),
            relations: relations::relations(observations),
        };
        let Some(fitted) = Fitted::of(observations) else {
            effects.silent = Some(why_silent(observations, measured));
            effects.tunables = (0..observations.tunables.len())
                .map(|t| unknown(observations, t, Finding::Undecided))
                .collect();
            return effects;
        };
        fitted.describe(&mut effects);
        effects
    }

    /// Tunables that matter, the most important first.
    pub fn important(&self) -> impl Iterator<Item = &TunableEffect> {
        let tunables = self.tunables.iter();
        tunables.filter(|t| t.finding == Finding::Matters)
    }

    /// The few sentences most worth reading: important tunables, then pairs, then what the compiler's numbers say.
    pub fn headlines(&self, most: usize) -> Vec<&str> {
        let tunables = self.important().map(|t| t.sentence.as_str());
        let pairs = self.pairs.iter().map(|p| p.sentence.as_str());
        let relations = self.relations.iter().map(|r| r.sentence.as_str());
        tunables.chain(pairs).chain(relations).take(most).collect()
    }
}

fn why_silent(observations: &Observations, measured: usize) -> String {
    if measured < FEWEST_TRIALS {
        return format!(
            "{measured} of {} trials were measured; effects need {FEWEST_TRIALS} at the least",
            observations.rows.len()
        );
    }
    "all measured trials have the same config or the same time: there is nothing to compare".into()
}

/// A tunable of which nothing is known but counts.
fn unknown(observations: &Observations, tunable: usize, finding: Finding) -> TunableEffect {
    let Tunable { name, values } = &observations.tunables[tunable];
    let counts = observations.counts(tunable);
    let values = values.iter().zip(counts).map(|(value, count)| ValueEffect {
        value: value.clone(),
        measured: count.measured,
        failed: count.failed,
        cost: None,
        cost_in_best: None,
    });
    let mut effect = TunableEffect {
        tunable: name.clone(),
        finding,
        share: 0.0,
        alone: 0.0,
        p_value: None,
        best: None,
        values: values.collect(),
        sentence: String::new(),
    };
    effect.sentence = words::tunable(&effect);
    effect
}

/// The varied tunables among the measured trials, ready for a model.
struct Varied {
    /// By tunable of the model, its place among the observations' tunables.
    tunables: Vec<usize>,
    /// By tunable of the model and value of the model, the position of that value.
    positions: Vec<Vec<usize>>,
    weights: Vec<Vec<f64>>,
    likenesses: Vec<Likeness>,
    places: Places,
    /// Standardised logarithms of times.
    targets: Vec<f64>,
    /// The standard deviation of the logarithms.
    spread: f64,
    /// The fastest trial, by value of the model.
    best: Vec<usize>,
}

impl Varied {
    fn of(observations: &Observations) -> Option<Varied> {
        let mut rows: Vec<(&Observation, f64)> = observations.measured().collect();
        if rows.len() < FEWEST_TRIALS {
            return None;
        }
        let best = rows.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.0;
        if rows.len() > MOST_TRIALS {
            // Evenly over the study: what was tried early is as good to know as what came late.
            let all = rows.len();
            rows = (0..MOST_TRIALS)
                .map(|k| rows[k * all / MOST_TRIALS])
                .collect();
        }
        let (mut tunables, mut positions) = (Vec::new(), Vec::new());
        for tunable in 0..observations.tunables.len() {
            let mut seen: Vec<usize> = rows.iter().map(|(r, _)| r.positions[tunable]).collect();
            seen.push(best.positions[tunable]);
            seen.sort_unstable();
            seen.dedup();
            if seen.len() > 1 {
                tunables.push(tunable);
                positions.push(seen);
            }
        }
        let logs: Vec<f64> = rows.iter().map(|(_, ns)| ns.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / logs.len() as f64;
        let spread = variance.sqrt();
        // Below this, logarithms differ by rounding.
        if tunables.is_empty() || spread < 1e-9 {
            return None;
        }
        let place = |row: &Observation, t: usize| {
            let at = positions[t].binary_search(&row.positions[tunables[t]]);
            at.unwrap_or_default()
        };
        let columns = (0..tunables.len())
            .map(|t| rows.iter().map(|(row, _)| place(row, t)).collect())
            .collect();
        let best = (0..tunables.len()).map(|t| place(best, t)).collect();
        let weights = weights(observations, &tunables, &positions);
        let likenesses = (0..tunables.len())
            .map(|t| {
                let list = &observations.tunables[tunables[t]].values;
                let values: Vec<Value> = positions[t].iter().map(|&p| list[p].clone()).collect();
                Likeness::new(&values, &weights[t])
            })
            .collect();
        Some(Varied {
            likenesses,
            weights,
            places: Places {
                columns,
                count: rows.len(),
            },
            targets: logs.iter().map(|l| (l - mean) / spread).collect(),
            spread,
            best,
            tunables,
            positions,
        })
    }
}

/// How often each measured value occurs among the configs there are.
fn weights(
    observations: &Observations,
    tunables: &[usize],
    positions: &[Vec<usize>],
) -> Vec<Vec<f64>> {
    let space = observations.space.as_ref();
    let coverage = space.and_then(|space| space.coverage());
    let weights = tunables.iter().zip(positions).map(|(&tunable, seen)| {
        let count = |&position: &usize| {
            coverage
                .as_ref()
                .map_or(1.0, |c| c[tunable][position] as f64)
        };
        let counts: Vec<f64> = seen.iter().map(count).collect();
        let sum: f64 = counts.iter().sum();
        match counts.iter().all(|c| *c > 0.0) && sum.is_finite() {
            true => counts.iter().map(|c| c / sum).collect(),
            false => vec![1.0 / seen.len() as f64; seen.len()],
        }
    });
    weights.collect()
}

impl Varied {
    /// A difference of the model as a change of time.
    fn cost(&self, estimate: Estimate) -> Cost {
        let reach = DEVIATIONS * (1.0 + (SMALL_SAMPLE / self.places.count as f64).powi(2));
        let at = |deviations: f64| {
            (self.spread * (estimate.mean + deviations * estimate.deviation)).exp_m1()
        };
        Cost {
            change: at(0.0),
            low: at(-reach),
            high: at(reach),
        }
    }
}

struct Fitted<'o> {
    observations: &'o Observations,
    varied: Varied,
}

impl<'o> Fitted<'o> {
    fn of(observations: &'o Observations) -> Option<Fitted<'o>> {
        let varied = Varied::of(observations)?;
        Some(Fitted {
            observations,
            varied,
        })
    }

    fn describe(&self, effects: &mut Effects) {
        let varied = &self.varied;
        let model = Model::fit(
            &varied.likenesses,
            &varied.weights,
            &varied.places,
            &varied.targets,
        );
        let variances = model.variances();
        let all = variances.all.max(f64::MIN_POSITIVE);
        let shares = shares::shares(self.observations, varied, &model).unwrap_or_else(|| {
            let left = variances.without.iter().map(|rest| (all - rest) / all);
            left.collect()
        });
        effects.unexplained = model.unforeseen().clamp(0.0, 1.0);
        let mut found = Vec::new();
        for tunable in 0..self.observations.tunables.len() {
            let Some(t) = varied.tunables.iter().position(|&v| v == tunable) else {
                found.push(unknown(self.observations, tunable, Finding::NeverVaried));
                continue;
            };
            let mut effect = unknown(self.observations, tunable, Finding::Undecided);
            effect.share = shares[t].clamp(0.0, 1.0);
            effect.alone = (variances.single[t] / all).clamp(0.0, 1.0);
            self.judge(&model, t, &mut effect);
            found.push(effect);
        }
        found.sort_by(|a, b| b.share.total_cmp(&a.share));
        effects.pairs = pairs::pairs(self.observations, varied, &model, &variances, &found);
        effects.tunables = found;
    }

    /// Fills in what is known of one tunable, and says whether it matters.
    fn judge(&self, model: &Model<'_>, t: usize, effect: &mut TunableEffect) {
        let varied = &self.varied;
        let count = varied.positions[t].len();
        let mean = |value: usize| model.difference(t, value, 0, None).mean;
        let Some(best) = (0..count).min_by(|&a, &b| mean(a).total_cmp(&mean(b))) else {
            return;
        };
        let at_best = varied.best[t];
        for value in 0..count {
            let shown = &mut effect.values[varied.positions[t][value]];
            if value != best {
                let estimate = model.difference(t, value, best, None);
                shown.cost = Some(varied.cost(estimate));
            }
            if value != at_best {
                let mut changed = varied.best.clone();
                changed[t] = value;
                let estimate = model.difference_between(&changed, &varied.best);
                shown.cost_in_best = Some(varied.cost(estimate));
            }
        }
        // Always the same deals: the same trials are said the same of.
        let mut rng = ChaCha8Rng::seed_from_u64(t as u64);
        let p_value = model.chance_without(t, &varied.targets, &mut rng);
        effect.p_value = Some(p_value);
        effect.best = Some(effect.values[varied.positions[t][best]].value.clone());
        let costs = || effect.values.iter().filter_map(|v| v.cost);
        let others = || effect.values.iter().filter_map(|v| v.cost_in_best);
        // Of one config alone hardly anything is known to a hundredth; that it is not expected to be more will do.
        let is_small = costs().all(|cost| cost.is_within(MARGIN))
            && others().all(|cost| cost.change.abs() < MARGIN);
        let largest = costs().chain(others()).map(|c| c.change.abs());
        let is_worth_it = effect.share >= LEAST_SHARE && largest.fold(0.0, f64::max) >= MARGIN;
        effect.finding = match p_value < CHANCE && is_worth_it {
            _ if is_small => Finding::DoesNotMatter,
            true => Finding::Matters,
            false => Finding::Undecided,
        };
        effect.sentence = words::tunable(effect);
    }
}
