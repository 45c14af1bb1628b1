//! Where right ends and wrong begins, to the digit: each number here is one a slip in the comparison
//! would change.

use super::*;
use crate::input;

fn filled(dtype: DType, tolerance: Tolerance, values: &[f64]) -> Expected {
    let mut task = Expected::new("O", dtype, vec![values.len() as u64], tolerance);
    task.fill(values.iter().flat_map(|v| v.to_le_bytes()).collect());
    task
}

fn integers(dtype: DType, tolerance: Tolerance, values: &[f64]) -> Expected {
    let mut task = Expected::new("N", dtype, vec![values.len() as u64], tolerance);
    task.fill(bytes_of(dtype, values));
    task
}

fn bytes_of(dtype: DType, values: &[f64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        dtype.push_f64(*value, &mut bytes);
    }
    bytes
}

fn absolute(atol: f64) -> Tolerance {
    Tolerance {
        rtol: 0.0,
        atol: Some(atol),
    }
}

fn relative(rtol: f64) -> Tolerance {
    Tolerance { rtol, atol: None }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn every_type_has_its_own_default() {
    for (dtype, rtol) in [
        (DType::F64, 1e-9),
        (DType::F32, 2e-5),
        (DType::F16, 2e-3),
        (DType::Bf16, 2e-2),
        (DType::I32, 0.0),
        (DType::U8, 0.0),
    ] {
        assert_eq!(default_tolerance(dtype), relative(rtol), "{dtype}");
    }
}

#[test]
fn the_scale_is_the_upper_quartile_or_the_mean_square_whichever_is_less() {
    let scale = |values: &[f64]| filled(DType::F64, relative(1.0), values).scale;
    assert_eq!(scale(&[1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 3.0, -100.0]), 3.0);
    assert_eq!(scale(&[0.0, 0.0, 3.0, -4.0]), 2.5);
    // Where most are zero the quartile says nothing.
    let mostly_zero = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0];
    assert_eq!(scale(&mostly_zero), 8f64.sqrt());
    assert_eq!(scale(&[f64::NAN, f64::INFINITY, 3.0, 3.0]), 3.0);
    assert_eq!(scale(&[]), 0.0);
}

#[test]
fn without_an_absolute_tolerance_the_scale_counts_like_the_value() {
    // 1e-3 of the scale, 4, and 1e-3 of the value, 4.
    let mut got = vec![4.0; 1000];
    let task = filled(DType::F64, relative(1e-3), &got);
    got[7] = 4.0 + 5e-3;
    assert!(near(
        task.compare(&bytes_of(DType::F64, &got), None).unwrap(),
        0.625
    ));
    got[7] = 4.0 - 9e-3;
    let fault = task.compare(&bytes_of(DType::F64, &got), None).unwrap_err();
    assert_eq!(fault.worst.allowed, "0.008");
    assert_eq!(
        (fault.worst.got.as_str(), fault.worst.expected.as_str()),
        ("3.991", "4")
    );
}

#[test]
fn an_absolute_tolerance_is_added_to_the_relative_one() {
    let both = Tolerance {
        rtol: 0.01,
        atol: Some(0.5),
    };
    let mut values = vec![1000.0; 10_000];
    values[3] = 50.0;
    let task = filled(DType::F64, both, &values);
    values[3] = 50.99;
    assert!(near(
        task.compare(&bytes_of(DType::F64, &values), None).unwrap(),
        0.99
    ));
    values[3] = 51.01;
    let fault = task
        .compare(&bytes_of(DType::F64, &values), None)
        .unwrap_err();
    assert_eq!((fault.wrong, fault.worst.allowed.as_str()), (1, "1"));
}

#[test]
fn the_whole_output_is_held_to_a_hundredth_whatever_its_elements_are_allowed() {
    let loose = filled(DType::F64, absolute(10.0), &[3.0, 4.0]);
    let fault = loose
        .compare(&bytes_of(DType::F64, &[3.0, 7.0]), None)
        .unwrap_err();
    // No element is wrong by itself.
    assert_eq!((fault.wrong, fault.elements), (0, 2));
    assert_eq!(fault.relative_error, Some(0.6));
    assert!(near(
        loose.error_ratio(&bytes_of(DType::F64, &[3.0, 7.0])),
        60.0
    ));
    assert!(near(
        loose
            .compare(&bytes_of(DType::F64, &[3.0, 4.04]), None)
            .unwrap(),
        0.8
    ));
    // Unless more is allowed relative to each.
    let looser = filled(DType::F64, relative(0.5), &[3.0, 4.0]);
    assert!(
        looser
            .compare(&bytes_of(DType::F64, &[3.0, 5.5]), None)
            .is_ok()
    );
}

#[test]
fn an_exact_answer_is_off_by_nothing() {
    let values = [1.0, -2.0, 0.0];
    let exact = filled(DType::F32, absolute(0.0), &values);
    let got = bytes_of(DType::F32, &values);
    assert_eq!(exact.compare(&got, None), Ok(0.0));
    assert_eq!(exact.error_ratio(&got), 0.0);
    let zeros = filled(DType::F32, absolute(0.5), &[0.0, 0.0]);
    // Nothing has no norm to be off by.
    assert_eq!(
        zeros.compare(&bytes_of(DType::F32, &[0.25, 0.0]), None),
        Ok(0.5)
    );
}

