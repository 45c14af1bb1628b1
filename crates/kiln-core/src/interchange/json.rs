//! JSON whose every value knows its place in the text, so that an error about it can show it.
//!
//! Values stay slices of the text until they are asked for: a table of 25 MB is walked, never
//! built as a tree.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::diagnostic::Diagnostic;
use crate::value::Value;

/// One value of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'t> {
    document: &'t str,
    raw: &'t str,
}

/// The members of a JSON object in their order; a key may be there twice.
#[derive(Debug)]
pub(super) struct Object<'t> {
    pub(super) item: Item<'t>,
    pub(super) members: Vec<(Cow<'t, str>, Item<'t>)>,
}

/// The value of a whole document.
pub(super) fn parse(document: &str) -> Result<Item<'_>, Diagnostic> {
    raw(document)
        .map(|raw| Item { document, raw })
        .map_err(|e| syntax_error(document, &e))
}

pub(super) fn raw(document: &str) -> serde_json::Result<&str> {
    serde_json::from_str::<&RawValue>(document).map(RawValue::get)
}

pub(super) fn syntax_error(document: &str, error: &serde_json::Error) -> Diagnostic {
    let line_start = match error.line() {
        0 | 1 => 0,
        line => document
            .match_indices('\n')
            .nth(line - 2)
            .map_or(document.len(), |(at, _)| at + 1),
    };
    let at = (line_start + error.column().saturating_sub(1)).min(document.len());
    let message = error.to_string();
    // The place is shown below the message.
    let what = message.split(" at line ").next().unwrap_or(&message);
    let hint = match error.is_eof() {
        true => "the file is cut off: copy it again from where it was made",
        false => "`python3 -m json.tool FILE` checks the syntax",
    };
    Diagnostic::new(format!("this is not JSON: {what}"), at..at + 1).hint(hint)
}

impl<'t> Item<'t> {
    /// Where the value is in the document.
    pub(super) fn span(self) -> Range<usize> {
        let start = self.raw.as_ptr() as usize - self.document.as_ptr() as usize;
        start..start + self.raw.len()
    }

    /// Where a part of a string value is, given where it is in the string. The whole value where
    /// escapes make the two differ.
    pub(super) fn span_within(self, part: Range<usize>) -> Range<usize> {
        let whole = self.span();
        if self.raw.contains('\\') || !self.is_string() {
            return whole;
        }
        let last = whole.end - 1;
        (whole.start + 1 + part.start).min(last)..(whole.start + 1 + part.end).min(last)
    }

    pub(super) fn error(self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message, self.span())
    }

    pub(super) fn is_string(self) -> bool {
        self.raw.starts_with('"')
    }

    pub(super) fn is_array(self) -> bool {
        self.raw.starts_with('[')
    }

    pub(super) fn is_null(self) -> bool {
        self.raw == "null"
    }

    fn kind(self) -> &'static str {
        match self.raw.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        }
    }

    fn expected(self, what: &str) -> Diagnostic {
        self.error(format!("expected {what}, found {}", self.kind()))
            .label(format!("this is {}", self.kind()))
    }

    fn read<T: Deserialize<'t>>(self, what: &str) -> Result<T, Diagnostic> {
        serde_json::from_str(self.raw).map_err(|e| {
            let why = e.to_string();
            let why = why.split(" at line ").next().unwrap_or(&why);
            self.error(format!("{what} cannot be read: {why}"))
        })
    }

    fn member(self, raw: &'t RawValue) -> Item<'t> {
        Item {
            document: self.document,
            raw: raw.get(),
        }
    }

    pub(super) fn object(self) -> Result<Object<'t>, Diagnostic> {
        if !self.raw.starts_with('{') {
            return Err(self.expected("an object"));
        }
        let members: Members<'t> = self.read("this object")?;
        let located = members.0.into_iter().map(|(k, v)| (k, self.member(v)));
        Ok(Object {
            item: self,
            members: located.collect(),
        })
    }

    pub(super) fn array(self) -> Result<Vec<Item<'t>>, Diagnostic> {
        if !self.is_array() {
            return Err(self.expected("an array"));
        }
        let items: Vec<&'t RawValue> = self.read("this array")?;
        Ok(items.into_iter().map(|raw| self.member(raw)).collect())
    }

    /// An array of numbers, read in one go.
    pub(super) fn numbers(self) -> Result<Vec<f64>, Diagnostic> {
        if !self.is_array() {
            return Err(self.expected("an array of numbers"));
        }
        match serde_json::from_str(self.raw) {
            Ok(numbers) => Ok(numbers),
            // Slower, to name the one that is none.
            Err(_) => self.array()?.into_iter().map(Item::number).collect(),
        }
    }

    pub(super) fn text(self) -> Result<Cow<'t, str>, Diagnostic> {
        if !self.is_string() {
            return Err(self.expected("a string"));
        }
        self.read::<Text<'t>>("this string").map(|text| text.0)
    }

    pub(super) fn number(self) -> Result<f64, Diagnostic> {
        match self.raw.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => self.read("this number"),
            _ => Err(self.expected("a number")),
        }
    }

    /// A scalar, as a tunable's value.
    pub(super) fn value(self) -> Result<Value, Diagnostic> {
        Ok(match self.raw.as_bytes().first() {
            Some(b'"') => Value::Text(self.text()?.into_owned()),
            Some(b't') => Value::Bool(true),
            Some(b'f') => Value::Bool(false),
            Some(b'-' | b'0'..=b'9') if !self.raw.contains(['.', 'e', 'E']) => {
                Value::Int(self.read("this integer")?)
            }
            Some(b'-' | b'0'..=b'9') => Value::Float(self.number()?),
            _ => return Err(self.expected("a number, a string or a boolean")),
        })
    }
}

impl<'t> Object<'t> {
    pub(super) fn get(&self, key: &str) -> Option<Item<'t>> {
        self.members
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, item)| *item)
    }

    /// `what` names the object in the error.
    pub(super) fn require(&self, key: &str, what: &str) -> Result<Item<'t>, Diagnostic> {
        self.get(key).ok_or_else(|| {
            let start = self.item.span().start;
            let keys: Vec<&str> = self.members.iter().map(|(k, _)| k.as_ref()).collect();
            let error = Diagnostic::new(format!("{what} has no `{key}`"), start..start + 1);
            match crate::diagnostic::nearest(key, keys.iter().copied()) {
                Some(near) => error.hint(format!("it has `{near}`: is that a typo?")),
                None if keys.is_empty() => error,
                None => {
                    let shown: Vec<&str> = keys.iter().take(12).copied().collect();
                    error.hint(format!("it has: {}", shown.join(", ")))
                }
            }
        })
    }
}

/// A string that borrows from the text unless it has escapes.
struct Text<'t>(Cow<'t, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_string())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// An object as a list: a map would keep one of two equal keys and forget the other.
struct Members<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((key.0, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
