//! The final table, for people.

use std::path::Path;

use kiln_core::diagnostic::{printable, printable_lines};
use kiln_core::event::Winner;
use kiln_core::manifest::Manifest;
use kiln_core::protocol::Caches;
use kiln_core::stats::Interval;
use kiln_core::study::Study;
use kiln_core::trial::Assignment;
use kiln_core::units::human_ns;
use kiln_core::verdict::Comparison;

use super::{cost, explain, json, next_step, notes, rates};
use crate::project;
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
    if let Some(from) = &header.replayed_from {
        let from = printable(from);
        lines.push(format!("  REPLAY    of {from}: nothing was measured here"));
        lines.push(String::new());
    }
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
            lines.push(format!("  flags     {}", flags_text(study, &winner.config)));
            lines.extend(beside_the_verdict(study, winner));
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
    if let Some(earlier) = &header.earlier {
        let known = earlier.trials.len();
        lines.push(format!(
            "  began     with what {} found ({known} trials)",
            printable(&earlier.from)
        ));
    }
    if let Some(stop) = study.stop {
        lines.push(format!("  stopped   {}", stop.sentence()));
    }
    for (reason, count) in json::rejected(study) {
        let before_compiling = reason.contains(':');
        let least = if before_compiling && header.space.valid.is_none() {
            "at least "
        } else {
            ""
        };
        let count = group_digits(u128::from(count));
        lines.push(format!(
            "  rejected  {least}{count} by {}",
            printable(&reason)
        ));
    }
    lines.extend(first_failures(study));
    lines.extend(explain::learnt_lines(study));
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
    lines.push(format!("next: {}", from_here(next_step(study), store)));
    printable_lines(&lines.join("\n"))
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
    let gflops = rates.gflops.map_or(String::new(), |g| match g >= 1e4 {
        true => format!("  {:.1} TFLOP/s", g / 1e3),
        false => format!("  {g:.1} GFLOP/s"),
    });
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

/// What the compiler made of the winner, and measurements that were not judged.
fn beside_the_verdict(study: &Study, winner: &Winner) -> Vec<String> {
    let mut lines = Vec::new();
    let trial = study.trials.iter().find(|t| t.number == winner.trial);
    let compile = trial.and_then(|t| t.compile.as_ref());
    if let Some((facts, resources)) = compile.and_then(|c| Some((c, c.resources?))) {
        let occupancy = facts
            .occupancy
            .map_or(String::new(), |o| format!(", occupancy {:.0} %", 100.0 * o));
        lines.push(format!(
            "  compiled  {} registers, {} bytes spilled{occupancy}",
            resources.registers, resources.spill_store_bytes
        ));
    }
    if let Some(acceptance) = &winner.acceptance {
        lines.push(format!(
            "  accepted  {}",
            super::trust::accepted_text(acceptance)
        ));
    }
    if let Some(alone_ns) = winner.alone_ns {
        lines.push(format!(
            "  in Python both were timed in processes like the baseline's; alone in one the winner takes {}",
            human_ns(alone_ns)
        ));
    }
    if let Some(other) = winner.other_caches {
        let state = match other.caches {
            Caches::Cold => "cold",
            Caches::Warm => "warm",
        };
        lines.push(format!(
            "  {state:<9} baseline {}, winner {}: {:.2}x with the L2 cache {state}",
            human_ns(other.baseline_ns),
            human_ns(other.winner_ns),
            other.baseline_ns / other.winner_ns
        ));
    }
    if let Some(energy) = winner.energy_mj {
        lines.push(format!(
            "  energy    baseline {:.3} mJ, winner {:.3} mJ per launch: {:.2}x",
            energy.baseline,
            energy.winner,
            energy.baseline / energy.winner
        ));
    }
    for also in &study.also {
        // Measured once and not interleaved with the winner: good for orientation, not judged.
        let against = super::speedup_over(also, winner).map_or(String::new(), |ratio| {
            let word = match ratio {
                0.995..1.005 => "level",
                ..1.0 => "slower",
                _ => "faster",
            };
            format!("; the winner is {word}, about {ratio:.2}x")
        });
        lines.push(format!(
            "  also      {}: {}{against}",
            printable(&also.label),
            printable(&also.outcome.to_string())
        ));
    }
    lines
}

