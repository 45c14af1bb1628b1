//! A first manifest written from a source file: what can be seen is filled in, what only the author
//! knows is marked. The author's own function becomes the reference and the baseline.

use thiserror::Error;

use super::Manifest;
pub use beside::Beside;
use entry::{Chosen, choose};
use guess::Guess;
pub use prototype::{WrongParameters, code_only, wrong_parameters};
use shared::SharedArray;
pub(super) use source::without_comments;
use source::{Function, Guard, Parameter, Passing};

mod beside;
mod body;
mod entry;
mod guess;
#[cfg(test)]
mod plain_functions;
mod prototype;
mod shared;
mod source;
mod write;

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
    #[error(
        "`{file_name}` defines no function `{wanted}` that can be tuned; it has {}",
        entry::in_words(candidates)
    )]
    NoSuchFunction {
        file_name: String,
        wanted: String,
        candidates: Vec<String>,
    },
    /// Something about the file, its name most likely, cannot be written in a manifest.
    #[error("no manifest can be written for `{file_name}`: {reason}")]
    NotExpressible { file_name: String, reason: String },
}

impl InitError {
    /// What the author can do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            InitError::UnknownLanguage(_) => "give the C or CUDA source that holds the kernel",
            InitError::NoFunction(_) => {
                "take `static` and `inline` from the function that is to be tuned; one called `main` is never it"
            }
            InitError::NoKernel(_) => {
                "mark the kernel `__global__`; a function for the CPU belongs in a `.c` file"
            }
            InitError::NoOutput(_) => {
                "let the function write its result through a pointer that is not `const`, e.g. `float *out`"
            }
            InitError::NoSuchFunction { .. } => {
                "give one of these names to `--entry`, or leave the option out"
            }
            InitError::NotExpressible { .. } => {
                "rename the file, and give it relative to where you are"
            }
        }
    }
}

/// The functions that a C or CUDA source defines, whatever its comments mention.
pub fn function_names(source: &str) -> Vec<String> {
    let functions = source::functions(&source::without_comments(source));
    functions.into_iter().map(|f| f.name).collect()
}

/// A manifest, and the files it names that can be written from the source.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstManifest {
    pub text: String,
    /// The function that is tuned, and those it was chosen from.
    pub entry: String,
    pub others: Vec<String>,
    pub beside: Vec<Beside>,
    /// What stands there because something has to, in words.
    pub guesses: Vec<String>,
}

/// What goes into a manifest.
struct Plan {
    /// What is compiled, relative to the manifest.
    source: String,
    is_cuda: bool,
    entry: Function,
    guess: Guess,
    tunables: Tunables,
    has_reference: bool,
    shared: Vec<SharedArray>,
}

impl Plan {
    fn suffix(&self) -> &'static str {
        match self.is_cuda {
            true => "cu",
            false => "c",
        }
    }

    fn has_dynamic_shared(&self) -> bool {
        self.shared.iter().any(|array| array.is_dynamic)
    }

    /// What would be measured or checked wrongly without anybody noticing.
    fn guesses(&self) -> Vec<String> {
        let shapes = self.guess.guessed_shapes();
        let names: Vec<String> = shapes.iter().map(|name| format!("`{name}`")).collect();
        let mut guesses = match &names[..] {
            [] => Vec::new(),
            [one] => vec![format!("the shape of {one}")],
            all => vec![format!("the shapes of {}", all.join(", "))],
        };
        if self.is_cuda {
            let all = match self.has_dynamic_shared() {
                true => "grid, block and shared in [launch]",
                false => "grid and block in [launch]",
            };
            guesses.push(all.to_string());
        }
        guesses
    }
}

enum Tunables {
    /// Macros the author has guarded.
    InTheSource(Vec<Tunable>),
    /// A C function without any: how it is compiled.
    CompilerOptions,
    /// A CUDA kernel without any that asks for the size of its block.
    BlockSize {
        names: Vec<String>,
    },
    None,
}

