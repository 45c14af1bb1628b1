//! Buffers, poison, guards and images.

use std::process::Command;

use kiln_core::input;
use kiln_core::manifest::Swizzle;

use super::*;

#[test]
fn a_launch_gets_its_arguments_and_gives_its_outputs() {
    let _turn = turn();
    let problem = doubling(1, 100, &[]);
    let mut backend = backend(doubles, &problem);
    backend.poison(7).unwrap();
    backend.launch(Cores::Any).unwrap();
    assert_eq!(backend.inspect().unwrap(), doubled(&problem));
    assert_eq!(backend.same_as_sent(), Ok(false));
    assert!(backend.unload().is_err());
}

#[test]
fn outputs_are_those_of_the_moment_the_launch_returned() {
    let _turn = turn();
    let problem = doubling(1, 100, &[]);
    let mut backend = backend(does_nothing, &problem);
    backend.poison(7).unwrap();
    backend.launch(Cores::Any).unwrap();
    // A thread of the candidate that is done too late.
    memory(&mut backend.sets[0], 2)
        .bytes_mut()
        .copy_from_slice(&doubled(&problem));
    let poison = input::poison(input::mix(&[7, 2]), 400);
    assert_eq!(backend.inspect().unwrap(), poison);
}

#[test]
fn outputs_and_inout_buffers_follow_each_other() {
    let _turn = turn();
    let inout = buffer("z", Role::InOut, 100);
    let problem = doubling(1, 100, std::slice::from_ref(&inout));
    let original = contents::of_input(&problem, 3, &inout).unwrap();
    let mut backend = backend(doubles_and_counts, &problem);
    for _ in 0..3 {
        backend.poison(7).unwrap();
        backend.launch(Cores::Any).unwrap();
        let outputs = backend.inspect().unwrap().to_vec();
        assert_eq!(outputs[..400], doubled(&problem));
        // Restored before each launch.
        let first = DType::F32.read_f64(&outputs[400..]);
        let was = DType::F32.read_f64(&original) as f32;
        assert_eq!(first, f64::from(was + 1.0));
        assert_eq!(outputs.len(), 800);
    }
}

#[test]
fn what_a_kernel_is_to_write_is_poisoned_or_cleared_and_nothing_else() {
    let _turn = turn();
    let more = [
        buffer("z", Role::InOut, 9),
        buffer("s", Role::Scratch, 9),
        buffer("c", Role::Zeroed, 9),
    ];
    let problem = doubling(1, 9, &more);
    let mut backend = backend(does_nothing, &problem);
    let set = &mut backend.sets[0];
    for argument in 3..6 {
        memory(set, argument).bytes_mut().fill(0xee);
    }
    set.poison(7);
    let poison = |index: u64| input::poison(input::mix(&[7, index]), 36);
    assert_eq!(memory(set, 2).bytes(), poison(2));
    assert_eq!(memory(set, 4).bytes(), poison(4));
    assert_eq!(memory(set, 5).bytes(), [0; 36]);
    for argument in [1, 3] {
        let drawn = contents::of_input(&problem, argument, &problem.arguments[argument]);
        assert_eq!(memory(set, argument).bytes(), drawn.unwrap());
    }
}

#[test]
fn a_write_beside_a_buffer_is_refused_with_its_place() {
    let _turn = turn();
    let problem = doubling(1, 5, &[]);
    let mut backend = backend(writes_before_its_output, &problem);
    backend.launch(Cores::Any).unwrap();
    let refusal = backend.inspect().map(<[u8]>::to_vec);
    assert_eq!(
        refusal,
        Err(Refusal::GuardZone {
            argument: 2,
            offset: -1
        })
    );
}

#[test]
fn inputs_are_read_only_and_known_to_the_fault_handler() {
    let _turn = turn();
    let problem = doubling(1, 64, &[]);
    let mut backend = backend(doubles, &problem);
    let input = memory(&mut backend.sets[0], 1).as_mut_ptr() as usize;
    let output = memory(&mut backend.sets[0], 2).as_mut_ptr() as usize;
    let told = |address| fault::told(address).map(|f| (f.argument, f.offset, f.inside));
    assert_eq!(told(input + 4), Some((1, 4, true)));
    assert_eq!(told(output + 4), Some((2, 4, false)));
    assert_eq!(told(output - 4), Some((2, -4, false)));
    // Another problem, other places.
    backend.prepare(&doubling(2, 64, &[])).unwrap();
    assert_eq!(told(output + 4), None);
}

