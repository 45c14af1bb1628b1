//! Outputs that are compared by several threads, piece by piece, and made of the expected values.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Three pieces, the last of them short.
const ELEMENTS: usize = 2 * PIECE + 3;
const PLACES: [usize; 5] = [0, PIECE - 1, PIECE, PIECE + 1, ELEMENTS - 1];

fn large(tolerance: Tolerance) -> Expected {
    let mut task = Expected::new("O", DType::U8, vec![ELEMENTS as u64], tolerance);
    task.fill((0..ELEMENTS).map(|i| (i % 99) as u8 + 100).collect());
    task
}

const EXACT: Tolerance = Tolerance {
    rtol: 0.0,
    atol: None,
};

#[test]
fn a_wrong_element_is_found_wherever_it_is() {
    let task = large(EXACT);
    let right = task.answer(|value| value);
    assert_eq!(right, task.bytes);
    assert_eq!(task.compare(&right, None), Ok(0.0));
    for place in PLACES {
        let mut got = right.clone();
        got[place] ^= 4;
        let fault = task.compare(&got, None).unwrap_err();
        assert_eq!((fault.wrong, fault.elements), (1, ELEMENTS as u64));
        assert_eq!(fault.worst.index, [place as u64]);
    }
    let mut got = right.clone();
    for place in PLACES {
        got[place] -= 1 + (place % 7) as u8;
    }
    assert_eq!(task.compare(&got, None).unwrap_err().wrong, 5);
    assert_eq!(
        task.compare(&right[..ELEMENTS - 2], None)
            .unwrap_err()
            .unwritten,
        2
    );
}

#[test]
fn the_norm_is_that_of_all_pieces() {
    let loose = Tolerance {
        rtol: 0.0,
        atol: Some(3.0),
    };
    let task = large(loose);
    let off_by = |error: f64| task.answer(|value| value + error);
    // About 1 in 150, and 2 in 150.
    let ratio = task.compare(&off_by(1.0), None).unwrap();
    assert!((0.6..0.7).contains(&ratio), "{ratio}");
    let fault = task.compare(&off_by(2.0), None).unwrap_err();
    assert_eq!(fault.wrong, 0);
    let relative = fault.relative_error.unwrap();
    assert!((0.0125..0.0140).contains(&relative), "{relative}");
}

#[test]
fn nonfinite_and_unwritten_elements_of_all_pieces_are_added_up() {
    let elements = 2 * PIECE + 1;
    let mut task = Expected::new("O", DType::F32, vec![elements as u64], EXACT);
    task.fill(1f64.to_le_bytes().repeat(elements));
    let mut got = task.answer(|value| value);
    let poison = crate::input::poison(5, got.len());
    for place in [1, PIECE + 1, 2 * PIECE] {
        got[4 * place..4 * place + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    }
    for place in [2, PIECE + 2, PIECE + 3] {
        let bytes = 4 * place..4 * place + 4;
        got[bytes.clone()].copy_from_slice(&poison[bytes]);
    }
    let fault = task.compare(&got, Some(5)).unwrap_err();
    let nan_poison = [2, PIECE + 2, PIECE + 3]
        .into_iter()
        .filter(|place| !DType::F32.read_f64(&poison[4 * place..]).is_finite())
        .count() as u64;
    assert_eq!(
        (fault.wrong, fault.nonfinite, fault.unwritten),
        (6, 3 + nan_poison, 3)
    );
}

#[test]
fn a_stand_in_that_is_wrong_early_is_not_looked_at_further() {
    let task = large(EXACT);
    let written = AtomicUsize::new(0);
    let ratio = task.error_of(|_, bytes| {
        written.fetch_add(1, Ordering::SeqCst);
        bytes.push(0);
    });
    assert_eq!(ratio, f64::INFINITY);
    assert_eq!(written.load(Ordering::SeqCst), PIECE);
}

#[test]
fn a_stand_in_that_is_wrong_late_is_wrong() {
    let task = large(EXACT);
    let ratio = task.error_of(|element, bytes| match element == ELEMENTS - 1 {
        true => bytes.push(0),
        false => task.write_expected(element, bytes),
    });
    assert_eq!(ratio, f64::INFINITY);
    assert_eq!(
        task.error_of(|element, bytes| task.write_expected(element, bytes)),
        0.0
    );
}

#[test]
fn expected_values_are_written_in_the_outputs_type() {
    let values = [1.0, -2.0, 300.0];
    let bytes = |dtype: DType| {
        let mut bytes = Vec::new();
        values.iter().for_each(|v| dtype.push_f64(*v, &mut bytes));
        bytes
    };
    for dtype in [DType::I16, DType::I64, DType::F16, DType::F64] {
        let mut task = Expected::new("O", dtype, vec![3, 1], EXACT);
        task.fill_from_declared(&bytes(dtype));
        let mut written = Vec::new();
        (0..3).for_each(|element| task.write_expected(element, &mut written));
        assert_eq!(written, bytes(dtype), "{dtype}");
        assert_eq!(task.answer(|value| value), bytes(dtype), "{dtype}");
        assert_eq!(task.validate(Nonfinite::Reject), Ok(()));
        assert_eq!(task.declared_bytes(), 3 * dtype.size_bytes());
        let wide = if dtype.is_float() {
            8
        } else {
            dtype.size_bytes()
        };
        assert_eq!(task.expected_bytes(), 3 * wide);
    }
}

#[test]
fn the_mean_is_that_of_finite_values() {
    let task = expected(&[1.0, 2.0, f64::NAN, 6.0, f64::NEG_INFINITY]);
    assert_eq!(task.mean(), 3.0);
    assert_eq!(expected(&[f64::NAN]).mean(), 0.0);
}

#[test]
fn references_are_refused_for_what_they_are() {
    let refusal = |values: &[f64], atol: Option<f64>, nonfinite: Nonfinite| {
        let mut task = expected(values);
        task.tolerance.atol = atol;
        task.validate(nonfinite).err()
    };
    assert_eq!(refusal(&[0.0, 1.0, 0.0], None, Nonfinite::Reject), None);
    assert_eq!(refusal(&[1.0, -1.5], Some(1.0), Nonfinite::Reject), None);
    let zero = Some(BadReference::AllZero {
        argument: "O".into(),
    });
    assert_eq!(refusal(&[1.0; 17], Some(1.0), Nonfinite::Reject), zero);
    // A few sums may all be near zero by chance, but not all be zero.
    assert_eq!(refusal(&[1.0; 16], Some(1.0), Nonfinite::Reject), None);
    assert_eq!(refusal(&[0.0; 16], Some(1.0), Nonfinite::Reject), zero);
    assert_eq!(refusal(&[f64::INFINITY], None, Nonfinite::Match), zero);
    assert_eq!(
        refusal(&[1.0, f64::INFINITY], None, Nonfinite::Reject),
        Some(BadReference::Nonfinite {
            argument: "O".into(),
            index: vec![1],
            value: f64::INFINITY
        })
    );
    let mut short = expected(&[1.0, 2.0]);
    short.fill(1f64.to_le_bytes().to_vec());
    assert_eq!(
        short.validate(Nonfinite::Reject),
        Err(BadReference::WrongSize {
            argument: "O".into(),
            got: 8,
            wanted: 16
        })
    );
}
