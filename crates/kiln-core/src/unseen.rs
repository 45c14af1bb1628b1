//! Shapes the search never saw, made from those a manifest names.
//!
//! A manifest does not say which sizes its kernel supports; its shapes do, as far as they go. A new
//! shape therefore stays between the least and the greatest value of every dimension, keeps the
//! divisors all of them share, and keeps every relation that holds in all of them: equal
//! dimensions stay equal, one that divides another goes on dividing it, about as many times, one
//! that never exceeds another does not. What a kernel needs beyond that belongs into `[constraints]` or `domain`.
//!
//! A dimension that no buffer's size depends on keeps its value. It may be a mode, which divides sizes by
//! chance, or a width inside a pitch, which must not end up the larger; so of its relations to dimensions
//! that vary only equality and order are kept.

mod edges;

use crate::input;
use crate::manifest::{ArgumentKind, Manifest, Reference, Shape, ShapePurpose};
use crate::value::Value;

/// Draws before giving up on another shape.
const MOST_DRAWS: u64 = 400;

/// How a dimension may vary.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    from: i64,
    to: i64,
    step: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    /// The second divides the first, this many times.
    Multiple {
        least: i64,
        most: i64,
    },
    /// The first is at most the second.
    AtMost,
}

/// Where unseen shapes come from.
#[derive(Debug)]
pub struct Unseen<'m> {
    parents: Vec<&'m Shape>,
    known: Vec<&'m [(String, i64)]>,
    target: &'m Shape,
    /// By dimension; `None` for one that stays as it is.
    ranges: Vec<Option<Range>>,
    relations: Vec<(usize, usize, Relation)>,
}

