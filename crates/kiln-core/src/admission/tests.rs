use super::*;
use crate::manifest::Tolerance;
use crate::numerics::default_tolerance;

fn filled(dtype: DType, tolerance: Tolerance, values: &[f64]) -> Expected {
    let mut output = Expected::new("O", dtype, vec![values.len() as u64], tolerance);
    output.fill(values.iter().flat_map(|v| v.to_le_bytes()).collect());
    output
}

/// Values as a normal distribution has them, roughly.
fn values(count: usize, seed: f64) -> Vec<f64> {
    (0..count)
        .map(|i| {
            let t = i as f64 + seed;
            (t * 0.731).sin() + (t * 1.377).sin() + (t * 2.931).sin()
        })
        .collect()
}

fn coarse(output: &Expected, format: Coarser) -> Probe {
    coarser_output(output, format)
}

#[test]
fn default_tolerances_fail_the_next_coarser_format_and_pass_honest_rounding() {
    for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16] {
        let output = filled(dtype, default_tolerance(dtype), &values(4000, 0.3));
        let honest = honest_ratio(&output);
        assert!(honest < 0.3, "{dtype}: {honest}");
        for format in Coarser::than(dtype) {
            let probe = coarse(&output, *format);
            assert_eq!(
                judge_coarser(&probe, honest),
                Telling::Fails,
                "{dtype} {format}"
            );
        }
    }
}

#[test]
fn a_loose_tolerance_is_weak_and_the_proposed_one_is_not() {
    let loose = Tolerance {
        rtol: 2e-2,
        atol: None,
    };
    let output = filled(DType::F16, loose, &values(4000, 0.3));
    let probe = coarse(&output, Coarser::Bf16);
    assert_eq!(judge_coarser(&probe, honest_ratio(&output)), Telling::Weak);
    let proposed = proposed_tolerance(&output, &probe).unwrap();
    let tight = Tolerance {
        rtol: proposed.parse().unwrap(),
        atol: None,
    };
    let output = filled(DType::F16, tight, &values(4000, 0.3));
    assert!(honest_ratio(&output) < 1.0);
    let probe = coarse(&output, Coarser::Bf16);
    assert_eq!(judge_coarser(&probe, honest_ratio(&output)), Telling::Fails);
}

#[test]
fn small_integers_are_the_same_in_any_format() {
    let whole: Vec<f64> = (0..100).map(|i| f64::from(i % 16)).collect();
    let output = filled(DType::F32, default_tolerance(DType::F32), &whole);
    let probe = coarse(&output, Coarser::Bf16);
    assert_eq!(judge_coarser(&probe, 0.0), Telling::Alike);
    assert_eq!(proposed_tolerance(&output, &probe), None);
}

#[test]
fn idle_stand_ins_fail_on_a_sound_task() {
    let tolerance = default_tolerance(DType::F32);
    let output = filled(DType::F32, tolerance, &values(100, 0.3));
    let other = filled(DType::F32, tolerance, &values(100, 7.9));
    let input = InputContents {
        name: "x".into(),
        dtype: DType::F16,
        bytes: filled(DType::F16, tolerance, &values(100, 3.3)).answer(|v| v),
    };
    let probes = idle(&[output], Some(&[other]), &[input]);
    assert_eq!(probes.len(), 4);
    assert!(probes.iter().all(|probe| !probe.passes()), "{probes:?}");
}

#[test]
fn idle_stand_ins_pass_where_the_tolerance_covers_the_output() {
    let absolute = Tolerance {
        rtol: 0.0,
        atol: Some(5.0),
    };
    let output = filled(DType::F32, absolute, &values(100, 0.3));
    let probes = idle(std::slice::from_ref(&output), None, &[]);
    // The norm of the whole output still tells zeros from it.
    assert!(!probes[0].passes(), "{probes:?}");
    let elementwise = coarse(&output, Coarser::F8);
    assert!(proposed_tolerance(&output, &elementwise).is_some());
}

