//! The parts shapes are made of: ranges, relations, and how far a shape strays from its parent.

use std::collections::BTreeSet;

use super::*;
use crate::manifest::{Fill, FillRule};

#[test]
fn divisors_are_shared() {
    for (a, b, divisor) in [(12, 18, 6), (0, 7, 7), (7, 0, 7), (5, 3, 1), (64, 192, 64)] {
        assert_eq!(gcd(a, b), divisor);
    }
}

#[test]
fn relations_hold_or_do_not() {
    let twice_to_four_times = Relation::Multiple { least: 2, most: 4 };
    for (relation, first, second, holds) in [
        (Relation::Equal, 3, 3, true),
        (Relation::Equal, 3, 4, false),
        (Relation::AtMost, 3, 3, true),
        (Relation::AtMost, 2, 3, true),
        (Relation::AtMost, 4, 3, false),
        (twice_to_four_times, 6, 3, true),
        (twice_to_four_times, 12, 3, true),
        (twice_to_four_times, 3, 3, false),
        (twice_to_four_times, 15, 3, false),
        (twice_to_four_times, 7, 3, false),
    ] {
        assert_eq!(relation.holds(first, second), holds, "{first} {second}");
    }
}

fn span(from: i64, to: i64, step: i64) -> Range {
    Range { from, to, step }
}

#[test]
fn a_place_somewhere_lies_in_the_range_on_a_step() {
    let hundred = span(1, 100, 1);
    assert_eq!((hundred.somewhere(0), hundred.somewhere(9_999)), (1, 100));
    assert_eq!(hundred.somewhere(20_000), 1);
    // Half of them lie below the geometric mean.
    assert!((99..=100).contains(&span(1, 9_999, 1).somewhere(5_000)));
    let stepped = span(10, 50, 8);
    let all: BTreeSet<i64> = (0..10_000).map(|draw| stepped.somewhere(draw)).collect();
    assert_eq!(Vec::from_iter(all), [16, 24, 32, 40, 48]);
    assert_eq!(span(16, 50, 8).somewhere(0), 16);
}

#[test]
fn dimensions_vary_as_the_shapes_do_and_modes_do_not() {
    let attention = manifest(&attention(), "");
    let unseen = Unseen::of(&attention).unwrap();
    let found = [
        Some(span(1, 8, 1)),
        Some(span(1, 8, 1)),
        Some(span(1, 512, 1)),
        None,
        None,
    ];
    assert_eq!(unseen.ranges, found);
    let multiple = Relation::Multiple { least: 1, most: 4 };
    assert_eq!(
        unseen.relations,
        [
            (0, 1, multiple),
            (0, 2, Relation::AtMost),
            (1, 0, Relation::AtMost),
            (1, 2, Relation::AtMost),
            // The mode, which is held, so that order is all that is kept.
            (4, 0, Relation::AtMost),
            (4, 2, Relation::AtMost)
        ]
    );
    assert_eq!(unseen.parents.len(), 4);
    assert_eq!(unseen.affordable(), 8.0 * 8.0 * 512.0 * 64.0 / 4.0);
}

#[test]
fn what_the_author_says_of_a_dimension_counts() {
    let text = [
        shape("target", [4, 4, 512, 64, 1]),
        shape("small", [2, 2, 96, 64, 1]),
    ]
    .concat();
    let domain =
        "domain = { S = { from = 8, to = 1000 }, MODE = { from = 1, to = 3 }, KV = { from = 50 } }";
    let given = manifest(&text, domain);
    let unseen = Unseen::of(&given).unwrap();
    assert_eq!(
        unseen.ranges,
        // Beyond all shapes, and so nowhere, is KV.
        [
            Some(span(2, 4, 2)),
            None,
            Some(span(8, 1000, 32)),
            None,
            Some(span(1, 3, 1))
        ]
    );
    // What is given follows no relation.
    assert_eq!(unseen.relations, []);
}

