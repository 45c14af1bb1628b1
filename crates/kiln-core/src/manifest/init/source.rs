//! Just enough C and CUDA to find tunables and functions. Not a parser: macros are not expanded and
//! what is not understood is skipped, because a person reads the result.

use crate::dtype::DType;
use crate::manifest::decode::{is_identifier, wrong_name};
use crate::manifest::keys::NameRule;

/// `#ifndef NAME`, `#define NAME value`, `#endif`: a value the compiler's command line may replace.
#[derive(Debug, PartialEq)]
pub(super) struct Guard {
    pub name: String,
    pub value: String,
    /// The source tests it: `#if NAME` or `if (NAME)`.
    pub is_tested: bool,
}

#[derive(Debug, PartialEq)]
pub(super) struct Function {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub is_global: bool,
    /// `static` or `inline`: not to be called from outside.
    pub is_local: bool,
    /// What is between its braces.
    pub body: String,
}

#[derive(Debug, PartialEq)]
pub(super) struct Parameter {
    pub name: String,
    /// Without qualifiers and stars, single blanks.
    pub c_type: String,
    pub dtype: Option<DType>,
    pub passing: Passing,
    /// What is in brackets behind the name: `[h][w]`.
    pub brackets: String,
}

impl Parameter {
    /// An array of arrays, which in C is no pointer to elements.
    pub fn is_nested(&self) -> bool {
        self.brackets.matches('[').count() > 1
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Passing {
    Value,
    /// A pointer to what the function only reads.
    ConstPointer,
    Pointer,
}

/// The text with comments and the contents of literals replaced by blanks; lines stay lines.
pub(in crate::manifest) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('/', Some('/')) => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
                out.push(' ');
            }
            ('/', Some('*')) => {
                rest.next();
                let mut previous = ' ';
                for c in rest.by_ref() {
                    if c == '\n' {
                        out.push('\n');
                    }
                    if previous == '*' && c == '/' {
                        break;
                    }
                    previous = c;
                }
                out.push(' ');
            }
            // In C++ `1'000` is a number.
            ('\'', Some(next)) if next.is_ascii_alphanumeric() && ends_in_number(&out) => {
                out.push(c);
            }
            ('"' | '\'', _) => {
                out.push(c);
                while let Some(inner) = rest.next() {
                    if inner == '\\' {
                        rest.next();
                    }
                    if inner == c || inner == '\n' {
                        out.push(inner);
                        break;
                    }
                }
            }
            _ => out.push(c),
        }
    }
    out
}

fn ends_in_number(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_'".contains(c);
    let last = text.rsplit(|c| !is_part(c)).next().unwrap_or_default();
    last.starts_with(|c: char| c.is_ascii_digit())
}

/// A preprocessor line as its words: `# ifndef X` is `["ifndef", "X"]`.
fn directive(line: &str) -> Option<Vec<&str>> {
    let rest = line.trim_start().strip_prefix('#')?;
    Some(rest.split_whitespace().collect())
}

pub(super) fn guards(text: &str) -> Vec<Guard> {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let mut guards: Vec<Guard> = Vec::new();
    for window in lines.windows(3) {
        let Some((name, value)) = guarded(window) else {
            continue;
        };
        let can_be_named = wrong_name(NameRule::Identifier, name).is_none();
        if can_be_named && !guards.iter().any(|g| g.name == name) {
            guards.push(Guard {
                name: name.to_string(),
                value,
                is_tested: is_tested(name, &lines),
            });
        }
    }
    guards
}

/// The name and value of three lines that guard a definition. A header's own guard has no value
/// and its `#endif` is far away.
fn guarded<'t>(window: &[&'t str]) -> Option<(&'t str, String)> {
    let opening = directive(window[0])?;
    let name = match opening[..] {
        ["ifndef", name] => name,
        ["if", condition] => condition
            .strip_prefix("!defined(")
            .and_then(|c| c.strip_suffix(')'))?,
        _ => return None,
    };
    let definition = directive(window[1])?;
    let value = match definition[..] {
        ["define", defined, ref value @ ..] if defined == name && !value.is_empty() => {
            value.join(" ")
        }
        _ => return None,
    };
    // What is inside quotes has been blanked, and quotes rarely survive a command line anyway.
    if value.contains(['"', '\'']) {
        return None;
    }
    let closes = directive(window[2])?.first() == Some(&"endif");
    closes.then_some((name, value))
}

