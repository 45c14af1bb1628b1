//! Reading one table of the parsed file.
//!
//! Getters are lenient: `check` has already reported a value of the wrong type or out of range, so
//! here it counts as absent and its default stands in. Stand-ins never leave `decode`, because one
//! error is enough for `Manifest::parse` to return errors only.

use std::ops::Range;

use toml::Spanned as Placed;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::nearest;
use crate::manifest::Spanned;
use crate::manifest::keys::{Key, Kind, Table};
use crate::value::Value;

pub(super) type Item<'a> = Placed<DeValue<'a>>;

/// A key with its value, as written.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub key: &'a Placed<std::borrow::Cow<'a, str>>,
    pub value: &'a Item<'a>,
}

impl<'a> Entry<'a> {
    pub fn name(&self) -> &'a str {
        self.key.get_ref()
    }
}

/// A table with its description; `table` is `None` when it was not written.
pub(super) struct Section<'a> {
    pub spec: &'static Table,
    pub table: Option<&'a DeTable<'a>>,
    /// The header `[name]` or the inline table.
    pub span: Range<usize>,
}

/// Entries in the order written, whatever order the map keeps them in.
pub(super) fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry { key, value })
        .collect();
    entries.sort_by_key(|e| e.key.span().start);
    entries
}

/// The entry called `name`, or the one that was most likely meant to be: a misspelt key is reported
/// as such, and its value still used, so that one typo is one message.
pub(super) fn find<'a>(
    spec: &'static Table,
    table: &'a DeTable<'a>,
    name: &str,
) -> Option<Entry<'a>> {
    if let Some((key, value)) = table.get_key_value(name) {
        return Some(Entry { key, value });
    }
    if spec.entries.is_some() {
        return None;
    }
    let is_meant = |written: &str| {
        spec.key(written).is_none()
            && nearest(written, spec.keys.iter().map(|k| k.name)) == Some(name)
    };
    table
        .iter()
        .map(|(key, value)| Entry { key, value })
        .find(|entry| is_meant(entry.name()))
}

impl<'a> Section<'a> {
    pub fn of(spec: &'static Table, item: Option<&'a Item<'a>>) -> Section<'a> {
        Section {
            spec,
            table: item.and_then(|i| i.get_ref().as_table()),
            span: item.map_or(0..0, Placed::span),
        }
    }

    pub fn is_written(&self) -> bool {
        self.table.is_some()
    }

    /// Entries named by the author, without keys that have a meaning of their own.
    pub fn entries(&self) -> Vec<Entry<'a>> {
        let mut entries = self.table.map(in_order).unwrap_or_default();
        entries.retain(|e| self.spec.key(e.name()).is_none());
        entries
    }

    pub fn get(&self, key: &str) -> Option<&'a Item<'a>> {
        debug_assert!(self.spec.key(key).is_some(), "`{key}` is described in keys");
        Some(find(self.spec, self.table?, key)?.value)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The table that an entry is; `None` when it is none.
    pub fn entry_section(&self, entry: &Entry<'a>) -> Option<Section<'a>> {
        let kinds = self.spec.entries.as_ref()?.kinds;
        entry.value.get_ref().as_table()?;
        Some(Section::of(table_among(kinds)?, Some(entry.value)))
    }

    /// The table that the value of `key` is; `None` when it is none.
    pub fn key_section(&self, key: &str) -> Option<Section<'a>> {
        let item = self.get(key)?;
        item.get_ref().as_table()?;
        Some(Section::of(table_among(self.key(key).kinds)?, Some(item)))
    }

    /// Where `key` is written, or the whole table.
    pub fn place(&self, key: &str) -> Range<usize> {
        self.table
            .and_then(|table| find(self.spec, table, key))
            .map_or(self.span.clone(), |entry| entry.key.span())
    }

    fn key(&self, key: &str) -> &'static Key {
        self.spec
            .key(key)
            .expect("every key asked for is described")
    }

    pub fn written_text(&self, key: &str) -> Option<Spanned<String>> {
        let item = self.get(key)?;
        Some(Spanned {
            value: item.get_ref().as_str()?.to_string(),
            span: item.span(),
        })
    }

    /// The string written, or the default.
    pub fn text(&self, key: &str) -> String {
        match self.written_text(key) {
            Some(text) => text.value,
            None => {
                let default = self.key(key).default.unwrap_or_default();
                default.trim_matches('"').to_string()
            }
        }
    }

    pub fn texts(&self, key: &str) -> Option<Vec<Spanned<String>>> {
        let items = self.get(key)?.get_ref().as_array()?;
        let texts = items.iter().filter_map(|item| {
            Some(Spanned {
                value: item.get_ref().as_str()?.to_string(),
                span: item.span(),
            })
        });
        Some(texts.collect())
    }

    /// The items of a list, or the one value written in its place.
    pub fn items(&self, key: &str) -> Vec<&'a Item<'a>> {
        let Some(item) = self.get(key) else {
            return Vec::new();
        };
        match item.get_ref().as_array() {
            Some(items) => items.iter().collect(),
            None => vec![item],
        }
    }

    /// The number written, or the default where the key has one.
    pub fn number(&self, key: &str) -> Option<f64> {
        let written = self.get(key).and_then(number);
        written.or_else(|| self.key(key).default?.parse().ok())
    }

    pub fn whole(&self, key: &str) -> Option<i64> {
        let written = self.get(key).and_then(whole);
        written.or_else(|| self.key(key).default?.parse().ok())
    }

    /// A count that has a default.
    pub fn count(&self, key: &str) -> u64 {
        self.written_count(key).unwrap_or_default()
    }

    pub fn written_count(&self, key: &str) -> Option<u64> {
        self.whole(key).and_then(|n| u64::try_from(n).ok())
    }

    /// A boolean that has a default.
    pub fn flag(&self, key: &str) -> bool {
        let written = self.get(key).and_then(|item| item.get_ref().as_bool());
        written.unwrap_or(self.key(key).default == Some("true"))
    }

    /// A number that has a default.
    pub fn real(&self, key: &str) -> f64 {
        self.number(key).unwrap_or_default()
    }
}

pub(super) fn table_among(kinds: &'static [Kind]) -> Option<&'static Table> {
    kinds.iter().find_map(|kind| match kind {
        Kind::Table(table) => Some(*table),
        _ => None,
    })
}

pub(super) fn whole(item: &Item) -> Option<i64> {
    let integer = item.get_ref().as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// An integer or a float, as a float; NaN and infinity are not numbers here.
pub(super) fn number(item: &Item) -> Option<f64> {
    let float = match item.get_ref() {
        DeValue::Integer(_) => whole(item)? as f64,
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => return None,
    };
    float.is_finite().then_some(float)
}

/// A value a tunable may have.
pub(super) fn scalar(item: &Item) -> Option<Value> {
    Some(match item.get_ref() {
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Integer(_) => Value::Int(whole(item)?),
        DeValue::Float(_) => Value::Float(number(item)?),
        DeValue::String(text) => Value::Text(text.to_string()),
        _ => return None,
    })
}
