//! T1: the tunables of a kernel and the conditions on them, as JSON with Python expressions.

use crate::diagnostic::{Diagnostic, nearest};
use crate::expression::{Expr, ExprError};
use crate::space::{BuildLimits, MOST_TUNABLES, Rule, RuleKind, Space, SpaceError, Tunable};
use crate::value::Value;

use super::json::{self, Item};
use super::list;

mod write;

pub use write::{WriteError, of_manifest};

/// What a T1 file says about a space. Spans are in its text.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Of the benchmark, or else of the kernel.
    pub name: Option<String>,
    pub tunables: Vec<Tunable>,
    /// By tunable, where the file gives one.
    pub defaults: Vec<Option<Value>>,
    rules: Vec<Rule>,
    places: Places,
}

/// Where things are, for errors that show only when the space is built.
#[derive(Clone, Debug)]
struct Places {
    tunables: Vec<std::ops::Range<usize>>,
    /// In the order of the rules.
    rules: Vec<std::ops::Range<usize>>,
}

/// What T1 calls the kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Uint,
    Float,
    Text,
    Bool,
}

impl Definition {
    pub fn parse(text: &str) -> Result<Definition, Diagnostic> {
        let root = json::parse(text)?.object()?;
        let Some(space) = root.get("ConfigurationSpace") else {
            let error =
                Diagnostic::whole_file("this is not a T1 file: it has no `ConfigurationSpace`");
            let is_recording = root.get("cache").is_some() || root.get("results").is_some();
            return Err(match is_recording {
                true => error.hint(
                    "it looks like a recording; its space is in another file, often called T1.json",
                ),
                false => error.hint(
                    "a T1 file has `ConfigurationSpace` with `TuningParameters` and `Conditions`",
                ),
            });
        };
        let space = space.object()?;
        let mut definition = Definition {
            name: name_of(&root),
            tunables: Vec::new(),
            defaults: Vec::new(),
            rules: Vec::new(),
            places: Places {
                tunables: Vec::new(),
                rules: Vec::new(),
            },
        };
        for item in space
            .require("TuningParameters", "`ConfigurationSpace`")?
            .array()?
        {
            definition.parameter(item)?;
        }
        // A misspelt `Conditions` would make every combination valid.
        const KEYS: [&str; 2] = ["TuningParameters", "Conditions"];
        for (key, item) in &space.members {
            let unknown = !KEYS.contains(&key.as_ref());
            if let Some(meant) = nearest(key, KEYS).filter(|_| unknown) {
                return Err(item
                    .error(format!("`ConfigurationSpace` has an unknown key `{key}`"))
                    .hint(format!("did you mean `{meant}`?")));
            }
        }
        if let Some(conditions) = space.get("Conditions").filter(|c| !c.is_null()) {
            for item in conditions.array()? {
                definition.condition(item)?;
            }
        }
        Ok(definition)
    }

    /// The conditions as rules over the tunables, for callers that build the space themselves.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Enumerates the valid configs. Errors have their place in the text the definition was read from.
    pub fn build(&self, limits: BuildLimits) -> Result<Space, Diagnostic> {
        let built = Space::build(
            self.tunables.clone(),
            Vec::new(),
            self.rules.clone(),
            limits,
        );
        built.map_err(|error| self.locate(error))
    }

    fn locate(&self, error: SpaceError) -> Diagnostic {
        let of_tunable = |name: &str| {
            let found = self.tunables.iter().rposition(|t| t.name == *name);
            found.map(|t| self.places.tunables[t].clone())
        };
        let of_rule = |name: &str| {
            let found = self.rules.iter().position(|r| r.name == *name);
            found.map(|r| self.places.rules[r].clone())
        };
        let (span, hint) = match &error {
            SpaceError::NoValues { tunable }
            | SpaceError::TooManyValues { tunable, .. }
            | SpaceError::DuplicateValue { tunable, .. }
            | SpaceError::NotANumber { tunable } => (of_tunable(tunable), None),
            SpaceError::DuplicateName { name } => (of_tunable(name), None),
            SpaceError::TooManyTunables { .. } => (None, None),
            SpaceError::OutOfScope { rule, .. } => (of_rule(rule), None),
            SpaceError::Rule { rule, .. } => (
                of_rule(rule),
                Some("Python would raise an error there too; guard it, e.g. with `x == 0 or …`"),
            ),
        };
        let mut diagnostic = Diagnostic::whole_file(error.to_string());
        diagnostic.span = span;
        diagnostic.hints.extend(hint.map(str::to_string));
        diagnostic
    }

