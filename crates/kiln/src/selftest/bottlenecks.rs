//! Ten kernels with one mistake each: is it named, is the cure, and does the cure bring what was foretold?
//!
//! What is expected stands in `kernels/bottlenecks/expected.toml`, which only this section reads; profiles are made by the
//! code behind `kiln profile`, which is told nothing of it.

use std::collections::BTreeMap;

use kiln_core::bottleneck::{Advice, Cause, Profile};
use kiln_core::trial::Assignment;
use kiln_core::units::human_ns;
use kiln_core::value::Value;
use serde::Deserialize;
use serde_json::json;

use super::ground::Ground;
use super::kernels::{BOTTLENECKS, Bottleneck, EXPECTED_BOTTLENECKS};
use super::report::{Mark, Report};
use crate::exit::{Exit, Failure};
use crate::profile::ceilings;
use crate::profile::ncu::Ncu;
use crate::profile::report::gain_text;
use crate::profile::session::{self, StagesWanted, Tools};
use crate::task::Task;

/// Of ten, as many must be right.
const CLASSES: usize = 9;
const FIRST_ADVICE: usize = 8;
const GAINS: usize = 7;
/// A gain is foretold when it is at most this factor off.
const WITHIN: f64 = 2.0;

/// What a kernel was made to be bound by, and how.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    cause: Cause,
    /// Any of these as the first advice is right.
    rules: Vec<String>,
    slow: BTreeMap<String, Value>,
    fixed: BTreeMap<String, Value>,
    /// The shape of the fixed version, where the cure is to do more at once.
    #[serde(default)]
    fixed_shape: Option<String>,
}

/// How one kernel came out.
struct Row {
    class_is_right: bool,
    advice_is_right: bool,
    gain_is_right: bool,
}

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    let ncu = match Ncu::find() {
        Ok(ncu) => ncu,
        Err(reason) => {
            report.skip(
                "bottlenecks named",
                format!("{}; {}", reason.in_words(), reason.fix()),
            );
            return Ok(());
        }
    };
    report.row(&format!("profiled with ncu {}", ncu.version));
    let tools = Tools {
        ncu: Ok(ncu),
        ceilings: ceilings::if_possible(&ground.device, &ground.pool, false)?,
        stages: StagesWanted::Never,
    };
    let expected = expected()?;
    let mut rows = Vec::new();
    for kernel in BOTTLENECKS {
        let wanted = expected.get(kernel.name).ok_or_else(|| {
            Failure::new(
                Exit::Bug,
                format!("nothing is expected of `{}`", kernel.name),
            )
        })?;
        match one(ground, report, &tools, kernel, wanted)? {
            Ok(row) => rows.push(row),
            Err(why) => {
                report.skip("bottlenecks named", why);
                return Ok(());
            }
        }
    }
    let count = |is_right: fn(&Row) -> bool| rows.iter().filter(|row| is_right(row)).count();
    let of = BOTTLENECKS.len();
    let judged = [
        ("bottlenecks named", count(|r| r.class_is_right), CLASSES),
        (
            "first advice is the cure",
            count(|r| r.advice_is_right),
            FIRST_ADVICE,
        ),
        (
            "gains foretold within 2x",
            count(|r| r.gain_is_right),
            GAINS,
        ),
    ];
    for (what, right, least) in judged {
        report.number(&what.replace(' ', "_"), right);
        report.judge(
            format!("{right} of {of} {what}"),
            format!("at least {least}"),
            Mark::when(right >= least),
        );
    }
    Ok(())
}

fn expected() -> Result<BTreeMap<String, Expected>, Failure> {
    toml::from_str(EXPECTED_BOTTLENECKS)
        .map_err(|e| Failure::new(Exit::Bug, format!("expected.toml: {e}")))
}

