//! A forest of randomised trees: what each leaf's trials took, and how many of them worked.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const TREES: usize = 30;
/// A node with fewer trials than twice this is a leaf.
const LEAST_IN_LEAF: usize = 2;
/// Splits tried at each node, each on a random axis at a random place.
const SPLITS_TRIED: usize = 4;

/// One trial: where it lies, and its target unless it failed.
pub(super) struct Sample {
    pub(super) point: Vec<f32>,
    pub(super) target: Option<f64>,
}

enum Node {
    Leaf {
        mean: f64,
        works: f64,
    },
    Split {
        axis: usize,
        /// Points at or below go to the next node, the others to `above`. On an unordered axis,
        /// points of exactly this coordinate go to the next node.
        at: f32,
        above: usize,
    },
}

pub(super) struct Forest<'a> {
    ordered: &'a [bool],
    trees: Vec<Vec<Node>>,
}

pub(super) struct Prediction {
    pub(super) mean: f64,
    /// How far the trees are apart.
    pub(super) deviation: f64,
    /// The chance that the config works at all.
    pub(super) works: f64,
}

impl<'a> Forest<'a> {
    pub(super) fn grow(
        samples: &[Sample],
        ordered: &'a [bool],
        rng: &mut ChaCha8Rng,
    ) -> Forest<'a> {
        let mut forest = Forest {
            ordered,
            trees: Vec::with_capacity(TREES),
        };
        for _ in 0..TREES {
            let mut nodes = Vec::new();
            let mut members: Vec<usize> = (0..samples.len()).collect();
            forest.branch(&mut nodes, samples, &mut members, 0.0, rng);
            forest.trees.push(nodes);
        }
        forest
    }

    fn goes_on(&self, axis: usize, at: f32, point: &[f32]) -> bool {
        match self.ordered[axis] {
            true => point[axis] <= at,
            false => point[axis] == at,
        }
    }

    fn branch(
        &self,
        nodes: &mut Vec<Node>,
        samples: &[Sample],
        members: &mut [usize],
        inherited: f64,
        rng: &mut ChaCha8Rng,
    ) {
        let targets = members.iter().filter_map(|&m| samples[m].target);
        let (sum, measured) = targets.fold((0.0, 0), |(s, n), t| (s + t, n + 1));
        // A leaf of failures only expects what its parent does.
        let mean = match measured {
            0 => inherited,
            n => sum / f64::from(n),
        };
        let split = match members.len() >= 2 * LEAST_IN_LEAF {
            true => self.best_split(samples, members, rng),
            false => None,
        };
        let Some((axis, at)) = split else {
            nodes.push(Node::Leaf {
                mean,
                // One trial that works is taken for granted everywhere.
                works: (f64::from(measured) + 1.0) / (members.len() as f64 + 1.0),
            });
            return;
        };
        members.sort_by_key(|&m| !self.goes_on(axis, at, &samples[m].point));
        let below = members.partition_point(|&m| self.goes_on(axis, at, &samples[m].point));
        let (low, high) = members.split_at_mut(below);
        let here = nodes.len();
        nodes.push(Node::Split { axis, at, above: 0 });
        self.branch(nodes, samples, low, mean, rng);
        let next = nodes.len();
        if let Node::Split { above, .. } = &mut nodes[here] {
            *above = next;
        }
        self.branch(nodes, samples, high, mean, rng);
    }

    /// The split among a few random ones after which times and failures differ least within sides.
    fn best_split(
        &self,
        samples: &[Sample],
        members: &[usize],
        rng: &mut ChaCha8Rng,
    ) -> Option<(usize, f32)> {
        if self.ordered.is_empty() {
            return None;
        }
        let mut best: Option<(f64, usize, f32)> = None;
        for _ in 0..SPLITS_TRIED {
            let axis = rng.random_range(0..self.ordered.len());
            let any = members[rng.random_range(0..members.len())];
            let at = samples[any].point[axis];
            let (mut low, mut high) = (Side::default(), Side::default());
            for &m in members {
                match self.goes_on(axis, at, &samples[m].point) {
                    true => low.add(samples[m].target),
                    false => high.add(samples[m].target),
                }
            }
            if low.count == 0.0 || high.count == 0.0 {
                continue;
            }
            let gain = low.order() + high.order();
            if best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, axis, at));
            }
        }
        best.map(|(_, axis, at)| (axis, at))
    }

    pub(super) fn predict(&self, point: &[f32]) -> Prediction {
        let (mut sum, mut squares, mut works) = (0.0, 0.0, 0.0);
        for nodes in &self.trees {
            let mut here = 0;
            loop {
                match &nodes[here] {
                    Node::Leaf { mean, works: w } => {
                        sum += mean;
                        squares += mean * mean;
                        works += w;
                        break;
                    }
                    Node::Split { axis, at, above } => {
                        here = match self.goes_on(*axis, *at, point) {
                            true => here + 1,
                            false => *above,
                        };
                    }
                }
            }
        }
        let count = self.trees.len() as f64;
        let mean = sum / count;
        Prediction {
            mean,
            deviation: (squares / count - mean * mean).max(0.0).sqrt(),
            works: works / count,
        }
    }
}

/// One side of a split.
#[derive(Default)]
struct Side {
    count: f64,
    measured: f64,
    sum: f64,
}

impl Side {
    fn add(&mut self, target: Option<f64>) {
        self.count += 1.0;
        if let Some(target) = target {
            self.measured += 1.0;
            self.sum += target;
        }
    }

    /// What knowing this side's averages explains of times and of failures.
    fn order(&self) -> f64 {
        let times = match self.measured > 0.0 {
            true => self.sum * self.sum / self.measured,
            false => 0.0,
        };
        times + self.measured * self.measured / self.count
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator;
    use super::*;

    #[test]
    fn learns_times_and_failures() {
        let samples: Vec<Sample> = (0..120_u32)
            .map(|i| {
                let point = vec![(i % 10) as f32 / 9.0, (i * 7 % 4) as f32];
                let fails = point[1] == 2.0;
                Sample {
                    target: (!fails).then(|| if point[0] > 0.5 { 1.0 } else { -1.0 }),
                    point,
                }
            })
            .collect();
        let forest = Forest::grow(&samples, &[true, false], &mut generator(3, 0));
        assert!(forest.predict(&[0.9, 1.0]).mean > 0.8);
        assert!(forest.predict(&[0.1, 1.0]).mean < -0.8);
        assert!(forest.predict(&[0.1, 2.0]).works < 0.3);
        assert!(forest.predict(&[0.1, 3.0]).works > 0.9);
    }

    #[test]
    fn nothing_to_split_is_one_leaf() {
        let samples = [Sample {
            point: Vec::new(),
            target: Some(2.0),
        }];
        let forest = Forest::grow(&samples, &[], &mut generator(3, 0));
        let prediction = forest.predict(&[]);
        assert_eq!((prediction.mean, prediction.deviation), (2.0, 0.0));
    }
}
