//! Failures whose cause is known.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::expression::Expr;
use crate::protocol::DeviceError;
use crate::trial::{CompileFailure, Crash, CrashCause, Measurement, Phase, SampleStop};

fn measured() -> Outcome {
    Outcome::Measured(Measurement {
        samples_ns: vec![1e5],
        batch: 1,
        stop: SampleStop::Precise,
        error_ratio: 0.0,
        conditions: None,
    })
}

fn crashed(cause: CrashCause) -> Outcome {
    Outcome::Crashed(Crash {
        phase: Phase::Check,
        shape: None,
        cause,
        output: String::new(),
    })
}

fn misaligned() -> Outcome {
    crashed(CrashCause::Device(DeviceError {
        code: 716,
        name: "CUDA_ERROR_MISALIGNED_ADDRESS".into(),
    }))
}

fn not_compiled(error: &str) -> Outcome {
    Outcome::NotCompiled(CompileFailure {
        first_error: error.into(),
        log: String::new(),
    })
}

fn int(config: &Assignment, name: &str) -> i64 {
    match config.iter().find(|(n, _)| n == name).map(|(_, v)| v) {
        Some(Value::Int(value)) => *value,
        Some(Value::Bool(value)) => i64::from(*value),
        other => panic!("{name} is {other:?}"),
    }
}

fn tunables() -> Vec<Tunable> {
    let ints = |name: &str, values: &[i64]| Tunable {
        name: name.into(),
        values: values.iter().copied().map(Value::Int).collect(),
    };
    vec![
        ints("BLOCK_M", &[32, 64, 128, 256]),
        ints("BLOCK_N", &[32, 64, 128]),
        ints("NUM_WARPS", &[2, 4, 8]),
        ints("STAGES", &[1, 2, 3, 4]),
        Tunable {
            name: "CP_ASYNC".into(),
            values: vec![Value::Bool(false), Value::Bool(true)],
        },
        Tunable {
            name: "LAYOUT".into(),
            values: ["row", "column", "it's"]
                .map(|s| Value::Text(s.into()))
                .to_vec(),
        },
    ]
}

/// Random trials, and how they end.
fn trials(
    count: usize,
    seed: u64,
    ends: impl Fn(&Assignment, &mut ChaCha8Rng) -> Outcome,
) -> Vec<Trial> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (1..=count as u64)
        .map(|number| {
            let config: Assignment = tunables()
                .into_iter()
                .map(|t| {
                    let at = rng.random_range(0..t.values.len());
                    (t.name, t.values[at].clone())
                })
                .collect();
            Trial {
                number,
                outcome: ends(&config, &mut rng),
                config,
                skipped_shapes: Vec::new(),
                compile: None,
                run_ms: 0.0,
                spent: None,
            }
        })
        .collect()
}

fn failures(trials: &[Trial]) -> Failures {
    Failures::of(
        &tunables(),
        &[],
        &[],
        trials.iter().map(|t| (t, &t.outcome)),
    )
}

/// What a constraint says of a config, by kiln's own parser.
fn allows(constraint: &str, config: &Assignment) -> bool {
    let names: Vec<&str> = config.iter().map(|(name, _)| name.as_str()).collect();
    let values: Vec<Value> = config.iter().map(|(_, value)| value.clone()).collect();
    let bound = Expr::parse(constraint).unwrap().bind(&names).unwrap();
    bound.eval(&values).unwrap().is_truthy()
}

#[test]
fn one_value_is_one_condition() {
    let trials = trials(160, 1, |config, _| match int(config, "BLOCK_M") == 64 {
        true => measured(),
        false => misaligned(),
    });
    let found = failures(&trials);
    let group = &found.groups[0];
    let rule = group.rule.as_ref().unwrap();
    assert_eq!(rule.when, "BLOCK_M != 64");
    assert!(rule.is_exact());
    assert_eq!(
        group.sentence,
        format!(
            "misaligned address <= BLOCK_M != 64, {0} of {0} and none of {1} that work",
            group.failed, found.working
        )
    );
    let constraint = rule.constraint.as_ref().unwrap();
    assert_eq!(constraint.line, "no_misaligned_address = \"BLOCK_M == 64\"");
}

#[test]
fn the_planted_fault_is_two_conditions() {
    let trials = trials(120, 2, |config, _| {
        match int(config, "BLOCK_M") == 64 && int(config, "NUM_WARPS") == 4 {
            true => measured(),
            false => crashed(CrashCause::Signal { signal: 11 }),
        }
    });
    let found = failures(&trials);
    let rule = found.groups[0].rule.as_ref().unwrap();
    assert_eq!(rule.when, "BLOCK_M != 64 or NUM_WARPS != 4");
    let constraint = rule.constraint.as_ref().unwrap();
    assert_eq!(constraint.expression, "BLOCK_M == 64 and NUM_WARPS == 4");
    assert_eq!(constraint.name, "no_crashed");
}

