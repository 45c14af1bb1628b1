//! The example that comes with the crate.

use super::*;

pub fn example(plan: &Plan, crate_name: &str) -> Result<String, Failure> {
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
            format!(
                "    // SAFETY: the sizes and scalars it was checked with, and small numbers.\n    let choice = unsafe {{ run(&d, {}) }}?;\n",
                passed.join(", ")
            ),
        ),
        Language::Cuda => (
            "    let mut kernel = Kernel::new(0)?;\n".to_string(),
            format!(
                "    let buffers = Buffers {{ {} }};\n    // SAFETY: buffers of the sizes of this very shape, alive until the end.\n    \
                 let choice = unsafe {{ kernel.launch(&d, &buffers, std::ptr::null_mut())? }};\n    kernel.device.synchronize()?;\n",
                passed.join(", ")
            ),
        ),
    };
    Ok(include_str!("../templates/example.rs.txt")
        .replace("@CRATE@", crate_name)
        .replace(
            "@CONVERSIONS@",
            match plan.language {
                Language::C => include_str!("../templates/example_conversions.rs.txt"),
                Language::Cuda => "",
            },
        )
        .replace("@HEAD@", &head)
        .replace("@BUFFERS@", &made)
        .replace("@RUN@", &run)
        .replace("@SHOW@", &shown))
}
