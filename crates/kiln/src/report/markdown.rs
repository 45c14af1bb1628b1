//! A study as Markdown, for pull requests and notes.

use kiln_core::escape::markdown as escape;
use kiln_core::study::Study;
use kiln_core::units::human_ns;

use super::terminal::{config_text, date, flags_text, trials_text};
use super::{json, next_step, notes, reproduce_command};

const FASTEST_SHOWN: usize = 5;

/// What is between backticks stays code; the rest is text and nothing else.
fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let shown = |(at, part): (usize, &&str)| match at % 2 {
        0 => escape(part),
        _ => format!("`{part}`"),
    };
    parts.iter().enumerate().map(shown).collect()
}

pub fn text(study: &Study) -> String {
    let header = &study.header;
    let dimensions = header.dimensions.iter();
    let dimensions: Vec<String> = dimensions.map(|(n, v)| format!("{n}={v}")).collect();
    let mut lines = vec![
        format!("### {}: {}", escape(&header.kernel), headline(study)),
        String::new(),
        format!(
            "on {}, shape {} ({}), {} UTC",
            escape(&header.device.name),
            escape(&header.shape),
            escape(&dimensions.join(" ")),
            date(header.created_unix_ms)
        ),
        String::new(),
    ];
    if let Some(winner) = study.winner() {
        let c = &winner.comparison;
        let row = |name: &str, ns: f64, low: f64, high: f64| {
            format!(
                "| {name} | {} | {} to {} |",
                human_ns(ns),
                human_ns(low),
                human_ns(high)
            )
        };
        let (b, w) = (c.baseline_ci_95, c.candidate_ci_95);
        lines.extend([
            "| | time | 95 % interval |".into(),
            "| --- | ---: | --- |".into(),
            row("baseline", c.baseline_ns, b.low, b.high),
            row("winner", c.candidate_ns, w.low, w.high),
            String::new(),
            format!("{}.", escape(&c.sentence)),
            String::new(),
            fenced(&flags_text(study, &winner.config)),
            String::new(),
        ]);
    }
    lines.push(format!("Trials: {}", escape(&trials_text(study))));
    if let Some(stop) = study.stop {
        lines.push(format!("(stopped: {})", stop.sentence()));
    }
    lines.push(String::new());
    let ranked = study.ranked();
    if ranked.len() > 1 {
        lines.push("| trial | time | config |".into());
        lines.push("| ---: | ---: | --- |".into());
        for (trial, ns) in ranked.into_iter().take(FASTEST_SHOWN) {
            let config = escape(&config_text(&trial.config));
            lines.push(format!(
                "| {} | {} | {config} |",
                trial.number,
                human_ns(ns)
            ));
        }
        lines.push(String::new());
    }
    let rejected = json::rejected(study);
    if !rejected.is_empty() {
        lines.push("| rejected by | configs |".into());
        lines.push("| --- | ---: |".into());
        let rows = rejected.iter();
        lines.extend(rows.map(|(reason, count)| format!("| {} | {count} |", escape(reason))));
        lines.push(String::new());
    }
    lines.extend(
        notes(study)
            .iter()
            .map(|note| format!("- {}", escape(note))),
    );
    lines.push(format!("- next: {}", prose(&next_step(study))));
    lines.push(String::new());
    lines.push(format!("kiln {}:", escape(&header.kiln_version)));
    lines.push(String::new());
    lines.push(fenced(&reproduce_command(study)));
    lines.push(String::new());
    lines.join("\n")
}

fn headline(study: &Study) -> String {
    match study.winner().map(|w| &w.comparison) {
        Some(c) => format!(
            "{} {:.2}x (95 % interval {:.2} to {:.2})",
            c.verdict, c.speedup, c.speedup_ci_95.low, c.speedup_ci_95.high
        ),
        None if study.finished => "no winner".into(),
        None => "not finished".into(),
    }
}

/// Commands in a block that nothing inside can end.
fn fenced(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}sh\n{}\n{fence}", text.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stay_code_and_the_rest_is_escaped() {
        assert_eq!(
            prose("<b>; `kiln report` shows *all*"),
            format!("{}`kiln report`{}", escape("<b>; "), escape(" shows *all*"))
        );
        assert_eq!(prose("one ` only"), escape("one ` only"));
    }
}
