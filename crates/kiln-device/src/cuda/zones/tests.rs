use super::*;
use kiln_core::dtype::DType;
use kiln_core::manifest::Fill;
use kiln_core::protocol::Variation;
use kiln_core::value::Value;

#[test]
fn buffers_end_near_the_end_of_their_mapping() {
    let unit = 2 << 20;
    for bytes in [1, 511, 512, 4096, unit - GUARD_BYTES - 512, unit] {
        let mapped_bytes = (bytes + MARGIN).next_multiple_of(unit);
        let start = place(unit as u64, mapped_bytes, bytes);
        let behind = unit + mapped_bytes - start as usize - bytes;
        assert!(start as usize >= unit + GUARD_BYTES);
        assert!(start.is_multiple_of(512));
        assert!(
            (GUARD_BYTES..GUARD_BYTES + ALIGNMENT).contains(&behind),
            "{behind}"
        );
    }
    assert_eq!(MARGIN, 8704);
}

#[test]
fn guards_are_all_that_is_mapped_beside_the_buffer() {
    let found = guards(10_240, 1000, 4096, 20_000);
    assert_eq!(found, [(4096, 6144, -6144), (11_240, 12_856, 1000)]);
}

#[test]
fn only_what_a_kernel_may_write_may_change() {
    assert_eq!(contents(Role::Input, 9), Some(Zone::Untouched(9)));
    assert_eq!(contents(Role::Output, 9), Some(Zone::Result));
    assert_eq!(contents(Role::InOut, 9), Some(Zone::Result));
    assert_eq!(contents(Role::Scratch, 9), None);
    assert_eq!(contents(Role::Zeroed, 9), None);
}

const SOUND: u64 = u64::MAX;

#[test]
fn damage_is_told_by_argument_and_place() {
    let meaning = [
        (1, Zone::Guard(-4096)),
        (1, Zone::Guard(400)),
        (1, Zone::Untouched(77)),
        (3, Zone::Result),
        (3, Zone::Untouched(55)),
        (4, Zone::Result),
    ];
    let sound = [SOUND, SOUND, 77, 8, 55, 9];
    let total = conclude(&meaning, &sound).unwrap();
    let changed = |at: usize, value: u64| {
        let mut found = sound;
        found[at] = value;
        conclude(&meaning, &found)
    };
    let guard = |offset| {
        Err(Refusal::GuardZone {
            argument: 1,
            offset,
        })
    };
    assert_eq!(changed(0, 4090), guard(-6));
    assert_eq!(changed(0, 0), guard(-4096));
    assert_eq!(changed(1, 3), guard(403));
    let modified = |argument| Err(Refusal::InputModified { argument });
    assert_eq!(changed(2, 78), modified(1));
    assert_eq!(changed(4, 54), modified(3));
    // Results may be anything, and each of them counts.
    for at in [3, 5] {
        assert_ne!(changed(at, 1).unwrap(), total);
    }
    assert_eq!(total, input::mix(&[input::mix(&[0, 8]), 9]));
}

fn problem() -> Problem {
    let buffer = |name: &str, role| ArgumentSpec::Buffer {
        name: name.into(),
        dtype: DType::F32,
        extents: vec![8],
        role,
        fill: Fill::Iota,
        seen_as: DType::F32,
    };
    Problem {
        shape: "target".into(),
        seed: 1,
        dimensions: Vec::new(),
        arguments: vec![
            buffer("x", Role::Input),
            buffer("y", Role::Output),
            buffer("s", Role::Scratch),
            ArgumentSpec::Scalar {
                name: "n".into(),
                dtype: DType::I32,
                value: Value::Int(8),
            },
        ],
        launch: None,
        variation: None,
    }
}

#[test]
fn buffers_serve_the_same_inputs_only() {
    let same = |change: &dyn Fn(&mut Problem)| {
        let mut other = problem();
        change(&mut other);
        has_same_buffers(&problem(), &other) && has_same_buffers(&other, &problem())
    };
    let longer = |at: usize| {
        move |p: &mut Problem| {
            if let ArgumentSpec::Buffer { extents, .. } = &mut p.arguments[at] {
                extents[0] = 9;
            }
        }
    };
    assert!(same(&|_| {}));
    assert!(same(&longer(2)), "scratch follows the config");
    assert!(same(&|p| p.arguments[3] = ArgumentSpec::Scalar {
        name: "n".into(),
        dtype: DType::I32,
        value: Value::Int(4),
    }));
    assert!(!same(&longer(0)) && !same(&longer(1)));
    assert!(!same(&|p| p.seed = 2));
    assert!(!same(&|p| p.shape = "tiny".into()));
    assert!(!same(&|p| p.variation = Some(Variation::Redrawn {
        argument: 0,
        seed: 3
    })));
    assert!(!same(&|p| p.arguments.truncate(3)));
    assert!(!same(&|p| p.arguments.swap(1, 2)));
}
