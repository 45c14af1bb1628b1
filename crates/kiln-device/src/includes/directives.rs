//! The directives of a text that name other files, also those under `#if 0`.

/// Something a text includes or asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Include {
    Named {
        form: Form,
        name: String,
    },
    /// By a macro: only the compiler knows what.
    Computed,
    /// A macro stands for this name; whether it is included shows elsewhere.
    Meant(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Quoted,
    Angled,
    /// `#include_next`.
    Next,
}

/// `__has_include`, and macros that wrap it and say so: `_CCCL_HAS_INCLUDE` is in every header of
/// NVIDIA's C++ library.
const ASKS: &str = "has_include";

pub(super) fn includes_of(text: &[u8]) -> Vec<Include> {
    let code = without_comments(&joined(text));
    let code = String::from_utf8_lossy(&code);
    let mut found = Vec::new();
    for line in code.lines() {
        let line = line.trim_start();
        // `%:` and `??=` are other spellings of `#`.
        let hashes = ["#", "%:", "??="];
        let Some(rest) = hashes.iter().find_map(|hash| line.strip_prefix(hash)) else {
            continue;
        };
        let (directive, rest) = split_word(rest.trim_start());
        match directive {
            "include" => found.extend(included(rest, None)),
            "include_next" => found.extend(included(rest, Some(Form::Next))),
            "define" => {
                found.extend(asked_in_definition(rest));
                found.extend(meant(rest));
            }
            // As `#include`, to compilers of C.
            "import" => found.extend(included(rest, None)),
            _ => asked(rest, &mut found),
        }
    }
    found
}

fn included(rest: &str, form: Option<Form>) -> Option<Include> {
    let rest = rest.trim();
    if rest.is_empty() || is_of_cccl(rest) {
        return None;
    }
    Some(match literal(rest) {
        Some((found, name)) => Include::Named {
            form: form.unwrap_or(found),
            name: name.to_string(),
        },
        None => Include::Computed,
    })
}

/// Thrust's headers, which CUB's reach, choose their backend by macros that Thrust itself sets. Not
/// to know them costs nothing: they belong to the toolchain, whose identity is in every key.
fn is_of_cccl(name: &str) -> bool {
    name.starts_with("__THRUST_") || name == "THRUST_MR_STD_MR_HEADER"
}

/// A name in quotes or angle brackets at the start of a text.
fn literal(text: &str) -> Option<(Form, &str)> {
    let (form, close) = match text.chars().next()? {
        '"' => (Form::Quoted, '"'),
        '<' => (Form::Angled, '>'),
        _ => return None,
    };
    let (name, _) = text[1..].split_once(close)?;
    Some((form, name))
}

/// `__has_include(...)` in `#if` and `#elif`.
fn asked(line: &str, found: &mut Vec<Include>) {
    for argument in arguments(line) {
        match argument.map(literal) {
            Some(Some((form, name))) => found.push(Include::Named {
                form,
                name: name.to_string(),
            }),
            Some(None) => found.push(Include::Computed),
            // `defined(__has_include)`.
            None => {}
        }
    }
}

/// `H "name"` and `H <name>`.
fn meant(rest: &str) -> Option<Include> {
    let (_, body) = split_word(rest.trim_start());
    let (form, name) = literal(body.trim())?;
    let is_all = body.trim().len() == name.len() + 2;
    // `#define X <` is a sign, and a text with escapes is none of a file.
    let is_name = !name.is_empty() && !name.contains('\\') && form != Form::Next;
    (is_all && is_name).then(|| Include::Meant(name.to_string()))
}

fn asked_in_definition(rest: &str) -> Option<Include> {
    let (name, body) = split_word(rest.trim_start());
    let mut arguments = arguments(body).peekable();
    arguments.peek()?;
    // Uses of such a macro are seen by its name. One by another name could be used anywhere.
    let plain = |argument: Option<&str>| argument.is_some_and(|text| literal(text).is_none());
    let is_seen = name.to_ascii_lowercase().ends_with(ASKS) && arguments.all(plain);
    (!is_seen).then_some(Include::Computed)
}

