use proptest::prelude::*;

use super::*;
use crate::bottleneck::{Cause, Circumstances, Class, without_counters};
use crate::manifest::{Stage, StageKind};

fn names(count: usize) -> Vec<String> {
    ["a", "b", "c", "d", "e", "f"][..count]
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Times around a value, as quiet as a quiet machine: within one part in a thousand.
fn rounds(ns: f64) -> Vec<Vec<f64>> {
    (0..4)
        .map(|round| {
            (0..5)
                .map(|i| ns * (1.0 + 2e-4 * f64::from((round * 5 + i) % 5)))
                .collect()
        })
        .collect()
}

fn timed_as(ns: f64) -> MeasuredResult {
    MeasuredResult::Timed {
        rounds_ns: rounds(ns),
        occupancy: None,
        same_code_as: Vec::new(),
    }
}

/// A kernel whose time without some stages is what `time` says.
fn kernel(count: usize, time: impl Fn(&[String]) -> f64) -> Stages {
    let measured = combinations(&names(count))
        .into_iter()
        .map(|without| Measured {
            result: timed_as(time(&without)),
            without,
        })
        .collect();
    Stages::of(rounds(time(&[])), None, measured, 7)
}

/// Stages one after the other.
fn in_turn(costs: &[f64], rest: f64) -> Stages {
    let all = names(costs.len());
    kernel(costs.len(), |without| {
        let left = all.iter().zip(costs).filter(|(n, _)| !without.contains(n));
        rest + left.map(|(_, cost)| cost).sum::<f64>()
    })
}

/// Stages all at once: the longest is what it takes.
fn side_by_side(costs: &[f64], rest: f64) -> Stages {
    let all = names(costs.len());
    kernel(costs.len(), |without| {
        let left = all.iter().zip(costs).filter(|(n, _)| !without.contains(n));
        rest + left.map(|(_, cost)| *cost).fold(0.0, f64::max)
    })
}

fn relation_of(stages: &Stages, first: &str, second: &str) -> Relation {
    let pair = stages.reading.pairs.iter();
    let mut pair = pair.filter(|p| p.stages == [first.to_string(), second.to_string()]);
    pair.next().expect("the pair was timed").relation
}

fn standing_of(stages: &Stages, name: &str) -> Standing {
    let mut found = stages.reading.stages.iter().filter(|s| s.stage == name);
    found.next().expect("the stage was timed").standing
}

fn known(kinds: &[(&str, Option<StageKind>)]) -> Vec<Stage> {
    kinds
        .iter()
        .map(|(name, kind)| Stage {
            name: name.to_string(),
            flags: vec![format!("-DNO_{name}")],
            kind: *kind,
            span: 0..0,
        })
        .collect()
}

fn nothing_else() -> crate::bottleneck::Diagnosis {
    let timed = without_counters::Timed::default();
    without_counters::on_cpu(&timed, &Circumstances::default())
}

#[test]
fn few_stages_are_left_out_in_pairs_and_all_at_once() {
    let sets = |count| -> Vec<String> {
        combinations(&names(count))
            .into_iter()
            .map(|set| set.concat())
            .collect()
    };
    assert_eq!(sets(0), Vec::<String>::new());
    assert_eq!(sets(1), ["a"]);
    assert_eq!(sets(2), ["a", "b", "ab"]);
    assert_eq!(sets(3), ["a", "b", "c", "ab", "ac", "bc", "abc"]);
    assert_eq!(sets(5), ["a", "b", "c", "d", "e", "abcde"]);
}

#[test]
fn stages_in_turn_cost_what_they_take() {
    let found = in_turn(&[60.0, 6.0], 34.0);
    assert_eq!(found.reading.bound, Bound::Stage { stage: "a".into() });
    assert_eq!(relation_of(&found, "a", "b"), Relation::InTurn);
    assert_eq!(standing_of(&found, "b"), Standing::Costs);
    assert!((found.reading.rest.expect("timed") - 0.34).abs() < 0.01);
    assert!(
        found.reading.doubts.is_empty(),
        "{:?}",
        found.reading.doubts
    );
    assert_eq!(
        found.sentences()[0],
        "without `a` 0.40x of the time [0.40, 0.40]: at most 2.5x to gain there"
    );
}

#[test]
fn what_hides_behind_another_brings_nothing_alone() {
    let found = side_by_side(&[50.0, 49.0], 10.0);
    assert_eq!(standing_of(&found, "b"), Standing::Hidden);
    assert_eq!(standing_of(&found, "a"), Standing::Hidden);
    assert_eq!(relation_of(&found, "a", "b"), Relation::SideBySide);
    assert_eq!(found.reading.bound, Bound::Together { stages: names(2) });
    let told = refine(nothing_else(), &found, &known(&[("a", None), ("b", None)]));
    assert_eq!(
        (told.class, told.cause),
        (Class::Stage, Cause::StagesTogether)
    );
    assert_eq!(told.advice[0].rule, "shrink-stages-together");
    assert!(
        told.evidence[0].starts_with("without `a` and `b` 0.17x"),
        "{:?}",
        told.evidence
    );
    // A long stage hides a short one, and binds.
    let found = side_by_side(&[80.0, 30.0], 10.0);
    assert_eq!(found.reading.bound, Bound::Stage { stage: "a".into() });
    assert_eq!(standing_of(&found, "b"), Standing::Hidden);
}

#[test]
fn a_kernel_that_is_none_of_its_stages_is_bound_by_the_rest() {
    let found = in_turn(&[2.0, 1.0], 97.0);
    assert_eq!(found.reading.bound, Bound::Rest);
    let told = refine(nothing_else(), &found, &[]);
    assert_eq!(
        (told.class, told.cause),
        (Class::Latency, Cause::OutsideStages)
    );
    assert!(told.advice.is_empty());
}

/// Without `a` the compiler sees that nobody needs `b`, and drops it.
#[test]
fn a_compiler_that_drops_more_than_the_stage_is_found_out() {
    let found = kernel(2, |without| {
        let (a, b) = (without.contains(&"a".into()), without.contains(&"b".into()));
        match (a, b) {
            (false, false) => 100.0,
            (false, true) => 70.0,
            (true, _) => 20.0,
        }
    });
    assert_eq!(relation_of(&found, "a", "b"), Relation::Entangled);
    let a = &found.reading.stages[0];
    assert!((a.saving - 0.5).abs() < 0.01, "{a:?}");
    assert!(found.reading.doubts[0].contains("30 % less together"));
    assert_eq!(
        found.sentences()[0],
        "without `a` 0.20x of the time [0.20, 0.20]: at most 2.0x to gain there, for part of another goes with it"
    );

    // Less than without both: what remains cannot be that quick.
    let found = kernel(2, |without| match without.len() {
        0 => 100.0,
        1 if without[0] == "a" => 20.0,
        1 => 80.0,
        _ => 40.0,
    });
    let doubts = &found.reading.doubts;
    assert!(
        doubts
            .iter()
            .any(|d| d.contains("more than the stage is gone")),
        "{doubts:?}"
    );

    // The compiler's own word.
    let mut measured = vec![
        Measured {
            without: vec!["a".into()],
            result: timed_as(20.0),
        },
        Measured {
            without: vec!["b".into()],
            result: timed_as(70.0),
        },
    ];
    measured.push(Measured {
        without: names(2),
        result: MeasuredResult::Timed {
            rounds_ns: rounds(20.0),
            occupancy: None,
            same_code_as: vec!["a".into()],
        },
    });
    let found = Stages::of(rounds(100.0), None, measured, 7);
    assert_eq!(
        found.reading.doubts[0],
        "without `a` the compiler drops `b` too: the machine code is the same"
    );
}

#[test]
fn many_stages_that_save_more_than_all_at_once_are_doubted() {
    let found = kernel(5, |without| match without.len() {
        0 => 100.0,
        1 => 60.0,
        _ => 50.0,
    });
    assert_eq!(found.reading.pairs, []);
    assert!(found.reading.doubts[0].contains("200 % of the time, all at once 50 %"));
}

#[test]
fn what_was_not_timed_is_said_and_not_judged() {
    let of = |result| {
        let measured = vec![Measured {
            without: vec!["a".into()],
            result,
        }];
        Stages::of(rounds(100.0), None, measured, 7)
    };
    let failed = of(MeasuredResult::Failed {
        message: "hung".into(),
    });
    assert_eq!(failed.reading.bound, Bound::Unknown);
    assert_eq!(failed.sentences(), ["without `a`: hung"]);
    let same = of(MeasuredResult::SameCode);
    assert_eq!(same.reading.bound, Bound::Unknown);
    assert!(same.sentences()[0].contains("changes nothing"));
    let told = refine(nothing_else(), &same, &[]);
    assert_eq!(told.cause, Cause::Unexplained);
    let warps = MeasuredResult::Timed {
        rounds_ns: rounds(50.0),
        occupancy: Some(0.5),
        same_code_as: Vec::new(),
    };
    let measured = vec![Measured {
        without: vec!["a".into()],
        result: warps,
    }];
    let found = Stages::of(rounds(100.0), Some(0.25), measured, 7);
    assert!(found.reading.doubts[0].contains("50 % of the warps fit instead of 25 %"));
}

#[test]
fn the_author_says_of_what_kind_a_stage_is() {
    let found = in_turn(&[60.0, 30.0], 10.0);
    let told = |kinds: &[(&str, Option<StageKind>)]| refine(nothing_else(), &found, &known(kinds));
    assert_eq!(told(&[]).class, Class::Stage);
    let kinds = [
        ("a", Some(StageKind::Memory)),
        ("b", Some(StageKind::Compute)),
    ];
    let different = told(&kinds);
    assert_eq!(
        (different.class, different.cause),
        (Class::Memory, Cause::Stage)
    );
    let rules: Vec<&str> = different.advice.iter().map(|a| a.rule.as_str()).collect();
    // What runs in turn on different units could run at once.
    assert_eq!(rules, ["shrink-stage", "shrink-stage", "overlap-stages"]);
    let same = told(&[
        ("a", Some(StageKind::Compute)),
        ("b", Some(StageKind::Compute)),
    ]);
    assert!(same.advice.iter().all(|a| a.rule == "shrink-stage"));
}

/// What a ceiling explains is not explained by a stage.
#[test]
fn a_ceiling_that_is_reached_keeps_its_name() {
    let mut base = nothing_else();
    base.cause = Cause::Dram;
    base.class = Class::Memory;
    base.evidence = vec!["90 % of the copy bandwidth".into()];
    let told = refine(base, &in_turn(&[60.0, 30.0], 10.0), &[]);
    assert_eq!(told.cause, Cause::Dram);
    assert_eq!(told.evidence[0], "90 % of the copy bandwidth");
    assert!(told.evidence[1].contains("`a`"));
}

fn costs() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(1.0..100.0f64, 1..=6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// One after the other: the costliest binds if it is worth it, and nobody is suspected.
    #[test]
    fn the_costliest_of_stages_in_turn_binds(costs in costs(), rest in 1.0..100.0f64) {
        let found = in_turn(&costs, rest);
        let whole = rest + costs.iter().sum::<f64>();
        let most = costs.iter().copied().fold(0.0, f64::max);
        if most / whole > 0.12 {
            let Bound::Stage { stage } = &found.reading.bound else {
                panic!("{:?}", found.reading);
            };
            let named = costs[names(6).iter().position(|n| n == stage).expect("a stage")];
            prop_assert!(named >= most - 0.01 * whole);
        }
        prop_assert!(found.reading.doubts.is_empty(), "{:?}", found.reading.doubts);
        for pair in &found.reading.pairs {
            prop_assert_eq!(pair.relation, Relation::InTurn);
        }
    }

    /// All at once: nobody is suspected either, and only the longest can bring anything alone.
    #[test]
    fn at_most_one_of_stages_side_by_side_costs(costs in costs(), rest in 1.0..100.0f64) {
        let found = side_by_side(&costs, rest);
        let costing = found.reading.stages.iter().filter(|s| s.standing == Standing::Costs);
        prop_assert!(costing.count() <= 1);
        prop_assert!(found.reading.doubts.is_empty(), "{:?}", found.reading.doubts);
    }

    /// Units and the order of the manifest make no difference.
    #[test]
    fn neither_scale_nor_order_matters(costs in costs(), rest in 1.0..100.0f64, scale in 1e-3..1e6f64) {
        let one = in_turn(&costs, rest);
        let scaled: Vec<f64> = costs.iter().map(|c| c * scale).collect();
        let other = in_turn(&scaled, rest * scale);
        prop_assert_eq!(&one.reading.bound, &other.reading.bound);
        for (a, b) in one.reading.stages.iter().zip(&other.reading.stages) {
            prop_assert!((a.saving - b.saving).abs() < 1e-9);
        }
    }

    /// Whatever the times are, there is an answer, it can be stored, and what is stored is what is read.
    #[test]
    fn any_times_have_a_reading(times in proptest::collection::vec(1e-3..1e9f64, 8), count in 0..=4usize) {
        let found = kernel(count, |without| times[without.len() % 8] * (1.0 + without.concat().len() as f64));
        let text = serde_json::to_string(&found).expect("it can be stored");
        let back: Stages = serde_json::from_str(&text).expect("it can be read");
        prop_assert_eq!(&back.reading, &found.reading);
        prop_assert!(found.sentences().iter().all(|line| !line.contains("NaN")));
        for reading in &found.reading.stages {
            prop_assert!(reading.gain.is_finite() && reading.gain > 0.0);
        }
    }
}
