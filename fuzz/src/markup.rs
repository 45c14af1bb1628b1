//! Names and messages of any kind in what kiln writes: none of it is markup or an escape sequence there.
//!
//! One function per format, like `kiln_core::escape`.

use comrak::nodes::{AstNode, NodeValue};
use html5gum::{DefaultEmitter, Token, Tokenizer};
use kiln_core::diagnostic::{printable, printable_lines};
use kiln_core::escape;

pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    terminal(&text);
    xml(&text);
    json(&text);
    markdown(&text);
    html(&text);
}

fn terminal(text: &str) {
    let is_plain = |c: char| {
        !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let line = printable(text);
    assert!(line.chars().all(is_plain), "{line:?}");
    assert_eq!(line.chars().count(), text.chars().count());
    let lines = printable_lines(text);
    assert!(lines.chars().all(|c| c == '\n' || is_plain(c)), "{lines:?}");
    assert_eq!(printable_lines(&lines), lines);
}

/// As JUnit XML has it: in an attribute and in an element.
fn xml(text: &str) {
    let escaped = escape::xml(text);
    let document = format!("<a b=\"{escaped}\">{escaped}</a>");
    let parsed = roxmltree::Document::parse(&document).expect("well-formed");
    let root = parsed.root_element();
    // What XML cannot hold becomes a space; nothing else changes.
    let expected: String = text
        .chars()
        .map(|c| match c {
            '\n' => '\n',
            '\u{fffe}' | '\u{ffff}' => ' ',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    assert_eq!(root.attribute("b"), Some(expected.as_str()));
    assert_eq!(root.text().unwrap_or_default(), expected);
    assert!(root.children().all(|n| n.is_text()), "{document}");
}

/// As a report has it: in an attribute, in an element and in a block of data. It comes back as the text it was.
fn html(text: &str) {
    let escaped = escape::html(text);
    // What HTML cannot hold has a sign in its place, like what a terminal should not get.
    let is_forbidden =
        |c: char| matches!(c, '\u{fdd0}'..='\u{fdef}') || matches!(u32::from(c) & 0xffff, 0xfffe..);
    let expected = printable_lines(text).replace(is_forbidden, "\u{fffd}");
    let value = serde_json::json!({ text: [text] });
    let data = escape::json_in_html(&value.to_string());
    let document = format!(
        "<p title=\"{escaped}\">{escaped}</p><script type=\"application/json\">{data}</script><i>end</i>"
    );
    let mut emitter = DefaultEmitter::default();
    // As a browser does after `<script>`.
    emitter.naively_switch_states(true);
    let mut tokens = Vec::new();
    for Ok(token) in Tokenizer::new_with_emitter(document.as_str(), emitter) {
        match token {
            Token::StartTag(tag) => {
                let title = tag.attributes.get(b"title".as_slice());
                let title = title.map(|t| String::from_utf8_lossy(t).into_owned());
                let count = tag.attributes.len();
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                tokens.push(format!("<{name} {count} {}>", title.unwrap_or_default()));
            }
            Token::EndTag(tag) => tokens.push(format!("</{}>", String::from_utf8_lossy(&tag.name))),
            Token::String(piece) => tokens.push(String::from_utf8_lossy(&piece).into_owned()),
            Token::Error(error) => panic!("{error:?} in {document:?}"),
            other => panic!("{other:?} in {document:?}"),
        }
    }
    let wanted = [
        format!("<p 1 {expected}>"),
        expected,
        "</p>".into(),
        "<script 1 >".into(),
        data.clone(),
        "</script>".into(),
        "<i 0 >".into(),
        "end".into(),
        "</i>".into(),
    ];
    let wanted: Vec<String> = wanted.into_iter().filter(|t| !t.is_empty()).collect();
    assert_eq!(tokens, wanted, "{document:?}");
    let read: serde_json::Value = serde_json::from_str(&data).expect("still JSON");
    assert_eq!(read, value);
}

fn json(text: &str) {
    let value = serde_json::json!({ text: [text] });
    for document in [value.to_string(), format!("{value:#}")] {
        let shown = escape::json(&document);
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
        let read: serde_json::Value = serde_json::from_str(&shown).expect("still JSON");
        assert_eq!(read, value);
    }
}

/// As the summary page of a CI run has it, in GitHub's dialect: in a heading, a line, a table and a list.
fn markdown(text: &str) {
    let t = escape::markdown(text);
    // A cell of nothing has no text to look for.
    if t.trim().is_empty() {
        return;
    }
    let document = format!(
        "### x: {t}: y\n\nA: {t}, B: z\n\n\
         | a | b |\n| --- | --- |\n| {t} | **SLOWER** |\n\n- x: {t}\n- end\n"
    );
    let arena = comrak::Arena::new();
    let root = comrak::parse_document(&arena, &document, &options());
    let mut kinds = Vec::new();
    outline(root, &mut kinds);
    const EXPECTED: [&str; 22] = [
        "document",
        "heading",
        "text",
        "paragraph",
        "text",
        "table",
        "row",
        "cell",
        "text",
        "cell",
        "text",
        "row",
        "cell",
        "text",
        "cell",
        "strong",
        "text",
        "list",
        "item",
        "paragraph",
        "text",
        "item",
    ];
    assert_eq!(kinds[..kinds.len().min(22)], EXPECTED, "{document:?}");
}

fn options() -> comrak::Options<'static> {
    let mut options = comrak::Options::default();
    let extension = &mut options.extension;
    extension.strikethrough = true;
    extension.table = true;
    extension.autolink = true;
    extension.tasklist = true;
    extension.footnotes = true;
    extension.math_dollars = true;
    extension.math_code = true;
    extension.alerts = true;
    options
}

/// The kinds of all nodes, from the top down; texts that follow each other are one.
fn outline<'n>(node: &'n AstNode<'n>, into: &mut Vec<&'static str>) {
    let kind = match &node.data.borrow().value {
        NodeValue::Document => "document",
        NodeValue::Heading(_) => "heading",
        NodeValue::Paragraph => "paragraph",
        NodeValue::Table(_) => "table",
        NodeValue::TableRow(_) => "row",
        NodeValue::TableCell => "cell",
        NodeValue::List(_) => "list",
        NodeValue::Item(_) => "item",
        NodeValue::Strong => "strong",
        NodeValue::Text(_) => "text",
        _ => "markup",
    };
    if (kind, into.last()) != ("text", Some(&"text")) {
        into.push(kind);
    }
    for child in node.children() {
        outline(child, into);
    }
}
