//! A manifest as T1.

use serde_json::{Value as Json, json};
use thiserror::Error;

use crate::expression::{Expr, python_literal};
use crate::manifest::{Language, Manifest, plain_name};
use crate::space::Tunable;
use crate::value::Value;

#[derive(Clone, Debug, Error, PartialEq)]
pub enum WriteError {
    #[error(
        "constraint `{name}` nests too deeply for Python or calls a function it has no built-in for: `{text}`"
    )]
    NotPython { name: String, text: String },
    #[error("tunable `{name}` has both text and numbers, which T1 has no type for")]
    MixedKinds { name: String },
}

impl WriteError {
    pub fn hint(&self) -> &'static str {
        match self {
            WriteError::NotPython { .. } => {
                "say it with arithmetic, `min`, `max` and `in`; `gcd`, `lcm` and `log2` cannot be written"
            }
            WriteError::MixedKinds { .. } => "give it values of one kind",
        }
    }
}

/// Tunables, constraints and launch geometry of the target shape; dimensions become numbers.
///
/// T1 has no word for kernels in C: `Language` is `OpenCL` for them, the one of its languages that
/// runs on CPUs, and `SourceLanguage` says `C`.
pub fn of_manifest(manifest: &Manifest) -> Result<Json, WriteError> {
    let dimensions = &manifest.target().dimensions;
    let mut parameters = Vec::with_capacity(manifest.tunables.len());
    for tunable in &manifest.tunables {
        let literals: Vec<String> = tunable.values.iter().map(python_literal).collect();
        parameters.push(json!({
            "Name": tunable.name,
            "Type": type_name(tunable)?,
            "Values": format!("[{}]", literals.join(", ")),
        }));
    }
    let mut conditions = Vec::with_capacity(manifest.constraints.len());
    for constraint in &manifest.constraints {
        let expr = constraint.expr.with_constants(dimensions);
        let text = expr.to_python().ok_or_else(|| WriteError::NotPython {
            name: constraint.name.clone(),
            text: constraint.expr.text().to_string(),
        })?;
        let names: Vec<&str> = expr.names().iter().map(|n| n.name.as_str()).collect();
        conditions.push(json!({"Expression": text, "Parameters": names}));
    }
    let kernel = &manifest.kernel;
    let sizes = |exprs: &[Expr]| {
        let axes = ["X", "Y", "Z"].into_iter().zip(exprs);
        let mut sizes: serde_json::Map<String, Json> = axes
            .map(|(axis, expr)| {
                let python = expr.with_constants(dimensions).to_python_value();
                (
                    axis.to_string(),
                    json!(python.unwrap_or_else(|| expr.text().to_string())),
                )
            })
            .collect();
        if sizes.is_empty() {
            sizes.insert("X".to_string(), json!("1"));
        }
        Json::Object(sizes)
    };
    let is_cuda = kernel.language == Language::Cuda;
    let problem_size: Vec<i64> = dimensions.iter().map(|(_, n)| *n).collect();
    Ok(json!({
        "General": {
            "BenchmarkName": kernel.name,
            "FormatVersion": 1,
            "TimeUnit": "Milliseconds",
            "OutputFormat": "JSON",
        },
        "ConfigurationSpace": {
            "TuningParameters": parameters,
            "Conditions": conditions,
        },
        "KernelSpecification": {
            "Language": if is_cuda { "CUDA" } else { "OpenCL" },
            "SourceLanguage": if is_cuda { "CUDA" } else { "C" },
            "CompilerOptions": kernel.flags,
            "BenchmarkName": kernel.name,
            "KernelName": plain_name(&kernel.entry.value),
            "KernelFile": kernel.source.value,
            "GlobalSizeType": if is_cuda { "CUDA" } else { "OpenCL" },
            "GlobalSize": sizes(&manifest.launch.grid),
            "LocalSize": sizes(&manifest.launch.block),
            "ProblemSize": problem_size,
        },
    }))
}

fn type_name(tunable: &Tunable) -> Result<&'static str, WriteError> {
    let all = |is: fn(&Value) -> bool| tunable.values.iter().all(is);
    Ok(if all(|v| matches!(v, Value::Bool(_))) {
        "bool"
    } else if all(|v| matches!(v, Value::Int(_))) {
        "int"
    } else if all(|v| matches!(v, Value::Int(_) | Value::Float(_))) {
        "float"
    } else if all(|v| matches!(v, Value::Text(_))) {
        "string"
    } else {
        return Err(WriteError::MixedKinds {
            name: tunable.name.clone(),
        });
    })
}
