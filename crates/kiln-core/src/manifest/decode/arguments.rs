//! `[arguments]`: scalars and buffers, and what fills the buffers; descriptors are in `tma`.

use super::expressions::{self, Names, Scope};
use super::reference::placeholders;
use super::section::{Section, whole};
use super::{Problems, settings, tma};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::expression::Expr;
use crate::manifest::fill::{default_integers, default_range, whole_range};
use crate::manifest::{Argument, ArgumentKind, Fill, FillRule, Language, Role};

pub(super) fn decode(
    section: &Section,
    language: Option<Language>,
    names: &Names,
    problems: &mut Problems,
) -> Vec<Argument> {
    let mut arguments = Vec::new();
    let tensors = tma::tensors(section);
    let entries = section.entries();
    let all_tables = entries.iter().all(|e| e.value.get_ref().is_table());
    for entry in entries {
        let Some(table) = section.entry_section(&entry) else {
            continue;
        };
        if table.has("tma") {
            tma::check_language(entry.name(), &table, language, problems);
            arguments.push(tma::decode(&entry, &table, &tensors, names, problems));
            continue;
        }
        tma::check_absent(entry.name(), &table, problems);
        let dtype = DType::from_name(&table.text("dtype"));
        let written = Written {
            name: entry.name(),
            table: &table,
            dtype,
            names,
        };
        arguments.push(Argument {
            name: entry.name().to_string(),
            // The stand-in for an unknown type accepts every draw.
            dtype: dtype.unwrap_or(DType::F64),
            kind: written.kind(problems),
            span: entry.key.span(),
        });
    }
    let is_output = |a: &Argument| match &a.kind {
        ArgumentKind::Buffer { role, .. } => matches!(role, Role::Output | Role::InOut),
        ArgumentKind::Scalar { .. } | ArgumentKind::Tma { .. } => false,
    };
    if section.is_written() && all_tables && !arguments.iter().any(is_output) {
        problems.push(
            Diagnostic::new("no argument is an output", section.span.clone())
                .label("a kernel without an output cannot be checked")
                .hint(
                    "write `role = \"output\"` in the arguments the kernel writes, or `\"inout\"`",
                ),
        );
    }
    arguments
}

/// One argument that is no descriptor, as the author wrote it.
struct Written<'a> {
    name: &'a str,
    table: &'a Section<'a>,
    /// `None` for one that is not known.
    dtype: Option<DType>,
    names: &'a Names<'a>,
}

