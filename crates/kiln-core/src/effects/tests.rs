//! Studies whose answer is known.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::space::{BuildLimits, Config, Space};

fn tunable(name: &str, values: Vec<Value>) -> Tunable {
    Tunable {
        name: name.into(),
        values,
    }
}

fn ints(name: &str, values: &[i64]) -> Tunable {
    tunable(name, values.iter().copied().map(Value::Int).collect())
}

fn switch(name: &str) -> Tunable {
    tunable(name, vec![Value::Bool(false), Value::Bool(true)])
}

/// Nearly normal.
fn noise(rng: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| rng.random_range(0.0..1.0)).sum::<f64>() - 6.0
}

/// Random trials of a kernel whose log time is known.
fn study(
    tunables: Vec<Tunable>,
    trials: usize,
    seed: u64,
    deviation: f64,
    log_time: impl Fn(&[usize]) -> Option<f64>,
) -> Observations {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rows = (0..trials as u64).map(|trial| {
        let draw = |t: &Tunable| rng.random_range(0..t.values.len());
        let positions: Vec<usize> = tunables.iter().map(draw).collect();
        let log = log_time(&positions).map(|log| log + deviation * noise(&mut rng));
        Observation {
            trial: trial + 1,
            ns: log.map(|log| 1e5 * log.exp()),
            positions,
            compiled: None,
        }
    });
    let rows = rows.collect();
    Observations {
        tunables,
        rows,
        space: None,
    }
}

fn six() -> Vec<Tunable> {
    vec![
        switch("A"),
        ints("B", &[1, 2]),
        ints("C", &[1, 2, 4]),
        ints("D", &[16, 32, 64, 128]),
        ints("E", &[1, 2, 3, 4, 5, 6]),
        tunable(
            "F",
            ["row", "column", "tile", "swizzle"]
                .map(|s| Value::Text(s.into()))
                .to_vec(),
        ),
    ]
}

fn of<'e>(effects: &'e Effects, name: &str) -> &'e TunableEffect {
    effects.tunables.iter().find(|t| t.tunable == name).unwrap()
}

#[test]
fn what_matters_is_said_with_its_size() {
    // On is 12 % faster than off; 64 is best, 16 takes a quarter longer; the rest does nothing.
    let observations = study(six(), 120, 1, 0.01, |p| {
        let switched = if p[0] == 0 { 1.12_f64.ln() } else { 0.0 };
        let tile = [1.25_f64, 1.1, 1.0, 1.04][p[3]].ln();
        Some(switched + tile)
    });
    let effects = Effects::of(&observations);
    assert_eq!(effects.silent, None);
    let names: Vec<&str> = effects.important().map(|t| t.tunable.as_str()).collect();
    assert_eq!(names, ["D", "A"]);
    let on = of(&effects, "A");
    assert!(
        on.sentence.starts_with("A: on is 12 % faster ["),
        "{}",
        on.sentence
    );
    let cost = on.values[0].cost.unwrap();
    assert!(cost.low > 0.10 && cost.high < 0.14, "{cost:?}");
    let tile = of(&effects, "D");
    assert_eq!(tile.best, Some(Value::Int(64)));
    assert!(
        tile.sentence.starts_with("D: 64 best; 128 costs "),
        "{}",
        tile.sentence
    );
    for nothing in ["B", "C", "E", "F"] {
        assert_ne!(of(&effects, nothing).finding, Finding::Matters, "{nothing}");
    }
    assert_eq!(
        of(&effects, "B").sentence,
        "B does not matter here (below 1 %)"
    );
    assert!(effects.pairs.is_empty(), "{:?}", effects.pairs);
    assert!(effects.unexplained < 0.05);
}

