//! How alike two configs are, learnt from trials: the kernel of a Gaussian process and its fit.
//!
//! The likeness of two configs is a product over axes, `exp(-weight * difference)`. The weights say
//! how much each axis matters. They are those under which the trials so far are most probable,
//! together with a prior that keeps them moderate while trials are few.

/// Two different values differ by at least this much of the axis, however close they are: times
/// jump between neighbouring values more often than they glide.
const STEP: f32 = 0.25;
/// Prior of a weight: log-normal.
const WEIGHT: f64 = 0.5;
const WEIGHT_SPREAD: f64 = 1.5;
/// Prior of the part of the variance that no axis explains: log-normal.
const NOISE: f64 = 0.02;
const NOISE_SPREAD: f64 = 2.0;
const WEIGHT_RANGE: (f64, f64) = (1e-3, 30.0);
const NOISE_RANGE: (f64, f64) = (1e-4, 1.0);
/// A pivot below this is rounding.
pub(crate) const LEAST_PIVOT: f64 = 1e-10;

pub(super) struct Kernel {
    ordered: Vec<bool>,
    log_weights: Vec<f64>,
    log_noise: f64,
    /// The exponentials of the weights, for use.
    weights: Vec<f32>,
}

impl Kernel {
    pub(super) fn new(ordered: Vec<bool>) -> Kernel {
        let mut kernel = Kernel {
            log_weights: vec![WEIGHT.ln(); ordered.len()],
            log_noise: NOISE.ln(),
            weights: Vec::new(),
            ordered,
        };
        kernel.update();
        kernel
    }

    fn update(&mut self) {
        self.weights = self.log_weights.iter().map(|w| w.exp() as f32).collect();
    }

    pub(super) fn noise(&self) -> f64 {
        self.log_noise.exp()
    }

    pub(super) fn likeness(&self, a: &[f32], b: &[f32]) -> f64 {
        let mut sum = 0.0;
        for (axis, weight) in self.weights.iter().enumerate() {
            sum += weight * difference(self.ordered[axis], a[axis], b[axis]);
        }
        f64::from((-sum).exp())
    }

    /// The likeness of one point to many, which are given as one column of coordinates per axis.
    pub(super) fn likenesses(&self, columns: &[Vec<f32>], count: usize, point: &[f32]) -> Vec<f32> {
        let mut sums = vec![0.0; count];
        for (axis, (column, &x)) in columns.iter().zip(point).enumerate() {
            let weight = self.weights[axis];
            // Two loops that vectorise; one that asks inside would not.
            match self.ordered[axis] {
                true => {
                    let (jump, slope) = (weight * STEP, weight * (1.0 - STEP));
                    for (sum, &y) in sums.iter_mut().zip(column) {
                        *sum += if x == y {
                            0.0
                        } else {
                            jump + slope * (x - y).abs()
                        };
                    }
                }
                false => {
                    for (sum, &y) in sums.iter_mut().zip(column) {
                        *sum += if x == y { 0.0 } else { weight };
                    }
                }
            }
        }
        sums.iter_mut().for_each(|sum| *sum = (-*sum).exp());
        sums
    }

    /// Moves weights and noise uphill by this many steps, from where the last fit left them.
    /// Targets are expected to have mean 0 and variance 1.
    pub(super) fn fit(&mut self, points: &[Vec<f32>], targets: &[f64], steps: usize) {
        let differences = self.differences(points);
        let axes = self.log_weights.len();
        let mut parameters = self.log_weights.clone();
        parameters.push(self.log_noise);
        let mut best = (f64::NEG_INFINITY, parameters.clone());
        let mut stride = vec![0.5; axes + 1];
        let mut last = vec![0.0; axes + 1];
        for _ in 0..steps {
            let (value, gradient) = evidence(&differences, targets, &parameters);
            if value > best.0 {
                best = (value, parameters.clone());
            }
            // Each parameter has a stride of its own, longer while its slope keeps its sign.
            for (k, &slope) in gradient.iter().enumerate() {
                if slope * last[k] > 0.0 {
                    stride[k] = f64::min(stride[k] * 1.4, 1.5);
                } else if slope * last[k] < 0.0 {
                    stride[k] *= 0.5;
                }
                last[k] = slope;
                let range = if k < axes { WEIGHT_RANGE } else { NOISE_RANGE };
                parameters[k] = (parameters[k] + stride[k] * slope.clamp(-1.0, 1.0))
                    .clamp(range.0.ln(), range.1.ln());
            }
        }
        if let Some((noise, weights)) = best.1.split_last() {
            self.log_noise = *noise;
            self.log_weights = weights.to_vec();
        }
        self.update();
    }

