//! The space against a brute-force oracle, on random tunables and rules.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::expression::Expr;

mod examples;

fn tunable(name: &str, values: impl IntoIterator<Item = i64>) -> Tunable {
    Tunable {
        name: name.into(),
        values: values.into_iter().map(Value::Int).collect(),
    }
}

/// A space over tunables and the constant `LIMIT = 4`; rules that start with `gate:` are gates.
fn build(tunables: Vec<Tunable>, rules: &[&str], limits: BuildLimits) -> Result<Space, SpaceError> {
    let constants = vec![("LIMIT".to_string(), Value::Int(4))];
    let scope: Vec<&str> = tunables
        .iter()
        .map(|t| t.name.as_str())
        .chain(["LIMIT"])
        .collect();
    let rules = rules
        .iter()
        .map(|text| {
            let (kind, text) = match text.strip_prefix("gate:") {
                Some(text) => (RuleKind::Gate, text.trim()),
                None => (RuleKind::Constraint, *text),
            };
            Rule {
                name: text.into(),
                kind,
                expr: Expr::parse(text).unwrap().bind(&scope).unwrap(),
            }
        })
        .collect();
    Space::build(tunables, constants, rules, limits)
}

fn space(tunables: Vec<Tunable>, rules: &[&str]) -> Space {
    build(tunables, rules, BuildLimits::default()).unwrap()
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn all_configs(tunables: &[Tunable]) -> Vec<Config> {
    let mut configs = vec![Vec::new()];
    for tunable in tunables {
        configs = configs
            .into_iter()
            .flat_map(|prefix: Vec<u16>| {
                (0..tunable.values.len()).map(move |p| {
                    let mut config = prefix.clone();
                    config.push(p as u16);
                    config
                })
            })
            .collect();
    }
    configs.into_iter().map(|c| Config(c.into())).collect()
}

/// Each rule's answer, by plain evaluation.
fn answers(space: &Space, config: &Config) -> Vec<Result<bool, EvalError>> {
    let mut values: Vec<Value> = space
        .assignment(config)
        .into_iter()
        .map(|(_, v)| v)
        .collect();
    values.push(Value::Int(4));
    let rules = space.rules().iter();
    rules
        .map(|rule| rule.expr.eval(&values).map(|v| v.is_truthy()))
        .collect()
}

const NAMES: [&str; 6] = ["A", "B", "C", "D", "E", "LIMIT"];
const COMPARE: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

/// Arithmetic that may fail: division by zero, NaN, a real number where an integer is needed.
fn wild_number() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => proptest::sample::select(&NAMES[..]).prop_map(str::to_string),
        1 => (-1..6_i64).prop_map(|n| n.to_string()),
        1 => Just("1.5".to_string())
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        let operator = proptest::sample::select(&["+", "-", "*", "%", "//", "/", "**"][..]);
        let pair =
            proptest::sample::select(&["min", "max", "ceil_div", "align_up", "gcd", "lcm"][..]);
        let single = proptest::sample::select(
            &[
                "-", "abs", "int", "sqrt", "log2", "floor", "round", "is_pow2", "not ",
            ][..],
        );
        let (a, b, c) = (inner.clone(), inner.clone(), inner);
        prop_oneof![
            (a.clone(), operator, b.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (pair, a.clone(), b.clone()).prop_map(|(f, a, b)| format!("{f}({a}, {b})")),
            (single, a.clone()).prop_map(|(f, a)| format!("({f}({a}))")),
            (a, b, c).prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
        ]
    })
}

