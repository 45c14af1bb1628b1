//! A first manifest written from a source file: what can be seen is filled in, what only the author
//! knows is marked.

use std::fmt::Write as _;

use thiserror::Error;

use super::Manifest;
use source::{Function, Guard, Parameter, Passing};

mod source;

#[derive(Debug, Error, PartialEq)]
pub enum InitError {
    #[error("cannot tell the language of `{0}`: expected a name that ends in `.c` or `.cu`")]
    UnknownLanguage(String),
    #[error("`{0}` defines no function that can be called from outside")]
    NoFunction(String),
    #[error("`{0}` defines no `__global__` function")]
    NoKernel(String),
    #[error(
        "`{0}` has no parameter that is a pointer to something it may write, so no result could be checked"
    )]
    NoOutput(String),
    /// Something about the file, its name most likely, cannot be written in a manifest.
    #[error("no manifest can be written for `{file_name}`: {reason}")]
    NotExpressible { file_name: String, reason: String },
}

/// A manifest for a C or CUDA source that parses as it is; comments say what to fill in.
/// `file_name` is the source's path relative to the manifest.
pub fn first_manifest(file_name: &str, source: &str) -> Result<String, InitError> {
    let is_cuda = file_name.ends_with(".cu");
    if !is_cuda && !file_name.ends_with(".c") {
        return Err(InitError::UnknownLanguage(file_name.to_string()));
    }
    let plain = source::without_comments(source);
    let entry = entry(file_name, is_cuda, source::functions(&plain))?;
    let writes = |p: &Parameter| p.passing == Passing::Pointer;
    if !entry.parameters.iter().any(writes) {
        return Err(InitError::NoOutput(entry.name));
    }
    let tunables: Vec<Tunable> = source::guards(&plain).iter().map(Tunable::from).collect();
    let text = write(file_name, is_cuda, &entry, &tunables);
    match Manifest::parse(&text) {
        Ok(_) => Ok(text),
        Err(problems) => Err(InitError::NotExpressible {
            file_name: file_name.to_string(),
            reason: problems
                .into_iter()
                .next()
                .map_or(String::new(), |p| p.message),
        }),
    }
}

/// The function named like the file, or the last one.
fn entry(file_name: &str, is_cuda: bool, found: Vec<Function>) -> Result<Function, InitError> {
    let stem = file_name.rsplit('/').next().unwrap_or(file_name);
    let stem = stem.split('.').next().unwrap_or(stem);
    let mut candidates: Vec<Function> = found
        .into_iter()
        .filter(|f| match is_cuda {
            true => f.is_global,
            false => !f.is_local && f.name != "main",
        })
        .collect();
    let chosen = candidates
        .iter()
        .position(|f| f.name == stem)
        .or(candidates.len().checked_sub(1));
    match chosen {
        Some(position) => Ok(candidates.swap_remove(position)),
        None if is_cuda => Err(InitError::NoKernel(file_name.to_string())),
        None => Err(InitError::NoFunction(file_name.to_string())),
    }
}

/// A tunable as TOML.
struct Tunable {
    name: String,
    candidates: Vec<String>,
    default: String,
    is_integer: bool,
}

impl From<&Guard> for Tunable {
    fn from(guard: &Guard) -> Tunable {
        let mut value = guard.value.trim();
        while let Some(inner) = value.strip_prefix('(').and_then(|v| v.strip_suffix(')')) {
            value = inner.trim();
        }
        let integer = parse_integer(value);
        let candidates: Vec<String> = match (integer, value) {
            (None, "true" | "false") => vec!["false".into(), "true".into()],
            (None, _) => vec![literal(value, &guard.value)],
            (Some(0), _) => vec!["0".into(), "1".into()],
            (Some(1), _) if guard.is_tested => vec!["0".into(), "1".into()],
            (Some(1), _) => vec!["1".into(), "2".into(), "4".into()],
            (Some(n), _) if n > 0 && n < 1 << 40 && n & (n - 1) == 0 => {
                [n / 2, n, n * 2].map(|n| n.to_string()).to_vec()
            }
            (Some(n), _) => vec![n.to_string()],
        };
        Tunable {
            name: guard.name.clone(),
            default: match integer {
                Some(n) => n.to_string(),
                None => literal(value, &guard.value),
            },
            candidates,
            is_integer: integer.is_some(),
        }
    }
}

