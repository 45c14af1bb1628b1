//! The default: a Gaussian process over the valid configs, asked for the largest expected gain.
//!
//! A few random configs, spread out, first. Then a model that learns how much each tunable matters predicts
//! the time of some thousand candidates, with its doubt, and the candidate with the largest
//! expected improvement on the best time so far is next. Failures enter the model as slow trials;
//! trials still running as if they ended as predicted, so that a batch spreads out.
//!
//! The model is fitted anew, and the candidates drawn anew, when the number of trials told has
//! grown by a part. That happens on being told, never on being asked: a resumed study, which is told
//! everything at once, ends in the same state.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;

use super::axes::Axes;
use super::doubt::Doubts;
use super::feasibility::Feasibility;
use super::gaussian::Kernel;
use super::improvement::{at_most, log_expected_improvement};
use super::order::Shuffle;
use super::posterior::{Factor, Panel};
use super::price::Prices;
use super::prior::{Prior, Trust};
use super::target::Targets;
use super::{Setup, Strategy, Visited, generator, log_of, log_time};
use crate::space::{Config, Space, shuffle};
use crate::trial::Outcome;

/// The most configs tried before the model chooses.
const DESIGN: usize = 10;
/// Each of them is the one of this many random configs that is least like those before it. A Latin
/// hypercube spreads further, and on some recorded spaces is worse than chance by 0.05 of the optimum.
const DRAWN_FOR_ONE: usize = 4;
/// Draws until one meets no learnt constraint; more says that hardly any does.
const DRAWN_TO_AVOID: usize = 64;
/// The model begins when this many trials are measured, or the design is used up; it is fitted to
/// no fewer.
const LEAST_MEASURED: usize = 3;
/// A failure says little about time: it counts as a trial that was a little slower than foreseen, by
/// so many standard deviations. That it failed is weighed by itself. On recorded spaces as good as
/// counting failures as slow, and far better where the fastest configs lie among failures.
const FAILURE: f64 = 0.4;
/// Told trials are counted up by this ratio between fits.
const REFIT_RATIO: f64 = 1.15;
const FIRST_FIT_STEPS: usize = 12;
const FIT_STEPS: usize = 6;
/// A fit takes time that grows with the cube of its trials; the fastest half of these and an even
/// choice of the rest stand for all.
const MOST_FITTED: usize = 150;
/// Candidates: this many random configs, and neighbours of the fastest configs.
const RANDOM_CANDIDATES: usize = 600;
const BEST_TO_VARY: usize = 6;
const MAX_NEIGHBOURS: usize = 80;
/// With an earlier study: this many of its fastest configs are tried first, then fewer random
/// ones, which show whether to believe it; and this many are candidates throughout.
const EARLIER_TRIED: usize = 3;
const EARLIER_DESIGN: usize = 5;
const EARLIER_CANDIDATES: usize = 50;

/// Streams of random numbers, by use; those of refits and pursuits begin at the number told.
const DESIGN_STREAM: u64 = 0;
const REFIT_STREAM: u64 = 1 << 32;
const PURSUIT_STREAM: u64 = 2 << 32;
const DOUBT_STREAM: u64 = 3 << 32;
const REST_STREAM: u64 = u64::MAX;

struct Candidates {
    configs: Vec<Config>,
    visited: Vec<bool>,
    /// By candidate, where there is an earlier study.
    expected: Vec<f64>,
    /// By candidate, the learnt constraints it meets, where there are any.
    doubted: Vec<Vec<u16>>,
    panel: Panel,
}

/// Which candidates are looked at.
#[derive(Clone, Copy)]
enum Among {
    All,
    /// Those that put a learnt constraint to the test, as if it were not known.
    Doubted,
}

/// The trials of the earlier study whose configs are valid here.
fn earlier(space: &Space, setup: &Setup) -> Vec<(Config, Option<f64>)> {
    let valid = setup
        .earlier
        .iter()
        .filter(|(config, _)| space.contains(config));
    valid
        .map(|(config, ns)| (config.clone(), ns.and_then(log_of)))
        .collect()
}

/// Random configs for the design: without repeats, and where there are learnt constraints such as meet none, as long
/// as a few draws find one.
struct Draws<'a> {
    random: Shuffle,
    space: &'a Space,
    doubts: &'a Doubts,
    rng: ChaCha8Rng,
}

impl Draws<'_> {
    fn next(&mut self, taken: &Visited) -> Option<Config> {
        let attempts = if self.doubts.is_empty() {
            0
        } else {
            DRAWN_TO_AVOID
        };
        for _ in 0..attempts {
            let config = self.space.sample(&mut self.rng)?;
            if !taken.contains(&config) && self.doubts.of(self.space, &config).is_empty() {
                return Some(config);
            }
        }
        self.random.next(taken)
    }
}

