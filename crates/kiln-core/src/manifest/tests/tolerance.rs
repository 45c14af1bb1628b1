//! What `[tolerance]` allows is what the comparison gets.

use super::*;
use crate::dtype::DType;

fn with(table: &str) -> Manifest {
    parsed(&format!("{SAXPY}\n[tolerance]\n{table}\n"))
}

fn of(rtol: f64, atol: Option<f64>) -> Tolerance {
    Tolerance { rtol, atol }
}

#[test]
fn a_number_is_relative_and_a_table_says_which() {
    let manifest = with(
        "f32 = 1e-3\nf16 = { rtol = 2e-3, atol = 0.5 }\ni32 = { atol = 2 }\nbf16 = { rtol = 0.25 }",
    );
    let dimensions = &manifest.target().dimensions;
    let rules = manifest.tolerance.iter();
    let mut found: Vec<(DType, Tolerance)> = rules
        .map(|(dtype, rule)| (*dtype, rule.on(dimensions).unwrap()))
        .collect();
    found.sort_by_key(|(dtype, _)| dtype.name());
    assert_eq!(
        found,
        [
            (DType::Bf16, of(0.25, None)),
            (DType::F16, of(2e-3, Some(0.5))),
            (DType::F32, of(1e-3, None)),
            (DType::I32, of(0.0, Some(2.0))),
        ]
    );
    assert_eq!(manifest.nonfinite, Nonfinite::Reject);
    assert_eq!(manifest.admits, [""; 0]);
}

#[test]
fn weaknesses_are_accepted_by_name_only() {
    let manifest = with("nonfinite = \"match\"\nadmits = [\"bf16\", \"zeros\"]");
    assert_eq!(manifest.nonfinite, Nonfinite::Match);
    assert_eq!(manifest.admits, ["bf16", "zeros"]);
    assert!(manifest.tolerance.is_empty());
}
