//! The text of a first manifest.

use super::beside::OPTIONS;
use super::guess::Guess;
use super::shared::SharedArray;
use super::source::words;
use super::{Plan, Tunable, Tunables, quoted};

pub(super) fn write(plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line("# Written by `kiln init`. Lines marked `fill in` are guesses: put right what is wrong.");
    line("");
    line("[kernel]");
    line(&format!("source = {}", quoted(&plan.source)));
    line(&format!("entry = \"{}\"", plan.entry.name));
    line("");
    for text in tunables(plan) {
        line(&text);
    }
    line("");
    line("# Conditions a config must meet, over tunables and dimensions.");
    line("[constraints]");
    line("# fill in, e.g.: divides = \"N % BLOCK == 0\"");
    line("");
    // Of few elements each decides the answer, also of a kernel that looks for the largest; among many the last ones hardly ever do.
    const FEW: u32 = 5;
    let only = match &plan.guess.dimensions[..] {
        [only] => Some(&only.name),
        _ => None,
    };
    line(match only.is_some() {
        true => {
            "# fill in: the sizes of the problem. `target` is tuned, `tiny` and `few` are checked first."
        }
        false => "# fill in: the sizes of the problem. `target` is tuned, `tiny` is checked first.",
    });
    line("[shapes.target]");
    for dimension in &plan.guess.dimensions {
        line(&format!("{} = {}", dimension.name, dimension.target));
    }
    line("");
    line("[shapes.tiny]");
    for dimension in &plan.guess.dimensions {
        line(&format!("{} = {}", dimension.name, dimension.tiny));
    }
    if let Some(name) = only {
        line("");
        line("[shapes.few]");
        line(&format!("{name} = {FEW}"));
    }
    line("");
    line("# The parameters of the entry, in its order.");
    line("[arguments]");
    let names: Vec<&str> = plan
        .guess
        .dimensions
        .iter()
        .map(|d| d.name.as_str())
        .collect();
    for argument in &plan.guess.arguments {
        match argument.is_one_sum && !names.is_empty() {
            true => {
                let sum = with_a_sum_s_tolerance(&argument.line, &names.join(" * "));
                sum.iter().for_each(|text| line(text));
            }
            false => line(&argument.line),
        }
    }
    line("");
    if plan.is_cuda {
        let launch = Launch::of(plan);
        line("# fill in: blocks per grid and threads per block.");
        line("[launch]");
        line(&format!("grid = {}", launch.grid));
        line(&format!("block = {}", launch.block));
        for text in shared(&plan.shared, &launch.threads) {
            line(&text);
        }
        line("");
    }
    for text in work(&plan.guess) {
        line(&text);
    }
    line("");
    for text in reference(plan) {
        line(&text);
    }
    line("");
    for text in baseline(plan) {
        line(&text);
    }
    out
}

/// A sum of numbers of either sign may end near zero, where no part of it is enough for what was lost on the way: adding
/// 2^20 of them one after the other in `float` loses 2e-5 of their number's root (root mean square of 200 sums), 8e-5 at
/// the most, and computing in `tf32` 2e-4, which has to stay wrong.
fn with_a_sum_s_tolerance(line: &str, count: &str) -> [String; 3] {
    let tolerance = format!(", tolerance = {{ rtol = 1e-4, atol = \"1e-4 * sqrt({count})\" }} }}");
    [
        "# A long sum loses digits with every element, and may end near zero: the error it is allowed grows with it and".to_string(),
        "# with the root of how many numbers it adds, which is what such sums come to. For numbers of size 1: fit it to yours.".to_string(),
        line.replacen(" }", &tolerance, 1),
    ]
}

fn tunables(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    match &plan.tunables {
        Tunables::InTheSource(found) => {
            lines.push(
                "# The choices kiln makes; each reaches the source as -DNAME=value.".to_string(),
            );
            lines.push("[tunables]".to_string());
            for tunable in found {
                let note = match tunable.candidates.len() {
                    1 => "  # fill in: other values worth trying",
                    _ => "",
                };
                lines.push(format!(
                    "{} = [{}]{note}",
                    tunable.name,
                    tunable.candidates.join(", ")
                ));
            }
        }
        Tunables::CompilerOptions => {
            lines.push("# Your function names no choice of its own yet, so these are the compiler's. To add one, put".to_string());
            lines.push("# `#ifndef BLOCK`, `#define BLOCK 32`, `#endif` into your source, use BLOCK, and add BLOCK = [16, 32, 64].".to_string());
            lines.push("[tunables]".to_string());
            for option in &OPTIONS {
                lines.push(format!(
                    "{} = {}  # {}",
                    option.name, option.values, option.meaning
                ));
            }
        }
        Tunables::BlockSize { names } => {
            lines.push("# Threads per block, which [launch] uses. To add a choice of the source, put `#ifndef ITEMS`,".to_string());
            lines.push(
                "# `#define ITEMS 4`, `#endif` there, use ITEMS, and add ITEMS = [1, 2, 4]."
                    .to_string(),
            );
            lines.push("[tunables]".to_string());
            match &names[..] {
                [one] => lines.push(format!("{one} = [32, 64, 128, 256, 512, 1024]")),
                _ => {
                    for (name, values) in names
                        .iter()
                        .zip(["[8, 16, 32, 64, 128]", "[1, 2, 4, 8, 16]"])
                    {
                        lines.push(format!("{name} = {values}"));
                    }
                }
            }
        }
        Tunables::None => {
            lines.push(
                "# The choices kiln makes; each reaches the source as -DNAME=value.".to_string(),
            );
            lines.push("[tunables]".to_string());
            lines.push("# fill in: put `#ifndef BLOCK`, `#define BLOCK 32`, `#endif` in the source, and here".to_string());
            lines.push("# BLOCK = [16, 32, 64]".to_string());
        }
    }
    lines
}

