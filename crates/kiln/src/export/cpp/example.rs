//! The example that comes with the header.

use super::*;

pub fn example(plan: &Plan) -> Result<String, Failure> {
    let template = match plan.language {
        Language::C => include_str!("../templates/example_c.cpp"),
        Language::Cuda => include_str!("../templates/example_cuda.cpp"),
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
