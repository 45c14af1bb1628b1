//! A manifest made concrete on this machine: space, problems and what to compile.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use kiln_core::architecture::Architecture;
use kiln_core::diagnostic::{Diagnostic, printable};
use kiln_core::dtype::DType;
use kiln_core::event::{RemovedBy, SpaceFacts};
use kiln_core::expression::{BoundExpr, Expr};
use kiln_core::manifest::{
    Argument, ArgumentKind, BadRange, BaselineKind, CudaCompiler, Fill, FillRule, Language,
    Manifest, Reference, ReferencePrecision, Shape, ShapePurpose, Spanned, Tolerance,
};
use kiln_core::numerics::{self, Expected};
use kiln_core::occupancy::{Occupancy, occupancy};
use kiln_core::protocol::{ArgumentSpec, Cores, DeviceInfo, LaunchSpec, Problem, Resources};
use kiln_core::sandbox::Sandbox;
use kiln_core::space::{ConfigError, RuleKind, Space};
use kiln_core::trial::{Assignment, CompileFacts};
use kiln_core::value::Value;

use crate::engine::compile_pool::Built;
use crate::engine::sampling::Style;
use crate::engine::worker::WorkerKind;
use crate::exit::Failure;
use crate::gates;
use crate::project::ManifestFile;
use crate::recording::RecordedFile;
use crate::toolchain::CudaToolchain;

mod build;
mod checked;
mod cuda_unit;
mod device;
pub mod flags;
mod functions;
pub mod includes;
mod launch;
mod problem;
mod reads;
mod replay;
pub mod unused;

pub use build::{Compiler, Source};
pub use checked::Watched;
use launch::BoundLaunch;

/// The function every C image exports.
pub const ENTRY_SYMBOL: &str = "kiln_entry";

/// The rule that takes unrecorded configs out of a replay's space.
const NOT_RECORDED: &str = "not_recorded";

/// Something a worker can load and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub worker: WorkerKind,
    /// A compiled image, or a Python file.
    pub image: String,
    pub symbol: String,
}

/// Whose arguments and launch a problem is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Candidate,
    Baseline,
    Reference,
}

pub struct Task {
    pub file: ManifestFile,
    pub space: Arc<Space>,
    pub device: DeviceInfo,
    /// For C sources: the kernel's, the reference's or the baseline's.
    pub compiler: Option<Compiler>,
    pub cuda: Option<CudaToolchain>,
    /// What CUDA sources are compiled for, e.g. `sm_90a`.
    pub architecture: String,
    /// The image of kiln's helper kernels; every GPU worker needs it.
    pub support: Option<String>,
    /// What candidates are kept from, as their first worker says; `None` where nothing runs.
    pub sandbox: Option<Sandbox>,
    /// Gates set to `warn`, with how many configs break each.
    pub warnings: Vec<(String, u64)>,
    /// Set when outcomes come from a recording: then no file the manifest names is opened.
    pub replayed: Option<Replayed>,
    bound: Vec<BoundArgument>,
    threads: Option<BoundExpr>,
    launch: BoundLaunch,
    /// Launches of a CUDA reference and baseline.
    reference_launch: Option<BoundLaunch>,
    baseline_launch: Option<BoundLaunch>,
    /// Constraints that name dimensions: they can fail on other shapes than the target.
    shape_rules: Vec<(String, BoundExpr)>,
    source: PathBuf,
    include_dirs: Vec<String>,
    reference: ReferenceFile,
    baseline: Option<PathBuf>,
    /// Input files, resolved when first asked for.
    inputs: OnceLock<Vec<String>>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Task({})", self.file.name())
    }
}

/// Where the outcomes of a replay come from.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The recording's path, as given.
    pub file: String,
    pub hash: String,
    /// What compiled the recorded configs.
    compiler: String,
    /// Recorded configs that are not valid in the manifest at hand.
    foreign: usize,
}

enum ReferenceFile {
    C { path: PathBuf },
    Kernel { path: PathBuf },
    Python { path: PathBuf },
    Arrays { pattern: String },
    Absent,
}

enum BoundArgument {
    Scalar(BoundExpr),
    Buffer(Vec<BoundExpr>),
    /// The tile.
    Tma(Vec<BoundExpr>),
}

