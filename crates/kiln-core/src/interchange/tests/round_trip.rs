//! What is written is read back as it was.

use std::sync::Arc;

use proptest::prelude::*;

use crate::interchange::{
    Costs, FailureKind, Origin, Record, RecordedOutcome, Table, read_recording, t1,
    write_kernel_tuner, write_t4,
};
use crate::manifest::Manifest;
use crate::space::{BuildLimits, Config, Rule, RuleKind, Space, Tunable};
use crate::value::Value;

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-1000..1000i64).prop_map(Value::Int),
        any::<bool>().prop_map(Value::Bool),
        (-1e20..1e20f64).prop_map(Value::Float),
        (-1e-3..1e-3f64).prop_map(Value::Float),
        "[ -~é]{0,6}".prop_map(Value::Text),
    ]
}

fn any_outcome() -> impl Strategy<Value = RecordedOutcome> {
    prop_oneof![
        3 => (1e-6..1e6f64).prop_map(RecordedOutcome::Time),
        1 => prop_oneof![
            Just(FailureKind::Invalid),
            Just(FailureKind::Compile),
            Just(FailureKind::Runtime),
            Just(FailureKind::Timeout),
            Just(FailureKind::Wrong),
            "[a-z]{3,9}Config".prop_map(FailureKind::Other),
        ]
        .prop_map(RecordedOutcome::Failed),
    ]
}

fn any_table() -> impl Strategy<Value = Table> {
    let tunables = prop::collection::vec(prop::collection::vec(any_value(), 1..5), 1..4);
    let record = (
        any_outcome(),
        prop::collection::vec(1e-6..1e6f64, 0..4),
        any::<bool>(),
    );
    (tunables, prop::collection::vec(record, 1..64)).prop_map(|(lists, drawn)| {
        let tunables: Vec<Tunable> = lists
            .into_iter()
            .enumerate()
            .map(|(t, mut values)| {
                let mut seen: Vec<Value> = Vec::new();
                values.retain(|v| {
                    let is_new = !seen
                        .iter()
                        .any(|s| s.loosely_equals(v) || s.to_string() == v.to_string());
                    seen.push(v.clone());
                    is_new
                });
                Tunable {
                    name: format!("t{t}"),
                    values,
                }
            })
            .collect();
        let space = Space::build(tunables, vec![], vec![], BuildLimits::default()).unwrap();
        let configs: Vec<Config> = space.iter().collect();
        let records: Vec<Record> = configs
            .into_iter()
            .zip(drawn)
            .map(|(config, (outcome, times, has_costs))| Record {
                config,
                times_ms: times.into(),
                costs: match has_costs {
                    true => Costs {
                        compile_ms: Some(12.25),
                        verification_ms: Some(0.0),
                        benchmark_ms: Some(1.5),
                        framework_ms: Some(0.125),
                    },
                    false => Costs::default(),
                },
                outcome,
            })
            .collect();
        let origin = Origin {
            kernel: Some("k \"x\"".into()),
            device: Some("d".into()),
            problem_size: vec![4, 5],
            ..Origin::default()
        };
        Table::new(Arc::new(space), origin, records).unwrap()
    })
}

fn same(a: &Table, b: &Table) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.origin(), b.origin());
    prop_assert_eq!(a.records(), b.records());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn tables_come_back(table in any_table()) {
        let space = Some(table.space().clone());
        let cache = write_kernel_tuner(&table);
        same(&table, &read_recording(&cache, space.clone()).unwrap())?;
        // Its own values are the space's, and only what was recorded is valid.
        let own = read_recording(&cache, None).unwrap();
        same(&table, &own)?;
        prop_assert_eq!(own.space().count(), Some(table.records().len() as u128));
        let t4 = write_t4(&table).to_string();
        same(&table, &read_recording(&t4, space).unwrap())?;
    }
}

#[test]
fn a_manifest_comes_back_as_t1() {
    let text = include_str!("../../../../../kernels/vector_add/kiln.toml")
        .replace("[constraints]", "LAYOUT = [\"row\", \"it's\"]\nSCALE = [0.5, 1.0]\n\n[constraints]\nfits = \"ceil_div(N, VECTOR) < 40000 and (PREFETCH_KEEP or LAYOUT == 'row')\"");
    let manifest = Manifest::parse(&text).unwrap_or_else(|problems| {
        let rendered = problems.iter().map(|p| p.render("m", &text));
        panic!("{}", rendered.collect::<String>())
    });
    let written = t1::of_manifest(&manifest).unwrap().to_string();
    let read = t1::Definition::parse(&written).unwrap();
    assert_eq!(read.tunables, manifest.tunables);
    let theirs = read.build(BuildLimits::default()).unwrap();
    let constants = manifest.target().dimensions.iter();
    let constants = constants.map(|(name, n)| (name.clone(), Value::Int(*n)));
    let rules = manifest.constraints.iter().map(|c| Rule {
        name: c.name.clone(),
        kind: RuleKind::Constraint,
        expr: c.expr.bind(&manifest.scope()).unwrap(),
    });
    let ours = Space::build(
        manifest.tunables.clone(),
        constants.collect(),
        rules.collect(),
        BuildLimits::default(),
    )
    .unwrap();
    assert!(ours.iter().all(|config| theirs.contains(&config)));
    assert_eq!(ours.count(), theirs.count());
    assert!(ours.count() < Some(ours.cartesian()));
}
