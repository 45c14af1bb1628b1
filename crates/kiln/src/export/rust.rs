//! A Rust crate without dependencies: it chooses a config by the dimensions and launches it. Kernels in C are
//! compiled by its build script, CUDA kernels are cubins loaded through the driver.

mod c_kernel;
mod cuda_kernel;
mod example;

use std::fmt::Write;

use kiln_core::dtype::DType;
use kiln_core::expression::Code;
use kiln_core::manifest::{Argument, ArgumentKind, Language, Role};
use kiln_core::value::Value;

use super::c_source;
use super::choosing;
use super::cpp::{
    axis_check, config_number, fill_number, half_bits, parameter, swizzle_number, tensor_map_type,
};
use super::files::Folder;
use super::header;
use super::names;
use super::package::Package;
use super::plan::{ConfigArgument, ConfigPlan, Plan};
use super::standing::Standing;
use crate::exit::Failure;

const CODE: Code = Code::Rust;

pub fn write(plan: &Plan, package: &Package, folder: &mut Folder) -> Result<(), Failure> {
    let name = plan.identifier.to_lowercase();
    let build = match plan.language {
        Language::C => "build = \"build.rs\"\n",
        Language::Cuda => "",
    };
    folder.text(
        "Cargo.toml",
        &format!(
            "# {}, exported by kiln. It has no dependencies.\n[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{build}\n\
             [lib]\nname = \"{name}\"\n\n[[example]]\nname = \"run\"\n\n# Not part of the workspace it may lie in.\n[workspace]\n",
            plan.kernel
        ),
    )?;
    folder.text("src/arithmetic.rs", include_str!("templates/arithmetic.rs"))?;
    folder.text("src/lib.rs", &library(plan, package)?)?;
    folder.text("examples/run.rs", &example::example(plan, &name)?)?;
    match plan.language {
        Language::Cuda => folder.text("src/driver.rs", include_str!("templates/driver.rs")),
        Language::C => {
            c_source::write(plan, folder)?;
            folder.text("src/memory.rs", include_str!("templates/memory.rs"))?;
            folder.text("build.rs", &c_kernel::build_script(plan))
        }
    }
}

fn library(plan: &Plan, package: &Package) -> Result<String, Failure> {
    let mut text = format!(
        "//! {}, as kiln {} tuned it. {}\n//!\n",
        plan.kernel,
        package.kiln_version,
        Standing::of_all(&plan.dispatch).sentence()
    );
    for entry in &plan.dispatch {
        let _ = writeln!(
            text,
            "//! - {}",
            header::comment(entry).replace(['[', ']'], "|")
        );
    }
    for sentence in plan.frozen() {
        let _ = writeln!(text, "//! - {sentence}");
    }
    text.push_str(
        "#![allow(non_snake_case, unused_parens, clippy::all)]\n\n#[allow(dead_code)]\nmod arithmetic;\n",
    );
    text.push_str(match plan.language {
        Language::Cuda => "pub mod driver;\n",
        Language::C => "mod memory;\n\npub use memory::Aligned;\n",
    });
    text.push_str(
        "\nuse arithmetic::*;\n\n/// What went wrong, in words.\n#[derive(Clone, Debug)]\npub struct Error(pub String);\n\n\
         impl std::fmt::Display for Error {\n    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {\n        f.write_str(&self.0)\n    }\n}\n\n\
         impl std::error::Error for Error {}\n\n",
    );
    let fields: Vec<String> = plan
        .dimensions
        .iter()
        .map(|d| format!("    pub {}: i64,\n", names::safe(d)))
        .collect();
    let _ = writeln!(
        text,
        "/// The size of a problem.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub struct Dimensions {{\n{}}}\n",
        fields.concat()
    );
    text.push_str(&scalars_text(plan));
    text.push_str(&known(plan));
    for config in &plan.configs {
        text.push_str(&config_text(plan, config)?);
    }
    text.push_str(&chooser(plan)?);
    match plan.language {
        Language::C => text.push_str(&c_kernel::c_runner(plan)?),
        Language::Cuda => text.push_str(&cuda_kernel::cuda_runner(plan)?),
    }
    Ok(text)
}

/// The scalars that a call may set, with their defaults; nothing where there are none.
fn scalars_text(plan: &Plan) -> String {
    if plan.settable.is_empty() {
        return String::new();
    }
    let (mut fields, mut defaults) = (String::new(), String::new());
    for (settable, argument) in plan.scalars() {
        let (name, kind) = (parameter(argument), element(argument.dtype));
        let value = match &settable.default {
            // Rounded once, as kiln rounds it.
            Value::Float(number) => format!("{number:?}_f64 as {kind}"),
            other => other.to_string(),
        };
        let _ = writeln!(fields, "    pub {name}: {kind},");
        let _ = writeln!(defaults, "            {name}: {value},");
    }
    format!(
        "/// Scalars of the kernel. The defaults are the manifest's, and what was checked and timed.\n\
         #[derive(Clone, Copy, Debug, PartialEq)]\npub struct Scalars {{\n{fields}}}\n\n\
         impl Default for Scalars {{\n    fn default() -> Scalars {{\n        Scalars {{\n{defaults}        }}\n    }}\n}}\n\n"
    )
}

/// A scalar in a call: what the caller says, or what follows from the dimensions.
fn passed_scalar(
    plan: &Plan,
    place: usize,
    argument: &Argument,
    value: &ConfigArgument,
) -> Result<String, Failure> {
    match plan.is_settable(place) {
        true => Ok(format!("scalars.{}", parameter(argument))),
        false => scalar(plan, argument, value),
    }
}

