//! From the trials of all shapes to the configs that are confirmed.

use kiln_core::cover::{Cover, Row};
use kiln_core::study::Study;
use kiln_core::trial::Assignment;

/// A further config that brings less than this is not worth having, and is hardly more than noise.
const ENOUGH: f64 = 0.01;

/// Every config that was measured, and how much faster than the baseline it was on each shape.
pub fn matrix(studies: &[Study]) -> (Vec<Assignment>, Vec<Row>) {
    let (mut configs, mut rows): (Vec<Assignment>, Vec<Row>) = (Vec::new(), Vec::new());
    for (at, study) in studies.iter().enumerate() {
        let Some(baseline_ns) = study.baseline_ns() else {
            continue;
        };
        for (trial, ns) in study.ranked() {
            let row = match configs.iter().position(|c| *c == trial.config) {
                Some(row) => row,
                None => {
                    configs.push(trial.config.clone());
                    rows.push(vec![None; studies.len()]);
                    rows.len() - 1
                }
            };
            rows[row][at] = Some(baseline_ns / ns);
        }
    }
    (configs, rows)
}

/// The smallest choice that is as good as all, but for so little that it does not count.
pub fn enough(covers: &[Cover], asked: Option<usize>) -> Option<usize> {
    let last = covers.last()?;
    if let Some(count) = asked {
        return Some(count.clamp(1, covers.len()) - 1);
    }
    let value = |c: &Cover| c.value.unwrap_or(0.0);
    covers
        .iter()
        .position(|c| c.served() == last.served() && value(c) * (1.0 + ENOUGH) >= value(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cover(configs: usize, value: f64, served: usize) -> Cover {
        Cover {
            configs: (0..configs).collect(),
            serves: (0..3).map(|s| (s < served).then_some(0)).collect(),
            value: Some(value),
            is_exact: true,
        }
    }

    #[test]
    fn a_further_config_has_to_bring_something() {
        let covers = [cover(1, 1.21, 3), cover(2, 1.26, 3), cover(3, 1.265, 3)];
        assert_eq!(enough(&covers, None), Some(1));
        assert_eq!(enough(&covers, Some(1)), Some(0));
        assert_eq!(enough(&covers, Some(9)), Some(2));
        let partial = [cover(1, 2.0, 2), cover(2, 1.5, 3)];
        assert_eq!(enough(&partial, None), Some(1), "every shape is served");
        assert_eq!(enough(&[], None), None);
    }
}
