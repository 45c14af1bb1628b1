//! `[tunables]`: lists, single values and ranges become lists of one kind.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::de::DeValue;

use super::Problems;
use super::section::{Entry, Item, Section, number, scalar, whole};
use crate::diagnostic::Diagnostic;
use crate::space::{MOST_TUNABLES, Tunable};
use crate::value::Value;

/// A config stores the position of a value in 16 bits.
const MOST_VALUES: usize = 65_535;

/// A value with its place, for errors about one of many.
struct Candidate {
    value: Value,
    span: Range<usize>,
}

pub(super) fn decode(section: &Section, problems: &mut Problems) -> Vec<Tunable> {
    let entries = section.entries();
    if let Some(extra) = entries.get(MOST_TUNABLES) {
        problems.push(Diagnostic::new(
            format!(
                "there are {} tunables; the most is {MOST_TUNABLES}",
                entries.len()
            ),
            extra.key.span(),
        ));
    }
    let tunables = entries.into_iter().take(MOST_TUNABLES).map(|entry| {
        let candidates = candidates(section, &entry, problems);
        Tunable {
            name: entry.name().to_string(),
            values: unify(entry.name(), candidates, problems),
        }
    });
    tunables.collect()
}

fn candidates(section: &Section, entry: &Entry, problems: &mut Problems) -> Vec<Candidate> {
    if entry.value.get_ref().is_array() {
        return list(entry.name(), entry.value, problems);
    }
    let Some(form) = section.entry_section(entry) else {
        return Vec::new();
    };
    let written: Vec<&str> = ["values", "value", "from"]
        .into_iter()
        .filter(|k| form.has(k))
        .collect();
    let name = entry.name();
    match written[..] {
        [one] => {
            let range_only: Vec<&str> = ["to", "step", "factor"]
                .into_iter()
                .filter(|k| one != "from" && form.has(k))
                .collect();
            if let [stray, ..] = range_only[..] {
                problems.push(
                    Diagnostic::new(
                        format!("tunable `{name}` has both `{one}` and `{stray}`"),
                        form.place(stray),
                    )
                    .label("belongs to a range")
                    .hint("a range is `{ from = 2, to = 8, step = 2 }`"),
                );
            }
            match (one, form.get(one)) {
                ("values", Some(item)) => list(name, item, problems),
                ("value", Some(item)) => scalar(item)
                    .map(|value| Candidate {
                        value,
                        span: item.span(),
                    })
                    .into_iter()
                    .collect(),
                _ => range(name, &form, problems),
            }
        }
        _ => {
            let message = match written[..] {
                [] if form.has("to") => format!("the range of tunable `{name}` has no `from`"),
                [] => format!("tunable `{name}` has no values"),
                _ => format!(
                    "tunable `{name}` has both `{}` and `{}`",
                    written[0], written[1]
                ),
            };
            let span = written.get(1).map_or(form.span.clone(), |k| form.place(k));
            problems.push(
                Diagnostic::new(message, span)
                    .label("expected one of `values`, `value`, or `from` and `to`")
                    .hint("write e.g. `[16, 32]`, `{ value = 16 }` or `{ from = 2, to = 8 }`"),
            );
            Vec::new()
        }
    }
}

fn list(name: &str, item: &Item, problems: &mut Problems) -> Vec<Candidate> {
    let Some(items) = item.get_ref().as_array() else {
        return Vec::new();
    };
    if items.is_empty() {
        problems.push(
            Diagnostic::new(format!("tunable `{name}` has no values"), item.span())
                .label("expected at least one value")
                .hint("list candidates, e.g. `[64, 128]`, or pin it with `{ value = 64 }`"),
        );
    }
    if items.len() > MOST_VALUES {
        problems.push(too_many(name, items.len() as f64, item.span()));
        return Vec::new();
    }
    let candidates = items.iter().filter_map(|item| {
        Some(Candidate {
            value: scalar(item)?,
            span: item.span(),
        })
    });
    candidates.collect()
}

