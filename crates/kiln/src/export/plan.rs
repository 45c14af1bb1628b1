//! What is exported, worked out once for all targets: the distinct configs, what each shape runs, and every
//! expression of launch and arguments with the tunables filled in, so that only dimensions are left.

use std::path::Path;

use kiln_core::compiler_flags::{self, Dialect};
use kiln_core::dtype::DType;
use kiln_core::expression::{Code, Expr, NotEmitted};
use kiln_core::manifest::{
    Argument, ArgumentKind, BaselineKind, CudaCompiler, Language, Manifest, PythonFunction,
    Reference, Role, Swizzle,
};
use kiln_core::trial::Assignment;
use kiln_core::value::Value;

use super::files::sha256;
use super::names;
use super::package::{Dispatch, Image};
use super::relations::{self, Relation};
use super::winners::Winners;
use crate::exit::Failure;
use crate::project::ManifestFile;
use crate::task::flags;

pub struct Plan {
    pub kernel: String,
    /// The kernel's name where only identifiers may stand.
    pub identifier: String,
    /// Follows from all that is in the package, and keeps its names apart from those of another package of the same
    /// kernel in one program.
    pub tag: String,
    pub language: Language,
    pub entry: String,
    /// Inside the package.
    pub manifest: String,
    /// Compiler flags of a kernel in C.
    pub flags: Vec<String>,
    /// The source and folders of headers, inside the package.
    pub source: String,
    pub include_dirs: Vec<String>,
    pub dimensions: Vec<String>,
    /// What a caller says beside tensors: a default, or nothing where it has to be said.
    pub parameters: Vec<(String, Option<Value>)>,
    /// Dimensions that follow from parameters.
    pub computed: Vec<(String, Expr)>,
    /// Dimensions that follow from others in every shape, and have to in every call.
    pub relations: Vec<Relation>,
    /// Where a dimension is read from a tensor: its name, the argument, the axis.
    pub inferred: Vec<(String, usize, usize)>,
    pub arguments: Vec<Argument>,
    /// Scalars that a call may set, by their place among the arguments.
    pub settable: Vec<Settable>,
    pub configs: Vec<ConfigPlan>,
    pub dispatch: Vec<Dispatch>,
    pub fallback: Option<Fallback>,
}

/// A scalar that the manifest gives as a plain number. Answers were checked and times measured with that.
pub struct Settable {
    pub place: usize,
    pub default: Value,
}

pub struct Fallback {
    /// Inside the package.
    pub file: String,
    pub function: String,
    /// A reference gets and gives double precision.
    pub is_wide: bool,
}

pub struct ConfigPlan {
    pub id: String,
    pub values: Assignment,
    pub legal: Vec<(String, Expr)>,
    pub launch: Option<LaunchPlan>,
    /// One per argument of the manifest.
    pub arguments: Vec<ConfigArgument>,
    pub images: Vec<Image>,
}

pub struct LaunchPlan {
    pub grid: Vec<Expr>,
    pub block: Vec<Expr>,
    pub cluster: Vec<Expr>,
    pub shared: Expr,
    pub cooperative: bool,
}

pub enum ConfigArgument {
    Scalar(Expr),
    Buffer(Vec<Expr>),
    Tma {
        tensor: usize,
        tile: Vec<Expr>,
        swizzle: Swizzle,
    },
}

/// Where files of the project are put in a package.
pub const SOURCES: &str = "source";