#[test]
fn limits_and_remainders_are_found() {
    let product = trials(120, 3, |config, _| {
        match int(config, "BLOCK_M") * int(config, "BLOCK_N") > 8192 {
            true => crashed(CrashCause::OutOfMemory { bytes: 1 }),
            false => measured(),
        }
    });
    let found = failures(&product);
    let rule = found.groups[0].rule.as_ref().unwrap();
    assert_eq!(rule.when, "BLOCK_M * BLOCK_N >= 16384");
    let within = trials(120, 4, |config, _| {
        match int(config, "BLOCK_M") < int(config, "BLOCK_N") {
            true => misaligned(),
            false => measured(),
        }
    });
    assert_eq!(
        failures(&within).groups[0].rule.as_ref().unwrap().when,
        "BLOCK_M < BLOCK_N"
    );
    let text = trials(120, 5, |config, _| match &config[5].1 {
        Value::Text(text) if text == "it's" => misaligned(),
        _ => measured(),
    });
    let rule = failures(&text).groups[0].rule.clone().unwrap();
    assert_eq!(rule.when, "LAYOUT == \"it's\"");
    let line = rule.constraint.unwrap().line;
    let parsed: toml::Table = toml::from_str(&line).unwrap();
    let expression = parsed["no_misaligned_address"].as_str().unwrap();
    assert!(
        text.iter()
            .all(|t| allows(expression, &t.config) == (t.outcome.measurement().is_some()))
    );
}

/// The line that is offered is one of a manifest that kiln reads, and keeps out what failed.
#[test]
fn a_manifest_takes_the_line() {
    let trials = trials(120, 2, |config, _| {
        match int(config, "BLOCK_M") == 64 && int(config, "NUM_WARPS") == 4 {
            true => measured(),
            false => misaligned(),
        }
    });
    let constraint = failures(&trials).constraints()[0].clone();
    let text = include_str!("../manifest/tests/saxpy.toml");
    let tunables = "[tunables]\nBLOCK_M = [32, 64]\nNUM_WARPS = [2, 4]\n";
    let text = text.replacen("[tunables]\n", tunables, 1);
    let text = match text.contains("[constraints]\n") {
        true => text.replacen(
            "[constraints]\n",
            &format!("[constraints]\n{}\n", constraint.line),
            1,
        ),
        false => format!("{text}\n[constraints]\n{}\n", constraint.line),
    };
    let manifest = crate::manifest::Manifest::parse(&text).unwrap();
    let read = manifest
        .constraints
        .iter()
        .find(|c| c.name == constraint.name);
    assert_eq!(
        read.unwrap().expr.text(),
        "BLOCK_M == 64 and NUM_WARPS == 4"
    );
}

#[test]
fn each_kind_has_its_own_rule() {
    let trials = trials(200, 6, |config, _| {
        let stages = int(config, "STAGES");
        match (int(config, "NUM_WARPS"), stages) {
            (8, _) => misaligned(),
            (_, 4) => not_compiled(&format!(
                "k.cu(3): error: tile of {} is too large",
                int(config, "BLOCK_M")
            )),
            _ => measured(),
        }
    });
    let found = failures(&trials);
    assert_eq!(found.groups.len(), 2);
    let rule = |reason: &str| {
        let group = found.groups.iter().find(|g| g.reason == reason).unwrap();
        group.rule.as_ref().unwrap().when.clone()
    };
    assert_eq!(rule("misaligned_address"), "NUM_WARPS == 8");
    assert_eq!(rule("not_compiled"), "STAGES == 4");
    assert_eq!(found.constraints().len(), 2);
    assert_eq!(found.together, None);
}

#[test]
fn one_cause_that_shows_in_two_ways_is_one_rule() {
    let trials = trials(120, 7, |config, rng| {
        match (int(config, "CP_ASYNC"), rng.random_range(0..2)) {
            (1, 0) => misaligned(),
            (1, _) => crashed(CrashCause::Signal { signal: 11 }),
            _ => measured(),
        }
    });
    let found = failures(&trials);
    // Every kind meets it, so each says it by itself; the constraint is offered once.
    assert!(
        found
            .groups
            .iter()
            .all(|g| g.rule.as_ref().unwrap().when == "CP_ASYNC == true")
    );
    assert_eq!(found.constraints().len(), 1);
}

#[test]
fn a_rule_with_exceptions_offers_no_constraint_that_costs_working_configs() {
    let trials = trials(200, 8, |config, rng| {
        let is_bad = int(config, "STAGES") == 4 && rng.random_range(0..10) > 0;
        if is_bad { misaligned() } else { measured() }
    });
    let found = failures(&trials);
    let rule = found.groups[0].rule.as_ref().unwrap();
    assert!(!rule.is_exact());
    assert_eq!(rule.constraint.is_some(), rule.working_met == 0);
    assert!(
        found.groups[0].sentence.contains("but also"),
        "{}",
        found.groups[0].sentence
    );
}

