//! What people and programs are told. Everything here reads a `Study` or an `Event`, nothing else.

use std::collections::BTreeMap;

use kiln_core::event::{StopReason, Winner};
use kiln_core::study::{Baseline, PassedOver, Study, Why};
use kiln_core::units::human_ns;
use kiln_core::verdict::Verdict;

use crate::engine::bench::Timings;
use crate::exit::Exit;

pub mod csv;
mod effects;
pub mod explain;
pub mod html;
pub mod json;
pub mod markdown;
mod progress;
pub mod retrospective;
mod roofline;
pub mod shapes;
pub mod terminal;
mod trust;

pub use progress::{CompileProgress, Progress};
pub use trust::admission_lines;

/// A speedup above this is checked before it is believed.
const SUSPICIOUS_SPEEDUP: f64 = 2.0;

/// A confirmed winner that reaches the target.
pub fn is_success(study: &Study) -> bool {
    let target = study.header.target_speedup;
    study.winner().is_some_and(|w| {
        let comparison = &w.comparison;
        match target < 1.0 {
            // Coming near enough to the baseline was asked for, not beating it.
            true => comparison.speedup_ci_95.low >= target,
            false => comparison.verdict == Verdict::Faster && comparison.speedup >= target,
        }
    })
}

pub fn exit_code(study: &Study) -> Exit {
    match study.winner().map(|w| w.comparison.verdict) {
        _ if is_success(study) => Exit::Success,
        Some(Verdict::Undecided) => Exit::Undecided,
        _ => Exit::No,
    }
}

/// Where the time of a search went, in a few lines.
pub fn timings(t: &Timings, wall: std::time::Duration) -> String {
    let seconds = wall.as_secs_f64().max(1e-9);
    let searching = t.waiting_for_compilers + t.reference + t.running;
    let percent =
        |part: std::time::Duration| 100.0 * part.as_secs_f64() / searching.as_secs_f64().max(1e-9);
    let per_minute = t.candidates as f64 / searching.as_secs_f64().max(1e-9) * 60.0;
    format!(
        "timings: {:.1} s in all, {:.1} s of it searching: {} candidates checked and timed, {per_minute:.0} per minute\n  \
         {:>5.1} % waiting for compilers ({:.1} s of compiling, side by side)\n  \
         {:>5.1} % in the reference\n  \
         {:>5.1} % checking and timing, the device itself at work for {:.1} % (idle {:.1} %)",
        seconds,
        searching.as_secs_f64(),
        t.candidates,
        percent(t.waiting_for_compilers),
        t.compiling.as_secs_f64(),
        percent(t.reference),
        percent(t.running),
        percent(t.on_device),
        100.0 - percent(t.on_device),
    )
}

/// How much faster the winner is than another implementation that was measured beside the baseline.
pub fn speedup_over(also: &Baseline, winner: &Winner) -> Option<f64> {
    let ratio = also.outcome.median_ns()? / winner.comparison.candidate_ns;
    ratio.is_finite().then_some(ratio)
}

/// Rates a time means, where the manifest says how much work a launch does.
pub fn rates(study: &Study, ns: f64) -> Rates {
    Rates {
        gflops: study.header.flops.map(|flops| flops / ns),
        gigabytes_per_second: study.header.bytes.map(|bytes| bytes / ns),
    }
}

pub struct Rates {
    pub gflops: Option<f64>,
    pub gigabytes_per_second: Option<f64>,
}

/// Money spent, where a price is known.
pub fn cost(study: &Study) -> Option<f64> {
    Some(study.header.price_per_hour? * study.wall_ms as f64 / 3.6e6)
}

