//! The first pass: every name, type and range in the file against `keys`.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::Problems;
use super::section::{Item, find, in_order, number, whole};
use crate::diagnostic::{Diagnostic, nearest};
use crate::dtype::DType;
use crate::manifest::keys::{Entries, Key, Kind, NameRule, Need, Table, describe, quoted_list};

/// Words a tunable or dimension cannot be called.
const EXPRESSION_WORDS: [&str; 10] = [
    "and", "or", "not", "in", "if", "else", "true", "false", "True", "False",
];
const C_WORDS: [&str; 36] = [
    "if", "else", "auto", "bool", "break", "case", "char", "const", "continue", "default", "do",
    "double", "enum", "extern", "float", "for", "goto", "inline", "int", "long", "register",
    "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "union", "unsigned", "void", "volatile", "while", "defined",
];

/// Checks the whole file.
pub(super) fn check_root<'a>(
    spec: &'static Table,
    table: &'a DeTable<'a>,
    problems: &mut Problems,
) {
    let file = Place {
        title: "the manifest".into(),
        path: String::new(),
        span: None,
    };
    check_table(spec, table, &file, problems);
}

/// Which table is being checked, for messages.
struct Place {
    /// `` `[kernel]` `` or `` argument `x` ``.
    title: String,
    path: String,
    span: Option<Range<usize>>,
}

fn check_table<'a>(
    spec: &'static Table,
    table: &'a DeTable<'a>,
    place: &Place,
    problems: &mut Problems,
) {
    for entry in in_order(table) {
        let name = entry.name();
        if let Some(key) = spec.key(name) {
            let what = match key.kinds {
                [Kind::Table(_)] => format!("`[{}]`", join(&place.path, name)),
                _ => format!("`{name}`"),
            };
            let path = join(&place.path, name);
            let context = Context {
                what,
                path,
                example: key.example,
            };
            check_value(key.kinds, entry.value, &context, problems);
        } else if let Some(entries) = &spec.entries {
            check_name(entries, name, entry.key.span(), problems);
            let context = Context {
                what: format!("{} `{name}`", entries.what),
                path: join(&place.path, name),
                example: entries.example,
            };
            check_value(entries.kinds, entry.value, &context, problems);
        } else {
            problems.push(unknown_key(spec, name, entry.key.span(), place));
        }
    }
    for key in spec.keys {
        let is_needed = match key.need {
            Need::Always => true,
            Need::Unless(other) => find(spec, table, other).is_none(),
            Need::Never => false,
        };
        if is_needed && find(spec, table, key.name).is_none() {
            problems.push(missing_key(key, place));
        }
    }
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_string(),
        _ => format!("{path}.{name}"),
    }
}

fn unknown_key(spec: &Table, name: &str, span: Range<usize>, place: &Place) -> Diagnostic {
    let known: Vec<&str> = spec.keys.iter().map(|k| k.name).collect();
    let message = match place.span {
        None => format!("unknown table or key `{name}`"),
        Some(_) => format!("unknown key `{name}` in {}", place.title),
    };
    let problem = Diagnostic::new(message, span).label("not known here");
    match nearest(name, known.iter().copied()) {
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem.hint(format!("known here: {}", known.join(", "))),
    }
}

fn missing_key(key: &Key, place: &Place) -> Diagnostic {
    let is_table = matches!(key.kinds, [Kind::Table(_)]);
    let hint = match key.example.split_once('\n') {
        Some((header, line)) => format!(
            "add a table `{header}` with e.g. `{}`",
            line.replace('\n', "`, `")
        ),
        None => format!("add a line such as `{}`", key.example),
    };
    match &place.span {
        None if is_table => {
            Diagnostic::whole_file(format!("there is no `[{}]` table", key.name)).hint(hint)
        }
        None => Diagnostic::whole_file(format!("there is no `{}`", key.name)).hint(hint),
        Some(span) => Diagnostic::new(
            format!("{} has no `{}`", place.title, key.name),
            span.clone(),
        )
        .label(format!("`{}` is missing", key.name))
        .hint(hint),
    }
}

fn check_name(entries: &Entries, name: &str, span: Range<usize>, problems: &mut Problems) {
    if let Some(label) = wrong_name(entries.names, name) {
        let article = if entries.what.starts_with('a') {
            "an"
        } else {
            "a"
        };
        let message = format!("`{name}` cannot be the name of {article} {}", entries.what);
        problems.push(Diagnostic::new(message, span).label(label));
    }
}

