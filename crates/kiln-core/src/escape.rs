//! Text from files, kernels and compilers made harmless in what kiln writes: whatever it says, none of it
//! is markup there. For terminals that is `diagnostic::printable`.
//!
//! Every writer of a format has its function here, and every function here its check in
//! `fuzz/src/markup.rs`.

use std::borrow::Cow;

use crate::diagnostic::printable_lines;

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

/// For elements and quoted attributes of HTML. Control characters, and those that turn the order of what is
/// read, become a sign that something was there; a line break stays one.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable_lines(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_noncharacter(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// What Unicode keeps for nobody, and HTML forbids.
fn is_noncharacter(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}

/// For a JSON document inside a `<script type="application/json">`, where nothing is markup but what begins
/// with `<`. These characters can only be inside strings, where an escape means the same.
pub fn json_in_html(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        let is_markup = matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
        let is_unseen = (c != '\n' && c.is_control()) || is_noncharacter(c);
        if !is_markup && !is_unseen {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
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
    fn nothing_of_a_name_is_html() {
        assert_eq!(
            html("<img src=\"x\" onerror='a&b'>\u{202e}\u{1b}[2J\n"),
            "&lt;img src=&quot;x&quot; onerror=&#39;a&amp;b&#39;&gt;\u{fffd}\u{fffd}[2J\n"
        );
        let value = serde_json::json!({"</script><!--": "\u{2028}&\u{9b}"});
        let shown = json_in_html(&value.to_string());
        assert!(!shown.contains(['<', '>', '&', '\u{2028}', '\u{9b}']));
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, value);
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
