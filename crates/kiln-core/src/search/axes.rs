//! Where configs lie for a model: one coordinate for each way in which a tunable may matter.

use crate::space::{Config, Space};
use crate::value::Value;

/// With fewer values than this, a list's order says all there is to say about its numbers.
const MANY_VALUES: usize = 6;
/// More factors of two than this are all alike.
const MOST_TWOS: u32 = 16;

pub(super) struct Axis {
    tunable: usize,
    /// By position in the tunable's list; within 0 and 1 on an ordered axis.
    coordinates: Vec<f32>,
    pub(super) ordered: bool,
}

/// The axes of a space. Tunables with one value have none; a long list of integers has two, one
/// for how large a value is and one for how often two divides it.
pub(super) struct Axes(Vec<Axis>);

impl Axes {
    pub(super) fn new(space: &Space) -> Axes {
        let mut axes = Vec::new();
        for (tunable, t) in space.tunables().iter().enumerate() {
            let Some(order) = numeric_order(&t.values) else {
                if t.values.len() > 1 {
                    axes.push(Axis {
                        tunable,
                        coordinates: (0..t.values.len()).map(|p| p as f32).collect(),
                        ordered: false,
                    });
                }
                continue;
            };
            let mut by_rank = vec![0.0; order.len()];
            for (rank, &position) in order.iter().enumerate() {
                by_rank[position] = rank as f32 / (order.len() - 1) as f32;
            }
            let by_twos = twos(&t.values, &order);
            for coordinates in std::iter::once(by_rank).chain(by_twos) {
                axes.push(Axis {
                    tunable,
                    coordinates,
                    ordered: true,
                });
            }
        }
        Axes(axes)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Axis> {
        self.0.iter()
    }

    /// How unlike two places are, all axes counting alike.
    pub(super) fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
        let along = |((axis, x), y): ((&Axis, &f32), &f32)| match axis.ordered {
            true => (x - y).abs(),
            false => f32::from(u8::from(x != y)),
        };
        self.0.iter().zip(a).zip(b).map(along).sum()
    }

    /// The coordinates of a config, by axis.
    pub(super) fn place(&self, config: &Config) -> Vec<f32> {
        self.0
            .iter()
            .map(|axis| axis.coordinates[usize::from(config.0[axis.tunable])])
            .collect()
    }
}

/// Positions by increasing value; `None` when there is no order worth using.
pub(crate) fn numeric_order(values: &[Value]) -> Option<Vec<usize>> {
    let is_number = |v: &Value| matches!(v, Value::Int(_) | Value::Float(_));
    if values.len() < 3 || !values.iter().all(is_number) {
        return None;
    }
    let number = |position: usize| values[position].as_f64().unwrap_or(0.0);
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| number(a).total_cmp(&number(b)));
    Some(order)
}

/// Hardware works in powers of two, so 96, 112 and 128 differ by more than their size. `None` for
/// short lists, and where the order of the values is the order of their factors of two.
pub(crate) fn twos(values: &[Value], order: &[usize]) -> Option<Vec<f32>> {
    if values.len() < MANY_VALUES {
        return None;
    }
    let counts: Vec<u32> = values
        .iter()
        .map(|value| match value {
            Value::Int(i) => Some(i.trailing_zeros().min(MOST_TWOS)),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let (least, most) = (*counts.iter().min()?, *counts.iter().max()?);
    let follows_size = order.windows(2).all(|w| counts[w[0]] < counts[w[1]]);
    if least == most || follows_size {
        return None;
    }
    let scaled = |count: &u32| (count - least) as f32 / (most - least) as f32;
    Some(counts.iter().map(scaled).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{BuildLimits, Tunable};

    fn axes(values: Vec<Value>) -> Vec<(Vec<f32>, bool)> {
        let tunables = vec![Tunable {
            name: "A".into(),
            values,
        }];
        let space = Space::build(tunables, Vec::new(), Vec::new(), BuildLimits::default()).unwrap();
        let axes = Axes::new(&space);
        axes.iter()
            .map(|a| (a.coordinates.clone(), a.ordered))
            .collect()
    }

    fn ints(values: &[i64]) -> Vec<Value> {
        values.iter().copied().map(Value::Int).collect()
    }

    #[test]
    fn numbers_are_placed_by_rank() {
        assert_eq!(axes(ints(&[1, 16, 4])), [(vec![0.0, 1.0, 0.5], true)]);
        // Powers of two: the second axis would repeat the first.
        assert_eq!(axes(ints(&[1, 2, 4, 8, 16, 32])).len(), 1);
    }

    #[test]
    fn long_lists_have_an_axis_for_factors_of_two() {
        let found = axes(ints(&[16, 32, 48, 64, 80, 96]));
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].0, [0.0, 0.5, 0.0, 1.0, 0.0, 0.5]);
    }

    #[test]
    fn two_values_and_names_have_no_order() {
        assert_eq!(axes(ints(&[7])), []);
        assert_eq!(axes(ints(&[0, 1])), [(vec![0.0, 1.0], false)]);
        let names = ["a", "b", "c"].map(|s| Value::Text(s.into())).to_vec();
        assert_eq!(axes(names), [(vec![0.0, 1.0, 2.0], false)]);
    }
}