fn is_tested(name: &str, lines: &[&str]) -> bool {
    lines.iter().any(|line| {
        let tested = match directive(line) {
            Some(words) if matches!(words.first(), Some(&"if" | &"elif")) => words[1..].concat(),
            _ => {
                let squeezed: String = line.split_whitespace().collect();
                match squeezed.find("if(") {
                    Some(at) => squeezed[at + 3..]
                        .split(')')
                        .next()
                        .unwrap_or("")
                        .to_string(),
                    None => return false,
                }
            }
        };
        let bare = tested.trim_start_matches(['!', '(']).trim_end_matches(')');
        bare == name
    })
}

/// Definitions at the top level, in order.
pub(super) fn functions(text: &str) -> Vec<Function> {
    let text = without_directives(text);
    let mut found: Vec<Function> = Vec::new();
    let mut header = String::new();
    let mut body = String::new();
    let mut open: Option<Function> = None;
    let mut depth = 0_usize;
    for c in text.chars() {
        if depth > 0 {
            body.push(c);
        }
        match c {
            '{' if depth > 0 => depth += 1,
            '{' => {
                let words: Vec<&str> = header.split_whitespace().collect();
                let is_scope = matches!(words.first(), Some(&"extern" | &"namespace"))
                    && !header.contains('(');
                if !is_scope {
                    open = function(&header);
                    depth = 1;
                    body.clear();
                }
                header.clear();
            }
            '}' => {
                depth = depth.saturating_sub(1);
                header.clear();
                if depth == 0 {
                    body.pop();
                    found.extend(open.take().map(|f| Function {
                        body: std::mem::take(&mut body),
                        ..f
                    }));
                }
            }
            ';' if depth == 0 => header.clear(),
            _ if depth == 0 => header.push(c),
            _ => {}
        }
    }
    // A brace that is never closed: the file is cut off, but what it begins can be seen.
    found.extend(open.map(|f| Function { body, ..f }));
    found
}

