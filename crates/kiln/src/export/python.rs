//! A Python module for PyTorch: a table of what was tuned, written here, and a runtime that is the same in every
//! package.

mod module;

use std::fmt::Write;

use kiln_core::expression::{Code, Expr};
use kiln_core::manifest::{Argument, ArgumentKind, Language, Role, Swizzle};
use kiln_core::value::Value;
use serde_json::json;

use super::choosing;
use super::files::{Folder, sha256};
use super::header;
use super::importable::Offered;
use super::names;
use super::package::Package;
use super::plan::{ConfigArgument, ConfigPlan, Plan};
use super::standing::Standing;
use crate::exit::Failure;
use module::CallNames;

const CODE: Code = Code::Python;

/// What is the same in every package.
const RUNTIME: [(&str, &str); 5] = [
    ("_expressions.py", include_str!("templates/_expressions.py")),
    ("_fallback.py", include_str!("templates/_fallback.py")),
    ("_launch.py", include_str!("templates/_launch.py")),
    ("_register.py", include_str!("templates/_register.py")),
    ("_runtime.py", include_str!("templates/_runtime.py")),
];

pub fn write(plan: &Plan, package: &Package, folder: &mut Folder) -> Result<(), Failure> {
    for (name, text) in RUNTIME {
        folder.text(name, text)?;
    }
    let table = table(plan)?;
    // Two packages of one kernel may be loaded side by side.
    let operator = format!("{}_{}", plan.identifier, &sha256(table.as_bytes())[..8]);
    folder.text("_table.py", &table.replace("@OPERATOR@", &operator))?;
    folder.text("__init__.py", &module::text(plan, package))
}

