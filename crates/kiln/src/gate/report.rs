//! The findings for people, for programs, and for the annotations of a CI service.

use kiln_core::diagnostic::printable;
use kiln_core::trial::Assignment;
use kiln_core::units::human_ns;
use kiln_core::verdict::sequential::Look;
use serde_json::{Value, json};

use super::judge::{Answer, Findings, ShapeFinding};
use super::stage::Stage;
use crate::engine::versus::{Ended, Side};
use crate::exit::Exit;
use crate::report::terminal::config_text;

/// Raised when a key changes its meaning; new keys may appear at any time.
const SCHEMA_VERSION: u64 = 1;

/// The exit code of each answer, for `kiln compare`.
pub fn exit_code(answer: Answer) -> Exit {
    match answer {
        Answer::Faster => Exit::Success,
        Answer::Slower => Exit::No,
        Answer::Same => Exit::Same,
        Answer::Undecided => Exit::Undecided,
        Answer::Wrong => Exit::Wrong,
    }
}

/// What is said about one shape beside the numbers.
pub fn sentence(finding: &ShapeFinding, findings: &Findings) -> String {
    let judged = match &finding.result {
        Ok(judged) => judged,
        Err(fallen) => {
            let side = match fallen.side {
                Side::A => format!("A (`{}`)", findings.a),
                Side::B => format!("B (`{}`)", findings.b),
            };
            return format!("{side}: {}", fallen.outcome);
        }
    };
    let look = &judged.look;
    let speedup = ratio(look);
    let margin = percent(findings.settings.margin);
    match finding.answer() {
        Answer::Same => format!("{speedup} is within {margin} of equal"),
        Answer::Undecided if look.direction.is_some() && !look.cycles_agree() => format!(
            "{speedup} in time, but not in clock cycles: the clocks changed between the sides"
        ),
        Answer::Undecided if judged.had_too_few_rounds() => format!(
            "{speedup} after {} rounds, too few to call a difference: the time is up; `--seconds` allows more{}",
            judged.rounds,
            interruptions(judged.interrupted)
        ),
        Answer::Undecided => {
            let end = match judged.ended {
                Ended::OutOfTime => "the time is up; `--seconds` allows more",
                _ => "all looks are used up; a quieter machine or a wider `--margin` decides",
            };
            let others = interruptions(judged.interrupted);
            format!("{speedup} is neither within nor beyond {margin}: {end}{others}")
        }
        _ => speedup,
    }
}

/// What other programs had to do with it, if they did.
fn interruptions(share: f64) -> String {
    /// A few are there on every machine.
    const WORTH_SAYING: f64 = 0.1;
    match share >= WORTH_SAYING {
        true => format!(
            " (other programs interrupted {:.0} % of the samples)",
            100.0 * share
        ),
        false => String::new(),
    }
}

/// `0.50x [0.49, 0.51]`, with decimals enough to see a margin.
fn ratio(look: &Look) -> String {
    format!(
        "{:.3}x [{:.3}, {:.3}]",
        look.comparison.speedup, look.interval.low, look.interval.high
    )
}

pub fn percent(fraction: f64) -> String {
    format!("{} %", (fraction * 1e4).round() / 1e2)
}

/// `FASTER 1.20x …` for one line per shape.
pub fn table(stage: &Stage, findings: &Findings, title: &str) -> String {
    let titles = [
        "shape", "verdict", "speedup", "interval", "A", "B", "n", "p", "delta",
    ];
    let mut rows = vec![titles.map(str::to_string)];
    rows.extend(findings.shapes.iter().map(cells));
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let mut lines = vec![
        format!(
            "{title}: {} on {}, margin {}",
            printable(&stage.file.manifest.kernel.name),
            printable(&stage.device.name),
            percent(findings.settings.margin)
        ),
        format!("  A  {}", named(&findings.a, findings, |s| &s.a_config)),
        format!("  B  {}", named(&findings.b, findings, |s| &s.b_config)),
        String::new(),
    ];
    for row in &rows {
        let padded: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        lines.push(format!("  {}", padded.join("  ").trim_end()));
    }
    lines.push(String::new());
    lines.extend(
        notes(findings)
            .iter()
            .map(|n| format!("  note  {}", printable(n))),
    );
    lines.join("\n")
}

/// A side with its config, where all shapes have the same one and the name does not say it.
fn named(
    label: &str,
    findings: &Findings,
    config: fn(&ShapeFinding) -> &Option<Assignment>,
) -> String {
    let mut configs = findings.shapes.iter().map(config);
    let first = configs.next().and_then(Option::as_ref);
    let label = printable(label);
    match first {
        Some(values) if !values.is_empty() && configs.all(|c| c.as_ref() == first) => {
            match config_text(values) {
                text if label.contains(&text.replace(' ', ",")) => label,
                text => format!("{label}, {}", printable(&text)),
            }
        }
        _ => label,
    }
}

/// The cells of a row; also for Markdown.
pub fn cells(finding: &ShapeFinding) -> [String; 9] {
    let shape = printable(&finding.shape);
    let verdict = finding.answer().name().to_string();
    let Ok(judged) = &finding.result else {
        let none = || "-".to_string();
        return [
            shape,
            verdict,
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
        ];
    };
    let look = &judged.look;
    let c = &look.comparison;
    [
        shape,
        verdict,
        format!("{:.3}x", c.speedup),
        format!("[{:.3}, {:.3}]", look.interval.low, look.interval.high),
        human_ns(c.baseline_ns),
        human_ns(c.candidate_ns),
        format!("{}+{}", c.samples.baseline, c.samples.candidate),
        format!("{:.1e}", c.p_value),
        format!("{:.2}", c.cliffs_delta),
    ]
}

