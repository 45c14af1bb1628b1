//! `kiln.toml`: read, or refused with messages; what was read makes a space and a T1 file.

use kiln_core::interchange::t1;
use kiln_core::manifest::Manifest;
use kiln_core::space::{Rule, RuleKind, Space};
use kiln_core::value::Value;

use super::{is_presentable, spaces};

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Manifest::parse(text) {
        Ok(manifest) => is_consistent(&manifest),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a word");
            let starts = problems.iter().filter_map(|p| Some(p.span.as_ref()?.start));
            assert!(starts.is_sorted(), "messages are not in order");
            problems.iter().for_each(|p| is_presentable(p, text));
        }
    }
}

fn is_consistent(manifest: &Manifest) {
    let dimensions = &manifest.target().dimensions;
    assert!(dimensions.iter().all(|(_, n)| *n >= 1));
    assert!(manifest.tunables.iter().all(|t| !t.values.is_empty()));
    let scope = manifest.scope();
    let rule = |c: &kiln_core::manifest::Constraint| Rule {
        name: c.name.clone(),
        kind: RuleKind::Constraint,
        expr: c.expr.bind(&scope).expect("names were checked"),
    };
    let rules: Vec<Rule> = manifest.constraints.iter().map(rule).collect();
    let constant = |(name, n): &(String, i64)| (name.clone(), Value::Int(*n));
    let constants: Vec<(String, Value)> = dimensions.iter().map(constant).collect();
    let values: Vec<Value> = constants.iter().map(|(_, v)| v.clone()).collect();
    let tunables = manifest.tunables.clone();
    let Ok(space) = Space::build(tunables, constants, rules.clone(), spaces::LIMITS) else {
        return;
    };
    spaces::agree(&space, &rules, &values);
    let Ok(json) = t1::of_manifest(manifest) else {
        return;
    };
    let text = json.to_string();
    let read = t1::Definition::parse(&text).and_then(|d| d.build(spaces::LIMITS));
    let same = read.unwrap_or_else(|e| panic!("{}", e.render("T1", &text)));
    assert_eq!(same.cartesian(), space.cartesian());
    if space.is_enumerated() && same.is_enumerated() {
        assert_eq!(same.count(), space.count(), "the T1 file is another space");
    }
}