#[test]
fn the_first_of_the_worst_elements_is_shown() {
    let task = filled(DType::F64, absolute(0.5), &[10.0; 6]);
    let got = [10.0, 12.0, 15.0, 10.0, 5.0, 13.0];
    let fault = task.compare(&bytes_of(DType::F64, &got), None).unwrap_err();
    assert_eq!((fault.wrong, fault.nonfinite, fault.unwritten), (4, 0, 0));
    assert_eq!(fault.worst.index, [2]);
    assert_eq!(fault.worst.got, "15");
    let nan = [10.0, 10.0, 10.0, f64::NAN, 10.0, 10.0];
    let worst = task
        .compare(&bytes_of(DType::F64, &nan), None)
        .unwrap_err()
        .worst;
    assert_eq!(worst.index, [3]);
    assert_eq!(
        [worst.got, worst.expected, worst.allowed],
        ["NaN", "10", "0.5"]
    );
}

#[test]
fn a_finite_value_in_place_of_infinity_is_wrong_and_finite() {
    let task = filled(DType::F32, relative(1e-3), &[f64::INFINITY, 1.0]);
    let compare = |got: [f64; 2]| task.compare(&bytes_of(DType::F32, &got), None);
    let fault = compare([7.0, 1.0]).unwrap_err();
    assert_eq!((fault.wrong, fault.nonfinite), (1, 0));
    let fault = compare([f64::NAN, 1.0]).unwrap_err();
    assert_eq!((fault.wrong, fault.nonfinite), (1, 1));
    assert_eq!(compare([f64::INFINITY, 1.0]), Ok(0.0));
}

#[test]
fn integers_may_be_off_by_both_tolerances_and_no_more() {
    let both = Tolerance {
        rtol: 0.1,
        atol: Some(1.0),
    };
    let mut values = [10.0, 20.0, 30.0, -5.0, 1000.0];
    let task = integers(DType::I16, both, &values);
    for (value, ratio) in [(30.0, 0.0), (32.0, 0.5), (34.0, 1.0), (26.0, 1.0)] {
        values[2] = value;
        let got = task.compare(&bytes_of(DType::I16, &values), None).unwrap();
        assert!(got >= ratio && got < ratio + 0.05, "{value}: {got}");
    }
    for value in [35.0, 25.0, -30.0] {
        values[2] = value;
        let fault = task
            .compare(&bytes_of(DType::I16, &values), None)
            .unwrap_err();
        assert_eq!((fault.wrong, fault.worst.index), (1, vec![2]));
        assert_eq!(fault.worst.allowed, "4");
        assert_eq!(fault.worst.expected, "30");
    }
    values[2] = 33.0;
    values[3] = -3.0;
    // An error of 2 where 1.5 are allowed.
    assert!(task.compare(&bytes_of(DType::I16, &values), None).is_err());
    let exact = integers(DType::I16, absolute(0.0), &[3.0, 4.0]);
    assert_eq!(
        exact.compare(&bytes_of(DType::I16, &[3.0, 4.0]), None),
        Ok(0.0)
    );
    let off = bytes_of(DType::I16, &[3.0, 7.0]);
    let fault = exact.compare(&off, None).unwrap_err();
    assert_eq!(fault.relative_error, Some(0.6));
}

/// What a kernel writes that stores every element but some, which keep their poison.
fn partly_written(dtype: DType, elements: usize, kept: usize) -> (Expected, Vec<u8>) {
    let size = dtype.size_bytes();
    let poison = input::poison(5, elements * size);
    let expected: Vec<u8> = poison.iter().map(|byte| byte ^ 0x55).collect();
    let mut got: Vec<u8> = poison.iter().map(|byte| byte ^ 0x2a).collect();
    got[..kept * size].copy_from_slice(&poison[..kept * size]);
    let mut task = Expected::new("B", dtype, vec![elements as u64], default_tolerance(dtype));
    task.fill(expected);
    (task, got)
}

#[test]
fn as_many_unwritten_bytes_as_chance_explains_are_not_called_so() {
    let unwritten = |dtype, elements, kept| {
        let (task, got) = partly_written(dtype, elements, kept);
        let fault = task.compare(&got, Some(5)).unwrap_err();
        assert_eq!(fault.wrong, elements as u64);
        fault.unwritten
    };
    // Of 512 wrong bytes two are met by chance; up to twelve may be.
    assert_eq!(unwritten(DType::U8, 512, 12), 0);
    assert_eq!(unwritten(DType::U8, 512, 13), 13);
    // Two bytes are not met by chance so soon.
    assert_eq!(unwritten(DType::U16, 40, 10), 10);
    assert_eq!(unwritten(DType::U64, 40, 1), 1);
}

#[test]
fn elements_that_are_missing_count_as_unwritten() {
    let task = filled(DType::F32, relative(1e-3), &[1.0, 2.0, 3.0]);
    let fault = task
        .compare(&bytes_of(DType::F32, &[1.0]), None)
        .unwrap_err();
    assert_eq!((fault.wrong, fault.unwritten), (2, 2));
    assert_eq!(fault.worst.index, [1]);
    // Half an element is none.
    let torn = &bytes_of(DType::F32, &[1.0, 2.0, 3.0])[..11];
    assert_eq!(task.compare(torn, None).unwrap_err().wrong, 1);
}

#[test]
fn numbers_in_reports_are_short() {
    for (value, text) in [
        (0.0, "0"),
        (0.5, "0.5"),
        (-12.25, "-12.25"),
        (100.0, "100"),
        (1e-4, "1.0000e-4"),
        (2.5e6, "2.5000e6"),
    ] {
        assert_eq!(short(value), text);
    }
}