/// What is wrong with a name the author chose.
pub(in crate::manifest) fn wrong_name(rule: NameRule, name: &str) -> Option<&'static str> {
    match rule {
        NameRule::Label => (!is_label(name)).then_some("expected letters, digits, `_` and `-`"),
        _ if !is_identifier(name) => {
            Some("expected letters, digits and `_`, not starting with a digit")
        }
        _ if C_WORDS.contains(&name) => Some("this word has a meaning in C"),
        NameRule::Identifier if EXPRESSION_WORDS.contains(&name) => {
            Some("this word has a meaning in expressions")
        }
        _ => None,
    }
}

pub(in crate::manifest) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// `k`, `space::k`, `k<float, TILE>`: what names one kernel of a CUDA source. Template arguments
/// are the compiler's affair, as long as they can be written into a line of code and a message.
fn is_entry(name: &str) -> bool {
    let (path, arguments) = match name.find('<') {
        Some(open) => name.split_at(open),
        None => (name, ""),
    };
    let path = path.strip_prefix("::").unwrap_or(path).trim_end();
    let closed = arguments.is_empty() || (arguments.len() > 2 && arguments.ends_with('>'));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_:<>,*&()+-/%!=|^~.? []".contains(&b);
    path.split("::").all(is_identifier) && closed && arguments.bytes().all(plain)
}

const CUDA_FILE: &str = ".cu:";

/// The file and the function of `file.c:function`; a CUDA function may have colons of its own.
pub(in crate::manifest) fn split_function(text: &str) -> Option<(&str, &str)> {
    if let Some(at) = text.find(CUDA_FILE) {
        let (path, function) = text.split_at(at + CUDA_FILE.len() - 1);
        return Some((path, &function[1..]));
    }
    match text.contains("::") {
        true => text.split_once(':'),
        false => text.rsplit_once(':'),
    }
}

fn is_label(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

struct Context {
    /// What the value is, for messages.
    what: String,
    path: String,
    example: &'static str,
}

fn check_value<'a>(
    kinds: &'static [Kind],
    item: &'a Item<'a>,
    context: &Context,
    problems: &mut Problems,
) {
    let what = &context.what;
    let Some(kind) = kinds.iter().find(|kind| accepts(kind, item.get_ref())) else {
        let found = type_of(item.get_ref());
        let problem = Diagnostic::new(format!("{what} cannot be {found}"), item.span())
            .label(format!("expected {}", describe(kinds)));
        problems.push(match context.example.contains('\n') {
            true => problem,
            false => problem.hint(format!("write e.g. `{}`", context.example)),
        });
        return;
    };
    match kind {
        Kind::List { items, least, most } => {
            let list = item.get_ref().as_array().map_or(&[][..], |a| a.as_ref());
            if list.len() < *least {
                problems.push(
                    Diagnostic::new(format!("{what} is an empty list"), item.span())
                        .label("expected at least one item")
                        .hint(format!("write e.g. `{}`", context.example)),
                );
            } else if list.len() > *most {
                problems.push(
                    Diagnostic::new(format!("{what} has {} items", list.len()), item.span())
                        .label(format!("expected at most {most}")),
                );
            }
            let inner = Context {
                what: format!("an item of {what}"),
                path: context.path.clone(),
                example: context.example,
            };
            for item in list {
                check_value(items, item, &inner, problems);
            }
        }
        Kind::Table(spec) => {
            if let Some(table) = item.get_ref().as_table() {
                let place = Place {
                    title: what.clone(),
                    path: context.path.clone(),
                    span: Some(item.span()),
                };
                check_table(spec, table, &place, problems);
            }
        }
        _ => {
            if let Some(problem) = wrong_scalar(kind, item, what) {
                problems.push(problem);
            }
        }
    }
}

fn accepts(kind: &Kind, value: &DeValue) -> bool {
    match kind {
        Kind::Text
        | Kind::Label
        | Kind::Entry
        | Kind::Path
        | Kind::Function(_)
        | Kind::Word(_)
        | Kind::Expression => value.is_str(),
        Kind::Whole { .. } => value.is_integer(),
        Kind::Number(_) => value.is_integer() || value.is_float(),
        Kind::Bool => value.is_bool(),
        Kind::Scalar => !(value.is_array() || value.is_table() || value.is_datetime()),
        Kind::List { .. } => value.is_array(),
        Kind::Table(_) => value.is_table(),
    }
}