#[test]
fn an_exact_copy_is_the_work_itself() {
    let tolerance = default_tolerance(DType::F32);
    let source: Vec<f64> = values(50, 1.0)
        .iter()
        .map(|v| f64::from(*v as f32))
        .collect();
    let output = filled(DType::F32, tolerance, &source);
    let input = InputContents {
        name: "x".into(),
        dtype: DType::F32,
        bytes: output.answer(|v| v),
    };
    let probes = idle(
        std::slice::from_ref(&output),
        None,
        std::slice::from_ref(&input),
    );
    assert!(probes.iter().all(|p| p.stand_in == StandIn::Zeros));
    let nearly = filled(
        DType::F32,
        tolerance,
        &source.iter().map(|v| v + 1e-7).collect::<Vec<_>>(),
    );
    let probes = idle(std::slice::from_ref(&nearly), None, &[input]);
    assert!(probes.iter().any(|p| p.passes()), "{probes:?}");
}

#[test]
fn numbers_are_rounded_down() {
    assert_eq!(round_down(0.00199), "1.9e-3");
    assert_eq!(round_down(2e-3), "2e-3");
    assert_eq!(round_down(0.5), "5e-1");
}

fn probe(error_ratio: f64) -> Probe {
    Probe {
        stand_in: StandIn::CoarserOutput(Coarser::Bf16),
        output: "O".into(),
        error: String::new(),
        error_ratio,
    }
}

#[test]
fn a_coarse_stand_in_tells_where_its_errors_are_four_times_those_of_rounding() {
    for (error, honest, telling) in [
        (1.01, 0.9, Telling::Fails),
        (1.0, 0.2, Telling::Weak),
        (0.81, 0.2, Telling::Weak),
        (0.8, 0.2, Telling::Alike),
        (0.1, 0.2, Telling::Alike),
        (0.1, 0.0, Telling::Weak),
        (0.0, 0.0, Telling::Alike),
    ] {
        assert_eq!(
            judge_coarser(&probe(error), honest),
            telling,
            "{error} against {honest}"
        );
    }
    assert!(probe(1.0).passes() && probe(0.5).passes() && !probe(1.01).passes());
}

#[test]
fn a_proposed_tolerance_is_what_the_stand_in_fails_by_half_as_much_again() {
    let proposed = |rtol: f64, atol: Option<f64>, error: f64| {
        let output = filled(DType::F32, Tolerance { rtol, atol }, &[1.0]);
        proposed_tolerance(&output, &probe(error))
    };
    assert_eq!(proposed(2e-3, None, 0.75).unwrap(), "1e-3");
    assert_eq!(proposed(0.0, Some(8e-2), 0.75).unwrap(), "{ atol = 4e-2 }");
    assert_eq!(
        proposed(2e-3, Some(8e-2), 0.75).unwrap(),
        "{ rtol = 1e-3, atol = 4e-2 }"
    );
    assert_eq!(proposed(2e-3, None, 0.0), None);
    assert_eq!(proposed(2e-3, None, f64::INFINITY), None);
}

#[test]
fn stand_ins_are_admitted_by_their_words() {
    let mut words: Vec<&str> = [
        StandIn::Zeros,
        StandIn::Constant,
        StandIn::Copy("x".into()),
        StandIn::Previous,
    ]
    .iter()
    .map(StandIn::word)
    .collect();
    words.extend(Coarser::ALL.map(|f| StandIn::CoarserInputs(f).word()));
    assert_eq!(words, ADMITTED);
    assert!(StandIn::CoarserInputs(Coarser::F8).is_coarser());
    assert!(!StandIn::Zeros.is_coarser());
    assert!(StandIn::Copy("x".into()).deed().contains("`x`"));
}

/// How the stand-ins of one output fare: by their words, their errors.
fn idle_errors(
    output: &Expected,
    other: &[f64],
    input: &InputContents,
) -> Vec<(&'static str, f64)> {
    let other = filled(output.dtype, output.tolerance, other);
    let outputs = std::slice::from_ref(output);
    let probes = idle(outputs, Some(&[other]), std::slice::from_ref(input));
    probes
        .iter()
        .map(|p| (p.stand_in.word(), p.error_ratio))
        .collect()
}