/// Fills the design up to a size with random configs that are little like each other.
fn spread_out(design: &mut Vec<Config>, size: usize, mut draws: Draws<'_>, axes: &Axes) {
    let mut taken: Visited = design.iter().cloned().collect();
    let mut places: Vec<Vec<f32>> = design.iter().map(|c| axes.place(c)).collect();
    while design.len() < size {
        let mut best: Option<(f32, Config, Vec<f32>)> = None;
        for config in (0..DRAWN_FOR_ONE).map_while(|_| draws.next(&taken)) {
            let place = axes.place(&config);
            let distances = places.iter().map(|other| axes.distance(&place, other));
            let nearest = distances.fold(f32::INFINITY, f32::min);
            if best.as_ref().is_none_or(|(far, ..)| nearest > *far) {
                best = Some((nearest, config, place));
            }
        }
        let Some((_, config, place)) = best else {
            return;
        };
        taken.insert(config.clone());
        design.push(config);
        places.push(place);
    }
}

pub(super) struct Auto {
    space: Arc<Space>,
    seed: u64,
    /// To be tried first: the fastest of an earlier study, then random ones.
    design: VecDeque<Config>,
    /// How many are tried before the model chooses.
    design_size: usize,
    /// What is left when the design is used up or there is no candidate.
    chance: Shuffle,
    axes: Axes,
    kernel: Kernel,
    /// Told, in that order; `None` for a failure.
    told: Vec<(Config, Option<f64>)>,
    /// What the earlier study let expect of each trial told.
    expected: Vec<f64>,
    prior: Option<Prior>,
    /// The logarithm of what trials cost, and whether that matters.
    costs: HashMap<Config, f64>,
    by_time: bool,
    doubts: Doubts,
    /// Asked, not told.
    pending: Vec<Config>,
    visited: Visited,
    /// How many were told when the model was last fitted; 0 before the first fit.
    fitted: usize,
    /// The configs whose rows the factor holds: those told, then those pending.
    modelled: Vec<Config>,
    factor: Factor,
    candidates: Vec<Candidates>,
    /// Where each candidate is: its panel and its place there.
    places: HashMap<Config, (usize, usize)>,
    /// Configs whose neighbours are among the candidates.
    varied: HashSet<Config>,
}

impl Auto {
    pub(super) fn new(space: Arc<Space>, seed: u64, setup: &Setup) -> Auto {
        let axes = Axes::new(&space);
        let prior = Prior::new(&axes, &earlier(&space, setup));
        let mut design: Vec<Config> = Vec::new();
        let mut drawn = setup.seed_trials.min(DESIGN);
        if let Some(prior) = &prior {
            design.extend(prior.fastest.iter().take(EARLIER_TRIED).cloned());
            drawn = drawn.min(EARLIER_DESIGN);
        }
        let design_size = design.len() + drawn;
        let random = Shuffle::new(space.clone(), generator(seed, DESIGN_STREAM));
        let doubts = Doubts::new(&setup.doubts);
        let draws = Draws {
            random,
            space: &space,
            doubts: &doubts,
            rng: generator(seed, DOUBT_STREAM),
        };
        spread_out(&mut design, design_size, draws, &axes);
        Auto {
            design: design.into(),
            design_size,
            chance: Shuffle::new(space.clone(), generator(seed, REST_STREAM)),
            kernel: Kernel::new(axes.iter().map(|axis| axis.ordered).collect()),
            axes,
            told: Vec::new(),
            expected: Vec::new(),
            prior,
            costs: HashMap::new(),
            by_time: setup.by_time,
            doubts,
            pending: Vec::new(),
            visited: Visited::new(),
            fitted: 0,
            modelled: Vec::new(),
            factor: Factor::default(),
            candidates: Vec::new(),
            places: HashMap::new(),
            varied: HashSet::new(),
            space,
            seed,
        }
    }

    fn next(&mut self) -> Option<Config> {
        // Also for who asks for many before telling any.
        while self.fitted == 0 || self.visited.len() < self.design_size {
            let next = self.design.pop_front();
            match next.or_else(|| self.chance.next(&self.visited)) {
                Some(config) if self.visited.contains(&config) => {}
                found => return found,
            }
        }
        let probe = match self.doubts.is_probe(self.visited.len()) {
            true => self.most_promising(Among::Doubted),
            false => None,
        };
        probe
            .or_else(|| self.most_promising(Among::All))
            .or_else(|| self.chance.next(&self.visited))
    }

