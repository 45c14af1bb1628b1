//! What a Gaussian process expects of candidates, kept up to date trial by trial.
//!
//! A further trial costs each candidate one pass over the trials so far, so that thousands of
//! candidates can be judged at every ask. Candidates are stored by panel, one row per trial, which
//! makes that pass a plain sum of rows.

use super::gaussian::{Kernel, LEAST_PIVOT, dot};

/// The Cholesky factor of the likenesses among trials, grown row by row.
#[derive(Default)]
pub(super) struct Factor {
    points: Vec<Vec<f32>>,
    rows: Vec<Vec<f64>>,
}

impl Factor {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.points.truncate(len);
        self.rows.truncate(len);
    }

    pub(super) fn push(&mut self, kernel: &Kernel, point: Vec<f32>) {
        let mut row: Vec<f64> = Vec::with_capacity(self.len() + 1);
        for (j, (other, above)) in self.points.iter().zip(&self.rows).enumerate() {
            let rest = kernel.likeness(&point, other) - dot(&row, &above[..j]);
            row.push(rest / above[j]);
        }
        let pivot = 1.0 + kernel.noise() - dot(&row, &row);
        row.push(pivot.max(LEAST_PIVOT).sqrt());
        self.points.push(point);
        self.rows.push(row);
    }

    /// The first targets made independent of each other, in units of what was unforeseen. The rows
    /// beyond them get 0: taken to end exactly as foreseen.
    pub(super) fn whiten(&self, targets: &[f64]) -> Vec<f64> {
        let known: Vec<Option<f64>> = targets.iter().copied().map(Some).collect();
        self.whiten_known(&known, 0.0)
    }

    /// The same where some targets are not known: such a row is taken to end a little worse than
    /// those before it let foresee, by so many units.
    pub(super) fn whiten_known(&self, targets: &[Option<f64>], worse: f64) -> Vec<f64> {
        let mut whitened = Vec::with_capacity(self.len());
        for (i, row) in self.rows.iter().enumerate() {
            whitened.push(match targets.get(i) {
                Some(Some(target)) => (target - dot(&row[..i], &whitened)) / row[i],
                Some(None) => worse,
                None => 0.0,
            });
        }
        whitened
    }

    /// The targets multiplied by the inverse of the likenesses.
    pub(super) fn solve(&self, targets: &[f64]) -> Vec<f64> {
        let mut solved = self.whiten(targets);
        for (i, row) in self.rows.iter().enumerate().rev() {
            solved[i] /= row[i];
            let (before, rest) = solved.split_at_mut(i);
            for (value, share) in before.iter_mut().zip(row) {
                *value -= share * rest[0];
            }
        }
        solved
    }
}

/// The likeness of one point to many.
pub(super) fn likenesses_to(kernel: &Kernel, points: &[Vec<f32>], point: &[f32]) -> Vec<f32> {
    kernel.likenesses(&columns(points, point.len()), points.len(), point)
}

fn columns(points: &[Vec<f32>], axes: usize) -> Vec<Vec<f32>> {
    (0..axes)
        .map(|axis| points.iter().map(|point| point[axis]).collect())
        .collect()
}

/// Candidates and how they depend on each trial.
pub(super) struct Panel {
    count: usize,
    /// Coordinates by axis.
    columns: Vec<Vec<f32>>,
    /// By trial: each candidate's share in what was unforeseen of it.
    rows: Vec<Vec<f32>>,
    /// The part of each candidate's variance that the trials explain.
    explained: Vec<f32>,
}

impl Panel {
    pub(super) fn new(points: &[Vec<f32>], axes: usize) -> Panel {
        Panel {
            count: points.len(),
            columns: columns(points, axes),
            rows: Vec::new(),
            explained: vec![0.0; points.len()],
        }
    }

    /// Forgets the trials beyond the first few.
    pub(super) fn truncate(&mut self, len: usize) {
        if self.rows.len() <= len {
            return;
        }
        self.rows.truncate(len);
        self.explained.fill(0.0);
        for row in &self.rows {
            for (sum, v) in self.explained.iter_mut().zip(row) {
                *sum += v * v;
            }
        }
    }

    /// Takes in the trials of the factor that are not known yet.
    pub(super) fn extend(&mut self, kernel: &Kernel, factor: &Factor) {
        for i in self.rows.len()..factor.len() {
            let mut fresh = kernel.likenesses(&self.columns, self.count, &factor.points[i]);
            let shares = &factor.rows[i];
            for (row, &share) in self.rows.iter().zip(shares) {
                add_scaled(&mut fresh, -(share as f32), row);
            }
            let scale = (1.0 / shares[i]) as f32;
            for (v, sum) in fresh.iter_mut().zip(&mut self.explained) {
                *v *= scale;
                *sum += *v * *v;
            }
            self.rows.push(fresh);
        }
    }

