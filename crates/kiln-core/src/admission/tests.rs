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