/// A value that JSON can say, as a Python literal.
fn literal(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "None".into(),
        serde_json::Value::Bool(true) => "True".into(),
        serde_json::Value::Bool(false) => "False".into(),
        serde_json::Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[{}]", items.join(", "))
        }
        serde_json::Value::Object(fields) => {
            let fields = fields.iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("{}: {}", text(name), literal(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        serde_json::Value::String(string) => text(string),
        number => number.to_string(),
    }
}

/// A string literal: JSON's escapes are Python's too, once all is ASCII.
fn text(string: &str) -> String {
    let quoted = serde_json::Value::String(string.to_string()).to_string();
    let mut ascii = String::with_capacity(quoted.len());
    for character in quoted.chars() {
        match character.is_ascii() {
            true => ascii.push(character),
            false => {
                let _ = write!(ascii, "\\U{:08x}", character as u32);
            }
        }
    }
    ascii
}

/// A tuple, also of one item or of none.
fn tuple(items: &[String]) -> String {
    match items {
        [] => "()".into(),
        [only] => format!("({only},)"),
        many => format!("({})", many.join(", ")),
    }
}

fn safe_names(plan: &Plan) -> String {
    let names: Vec<String> = plan.dimensions.iter().map(|d| names::safe(d)).collect();
    names.join(", ")
}

fn table(plan: &Plan) -> Result<String, Failure> {
    let mut out = format!(
        "\"\"\"{}: what was tuned, and how it is launched. Written by kiln; do not edit.\"\"\"\n\n\
         from ._expressions import (\n    Argument, Config, _align_up, _ceil_div, _gcd, _is_pow2, _lcm, _real_abs, _real_log2, _real_sqrt, _whole_abs,\n    \
         _whole_ceil, _whole_floor, _whole_round, _whole_trunc,\n)\n\n",
        plan.identifier
    );
    let names: Vec<String> = plan.dimensions.iter().map(|d| text(d)).collect();
    let ranks: Vec<String> = plan.inputs().map(|(_, a)| rank(a).to_string()).collect();
    let _ = writeln!(
        out,
        "KERNEL = {}\nOPERATOR = \"@OPERATOR@\"\nDEVICE = \"{}\"\nDIMENSIONS = {}\nPARAMETERS = {}\nRANKS = {}",
        text(&plan.kernel),
        match plan.language {
            Language::Cuda => "cuda",
            Language::C => "cpu",
        },
        tuple(&names),
        tuple(&parameter_kinds(plan)),
        tuple(&ranks)
    );
    let fallback = match &plan.fallback {
        None => "None".to_string(),
        Some(f) => format!(
            "({}, {}, {})",
            text(&f.file),
            text(&f.function),
            if f.is_wide { "True" } else { "False" }
        ),
    };
    let _ = writeln!(out, "FALLBACK = {fallback}\nARGUMENTS = [");
    for argument in &plan.arguments {
        let _ = writeln!(out, "    {},", argument_text(argument));
    }
    let scalars: Vec<String> = plan
        .scalars()
        .map(|(s, _)| format!("({}, {})", s.place, literal(&json!(s.default))))
        .collect();
    let _ = writeln!(
        out,
        "]\n# Scalars that a call may set: which argument, and what it is otherwise.\nSCALARS = {}\n",
        tuple(&scalars)
    );
    out.push_str(&dimensions(plan)?);
    out.push_str(&extents(plan)?);
    out.push_str(&relations(plan)?);
    out.push_str(&derived_scalars(plan)?);
    for config in &plan.configs {
        out.push_str(&config_text(plan, config)?);
    }
    let ids: Vec<&str> = plan.configs.iter().map(|c| c.id.as_str()).collect();
    let _ = writeln!(out, "CONFIGS = [{}]\n\nDISPATCH = [", ids.join(", "));
    for entry in &plan.dispatch {
        let sizes = choosing::sizes(plan, entry);
        let entry = json!({
            "shape": entry.shape, "dimensions": sizes, "config": entry.config,
            "confirmed": entry.confirmed, "standing": Standing::of(entry).name(), "evidence": entry.evidence,
        });
        let _ = writeln!(out, "    {},", literal(&entry));
    }
    out.push_str("]\n");
    Ok(out)
}

fn rank(argument: &Argument) -> usize {
    match &argument.kind {
        ArgumentKind::Buffer { shape, .. } => shape.len(),
        _ => 0,
    }
}

fn argument_text(argument: &Argument) -> String {
    let name = text(&argument.name);
    let dtype = argument.dtype.name();
    match &argument.kind {
        ArgumentKind::Scalar { .. } => format!("Argument({name}, \"scalar\", \"{dtype}\")"),
        ArgumentKind::Buffer { role, .. } => {
            let role = match role {
                Role::Input => "input",
                Role::Output => "output",
                Role::InOut => "inout",
                Role::Scratch => "scratch",
                Role::Zeroed => "zeroed",
            };
            format!("Argument({name}, \"buffer\", \"{dtype}\", role=\"{role}\")")
        }
        ArgumentKind::Tma {
            tensor, swizzle, ..
        } => {
            let swizzle = match swizzle {
                Swizzle::None => "none",
                Swizzle::Bytes32 => "32B",
                Swizzle::Bytes64 => "64B",
                Swizzle::Bytes128 => "128B",
            };
            format!(
                "Argument({name}, \"tma\", \"{dtype}\", tensor={tensor}, swizzle=\"{swizzle}\")"
            )
        }
    }
}

/// The function that reads dimensions off shapes and parameters.
fn dimensions(plan: &Plan) -> Result<String, Failure> {
    let mut out = String::from("\ndef dimensions(_shapes, _parameters):\n");
    for (number, (name, _)) in plan.parameters.iter().enumerate() {
        // Booleans count as numbers in expressions, as in kiln's.
        let _ = writeln!(out, "    {} = _parameters[{number}]", names::safe(name));
    }
    for (dimension, argument, axis) in &plan.inferred {
        let number = plan.inputs().position(|(place, _)| place == *argument);
        let number = number.unwrap_or_default();
        let _ = writeln!(
            out,
            "    {} = _shapes[{number}][{axis}]",
            names::safe(dimension)
        );
    }
    for (dimension, expr) in &plan.computed {
        let _ = writeln!(
            out,
            "    {} = {}",
            names::safe(dimension),
            plan.int(expr, CODE)?
        );
    }
    let all: Vec<String> = plan.dimensions.iter().map(|d| names::safe(d)).collect();
    let _ = writeln!(out, "    return {}\n", tuple(&all));
    Ok(out)
}

/// The extents of inputs and outputs, which no config decides.
fn extents(plan: &Plan) -> Result<String, Failure> {
    let mut out = format!(
        "\n# Of inputs, then of outputs.\ndef extents({}):\n    return [\n",
        safe_names(plan)
    );
    for (_, argument) in plan.inputs().chain(plan.outputs()) {
        if let ArgumentKind::Buffer { shape, .. } = &argument.kind {
            let _ = writeln!(
                out,
                "        {},  # {}",
                tuple(&plan.ints(shape, CODE)?),
                argument.name
            );
        }
    }
    out.push_str("    ]\n\n");
    Ok(out)
}

/// What a call can give the fallback, where there is one.
pub fn offered(plan: &Plan) -> Result<Option<Offered<'_>>, Failure> {
    let Some(fallback) = &plan.fallback else {
        return Ok(None);
    };
    let tensors = plan.inputs().chain(plan.outputs());
    let mut names: Vec<String> = tensors.map(|(_, a)| a.name.clone()).collect();
    names.extend(plan.scalars().map(|(_, a)| a.name.clone()));
    names.extend(worked_out(plan)?.into_iter().map(|(name, _)| name));
    names.extend(plan.dimensions.iter().cloned());
    Ok(Some(Offered { fallback, names }))
}

/// What a caller says beside tensors: the name, and of which type it is.
fn parameter_kinds(plan: &Plan) -> Vec<String> {
    let kind = |default: &Option<Value>| match default {
        Some(Value::Bool(_)) => "bool",
        Some(Value::Float(_)) => "float",
        _ => "int",
    };
    let names = CallNames::of(plan).parameters;
    let parameters = plan.parameters.iter().zip(names);
    parameters
        .map(|((_, default), name)| tuple(&[text(&name), format!("\"{}\"", kind(default))]))
        .collect()
}