impl Written<'_> {
    fn kind(&self, problems: &mut Problems) -> ArgumentKind {
        let Written {
            name, table, names, ..
        } = *self;
        let (is_scalar, is_buffer) = (table.has("value"), table.has("shape"));
        if is_scalar && is_buffer {
            problems.push(
                Diagnostic::new(
                    format!("argument `{name}` has both `value` and `shape`"),
                    table.place("shape"),
                )
                .label("a scalar has a `value`, a buffer has a `shape`"),
            );
        }
        if !is_scalar && !is_buffer && !table.has("box") {
            problems.push(
                Diagnostic::new(
                    format!("argument `{name}` has neither `value` nor `shape`"),
                    table.span.clone(),
                )
                .label("expected one of them")
                .hint("a scalar is `{ dtype = \"i32\", value = \"N\" }`, a buffer `{ dtype = \"f32\", shape = [\"N\"] }`"),
            );
        }
        match table.get("value") {
            Some(item) if !is_buffer => {
                for key in ["role", "draw", "file", "tolerance"] {
                    if table.has(key) {
                        problems.push(
                            Diagnostic::new(
                                format!("scalar argument `{name}` cannot have `{key}`"),
                                table.place(key),
                            )
                            .label("only a buffer has one"),
                        );
                    }
                }
                let scope = Scope::TunablesAndDimensions;
                ArgumentKind::Scalar {
                    value: expressions::read(item, scope, names, problems),
                }
            }
            _ => self.buffer(problems),
        }
    }

    fn buffer(&self, problems: &mut Problems) -> ArgumentKind {
        let Written {
            name, table, names, ..
        } = *self;
        let role = match table.text("role").as_str() {
            "output" => Role::Output,
            "inout" => Role::InOut,
            "scratch" if table.text("draw") == "zeros" => Role::Zeroed,
            "scratch" => Role::Scratch,
            _ => Role::Input,
        };
        let scope = match role {
            Role::Scratch | Role::Zeroed => Scope::TunablesAndDimensions,
            _ => Scope::Dimensions(
                "the size of data cannot depend on a tunable; a buffer with `role = \"scratch\"` may",
            ),
        };
        let extents = table.get("shape").and_then(|i| i.get_ref().as_array());
        let shape: Vec<Expr> = extents
            .into_iter()
            .flat_map(|items| items.iter())
            .map(|item| expressions::read(item, scope, names, problems))
            .collect();
        if matches!(role, Role::Output | Role::Scratch | Role::Zeroed) {
            let (what, hint) = match role {
                Role::Output => (
                    "output",
                    "kiln poisons outputs before a launch; a buffer that is read and written has `role = \"inout\"`",
                ),
                _ => (
                    "scratch buffer",
                    "its contents are undefined when the kernel starts, or zero with `draw = \"zeros\"`",
                ),
            };
            for key in ["draw", "file"] {
                if table.has(key) && (role, key) != (Role::Zeroed, "draw") {
                    problems.push(
                        Diagnostic::new(
                            format!("{what} `{name}` cannot have `{key}`"),
                            table.place(key),
                        )
                        .label("only what the kernel reads is filled")
                        .hint(hint),
                    );
                }
            }
        }
        if table.has("tolerance") && matches!(role, Role::Input | Role::Scratch | Role::Zeroed) {
            problems.push(
                Diagnostic::new(
                    format!("argument `{name}` is not compared, so it cannot have `tolerance`"),
                    table.place("tolerance"),
                )
                .label("only outputs are compared")
                .hint("write `role = \"output\"` if the kernel writes it"),
            );
        }
        let fill = match role {
            Role::Input | Role::InOut => self.fill(problems),
            Role::Output | Role::Scratch | Role::Zeroed => {
                FillRule::Fixed(Fill::Constant { value: 0.0 })
            }
        };
        ArgumentKind::Buffer {
            shape,
            role,
            fill,
            tolerance: settings::tolerance(table, "tolerance", names, problems),
        }
    }

    fn fill(&self, problems: &mut Problems) -> FillRule {
        let Written { name, table, .. } = *self;
        if let (Some(path), true) = (table.written_text("file"), table.has("draw")) {
            problems.push(
                Diagnostic::new(
                    format!("argument `{name}` has both `draw` and `file`"),
                    path.span,
                )
                .label("only one of them can fill it"),
            );
        }
        if let Some(path) = table.written_text("file") {
            placeholders(&path, &["shape"], problems);
            return FillRule::Fixed(Fill::File { path: path.value });
        }
        let dtype = self.dtype.unwrap_or(DType::F64);
        let Some(item) = table.get("draw") else {
            return FillRule::Fixed(default_fill(dtype));
        };
        let settings = table.key_section("draw");
        let word = match &settings {
            Some(settings) => settings.text("kind"),
            None => table.text("draw"),
        };
        if let Some(settings) = &settings {
            stray_settings(&word, settings, problems);
            numbers_only(&word, settings, problems);
        }
        let number = |key: &str, default: f64| {
            let written = settings.as_ref().and_then(|s| s.number(key));
            written.unwrap_or(default)
        };
        let problem = |message: String| Diagnostic::new(message, item.span());
        FillRule::Fixed(match word.as_str() {
            "normal" | "uniform" if !dtype.is_float() => {
                problems.push(
                    problem(format!(
                        "`{word}` draws fractions, which `{dtype}` cannot hold"
                    ))
                    .hint("write e.g. `draw = { kind = \"integers\", low = 0, high = 8 }`"),
                );
                default_fill(dtype)
            }
            "normal" => Fill::Normal {
                mean: number("mean", 0.0),
                std: number("std", 1.0),
            },
            "uniform" => {
                let (low, high) = (number("low", 0.0), number("high", 1.0));
                if low >= high {
                    problems.push(
                        problem(format!("the range of `uniform` is empty: {low} to {high}"))
                            .label("expected `low` below `high`"),
                    );
                }
                Fill::Uniform { low, high }
            }
            "integers" => {
                let settings = settings.as_ref();
                return integers(dtype, item.span(), settings, self.names, problems);
            }
            "iota" => Fill::Iota,
            "ones" => Fill::Constant { value: 1.0 },
            "constant" => {
                let settings = settings.as_ref();
                if settings.is_some_and(|s| !s.has("value")) {
                    problems.push(
                        problem("`constant` has no `value`".into())
                            .hint("write e.g. `{ kind = \"constant\", value = 0.5 }`"),
                    );
                }
                let value = number("value", 0.0);
                if !dtype.is_float() {
                    let (least, most) = whole_range(dtype);
                    let fits =
                        value.fract() == 0.0 && value >= least as f64 && value <= most as f64;
                    if !fits {
                        problems.push(
                            problem(format!("`{value}` does not fit in `{dtype}`"))
                                .label(format!("expected an integer from {least} to {most}")),
                        );
                    }
                }
                Fill::Constant { value }
            }
            _ => Fill::Constant { value: 0.0 },
        })
    }
}