/// `Ok(Err(why))`: there are no counters to be had.
fn one(
    ground: &Ground,
    report: &mut Report,
    tools: &Tools,
    kernel: &Bottleneck,
    wanted: &Expected,
) -> Result<Result<Row, String>, Failure> {
    let task = |shape: Option<&str>| ground.task_on(kernel.files, kernel.name, shape);
    let slow_task = task(None)?;
    let slow =
        session::timed_candidate(&slow_task, &ground.pool, &config(&slow_task, &wanted.slow)?)?;
    let profile = session::profile(tools, &slow_task, &ground.pool, &slow)?;
    if let Some(why) = profile.without_counters {
        return Ok(Err(why));
    }
    let fixed_task = task(wanted.fixed_shape.as_deref())?;
    let fixed = session::timed_candidate(
        &fixed_task,
        &ground.pool,
        &config(&fixed_task, &wanted.fixed)?,
    )?;
    let (slow_ns, fixed_ns) = (
        slow.time_ns.unwrap_or(f64::NAN),
        fixed.time_ns.unwrap_or(f64::NAN),
    );
    // The fixed version may do more at once: time for the same work is what counts.
    let work = work(&fixed_task) / work(&slow_task);
    let gain = slow_ns / fixed_ns * if work.is_finite() { work } else { 1.0 };
    let first = profile.diagnosis.advice.first();
    let row = Row {
        class_is_right: profile.diagnosis.cause == wanted.cause,
        advice_is_right: first.is_some_and(|advice| wanted.rules.contains(&advice.rule)),
        gain_is_right: first.is_some_and(|advice| is_within(advice.predicted_gain, gain)),
    };
    tell(
        report,
        kernel.name,
        &profile,
        first,
        &row,
        [slow_ns, fixed_ns, gain],
    );
    Ok(Ok(row))
}

fn is_within(foretold: f64, measured: f64) -> bool {
    (measured / WITHIN..=measured * WITHIN).contains(&foretold)
}

/// One launch's work on the target, in whatever unit the manifest has.
fn work(task: &Task) -> f64 {
    let work = &task.manifest().work;
    let flops = task.work(work.flops.as_ref());
    flops
        .or_else(|| task.work(work.bytes.as_ref()))
        .unwrap_or(f64::NAN)
}

fn config(task: &Task, values: &BTreeMap<String, Value>) -> Result<Assignment, Failure> {
    let values: Assignment = values.iter().map(|(n, v)| (n.clone(), v.clone())).collect();
    let found = task.space.config_from(&values);
    let found = found.map_err(|e| Failure::new(Exit::Bug, format!("{}: {e}", task.file.name())))?;
    Ok(task.space.assignment(&found))
}

fn tell(
    report: &mut Report,
    name: &str,
    profile: &Profile,
    first: Option<&Advice>,
    row: &Row,
    [slow_ns, fixed_ns, gain]: [f64; 3],
) {
    let sign = |is_right: bool| if is_right { "ok" } else { "NO" };
    let (rule, foretold) = first.map_or(("no advice", f64::NAN), |a| {
        (a.rule.as_str(), a.predicted_gain)
    });
    report.row(&format!(
        "{name:18} {} {}: {}; {} {rule}; {} foretold {}, measured {} ({} to {})",
        sign(row.class_is_right),
        profile.diagnosis.class.in_words(),
        profile.diagnosis.cause.in_words(),
        sign(row.advice_is_right),
        sign(row.gain_is_right),
        gain_text(foretold),
        gain_text(gain),
        human_ns(slow_ns),
        human_ns(fixed_ns),
    ));
    report.item(
        "kernels",
        json!({
            "kernel": name, "profile": profile, "slow_ns": slow_ns, "fixed_ns": fixed_ns,
            "measured_gain": gain, "foretold_gain": foretold, "rule": rule,
            "class_is_right": row.class_is_right, "advice_is_right": row.advice_is_right,
            "gain_is_right": row.gain_is_right,
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::manifest::Manifest;

    #[test]
    fn every_kernel_has_its_expectation_and_its_versions() {
        let expected = expected().expect("a table");
        assert_eq!(expected.len(), BOTTLENECKS.len());
        for kernel in BOTTLENECKS {
            let wanted = &expected[kernel.name];
            let (_, text) = kernel.files[0];
            let manifest = Manifest::parse(text).expect(kernel.name);
            for values in [&wanted.slow, &wanted.fixed] {
                for (name, value) in values {
                    let tunable = manifest.tunables.iter().find(|t| t.name == *name);
                    assert!(tunable.is_some_and(|t| t.values.contains(value)), "{name}");
                }
                assert_eq!(values.len(), manifest.tunables.len(), "{}", kernel.name);
            }
            if let Some(shape) = &wanted.fixed_shape {
                assert!(manifest.shapes.iter().any(|s| s.name == *shape));
            }
        }
    }

    #[test]
    fn within_a_factor_of_two_either_way() {
        assert!(is_within(2.0, 1.0) && is_within(1.0, 2.0) && is_within(10.0, 12.7));
        assert!(!is_within(2.1, 1.0) && !is_within(f64::NAN, 1.0) && !is_within(1.0, f64::NAN));
    }
}