impl Plan {
    pub fn new(file: &ManifestFile, winners: &Winners) -> Result<Plan, Failure> {
        let manifest = &file.manifest;
        let mut plan = Plan {
            kernel: manifest.kernel.name.clone(),
            identifier: names::identifier(&manifest.kernel.name),
            tag: String::new(),
            language: manifest.kernel.language,
            entry: manifest.kernel.entry.value.clone(),
            manifest: packaged(&file.name()),
            flags: packaged_flags(file)?,
            source: packaged_path(file, &manifest.kernel.source.value)?,
            include_dirs: manifest
                .kernel
                .include_dirs
                .iter()
                .map(|dir| packaged_path(file, &dir.value))
                .collect::<Result<_, _>>()?,
            dimensions: manifest
                .dimension_names()
                .into_iter()
                .map(str::to_string)
                .collect(),
            parameters: Vec::new(),
            computed: Vec::new(),
            relations: relations::of(manifest),
            inferred: Vec::new(),
            arguments: manifest.arguments.clone(),
            settable: settable(&manifest.arguments),
            configs: Vec::new(),
            dispatch: Vec::new(),
            fallback: fallback(file)?,
        };
        plan.call(manifest);
        for chosen in &winners.chosen {
            let known = plan.configs.iter().find(|c| c.values == chosen.config);
            let id = match known {
                Some(config) => config.id.clone(),
                None => {
                    let id = format!("c{}", plan.configs.len());
                    plan.configs
                        .push(ConfigPlan::new(manifest, &id, &chosen.config));
                    id
                }
            };
            plan.dispatch.push(Dispatch {
                shape: chosen.shape.clone(),
                dimensions: chosen.dimensions.iter().cloned().collect(),
                config: id,
                confirmed: chosen.confirmed,
                evidence: chosen.evidence.clone(),
                geometry: None,
            });
        }
        Ok(plan)
    }

    /// The tag of a package with these files.
    pub fn tag_of(&self, files: &str) -> String {
        let configs = self.configs.iter();
        let configs = configs.map(|c| format!("{}: {:?}", c.id, c.values));
        let known = self.dispatch.iter().map(|entry| format!("{entry:?}"));
        let version = env!("CARGO_PKG_VERSION");
        let all: Vec<String> = configs.chain(known).collect();
        let all = format!("{version}\n{files}\n{}", all.join("\n"));
        sha256(all.as_bytes())[..8].to_string()
    }

    /// How dimensions come to be known: from tensors, from parameters, or by being told.
    fn call(&mut self, manifest: &Manifest) {
        for dimension in self.dimensions.clone() {
            let computed = manifest.export.dimensions.iter();
            let computed = computed.clone().find(|(name, _)| *name == dimension);
            if let Some((_, expr)) = computed {
                self.computed.push((dimension, expr.clone()));
                continue;
            }
            match place_of(manifest, &dimension) {
                Some((argument, axis)) => self.inferred.push((dimension, argument, axis)),
                None => self.parameters.push((dimension, None)),
            }
        }
        let written = manifest.export.parameters.iter();
        self.parameters
            .extend(written.map(|(name, default)| (name.clone(), Some(default.clone()))));
    }

    /// Scalars a call may set, with their arguments.
    pub fn scalars(&self) -> impl Iterator<Item = (&Settable, &Argument)> {
        let settable = self.settable.iter();
        settable.filter_map(|s| Some((s, self.arguments.get(s.place)?)))
    }

    pub fn is_settable(&self, place: usize) -> bool {
        self.settable.iter().any(|s| s.place == place)
    }

    /// Scalars that are the same number in every call, with a sentence for each.
    pub fn frozen(&self) -> Vec<String> {
        let arguments = self.arguments.iter().enumerate();
        arguments
            .filter(|(place, _)| !self.is_settable(*place))
            .filter_map(|(_, argument)| {
                let number = plain_number(argument)?;
                Some(format!(
                    "`{}` is always {number} in this package: the manifest gives it a constant",
                    argument.name
                ))
            })
            .collect()
    }

