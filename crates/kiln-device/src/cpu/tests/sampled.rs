//! Timed launches: they count, they are looked at, and work that is not done is noticed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

const PLAN: SamplePlan = SamplePlan {
    launches: 4,
    bursts: 3,
    warm_nanos: 0,
    cores: Cores::Any,
    caches: Caches::Warm,
    energy: false,
    keep_outputs: false,
    run_up: None,
};

const BEHIND_OTHERS: RunUp = RunUp::OnOthers(Gap::Nothing);

unsafe extern "C" fn dawdles(arguments: *const *mut c_void) {
    std::thread::sleep(Duration::from_millis(1));
    // SAFETY: launched on problems made by `doubling`.
    unsafe { doubles(arguments) };
}

unsafe extern "C" fn dawdles_and_counts(arguments: *const *mut c_void) {
    std::thread::sleep(Duration::from_millis(1));
    // SAFETY: launched on problems made by `doubling` with an inout buffer.
    unsafe { doubles_and_counts(arguments) };
}

static IS_DONE: AtomicBool = AtomicBool::new(false);

/// Right the first time, and idle from then on.
unsafe extern "C" fn works_once(arguments: *const *mut c_void) {
    if !IS_DONE.swap(true, Ordering::SeqCst) {
        // SAFETY: launched on problems made by `doubling`.
        unsafe { doubles(arguments) };
    }
}

/// Outputs of the launches since the list was emptied, by their addresses.
static LAUNCHED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn keeps_a_list(arguments: *const *mut c_void) {
    // SAFETY: launched on problems made by `doubling`.
    unsafe {
        doubles(arguments);
        LAUNCHED.lock().unwrap().push(*arguments.add(2) as usize);
    }
}

#[test]
fn every_burst_is_timed_from_its_first_launch_to_its_last() {
    let _turn = turn();
    let problem = doubling(1, 100, &[]);
    let mut plain = backend(dawdles, &problem);
    let samples = plain.sample(&PLAN).unwrap();
    assert_eq!(samples.nanos.len(), 3);
    assert!(samples.nanos.iter().all(|n| *n >= 4_000_000));
    assert_eq!(plain.inspect().unwrap(), doubled(&problem));
    let inout = doubling(1, 100, &[buffer("z", Role::InOut, 100)]);
    let mut restored = backend(dawdles_and_counts, &inout);
    let samples = restored.sample(&PLAN).unwrap();
    assert!(samples.nanos.iter().all(|n| *n >= 4_000_000));
    // Each launch finds the input it had.
    let z = contents::of_input(&inout, 3, &inout.arguments[3]).unwrap();
    let outputs = restored.inspect().unwrap();
    let once = DType::F32.read_f64(&z) as f32 + 1.0;
    assert_eq!(DType::F32.read_f64(&outputs[400..]), f64::from(once));
}

#[test]
fn launches_that_do_nothing_are_caught() {
    let _turn = turn();
    for elements in [1, 3, 5000] {
        let problem = doubling(1, elements, &[]);
        let mut backend = backend(works_once, &problem);
        IS_DONE.store(false, Ordering::SeqCst);
        backend.poison(7).unwrap();
        backend.sample(&PLAN).unwrap();
        assert!(backend.sets[0].is_caught);
        assert_ne!(backend.inspect().unwrap(), doubled(&problem));
    }
}

#[test]
fn launches_that_work_are_not() {
    let _turn = turn();
    for elements in [1, 3, 5000] {
        let problem = doubling(1, elements, &[]);
        let mut backend = backend(doubles, &problem);
        for _ in 0..20 {
            backend.poison(7).unwrap();
            backend.sample(&PLAN).unwrap();
            assert!(!backend.sets[0].is_caught);
            assert_eq!(backend.inspect().unwrap(), doubled(&problem));
        }
        // What is there before the first launch proves nothing, even where it is met by chance.
        let set = &mut backend.sets[0];
        let opposite: Vec<u8> = doubled(&problem).iter().map(|byte| !byte).collect();
        memory(set, 2).bytes_mut().copy_from_slice(&opposite);
        set.run_burst(doubles, 1);
        assert!(!set.is_caught);
    }
}