pub(super) fn type_of(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// What is wrong with a value whose type is right.
fn wrong_scalar(kind: &Kind, item: &Item, what: &str) -> Option<Diagnostic> {
    let value = item.get_ref();
    let text = value.as_str().unwrap_or_default();
    let problem = |message: String| Diagnostic::new(message, item.span());
    let is_number = value.is_integer() || value.is_float();
    if is_number && number(item).is_none() {
        let digits = match value {
            DeValue::Integer(i) => i.to_string(),
            DeValue::Float(f) => f.to_string(),
            _ => String::new(),
        };
        return Some(
            problem(format!("{what} cannot be `{digits}`")).label(match value {
                DeValue::Integer(_) => "does not fit in 64 bits",
                _ => "expected a finite number",
            }),
        );
    }
    if value.is_str() && text.contains('\0') {
        return Some(problem(format!("{what} contains a NUL character")));
    }
    match kind {
        Kind::Text => text
            .is_empty()
            .then(|| problem(format!("{what} is empty")).label("expected a text")),
        Kind::Label => {
            let fine = !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
            (!fine).then(|| {
                problem(format!("{what} cannot be `{text}`"))
                    .label("expected letters, digits, `_`, `-` and `.`")
            })
        }
        // A C entry is an identifier; the language is known later.
        Kind::Entry => (!is_entry(text)).then(|| {
            problem(format!("{what} cannot be `{text}`")).label(match text.contains([':', '<']) {
                true => "expected e.g. `kernel`, in CUDA also `space::kernel<float, 4>`",
                false => "expected the name of a function: letters, digits and `_`",
            })
        }),
        Kind::Path => wrong_path(text, what, item),
        Kind::Function(example) => match split_function(text) {
            Some((path, function))
                if is_identifier(function)
                    || (example.contains(CUDA_FILE) && is_entry(function)) =>
            {
                wrong_path(path, what, item)
            }
            _ => Some(
                problem(format!("{what} does not name a file and a function"))
                    .label(format!("expected `\"{example}\"`")),
            ),
        },
        Kind::Word(words) => (!words.contains(&text)).then(|| {
            let problem = problem(format!("{what} cannot be `{text}`"))
                .label(format!("expected one of {}", quoted_list(words)));
            let foreign = DType::from_foreign_name(text).map(DType::name);
            let meant = foreign.filter(|name| words.contains(name));
            match meant.or_else(|| nearest(text, words.iter().copied())) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem,
            }
        }),
        Kind::Whole { least, most } => {
            let n = whole(item)?;
            if n < *least {
                let label = format!("expected at least {least}");
                let sign = if n < 0 {
                    " is negative"
                } else {
                    " is too small"
                };
                return Some(problem(format!("{what}{sign}: {n}")).label(label));
            }
            (n > *most).then(|| {
                problem(format!("{what} is too large: {n}"))
                    .label(format!("expected at most {most}"))
            })
        }
        Kind::Number(bounds) => {
            let x = number(item)?;
            (!bounds.contains(x)).then(|| {
                problem(format!("{what} is out of range: {x}"))
                    .label(format!("expected a number {}", bounds.describe()))
            })
        }
        Kind::Scalar => text.chars().any(char::is_control).then(|| {
            problem(format!("{what} contains a control character"))
                .label("it could not be passed to a compiler")
        }),
        Kind::Bool | Kind::Expression | Kind::List { .. } | Kind::Table(_) => None,
    }
}

fn wrong_path(path: &str, what: &str, item: &Item) -> Option<Diagnostic> {
    let problem = |message: String| Diagnostic::new(message, item.span());
    if path.is_empty() {
        return Some(problem(format!("{what} has an empty path")).label("expected a path"));
    }
    if path.chars().any(char::is_control) {
        return Some(problem(format!("{what} contains a control character")));
    }
    let bytes = path.as_bytes();
    let has_drive = bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    if path.starts_with(['/', '\\']) || path.starts_with("~/") || has_drive {
        return Some(
            problem(format!(
                "{what} is an absolute path outside the project: `{path}`"
            ))
            .label("paths are relative to the manifest"),
        );
    }
    None
}
