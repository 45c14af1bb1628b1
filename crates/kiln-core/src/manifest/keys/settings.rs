//! The tables of settings: tolerances, search, budget, measurement.

use super::{Bounds, Entries, Key, Kind, NameRule, Table};
use crate::admission::ADMITTED;

pub(super) const DTYPES: [&str; 12] = [
    "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
];

pub(super) const fn whole(least: i64, most: i64) -> Kind {
    Kind::Whole { least, most }
}

pub(super) const fn table(doc: &'static str, keys: &'static [Key]) -> Table {
    Table {
        doc,
        keys,
        entries: None,
    }
}

pub(super) const COUNT: Kind = whole(1, 10_000_000);
pub(super) const SECONDS: Kind = Kind::Number(Bounds::above(0.0).to(86_400.0));
pub(super) const POSITIVE: Kind = Kind::Number(Bounds::above(0.0));
pub(super) const ANY_NUMBER: Kind = Kind::Number(Bounds::ANY);
pub(super) const RELATIVE: Kind = Kind::Number(Bounds::from(0.0).below(1.0));
pub(super) static TOLERANCE: Table = table(
    "An answer is right when |got - expected| <= atol + rtol * |expected|.",
    &[
        Key::optional(
            "rtol",
            &[RELATIVE, Kind::Expression],
            "Relative part; may depend on dimensions.",
            "rtol = 1e-5",
        )
        .or("0"),
        Key::optional(
            "atol",
            &[Kind::Number(Bounds::from(0.0)), Kind::Expression],
            "Absolute part, over dimensions too; by default `rtol` times the output's root mean square.",
            "atol = \"1e-6 * sqrt(K)\"",
        ),
    ],
);

pub(super) const TOLERANCE_KINDS: &[Kind] = &[RELATIVE, Kind::Table(&TOLERANCE)];

pub(super) const fn tolerance_of(dtype: &'static str, example: &'static str) -> Key {
    Key::optional(
        dtype,
        TOLERANCE_KINDS,
        "Allowed error of outputs of this type; a number is `rtol`.",
        example,
    )
}

pub(super) static TOLERANCES: Table = table(
    "Allowed errors by type of output; kiln's own defaults hold for the others.",
    &[
        tolerance_of(DTYPES[0], "f16 = 1e-2"),
        tolerance_of(DTYPES[1], "bf16 = 2e-2"),
        tolerance_of(DTYPES[2], "f32 = 1e-5"),
        tolerance_of(DTYPES[3], "f64 = 1e-12"),
        tolerance_of(DTYPES[4], "i8 = { atol = 1 }"),
        tolerance_of(DTYPES[5], "i16 = { atol = 1 }"),
        tolerance_of(DTYPES[6], "i32 = { atol = 1 }"),
        tolerance_of(DTYPES[7], "i64 = { atol = 1 }"),
        tolerance_of(DTYPES[8], "u8 = { atol = 1 }"),
        tolerance_of(DTYPES[9], "u16 = { atol = 1 }"),
        tolerance_of(DTYPES[10], "u32 = { atol = 1 }"),
        tolerance_of(DTYPES[11], "u64 = { atol = 1 }"),
        Key::optional(
            "nonfinite",
            &[Kind::Word(&["reject", "match"])],
            "Whether NaN and infinity in the expected values are an error or must be met exactly.",
            "nonfinite = \"match\"",
        )
        .or("\"reject\""),
        Key::optional(
            "admits",
            &[Kind::List {
                items: &[Kind::Word(&ADMITTED)],
                least: 0,
                most: 100,
            }],
            "Weaknesses of the check that are accepted: `kiln tune` refuses a task that such a kernel would pass, and the report says so where it is accepted.",
            "admits = [\"bf16\"]",
        )
        .or("[]"),
    ],
);

pub(super) static SEARCH: Table = table(
    "How configs are chosen.",
    &[
        Key::optional(
            "strategy",
            &[Kind::Word(&[
                "auto",
                "tpe",
                "forest",
                "genetic",
                "annealing",
                "local",
                "random",
                "lhs",
                "exhaustive",
            ])],
            "The search strategy.",
            "strategy = \"auto\"",
        )
        .or("\"auto\""),
        Key::optional(
            "seed_trials",
            &[whole(1, 1_000_000)],
            "Trials spread over the space before the strategy proper; `auto` takes at most 10.",
            "seed_trials = 20",
        )
        .or("20"),
        Key::optional(
            "seed",
            &[whole(0, i64::MAX)],
            "Fixed seed; without it every new study draws one and records it.",
            "seed = 7",
        ),
    ],
);

pub(super) static BUDGET: Table = table(
    "When the search ends.",
    &[
        Key::optional("trials", &[COUNT], "Most trials.", "trials = 120").or("120"),
        Key::optional("minutes", &[POSITIVE], "Most minutes.", "minutes = 20"),
        Key::optional(
            "price_per_hour",
            &[POSITIVE],
            "Price of the machine, in any currency.",
            "price_per_hour = 3.50",
        ),
        Key::optional(
            "cost",
            &[POSITIVE],
            "Most to spend, in the same currency; needs `price_per_hour`.",
            "cost = 1.0",
        ),
        Key::optional(
            "stop_at_speedup",
            &[POSITIVE],
            "Stop when a trial is this many times faster than the baseline.",
            "stop_at_speedup = 2.0",
        ),
        Key::optional(
            "stagnation",
            &[COUNT],
            "Stop after this many trials without a better one.",
            "stagnation = 40",
        ),
        Key::optional(
            "hopeless_below",
            &[Kind::Number(Bounds::from(0.0).to(1.0))],
            "Stop after the seed trials if the best has less than this fraction of the baseline's speed.",
            "hopeless_below = 0.5",
        )
        .or("0.5"),
    ],
);