fn too_many(name: &str, count: f64, span: Range<usize>) -> Diagnostic {
    Diagnostic::new(format!("tunable `{name}` has {count} values"), span)
        .label(format!("expected at most {MOST_VALUES}"))
        .hint("no search visits that many: take a larger `step`, or a `factor`")
}

/// All values of one kind, none twice. Integers among floats become floats.
fn unify(name: &str, candidates: Vec<Candidate>, problems: &mut Problems) -> Vec<Value> {
    let Some(first) = candidates.first() else {
        return Vec::new();
    };
    let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::Float(_));
    let kind = first.value.kind();
    let other = candidates
        .iter()
        .find(|c| c.value.kind() != kind && !(is_number(&c.value) && is_number(&first.value)));
    if let Some(other) = other {
        problems.push(
            Diagnostic::new(
                format!("tunable `{name}` mixes kinds of values"),
                other.span.clone(),
            )
            .label(format!(
                "{}, but the first value is {kind}",
                other.value.kind()
            ))
            .hint("booleans reach the source as 1 and 0; write all of them the same way"),
        );
        return Vec::new();
    }
    let any_float = candidates
        .iter()
        .any(|c| matches!(c.value, Value::Float(_)));
    let mut seen = BTreeSet::new();
    let mut values = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let value = match candidate.value {
            Value::Int(i) if any_float => Value::Float(i as f64),
            // Otherwise -0.0 and 0.0 would be two candidates.
            Value::Float(x) => Value::Float(x + 0.0),
            other => other,
        };
        if !seen.insert(value.define()) {
            problems.push(
                Diagnostic::new(
                    format!("tunable `{name}` has the value `{value}` twice"),
                    candidate.span,
                )
                .label("listed before"),
            );
            // A range in floats can repeat a value thousands of times; one message will do.
            break;
        }
        values.push(value);
    }
    values
}

fn range(name: &str, form: &Section, problems: &mut Problems) -> Vec<Candidate> {
    let Some(to) = form.get("to") else {
        problems.push(
            Diagnostic::new(
                format!("the range of tunable `{name}` has no `to`"),
                form.span.clone(),
            )
            .label("expected `from` and `to`")
            .hint("write e.g. `{ from = 2, to = 8 }`; `to` is included"),
        );
        return Vec::new();
    };
    if form.has("step") && form.has("factor") {
        problems.push(
            Diagnostic::new(
                format!("the range of tunable `{name}` has both `step` and `factor`"),
                form.place("factor"),
            )
            .label("expected one of them"),
        );
        return Vec::new();
    }
    let Some(from) = form.get("from") else {
        return Vec::new();
    };
    let (Some(low), Some(high)) = (number(from), number(to)) else {
        return Vec::new();
    };
    if low > high {
        problems.push(
            Diagnostic::new(
                format!("the range of tunable `{name}` is empty: {low} is above {high}"),
                form.span.clone(),
            )
            .label("expected `from` to be at most `to`"),
        );
        return Vec::new();
    }
    let grows_by = if form.has("factor") { "factor" } else { "step" };
    let growth = form.number(grows_by).unwrap_or(1.0);
    let place = form.get(grows_by).map_or(form.span.clone(), Item::span);
    let bad_growth = match grows_by {
        "step" if growth <= 0.0 => Some("expected a step above 0"),
        "factor" if growth <= 1.0 => Some("expected a factor above 1"),
        "factor" if low <= 0.0 => Some("a range with a factor starts above 0"),
        _ => None,
    };
    if let Some(label) = bad_growth {
        problems.push(
            Diagnostic::new(
                format!("the range of tunable `{name}` never reaches its end"),
                place,
            )
            .label(label),
        );
        return Vec::new();
    }
    let is_integer = |key: &str| {
        form.get(key)
            .is_none_or(|item| matches!(item.get_ref(), DeValue::Integer(_)))
    };
    let integers = is_integer("from") && is_integer("to") && is_integer(grows_by);
    let values = match (integers, whole(from), whole(to)) {
        (true, Some(low), Some(high)) => {
            let growth = form.whole(grows_by).unwrap_or(1);
            integer_range(low, high, growth, grows_by)
        }
        _ => float_range(low, high, growth, grows_by),
    };
    match values {
        Ok(values) => values
            .into_iter()
            .map(|value| Candidate {
                value,
                span: form.span.clone(),
            })
            .collect(),
        Err(count) => {
            problems.push(too_many(name, count, form.span.clone()));
            Vec::new()
        }
    }
}

