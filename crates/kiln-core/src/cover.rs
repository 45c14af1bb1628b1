//! Which few configs serve many shapes best.
//!
//! Given how much faster each config is than the baseline on each shape, chooses so many configs that the shapes,
//! each with the best of them, come out best together. Exact where all choices can be looked at, else greedy with
//! exchanges; which of the two it was is said.

use serde::{Deserialize, Serialize};

/// What counts over all shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The weighted geometric mean of the speedups.
    Geomean,
    /// The least speedup of all shapes; weights do not enter.
    Worst,
}

/// Speedups of one config, by shape; `None` where it is not legal, failed or was given up.
pub type Row = Vec<Option<f64>>;

/// A choice of configs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cover {
    /// Positions of the configs, ascending.
    pub configs: Vec<usize>,
    /// For each shape the config that serves it, if any does.
    pub serves: Vec<Option<usize>>,
    /// Over the shapes that are served; `None` when none is.
    pub value: Option<f64>,
    /// No other choice of so many configs is better.
    pub is_exact: bool,
}

impl Cover {
    pub fn served(&self) -> usize {
        self.serves.iter().flatten().count()
    }
}

/// More choices than this are not looked at one by one.
const MOST_CHOICES: u128 = 300_000;

/// The best cover of every size, from one config up to where a further one brings nothing.
pub fn covers(rows: &[Row], weights: &[f64], objective: Objective) -> Vec<Cover> {
    let shapes = weights.len();
    let kept = undominated(rows);
    let mut found: Vec<Cover> = Vec::new();
    for size in 1..=kept.len().min(shapes) {
        let cover = best(rows, &kept, weights, objective, size);
        if found.last().is_some_and(|last| !is_better(&cover, last)) {
            break;
        }
        found.push(cover);
    }
    found
}

/// Serving more shapes comes first: a shape without a config has no speedup at all.
fn is_better(a: &Cover, b: &Cover) -> bool {
    let value = |c: &Cover| c.value.unwrap_or(f64::NEG_INFINITY);
    a.served() > b.served() || (a.served() == b.served() && value(a) > value(b))
}

/// Configs that no other config matches or beats on every shape.
fn undominated(rows: &[Row]) -> Vec<usize> {
    let covers = |a: &Row, b: &Row| {
        a.iter().zip(b).all(|(a, b)| match (a, b) {
            (_, None) => true,
            (Some(a), Some(b)) => a >= b,
            (None, Some(_)) => false,
        })
    };
    (0..rows.len())
        .filter(|i| rows[*i].iter().any(Option::is_some))
        .filter(|i| {
            let beaten = |j: usize| {
                j != *i && covers(&rows[j], &rows[*i]) && (!covers(&rows[*i], &rows[j]) || j < *i)
            };
            !(0..rows.len()).any(beaten)
        })
        .collect()
}

fn choices(from: usize, size: usize) -> u128 {
    (0..size as u128).fold(1, |n, i| n.saturating_mul(from as u128 - i) / (i + 1))
}

fn best(rows: &[Row], kept: &[usize], weights: &[f64], objective: Objective, size: usize) -> Cover {
    match choices(kept.len(), size) <= MOST_CHOICES {
        true => exact(rows, kept, weights, objective, size),
        false => greedy(rows, kept, weights, objective, size),
    }
}

fn exact(
    rows: &[Row],
    kept: &[usize],
    weights: &[f64],
    objective: Objective,
    size: usize,
) -> Cover {
    let mut best: Option<Cover> = None;
    let mut picked: Vec<usize> = (0..size).collect();
    loop {
        let configs: Vec<usize> = picked.iter().map(|p| kept[*p]).collect();
        let cover = judged(rows, configs, weights, objective, true);
        if best.as_ref().is_none_or(|b| is_better(&cover, b)) {
            best = Some(cover);
        }
        // The next combination in order.
        let Some(at) = (0..size).rev().find(|i| picked[*i] < kept.len() - size + i) else {
            break;
        };
        picked[at] += 1;
        for i in at + 1..size {
            picked[i] = picked[i - 1] + 1;
        }
    }
    best.unwrap_or_else(|| judged(rows, Vec::new(), weights, objective, true))
}

fn greedy(
    rows: &[Row],
    kept: &[usize],
    weights: &[f64],
    objective: Objective,
    size: usize,
) -> Cover {
    let judge = |configs: &[usize]| judged(rows, configs.to_vec(), weights, objective, false);
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < size {
        let with = |config: usize| {
            let mut more = chosen.clone();
            more.push(config);
            judge(&more)
        };
        let free = kept.iter().filter(|c| !chosen.contains(c));
        let next = free
            .map(|c| (*c, with(*c)))
            .reduce(|a, b| match is_better(&b.1, &a.1) {
                true => b,
                false => a,
            });
        let Some((config, _)) = next else {
            break;
        };
        chosen.push(config);
    }
    // Exchange one for another as long as that helps.
    let mut cover = judge(&chosen);
    loop {
        let mut exchanged = None;
        for at in 0..chosen.len() {
            for config in kept.iter().filter(|c| !chosen.contains(c)) {
                let mut other = chosen.clone();
                other[at] = *config;
                let found = judge(&other);
                if is_better(&found, exchanged.as_ref().map_or(&cover, |(_, c)| c)) {
                    exchanged = Some((other, found));
                }
            }
        }
        match exchanged {
            Some((other, found)) => (chosen, cover) = (other, found),
            None => return cover,
        }
    }
}

