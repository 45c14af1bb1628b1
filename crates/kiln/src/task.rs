//! A manifest made concrete on this machine: space, problems and what to compile.

use std::path::PathBuf;
use std::sync::Arc;

use kiln_core::diagnostic::Diagnostic;
use kiln_core::dtype::DType;
use kiln_core::event::{RemovedBy, SpaceFacts};
use kiln_core::expression::{BoundExpr, Expr};
use kiln_core::manifest::{
    Argument, ArgumentKind, BaselineKind, Fill, Manifest, Reference, Shape, ShapePurpose, Tolerance,
};
use kiln_core::numerics::{self, Expected};
use kiln_core::protocol::{ArgumentSpec, Cores, DeviceInfo, Problem};
use kiln_core::space::{RuleKind, Space};
use kiln_core::trial::Assignment;
use kiln_core::value::Value;

use crate::exit::Failure;
use crate::gates;
use crate::project::ManifestFile;

mod build;

pub use build::Compiler;

/// The function every image exports.
pub const ENTRY_SYMBOL: &str = "kiln_entry";

pub struct Task {
    pub file: ManifestFile,
    pub space: Arc<Space>,
    pub device: DeviceInfo,
    pub compiler: Compiler,
    /// Gates set to `warn`, with how many configs break each.
    pub warnings: Vec<(String, u64)>,
    bound: Vec<BoundArgument>,
    threads: Option<BoundExpr>,
    /// Constraints that name dimensions: they can fail on other shapes than the target.
    shape_rules: Vec<(String, BoundExpr)>,
    source: PathBuf,
    include_dirs: Vec<String>,
    reference: ReferenceFile,
    baseline: Option<PathBuf>,
}

enum ReferenceFile {
    C { path: PathBuf },
    Arrays { pattern: String },
    Absent,
}

enum BoundArgument {
    Scalar(BoundExpr),
    Buffer(Vec<BoundExpr>),
}

impl Task {
    pub fn new(file: ManifestFile, device: DeviceInfo) -> Result<Task, Failure> {
        let manifest = &file.manifest;
        let (space, warnings) = gates::build_space(&file, &device)?;
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
        let source = file.resolve(&manifest.kernel.source)?;
        let mut include_dirs = vec![file.dir().display().to_string()];
        for dir in &manifest.kernel.include_dirs {
            include_dirs.push(file.resolve(dir)?.display().to_string());
        }
        let reference = match &manifest.reference {
            Some(Reference::C { source, .. }) => ReferenceFile::C {
                path: file.resolve(source)?,
            },
            Some(Reference::File { path }) => ReferenceFile::Arrays {
                pattern: path.value.clone(),
            },
            None => ReferenceFile::Absent,
        };
        let baseline = match manifest.baseline.as_ref().map(|b| &b.kind) {
            Some(BaselineKind::C { source, .. }) => Some(file.resolve(source)?),
            _ => None,
        };
        let compiler = Compiler::find()?;
        let task = Task {
            space: Arc::new(space),
            device,
            compiler,
            warnings,
            bound,
            threads,
            shape_rules,
            source,
            include_dirs,
            reference,
            baseline,
            file,
        };
        task.check_functions()?;
        task.check_arguments()?;
        Ok(task)
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
        let mut cautions = Vec::new();
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

    /// The arguments of one launch.
    pub fn problem(
        &self,
        shape: &Shape,
        config: &Assignment,
        seed: u64,
        precision: Precision,
    ) -> Result<Problem, Failure> {
        let values = self.values(shape, config);
        let mut arguments = Vec::new();
        for (argument, bound) in self.manifest().arguments.iter().zip(&self.bound) {
            arguments.push(self.argument_spec(argument, bound, shape, &values, precision)?);
        }
        Ok(Problem {
            shape: shape.name.clone(),
            seed,
            arguments,
        })
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
            ArgumentKind::Scalar { .. } => None,
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
            if scalar && argument.dtype.c_type().is_none() {
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
            let problem = self.problem(shape, &config, 0, Precision::Declared)?;
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
