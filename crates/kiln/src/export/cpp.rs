//! A C++ header that chooses a config by the dimensions and launches it, and an example that uses it. Kernels in
//! C come as source with a wrapper for the user's compiler, CUDA kernels as cubins loaded through the driver.

mod c_kernel;
mod cuda_kernel;
mod example;

use std::fmt::Write;

use kiln_core::dtype::DType;
use kiln_core::expression::Code;
use kiln_core::manifest::{Argument, ArgumentKind, Language, Role, Swizzle};
use kiln_core::value::Value;

use super::c_source;
use super::choosing;
use super::files::Folder;
use super::header;
use super::names;
use super::package::Package;
use super::plan::{ConfigArgument, ConfigPlan, Plan, Settable};
use super::standing::Standing;
use crate::exit::Failure;

const CODE: Code = Code::Cpp;

pub fn write(plan: &Plan, package: &Package, folder: &mut Folder) -> Result<(), Failure> {
    let name = &plan.identifier;
    folder.text(
        "kiln_arithmetic.hpp",
        include_str!("templates/kiln_arithmetic.hpp"),
    )?;
    folder.text(&format!("{name}.hpp"), &header_text(plan, package)?)?;
    folder.text("example.cpp", &example::example(plan)?)?;
    let memory = match plan.language {
        Language::C => include_str!("templates/example_memory_c.hpp"),
        Language::Cuda => include_str!("templates/example_memory_cuda.hpp"),
    };
    let contents = include_str!("templates/example_contents.hpp");
    folder.text("example_buffer.hpp", &format!("{contents}{memory}"))?;
    match plan.language {
        Language::Cuda => {
            folder.text("kiln_driver.hpp", include_str!("templates/kiln_driver.hpp"))?;
            folder.text(
                "build.sh",
                "#!/bin/sh\n# The example, without CUDA's own headers or libraries.\nset -eu\n\
                 cd \"$(dirname \"$0\")\"\n\
                 \"${CXX:-g++}\" -std=c++17 -O2 -o example example.cpp -ldl\n",
            )
        }
        Language::C => {
            c_source::write(plan, folder)?;
            folder.text("kiln_memory.hpp", include_str!("templates/kiln_memory.hpp"))?;
            let link = c_source::link_flags(plan);
            let link: Vec<String> = link.iter().map(|flag| c_source::quoted(flag)).collect();
            let link = link.join(" ");
            folder.text(
                "build.sh",
                &format!(
                    "#!/bin/sh\n# lib{name}.a from the tuned source, and the example.\nset -eu\ncd \"$(dirname \"$0\")\"\n{}\
                     \"${{CXX:-g++}}\" -std=c++17 -O2 -o example example.cpp lib{name}.a {link}\n",
                    c_source::commands(plan)
                ),
            )
        }
    }
}

