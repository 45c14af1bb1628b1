//! Names that are words in none of the languages exported to.

/// Words of Python, C++ and Rust that a C identifier may be.
const WORDS: &[&str] = &[
    "Self",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "bool",
    "catch",
    "class",
    "concept",
    "crate",
    "def",
    "del",
    "delete",
    "dyn",
    "elif",
    "except",
    "explicit",
    "export",
    "false",
    "finally",
    "fn",
    "friend",
    "from",
    "global",
    "impl",
    "import",
    "in",
    "is",
    "lambda",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "mutable",
    "namespace",
    "new",
    "nonlocal",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "pass",
    "priv",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "ref",
    "requires",
    "self",
    "super",
    "template",
    "this",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "typename",
    "unsafe",
    "use",
    "using",
    "virtual",
    "where",
    "with",
    "xor",
    "yield",
];

/// A name as it is written in generated code.
pub fn safe(name: &str) -> String {
    match WORDS.contains(&name) {
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
    if made.starts_with(|c: char| c.is_ascii_digit()) || made.is_empty() {
        made.insert(0, '_');
    }
    safe(&made)
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
    }
}
