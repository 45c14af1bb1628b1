//! The files a first manifest names: the author's own function as the reference and the baseline, and, for a
//! function without tunables, options of the compiler as its first ones.

use super::source::words;

/// A file to be written next to the manifest, unless one of that name is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    pub name: String,
    pub text: String,
    /// What it is, for the author.
    pub what: String,
}

/// Begins the line that says what the rest of a file was when it was written.
const CHECKSUM: &str = "// Unchanged while its checksum is ";

/// What was written before is told from what somebody has changed by this.
fn checksum(text: &str) -> String {
    let rest: String = text
        .split_inclusive('\n')
        .filter(|line| !line.starts_with(CHECKSUM))
        .collect();
    blake3::hash(rest.as_bytes()).to_hex()[..16].to_string()
}

/// The text with its checksum under the comment it begins with.
fn sealed(text: String) -> String {
    let lines = text.split_inclusive('\n');
    let comment: usize = lines
        .take_while(|line| line.starts_with("//"))
        .map(str::len)
        .sum();
    let line = format!("{CHECKSUM}{}.\n", checksum(&text));
    let (comment, rest) = text.split_at(comment);
    format!("{comment}{line}{rest}")
}

impl Beside {
    /// Whether `kiln init` wrote this, and nobody has changed it since.
    pub fn is_untouched(text: &str) -> bool {
        let told = text.lines().find_map(|line| line.strip_prefix(CHECKSUM));
        told.is_some_and(|told| told.trim_end_matches('.') == checksum(text))
    }

    /// Whether `kiln init` wrote this, changed since or not.
    pub fn is_written_by_init(text: &str) -> bool {
        text.starts_with("// Written by `kiln init`")
    }

    /// Whether the comment at the top names another source or function than this one's.
    pub fn is_for_another(&self, text: &str) -> bool {
        let note = |text: &str| -> Vec<String> {
            let lines = text.lines().take_while(|line| line.starts_with("//"));
            let lines = lines.filter(|line| !line.starts_with(CHECKSUM));
            lines.map(str::to_string).collect()
        };
        Beside::is_written_by_init(text) && note(text) != note(&self.text)
    }
}

/// Floating types of C and CUDA that become `double`.
const FLOATING: [&str; 2] = ["float", "_Float16"];

/// Functions and constants of `<math.h>` and `<float.h>` that are for `float`, and CUDA's quick ones.
const SINGLE: [(&str, &str); 45] = [
    ("acosf", "acos"),
    ("asinf", "asin"),
    ("atanf", "atan"),
    ("atan2f", "atan2"),
    ("cbrtf", "cbrt"),
    ("ceilf", "ceil"),
    ("copysignf", "copysign"),
    ("cosf", "cos"),
    ("coshf", "cosh"),
    ("erff", "erf"),
    ("erfcf", "erfc"),
    ("exp2f", "exp2"),
    ("expf", "exp"),
    ("expm1f", "expm1"),
    ("fabsf", "fabs"),
    ("fdimf", "fdim"),
    ("floorf", "floor"),
    ("fmaf", "fma"),
    ("fmaxf", "fmax"),
    ("fminf", "fmin"),
    ("fmodf", "fmod"),
    ("hypotf", "hypot"),
    ("log10f", "log10"),
    ("log1pf", "log1p"),
    ("log2f", "log2"),
    ("logf", "log"),
    ("powf", "pow"),
    ("rintf", "rint"),
    ("roundf", "round"),
    ("rsqrtf", "rsqrt"),
    ("sinf", "sin"),
    ("sinhf", "sinh"),
    ("sqrtf", "sqrt"),
    ("tanf", "tan"),
    ("tanhf", "tanh"),
    ("tgammaf", "tgamma"),
    ("truncf", "trunc"),
    ("__expf", "exp"),
    ("__logf", "log"),
    ("__powf", "pow"),
    ("__sinf", "sin"),
    ("__cosf", "cos"),
    ("__tanf", "tan"),
    ("FLT_MAX", "DBL_MAX"),
    ("FLT_MIN", "DBL_MIN"),
];

/// A source in double precision, where changing words is enough for that: vector types, half precision,
/// descriptors and assembly would have to be thought about.
pub(super) fn in_double(plain: &str, source: &str) -> Option<String> {
    let is_special = |word: &str| {
        let starts = [
            "_mm",
            "__m1",
            "__m2",
            "__m5",
            "float32x",
            "svfloat",
            "__nv_bfloat",
            "wmma",
            "CUtensorMap",
            "nvcuda",
        ];
        let is = [
            "asm",
            "__asm__",
            "__asm",
            "vector_size",
            "half",
            "half2",
            "__half",
            "__half2",
            "float2",
            "float3",
            "float4",
            "__fdividef",
        ];
        starts.iter().any(|s| word.starts_with(s)) || is.contains(&word)
    };
    if words(plain).any(is_special) {
        return None;
    }
    let replace = |word: &str| {
        if FLOATING.contains(&word) {
            return Some("double");
        }
        let mut known = SINGLE.iter();
        let found = known.find(|(single, _)| *single == word);
        found.map(|(_, double)| *double)
    };
    // There is a <float.h>, which has the limits of `double` too, and no <double.h>.
    let is_include = |line: &str| line.trim_start().starts_with("#include");
    let lines = source
        .split_inclusive('\n')
        .map(|line| match is_include(line) {
            true => line.to_string(),
            false => with_words_replaced(line, replace),
        });
    Some(lines.collect())
}

fn with_words_replaced(text: &str, replace: impl Fn(&str) -> Option<&'static str>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        out.push_str(replace(word).unwrap_or(word));
        let length = after.find(is_word).unwrap_or(after.len());
        out.push_str(&after[..length]);
        rest = &after[length..];
    }
    out
}