#[test]
fn what_was_never_tried_is_said() {
    let mut trials = trials(120, 9, |config, _| match int(config, "BLOCK_M") == 64 {
        true => measured(),
        false => misaligned(),
    });
    trials.retain(|t| int(&t.config, "BLOCK_M") != 256);
    let found = failures(&trials);
    let rule = found.groups[0].rule.as_ref().unwrap();
    assert_eq!(rule.untried, ["BLOCK_M=256"]);
    assert!(
        found.groups[0]
            .sentence
            .ends_with("(never tried: BLOCK_M=256)")
    );
}

#[test]
fn a_name_that_is_taken_is_not_given_again() {
    let trials = trials(100, 10, |config, _| match int(config, "STAGES") {
        4 => misaligned(),
        _ => measured(),
    });
    let ended = || trials.iter().map(|t| (t, &t.outcome));
    let found = Failures::of(&tunables(), &["no_misaligned_address"], &[], ended());
    assert_eq!(found.constraints()[0].name, "no_misaligned_address_2");
}

#[test]
fn without_working_configs_there_is_nothing_to_compare_with() {
    let trials = trials(30, 11, |_, _| misaligned());
    let found = failures(&trials);
    assert_eq!(found.groups[0].rule, None);
    assert!(found.groups[0].sentence.contains("no config works"));
    assert_eq!(failures(&[]).groups, []);
}

/// Failures that have nothing to do with tunables follow no rule, however many rules are tried.
#[test]
fn random_failures_follow_no_rule() {
    let mut said = 0;
    const STUDIES: u64 = 60;
    for seed in 0..STUDIES {
        let (count, one_in) = [(20, 2), (40, 4), (80, 8)][(seed % 3) as usize];
        let trials = trials(count, 1000 + seed, |_, rng| {
            match rng.random_range(0..one_in) {
                0 => misaligned(),
                _ => measured(),
            }
        });
        let groups = failures(&trials).groups;
        said += groups.iter().filter(|g| g.rule.is_some()).count();
    }
    assert!(said as f64 <= 0.05 * STUDIES as f64, "{said} of {STUDIES}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever is found, the constraint reads back and allows exactly the configs that do not meet the rule.
    #[test]
    fn constraints_are_the_opposite_of_their_rules(seed in 0u64..10_000, which in 0usize..6, bound in 0usize..4) {
        let trials = trials(60, seed, |config, _| {
            let values = tunables()[which].values.clone();
            let is_bad = config[which].1 == values[bound % values.len()] || int(config, "STAGES") == 1;
            if is_bad { misaligned() } else { measured() }
        });
        let found = failures(&trials);
        for rule in found.groups.iter().filter_map(|g| g.rule.as_ref()) {
            for trial in &trials {
                let meets = allows(&rule.when, &trial.config);
                if let Some(constraint) = &rule.constraint {
                    prop_assert_eq!(allows(&constraint.expression, &trial.config), !meets);
                    let is_working = trial.outcome.measurement().is_some();
                    prop_assert!(!(meets && is_working));
                }
            }
        }
    }
}

#[test]
fn what_failed_in_another_way_was_tried() {
    let trials = trials(120, 9, |config, _| match int(config, "BLOCK_M") {
        64 => measured(),
        256 => not_compiled("no"),
        _ => misaligned(),
    });
    let found = failures(&trials);
    let rules = found.groups.iter().filter_map(|g| g.rule.as_ref());
    assert!(rules.clone().count() > 0);
    for rule in rules {
        assert!(rule.untried.is_empty(), "{}: {:?}", rule.when, rule.untried);
    }
}

#[test]
fn switches_that_must_agree_are_found() {
    let switch = |name: &str| Tunable {
        name: name.into(),
        values: vec![Value::Bool(false), Value::Bool(true)],
    };
    let listed = [switch("A"), switch("B"), switch("C"), switch("D")];
    let trials: Vec<Trial> = (0..16)
        .map(|number: u64| {
            let on = |bit: u64| Value::Bool(number >> bit & 1 == 1);
            let names = ["A", "B", "C", "D"].into_iter().zip(0..);
            let config = names
                .map(|(name, bit)| (name.to_string(), on(bit)))
                .collect();
            let outcome = match (number & 1) == (number >> 1 & 1) {
                true => measured(),
                false => misaligned(),
            };
            Trial {
                number: number + 1,
                outcome,
                config,
                skipped_shapes: Vec::new(),
                compile: None,
                run_ms: 0.0,
                spent: None,
            }
        })
        .collect();
    let ended = trials.iter().map(|t| (t, &t.outcome));
    let found = Failures::of(&listed, &[], &[], ended);
    let rule = found.groups[0].rule.as_ref().unwrap();
    assert_eq!(rule.when, "A != B");
    assert_eq!(rule.constraint.as_ref().unwrap().expression, "A == B");
}
