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
        doubts: Vec::new(),
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

/// Searches where the first tunable's last three values should fail, by a lesson or without one. Of the first 30 trials
/// how many were there, and whether the fastest corner, which lies there, was ever tried in 60.
fn doubting(lesson: bool, it_is_true: bool) -> (usize, bool) {
    let space = space(&[6, 6, 6, 6], &[], BuildLimits::default());
    let names: Vec<String> = space.tunables().iter().map(|t| t.name.clone()).collect();
    let when = crate::expression::Expr::parse("T0 >= 3").unwrap();
    let doubt = Doubt {
        when: when.bind(&names).unwrap(),
        failed: 40.0,
        worked: 0.0,
    };
    let setup = Setup {
        seed_trials: 20,
        doubts: if lesson { vec![doubt] } else { Vec::new() },
        ..Setup::default()
    };
    let mut strategy = strategy_with("auto", Arc::clone(&space), 7, &setup).unwrap();
    let (mut there, mut corner) = (0, false);
    for trial in 0..60 {
        let config = strategy.ask(1).remove(0);
        let at = |i: usize| f64::from(config.0[i]);
        let is_doubted = at(0) >= 3.0;
        there += usize::from(is_doubted && trial < 30);
        corner |= at(0) == 5.0 && at(1) >= 4.0;
        let ns = 2000.0 - 100.0 * at(0) - 90.0 * at(1) - 50.0 * at(2) + 30.0 * (at(3) - 2.0).abs();
        let outcome = match is_doubted && it_is_true {
            true => failed(),
            false => measured(ns),
        };
        strategy.tell(&config, &outcome);
    }
    (there, corner)
}

#[test]
fn a_lesson_is_believed_and_put_to_the_test() {
    let (with, _) = doubting(true, true);
    let (without, _) = doubting(false, true);
    assert!(with >= 1, "it is put to the test");
    assert!(
        2 * with <= without,
        "{with} of 30 failed, {without} without the lesson"
    );
    let (_, corner) = doubting(true, false);
    assert!(corner, "the fastest lie where the lesson is wrong");
}
