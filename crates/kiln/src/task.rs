//! A manifest made concrete on this machine: space, problems and what to compile.

use std::path::PathBuf;
use std::sync::Arc;

use kiln_core::architecture::Architecture;
use kiln_core::diagnostic::{Diagnostic, printable};
use kiln_core::dtype::DType;
use kiln_core::event::{RemovedBy, SpaceFacts};
use kiln_core::expression::{BoundExpr, Expr};
use kiln_core::manifest::{
    Argument, ArgumentKind, BaselineKind, CudaCompiler, Fill, Language, Manifest, Reference,
    ReferencePrecision, Shape, ShapePurpose, Spanned, Tolerance,
};
use kiln_core::numerics::{self, Expected};
use kiln_core::occupancy::{Occupancy, occupancy};
use kiln_core::protocol::{
    ArgumentSpec, Caches, Cores, DeviceInfo, LaunchSpec, Problem, Resources,
};
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
mod cuda_unit;
mod launch;

pub use build::{Compiler, Source};
use launch::BoundLaunch;

/// The function every C image exports.
pub const ENTRY_SYMBOL: &str = "kiln_entry";

/// The rule that takes unrecorded configs out of a replay's space.
const NOT_RECORDED: &str = "not_recorded";

/// Something a worker can load and run.
#[derive(Clone, Debug)]
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
        task.check_arguments()?;
        Ok(task)
    }

    /// The same task on a recorded device: needs no device, no compiler and no source. Its space
    /// holds only configs that were recorded.
    pub fn for_replay(file: ManifestFile, recorded: &RecordedFile) -> Result<Task, Failure> {
        let recording = &recorded.recording;
        check_same_problem(&file.manifest, recorded)?;
        let mut device = recording.device.clone();
        device.name.push_str(" (replayed)");
        let architecture = own_architecture(&device);
        let replayed = Replayed {
            file: recorded.path.clone(),
            hash: recorded.hash.clone(),
            compiler: recording.compiler.clone(),
            foreign: 0,
        };
        let mut task = Task::bind(file, device, architecture, Some(replayed))?;
        let (mut configs, mut foreign) = (Vec::new(), 0);
        for trial in &recording.trials {
            match task.space.config_from(&recording.assignment(trial)) {
                Ok(config) if task.space.contains(&config) => configs.push(config),
                Ok(_) | Err(ConfigError::NotInList { .. }) => foreign += 1,
                Err(error) => return Err(other_tunables(recorded, &error)),
            }
        }
        if configs.is_empty() {
            return Err(Failure::usage(format!(
                "not one of the {} configs in `{}` is valid in `{}`",
                recording.trials.len(),
                recorded.path,
                task.file.name()
            )));
        }
        task.space = Arc::new(task.space.restricted_to(configs, NOT_RECORDED));
        if let Some(replayed) = &mut task.replayed {
            replayed.foreign = foreign;
        }
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
        cautions.extend(risky_names(self.manifest()));
        for name in self.unused_tunables() {
            cautions.push(format!(
                "tunable `{name}` appears nowhere in the source: its values make no difference"
            ));
        }
        for (gate, count) in &self.warnings {
            cautions.push(format!(
                "{count} configs break gate `{gate}`, which is set to warn"
            ));
        }
        for (shape, skipping, total) in self.skipped_shapes() {
            cautions.push(format!(
                "shape `{shape}` is not checked for {skipping} of {total} configs: \
                 a constraint does not hold there"
            ));
        }
        cautions
    }

    fn cautions_of_replay(&self) -> Vec<String> {
        let mut cautions = Vec::new();
        let Some(replayed) = &self.replayed else {
            return cautions;
        };
        cautions.push(format!(
            "outcomes come from the recording `{}`: nothing is measured here",
            replayed.file
        ));
        let lost = self
            .space
            .removals()
            .iter()
            .find(|r| r.name == NOT_RECORDED);
        if let Some(lost) = lost {
            let recorded = self.space.count().unwrap_or(0);
            let whole = match lost.removed {
                0 => "a space too large to count".to_string(),
                removed => format!("{} valid configs", removed + recorded),
            };
            cautions.push(format!(
                "the recording holds {recorded} of {whole}: only these are searched"
            ));
        }
        if replayed.foreign > 0 {
            cautions.push(format!(
                "{} recorded configs are not valid in `{}` and are left out",
                replayed.foreign,
                self.file.name()
            ));
        }
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

    /// The arguments of one launch, and its geometry.
    pub fn problem(
        &self,
        part: Part,
        shape: &Shape,
        config: &Assignment,
        seed: u64,
    ) -> Result<Problem, Failure> {
        let values = self.values(shape, config);
        let precision = self.precision(part);
        let mut arguments: Vec<ArgumentSpec> = Vec::new();
        for (argument, bound) in self.manifest().arguments.iter().zip(&self.bound) {
            arguments.push(self.argument_spec(argument, bound, shape, &values, precision)?);
        }
        match self.takes_descriptors(part) {
            true => self.see_tensors(&mut arguments),
            false => without_descriptors(&mut arguments),
        }
        let own_launch = match part {
            Part::Candidate => None,
            Part::Baseline => self.baseline_launch.as_ref(),
            Part::Reference => self.reference_launch.as_ref(),
        };
        let launch = match own_launch {
            Some(launch) => Some(launch.on(&values, shape)?),
            None if self.is_cuda() => Some(self.launch.on(&values, shape)?),
            None => None,
        };
        Ok(Problem {
            shape: shape.name.clone(),
            seed,
            dimensions: shape.dimensions.clone(),
            arguments,
            launch,
        })
    }

    /// References and baselines of their own get the buffers themselves: boxes belong to configs.
    fn takes_descriptors(&self, part: Part) -> bool {
        let baseline = self.manifest().baseline.as_ref().map(|b| &b.kind);
        match part {
            Part::Candidate => true,
            Part::Baseline => matches!(baseline, Some(BaselineKind::Config { .. })),
            Part::Reference => false,
        }
    }

    fn precision(&self, part: Part) -> Precision {
        match (part, &self.manifest().reference) {
            (
                Part::Reference,
                Some(Reference::Kernel {
                    precision: ReferencePrecision::Declared,
                    ..
                }),
            ) => Precision::Declared,
            // A Python child widens by itself.
            (Part::Reference, Some(Reference::Python(_))) => Precision::Declared,
            (Part::Reference, _) => Precision::Double,
            _ => Precision::Declared,
        }
    }

    /// Whether the reference answers in the kernel's own types.
    pub fn reference_is_narrow(&self) -> bool {
        self.precision(Part::Reference) == Precision::Declared
            && !matches!(self.manifest().reference, Some(Reference::Python(_)))
    }

    /// A descriptor sees its tensor with as many dimensions as its tile has: leading ones merge.
    fn see_tensors(&self, arguments: &mut [ArgumentSpec]) {
        let shapes: Vec<Vec<u64>> = arguments
            .iter()
            .map(|argument| match argument {
                ArgumentSpec::Buffer { extents, .. } => extents.clone(),
                _ => Vec::new(),
            })
            .collect();
        for argument in arguments {
            if let ArgumentSpec::Tma {
                tensor,
                extents,
                tile,
                ..
            } = argument
            {
                let whole = &shapes[*tensor];
                let merged = (whole.len() + 1).saturating_sub(tile.len()).max(1);
                let (leading, rest) = whole.split_at(merged.min(whole.len()));
                *extents = vec![leading.iter().product()];
                extents.extend(rest);
            }
        }
    }

    /// All compilers that matter, in words.
    pub fn compiler_identity(&self) -> String {
        if let Some(replayed) = &self.replayed {
            return replayed.compiler.clone();
        }
        let c = self.compiler.iter().map(|c| c.identity.clone());
        let cuda = self.cuda.iter().map(|c| {
            format!(
                "CUDA {} for {} ({})",
                c.version, self.architecture, c.identity
            )
        });
        c.chain(cuda).collect::<Vec<_>>().join(" | ")
    }

    /// What the compiler made of a config, with the occupancy that follows from it.
    pub fn compile_facts(&self, built: &Built, config: &Assignment) -> CompileFacts {
        let compiled = &built.artifact.compiled;
        CompileFacts {
            artifact: built.artifact.key.clone(),
            cached: built.cached,
            compile_ms: compiled.compile_ms,
            image_bytes: built.artifact.image_bytes,
            resources: compiled.resources,
            occupancy: self
                .occupancy(compiled.resources.as_ref(), config)
                .map(|o| o.fraction),
            gate_warnings: self.gate_warnings(compiled.resources.as_ref(), config),
            log: compiled.log.clone(),
        }
    }

    pub fn occupancy(
        &self,
        resources: Option<&Resources>,
        config: &Assignment,
    ) -> Option<Occupancy> {
        let resources = resources?;
        let architecture = Architecture::parse(&self.architecture)?;
        let launch = self.target_launch(config)?;
        let threads = launch.block.iter().product();
        Some(occupancy(
            &architecture,
            resources,
            launch.shared_bytes,
            threads,
        ))
    }

    /// How a config is launched on the target shape; nothing where it cannot be.
    pub fn target_launch(&self, config: &Assignment) -> Option<LaunchSpec> {
        let target = self.manifest().target();
        let values = self.values(target, config);
        self.launch.on(&values, target).ok()
    }

    /// How a config is timed.
    pub fn style(&self, config: &Assignment) -> Style {
        Style {
            cores: self.cores(config),
            caches: self.manifest().measure.caches,
            on_gpu: self.is_cuda(),
        }
    }

    /// The shortest time any kernel can take on this device, and what it is needed for.
    pub fn floor_ns(&self) -> Option<(f64, &'static str)> {
        let device = self.device.cuda.as_ref()?;
        let work = &self.manifest().work;
        let architecture = Architecture::parse(&device.architecture)?;
        let by_flops = self.work(work.flops.as_ref()).map(|flops| {
            // Products of 8-bit numbers run at twice the rate of 16-bit ones; narrower types, which
            // arrive packed in bytes, at four times.
            let is_byte = |a: &Argument| a.dtype.size_bytes() == 1;
            let faster = match self.manifest().arguments.iter().any(is_byte) {
                true => 4.0,
                false => 1.0,
            };
            let per_second = faster
                * f64::from(architecture.tensor_fp16_flops_per_clock)
                * f64::from(device.multiprocessors)
                * device.clock_khz as f64
                * 1e3;
            (flops / per_second * 1e9, "flops")
        });
        // What is written may still be in the L2 cache at the end, and when that was not flushed,
        // what is read may have been there from the start.
        let caches_full = match self.manifest().measure.caches {
            Caches::Cold => 1.0,
            Caches::Warm => 2.0,
        };
        let by_bytes = self.work(work.bytes.as_ref()).map(|bytes| {
            let beyond = bytes - caches_full * device.l2_bytes as f64;
            (beyond / device.memory_bandwidth() * 1e9, "bytes")
        });
        let floors = [by_flops, by_bytes];
        floors
            .into_iter()
            .flatten()
            .max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Cores a config's threads are kept on, where the manifest says how many it uses.
    pub fn cores(&self, config: &Assignment) -> Cores {
        let values = self.values(self.manifest().target(), config);
        let threads = self.threads.as_ref().and_then(|e| e.eval(&values).ok());
        match threads {
            Some(Value::Int(n)) if n > 0 => Cores::Pinned(usize::try_from(n).unwrap_or(usize::MAX)),
            _ => Cores::Any,
        }
    }

    /// A baseline in a function of its own may use any number of threads.
    pub fn baseline_cores(&self) -> Result<Cores, Failure> {
        match self.manifest().baseline.as_ref().map(|b| &b.kind) {
            Some(BaselineKind::Config { .. }) => Ok(self.cores(&self.baseline_config()?)),
            _ => Ok(Cores::Any),
        }
    }

    fn argument_spec(
        &self,
        argument: &Argument,
        bound: &BoundArgument,
        shape: &Shape,
        values: &[Value],
        precision: Precision,
    ) -> Result<ArgumentSpec, Failure> {
        let seen_as = match precision {
            Precision::Double if argument.dtype.is_float() => DType::F64,
            _ => argument.dtype,
        };
        let bad = |message: String| {
            let label = format!("on shape `{}`", shape.name);
            self.file
                .error(&Diagnostic::new(message, argument.span.clone()).label(label))
        };
        let evaluate = |expr: &BoundExpr| {
            expr.eval(values).map_err(|e| {
                bad(format!(
                    "argument `{}`: `{}`: {e}",
                    argument.name,
                    expr.text()
                ))
            })
        };
        match (&argument.kind, bound) {
            (ArgumentKind::Scalar { .. }, BoundArgument::Scalar(expr)) => {
                Ok(ArgumentSpec::Scalar {
                    name: argument.name.clone(),
                    dtype: seen_as,
                    value: rounded(evaluate(expr)?, argument.dtype),
                })
            }
            (ArgumentKind::Buffer { role, fill, .. }, BoundArgument::Buffer(exprs)) => {
                let mut extents = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    match evaluate(expr)? {
                        Value::Int(n) if n >= 0 => extents.push(n as u64),
                        other => {
                            return Err(bad(format!(
                                "argument `{}`: extent `{}` is {other}, not a size",
                                argument.name,
                                expr.text()
                            )));
                        }
                    }
                }
                Ok(ArgumentSpec::Buffer {
                    name: argument.name.clone(),
                    dtype: argument.dtype,
                    extents,
                    role: *role,
                    fill: self.resolved_fill(fill, shape)?,
                    seen_as,
                })
            }
            (
                ArgumentKind::Tma {
                    tensor, swizzle, ..
                },
                BoundArgument::Tma(exprs),
            ) => {
                let mut tile = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    match evaluate(expr)? {
                        Value::Int(n @ 1..=256) => tile.push(n as u32),
                        other => {
                            return Err(bad(format!(
                                "argument `{}`: box extent `{}` is {other}, not from 1 to 256",
                                argument.name,
                                expr.text()
                            )));
                        }
                    }
                }
                Ok(ArgumentSpec::Tma {
                    name: argument.name.clone(),
                    tensor: *tensor,
                    dtype: argument.dtype,
                    extents: Vec::new(),
                    tile,
                    swizzle: *swizzle,
                })
            }
            _ => unreachable!("arguments were bound in the same order"),
        }
    }

    fn resolved_fill(&self, fill: &Fill, shape: &Shape) -> Result<Fill, Failure> {
        let Fill::File { path } = fill else {
            return Ok(fill.clone());
        };
        let path = self.data_file(path, &[("{shape}", &shape.name)])?;
        Ok(Fill::File { path })
    }

    /// A data file inside the project, with the placeholders of its pattern filled in.
    fn data_file(&self, pattern: &str, replace: &[(&str, &str)]) -> Result<String, Failure> {
        let mut name = pattern.to_string();
        for (placeholder, value) in replace {
            name = name.replace(placeholder, value);
        }
        let found = self.file.dir().join(&name).canonicalize().map_err(|e| {
            Failure::usage(format!("cannot use the data file `{name}`: {e}"))
                .hint("paths are relative to the manifest")
        })?;
        if !found.starts_with(&self.file.root) {
            return Err(Failure::usage(format!(
                "the data file `{name}` lies outside the project"
            )));
        }
        if !found.is_file() {
            return Err(Failure::usage(format!(
                "the data file `{name}` is not a regular file"
            )));
        }
        Ok(found.display().to_string())
    }

    /// Outputs of a problem in order, with no expected contents yet.
    pub fn outputs(&self, problem: &Problem) -> Vec<Expected> {
        self.manifest()
            .arguments
            .iter()
            .zip(&problem.arguments)
            .filter(|(_, spec)| spec.is_result())
            .map(|(argument, spec)| {
                let ArgumentSpec::Buffer { dtype, extents, .. } = spec else {
                    unreachable!("only buffers are results");
                };
                Expected::new(
                    &argument.name,
                    *dtype,
                    extents.clone(),
                    self.tolerance(argument),
                )
            })
            .collect()
    }

    fn tolerance(&self, argument: &Argument) -> Tolerance {
        let own = match &argument.kind {
            ArgumentKind::Buffer { tolerance, .. } => *tolerance,
            ArgumentKind::Scalar { .. } | ArgumentKind::Tma { .. } => None,
        };
        let by_type = || {
            let found = self
                .manifest()
                .tolerance
                .iter()
                .find(|(d, _)| *d == argument.dtype);
            found.map(|(_, t)| *t)
        };
        own.or_else(by_type)
            .unwrap_or_else(|| numerics::default_tolerance(argument.dtype))
    }

    pub fn reference_array(
        &self,
        shape: &Shape,
        argument: &str,
    ) -> Result<Option<String>, Failure> {
        let ReferenceFile::Arrays { pattern } = &self.reference else {
            return Ok(None);
        };
        let replace = [("{shape}", shape.name.as_str()), ("{argument}", argument)];
        self.data_file(pattern, &replace).map(Some)
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

    /// An amount of work on the target shape.
    pub fn work(&self, expr: Option<&Expr>) -> Option<f64> {
        let target = self.manifest().target();
        let bound = expr?.bind(&self.manifest().dimension_names()).ok()?;
        let values: Vec<Value> = target
            .dimensions
            .iter()
            .map(|(_, n)| Value::Int(*n))
            .collect();
        bound.eval(&values).ok()?.as_f64()
    }

    /// Bytes of all buffers of the target.
    pub fn target_bytes(&self) -> Option<u64> {
        let config = self.any_config().ok()?;
        let problem = self
            .problem(Part::Candidate, self.manifest().target(), &config, 0)
            .ok()?;
        let mut arguments = problem.arguments.iter();
        arguments.try_fold(0u64, |sum, a| sum.checked_add(a.bytes()?))
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

/// A recording answers for one kernel on one shape.
fn check_same_problem(manifest: &Manifest, recorded: &RecordedFile) -> Result<(), Failure> {
    let recording = &recorded.recording;
    let (kernel, target) = (&manifest.kernel.name, manifest.target());
    if *kernel != recording.kernel {
        return Err(Failure::usage(format!(
            "`{}` is a recording of kernel `{}`, not of `{kernel}`",
            recorded.path,
            printable(&recording.kernel)
        ))
        .hint("without a manifest, the recording's own is used"));
    }
    if target.dimensions != recording.dimensions {
        let text = |dimensions: &[(String, i64)]| {
            let pairs: Vec<String> = dimensions.iter().map(|(n, v)| format!("{n}={v}")).collect();
            printable(&pairs.join(" "))
        };
        return Err(Failure::usage(format!(
            "`{}` was recorded with {}; the manifest's target has {}",
            recorded.path,
            text(&recording.dimensions),
            text(&target.dimensions)
        ))
        .hint("without a manifest, the recording's own is used"));
    }
    Ok(())
}

fn other_tunables(recorded: &RecordedFile, error: &ConfigError) -> Failure {
    Failure::usage(format!(
        "the configs in `{}` do not fit the manifest: {error}",
        recorded.path
    ))
    .hint("without a manifest, the recording's own is used")
}

/// A descriptor without a box is one the program does not take; it keeps its place, for places
/// decide what inputs hold.
fn without_descriptors(arguments: &mut [ArgumentSpec]) {
    for argument in arguments {
        if let ArgumentSpec::Tma { tile, .. } = argument {
            tile.clear();
        }
    }
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

/// What a floating type makes of a value: the reference must see what the kernel sees.
fn rounded(value: Value, dtype: DType) -> Value {
    match value.as_f64() {
        Some(number) if dtype.is_float() => {
            let mut bytes = Vec::new();
            dtype.push_f64(number, &mut bytes);
            Value::Float(dtype.read_f64(&bytes))
        }
        _ => value,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The types the manifest declares.
    Declared,
    /// Every floating type is `double`: for the reference.
    Double,
}
