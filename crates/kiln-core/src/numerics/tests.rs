mod limits;
mod pieces;

use super::*;

fn expected(values: &[f64]) -> Expected {
    let extents = vec![values.len() as u64];
    let mut task = Expected::new("O", DType::F32, extents, default_tolerance(DType::F32));
    task.fill(values.iter().flat_map(|v| v.to_le_bytes()).collect());
    task
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn rounding_passes_and_the_ratio_says_how_close_it_was() {
    let ratio = expected(&[1.0, -2.0])
        .compare(&f32s(&[1.000_002, -2.0]), None)
        .unwrap();
    assert!(ratio > 0.01 && ratio < 0.2, "{ratio}");
}

#[test]
fn one_wrong_element_in_many_fails() {
    let mut values = vec![1.0; 10_000];
    let task = expected(&values);
    values[9_999] = 1.01;
    let got: Vec<f32> = values.iter().map(|v| *v as f32).collect();
    let fault = task.compare(&f32s(&got), None).unwrap_err();
    assert_eq!((fault.wrong, fault.worst.index), (1, vec![9_999]));
}

#[test]
fn unwritten_elements_are_counted() {
    let task = expected(&[1.0, 2.0, 3.0]);
    let poison = crate::input::poison(5, 12);
    let mut got = poison.clone();
    got[..4].copy_from_slice(&1.0f32.to_le_bytes());
    let fault = task.compare(&got, Some(5)).unwrap_err();
    assert_eq!((fault.wrong, fault.unwritten), (2, 2));
}

#[test]
fn bytes_that_equal_their_poison_by_chance_are_not_called_unwritten() {
    let mut task = Expected::new("B", DType::U8, vec![51_200], default_tolerance(DType::U8));
    task.fill(vec![1; 51_200]);
    let poison = crate::input::poison(5, 51_200);
    let fault = task.compare(&vec![2; 51_200], Some(5)).unwrap_err();
    assert_eq!((fault.wrong, fault.unwritten), (51_200, 0));
    let fault = task.compare(&poison, Some(5)).unwrap_err();
    assert!(fault.unwritten > 50_000);
}

#[test]
fn nan_and_infinity_never_pass_for_finite_values() {
    let task = expected(&[1.0, 2.0]);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let fault = task.compare(&f32s(&[1.0, bad]), None).unwrap_err();
        assert_eq!((fault.wrong, fault.nonfinite), (1, 1));
    }
}

#[test]
fn expected_nonfinite_must_be_met_exactly() {
    let task = expected(&[f64::INFINITY, f64::NAN, 1.0]);
    assert!(task.validate(Nonfinite::Reject).is_err());
    assert!(task.validate(Nonfinite::Match).is_ok());
    assert!(
        task.compare(&f32s(&[f32::INFINITY, f32::NAN, 1.0]), None)
            .is_ok()
    );
    for got in [
        [f32::NEG_INFINITY, f32::NAN, 1.0],
        [f32::INFINITY, 0.0, 1.0],
        [1e38, f32::NAN, 1.0],
    ] {
        assert!(task.compare(&f32s(&got), None).is_err());
    }
}

#[test]
fn tiny_outputs_are_judged_by_their_own_scale() {
    let task = expected(&[1e-6, -2e-6, 1e-6]);
    assert!(task.compare(&f32s(&[0.0, 0.0, 0.0]), None).is_err());
    assert!(expected(&[0.0, 0.0]).validate(Nonfinite::Reject).is_err());
}

#[test]
fn a_few_huge_values_do_not_excuse_the_rest() {
    let mut values = vec![1.0; 1000];
    values[7] = 1e12;
    let task = expected(&values);
    let mut got: Vec<f32> = values.iter().map(|v| *v as f32).collect();
    assert!(task.compare(&f32s(&got), None).is_ok());
    got[500] = 0.0;
    assert!(task.compare(&f32s(&got), None).is_err());
}

#[test]
fn references_that_prove_nothing_are_refused() {
    assert!(
        expected(&[f64::NAN, f64::NAN])
            .validate(Nonfinite::Match)
            .is_err()
    );
    let task = expected(&[1.0, 2.0]);
    assert!(task.validate_original(&f32s(&[1.0, 2.000_01])).is_err());
    assert!(task.validate_original(&f32s(&[1.0, 2.1])).is_ok());
}

#[test]
fn short_answers_fail() {
    let fault = expected(&[1.0, 2.0])
        .compare(&f32s(&[1.0]), None)
        .unwrap_err();
    assert_eq!(fault.wrong, 1);
}

#[test]
fn integers_are_exact_beyond_the_precision_of_f64() {
    let big = (1i64 << 62) + 1;
    let mut task = Expected::new("N", DType::I64, vec![1], default_tolerance(DType::I64));
    task.fill(big.to_le_bytes().to_vec());
    assert!(task.compare(&big.to_le_bytes(), None).is_ok());
    assert!(task.compare(&(big - 1).to_le_bytes(), None).is_err());
}

#[test]
fn index_of_an_element_follows_the_extents() {
    let mut task = expected(&[0.0; 24]);
    task.extents = vec![2, 3, 4];
    assert_eq!(task.index(23), [1, 2, 3]);
    assert_eq!(task.index(5), [0, 1, 1]);
}