    fn most_promising(&mut self, among: Among) -> Option<Config> {
        if self.fitted == 0 {
            return None;
        }
        self.catch_up();
        let targets = Targets::new(&self.times());
        let trust = self.trust(&targets.values);
        let residuals = self.residuals(&targets.values, &trust);
        let worked = self.told.iter().map(|(_, time)| time.is_some());
        let known: Vec<Option<f64>> = worked
            .zip(&residuals)
            .map(|(worked, residual)| worked.then_some(*residual))
            .collect();
        let whitened = self.factor.whiten_known(&known, FAILURE);
        let feasibility = Feasibility::new(&self.factor, &self.told);
        let prices = self
            .by_time
            .then(|| Prices::new(&self.factor, &self.told, &self.costs));
        let mut best: Option<(f64, &Config)> = None;
        for group in &self.candidates {
            let means = group.panel.means(&whitened);
            let prices = prices.as_ref().map(|p| p.of(&group.panel));
            let chances = feasibility.as_ref().map(|f| f.of(&group.panel));
            for (i, &mean) in means.iter().enumerate() {
                if group.visited[i] {
                    continue;
                }
                let deviation = f64::from(group.panel.deviation(i));
                let mut mean = f64::from(mean);
                if let Some(expected) = group.expected.get(i) {
                    mean -= trust.residual(0.0, *expected);
                }
                let top = targets.best / trust.spread;
                let price = prices.as_ref().map_or(0.0, |prices| prices[i]);
                let chance = chances.as_ref().map_or(0.0, |chances| chances[i]);
                let met = group.doubted.get(i).map_or(&[][..], Vec::as_slice);
                let doubt = match among {
                    Among::All => self.doubts.log_chance(met),
                    Among::Doubted if self.doubts.tests(met) => 0.0,
                    Among::Doubted => continue,
                };
                let weight = chance + doubt - price;
                if best.is_some_and(|(high, _)| at_most(top, mean, deviation) + weight <= high) {
                    continue;
                }
                let gain = log_expected_improvement(top, mean, deviation) + weight;
                if best.is_none_or(|(high, _)| gain > high) {
                    best = Some((gain, &group.configs[i]));
                }
            }
        }
        best.map(|(_, config)| config.clone())
    }

    fn times(&self) -> Vec<Option<f64>> {
        self.told.iter().map(|(_, time)| *time).collect()
    }

    fn trust(&self, targets: &[f64]) -> Trust {
        match self.prior {
            Some(_) => Trust::new(&self.expected, targets),
            None => Trust::NONE,
        }
    }

    /// What the earlier study leaves to learn of each trial told.
    fn residuals(&self, targets: &[f64], trust: &Trust) -> Vec<f64> {
        let expected = self.expected.iter().copied().chain(std::iter::repeat(0.0));
        let pairs = targets.iter().zip(expected);
        pairs.map(|(t, e)| trust.residual(*t, e)).collect()
    }

    /// Brings the factor and the candidates up to the trials told and pending.
    fn catch_up(&mut self) {
        let rows = || {
            self.told
                .iter()
                .map(|(config, _)| config)
                .chain(&self.pending)
        };
        let same = rows()
            .zip(&self.modelled)
            .take_while(|(row, known)| row == known)
            .count();
        let fresh: Vec<Config> = rows().skip(same).cloned().collect();
        self.modelled.truncate(same);
        self.factor.truncate(same);
        for config in fresh {
            self.factor.push(&self.kernel, self.axes.place(&config));
            self.modelled.push(config);
        }
        for group in &mut self.candidates {
            group.panel.truncate(same);
            group.panel.extend(&self.kernel, &self.factor);
        }
    }

    fn refit(&mut self) {
        let chosen = self.representative();
        let targets = Targets::new(&self.times()).values;
        let residuals = self.residuals(&targets, &self.trust(&targets));
        let residuals: Vec<f64> = chosen.iter().map(|&i| residuals[i]).collect();
        let points: Vec<Vec<f32>> = chosen
            .iter()
            .map(|&i| self.axes.place(&self.told[i].0))
            .collect();
        let steps = match self.fitted {
            0 => FIRST_FIT_STEPS,
            _ => FIT_STEPS,
        };
        if chosen.len() >= LEAST_MEASURED {
            self.kernel.fit(&points, &residuals, steps);
        }
        self.fitted = self.told.len();
        self.modelled.clear();
        self.factor = Factor::default();
        self.candidates.clear();
        self.places.clear();
        self.varied.clear();
        let random = match self.space.count() {
            Some(count) if count <= RANDOM_CANDIDATES as u128 => self.space.iter().collect(),
            _ => {
                let mut rng = self.generator(REFIT_STREAM);
                (0..RANDOM_CANDIDATES)
                    .filter_map(|_| self.space.sample(&mut rng))
                    .collect()
            }
        };
        self.add_candidates(random);
        if let Some(prior) = &self.prior {
            let fastest = prior.fastest.iter().take(EARLIER_CANDIDATES);
            self.add_candidates(fastest.cloned().collect());
        }
    }

