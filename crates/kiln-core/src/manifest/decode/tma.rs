//! Arguments with `tma`: descriptors of other arguments, for the tensor memory accelerator.

use super::Problems;
use super::expressions::{self, Names, Scope};
use super::section::{Entry, Section};
use crate::diagnostic::{Diagnostic, nearest};
use crate::dtype::DType;
use crate::manifest::keys::quoted_list;
use crate::manifest::{Argument, ArgumentKind, Language, Swizzle};

/// A buffer that a descriptor may name.
pub(super) struct Tensor<'a> {
    name: &'a str,
    /// Among all arguments.
    position: usize,
    dtype: Option<DType>,
    rank: usize,
}

pub(super) fn tensors<'a>(section: &Section<'a>) -> Vec<Tensor<'a>> {
    let mut tensors = Vec::new();
    for (position, entry) in section.entries().into_iter().enumerate() {
        let Some(table) = section.entry_section(&entry) else {
            continue;
        };
        if table.has("shape") && !table.has("tma") {
            tensors.push(Tensor {
                name: entry.name(),
                position,
                dtype: DType::from_name(&table.text("dtype")),
                rank: table.items("shape").len(),
            });
        }
    }
    tensors
}

pub(super) fn decode(
    entry: &Entry,
    table: &Section,
    tensors: &[Tensor],
    names: &Names,
    problems: &mut Problems,
) -> Argument {
    let name = entry.name();
    for key in ["value", "shape", "role", "draw", "file", "tolerance"] {
        if table.has(key) {
            problems.push(
                Diagnostic::new(
                    format!("argument `{name}` has `tma` and cannot have `{key}`"),
                    table.place(key),
                )
                .label("a descriptor has only `box` and `swizzle`"),
            );
        }
    }
    let tensor = tensor(name, table, tensors, problems);
    let tile: Vec<_> = table
        .items("box")
        .into_iter()
        .map(|item| expressions::read(item, Scope::TunablesAndDimensions, names, problems))
        .collect();
    match (table.get("box"), tensor) {
        (None, _) => problems.push(
            Diagnostic::new(
                format!("argument `{name}` has `tma` but no `box`"),
                table.span.clone(),
            )
            .label("`box` is missing")
            .hint("say how much is loaded at a time, outermost first: e.g. `box = [64, \"D\"]`"),
        ),
        (Some(item), Some(tensor)) if tile.len() > tensor.rank => problems.push(
            Diagnostic::new(
                format!(
                    "the box of argument `{name}` has {} sizes, but `{}` has {}",
                    tile.len(),
                    tensor.name,
                    tensor.rank
                ),
                item.span(),
            )
            .label(format!("expected at most {}", tensor.rank)),
        ),
        _ => {}
    }
    let dtype = tensor.and_then(|t| t.dtype);
    if let (Some(own), Some(dtype)) = (DType::from_name(&table.text("dtype")), dtype)
        && own != dtype
    {
        problems.push(
            Diagnostic::new(
                format!("argument `{name}` is `{own}`, but the buffer it describes is `{dtype}`"),
                table.place("dtype"),
            )
            .label("not needed: a descriptor has its buffer's type"),
        );
    }
    Argument {
        name: name.to_string(),
        dtype: dtype.unwrap_or(DType::F64),
        kind: ArgumentKind::Tma {
            tensor: tensor.map_or(0, |t| t.position),
            tile,
            swizzle: match table.text("swizzle").as_str() {
                "32B" => Swizzle::Bytes32,
                "64B" => Swizzle::Bytes64,
                "128B" => Swizzle::Bytes128,
                _ => Swizzle::None,
            },
        },
        span: entry.key.span(),
    }
}

/// The buffer named.
fn tensor<'t, 'a>(
    name: &str,
    table: &Section,
    tensors: &'t [Tensor<'a>],
    problems: &mut Problems,
) -> Option<&'t Tensor<'a>> {
    let wanted = table.written_text("tma")?;
    let found = tensors.iter().find(|t| t.name == wanted.value);
    if found.is_none() {
        let known: Vec<&str> = tensors.iter().map(|t| t.name).collect();
        let problem = Diagnostic::new(
            format!(
                "argument `{name}` describes `{}`, which is no buffer",
                wanted.value
            ),
            wanted.span,
        )
        .label("expected the name of an argument with a `shape`");
        problems.push(match nearest(&wanted.value, known.iter().copied()) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None if known.is_empty() => problem,
            None => problem.hint(format!("the buffers are {}", quoted_list(&known))),
        });
    }
    found
}

/// Reports a descriptor in a language that has none.
pub(super) fn check_language(
    name: &str,
    table: &Section,
    language: Option<Language>,
    problems: &mut Problems,
) {
    if language == Some(Language::C) {
        problems.push(
            Diagnostic::new(
                format!("argument `{name}` has `tma`, which is for CUDA kernels"),
                table.place("tma"),
            )
            .label("this kernel is written in C"),
        );
    }
}

/// Reports what only a descriptor has in an argument that is none.
pub(super) fn check_absent(name: &str, table: &Section, problems: &mut Problems) {
    for key in ["box", "swizzle"] {
        if table.has(key) {
            problems.push(
                Diagnostic::new(
                    format!("argument `{name}` has `{key}` but no `tma`"),
                    table.place(key),
                )
                .label("only a descriptor of a buffer has one")
                .hint("name the buffer that it describes, e.g. `tma = \"K\"`"),
            );
        }
    }
}
