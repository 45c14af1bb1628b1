//! Effects learnt on recorded spaces agree with the whole tables; the full count is `cargo bench --bench effects`.
#![allow(clippy::unwrap_used)]

#[path = "effects/tables.rs"]
mod tables;

use std::path::Path;

#[test]
fn the_most_important_tunables_are_found_in_200_trials() {
    let spaces = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spaces");
    let found = tables::tables(&spaces);
    assert!(found.len() >= 2, "{found:?}");
    for path in found {
        let table = tables::read(&path);
        let truth = tables::true_shares(&table);
        let effects = tables::learn(&table, "auto", 200, 0);
        assert!(
            tables::agrees(&truth, &effects),
            "{}: {truth:?}, learnt {:?}",
            tables::name(&path),
            effects
                .tunables
                .iter()
                .map(|t| &t.sentence)
                .collect::<Vec<_>>()
        );
        assert!(effects.important().count() >= 2);
    }
}