    /// What is expected of each candidate, given whitened targets.
    pub(super) fn means(&self, whitened: &[f64]) -> Vec<f32> {
        let mut means = vec![0.0; self.count];
        for (row, &w) in self.rows.iter().zip(whitened) {
            add_scaled(&mut means, w as f32, row);
        }
        means
    }

    /// The standard deviation of that expectation.
    pub(super) fn deviation(&self, candidate: usize) -> f32 {
        // Rounding may leave a little less than nothing.
        (1.0 - self.explained[candidate]).max(1e-6).sqrt()
    }
}

fn add_scaled(to: &mut [f32], scale: f32, from: &[f32]) {
    for (t, f) in to.iter_mut().zip(from) {
        *t += scale * f;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(i: u32) -> Vec<f32> {
        vec![
            (i * 7 % 11) as f32 / 10.0,
            (i % 3) as f32,
            (i * 5 % 13) as f32 / 12.0,
        ]
    }

    /// Solves by elimination with pivoting, which knows nothing of factors.
    fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
        let n = right.len();
        for k in 0..n {
            let pivot = (k..n)
                .max_by(|&a, &b| matrix[a][k].abs().total_cmp(&matrix[b][k].abs()))
                .unwrap();
            matrix.swap(k, pivot);
            right.swap(k, pivot);
            for i in 0..n {
                if i != k {
                    let f = matrix[i][k] / matrix[k][k];
                    let above = matrix[k].clone();
                    for (value, pivot) in matrix[i].iter_mut().zip(&above) {
                        *value -= f * pivot;
                    }
                    right[i] -= f * right[k];
                }
            }
        }
        (0..n).map(|i| right[i] / matrix[i][i]).collect()
    }

    #[test]
    fn predictions_agree_with_the_textbook() {
        let kernel = Kernel::new(vec![true, false, true]);
        let trials: Vec<Vec<f32>> = (0..12).map(point).collect();
        let targets: Vec<f64> = (0..12).map(|i| f64::from(i * i % 7) - 3.0).collect();
        let candidates: Vec<Vec<f32>> = (20..40).map(point).collect();
        let mut factor = Factor::default();
        let mut panel = Panel::new(&candidates, 3);
        for (i, trial) in trials.iter().enumerate() {
            factor.push(&kernel, trial.clone());
            if i % 5 == 0 {
                panel.extend(&kernel, &factor);
            }
        }
        panel.extend(&kernel, &factor);
        // A trial that is taken back leaves no trace.
        factor.push(&kernel, point(99));
        panel.extend(&kernel, &factor);
        factor.truncate(12);
        panel.truncate(12);
        let means = panel.means(&factor.whiten(&targets));
        let matrix: Vec<Vec<f64>> = (0..12)
            .map(|i| {
                let noise = |j| if i == j { kernel.noise() } else { 0.0 };
                (0..12)
                    .map(|j| kernel.likeness(&trials[i], &trials[j]) + noise(j))
                    .collect()
            })
            .collect();
        for (c, candidate) in candidates.iter().enumerate() {
            let cross: Vec<f64> = trials
                .iter()
                .map(|t| kernel.likeness(t, candidate))
                .collect();
            let weights = solve(matrix.clone(), cross.clone());
            let mean = dot(&weights, &targets);
            let variance = 1.0 - dot(&weights, &cross);
            assert!((f64::from(means[c]) - mean).abs() < 1e-4);
            assert!((f64::from(panel.deviation(c)) - variance.sqrt()).abs() < 1e-4);
        }
    }

    #[test]
    fn what_is_pending_is_taken_as_foreseen() {
        let kernel = Kernel::new(vec![true, false, true]);
        let mut factor = Factor::default();
        for i in 0..6 {
            factor.push(&kernel, point(i));
        }
        let targets = [1.0, -1.0, 0.5, 2.0, -0.5, 0.0];
        let mut panel = Panel::new(&[point(6), point(17), point(30)], 3);
        panel.extend(&kernel, &factor);
        let (means, before) = (panel.means(&factor.whiten(&targets)), panel.deviation(0));
        factor.push(&kernel, point(6));
        panel.extend(&kernel, &factor);
        assert_eq!(panel.means(&factor.whiten(&targets)), means);
        assert!(panel.deviation(0) < 0.5 * before);
    }
}