fn judged(
    rows: &[Row],
    mut configs: Vec<usize>,
    weights: &[f64],
    objective: Objective,
    is_exact: bool,
) -> Cover {
    configs.sort_unstable();
    let mut serves = Vec::with_capacity(weights.len());
    let (mut sum, mut total, mut worst) = (0.0, 0.0, f64::INFINITY);
    for (shape, weight) in weights.iter().enumerate() {
        let able = configs.iter().filter_map(|c| Some((*c, rows[*c][shape]?)));
        let server = able.reduce(|a, b| if b.1 > a.1 { b } else { a });
        if let Some((_, speedup)) = server {
            sum += weight * speedup.ln();
            total += weight;
            worst = f64::min(worst, speedup);
        }
        serves.push(server.map(|(config, _)| config));
    }
    let value = match objective {
        _ if total == 0.0 => None,
        Objective::Geomean => Some((sum / total).exp()),
        Objective::Worst => Some(worst),
    };
    Cover {
        configs,
        serves,
        value,
        is_exact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(numbers: &[&[f64]]) -> Vec<Row> {
        let row = |r: &&[f64]| r.iter().map(|x| (*x > 0.0).then_some(*x)).collect();
        numbers.iter().map(row).collect()
    }

    #[test]
    fn each_further_config_says_what_it_brings() {
        let rows = rows(&[
            &[2.0, 1.0, 1.0],
            &[1.0, 2.0, 1.0],
            &[1.4, 1.4, 1.4],
            &[1.3, 1.3, 1.3],
        ]);
        let found = covers(&rows, &[1.0; 3], Objective::Geomean);
        let chosen: Vec<&[usize]> = found.iter().map(|c| c.configs.as_slice()).collect();
        assert_eq!(chosen, [&[2][..], &[0, 1], &[0, 1, 2]]);
        let value = |at: usize| found[at].value.expect("all shapes are served");
        assert!((value(0) - 1.4).abs() < 1e-12);
        assert!((value(1) - 4f64.cbrt()).abs() < 1e-12);
        assert_eq!(found[2].serves, [Some(0), Some(1), Some(2)]);
        assert!(found.iter().all(|c| c.is_exact));
    }

    #[test]
    fn the_worst_shape_may_count_alone() {
        let rows = rows(&[&[3.0, 0.9], &[1.1, 1.1]]);
        let mean = covers(&rows, &[1.0, 1.0], Objective::Geomean);
        let worst = covers(&rows, &[1.0, 1.0], Objective::Worst);
        assert_eq!((mean[0].configs[0], worst[0].configs[0]), (0, 1));
        assert_eq!(
            worst.len(),
            1,
            "another config does not help the worst shape"
        );
    }

    #[test]
    fn weights_decide_whom_one_config_serves() {
        let rows = rows(&[&[2.0, 1.0], &[1.0, 1.9]]);
        let first = |weights: &[f64]| covers(&rows, weights, Objective::Geomean)[0].configs[0];
        assert_eq!((first(&[1.0, 1.0]), first(&[1.0, 3.0])), (0, 1));
    }

    #[test]
    fn a_shape_that_one_config_cannot_do_gets_another() {
        let rows = rows(&[&[9.0, 0.0], &[0.0, 1.1], &[1.0, 1.0]]);
        let found = covers(&rows, &[1.0, 1.0], Objective::Geomean);
        assert_eq!(found[0].configs, [2], "serving both comes first");
        assert_eq!(found[1].configs, [0, 1]);
        assert!(covers(&[vec![None, None]], &[1.0, 1.0], Objective::Worst).is_empty());
    }

    proptest! {
        #[test]
        fn more_configs_never_serve_worse_and_greedy_is_near(
            numbers in prop::collection::vec(prop::collection::vec(prop::option::of(0.5f64..3.0), 4), 1..9)
        ) {
            let weights = [1.0, 2.0, 1.0, 0.5];
            for objective in [Objective::Geomean, Objective::Worst] {
                let found = covers(&numbers, &weights, objective);
                for pair in found.windows(2) {
                    prop_assert!(is_better(&pair[1], &pair[0]));
                }
                let kept = undominated(&numbers);
                for cover in &found {
                    let other = greedy(&numbers, &kept, &weights, objective, cover.configs.len());
                    prop_assert!(!is_better(&other, cover));
                    for (shape, server) in cover.serves.iter().enumerate() {
                        let best = cover.configs.iter().filter_map(|c| numbers[*c][shape]).fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
                        prop_assert_eq!(server.and_then(|c| numbers[c][shape]), best);
                    }
                }
            }
        }
    }
}
