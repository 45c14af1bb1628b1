//! The tables that describe a kernel, in the order a manifest is usually written.

use super::arguments::ARGUMENTS;
use super::comparison::{BASELINE, REFERENCE};
use super::export::EXPORT;
use super::gates::GATE_TABLE;
use super::settings::{
    ANY_NUMBER, BUDGET, CONFIRM, MEASURE, POSITIVE, SEARCH, TOLERANCES, table, whole,
};
use super::{Entries, Key, Kind, NameRule, Table};

/// Compiler flags of a C kernel that names none.
pub const C_FLAGS: [&str; 2] = ["-O3", "-march=native"];

pub(super) const fn named(doc: &'static str, entries: Entries) -> Table {
    Table {
        doc,
        keys: &[],
        entries: Some(entries),
    }
}

pub(super) const STRINGS: Kind = Kind::List {
    items: &[Kind::Text],
    least: 0,
    most: 1_000,
};
pub(super) const EXTENT: &[Kind] = &[Kind::Expression, whole(1, i64::MAX)];
pub(super) const UP_TO_THREE: &[Kind] = &[
    Kind::Expression,
    whole(1, i64::MAX),
    Kind::List {
        items: EXTENT,
        least: 1,
        most: 3,
    },
];

/// The whole file.
pub static ROOT: Table = table(
    "What kiln needs to know to tune one kernel.",
    &[
        Key::optional(
            "kiln",
            &[whole(0, i64::MAX)],
            "Version of this format; this kiln reads version 1.",
            "kiln = 1",
        )
        .or("1"),
        Key::required(
            "kernel",
            &[Kind::Table(&KERNEL)],
            KERNEL.doc,
            "[kernel]\nsource = \"kernel.c\"\nentry = \"kernel\"",
        ),
        Key::optional(
            "tunables",
            &[Kind::Table(&TUNABLES)],
            TUNABLES.doc,
            "[tunables]\nBLOCK = [16, 32, 64]",
        ),
        Key::optional(
            "constraints",
            &[Kind::Table(&CONSTRAINTS)],
            CONSTRAINTS.doc,
            "[constraints]\nfits = \"BLOCK <= N\"",
        ),
        Key::required(
            "shapes",
            &[Kind::Table(&SHAPES)],
            SHAPES.doc,
            "[shapes.target]\nN = 1024",
        ),
        Key::required(
            "arguments",
            &[Kind::Table(&ARGUMENTS)],
            ARGUMENTS.doc,
            "[arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }",
        ),
        Key::optional(
            "launch",
            &[Kind::Table(&LAUNCH)],
            LAUNCH.doc,
            "[launch]\ngrid = \"ceil_div(N, BLOCK)\"\nblock = \"BLOCK\"",
        ),
        Key::optional(
            "work",
            &[Kind::Table(&WORK)],
            WORK.doc,
            "[work]\nflops = \"2 * N\"",
        ),
        Key::optional(
            "stages",
            &[Kind::Table(&STAGES)],
            STAGES.doc,
            "[stages]\nloads = \"-DNO_LOADS\"",
        ),
        Key::optional(
            "reference",
            &[Kind::Table(&REFERENCE)],
            REFERENCE.doc,
            "[reference]\nc = \"reference.c:kernel\"",
        ),
        Key::optional(
            "baseline",
            &[Kind::Table(&BASELINE)],
            BASELINE.doc,
            "[baseline]\nc = \"baseline.c:kernel\"",
        ),
        Key::optional(
            "tolerance",
            &[Kind::Table(&TOLERANCES)],
            TOLERANCES.doc,
            "[tolerance]\nf32 = 1e-5",
        ),
        Key::optional(
            "gates",
            &[Kind::Table(&GATE_TABLE)],
            GATE_TABLE.doc,
            "[gates]\nthreads = \"warn\"",
        ),
        Key::optional(
            "search",
            &[Kind::Table(&SEARCH)],
            SEARCH.doc,
            "[search]\nseed = 7",
        ),
        Key::optional(
            "budget",
            &[Kind::Table(&BUDGET)],
            BUDGET.doc,
            "[budget]\ntrials = 60",
        ),
        Key::optional(
            "measure",
            &[Kind::Table(&MEASURE)],
            MEASURE.doc,
            "[measure]\nmax_samples = 50",
        ),
        Key::optional(
            "confirm",
            &[Kind::Table(&CONFIRM)],
            CONFIRM.doc,
            "[confirm]\nsamples = 200",
        ),
        Key::optional(
            "export",
            &[Kind::Table(&EXPORT)],
            EXPORT.doc,
            "[export]\nfallback = \"baseline.py:kernel\"",
        ),
    ],
);

