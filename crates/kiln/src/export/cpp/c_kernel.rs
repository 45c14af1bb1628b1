//! The part of the header that runs a kernel in C.

use super::*;

pub fn c_runner(plan: &Plan) -> Result<String, Failure> {
    let mut parameters = vec!["const Dimensions &d".to_string()];
    for (_, argument) in plan.buffers(&[Role::Input, Role::InOut, Role::Output]) {
        let constant = if argument.is_input() { "const " } else { "" };
        parameters.push(format!(
            "View<{constant}{}> {}",
            element(argument.dtype),
            parameter(argument)
        ));
    }
    parameters.extend(scalar_parameters(plan)?);
    let mut text = format!(
        "\n/// Runs the kernel; buffers are contiguous, in the order and with the extents of the manifest, and begin at a multiple of\n\
         /// 64 bytes. One given as a container (`std::vector`, `std::span`, `kiln_export::Aligned`) has its size checked; a plain pointer\n\
         /// has none, and is taken to be large enough.\n{}inline Choice run({}) {{\n{}    Choice choice = choose(d);\n    switch (choice.config) {{\n",
        scalar_comment(plan, ""),
        parameters.join(", "),
        alignment_checks(plan, "    ")
    );
    for config in &plan.configs {
        let _ = writeln!(text, "    case {}: {{", config_number(&config.id));
        let mut passed = Vec::new();
        for (place, (argument, value)) in plan.arguments.iter().zip(&config.arguments).enumerate() {
            match &argument.kind {
                ArgumentKind::Scalar { .. } => {
                    let (kind, value) = passed_scalar(plan, place, argument, value)?;
                    let _ = writeln!(text, "        {kind} kiln_a{place} = {value};");
                    passed.push(format!("&kiln_a{place}"));
                }
                ArgumentKind::Buffer { role, .. } => match role {
                    Role::Scratch | Role::Zeroed => {
                        let bytes = bytes_of(plan, argument, value)?;
                        let _ = writeln!(
                            text,
                            "        Aligned<unsigned char> kiln_a{place}(static_cast<size_t>({bytes}));"
                        );
                        passed.push(format!("kiln_a{place}.data()"));
                    }
                    Role::Input | Role::InOut | Role::Output => {
                        let bytes = bytes_of(plan, argument, value)?;
                        let given = parameter(argument);
                        let _ =
                            writeln!(text, "        {given}.fit({bytes}, \"{}\");", argument.name);
                        passed.push(match role {
                            Role::Input => {
                                format!("const_cast<{} *>({given}.data)", element(argument.dtype))
                            }
                            _ => format!("{given}.data"),
                        });
                    }
                },
                ArgumentKind::Tma { .. } => {}
            }
        }
        let _ = writeln!(
            text,
            "        void *arguments[] = {{{}}};\n        {}(arguments);\n        break;\n    }}",
            passed.join(", "),
            c_source::symbol(plan, config)
        );
    }
    text.push_str("    }\n    return choice;\n}\n");
    Ok(text)
}
