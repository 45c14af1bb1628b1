//! Promises that need a fixed example.

use super::*;

#[test]
fn a_hotspot_like_space_has_the_known_count() {
    // The hotspot kernel of the auto-tuning literature; Kernel Tuner 1.5.0 finds as many configs.
    // The loop below is a brute force with the independent tunables factored out.
    let mut block_x = vec![1, 2, 4, 8, 16];
    block_x.extend((1..=32).map(|i| 32 * i));
    let tunables = vec![
        tunable("bx", block_x.clone()),
        tunable("by", [1, 2, 4, 8, 16, 32]),
        tunable("tx", 1..=10),
        tunable("ty", 1..=10),
        tunable("steps", 1..=10),
        tunable("unroll", 1..=10),
        tunable("shared", [0, 1]),
        tunable("per_sm", 0..=4),
        tunable("grid", [4096]),
    ];
    let tile = "(bx*tx + steps*2) * (by*ty + steps*2) * (2 + shared) * 4";
    let space = space(
        tunables,
        &[
            "32 <= bx * by <= 1024",
            "steps % unroll == 0",
            &format!("gate: {tile} <= 49152"),
            &format!("gate: per_sm == 0 or {tile} * per_sm <= 102400"),
        ],
    );
    let mut expected = 0;
    for &bx in &block_x {
        for by in [1, 2, 4, 8, 16, 32] {
            if !(32..=1024).contains(&(bx * by)) {
                continue;
            }
            for rest in 0..2000_i64 {
                let (tx, ty) = (rest % 10 + 1, rest / 10 % 10 + 1);
                let (steps, shared) = (rest / 100 % 10 + 1, rest / 1000);
                let bytes = (bx * tx + steps * 2) * (by * ty + steps * 2) * (2 + shared) * 4;
                if bytes <= 49152 {
                    let unrolls = (1..=10).filter(|u| steps % u == 0).count();
                    let per_sm = (0..=4).filter(|&b| b == 0 || bytes * b <= 102_400).count();
                    expected += unrolls * per_sm;
                }
            }
        }
    }
    assert_eq!(space.cartesian(), 22_200_000);
    assert_eq!(space.count(), Some(expected as u128));
    assert_eq!(space.count(), Some(349_853));
    let removed: u128 = space.removals().iter().map(|r| r.removed).sum();
    assert_eq!(removed, 22_200_000 - 349_853);
    let middle = space.config(123_456).unwrap();
    assert_eq!(space.index_of(&middle), Some(123_456));
}

#[test]
fn free_tunables_cost_nothing_and_counts_stay_exact() {
    let mut tunables: Vec<Tunable> = (0..30).map(|i| tunable(&format!("F{i}"), 0..10)).collect();
    tunables.push(tunable("A", 0..10));
    tunables.push(tunable("B", 0..10));
    let space = space(tunables, &["A < B"]);
    let free = 10_u128.pow(30);
    assert_eq!(space.count(), Some(45 * free));
    assert_eq!(space.removals()[0].removed, 55 * free);
    let index = 44 * free + 12_345_678_901_234_567_890;
    assert_eq!(space.index_of(&space.config(index).unwrap()), Some(index));
    assert_eq!(space.config(45 * free), None);
    let design = space.latin_hypercube(20, &mut rng(1));
    for t in 0..30 {
        for position in 0..10 {
            assert_eq!(design.iter().filter(|c| c.0[t] == position).count(), 2);
        }
    }
}

#[test]
fn more_configs_than_fit_are_still_sampled() {
    let tunables: Vec<Tunable> = (0..60).map(|i| tunable(&format!("F{i}"), 0..10)).collect();
    let space = space(tunables, &["F0 < F1"]);
    assert_eq!(space.cartesian(), u128::MAX);
    assert_eq!(space.count(), None);
    assert!(space.contains(&space.sample(&mut rng(3)).unwrap()));
    assert_eq!(space.iter().count(), 0);
}

/// The chi-square statistic over its degrees of freedom; near 1 for a uniform sample.
fn unevenness(space: &Space, valid: &[Config], draws: usize) -> f64 {
    let mut counts = vec![0_u32; valid.len()];
    let mut rng = rng(11);
    for _ in 0..draws {
        let config = space.sample(&mut rng).unwrap();
        counts[valid.iter().position(|c| *c == config).unwrap()] += 1;
    }
    let expected = draws as f64 / valid.len() as f64;
    let chi_square: f64 = counts
        .iter()
        .map(|&n| (f64::from(n) - expected).powi(2) / expected)
        .sum();
    chi_square / (valid.len() - 1) as f64
}

