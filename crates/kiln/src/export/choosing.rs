//! What chooses a config, as far as the languages differ in signs only.

use std::fmt::Write;

use kiln_core::expression::Code;

use super::names;
use super::package::Dispatch;
use super::plan::{ConfigPlan, Plan};
use crate::exit::Failure;

/// Where a config is legal.
pub fn condition(plan: &Plan, config: &ConfigPlan, code: Code) -> Result<String, Failure> {
    let conditions = config
        .legal
        .iter()
        .map(|(_, expr)| plan.truth(expr, code))
        .collect::<Result<Vec<_>, _>>()?;
    let (and, always) = match code {
        Code::Python => (" and ", "True"),
        Code::Cpp | Code::Rust => (" && ", "true"),
    };
    Ok(match conditions.is_empty() {
        true => always.to_string(),
        false => conditions.join(and),
    })
}

/// The sizes of a shape that was tuned, in the order of the dimensions.
pub fn sizes(plan: &Plan, entry: &Dispatch) -> Vec<i64> {
    let dimensions = plan.dimensions.iter();
    dimensions
        .map(|d| entry.dimensions.get(d).copied().unwrap_or(1))
        .collect()
}

/// How far a problem is from a shape that was tuned, in C++ and Rust.
pub fn distance(plan: &Plan, known: &str) -> String {
    let dimensions = plan.dimensions.iter().map(|d| names::safe(d));
    let each = dimensions.map(|field| format!("distance(d.{field}, {known}.dimensions.{field})"));
    each.collect::<Vec<_>>().join(" + ")
}

/// Statements of C++ or Rust that refuse dimensions below 1, and those that are not what follows from others.
pub fn checks(plan: &Plan, code: Code) -> Result<String, Failure> {
    let end = match code {
        Code::Rust => "?;",
        Code::Cpp | Code::Python => ";",
    };
    let mut text = String::new();
    for name in &plan.dimensions {
        let field = names::safe(name);
        let _ = writeln!(text, "    at_least_one(d.{field}, {name:?}){end}");
    }
    for relation in &plan.relations {
        let (holds, told) = plan.relation(relation, code)?;
        let name = &relation.dimension;
        let field = names::safe(name);
        let _ = writeln!(
            text,
            "    related({holds}, d.{field}, {name:?}, {told:?}){end}"
        );
    }
    Ok(text)
}
