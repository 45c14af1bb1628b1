//! Whether a source depends on the value of a macro, so that a tunable which makes no difference can be told.
//!
//! When in doubt, it does: a warning that is wrong is worse than one that is missing.

use super::init::without_comments;

/// Whether what a C or CUDA text means can depend on what the macro `name` stands for. Kiln defines it always, so asking
/// whether it is defined and giving it a default make no difference.
pub fn depends_on_macro(text: &str, name: &str) -> bool {
    // What is between quotes there is code.
    let text = match has_word(text, "_Pragma") {
        true => text.to_string(),
        false => without_comments(text),
    };
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    text.lines().any(|line| line_uses(line, name)) || may_be_pasted(&text, name)
}

fn line_uses(line: &str, name: &str) -> bool {
    if !has_word(line, name) {
        return false;
    }
    let Some(directive) = line.trim_start().strip_prefix('#') else {
        return true;
    };
    let mut found: Vec<&str> = words(directive).collect();
    match found.first() {
        Some(&"ifndef" | &"ifdef" | &"undef") => false,
        // Its own default; what it stands for is of no consequence.
        Some(&"define") if found.get(1) == Some(&name) => false,
        Some(&"if" | &"elif") => {
            let mut previous = "";
            found.retain(|word| {
                let asks_only = previous == "defined" && *word == name;
                previous = word;
                !asks_only
            });
            found.contains(&name)
        }
        _ => true,
    }
}

/// `BLOCK_##x` may make `BLOCK_M`.
fn may_be_pasted(text: &str, name: &str) -> bool {
    let mut pieces = text.split("##").peekable();
    while let (Some(left), Some(right)) = (pieces.next(), pieces.peek()) {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let before = left.trim_end().rsplit(|c| !is_word(c)).next();
        let after = right.trim_start().split(|c| !is_word(c)).next();
        let begins = before.is_some_and(|w| !w.is_empty() && name.starts_with(w));
        let ends = after.is_some_and(|w| !w.is_empty() && name.ends_with(w));
        if begins || ends {
            return true;
        }
    }
    false
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|w| !w.is_empty())
}

fn has_word(text: &str, name: &str) -> bool {
    words(text).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_depends_on_the_value_is_a_use() {
        let guard = "#ifndef TILE\n# define TILE 32\n#endif\n";
        for unused in [
            "",
            "// TILE\n/* TILE\n TILE */ int tile;",
            guard,
            "#if !defined(TILE)\n#define TILE 4\n#endif",
            "#ifdef TILE\nint x;\n#endif\n#undef TILE",
            "#if defined TILE && X > 2\n#endif",
            "int TILES; int MY_TILE;",
            "const char *s = \"TILE\";",
            "#define NAME(x) block_##x",
        ] {
            assert!(!depends_on_macro(unused, "TILE"), "{unused}");
        }
        for used in [
            "for (int i = 0; i < TILE; i++) {}",
            "#if TILE > 2\n#endif",
            "#if defined(TILE) && TILE > 2\n#endif",
            "#define SIZE (2 * TILE)",
            "#define SIZE \\\n  TILE",
            "#pragma unroll TILE",
            "_Pragma(\"omp parallel for schedule(static, TILE)\")",
            "#include HEADER(TILE)",
            "#define NAME(x) TI##x",
            "#define NAME(x) x ## LE",
            "#elif TILE == 8",
        ] {
            assert!(
                depends_on_macro(&format!("{guard}{used}"), "TILE"),
                "{used}"
            );
        }
    }
}
