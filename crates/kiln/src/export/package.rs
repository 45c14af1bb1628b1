//! What a package says about itself, in `kiln-package.json`. A stored format: it carries a version, new keys
//! may appear at any time, and a key never changes its meaning.

use std::collections::BTreeMap;
use std::fmt::Write;

use kiln_core::expression::Code;
use kiln_core::manifest::{ArgumentKind, Language, Role, Swizzle};
use kiln_core::protocol::Resources;
use kiln_core::value::Value;
use serde::{Deserialize, Serialize};

use super::plan::{ConfigArgument, ConfigPlan, Plan};
use super::standing::Standing;
use super::winners::Winners;
use crate::exit::Failure;

/// The file of a package that describes it.
pub const FILE: &str = "kiln-package.json";
pub const SCHEMA_VERSION: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    Torch,
    Cpp,
    Rust,
    Cubin,
    Header,
    Json,
}

impl Target {
    /// Whether there is a function that a program calls, with the kernel's arguments.
    pub fn is_called(self) -> bool {
        matches!(self, Target::Torch | Target::Cpp | Target::Rust)
    }

    pub fn name(self) -> &'static str {
        match self {
            Target::Torch => "torch",
            Target::Cpp => "cpp",
            Target::Rust => "rust",
            Target::Cubin => "cubin",
            Target::Header => "header",
            Target::Json => "json",
        }
    }
}

/// Expressions in it are Python over the dimensions, with the functions of `_expressions.py`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Package {
    pub schema_version: u64,
    pub kernel: String,
    pub language: Language,
    pub target: Target,
    pub entry: String,
    /// Every config won a confirmation of kiln's on its shape, and the sources are those it won with.
    pub confirmed: bool,
    pub notes: Vec<String>,
    pub created: String,
    pub kiln_version: String,
    /// Path of the manifest inside the package, below `source`.
    pub manifest: String,
    pub dimensions: Vec<String>,
    pub parameters: Vec<Parameter>,
    /// Scalars of the kernel that a call may set.
    #[serde(default)]
    pub scalars: Vec<Parameter>,
    pub arguments: Vec<PackagedArgument>,
    pub configs: Vec<PackagedConfig>,
    pub dispatch: Vec<Dispatch>,
}

