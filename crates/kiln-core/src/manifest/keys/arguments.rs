//! The table of arguments and what it may contain.

use super::settings::{ANY_NUMBER, DTYPES, POSITIVE, RELATIVE, TOLERANCE, table};
use super::tables::{EXTENT, named};
use super::{Entries, Key, Kind, NameRule, Table};

pub(super) static ARGUMENTS: Table = named(
    "The entry's parameters, in the entry's order.",
    Entries {
        what: "argument",
        names: NameRule::Parameter,
        kinds: &[Kind::Table(&ARGUMENT)],
        doc: ARGUMENT.doc,
        example: "x = { dtype = \"f32\", shape = [\"N\"] }",
    },
);

static ARGUMENT: Table = table(
    "A scalar (`value`), a buffer (`shape`) or a descriptor of a buffer (`tma`).",
    &[
        Key::required(
            "dtype",
            &[Kind::Word(&DTYPES)],
            "Type of the scalar or of one element; a descriptor has its buffer's.",
            "dtype = \"f32\"",
        )
        .unless("tma"),
        Key::optional(
            "value",
            &[Kind::Expression, ANY_NUMBER],
            "Value of a scalar, over tunables and dimensions.",
            "value = \"N\"",
        ),
        Key::optional(
            "shape",
            &[Kind::List {
                items: EXTENT,
                least: 1,
                most: 16,
            }],
            "Extents of a buffer over dimensions; a scratch buffer may use tunables too.",
            "shape = [\"N\"]",
        ),
        Key::optional(
            "role",
            &[Kind::Word(&["input", "output", "inout", "scratch"])],
            "What the kernel does with the buffer.",
            "role = \"output\"",
        )
        .or("\"input\""),
        Key::optional(
            "draw",
            &[
                Kind::Word(&["normal", "uniform", "integers", "iota", "zeros", "ones"]),
                Kind::Table(&DRAW),
            ],
            "How an input is filled; by default `normal` for floating types and `integers` for others.",
            "draw = \"uniform\"",
        ),
        Key::optional(
            "file",
            &[Kind::Path],
            "A `.npy` file with the input's contents; `{shape}` becomes the shape's name.",
            "file = \"x_{shape}.npy\"",
        ),
        Key::optional(
            "tolerance",
            &[RELATIVE, Kind::Table(&TOLERANCE)],
            "Allowed error of this output; a number is `rtol`.",
            "tolerance = 1e-5",
        ),
        Key::optional(
            "tma",
            &[Kind::Text],
            "The buffer that this argument describes for the tensor memory accelerator, as a `CUtensorMap` (CUDA).",
            "tma = \"K\"",
        ),
        Key::optional(
            "box",
            &[Kind::List {
                items: EXTENT,
                least: 1,
                most: 5,
            }],
            "Elements loaded at a time, over tunables and dimensions, outermost first; needed with `tma`.",
            "box = [\"BLOCK_N\", \"D\"]",
        ),
        Key::optional(
            "swizzle",
            &[Kind::Word(&["none", "32B", "64B", "128B"])],
            "How a box is permuted in shared memory.",
            "swizzle = \"128B\"",
        )
        .or("\"none\""),
    ],
);

static DRAW: Table = table(
    "How an input is filled, with its settings.",
    &[
        Key::required(
            "kind",
            &[Kind::Word(&[
                "normal", "uniform", "integers", "iota", "zeros", "ones", "constant",
            ])],
            "The distribution or pattern.",
            "kind = \"uniform\"",
        ),
        Key::optional(
            "low",
            &[ANY_NUMBER, Kind::Expression],
            "Least value of `uniform` (default 0) and `integers` (default -8, or 0 for unsigned types; may be an expression over dimensions).",
            "low = -1",
        ),
        Key::optional(
            "high",
            &[ANY_NUMBER, Kind::Expression],
            "Greatest value of `uniform` (default 1) and `integers` (default 8, included; may be an expression over dimensions).",
            "high = 1",
        ),
        Key::optional("mean", &[ANY_NUMBER], "Mean of `normal`.", "mean = 0").or("0"),
        Key::optional(
            "std",
            &[POSITIVE],
            "Standard deviation of `normal`.",
            "std = 1",
        )
        .or("1"),
        Key::optional(
            "value",
            &[ANY_NUMBER],
            "Value of `constant`.",
            "value = 0.5",
        ),
    ],
);
