//! One conformance suite for every strategy, and that learning pays.

use proptest::prelude::{ProptestConfig, prop_assert, proptest};

use super::*;
use crate::expression::Expr;
use crate::space::{BuildLimits, Rule, RuleKind, Tunable};
use crate::trial::{CompileFailure, Measurement, SampleStop};
use crate::value::Value;

mod setups;

fn space(sizes: &[i64], rules: &[&str], limits: BuildLimits) -> Arc<Space> {
    let tunables: Vec<Tunable> = sizes
        .iter()
        .enumerate()
        .map(|(i, &size)| Tunable {
            name: format!("T{i}"),
            values: (0..size).map(Value::Int).collect(),
        })
        .collect();
    let scope: Vec<&str> = tunables.iter().map(|t| t.name.as_str()).collect();
    let rules = rules
        .iter()
        .map(|text| Rule {
            name: text.to_string(),
            kind: RuleKind::Constraint,
            expr: Expr::parse(text).unwrap().bind(&scope).unwrap(),
        })
        .collect();
    Arc::new(Space::build(tunables, Vec::new(), rules, limits).unwrap())
}

/// 4 * 5 * 3 * 2 configs without those the rules remove: 72.
fn small() -> Arc<Space> {
    let rules = ["T0 + T1 < 6", "T2 != 1 or T3 == 0 or T0 > 1"];
    space(&[4, 5, 3, 2], &rules, BuildLimits::default())
}

fn measured(ns: f64) -> Outcome {
    Outcome::Measured(Measurement {
        samples_ns: vec![ns],
        batch: 1,
        stop: SampleStop::Precise,
        error_ratio: 0.0,
        conditions: None,
    })
}

fn failed() -> Outcome {
    Outcome::NotCompiled(CompileFailure {
        first_error: "no".into(),
        log: String::new(),
    })
}