#[test]
fn spots_are_the_most_significant_bytes_of_elements_that_cannot_be_foreseen() {
    let _turn = turn();
    for elements in [1, 7, 10_000] {
        let mut backend = backend(doubles, &doubling(1, elements, &[]));
        let set = &mut backend.sets[0];
        let start = memory(set, 2).as_mut_ptr() as usize;
        let spots = set.spots();
        assert_eq!(spots.len() as u64, elements.min(61));
        for spot in &spots {
            let offset = *spot as usize - start;
            assert!(
                offset % 4 == 3 && (offset as u64) < 4 * elements,
                "{offset}"
            );
        }
        if elements > 1000 {
            assert_ne!(spots, set.spots());
            let distinct: std::collections::BTreeSet<_> = spots.iter().collect();
            assert!(distinct.len() > 50);
        }
    }
}

#[test]
fn every_page_of_every_result_is_looked_at() {
    let _turn = turn();
    let problem = doubling(1, 3000, &[buffer("z", Role::InOut, 10)]);
    let mut backend = backend(doubles, &problem);
    let set = &mut backend.sets[0];
    let (y, z) = (memory(set, 2).as_mut_ptr(), memory(set, 3).as_mut_ptr());
    let page = |at: *mut u8, number: usize| at.wrapping_add(4096 * number).cast_const();
    assert_eq!(
        set.output_pages(),
        [page(y, 0), page(y, 1), page(y, 2), page(z, 0)]
    );
}

#[test]
fn warming_up_launches_until_its_time_is_over() {
    let _turn = turn();
    let mut backend = backend(keeps_a_list, &doubling(1, 10, &[]));
    let mut launches = |warm_nanos| {
        LAUNCHED.lock().unwrap().clear();
        let plan = SamplePlan { warm_nanos, ..PLAN };
        backend.sample(&plan).unwrap();
        LAUNCHED.lock().unwrap().len()
    };
    assert_eq!(launches(0), 12);
    // However busy the machine is.
    assert!(launches(20_000_000) > 12);
}

#[test]
fn a_launch_on_new_inputs_follows_launches_on_others() {
    let _turn = turn();
    let (known, new) = (doubling(1, 10, &[]), doubling(2, 10, &[]));
    let mut backend = backend(keeps_a_list, &known);
    let other = memory(&mut backend.sets[0], 2).as_mut_ptr() as usize;
    backend.prepare(&new).unwrap();
    let mine = memory(&mut backend.sets[0], 2).as_mut_ptr() as usize;
    LAUNCHED.lock().unwrap().clear();
    let plan = SamplePlan {
        warm_nanos: 20_000_000,
        run_up: Some(BEHIND_OTHERS),
        ..PLAN
    };
    let samples = backend.sample(&plan).unwrap();
    assert_eq!(samples.nanos.len(), 1);
    let launched = LAUNCHED.lock().unwrap().clone();
    let (last, before) = launched.split_last().unwrap();
    assert_eq!(*last, mine);
    assert!(before.len() >= 8 && before.iter().all(|at| *at == other));
    assert_eq!(backend.inspect().unwrap(), doubled(&new));
}