/// How many blocks of how many threads, as TOML.
struct Launch {
    grid: String,
    block: String,
    /// The baseline's and reference's, which know no tunables.
    fixed_grid: String,
    fixed_block: String,
    /// Of a block, as an expression.
    threads: String,
    fixed_threads: String,
}

impl Launch {
    fn of(plan: &Plan) -> Launch {
        let dimensions: Vec<&str> = plan
            .guess
            .dimensions
            .iter()
            .map(|d| d.name.as_str())
            .collect();
        let first = dimensions.first().copied().unwrap_or("N");
        let last = dimensions.last().copied().unwrap_or("N");
        let all = dimensions.join(" * ");
        match (&plan.tunables, is_flat(plan)) {
            (Tunables::BlockSize { names }, _) if names.len() == 2 => Launch {
                grid: format!(
                    "[\"ceil_div({last}, {})\", \"ceil_div({first}, {})\"]",
                    names[0], names[1]
                ),
                block: format!("[\"{}\", \"{}\"]", names[0], names[1]),
                fixed_grid: format!("[\"ceil_div({last}, 16)\", \"ceil_div({first}, 16)\"]"),
                fixed_block: "[16, 16]".to_string(),
                threads: names.join(" * "),
                fixed_threads: "256".to_string(),
            },
            (tunables, is_flat) => {
                let threads = threads(tunables);
                let fixed = threads_by_default(tunables);
                // One thread for each element, or one block for each row.
                let grid = |threads: &str| match is_flat {
                    true => format!("\"ceil_div({all}, {threads})\""),
                    false => format!("\"{first}\""),
                };
                Launch {
                    grid: grid(&threads),
                    block: format!("\"{threads}\""),
                    fixed_grid: grid(&fixed),
                    fixed_block: fixed.clone(),
                    threads,
                    fixed_threads: fixed,
                }
            }
        }
    }
}

/// What floating types are in a kernel.
#[derive(Clone, Copy, PartialEq)]
enum Precision {
    AsWritten,
    /// In the reference, which has `double` for each.
    Double,
}

/// Bytes of dynamic shared memory, if there is any, by the guess that each thread has one element. All such arrays of a
/// kernel begin at the same address, so the largest element counts.
fn dynamic_bytes(shared: &[SharedArray], threads: &str, precision: Precision) -> Option<String> {
    let dynamic = shared.iter().filter(|array| array.is_dynamic);
    let size = dynamic.map(|array| match array.dtype {
        Some(dtype) if dtype.is_float() && precision == Precision::Double => 8,
        Some(dtype) => dtype.size_bytes(),
        None => 16,
    });
    size.max().map(|size| format!("{size} * {threads}"))
}

/// What a launch has to say about shared memory, and what it has not.
fn shared(shared: &[SharedArray], threads: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let named = |is_dynamic: bool| {
        let names = shared.iter().filter(|array| array.is_dynamic == is_dynamic);
        let names: Vec<String> = names.map(|array| format!("`{}`", array.name)).collect();
        names.join(", ")
    };
    if let Some(bytes) = dynamic_bytes(shared, threads, Precision::AsWritten) {
        lines.push(format!(
            "shared = \"{bytes}\"  # fill in: bytes of {} per block, which the source leaves open; one element per thread is a guess",
            named(true)
        ));
    }
    if shared.iter().any(|array| !array.is_dynamic) {
        lines.push(format!(
            "# {}: the compiler knows the size of it; `shared` is for `extern __shared__` only.",
            named(false)
        ));
    }
    lines
}

/// Whether blocks divide the elements among their threads, and not rows among blocks.
fn is_flat(plan: &Plan) -> bool {
    let squeezed: String = plan.entry.body.split_whitespace().collect();
    let divides = |x: &str| squeezed.contains(&format!("blockIdx.x*{x}"));
    let a_tunable = match &plan.tunables {
        Tunables::InTheSource(found) => found.iter().any(|t| divides(&t.name)),
        _ => false,
    };
    plan.guess.dimensions.len() < 2
        || divides("blockDim.x")
        || squeezed.contains("blockDim.x*blockIdx.x")
        || a_tunable
}

/// The tunable that says how many threads a block has, by its name.
fn thread_tunable(tunables: &Tunables) -> Option<&Tunable> {
    let Tunables::InTheSource(found) = tunables else {
        return None;
    };
    let says_threads = |t: &&Tunable| {
        ["BLOCK", "THREADS"]
            .iter()
            .any(|word| t.name.contains(word))
    };
    found.iter().filter(|t| t.is_integer).find(says_threads)
}

