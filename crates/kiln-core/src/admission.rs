//! Is a task's check worth anything? Kernels that do none of the work stand in for candidates,
//! and every one of them has to be found wrong.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::numerics::{Expected, unit};
use crate::precision::Coarser;

/// A coarser format is held against a task only where the errors it causes are at least this many
/// times what rounding a right answer to the output's own type causes. Below that no tolerance
/// tells them apart.
const TELLING: f64 = 4.0;

/// What a proposed tolerance leaves between itself and the stand-in that has to fail.
const CLEARANCE: f64 = 1.5;

/// Outputs with no more elements than this, and at least so many numbers behind each of them, are sums or the like.
pub(crate) const FEW_ELEMENTS: u64 = 16;
const MANY_SUMMANDS: u64 = 256;

/// What adding positive numbers one after the other loses, in roundings times the root of their number: 0.23 for 2^10 as
/// for 2^24 numbers drawn from [0, 1), root mean square of 200 sums.
const LOST_IN_ORDER: f64 = 0.25;

/// What a kernel does instead of its work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandIn {
    Zeros,
    /// The mean of the answer to other inputs, everywhere.
    Constant,
    /// One of its inputs, as it is.
    Copy(String),
    /// The right answer to other inputs.
    Previous,
    /// The right answer, rounded to a coarser format.
    CoarserOutput(Coarser),
    /// The right answer to inputs that were rounded to a coarser format.
    CoarserInputs(Coarser),
}

impl StandIn {
    /// The word for it in `admits`.
    pub fn word(&self) -> &'static str {
        match self {
            StandIn::Zeros => "zeros",
            StandIn::Constant => "constant",
            StandIn::Copy(_) => "copy",
            StandIn::Previous => "previous",
            StandIn::CoarserOutput(format) | StandIn::CoarserInputs(format) => format.name(),
        }
    }

    pub fn is_coarser(&self) -> bool {
        matches!(self, StandIn::CoarserOutput(_) | StandIn::CoarserInputs(_))
    }

    /// What it does, after "a kernel that".
    pub fn deed(&self) -> String {
        match self {
            StandIn::Zeros => "writes zeros".into(),
            StandIn::Constant => "writes one constant everywhere".into(),
            StandIn::Copy(input) => format!("copies its input `{input}`"),
            StandIn::Previous => "hands out the answer to other inputs".into(),
            StandIn::CoarserOutput(format) => format!("rounds its results to {format}"),
            StandIn::CoarserInputs(format) => format!("computes in {format}"),
        }
    }
}

/// Words that `admits` may hold.
pub const ADMITTED: [&str; 8] = [
    "zeros", "constant", "copy", "previous", "f32", "tf32", "bf16", "f8",
];

/// How one stand-in fares on one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    pub stand_in: StandIn,
    pub output: String,
    /// Its largest error, relative to what is allowed: above 1 it is found wrong, as it should be.
    /// As text: JSON has no infinity.
    pub error: String,
    #[serde(skip)]
    pub error_ratio: f64,
}

impl Probe {
    /// `write` appends what the stand-in writes for an element.
    pub fn new(
        stand_in: StandIn,
        output: &Expected,
        write: impl Fn(usize, &mut Vec<u8>) + Sync,
    ) -> Probe {
        let error_ratio = output.error_of(write);
        Probe {
            stand_in,
            output: output.argument.clone(),
            error: format!("{error_ratio:.3}"),
            error_ratio,
        }
    }

    pub fn passes(&self) -> bool {
        self.error_ratio <= 1.0
    }
}

/// An input as the kernel sees it.
#[derive(Clone, Debug)]
pub struct InputContents {
    pub name: String,
    pub dtype: DType,
    pub bytes: Vec<u8>,
}

impl InputContents {
    fn elements(&self) -> usize {
        self.bytes.len() / self.dtype.size_bytes()
    }

    /// Appends an element in another type.
    fn write(&self, element: usize, dtype: DType, bytes: &mut Vec<u8>) {
        let size = self.dtype.size_bytes();
        let own = &self.bytes[element * size..(element + 1) * size];
        match dtype == self.dtype {
            true => bytes.extend_from_slice(own),
            false => dtype.push_f64(self.dtype.read_f64(own), bytes),
        }
    }
}