    fn parameter(&mut self, item: Item<'_>) -> Result<(), Diagnostic> {
        let parameter = item.object()?;
        let name_item = parameter.require("Name", "the parameter")?;
        let name = name_item.text()?.into_owned();
        if name.is_empty() {
            return Err(name_item.error("the parameter's name is empty"));
        }
        if self.tunables.len() == MOST_TUNABLES {
            let many = format!("there are more than {MOST_TUNABLES} parameters");
            return Err(name_item.error(many));
        }
        if self.tunables.iter().any(|t| t.name == name) {
            return Err(name_item.error(format!("parameter `{name}` is there twice")));
        }
        let kind = match parameter.get("Type") {
            Some(item) => Some(kind(item)?),
            None => None,
        };
        let what = format!("parameter `{name}`");
        let list = parameter.require("Values", &what)?;
        let mut values = match list.is_array() {
            true => list
                .array()?
                .into_iter()
                .map(Item::value)
                .collect::<Result<Vec<_>, _>>()?,
            false => {
                let text = list.text()?;
                list::evaluate(&text).map_err(|e| {
                    in_string(list, e, &format!("`Values` of {what} cannot be read"))
                })?
            }
        };
        if values.is_empty() {
            return Err(list.error(format!("{what} has no values")));
        }
        if let Some(kind) = kind {
            for value in &mut values {
                *value = typed(value.clone(), kind).ok_or_else(|| {
                    list.error(format!(
                        "{what} is of type `{}`, but lists `{value}`",
                        kind.name()
                    ))
                    .hint("correct `Type` or `Values`")
                })?;
            }
        }
        let default = match parameter.get("Default") {
            Some(item) if !item.is_null() => Some(item.value()?),
            _ => None,
        };
        self.defaults.push(default);
        self.places.tunables.push(list.span());
        self.tunables.push(Tunable { name, values });
        Ok(())
    }

    fn condition(&mut self, item: Item<'_>) -> Result<(), Diagnostic> {
        let expression = match item.is_string() {
            true => item,
            false => item.object()?.require("Expression", "the condition")?,
        };
        let text = expression.text()?;
        let names: Vec<&str> = self.tunables.iter().map(|t| t.name.as_str()).collect();
        let bound = Expr::parse_python(&text)
            .and_then(|e| e.bind(&names))
            .map_err(|e| in_string(expression, e, "the condition cannot be read"))?;
        self.places.rules.push(expression.span());
        self.rules.push(Rule {
            name: text.into_owned(),
            kind: RuleKind::Constraint,
            expr: bound,
        });
        Ok(())
    }
}

/// An error inside an expression that is a JSON string.
fn in_string(item: Item<'_>, error: ExprError, what: &str) -> Diagnostic {
    let span = item.span_within(error.span);
    let diagnostic = Diagnostic::new(format!("{what}: {}", error.message), span);
    match error.hint {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    }
}

fn name_of(root: &json::Object<'_>) -> Option<String> {
    let from = |section: &str, key: &str| {
        let section = root.get(section)?.object().ok()?;
        let name = section.get(key)?.text().ok()?;
        (!name.is_empty()).then(|| name.into_owned())
    };
    from("General", "BenchmarkName")
        .or_else(|| from("KernelSpecification", "BenchmarkName"))
        .or_else(|| from("KernelSpecification", "KernelName"))
}

fn kind(item: Item<'_>) -> Result<Kind, Diagnostic> {
    let text = item.text()?;
    let kinds = [Kind::Int, Kind::Uint, Kind::Float, Kind::Text, Kind::Bool];
    kinds.into_iter().find(|k| k.name() == text).ok_or_else(|| {
        item.error(format!("`{text}` is no type of a parameter"))
            .hint("types are int, uint, float, string and bool")
    })
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Int => "int",
            Kind::Uint => "uint",
            Kind::Float => "float",
            Kind::Text => "string",
            Kind::Bool => "bool",
        }
    }
}

/// The value as its type has it; `None` when it is none of that type. Whole floats become
/// integers where those are meant: Python's `[n / 2 for …]` makes floats of everything.
fn typed(value: Value, kind: Kind) -> Option<Value> {
    Some(match (kind, value) {
        (Kind::Int, Value::Int(i)) => Value::Int(i),
        (Kind::Uint, Value::Int(i)) if i >= 0 => Value::Int(i),
        (Kind::Int | Kind::Uint, Value::Float(x)) => {
            let is_whole = x.fract() == 0.0 && x.abs() < 9e15;
            (is_whole && (x >= 0.0 || kind == Kind::Int)).then_some(Value::Int(x as i64))?
        }
        (Kind::Int | Kind::Uint, Value::Bool(b)) => Value::Bool(b),
        (Kind::Float, value @ (Value::Int(_) | Value::Float(_))) => value,
        (Kind::Text, value @ Value::Text(_)) => value,
        (Kind::Bool, value @ Value::Bool(_)) => value,
        (Kind::Bool, Value::Int(i @ (0 | 1))) => Value::Bool(i == 1),
        _ => return None,
    })
}
