//! What the view of a long run says, as plain text: nothing here draws.

use std::time::Duration;

use kiln_core::study::Study;
use kiln_core::units::human_ns;

use crate::engine::bench::Timings;
use crate::report::cost;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A stretch of the search in which every trial failed.
const FAILED: char = '×';

/// The search in `width` columns: each the fastest time of its trials, low is fast, on a logarithmic scale.
pub fn sparkline(study: &Study, width: usize) -> String {
    let times = study.trials.iter().map(|t| t.outcome.median_ns());
    spark(&times.collect::<Vec<_>>(), width)
}

fn spark(times: &[Option<f64>], width: usize) -> String {
    let columns = width.min(times.len());
    let mut fastest: Vec<Option<f64>> = Vec::with_capacity(columns);
    for column in 0..columns {
        let (from, to) = (
            column * times.len() / columns,
            (column + 1) * times.len() / columns,
        );
        let measured = times[from..to].iter().flatten().copied();
        fastest.push(measured.min_by(f64::total_cmp));
    }
    let low = fastest.iter().flatten().copied().min_by(f64::total_cmp);
    let high = fastest.iter().flatten().copied().max_by(f64::total_cmp);
    let (Some(low), Some(high)) = (low, high) else {
        return FAILED.to_string().repeat(columns);
    };
    let range = (high / low).ln();
    let mark = |ns: &Option<f64>| match ns {
        None => FAILED,
        Some(_) if range <= 0.0 => LEVELS[0],
        Some(ns) => {
            let part = (ns / low).ln() / range;
            LEVELS[((part * 7.0).round() as usize).min(7)]
        }
    };
    fastest.iter().map(mark).collect()
}

pub fn best(study: &Study) -> String {
    match (study.best(), study.baseline_ns()) {
        (Some((trial, ns)), Some(baseline)) => {
            let since = study.trials.len() as u64 - trial.number.min(study.trials.len() as u64);
            let when = match since {
                0 => "just now".to_string(),
                1 => "1 trial ago".to_string(),
                n => format!("{n} trials ago"),
            };
            format!(
                "best {} ({:.2}x), trial {}, {when}",
                human_ns(ns),
                baseline / ns,
                trial.number
            )
        }
        _ => "no result yet".into(),
    }
}

/// How trials ended, the most frequent first.
pub fn outcomes(study: &Study) -> String {
    let mut counts: Vec<(&str, u64)> = study.outcomes().into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counts: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {}", reason.replace('_', " ")))
        .collect();
    match counts.is_empty() {
        true => "no trial has ended".into(),
        false => counts.join(", "),
    }
}

/// How busy compilers and device were, as parts of the time since the search began.
pub fn busy(timings: &Timings, jobs: usize, elapsed: Duration, on_gpu: bool) -> Option<String> {
    let seconds = elapsed.as_secs_f64();
    if timings.candidates == 0 || seconds < 1.0 {
        return None;
    }
    let percent = |part: f64| (100.0 * part).clamp(0.0, 100.0);
    let compilers = percent(timings.compiling.as_secs_f64() / seconds / jobs.max(1) as f64);
    let (device, at_work) = match on_gpu {
        true => ("GPU", timings.on_device),
        false => ("kernels running", timings.running),
    };
    let device_busy = percent(at_work.as_secs_f64() / seconds);
    Some(format!(
        "compilers {compilers:.0} % busy, {device} {device_busy:.0} %"
    ))
}

/// What is left of the budgets that were set.
pub struct Budget {
    pub trials: u64,
    pub minutes: Option<f64>,
    pub cost: Option<f64>,
}

impl Budget {
    /// `pace` is the time a trial takes, where that is known.
    pub fn left(&self, study: &Study, pace: Option<Duration>) -> String {
        let done = study.trials.len() as u64;
        let trials = self.trials.saturating_sub(done);
        let mut parts = vec![match trials {
            1 => "1 trial left".to_string(),
            n => format!("{n} trials left"),
        }];
        if let Some(pace) = pace.filter(|_| trials > 0) {
            let seconds = pace.as_secs_f64() * trials as f64;
            parts.push(format!("about {}", human_seconds(seconds)));
        }
        if let Some(minutes) = self.minutes {
            let left = (60.0 * minutes - study.wall_ms as f64 / 1e3).max(0.0);
            parts.push(format!("at most {}", human_seconds(left)));
        }
        if let Some(spent) = cost(study) {
            parts.push(match self.cost {
                Some(limit) => format!("cost {spent:.2} of {limit:.2}"),
                None => format!("cost {spent:.2}"),
            });
        }
        parts.join(", ")
    }
}

pub fn human_seconds(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn low_is_fast_and_failures_are_told() {
        assert_eq!(spark(&[], 10), "");
        assert_eq!(spark(&[None, None], 10), "××");
        assert_eq!(spark(&[Some(5.0)], 10), "▁");
        assert_eq!(
            spark(&[Some(100.0), None, Some(10.0), Some(1.0)], 10),
            "█×▅▁"
        );
        // Two trials in each column: the faster one is shown.
        let times = [Some(9.0), Some(3.0), None, Some(1.0), None, None];
        assert_eq!(spark(&times, 3), "█▁×");
    }

    #[test]
    fn utilisation_is_a_part_of_the_time() {
        let timings = Timings {
            compiling: Duration::from_secs(30),
            running: Duration::from_secs(5),
            on_device: Duration::from_secs(2),
            candidates: 3,
            ..Timings::default()
        };
        let ten = Duration::from_secs(10);
        let said = busy(&timings, 4, ten, true);
        assert_eq!(said.as_deref(), Some("compilers 75 % busy, GPU 20 %"));
        let said = busy(&timings, 4, ten, false);
        assert_eq!(
            said.as_deref(),
            Some("compilers 75 % busy, kernels running 50 %")
        );
        assert_eq!(busy(&Timings::default(), 4, ten, false), None);
    }

    proptest! {
        #[test]
        fn a_sparkline_is_never_wider_than_asked(
            times in prop::collection::vec(prop::option::of(1.0..1e12f64), 0..300),
            width in 0usize..120,
        ) {
            let drawn = spark(&times, width).chars().count();
            prop_assert_eq!(drawn, width.min(times.len()));
        }
    }
}
