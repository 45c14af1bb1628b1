//! Several shapes tuned together: progress, what was found, and its JSON document.

use kiln_core::cover::{Cover, Objective};
use kiln_core::diagnostic::printable;
use kiln_core::event::Event;
use kiln_core::study::Study;
use kiln_core::verdict::Verdict;
use serde_json::{Value, json};

use super::json::config;
use super::terminal::config_text;
use super::{exit_code as exit_of, is_success, trust};
use crate::engine::together::Findings;
use crate::engine::tune::{Observer, Options};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::task::Task;

/// Plain lines: what is tried where.
pub struct ShapesProgress;

impl ShapesProgress {
    pub fn new(tasks: &[Task], options: &Options) -> ShapesProgress {
        if let Some(task) = tasks.first() {
            printer::talk(&format!(
                "{}: {} shapes together, trying up to {} configs with {}, on {}",
                task.manifest().kernel.name,
                tasks.len(),
                options.trials,
                options.strategy,
                task.device.name
            ));
            for caution in task.cautions() {
                printer::talk(&format!("warning: {caution}"));
            }
        }
        ShapesProgress
    }
}

impl Observer for ShapesProgress {
    fn event(&mut self, study: &Study, event: &Event) -> Result<(), Failure> {
        let shape = printable(&study.header.shape);
        match event {
            Event::BaselineMeasured { label, outcome } => {
                printer::talk(&format!("{shape}: baseline {label}: {outcome}"));
            }
            Event::TrialFinished(trial) => {
                let best = study.best();
                let is_best = best.is_some_and(|(b, _)| b.number == trial.number);
                let mark = match (is_best, study.baseline_ns(), best) {
                    (true, Some(baseline), Some((_, ns))) => {
                        format!(" best so far ({:.2}x)", baseline / ns)
                    }
                    _ => String::new(),
                };
                printer::talk(&format!(
                    "{shape}: {}{mark}  {}",
                    trial.outcome,
                    config_text(&trial.config)
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn status(&mut self, study: &Study, text: &str) {
        // The search says what it does line by line; a confirmation takes a while.
        if text.starts_with("confirming") {
            printer::talk(&format!("{}: {text}", study.header.shape));
        }
    }

    fn note(&mut self, text: &str) {
        printer::talk(text);
    }
}

/// The worst of all shapes.
pub fn exit_code(found: &Findings) -> Exit {
    let codes: Vec<Exit> = found.studies.iter().map(exit_of).collect();
    match codes.iter().find(|c| **c == Exit::No) {
        Some(no) => *no,
        None => codes
            .into_iter()
            .find(|c| *c != Exit::Success)
            .unwrap_or(Exit::Success),
    }
}

fn is_weighted(found: &Findings) -> bool {
    found.aim.objective == Objective::Geomean && found.weights.iter().any(|w| *w != 1.0)
}

fn objective(found: &Findings) -> &'static str {
    match found.aim.objective {
        Objective::Geomean if is_weighted(found) => "weighted geometric mean",
        Objective::Geomean => "geometric mean",
        Objective::Worst => "least of all shapes",
    }
}

/// `1 config: 1.21x; 2: 1.26x; 3: 1.27x`.
pub fn curve(covers: &[Cover], shapes: usize) -> String {
    let parts = covers.iter().map(|cover| {
        let count = cover.configs.len();
        let what = if count == 1 { "1 config" } else { "" };
        let number = if count == 1 {
            String::new()
        } else {
            count.to_string()
        };
        let value = cover.value.map_or("none".into(), |v| format!("{v:.2}x"));
        let missing = match shapes - cover.served() {
            0 => String::new(),
            missing => format!(" ({missing} of {shapes} shapes not served)"),
        };
        format!("{what}{number}: {value}{missing}")
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// Over the confirmed speedups of the shapes.
fn confirmed(found: &Findings, weights: &[f64]) -> Option<f64> {
    let speedups: Option<Vec<(f64, f64)>> = found
        .studies
        .iter()
        .zip(weights)
        .map(|(study, weight)| Some((study.winner()?.comparison.speedup, *weight)))
        .collect();
    let speedups = speedups?;
    let total: f64 = speedups.iter().map(|(_, weight)| weight).sum();
    Some(match found.aim.objective {
        Objective::Geomean => {
            let sum: f64 = speedups.iter().map(|(s, weight)| weight * s.ln()).sum();
            (sum / total).exp()
        }
        Objective::Worst => speedups
            .iter()
            .map(|(s, _)| *s)
            .fold(f64::INFINITY, f64::min),
    })
}

pub fn summary(found: &Findings, store: &str) -> String {
    let mut lines = Vec::new();
    if let Some(study) = found.studies.first() {
        lines.push(format!(
            "{} on {}, {} shapes",
            study.header.kernel,
            study.header.device.name,
            found.studies.len()
        ));
    }
    lines.push(String::new());
    match confirmed(found, &found.weights) {
        Some(value) => lines.push(format!(
            "  {value:.2}x  {}, confirmed{}",
            objective(found),
            beside(found)
        )),
        None => lines.push("  not every shape has a confirmed config".into()),
    }
    lines.push(String::new());
    let width = found
        .studies
        .iter()
        .map(|s| s.header.shape.len())
        .max()
        .unwrap_or(0);
    for study in &found.studies {
        let shape = &study.header.shape;
        let verdict = match study.winner() {
            Some(winner) => {
                let c = &winner.comparison;
                let target = match (c.verdict, is_success(study)) {
                    (Verdict::Faster, false) => ", below the target",
                    _ => "",
                };
                format!(
                    "{:9}  {:.2}x  [{:.2}, {:.2}]{target}  {}",
                    c.verdict.name(),
                    c.speedup,
                    c.speedup_ci_95.low,
                    c.speedup_ci_95.high,
                    name_of(found, &winner.config)
                )
            }
            None => "no config was confirmed".into(),
        };
        lines.push(format!("  {shape:width$}  {verdict}"));
    }
    lines.push(String::new());
    for (number, at) in chosen(found).iter().enumerate() {
        lines.push(format!(
            "  config {}  {}",
            letter(number),
            config_text(&found.configs[*at])
        ));
    }
    lines.push(format!(
        "  further   {} ({}, as measured in the search{})",
        curve(&found.covers, found.studies.len()),
        objective(found),
        match found.covers.iter().all(|c| c.is_exact) {
            true => "",
            false => ", not every choice looked at",
        }
    ));
    let trials: usize = found.studies.iter().map(|s| s.trials.len()).sum();
    lines.push(format!(
        "  trials    {} configs, {trials} measurements; {} given up as hopeless",
        found.configs.len(),
        found.given_up
    ));
    lines.push(format!("  stopped   {}", found.stop.sentence()));
    let noted = admission_notes(found).into_iter();
    lines.extend(noted.map(|note| format!("  note      {}", printable(&note))));
    let ids: Vec<String> = found.studies.iter().map(|s| s.id.to_string()).collect();
    lines.push(format!("  studies   {} in {store}", ids.join(", ")));
    lines.push(String::new());
    let usable: Vec<String> = found
        .studies
        .iter()
        .filter(|study| is_faster(study))
        .map(|study| study.id.to_string())
        .collect();
    lines.push(match usable.is_empty() {
        true => "next: raise --trials, widen the tunables or change the kernel; `kiln report STUDY` shows every trial of a shape".into(),
        false => format!(
            "next: `kiln export {} --to torch` (or cpp, rust, header, json)",
            usable.join(" ")
        ),
    });
    lines.join("\n")
}

/// What the check cannot tell, once where it is the same on every shape.
fn admission_notes(found: &Findings) -> Vec<String> {
    let mut shapes_of: Vec<(String, Vec<&str>)> = Vec::new();
    for study in &found.studies {
        for note in trust::admission_notes(study) {
            match shapes_of.iter_mut().find(|(known, _)| *known == note) {
                Some((_, shapes)) => shapes.push(&study.header.shape),
                None => shapes_of.push((note, vec![&study.header.shape])),
            }
        }
    }
    let all = found.studies.len();
    let said = shapes_of
        .into_iter()
        .map(|(note, shapes)| match shapes.len() == all {
            true => note,
            false => format!("{}: {note}", shapes.join(", ")),
        });
    said.collect()
}

fn is_faster(study: &Study) -> bool {
    let verdict = study.winner().map(|w| w.comparison.verdict);
    verdict == Some(Verdict::Faster)
}

/// What one number over all shapes does not say.
fn beside(found: &Findings) -> String {
    let mut text = String::new();
    if is_weighted(found) {
        let plain = confirmed(found, &vec![1.0; found.weights.len()]);
        text += &plain.map_or(String::new(), |plain| {
            format!(" ({plain:.2}x without weights)")
        });
    }
    let shapes = found.studies.len();
    match found.studies.iter().filter(|s| !is_faster(s)).count() {
        0 => {}
        all if all == shapes => text += "; no shape is faster",
        some => text += &format!("; {some} of {shapes} shapes are not faster"),
    }
    text
}

fn chosen(found: &Findings) -> Vec<usize> {
    found
        .chosen
        .map_or_else(Vec::new, |at| found.covers[at].configs.clone())
}

fn name_of(found: &Findings, config: &kiln_core::trial::Assignment) -> String {
    let at = chosen(found)
        .iter()
        .position(|c| found.configs[*c] == *config);
    at.map_or(String::new(), |number| format!("config {}", letter(number)))
}

/// `A`, `B`, and beyond the alphabet by number.
fn letter(number: usize) -> String {
    match u8::try_from(number) {
        Ok(n) if n < 26 => char::from(b'A' + n).to_string(),
        _ => (number + 1).to_string(),
    }
}

pub fn document(found: &Findings, store: &str) -> Value {
    let cover = |cover: &Cover| {
        let serves: Vec<Value> = cover
            .serves
            .iter()
            .zip(&found.studies)
            .map(|(at, study)| json!({"shape": study.header.shape, "config": at.map(|a| config(&found.configs[a]))}))
            .collect();
        json!({
            "configs": cover.configs.len(), "value": cover.value, "served": cover.served(),
            "exact": cover.is_exact, "serves": serves,
        })
    };
    let studies: Vec<Value> = found
        .studies
        .iter()
        .map(|study| super::json::document(study, store))
        .collect();
    json!({
        "schema_version": 1,
        "success": exit_code(found) == Exit::Success,
        "objective": found.aim.objective,
        "value": confirmed(found, &found.weights),
        "chosen": chosen(found).iter().map(|at| config(&found.configs[*at])).collect::<Vec<_>>(),
        "covers": found.covers.iter().map(cover).collect::<Vec<_>>(),
        "configs": found.configs.len(),
        "given_up": found.given_up,
        "stop": found.stop,
        "shapes": studies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_says_what_each_further_config_brings() {
        let cover = |configs: usize, value: f64, served: usize| Cover {
            configs: (0..configs).collect(),
            serves: (0..2).map(|s| (s < served).then_some(0)).collect(),
            value: Some(value),
            is_exact: true,
        };
        let covers = [cover(1, 1.213, 2), cover(2, 1.26, 2)];
        assert_eq!(curve(&covers, 2), "1 config: 1.21x; 2: 1.26x");
        assert_eq!(
            curve(&[cover(1, 2.0, 1)], 2),
            "1 config: 2.00x (1 of 2 shapes not served)"
        );
    }
}