#[test]
fn samples_are_uniform() {
    let tunables = || {
        vec![
            tunable("A", 0..8),
            tunable("B", 0..8),
            tunable("C", 0..3),
            tunable("D", 0..2),
        ]
    };
    let rules = ["A * B < 12", "A != 3 or C == 1"];
    let listed = space(tunables(), &rules);
    let valid: Vec<Config> = listed.iter().collect();
    // With 200-odd degrees of freedom 1.35 is beyond the 99.9th percentile.
    assert!(unevenness(&listed, &valid, 20_000) < 1.35);
    // Not exactly uniform when implicit, but no config is far from its share.
    let limits = BuildLimits { rows: 5, nodes: 50 };
    let implicit = build(tunables(), &rules, limits).unwrap();
    assert!(!implicit.is_enumerated());
    assert!(unevenness(&implicit, &valid, 20_000) < 5.0);
}

#[test]
fn designs_are_balanced_as_far_as_rules_allow() {
    let tunables = vec![
        tunable("A", [16, 32, 64, 128, 256]),
        tunable("B", [1, 2, 4, 8]),
        tunable("C", 0..3),
        tunable("D", 0..100),
    ];
    let space = space(tunables, &["A * B <= 512", "B != 8 or C < 2"]);
    for seed in 0..20 {
        let design = space.latin_hypercube(60, &mut rng(seed));
        for (t, tunable) in space.tunables().iter().enumerate().take(3) {
            let fair = 60 / tunable.values.len();
            for position in 0..tunable.values.len() {
                let uses = design.iter().filter(|c| usize::from(c.0[t]) == position);
                let uses = uses.count();
                assert!(
                    uses.abs_diff(fair) <= 3,
                    "`{}` position {position}: {uses} uses, fair {fair}",
                    tunable.name
                );
            }
        }
        // 100 free values in 60 strata: each stratum exactly once.
        let strata: BTreeSet<usize> = design
            .iter()
            .map(|c| usize::from(c.0[3]) * 60 / 100)
            .collect();
        assert_eq!(strata.len(), 60);
    }
}

#[test]
fn errors_are_found_whatever_the_order() {
    let ab = |flip: bool| {
        let mut tunables = vec![tunable("A", 0..4), tunable("B", 0..3), tunable("C", 0..2)];
        if flip {
            tunables.reverse();
        }
        tunables
    };
    for flip in [false, true] {
        let limits = BuildLimits::default();
        let error = build(ab(flip), &["A % B == 0"], limits).unwrap_err();
        let SpaceError::Rule {
            rule,
            error,
            values,
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            (rule.as_str(), error),
            ("A % B == 0", &EvalError::DivisionByZero)
        );
        assert!(values.contains(&("B".into(), Value::Int(0))));
        // Another rule removes the configs it cannot be evaluated on, whichever comes first.
        for rules in [["A % B == 0", "B > 0"], ["B > 0", "A % B == 0"]] {
            assert_eq!(build(ab(flip), &rules, limits).unwrap().count(), Some(12));
        }
        // Removed only once `C` is known.
        let rules = ["A % B == 0", "B > C and B > 0"];
        assert_eq!(build(ab(flip), &rules, limits).unwrap().count(), Some(8));
        assert!(build(ab(flip), &["A % B == 0", "B >= C"], limits).is_err());
    }
    let error = build(ab(false), &["LIMIT // 0 == 1"], BuildLimits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rule `LIMIT // 0 == 1` cannot be evaluated at LIMIT=4: division by zero"
    );
}

#[test]
fn bad_definitions_are_named() {
    let fails = |tunables: Vec<Tunable>| {
        let built = build(tunables, &[], BuildLimits::default());
        built.unwrap_err().to_string()
    };
    assert_eq!(fails(vec![tunable("A", 0..0)]), "tunable `A` has no values");
    assert_eq!(
        fails(vec![tunable("A", [1, 1])]),
        "tunable `A` lists `1` twice"
    );
    let twice = vec![tunable("A", 0..2), tunable("A", 0..2)];
    assert_eq!(fails(twice), "the name `A` is used twice");
    assert_eq!(
        fails(vec![tunable("LIMIT", 0..2)]),
        "the name `LIMIT` is used twice"
    );
    let many = fails(vec![tunable("A", 0..70_000)]);
    assert_eq!(many, "tunable `A` has 70000 values; the most is 65536");
    assert_eq!(
        space(vec![tunable("A", 0..65_536)], &["A != 7"]).count(),
        Some(65_535)
    );
}

#[test]
fn no_tunables_and_no_configs() {
    let one = space(Vec::new(), &["LIMIT == 4"]);
    assert_eq!(one.count(), Some(1));
    assert_eq!(one.iter().count(), 1);
    assert_eq!(one.latin_hypercube(5, &mut rng(0)).len(), 1);
    assert!(one.neighbours(&one.config(0).unwrap()).is_empty());
    for rules in [["LIMIT == 5"], ["A > 9"]] {
        let none = space(vec![tunable("A", 0..3), tunable("B", 0..2)], &rules);
        assert_eq!(none.count(), Some(0));
        assert_eq!(none.iter().count(), 0);
        assert_eq!(none.sample(&mut rng(0)), None);
        assert!(none.latin_hypercube(5, &mut rng(0)).is_empty());
        assert_eq!(none.removals()[0].removed, 6);
    }
}

