//! Is an output right? Every element is compared, against values of higher precision.

use std::ops::Range;

use crate::dtype::DType;
use crate::input;
use crate::manifest::{Nonfinite, Tolerance};
use crate::threads;
use crate::trial::{NumericFault, WorstElement};

/// A whole output may not be off by more than this in the Euclidean norm, whatever its elements
/// are allowed singly, unless its tolerance says more.
const WHOLE_OUTPUT_RTOL: f64 = 0.01;

/// Elements the scale of an output is taken from.
const MOST_SCALED: usize = 1 << 20;
/// Elements compared by one thread at a time.
const PIECE: usize = 1 << 16;

/// Used where the manifest says nothing: several rounding steps of the type, relative to the
/// output's scale.
pub fn default_tolerance(dtype: DType) -> Tolerance {
    let rtol = match dtype {
        DType::F64 => 1e-9,
        DType::F32 => 1e-4,
        DType::F16 => 5e-3,
        DType::Bf16 => 2e-2,
        _ => 0.0,
    };
    Tolerance { rtol, atol: None }
}

/// One output as the task describes it, with its expected contents.
#[derive(Clone, Debug)]
pub struct Expected {
    pub argument: String,
    /// Type of the candidate's elements.
    pub dtype: DType,
    pub extents: Vec<u64>,
    pub tolerance: Tolerance,
    /// `f64` for floating types, `dtype` itself for integers.
    bytes: Vec<u8>,
    /// The size of a typical expected value, by which errors are judged.
    scale: f64,
}

/// The reference's own values are not usable as an answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadReference {
    #[error("the reference's output `{argument}` is {value} at {index:?}")]
    Nonfinite {
        argument: String,
        index: Vec<u64>,
        value: f64,
    },
    #[error(
        "the reference's output `{argument}` is zero within tolerance everywhere: any kernel that \
         writes zeros would pass"
    )]
    AllZero { argument: String },
    #[error(
        "`{argument}` is right within tolerance before anything runs: a kernel that does nothing \
         would pass"
    )]
    NothingToDo { argument: String },
    #[error("the reference's output `{argument}` has {got} bytes, {wanted} were expected")]
    WrongSize {
        argument: String,
        got: usize,
        wanted: usize,
    },
}

impl Expected {
    fn elements(&self) -> usize {
        self.extents.iter().product::<u64>() as usize
    }

    fn expected_type(&self) -> DType {
        if self.dtype.is_float() {
            DType::F64
        } else {
            self.dtype
        }
    }

    fn value(&self, element: usize) -> f64 {
        let dtype = self.expected_type();
        dtype.read_f64(&self.bytes[element * dtype.size_bytes()..])
    }

    pub fn new(argument: &str, dtype: DType, extents: Vec<u64>, tolerance: Tolerance) -> Expected {
        Expected {
            argument: argument.to_string(),
            dtype,
            extents,
            tolerance,
            bytes: Vec::new(),
            scale: 0.0,
        }
    }

    /// Takes the expected contents; `validate` says whether they will do.
    pub fn fill(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
        let width = self.expected_type().size_bytes();
        // A spread of a large output tells its scale as well as the whole.
        let elements = self.bytes.len() / width;
        let stride = (elements / MOST_SCALED).max(1);
        let mut sizes: Vec<f64> = (0..elements)
            .step_by(stride)
            .map(|i| self.value(i).abs())
            .filter(|value| value.is_finite())
            .collect();
        let count = sizes.len().max(1) as f64;
        let root_mean_square = (sizes.iter().map(|v| v * v).sum::<f64>() / count).sqrt();
        // A few huge values must not excuse errors in all the others, so the scale is the upper
        // quartile; where most values are zero that says nothing, and the mean has to do.
        let place = sizes.len() * 3 / 4;
        let quartile = if sizes.is_empty() {
            0.0
        } else {
            *sizes.select_nth_unstable_by(place, f64::total_cmp).1
        };
        self.scale = if quartile > 0.0 {
            quartile.min(root_mean_square)
        } else {
            root_mean_square
        };
    }

    /// Takes expected contents in the output's own type.
    pub fn fill_from_declared(&mut self, bytes: &[u8]) {
        if !self.dtype.is_float() {
            return self.fill(bytes.to_vec());
        }
        let size = self.dtype.size_bytes();
        let wide = bytes
            .chunks_exact(size)
            .flat_map(|element| self.dtype.read_f64(element).to_le_bytes())
            .collect();
        self.fill(wide);
    }