#[test]
fn two_problems_are_kept_and_the_older_goes() {
    let _turn = turn();
    let problems: Vec<Problem> = (0..3).map(|seed| doubling(seed, 8, &[])).collect();
    let mut backend = backend(doubles, &problems[0]);
    let first = memory(&mut backend.sets[0], 2).as_mut_ptr();
    backend.prepare(&problems[1]).unwrap();
    assert_eq!(backend.sets.len(), 2);
    backend.prepare(&problems[0]).unwrap();
    assert_eq!(backend.sets[0].problem, problems[0]);
    // The very same buffers.
    assert_eq!(memory(&mut backend.sets[0], 2).as_mut_ptr(), first);
    backend.prepare(&problems[0]).unwrap();
    backend.prepare(&problems[2]).unwrap();
    assert_eq!(backend.sets.len(), 2);
    assert_eq!(backend.sets[0].problem, problems[2]);
    assert_eq!(backend.sets[1].problem, problems[0]);
    for problem in &problems {
        backend.prepare(problem).unwrap();
        backend.launch(Cores::Any).unwrap();
        assert_eq!(backend.inspect().unwrap(), doubled(problem));
    }
}

#[test]
fn large_problems_are_not_kept_side_by_side() {
    let _turn = turn();
    // Of untouched memory.
    let large = |seed| problem(seed, vec![buffer("y", Role::Output, KEPT_BYTES / 4)]);
    let small = doubling(3, 8, &[]);
    let mut backend = backend(does_nothing, &large(1));
    backend.prepare(&small).unwrap();
    assert_eq!(backend.sets.len(), 1);
    backend.prepare(&large(2)).unwrap();
    assert_eq!(backend.sets.len(), 1);
    let too_large = problem(1, vec![buffer("y", Role::Output, u64::MAX / 2)]);
    assert!(backend.prepare(&too_large).is_err());
}

#[test]
fn descriptors_are_for_gpus() {
    let _turn = turn();
    let tma = |tile: Vec<u32>| ArgumentSpec::Tma {
        name: "map".into(),
        tensor: 1,
        dtype: DType::F32,
        extents: vec![8],
        tile,
        swizzle: Swizzle::None,
    };
    let mut backend = backend(doubles, &doubling(1, 8, &[tma(Vec::new())]));
    let refused = backend.prepare(&doubling(1, 8, &[tma(vec![4])]));
    assert!(matches!(refused, Err(Refusal::BadTask { message }) if message.contains("`map`")));
}

#[test]
fn nothing_runs_before_something_is_loaded_and_prepared() {
    let _turn = turn();
    let mut empty = CpuBackend::new();
    assert!(empty.launch(Cores::Any).is_err() && empty.inspect().is_err());
    empty.prepare(&doubling(1, 8, &[])).unwrap();
    assert!(empty.launch(Cores::Any).is_err());
}

#[test]
fn an_image_is_loaded_by_name() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let (unit, image) = (folder.path().join("k.c"), folder.path().join("k.so"));
    let source = "void entry(void **a) { long n = *(long *)a[0];\n\
                  for (long i = 0; i < n; i++) ((float *)a[2])[i] = 2 * ((float *)a[1])[i]; }\n";
    std::fs::write(&unit, source).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&image, &unit])
        .status()
        .unwrap();
    assert!(compiled.success());
    let image = image.display().to_string();
    let problem = doubling(1, 8, &[]);
    let mut backend = CpuBackend::new();
    backend.load(&image, "entry").unwrap();
    backend.prepare(&problem).unwrap();
    backend.launch(Cores::Pinned(1)).unwrap();
    assert_eq!(backend.inspect().unwrap(), doubled(&problem));
    let missing = backend.load(&image, "nowhere");
    assert!(
        matches!(missing, Err(Refusal::NotLoadable { message }) if message.contains("nowhere"))
    );
}