/// What a careful reader should know beside the number, from the decision rules.
pub fn notes(study: &Study) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(from) = &study.header.replayed_from {
        notes.push(format!(
            "replayed from `{from}`: nothing was measured here, and the verdict is drawn from recorded samples"
        ));
    }
    if study.header.replayed_from.is_none() {
        notes.extend(match &study.header.sandbox {
            Some(sandbox) => sandbox.caution(),
            None => Some("not sandboxed: the study is of a kiln that had no sandbox".into()),
        });
    }
    let fastest = study.passed_over();
    notes.extend(fastest.as_ref().map(|f| passed_over_note(f, study)));
    let is_told = |number: u64| fastest.as_ref().is_some_and(|f| f.trial.number == number);
    let dropped = study.confirmation.iter().flat_map(|c| &c.dropped);
    for dropped in dropped.filter(|d| !is_told(d.trial)) {
        notes.push(format!(
            "trial {} passed the search but failed confirmation: {}{}",
            dropped.trial,
            dropped.outcome,
            trust::way_out(&dropped.outcome)
        ));
    }
    notes.extend(trust::admission_notes(study));
    notes.extend(gate_notes(study));
    let Some(winner) = study.winner() else {
        if study.stop.is_some() && study.best().is_none() {
            notes.push("no config passed: look at the failures before tuning further".into());
        }
        return notes;
    };
    let speedup = winner.comparison.speedup;
    let target = study.header.target_speedup;
    if speedup > SUSPICIOUS_SPEEDUP {
        let checked = match study.header.replayed_from {
            None => "; answers were checked again in fresh processes on fresh inputs",
            Some(_) => "",
        };
        notes.push(format!(
            "above {SUSPICIOUS_SPEEDUP}x: make sure the baseline is the one you would use{checked}"
        ));
    }
    if winner.comparison.verdict == Verdict::Faster && speedup < target {
        notes.push(format!("faster, but below the target of {target}x"));
    }
    if speedup < 0.5 {
        notes.push("less than half the baseline's speed: profile before tuning further".into());
    }
    let trial = study.trials.iter().find(|t| t.number == winner.trial);
    let skipped = trial.map_or(&[][..], |trial| &trial.skipped_shapes);
    match skipped {
        [] => {}
        [shape] => notes.push(format!(
            "the winner was not checked on shape `{shape}`: a constraint does not hold there"
        )),
        _ => {
            let names: Vec<String> = skipped.iter().map(|name| format!("`{name}`")).collect();
            notes.push(format!(
                "the winner was not checked on {} shapes, where a constraint does not hold: {}",
                names.len(),
                names.join(", ")
            ));
        }
    }
    notes.extend(trust::acceptance_notes(study, winner));
    let unlocked = |name: &str, value: &str| name == "governor" && value != "performance";
    let environment = &study.header.device.environment;
    let cores = study.header.device.cores as f64;
    let load = environment.iter().find(|(name, _)| name == "load");
    let load = load.and_then(|(_, text)| text.split(' ').next()?.parse::<f64>().ok());
    if let Some(load) = load.filter(|l| *l > cores / 2.0) {
        notes.push(format!(
            "the machine was busy when the study began (load {load:.1} on {cores} cores): times may be too long"
        ));
    }
    if let Some((_, pids)) = environment.iter().find(|(n, _)| n == "other_processes") {
        notes.push(format!(
            "other processes were on the GPU (pid {pids}): have it alone and tune again"
        ));
    }
    notes.extend(clock_note(study));
    if environment.iter().any(|(n, v)| unlocked(n, v)) {
        notes.push("the CPU governor is not `performance`: clocks may have moved".into());
    }
    notes
}

/// Why the fastest config of the search is not the winner, in a line.
fn passed_over_note(fastest: &PassedOver<'_>, study: &Study) -> String {
    let winner = study
        .winner()
        .map(|winner| format!("trial {}", winner.trial));
    let so = winner
        .as_ref()
        .map_or(String::new(), |w| format!("; {w} won"));
    let winner = winner.unwrap_or_default();
    let why = match fastest.why {
        Why::Failed(outcome) => format!(
            "failed confirmation: {outcome}{}{so}",
            trust::way_out(outcome)
        ),
        Why::Overtaken {
            speedup,
            winners_speedup,
        } => format!(
            "{winner} was faster when both were measured again, in fresh processes: {winners_speedup:.3}x the baseline, \
             against {speedup:.3}x"
        ),
        Why::NotTried => format!("could not be measured again{so}"),
    };
    format!(
        "trial {} was the fastest of the search ({}), but {why}",
        fastest.trial.number,
        human_ns(fastest.median_ns)
    )
}

