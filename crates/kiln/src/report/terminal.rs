//! The final table, for people.

use kiln_core::diagnostic::printable;
use kiln_core::stats::Interval;
use kiln_core::study::Study;
use kiln_core::trial::Assignment;
use kiln_core::units::human_ns;
use kiln_core::verdict::Comparison;

use super::{cost, json, next_step, notes, rates};
use crate::store::StudySummary;

const RUNNERS_UP: usize = 5;

pub fn summary(study: &Study, store: &str) -> String {
    let header = &study.header;
    let dimensions: Vec<String> = header
        .dimensions
        .iter()
        .map(|(n, v)| format!("{n}={v}"))
        .collect();
    let mut lines = vec![
        String::new(),
        format!(
            "{} on {}, shape {} ({})",
            printable(&header.kernel),
            printable(&header.device.name),
            header.shape,
            dimensions.join(" ")
        ),
        String::new(),
    ];
    match study.winner() {
        Some(winner) => {
            lines.extend(verdict_lines(&winner.comparison));
            let baseline = study.baseline.as_ref().map_or("", |b| b.label.as_str());
            lines.push(String::new());
            let c = &winner.comparison;
            let trial = format!("trial {}", winner.trial);
            lines.push(latency_line(
                study,
                "baseline",
                c.baseline_ns,
                c.baseline_ci_95,
                baseline,
            ));
            lines.push(latency_line(
                study,
                "winner",
                c.candidate_ns,
                c.candidate_ci_95,
                &trial,
            ));
            lines.push(format!("  config    {}", config_text(&winner.config)));
        }
        None => lines.push(match (&study.stop, study.best()) {
            (None, _) => "  not finished".into(),
            (Some(_), None) => "  no config passed: nothing to confirm".into(),
            (Some(_), Some(_)) => "  no finalist survived confirmation".into(),
        }),
    }
    lines.push(String::new());
    lines.extend(runners_up(study));
    lines.push(format!("  trials    {}", trials_text(study)));
    if let Some(stop) = study.stop {
        lines.push(format!("  stopped   {}", stop.sentence()));
    }
    for (reason, count) in json::rejected(study) {
        let count = group_digits(u128::from(count));
        lines.push(format!("  rejected  {count} by {}", printable(&reason)));
    }
    lines.extend(first_failures(study));
    for note in notes(study) {
        lines.push(format!("  note      {}", printable(&note)));
    }
    let money = cost(study).map_or(String::new(), |c| format!(", cost {c:.2}"));
    lines.push(format!(
        "  study     {} in {store} ({:.0} s{money})",
        study.id,
        study.wall_ms as f64 / 1e3
    ));
    lines.push(String::new());
    lines.push(format!("next: {}", next_step(study)));
    lines.join("\n")
}

fn verdict_lines(c: &Comparison) -> Vec<String> {
    vec![
        format!(
            "  {}  {:.2}x  [{:.2}, {:.2}]",
            c.verdict, c.speedup, c.speedup_ci_95.low, c.speedup_ci_95.high
        ),
        format!(
            "  n = {} + {}, p = {:.2e}, Cliff's delta {:.2}, margin {:.0} %",
            c.samples.baseline,
            c.samples.candidate,
            c.p_value,
            c.cliffs_delta,
            c.margin * 100.0
        ),
    ]
}

fn latency_line(study: &Study, name: &str, ns: f64, interval: Interval, detail: &str) -> String {
    let rates = rates(study, ns);
    let gflops = rates
        .gflops
        .map_or(String::new(), |g| format!("  {g:.1} GFLOP/s"));
    let bytes = rates
        .gigabytes_per_second
        .map_or(String::new(), |g| format!("  {g:.1} GB/s"));
    format!(
        "  {name:<9} {:>10}  [{}, {}]{gflops}{bytes}  {}",
        human_ns(ns),
        human_ns(interval.low),
        human_ns(interval.high),
        printable(detail)
    )
}

fn runners_up(study: &Study) -> Vec<String> {
    let ranked = study.ranked();
    if ranked.len() < 2 {
        return Vec::new();
    }
    let mut lines = vec!["  fastest in the search:".to_string()];
    for (trial, ns) in ranked.into_iter().take(RUNNERS_UP) {
        lines.push(format!(
            "  {:>9} {:>10}  {}",
            format!("#{}", trial.number),
            human_ns(ns),
            config_text(&trial.config)
        ));
    }
    lines.push(String::new());
    lines
}

fn trials_text(study: &Study) -> String {
    let parts: Vec<String> = study
        .outcomes()
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    format!("{}: {}", study.trials.len(), parts.join(", "))
}

/// One example of each way trials failed.
fn first_failures(study: &Study) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    study
        .trials
        .iter()
        .filter(|t| t.outcome.measurement().is_none() && seen.insert(t.outcome.reason()))
        .flat_map(|t| {
            let what = printable(&t.outcome.to_string());
            [
                format!("  failure   trial {}: {what}", t.number),
                format!("            {}", config_text(&t.config)),
            ]
        })
        .collect()
}

pub fn study_list(studies: &[StudySummary]) -> String {
    let mut lines = vec![format!(
        "{:>5}  {:<24} {:<10} {:>6}  {}",
        "study", "kernel", "shape", "trials", "state"
    )];
    for study in studies {
        lines.push(format!(
            "{:>5}  {:<24} {:<10} {:>6}  {}",
            study.id,
            printable(&study.header.kernel),
            study.header.shape,
            study.trials,
            if study.finished {
                "finished"
            } else {
                "unfinished"
            }
        ));
    }
    lines.join("\n")
}

pub fn config_text(config: &Assignment) -> String {
    let pairs: Vec<String> = config
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    printable(&pairs.join(" "))
}

/// `1234567` as `1,234,567`.
pub fn group_digits(number: u128) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(1_234_567), "1,234,567");
        assert_eq!(human_bytes(512), "512 B");
        assert_eq!(human_bytes(3 << 20), "3.0 MiB");
    }
}
