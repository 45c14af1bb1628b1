//! What can be read off a C or CUDA source without a compiler: words, comments left out.

/// The text without comments and strings, as long as before so that lines stay lines.
pub fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('/', Some('/')) => {
                for c in rest.by_ref() {
                    if c == '\n' {
                        out.push('\n');
                        break;
                    }
                }
            }
            ('/', Some('*')) => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if c == '\n' {
                        out.push('\n');
                    }
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                out.push(' ');
            }
            ('"', _) => {
                let mut escaped = false;
                for c in rest.by_ref() {
                    match c {
                        _ if escaped => escaped = false,
                        '\\' => escaped = true,
                        '"' | '\n' => break,
                        _ => {}
                    }
                }
                out.push_str("\"\"");
            }
            _ => out.push(c),
        }
    }
    out
}

/// Assertions that the compiler checks.
pub fn static_assertions(code: &str) -> usize {
    let words = ["static_assert", "_Static_assert"];
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let asserted = code
        .split(|c| !is_word(c))
        .filter(|word| words.contains(word))
        .count();
    let errors = code.lines().filter(|line| {
        let line = line.trim_start();
        line.strip_prefix('#')
            .is_some_and(|rest| rest.trim_start().starts_with("error"))
    });
    asserted + errors.count()
}

/// Tunables that the source defines whatever the build says: outside of every condition. What holds of a condition a
/// compiler knows; the guard of a header holds once.
pub fn overridden<'t>(code: &str, tunables: &[&'t str]) -> Vec<&'t str> {
    let mut found = Vec::new();
    // The name of an `#ifndef`, until it is known to be a header's guard: then nothing.
    let mut open: Vec<Option<String>> = Vec::new();
    for line in code.lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let mut words = directive.split_whitespace();
        match (words.next(), words.next()) {
            (Some("ifndef"), Some(name)) => open.push(Some(name.to_string())),
            (Some("if" | "ifdef"), _) => open.push(Some(String::new())),
            (Some("endif"), _) => {
                open.pop();
            }
            (Some("define"), Some(name)) => {
                let name = name.split('(').next().unwrap_or(name);
                match tunables.iter().find(|t| **t == name) {
                    Some(tunable) if open.iter().all(Option::is_none) => {
                        if !found.contains(tunable) {
                            found.push(*tunable);
                        }
                    }
                    Some(_) => {}
                    None => {
                        if let Some(last) = open.last_mut()
                            && last.as_deref() == Some(name)
                        {
                            *last = None;
                        }
                    }
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_no_code() {
        let code =
            code_only("a // static_assert\n/* _Static_assert\n*/ b \"static_assert\" '\"' c");
        assert_eq!(static_assertions(&code), 0, "{code}");
        assert_eq!(code.lines().count(), 3);
        for text in [
            "static_assert(N > 0, \"n\");",
            "_Static_assert(N,\"\");",
            "#if N\n#  error \"no\"\n#endif",
        ] {
            assert_eq!(static_assertions(&code_only(text)), 1, "{text}");
        }
    }

    #[test]
    fn a_define_without_a_guard_overrides() {
        let tunables = ["UNROLL", "BLOCK"];
        let guarded = "#ifndef UNROLL\n#define UNROLL 4\n#endif\n#if !defined(BLOCK)\n#define BLOCK 2\n#endif";
        assert!(overridden(guarded, &tunables).is_empty());
        let bare = "#define UNROLL 4\n#define OTHER 1\n";
        assert_eq!(overridden(bare, &tunables), ["UNROLL"]);
        let other = "#ifdef X\n#define BLOCK 4\n#endif\n#define BLOCK(x) x\n";
        assert_eq!(overridden(other, &tunables), ["BLOCK"]);
        let else_branch = "#ifdef UNROLL\n#else\n#define UNROLL 1\n#endif\n#ifdef __cplusplus\n#define BLOCK 2\n#endif\n";
        assert!(overridden(else_branch, &tunables).is_empty());
        let header = "#ifndef K_H\n#define K_H\n#define UNROLL 4\n#endif\n";
        assert_eq!(overridden(header, &tunables), ["UNROLL"]);
    }
}