/// The command that goes on with a study.
fn tune_again(study: &Study) -> String {
    let manifest = &study.header.manifest;
    match &study.header.replayed_from {
        None => format!("kiln tune {manifest}"),
        // The recording's own manifest is named after its file.
        Some(from) if manifest.ends_with(".json") || manifest.ends_with(".gz") => {
            format!("kiln tune --replay {from}")
        }
        Some(from) => format!("kiln tune {manifest} --replay {from}"),
    }
}

/// The command that makes a study like this one.
pub fn reproduce_command(study: &Study) -> String {
    let header = &study.header;
    if header.replayed_from.is_some() {
        return format!("{} --fresh", tune_again(study));
    }
    let mut words = vec![
        "kiln".to_string(),
        "tune".into(),
        header.manifest.clone(),
        "--shape".into(),
        header.shape.clone(),
        "--strategy".into(),
        header.strategy.clone(),
        "--seed".into(),
        header.seed.to_string(),
        "--trials".into(),
        study.trials.len().max(1).to_string(),
        "--fresh".into(),
    ];
    if header.earlier.is_none() {
        words.push("--cold".into());
    }
    let words: Vec<String> = words.into_iter().map(terminal::shell_word).collect();
    words.join(" ")
}

/// Gates set to `warn`, as far as only a compiler can tell.
fn gate_notes(study: &Study) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let compiled = study.trials.iter().filter_map(|t| t.compile.as_ref());
    for gate in compiled.flat_map(|facts| &facts.gate_warnings) {
        *counts.entry(gate).or_default() += 1;
    }
    counts
        .iter()
        .map(|(gate, count)| {
            let trials = if *count == 1 {
                "trial breaks"
            } else {
                "trials break"
            };
            format!("{count} {trials} gate `{gate}`, which is set to warn")
        })
        .collect()
}

/// What the GPU's clocks did while trials were timed.
fn clock_note(study: &Study) -> Option<String> {
    const POWER_CAP: u64 = 0x4;
    const SLOWED: u64 = 0x8 | 0x20 | 0x40 | 0x80;
    let conditions = study
        .trials
        .iter()
        .filter_map(|t| t.outcome.measurement()?.conditions.as_ref());
    let (mut capped, mut slowed, mut discarded) = (0, 0, 0);
    for condition in conditions {
        capped += u64::from(condition.throttle & POWER_CAP != 0);
        slowed += u64::from(condition.throttle & SLOWED != 0);
        discarded += u64::from(condition.discarded);
    }
    if slowed > 0 {
        return Some(format!(
            "the GPU slowed itself down (heat or power brake) in {slowed} trials; {discarded} samples were taken again"
        ));
    }
    (capped > 0).then(|| format!("the GPU ran at its power limit in {capped} trials"))
}

/// What to do next, most useful first, and where to look.
pub fn next_step(study: &Study) -> String {
    let advice = advice(study);
    let is_told = study.finished && study.header.replayed_from.is_none();
    match is_told && (is_success(study) || study.winner().is_none()) {
        true => format!("{advice}; `kiln report` shows every trial"),
        false => advice,
    }
}

/// What to do next, for who is looking already.
fn advice(study: &Study) -> String {
    if !study.finished {
        return format!("`{}` continues this study", tune_again(study));
    }
    if study.header.replayed_from.is_some() {
        return "`kiln tune` without --replay measures on this machine".into();
    }
    match study.winner().map(|w| w.comparison.verdict) {
        _ if is_success(study) => match terminal::manifest_of(study) {
            Some(manifest) => format!(
                "build `{}` with the flags above",
                kiln_core::diagnostic::printable(&manifest.kernel.source.value)
            ),
            None => "build with the flags above".into(),
        },
        Some(Verdict::Undecided) => {
            "quiet the machine, or raise `rounds` in [confirm]; then `kiln tune` again".into()
        }
        Some(_) if study.stop == Some(StopReason::Exhausted) => {
            "every config was tried: widen the tunables or change the kernel".into()
        }
        Some(_) => "raise --trials, widen the tunables or change the kernel".into(),
        None => "`kiln explain` says which values fail and where; fix that, then `kiln tune` again"
            .into(),
    }
}