/// What stands behind the parenthesis of each `__has_include`; nothing where there is none.
fn arguments(line: &str) -> impl Iterator<Item = Option<&str>> {
    let lower = line.to_ascii_lowercase();
    let places: Vec<usize> = lower.match_indices(ASKS).map(|(at, _)| at).collect();
    places.into_iter().filter_map(move |at| {
        let rest = &line[at + ASKS.len()..];
        let tail = rest
            .get(..5)
            .filter(|tail| tail.eq_ignore_ascii_case("_next"));
        let rest = if tail.is_some() { &rest[5..] } else { rest };
        if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        Some(rest.trim_start().strip_prefix('(').map(str::trim_start))
    })
}

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    text.split_at(end.unwrap_or(text.len()))
}

/// A line may go on behind a backslash, even in the middle of a word.
fn joined(text: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match &text[at..] {
            [b'\\', b'\n', ..] => at += 2,
            [b'\\', b'\r', b'\n', ..] => at += 3,
            rest => {
                whole.push(rest[0]);
                at += 1;
            }
        }
    }
    whole
}

/// With a space for every comment, and raw strings emptied: both may hold what looks like lines.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let mut code: Vec<u8> = Vec::with_capacity(text.len());
    let mut line = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = match rest {
            [b'/', b'*', ..] => {
                code.push(b' ');
                2 + find(&rest[2..], b"*/").map_or(rest.len() - 2, |end| end + 2)
            }
            [b'/', b'/', ..] => find(rest, b"\n").unwrap_or(rest.len()),
            [b'"', ..] if raw_string(&code, rest).is_some() => {
                let length = raw_string(&code, rest).unwrap_or(1);
                code.extend(b"\"\"");
                length
            }
            [quote @ (b'"' | b'\'' | b'<'), ..] => {
                let length = quoted(*quote, &code[line..], rest).unwrap_or(1);
                code.extend(&rest[..length]);
                length
            }
            _ => {
                code.push(rest[0]);
                if rest[0] == b'\n' {
                    line = code.len();
                }
                1
            }
        };
        at += length;
    }
    code
}

