//! What two versions of a manifest disagree in, as far as it decides what a kernel computes, how it is run, and what
//! its winner was held against. Comments, spacing, further shapes, budgets and the search are not looked at.

use super::{
    Argument, ArgumentKind, Baseline, BaselineKind, Launch, Manifest, PythonFunction, Reference,
    Spanned, ToleranceRule,
};
use crate::dtype::DType;
use crate::expression::Expr;

impl Manifest {
    /// In words, each of which follows "the"; nothing where what won then is what would be built now.
    pub fn differences(&self, earlier: &Manifest) -> Vec<&'static str> {
        [
            ("kernel", same_kernel(self, earlier)),
            ("flags", same_flags(self, earlier)),
            ("constraints", keeps_constraints(self, earlier)),
            (
                "arguments",
                all(&self.arguments, &earlier.arguments, same_argument),
            ),
            ("launch", same_launch(&self.launch, &earlier.launch)),
            (
                "reference",
                both(&self.reference, &earlier.reference, same_reference),
            ),
            (
                "baseline",
                both(&self.baseline, &earlier.baseline, same_baseline),
            ),
            ("tolerance", same_tolerance(self, earlier)),
        ]
        .into_iter()
        .filter_map(|(name, is_same)| (!is_same).then_some(name))
        .collect()
    }
}

fn all<T>(now: &[T], then: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    now.len() == then.len() && now.iter().zip(then).all(|(a, b)| same(a, b))
}

fn both<T>(now: &Option<T>, then: &Option<T>, same: impl Fn(&T, &T) -> bool) -> bool {
    match (now, then) {
        (Some(now), Some(then)) => same(now, then),
        (None, None) => true,
        _ => false,
    }
}

fn texts(now: &[Spanned<String>], then: &[Spanned<String>]) -> bool {
    all(now, then, |a, b| a.value == b.value)
}

fn same_kernel(now: &Manifest, then: &Manifest) -> bool {
    let (now, then) = (&now.kernel, &then.kernel);
    now.language == then.language
        && now.source.value == then.source.value
        && now.entry.value == then.entry.value
        && now.compiler == then.compiler
}

fn same_flags(now: &Manifest, then: &Manifest) -> bool {
    let (now, then) = (&now.kernel, &then.kernel);
    now.flags == then.flags && texts(&now.include_dirs, &then.include_dirs)
}

/// A further one only says more about where a config may be used.
fn keeps_constraints(now: &Manifest, then: &Manifest) -> bool {
    let is_kept = |expr: &Expr| now.constraints.iter().any(|c| expr.says_the_same(&c.expr));
    then.constraints.iter().all(|c| is_kept(&c.expr))
}

fn same_exprs(now: &[Expr], then: &[Expr]) -> bool {
    all(now, then, Expr::says_the_same)
}

fn same_argument(now: &Argument, then: &Argument) -> bool {
    let same_kind = match (&now.kind, &then.kind) {
        (ArgumentKind::Scalar { value }, ArgumentKind::Scalar { value: then }) => {
            value.says_the_same(then)
        }
        (
            ArgumentKind::Buffer {
                shape,
                role,
                fill,
                tolerance,
            },
            ArgumentKind::Buffer {
                shape: then_shape,
                role: then_role,
                fill: then_fill,
                tolerance: then_tolerance,
            },
        ) => {
            same_exprs(shape, then_shape)
                && role == then_role
                && fill.says_the_same(then_fill)
                && both(tolerance, then_tolerance, same_rule)
        }
        (
            ArgumentKind::Tma {
                tensor,
                tile,
                swizzle,
            },
            ArgumentKind::Tma {
                tensor: then_tensor,
                tile: then_tile,
                swizzle: then_swizzle,
            },
        ) => tensor == then_tensor && same_exprs(tile, then_tile) && swizzle == then_swizzle,
        _ => false,
    };
    now.name == then.name && now.dtype == then.dtype && same_kind
}

fn same_launch(now: &Launch, then: &Launch) -> bool {
    same_exprs(&now.grid, &then.grid)
        && same_exprs(&now.block, &then.block)
        && same_exprs(&now.cluster, &then.cluster)
        && both(&now.shared, &then.shared, Expr::says_the_same)
        && both(&now.threads, &then.threads, Expr::says_the_same)
        && now.cooperative == then.cooperative
}

fn same_rule(now: &ToleranceRule, then: &ToleranceRule) -> bool {
    now.rtol.says_the_same(&then.rtol) && both(&now.atol, &then.atol, Expr::says_the_same)
}

fn same_tolerance(now: &Manifest, then: &Manifest) -> bool {
    let same = |a: &(DType, ToleranceRule), b: &(DType, ToleranceRule)| {
        a.0 == b.0 && same_rule(&a.1, &b.1)
    };
    // By type, in whatever order they were written.
    let by_type = |m: &Manifest| {
        let mut rules = m.tolerance.clone();
        rules.sort_by_key(|(dtype, _)| dtype.name());
        rules
    };
    all(&by_type(now), &by_type(then), same)
        && now.nonfinite == then.nonfinite
        && now.admits == then.admits
}

fn same_function(now: &PythonFunction, then: &PythonFunction) -> bool {
    now.source.value == then.source.value && now.function == then.function
}

