//! A kernel in C as it was tuned: one unit per config, for the user's compiler.

use std::fmt::Write;

use kiln_core::manifest::ArgumentKind;

use super::files::Folder;
use super::header;
use super::plan::{ConfigPlan, Plan};
use crate::exit::Failure;

pub fn write(plan: &Plan, folder: &mut Folder) -> Result<(), Failure> {
    for config in &plan.configs {
        folder.text(&unit_name(plan, config), &unit(plan, config))?;
    }
    Ok(())
}

pub fn unit_name(plan: &Plan, config: &ConfigPlan) -> String {
    format!("{}_{}.c", plan.identifier, config.id)
}

/// What a linker knows a config by.
pub fn symbol(plan: &Plan, config: &ConfigPlan) -> String {
    format!("{}_{}_{}", plan.identifier, plan.tag, config.id)
}

/// The tunables, the source as it is, and a function that takes a pointer per argument.
fn unit(plan: &Plan, config: &ConfigPlan) -> String {
    let mut text = format!(
        "/* {}, config {}. Written by kiln.\n",
        plan.kernel, config.id
    );
    for entry in plan.dispatch.iter().filter(|e| e.config == config.id) {
        let _ = writeln!(text, " * {}", header::comment(entry));
    }
    text.push_str(" */\n");
    text.push_str(&header::defines(config));
    let arguments: Vec<String> = plan
        .arguments
        .iter()
        .enumerate()
        .map(
            |(place, argument)| match (&argument.kind, argument.dtype.c_type()) {
                (ArgumentKind::Scalar { .. }, Some(c)) => {
                    format!("*({c} *)kiln_arguments[{place}]")
                }
                (ArgumentKind::Buffer { .. }, Some(c)) => format!("({c} *)kiln_arguments[{place}]"),
                _ => format!("kiln_arguments[{place}]"),
            },
        )
        .collect();
    let _ = writeln!(
        text,
        "\n#include \"{}\"\n#include <stdint.h>\n\nvoid {}(void **kiln_arguments) {{\n    {}({});\n}}",
        plan.source,
        symbol(plan, config),
        plan.entry,
        arguments.join(", ")
    );
    text
}

/// Flags of the compiler: the manifest's, and where headers are.
pub fn compile_flags(plan: &Plan) -> Vec<String> {
    let manifest_dir = plan
        .manifest
        .rsplit_once('/')
        .map_or("source", |(dir, _)| dir);
    let mut flags: Vec<String> = plan
        .flags
        .iter()
        .filter(|flag| !is_for_linking(flag) && !is_whole_program(flag))
        .cloned()
        .collect();
    // Names are hidden object by object, which leaves nothing to be optimised while linking; also where the compiler has it on.
    flags.push("-fno-lto".into());
    flags.push("-fPIC".into());
    flags.push("-I.".into());
    flags.push(format!("-I{manifest_dir}"));
    flags.extend(plan.include_dirs.iter().map(|dir| format!("-I{dir}")));
    flags
}

/// Whether a flag puts compiling off until all is linked.
fn is_whole_program(flag: &str) -> bool {
    flag == "-flto" || flag.starts_with("-flto=")
}

/// What is not as it was when it was tuned, in words for the package.
pub fn notes(plan: &Plan) -> Vec<String> {
    let left_out = plan.flags.iter().filter(|flag| is_whole_program(flag));
    left_out
        .map(|flag| {
            format!(
                "`{flag}` is left out where the source is built: every config is an object of its own"
            )
        })
        .collect()
}

fn is_for_linking(flag: &str) -> bool {
    flag.starts_with("-l") || flag.starts_with("-L") || flag.starts_with("-Wl,")
}

/// Flags of the linker: what the kernel was linked with here.
pub fn link_flags(plan: &Plan) -> Vec<String> {
    let mut flags: Vec<String> = plan
        .flags
        .iter()
        .filter(|f| is_for_linking(f) || *f == "-pthread" || f.starts_with("-fopenmp"))
        .cloned()
        .collect();
    for usual in ["-pthread", "-lm"] {
        if !flags.iter().any(|f| f == usual) {
            flags.push(usual.into());
        }
    }
    flags
}

/// Shell commands that make a library of all configs. Each unit keeps one name for others; the rest of its names
/// become its own, for every config has the same.
pub fn commands(plan: &Plan) -> String {
    let name = &plan.identifier;
    let flags: Vec<String> = compile_flags(plan).iter().map(|f| quoted(f)).collect();
    let mut text = String::new();
    let mut objects = Vec::new();
    for config in &plan.configs {
        let object = format!("{name}_{}.o", config.id);
        let _ = writeln!(
            text,
            "\"${{CC:-cc}}\" {} -c -o {object} {}\n\"${{OBJCOPY:-objcopy}}\" --keep-global-symbol={} {object}",
            flags.join(" "),
            unit_name(plan, config),
            symbol(plan, config)
        );
        objects.push(object);
    }
    let _ = writeln!(
        text,
        "rm -f lib{name}.a\n\"${{AR:-ar}}\" rcs lib{name}.a {}",
        objects.join(" ")
    );
    text
}

/// A word as a shell takes it for one: nothing a manifest says is split or run.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:".contains(c);
    match word.chars().all(plain) && !word.is_empty() {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_or_run_them() {
        assert_eq!(quoted("-O3"), "-O3");
        assert_eq!(quoted("-DX=a b"), "'-DX=a b'");
        assert_eq!(quoted("$(x)'"), "'$(x)'\\'''");
        assert_eq!(quoted(""), "''");
    }
}