impl<'m> Unseen<'m> {
    /// `Err` says why there cannot be any.
    pub fn of(manifest: &'m Manifest) -> Result<Unseen<'m>, String> {
        if manifest.confirm.unseen_shapes == 0 {
            return Err("`unseen_shapes` in [confirm] is 0".into());
        }
        if reads_files(manifest) {
            return Err("inputs or answers come from files, which have sizes of their own".into());
        }
        let parents: Vec<&Shape> = manifest
            .shapes
            .iter()
            .filter(|shape| shape.purpose != ShapePurpose::Sweep)
            .collect();
        let target = manifest.target();
        let count = target.dimensions.len();
        let ranges: Vec<Option<Range>> =
            (0..count).map(|at| range(manifest, &parents, at)).collect();
        if ranges.iter().all(Option::is_none) {
            return Err(
                "all shapes of the manifest have the same sizes; another [shapes.NAME], or `domain` \
                 in [confirm], says what else the kernel supports"
                    .into(),
            );
        }
        let relations = relations(manifest, &parents, &ranges);
        Ok(Unseen {
            known: manifest.shapes.iter().map(|s| &s.dimensions[..]).collect(),
            parents,
            target,
            ranges,
            relations,
        })
    }

    /// Up to `count` shapes that `is_valid`, drawn from `seed`. The first is near the target.
    pub fn draw(
        &self,
        seed: u64,
        count: usize,
        mut is_valid: impl FnMut(&Shape) -> bool,
    ) -> Vec<Shape> {
        let mut found: Vec<Shape> = Vec::new();
        for place in 0..count as u64 {
            let drawn = (0..MOST_DRAWS).find_map(|draw| {
                let seed = input::mix(&[seed, place, draw]);
                let shape = match place {
                    0 => self.near_target(seed, draw),
                    _ => self.anywhere(seed),
                }?;
                let is_new = !self.known.contains(&&shape.dimensions[..])
                    && found.iter().all(|f| f.dimensions != shape.dimensions);
                (is_new && self.keeps_relations(&shape) && is_valid(&shape)).then_some(shape)
            });
            found.extend(drawn);
        }
        found
    }

    /// The target, a little smaller in some of its dimensions; less and less near where constraints
    /// are in the way.
    fn near_target(&self, seed: u64, attempt: u64) -> Option<Shape> {
        let reach = match attempt {
            0..100 => 3,
            100..200 => 16,
            _ => 128,
        };
        self.vary(self.target, seed, |range, value, draw| {
            let steps = 1 + (draw % reach) as i64;
            value.checked_sub(steps * range.step)
        })
    }

    /// A parent with some dimensions moved by a step or two, or anywhere in their range; not larger
    /// than the largest shape that is only checked, unless that is tiny.
    fn anywhere(&self, seed: u64) -> Option<Shape> {
        let parent = self.parents[(input::mix(&[seed, 1]) % self.parents.len() as u64) as usize];
        let shape = self.vary(parent, seed, |range, value, draw| {
            let steps = 1 + (draw >> 8) as i64 % 2;
            match draw % 4 {
                0 => value.checked_sub(steps * range.step),
                1 => value.checked_add(steps * range.step),
                _ => Some(range.somewhere(draw >> 16)),
            }
        })?;
        (volume(&shape) <= self.affordable()).then_some(shape)
    }

    fn affordable(&self) -> f64 {
        let checked = self
            .parents
            .iter()
            .filter(|s| s.purpose == ShapePurpose::Check)
            .map(|shape| volume(shape))
            .fold(0.0, f64::max);
        checked.max(volume(self.target) / 4.0)
    }

    /// A copy of `parent` in which every dimension that may vary does so or not, and those computed
    /// from others follow.
    fn vary(
        &self,
        parent: &Shape,
        seed: u64,
        change: impl Fn(Range, i64, u64) -> Option<i64>,
    ) -> Option<Shape> {
        let mut shape = parent.clone();
        let is_computed = |name: &str| parent.formulas.iter().any(|(n, _)| n == name);
        for (at, range) in self.ranges.iter().enumerate() {
            let draw = input::mix(&[seed, 2, at as u64]);
            let (name, value) = &parent.dimensions[at];
            let Some(range) = range.filter(|_| !is_computed(name) && draw & 1 == 0) else {
                continue;
            };
            let changed = change(range, *value, draw >> 1)?;
            if !(range.from..=range.to).contains(&changed) || changed % range.step != 0 {
                return None;
            }
            shape.dimensions[at].1 = changed;
        }
        self.settled(parent, shape)
    }

    /// The same with what follows from the sizes that were changed.
    fn settled(&self, parent: &Shape, mut shape: Shape) -> Option<Shape> {
        let is_computed = |name: &str| parent.formulas.iter().any(|(n, _)| n == name);
        // Equal dimensions rarely meet by chance.
        for (first, second, relation) in &self.relations {
            let computed = is_computed(&shape.dimensions[*second].0);
            if *relation == Relation::Equal && !computed {
                shape.dimensions[*second].1 = shape.dimensions[*first].1;
            }
        }
        let scope: Vec<String> = shape.dimensions.iter().map(|(n, _)| n.clone()).collect();
        for (name, formula) in &parent.formulas {
            let values: Vec<Value> = shape
                .dimensions
                .iter()
                .map(|(_, n)| Value::Int(*n))
                .collect();
            let Ok(Ok(Value::Int(value @ 1..))) = formula.bind(&scope).map(|b| b.eval(&values))
            else {
                return None;
            };
            let place = scope.iter().position(|n| n == name)?;
            shape.dimensions[place].1 = value;
        }
        shape.purpose = ShapePurpose::Check;
        shape.name = in_words(&shape);
        Some(shape)
    }

    fn keeps_relations(&self, shape: &Shape) -> bool {
        let value = |at: usize| shape.dimensions[at].1;
        self.relations
            .iter()
            .all(|(a, b, relation)| relation.holds(value(*a), value(*b)))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `unseen N=37 M=5`.
fn in_words(shape: &Shape) -> String {
    let sizes: Vec<String> = shape
        .dimensions
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("unseen {}", sizes.join(" "))
}

fn volume(shape: &Shape) -> f64 {
    shape.dimensions.iter().map(|(_, n)| *n as f64).product()
}

fn reads_files(manifest: &Manifest) -> bool {
    let from_file = manifest.arguments.iter().any(
        |argument| matches!(&argument.kind, ArgumentKind::Buffer { fill, .. } if fill.is_file()),
    );
    from_file || matches!(manifest.reference, Some(Reference::File { .. }))
}

/// How dimension `at` may vary: as the author says, else as the shapes do. A dimension that no
/// buffer's size depends on is more likely a mode than a size, and its values are left alone.
fn range(manifest: &Manifest, parents: &[&Shape], at: usize) -> Option<Range> {
    let name = &manifest.target().dimensions[at].0;
    let values = parents.iter().map(|shape| shape.dimensions[at].1);
    let least = values.clone().min()?;
    let most = values.clone().max()?;
    let shared = values.fold(0, gcd);
    if let Some((_, domain)) = manifest.confirm.domain.iter().find(|(n, _)| n == name) {
        let step = domain.step.unwrap_or(shared).max(1);
        let range = Range {
            from: domain.from.unwrap_or(least),
            to: domain.to.unwrap_or(most),
            step,
        };
        return (range.from <= range.to).then_some(range);
    }
    let range = Range {
        from: least,
        to: most,
        step: shared.max(1),
    };
    (least < most && is_size(manifest, name)).then_some(range)
}

fn is_size(manifest: &Manifest, dimension: &str) -> bool {
    let in_buffers = manifest
        .arguments
        .iter()
        .flat_map(|argument| match &argument.kind {
            ArgumentKind::Buffer { shape, .. } => shape.as_slice(),
            _ => &[],
        });
    let in_formulas = manifest.shapes.iter().flat_map(|s| &s.formulas);
    in_buffers
        .chain(in_formulas.map(|(_, formula)| formula))
        .flat_map(|expr| expr.names())
        .any(|named| named.name == dimension)
}

fn relations(
    manifest: &Manifest,
    parents: &[&Shape],
    ranges: &[Option<Range>],
) -> Vec<(usize, usize, Relation)> {
    let is_given = |at: usize| {
        let name = &manifest.target().dimensions[at].0;
        manifest.confirm.domain.iter().any(|(n, _)| n == name)
    };
    let is_held = |at: usize| ranges[at].is_none();
    // The ranges of the others keep every relation to a dimension with one value.
    let is_constant = |at: usize| {
        let value = |shape: &&Shape| shape.dimensions[at].1;
        parents.iter().map(value).min() == parents.iter().map(value).max()
    };
    let is_free = |at: usize| is_given(at) || is_constant(at);
    let mut found = Vec::new();
    // A held dimension follows those it equals, which have to be settled among themselves before.
    let mut held_equal = Vec::new();
    for a in 0..ranges.len() {
        for b in 0..ranges.len() {
            if a == b || is_free(a) || is_free(b) || (is_held(a) && is_held(b)) {
                continue;
            }
            let holds = |relation: Relation| {
                parents
                    .iter()
                    .all(|s| relation.holds(s.dimensions[a].1, s.dimensions[b].1))
            };
            if holds(Relation::Equal) {
                match (is_held(a), is_held(b)) {
                    (false, false) if a < b => found.push((a, b, Relation::Equal)),
                    (false, true) => held_equal.push((a, b, Relation::Equal)),
                    _ => {}
                }
                continue;
            }
            if !is_held(a) && !is_held(b) {
                let times = parents
                    .iter()
                    .map(|s| s.dimensions[a].1 / s.dimensions[b].1.max(1));
                let multiple = Relation::Multiple {
                    least: times.clone().min().unwrap_or(1),
                    most: times.max().unwrap_or(1),
                };
                if holds(multiple) {
                    found.push((a, b, multiple));
                }
            }
            if holds(Relation::AtMost) {
                found.push((a, b, Relation::AtMost));
            }
        }
    }
    found.extend(held_equal);
    found
}

impl Relation {
    fn holds(self, first: i64, second: i64) -> bool {
        match self {
            Relation::Equal => first == second,
            Relation::Multiple { least, most } => {
                first % second.max(1) == 0 && (least..=most).contains(&(first / second.max(1)))
            }
            Relation::AtMost => first <= second,
        }
    }
}

impl Range {
    /// Small values as often as large ones.
    fn somewhere(self, draw: u64) -> i64 {
        let place = (draw % 10_000) as f64 / 10_000.0;
        let (low, high) = ((self.from as f64).ln(), (self.to as f64 + 1.0).ln());
        let value = (low + (high - low) * place).exp() as i64;
        let aligned = value / self.step * self.step;
        aligned.max((self.from + self.step - 1) / self.step * self.step)
    }
}

#[cfg(test)]
mod tests;
