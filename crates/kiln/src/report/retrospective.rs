//! How a study went, and how studies went one after the other.

use kiln_core::diagnostic::printable;
use kiln_core::practice::State;
use kiln_core::retrospective::{Bottleneck, Retrospective, Trend, TrendRow};

/// The lines below a study's summary. Checks that pass are listed only where they are asked for.
pub fn lines(r: &Retrospective, every_check: bool) -> String {
    let mut lines = vec![String::new(), "  looking back:".to_string()];
    let mut line = |name: &str, text: String| lines.push(format!("    {name:<22} {text}"));
    line(
        "first working build",
        after(r.first_working_build_s, "none worked"),
    );
    line("baseline", after(r.baseline_s, "not measured"));
    line("verdict", after(r.verdict_s, "none yet"));
    line(
        "bottleneck",
        match r.bottleneck {
            Bottleneck::Never => "not known: this source was never profiled".into(),
            Bottleneck::KnownBefore => "known before the study began".into(),
            Bottleneck::After(s) => format!("profiled after {}", duration(s)),
        },
    );
    if r.changes > 0 {
        let blind = match r.blind_changes {
            0 => "after a profile".to_string(),
            n if n == r.changes => "blind: without a profile since the last edit".into(),
            n => format!("{n} of them blind: without a profile since the last edit"),
        };
        let edits = if r.changes == 1 { "edit" } else { "edits" };
        line(
            "source changed",
            format!("{} {edits} since the study before, {blind}", r.changes),
        );
    }
    if let Some(trial) = r.trials_to_95_percent {
        line(
            "95 % of the best",
            format!("in trial {trial} of {}", r.trials),
        );
    }
    let spent: Vec<String> = r
        .phases
        .iter()
        .map(|s| {
            let money = s.cost.map_or(String::new(), |c| format!(" ({c:.4})"));
            format!("{} {}{money}", s.phase.name(), duration(s.seconds))
        })
        .collect();
    line("time went into", spent.join(", "));
    let money = r.cost.map_or(String::new(), |c| format!("; cost {c:.4}"));
    line(
        "device held",
        format!(
            "{:.2} minutes; compilers worked {}{money}",
            r.device_minutes,
            duration(r.compiler_seconds)
        ),
    );
    let fired = r
        .practice
        .iter()
        .filter(|f| f.state == State::Fires)
        .count();
    line(
        "practice",
        format!("{fired} of {} checks fire", r.practice.len()),
    );
    for finding in &r.practice {
        let word = match finding.state {
            State::Fires => "fires",
            State::Passes => "passes",
            State::NotApplicable => "not applicable",
        };
        if finding.state == State::Fires || every_check {
            let sentence = printable(&finding.sentence);
            lines.push(match every_check {
                true => format!("      {:<26} {word}: {sentence}", finding.check),
                false => format!("      {:<26} {sentence}", finding.check),
            });
        }
    }
    lines.join("\n")
}

/// One line per study, then what it comes to.
pub fn trend_table(trend: &Trend) -> String {
    let mut lines = vec![format!(
        "{:>5}  {:<16}  {:>9} {:>9} {:>9}  {:>6} {:>7}  {:>8}  {}",
        "study",
        "begun (UTC)",
        "works",
        "baseline",
        "verdict",
        "trials",
        "to 95 %",
        "speedup",
        "shape"
    )];
    for row in &trend.rows {
        lines.push(trend_line(row));
    }
    lines.push(String::new());
    if trend.changes > 0 {
        lines.push(format!(
            "the source was edited {} times between them, {} of these without a profile since the edit before",
            trend.changes, trend.blind_changes
        ));
    }
    lines.push(printable(&trend.sentence));
    lines.join("\n")
}

fn trend_line(row: &TrendRow) -> String {
    let time = |seconds: Option<f64>| seconds.map_or("-".into(), duration);
    let sooner = match row.verdict_sooner {
        Some(true) => "sooner than the last",
        Some(false) => "later than the last",
        None => "",
    };
    let warm = match &row.warm_from {
        Some(from) => format!("; began with {}", printable(from)),
        None => String::new(),
    };
    let line = format!(
        "{:>5}  {:<16}  {:>9} {:>9} {:>9}  {:>6} {:>7}  {:>8}  {} on {}{warm}{}{sooner}",
        row.study,
        super::terminal::date(row.created_unix_ms),
        time(row.first_working_build_s),
        time(row.baseline_s),
        time(row.verdict_s),
        row.trials,
        row.trials_to_95_percent
            .map_or("-".into(), |t| t.to_string()),
        row.speedup.map_or("-".into(), |s| format!("{s:.2}x")),
        printable(&row.shape),
        printable(&row.device),
        if sooner.is_empty() { "" } else { "; " },
    );
    line.trim_end().to_string()
}

fn after(seconds: Option<f64>, never: &str) -> String {
    seconds.map_or(never.into(), |s| format!("after {}", duration(s)))
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.1} s"),
        s => format!("{:.1} min", s / 60.0),
    }
}
