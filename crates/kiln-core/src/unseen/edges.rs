//! Shapes at the edges of a config's tiles.
//!
//! Kernels go wrong where a tile is one element short or one too long, and no author thinks of a shape for
//! every tile size of the space. Tile sizes are the config's own numbers, and products of two of them.

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
                let shape = self.changed(parent, changes).filter(|shape| {
                    let is_new = !self.known.contains(&&shape.dimensions[..])
                        && found.iter().all(|f| f.dimensions != shape.dimensions);
                    is_new
                        && volume(shape) <= self.affordable()
                        && self.keeps_relations(shape)
                        && is_valid(shape)
                });
                let is_done = shape.is_some() && place == 0;
                found.extend(shape);
                if is_done {
                    break;
                }
            }
        }
        found
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

    /// Sizes beside the tiles in the range of a dimension: of single numbers first, in a drawn order.
    fn edges_of(&self, at: usize, numbers: &[i64], seed: u64) -> Vec<i64> {
        let Some(range) = self.ranges[at] else {
            return Vec::new();
        };
        let beside = |tile: i64| {
            // The last multiple of the step before the tile's end, and the first behind it.
            let before = (tile - 1).div_euclid(range.step) * range.step;
            let behind = (tile.div_euclid(range.step) + 1) * range.step;
            [before, behind]
        };
        let products = numbers.iter().enumerate().flat_map(|(place, a)| {
            let others = numbers[place..].iter();
            others.filter_map(|b| a.checked_mul(*b))
        });
        let mut edges: Vec<i64> = Vec::new();
        for tiles in [numbers.to_vec(), products.collect()] {
            let mut group: Vec<i64> = tiles.into_iter().flat_map(beside).collect();
            group.sort_by_key(|value| input::mix(&[seed, at as u64, *value as u64]));
            for value in group {
                if (range.from..=range.to).contains(&value) && !edges.contains(&value) {
                    edges.push(value);
                }
            }
        }
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
