//! A Rust crate without dependencies: it chooses a config by the dimensions and launches it. Kernels in C are
//! compiled by its build script, CUDA kernels are cubins loaded through the driver.

use std::fmt::Write;

use kiln_core::dtype::DType;
use kiln_core::expression::Code;
use kiln_core::manifest::{Argument, ArgumentKind, Language, Role};

use super::c_source;
use super::cpp::{
    config_number, fill_number, half_bits, parameter, swizzle_number, tensor_map_type,
};
use super::files::Folder;
use super::header;
use super::names;
use super::package::Package;
use super::plan::{ConfigArgument, ConfigPlan, Plan};
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
    folder.text("examples/run.rs", &example(plan, &name)?)?;
    match plan.language {
        Language::Cuda => folder.text("src/driver.rs", include_str!("templates/driver.rs")),
        Language::C => {
            c_source::write(plan, folder)?;
            folder.text("src/memory.rs", include_str!("templates/memory.rs"))?;
            folder.text("build.rs", &build_script(plan))
        }
    }
}

fn library(plan: &Plan, package: &Package) -> Result<String, Failure> {
    let mut text = format!(
        "//! {}, as kiln {} tuned it.\n//!\n",
        plan.kernel, package.kiln_version
    );
    for entry in &plan.dispatch {
        let _ = writeln!(
            text,
            "//! - {}",
            header::comment(entry).replace(['[', ']'], "|")
        );
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
    text.push_str(&known(plan));
    for config in &plan.configs {
        text.push_str(&config_text(plan, config)?);
    }
    text.push_str(&chooser(plan));
    match plan.language {
        Language::C => text.push_str(&c_runner(plan)?),
        Language::Cuda => text.push_str(&cuda_runner(plan)?),
    }
    Ok(text)
}

fn known(plan: &Plan) -> String {
    let mut text = format!(
        "/// A shape that was tuned, and what is known about its config.\n#[derive(Clone, Copy, Debug)]\npub struct Known {{\n    pub shape: &'static str,\n    \
         pub dimensions: Dimensions,\n    pub config: usize,\n    pub confirmed: bool,\n    pub speedup: Option<f64>,\n}}\n\n\
         pub const KNOWN: [Known; {}] = [\n",
        plan.dispatch.len()
    );
    for entry in &plan.dispatch {
        let sizes: Vec<String> = plan
            .dimensions
            .iter()
            .map(|d| {
                format!(
                    "{}: {}",
                    names::safe(d),
                    entry.dimensions.get(d).copied().unwrap_or(1)
                )
            })
            .collect();
        let _ = writeln!(
            text,
            "    Known {{ shape: {:?}, dimensions: Dimensions {{ {} }}, config: {}, confirmed: {}, speedup: {} }},",
            entry.shape,
            sizes.join(", "),
            config_number(&entry.config),
            entry.confirmed,
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
    let conditions = config
        .legal
        .iter()
        .map(|(_, expr)| plan.truth(expr, CODE))
        .collect::<Result<Vec<_>, _>>()?;
    let all = match conditions.is_empty() {
        true => "true".to_string(),
        false => conditions.join(" && "),
    };
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

fn chooser(plan: &Plan) -> String {
    let mut text = String::from(
        "fn legal(config: usize, d: &Dimensions) -> bool {\n    let holds = match config {\n",
    );
    for config in &plan.configs {
        let _ = writeln!(
            text,
            "        {} => {}_legal(d),",
            config_number(&config.id),
            config.id
        );
    }
    let distances: Vec<String> = plan
        .dimensions
        .iter()
        .map(|d| {
            let field = names::safe(d);
            format!("distance(d.{field}, known.dimensions.{field})")
        })
        .collect();
    let _ = writeln!(
        text,
        "        _ => Ok(false),\n    }};\n    holds.unwrap_or(false)\n}}\n\n\
         /// What runs on a problem, and why.\n#[derive(Clone, Copy, Debug)]\npub struct Choice {{\n    pub config: usize,\n    \
         /// The shape whose config it is.\n    pub from: &'static Known,\n    \
         /// That very shape was tuned; otherwise it is the nearest one whose config is legal here.\n    pub exact: bool,\n}}\n\n\
         /// The config for a problem among those that can be used: its own, else that of the nearest shape on which it is legal.\n\
         pub fn choose(d: &Dimensions, usable: impl Fn(usize) -> bool) -> Result<Choice, Error> {{\n    let mut best: Option<(f64, &'static Known)> = None;\n    \
         for known in &KNOWN {{\n        let away = {};\n        \
         if best.is_none_or(|(least, _)| away < least) && usable(known.config) && legal(known.config, d) {{\n            best = Some((away, known));\n        }}\n    }}\n    \
         let (away, from) = best.ok_or_else(|| Error({:?}.into()))?;\n    Ok(Choice {{ config: from.config, from, exact: away == 0.0 }})\n}}\n",
        distances.join(" + "),
        format!(
            "{}: no exported config is legal for these dimensions on this device",
            plan.kernel
        ),
    );
    text
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

fn elements_of(plan: &Plan, value: &ConfigArgument) -> Result<String, Failure> {
    let ConfigArgument::Buffer(extents) = value else {
        return Ok("0".into());
    };
    let mut product = "1_i64".to_string();
    for extent in plan.ints(extents, CODE)? {
        product = format!("multiply({product}, {extent})?");
    }
    Ok(product)
}

fn c_runner(plan: &Plan) -> Result<String, Failure> {
    let name = &plan.identifier;
    let mut text = String::from("unsafe extern \"C\" {\n");
    for config in &plan.configs {
        let _ = writeln!(
            text,
            "    fn {name}_{}(arguments: *mut *mut std::ffi::c_void);",
            config.id
        );
    }
    text.push_str("}\n\n");
    let mut parameters = vec!["d: &Dimensions".to_string()];
    for (_, argument) in plan.buffers(&[Role::Input, Role::InOut, Role::Output]) {
        let mutable = match &argument.kind {
            ArgumentKind::Buffer {
                role: Role::Input, ..
            } => "",
            _ => "mut ",
        };
        parameters.push(format!(
            "{}: &{mutable}[{}]",
            parameter(argument),
            element(argument.dtype)
        ));
    }
    let _ = writeln!(
        text,
        "fn fit<T>(name: &str, numbers: &[T], needed: i64) -> Result<(), Error> {{\n    let found = numbers.len();\n    \
         if i64::try_from(found) != Ok(needed) {{\n        return Err(Error(format!(\"`{{name}}` has {{found}} elements, expected {{needed}}\")));\n    }}\n    \
         match memory::is_aligned(numbers) {{\n        true => Ok(()),\n        \
         false => Err(Error(format!(\"`{{name}}` begins at an address that is no multiple of 64 bytes; `Aligned` does\"))),\n    }}\n}}\n\n\
         /// Runs the kernel; buffers have the extents of the manifest.\npub fn run({}) -> Result<Choice, Error> {{\n    \
         let choice = choose(d, |_| true)?;\n    match choice.config {{",
        parameters.join(", ")
    );
    for config in &plan.configs {
        let _ = writeln!(text, "        {} => {{", config_number(&config.id));
        let mut passed = Vec::new();
        for (place, (argument, value)) in plan.arguments.iter().zip(&config.arguments).enumerate() {
            match &argument.kind {
                ArgumentKind::Scalar { .. } => {
                    let _ = writeln!(
                        text,
                        "            let mut a{place} = {};",
                        scalar(plan, argument, value)?
                    );
                    passed.push(format!("(&raw mut a{place}).cast()"));
                }
                ArgumentKind::Buffer { role, .. } => {
                    let count = elements_of(plan, value)?;
                    let given = parameter(argument);
                    match role {
                        Role::Scratch | Role::Zeroed => {
                            let kind = element(argument.dtype);
                            let _ = writeln!(
                                text,
                                "            let mut a{place} = Aligned::<{kind}>::zeros(narrow::<usize>({count})?);"
                            );
                            passed.push(format!("a{place}.as_mut_ptr().cast()"));
                        }
                        _ => {
                            let _ = writeln!(
                                text,
                                "            fit({:?}, {given}, {count})?;",
                                argument.name
                            );
                            passed.push(match role {
                                Role::Input => format!("{given}.as_ptr().cast_mut().cast()"),
                                _ => format!("{given}.as_mut_ptr().cast()"),
                            });
                        }
                    }
                }
                ArgumentKind::Tma { .. } => {}
            }
        }
        let _ = writeln!(
            text,
            "            let mut arguments: [*mut std::ffi::c_void; {}] = [{}];\n            \
             // SAFETY: one pointer per parameter, each to as much as the kernel reads and writes.\n            \
             unsafe {{ {name}_{}(arguments.as_mut_ptr()) }};\n        }}",
            passed.len(),
            passed.join(", "),
            config.id
        );
    }
    text.push_str("        _ => unreachable!(\"only configs that are here are chosen\"),\n    }\n    Ok(choice)\n}\n");
    Ok(text)
}

/// The beginning of the function that launches.
const LAUNCH: &str = "    /// Queues one launch.\n    ///\n    /// # Safety\n    /// Every address is of a buffer on this device that is as large as the manifest says for these dimensions and lives\n    \
         /// until the launch has run; buffers that start as zeros are zero. `stream` is one of this device, or null.\n    \
         pub unsafe fn launch(&mut self, d: &Dimensions, buffers: &Buffers, stream: *mut std::ffi::c_void) -> Result<Choice, Error> {\n        \
 @ALIGNED@        self.device.enter()?;\n        let choice = self.choose(d)?;\n        if self.functions[choice.config].is_none() {\n            \
         let (file, symbol) = self.image(choice.config).ok_or_else(|| Error(\"no image for this GPU\".into()))?;\n            \
         let loaded = driver::Function::load(&self.device, &self.folder.join(file), symbol)?;\n            self.functions[choice.config] = Some(loaded);\n        }\n        \
         let Some(function) = self.functions[choice.config].as_mut() else {\n            return Err(Error(\"an image that is gone\".into()));\n        };\n        \
         match choice.config {\n";

fn cuda_runner(plan: &Plan) -> Result<String, Failure> {
    let mut text = String::from(
        "/// An architecture, the cubin for it inside the package, and the kernel in that.\nfn images(config: usize) -> &'static [(&'static str, &'static str, &'static str)] {\n    match config {\n",
    );
    for config in &plan.configs {
        let all: Vec<String> = config
            .images
            .iter()
            .map(|i| format!("({:?}, {:?}, {:?})", i.architecture, i.file, i.symbol))
            .collect();
        let _ = writeln!(
            text,
            "        {} => &[{}],",
            config_number(&config.id),
            all.join(", ")
        );
    }
    let roles = [
        Role::Input,
        Role::InOut,
        Role::Output,
        Role::Scratch,
        Role::Zeroed,
    ];
    let fields: Vec<String> = plan
        .buffers(&roles)
        .map(|(_, a)| format!("    pub {}: u64,\n", parameter(a)))
        .collect();
    let _ = writeln!(
        text,
        "        _ => &[],\n    }}\n}}\n\n/// Addresses on the device, of contiguous buffers with the extents of the manifest.\n#[derive(Clone, Copy, Debug)]\npub struct Buffers {{\n{}}}\n\n\
         /// The kernel on one GPU. Cubins are loaded when they are first needed.\npub struct Kernel {{\n    folder: std::path::PathBuf,\n    pub device: driver::Device,\n    \
         functions: Vec<Option<driver::Function>>,\n}}\n\n\
         impl Kernel {{\n    /// `folder` is the package's.\n    pub fn new(folder: impl Into<std::path::PathBuf>, device: i32) -> Result<Kernel, Error> {{\n        \
         Ok(Kernel {{\n            folder: folder.into(),\n            device: driver::Device::new(device)?,\n            functions: (0..{}).map(|_| None).collect(),\n        }})\n    }}\n\n    \
         fn image(&self, config: usize) -> Option<(&'static str, &'static str)> {{\n        let mut all = images(config).iter();\n        \
         all.find(|(architecture, _, _)| self.device.fits(architecture)).map(|(_, file, symbol)| (*file, *symbol))\n    }}\n\n    \
         pub fn choose(&self, d: &Dimensions) -> Result<Choice, Error> {{\n        choose(d, |config| self.image(config).is_some())\n    }}\n",
        fields.concat(),
        plan.configs.len()
    );
    if plan.scratch().next().is_some() {
        let named: Vec<String> = plan
            .scratch()
            .map(|(_, a)| format!("`{}`", a.name))
            .collect();
        let _ = writeln!(
            text,
            "    /// Bytes of workspace to be given: {}.\n    pub fn scratch_bytes(&self, d: &Dimensions) -> Result<Vec<i64>, Error> {{\n        Ok(match self.choose(d)?.config {{",
            named.join(", ")
        );
        for config in &plan.configs {
            let sizes = plan
                .scratch()
                .map(|(place, a)| {
                    let count = elements_of(plan, &config.arguments[place])?;
                    Ok(format!("multiply({count}, {})?", a.dtype.size_bytes()))
                })
                .collect::<Result<Vec<_>, Failure>>()?;
            let _ = writeln!(
                text,
                "            {} => vec![{}],",
                config_number(&config.id),
                sizes.join(", ")
            );
        }
        text.push_str("            _ => Vec::new(),\n        })\n    }\n\n");
    }
    let aligned: String = plan
        .buffers(&roles)
        .map(|(_, a)| {
            format!(
                "        driver::aligned({:?}, buffers.{})?;\n",
                a.name,
                parameter(a)
            )
        })
        .collect();
    text.push_str(&LAUNCH.replace("@ALIGNED@", &aligned));
    for config in &plan.configs {
        let _ = writeln!(text, "            {} => {{", config_number(&config.id));
        for (place, (argument, value)) in plan.arguments.iter().zip(&config.arguments).enumerate() {
            let made = match value {
                ConfigArgument::Scalar(_) => scalar(plan, argument, value)?,
                ConfigArgument::Buffer(_) => format!("buffers.{}", parameter(argument)),
                ConfigArgument::Tma {
                    tensor,
                    tile,
                    swizzle,
                } => {
                    let ConfigArgument::Buffer(extents) = &config.arguments[*tensor] else {
                        continue;
                    };
                    let dtype = plan.arguments[*tensor].dtype;
                    format!(
                        "driver::tensor_map(&self.device, buffers.{}, {}, {}, &[{}], &[{}], {})?",
                        parameter(&plan.arguments[*tensor]),
                        tensor_map_type(dtype),
                        dtype.size_bytes(),
                        plan.ints(extents, CODE)?.join(", "),
                        plan.ints(tile, CODE)?.join(", "),
                        swizzle_number(*swizzle)
                    )
                }
            };
            let _ = writeln!(text, "                let mut a{place} = {made};");
        }
        let passed: Vec<String> = (0..plan.arguments.len())
            .map(|place| format!("(&raw mut a{place}).cast()"))
            .collect();
        let _ = writeln!(
            text,
            "                let mut parameters: [*mut std::ffi::c_void; {}] = [{}];\n                \
             // SAFETY: one pointer per parameter, in order; the rest is the caller's promise.\n                \
             unsafe {{ function.launch(&{}_geometry(d)?, stream, &mut parameters)? }};\n            }}",
            passed.len(),
            passed.join(", "),
            config.id
        );
    }
    text.push_str("            _ => unreachable!(\"only configs that are here are chosen\"),\n        }\n        Ok(choice)\n    }\n}\n");
    Ok(text)
}

/// Compiles the units as kiln did, and hides every name of theirs but one.
fn build_script(plan: &Plan) -> String {
    let name = &plan.identifier;
    let units: Vec<String> = plan
        .configs
        .iter()
        .map(|c| {
            format!(
                "(\"{}_{}\", {:?})",
                name,
                c.id,
                c_source::unit_name(plan, c)
            )
        })
        .collect();
    let flags: Vec<String> = c_source::compile_flags(plan)
        .iter()
        .map(|f| format!("{f:?}"))
        .collect();
    let link: Vec<String> = c_source::link_flags(plan)
        .iter()
        .filter_map(|f| match f.as_str() {
            "-pthread" => Some("pthread".to_string()),
            f if f.starts_with("-fopenmp") => Some("gomp".to_string()),
            f => f.strip_prefix("-l").map(str::to_string),
        })
        .map(|library| format!("{library:?}"))
        .collect();
    include_str!("templates/build.rs.txt")
        .replace("@NAME@", name)
        .replace("@UNITS@", &units.join(", "))
        .replace("@FLAGS@", &flags.join(", "))
        .replace("@LINK@", &link.join(", "))
}

fn example(plan: &Plan, crate_name: &str) -> Result<String, Failure> {
    let first = &plan.configs[0];
    let (mut made, mut passed, mut shown) = (String::new(), Vec::new(), String::new());
    let roles = [
        Role::Input,
        Role::InOut,
        Role::Output,
        Role::Scratch,
        Role::Zeroed,
    ];
    for (place, argument) in plan.buffers(&roles) {
        let ArgumentKind::Buffer { role, .. } = &argument.kind else {
            continue;
        };
        let is_scratch = matches!(role, Role::Scratch | Role::Zeroed);
        let is_input = matches!(role, Role::Input | Role::InOut);
        let size = argument.dtype.size_bytes();
        let count = match &first.arguments[place] {
            ConfigArgument::Buffer(extents) => {
                let first = &plan.dispatch[0];
                let values: Vec<(String, kiln_core::value::Value)> = first
                    .dimensions
                    .iter()
                    .map(|(n, v)| (n.clone(), kiln_core::value::Value::Int(*v)))
                    .collect();
                let counted: f64 = extents
                    .iter()
                    .filter_map(|e| e.with_values(&values).as_value()?.as_f64())
                    .product();
                counted as u64
            }
            _ => 0,
        };
        match plan.language {
            Language::C if is_scratch => continue,
            Language::C => {
                let kind = element(argument.dtype);
                let _ = writeln!(
                    made,
                    "    let {}b{place}: Aligned<{kind}> = from_bytes(&contents({count} * {size}, {}, {is_input}));",
                    if is_input && *role == Role::Input {
                        ""
                    } else {
                        "mut "
                    },
                    fill_number(argument.dtype),
                );
                passed.push(match role {
                    Role::Input => format!("&b{place}"),
                    _ => format!("&mut b{place}"),
                });
                if *role != Role::Input {
                    let _ = writeln!(
                        shown,
                        "    show({:?}, &to_bytes(&b{place}));",
                        argument.name
                    );
                }
                let _ = writeln!(
                    shown,
                    "    keep({:?}, &to_bytes(&b{place}))?;",
                    argument.name
                );
            }
            Language::Cuda => {
                let host = match is_scratch {
                    true => {
                        let number = plan
                            .scratch()
                            .position(|(p, _)| p == place)
                            .unwrap_or_default();
                        format!("vec![0; kernel.scratch_bytes(&d)?[{number}] as usize]")
                    }
                    false => format!(
                        "contents({count} * {size}, {}, {is_input})",
                        fill_number(argument.dtype)
                    ),
                };
                let _ = writeln!(
                    made,
                    "    let b{place} = driver::DeviceBuffer::from_bytes(&kernel.device, &{host})?;"
                );
                passed.push(format!("{}: b{place}.address", parameter(argument)));
                if *role == Role::Output || *role == Role::InOut {
                    let _ = writeln!(
                        shown,
                        "    show({:?}, &b{place}.to_bytes()?);",
                        argument.name
                    );
                }
                if !is_scratch {
                    let _ = writeln!(
                        shown,
                        "    keep({:?}, &b{place}.to_bytes()?)?;",
                        argument.name
                    );
                }
            }
        }
    }
    let (head, run) = match plan.language {
        Language::C => (
            String::new(),
            format!("    let choice = run(&d, {})?;\n", passed.join(", ")),
        ),
        Language::Cuda => (
            "    let mut kernel = Kernel::new(env!(\"CARGO_MANIFEST_DIR\"), 0)?;\n".to_string(),
            format!(
                "    let buffers = Buffers {{ {} }};\n    // SAFETY: buffers of the sizes of this very shape, alive until the end.\n    \
                 let choice = unsafe {{ kernel.launch(&d, &buffers, std::ptr::null_mut())? }};\n    kernel.device.synchronize()?;\n",
                passed.join(", ")
            ),
        ),
    };
    Ok(include_str!("templates/example.rs.txt")
        .replace("@CRATE@", crate_name)
        .replace(
            "@CONVERSIONS@",
            match plan.language {
                Language::C => include_str!("templates/example_conversions.rs.txt"),
                Language::Cuda => "",
            },
        )
        .replace("@HEAD@", &head)
        .replace("@BUFFERS@", &made)
        .replace("@RUN@", &run)
        .replace("@SHOW@", &shown))
}