static KERNEL: Table = table(
    "The kernel and how to compile it.",
    &[
        Key::optional(
            "name",
            &[Kind::Label],
            "What the kernel is called in reports; by default the entry's name.",
            "name = \"saxpy\"",
        ),
        Key::optional(
            "language",
            &[Kind::Word(&["c", "cuda"])],
            "Language of the source; by default told from its suffix, `.c` or `.cu`.",
            "language = \"c\"",
        ),
        Key::required(
            "source",
            &[Kind::Path],
            "The source file.",
            "source = \"kernel.c\"",
        ),
        Key::required(
            "entry",
            &[Kind::Entry],
            "The function to call, or the `__global__` function to launch; in CUDA it may be `space::kernel<float, TILE>`.",
            "entry = \"kernel\"",
        ),
        Key::optional(
            "flags",
            &[STRINGS],
            "Compiler flags; by default `-O3 -march=native` for C and none for CUDA. The architecture and the tunables are kiln's to set. See Flags below.",
            "flags = [\"-O3\", \"-march=native\"]",
        ),
        Key::optional(
            "include_dirs",
            &[Kind::List {
                items: &[Kind::Path],
                least: 0,
                most: 1_000,
            }],
            "Folders searched for headers.",
            "include_dirs = [\"include\"]",
        )
        .or("[]"),
        Key::optional(
            "compiler",
            &[Kind::Word(&["nvrtc", "nvcc"])],
            "What compiles a CUDA kernel; `nvcc` is slower and takes sources that NVRTC cannot.",
            "compiler = \"nvcc\"",
        )
        .or("\"nvrtc\""),
    ],
);

static TUNABLES: Table = named(
    "The compile-time choices, each reaching the source as `-DNAME=value`.",
    Entries {
        what: "tunable",
        names: NameRule::Identifier,
        kinds: &[
            Kind::List {
                items: &[Kind::Scalar],
                least: 0,
                most: usize::MAX,
            },
            Kind::Table(&TUNABLE),
        ],
        doc: "A list of candidate values, all of one kind, or a table.",
        example: "BLOCK = [16, 32, 64]",
    },
);

static TUNABLE: Table = table(
    "Candidate values spelled out, one fixed value, or a range.",
    &[
        Key::optional(
            "values",
            &[Kind::List {
                items: &[Kind::Scalar],
                least: 0,
                most: usize::MAX,
            }],
            "Candidate values, all of one kind.",
            "values = [16, 32, 64]",
        ),
        Key::optional("value", &[Kind::Scalar], "The only value.", "value = 64"),
        Key::optional("from", &[ANY_NUMBER], "First value of a range.", "from = 2"),
        Key::optional(
            "to",
            &[ANY_NUMBER],
            "Last value of a range, included.",
            "to = 8",
        ),
        Key::optional(
            "step",
            &[ANY_NUMBER],
            "Distance between values of a range.",
            "step = 2",
        )
        .or("1"),
        Key::optional(
            "factor",
            &[ANY_NUMBER],
            "Ratio between values of a range, instead of `step`.",
            "factor = 2",
        ),
    ],
);

static CONSTRAINTS: Table = named(
    "Conditions a config must meet, over tunables and dimensions.",
    Entries {
        what: "constraint",
        names: NameRule::Label,
        kinds: &[Kind::Expression],
        doc: "An expression that is true for every config worth trying.",
        example: "fits = \"BLOCK <= N\"",
    },
);