impl Task {
    /// `architecture` is what CUDA sources are compiled and gated for; by default the device's.
    pub fn new(
        file: ManifestFile,
        device: DeviceInfo,
        architecture: Option<&str>,
    ) -> Result<Task, Failure> {
        let architecture = architecture.map_or_else(|| own_architecture(&device), str::to_string);
        let task = Task::bind(file, device, architecture, None)?;
        task.check_functions()?;
        task.check_parameters()?;
        task.check_arguments()?;
        Ok(task)
    }

    fn bind(
        file: ManifestFile,
        device: DeviceInfo,
        architecture: String,
        replayed: Option<Replayed>,
    ) -> Result<Task, Failure> {
        let manifest = &file.manifest;
        let is_live = replayed.is_none();
        if is_live {
            file.resolve_all()?;
        }
        let find = |named: &Spanned<String>| match is_live {
            true => file.resolve(named),
            false => Ok(file.dir().join(&named.value)),
        };
        let (space, warnings) = gates::build_space(&file, &device, &architecture)?;
        let scope = manifest.scope();
        let bind = |expr: &Expr| {
            expr.bind(&scope)
                .map_err(|e| Failure::usage(format!("in `{}`: {e}", expr.text())))
        };
        let bound = manifest
            .arguments
            .iter()
            .map(|argument| match &argument.kind {
                ArgumentKind::Scalar { value } => Ok(BoundArgument::Scalar(bind(value)?)),
                ArgumentKind::Buffer { shape, .. } => Ok(BoundArgument::Buffer(
                    shape.iter().map(bind).collect::<Result<_, _>>()?,
                )),
                ArgumentKind::Tma { tile, .. } => Ok(BoundArgument::Tma(
                    tile.iter().map(bind).collect::<Result<_, _>>()?,
                )),
            })
            .collect::<Result<_, Failure>>()?;
        let threads = manifest.launch.threads.as_ref().map(bind).transpose()?;
        let dimensions = manifest.dimension_names();
        let shape_rules = manifest
            .constraints
            .iter()
            .filter(|c| {
                c.expr
                    .names()
                    .iter()
                    .any(|n| dimensions.contains(&n.name.as_str()))
            })
            .map(|c| Ok((c.name.clone(), bind(&c.expr)?)))
            .collect::<Result<_, Failure>>()?;
        let source = find(&manifest.kernel.source)?;
        let mut include_dirs = vec![file.dir().display().to_string()];
        for dir in &manifest.kernel.include_dirs {
            include_dirs.push(find(dir)?.display().to_string());
        }
        let reference = match &manifest.reference {
            Some(Reference::C { source, .. }) => ReferenceFile::C {
                path: find(source)?,
            },
            Some(Reference::Kernel { source, .. }) => ReferenceFile::Kernel {
                path: find(source)?,
            },
            Some(Reference::Python(function)) => ReferenceFile::Python {
                path: find(&function.source)?,
            },
            Some(Reference::File { path }) => ReferenceFile::Arrays {
                pattern: path.value.clone(),
            },
            None => ReferenceFile::Absent,
        };
        let baseline = match manifest.baseline.as_ref().map(|b| &b.kind) {
            Some(BaselineKind::C { source, .. } | BaselineKind::Kernel { source, .. }) => {
                Some(find(source)?)
            }
            Some(BaselineKind::Python(function)) => Some(find(&function.source)?),
            _ => None,
        };
        for function in manifest.baseline.iter().flat_map(|b| &b.also) {
            find(&function.source)?;
        }
        let is_cuda = manifest.kernel.language == Language::Cuda;
        let needs_c = !is_cuda || matches!(reference, ReferenceFile::C { .. });
        let compiler = (is_live && needs_c).then(Compiler::find).transpose()?;
        let cuda = (is_live && is_cuda)
            .then(|| {
                let driver = device.cuda.as_ref().map(|gpu| gpu.driver_cuda);
                CudaToolchain::find_for(&architecture, driver)
            })
            .transpose()?;
        if let (Some(cuda), CudaCompiler::Nvcc) = (&cuda, manifest.kernel.compiler) {
            cuda.require_nvcc()?;
        }
        let launch = BoundLaunch::new(&manifest.launch, &scope)?;
        let reference_launch = match &manifest.reference {
            Some(Reference::Kernel { launch, .. }) => Some(BoundLaunch::new(launch, &scope)?),
            _ => None,
        };
        let baseline_launch = match manifest.baseline.as_ref().map(|b| &b.kind) {
            Some(BaselineKind::Kernel { launch, .. }) => Some(BoundLaunch::new(launch, &scope)?),
            _ => None,
        };
        Ok(Task {
            space: Arc::new(space),
            device,
            compiler,
            cuda,
            architecture,
            support: None,
            sandbox: None,
            inputs: OnceLock::new(),
            warnings,
            replayed,
            bound,
            threads,
            launch,
            reference_launch,
            baseline_launch,
            shape_rules,
            source,
            include_dirs,
            reference,
            baseline,
            file,
        })
    }

