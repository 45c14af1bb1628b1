//! What the author of a kernel wrote in `kiln.toml`, decoded and checked.
//!
//! The types here are the meaning of a manifest; `manifest::decode` turns TOML into them and
//! `manifest::keys` lists every key once, for decoding, hints and the JSON Schema. Files named by
//! a manifest are not opened here.

mod decode;
mod difference;
mod fill;
mod init;
pub mod keys;
mod schema;
mod uses;

pub use decode::has_table;
pub use fill::{BadRange, End, Fill, FillRule, default_integers};
pub use init::{
    Beside, FirstManifest, InitError, WrongParameters, code_only, first_manifest, function_names,
    wrong_parameters,
};
pub use keys::default_gate_policy;
pub use schema::json_schema;
pub use uses::depends_on_macro;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::expression::Expr;
use crate::space::Tunable;
use crate::value::Value;

/// A value and where it was written, for errors found after decoding (a missing file, say).
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
pub struct Manifest {
    pub kernel: Kernel,
    pub tunables: Vec<Tunable>,
    pub constraints: Vec<Constraint>,
    /// In the order written; exactly one is the target.
    pub shapes: Vec<Shape>,
    /// In the order of the entry's parameters.
    pub arguments: Vec<Argument>,
    pub launch: Launch,
    pub work: Work,
    pub reference: Option<Reference>,
    pub baseline: Option<Baseline>,
    pub tolerance: Vec<(DType, ToleranceRule)>,
    /// Weaknesses of the check that the author accepts, as words of `admission::ADMITTED`.
    pub admits: Vec<String>,
    pub nonfinite: Nonfinite,
    pub gates: Vec<(String, GatePolicy)>,
    pub search: Search,
    pub budget: Budget,
    pub measure: Measure,
    pub confirm: Confirm,
    /// In the order written.
    pub stages: Vec<Stage>,
    pub export: Export,
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub language: Language,
    /// Relative to the manifest's folder, like every path in a manifest.
    pub source: Spanned<String>,
    pub entry: Spanned<String>,
    pub flags: Vec<String>,
    pub include_dirs: Vec<Spanned<String>>,
    /// For CUDA.
    pub compiler: CudaCompiler,
}

/// The function's own name in an entry: `k` of `space::k<float, 4>`.
pub fn plain_name(entry: &str) -> &str {
    let path = entry.split('<').next().unwrap_or_default().trim_end();
    path.rsplit("::").next().unwrap_or_default()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CudaCompiler {
    #[default]
    Nvrtc,
    /// For sources that NVRTC cannot take.
    Nvcc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    C,
    Cuda,
}

/// A named condition; a config that breaks it does not exist in the space.
#[derive(Clone, Debug)]
pub struct Constraint {
    pub name: String,
    pub expr: Expr,
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
pub struct Shape {
    pub name: String,
    pub purpose: ShapePurpose,
    /// How much it counts when several shapes are tuned together.
    pub weight: f64,
    /// Every shape gives a value to the same dimensions, in the same order.
    pub dimensions: Vec<(String, i64)>,
    /// Dimensions that were written as expressions over others, in an order in which each comes
    /// after those it needs.
    pub formulas: Vec<(String, Expr)>,
    pub span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShapePurpose {
    /// What is tuned and timed.
    Target,
    /// Answers are checked on it before anything is timed.
    Check,
    /// For sweeps only; not touched while tuning.
    Sweep,
}

#[derive(Clone, Debug)]
pub struct Argument {
    pub name: String,
    pub dtype: DType,
    pub kind: ArgumentKind,
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a manifest has a few; a box would only be in the way"
)]
pub enum ArgumentKind {
    Scalar {
        value: Expr,
    },
    Buffer {
        shape: Vec<Expr>,
        role: Role,
        /// For `Role::Input` and `Role::InOut`.
        fill: FillRule,
        tolerance: Option<ToleranceRule>,
    },
    /// A descriptor of another argument, for loads by the tensor memory accelerator.
    Tma {
        /// Position of the buffer among the arguments.
        tensor: usize,
        /// Elements loaded at a time, outermost first. A tensor of higher rank is seen with its
        /// leading dimensions merged.
        tile: Vec<Expr>,
        swizzle: Swizzle,
    },
}

/// How the tensor memory accelerator permutes a tile in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Swizzle {
    #[default]
    #[serde(rename = "none")]
    None,
    #[serde(rename = "32B")]
    Bytes32,
    #[serde(rename = "64B")]
    Bytes64,
    #[serde(rename = "128B")]
    Bytes128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Input,
    Output,
    /// Read and written: restored before every launch, compared after it.
    InOut,
    /// Workspace: its size may depend on tunables, its contents are not checked.
    Scratch,
    /// Scratch that is zero before a check or a burst of launches; each launch leaves it zero for the next.
    Zeroed,
}

/// Launch geometry. `grid`, `block`, `cluster` and `shared` are for CUDA; `threads` says how many
/// threads a C kernel starts, so that it can be gated and pinned.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    pub grid: Vec<Expr>,
    pub block: Vec<Expr>,
    pub cluster: Vec<Expr>,
    pub shared: Option<Expr>,
    /// All blocks run at once and may wait for each other.
    pub cooperative: bool,
    pub threads: Option<Expr>,
}