fn wild_condition() -> impl Strategy<Value = String> {
    let n = wild_number;
    let compare = || proptest::sample::select(&COMPARE[..]);
    let leaf = prop_oneof![
        6 => (n(), compare(), n()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        2 => (n(), compare(), n(), compare(), n())
            .prop_map(|(a, o, b, p, c)| format!("{a} {o} {b} {p} {c}")),
        1 => (n(), n()).prop_map(|(a, b)| format!("{a} in [{b}, 2, 'x']")),
        1 => (n(), n()).prop_map(|(a, b)| format!("{a} not in [1, {b}]")),
        1 => n().prop_map(|a| format!("T == 'x' or {a}")),
        1 => n().prop_map(|a| format!("T < {a} if T == 'x' else T")),
        1 => Just("is_pow2(A) and T != 'y'".to_string()),
        1 => Just("1 / 0 > LIMIT".to_string()),
    ];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

/// Conditions that cannot fail and hold for a good part of the configs.
fn mild_condition() -> impl Strategy<Value = String> {
    let name = || proptest::sample::select(&NAMES[..]);
    prop_oneof![
        3 => (name(), name(), 2..25_i64).prop_map(|(a, b, n)| format!("{a} * {b} <= {n}")),
        2 => (name(), name(), name(), 3..15_i64).prop_map(|(a, b, c, n)| format!("{a} + {b} + {c} != {n}")),
        2 => (name(), name()).prop_map(|(a, b)| format!("{a} <= {b} or {b} < 2")),
        1 => (name(), name()).prop_map(|(a, b)| format!("{b} == 0 or {a} % {b} == 0")),
        1 => name().prop_map(|a| format!("T == 'x' or {a} > 1")),
        1 => name().prop_map(|a| format!("{a} in [0, 1, 2, 3, 0.5]")),
    ]
}

fn tunables() -> impl Strategy<Value = Vec<Tunable>> {
    let values = prop_oneof![
        4 => proptest::sample::subsequence((0..7_i64).collect::<Vec<_>>(), 2..5)
            .prop_map(|v| v.into_iter().map(Value::Int).collect::<Vec<_>>()),
        1 => Just(vec![Value::Bool(false), Value::Bool(true)]),
        1 => Just(vec![Value::Float(0.5), Value::Float(2.0)]),
        1 => Just(vec![Value::Int(3), Value::Float(0.5)]),
        1 => Just(vec![Value::Int(2)]),
    ];
    proptest::collection::vec(values, 5).prop_map(|lists| {
        let mut tunables: Vec<Tunable> = ["A", "B", "C", "D", "E"]
            .iter()
            .zip(lists)
            .map(|(name, values)| Tunable {
                name: name.to_string(),
                values,
            })
            .collect();
        let text = ["x", "y"].map(|t| Value::Text(t.into()));
        tunables.push(Tunable {
            name: "T".into(),
            values: text.into(),
        });
        tunables
    })
}

fn any_space() -> impl Strategy<Value = (Vec<Tunable>, Vec<String>)> {
    let condition = prop_oneof![4 => mild_condition(), 1 => wild_condition()];
    let rule = (condition, any::<bool>())
        .prop_map(|(c, gate)| if gate { format!("gate: {c}") } else { c });
    (tunables(), proptest::collection::vec(rule, 0..5))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_brute_force((tunables, rules) in any_space(), seed: u64) {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let space = match build(tunables.clone(), &rules, BuildLimits::default()) {
            Ok(space) => space,
            Err(SpaceError::Rule { rule, values, error }) => {
                // The rule really fails there.
                let without = build(tunables, &[], BuildLimits::default()).unwrap();
                let scope: Vec<&str> = without.tunables().iter().map(|t| t.name.as_str()).chain(["LIMIT"]).collect();
                let expr = Expr::parse(&rule).unwrap().bind(&scope).unwrap();
                let value_of = |slot: usize| values.iter().find(|(n, _)| n == scope[slot]).map(|(_, v)| v).unwrap();
                prop_assert_eq!(expr.eval_with(&value_of), Err(error));
                return Ok(());
            }
            Err(other) => panic!("{other}"),
        };
        let all = all_configs(&tunables);
        let mut valid = BTreeSet::new();
        for config in &all {
            let answers = answers(&space, config);
            let rejected = answers.contains(&Ok(false));
            let holds = answers.iter().all(|a| *a == Ok(true));
            prop_assert!(rejected || holds || space.count() == Some(0), "an error was hidden: {config:?}");
            prop_assert_eq!(space.contains(config), holds);
            let broken: Vec<&str> = space.broken_rules(config).iter().map(|r| r.name.as_str()).collect();
            let expected: Vec<&str> = space.rules().iter().zip(&answers)
                .filter(|(_, a)| **a != Ok(true)).map(|(r, _)| r.name.as_str()).collect();
            prop_assert_eq!(broken, expected);
            if holds {
                valid.insert(config.clone());
            }
        }
        prop_assert_eq!(space.cartesian(), all.len() as u128);
        prop_assert_eq!(space.count(), Some(valid.len() as u128));
        prop_assert_eq!(space.iter().collect::<BTreeSet<_>>(), valid.clone());
        prop_assert_eq!(space.iter().count(), valid.len());
        let removed: u128 = space.removals().iter().map(|r| r.removed).sum();
        prop_assert_eq!(removed, (all.len() - valid.len()) as u128);
        for removal in space.removals() {
            prop_assert_eq!(removal.removed > 0, removal.example.is_some() && removal.removed > 0);
            if let Some(example) = &removal.example {
                prop_assert!(space.broken_rules(example).iter().any(|r| r.name == removal.name));
            }
        }
        for (index, config) in space.iter().enumerate() {
            prop_assert_eq!(space.config(index as u128), Some(config.clone()));
            prop_assert_eq!(space.index_of(&config), Some(index as u128));
            prop_assert_eq!(&space.config_from(&space.assignment(&config)).unwrap(), &config);
        }
        prop_assert_eq!(space.config(valid.len() as u128), None);
        for config in all.iter().filter(|c| !valid.contains(c)) {
            prop_assert_eq!(space.index_of(config), None);
        }
        for config in all.iter().step_by(7) {
            let differ = |other: &&Config| other.0.iter().zip(&config.0).filter(|(a, b)| a != b).count() == 1;
            let expected: BTreeSet<Config> = valid.iter().filter(differ).cloned().collect();
            let found = space.neighbours(config);
            prop_assert_eq!(found.len(), expected.len());
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        }
        let coverage = space.coverage().unwrap();
        for (t, counts) in coverage.iter().enumerate() {
            for (p, &count) in counts.iter().enumerate() {
                let expected = valid.iter().filter(|c| usize::from(c.0[t]) == p).count();
                prop_assert_eq!(count, expected as u128);
            }
        }
        let mut rng = rng(seed);
        for _ in 0..20 {
            match space.sample(&mut rng) {
                Some(config) => prop_assert!(valid.contains(&config)),
                None => prop_assert!(valid.is_empty()),
            }
        }
        for n in [1, 7, valid.len(), valid.len() + 3] {
            let design = space.latin_hypercube(n, &mut rng);
            prop_assert_eq!(design.len(), n.min(valid.len()));
            prop_assert!(design.iter().all(|c| valid.contains(c)));
            prop_assert_eq!(design.iter().collect::<BTreeSet<_>>().len(), design.len());
        }
    }

    #[test]
    fn compiled_rules_mean_what_eval_says(tunables in tunables(), condition in wild_condition()) {
        let space = space(tunables.clone(), &[]);
        let scope: Vec<&str> = tunables.iter().map(|t| t.name.as_str()).chain(["LIMIT"]).collect();
        let expr = Expr::parse(&condition).unwrap().bind(&scope).unwrap();
        let rule = Rule { name: condition, kind: RuleKind::Gate, expr: expr.clone() };
        let limit = vec![("LIMIT".to_string(), Value::Int(4))];
        let rules = Rules::new(tunables.clone(), limit, vec![rule]).unwrap();
        for config in all_configs(&tunables) {
            let mut values: Vec<Value> = space.assignment(&config).into_iter().map(|(_, v)| v).collect();
            values.push(Value::Int(4));
            let plain = expr.eval(&values).map(|v| v.is_truthy());
            prop_assert_eq!(rules.check(0, &config.0), plain.clone());
            if let Some(holds) = rules.fast(0, &config.0) {
                prop_assert_eq!(Ok(holds), plain);
            }
        }
    }

    #[test]
    fn implicit_components_agree_where_they_can((tunables, rules) in any_space(), seed: u64) {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let Ok(listed) = build(tunables.clone(), &rules, BuildLimits::default()) else { return Ok(()) };
        let limits = BuildLimits { rows: 3, nodes: 10 };
        let Ok(implicit) = build(tunables.clone(), &rules, limits) else { return Ok(()) };
        for config in all_configs(&tunables) {
            prop_assert_eq!(listed.contains(&config), implicit.contains(&config));
            prop_assert_eq!(
                listed.neighbours(&config).into_iter().collect::<BTreeSet<_>>(),
                implicit.neighbours(&config).into_iter().collect::<BTreeSet<_>>()
            );
        }
        for (few, all) in implicit.removals().iter().zip(listed.removals()) {
            prop_assert_eq!(&few.name, &all.name);
        }
        let few: u128 = implicit.removals().iter().map(|r| r.removed).sum();
        let all: u128 = listed.removals().iter().map(|r| r.removed).sum();
        prop_assert!(few <= all);
        if let Some(count) = implicit.count() {
            prop_assert_eq!(Some(count), listed.count());
            prop_assert_eq!(few, all);
        }
        let mut rng = rng(seed);
        match implicit.sample(&mut rng) {
            Some(config) => prop_assert!(listed.contains(&config)),
            None => prop_assert_eq!(listed.count(), Some(0)),
        }
        let design = implicit.latin_hypercube(4, &mut rng);
        prop_assert!(design.iter().all(|c| listed.contains(c)));
        prop_assert_eq!(design.iter().collect::<BTreeSet<_>>().len(), design.len());
    }
}