    pub fn declared_bytes(&self) -> usize {
        self.elements() * self.dtype.size_bytes()
    }

    /// Bytes the reference writes for this output.
    pub fn expected_bytes(&self) -> usize {
        self.elements() * self.expected_type().size_bytes()
    }

    /// Refuses expected values no candidate could honestly be judged by.
    pub fn validate(&self, nonfinite: Nonfinite) -> Result<(), BadReference> {
        let wanted = self.expected_bytes();
        if self.bytes.len() != wanted {
            return Err(BadReference::WrongSize {
                argument: self.argument.clone(),
                got: self.bytes.len(),
                wanted,
            });
        }
        let atol = self.tolerance.atol.unwrap_or(0.0);
        let mut tells = false;
        for element in 0..self.elements() {
            let value = self.value(element);
            if !value.is_finite() && nonfinite == Nonfinite::Reject {
                return Err(BadReference::Nonfinite {
                    argument: self.argument.clone(),
                    index: self.index(element),
                    value,
                });
            }
            tells |= value.is_finite() && value.abs() > atol;
        }
        if !tells {
            return Err(BadReference::AllZero {
                argument: self.argument.clone(),
            });
        }
        Ok(())
    }

    /// Refuses an inout buffer whose contents before the launch would already pass.
    pub fn validate_original(&self, original: &[u8]) -> Result<(), BadReference> {
        match self.compare(original, None) {
            Err(_) => Ok(()),
            Ok(_) => Err(BadReference::NothingToDo {
                argument: self.argument.clone(),
            }),
        }
    }

    fn index(&self, element: usize) -> Vec<u64> {
        let mut rest = element as u64;
        let mut index: Vec<u64> = self
            .extents
            .iter()
            .rev()
            .map(|extent| {
                let position = rest % extent.max(&1);
                rest /= extent.max(&1);
                position
            })
            .collect();
        index.reverse();
        index
    }

    /// Compares all elements. `Ok` is the largest error relative to what was allowed (at most 1).
    /// `poison` is the seed of what the buffer held before the launch.
    pub fn compare(&self, got: &[u8], poison: Option<u64>) -> Result<f64, Box<NumericFault>> {
        let elements = self.elements();
        let tallies = threads::map(elements.div_ceil(PIECE), |piece| {
            let last = elements.min((piece + 1) * PIECE);
            self.tally(got, piece * PIECE..last, poison)
        });
        let tally = tallies.into_iter().fold(Tally::default(), Tally::plus);
        self.conclude(elements, tally)
    }

    fn tally(&self, got: &[u8], elements: Range<usize>, poison: Option<u64>) -> Tally {
        let size = self.dtype.size_bytes();
        let atol = self
            .tolerance
            .atol
            .unwrap_or(self.tolerance.rtol * self.scale);
        let mut tally = Tally::default();
        for element in elements {
            let range = element * size..(element + 1) * size;
            let Some(bytes) = got.get(range.clone()) else {
                // A short answer counts as unwritten elements, never as a pass.
                tally.wrong += 1;
                tally.unwritten += 1;
                tally.note(element, f64::INFINITY, f64::NAN, self.value(element), 0.0);
                continue;
            };
            let judged = if self.dtype.is_float() {
                self.judge_float(element, bytes, atol)
            } else {
                self.judge_integer(element, bytes)
            };
            tally.difference += judged.difference * judged.difference;
            tally.norm += judged.norm * judged.norm;
            if judged.ratio <= 1.0 {
                tally.ratio = tally.ratio.max(judged.ratio);
                continue;
            }
            tally.wrong += 1;
            tally.nonfinite += u64::from(judged.nonfinite);
            tally.unwritten += u64::from(poison.is_some_and(|seed| {
                let mut before = [0; 8];
                input::poison_from(seed, range.start, &mut before[..size]);
                before[..size] == *bytes
            }));
            tally.note(
                element,
                judged.ratio,
                judged.got,
                judged.expected,
                judged.allowed,
            );
        }
        tally
    }