fn default_fill(dtype: DType) -> Fill {
    match dtype.is_float() {
        true => Fill::Normal {
            mean: 0.0,
            std: 1.0,
        },
        false => default_integers(dtype),
    }
}

/// Settings that the chosen kind of draw does not have.
fn stray_settings(word: &str, settings: &Section, problems: &mut Problems) {
    let belongs: &[&str] = match word {
        "normal" => &["mean", "std"],
        "uniform" | "integers" => &["low", "high"],
        "constant" => &["value"],
        "iota" | "zeros" | "ones" => &[],
        _ => return,
    };
    for key in ["low", "high", "mean", "std", "value"] {
        if settings.has(key) && !belongs.contains(&key) {
            let problem = Diagnostic::new(format!("`{word}` has no `{key}`"), settings.place(key));
            problems.push(match belongs {
                [] => problem.label("it has no settings"),
                _ => problem.label(format!("it has `{}`", belongs.join("` and `"))),
            });
        }
    }
}

fn integers(
    dtype: DType,
    span: std::ops::Range<usize>,
    settings: Option<&Section>,
    names: &Names,
    problems: &mut Problems,
) -> FillRule {
    let (default_low, default_high) = default_range(dtype);
    let written = |key: &str| settings.and_then(|s| s.get(key));
    let is_expression = |key: &str| written(key).is_some_and(|item| item.get_ref().is_str());
    let depends = is_expression("low") || is_expression("high");
    let mut is_whole = true;
    for key in ["low", "high"] {
        if let Some(item) = written(key).filter(|item| item.get_ref().is_float()) {
            is_whole = false;
            problems.push(
                Diagnostic::new(format!("`{key}` of `integers` must be whole"), item.span())
                    .label("expected an integer"),
            );
        }
    }
    if depends && is_whole {
        let scope = Scope::Dimensions(
            "what a kernel is given cannot depend on how it is tuned; use the shape's dimensions",
        );
        let mut end = |key: &str, default: i64| match written(key) {
            Some(item) => expressions::read(item, scope, names, problems),
            None => Expr::constant(default),
        };
        // What it comes to is looked at on every shape, once those are known to be right.
        return FillRule::Integers {
            low: end("low", default_low),
            high: end("high", default_high),
        };
    }
    let end = |key: &str, default: i64| written(key).and_then(whole).unwrap_or(default);
    let (low, high) = (end("low", default_low), end("high", default_high));
    let (least, most) = whole_range(dtype);
    if low > high {
        problems.push(
            Diagnostic::new(
                format!("the range of `integers` is empty: {low} to {high}"),
                span,
            )
            .label("expected `low` to be at most `high`"),
        );
    } else if low < least || high > most {
        problems.push(
            Diagnostic::new(
                format!("integers from {low} to {high} do not fit in `{dtype}`"),
                span,
            )
            .label(format!("it holds {least} to {most} exactly")),
        );
    }
    FillRule::Fixed(Fill::Integers { low, high })
}

/// Only integers are drawn from a range over dimensions.
fn numbers_only(word: &str, settings: &Section, problems: &mut Problems) {
    if word == "integers" {
        return;
    }
    for key in ["low", "high"] {
        if let Some(item) = settings.get(key).filter(|item| item.get_ref().is_str()) {
            problems.push(
                Diagnostic::new(format!("`{key}` of `{word}` must be a number"), item.span())
                    .label("only the ends of `integers` may be expressions"),
            );
        }
    }
}