#[test]
fn equal_dimensions_stay_equal() {
    let text = [
        shape("target", [8, 8, 512, 64, 1]),
        shape("small", [2, 2, 100, 64, 1]),
    ]
    .concat();
    let manifest = manifest(&text, "");
    let unseen = Unseen::of(&manifest).unwrap();
    assert!(unseen.relations.contains(&(0, 1, Relation::Equal)));
    let shapes: Vec<Shape> = (0..50).flat_map(|s| drawn(&manifest, 3, s)).collect();
    assert!(shapes.iter().all(|s| value(s, "H") == value(s, "KV")));
    assert!(shapes.iter().any(|s| value(s, "H") == 4));
}

#[test]
fn sweeps_and_files_say_nothing() {
    let mut sweep = manifest(
        &[attention(), shape("long", [8, 8, 9000, 64, 1])].concat(),
        "",
    );
    let long = sweep.shapes.last_mut().expect("five shapes");
    long.purpose = ShapePurpose::Sweep;
    let unseen = Unseen::of(&sweep).unwrap();
    assert_eq!(unseen.ranges[2], Some(span(1, 512, 1)));
    let mut from_file = manifest(&attention(), "");
    from_file.reference = Some(Reference::File {
        path: crate::manifest::Spanned {
            value: "y.npy".into(),
            span: 0..0,
        },
    });
    assert!(Unseen::of(&from_file).unwrap_err().contains("files"));
    let mut input = manifest(&attention(), "");
    for argument in &mut input.arguments {
        if let ArgumentKind::Buffer { fill, .. } = &mut argument.kind {
            *fill = FillRule::Fixed(Fill::File {
                path: "x.npy".into(),
            });
        }
    }
    assert!(Unseen::of(&input).unwrap_err().contains("files"));
}

/// How many steps below the target S lies in shapes near it.
fn strays(manifest: &Manifest, attempt: u64, step: i64) -> BTreeSet<i64> {
    let unseen = Unseen::of(manifest).unwrap();
    let near = (0..2000).filter_map(|seed| unseen.near_target(seed, attempt));
    let target = value(manifest.target(), "S");
    near.map(|shape| {
        let below = target - value(&shape, "S");
        assert_eq!(below % step, 0);
        below / step
    })
    .collect()
}

#[test]
fn the_first_shape_is_near_the_target_and_strays_further_if_need_be() {
    let all = |most: i64| (0..=most).collect::<BTreeSet<i64>>();
    let one = manifest(&attention(), "");
    for (attempt, most) in [(0, 3), (99, 3), (100, 16), (199, 16)] {
        assert_eq!(strays(&one, attempt, 1), all(most), "attempt {attempt}");
    }
    let far = strays(&one, 200, 1);
    assert!(far.len() > 100 && far.last() == Some(&128), "{far:?}");
    let text = [
        shape("target", [1, 1, 4096, 64, 1]),
        shape("small", [1, 1, 192, 64, 1]),
    ]
    .concat();
    assert_eq!(strays(&manifest(&text, ""), 0, 64), all(3));
}

#[test]
fn other_shapes_are_beside_their_parents_or_anywhere() {
    let manifest = manifest(&attention(), "");
    let unseen = Unseen::of(&manifest).unwrap();
    let shapes: Vec<Shape> = (0..6000).filter_map(|s| unseen.anywhere(s)).collect();
    assert!(shapes.len() > 2000);
    assert!(shapes.iter().all(|s| volume(s) <= unseen.affordable()));
    let share = |s: i64| {
        let found = shapes.iter().filter(|shape| value(shape, "S") == s).count();
        found as f64 / shapes.len() as f64
    };
    // A step or two from 100 and 65, far more often than numbers nobody is near.
    for beside in [98, 99, 101, 102, 63, 64, 66, 67] {
        assert!(share(beside) > 0.008, "{beside}: {}", share(beside));
    }
    for far in [150, 200, 300] {
        assert!(share(far) < 0.004, "{far}: {}", share(far));
    }
    let values: BTreeSet<i64> = shapes.iter().map(|s| value(s, "S")).collect();
    assert!(values.len() > 200, "{}", values.len());
    // Every parent has its turn, with what is left alone.
    let modes = |mode| shapes.iter().any(|s| value(s, "MODE") == mode);
    assert!(modes(1) && modes(5) && share(1) > 0.02);
    assert!(
        shapes[0].name.starts_with("unseen H="),
        "{}",
        shapes[0].name
    );
}