pub(super) static MEASURE: Table = table(
    "How one candidate is timed.",
    &[
        Key::optional(
            "min_samples",
            &[whole(2, 1_000_000)],
            "Fewest samples.",
            "min_samples = 10",
        )
        .or("10"),
        Key::optional(
            "max_samples",
            &[whole(2, 1_000_000)],
            "Most samples.",
            "max_samples = 100",
        )
        .or("100"),
        Key::optional(
            "precision",
            &[Kind::Number(Bounds::above(0.0).below(1.0))],
            "Stop when the 95 % interval of the median is within this fraction of it.",
            "precision = 0.01",
        )
        .or("0.01"),
        Key::optional(
            "max_seconds",
            &[SECONDS],
            "Most seconds of sampling.",
            "max_seconds = 2.0",
        )
        .or("2.0"),
        Key::optional(
            "cut_ratio",
            &[Kind::Number(Bounds::above(1.0))],
            "Stop when the candidate is this many times slower than the best so far.",
            "cut_ratio = 1.5",
        )
        .or("1.5"),
        Key::optional(
            "caches",
            &[Kind::Word(&["warm", "cold"])],
            "What a launch finds in the L2 cache: what the one before left, or nothing (CUDA).",
            "caches = \"cold\"",
        )
        .or("\"warm\""),
        Key::optional(
            "energy",
            &[Kind::Bool],
            "Measure the energy of finalists and baseline too (CUDA).",
            "energy = true",
        )
        .or("false"),
        Key::optional(
            "compile_timeout_seconds",
            &[SECONDS],
            "A compiler still running after this is killed.",
            "compile_timeout_seconds = 60",
        )
        .or("60"),
        Key::optional(
            "run_timeout_seconds",
            &[SECONDS],
            "A candidate still running after this is killed.",
            "run_timeout_seconds = 30",
        )
        .or("30"),
    ],
);

pub(super) static CONFIRM: Table = table(
    "How the finalists are measured again, against the baseline.",
    &[
        Key::optional(
            "samples",
            &[whole(2, 1_000_000)],
            "Samples of each.",
            "samples = 100",
        )
        .or("100"),
        Key::optional(
            "finalists",
            &[whole(1, 100)],
            "How many of the best.",
            "finalists = 3",
        )
        .or("3"),
        Key::optional(
            "rounds",
            &[whole(1, 1_000)],
            "Fresh processes the samples are spread over.",
            "rounds = 5",
        )
        .or("5"),
        Key::optional(
            "margin",
            &[RELATIVE],
            "Differences inside this fraction are the same speed.",
            "margin = 0.03",
        )
        .or("0.03"),
        Key::optional(
            "max_seconds",
            &[SECONDS],
            "Slow kernels get fewer samples, so that confirming takes about this long at most.",
            "max_seconds = 60",
        )
        .or("60"),
        Key::optional(
            "unseen_shapes",
            &[whole(0, 100)],
            "Shapes the search never saw on which the winner must be right, beside those at the edges of its tiles.",
            "unseen_shapes = 3",
        )
        .or("3"),
        Key::optional(
            "domain",
            &[Kind::Table(&DOMAINS)],
            "What dimensions of unseen shapes may be, by name; by default what the manifest's own shapes have in common.",
            "domain = { N = { from = 64, step = 64 } }",
        ),
        Key::optional(
            "repeats",
            &[whole(0, 10_000)],
            "Launches of the winner on the same inputs; outputs that differ are reported, and refused out of tolerance.",
            "repeats = 20",
        )
        .or("20"),
        Key::optional(
            "sanitize",
            &[Kind::Word(&["auto", "on", "off"])],
            "Run the winner under compute-sanitizer (CUDA), or compiled so that indices and addresses are checked (C): where it can be had, always, or never.",
            "sanitize = \"on\"",
        )
        .or("\"auto\""),
    ],
);

static DOMAINS: Table = Table {
    doc: "Values that dimensions of unseen shapes may take.",
    keys: &[],
    entries: Some(Entries {
        what: "dimension",
        names: NameRule::Identifier,
        kinds: &[Kind::Table(&DOMAIN)],
        doc: "Values that this dimension may take.",
        example: "N = { from = 64, step = 64 }",
    }),
};

static DOMAIN: Table = table(
    "Values that a dimension of unseen shapes may take.",
    &[
        Key::optional(
            "from",
            &[whole(1, i64::MAX)],
            "Least value; by default the least among the manifest's shapes.",
            "from = 64",
        ),
        Key::optional(
            "to",
            &[whole(1, i64::MAX)],
            "Greatest value; by default the greatest among the manifest's shapes.",
            "to = 4096",
        ),
        Key::optional(
            "step",
            &[whole(1, i64::MAX)],
            "A divisor of every value; by default the greatest that the manifest's shapes share.",
            "step = 8",
        ),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn dtypes_are_all_listed() {
        assert_eq!(DTYPES.map(DType::from_name), DType::ALL.map(Some));
    }
}