fn header_text(plan: &Plan, package: &Package) -> Result<String, Failure> {
    let name = &plan.identifier;
    let mut text = format!(
        "// {}, as kiln {} tuned it. Written by `kiln export --to cpp`; do not edit.\n//\n// {}\n",
        plan.kernel,
        package.kiln_version,
        Standing::of_all(&plan.dispatch).sentence()
    );
    for entry in &plan.dispatch {
        let _ = writeln!(text, "// {}", header::comment(entry));
    }
    for sentence in plan.frozen() {
        let _ = writeln!(text, "// {sentence}.");
    }
    let runtime = match plan.language {
        Language::Cuda => "kiln_driver.hpp",
        Language::C => "kiln_memory.hpp",
    };
    let guard = format!("KILN_{name}_{}_HPP", plan.tag).to_uppercase();
    let _ = writeln!(
        text,
        "#ifndef {guard}\n#define {guard}\n\n#include <cstdint>\n#include <cstdlib>\n#include <limits>\n#include <memory>\n#include <string>\n#include <vector>\n\n#include \"{runtime}\"\n"
    );
    if plan.language == Language::C {
        for config in &plan.configs {
            let _ = writeln!(
                text,
                "extern \"C\" void {}(void **arguments);",
                c_source::symbol(plan, config)
            );
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "namespace {name} {{\n// Another package of this kernel in the same program has another name here; with both in one file say which is meant,\n\
         // as in `namespace mine = {name}::{};`.\ninline namespace {} {{\n\nusing namespace kiln_export;\n",
        namespace(plan),
        namespace(plan)
    );
    let fields: Vec<String> = plan.dimensions.iter().map(|d| names::safe(d)).collect();
    let _ = writeln!(
        text,
        "/// The size of a problem.\nstruct Dimensions {{\n    int64_t {};\n}};\n",
        fields.join(", ")
    );
    text.push_str(&known(plan));
    for config in &plan.configs {
        text.push_str(&config_text(plan, config)?);
    }
    text.push_str(&chooser(plan)?);
    match plan.language {
        Language::C => text.push_str(&c_kernel::c_runner(plan)?),
        Language::Cuda => text.push_str(&cuda_kernel::cuda_runner(plan)?),
    }
    let _ = writeln!(
        text,
        "\n}}  // namespace {}\n}}  // namespace {name}",
        namespace(plan)
    );
    let _ = writeln!(text, "\n#endif  // {guard}");
    Ok(text)
}

/// Of this package alone.
fn namespace(plan: &Plan) -> String {
    format!("kiln_{}", plan.tag)
}

/// The table of shapes that were tuned.
fn known(plan: &Plan) -> String {
    let mut text = String::from(
        "/// A shape that was tuned, and what is known about its config.\nstruct Known {\n    const char *shape;\n    Dimensions dimensions;\n    \
         int config;\n    const char *standing;\n    double speedup;\n};\n\n",
    );
    let _ = writeln!(
        text,
        "constexpr int KNOWN_COUNT = {};\ninline const Known *known() {{\n    static const Known all[] = {{",
        plan.dispatch.len()
    );
    for entry in &plan.dispatch {
        let sizes = choosing::sizes(plan, entry);
        let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
        let _ = writeln!(
            text,
            "        {{\"{}\", {{{}}}, {}, \"{}\", {}}},",
            entry.shape,
            sizes.join(", "),
            config_number(&entry.config),
            Standing::of(entry).name(),
            entry
                .evidence
                .speedup
                .map_or("0.0".into(), |s| format!("{s:?}")),
        );
    }
    text.push_str("    };\n    return all;\n}\n\n");
    text
}

/// Ids are `c` and a number.
pub fn config_number(id: &str) -> &str {
    id.trim_start_matches('c')
}

fn config_text(plan: &Plan, config: &ConfigPlan) -> Result<String, Failure> {
    let mut text = format!("namespace {} {{\n", config.id);
    let all = choosing::condition(plan, config, CODE)?;
    let _ = writeln!(
        text,
        "inline bool legal(const Dimensions &d) {{\n    (void)d;\n    return {all};\n}}"
    );
    if let Some(launch) = &config.launch {
        text.push_str(
            "inline Launch geometry(const Dimensions &d) {\n    (void)d;\n    Launch launch;\n",
        );
        for (field, what, exprs) in [
            ("grid", "a grid", &launch.grid),
            ("block", "a block", &launch.block),
            ("cluster", "a cluster", &launch.cluster),
        ] {
            if field == "cluster" && !exprs.is_empty() {
                text.push_str(
                    "    launch.cluster[0] = launch.cluster[1] = launch.cluster[2] = 1;\n",
                );
            }
            for (axis, expr) in plan.ints(exprs, CODE)?.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "    launch.{field}[{axis}] = extent({expr}, \"{what}\");"
                );
            }
        }
        let _ = writeln!(
            text,
            "    launch.shared = narrow<uint32_t>({});\n    launch.cooperative = {};\n    return launch;\n}}",
            plan.int(&launch.shared, CODE)?,
            launch.cooperative
        );
    }
    let _ = writeln!(text, "}}  // namespace {}\n", config.id);
    Ok(text)
}

