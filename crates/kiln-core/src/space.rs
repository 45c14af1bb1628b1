//! The set of configs a kernel may be tried with: tunables, rules, exact enumeration, sampling.

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// One compile-time choice of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tunable {
    pub name: String,
    pub values: Vec<Value>,
}

/// One value per tunable, as positions in each tunable's list of values, in the space's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Config(pub Box<[u16]>);
