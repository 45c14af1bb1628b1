//! Text from files, kernels and compilers made harmless in what kiln writes: whatever it says, none of it
//! is markup there. For terminals that is `diagnostic::printable`.
//!
//! Every writer of a format has its function here, and every function here its check in
//! `fuzz/src/markup.rs`.

use std::borrow::Cow;

/// For attributes and elements of XML; characters that XML 1.0 cannot hold become spaces.
pub fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' => escaped.push_str("&#10;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// For one line of Markdown: names come from manifests and kernels, and none of them makes a table, a link
/// or a tag. That includes the addresses that GitHub makes links of wherever they stand.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::new();
    let mut before = ' ';
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let is_address = match c {
            ':' => rest.as_str().starts_with("//"),
            '.' => matches!(before, 'w' | 'W'),
            _ => false,
        };
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '|' | '!' | '~'
            | '@' | '$' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if is_address => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
        before = c;
    }
    escaped
}

/// For a JSON document that may be read at a terminal. JSON itself escapes the first 32 control
/// characters; terminals obey the later ones too. They can only be inside strings, where an escape
/// means the same.
pub fn json(document: &str) -> Cow<'_, str> {
    let is_late_control = |c: char| c != '\n' && c.is_control();
    if !document.contains(is_late_control) {
        return document.into();
    }
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        match is_late_control(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_is_markdown() {
        assert_eq!(
            markdown("a|b\n<img> [x](y)"),
            "a\\|b &lt;img&gt; \\[x\\]\\(y\\)"
        );
        assert_eq!(markdown("SAME 0.99x"), "SAME 0.99x");
        assert_eq!(markdown("a: http://b www.c"), "a: http\\://b www\\.c");
    }

    #[test]
    fn json_keeps_its_meaning_without_control_characters() {
        let value = serde_json::json!({"a\u{9b}31m": "\u{1b}[2J\u{7f}\u{85}\n plain ä"});
        let text = format!("{value:#}");
        let shown = json(&text);
        assert!(
            shown.chars().all(|c| c == '\n' || !c.is_control()),
            "{shown}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