fn parse_integer(value: &str) -> Option<i64> {
    let digits = value.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// A C value as TOML: booleans and numbers as they are, everything else as the text it was, with
/// the parentheses that keep it together.
fn literal(value: &str, as_written: &str) -> String {
    let number = value.trim_end_matches(['f', 'F']);
    let is_numeric = number.starts_with(|c: char| c.is_ascii_digit() || "-.".contains(c));
    match number.parse::<f64>() {
        Ok(x) if x.is_finite() && is_numeric => format!("{x:?}"),
        _ if value == "true" || value == "false" => value.to_string(),
        _ => quoted(as_written.trim()),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn write(file_name: &str, is_cuda: bool, entry: &Function, tunables: &[Tunable]) -> String {
    // The tunables of a kernel may be called like the dimension.
    let dimension = ["N", "SIZE", "LENGTH", "ELEMENTS"]
        .into_iter()
        .find(|d| !tunables.iter().any(|t| t.name == *d))
        .unwrap_or("PROBLEM_SIZE");
    let name = &entry.name;
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line("# Written by `kiln init`. Lines marked `fill in` are guesses: put right what is wrong.");
    line("");
    line("[kernel]");
    line(&format!("source = {}", quoted(file_name)));
    line(&format!("entry = \"{name}\""));
    line("");
    line("# The choices kiln makes; each reaches the source as -DNAME=value.");
    line("[tunables]");
    if tunables.is_empty() {
        line(
            "# fill in: put `#ifndef BLOCK`, `#define BLOCK 32`, `#endif` in the source, and here",
        );
        line("# BLOCK = [16, 32, 64]");
    }
    for tunable in tunables {
        let values = tunable.candidates.join(", ");
        let note = match tunable.candidates.len() {
            1 => "  # fill in: other values worth trying",
            _ => "",
        };
        line(&format!("{} = [{values}]{note}", tunable.name));
    }
    line("");
    line("# Conditions a config must meet, over tunables and dimensions.");
    line("[constraints]");
    line("# fill in, e.g.: divides = \"N % BLOCK == 0\"");
    line("");
    line("# fill in: the dimensions of the problem. `target` is tuned, `tiny` is checked first.");
    line("[shapes.target]");
    line(&format!("{dimension} = 1048576"));
    line("");
    line("[shapes.tiny]");
    line(&format!("{dimension} = 1000"));
    line("");
    line("# The parameters of the entry, in its order.");
    line("[arguments]");
    let buffer = entry
        .parameters
        .iter()
        .find(|p| p.passing != Passing::Value);
    for parameter in &entry.parameters {
        let is_descriptor = is_cuda && parameter.c_type == "CUtensorMap";
        match buffer.filter(|_| is_descriptor && parameter.passing == Passing::Value) {
            Some(buffer) => line(&format!(
                "{} = {{ tma = \"{}\", box = [64] }}  # fill in: which buffer it describes; the box",
                parameter.name, buffer.name
            )),
            None => line(&argument(parameter, dimension)),
        }
    }
    line("");
    if is_cuda {
        let block = tunables.iter().filter(|t| t.is_integer).find(|t| {
            ["BLOCK", "THREADS"]
                .iter()
                .any(|word| t.name.contains(word))
        });
        line("# fill in: blocks per grid and threads per block.");
        line("[launch]");
        let threads = block.map_or("256", |t| t.name.as_str());
        line(&format!("grid = \"ceil_div({dimension}, {threads})\""));
        line(&format!("block = \"{threads}\""));
        line("");
    }
    line("# fill in: what one launch must do at least; kiln then knows how fast is fast.");
    line("[work]");
    line(&format!("# flops = \"2 * {dimension}\""));
    line(&format!("# bytes = \"8 * {dimension}\""));
    line("");
    for text in compared(is_cuda, name, tunables) {
        line(&text);
    }
    out
}

/// `[reference]` and `[baseline]`.
fn compared(is_cuda: bool, name: &str, tunables: &[Tunable]) -> Vec<String> {
    let (key, suffix) = match is_cuda {
        true => ("python", "py"),
        false => ("c", "c"),
    };
    let (what, what_else, takes) = match is_cuda {
        true => (
            ". It gets the inputs as",
            "tensors in double precision, by name, and returns the outputs.",
            "inputs",
        ),
        false => (
            ": the same parameters,",
            "`double` for every floating type.",
            "parameters",
        ),
    };
    let mut lines = vec![
        format!(
            "# fill in: write `reference.{suffix}` with a plain, obviously right `{name}`{what}"
        ),
        format!("# {what_else}"),
        "[reference]".to_string(),
        format!("{key} = \"reference.{suffix}:{name}\""),
        String::new(),
    ];
    if tunables.is_empty() {
        lines.extend([
            format!("# fill in: write `baseline.{suffix}` with the `{name}` that is to be beaten, same {takes}."),
            "[baseline]".to_string(),
            format!("{key} = \"baseline.{suffix}:{name}\""),
        ]);
        return lines;
    }
    let values: Vec<String> = tunables
        .iter()
        .map(|t| format!("{} = {}", t.name, t.default))
        .collect();
    lines.extend([
        format!("# What is to be beaten: the source as it is now. Another function: {key} = \"baseline.{suffix}:f\"."),
        "[baseline]".to_string(),
        format!("config = {{ {} }}", values.join(", ")),
    ]);
    lines
}

fn argument(parameter: &Parameter, dimension: &str) -> String {
    let Parameter {
        name,
        c_type,
        dtype,
        passing,
    } = parameter;
    let known = dtype.map_or("f32", |d| d.name());
    let mut notes = Vec::new();
    if dtype.is_none() {
        notes.push(format!(
            "the type, `{}` in the source",
            crate::diagnostic::printable(c_type)
        ));
    }
    let fields = match passing {
        Passing::ConstPointer => {
            notes.push("the shape".to_string());
            format!("shape = [\"{dimension}\"]")
        }
        Passing::Pointer => {
            notes.push("the shape; `inout` if it is read too".to_string());
            format!("shape = [\"{dimension}\"], role = \"output\"")
        }
        // Eight and sixteen bits do not hold a size.
        Passing::Value if dtype.is_some_and(|d| !d.is_float() && d.size_bytes() >= 4) => {
            notes.push("the value".to_string());
            format!("value = \"{dimension}\"")
        }
        Passing::Value => {
            notes.push("the value".to_string());
            "value = 1".to_string()
        }
    };
    let mut out = String::new();
    let _ = write!(out, "{name} = {{ dtype = \"{known}\", {fields} }}");
    let _ = write!(out, "  # fill in: {}", notes.join("; "));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: &str = r#"
#ifndef AXPY_H
#define AXPY_H
#include <stddef.h>
#ifndef UNROLL
#define UNROLL 4
#endif
#ifndef USE_PREFETCH
#define USE_PREFETCH 0
#endif
#ifndef SCALE
#define SCALE 0.5f
#endif
static float helper(float x) { return x; }
// Computes y = a x + y.
void axpy(size_t n, float a, const float *restrict x, float *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] += SCALE * helper(a) * x[i];
}
int main(void) { return 0; }
#endif
"#;

    const CUDA: &str = r#"
#ifndef BLOCK_SIZE
#define BLOCK_SIZE 256
#endif
#ifndef N
#define N 3
#endif
__device__ float f(float x) { return x; }
extern "C" __global__ void scale(const __half* in, __half* out, struct options o, unsigned char flag, int n,
    const __grid_constant__ CUtensorMap in_map) {
    int i = blockIdx.x * BLOCK_SIZE + threadIdx.x;
}
"#;

    #[test]
    fn a_c_source_becomes_a_manifest() {
        insta::assert_snapshot!(first_manifest("axpy.c", C).unwrap());
    }

    #[test]
    fn a_cuda_source_becomes_a_manifest() {
        insta::assert_snapshot!(first_manifest("kernels/scale.cu", CUDA).unwrap());
    }

    #[test]
    fn without_tunables_something_else_is_the_baseline() {
        let baseline = |file: &str, text: &str| {
            let manifest = first_manifest(file, text).unwrap();
            manifest.lines().last().unwrap().to_string()
        };
        assert_eq!(
            baseline("f.c", "void f(float *x) {}"),
            "c = \"baseline.c:f\""
        );
        assert_eq!(
            baseline("f.cu", "__global__ void f(float *x) {}"),
            "python = \"baseline.py:f\""
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |file: &str, text: &str| first_manifest(file, text).unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                error("a.py", ""),
                error("a.c", "static void f(float *x) {}"),
                error("a.cu", "void f(float *x) {}"),
                error("a.c", "int f(const float *x, int n) { return 0; }"),
                error("/a.c", "int f(float *x) { return 0; }"),
            ]
            .join("\n"),
            @r"
        cannot tell the language of `a.py`: expected a name that ends in `.c` or `.cu`
        `a.c` defines no function that can be called from outside
        `a.cu` defines no `__global__` function
        `f` has no parameter that is a pointer to something it may write, so no result could be checked
        no manifest can be written for `/a.c`: `source` is an absolute path outside the project: `/a.c`
        "
        );
    }

    #[test]
    fn the_function_named_like_the_file_is_the_entry() {
        let text = "void gemm(float *c) {}\nvoid other(float *c) {}";
        assert!(
            first_manifest("src/gemm.c", text)
                .unwrap()
                .contains("entry = \"gemm\"")
        );
        assert!(
            first_manifest("x.c", text)
                .unwrap()
                .contains("entry = \"other\"")
        );
    }

    #[test]
    fn values_of_guards_become_candidates() {
        let values = |value: &str, is_tested: bool| {
            let guard = Guard {
                name: "X".into(),
                value: value.into(),
                is_tested,
            };
            Tunable::from(&guard).candidates.join(" ")
        };
        assert_eq!(values("32", false), "16 32 64");
        assert_eq!(values("((64u))", false), "32 64 128");
        assert_eq!(values("0x10", false), "8 16 32");
        assert_eq!(values("48", false), "48");
        assert_eq!(values("0", false), "0 1");
        assert_eq!(values("1", true), "0 1");
        assert_eq!(values("1", false), "1 2 4");
        assert_eq!(values("true", false), "false true");
        assert_eq!(values("1.5f", false), "1.5");
        assert_eq!(values("float", false), "\"float\"");
        assert_eq!(values("inf", false), "\"inf\"");
        assert_eq!(values("-3", false), "-3");
        assert_eq!(values("(A + 1)", false), "\"(A + 1)\"");
    }
}