    /// The measured trials that the fit looks at.
    fn representative(&self) -> Vec<usize> {
        let mut order = self.fastest_first();
        if order.len() > MOST_FITTED {
            let slow = order.split_off(MOST_FITTED / 2);
            let wanted = MOST_FITTED - order.len();
            order.extend((0..wanted).map(|k| slow[k * slow.len() / wanted]));
        }
        order.sort_unstable();
        order
    }

    /// Measured trials by time; equals in the order told.
    fn fastest_first(&self) -> Vec<usize> {
        let mut order: Vec<(f64, usize)> = self
            .told
            .iter()
            .enumerate()
            .filter_map(|(i, (_, time))| time.map(|time| (time, i)))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        order.into_iter().map(|(_, i)| i).collect()
    }

    /// Makes the neighbours of the fastest configs candidates, where they are not yet.
    fn pursue(&mut self) {
        let mut rng = self.generator(PURSUIT_STREAM);
        let mut found = Vec::new();
        for i in self.fastest_first().into_iter().take(BEST_TO_VARY) {
            let config = self.told[i].0.clone();
            if !self.varied.contains(&config) {
                let mut neighbours = self.space.neighbours(&config);
                if neighbours.len() > MAX_NEIGHBOURS {
                    shuffle(&mut neighbours, &mut rng);
                    neighbours.truncate(MAX_NEIGHBOURS);
                }
                found.extend(neighbours);
                self.varied.insert(config);
            }
        }
        self.add_candidates(found);
    }

    fn add_candidates(&mut self, mut configs: Vec<Config>) {
        let group = self.candidates.len();
        let mut count = 0;
        configs.retain(|config| {
            let is_new = !self.places.contains_key(config);
            if is_new {
                self.places.insert(config.clone(), (group, count));
                count += 1;
            }
            is_new
        });
        if configs.is_empty() {
            return;
        }
        let points: Vec<Vec<f32>> = configs.iter().map(|c| self.axes.place(c)).collect();
        self.candidates.push(Candidates {
            visited: configs.iter().map(|c| self.visited.contains(c)).collect(),
            expected: self
                .prior
                .as_ref()
                .map_or(Vec::new(), |p| p.expect(&points)),
            doubted: match self.doubts.is_empty() {
                true => Vec::new(),
                false => configs
                    .iter()
                    .map(|c| self.doubts.of(&self.space, c))
                    .collect(),
            },
            panel: Panel::new(&points, self.axes.iter().count()),
            configs,
        });
    }

    fn visit(&mut self, config: &Config) {
        self.visited.insert(config.clone());
        if let Some(&(group, place)) = self.places.get(config) {
            self.candidates[group].visited[place] = true;
        }
    }

    fn generator(&self, stream: u64) -> ChaCha8Rng {
        generator(self.seed, stream + self.told.len() as u64)
    }
}

impl Strategy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn ask(&mut self, n: usize) -> Vec<Config> {
        let mut asked = Vec::new();
        while asked.len() < n {
            let Some(config) = self.next() else { break };
            self.visit(&config);
            self.pending.push(config.clone());
            asked.push(config);
        }
        asked
    }

    fn spent(&mut self, config: &Config, seconds: f64) {
        if self.by_time && seconds.is_finite() && seconds > 0.0 {
            self.costs.insert(config.clone(), seconds.ln());
        }
    }

    fn tell(&mut self, config: &Config, outcome: &Outcome) {
        self.visit(config);
        self.pending.retain(|c| c != config);
        self.told.push((config.clone(), log_time(outcome)));
        let worked = log_time(outcome).is_some();
        self.doubts.tell(&self.space, config, worked);
        if let Some(prior) = &self.prior {
            self.expected
                .extend(prior.expect(&[self.axes.place(config)]));
        }
        let measured = self.told.iter().filter(|(_, time)| time.is_some()).count();
        if measured < LEAST_MEASURED && self.told.len() < self.design_size {
            return;
        }
        if self.told.len() as f64 >= self.fitted as f64 * REFIT_RATIO {
            self.refit();
        }
        self.pursue();
    }
}