/// A manifest for a C or CUDA source that parses as it is; comments say what to fill in.
/// `file_name` is the source's path relative to the manifest; `wanted` is the function to tune, where the
/// author says which.
pub fn first_manifest(
    file_name: &str,
    source: &str,
    wanted: Option<&str>,
) -> Result<FirstManifest, InitError> {
    let is_cuda = file_name.ends_with(".cu");
    if !is_cuda && !file_name.ends_with(".c") {
        return Err(InitError::UnknownLanguage(file_name.to_string()));
    }
    let plain = source::without_comments(source);
    let Chosen { entry, others } = choose(file_name, is_cuda, source::functions(&plain), wanted)?;
    let shared = match is_cuda {
        true => shared::arrays(&plain, &source::functions(&plain), &entry),
        false => Vec::new(),
    };
    let writes = |p: &Parameter| p.passing == Passing::Pointer;
    if !entry.parameters.iter().any(writes) {
        return Err(InitError::NoOutput(entry.name));
    }
    let guards: Vec<Tunable> = source::guards(&plain).iter().map(Tunable::from).collect();
    let can_be_quoted = is_plain(file_name);
    let tunables = match (guards.is_empty(), is_cuda) {
        (false, _) => Tunables::InTheSource(guards),
        (true, true) => match write::block_size(&plain) {
            Some(names) => Tunables::BlockSize { names },
            None => Tunables::None,
        },
        (true, false) if can_be_quoted => Tunables::CompilerOptions,
        (true, false) => Tunables::None,
    };
    let is_taken = |name: &str| tunables.names().iter().any(|t| t == name);
    let guess = Guess::of(&entry, is_cuda, &is_taken);
    let in_double = beside::in_double(&plain, source).filter(|_| can_be_quoted);
    let mut files = Vec::new();
    let mut plan = Plan {
        source: file_name.to_string(),
        is_cuda,
        entry,
        guess,
        tunables,
        has_reference: in_double.is_some(),
        shared,
    };
    let name = &plan.entry.name;
    if matches!(plan.tunables, Tunables::CompilerOptions) {
        let tunable = beside::under_options(file_name, stem(file_name));
        plan.source = tunable.name.clone();
        files.push(tunable);
        files.push(beside::baseline(file_name, name, "c", source));
    }
    if let Some(text) = in_double {
        files.push(beside::reference(file_name, name, plan.suffix(), &text));
    }
    let text = write::write(&plan);
    match Manifest::parse(&text) {
        Ok(_) => Ok(FirstManifest {
            text,
            guesses: plan.guesses(),
            entry: plan.entry.name,
            others,
            beside: files,
        }),
        Err(problems) => Err(InitError::NotExpressible {
            file_name: file_name.to_string(),
            reason: problems
                .into_iter()
                .next()
                .map_or(String::new(), |p| p.message),
        }),
    }
}

impl Tunables {
    fn names(&self) -> Vec<String> {
        match self {
            Tunables::InTheSource(found) => found.iter().map(|t| t.name.clone()).collect(),
            Tunables::CompilerOptions => {
                beside::OPTIONS.iter().map(|o| o.name.to_string()).collect()
            }
            Tunables::BlockSize { names } => names.clone(),
            Tunables::None => Vec::new(),
        }
    }
}

/// Whether a file name means itself in a comment and between quotes of C. A folder in it is not for files beside
/// the manifest.
fn is_plain(file_name: &str) -> bool {
    file_name
        .chars()
        .all(|c| c.is_alphanumeric() || "._-+ ".contains(c))
}

