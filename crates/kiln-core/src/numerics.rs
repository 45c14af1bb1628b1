//! Is an output right? Every element is compared, against values of higher precision.

mod rounding;

use std::ops::Range;

use crate::admission::FEW_ELEMENTS;
use crate::dtype::DType;
use crate::input;
use crate::manifest::{Nonfinite, Tolerance};
use crate::threads;
use crate::trial::{NumericFault, WorstElement};
pub(crate) use rounding::unit;
pub use rounding::{SumTolerance, sum_tolerance_for, tolerance_for};

/// A whole output may not be off by more than this in the Euclidean norm, whatever its elements
/// are allowed singly, unless its tolerance says more.
const WHOLE_OUTPUT_RTOL: f64 = 0.01;

/// Elements the scale of an output is taken from.
const MOST_SCALED: usize = 1 << 20;
/// Elements compared by one thread at a time.
const PIECE: usize = 1 << 16;

/// Used where the manifest says nothing: room for rounding in another order, of the value and of
/// the output's scale, and so little that the next coarser format fails on values that lie badly
/// for it.
///
/// One rounding is off by at most half a unit in the last place: 6e-8 for `f32`, 5e-4 for `f16` (and
/// `tf32`), 4e-3 for `bf16`, 6e-2 for `f8`. An output of typical size is allowed twice `rtol`, so
/// `rtol` stays below half of what the coarser format loses: 2e-3 for `f16` against 4e-3, where four
/// roundings of its own fit. Between `f32` and `tf32` there is more room: 2e-5 is over three hundred
/// roundings of the one and a twentieth of the other, so that computations that dampen the errors of
/// their inputs tell them too.
pub fn default_tolerance(dtype: DType) -> Tolerance {
    let rtol = match dtype {
        DType::F64 => 1e-9,
        DType::F32 => 2e-5,
        DType::F16 => 2e-3,
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
        // A sum may come out near zero, once in some thousand draws; that its check tells anything is asked on many
        // of them before a study (`admission`).
        let by_chance = self.dtype.is_float() && self.elements() as u64 <= FEW_ELEMENTS;
        let atol = match by_chance {
            true => 0.0,
            false => self.tolerance.atol.unwrap_or(0.0),
        };
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

    /// What a kernel would write whose answers are the right ones changed by `change`, in the
    /// output's own type.
    pub fn answer(&self, change: impl Fn(f64) -> f64 + Sync) -> Vec<u8> {
        self.written(self.elements(), |element, bytes| {
            self.dtype.push_f64(change(self.value(element)), bytes);
        })
    }

    /// The first elements of what a kernel would write, each appended by `write`.
    fn written(&self, elements: usize, write: impl Fn(usize, &mut Vec<u8>) + Sync) -> Vec<u8> {
        let pieces = threads::map(elements.div_ceil(PIECE), |piece| {
            let mut bytes = Vec::with_capacity(PIECE * self.dtype.size_bytes());
            for element in piece * PIECE..elements.min((piece + 1) * PIECE) {
                write(element, &mut bytes);
            }
            bytes
        });
        pieces.concat()
    }

    /// Appends the expected value of an element in the output's own type.
    pub fn write_expected(&self, element: usize, bytes: &mut Vec<u8>) {
        if self.dtype.is_float() {
            return self.dtype.push_f64(self.value(element), bytes);
        }
        let size = self.dtype.size_bytes();
        bytes.extend_from_slice(&self.bytes[element * size..(element + 1) * size]);
    }

    /// The largest error of a kernel that writes elements by `write`, relative to what is allowed. Of
    /// one that is wrong early on no more is looked at.
    pub fn error_of(&self, write: impl Fn(usize, &mut Vec<u8>) + Sync) -> f64 {
        let elements = self.elements().min(PIECE);
        let tally = self.tally(&self.written(elements, &write), 0..elements, None);
        let worst = tally.worst.map_or(0.0, |worst| worst.ratio);
        match worst > 1.0 {
            true => worst,
            false => self.error_ratio(&self.written(self.elements(), &write)),
        }
    }

    /// The mean of all finite values.
    pub fn mean(&self) -> f64 {
        let finite = (0..self.elements())
            .map(|element| self.value(element))
            .filter(|value| value.is_finite());
        let (count, sum) = finite.fold((0u64, 0.0), |(n, sum), value| (n + 1, sum + value));
        sum / count.max(1) as f64
    }

    /// The largest error relative to what is allowed, also where it is more than that.
    pub fn error_ratio(&self, got: &[u8]) -> f64 {
        let (_, tally) = self.tally_all(got, None);
        let worst = tally.worst.as_ref().map_or(0.0, |worst| worst.ratio);
        tally.ratio.max(worst).max(self.whole_ratio(&tally))
    }

    /// Where an element is, by dimension.
    pub fn index(&self, element: usize) -> Vec<u64> {
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
        let (elements, tally) = self.tally_all(got, poison);
        self.conclude(elements, tally)
    }

    fn tally_all(&self, got: &[u8], poison: Option<u64>) -> (usize, Tally) {
        let elements = self.elements();
        let tallies = threads::map(elements.div_ceil(PIECE), |piece| {
            let last = elements.min((piece + 1) * PIECE);
            self.tally(got, piece * PIECE..last, poison)
        });
        let tally = tallies.into_iter().fold(Tally::default(), Tally::plus);
        (elements, tally)
    }

    /// The error of the output as a whole, relative to what is allowed.
    fn whole_ratio(&self, tally: &Tally) -> f64 {
        tally.relative().map_or(0.0, |relative| {
            relative / WHOLE_OUTPUT_RTOL.max(self.tolerance.rtol)
        })
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
        let relative = tally.relative();
        let whole_ratio = self.whole_ratio(&tally);
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
                times_allowed: Some(worst.ratio).filter(|r| r.is_finite()),
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
    /// In the Euclidean norm.
    fn relative(&self) -> Option<f64> {
        (self.norm > 0.0).then(|| (self.difference / self.norm).sqrt())
    }

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
mod tests;
