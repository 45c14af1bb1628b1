//! A space says the same about a config whichever way it is asked.

use kiln_core::space::{BuildLimits, Config, Rule, Space};
use kiln_core::value::Value;

/// Small enough that one input takes milliseconds; larger spaces are sampled, which is a way of its own.
pub const LIMITS: BuildLimits = BuildLimits {
    rows: 5_000,
    nodes: 50_000,
};

/// Configs looked at one by one.
const LOOKED_AT: usize = 40;

/// `constants` are what rules read beside the tunables, in the order of their slots.
pub fn agree(space: &Space, rules: &[Rule], constants: &[Value]) {
    let valid = |config: &Config| {
        let assignment = space.assignment(config);
        let values: Vec<Value> = assignment.into_iter().map(|(_, v)| v).collect();
        let values: Vec<Value> = values.iter().chain(constants).cloned().collect();
        let mut answers = rules.iter().map(|rule| rule.expr.eval(&values));
        answers.all(|answer| answer.is_ok_and(|v| v.is_truthy()))
    };
    for (index, config) in space.iter().take(LOOKED_AT).enumerate() {
        assert!(valid(&config), "a listed config breaks a rule: {config:?}");
        assert_eq!(space.index_of(&config), Some(index as u128));
        assert_eq!(space.config(index as u128), Some(config));
    }
    let sizes: Vec<usize> = space.tunables().iter().map(|t| t.values.len()).collect();
    for number in 0..LOOKED_AT {
        // Some config, valid or not, another for every number.
        let position = |(place, size): (usize, &usize)| ((number * (2 * place + 1)) % size) as u16;
        let config = Config(sizes.iter().enumerate().map(position).collect());
        assert_eq!(space.contains(&config), valid(&config), "{config:?}");
    }
}