    /// Arguments a caller gives: inputs, and what is read and written.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Argument)> {
        self.buffers(&[Role::Input, Role::InOut])
    }

    pub fn outputs(&self) -> impl Iterator<Item = (usize, &Argument)> {
        self.buffers(&[Role::Output])
    }

    pub fn scratch(&self) -> impl Iterator<Item = (usize, &Argument)> {
        self.buffers(&[Role::Scratch, Role::Zeroed])
    }

    pub fn buffers<'a>(&'a self, roles: &'a [Role]) -> impl Iterator<Item = (usize, &'a Argument)> {
        let arguments = self.arguments.iter().enumerate();
        arguments.filter(|(_, a)| a.role().is_some_and(|role| roles.contains(&role)))
    }

    pub fn int(&self, expr: &Expr, code: Code) -> Result<String, Failure> {
        let name = |name: &str| dimension(name, code);
        expr.emit_int(code, &name).map_err(|e| self.not_emitted(e))
    }

    pub fn ints(&self, exprs: &[Expr], code: Code) -> Result<Vec<String>, Failure> {
        exprs.iter().map(|expr| self.int(expr, code)).collect()
    }

    pub fn truth(&self, expr: &Expr, code: Code) -> Result<String, Failure> {
        let name = |name: &str| dimension(name, code);
        expr.emit_truth(code, &name)
            .map_err(|e| self.not_emitted(e))
    }

    /// A scalar's value, as a whole number or a real one by its type.
    pub fn scalar(&self, dtype: DType, expr: &Expr, code: Code) -> Result<String, Failure> {
        let name = |name: &str| dimension(name, code);
        let text = match dtype.is_float() {
            true => expr.emit_float(code, &name),
            false => expr.emit_int(code, &name),
        };
        text.map_err(|e| self.not_emitted(e))
    }

    /// Whether a relation holds, and how it is written in the manifest.
    pub fn relation(&self, relation: &Relation, code: Code) -> Result<(String, String), Failure> {
        let mut conditions = Vec::new();
        for condition in relation.conditions() {
            let condition = condition.map_err(|e| {
                Failure::usage(format!(
                    "`{}` cannot be exported: dimension `{}`: {e}",
                    self.kernel, relation.dimension
                ))
                .hint("write the dimension as a plain expression over others")
            })?;
            conditions.push(self.truth(&condition, code)?);
        }
        let or = match code {
            Code::Python => " or ",
            Code::Cpp | Code::Rust => " || ",
        };
        Ok((conditions.join(or), relation.told()))
    }

    fn not_emitted(&self, error: NotEmitted) -> Failure {
        Failure::usage(format!("`{}` cannot be exported: {error}", self.kernel))
            .hint("write the expression with whole numbers, `//`, comparisons and kiln's functions")
    }
}

/// The number a scalar has whatever the shape and the config.
fn plain_number(argument: &Argument) -> Option<Value> {
    let ArgumentKind::Scalar { value } = &argument.kind else {
        return None;
    };
    // `-0.5` is an expression too.
    match value.with_values(&[]).as_value()? {
        Value::Int(number) => Some(Value::Int(*number)),
        Value::Bool(truth) => Some(Value::Int(i64::from(*truth))),
        Value::Float(number) if number.is_finite() => Some(Value::Float(*number)),
        _ => None,
    }
}

fn settable(arguments: &[Argument]) -> Vec<Settable> {
    let arguments = arguments.iter().enumerate();
    arguments
        // Neither C++ nor Rust has a type for half precision.
        .filter(|(_, argument)| !matches!(argument.dtype, DType::F16 | DType::Bf16))
        .filter_map(|(place, argument)| {
            let default = plain_number(argument)?;
            // The same as in a launch of kiln's: a whole number where the type is one.
            let default = match (argument.dtype.is_float(), default) {
                (true, number) => Value::Float(number.as_f64()?),
                (false, number @ Value::Int(_)) => number,
                (false, _) => return None,
            };
            Some(Settable { place, default })
        })
        .collect()
}

/// A dimension as it is written in a language.
fn dimension(name: &str, code: Code) -> String {
    match code {
        Code::Python => names::safe(name),
        Code::Cpp | Code::Rust => format!("d.{}", names::safe(name)),
    }
}

/// The first tensor a caller gives that has the dimension as one of its extents, and where.
fn place_of(manifest: &Manifest, dimension: &str) -> Option<(usize, usize)> {
    let arguments = manifest.arguments.iter().enumerate();
    arguments
        .filter_map(|(place, argument)| match &argument.kind {
            ArgumentKind::Buffer {
                shape,
                role: Role::Input | Role::InOut,
                ..
            } => {
                let axis = shape.iter().position(|e| e.text().trim() == dimension)?;
                Some((place, axis))
            }
            _ => None,
        })
        .next()
}