#[test]
fn a_pair_that_goes_together_is_named() {
    // The switch helps where the tile is large and hurts where it is small.
    let observations = study(six(), 150, 2, 0.01, |p| {
        let tile = 0.3 * f64::from(u8::from(p[3] < 2));
        let switched = match (p[0], p[3]) {
            (0, _) => 0.0,
            (_, 0 | 1) => 0.2,
            _ => -0.2,
        };
        Some(tile + switched)
    });
    let effects = Effects::of(&observations);
    let pair = effects.pairs.first().expect("a pair");
    assert_eq!((pair.given.as_str(), pair.tunable.as_str()), ("D", "A"));
    let signs: Vec<bool> = pair.at.iter().map(|at| at.cost.change > 0.0).collect();
    assert_eq!(signs, [true, false], "{}", pair.sentence);
    assert!(
        pair.sentence
            .starts_with("A goes with D: on instead of off is "),
        "{}",
        pair.sentence
    );
}

#[test]
fn failures_are_counted_and_leave_the_rest_alone() {
    let observations = study(six(), 120, 3, 0.01, |p| {
        (p[3] != 3).then(|| if p[0] == 0 { 0.2 } else { 0.0 })
    });
    let effects = Effects::of(&observations);
    let tile = of(&effects, "D");
    let last = &tile.values[3];
    assert_eq!((last.measured, last.cost), (0, None));
    assert!(
        tile.sentence
            .contains(&format!("; 128 never worked ({} trials)", last.failed))
    );
    assert_eq!(effects.important().next().unwrap().tunable, "A");
}

#[test]
fn little_is_said_of_little() {
    let few = study(six(), FEWEST_TRIALS - 1, 4, 0.1, |_| Some(0.0));
    let effects = Effects::of(&few);
    assert!(effects.silent.unwrap().contains("effects need 8"));
    assert!(
        effects
            .tunables
            .iter()
            .all(|t| t.finding == Finding::Undecided)
    );
    let same = study(vec![ints("A", &[1])], 30, 4, 0.0, |_| Some(0.0));
    assert!(Effects::of(&same).silent.is_some());
    let failed = study(six(), 30, 4, 0.0, |_| None);
    assert!(Effects::of(&failed).silent.unwrap().starts_with("0 of 30"));
    assert!(Effects::of(&Observations::default()).silent.is_some());
}

#[test]
fn a_value_that_never_changed_is_said_to_have_none() {
    let mut tunables = six();
    tunables[1] = ints("B", &[7]);
    let effects = Effects::of(&study(tunables, 40, 5, 0.05, |p| Some(0.1 * p[2] as f64)));
    let fixed = of(&effects, "B");
    assert_eq!(fixed.finding, Finding::NeverVaried);
    assert_eq!(fixed.sentence, "B: only 7 was measured");
}

#[test]
fn the_same_trials_are_said_the_same_of() {
    let observations = study(six(), 60, 6, 0.1, |p| Some(0.1 * p[2] as f64));
    assert_eq!(Effects::of(&observations), Effects::of(&observations));
}

#[test]
fn trials_beyond_measure_are_thinned_out() {
    let observations = study(six(), 1000, 7, 0.05, |p| Some(0.1 * p[2] as f64));
    let effects = Effects::of(&observations);
    assert_eq!(effects.measured, 1000);
    assert_eq!(effects.important().next().unwrap().tunable, "C");
}

/// A search that stays where it is fast: plain averages would make the idle tunable look weighty.
#[test]
fn values_that_a_search_preferred_are_not_taken_for_causes() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut observations = study(six(), 30, 8, 0.02, |p| Some(0.5 * p[2] as f64));
    for trial in 0..60 {
        // Near the best: C is 1 and E happens to be 3.
        let positions = vec![trial % 2, trial / 2 % 2, 0, trial % 4, 2, trial / 3 % 4];
        let ns = 1e5 * (0.02 * noise(&mut rng)).exp();
        observations.rows.push(Observation {
            trial: 31 + trial as u64,
            positions,
            ns: Some(ns),
            compiled: None,
        });
    }
    let effects = Effects::of(&observations);
    assert_eq!(of(&effects, "C").finding, Finding::Matters);
    assert_ne!(
        of(&effects, "E").finding,
        Finding::Matters,
        "{}",
        of(&effects, "E").sentence
    );
}