fn known(plan: &Plan) -> String {
    let mut text = format!(
        "/// A shape that was tuned, and what is known about its config.\n#[derive(Clone, Copy, Debug)]\npub struct Known {{\n    pub shape: &'static str,\n    \
         pub dimensions: Dimensions,\n    pub config: usize,\n    pub standing: &'static str,\n    pub speedup: Option<f64>,\n}}\n\n\
         pub const KNOWN: [Known; {}] = [\n",
        plan.dispatch.len()
    );
    for entry in &plan.dispatch {
        let sizes = plan.dimensions.iter().zip(choosing::sizes(plan, entry));
        let sizes: Vec<String> = sizes
            .map(|(d, size)| format!("{}: {size}", names::safe(d)))
            .collect();
        let _ = writeln!(
            text,
            "    Known {{ shape: {:?}, dimensions: Dimensions {{ {} }}, config: {}, standing: {:?}, speedup: {} }},",
            entry.shape,
            sizes.join(", "),
            config_number(&entry.config),
            Standing::of(entry).name(),
            entry
                .evidence
                .speedup
                .map_or("None".into(), |s| format!("Some({s:?})")),
        );
    }
    text.push_str("];\n\n");
    text
}

fn config_text(plan: &Plan, config: &ConfigPlan) -> Result<String, Failure> {
    let all = choosing::condition(plan, config, CODE)?;
    let id = &config.id;
    let mut text = format!(
        "fn {id}_legal(d: &Dimensions) -> Result<bool, Error> {{\n    let _ = d;\n    Ok({all})\n}}\n\n"
    );
    if let Some(launch) = &config.launch {
        let _ = writeln!(
            text,
            "fn {id}_geometry(d: &Dimensions) -> Result<driver::Geometry, Error> {{\n    let _ = d;\n    Ok(driver::Geometry {{\n        \
             grid: driver::three(&[{}], \"a grid\")?,\n        block: driver::three(&[{}], \"a block\")?,\n        cluster: {},\n        \
             shared: narrow({})?,\n        cooperative: {},\n    }})\n}}\n",
            plan.ints(&launch.grid, CODE)?.join(", "),
            plan.ints(&launch.block, CODE)?.join(", "),
            match launch.cluster.is_empty() {
                true => "None".to_string(),
                false => format!(
                    "Some(driver::three(&[{}], \"a cluster\")?)",
                    plan.ints(&launch.cluster, CODE)?.join(", ")
                ),
            },
            plan.int(&launch.shared, CODE)?,
            launch.cooperative
        );
    }
    Ok(text)
}

fn chooser(plan: &Plan) -> Result<String, Failure> {
    let mut text = String::from(
        "/// Whether a config may run on a problem. Where a constraint or the launch cannot be worked out, it may not.\n\
         fn legal(config: usize, d: &Dimensions) -> bool {\n    let holds = match config {\n",
    );
    for config in &plan.configs {
        let id = &config.id;
        let launched = match config.launch {
            Some(_) => format!(".map(|holds| holds && {id}_geometry(d).is_ok())"),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "        {} => {id}_legal(d){launched},",
            config_number(id)
        );
    }
    let checks = choosing::checks(plan, CODE)?;
    let _ = writeln!(
        text,
        "        _ => Ok(false),\n    }};\n    holds.unwrap_or(false)\n}}\n\n\
         /// What runs on a problem, and why.\n#[derive(Clone, Copy, Debug)]\npub struct Choice {{\n    pub config: usize,\n    \
         /// The shape whose config it is.\n    pub from: &'static Known,\n    \
         /// That very shape was tuned; otherwise it is the nearest one whose config is legal here.\n    pub exact: bool,\n}}\n\n\
         /// The config for a problem among those that can be used: its own, else that of the nearest shape on which it is legal.\n\
         pub fn choose(d: &Dimensions, usable: impl Fn(usize) -> bool) -> Result<Choice, Error> {{\n{checks}    let mut best: Option<(f64, &'static Known)> = None;\n    \
         for known in &KNOWN {{\n        let away = {};\n        \
         if best.is_none_or(|(least, _)| away < least) && usable(known.config) && legal(known.config, d) {{\n            best = Some((away, known));\n        }}\n    }}\n    \
         let (away, from) = best.ok_or_else(|| Error({:?}.into()))?;\n    Ok(Choice {{ config: from.config, from, exact: away == 0.0 }})\n}}\n",
        choosing::distance(plan, "known"),
        format!(
            "{}: no exported config is legal for these dimensions on this device",
            plan.kernel
        ),
    );
    Ok(text)
}

fn element(dtype: DType) -> &'static str {
    match dtype {
        // Bits.
        DType::F16 | DType::Bf16 => "u16",
        other => other.name(),
    }
}

fn scalar(plan: &Plan, argument: &Argument, value: &ConfigArgument) -> Result<String, Failure> {
    let ConfigArgument::Scalar(expr) = value else {
        return Ok(String::new());
    };
    let text = plan.scalar(argument.dtype, expr, CODE)?;
    Ok(match argument.dtype {
        DType::F32 => format!("({text}) as f32"),
        DType::F64 => text,
        half @ (DType::F16 | DType::Bf16) => {
            format!(
                "0x{:04x}_u16",
                half_bits(plan, argument, half, expr.as_value())?
            )
        }
        whole => format!("narrow::<{}>({text})?", whole.name()),
    })
}

fn elements_of(
    plan: &Plan,
    argument: &Argument,
    value: &ConfigArgument,
) -> Result<String, Failure> {
    let ConfigArgument::Buffer(extents) = value else {
        return Ok("0".into());
    };
    let axis = axis_check(argument);
    let mut product = "1_i64".to_string();
    for extent in plan.ints(extents, CODE)? {
        product = format!(
            "multiply({product}, {axis}({extent}, {:?})?)?",
            argument.name
        );
    }
    Ok(product)
}
