//! Expressions inside TOML strings: parsed, tied to names, with errors placed inside the string.

use std::ops::Range;

use toml::de::DeValue;

use super::Problems;
use super::section::{Item, number, whole};
use crate::diagnostic::Diagnostic;
use crate::expression::{Expr, ExprError};
use crate::value::Value;

/// What expressions are read with: the names a manifest introduces.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    /// The manifest, where mistakes inside of strings are placed.
    pub text: &'a str,
    pub tunables: Vec<String>,
    pub dimensions: Vec<String>,
    /// False when the file has no readable shape: unknown names are then a consequence, not a
    /// mistake of their own.
    pub dimensions_known: bool,
}

/// Which names an expression may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scope {
    TunablesAndDimensions,
    /// With the reason tunables are left out, shown when one is used.
    Dimensions(&'static str),
}

impl Names<'_> {
    pub fn within(&self, scope: Scope) -> Vec<&str> {
        let dimensions = self.dimensions.iter();
        match scope {
            Scope::TunablesAndDimensions => {
                let both = self.tunables.iter().chain(dimensions);
                both.map(String::as_str).collect()
            }
            Scope::Dimensions(_) => dimensions.map(String::as_str).collect(),
        }
    }
}

/// Reads an expression or a number; a mistake is reported and `1` stands in.
pub(super) fn read(item: &Item, scope: Scope, names: &Names, problems: &mut Problems) -> Expr {
    let stand_in = Expr::constant(1);
    let source = match item.get_ref() {
        DeValue::Integer(_) => return whole(item).map_or(stand_in, Expr::constant),
        DeValue::Float(_) => {
            let literal = number(item).map(|x| Value::Float(x).to_string());
            return literal
                .and_then(|literal| Expr::parse(&literal).ok())
                .unwrap_or(stand_in);
        }
        DeValue::String(source) => source,
        _ => return stand_in,
    };
    let expr = match Expr::parse(source) {
        Ok(expr) => expr,
        Err(error) => {
            problems.push(place(names.text, item, error));
            return stand_in;
        }
    };
    if !names.dimensions_known {
        return expr;
    }
    if let Err(mut error) = expr.bind(&names.within(scope)) {
        let name = source.get(error.span.clone()).unwrap_or_default();
        let is_tunable = names.tunables.iter().any(|t| t == name);
        if let (Scope::Dimensions(reason), true) = (scope, is_tunable) {
            error.message = format!("tunable `{name}` cannot be used here");
            error.hint = Some(reason.to_string());
        }
        problems.push(place(names.text, item, error));
    }
    expr
}

/// An error in an expression, placed in the file.
pub(super) fn place(text: &str, item: &Item, error: ExprError) -> Diagnostic {
    let span = within_string(text, item.span(), error.span);
    let problem = Diagnostic::new(error.message, span);
    match error.hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// The byte range in the file of `inner`, a range of the string that `literal` spells.
pub(super) fn within_string(
    text: &str,
    literal: Range<usize>,
    inner: Range<usize>,
) -> Range<usize> {
    let Some(raw) = text.get(literal.clone()) else {
        return literal;
    };
    let Some(offsets) = offsets(raw) else {
        return literal;
    };
    match (offsets.get(inner.start), offsets.get(inner.end)) {
        (Some(start), Some(end)) => literal.start + start..literal.start + end,
        _ => literal,
    }
}

/// For every byte of the decoded string, and its end, the offset in the literal as written.
fn offsets(raw: &str) -> Option<Vec<usize>> {
    let quote = raw.chars().next().filter(|q| *q == '"' || *q == '\'')?;
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let width = if raw.len() >= 6 && raw.starts_with(&triple) {
        3
    } else {
        1
    };
    let end = raw.len().checked_sub(width).filter(|end| *end >= width)?;
    let mut at = width;
    if width == 3 {
        // A newline right after the opening quotes is not part of the string.
        at += raw[at..end]
            .find('\n')
            .filter(|n| raw[at..at + n].trim().is_empty())
            .map_or(0, |n| n + 1);
    }
    let mut offsets = Vec::new();
    while at < end {
        let character = raw[at..end].chars().next()?;
        let (decoded_bytes, written_bytes) = match character {
            '\\' if quote == '"' => escape(&raw[at..end])?,
            other => (other.len_utf8(), other.len_utf8()),
        };
        if decoded_bytes == written_bytes {
            offsets.extend(at..at + written_bytes);
        } else {
            offsets.extend(std::iter::repeat_n(at, decoded_bytes));
        }
        at += written_bytes;
    }
    offsets.push(end);
    Some(offsets)
}

/// Length of an escape once decoded, and as written.
fn escape(raw: &str) -> Option<(usize, usize)> {
    let hex = |digits: usize| {
        let code = u32::from_str_radix(raw.get(2..2 + digits)?, 16).ok()?;
        Some((char::from_u32(code)?.len_utf8(), 2 + digits))
    };
    match raw[1..].chars().next()? {
        'x' => hex(2),
        'u' => hex(4),
        'U' => hex(8),
        c if c.is_whitespace() => {
            // A backslash at the end of a line swallows the white space that follows.
            Some((0, 1 + raw[1..].len() - raw[1..].trim_start().len()))
        }
        _ => Some((1, 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of the file that `needle` of the decoded string came from.
    fn found(text: &str, needle: &str) -> String {
        let table = toml::de::DeTable::parse(text).unwrap();
        let item = &table.get_ref()["x"];
        let decoded = item.get_ref().as_str().unwrap();
        let start = decoded.find(needle).unwrap();
        let span = within_string(text, item.span(), start..start + needle.len());
        text[span].to_string()
    }

    #[test]
    fn places_inside_every_kind_of_string() {
        assert_eq!(found("x = \"A + BAD\"", "BAD"), "BAD");
        assert_eq!(found("x = 'A + BAD'", "BAD"), "BAD");
        assert_eq!(found("x = \"é \\u00e9 \\t \\\" BAD\"", "BAD"), "BAD");
        assert_eq!(found("x = \"\"\"\nA\n + BAD\"\"\"", "BAD"), "BAD");
        assert_eq!(found("x = \"\"\"A \\\n   + BAD\"\"\"", "BAD"), "BAD");
        assert_eq!(found("x = '''A\n + BAD'''", "BAD"), "BAD");
        assert_eq!(found("x = \"A \\x42AD + C\"", "BAD"), "\\x42AD");
        assert_eq!(found("x = \"A +\"", ""), "");
    }
}