    /// By axis: the lower triangle of differences, as a full matrix.
    fn differences(&self, points: &[Vec<f32>]) -> Vec<Vec<f64>> {
        let n = points.len();
        let matrix = |(axis, &ordered): (usize, &bool)| {
            let mut matrix = vec![0.0; n * n];
            for i in 0..n {
                for j in 0..i {
                    let d = difference(ordered, points[i][axis], points[j][axis]);
                    matrix[i * n + j] = f64::from(d);
                }
            }
            matrix
        };
        self.ordered.iter().enumerate().map(matrix).collect()
    }
}

fn difference(ordered: bool, x: f32, y: f32) -> f32 {
    match (x == y, ordered) {
        (true, _) => 0.0,
        (false, true) => STEP + (1.0 - STEP) * (x - y).abs(),
        (false, false) => 1.0,
    }
}

/// The logarithm of how probable the targets and the parameters are together, up to a constant, and
/// its slope along each parameter: the log weights, then the log noise.
fn evidence(differences: &[Vec<f64>], targets: &[f64], parameters: &[f64]) -> (f64, Vec<f64>) {
    let n = targets.len();
    let axes = differences.len();
    let noise = parameters[axes].exp();
    let mut sums = vec![0.0; n * n];
    for (matrix, log_weight) in differences.iter().zip(parameters) {
        let weight = log_weight.exp();
        for (sum, d) in sums.iter_mut().zip(matrix) {
            *sum += weight * d;
        }
    }
    let mut factor = vec![0.0; n * n];
    let mut likeness = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..i {
            likeness[i * n + j] = f64::exp(-sums[i * n + j]);
        }
        let (above, row) = factor.split_at_mut(i * n);
        for j in 0..i {
            let other = &above[j * n..j * n + j + 1];
            row[j] = (likeness[i * n + j] - dot(&row[..j], &other[..j])) / other[j];
        }
        row[i] = (1.0 + noise - dot(&row[..i], &row[..i]))
            .max(LEAST_PIVOT)
            .sqrt();
    }
    let inverse = inverse_factor(&factor, n);
    let whitened: Vec<f64> = (0..n)
        .map(|i| dot(&inverse[i * n..i * n + i + 1], &targets[..=i]))
        .collect();
    let mut solved = vec![0.0; n];
    for (i, w) in whitened.iter().enumerate() {
        add_scaled(&mut solved[..=i], *w, &inverse[i * n..i * n + i + 1]);
    }
    let precision = precision(&inverse, n);
    let log_determinant: f64 = (0..n).map(|i| factor[i * n + i].ln()).sum();
    let mut value = -0.5 * dot(&whitened, &whitened) - log_determinant;
    // d(value)/d(sum of differences), by pair.
    let mut slopes = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..i {
            let pair = i * n + j;
            slopes[pair] = (precision[pair] - solved[i] * solved[j]) * likeness[pair];
        }
    }
    let mut gradient = Vec::with_capacity(axes + 1);
    for (matrix, log_weight) in differences.iter().zip(parameters) {
        gradient.push(dot(&slopes, matrix) * log_weight.exp());
    }
    let diagonal: f64 = (0..n)
        .map(|i| solved[i] * solved[i] - precision[i * n + i])
        .sum();
    gradient.push(0.5 * noise * diagonal);
    for (k, parameter) in parameters.iter().enumerate() {
        let (centre, spread) = match k < axes {
            true => (WEIGHT, WEIGHT_SPREAD),
            false => (NOISE, NOISE_SPREAD),
        };
        let off = (parameter - centre.ln()) / spread;
        value -= 0.5 * off * off;
        gradient[k] -= off / spread;
    }
    (value, gradient)
}