/// What a careful reader should know beside the table.
pub fn notes(findings: &Findings) -> Vec<String> {
    let mut notes = Vec::new();
    for finding in &findings.shapes {
        let explain = matches!(finding.answer(), Answer::Undecided | Answer::Wrong);
        if explain {
            notes.push(format!(
                "{}: {}",
                finding.shape,
                sentence(finding, findings)
            ));
        }
    }
    let judged = findings
        .shapes
        .iter()
        .filter_map(|s| s.result.as_ref().ok());
    let mut cycles = judged.clone().map(|j| &j.look).peekable();
    if let Some(first) = cycles.peek() {
        let level = percent(first.level);
        let shapes = match findings.shapes.len() + findings.left_out.len() {
            1 => String::new(),
            n => format!(", corrected over {n} shapes (Holm)"),
        };
        notes.push(format!(
            "intervals of {level}: each of the planned looks has its share of 5 %{shapes}"
        ));
    }
    for finding in &findings.shapes {
        let known = finding.result.as_ref().ok().and_then(|j| j.look.in_cycles);
        if let Some(cycles) = known {
            notes.push(format!(
                "{}: in clock cycles {:.0} and {:.0}, {:.3}x [{:.3}, {:.3}]",
                finding.shape,
                cycles.baseline,
                cycles.candidate,
                cycles.speedup(),
                cycles.interval.low,
                cycles.interval.high
            ));
        }
    }
    if judged.clone().any(|j| j.look.in_cycles.is_none()) {
        notes.push("clocks were not known at every sample: times only, not cycles".into());
    }
    notes.extend(findings.notes.iter().cloned());
    if !findings.left_out.is_empty() {
        let (judged, rest) = (findings.shapes.len(), findings.left_out.len());
        notes.push(format!(
            "interrupted with {rest} of {} shapes to go: `--shapes {}`",
            judged + rest,
            findings.left_out.join(",")
        ));
    }
    notes
}

/// `PATH:LINE: error: …` for every shape that needs attention, as problem matchers read it.
pub fn annotations(stage: &Stage, findings: &Findings, undecided_fails: bool) -> Vec<String> {
    let path = stage.shown_path();
    let shapes = findings.shapes.iter();
    shapes
        .filter_map(|finding| {
            let severity = match finding.answer() {
                Answer::Faster | Answer::Same => return None,
                Answer::Undecided if !undecided_fails => "warning",
                _ => "error",
            };
            Some(format!(
                "{}:{}: {severity}: {} on shape {}: {}",
                path,
                finding.line,
                finding.answer().name(),
                finding.shape,
                sentence(finding, findings).replace('\n', " ")
            ))
        })
        .collect()
}

pub fn document(stage: &Stage, findings: &Findings, verb: &str, exit: Exit) -> Value {
    let shapes: Vec<Value> = findings
        .shapes
        .iter()
        .map(|finding| shape_document(finding, findings))
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "verb": verb,
        "kernel": stage.file.manifest.kernel.name,
        "manifest": stage.file.name(),
        "device": stage.device.name,
        "a": findings.a,
        "b": findings.b,
        "margin": findings.settings.margin,
        "verdict": findings.answer().name(),
        "exit_code": exit as i32,
        "shapes": shapes,
        "left_out": findings.left_out,
        "notes": notes(findings),
    })
}

fn shape_document(finding: &ShapeFinding, findings: &Findings) -> Value {
    let config = |config: &Option<_>| config.as_ref().map(config_text);
    let mut document = json!({
        "shape": finding.shape,
        "dimensions": finding.dimensions.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "verdict": finding.answer().name(),
        "sentence": sentence(finding, findings),
        "a_config": config(&finding.a_config),
        "b_config": config(&finding.b_config),
        "seconds": finding.seconds,
    });
    match &finding.result {
        Ok(judged) => {
            let look = &judged.look;
            let c = &look.comparison;
            document["speedup"] = json!(c.speedup);
            document["interval"] = json!(look.interval);
            document["level"] = json!(look.level);
            document["speedup_ci_95"] = json!(c.speedup_ci_95);
            document["a_ns"] = json!(c.baseline_ns);
            document["b_ns"] = json!(c.candidate_ns);
            document["p_value"] = json!(c.p_value);
            document["p_beyond_margin"] = json!(look.p_beyond);
            document["cliffs_delta"] = json!(c.cliffs_delta);
            document["samples"] = json!({"a": c.samples.baseline, "b": c.samples.candidate});
            document["rounds"] = json!(judged.rounds);
            document["interrupted"] = json!(judged.interrupted);
            document["looks"] = json!(judged.looks);
            document["cycles"] = json!(look.in_cycles);
            document["a_rounds_ns"] = json!(judged.times.baseline);
            document["b_rounds_ns"] = json!(judged.times.candidate);
        }
        Err(fallen) => {
            document["side"] = json!(match fallen.side {
                Side::A => "a",
                Side::B => "b",
            });
            document["reason"] = json!(fallen.outcome.reason());
            document["outcome"] = json!(fallen.outcome);
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_blamed_only_where_they_interrupted_much() {
        assert_eq!(interruptions(0.04), "");
        let said = interruptions(0.625);
        assert!(said.contains("62 % of the samples"), "{said}");
    }
}
