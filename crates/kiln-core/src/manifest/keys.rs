//! Every table and key of a manifest, described once.
//!
//! Decoding checks names, types and ranges against this, takes defaults from it and finds the
//! nearest known name in it; the JSON Schema is printed from it; a test holds the user's reference
//! to it. What a key means beyond its own value is checked in `decode`.

mod arguments;
mod comparison;
mod export;
mod gates;
mod settings;
mod tables;

pub use gates::{GATES, default_gate_policy};
pub use tables::{C_FLAGS, ROOT};

/// A table: keys with fixed names, or entries named by the author, or both.
#[derive(Debug)]
pub struct Table {
    pub doc: &'static str,
    pub keys: &'static [Key],
    pub entries: Option<Entries>,
}

/// A key with a fixed name.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    /// What the value may be; no two of them accept the same TOML type.
    pub kinds: &'static [Kind],
    /// One sentence for people.
    pub doc: &'static str,
    /// As written in TOML; `None` when absence means something of its own, told in `doc`.
    pub default: Option<&'static str>,
    pub need: Need,
    /// A line to show when the key is missing or wrong.
    pub example: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    Always,
    /// Unless the table has this key.
    Unless(&'static str),
    Never,
}

/// Entries whose names the author chooses.
#[derive(Debug)]
pub struct Entries {
    /// What one entry is called in messages.
    pub what: &'static str,
    pub names: NameRule,
    pub kinds: &'static [Kind],
    pub doc: &'static str,
    pub example: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NameRule {
    /// A C identifier that is neither a word of C nor of the expression language.
    Identifier,
    /// A C identifier that is no word of C; expressions do not name it.
    Parameter,
    /// Letters, digits, `_` and `-`: safe in a path and on a command line.
    Label,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    /// Letters, digits, `_`, `-` and `.`.
    Label,
    /// A function; in CUDA it may be qualified and an instance of a template.
    Entry,
    /// Relative to the manifest.
    Path,
    /// A file and a function in it, with an example such as `file.c:function`.
    Function(&'static str),
    Word(&'static [&'static str]),
    /// A string in the expression language; names are checked in `decode`, where they are known.
    Expression,
    Whole {
        least: i64,
        most: i64,
    },
    Number(Bounds),
    Bool,
    /// A value of a tunable: boolean, integer, number or string.
    Scalar,
    List {
        items: &'static [Kind],
        least: usize,
        most: usize,
    },
    Table(&'static Table),
}

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub low: f64,
    pub low_included: bool,
    pub high: f64,
    pub high_included: bool,
}

impl Bounds {
    pub const ANY: Bounds = Bounds {
        low: f64::MIN,
        low_included: true,
        high: f64::MAX,
        high_included: true,
    };

    pub const fn above(low: f64) -> Bounds {
        Bounds {
            low,
            low_included: false,
            ..Bounds::ANY
        }
    }

    pub const fn from(low: f64) -> Bounds {
        Bounds { low, ..Bounds::ANY }
    }

    pub const fn below(self, high: f64) -> Bounds {
        Bounds {
            high,
            high_included: false,
            ..self
        }
    }

    pub const fn to(self, high: f64) -> Bounds {
        Bounds {
            high,
            high_included: true,
            ..self
        }
    }

    pub fn contains(&self, x: f64) -> bool {
        let low = if self.low_included {
            x >= self.low
        } else {
            x > self.low
        };
        let high = if self.high_included {
            x <= self.high
        } else {
            x < self.high
        };
        low && high
    }

    /// `above 0 and at most 3600`; empty when every finite number will do.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if self.low != f64::MIN {
            let word = if self.low_included {
                "at least"
            } else {
                "above"
            };
            parts.push(format!("{word} {}", self.low));
        }
        if self.high != f64::MAX {
            let word = if self.high_included {
                "at most"
            } else {
                "below"
            };
            parts.push(format!("{word} {}", self.high));
        }
        parts.join(" and ")
    }
}

impl Key {
    const fn optional(
        name: &'static str,
        kinds: &'static [Kind],
        doc: &'static str,
        example: &'static str,
    ) -> Key {
        Key {
            name,
            kinds,
            doc,
            default: None,
            need: Need::Never,
            example,
        }
    }

    const fn required(
        name: &'static str,
        kinds: &'static [Kind],
        doc: &'static str,
        example: &'static str,
    ) -> Key {
        Key {
            need: Need::Always,
            ..Key::optional(name, kinds, doc, example)
        }
    }

    const fn unless(self, other: &'static str) -> Key {
        Key {
            need: Need::Unless(other),
            ..self
        }
    }

    const fn or(self, default: &'static str) -> Key {
        Key {
            default: Some(default),
            ..self
        }
    }
}

impl Table {
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|k| k.name == name)
    }
}

impl Kind {
    /// For `expected …`.
    pub fn describe(&self) -> String {
        match self {
            Kind::Text | Kind::Label => "a string".into(),
            Kind::Entry => "the name of a function as a string".into(),
            Kind::Path => "a path as a string".into(),
            Kind::Function(example) => format!("a string like `\"{example}\"`"),
            Kind::Word(words) => format!("one of {}", quoted_list(words)),
            Kind::Expression => "an expression as a string".into(),
            Kind::Whole { .. } => "an integer".into(),
            Kind::Number(_) => "a number".into(),
            Kind::Bool => "`true` or `false`".into(),
            Kind::Scalar => "a boolean, integer, number or string".into(),
            Kind::List { .. } => "a list".into(),
            Kind::Table(_) => "a table".into(),
        }
    }
}

/// `a number or a table`.
pub fn describe(kinds: &[Kind]) -> String {
    let parts: Vec<String> = kinds.iter().map(Kind::describe).collect();
    parts.join(" or ")
}

/// `` `a`, `b`, `c` ``.
pub fn quoted_list<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{}`", n.as_ref())).collect();
    quoted.join(", ")
}