#[test]
fn each_stand_in_writes_what_it_is_said_to() {
    // Errors in units of 1, of a norm so large that it does not speak.
    let one = Tolerance {
        rtol: 0.0,
        atol: Some(1.0),
    };
    let mut values = vec![1e6; 8];
    values[..3].copy_from_slice(&[1.0, 2.0, 3.0]);
    let output = filled(DType::F64, one, &values);
    let mut copied = values.clone();
    copied[1] = 2.5;
    let mut previous = values.clone();
    previous[2] = 3.75;
    let input = InputContents {
        name: "x".into(),
        dtype: DType::F32,
        bytes: filled(DType::F32, one, &copied).answer(|v| v),
    };
    let mean = previous.iter().sum::<f64>() / 8.0;
    let found = idle_errors(&output, &previous, &input);
    let expected = [
        ("zeros", 1e6),
        ("constant", mean - 1.0),
        ("previous", 0.75),
        ("copy", 0.5),
    ];
    assert_eq!(found, expected);
    // One of another length is no copy.
    let shorter = InputContents {
        bytes: input.bytes[..28].to_vec(),
        ..input
    };
    assert_eq!(idle_errors(&output, &previous, &shorter).len(), 3);
}

#[test]
fn integers_are_copied_to_the_last_bit() {
    let exact = Tolerance {
        rtol: 0.0,
        atol: None,
    };
    let values = [(1i64 << 60) + 1, 5];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut output = Expected::new("O", DType::I64, vec![2], exact);
    output.fill(bytes.clone());
    let input = InputContents {
        name: "x".into(),
        dtype: DType::I64,
        bytes,
    };
    // Copying is the work, so it is no stand-in.
    let probes = idle(std::slice::from_ref(&output), None, &[input]);
    assert_eq!(probes.len(), 1);
}

#[test]
fn rounding_is_judged_element_by_element() {
    let one = Tolerance {
        rtol: 0.0,
        atol: Some(1.0),
    };
    // Of four bits: 16.9 becomes 16, and 1e6 stays within its norm.
    let output = filled(DType::F64, one, &[16.0, 16.9, 16.0, 2f64.powi(40)]);
    let probe = coarser_output(&output, Coarser::F8);
    assert!((probe.error_ratio - 0.9).abs() < 1e-9, "{}", probe.error);
    assert_eq!(honest_ratio(&output), 0.0);
    let in_f16 = filled(DType::F16, one, &[16.0, 16.0039, 1024.0]);
    let honest = honest_ratio(&in_f16);
    assert!((honest - 0.0039).abs() < 1e-6, "{honest}");
}

#[test]
fn only_a_few_elements_of_many_numbers_are_sums() {
    assert_eq!(summands(1, 1 << 20), Some(1 << 20));
    assert_eq!(summands(16, 1 << 20), Some(1 << 16));
    assert_eq!(summands(17, 1 << 20), None);
    assert_eq!(summands(1, 255), None);
    // An empty output.
    assert_eq!(summands(0, 1 << 20), Some(1 << 20));
}

#[test]
fn what_a_plain_sum_loses_is_not_held_against_a_coarser_format() {
    let output = filled(DType::F32, default_tolerance(DType::F32), &[524_288.25]);
    let summed = summing_ratio(&output, 1 << 20);
    // A quarter of 2^-24 times 2^10, of two times 2e-5.
    assert!((0.37..0.40).contains(&summed), "{summed}");
    let near = Probe {
        stand_in: StandIn::CoarserInputs(Coarser::Tf32),
        output: "O".into(),
        error: String::new(),
        error_ratio: 0.005,
    };
    assert_eq!(judge_coarser(&near, honest_ratio(&output)), Telling::Weak);
    assert_eq!(judge_coarser(&near, summed), Telling::Alike);
    let integers = filled(DType::I32, default_tolerance(DType::I32), &[]);
    assert_eq!(summing_ratio(&integers, 1 << 20), 0.0);
}
