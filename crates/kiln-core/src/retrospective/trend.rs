//! Whether studies of a kernel get faster from one to the next.

use serde::Serialize;

use super::{History, changes, trials_to_95};
use crate::lesson::dimensions_text;
use crate::study::Study;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trend {
    pub kernel: String,
    pub rows: Vec<TrendRow>,
    pub changes: u64,
    pub blind_changes: u64,
    /// What it comes to, in plain words.
    pub sentence: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrendRow {
    pub study: u64,
    pub created_unix_ms: u64,
    /// `N=4096 M=16`.
    pub shape: String,
    pub device: String,
    pub first_working_build_s: Option<f64>,
    pub baseline_s: Option<f64>,
    pub verdict_s: Option<f64>,
    pub trials: u64,
    pub trials_to_95_percent: Option<u64>,
    pub speedup: Option<f64>,
    /// What it began with, where it began with something.
    pub warm_from: Option<String>,
    pub finished: bool,
    /// Against the study before: `true` where each came sooner, `None` where one of them never came.
    pub verdict_sooner: Option<bool>,
    pub best_sooner: Option<bool>,
}

/// Of measured studies of one kernel, oldest first.
pub fn trend(kernel: &str, history: &History<'_>) -> Trend {
    let mut rows: Vec<TrendRow> = history.studies.iter().map(row).collect();
    for i in 1..rows.len() {
        let (before, now) = (&rows[i - 1], &rows[i]);
        let verdict = now.verdict_s.zip(before.verdict_s).map(|(n, b)| n < b);
        let best = now
            .trials_to_95_percent
            .zip(before.trials_to_95_percent)
            .map(|(n, b)| n < b);
        rows[i].verdict_sooner = verdict;
        rows[i].best_sooner = best;
    }
    let edits = history
        .studies
        .last()
        .map_or(Vec::new(), |last| changes(last, history));
    Trend {
        kernel: kernel.into(),
        sentence: sentence(kernel, &rows),
        rows,
        changes: edits.len() as u64,
        blind_changes: edits.iter().filter(|c| c.blind).count() as u64,
    }
}

fn row(study: &Study) -> TrendRow {
    let seconds = |ms: u64| ms as f64 / 1e3;
    let moments = &study.moments;
    TrendRow {
        study: study.id,
        created_unix_ms: study.header.created_unix_ms,
        shape: dimensions_text(&study.header.dimensions),
        device: study.header.device.name.clone(),
        first_working_build_s: moments.first_working_ms.map(seconds),
        baseline_s: moments.baseline_ms.map(seconds),
        verdict_s: moments.confirmed_ms.map(seconds),
        trials: study.trials.len() as u64,
        trials_to_95_percent: trials_to_95(study),
        speedup: study.winner().map(|w| w.comparison.speedup),
        warm_from: study.header.earlier.as_ref().map(|e| e.from.clone()),
        finished: study.finished,
        verdict_sooner: None,
        best_sooner: None,
    }
}

/// How many steps were an improvement, of how many that can be judged.
fn steps(rows: &[TrendRow], of: fn(&TrendRow) -> Option<bool>) -> (usize, usize) {
    let judged: Vec<bool> = rows.iter().filter_map(of).collect();
    (judged.iter().filter(|s| **s).count(), judged.len())
}

/// Fewer cannot be told from chance, whatever their order.
const FEWEST_FOR_A_TREND: usize = 4;
const ONE_SIDED_95: f64 = 1.645;

/// Mann's test: how far later times being longer than earlier ones, pair by pair, is from chance, in standard deviations.
fn trend_z(times: &[f64]) -> f64 {
    let n = times.len() as f64;
    let pairs = (0..times.len()).flat_map(|i| (i + 1..times.len()).map(move |j| (i, j)));
    let sum: f64 = pairs
        .map(|(i, j)| match times[j].total_cmp(&times[i]) {
            std::cmp::Ordering::Less => -1.0,
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => 1.0,
        })
        .sum();
    // One off towards zero, for sums are whole numbers.
    let spread = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt().max(1e-9);
    (sum - sum.clamp(-1.0, 1.0)) / spread
}

fn sentence(kernel: &str, rows: &[TrendRow]) -> String {
    let decided: Vec<&TrendRow> = rows.iter().filter(|r| r.verdict_s.is_some()).collect();
    let (Some(first), Some(last)) = (decided.first(), decided.last()) else {
        return format!("no study of `{kernel}` has come to a verdict yet");
    };
    let (Some(from), Some(to)) = (first.verdict_s, last.verdict_s) else {
        return String::new();
    };
    if first.study == last.study {
        return format!(
            "one study of `{kernel}` came to a verdict, in {}: a trend takes {FEWEST_FOR_A_TREND}",
            seconds(to)
        );
    }
    let times: Vec<f64> = decided.iter().filter_map(|r| r.verdict_s).collect();
    let (best_sooner, best_judged) = steps(rows, |r| r.best_sooner);
    let direction = match trend_z(&times) {
        _ if times.len() < FEWEST_FOR_A_TREND => "are too few for a trend",
        z if z <= -ONE_SIDED_95 => "get faster",
        z if z >= ONE_SIDED_95 => "get slower",
        _ => "get neither faster nor slower, as far as can be told",
    };
    let mut text = format!(
        "studies of `{kernel}` {direction}: the verdict took {} in study {} and {} in study {} ({:.2} times as long)",
        seconds(from),
        first.study,
        seconds(to),
        last.study,
        to / from.max(1e-9)
    );
    if best_judged > 0 {
        text += &format!(
            ", and 95 % of the best came in fewer trials than the study before in {best_sooner} of {best_judged}"
        );
    }
    let questions = rows.iter().map(|r| (&r.shape, &r.device));
    let mut questions: Vec<_> = questions.collect();
    questions.sort();
    questions.dedup();
    if questions.len() > 1 {
        text += "; they are of several shapes or devices, so times are not quite alike";
    }
    text
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.1} s"),
        s => format!("{:.1} min", s / 60.0),
    }
}