    fn judge_float(&self, element: usize, bytes: &[u8], atol: f64) -> Judged {
        let got = self.dtype.read_f64(bytes);
        let expected = self.value(element);
        let allowed = atol + self.tolerance.rtol * expected.abs();
        let same_nonfinite =
            !expected.is_finite() && (got == expected || (got.is_nan() && expected.is_nan()));
        if same_nonfinite {
            return Judged::default();
        }
        if !got.is_finite() || !expected.is_finite() {
            return Judged {
                ratio: f64::INFINITY,
                got,
                expected,
                allowed,
                nonfinite: !got.is_finite(),
                ..Judged::default()
            };
        }
        let difference = (got - expected).abs();
        Judged {
            // An exact match is right even where nothing is allowed.
            ratio: if difference == 0.0 {
                0.0
            } else {
                difference / allowed
            },
            got,
            expected,
            allowed,
            difference,
            norm: expected.abs(),
            nonfinite: false,
        }
    }

    fn judge_integer(&self, element: usize, bytes: &[u8]) -> Judged {
        let size = self.dtype.size_bytes();
        let read = |bytes: &[u8]| {
            self.dtype
                .read_i128(bytes)
                .expect("only integers are judged here")
        };
        let got = read(bytes);
        let expected = read(&self.bytes[element * size..]);
        let difference = (got - expected).unsigned_abs() as f64;
        let allowed = self.tolerance.atol.unwrap_or(0.0)
            + self.tolerance.rtol * (expected.unsigned_abs() as f64);
        Judged {
            ratio: if difference == 0.0 {
                0.0
            } else {
                difference / allowed
            },
            got: got as f64,
            expected: expected as f64,
            allowed,
            difference,
            norm: expected.unsigned_abs() as f64,
            nonfinite: false,
        }
    }

    fn conclude(&self, elements: usize, tally: Tally) -> Result<f64, Box<NumericFault>> {
        let relative = (tally.norm > 0.0).then(|| (tally.difference / tally.norm).sqrt());
        let whole_limit = WHOLE_OUTPUT_RTOL.max(self.tolerance.rtol);
        let whole_ratio = relative.map_or(0.0, |r| r / whole_limit);
        if tally.wrong == 0 && whole_ratio <= 1.0 {
            return Ok(tally.ratio.max(whole_ratio));
        }
        let worst = tally.worst.unwrap_or(Worst {
            element: 0,
            ratio: whole_ratio,
            got: f64::NAN,
            expected: self.value(0),
            allowed: 0.0,
        });
        // A wrong byte equals its poison once in 256 times; that is chance, not a missing store.
        let by_chance = tally.wrong >> (8 * self.dtype.size_bytes()).min(63);
        let unwritten = if tally.unwritten > 4 * by_chance + 4 || by_chance == 0 {
            tally.unwritten
        } else {
            0
        };
        Err(Box::new(NumericFault {
            argument: self.argument.clone(),
            elements: elements as u64,
            wrong: tally.wrong,
            unwritten,
            nonfinite: tally.nonfinite,
            worst: WorstElement {
                index: self.index(worst.element),
                got: short(worst.got),
                expected: short(worst.expected),
                allowed: short(worst.allowed),
            },
            relative_error: relative.filter(|r| r.is_finite()),
        }))
    }
}

#[derive(Default)]
struct Judged {
    /// Error relative to what is allowed; above 1 is wrong.
    ratio: f64,
    got: f64,
    expected: f64,
    allowed: f64,
    difference: f64,
    norm: f64,
    nonfinite: bool,
}

struct Worst {
    element: usize,
    ratio: f64,
    got: f64,
    expected: f64,
    allowed: f64,
}

#[derive(Default)]
struct Tally {
    wrong: u64,
    unwritten: u64,
    nonfinite: u64,
    ratio: f64,
    difference: f64,
    norm: f64,
    worst: Option<Worst>,
}

impl Tally {
    fn plus(mut self, other: Tally) -> Tally {
        self.wrong += other.wrong;
        self.unwritten += other.unwritten;
        self.nonfinite += other.nonfinite;
        self.ratio = self.ratio.max(other.ratio);
        self.difference += other.difference;
        self.norm += other.norm;
        if let Some(w) = other.worst {
            self.note(w.element, w.ratio, w.got, w.expected, w.allowed);
        }
        self
    }

    fn note(&mut self, element: usize, ratio: f64, got: f64, expected: f64, allowed: f64) {
        if self.worst.as_ref().is_none_or(|w| ratio > w.ratio) {
            self.worst = Some(Worst {
                element,
                ratio,
                got,
                expected,
                allowed,
            });
        }
    }
}

fn short(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        let text = format!("{value:.6}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        format!("{value:.4e}")
    }
}

#[cfg(test)]
mod tests {
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
            .compare(&f32s(&[1.000_01, -2.0]), None)
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
}