/// A function of a file, the flags it is compiled with, and how it is launched where it is a kernel.
struct Compiled<'m> {
    source: &'m Spanned<String>,
    entry: &'m String,
    flags: &'m Vec<String>,
    launch: Option<&'m Launch>,
}

impl Compiled<'_> {
    fn is_same(&self, then: &Compiled<'_>) -> bool {
        self.source.value == then.source.value
            && self.entry == then.entry
            && self.flags == then.flags
            && match (self.launch, then.launch) {
                (Some(now), Some(then)) => same_launch(now, then),
                (now, then) => now.is_none() && then.is_none(),
            }
    }
}

fn compiled_reference(reference: &Reference) -> Option<Compiled<'_>> {
    let (source, entry, flags, launch) = match reference {
        Reference::C {
            source,
            entry,
            flags,
        } => (source, entry, flags, None),
        Reference::Kernel {
            source,
            entry,
            flags,
            launch,
            ..
        } => (source, entry, flags, Some(launch)),
        Reference::Python(_) | Reference::File { .. } => return None,
    };
    Some(Compiled {
        source,
        entry,
        flags,
        launch,
    })
}

fn compiled_baseline(kind: &BaselineKind) -> Option<Compiled<'_>> {
    let (source, entry, flags, launch) = match kind {
        BaselineKind::C {
            source,
            entry,
            flags,
        } => (source, entry, flags, None),
        BaselineKind::Kernel {
            source,
            entry,
            flags,
            launch,
        } => (source, entry, flags, Some(launch)),
        _ => return None,
    };
    Some(Compiled {
        source,
        entry,
        flags,
        launch,
    })
}

fn same_reference(now: &Reference, then: &Reference) -> bool {
    if let (Some(a), Some(b)) = (compiled_reference(now), compiled_reference(then)) {
        let precision = |r: &Reference| match r {
            Reference::Kernel { precision, .. } => Some(*precision),
            _ => None,
        };
        return a.is_same(&b) && precision(now) == precision(then);
    }
    match (now, then) {
        (Reference::Python(now), Reference::Python(then)) => same_function(now, then),
        (Reference::File { path }, Reference::File { path: then }) => path.value == then.value,
        _ => false,
    }
}

/// What else is measured beside it, and the speedup asked for, decide nothing about who won.
fn same_baseline(now: &Baseline, then: &Baseline) -> bool {
    if let (Some(a), Some(b)) = (compiled_baseline(&now.kind), compiled_baseline(&then.kind)) {
        return a.is_same(&b);
    }
    match (&now.kind, &then.kind) {
        (BaselineKind::Python(now), BaselineKind::Python(then)) => same_function(now, then),
        (BaselineKind::Config { values, .. }, BaselineKind::Config { values: then, .. }) => {
            values.len() == then.len() && values.iter().all(|pair| then.contains(pair))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[kernel]
source = "k.c"
entry = "k"
flags = ["-O2"]
[tunables]
U = [1, 2]
[constraints]
whole = "N % U == 0"
[shapes.target]
N = 1000
[arguments]
x = { dtype = "f32", shape = ["N"] }
y = { dtype = "f32", shape = ["N"], role = "output" }
n = { dtype = "i32", value = "N" }
[reference]
c = "r.c:k"
[baseline]
config = { U = 1 }
[tolerance]
f32 = { rtol = 1e-5 }
"#;

    fn parsed(text: &str) -> Manifest {
        Manifest::parse(text).expect("a manifest")
    }

    #[test]
    fn edits_that_change_what_is_computed_are_named() {
        for (from, to, changed) in [
            ("value = \"N\"", "value = \"N - 1\"", "arguments"),
            ("shape = [\"N\"] }", "shape = [\"N + 1\"] }", "arguments"),
            ("-O2", "-O0", "flags"),
            ("rtol = 1e-5", "rtol = 1e-2", "tolerance"),
            ("rtol = 1e-5", "rtol = 1e-5, atol = 1.0", "tolerance"),
            ("entry = \"k\"", "entry = \"other\"", "kernel"),
            ("r.c:k", "r.c:easier", "reference"),
            ("config = { U = 1 }", "config = { U = 2 }", "baseline"),
            ("whole = \"N % U == 0\"", "whole = \"N > 0\"", "constraints"),
            // Not about what is computed.
            ("N % U == 0", "(N%U) ==  0", ""),
            ("value = \"N\"", "value = \" N \"", ""),
            ("U = [1, 2]", "U = [1, 2] # a note", ""),
            ("whole =", "small = \"N < 9999\"\nwhole =", ""),
            (
                "[arguments]",
                "[shapes.more]\nuse = \"sweep\"\nN = 7\n[arguments]",
                "",
            ),
            ("[tolerance]", "[budget]\ntrials = 3\n[tolerance]", ""),
        ] {
            let words = parsed(&TEXT.replace(from, to)).differences(&parsed(TEXT));
            assert_eq!(words.join(" "), changed, "{from} -> {to}");
        }
        // The order of arguments is that of the function's parameters.
        let (x, n) = (
            "x = { dtype = \"f32\", shape = [\"N\"] }\n",
            "n = { dtype = \"i32\", value = \"N\" }\n",
        );
        let turned = TEXT.replace(n, "").replace(x, &format!("{n}{x}"));
        assert_eq!(parsed(&turned).differences(&parsed(TEXT)), ["arguments"]);
    }
}
