//! C and CUDA as tokens: enough of the language to find places that can be changed.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Word,
    Number,
    Punctuation,
}

#[derive(Clone, Debug)]
pub struct Token<'s> {
    pub kind: Kind,
    pub text: &'s str,
    pub start: usize,
    /// Counted from 1.
    pub line: usize,
}

impl Token<'_> {
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

/// Longest first.
const PUNCTUATION: [&str; 22] = [
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "::",
];

/// Statements whose contents change nothing at run time, or are another language.
const OPAQUE: [&str; 6] = [
    "_Static_assert",
    "static_assert",
    "asm",
    "__asm__",
    "__attribute__",
    "__launch_bounds__",
];

/// All tokens outside comments, strings, preprocessor lines and statements that are opaque.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    without_opaque(raw_tokens(source))
}

fn raw_tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    let mut is_line_start = true;
    while at < bytes.len() {
        let rest = &source[at..];
        let byte = bytes[at];
        let length = match byte {
            b'\n' => {
                line += 1;
                is_line_start = true;
                at += 1;
                continue;
            }
            b if b.is_ascii_whitespace() => 1,
            b'#' if is_line_start => directive(rest),
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            b'"' | b'\'' => quoted(rest),
            _ => {
                let (kind, length) = match byte {
                    b if b.is_ascii_alphabetic() || b == b'_' => (Kind::Word, word(rest)),
                    b if b.is_ascii_digit() => (Kind::Number, number(rest)),
                    _ => (Kind::Punctuation, punctuation(rest)),
                };
                tokens.push(Token {
                    kind,
                    text: &rest[..length],
                    start: at,
                    line,
                });
                length
            }
        };
        line += rest[..length].matches('\n').count();
        is_line_start &= byte.is_ascii_whitespace();
        at += length;
    }
    tokens
}

/// A preprocessor line with its continuations, without the last newline.
fn directive(rest: &str) -> usize {
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        end += line.len();
        if !line.trim_end().ends_with('\\') {
            break;
        }
    }
    rest[..end].trim_end_matches('\n').len()
}

fn quoted(rest: &str) -> usize {
    let quote = rest.as_bytes()[0];
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b if b == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn word(rest: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    rest.find(|c| !is_part(c)).unwrap_or(rest.len())
}

fn number(rest: &str) -> usize {
    let mut end = 0;
    let mut before = ' ';
    for c in rest.chars() {
        let signs_exponent = matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
        let is_hex = rest.starts_with("0x") || rest.starts_with("0X");
        if !(c.is_ascii_alphanumeric() || c == '.' || (signs_exponent && !is_hex)) {
            break;
        }
        end += c.len_utf8();
        before = c;
    }
    end
}

fn punctuation(rest: &str) -> usize {
    let found = PUNCTUATION.iter().find(|p| rest.starts_with(**p));
    found.map_or_else(
        || rest.chars().next().map_or(1, char::len_utf8),
        |p| p.len(),
    )
}

fn without_opaque(tokens: Vec<Token<'_>>) -> Vec<Token<'_>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let text = tokens[at].text;
        if OPAQUE.contains(&text) {
            at = end_of_call(&tokens, at);
        } else if text == "typedef" || text == "using" {
            at = next_of(&tokens, at, ";");
        } else if text == "template" {
            at = next_of(&tokens, at, ">");
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// Behind the closing parenthesis of the call that begins at `at`.
fn end_of_call(tokens: &[Token<'_>], at: usize) -> usize {
    let open = (at..tokens.len()).find(|i| tokens[*i].text == "(");
    let close = open.and_then(|open| closing(tokens, open));
    close.map_or(tokens.len(), |close| close + 1)
}

fn next_of(tokens: &[Token<'_>], at: usize, text: &str) -> usize {
    let found = (at..tokens.len()).find(|i| tokens[*i].text == text);
    found.map_or(tokens.len(), |i| i + 1)
}

/// The bracket that closes the one at `open`.
pub fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Where an expression that begins at `at` ends: before the first of these outside brackets, or
/// before a bracket that closes one opened earlier.
pub fn end_of_expression(tokens: &[Token<'_>], at: usize, ends: &[&str]) -> Option<usize> {
    let mut next = at;
    while next < tokens.len() {
        match tokens[next].text {
            text if ends.contains(&text) => return Some(next),
            ")" | "]" | "}" => return Some(next),
            "(" | "[" | "{" => next = closing(tokens, next)? + 1,
            _ => next += 1,
        }
    }
    None
}