fn without_directives(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut continued = false;
    for line in text.lines() {
        let is_directive = continued || line.trim_start().starts_with('#');
        continued = is_directive && line.trim_end().ends_with('\\');
        if !is_directive {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Reads `type name(parameters)`; `None` when the text before `{` is something else.
fn function(header: &str) -> Option<Function> {
    let header = header.trim_end();
    let close = header.rfind(')')?;
    let open = opening(&header[..close])?;
    let before = header[..open].trim_end();
    let start = before
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .map_or(0, |n| {
            n + before[n..].chars().next().map_or(1, char::len_utf8)
        });
    let name = &before[start..];
    let prefix = &before[..start];
    // A definition has a return type in front; `if (…) {` and macro calls have not.
    if !is_identifier(name) || prefix.trim().is_empty() || prefix.contains('=') {
        return None;
    }
    let has_word = |wanted: &str| words(prefix).any(|w| w == wanted);
    let parameters = parameters(&header[open + 1..close]);
    Some(Function {
        name: name.to_string(),
        parameters,
        is_global: has_word("__global__"),
        is_local: has_word("static") || has_word("inline") || has_word("__device__"),
        body: String::new(),
    })
}

/// Where the parenthesis opens that ends where `text` does.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|w| !w.is_empty())
}

fn parameters(text: &str) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for part in split_commas(text) {
        if part.is_empty() || part == "void" || part == "..." {
            continue;
        }
        let mut parameter = parameter(&part, parameters.len() + 1);
        if parameters.iter().any(|p| p.name == parameter.name) {
            parameter.name = format!("argument_{}", parameters.len() + 1);
        }
        parameters.push(parameter);
    }
    parameters
}

/// Parts between commas outside parentheses, brackets and templates.
fn split_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_i32;
    for c in text.chars() {
        match c {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(part) if c != ',' || depth > 0 => part.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts.iter().map(|p| p.trim().to_string()).collect()
}

fn parameter(text: &str, number: usize) -> Parameter {
    const QUALIFIERS: [&str; 9] = [
        "const",
        "restrict",
        "__restrict__",
        "__restrict",
        "volatile",
        "register",
        "struct",
        "__grid_constant__",
        "static",
    ];
    let declared = text.split('[').next().unwrap_or(text);
    let brackets = text[declared.len()..].trim().to_string();
    // However many brackets, the elements lie behind one address.
    let stars = declared.matches('*').count() + usize::from(!brackets.is_empty());
    let before_star = declared.split('*').next().unwrap_or(declared);
    let is_const = words(before_star).any(|w| w == "const");
    let mut rest: Vec<&str> = words(declared)
        .filter(|w| !QUALIFIERS.contains(w))
        .collect();
    let is_complete = |type_words: &[&str]| {
        let c_type = type_words.join(" ");
        c_type == "void" || DType::from_foreign_name(&c_type).is_some()
    };
    // `unsigned` alone is a type without a name; anything else ends in the parameter's name.
    let name = match rest.len() {
        0 | 1 => None,
        _ if is_complete(&rest) => None,
        _ => rest.pop(),
    };
    let c_type = rest.join(" ");
    Parameter {
        name: name
            .filter(|n| wrong_name(NameRule::Parameter, n).is_none())
            .map_or(format!("argument_{number}"), String::from),
        dtype: match stars {
            0 | 1 => DType::from_foreign_name(&c_type),
            _ => None,
        },
        passing: match (stars, is_const) {
            (0, _) => Passing::Value,
            (_, true) => Passing::ConstPointer,
            (_, false) => Passing::Pointer,
        },
        c_type: format!("{c_type}{}", "*".repeat(stars.saturating_sub(1))),
        brackets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Function {
        let mut found = functions(&without_comments(text));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    fn summary(function: &Function) -> Vec<String> {
        let describe = |p: &Parameter| format!("{} {} {:?}", p.c_type, p.name, p.passing);
        function.parameters.iter().map(describe).collect()
    }

    #[test]
    fn reads_parameters() {
        let function = one(
            "void f(const float *restrict x, float const* y, double *out,\n  unsigned long long n, float a[16], size_t, const int k) { }",
        );
        assert_eq!(
            summary(&function),
            [
                "float x ConstPointer",
                "float y ConstPointer",
                "double out Pointer",
                "unsigned long long n Value",
                "float a Pointer",
                "size_t argument_6 Value",
                "int k Value",
            ]
        );
    }

    #[test]
    fn reads_cuda() {
        let function = one(
            "extern \"C\" {\ntemplate <int A, int B> __global__ void __launch_bounds__(256, 2)\nk(const __half* __restrict__ q, __nv_bfloat16* o, int n) { if (n) { } }\n}",
        );
        assert!(function.is_global);
        assert_eq!(function.name, "k");
        assert_eq!(function.parameters[1].dtype, Some(DType::Bf16));
    }

    #[test]
    fn skips_what_is_no_function() {
        let text = "struct a { int (*f)(int); };\nint t[] = { 1 };\nint later(int);\n#define M(x) { \\\n  x }\n/* void g() { */ // void h() {\nstatic int s(void) { return '}'; }\nint real(float *x) { return \"{\"[0]; }";
        let found = functions(&without_comments(text));
        let names: Vec<&str> = found.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["s", "real"]);
        assert_eq!(found[1].body.trim(), "return \"\"[0];");
        assert!(found[0].is_local && !found[1].is_local);
    }

    #[test]
    fn reads_guards() {
        let text = "#ifndef FILE_H\n#define FILE_H\n#ifndef TILE // tile\n# define TILE (32)\n#endif\n\n#if !defined(FAST)\n#define FAST 1\n#endif\n#if FAST\n#endif\n#endif";
        let found = guards(&without_comments(text));
        let pairs: Vec<(&str, &str, bool)> = found
            .iter()
            .map(|g| (g.name.as_str(), g.value.as_str(), g.is_tested))
            .collect();
        assert_eq!(pairs, [("TILE", "(32)", false), ("FAST", "1", true)]);
    }
}