/// How much work one launch must do, over the dimensions: for the floor, GB/s and TFLOP/s.
#[derive(Clone, Debug, Default)]
pub struct Work {
    pub flops: Option<Expr>,
    pub bytes: Option<Expr>,
}

/// Where right answers come from.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a manifest has one; a box would only be in the way"
)]
pub enum Reference {
    /// A C function with the kernel's parameters, every floating type replaced by `double`.
    C {
        source: Spanned<String>,
        entry: String,
        flags: Vec<String>,
    },
    /// A CUDA kernel with a launch of its own. It takes the kernel's parameters, with `double` in
    /// place of every floating type unless `precision` says otherwise.
    Kernel {
        source: Spanned<String>,
        entry: String,
        flags: Vec<String>,
        launch: Launch,
        precision: ReferencePrecision,
    },
    /// A Python function: gets tensors in double precision, returns the outputs.
    Python(PythonFunction),
    /// `.npy` files, one per output; `{shape}` and `{argument}` in the path are replaced.
    File { path: Spanned<String> },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferencePrecision {
    #[default]
    Double,
    /// The kernel's own types.
    Declared,
}

/// `file.py:function`.
#[derive(Clone, Debug)]
pub struct PythonFunction {
    pub source: Spanned<String>,
    pub function: String,
}

/// How the kernel is called by programs that use it without kiln.
#[derive(Clone, Debug, Default)]
pub struct Export {
    /// What computes the answer where no exported kernel fits.
    pub fallback: Option<PythonFunction>,
    /// What a caller says beside tensors, with defaults: booleans and integers.
    pub parameters: Vec<(String, Value)>,
    /// Dimensions computed from parameters.
    pub dimensions: Vec<(String, Expr)>,
}

/// A part of the kernel that can be left out, to see what it costs.
#[derive(Clone, Debug)]
pub struct Stage {
    pub name: String,
    /// Macros that leave it out: `-DNAME`, `-DNAME=value` or `-UNAME`.
    pub flags: Vec<String>,
    /// What it keeps busy, where the author says.
    pub kind: Option<StageKind>,
    pub span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    Memory,
    Compute,
    SpecialFunction,
    Synchronisation,
}

impl Stage {
    /// Names of the macros that leave it out.
    pub fn macros(&self) -> impl Iterator<Item = &str> {
        self.flags.iter().filter_map(|flag| macro_name(flag))
    }
}

/// `NAME` of `-DNAME`, `-DNAME=value` and `-UNAME`.
pub fn macro_name(flag: &str) -> Option<&str> {
    let name = match flag.strip_prefix("-D") {
        Some(define) => define.split('=').next()?,
        None => flag.strip_prefix("-U")?,
    };
    decode::is_identifier(name).then_some(name)
}

/// What the winner has to beat.
#[derive(Clone, Debug)]
pub struct Baseline {
    pub kind: BaselineKind,
    /// Measured beside it and shown; the verdict does not depend on them.
    pub also: Vec<PythonFunction>,
    /// The speedup asked for; reaching it is success.
    pub target: f64,
}

#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a manifest has one; a box would only be in the way"
)]
pub enum BaselineKind {
    /// A C function with the kernel's own signature.
    C {
        source: Spanned<String>,
        entry: String,
        flags: Vec<String>,
    },
    /// A CUDA kernel with the kernel's own parameters and a launch of its own.
    Kernel {
        source: Spanned<String>,
        entry: String,
        flags: Vec<String>,
        launch: Launch,
    },
    /// A Python function: gets the kernel's inputs as tensors, returns the outputs.
    Python(PythonFunction),
    /// One config of the kernel itself, every tunable given; need not satisfy the constraints.
    Config {
        values: Vec<(String, Value)>,
        span: Range<usize>,
    },
}