fn stem(file_name: &str) -> &str {
    let name = file_name.rsplit('/').next().unwrap_or(file_name);
    name.split('.').next().unwrap_or(name)
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
        insta::assert_snapshot!(shown(&first_manifest("axpy.c", C, None).unwrap()));
    }

    #[test]
    fn a_cuda_source_becomes_a_manifest() {
        insta::assert_snapshot!(shown(
            &first_manifest("kernels/scale.cu", CUDA, None).unwrap()
        ));
    }

    #[test]
    fn a_plain_function_becomes_a_manifest_and_its_files() {
        let blur = "// Box blur.\nvoid blur(float *in, float *out, int height, int width) {\n\
            for (int y = 0; y < height; y++)\n    for (int x = 0; x < width; x++)\n        \
            out[y * width + x] = 0.5f * in[y * width + x];\n}\n";
        insta::assert_snapshot!(shown(&first_manifest("blur.c", blur, None).unwrap()));
    }

    #[test]
    fn a_plain_kernel_is_tuned_by_its_block() {
        let blur = "__global__ void blur(const float *in, float *out, int height, int width) {\n\
            int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;\n\
            if (x < width && y < height) out[y * width + x] = sqrtf(in[y * width + x]);\n}\n";
        insta::assert_snapshot!(shown(&first_manifest("blur.cu", blur, None).unwrap()));
    }

    #[test]
    fn the_reference_is_launched_as_the_source_is_by_default() {
        let scale = "#ifndef BLOCK\n#define BLOCK 128\n#endif\n__global__ void scale(float *y, int n) {\n\
            int i = blockIdx.x * BLOCK + threadIdx.x;\n  if (i < n) y[i] *= 2;\n}\n";
        let text = first_manifest("scale.cu", scale, None).unwrap().text;
        let reference = &text[text.find("[reference]").unwrap()..];
        assert!(
            reference.contains("grid = \"ceil_div(N, 128)\"\nblock = 128\n"),
            "{text}"
        );
    }

    #[test]
    fn the_launch_says_what_it_can_about_shared_memory() {
        let kernel = |declared: &str| {
            format!(
                "__global__ void sum(const float *x, float *out, int n) {{\n  {declared}\n\
                 int t = threadIdx.x; int i = blockIdx.x * blockDim.x + t;\n  s[t] = i < n ? x[i] : 0;\n  __syncthreads();\n\
                 for (int k = blockDim.x / 2; k > 0; k /= 2) {{ if (t < k) s[t] += s[t + k]; __syncthreads(); }}\n\
                 if (t == 0) atomicAdd(out, s[0]);\n}}\n"
            )
        };
        let open = first_manifest("sum.cu", &kernel("extern __shared__ float s[];"), None).unwrap();
        let launch = open.text.split("[launch]\n").nth(1).unwrap();
        assert!(
            launch.contains("shared = \"4 * BLOCK\"  # fill in: bytes of `s` per block"),
            "{launch}"
        );
        // The reference has `double` in place of `float`.
        assert!(launch.contains("shared = \"8 * 256\"\n"), "{launch}");
        assert!(
            open.guesses
                .contains(&"grid, block and shared in [launch]".to_string())
        );
        let known = first_manifest("sum.cu", &kernel("__shared__ float s[1024];"), None).unwrap();
        let launch = known.text.split("[launch]\n").nth(1).unwrap();
        assert!(
            launch.contains("# `s`: the compiler knows the size of it"),
            "{launch}"
        );
        assert!(!launch.contains("shared = "), "{launch}");
        // One that has none is told nothing.
        let none = first_manifest("scale.cu", CUDA, None).unwrap().text;
        assert!(!none.contains("shared"), "{none}");
    }

    fn shown(first: &FirstManifest) -> String {
        let mut out = first.text.clone();
        for file in &first.beside {
            out += &format!("\n==> {} ({})\n{}", file.name, file.what, file.text);
        }
        out
    }

    #[test]
    fn without_tunables_something_else_is_the_baseline() {
        let baseline = |file: &str, text: &str| {
            let manifest = first_manifest(file, text, None).unwrap().text;
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
        let error =
            |file: &str, text: &str| first_manifest(file, text, None).unwrap_err().to_string();
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
            first_manifest("src/gemm.c", text, None)
                .unwrap()
                .text
                .contains("entry = \"gemm\"")
        );
        assert!(
            first_manifest("x.c", text, None)
                .unwrap()
                .text
                .contains("entry = \"other\"")
        );
    }

    #[test]
    fn the_entry_can_be_chosen_and_the_others_are_named() {
        let text = "void scale(float *x) {}\nvoid psum(float *c) {}\nvoid last(float *c) {}\n\
                    static void helper(float *c) {}\nint main(void) { return 0; }";
        let first = first_manifest("x.c", text, None).unwrap();
        assert_eq!(first.entry, "last");
        assert_eq!(first.others, ["scale", "psum"]);
        let first = first_manifest("x.c", text, Some("psum")).unwrap();
        assert!(first.text.contains("entry = \"psum\""), "{}", first.text);
        assert_eq!(first.others, ["scale", "last"]);
        let error = first_manifest("x.c", text, Some("helper")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`x.c` defines no function `helper` that can be tuned; it has `scale`, `psum` and `last`"
        );
    }

    #[test]
    fn what_only_seems_to_be_so_is_marked() {
        let arguments = |text: &str| {
            let text = first_manifest("f.c", text, None).unwrap().text;
            let table = text.split("[arguments]\n").nth(1).unwrap().to_string();
            table.split("\n\n").next().unwrap().to_string()
        };
        let interleaved = "void f(const float *rgb, float *gray, int n) {\n\
            for (int i = 0; i < n; i++) gray[i] = rgb[3*i] + rgb[3*i+1] + rgb[3*i+2];\n}\n";
        let nested = "void f(int h, int w, const float in[h][w], float out[h][w]) {\n\
            for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) out[y][x] = 2 * in[y][x];\n}\n";
        insta::assert_snapshot!(
            [arguments(interleaved), arguments(nested)].join("\n\n"),
            @r#"
        rgb = { dtype = "f32", shape = ["3 * N"] }  # fill in: the shape, a guess from `rgb[3*i]`
        gray = { dtype = "f32", shape = ["N"], role = "output" }
        n = { dtype = "i32", value = "N" }

        h = { dtype = "i32", value = "H" }
        w = { dtype = "i32", value = "W" }
        in = { dtype = "f32", shape = ["H", "W"] }  # fill in: kiln hands over `float *in`; the source has `float in[h][w]`
        out = { dtype = "f32", shape = ["H", "W"], role = "output" }  # fill in: kiln hands over `float *out`; the source has `float out[h][w]`
        "#
        );
    }

    /// A histogram that masks its input with 15 would pass on small numbers.
    #[test]
    fn small_integers_are_drawn_from_all_their_values() {
        let line = |c_type: &str, name: &str| {
            let text = format!(
                "void f(const {c_type} *x, {c_type} *y, int n) {{ for (int i = 0; i < n; i++) y[i] = x[i]; }}"
            );
            let text = first_manifest("f.c", &text, None).unwrap().text;
            let line = text.lines().find(|l| l.starts_with(&format!("{name} = ")));
            line.unwrap().to_string()
        };
        assert_eq!(
            line("unsigned char", "x"),
            "x = { dtype = \"u8\", shape = [\"N\"], draw = { kind = \"integers\", low = 0, high = 255 } }  \
             # fill in: the values it may hold"
        );
        assert!(line("int16_t", "x").contains("low = -32768, high = 32767 }"));
        assert!(line("uint16_t", "x").contains("low = 0, high = 65535 }"));
        assert!(line("int8_t", "x").contains("low = -128, high = 127 }"));
        for (c_type, name) in [("int", "x"), ("float", "x"), ("unsigned char", "y")] {
            assert!(!line(c_type, name).contains("draw"), "{c_type} {name}");
        }
    }

    /// Drawn from 0 to 8, a kernel that keeps 8 bits of each index would be right.
    #[test]
    fn indices_stay_inside_the_buffer_they_choose_from() {
        let line = |text: &str, name: &str| {
            let text = first_manifest("f.c", text, None).unwrap().text;
            let line = text.lines().find(|l| l.starts_with(&format!("{name} = ")));
            line.unwrap().to_string()
        };
        let gather = "void f(const float *table, const int *idx, float *out, int n, int d) {\n\
            for (int i = 0; i < n; i++) for (int j = 0; j < d; j++) out[i*d+j] = table[idx[i]*d+j];\n}\n";
        assert_eq!(
            line(gather, "idx"),
            "idx = { dtype = \"i32\", shape = [\"N\"], draw = { kind = \"integers\", low = 0, high = \"N - 1\" } }  \
             # fill in: the values it may hold"
        );
        assert!(!line(gather, "table").contains("draw"));
        let small = gather.replace("const int *idx", "const unsigned char *idx");
        assert!(line(&small, "idx").contains("low = 0, high = \"min(N - 1, 255)\" }"));
        let sparse = "void f(const int *rowptr, const int *cols, const float *vals, const float *x, float *y, int nrows) {\n\
            for (int r = 0; r < nrows; r++) { float s = 0;\n\
            for (int k = rowptr[r]; k < rowptr[r + 1]; k++) s += vals[k] * x[cols[k]]; y[r] = s; }\n}\n";
        let pointers = line(sparse, "rowptr");
        assert!(
            pointers.contains("low = -2147483648, high = 2147483647 }")
                && pointers.contains("the values it may hold"),
            "{pointers}"
        );
        assert!(line(sparse, "cols").contains("low = 0, high = \"NROWS - 1\" }"));
        assert!(!line(sparse, "x").contains("draw"));
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