#[test]
fn configs_are_found_by_name() {
    let half = Tunable {
        name: "HALF".into(),
        values: vec![Value::Float(1.0), Value::Float(0.5)],
    };
    let space = space(vec![tunable("BLOCK_M", [16, 32]), half], &[]);
    let given = |pairs: &[(&str, Value)]| {
        let pairs: Vec<(String, Value)> = pairs
            .iter()
            .map(|(n, v)| (n.to_string(), v.clone()))
            .collect();
        space.config_from(&pairs)
    };
    let config = given(&[("HALF", Value::Int(1)), ("BLOCK_M", Value::Int(32))]).unwrap();
    assert_eq!(config, Config([1, 0].into()));
    let error = given(&[("BLOK_M", Value::Int(32))]).unwrap_err();
    assert_eq!(error.hint().as_deref(), Some("did you mean `BLOCK_M`?"));
    let error = given(&[("BLOCK_M", Value::Int(32))]).unwrap_err();
    assert_eq!(error.to_string(), "tunable `HALF` has no value");
    let error = given(&[("BLOCK_M", Value::Int(33))]).unwrap_err();
    assert_eq!(error.to_string(), "tunable `BLOCK_M` cannot be `33`");
    assert_eq!(error.hint().as_deref(), Some("its values are 16, 32"));
}

#[test]
fn ids_follow_names_and_values_only() {
    let ab = space(vec![tunable("A", [1, 2]), tunable("B", [3, 4])], &[]);
    let ba = space(vec![tunable("B", [4]), tunable("A", [0, 1])], &["A == 1"]);
    let id = ab.id(&Config([0, 1].into()));
    assert_eq!(id, ba.id(&Config([0, 1].into())));
    assert_ne!(id, ab.id(&Config([1, 1].into())));
    assert_eq!(id.to_string().len(), 32);
    assert_eq!(id.to_string().parse(), Ok(id));
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(json, format!("\"{id}\""));
    assert_eq!(serde_json::from_str::<ConfigId>(&json).unwrap(), id);
}

#[test]
fn a_restricted_space_has_only_the_given_configs() {
    let space = space(
        vec![
            tunable("a", 1..=4),
            tunable("b", 1..=4),
            tunable("c", 1..=3),
        ],
        &["a * b <= LIMIT"],
    );
    let all: Vec<Config> = space.iter().collect();
    assert_eq!(all.len(), 8 * 3);
    let invalid = space.config_from(&[
        ("a".into(), Value::Int(4)),
        ("b".into(), Value::Int(4)),
        ("c".into(), Value::Int(1)),
    ]);
    // In any order, some twice, one that breaks a rule.
    let given = all.iter().rev().step_by(5).chain(&all[..2]).cloned();
    let few = space.restricted_to(given.clone().chain(given).chain(invalid), "elsewhere");
    let kept: Vec<Config> = few.iter().collect();
    let expected: Vec<Config> = all
        .iter()
        .enumerate()
        .filter(|(i, _)| *i < 2 || (all.len() - 1 - i).is_multiple_of(5))
        .map(|(_, config)| config.clone())
        .collect();
    assert_eq!(kept, expected);
    for config in &all {
        assert_eq!(few.contains(config), kept.contains(config));
        assert!(few.neighbours(config).iter().all(|n| kept.contains(n)));
    }
    for seed in 0..20 {
        assert!(kept.contains(&few.sample(&mut rng(seed)).unwrap()));
        let mut design = few.latin_hypercube(99, &mut rng(seed));
        design.sort();
        let mut sorted = kept.clone();
        sorted.sort();
        assert_eq!(design, sorted);
    }
    let removed: u128 = few.removals().iter().map(|r| r.removed).sum();
    assert_eq!(removed, few.cartesian() - kept.len() as u128);
    let lost = few.removals().last().unwrap();
    assert_eq!(
        (lost.name.as_str(), lost.removed),
        ("elsewhere", 24 - kept.len() as u128)
    );

    let whole = space.restricted_to(all.clone(), "elsewhere");
    assert_eq!(whole.removals(), space.removals());
    assert_eq!(space.restricted_to([], "elsewhere").count(), Some(0));
}

#[test]
fn a_space_too_large_to_list_can_be_restricted() {
    let limits = BuildLimits { rows: 4, nodes: 9 };
    let tunables = vec![tunable("a", 1..=50), tunable("b", 1..=50)];
    let space = build(tunables, &["a <= b"], limits).unwrap();
    assert_eq!(space.count(), None);
    let drawn: BTreeSet<Config> = (0..9).filter_map(|s| space.sample(&mut rng(s))).collect();
    let few = space.restricted_to(drawn.clone(), "elsewhere");
    assert_eq!(few.iter().collect::<BTreeSet<_>>(), drawn);
}
