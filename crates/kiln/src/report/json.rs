//! The one JSON document of a study.

use std::collections::BTreeMap;

use kiln_core::stats::{self, Interval};
use kiln_core::study::Study;
use kiln_core::trial::{Assignment, CompileFacts};
use serde_json::{Map, Value, json};

use super::{cost, is_success, notes, rates};

/// Raised when a key changes its meaning; new keys may appear at any time.
const SCHEMA_VERSION: u64 = 1;

pub fn document(study: &Study, store: &str) -> Value {
    let header = &study.header;
    let winner = study.winner();
    let comparison = winner.map(|w| &w.comparison);
    let ms = |ns: f64| ns / 1e6;
    let interval_ms = |i: Interval| json!([ms(i.low), ms(i.high)]);
    let (baseline_ms, baseline_ci) = match comparison {
        Some(c) => (json!(ms(c.baseline_ns)), interval_ms(c.baseline_ci_95)),
        None => searched_baseline(study),
    };
    let rejected = rejected(study);
    let found = json!({
        "schema_version": SCHEMA_VERSION,
        "success": is_success(study),
        "kernel": header.kernel,
        "shape": shape(study),
        "device": header.device.name,
        "replayed_from": header.replayed_from,
        "sandbox": header.sandbox,
        "baseline_ms": baseline_ms,
        "baseline_ci_95": baseline_ci,
        "best_latency_ms": comparison.map(|c| ms(c.candidate_ns)),
        "ci_95": comparison.map(|c| interval_ms(c.candidate_ci_95)),
        "speedup": comparison.map(|c| c.speedup),
        "speedup_ci_95": comparison.map(|c| c.speedup_ci_95),
        "improvement_pct": comparison.map(|c| (1.0 - c.candidate_ns / c.baseline_ns) * 100.0),
        "p_value": comparison.map(|c| c.p_value),
        "cliffs_delta": comparison.map(|c| c.cliffs_delta),
        "verdict": comparison.map(|c| c.verdict),
        "best_config": winner.map(|w| config(&w.config)),
        "candidates_found": study.ranked().len(),
        "rejected_count": rejected.values().sum::<u64>(),
        "rejected": rejected,
        "trials": study.trials.len(),
        "wall_s": study.wall_ms as f64 / 1e3,
        "study": study.id,
        "gflops": comparison.and_then(|c| rates(study, c.candidate_ns).gflops),
        "gigabytes_per_second": comparison.and_then(|c| rates(study, c.candidate_ns).gigabytes_per_second),
        "target_speedup": header.target_speedup,
        "sentence": comparison.map(|c| c.sentence.clone()),
        "samples": comparison.map(|c| json!({
            "baseline": c.samples.baseline, "winner": c.samples.candidate,
            "rounds": winner.map_or(0, |w| w.winner_rounds_ns.len()),
        })),
        "gpu": on_gpu(study),
        "admission": header.admission,
        "acceptance": winner.and_then(|w| w.acceptance.as_ref()),
        "writable_globals": winner_facts(study).and_then(|facts| facts.writable.as_ref()),
        "also": also(study),
        "warm_from": study.header.earlier.as_ref().map(|earlier| &earlier.from),
        "best_trial": winner.map(|w| w.trial),
        "stop": study.stop,
        "finished": study.finished,
        "learnt": super::explain::Learnt::of(study),
    });
    let circumstances = json!({
        "strategy": header.strategy,
        "seed": header.seed,
        "cost": cost(study),
        "space": header.space,
        "notes": notes(study),
        "environment": header.device.environment.iter().cloned().collect::<BTreeMap<_, _>>(),
        "compiler": header.identity.compiler,
        "manifest": header.manifest,
        "store": store,
        "kiln_version": header.kiln_version,
    });
    let mut document = Map::new();
    for part in [found, circumstances] {
        if let Value::Object(fields) = part {
            document.extend(fields);
        }
    }
    document.into()
}

/// What is known about a winner on a GPU beside its time.
fn on_gpu(study: &Study) -> Value {
    let Some(winner) = study.winner() else {
        return Value::Null;
    };
    let facts = winner_facts(study);
    match facts.and_then(|c| c.resources) {
        None => Value::Null,
        Some(resources) => json!({
            "resources": resources,
            "occupancy": facts.and_then(|c| c.occupancy),
            "alone_ns": winner.alone_ns,
            "other_caches": winner.other_caches,
            "energy_mj": winner.energy_mj,
        }),
    }
}

/// Other implementations, measured for comparison.
fn also(study: &Study) -> Vec<Value> {
    let shown = study.also.iter().map(|also| {
        json!({
            "label": also.label,
            "ms": also.outcome.median_ns().map(|ns| ns / 1e6),
            "outcome": also.outcome.to_string(),
            "winner_speedup": study.winner().and_then(|winner| super::speedup_over(also, winner)),
        })
    });
    shown.collect()
}

/// What the compiler made of the winner.
fn winner_facts(study: &Study) -> Option<&CompileFacts> {
    let number = study.winner()?.trial;
    let trial = study.trials.iter().find(|t| t.number == number)?;
    trial.compile.as_ref()
}

/// Before confirmation only the search-time measurement of the baseline is known.
fn searched_baseline(study: &Study) -> (Value, Value) {
    let measurement = study
        .baseline
        .as_ref()
        .and_then(|b| b.outcome.measurement());
    match measurement {
        None => (Value::Null, Value::Null),
        Some(m) => {
            let interval = stats::median_interval(&m.samples_ns, 0.95, 10_000, study.header.seed);
            (
                json!(stats::median(&m.samples_ns) / 1e6),
                json!([interval.low / 1e6, interval.high / 1e6]),
            )
        }
    }
}

fn shape(study: &Study) -> Value {
    let mut shape = Map::new();
    shape.insert("name".into(), json!(study.header.shape));
    for (name, value) in &study.header.dimensions {
        shape.insert(name.clone(), json!(value));
    }
    shape.into()
}

/// How many configs went, and why: by rule before compiling, by outcome after.
pub fn rejected(study: &Study) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for removed in &study.header.space.removed {
        counts.insert(removed.rule.clone(), removed.count);
    }
    for (reason, count) in study.outcomes() {
        if reason != "measured" {
            counts.insert(reason.to_string(), count);
        }
    }
    counts
}

pub fn config(assignment: &Assignment) -> Value {
    let pairs = assignment
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)));
    pairs.collect::<Map<_, _>>().into()
}
