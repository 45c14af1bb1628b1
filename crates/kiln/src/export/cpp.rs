//! A C++ header that chooses a config by the dimensions and launches it, and an example that uses it. Kernels in
//! C come as source with a wrapper for the user's compiler, CUDA kernels as cubins loaded through the driver.

use std::fmt::Write;

use kiln_core::dtype::DType;
use kiln_core::expression::Code;
use kiln_core::manifest::{Argument, ArgumentKind, Language, Role, Swizzle};
use kiln_core::value::Value;

use super::c_source;
use super::files::Folder;
use super::header;
use super::names;
use super::package::Package;
use super::plan::{ConfigArgument, ConfigPlan, Plan};
use crate::exit::Failure;

const CODE: Code = Code::Cpp;

pub fn write(plan: &Plan, package: &Package, folder: &mut Folder) -> Result<(), Failure> {
    let name = &plan.identifier;
    folder.text(
        "kiln_arithmetic.hpp",
        include_str!("templates/kiln_arithmetic.hpp"),
    )?;
    folder.text(&format!("{name}.hpp"), &header_text(plan, package)?)?;
    folder.text("example.cpp", &example(plan)?)?;
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
            let link = c_source::link_flags(plan).join(" ");
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
        "// {}, as kiln {} tuned it. Written by `kiln export --to cpp`; do not edit.\n//\n",
        plan.kernel, package.kiln_version
    );
    for entry in &plan.dispatch {
        let _ = writeln!(text, "// {}", header::comment(entry));
    }
    let runtime = match plan.language {
        Language::Cuda => "kiln_driver.hpp",
        Language::C => "kiln_memory.hpp",
    };
    let _ = writeln!(
        text,
        "#pragma once\n\n#include <cstdint>\n#include <cstdlib>\n#include <limits>\n#include <memory>\n#include <string>\n#include <vector>\n\n#include \"{runtime}\"\n"
    );
    if plan.language == Language::C {
        for config in &plan.configs {
            let _ = writeln!(
                text,
                "extern \"C\" void {name}_{}(void **arguments);",
                config.id
            );
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "namespace {name} {{\n\nusing namespace kiln_export;\n"
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
    text.push_str(&chooser(plan));
    match plan.language {
        Language::C => text.push_str(&c_runner(plan)?),
        Language::Cuda => text.push_str(&cuda_runner(plan)?),
    }
    let _ = writeln!(text, "\n}}  // namespace {name}");
    Ok(text)
}

/// The table of shapes that were tuned.
fn known(plan: &Plan) -> String {
    let mut text = String::from(
        "/// A shape that was tuned, and what is known about its config.\nstruct Known {\n    const char *shape;\n    Dimensions dimensions;\n    \
         int config;\n    bool confirmed;\n    double speedup;\n};\n\n",
    );
    let _ = writeln!(
        text,
        "constexpr int KNOWN_COUNT = {};\ninline const Known *known() {{\n    static const Known all[] = {{",
        plan.dispatch.len()
    );
    for entry in &plan.dispatch {
        let sizes: Vec<String> = plan
            .dimensions
            .iter()
            .map(|d| entry.dimensions.get(d).copied().unwrap_or(1).to_string())
            .collect();
        let _ = writeln!(
            text,
            "        {{\"{}\", {{{}}}, {}, {}, {}}},",
            entry.shape,
            sizes.join(", "),
            config_number(&entry.config),
            entry.confirmed,
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
    let conditions = config
        .legal
        .iter()
        .map(|(_, expr)| plan.truth(expr, CODE))
        .collect::<Result<Vec<_>, _>>()?;
    let all = match conditions.is_empty() {
        true => "true".to_string(),
        false => conditions.join(" && "),
    };
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

fn chooser(plan: &Plan) -> String {
    let mut text = String::from(
        "/// What runs on a problem, and why.\nstruct Choice {\n    int config;\n    /// The shape whose config it is.\n    const Known *from;\n    \
         /// That very shape was tuned; otherwise it is the nearest one whose config is legal here.\n    bool exact;\n};\n\n\
         inline bool legal(int config, const Dimensions &d) {\n    switch (config) {\n",
    );
    for config in &plan.configs {
        let _ = writeln!(
            text,
            "    case {}: return {}::legal(d);",
            config_number(&config.id),
            config.id
        );
    }
    text.push_str("    default: return false;\n    }\n}\n\n");
    let distances: Vec<String> = plan
        .dimensions
        .iter()
        .map(|d| {
            let field = names::safe(d);
            format!("distance(d.{field}, known()[i].dimensions.{field})")
        })
        .collect();
    let _ = writeln!(
        text,
        "/// The config for a problem: its own, else that of the nearest shape on which it is legal. An error where there is none.\n\
         template <class Usable> Choice choose(const Dimensions &d, Usable usable) {{\n    \
         Choice best = {{-1, nullptr, false}};\n    double least_distance = std::numeric_limits<double>::infinity();\n    \
         for (int i = 0; i < KNOWN_COUNT; i++) {{\n        double away = {};\n        \
         if (away < least_distance && usable(known()[i].config) && legal(known()[i].config, d)) {{\n            \
         best = {{known()[i].config, &known()[i], away == 0.0}};\n            least_distance = away;\n        }}\n    }}\n    \
         if (best.from == nullptr) throw Error(\"{}: no exported config is legal for these dimensions on this device\");\n    return best;\n}}\n\n\
         inline Choice choose(const Dimensions &d) {{\n    return choose(d, [](int) {{ return true; }});\n}}\n",
        distances.join(" + "),
        plan.kernel
    );
    text
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
        "d" | "choice" | "stream" | "arguments" | "known" | "legal" | "choose" | "self" => {
            format!("{name}_")
        }
        _ => name,
    }
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

/// The bytes of a buffer, as an expression.
fn bytes_of(plan: &Plan, argument: &Argument, value: &ConfigArgument) -> Result<String, Failure> {
    let ConfigArgument::Buffer(extents) = value else {
        return Ok("0".into());
    };
    let mut product = format!("INT64_C({})", argument.dtype.size_bytes());
    for extent in plan.ints(extents, CODE)? {
        product = format!("multiply({product}, {extent})");
    }
    Ok(product)
}

fn c_runner(plan: &Plan) -> Result<String, Failure> {
    let mut parameters = vec!["const Dimensions &d".to_string()];
    for (_, argument) in plan.buffers(&[Role::Input, Role::InOut, Role::Output]) {
        let constant = if argument.is_input() { "const " } else { "" };
        parameters.push(format!(
            "{constant}{} *{}",
            element(argument.dtype),
            parameter(argument)
        ));
    }
    let mut text = format!(
        "\n/// Runs the kernel; buffers are contiguous, in the order and with the extents of the manifest, and begin at a multiple of\n\
         /// 64 bytes.\ninline Choice run({}) {{\n{}    Choice choice = choose(d);\n    switch (choice.config) {{\n",
        parameters.join(", "),
        alignment_checks(plan, "    ")
    );
    for config in &plan.configs {
        let _ = writeln!(text, "    case {}: {{", config_number(&config.id));
        let mut passed = Vec::new();
        for (place, (argument, value)) in plan.arguments.iter().zip(&config.arguments).enumerate() {
            match &argument.kind {
                ArgumentKind::Scalar { .. } => {
                    let (kind, value) = scalar(plan, argument, value)?;
                    let _ = writeln!(text, "        {kind} a{place} = {value};");
                    passed.push(format!("&a{place}"));
                }
                ArgumentKind::Buffer { role, .. } => match role {
                    Role::Scratch | Role::Zeroed => {
                        let bytes = bytes_of(plan, argument, value)?;
                        let _ = writeln!(
                            text,
                            "        Aligned<unsigned char> a{place}(static_cast<size_t>({bytes}));"
                        );
                        passed.push(format!("a{place}.data()"));
                    }
                    Role::Input => passed.push(format!(
                        "const_cast<{} *>({})",
                        element(argument.dtype),
                        parameter(argument)
                    )),
                    Role::InOut | Role::Output => passed.push(parameter(argument)),
                },
                ArgumentKind::Tma { .. } => {}
            }
        }
        let _ = writeln!(
            text,
            "        void *arguments[] = {{{}}};\n        {}_{}(arguments);\n        break;\n    }}",
            passed.join(", "),
            plan.identifier,
            config.id
        );
    }
    text.push_str("    }\n    return choice;\n}\n");
    Ok(text)
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
        format!("{indent}aligned({name}, \"{}\");\n", a.name)
    };
    plan.buffers(given).map(line).collect()
}

fn cuda_runner(plan: &Plan) -> Result<String, Failure> {
    let mut parameters = vec![
        "const Dimensions &d".to_string(),
        "CUstream stream".to_string(),
    ];
    for (_, argument) in plan.buffers(&[
        Role::Input,
        Role::InOut,
        Role::Output,
        Role::Scratch,
        Role::Zeroed,
    ]) {
        let constant = if argument.is_input() { "const " } else { "" };
        parameters.push(format!("{constant}void *{}", parameter(argument)));
    }
    let mut text = String::from(
        "\nstruct Image {\n    const char *architecture, *file, *symbol;\n};\n\ninline std::vector<Image> images(int config) {\n    switch (config) {\n",
    );
    for config in &plan.configs {
        let all: Vec<String> = config
            .images
            .iter()
            .map(|i| {
                format!(
                    "{{\"{}\", \"{}\", \"{}\"}}",
                    i.architecture, i.file, i.symbol
                )
            })
            .collect();
        let _ = writeln!(
            text,
            "    case {}: return {{{}}};",
            config_number(&config.id),
            all.join(", ")
        );
    }
    let _ = writeln!(
        text,
        "    default: return {{}};\n    }}\n}}\n\n\
         /// The kernel on one GPU. Cubins are loaded when they are first needed; for one thread at a time.\nclass Kernel {{\n  public:\n    \
         /// `folder` is the package's.\n    explicit Kernel(std::string folder, int device = 0)\n        \
         : folder(std::move(folder)), device(device), functions({}) {{}}\n\n    \
         Choice choose(const Dimensions &d) const {{\n        return {}::choose(d, [this](int config) {{ return image(config) != nullptr; }});\n    }}\n",
        plan.configs.len(),
        plan.identifier
    );
    let named: Vec<String> = plan
        .scratch()
        .map(|(_, a)| format!("`{}`", a.name))
        .collect();
    if !named.is_empty() {
        let _ = writeln!(
            text,
            "    /// Bytes of workspace to be given: {}.",
            named.join(", ")
        );
        text.push_str("    std::vector<int64_t> scratch_bytes(const Dimensions &d) const {\n        switch (choose(d).config) {\n");
        for config in &plan.configs {
            let sizes = plan
                .scratch()
                .map(|(place, a)| bytes_of(plan, a, &config.arguments[place]))
                .collect::<Result<Vec<_>, _>>()?;
            let _ = writeln!(
                text,
                "        case {}: return {{{}}};",
                config_number(&config.id),
                sizes.join(", ")
            );
        }
        text.push_str("        default: return {};\n        }\n    }\n");
    }
    let zeroed: Vec<String> = plan
        .buffers(&[Role::Zeroed])
        .map(|(_, a)| format!("`{}`", a.name))
        .collect();
    let note = match zeroed.is_empty() {
        true => String::new(),
        false => format!(
            "    /// Before the first launch {} must be zero; each launch leaves it so.\n",
            zeroed.join(", ")
        ),
    };
    let _ = writeln!(
        text,
        "\n    /// Queues one launch; pointers are to contiguous buffers on the device, in the order and with the extents of the manifest.\n{note}    \
         Choice launch({}) {{\n{}        device.enter();\n        Choice choice = choose(d);\n        switch (choice.config) {{",
        parameters.join(", "),
        alignment_checks(plan, "        ")
    );
    for config in &plan.configs {
        text.push_str(&cuda_case(plan, config)?);
    }
    text.push_str(
        "        }\n        return choice;\n    }\n\n    const Device &gpu() const { return device; }\n\n  private:\n    \
         const Image *image(int config) const {\n        static thread_local Image found;\n        for (const Image &image : images(config))\n            \
         if (fits(image.architecture, device.major, device.minor)) {\n                found = image;\n                return &found;\n            }\n        return nullptr;\n    }\n\n    \
         Function &function(int config) {\n        std::unique_ptr<Function> &function = functions[size_t(config)];\n        if (!function) {\n            \
         const Image *own = image(config);\n            if (own == nullptr) throw Error(\"no image for this GPU\");\n            \
         function.reset(new Function(device, folder + \"/\" + own->file, own->symbol));\n        }\n        return *function;\n    }\n\n    \
         std::string folder;\n    Device device;\n    std::vector<std::unique_ptr<Function>> functions;\n};\n",
    );
    Ok(text)
}

fn cuda_case(plan: &Plan, config: &ConfigPlan) -> Result<String, Failure> {
    let mut text = format!("        case {}: {{\n", config_number(&config.id));
    let mut passed = Vec::new();
    for (place, (argument, value)) in plan.arguments.iter().zip(&config.arguments).enumerate() {
        match value {
            ConfigArgument::Scalar(_) => {
                let (kind, value) = scalar(plan, argument, value)?;
                let _ = writeln!(text, "            {kind} a{place} = {value};");
            }
            ConfigArgument::Buffer(_) => {
                let _ = writeln!(
                    text,
                    "            const void *a{place} = {};",
                    parameter(argument)
                );
            }
            ConfigArgument::Tma {
                tensor,
                tile,
                swizzle,
            } => {
                let ConfigArgument::Buffer(extents) = &config.arguments[*tensor] else {
                    continue;
                };
                let dtype = plan.arguments[*tensor].dtype;
                let _ = writeln!(
                    text,
                    "            CUtensorMap a{place} = tensor_map(device.driver, {}, {}, {}, {{{}}}, {{{}}}, {});",
                    parameter(&plan.arguments[*tensor]),
                    tensor_map_type(dtype),
                    dtype.size_bytes(),
                    plan.ints(extents, CODE)?.join(", "),
                    plan.ints(tile, CODE)?.join(", "),
                    swizzle_number(*swizzle)
                );
            }
        }
        passed.push(format!(
            "const_cast<void *>(static_cast<const void *>(&a{place}))"
        ));
    }
    let _ = writeln!(
        text,
        "            void *parameters[] = {{{}}};\n            function({}).launch({}::geometry(d), stream, parameters);\n            break;\n        }}",
        passed.join(", "),
        config_number(&config.id),
        config.id
    );
    Ok(text)
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

fn example(plan: &Plan) -> Result<String, Failure> {
    let template = match plan.language {
        Language::C => include_str!("templates/example_c.cpp"),
        Language::Cuda => include_str!("templates/example_cuda.cpp"),
    };
    let first = &plan.configs[0];
    let mut buffers = String::new();
    let mut passed = Vec::new();
    for (place, argument) in plan.buffers(&[Role::Input, Role::InOut, Role::Output]) {
        let _ = writeln!(
            buffers,
            "        Buffer b{place}(\"{}\", {}, {}, {});",
            argument.name,
            bytes_of(plan, argument, &first.arguments[place])?,
            fill_number(argument.dtype),
            !matches!(
                &argument.kind,
                ArgumentKind::Buffer {
                    role: Role::Output,
                    ..
                }
            ),
        );
        passed.push(match (plan.language, element(argument.dtype)) {
            (Language::C, "void") => format!("b{place}.data()"),
            (Language::C, kind) => format!("static_cast<{kind} *>(b{place}.data())"),
            (Language::Cuda, _) => format!("b{place}.data()"),
        });
    }
    let mut scratch = String::new();
    if plan.language == Language::Cuda {
        for (number, (place, argument)) in plan.scratch().enumerate() {
            let _ = writeln!(
                scratch,
                "        Buffer b{place}(\"{}\", kernel.scratch_bytes(d)[{number}], 0, false);",
                argument.name
            );
        }
        // In the order of the arguments, whatever their role.
        passed = plan
            .buffers(&[
                Role::Input,
                Role::InOut,
                Role::Output,
                Role::Scratch,
                Role::Zeroed,
            ])
            .map(|(place, _)| format!("b{place}.data()"))
            .collect();
    }
    let shown: Vec<String> = plan
        .buffers(&[Role::InOut, Role::Output])
        .map(|(place, _)| format!("b{place}.show();"))
        .collect();
    let kept: Vec<String> = plan
        .buffers(&[Role::Input, Role::InOut, Role::Output])
        .map(|(place, _)| format!("b{place}.keep(folder);"))
        .collect();
    Ok(template
        .replace("@NAME@", &plan.identifier)
        .replace("@BUFFERS@", buffers.trim_end())
        .replace("@SCRATCH@", scratch.trim_end())
        .replace("@PASSED@", &passed.join(", "))
        .replace("@SHOW@", &shown.join(" "))
        .replace("@KEEP@", &kept.join(" ")))
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