/// The values, or how many there would be.
fn integer_range(low: i64, high: i64, growth: i64, grows_by: &str) -> Result<Vec<Value>, f64> {
    if grows_by == "factor" {
        let values = std::iter::successors(Some(low), |x| x.checked_mul(growth));
        return Ok(values.take_while(|x| *x <= high).map(Value::Int).collect());
    }
    let count = (i128::from(high) - i128::from(low)) / i128::from(growth) + 1;
    if count > MOST_VALUES as i128 {
        return Err(count as f64);
    }
    let values = std::iter::successors(Some(low), |x| x.checked_add(growth));
    Ok(values.take_while(|x| *x <= high).map(Value::Int).collect())
}

fn float_range(low: f64, high: f64, growth: f64, grows_by: &str) -> Result<Vec<Value>, f64> {
    // The end is included even where rounding makes the last step miss it by a hair.
    let slack = 1e-9;
    let steps = match grows_by {
        "factor" => (high / low).ln() / growth.ln(),
        _ => (high - low) / growth,
    };
    let count = (steps * (1.0 + slack)).floor() + 1.0;
    if !count.is_finite() || count > MOST_VALUES as f64 {
        return Err(count);
    }
    let values = (0..count as u64).map(|step| {
        let x = match grows_by {
            "factor" => low * growth.powf(step as f64),
            _ => low + growth * step as f64,
        };
        Value::Float(tidy(x))
    });
    Ok(values.collect())
}

/// Twelve significant digits: 0.1 + 2 * 0.1 is written, and compiled, as 0.3.
fn tidy(x: f64) -> f64 {
    format!("{x:.11e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: Result<Vec<Value>, f64>) -> Vec<f64> {
        values.unwrap().iter().filter_map(Value::as_f64).collect()
    }

    #[test]
    fn ranges_include_their_end() {
        assert_eq!(floats(integer_range(2, 8, 3, "step")), [2.0, 5.0, 8.0]);
        assert_eq!(floats(integer_range(2, 7, 3, "step")), [2.0, 5.0]);
        assert_eq!(
            floats(integer_range(16, 100, 2, "factor")),
            [16.0, 32.0, 64.0]
        );
        assert_eq!(
            floats(float_range(0.1, 0.4, 0.1, "step")),
            [0.1, 0.2, 0.3, 0.4]
        );
        assert_eq!(
            floats(float_range(0.001, 1.0, 10.0, "factor")),
            [0.001, 0.01, 0.1, 1.0]
        );
        assert_eq!(floats(float_range(1.0, 1.0, 1.0, "step")), [1.0]);
    }

    #[test]
    fn ends_of_the_integers_are_no_trap() {
        assert_eq!(
            floats(integer_range(i64::MAX - 1, i64::MAX, 1, "step")).len(),
            2
        );
        assert_eq!(floats(integer_range(1, i64::MAX, 2, "factor")).len(), 63);
        assert!(integer_range(i64::MIN, i64::MAX, 1, "step").is_err());
        assert!(float_range(f64::MIN, f64::MAX, 1.0, "step").is_err());
        assert!(float_range(1.0, 2.0, 1e-300, "step").is_err());
    }
}
