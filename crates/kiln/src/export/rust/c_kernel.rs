//! The part of the crate that runs a kernel in C, and its build script.

use super::*;

/// What both functions that run it are documented with. A function in C is trusted with its buffers: no check outside of it can tell
/// how far a stride, an index or a bin leads.
const SAFETY: &str = "///\n/// Dimensions, their relations, constraints, and the length and the beginning of every buffer are checked; what is wrong is an error.\n\
    ///\n/// # Safety\n/// The kernel is a function in C, and must stay inside its buffers for these dimensions, these scalars and these contents. That was\n\
    /// checked on the shapes in `KNOWN` with the default scalars and with contents as the manifest draws them: a stride, an index, or a number\n\
    /// that a place follows from, has to be one that the kernel can take.\n";

pub fn c_runner(plan: &Plan) -> Result<String, Failure> {
    let mut text = String::from("unsafe extern \"C\" {\n");
    for config in &plan.configs {
        let _ = writeln!(
            text,
            "    fn {}(arguments: *mut *mut std::ffi::c_void);",
            c_source::symbol(plan, config)
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
         /// Runs the kernel; buffers have the extents of the manifest.\n{SAFETY}pub unsafe fn run({}) -> Result<Choice, Error> {{",
        parameters.join(", ")
    );
    if !plan.settable.is_empty() {
        let given = plan.buffers(&[Role::Input, Role::InOut, Role::Output]);
        let given: Vec<String> = given.map(|(_, a)| parameter(a)).collect();
        parameters.insert(1, "scalars: &Scalars".into());
        let _ = writeln!(
            text,
            "    // SAFETY: the caller's promise.\n    unsafe {{ run_with(d, &Scalars::default(), {}) }}\n}}\n\n\
             /// The same with other scalars.\n{SAFETY}pub unsafe fn run_with({}) -> Result<Choice, Error> {{",
            given.join(", "),
            parameters.join(", ")
        );
    }
    text.push_str("    let choice = choose(d, |_| true)?;\n    match choice.config {\n");
    for config in &plan.configs {
        let _ = writeln!(text, "        {} => {{", config_number(&config.id));
        let mut passed = Vec::new();
        for (place, (argument, value)) in plan.arguments.iter().zip(&config.arguments).enumerate() {
            match &argument.kind {
                ArgumentKind::Scalar { .. } => {
                    let _ = writeln!(
                        text,
                        "            let mut kiln_a{place} = {};",
                        passed_scalar(plan, place, argument, value)?
                    );
                    passed.push(format!("(&raw mut kiln_a{place}).cast()"));
                }
                ArgumentKind::Buffer { role, .. } => {
                    let count = elements_of(plan, argument, value)?;
                    let given = parameter(argument);
                    match role {
                        Role::Scratch | Role::Zeroed => {
                            let kind = element(argument.dtype);
                            let _ = writeln!(
                                text,
                                "            let mut kiln_a{place} = Aligned::<{kind}>::zeros(narrow::<usize>({count})?);"
                            );
                            passed.push(format!("kiln_a{place}.as_mut_ptr().cast()"));
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
             // SAFETY: one pointer per parameter, in order, to buffers of these dimensions; the rest is the caller's promise.\n            \
             unsafe {{ {}(arguments.as_mut_ptr()) }};\n        }}",
            passed.len(),
            passed.join(", "),
            c_source::symbol(plan, config)
        );
    }
    text.push_str("        _ => unreachable!(\"only configs that are here are chosen\"),\n    }\n    Ok(choice)\n}\n");
    Ok(text)
}

/// Compiles the units as kiln did, and hides every name of theirs but one.
pub fn build_script(plan: &Plan) -> String {
    let name = &plan.identifier;
    let units: Vec<String> = plan
        .configs
        .iter()
        .map(|c| {
            format!(
                "({:?}, {:?})",
                c_source::symbol(plan, c),
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
    include_str!("../templates/build.rs.txt")
        .replace("@NAME@", name)
        .replace("@UNITS@", &units.join(", "))
        .replace("@LINK@", &link.join(", "))
        // Last: a flag may hold any text, and what is in it must not be replaced.
        .replace("@FLAGS@", &flags.join(", "))
}
