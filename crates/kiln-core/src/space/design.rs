//! Space-filling designs over the valid set.

use std::collections::HashSet;

use rand::{Rng, RngExt};

use super::component::{Component, Rows};
use super::{Config, Space};

/// Rows of one component a design chooses from. A larger component is represented by this many of
/// its rows, drawn anew for every design.
const MAX_POOL: usize = 20_000;
/// Rows drawn for a component that is not listed, per config wanted, and at most in all.
const DRAWS_PER_CONFIG: usize = 16;
const MAX_DRAWS: usize = 1_000;

/// Candidate rows of one component and how often each stratum was used.
struct Pool {
    width: usize,
    cells: Vec<u16>,
    /// `cost[column][position]` grows with every use of the position's stratum.
    cost: Vec<Vec<f64>>,
    /// What one use adds: a stratum used its fair share of times costs 1.
    step: Vec<f64>,
    strata: Vec<usize>,
}

impl Space {
    /// A Latin hypercube over the valid configs that are not excluded.
    ///
    /// Each config takes, component by component, a row whose values were used least so far. With
    /// no rules this is a Latin hypercube: each stratum of each tunable is used equally often, up
    /// to one. With rules it is as even as greedy choice gets.
    pub(crate) fn spread(
        &self,
        n: usize,
        rng: &mut (impl Rng + ?Sized),
        excluded: &dyn Fn(&Config) -> bool,
    ) -> Vec<Config> {
        let mut chosen = Vec::new();
        if !self.possible || n == 0 || self.count() == Some(0) {
            return chosen;
        }
        let mut pools = Vec::with_capacity(self.components.len());
        for component in &self.components {
            let Some(pool) = self.pool(component, n, rng) else {
                return chosen;
            };
            pools.push(pool);
        }
        let mut seen: HashSet<Config> = HashSet::new();
        while chosen.len() < n {
            let mut config = self.blank();
            for (component, pool) in self.components.iter().zip(&pools) {
                component.put(pool.least_used(rng), &mut config.0);
            }
            if seen.contains(&config) || excluded(&config) {
                match self.another(&config, &pools, rng, &|c| !seen.contains(c) && !excluded(c)) {
                    Some(other) => config = other,
                    None => break,
                }
            }
            for (component, pool) in self.components.iter().zip(&mut pools) {
                pool.count(component, &config);
            }
            seen.insert(config.clone());
            chosen.push(config);
        }
        chosen
    }

    fn pool(&self, component: &Component, n: usize, rng: &mut (impl Rng + ?Sized)) -> Option<Pool> {
        let mut cells = Vec::new();
        match &component.rows {
            Rows::Free(len) => cells.extend((0..*len).map(|p| p as u16)),
            Rows::Table(table) if table.len() <= MAX_POOL => {
                (0..table.len()).for_each(|row| cells.extend(table.row(row)));
            }
            Rows::Table(table) => {
                for _ in 0..MAX_POOL {
                    cells.extend(table.row(rng.random_range(0..table.len())));
                }
            }
            Rows::Implicit => {
                for _ in 0..(n * DRAWS_PER_CONFIG).clamp(1, MAX_DRAWS.max(n)) {
                    cells.extend(component.draw(&self.rules, rng)?);
                }
            }
        }
        let sizes: Vec<usize> = component
            .tunables
            .iter()
            .map(|&t| self.rules.size(t))
            .collect();
        let strata: Vec<usize> = sizes.iter().map(|&size| size.min(n)).collect();
        Some(Pool {
            width: sizes.len(),
            cells,
            cost: sizes.iter().map(|&size| vec![0.0; size]).collect(),
            step: strata.iter().map(|&s| s as f64 / n as f64).collect(),
            strata,
        })
    }

    /// An allowed config close to one that is not: first with another row in one component, then a
    /// random one, then the next in index order.
    fn another(
        &self,
        config: &Config,
        pools: &[Pool],
        rng: &mut (impl Rng + ?Sized),
        allowed: &dyn Fn(&Config) -> bool,
    ) -> Option<Config> {
        const TRIES: usize = 64;
        for _ in 0..TRIES {
            let c = rng.random_range(0..self.components.len().max(1));
            let mut other = config.clone();
            if let (Some(component), Some(pool)) = (self.components.get(c), pools.get(c)) {
                let row = rng.random_range(0..pool.cells.len() / pool.width);
                component.put(&pool.cells[row * pool.width..][..pool.width], &mut other.0);
            }
            if allowed(&other) {
                return Some(other);
            }
        }
        for _ in 0..TRIES {
            if let Some(other) = self.sample(rng).filter(|c| allowed(c)) {
                return Some(other);
            }
        }
        // Nearly everything is taken, so the rest is worth walking through.
        let count = self.count()?;
        let start = rng.random_range(0..count);
        (0..count)
            .map(|offset| (start + offset) % count)
            .filter_map(|index| self.config(index))
            .find(|c| allowed(c))
    }
}

impl Pool {
    /// The row with the least total cost; a random one of several.
    fn least_used(&self, rng: &mut (impl Rng + ?Sized)) -> &[u16] {
        let mut best: &[u16] = &[];
        let mut least = f64::INFINITY;
        let mut ties = 0;
        for row in self.cells.chunks_exact(self.width) {
            let cost: f64 = row
                .iter()
                .zip(&self.cost)
                .map(|(&position, costs)| costs[usize::from(position)])
                .sum();
            if cost < least - 1e-9 {
                (best, least, ties) = (row, cost, 1);
            } else if cost <= least + 1e-9 {
                ties += 1;
                if rng.random_range(0..ties) == 0 {
                    best = row;
                }
            }
        }
        best
    }

    fn count(&mut self, component: &Component, config: &Config) {
        for (column, &tunable) in component.tunables.iter().enumerate() {
            let costs = &mut self.cost[column];
            let (size, strata) = (costs.len(), self.strata[column]);
            let stratum = usize::from(config.0[tunable]) * strata / size;
            for (position, cost) in costs.iter_mut().enumerate() {
                if position * strata / size == stratum {
                    *cost += self.step[column];
                }
            }
        }
    }
}

/// Fisher-Yates.
pub(crate) fn shuffle<T>(items: &mut [T], rng: &mut (impl Rng + ?Sized)) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.random_range(0..=last));
    }
}