fn runners_up(study: &Study) -> Vec<String> {
    let ranked = study.ranked();
    if ranked.len() < 2 {
        return Vec::new();
    }
    let mut lines = vec!["  fastest in the search:".to_string()];
    let dropped: Vec<u64> = study
        .confirmation
        .iter()
        .flat_map(|c| &c.dropped)
        .map(|d| d.trial)
        .collect();
    for (trial, ns) in ranked.into_iter().take(RUNNERS_UP) {
        let failed = if dropped.contains(&trial.number) {
            "  (failed confirmation)"
        } else {
            ""
        };
        lines.push(format!(
            "  {:>9} {:>10}  {}{failed}",
            format!("#{}", trial.number),
            human_ns(ns),
            config_text(&trial.config)
        ));
    }
    lines.push(String::new());
    lines
}

pub fn trials_text(study: &Study) -> String {
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
        "{:>5}  {:<16}  {:<20} {:<10} {:>6}  {}",
        "study", "begun (UTC)", "kernel", "shape", "trials", "result"
    )];
    for study in studies {
        let result = match (&study.winner, study.finished) {
            (Some(c), _) => format!("{} {:.2}x", c.verdict, c.speedup),
            (None, true) => "no winner".into(),
            (None, false) => "unfinished".into(),
        };
        let replayed = match study.header.replayed_from {
            Some(_) => " (replayed)",
            None => "",
        };
        lines.push(format!(
            "{:>5}  {:<16}  {:<20} {:<10} {:>6}  {result}{replayed}",
            study.id,
            date(study.header.created_unix_ms),
            printable(&study.header.kernel),
            printable(&study.header.shape),
            study.trials,
        ));
    }
    lines.join("\n")
}

/// `YYYY-MM-DD HH:MM` of a Unix time, by the usual day-count arithmetic of the Gregorian calendar.
pub fn date(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let days = (minutes / 1440) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months counted from March, so that a leap day comes last.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year_of_era + era * 400 + carry;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}",
        minutes / 60 % 24,
        minutes % 60
    )
}

pub fn config_text(config: &Assignment) -> String {
    let pairs: Vec<String> = config
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    printable(&pairs.join(" "))
}

/// Studies of a kernel that lies elsewhere, as the built-in one does, are not found from here.
fn from_here(advice: String, store: &str) -> String {
    let root = Path::new(store).parent().and_then(Path::parent);
    let here = std::env::current_dir().map(|here| project::project_root(&here));
    let (Some(root), Ok(here)) = (root.and_then(|r| r.canonicalize().ok()), here) else {
        return advice;
    };
    match here.canonicalize() {
        Ok(here) if here != root => {
            let root = shell_word(root.display().to_string());
            advice.replace("`kiln report`", &format!("`kiln report --project {root}`"))
        }
        _ => advice,
    }
}

/// A word as a shell takes it for itself.
pub fn shell_word(text: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:+/".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The flags of the manifest and the config as more of them, ready for a shell.
pub fn flags_text(study: &Study, config: &Assignment) -> String {
    let kernel = manifest_of(study).map(|m| m.kernel);
    let own = kernel.into_iter().flat_map(|kernel| kernel.flags);
    let defines = config
        .iter()
        .map(|(name, value)| format!("-D{name}={}", value.define()));
    let flags: Vec<String> = own.chain(defines).map(shell_word).collect();
    printable(&flags.join(" "))
}

/// `None` for studies of kilns that did not keep it.
pub fn manifest_of(study: &Study) -> Option<Manifest> {
    Manifest::parse(&study.header.manifest_text).ok()
}

/// Every trial, in order.
pub fn trial_list(study: &Study) -> String {
    let mut lines = vec![String::new(), "  every trial:".to_string()];
    for trial in &study.trials {
        let outcome = printable(&trial.outcome.to_string());
        lines.push(format!(
            "  #{} {outcome}  {}",
            trial.number,
            config_text(&trial.config)
        ));
    }
    lines.join("\n")
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
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(951_827_696_000), "2000-02-29 12:34");
        assert_eq!(date(1_798_761_540_000), "2026-12-31 23:59");
        assert_eq!(human_bytes(512), "512 B");
        assert_eq!(human_bytes(3 << 20), "3.0 MiB");
    }
}
