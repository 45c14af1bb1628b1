//! Launches with more to them than pointers and a grid: every config must be right.

use serde_json::json;

use super::configs;
use super::ground::Ground;
use super::kernels::{self, Kernel};
use super::report::{Mark, Report};
use crate::engine::bench::{Bench, LiveBench};
use crate::exit::Failure;
use crate::report::terminal::config_text;

struct Feature {
    name: &'static str,
    kernel: Kernel,
    /// The first compute capability that has it.
    since: u32,
    /// A config that asks for more than there is, by the value of its first tunable.
    refused: Option<i64>,
}

const FEATURES: [Feature; 3] = [
    Feature {
        name: "tensor maps",
        kernel: kernels::TMA,
        since: 90,
        refused: None,
    },
    Feature {
        name: "clusters",
        kernel: kernels::CLUSTER,
        since: 90,
        refused: None,
    },
    Feature {
        name: "cooperative launches",
        kernel: kernels::COOPERATIVE,
        since: 60,
        refused: Some(4096),
    },
];

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    for feature in &FEATURES {
        if ground.compute_capability() < feature.since {
            let reason = format!("needs sm_{} or newer", feature.since);
            report.skip(feature.name, reason);
            continue;
        }
        try_all(ground, report, feature)?;
    }
    Ok(())
}

fn try_all(ground: &Ground, report: &mut Report, feature: &Feature) -> Result<(), Failure> {
    let place = feature.name.replace(' ', "-");
    let task = ground.task(&feature.kernel, &place, &[], &ground.pool)?;
    let mut bench = LiveBench::new(&task, &ground.pool)?;
    let all = configs::all(&task);
    let builds = bench.submit(&all);
    let mut right = 0;
    for (trial, (config, build)) in all.iter().zip(builds).enumerate() {
        let seeds = configs::seeds(&task, trial as u64);
        let outcome = bench.run(build, config, seeds, None)?.outcome;
        let refused = config.first().is_some_and(|(_, value)| {
            feature
                .refused
                .is_some_and(|n| *value == kiln_core::value::Value::Int(n))
        });
        let expected = if refused {
            "launch_refused"
        } else {
            "measured"
        };
        let as_expected = outcome.reason() == expected;
        right += usize::from(as_expected);
        report.item(
            "configs",
            json!({
                "feature": feature.name,
                "config": config_text(config),
                "expected": expected,
                "outcome": outcome.reason(),
                "text": outcome.to_string(),
            }),
        );
        if !as_expected {
            report.row(&format!("{}: {outcome}", config_text(config)));
        }
    }
    let refusal = match feature.refused {
        Some(_) => ", the impossible one refused",
        None => "",
    };
    report.judge(
        format!(
            "{}: {right} of {} configs right{refusal}",
            feature.name,
            all.len()
        ),
        "all",
        Mark::when(right == all.len() && !all.is_empty()),
    );
    Ok(())
}
