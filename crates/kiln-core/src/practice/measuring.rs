//! While measuring: a baseline, intervals, samples, failures kept, and never a long silence.

use super::preparing::counted;
use super::{Answer, Record, fires, not_applicable, passes};
use crate::study::Milestone;

/// A number from fewer samples or rounds of fresh processes is an anecdote.
const FEWEST_SAMPLES: usize = 20;
const FEWEST_ROUNDS: usize = 2;
/// Nobody should wonder for longer whether anything still happens.
const SILENCE_MS: u64 = 5 * 60 * 1000;

pub(super) fn baseline_first(record: &Record<'_>) -> Answer {
    let study = record.study;
    match &study.baseline {
        None if study.trials.is_empty() => not_applicable("nothing was tried yet"),
        None => fires("trials were run before a baseline was measured"),
        Some(baseline) if baseline.outcome.measurement().is_none() => {
            fires(format!("the baseline failed: {}", baseline.outcome))
        }
        Some(baseline) => {
            let declared = record.manifest.as_ref().map(|m| m.baseline.is_some());
            match declared {
                Some(false) => fires(
                    "the manifest names no [baseline]: the kernel is compared with itself, not with what it should beat",
                ),
                _ => passes(format!("`{}` was measured first", baseline.label)),
            }
        }
    }
}

pub(super) fn measure_with_intervals(record: &Record<'_>) -> Answer {
    let Some(winner) = record.study.winner() else {
        return not_applicable("nothing was confirmed");
    };
    let c = &winner.comparison;
    let samples = c.samples.baseline.min(c.samples.candidate);
    let rounds = winner.winner_rounds_ns.len();
    let interval = format!("[{:.3}, {:.3}]", c.speedup_ci_95.low, c.speedup_ci_95.high);
    if samples < FEWEST_SAMPLES || rounds < FEWEST_ROUNDS {
        return fires(format!(
            "the speedup {:.3}x {interval} rests on {samples} samples in {}: raise `samples` and `rounds` in [confirm]",
            c.speedup,
            counted(rounds as u64, "round")
        ));
    }
    passes(format!(
        "{:.3}x {interval} from {samples} samples of each side in {}",
        c.speedup,
        counted(rounds as u64, "round")
    ))
}

pub(super) fn keep_samples(record: &Record<'_>) -> Answer {
    let study = record.study;
    let measured: Vec<_> = study
        .trials
        .iter()
        .filter_map(|t| Some((t.number, t.outcome.measurement()?)))
        .collect();
    if measured.is_empty() {
        return not_applicable("nothing was measured");
    }
    let bare: Vec<u64> = measured
        .iter()
        .filter(|(_, m)| m.samples_ns.len() < 2)
        .map(|(number, _)| *number)
        .collect();
    if let Some(first) = bare.first() {
        return fires(format!(
            "{} of {} measured trials have a single sample (the first is trial {first}): raise `min_samples` in [measure]",
            bare.len(),
            measured.len()
        ));
    }
    let samples: usize = measured.iter().map(|(_, m)| m.samples_ns.len()).sum();
    passes(format!(
        "{samples} samples of {} are kept",
        counted(measured.len() as u64, "trial")
    ))
}

pub(super) fn negative_results_recorded(record: &Record<'_>) -> Answer {
    let study = record.study;
    let before = record.history.before(study);
    let header = &study.header;
    let abandoned: Vec<String> = before
        .iter()
        .filter(|s| !s.finished && s.header.manifest == header.manifest)
        .map(|s| s.id.to_string())
        .collect();
    let failed = study
        .trials
        .iter()
        .filter(|t| t.outcome.measurement().is_none())
        .count();
    if !study.finished {
        return fires(format!(
            "the study is not finished: {} without a verdict; `kiln tune` continues it",
            counted(study.trials.len() as u64, "trial")
        ));
    }
    if !abandoned.is_empty() {
        let (noun, verb) = match abandoned.len() {
            1 => ("study", "was"),
            _ => ("studies", "were"),
        };
        return fires(format!(
            "{noun} {} of this kernel {verb} given up before a verdict: what they would have shown is not known",
            abandoned.join(", ")
        ));
    }
    passes(format!(
        "finished; {failed} of {} failed and {} kept with their reasons",
        counted(study.trials.len() as u64, "trial"),
        if failed == 1 { "is" } else { "are" }
    ))
}

pub(super) fn progress_cadence(record: &Record<'_>) -> Answer {
    let Some(silence) = record.study.moments.longest_silence else {
        return not_applicable("nothing happened yet");
    };
    let what = match silence.before {
        Milestone::Baseline => "the baseline".to_string(),
        Milestone::Trial(number) => format!("trial {number}"),
        Milestone::SearchFinished => "the end of the search".into(),
        Milestone::Confirmed => "the confirmation".into(),
        Milestone::Finished => "the end".into(),
    };
    let seconds = silence.ms as f64 / 1e3;
    match silence.ms > SILENCE_MS {
        true => fires(format!(
            "{:.1} minutes without a result before {what}: lower `max_seconds` or compile less at a time",
            seconds / 60.0
        )),
        false => passes(format!(
            "the longest wait was {seconds:.1} s, before {what}"
        )),
    }
}