/// The length of a literal or header name that starts here, if it ends on its line.
fn quoted(quote: u8, line: &[u8], rest: &[u8]) -> Option<usize> {
    let names_file = || {
        let line = String::from_utf8_lossy(line).to_ascii_lowercase();
        let line = line.trim_end().trim_end_matches('(').trim_end();
        line.ends_with("include") || line.ends_with("include_next")
    };
    let close = match quote {
        b'<' if names_file() => b'>',
        b'<' => return None,
        // `1'000` and `don't` hold no character.
        b'\'' if !matches!(word_before(line), b"" | b"L" | b"u" | b"U" | b"u8") => return None,
        quote => quote,
    };
    let mut at = 1;
    loop {
        match rest.get(at)? {
            b'\n' => return None,
            b'\\' if quote != b'<' => at += 2,
            byte if *byte == close => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// The length of `"delimiter(...)delimiter"`, if a prefix stands before it.
fn raw_string(code: &[u8], rest: &[u8]) -> Option<usize> {
    if !matches!(word_before(code), b"R" | b"LR" | b"uR" | b"UR" | b"u8R") {
        return None;
    }
    // The standard allows 16 characters.
    let open = rest.iter().take(18).position(|byte| *byte == b'(')?;
    let delimiter = &rest[1..open];
    if delimiter
        .iter()
        .any(|b| b.is_ascii_whitespace() || b"\\)\"".contains(b))
    {
        return None;
    }
    let close = [b")", delimiter, b"\""].concat();
    Some(open + find(&rest[open..], &close)? + close.len())
}

/// The letters and digits a text ends with.
fn word_before(text: &[u8]) -> &[u8] {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let start = text.iter().rposition(|byte| !is_word(byte));
    &text[start.map_or(0, |at| at + 1)..]
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(name: &str) -> Include {
        Include::Named {
            form: Form::Quoted,
            name: name.into(),
        }
    }

    fn angled(name: &str) -> Include {
        Include::Named {
            form: Form::Angled,
            name: name.into(),
        }
    }

    fn of(text: &str) -> Vec<Include> {
        includes_of(text.as_bytes())
    }

    #[test]
    fn directives_in_every_spelling() {
        let text = "#include \"a.h\"\n  #  include<b.h>\n#include/* x */ \"c.h\" // d\n\
                    #inc\\\nlude \"e.h\"\n#include HEADER\n#include_next <f.h>\nint include;\n\
                    // #include \"no.h\"\n/* x */ #include \"g.h\"\n#includes \"no.h\"\n%:include \"h.h\"\r\n";
        let expected = [
            quoted("a.h"),
            angled("b.h"),
            quoted("c.h"),
            quoted("e.h"),
            Include::Computed,
            Include::Named {
                form: Form::Next,
                name: "f.h".into(),
            },
            quoted("g.h"),
            quoted("h.h"),
        ];
        assert_eq!(of(text), expected);
    }

    #[test]
    fn comments_over_several_lines_hide_nothing() {
        let h = [quoted("h.h")];
        for text in [
            "/* x\n*/ #include \"h.h\"\n",
            "#include /* x\n*/ \"h.h\"\n",
            "/* x\n*/#/*\n\n*/include/*\n*/\"h.h\"",
            "/*\n#include \"no.h\"\n*/\n#include \"h.h\"\n",
            "const char *s = \"/*\";\n#include \"h.h\"\n",
            "const char *s = \"\\\"/*\";\n#include \"h.h\"\n",
            "char c = '\"'; /* \"\n*/\n#include \"h.h\"\n",
            "int n = 1'000; // '\n#include \"h.h\"\n",
            "#if 0\ndon't /* x\n*/\n#endif\n#include \"h.h\"\n",
            "auto s = R\"x(\n/* )\" \n)x\";\n#include \"h.h\"\n",
            "auto s = R\"(\n#include \"no.h\"\n)\";\n#include \"h.h\"\n",
            "// x \\\n#include \"no.h\"\n#include \"h.h\"\n",
        ] {
            assert_eq!(of(text), h, "{text}");
        }
        assert_eq!(of("#include <a//b.h>\n"), [angled("a//b.h")]);
        assert_eq!(of("#include \"a/*b.h\"\n"), [quoted("a/*b.h")]);
    }

    #[test]
    fn questions_are_seen_and_those_by_macro_too() {
        assert_eq!(
            of("#if defined(__has_include) && __has_include ( \"h.h\" )\n"),
            [quoted("h.h")]
        );
        assert_eq!(
            of("#elif __has_include(<a.h>) || __has_include_next(<b//c.h>)\n"),
            [angled("a.h"), angled("b//c.h")]
        );
        let cccl = "#ifdef __has_include\n# define _CCCL_HAS_INCLUDE(_X) __has_include(_X)\n#else\n\
                    # define _CCCL_HAS_INCLUDE(_X) 0\n#endif\n#if _CCCL_HAS_INCLUDE(<c.h>)\n#endif\n";
        assert_eq!(of(cccl), [angled("c.h")]);
        for text in [
            "#if __has_include(HEADER)\n",
            "#define HAS(x) __has_include(x)\n",
            "#define HAS __has_include\n",
            "#define MY_HAS_INCLUDE(x) __has_include(<sub/x>)\n",
            "#include HEADER(x)\n",
            "#include \"no end\n",
        ] {
            assert_eq!(of(text), [Include::Computed], "{text}");
        }
        assert_eq!(of("#include __THRUST_HOST_SYSTEM_SORT_HEADER\n"), []);
        let meant = |name: &str| [Include::Meant(name.into())];
        assert_eq!(of("#define H \"a.h\"\n"), meant("a.h"));
        assert_eq!(of("# define H <b/c.h> // x\n"), meant("b/c.h"));
        for text in [
            "#define H a.h\n",
            "#define H \"a\" \"b\"\n",
            "#define H(x) \"a\"\n",
        ] {
            assert_eq!(of(text), [], "{text}");
        }
    }
}
