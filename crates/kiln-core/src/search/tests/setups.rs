//! What a search begins with: earlier studies, and seconds that are scarce.

use super::*;

/// A slower device, a little unlike: every third time is off by a tenth.
fn elsewhere(config: &Config) -> Outcome {
    let off = if config.0.iter().sum::<u16>() % 3 == 0 {
        1.1
    } else {
        1.0
    };
    match synthetic(config).median_ns() {
        Some(ns) => measured(3.0 * off * ns),
        None => failed(),
    }
}

fn setup(earlier: Vec<(Config, Outcome)>, by_time: bool) -> Setup {
    let earlier = earlier
        .into_iter()
        .map(|(config, outcome)| (config, outcome.median_ns()))
        .collect();
    Setup {
        seed_trials: 10,
        earlier,
        by_time,
    }
}

/// Asks, tells cost and outcome, and gives back what was asked and the best time.
fn drive(strategy: &mut dyn Strategy, trials: usize) -> (Vec<(Config, Outcome)>, f64) {
    let mut all = Vec::new();
    let mut best = f64::INFINITY;
    for _ in 0..trials {
        let config = strategy.ask(1).remove(0);
        let outcome = synthetic(&config);
        best = best.min(outcome.median_ns().unwrap_or(f64::INFINITY));
        strategy.spent(&config, seconds(&config));
        strategy.tell(&config, &outcome);
        all.push((config, outcome));
    }
    (all, best)
}

/// The last tunable has no effect on time but a large one on cost.
fn seconds(config: &Config) -> f64 {
    [1.0, 4.0, 16.0][usize::from(config.0[6])]
}

#[test]
fn an_earlier_study_helps_and_a_false_one_does_little_harm() {
    let space = synthetic_space();
    let gap = |earlier: &dyn Fn(u64) -> Vec<(Config, Outcome)>| -> f64 {
        let distance = |seed: u64| {
            let setup = setup(earlier(seed), false);
            let mut auto = strategy_with("auto", space.clone(), seed, &setup).unwrap();
            (drive(auto.as_mut(), 25).1 / 1000.0).ln()
        };
        (0..20).map(distance).sum::<f64>() / 20.0
    };
    let told = |seed: u64, outcome: &dyn Fn(&Config) -> Outcome| {
        let configs = new("random", &space, 100 + seed).ask(150);
        let pairs = configs.into_iter().map(|c| (c.clone(), outcome(&c)));
        pairs.collect::<Vec<_>>()
    };
    let cold = gap(&|_| Vec::new());
    let warm = gap(&|seed| told(seed, &elsewhere));
    let misled = gap(&|seed| {
        told(seed, &|config| match synthetic(config).median_ns() {
            Some(ns) => measured(1e9 / ns),
            None => failed(),
        })
    });
    assert!(warm < 0.6 * cold, "warm {warm:.3}, cold {cold:.3}");
    // The worst there can be, every order reversed, is still better than to search by chance.
    let chance = (0..20).map(|seed| (best_after("random", &space, seed, 25) / 1000.0).ln());
    let chance = chance.sum::<f64>() / 20.0;
    assert!(
        misled < 0.7 * chance,
        "misled {misled:.3}, chance {chance:.3}"
    );
}

#[test]
fn where_seconds_are_scarce_cheap_configs_are_preferred() {
    let space = synthetic_space();
    let spent = |by_time: bool| -> f64 {
        let total = |seed: u64| {
            let setup = setup(Vec::new(), by_time);
            let mut auto = strategy_with("auto", space.clone(), seed, &setup).unwrap();
            let (all, _) = drive(auto.as_mut(), 60);
            all.iter().map(|(config, _)| seconds(config)).sum::<f64>()
        };
        (0..5).map(total).sum()
    };
    let (aware, blind) = (spent(true), spent(false));
    assert!(
        aware < 0.7 * blind,
        "aware {aware:.0} s, blind {blind:.0} s"
    );
}

#[test]
fn earlier_trials_and_costs_resume_too() {
    let space = synthetic_space();
    let earlier = drive(new("random", &space, 9).as_mut(), 40).0;
    let setup = setup(earlier, true);
    let begin = || strategy_with("auto", space.clone(), 5, &setup).unwrap();
    let mut original = begin();
    let (all, _) = drive(original.as_mut(), 30);
    let mut resumed = begin();
    for (config, outcome) in &all {
        resumed.spent(config, seconds(config));
        resumed.tell(config, outcome);
    }
    assert_eq!(original.ask(5), resumed.ask(5));
}
