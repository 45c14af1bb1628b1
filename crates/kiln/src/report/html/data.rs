//! What the page's script draws, as one JSON document: numbers and names, no markup.

use kiln_core::diagnostic::printable;
use kiln_core::effects::Effects;
use kiln_core::event::Winner;
use kiln_core::study::Study;
use kiln_core::trial::{Outcome, Trial};
use serde_json::{Value, json};

use crate::report::effects::{Effect, effects};
use crate::report::roofline;

/// Of what a failed trial said; the whole is in `kiln studies show --trials`.
const LONGEST_MESSAGE: usize = 300;

/// Ways a trial ends, by what a reader would do about it. The order is that of the lanes.
const KINDS: [&str; 6] = [
    "measured",
    "wrong",
    "crashed",
    "timed out",
    "not compiled",
    "gated",
];

fn kind(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Measured(_) => 0,
        Outcome::Wrong(_) => 1,
        Outcome::Crashed(_) => 2,
        Outcome::TimedOut { .. } => 3,
        Outcome::NotCompiled(_) => 4,
        Outcome::Gated { .. } => 5,
    }
}

pub fn document(study: &Study, model: Option<&Effects>) -> Value {
    let effects = effects(study, model);
    let names = study.trials.first().map(|trial| &trial.config);
    let places: Vec<usize> = (0..names.map_or(0, Vec::len)).collect();
    let varying = |place: &usize| effects.iter().find(|e| e.place == *place);
    // In the manifest's order, which is how its author thinks of them.
    let axes: Vec<&Effect> = places.iter().filter_map(varying).collect();
    json!({
        "kinds": KINDS,
        "tunables": axes.iter().map(|e| tunable(e)).collect::<Vec<_>>(),
        "by_effect": effects
            .iter()
            .filter_map(|e| axes.iter().position(|a| a.place == e.place))
            .collect::<Vec<_>>(),
        "trials": study.trials.iter().enumerate().map(|(i, t)| trial(study, i, t, &axes)).collect::<Vec<_>>(),
        "baseline_ns": study.winner().map(|w| w.comparison.baseline_ns).or(study.baseline_ns()),
        "search_baseline_ns": study.baseline_ns(),
        "winner": study.winner().map(|w| w.trial),
        "has_times": has_times(study),
        "finished": study.finished,
        "interval": study.winner().map(|w| interval(study, w)),
        "samples": study.winner().map(samples),
        "roofline": roofline::of(study).ok().map(|r| r.document()),
    })
}

/// Whether the study's clock says anything: a replay's is that of the replay.
pub fn has_times(study: &Study) -> bool {
    study.header.replayed_from.is_none()
        && study.trial_ended_ms.len() == study.trials.len()
        && study.trial_ended_ms.last().is_some_and(|ms| *ms > 0)
}

fn tunable(effect: &Effect) -> Value {
    json!({
        "name": printable(&effect.tunable),
        "values": effect.values.iter().map(|v| printable(&v.value.to_string())).collect::<Vec<_>>(),
        "medians": effect.values.iter().map(|v| v.median_ns).collect::<Vec<_>>(),
        "measured": effect.values.iter().map(|v| v.measured).collect::<Vec<_>>(),
        "failed": effect.values.iter().map(|v| v.failed).collect::<Vec<_>>(),
        "spread": effect.spread(),
        "importance": effect.importance,
    })
}

/// `[number, kind, ns, ended_ms, [place of each varying tunable's value], message or samples]`: an array,
/// for there may be thousands.
fn trial(study: &Study, index: usize, trial: &Trial, axes: &[&Effect]) -> Value {
    let config: Vec<Option<usize>> = axes
        .iter()
        .map(|axis| {
            let (_, value) = trial.config.get(axis.place)?;
            axis.values.iter().position(|v| v.value == *value)
        })
        .collect();
    let said = match trial.outcome.measurement() {
        Some(measurement) => json!(measurement.samples_ns.len()),
        None => {
            let message = printable(&trial.outcome.to_string());
            json!(message.chars().take(LONGEST_MESSAGE).collect::<String>())
        }
    };
    // Five digits: a plot shows no more, and the file is smaller.
    let ns = trial.outcome.median_ns().map(|ns| rounded(ns, 5));
    let ended = study.trial_ended_ms.get(index);
    json!([trial.number, kind(&trial.outcome), ns, ended, config, said])
}

fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

fn interval(study: &Study, winner: &Winner) -> Value {
    let c = &winner.comparison;
    json!({
        "speedup": c.speedup, "low": c.speedup_ci_95.low, "high": c.speedup_ci_95.high,
        "margin": c.margin, "target": study.header.target_speedup,
    })
}

fn samples(winner: &Winner) -> Value {
    let c = &winner.comparison;
    let rounds = |rounds: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let round = |r: &Vec<f64>| r.iter().map(|ns| rounded(*ns, 6)).collect();
        rounds.iter().map(round).collect()
    };
    json!([
        {"name": "baseline", "ns": c.baseline_ns, "interval": c.baseline_ci_95, "rounds": rounds(&winner.baseline_rounds_ns)},
        {"name": "winner", "ns": c.candidate_ns, "interval": c.candidate_ci_95, "rounds": rounds(&winner.winner_rounds_ns)},
    ])
}
