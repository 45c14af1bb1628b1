//! Shapes at the edges of a config's tiles.
//!
//! Kernels go wrong where a tile is one element short or one too long, or where a few small tiles are whole and a large one
//! is not; and no author thinks of a shape for every tile size of the space. Tile sizes are the config's own numbers, and
//! products of two of them.

use crate::input;
use crate::manifest::{Shape, ShapePurpose};

use super::{Unseen, volume};

impl Unseen<'_> {
    /// Up to `count` shapes that `is_valid` and have sizes one step beside the tiles of a config with these
    /// numbers. Every dimension goes through its own edges, so that few shapes meet many of them.
    pub fn at_edges(
        &self,
        seed: u64,
        numbers: &[i64],
        count: usize,
        mut is_valid: impl FnMut(&Shape) -> bool,
    ) -> Vec<Shape> {
        let parent = self.smallest(&mut is_valid);
        let edges: Vec<Vec<i64>> = (0..self.ranges.len())
            .map(|at| self.edges_of(at, numbers, seed))
            .collect();
        let rounds = edges.iter().map(Vec::len).max().unwrap_or(0);
        let mut found: Vec<Shape> = Vec::new();
        for round in 0..rounds {
            let edge = |at: usize| edges[at].get(round).map(|value| (at, *value));
            let all: Vec<(usize, i64)> = (0..edges.len()).filter_map(edge).collect();
            // Together, or one by one where the shapes' relations are in the way.
            let singly = all.iter().map(|one| vec![*one]);
            let mut wanted: Vec<Vec<(usize, i64)>> = vec![all.clone()];
            wanted.extend(singly.filter(|_| all.len() > 1));
            for (place, changes) in wanted.iter().enumerate() {
                if found.len() == count {
                    return found;
                }
                let shape = self.changed(parent, changes);
                let shape = shape.filter(|s| self.is_usable(s, &found) && is_valid(s));
                let is_done = shape.is_some() && place == 0;
                found.extend(shape);
                if is_done {
                    break;
                }
            }
        }
        found
    }

    /// Up to `count` shapes that `is_valid` and have one size beside a single tile, while the others are as large as can
    /// be afforded: some mistakes need a partial tile in one dimension and whole ones in all others.
    pub fn at_edges_of_large(
        &self,
        seed: u64,
        numbers: &[i64],
        count: usize,
        mut is_valid: impl FnMut(&Shape) -> bool,
    ) -> Vec<Shape> {
        let parent = self.smallest(&mut is_valid);
        let all: Vec<Vec<i64>> = (0..self.ranges.len())
            .map(|at| self.edges_of(at, numbers, seed))
            .collect();
        let single: Vec<Vec<i64>> = (0..self.ranges.len())
            .map(|at| self.beside(at, numbers, seed))
            .collect();
        let rounds = single.iter().map(Vec::len).max().unwrap_or(0);
        let places = (0..rounds).flat_map(|round| (0..single.len()).map(move |at| (round, at)));
        let mut found: Vec<Shape> = Vec::new();
        for (round, at) in places {
            if found.len() == count {
                break;
            }
            let Some(edge) = single[at].get(round) else {
                continue;
            };
            let shape = self.grown(parent, (at, *edge), &all, seed ^ round as u64);
            let shape = shape.filter(|s| self.is_usable(s, &found) && is_valid(s));
            found.extend(shape);
        }
        found
    }

    /// One size as given; the others, in a drawn order, at their last edge that can still be afforded.
    fn grown(
        &self,
        parent: &Shape,
        fixed: (usize, i64),
        edges: &[Vec<i64>],
        seed: u64,
    ) -> Option<Shape> {
        let mut others: Vec<usize> = (0..edges.len()).filter(|at| *at != fixed.0).collect();
        others.sort_by_key(|at| input::mix(&[seed, 3, *at as u64]));
        let mut changes = vec![fixed];
        for at in others {
            let mut sizes = edges[at].clone();
            sizes.sort_unstable();
            let largest = sizes.into_iter().rev().find(|size| {
                let tried = [&changes[..], &[(at, *size)]].concat();
                let shape = self.changed(parent, &tried);
                shape.is_some_and(|s| volume(&s) <= self.affordable() && self.keeps_relations(&s))
            });
            changes.extend(largest.map(|size| (at, size)));
        }
        self.changed(parent, &changes)
    }

    fn is_usable(&self, shape: &Shape, found: &[Shape]) -> bool {
        !self.known.contains(&&shape.dimensions[..])
            && found.iter().all(|f| f.dimensions != shape.dimensions)
            && volume(shape) <= self.affordable()
            && self.keeps_relations(shape)
    }

    /// Only its edges are to make it large. One that is valid itself: a config for one mask or width has no
    /// neighbours among the shapes of another.
    fn smallest(&self, is_valid: &mut impl FnMut(&Shape) -> bool) -> &Shape {
        let checked = self.parents.iter().copied();
        let checked = checked.filter(|shape| shape.purpose == ShapePurpose::Check);
        checked
            .filter(|shape| is_valid(shape))
            .min_by(|a, b| volume(a).total_cmp(&volume(b)))
            .unwrap_or(self.target)
    }

    /// Sizes at the tiles in the range of a dimension: beside single numbers and at one and three of them first, in a
    /// drawn order, then beside products.
    fn edges_of(&self, at: usize, numbers: &[i64], seed: u64) -> Vec<i64> {
        let products = numbers.iter().enumerate().flat_map(|(place, a)| {
            let others = numbers[place..].iter();
            others.filter_map(|b| a.checked_mul(*b))
        });
        let products: Vec<i64> = products.collect();
        let mut edges = self.beside(at, numbers, seed);
        edges.extend(self.whole(at, numbers));
        edges.sort_by_key(|value| input::mix(&[seed, at as u64, *value as u64]));
        edges.dedup();
        for value in self.beside(at, &products, seed) {
            if !edges.contains(&value) {
                edges.push(value);
            }
        }
        edges
    }

    /// One and three whole tiles.
    fn whole(&self, at: usize, tiles: &[i64]) -> Vec<i64> {
        let Some(range) = self.ranges[at] else {
            return Vec::new();
        };
        let sizes = tiles
            .iter()
            .flat_map(|tile| [Some(*tile), tile.checked_mul(3)]);
        let fits = |size: &i64| (range.from..=range.to).contains(size) && size % range.step == 0;
        sizes.flatten().filter(fits).collect()
    }

    /// Sizes one step before and behind each of these tiles, in a drawn order.
    fn beside(&self, at: usize, tiles: &[i64], seed: u64) -> Vec<i64> {
        let Some(range) = self.ranges[at] else {
            return Vec::new();
        };
        let beside = |tile: &i64| {
            // The last multiple of the step before the tile's end, and the first behind it.
            let before = (tile - 1).div_euclid(range.step) * range.step;
            let behind = (tile.div_euclid(range.step) + 1) * range.step;
            [before, behind]
        };
        let mut edges: Vec<i64> = tiles.iter().flat_map(beside).collect();
        edges.retain(|value| (range.from..=range.to).contains(value));
        edges.sort_by_key(|value| input::mix(&[seed, at as u64, *value as u64]));
        edges.dedup();
        edges
    }

    fn changed(&self, parent: &Shape, changes: &[(usize, i64)]) -> Option<Shape> {
        let mut shape = parent.clone();
        let is_computed = |name: &str| parent.formulas.iter().any(|(n, _)| n == name);
        for (at, value) in changes {
            let (name, size) = &mut shape.dimensions[*at];
            if !is_computed(name) {
                *size = *value;
            }
        }
        self.settled(parent, shape)
    }
}
