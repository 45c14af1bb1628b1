//! The tables that say what a kernel is compared with: right answers, and what is to be beaten.

use super::settings::{POSITIVE, table, whole};
use super::tables::{STRINGS, UP_TO_THREE, named};
use super::{Entries, Key, Kind, NameRule, Table};

const C_FUNCTION: &[Kind] = &[Kind::Function("file.c:function")];
const KERNEL_FUNCTION: &[Kind] = &[Kind::Function("file.cu:function")];
const PYTHON_FUNCTION: &[Kind] = &[Kind::Function("file.py:function")];

const GRID: Key = Key::optional(
    "grid",
    UP_TO_THREE,
    "Blocks per grid of `kernel`, over dimensions; needed with it.",
    "grid = \"ceil_div(N, 256)\"",
);
const BLOCK: Key = Key::optional(
    "block",
    UP_TO_THREE,
    "Threads per block of `kernel`, over dimensions; needed with it.",
    "block = 256",
);
const CLUSTER: Key = Key::optional(
    "cluster",
    UP_TO_THREE,
    "Blocks per cluster of `kernel`, over dimensions.",
    "cluster = 2",
);
const SHARED: Key = Key::optional(
    "shared",
    &[Kind::Expression, whole(0, i64::MAX)],
    "Dynamic shared memory per block of `kernel` in bytes, over dimensions.",
    "shared = 16384",
);
const COOPERATIVE: Key = Key::optional(
    "cooperative",
    &[Kind::Bool],
    "All blocks of `kernel` run at once and may wait for each other.",
    "cooperative = true",
)
.or("false");

pub(super) static REFERENCE: Table = table(
    "Where right answers come from.",
    &[
        Key::optional(
            "c",
            C_FUNCTION,
            "A C function with the kernel's parameters, every floating type replaced by `double`.",
            "c = \"reference.c:kernel\"",
        ),
        Key::optional(
            "python",
            PYTHON_FUNCTION,
            "A Python function that gets the inputs as tensors, in double precision, and returns the outputs.",
            "python = \"reference.py:kernel\"",
        ),
        Key::optional(
            "kernel",
            KERNEL_FUNCTION,
            "A CUDA kernel with the kernel's parameters and a launch of its own (CUDA).",
            "kernel = \"reference.cu:kernel\"",
        ),
        Key::optional(
            "file",
            &[Kind::Path],
            "A `.npy` file per output; `{argument}` and `{shape}` become names.",
            "file = \"expected_{argument}_{shape}.npy\"",
        ),
        Key::optional(
            "flags",
            &[STRINGS],
            "Compiler flags of `c`, by default `-O2`, or of `kernel`, by default none.",
            "flags = [\"-O2\"]",
        ),
        Key::optional(
            "precision",
            &[Kind::Word(&["double", "declared"])],
            "Floating types of `kernel`: `double` in place of each, or those of the arguments.",
            "precision = \"declared\"",
        )
        .or("\"double\""),
        GRID,
        BLOCK,
        CLUSTER,
        SHARED,
        COOPERATIVE,
    ],
);

pub(super) static BASELINE: Table = table(
    "What the winner has to beat.",
    &[
        Key::optional(
            "c",
            C_FUNCTION,
            "A C function with the kernel's own parameters (C).",
            "c = \"baseline.c:kernel\"",
        ),
        Key::optional(
            "python",
            PYTHON_FUNCTION,
            "A Python function that gets the inputs as tensors and returns the outputs (CUDA).",
            "python = \"baseline.py:kernel\"",
        ),
        Key::optional(
            "kernel",
            KERNEL_FUNCTION,
            "A CUDA kernel with the kernel's own parameters and a launch of its own (CUDA).",
            "kernel = \"baseline.cu:kernel\"",
        ),
        Key::optional(
            "config",
            &[Kind::Table(&CONFIG)],
            "One config of the kernel itself, every tunable given.",
            "config = { BLOCK = 32 }",
        ),
        Key::optional(
            "also",
            &[Kind::List {
                items: PYTHON_FUNCTION,
                least: 0,
                most: 100,
            }],
            "Python functions measured beside the baseline and shown; the verdict does not depend on them (CUDA).",
            "also = [\"baseline.py:other\"]",
        )
        .or("[]"),
        Key::optional(
            "flags",
            &[STRINGS],
            "Compiler flags of `c` or `kernel`; by default those of the kernel that is tuned.",
            "flags = [\"-O3\"]",
        ),
        GRID,
        BLOCK,
        CLUSTER,
        SHARED,
        COOPERATIVE,
        Key::optional(
            "target",
            &[POSITIVE],
            "The speedup that counts as success.",
            "target = 1.10",
        )
        .or("1.10"),
    ],
);

static CONFIG: Table = named(
    "A value for every tunable; it need not be one of the candidates.",
    Entries {
        what: "tunable",
        names: NameRule::Identifier,
        kinds: &[Kind::Scalar],
        doc: "Value of this tunable.",
        example: "config = { BLOCK = 32 }",
    },
);