/// Dimensions that follow from others: a caller who says both, or whose tensors do, may be wrong.
fn relations(plan: &Plan) -> Result<String, Failure> {
    let mut out = format!(
        "\n# Dimensions that follow from others: what it is, and what it may be by which formula.\ndef relations({}):\n    return [\n",
        safe_names(plan)
    );
    for relation in &plan.relations {
        let mut allowed = String::new();
        for formula in &relation.formulas {
            let _ = write!(
                allowed,
                "({}, {}), ",
                plan.int(formula, CODE)?,
                text(formula.text().trim())
            );
        }
        let _ = writeln!(
            out,
            "        ({}, {}, [{}]),",
            text(&relation.dimension),
            names::safe(&relation.dimension),
            allowed.trim_end_matches(", ")
        );
    }
    out.push_str("    ]\n\n");
    Ok(out)
}

/// Scalars that follow from dimensions alone, by name: a fallback may take them.
fn derived_scalars(plan: &Plan) -> Result<String, Failure> {
    let mut out = format!(
        "\n# Scalars that are worked out, whatever the config.\ndef scalars({}):\n    return {{\n",
        safe_names(plan)
    );
    for (name, value) in worked_out(plan)? {
        let _ = writeln!(out, "        {}: {value},", text(&name));
    }
    out.push_str("    }\n\n");
    Ok(out)
}

fn worked_out(plan: &Plan) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    for (place, argument) in plan.arguments.iter().enumerate() {
        let mut texts = Vec::new();
        for config in &plan.configs {
            if let Some(ConfigArgument::Scalar(expr)) = config.arguments.get(place) {
                texts.push(plan.scalar(argument.dtype, expr, CODE)?);
            }
        }
        texts.dedup();
        if let ([only], false) = (texts.as_slice(), plan.is_settable(place)) {
            found.push((argument.name.clone(), only.clone()));
        }
    }
    Ok(found)
}

fn config_text(plan: &Plan, config: &ConfigPlan) -> Result<String, Failure> {
    let id = &config.id;
    let names = safe_names(plan);
    let mut out = String::new();
    for entry in plan.dispatch.iter().filter(|e| e.config == *id) {
        let _ = writeln!(out, "\n# {}", header::comment(entry));
    }
    let all = choosing::condition(plan, config, CODE)?;
    let _ = writeln!(out, "def {id}_legal({names}):\n    return {all}\n");
    let launch = match &config.launch {
        None => "None".to_string(),
        Some(launch) => {
            let three = |exprs: &[Expr]| plan.ints(exprs, CODE).map(|e| tuple(&e));
            let _ = writeln!(
                out,
                "\ndef {id}_launch({names}):\n    # Grid, block, cluster, bytes of shared memory, cooperative.\n    \
                 return {}, {}, {}, {}, {}\n",
                three(&launch.grid)?,
                three(&launch.block)?,
                match launch.cluster.is_empty() {
                    true => "None".to_string(),
                    false => three(&launch.cluster)?,
                },
                plan.int(&launch.shared, CODE)?,
                if launch.cooperative { "True" } else { "False" },
            );
            format!("{id}_launch")
        }
    };
    let _ = writeln!(
        out,
        "\n# Scalars, extents of buffers, boxes of descriptors.\ndef {id}_arguments({names}):\n    return ["
    );
    for (argument, value) in plan.arguments.iter().zip(&config.arguments) {
        let value = match value {
            ConfigArgument::Scalar(expr) => plan.scalar(argument.dtype, expr, CODE)?,
            ConfigArgument::Buffer(extents) => tuple(&plan.ints(extents, CODE)?),
            ConfigArgument::Tma { tile, .. } => tuple(&plan.ints(tile, CODE)?),
        };
        let _ = writeln!(out, "        {value},  # {}", argument.name);
    }
    out.push_str("    ]\n\n");
    let values = crate::report::json::config(&config.values);
    let images: Vec<serde_json::Value> = config
        .images
        .iter()
        .map(|i| json!({"architecture": i.architecture, "file": i.file, "symbol": i.symbol, "sha256": i.sha256}))
        .collect();
    let _ = writeln!(
        out,
        "\n{id} = Config(\"{id}\", {}, {}, {id}_legal, {launch}, {id}_arguments)\n",
        literal(&values),
        literal(&json!(images))
    );
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_python_s_whatever_they_hold() {
        assert_eq!(text("a\"\\\n"), r#""a\"\\\n""#);
        assert_eq!(text("é\u{1f600}"), r#""\U000000e9\U0001f600""#);
        assert_eq!(
            literal(&json!({"a": [1, null, true, 1.5]})),
            r#"{"a": [1, None, True, 1.5]}"#
        );
        assert_eq!(tuple(&["1".into()]), "(1,)");
    }
}