/// A tunable that does nothing is said to matter in at most 5 of 100 studies, whatever the others do.
#[test]
fn idle_tunables_are_seldom_accused() {
    for (trials, seed) in [(16, 100), (40, 200), (80, 300)] {
        let (mut accused, mut asked) = (0, 0);
        for repeat in 0..20 {
            let all_idle = study(six(), trials, seed + repeat, 0.3, |_| Some(0.0));
            let some_idle = study(six(), trials, seed + 50 + repeat, 0.1, |p| {
                Some(0.2 * p[0] as f64 + 0.15 * (p[3] as f64 - 1.0).abs())
            });
            let idle = [
                (all_idle, &["A", "B", "C", "D", "E", "F"][..]),
                (some_idle, &["B", "C", "E", "F"]),
            ];
            for (observations, names) in idle {
                let effects = Effects::of(&observations);
                asked += names.len();
                let matters = |name: &&&str| of(&effects, name).finding == Finding::Matters;
                accused += names.iter().filter(matters).count();
            }
        }
        let rate = accused as f64 / asked as f64;
        assert!(rate <= 0.05, "{accused} of {asked} after {trials} trials");
    }
}

/// Of tunables that do something, which is the harder part: with few trials the model thinks effects smaller than
/// they are.
#[test]
fn intervals_hold_what_they_promise() {
    for trials in [12, 30, 80] {
        let (mut held, mut asked) = (0, 0);
        for repeat in 0..30 {
            let log = |p: &[usize]| 0.2 * p[0] as f64 + [0.15, 0.0, 0.1, 0.3][p[3]];
            let observations = study(six(), trials, 1000 + repeat, 0.1, |p| Some(log(p)));
            let effects = Effects::of(&observations);
            for (name, at) in [("A", 0), ("D", 3)] {
                let effect = of(&effects, name);
                let is_best = |v: &ValueEffect| Some(&v.value) == effect.best.as_ref();
                let best = effect.values.iter().position(is_best).unwrap();
                let alone = |value: usize| {
                    let mut positions = [0; 6];
                    positions[at] = value;
                    log(&positions)
                };
                for (value, shown) in effect.values.iter().enumerate() {
                    if let Some(cost) = shown.cost {
                        let true_cost = (alone(value) - alone(best)).exp_m1();
                        asked += 1;
                        held += usize::from(cost.low <= true_cost && true_cost <= cost.high);
                    }
                }
            }
        }
        let rate = f64::from(held as u32) / f64::from(asked);
        assert!(rate >= 0.92, "{held} of {asked} after {trials} trials");
    }
}

#[test]
fn constraints_are_kept_when_shares_are_taken() {
    // B only exists with A on: what it does counts where it can be chosen.
    let tunables = vec![switch("A"), ints("B", &[1, 2, 3, 4]), ints("C", &[1, 2])];
    let all = Space::build(
        tunables.clone(),
        Vec::new(),
        Vec::new(),
        BuildLimits::default(),
    )
    .unwrap();
    let valid: Vec<Config> = all.iter().filter(|c| c.0[0] == 1 || c.0[1] == 0).collect();
    let space = std::sync::Arc::new(all.restricted_to(valid.clone(), "rule"));
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let tried = (0..40).map(|at| {
        let config = valid[at % valid.len()].clone();
        let log = 0.3 * f64::from(config.0[1]) + 0.005 * noise(&mut rng);
        (config, Some(1e5 * log.exp()))
    });
    let effects = Effects::of(&Observations::of_configs(&space, tried));
    assert_eq!(effects.tunables[0].tunable, "B");
    assert!(effects.tunables[0].share > 0.5);
    assert!(of(&effects, "A").share < 0.2, "{}", of(&effects, "A").share);
}

#[test]
fn costs_turn_around() {
    let cost = Cost {
        change: 0.25,
        low: 0.0,
        high: 1.0,
    };
    let back = cost.reversed();
    assert!((back.change + 0.2).abs() < 1e-12);
    assert_eq!((back.low, back.high), (-0.5, 0.0));
    assert!(!cost.is_clear());
}