    pub fn manifest(&self) -> &Manifest {
        &self.file.manifest
    }

    /// Shapes whose answers are checked, smallest first, the target last.
    pub fn checked_shapes(&self) -> Vec<&Shape> {
        let mut shapes: Vec<&Shape> = self
            .manifest()
            .shapes
            .iter()
            .filter(|s| s.purpose != ShapePurpose::Sweep)
            .collect();
        let volume = |s: &Shape| s.dimensions.iter().map(|(_, n)| *n as f64).product::<f64>();
        shapes.sort_by(|a, b| {
            let target = |s: &Shape| s.purpose == ShapePurpose::Target;
            target(a)
                .cmp(&target(b))
                .then(volume(a).total_cmp(&volume(b)))
        });
        shapes
    }

    /// The constraint that keeps a config off a shape, if one does.
    pub fn skips(&self, shape: &Shape, config: &Assignment) -> Option<&str> {
        let values = self.values(shape, config);
        self.shape_rules
            .iter()
            .find(|(_, rule)| !rule.eval(&values).is_ok_and(|v| v.is_truthy()))
            .map(|(name, _)| name.as_str())
    }

    /// What a user should know before any time is spent, in sentences.
    pub fn cautions(&self) -> Vec<String> {
        let mut cautions = self.cautions_of_replay();
        if self.manifest().baseline.is_none() {
            cautions.push("there is no [baseline]: `kiln tune` needs something to beat".into());
        }
        let mut environment = self.device.environment.iter();
        if let Some((_, pids)) = environment.find(|(name, _)| name == "other_processes") {
            cautions.push(format!(
                "other processes use the GPU (pid {pids}): what is timed beside them is not to be trusted"
            ));
        }
        cautions.extend(self.sandbox.as_ref().and_then(Sandbox::caution));
        cautions.extend(risky_names(self.manifest()));
        cautions.extend(unused::caution(&self.unused_tunables()));
        for (stage, name) in self.unknown_stages() {
            cautions.push(format!(
                "stage `{}` leaves nothing out: `{name}` appears nowhere in the source",
                stage.name
            ));
        }
        for (gate, count) in &self.warnings {
            cautions.push(format!(
                "{count} configs break gate `{gate}`, which is set to warn"
            ));
        }
        cautions.extend(cautions_of_skipped(&self.skipped_shapes()));
        cautions
    }

    /// Check shapes that constraints keep some configs off, where the space can be walked.
    fn skipped_shapes(&self) -> Vec<(String, usize, usize)> {
        const MAX_WALKED: u128 = 200_000;
        if self.shape_rules.is_empty() || self.space.count().is_none_or(|n| n > MAX_WALKED) {
            return Vec::new();
        }
        let configs: Vec<Assignment> = self
            .space
            .iter()
            .map(|c| self.space.assignment(&c))
            .collect();
        self.checked_shapes()
            .into_iter()
            .map(|shape| {
                let skips = |config: &&Assignment| self.skips(shape, config).is_some();
                (
                    shape.name.clone(),
                    configs.iter().filter(skips).count(),
                    configs.len(),
                )
            })
            .filter(|(_, skipping, _)| *skipping > 0)
            .collect()
    }

    fn values(&self, shape: &Shape, config: &Assignment) -> Vec<Value> {
        let tunables = config.iter().map(|(_, value)| value.clone());
        tunables
            .chain(shape.dimensions.iter().map(|(_, n)| Value::Int(*n)))
            .collect()
    }

    pub fn is_cuda(&self) -> bool {
        self.manifest().kernel.language == Language::Cuda
    }

    /// Any valid config: reference and baseline get its values where arguments name tunables.
    pub fn any_config(&self) -> Result<Assignment, Failure> {
        use rand::SeedableRng;
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
        let first = match self.space.count() {
            Some(_) => self.space.config(0),
            None => self.space.sample(&mut rng),
        };
        first
            .map(|config| self.space.assignment(&config))
            .ok_or_else(|| {
                Failure::usage("no valid config was found by sampling a space too large to list")
                    .hint("loosen a constraint, or list fewer values")
            })
    }

