//! How alike two values of a tunable are, with the average over its values taken out.
//!
//! What is built of such likenesses falls apart into the average, what each tunable does by itself, what
//! each pair does beyond that, and so on: the parts of a functional analysis of variance.

use crate::search::axes::{numeric_order, twos};
use crate::value::Value;

/// Two different numbers are at least this unlike, however close they are.
const STEP: f64 = 0.25;
/// How fast likeness falls with distance.
const FALL: f64 = 1.5;

/// A symmetric matrix over the values of one tunable.
#[derive(Clone, Debug)]
pub(super) struct Likeness {
    count: usize,
    cells: Vec<f64>,
}

impl Likeness {
    /// `weights` say how often each value occurs where averages are taken; they add up to 1.
    pub(super) fn new(values: &[Value], weights: &[f64]) -> Likeness {
        let count = values.len();
        let mut plain = vec![0.0; count * count];
        let places = places(values);
        for a in 0..count {
            for b in 0..count {
                plain[a * count + b] = match &places {
                    _ if a == b => 1.0,
                    None => 0.0,
                    Some(axes) => {
                        let apart = axes.iter().map(|axis| (axis[a] - axis[b]).abs());
                        let apart = apart.sum::<f64>() / axes.len() as f64;
                        (-FALL * (STEP + (1.0 - STEP) * apart)).exp()
                    }
                };
            }
        }
        let mut likeness = Likeness {
            count,
            cells: plain,
        };
        likeness.centre(weights);
        likeness
    }

    /// Takes the weighted average out of rows and columns, and makes the average variance 1.
    fn centre(&mut self, weights: &[f64]) {
        let n = self.count;
        let average = |row: &[f64]| row.iter().zip(weights).map(|(c, w)| c * w).sum::<f64>();
        let rows: Vec<f64> = self.cells.chunks_exact(n).map(average).collect();
        let all = average(&rows);
        for a in 0..n {
            for b in 0..n {
                self.cells[a * n + b] += all - rows[a] - rows[b];
            }
        }
        let variance: f64 = (0..n).map(|a| weights[a] * self.at(a, a)).sum();
        if variance > 1e-12 {
            self.cells.iter_mut().for_each(|cell| *cell /= variance);
        }
    }

    pub(super) fn at(&self, a: usize, b: usize) -> f64 {
        self.cells[a * self.count + b]
    }

    /// The likenesses of one value to all.
    pub(super) fn row(&self, a: usize) -> &[f64] {
        &self.cells[a * self.count..(a + 1) * self.count]
    }

    /// The variance of the difference between two values.
    pub(super) fn apart(&self, a: usize, b: usize) -> f64 {
        self.at(a, a) - 2.0 * self.at(a, b) + self.at(b, b)
    }

    /// The likeness of the likenesses: the average over a third value of one's times the other's.
    pub(super) fn overlap(&self, weights: &[f64]) -> Likeness {
        let n = self.count;
        let mut cells = vec![0.0; n * n];
        for a in 0..n {
            for b in 0..n {
                cells[a * n + b] = (0..n)
                    .map(|v| weights[v] * self.at(a, v) * self.at(v, b))
                    .sum();
            }
        }
        Likeness { count: n, cells }
    }
}

/// Where numbers lie between 0 and 1, by each order that may matter; `None` for names and pairs.
fn places(values: &[Value]) -> Option<Vec<Vec<f64>>> {
    let order = numeric_order(values)?;
    let mut by_rank = vec![0.0; order.len()];
    for (rank, &position) in order.iter().enumerate() {
        by_rank[position] = rank as f64 / (order.len() - 1) as f64;
    }
    let by_twos = twos(values, &order).map(|twos| twos.into_iter().map(f64::from).collect());
    Some(std::iter::once(by_rank).chain(by_twos).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_taken_out() {
        let values: Vec<Value> = [16, 32, 64, 128].map(Value::Int).to_vec();
        let weights = [0.1, 0.2, 0.3, 0.4];
        let likeness = Likeness::new(&values, &weights);
        for a in 0..4 {
            let row: f64 = (0..4).map(|b| weights[b] * likeness.at(a, b)).sum();
            assert!(row.abs() < 1e-12);
        }
        assert!(likeness.at(0, 1) > likeness.at(0, 3));
        let variance: f64 = (0..4).map(|a| weights[a] * likeness.at(a, a)).sum();
        assert!((variance - 1.0).abs() < 1e-12);
    }
}