fn chooser(plan: &Plan) -> Result<String, Failure> {
    let mut text = String::from(
        "/// What runs on a problem, and why.\nstruct Choice {\n    int config;\n    /// The shape whose config it is.\n    const Known *from;\n    \
         /// That very shape was tuned; otherwise it is the nearest one whose config is legal here.\n    bool exact;\n};\n\n\
         /// Whether a config may run on a problem. Where a constraint or the launch cannot be worked out, it may not.\n\
         inline bool legal(int config, const Dimensions &d) {\n    try {\n        switch (config) {\n",
    );
    for config in &plan.configs {
        let launched = match config.launch {
            Some(_) => format!(" && (static_cast<void>({}::geometry(d)), true)", config.id),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "        case {}: return {}::legal(d){launched};",
            config_number(&config.id),
            config.id
        );
    }
    text.push_str(
        "        default: return false;\n        }\n    } catch (const Error &) {\n        return false;\n    }\n}\n\n",
    );
    let checks = choosing::checks(plan, CODE)?;
    let _ = writeln!(
        text,
        "/// The config for a problem: its own, else that of the nearest shape on which it is legal. An error where there is none.\n\
         template <class Usable> Choice choose(const Dimensions &d, Usable usable) {{\n{checks}    \
         Choice best = {{-1, nullptr, false}};\n    double least_distance = std::numeric_limits<double>::infinity();\n    \
         for (int i = 0; i < KNOWN_COUNT; i++) {{\n        double away = {};\n        \
         if (away < least_distance && usable(known()[i].config) && legal(known()[i].config, d)) {{\n            \
         best = {{known()[i].config, &known()[i], away == 0.0}};\n            least_distance = away;\n        }}\n    }}\n    \
         if (best.from == nullptr) throw Error(\"{}: no exported config is legal for these dimensions on this device\");\n    return best;\n}}\n\n\
         inline Choice choose(const Dimensions &d) {{\n    return choose(d, [](int) {{ return true; }});\n}}\n",
        choosing::distance(plan, "known()[i]"),
        plan.kernel
    );
    Ok(text)
}

/// The C++ type that stands for an element.
fn element(dtype: DType) -> &'static str {
    match dtype {
        // Only their bits are passed on.
        DType::F16 | DType::Bf16 => "void",
        other => other.c_type().unwrap_or("void"),
    }
}

pub fn parameter(argument: &Argument) -> String {
    let name = names::safe(&argument.name);
    match name.as_str() {
        "d" | "choice" | "stream" | "arguments" | "known" | "legal" | "choose" | "self"
        | "scalars" | "buffers" | "device" | "function" | "functions" | "folder" | "parameters" => {
            format!("{name}_")
        }
        // Generated code counts its variables so.
        other if is_counted(other) => format!("{name}_"),
        _ => name,
    }
}