/// Some work, some do not; the time depends on every tunable.
fn mixed(config: &Config) -> Outcome {
    let sum: f64 = (1..).zip(&*config.0).map(|(i, &p)| f64::from(i * p)).sum();
    match sum as u64 % 5 {
        0 => failed(),
        _ => measured(100.0 + sum),
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    STRATEGIES.iter().map(|(name, _)| *name)
}

fn new(name: &str, space: &Arc<Space>, seed: u64) -> Box<dyn Strategy + Send> {
    strategy(name, space.clone(), seed, 10).unwrap()
}

/// Asks in batches until nothing comes, telling everything after each batch.
fn run(
    name: &str,
    space: &Arc<Space>,
    seed: u64,
    batch: usize,
    outcome: impl Fn(&Config) -> Outcome,
) -> Vec<Config> {
    let mut strategy = new(name, space, seed);
    let mut all = Vec::new();
    loop {
        let asked = strategy.ask(batch);
        assert!(asked.len() <= batch);
        if asked.is_empty() {
            assert!(strategy.ask(3).is_empty(), "`{name}` came back to life");
            return all;
        }
        for config in &asked {
            strategy.tell(config, &outcome(config));
        }
        all.extend(asked);
    }
}

#[test]
fn every_strategy_exhausts_exactly_the_space() {
    let space = small();
    let mut valid: Vec<Config> = space.iter().collect();
    valid.sort();
    for name in names() {
        for (batch, seed) in [(1, 1), (7, 2), (1000, 3)] {
            for outcome in [mixed, |_: &Config| failed(), |_: &Config| measured(5.0)] {
                let mut asked = run(name, &space, seed, batch, outcome);
                asked.sort();
                assert_eq!(asked, valid, "`{name}`, batches of {batch}");
            }
        }
    }
}

#[test]
fn the_same_seed_asks_the_same() {
    let space = small();
    for name in names() {
        for batch in [1, 5] {
            let first = run(name, &space, 7, batch, mixed);
            assert_eq!(first, run(name, &space, 7, batch, mixed), "`{name}`");
            let other = run(name, &space, 8, batch, mixed);
            assert_eq!(first == other, name == "exhaustive", "`{name}`");
        }
    }
}

#[test]
fn asking_for_four_is_asking_four_times() {
    let space = small();
    for name in names() {
        let (mut at_once, mut one_by_one) = (new(name, &space, 3), new(name, &space, 3));
        for _ in 0..10 {
            let batch = at_once.ask(4);
            let singles: Vec<Config> = (0..4).flat_map(|_| one_by_one.ask(1)).collect();
            assert_eq!(batch, singles, "`{name}`");
            for config in &batch {
                at_once.tell(config, &mixed(config));
                one_by_one.tell(config, &mixed(config));
            }
        }
    }
}

#[test]
fn a_resumed_study_goes_on_as_it_would_have() {
    let space = small();
    for name in names() {
        for trials in [0, 4, 10, 33, 71] {
            let mut original = new(name, &space, 5);
            let mut resumed = new(name, &space, 5);
            for _ in 0..trials {
                let config = original.ask(1).remove(0);
                original.tell(&config, &mixed(&config));
                resumed.tell(&config, &mixed(&config));
            }
            assert_eq!(
                original.ask(3),
                resumed.ask(3),
                "`{name}` after {trials} trials"
            );
        }
    }
}

#[test]
fn told_configs_are_not_asked_again() {
    let space = small();
    for name in names() {
        let mut strategy = new(name, &space, 1);
        for config in space.iter().step_by(2) {
            strategy.tell(&config, &mixed(&config));
        }
        let mut asked = strategy.ask(1000);
        asked.sort();
        let mut left: Vec<Config> = space.iter().skip(1).step_by(2).collect();
        left.sort();
        assert_eq!(asked, left, "`{name}`");
    }
}

#[test]
fn tiny_and_empty_spaces() {
    for name in names() {
        let none = space(&[3], &["T0 > 5"], BuildLimits::default());
        assert!(run(name, &none, 1, 4, mixed).is_empty());
        let one = space(&[3], &["T0 == 1"], BuildLimits::default());
        assert_eq!(run(name, &one, 1, 4, mixed).len(), 1);
        let bare = space(&[], &[], BuildLimits::default());
        assert_eq!(run(name, &bare, 1, 4, mixed).len(), 1);
        let mut idle = strategy(name, one, 1, 0).unwrap();
        assert!(idle.ask(0).is_empty());
        assert_eq!(idle.ask(2).len(), 1);
    }
}

#[test]
fn spaces_that_are_not_enumerated_are_searched_too() {
    let rules: Vec<String> = (0..11).map(|i| format!("T{i} != T{}", i + 1)).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let limits = BuildLimits {
        rows: 1000,
        nodes: 10_000,
    };
    let space = space(&[8; 12], &rules, limits);
    assert_eq!(space.count(), None);
    for name in names() {
        let mut strategy = new(name, &space, 2);
        let mut seen = HashSet::new();
        for _ in 0..10 {
            let asked = strategy.ask(4);
            assert_eq!(asked.len(), 4, "`{name}`");
            for config in asked {
                assert!(space.contains(&config));
                strategy.tell(&config, &mixed(&config));
                assert!(seen.insert(config));
            }
        }
    }
}

#[test]
fn odd_measurements_do_not_confuse() {
    let space = small();
    for name in names() {
        let mut strategy = new(name, &space, 4);
        for (i, ns) in [f64::NAN, 0.0, -1.0, f64::INFINITY, 1e300, 1.0]
            .into_iter()
            .cycle()
            .take(30)
            .enumerate()
        {
            let asked = strategy.ask(1);
            assert_eq!(asked.len(), 1, "`{name}`, trial {i}");
            strategy.tell(&asked[0], &measured(ns));
        }
    }
}

#[test]
fn unknown_names_get_a_hint() {
    let error = strategy("randon", small(), 0, 1).err().unwrap();
    assert_eq!(error.to_string(), "unknown strategy `randon`");
    assert_eq!(error.hint, "did you mean `random`?");
    let error = strategy("simplex", small(), 0, 1).err().unwrap();
    assert!(error.hint.starts_with("known are auto, "));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_mix_of_asks_and_tells_keeps_the_promises(
        steps in proptest::collection::vec((0..5_usize, 0..5_usize), 1..40),
        seed: u64,
        which in 0..STRATEGIES.len(),
    ) {
        let space = small();
        let mut strategy = new(STRATEGIES[which].0, &space, seed);
        let mut seen = HashSet::new();
        let mut open = Vec::new();
        for (ask, tell) in steps {
            for config in strategy.ask(ask) {
                prop_assert!(space.contains(&config));
                prop_assert!(seen.insert(config.clone()));
                open.push(config);
            }
            // Told in another order than asked.
            for _ in 0..tell.min(open.len()) {
                let config = open.pop().unwrap();
                strategy.tell(&config, &mixed(&config));
            }
        }
    }
}

/// Twelve thousand configs: six tunables with an effect of their own, two pairs that interact, one
/// without effect, and a corner that does not compile.
fn synthetic(config: &Config) -> Outcome {
    let x: Vec<f64> = config.0.iter().map(|&p| f64::from(p)).collect();
    if x[0] + x[1] > 10.0 {
        return failed();
    }
    let separable =
        0.08 * (x[0] - 3.0).powi(2) + 0.1 * (x[1] - 5.0).abs() + 0.3 * (x[2] - 1.0).abs();
    let unordered = [0.4, 0.0, 0.7, 0.3][config.0[3] as usize];
    let interaction = 0.15 * (x[0] - x[4]).abs() + 0.25 * f64::from(config.0[5] != config.0[3] % 2);
    measured(1000.0 * (separable + unordered + interaction).exp())
}

fn synthetic_space() -> Arc<Space> {
    space(&[7, 7, 3, 4, 7, 2, 3], &[], BuildLimits::default())
}

fn best_after(name: &str, space: &Arc<Space>, seed: u64, trials: usize) -> f64 {
    let mut strategy = new(name, space, seed);
    let mut best = f64::INFINITY;
    for _ in 0..trials {
        let config = strategy.ask(1).remove(0);
        let outcome = synthetic(&config);
        best = best.min(outcome.median_ns().unwrap_or(f64::INFINITY));
        strategy.tell(&config, &outcome);
    }
    best
}

#[test]
fn learning_beats_chance() {
    let space = synthetic_space();
    let logs = |name: &str| -> Vec<f64> {
        (0..30)
            .map(|seed| (best_after(name, &space, seed, 60) / 1000.0).ln())
            .collect()
    };
    let random = logs("random");
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    // The distance to the optimum, as a logarithm, and the part of it that each may leave of what
    // chance leaves.
    let allowed = [
        ("auto", 0.2),
        ("tpe", 0.5),
        ("forest", 0.5),
        ("genetic", 0.7),
        ("annealing", 0.8),
        ("local", 0.7),
    ];
    for (name, part) in allowed {
        let found = logs(name);
        let (left, chance) = (mean(&found), mean(&random));
        assert!(left < part * chance, "{name} {left:.3}, random {chance:.3}");
    }
    for (name, least) in [("auto", 29), ("tpe", 26)] {
        let wins = logs(name)
            .iter()
            .zip(&random)
            .filter(|(f, r)| f <= r)
            .count();
        assert!(wins >= least, "{name}: {wins} of 30");
    }
}

#[test]
fn failures_are_learned_from() {
    // A third of the configs fails for a reason visible in two tunables.
    let space = space(&[6, 6, 4, 4, 3], &[], BuildLimits::default());
    let fails = |config: &Config| config.0[0] > 2 && config.0[1] > 1;
    let failures = |name: &str| -> usize {
        let count = |seed: u64| {
            let mut strategy = new(name, &space, seed);
            let mut failures = 0;
            for trial in 0..80 {
                let config = strategy.ask(1).remove(0);
                let outcome = match fails(&config) {
                    true => failed(),
                    false => measured(1000.0 + f64::from(config.0[2])),
                };
                // Nothing is learned yet in the ten seed trials.
                failures += usize::from(trial >= 10 && fails(&config));
                strategy.tell(&config, &outcome);
            }
            failures
        };
        (0..10).map(count).sum()
    };
    let random = failures("random");
    for name in ["auto", "tpe", "forest"] {
        let learnt = failures(name);
        assert!(
            3 * learnt < random,
            "{name} {learnt}, random {random} of 700"
        );
    }
}