static SHAPES: Table = named(
    "Problem sizes, one table each; one of them is the target.",
    Entries {
        what: "shape",
        names: NameRule::Label,
        kinds: &[Kind::Table(&SHAPE)],
        doc: "The dimensions of one problem size.",
        example: "[shapes.target]",
    },
);

static SHAPE: Table = Table {
    doc: "The dimensions of one problem size; every shape names the same ones.",
    keys: &[
        Key::optional(
            "use",
            &[Kind::Word(&["target", "check", "sweep"])],
            "`target` is tuned and timed, `check` is checked before that, `sweep` waits for sweeps; by default the shape called `target`, or the only one, is the target and others are `check`.",
            "use = \"check\"",
        ),
        Key::optional(
            "weight",
            &[POSITIVE],
            "How much this shape counts when several are tuned together (`kiln tune --shapes`).",
            "weight = 2",
        )
        .or("1"),
    ],
    entries: Some(Entries {
        what: "dimension",
        names: NameRule::Identifier,
        kinds: EXTENT,
        doc: "An integer from 1, or an expression over the shape's other dimensions.",
        example: "N = 1024",
    }),
};

static LAUNCH: Table = table(
    "Launch geometry, over tunables and dimensions.",
    &[
        Key::optional(
            "grid",
            UP_TO_THREE,
            "Blocks per grid, one to three numbers (CUDA).",
            "grid = \"ceil_div(N, BLOCK)\"",
        ),
        Key::optional(
            "block",
            UP_TO_THREE,
            "Threads per block, one to three numbers (CUDA).",
            "block = \"BLOCK\"",
        ),
        Key::optional(
            "cluster",
            UP_TO_THREE,
            "Blocks per cluster, one to three numbers (CUDA).",
            "cluster = 2",
        ),
        Key::optional(
            "shared",
            &[Kind::Expression, whole(0, i64::MAX)],
            "Dynamic shared memory per block in bytes (CUDA).",
            "shared = \"4 * BLOCK\"",
        ),
        Key::optional(
            "cooperative",
            &[Kind::Bool],
            "All blocks run at once and may wait for each other (CUDA).",
            "cooperative = true",
        )
        .or("false"),
        Key::optional(
            "threads",
            EXTENT,
            "How many threads a C kernel starts.",
            "threads = \"THREADS\"",
        ),
    ],
);

static WORK: Table = table(
    "How much one launch must do, over dimensions: for rates and the floor.",
    &[
        Key::optional(
            "flops",
            EXTENT,
            "Arithmetic operations.",
            "flops = \"2 * N\"",
        ),
        Key::optional(
            "bytes",
            EXTENT,
            "Bytes that must move to or from memory.",
            "bytes = \"12 * N\"",
        ),
    ],
);

/// What leaves a stage out; one flag needs no list.
const STAGE_FLAGS: Kind = Kind::List {
    items: &[Kind::Text],
    least: 1,
    most: 16,
};

static STAGES: Table = named(
    "Parts of the kernel that can be left out, for `kiln profile` to see what they cost.",
    Entries {
        what: "stage",
        names: NameRule::Label,
        kinds: &[Kind::Text, STAGE_FLAGS, Kind::Table(&STAGE)],
        doc: "The macro that leaves it out, several of them, or a table.",
        example: "loads = \"-DNO_LOADS\"",
    },
);

static STAGE: Table = table(
    "A stage with what is known of it.",
    &[
        Key::required(
            "flags",
            &[Kind::Text, STAGE_FLAGS],
            "Macros that leave the stage out: `-DNAME`, `-DNAME=value` or `-UNAME`.",
            "flags = \"-DNO_LOADS\"",
        ),
        Key::optional(
            "kind",
            &[Kind::Word(&[
                "memory",
                "compute",
                "special_function",
                "synchronisation",
            ])],
            "What the stage keeps busy: the class of a kernel that it binds.",
            "kind = \"memory\"",
        ),
    ],
);
