//! Names that are words in none of the languages exported to.

/// Words of Python, C++ and Rust that a C identifier may be, and names that generated code gives to things of its own.
const WORDS: &[&str] = &[
    "Box",
    "Buffers",
    "Choice",
    "Dimensions",
    "Err",
    "Error",
    "False",
    "INT64_MAX",
    "INT64_MIN",
    "KNOWN",
    "Kernel",
    "NULL",
    "None",
    "Ok",
    "Option",
    "Result",
    "Self",
    "Some",
    "String",
    "True",
    "Vec",
    "abstract",
    "alignas",
    "aligned",
    "alignof",
    "and",
    "and_eq",
    "as",
    "asm",
    "assert",
    "async",
    "await",
    "become",
    "bitand",
    "bitor",
    "bool",
    "box",
    "catch",
    "char16_t",
    "char32_t",
    "char8_t",
    "choose",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "crate",
    "decltype",
    "def",
    "del",
    "delete",
    "do",
    "dyn",
    "dynamic_cast",
    "elif",
    "enum",
    "errno",
    "except",
    "explicit",
    "export",
    "extern",
    "false",
    "final",
    "finally",
    "fit",
    "fn",
    "friend",
    "from",
    "gen",
    "global",
    "goto",
    "impl",
    "import",
    "in",
    "int32_t",
    "int64_t",
    "is",
    "lambda",
    "launch",
    "let",
    "loop",
    "macro",
    "match",
    "max",
    "min",
    "mod",
    "move",
    "multiply",
    "mut",
    "mutable",
    "namespace",
    "narrow",
    "new",
    "noexcept",
    "nonlocal",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "override",
    "pass",
    "priv",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "ref",
    "register",
    "reinterpret_cast",
    "requires",
    "run",
    "self",
    "shapes",
    "size_t",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "super",
    "template",
    "this",
    "thread_local",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "typeid",
    "typename",
    "typeof",
    "uint64_t",
    "union",
    "unsafe",
    "unsized",
    "use",
    "using",
    "virtual",
    "wchar_t",
    "where",
    "with",
    "xor",
    "xor_eq",
    "yield",
];

/// What a kernel's name, which becomes a namespace, a crate and a module, meets there: functions of C's library and what a
/// package in Python offers.
const TAKEN: &[&str] = &[
    "FallsBack",
    "KernelError",
    "NearestShape",
    "abs",
    "alloc",
    "arithmetic",
    "core",
    "cos",
    "dispatch",
    "distance",
    "div",
    "driver",
    "exit",
    "exp",
    "explain",
    "fallback",
    "fmod",
    "free",
    "index",
    "log",
    "main",
    "malloc",
    "memcpy",
    "memory",
    "memset",
    "nearest",
    "pow",
    "prepare",
    "printf",
    "rand",
    "remainder",
    "remove",
    "round",
    "signal",
    "sin",
    "sqrt",
    "std",
    "tan",
    "test",
    "time",
    "Aligned",
    "Buffer",
];

/// A name as it is written in generated code. Python's helpers there begin with an underscore and never end with one, so a
/// name that begins with one gets one at its end: they cannot meet.
pub fn safe(name: &str) -> String {
    apart(name, WORDS)
}

/// With one underscore more than it has, where it is a word but for those: `class` and `class_` stay two names.
fn apart(name: &str, words: &[&str]) -> String {
    let plain = name.trim_end_matches('_');
    match name.starts_with('_') || words.contains(&plain) {
        true => format!("{name}_"),
        false => name.to_string(),
    }
}

/// A name with nothing in it that an identifier may not have.
pub fn identifier(name: &str) -> String {
    let mut made: String = name
        .chars()
        .map(|c| match c.is_ascii_alphanumeric() {
            true => c,
            false => '_',
        })
        .collect();
    made = match apart(&made, TAKEN) {
        same if same == made => safe(&made),
        other => other,
    };
    if made.starts_with(|c: char| c.is_ascii_digit()) || made.is_empty() {
        made.insert(0, '_');
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_of_every_language() {
        assert_eq!(identifier("attention.sm-90"), "attention_sm_90");
        assert_eq!(identifier("3d"), "_3d");
        assert_eq!(identifier("match"), "match_");
        assert_eq!(safe("S"), "S");
        assert_eq!(
            (safe("class"), safe("class_")),
            ("class_".into(), "class__".into())
        );
        assert_eq!(
            (safe("_"), safe("None"), safe("box")),
            ("__".into(), "None_".into(), "box_".into())
        );
        assert_eq!(
            (safe("_kernel"), safe("__debug__"), safe("_kernel_")),
            ("_kernel_".into(), "__debug___".into(), "_kernel__".into())
        );
        assert_eq!(
            (identifier("_3d"), identifier("_kernel")),
            ("_3d_".into(), "_kernel_".into())
        );
        assert_eq!(
            (identifier("std"), identifier("exp"), identifier("expdist")),
            ("std_".into(), "exp_".into(), "expdist".into())
        );
    }
}