#[test]
fn known_inputs_are_timed_where_new_ones_are() {
    let _turn = turn();
    let (known, new) = (doubling(1, 10, &[]), doubling(2, 10, &[]));
    let mut backend = backend(keeps_a_list, &known);
    let place = |backend: &mut CpuBackend| memory(&mut backend.sets[0], 2).as_mut_ptr() as usize;
    let original = place(&mut backend);
    backend.prepare(&new).unwrap();
    let other = place(&mut backend);
    let plan = SamplePlan {
        run_up: Some(RunUp::OnOriginals),
        ..PLAN
    };
    for poison in 0..3 {
        backend.prepare(&known).unwrap();
        backend.poison(poison).unwrap();
        LAUNCHED.lock().unwrap().clear();
        backend.sample(&plan).unwrap();
        let launched = LAUNCHED.lock().unwrap().clone();
        let (last, before) = launched.split_last().unwrap();
        assert_eq!(*last, other);
        assert!(before.len() >= 4 && before.iter().all(|at| *at == original));
        assert_eq!(backend.inspect().unwrap(), doubled(&known));
    }
    assert_eq!(backend.sets.len(), 2);
    // And the next new ones take the place of what has waited longest.
    let newer = doubling(3, 10, &[]);
    backend.prepare(&newer).unwrap();
    assert_eq!(place(&mut backend), original);
    backend.launch(Cores::Any).unwrap();
    assert_eq!(backend.inspect().unwrap(), doubled(&newer));
}

/// First elements of the inputs of the launches since the list was emptied, all of them.
static SEEN: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());

unsafe extern "C" fn remembers_inputs(arguments: *const *mut c_void) {
    // SAFETY: launched on problems made by `doubling`.
    unsafe {
        doubles(arguments);
        let (x, _) = taken(arguments);
        SEEN.lock().unwrap().push(x.to_vec());
    }
}

#[test]
fn a_nudged_launch_meets_a_few_other_elements_in_the_same_place() {
    let _turn = turn();
    let known = doubling(1, 1000, &[]);
    let mut backend = backend(remembers_inputs, &known);
    let contents: Vec<f32> = {
        let bytes = contents::of_input(&known, 1, &known.arguments[1]).unwrap();
        bytes
            .chunks_exact(4)
            .map(|b| DType::F32.read_f64(b) as f32)
            .collect()
    };
    for (seed, changes) in [(5, true), (6, true), (7, false)] {
        let plan = SamplePlan {
            run_up: Some(RunUp::Nudged(Nudge { seed, changes })),
            ..PLAN
        };
        SEEN.lock().unwrap().clear();
        let samples = backend.sample(&plan).unwrap();
        assert_eq!(samples.nanos.len(), 1);
        let seen = SEEN.lock().unwrap().clone();
        let (last, before) = seen.split_last().unwrap();
        assert!(before.len() >= 4 && before.iter().all(|x| *x == contents));
        let differ = (0..1000).filter(|i| last[*i] != contents[*i]).count();
        assert_eq!((1..=8).contains(&differ), changes);
        // What the reference is asked about is what the kernel met.
        let mut met = known.clone();
        met.variation = changes.then_some(Variation::Nudged { seed });
        assert_eq!(backend.inspect().unwrap(), doubled(&met));
    }
    // All is as it was, and out of reach again.
    assert_eq!(
        memory(&mut backend.sets[0], 1).bytes(),
        contents::of_input(&known, 1, &known.arguments[1]).unwrap()
    );
    backend.launch(Cores::Any).unwrap();
    assert_eq!(backend.inspect().unwrap(), doubled(&known));
}

static LAUNCHES: AtomicUsize = AtomicUsize::new(0);

/// Right but for the last launch, the one on new inputs.
unsafe extern "C" fn idle_at_the_end(arguments: *const *mut c_void) {
    if LAUNCHES.fetch_add(1, Ordering::SeqCst) < 4 {
        // SAFETY: launched on problems made by `doubling`.
        unsafe { doubles(arguments) };
    }
}

#[test]
fn a_launch_on_new_inputs_that_does_nothing_leaves_nothing() {
    let _turn = turn();
    let (known, new) = (doubling(1, 10, &[]), doubling(2, 10, &[]));
    let mut backend = backend(idle_at_the_end, &known);
    backend.prepare(&new).unwrap();
    backend.poison(7).unwrap();
    LAUNCHES.store(0, Ordering::SeqCst);
    let plan = SamplePlan {
        run_up: Some(BEHIND_OTHERS),
        ..PLAN
    };
    backend.sample(&plan).unwrap();
    assert_ne!(backend.inspect().unwrap(), doubled(&new));
}
