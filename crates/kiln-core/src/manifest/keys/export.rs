//! The table that says how a kernel is called where kiln is not there.

use super::settings::{table, whole};
use super::tables::named;
use super::{Entries, Key, Kind, NameRule, Table};

pub(super) static EXPORT: Table = table(
    "How an exported kernel is called (`kiln export`).",
    &[
        Key::optional(
            "fallback",
            &[Kind::Function("file.py:function")],
            "What computes the answer in Python where no exported kernel fits: it gets the inputs as tensors and returns the outputs; by default a [baseline] in Python, else a [reference] in Python.",
            "fallback = \"baseline.py:kernel\"",
        ),
        Key::optional(
            "parameters",
            &[Kind::Table(&PARAMETERS)],
            PARAMETERS.doc,
            "parameters = { is_causal = false }",
        ),
        Key::optional(
            "dimensions",
            &[Kind::Table(&DIMENSIONS)],
            DIMENSIONS.doc,
            "dimensions = { MASK = \"2 if is_causal else 1\" }",
        ),
    ],
);

static PARAMETERS: Table = named(
    "What a caller says beside tensors, each with its default.",
    Entries {
        what: "parameter",
        names: NameRule::Identifier,
        kinds: &[Kind::Bool, whole(i64::MIN, i64::MAX)],
        doc: "Its default: a boolean or an integer.",
        example: "is_causal = false",
    },
);

static DIMENSIONS: Table = named(
    "Dimensions that no tensor has, computed from parameters; one without a line here is a parameter itself.",
    Entries {
        what: "dimension",
        names: NameRule::Identifier,
        kinds: &[Kind::Expression, whole(1, i64::MAX)],
        doc: "An expression over parameters.",
        example: "MASK = \"2 if is_causal else 1\"",
    },
);