fn threads(tunables: &Tunables) -> String {
    match tunables {
        Tunables::BlockSize { names } => names[0].clone(),
        _ => thread_tunable(tunables).map_or("256".to_string(), |t| t.name.clone()),
    }
}

/// As the source is compiled when nobody says otherwise.
fn threads_by_default(tunables: &Tunables) -> String {
    thread_tunable(tunables).map_or("256".to_string(), |t| t.default.clone())
}

/// The tunables of a kernel that asks how many threads a block has, named as nothing in the source is.
pub(super) fn block_size(plain: &str) -> Option<Vec<String>> {
    if !words(plain).any(|w| w == "blockDim") {
        return None;
    }
    let free = |name: &str| match words(plain).any(|w| w == name) {
        true => format!("{name}_THREADS"),
        false => name.to_string(),
    };
    let squeezed: String = plain.split_whitespace().collect();
    Some(match squeezed.contains("threadIdx.y") {
        true => vec![free("BLOCK_X"), free("BLOCK_Y")],
        false => vec![free("BLOCK")],
    })
}

fn work(guess: &Guess) -> Vec<String> {
    let dimension = guess.dimensions.first().map_or("N", |d| d.name.as_str());
    let mut lines = vec![
        "# What one launch must do at least; kiln then knows how fast is fast.".to_string(),
        "[work]".to_string(),
        format!("# fill in: flops = \"2 * {dimension}\""),
    ];
    lines.push(match guess.bytes() {
        // More bytes than there are would make honest kernels look too fast to be true.
        Some(bytes) if !guess.guessed_shapes().is_empty() => {
            format!("# fill in, once the shapes are right: bytes = \"{bytes}\"")
        }
        Some(bytes) => format!("bytes = \"{bytes}\"  # every buffer once in each direction"),
        None => format!("# fill in: bytes = \"8 * {dimension}\""),
    });
    lines
}

fn reference(plan: &Plan) -> Vec<String> {
    let name = &plan.entry.name;
    if plan.has_reference {
        let suffix = plan.suffix();
        let key = match plan.is_cuda {
            true => "kernel",
            false => "c",
        };
        let mut lines = vec![
            "# The right answer: your function as it was when this was written, in double precision.".to_string(),
            "[reference]".to_string(),
            format!("{key} = \"reference.{suffix}:{name}\""),
        ];
        if plan.is_cuda {
            let launch = Launch::of(plan);
            lines.push("# fill in, as in [launch].".to_string());
            lines.push(format!("grid = {}", launch.fixed_grid));
            lines.push(format!("block = {}", launch.fixed_block));
            if let Some(bytes) =
                dynamic_bytes(&plan.shared, &launch.fixed_threads, Precision::Double)
            {
                lines.push(format!("shared = \"{bytes}\""));
            }
        }
        return lines;
    }
    let (key, suffix, what, what_else) = match plan.is_cuda {
        true => (
            "python",
            "py",
            ". It gets the inputs as",
            "tensors in double precision, by name, and returns the outputs.",
        ),
        false => (
            "c",
            "c",
            ": the same parameters,",
            "`double` for every floating type.",
        ),
    };
    vec![
        format!(
            "# fill in: write `reference.{suffix}` with a plain, obviously right `{name}`{what}"
        ),
        format!("# {what_else}"),
        "[reference]".to_string(),
        format!("{key} = \"reference.{suffix}:{name}\""),
    ]
}

fn baseline(plan: &Plan) -> Vec<String> {
    let name = &plan.entry.name;
    let other = match plan.is_cuda {
        true => "python = \"baseline.py:f\"",
        false => "c = \"baseline.c:f\"",
    };
    let config = |values: String| {
        vec![
            format!("# What is to be beaten: the source as it is now. Another function: {other}."),
            "[baseline]".to_string(),
            format!("config = {{ {values} }}"),
        ]
    };
    match &plan.tunables {
        Tunables::InTheSource(found) => {
            let values: Vec<String> = found.iter().map(|t| format!("{} = {}", t.name, t.default)).collect();
            config(values.join(", "))
        }
        Tunables::BlockSize { names } if names.len() == 1 => config(format!("{} = 256", names[0])),
        Tunables::BlockSize { names } => config(format!("{} = 16, {} = 16", names[0], names[1])),
        Tunables::CompilerOptions => vec![
            "# What is to be beaten: your function as it was when this was written, by the compiler's own choice (-O3).".to_string(),
            "[baseline]".to_string(),
            format!("c = \"baseline.c:{name}\""),
        ],
        Tunables::None => {
            let (key, suffix, takes) = match plan.is_cuda {
                true => ("python", "py", "inputs"),
                false => ("c", "c", "parameters"),
            };
            vec![
                format!("# fill in: write `baseline.{suffix}` with the `{name}` that is to be beaten, same {takes}."),
                "[baseline]".to_string(),
                format!("{key} = \"baseline.{suffix}:{name}\""),
            ]
        }
    }
}