    fn check_arguments(&self) -> Result<(), Failure> {
        for argument in &self.manifest().arguments {
            let scalar = matches!(argument.kind, ArgumentKind::Scalar { .. });
            if scalar && argument.dtype.c_type().is_none() && !self.is_cuda() {
                return Err(self.file.error(
                    &Diagnostic::new(
                        format!("a scalar of type {} cannot be passed to C", argument.dtype),
                        argument.span.clone(),
                    )
                    .hint("pass it as `f32` and convert in the kernel"),
                ));
            }
        }
        // Every size must evaluate and fit on every shape before anything is compiled.
        if self.space.count() == Some(0) {
            return Ok(());
        }
        let config = self.any_config()?;
        for shape in &self.manifest().shapes {
            let problem = self.problem(Part::Candidate, shape, &config, 0)?;
            let total = problem
                .arguments
                .iter()
                .try_fold(0u64, |sum, a| sum.checked_add(a.bytes()?));
            if total.is_none_or(|t| t > self.device.memory_bytes) {
                return Err(Failure::usage(format!(
                    "shape `{}` needs {} bytes of buffers; the device has {}",
                    shape.name,
                    total.map_or("more than 2^64".into(), |t| t.to_string()),
                    self.device.memory_bytes
                ))
                .hint("make the shape smaller, or mark it `use = \"sweep\"`"));
            }
        }
        Ok(())
    }

    pub fn space_facts(&self) -> SpaceFacts {
        SpaceFacts {
            cartesian: self.space.cartesian().to_string(),
            valid: self.space.count().map(|n| n.to_string()),
            removed: self
                .space
                .removals()
                .iter()
                .filter(|r| r.removed > 0)
                .map(|r| RemovedBy {
                    rule: match r.kind {
                        RuleKind::Constraint => format!("constraint:{}", r.name),
                        RuleKind::Gate => format!("gate:{}", r.name),
                    },
                    count: u64::try_from(r.removed).unwrap_or(u64::MAX),
                })
                .collect(),
        }
    }

    /// Arguments whose contents are part of what is checked, by position.
    pub fn argument_name(&self, index: usize) -> String {
        let found = self.manifest().arguments.get(index);
        found.map_or_else(|| format!("#{index}"), |a| a.name.clone())
    }
}

/// Tunables of a CUDA kernel whose names its headers use for their own: a macro replaces those too,
/// and what the compiler then says names neither the tunable nor the reason.
pub fn risky_names(manifest: &Manifest) -> Vec<String> {
    let is_cuda = manifest.kernel.language == Language::Cuda;
    let tunables = manifest.tunables.iter().filter(|_| is_cuda);
    tunables
        .filter(|t| t.name.len() == 1)
        .map(|t| {
            format!(
                "tunable `{0}` is a macro of one letter, which also replaces every `{0}` in NVIDIA's \
                 headers: where they do not compile, give it a longer name",
                t.name
            )
        })
        .collect()
}

/// Images are made for the very device they run on, so all its instructions may be used: from
/// Hopper on, some belong to one architecture alone.
fn own_architecture(device: &DeviceInfo) -> String {
    let name = device.cuda.as_ref().map_or("", |c| c.architecture.as_str());
    match name.strip_prefix("sm_").and_then(|n| n.parse::<u32>().ok()) {
        Some(number) if number >= 90 => format!("{name}a"),
        _ => name.to_string(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The types the manifest declares.
    Declared,
    /// Every floating type is `double`: for the reference.
    Double,
}

/// One sentence for all shapes that no config is checked on: a manifest for several kinds of problems
/// has many of them.
fn cautions_of_skipped(shapes: &[(String, usize, usize)]) -> Vec<String> {
    let (never, partly): (Vec<_>, Vec<_>) = shapes
        .iter()
        .partition(|(_, skipping, total)| skipping == total);
    let mut cautions = Vec::new();
    if let [(only, _, total)] = never.as_slice() {
        cautions.push(format!(
            "shape `{only}` is checked for none of {total} configs: a constraint does not hold there"
        ));
    } else if !never.is_empty() {
        let names: Vec<String> = never
            .iter()
            .map(|(name, _, _)| format!("`{name}`"))
            .collect();
        cautions.push(format!(
            "{} shapes are checked for no config, a constraint does not hold there: {}",
            names.len(),
            names.join(", ")
        ));
    }
    cautions.extend(partly.into_iter().map(|(shape, skipping, total)| {
        format!(
            "shape `{shape}` is not checked for {skipping} of {total} configs: \
             a constraint does not hold there"
        )
    }));
    cautions
}