fn is_counted(name: &str) -> bool {
    let digits = name.strip_prefix('a').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Scalars that a call may set, as the last parameters of a function.
fn scalar_parameters(plan: &Plan) -> Result<Vec<String>, Failure> {
    let arguments = &plan.configs[0].arguments;
    plan.scalars()
        .map(|(settable, argument)| {
            let (kind, default) = scalar(plan, argument, &arguments[settable.place])?;
            Ok(format!("{kind} {} = {default}", parameter(argument)))
        })
        .collect()
}

/// The lines that say which they are, for a comment above the function.
fn scalar_comment(plan: &Plan, indent: &str) -> String {
    let line = |(s, a): (&Settable, &Argument)| {
        let (name, default) = (parameter(a), &s.default);
        format!("{indent}/// `{name}` was checked and timed as {default} only.\n")
    };
    plan.scalars().map(line).collect()
}

/// A scalar in a call: what the caller says, or what follows from the dimensions.
fn passed_scalar(
    plan: &Plan,
    place: usize,
    argument: &Argument,
    value: &ConfigArgument,
) -> Result<(String, String), Failure> {
    let (kind, text) = scalar(plan, argument, value)?;
    Ok(match plan.is_settable(place) {
        true => (kind, parameter(argument)),
        false => (kind, text),
    })
}

/// A scalar with its value: its type and how it is written.
fn scalar(
    plan: &Plan,
    argument: &Argument,
    value: &ConfigArgument,
) -> Result<(String, String), Failure> {
    let ConfigArgument::Scalar(expr) = value else {
        return Ok((String::new(), String::new()));
    };
    let text = plan.scalar(argument.dtype, expr, CODE)?;
    Ok(match argument.dtype {
        DType::F32 => ("float".into(), format!("float({text})")),
        DType::F64 => ("double".into(), text),
        half @ (DType::F16 | DType::Bf16) => (
            "uint16_t".into(),
            format!(
                "0x{:04x}",
                half_bits(plan, argument, half, expr.as_value())?
            ),
        ),
        whole => {
            let c = whole.c_type().unwrap_or("int64_t");
            (c.into(), format!("narrow<{c}>({text})"))
        }
    })
}

/// The bits of a constant of a type that neither C++ nor Rust has.
pub fn half_bits(
    plan: &Plan,
    argument: &Argument,
    dtype: DType,
    value: Option<&Value>,
) -> Result<u16, Failure> {
    let number = value.and_then(Value::as_f64).ok_or_else(|| {
        Failure::usage(format!(
            "`{}` cannot be exported to this target: scalar `{}` is a {dtype} that depends on the shape",
            plan.kernel, argument.name
        ))
        .hint("pass it as f32 and convert in the kernel, or export to torch")
    })?;
    let mut bytes = Vec::new();
    dtype.push_f64(number, &mut bytes);
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// The function of the package that refuses extents no kernel was checked with.
pub fn axis_check(argument: &Argument) -> &'static str {
    match &argument.kind {
        ArgumentKind::Buffer {
            role: Role::Scratch | Role::Zeroed,
            ..
        } => "workspace_axis",
        _ => "buffer_axis",
    }
}

/// The bytes of a buffer, as an expression.
fn bytes_of(plan: &Plan, argument: &Argument, value: &ConfigArgument) -> Result<String, Failure> {
    let ConfigArgument::Buffer(extents) = value else {
        return Ok("0".into());
    };
    let axis = axis_check(argument);
    let mut product = format!("INT64_C({})", argument.dtype.size_bytes());
    for extent in plan.ints(extents, CODE)? {
        product = format!(
            "multiply({product}, {axis}({extent}, \"{}\"))",
            argument.name
        );
    }
    Ok(product)
}

/// Lines that refuse buffers which begin elsewhere than kiln's own did.
fn alignment_checks(plan: &Plan, indent: &str) -> String {
    let roles = [
        Role::Input,
        Role::InOut,
        Role::Output,
        Role::Scratch,
        Role::Zeroed,
    ];
    let given = match plan.language {
        Language::Cuda => &roles[..],
        Language::C => &roles[..3],
    };
    let line = |(_, a): (usize, &Argument)| {
        let name = parameter(a);
        let address = match plan.language {
            Language::Cuda => name,
            Language::C => format!("{name}.data"),
        };
        format!("{indent}aligned({address}, \"{}\");\n", a.name)
    };
    plan.buffers(given).map(line).collect()
}

/// As the driver numbers element types of descriptors.
pub fn tensor_map_type(dtype: DType) -> u32 {
    match dtype {
        DType::I8 | DType::U8 => 0,
        DType::I16 | DType::U16 => 1,
        DType::U32 => 2,
        DType::I32 => 3,
        DType::U64 => 4,
        DType::I64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
    }
}

pub fn swizzle_number(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes128 => 3,
    }
}

/// Which of the example's patterns an element type is filled with.
pub fn fill_number(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 1,
        DType::Bf16 => 2,
        DType::F32 => 3,
        DType::F64 => 4,
        DType::I8 | DType::U8 => 5,
        DType::I16 | DType::U16 => 6,
        DType::I32 | DType::U32 => 7,
        DType::I64 | DType::U64 => 8,
    }
}

trait IsInput {
    fn is_input(&self) -> bool;
}

impl IsInput for Argument {
    fn is_input(&self) -> bool {
        matches!(
            &self.kind,
            ArgumentKind::Buffer {
                role: Role::Input,
                ..
            }
        )
    }
}