/// The reference: the author's function, as it is today, in double precision.
pub(super) fn reference(file_name: &str, entry: &str, suffix: &str, in_double: &str) -> Beside {
    Beside {
        name: format!("reference.{suffix}"),
        text: sealed(format!(
            "// Written by `kiln init`: {file_name} as it was then, every float a double. What kiln tunes has to\n\
             // give the answers of this `{entry}`, so keep it plain, and do not change it with {file_name}.\n\n{in_double}"
        )),
        what: format!("your `{entry}` in double precision: the right answer"),
    }
}

/// The baseline: the author's function, as it is today.
pub(super) fn baseline(file_name: &str, entry: &str, suffix: &str, source: &str) -> Beside {
    Beside {
        name: format!("baseline.{suffix}"),
        text: sealed(format!(
            "// Written by `kiln init`: {file_name} as it was then, the `{entry}` that is to be beaten.\n\n{source}"
        )),
        what: format!("your `{entry}` as it is: what is to be beaten"),
    }
}

/// Options of the compiler as tunables, with the values worth trying and what they mean.
pub(super) struct CompilerOption {
    pub name: &'static str,
    pub values: &'static str,
    pub meaning: &'static str,
}

pub(super) const OPTIONS: [CompilerOption; 4] = [
    CompilerOption {
        name: "FAST_MATH",
        values: "[0, 1]",
        meaning: "1: sums and divisions may be reordered; answers are checked all the same",
    },
    CompilerOption {
        name: "VECTOR_BITS",
        values: "[0, 128, 256, 512]",
        meaning: "0: not vectorised; on x86 the preferred width",
    },
    CompilerOption {
        name: "UNROLL_LOOPS",
        values: "[0, 1]",
        meaning: "1: -funroll-loops",
    },
    CompilerOption {
        name: "OPTIMISE",
        values: "[2, 3]",
        meaning: "-O2 or -O3",
    },
];

/// A file that includes the author's source, unchanged, under options that are tunables.
pub(super) fn under_options(file_name: &str, stem: &str) -> Beside {
    Beside {
        name: format!("{stem}_tunable.c"),
        text: sealed(format!(
            r#"// Written by `kiln init`. This is what kiln tunes: {file_name}, unchanged, under options of the compiler. Each option
// is a macro that kiln sets with -D. Better tunables are those you put into {file_name} yourself.

#ifndef FAST_MATH
#define FAST_MATH 0
#endif
#ifndef VECTOR_BITS
#define VECTOR_BITS 256
#endif
#ifndef UNROLL_LOOPS
#define UNROLL_LOOPS 0
#endif
#ifndef OPTIMISE
#define OPTIMISE 3
#endif

#if defined(__clang__)
// Clang has no such pragmas for whole files but this one: drop the other tunables there.
#if FAST_MATH
#pragma clang fp reassociate(on) contract(fast)
#endif
#elif defined(__GNUC__)
#if OPTIMISE == 2
#pragma GCC optimize ("O2")
#endif
#if FAST_MATH
#pragma GCC optimize ("fast-math")
#endif
#if UNROLL_LOOPS
#pragma GCC optimize ("unroll-loops")
#endif
#if VECTOR_BITS == 0
#pragma GCC optimize ("no-tree-vectorize")
#elif defined(__x86_64__) && VECTOR_BITS == 128
#pragma GCC optimize ("tree-vectorize")
#pragma GCC target ("prefer-vector-width=128")
#elif defined(__x86_64__) && VECTOR_BITS == 256
#pragma GCC optimize ("tree-vectorize")
#pragma GCC target ("prefer-vector-width=256")
#elif defined(__x86_64__) && VECTOR_BITS == 512
#pragma GCC optimize ("tree-vectorize")
#pragma GCC target ("prefer-vector-width=512")
#endif
#endif

#include "{file_name}"
"#
        )),
        what: format!("{file_name} under options of the compiler: what is tuned"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_told_from_what_was_not() {
        let source = "void f(float *x) { x[0] = 1; }\n";
        let file = baseline("f.c", "f", "c", source);
        assert!(Beside::is_untouched(&file.text) && !file.is_for_another(&file.text));
        let edited = file.text.replace("= 1", "= 2");
        assert!(!Beside::is_untouched(&edited) && Beside::is_written_by_init(&edited));
        assert!(!file.is_for_another(&edited));
        assert!(file.is_for_another(&baseline("f.c", "g", "c", source).text));
        // From an older version of the same function.
        let older = baseline("f.c", "f", "c", "void f(float *x) { x[0] = 0; }\n");
        assert!(Beside::is_untouched(&older.text) && !file.is_for_another(&older.text));
        assert!(!Beside::is_untouched("") && !Beside::is_untouched(source));
        let windows = file.text.replace('\n', "\r\n");
        assert!(!Beside::is_untouched(&windows));
    }

    #[test]
    fn words_of_single_precision_become_double() {
        let source = "#include <math.h>\n#include <float.h>\nvoid f(const float *x, float *y) { y[0] = expf(x[0]) + 0.5f; } // afloat\n";
        assert_eq!(
            in_double(source, source).unwrap(),
            "#include <math.h>\n#include <float.h>\nvoid f(const double *x, double *y) { y[0] = exp(x[0]) + 0.5f; } // afloat\n"
        );
    }

    #[test]
    fn what_is_more_than_words_is_left_to_the_author() {
        for source in [
            "__m256 a;",
            "float4 v;",
            "asm(\"\");",
            "__half h;",
            "_mm_pause();",
            "const __grid_constant__ CUtensorMap m",
        ] {
            assert_eq!(in_double(source, source), None, "{source}");
        }
    }
}
