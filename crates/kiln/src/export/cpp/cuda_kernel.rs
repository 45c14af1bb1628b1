//! The part of the header that launches a CUDA kernel.

use super::*;

pub fn cuda_runner(plan: &Plan) -> Result<String, Failure> {
    let mut parameters = vec![
        "const Dimensions &d".to_string(),
        "Stream stream".to_string(),
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
    parameters.extend(scalar_parameters(plan)?);
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
        namespace(plan)
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
    let scalars = scalar_comment(plan, "    ");
    let _ = writeln!(
        text,
        "\n    /// Queues one launch; pointers are to contiguous buffers on the device, in the order and with the extents of the manifest.\n{note}{scalars}    \
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
                let (kind, value) = passed_scalar(plan, place, argument, value)?;
                let _ = writeln!(text, "            {kind} kiln_a{place} = {value};");
            }
            ConfigArgument::Buffer(_) => {
                let _ = writeln!(
                    text,
                    "            static_cast<void>({});\n            const void *kiln_a{place} = {};",
                    bytes_of(plan, argument, value)?,
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
                    "            TensorMap kiln_a{place} = tensor_map(device.driver, {}, {}, {}, {{{}}}, {{{}}}, {});",
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
            "const_cast<void *>(static_cast<const void *>(&kiln_a{place}))"
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
