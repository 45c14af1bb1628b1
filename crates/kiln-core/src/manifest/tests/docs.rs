//! The user's reference says what `keys` says, and its example works.

use super::parsed;
use crate::expression::function_names;
use crate::manifest::keys::{Key, Kind, Need, ROOT, Table};

const REFERENCE: &str = include_str!("../../../../../docs/manifest.md");

fn type_text(kind: &Kind) -> String {
    match kind {
        Kind::Text | Kind::Label => "string".into(),
        Kind::Entry => "function name".into(),
        Kind::Path => "path".into(),
        Kind::Function(example) => format!("`{example}`"),
        Kind::Word(words) => format!("`\"{}\"`", words.join("\"`, `\"")),
        Kind::Expression => "expression".into(),
        Kind::Whole { least, most } => match (*least, *most) {
            (least, i64::MAX) => format!("integer from {least}"),
            (least, most) => format!("integer {least} to {most}"),
        },
        Kind::Number(bounds) => format!("number {}", bounds.describe()).trim().to_string(),
        Kind::Bool => "boolean".into(),
        Kind::Scalar => "boolean, number or string".into(),
        Kind::List { most, .. } if *most <= 16 => format!("list of 1 to {most} of them"),
        Kind::List { items, .. } => format!("list ({})", types_text(items)),
        Kind::Table(_) => "table".into(),
    }
}

fn types_text(kinds: &[Kind]) -> String {
    if let [Kind::List { items, most, .. }] = kinds
        && *most <= 16
    {
        return format!("list ({})", types_text(items));
    }
    let parts: Vec<String> = kinds.iter().map(type_text).collect();
    parts.join(" or ")
}

/// Keys that differ in their names only share a row of the reference.
fn row(keys: &[Key]) -> String {
    let key = &keys[0];
    let names: Vec<String> = keys.iter().map(|k| format!("`{}`", k.name)).collect();
    let default = match (key.need, key.default) {
        (Need::Always, _) => "required".to_string(),
        (Need::Unless(other), _) => format!("required without `{other}`"),
        (_, Some(default)) => format!("`{default}`"),
        (_, None) => "-".to_string(),
    };
    format!(
        "| {} | {} | {default} | {} | `{}` |",
        names.join(", "),
        types_text(key.kinds),
        key.doc,
        key.example
    )
}

/// Every key whose value is not simply a table of its own section.
fn rows(table: &'static Table, found: &mut Vec<String>) {
    for keys in table.keys.chunk_by(|a, b| a.doc == b.doc) {
        let is_section = std::ptr::eq(table, &ROOT) && matches!(keys[0].kinds, [Kind::Table(_)]);
        if !is_section {
            found.push(row(keys));
        }
    }
    let keys = table.keys.iter().flat_map(|key| key.kinds);
    let entries = table.entries.iter().flat_map(|entries| entries.kinds);
    for kind in keys.chain(entries) {
        if let Kind::Table(inner) = kind {
            rows(inner, found);
        }
    }
}

#[test]
fn every_key_has_its_row() {
    let mut expected = Vec::new();
    rows(&ROOT, &mut expected);
    let mut seen = std::collections::BTreeSet::new();
    expected.retain(|row| seen.insert(row.clone()));
    let missing: Vec<String> = expected
        .into_iter()
        .filter(|row| !REFERENCE.contains(row.as_str()))
        .collect();
    assert!(missing.is_empty(), "missing rows:\n{}", missing.join("\n"));
    for key in ROOT.keys {
        assert!(REFERENCE.contains(&format!("`[{}", key.name)) || key.name == "kiln");
    }
}

#[test]
fn every_function_is_named() {
    for name in function_names() {
        assert!(REFERENCE.contains(&format!("`{name}(")), "{name}");
    }
}

#[test]
fn the_complete_example_is_complete() {
    let start = REFERENCE.find("```toml\n").unwrap() + "```toml\n".len();
    let length = REFERENCE[start..].find("```").unwrap();
    let manifest = parsed(&REFERENCE[start..start + length]);
    assert!(manifest.baseline.is_some());
}