/// `|got - expected| <= atol + rtol * |expected|`; without `atol`, `rtol` times the output's own
/// scale (its root mean square) takes its place, so that small outputs are not waved through.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    pub rtol: f64,
    pub atol: Option<f64>,
}

/// A tolerance as it is written: its parts may depend on the shape.
#[derive(Clone, Debug)]
pub struct ToleranceRule {
    pub rtol: Expr,
    pub atol: Option<Expr>,
}

impl ToleranceRule {
    /// What it comes to on a shape, or why it comes to nothing.
    pub fn on(&self, dimensions: &[(String, i64)]) -> Result<Tolerance, String> {
        let scope: Vec<&str> = dimensions.iter().map(|(name, _)| name.as_str()).collect();
        let values: Vec<Value> = dimensions.iter().map(|(_, n)| Value::Int(*n)).collect();
        let part = |what: &str, expr: &Expr| {
            let bound = expr.bind(&scope).map_err(|e| format!("`{what}`: {e}"))?;
            let value = bound.eval(&values).map_err(|e| format!("`{what}`: {e}"))?;
            match value.as_f64() {
                Some(x) if x >= 0.0 && x.is_finite() && (what != "rtol" || x < 1.0) => Ok(x),
                _ if what == "rtol" => Err(format!("`rtol` is {value}, not from 0 to below 1")),
                _ => Err(format!("`{what}` is {value}, not a number from 0")),
            }
        };
        Ok(Tolerance {
            rtol: part("rtol", &self.rtol)?,
            atol: self.atol.as_ref().map(|e| part("atol", e)).transpose()?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nonfinite {
    /// A reference with NaN or infinity is an error of the task.
    Reject,
    /// NaN must meet NaN, infinity the same infinity.
    Match,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatePolicy {
    pub action: GateAction,
    /// Replaces the device's own limit; for `occupancy` the least value, not the most.
    pub limit: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateAction {
    Reject,
    Warn,
    Off,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// One of `search::STRATEGIES`.
    pub strategy: String,
    /// Latin-hypercube trials before the strategy proper; `auto` takes at most 12.
    pub seed_trials: u64,
    /// Fixed seed; without it every new study draws one and records it.
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    pub trials: u64,
    pub minutes: Option<f64>,
    pub price_per_hour: Option<f64>,
    /// Stops when `price_per_hour` times the time spent reaches this.
    pub cost: Option<f64>,
    /// Stops when a trial's speedup reaches this.
    pub stop_at_speedup: Option<f64>,
    /// Stops after this many trials without a better one.
    pub stagnation: Option<u64>,
    /// After the seed trials, stops if the best is below this fraction of the baseline's speed.
    pub hopeless_below: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    pub min_samples: u64,
    pub max_samples: u64,
    /// Stop sampling when the 95 % interval of the median is within this fraction of it.
    pub precision: f64,
    /// Most seconds of sampling per candidate.
    pub max_seconds: f64,
    /// Cut a candidate when it is this many times slower than the best so far.
    pub cut_ratio: f64,
    /// What a GPU launch finds in the L2 cache.
    pub caches: crate::protocol::Caches,
    /// Measure the energy of finalists and baseline too.
    pub energy: bool,
    pub compile_timeout_seconds: f64,
    pub run_timeout_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirm {
    pub samples: u64,
    pub finalists: u64,
    /// Fresh processes the samples are spread over.
    pub rounds: u64,
    /// Differences inside this fraction are the same speed.
    pub margin: f64,
    /// Slow kernels get fewer samples, so that confirming takes about this long at most.
    pub max_seconds: f64,
    /// Shapes the search never saw on which a winner is checked.
    pub unseen_shapes: u64,
    /// What dimensions of unseen shapes may be, where the manifest's own shapes do not say it.
    pub domain: Vec<(String, Domain)>,
    /// Launches on the same inputs whose outputs are compared with each other.
    pub repeats: u64,
    pub sanitize: Sanitize,
}

/// Values a dimension may take; what is missing is taken from the manifest's shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    pub from: Option<i64>,
    pub to: Option<i64>,
    /// A divisor of every value.
    pub step: Option<i64>,
}

/// Whether a winner runs under NVIDIA's compute-sanitizer before it wins, or in C with its memory checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sanitize {
    /// Where it is installed.
    #[default]
    Auto,
    /// A machine without it is an error.
    On,
    Off,
}

impl Swizzle {
    /// The most bytes a row of a tile may have; `None` when any number will do.
    pub fn row_bytes(self) -> Option<i64> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }
}

impl Manifest {
    pub fn target(&self) -> &Shape {
        self.shapes
            .iter()
            .find(|s| s.purpose == ShapePurpose::Target)
            .expect("decoding admits only manifests with a target")
    }

    /// Makes another shape the target; the one that was waits as `sweep`. False if there is none of that name.
    pub fn aim_at(&mut self, shape: &str) -> bool {
        if !self.shapes.iter().any(|s| s.name == shape) {
            return false;
        }
        for s in &mut self.shapes {
            if s.name == shape {
                s.purpose = ShapePurpose::Target;
            } else if s.purpose == ShapePurpose::Target {
                s.purpose = ShapePurpose::Sweep;
            }
        }
        true
    }

    /// Source files of the kernel, its reference, its baseline and what else is measured, as the manifest names them.
    pub fn sources(&self) -> Vec<&Spanned<String>> {
        let mut named = vec![&self.kernel.source];
        match &self.reference {
            Some(Reference::C { source, .. } | Reference::Kernel { source, .. }) => {
                named.push(source);
            }
            Some(Reference::Python(function)) => named.push(&function.source),
            Some(Reference::File { .. }) | None => {}
        }
        if let Some(baseline) = &self.baseline {
            match &baseline.kind {
                BaselineKind::C { source, .. } | BaselineKind::Kernel { source, .. } => {
                    named.push(source);
                }
                BaselineKind::Python(function) => named.push(&function.source),
                BaselineKind::Config { .. } => {}
            }
            named.extend(baseline.also.iter().map(|function| &function.source));
        }
        named
    }

    /// What a gate does: as written, else by default.
    pub fn gate_policy(&self, name: &str) -> GatePolicy {
        let written = self.gates.iter().find(|(gate, _)| gate == name);
        written.map_or_else(|| default_gate_policy(name), |(_, policy)| *policy)
    }

    /// Names of the dimensions, the same in every shape.
    pub fn dimension_names(&self) -> Vec<&str> {
        self.target()
            .dimensions
            .iter()
            .map(|(n, _)| n.as_str())
            .collect()
    }

    /// What launch, size and constraint expressions may name: tunables first, then dimensions.
    pub fn scope(&self) -> Vec<&str> {
        let tunables = self.tunables.iter().map(|t| t.name.as_str());
        tunables.chain(self.dimension_names()).collect()
    }
}

#[cfg(test)]
mod tests;