/// What a caller says beside tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parameter {
    pub name: String,
    /// `None`: it has to be said.
    pub default: Option<Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackagedArgument {
    pub name: String,
    /// `buffer`, `scalar` or `tma`.
    pub kind: String,
    pub dtype: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackagedConfig {
    pub id: String,
    pub values: BTreeMap<String, Value>,
    /// Conditions on the dimensions under which it may be used, by name.
    pub legal: BTreeMap<String, String>,
    pub images: Vec<Image>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<PackagedLaunch>,
    /// By argument: a scalar's value, a buffer's extents, a descriptor's box.
    pub arguments: Vec<PackagedValue>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackagedLaunch {
    pub grid: Vec<String>,
    pub block: Vec<String>,
    pub cluster: Vec<String>,
    pub shared: String,
    pub cooperative: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackagedValue {
    Scalar(String),
    Extents(Vec<String>),
    Tma {
        /// Position of the buffer among the arguments.
        tensor: usize,
        tile: Vec<String>,
        swizzle: Swizzle,
    },
}

/// A compiled config.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Image {
    /// `sm_90a`, or the processor's for kernels in C.
    pub architecture: String,
    pub file: String,
    pub symbol: String,
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What compiled it.
    pub compiler: String,
}

/// One shape and what runs on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dispatch {
    pub shape: String,
    pub dimensions: BTreeMap<String, i64>,
    pub config: String,
    pub confirmed: bool,
    pub evidence: Evidence,
    /// The launch on this shape, worked out by kiln itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geometry: Option<Geometry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

/// Why a config is in the package.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// A study of the project it was exported from, or a file of winners.
    pub from: String,
    pub verdict: Option<String>,
    pub speedup: Option<f64>,
    pub speedup_ci_95: Option<[f64; 2]>,
    pub time_us: Option<f64>,
    pub baseline: Option<String>,
    pub baseline_us: Option<f64>,
    pub samples: Option<[usize; 2]>,
    pub device: String,
    pub date: String,
    pub kiln_version: Option<String>,
}

impl Package {
    pub fn of(plan: &Plan, winners: &Winners, target: Target) -> Result<Package, Failure> {
        let confirmed = winners.chosen.iter().all(|c| c.confirmed);
        Ok(Package {
            schema_version: SCHEMA_VERSION,
            kernel: plan.kernel.clone(),
            language: plan.language,
            target,
            entry: plan.entry.clone(),
            confirmed,
            notes: match target.is_called() {
                true => [winners.notes.clone(), plan.frozen()].concat(),
                false => winners.notes.clone(),
            },
            created: crate::report::terminal::date(crate::export::winners::now_unix_ms()),
            kiln_version: env!("CARGO_PKG_VERSION").into(),
            manifest: plan.manifest.clone(),
            dimensions: plan.dimensions.clone(),
            parameters: plan
                .parameters
                .iter()
                .map(|(name, default)| Parameter {
                    name: name.clone(),
                    default: default.clone(),
                })
                .collect(),
            scalars: plan
                .scalars()
                .map(|(scalar, argument)| Parameter {
                    name: argument.name.clone(),
                    default: Some(scalar.default.clone()),
                })
                .collect(),
            arguments: plan
                .arguments
                .iter()
                .map(|argument| PackagedArgument {
                    name: argument.name.clone(),
                    dtype: argument.dtype.name().into(),
                    kind: match &argument.kind {
                        ArgumentKind::Buffer { .. } => "buffer",
                        ArgumentKind::Scalar { .. } => "scalar",
                        ArgumentKind::Tma { .. } => "tma",
                    }
                    .into(),
                    role: match &argument.kind {
                        ArgumentKind::Buffer { role, .. } => Some(*role),
                        _ => None,
                    },
                })
                .collect(),
            configs: plan
                .configs
                .iter()
                .map(|config| packaged(plan, config))
                .collect::<Result<_, _>>()?,
            dispatch: plan.dispatch.clone(),
        })
    }

    pub fn config(&self, id: &str) -> Option<&PackagedConfig> {
        self.configs.iter().find(|c| c.id == id)
    }

    /// For whoever opens the folder.
    pub fn readme(&self) -> String {
        let mut text = format!("# {}\n\n", self.kernel);
        let _ = writeln!(
            text,
            "Exported by kiln {} on {} for {}. {}\n",
            self.kiln_version,
            self.created,
            self.target.name(),
            Standing::of_all(&self.dispatch).sentence()
        );
        for note in &self.notes {
            let _ = writeln!(text, "- {}", kiln_core::escape::markdown(note));
        }
        if self.target.is_called() {
            for scalar in &self.scalars {
                let default = scalar
                    .default
                    .as_ref()
                    .map_or(String::new(), Value::to_string);
                let _ = writeln!(
                    text,
                    "- a call may set `{}`; it is {default} by default, and was checked and timed with that only",
                    scalar.name
                );
            }
        }
        let _ = writeln!(
            text,
            "\n| shape | {} | config | speedup | 95 % | standing | from | device | date |\n|{}",
            self.dimensions.join(" | "),
            " --- |".repeat(self.dimensions.len() + 8)
        );
        for entry in &self.dispatch {
            let e = &entry.evidence;
            let sizes: Vec<String> = self
                .dimensions
                .iter()
                .map(|d| {
                    entry
                        .dimensions
                        .get(d)
                        .map_or(String::new(), i64::to_string)
                })
                .collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                entry.shape,
                sizes.join(" | "),
                entry.config,
                e.speedup.map_or("?".into(), |s| format!("{s:.2}x")),
                e.speedup_ci_95
                    .map_or("not measured".into(), |[low, high]| format!(
                        "{low:.2} to {high:.2}"
                    )),
                Standing::of(entry).name(),
                kiln_core::escape::markdown(&e.from),
                kiln_core::escape::markdown(&e.device),
                e.date
            );
        }
        let _ = writeln!(
            text,
            "\nOther shapes get the config of the nearest one on which it is legal. `sha256sum -c {}` checks the files, \
             `kiln verify FOLDER` the answers and the speed on your machine.",
            super::files::SUMS
        );
        text
    }
}

fn packaged(plan: &Plan, config: &ConfigPlan) -> Result<PackagedConfig, Failure> {
    let code = Code::Python;
    let legal = config.legal.iter();
    let arguments = config.arguments.iter().zip(&plan.arguments);
    Ok(PackagedConfig {
        id: config.id.clone(),
        values: config.values.iter().cloned().collect(),
        legal: legal
            .map(|(name, expr)| Ok((name.clone(), plan.truth(expr, code)?)))
            .collect::<Result<_, Failure>>()?,
        images: config.images.clone(),
        launch: match &config.launch {
            None => None,
            Some(launch) => Some(PackagedLaunch {
                grid: plan.ints(&launch.grid, code)?,
                block: plan.ints(&launch.block, code)?,
                cluster: plan.ints(&launch.cluster, code)?,
                shared: plan.int(&launch.shared, code)?,
                cooperative: launch.cooperative,
            }),
        },
        arguments: arguments
            .map(|(value, argument)| {
                Ok(match value {
                    ConfigArgument::Scalar(expr) => {
                        PackagedValue::Scalar(plan.scalar(argument.dtype, expr, code)?)
                    }
                    ConfigArgument::Buffer(extents) => {
                        PackagedValue::Extents(plan.ints(extents, code)?)
                    }
                    ConfigArgument::Tma {
                        tensor,
                        tile,
                        swizzle,
                    } => PackagedValue::Tma {
                        tensor: *tensor,
                        tile: plan.ints(tile, code)?,
                        swizzle: *swizzle,
                    },
                })
            })
            .collect::<Result<_, Failure>>()?,
    })
}