impl ConfigPlan {
    fn new(manifest: &Manifest, id: &str, values: &Assignment) -> ConfigPlan {
        let filled = |expr: &Expr| expr.with_values(values);
        let all = |exprs: &[Expr]| exprs.iter().map(filled).collect::<Vec<Expr>>();
        let holds = |expr: &Expr| expr.as_value().is_some_and(Value::is_truthy);
        let launch = &manifest.launch;
        ConfigPlan {
            id: id.to_string(),
            values: values.clone(),
            legal: manifest
                .constraints
                .iter()
                .map(|c| (c.name.clone(), filled(&c.expr)))
                .filter(|(_, expr)| !holds(expr))
                .collect(),
            launch: (manifest.kernel.language == Language::Cuda).then(|| LaunchPlan {
                grid: all(&launch.grid),
                block: all(&launch.block),
                cluster: all(&launch.cluster),
                shared: launch
                    .shared
                    .as_ref()
                    .map_or_else(|| Expr::constant(0), filled),
                cooperative: launch.cooperative,
            }),
            arguments: manifest
                .arguments
                .iter()
                .map(|argument| match &argument.kind {
                    ArgumentKind::Scalar { value } => ConfigArgument::Scalar(filled(value)),
                    ArgumentKind::Buffer { shape, .. } => ConfigArgument::Buffer(all(shape)),
                    ArgumentKind::Tma {
                        tensor,
                        tile,
                        swizzle,
                    } => ConfigArgument::Tma {
                        tensor: *tensor,
                        tile: all(tile),
                        swizzle: *swizzle,
                    },
                })
                .collect(),
            images: Vec::new(),
        }
    }
}

/// What computes the answer in Python where no kernel fits.
fn fallback(file: &ManifestFile) -> Result<Option<Fallback>, Failure> {
    let manifest = &file.manifest;
    let made = |function: &PythonFunction, is_wide: bool| {
        file.resolve(&function.source)?;
        Ok(Some(Fallback {
            file: packaged_path(file, &function.source.value)?,
            function: function.function.clone(),
            is_wide,
        }))
    };
    if let Some(function) = &manifest.export.fallback {
        return made(function, false);
    }
    if let Some(BaselineKind::Python(function)) = manifest.baseline.as_ref().map(|b| &b.kind) {
        return made(function, false);
    }
    match &manifest.reference {
        Some(Reference::Python(function)) => made(function, true),
        _ => Ok(None),
    }
}

/// A path of the project, inside the package.
pub fn packaged(relative: &str) -> String {
    format!("{SOURCES}/{relative}")
}

/// The same for a path the manifest names.
pub fn packaged_path(file: &ManifestFile, named: &str) -> Result<String, Failure> {
    let found = file
        .dir()
        .join(named)
        .canonicalize()
        .map_err(|e| Failure::bad_path(format!("cannot use `{named}`"), &e))?;
    let relative = found.strip_prefix(&file.root).map_err(|_| {
        Failure::usage(format!("`{named}` lies outside the project"))
            .hint("copy it into the project: a package carries all it needs")
    })?;
    Ok(match relative.as_os_str().is_empty() {
        true => SOURCES.to_string(),
        false => packaged(&relative.display().to_string()),
    })
}

/// The kernel's flags, with the folders and files of the project where a package has them.
fn packaged_flags(file: &ManifestFile) -> Result<Vec<String>, Failure> {
    let kernel = &file.manifest.kernel;
    let dialect = match (kernel.language, kernel.compiler) {
        (Language::C, _) => Dialect::Cc,
        (Language::Cuda, CudaCompiler::Nvrtc) => Dialect::Nvrtc,
        (Language::Cuda, CudaCompiler::Nvcc) => Dialect::Nvcc,
    };
    let mut include_dirs = vec![file.dir().display().to_string()];
    for dir in &kernel.include_dirs {
        include_dirs.push(file.resolve(dir)?.display().to_string());
    }
    let placed = flags::placed(&kernel.flags, dialect, file.dir(), &include_dirs);
    Ok(compiler_flags::replaced(&placed, dialect, |_, name| {
        let path = Path::new(name);
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        match whole.strip_prefix(&file.root) {
            Ok(relative) if relative.as_os_str().is_empty() => SOURCES.to_string(),
            Ok(relative) => packaged(&relative.display().to_string()),
            // The system's: whoever builds the package has it or not.
            Err(_) => name.to_string(),
        }
    }))
}

trait HasRole {
    fn role(&self) -> Option<Role>;
}

impl HasRole for Argument {
    fn role(&self) -> Option<Role> {
        match &self.kind {
            ArgumentKind::Buffer { role, .. } => Some(*role),
            _ => None,
        }
    }
}