/// Stand-ins that do no work at all, on every output. `others` is the answer to other inputs.
pub fn idle(
    outputs: &[Expected],
    others: Option<&[Expected]>,
    inputs: &[InputContents],
) -> Vec<Probe> {
    let mut probes = Vec::new();
    for (place, output) in outputs.iter().enumerate() {
        let dtype = output.dtype;
        let zeros = |_, bytes: &mut Vec<u8>| dtype.push_f64(0.0, bytes);
        probes.push(Probe::new(StandIn::Zeros, output, zeros));
        if let Some(other) = others.and_then(|others| others.get(place)) {
            let mean = other.mean();
            let constant = |_, bytes: &mut Vec<u8>| dtype.push_f64(mean, bytes);
            probes.push(Probe::new(StandIn::Constant, output, constant));
            let previous = |element, bytes: &mut Vec<u8>| other.write_expected(element, bytes);
            probes.push(Probe::new(StandIn::Previous, output, previous));
        }
        let elements = output.declared_bytes() / dtype.size_bytes();
        for input in inputs.iter().filter(|input| input.elements() == elements) {
            let copy = |element, bytes: &mut Vec<u8>| input.write(element, dtype, bytes);
            let probe = Probe::new(StandIn::Copy(input.name.clone()), output, copy);
            // Where the answer is a copy, to the bit, copying is the work.
            if probe.error_ratio > 0.0 {
                probes.push(probe);
            }
        }
    }
    probes
}

/// The right answer, rounded to a coarser format.
pub fn coarser_output(output: &Expected, format: Coarser) -> Probe {
    let rounded = output.answer(|value| format.round(value));
    let size = output.dtype.size_bytes();
    Probe::new(StandIn::CoarserOutput(format), output, |element, bytes| {
        bytes.extend_from_slice(&rounded[element * size..(element + 1) * size]);
    })
}

/// How a right answer fares, rounded to the output's type and no more: nothing can be asked beyond
/// that.
pub fn honest_ratio(output: &Expected) -> f64 {
    output.error_ratio(&output.answer(|value| value))
}

/// How many numbers go into each element of a small output, where it can only be a reduction.
pub fn summands(output_elements: u64, largest_input: u64) -> Option<u64> {
    let each = largest_input / output_elements.max(1);
    (output_elements <= FEW_ELEMENTS && each >= MANY_SUMMANDS).then_some(each)
}

/// How a right answer fares that is a sum in the output's own type, one number after the other. What is told only by
/// less than that is not to be held against a task: its own baseline would not pass.
pub fn summing_ratio(output: &Expected, summands: u64) -> f64 {
    let Some(unit) = unit(output.dtype) else {
        return 0.0;
    };
    let lost = LOST_IN_ORDER * unit * (summands as f64).sqrt();
    output.error_ratio(&output.answer(|value| value * (1.0 + lost)))
}

/// What a coarse stand-in says about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// It is found wrong, as it should be.
    Fails,
    /// It passes, and a tolerance exists that would tell.
    Weak,
    /// It passes, and no tolerance would tell it from a right answer.
    Alike,
}

pub fn judge_coarser(probe: &Probe, honest_ratio: f64) -> Telling {
    if !probe.passes() {
        Telling::Fails
    } else if probe.error_ratio > TELLING * honest_ratio && probe.error_ratio > 0.0 {
        Telling::Weak
    } else {
        Telling::Alike
    }
}

/// A tolerance that finds the stand-in wrong, as it is written in a manifest; `None` where the
/// stand-in is right to the bit.
pub fn proposed_tolerance(output: &Expected, probe: &Probe) -> Option<String> {
    let factor = probe.error_ratio / CLEARANCE;
    let shrunk = |number: f64| round_down(number * factor);
    let tolerance = output.tolerance;
    match (tolerance.rtol > 0.0, tolerance.atol) {
        _ if !(factor > 0.0 && factor.is_finite()) => None,
        (_, None) => Some(shrunk(tolerance.rtol)),
        (false, Some(atol)) => Some(format!("{{ atol = {} }}", shrunk(atol))),
        (true, Some(atol)) => Some(format!(
            "{{ rtol = {}, atol = {} }}",
            shrunk(tolerance.rtol),
            shrunk(atol)
        )),
    }
}

/// Two digits, never more than the number: `1.9e-3`.
fn round_down(number: f64) -> String {
    let exponent = number.log10().floor();
    let digits = (number / 10f64.powf(exponent) * 10.0 + 1e-9).floor() / 10.0;
    format!("{digits}e{exponent}")
}

/// What was found out about a task before anything was tuned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Admission {
    pub shape: String,
    /// The stand-ins that came nearest to passing, and those that passed and were accepted.
    pub probes: Vec<Probe>,
    /// Words of `admits` that were made use of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// What the task cannot tell, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests;