/// The inverse of a lower triangle, row by row.
pub(crate) fn inverse_factor(factor: &[f64], n: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; n * n];
    for i in 0..n {
        let (above, row) = inverse.split_at_mut(i * n);
        let pivot = 1.0 / factor[i * n + i];
        for k in 0..i {
            add_scaled(
                &mut row[..=k],
                -factor[i * n + k] * pivot,
                &above[k * n..k * n + k + 1],
            );
        }
        row[i] = pivot;
    }
    inverse
}

/// The lower triangle of the inverse of the whole matrix, from that of its factor.
pub(crate) fn precision(inverse: &[f64], n: usize) -> Vec<f64> {
    let mut precision = vec![0.0; n * n];
    for i in 0..n {
        let row = &inverse[i * n..i * n + i + 1];
        for (k, x) in row.iter().enumerate() {
            add_scaled(&mut precision[k * n..k * n + k + 1], *x, &row[..=k]);
        }
    }
    precision
}

pub(crate) fn add_scaled(to: &mut [f64], scale: f64, from: &[f64]) {
    for (t, f) in to.iter_mut().zip(from) {
        *t += scale * f;
    }
}

/// In four independent sums, which a plain sum would not allow.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (a.chunks_exact(4), b.chunks_exact(4));
    let mut rest = 0.0;
    for (x, y) in a.remainder().iter().zip(b.remainder()) {
        rest += x * y;
    }
    let mut sums = [0.0; 4];
    for (x, y) in a.zip(b) {
        for k in 0..4 {
            sums[k] += x[k] * y[k];
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Vec<f32>> {
        (0..30_u32)
            .map(|i| {
                vec![
                    (i * 7 % 11) as f32 / 10.0,
                    (i % 3) as f32,
                    (i * 5 % 13) as f32 / 12.0,
                ]
            })
            .collect()
    }

    fn standard(mut values: Vec<f64>) -> Vec<f64> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let spread = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        values.iter_mut().for_each(|v| *v = (*v - mean) / spread);
        values
    }

    #[test]
    fn the_slope_is_the_slope() {
        let kernel = Kernel::new(vec![true, false, true]);
        let points = points();
        let targets = standard(points.iter().map(|p| f64::from(p[0] + p[1])).collect());
        let differences = kernel.differences(&points);
        let at = [-0.5, 0.3, -2.0, -3.0];
        let (_, gradient) = evidence(&differences, &targets, &at);
        for k in 0..at.len() {
            let moved = |by: f64| {
                let mut parameters = at;
                parameters[k] += by;
                evidence(&differences, &targets, &parameters).0
            };
            let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (numeric - gradient[k]).abs() < 1e-4 * (1.0 + numeric.abs()),
                "parameter {k}: {} and {numeric}",
                gradient[k]
            );
        }
    }

    #[test]
    fn axes_that_matter_weigh_more() {
        let mut kernel = Kernel::new(vec![true, false, true]);
        let points = points();
        let effect = |p: &Vec<f32>| f64::from(3.0 * p[0]) + [0.0, 2.0, 0.5][p[1] as usize];
        kernel.fit(&points, &standard(points.iter().map(effect).collect()), 30);
        assert!(kernel.weights[0] > 5.0 * kernel.weights[2]);
        assert!(kernel.weights[1] > 5.0 * kernel.weights[2]);
    }

    #[test]
    fn one_to_many_is_one_by_one() {
        let kernel = Kernel::new(vec![true, false, true]);
        let points = points();
        let columns: Vec<Vec<f32>> = (0..3)
            .map(|a| points.iter().map(|p| p[a]).collect())
            .collect();
        let many = kernel.likenesses(&columns, points.len(), &points[4]);
        for (point, &likeness) in points.iter().zip(&many) {
            let single = kernel.likeness(point, &points[4]);
            assert!((f64::from(likeness) - single).abs() < 1e-6);
        }
    }
}
