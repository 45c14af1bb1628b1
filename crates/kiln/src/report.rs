//! What people and programs are told. Everything here reads a `Study` or an `Event`, nothing else.

use kiln_core::event::StopReason;
use kiln_core::study::Study;
use kiln_core::verdict::Verdict;

use crate::exit::Exit;

pub mod json;
mod progress;
pub mod terminal;

pub use progress::Progress;

/// A speedup above this is checked before it is believed.
const SUSPICIOUS_SPEEDUP: f64 = 2.0;

/// A confirmed winner that reaches the target.
pub fn is_success(study: &Study) -> bool {
    study.winner().is_some_and(|w| {
        w.comparison.verdict == Verdict::Faster
            && w.comparison.speedup >= study.header.target_speedup
    })
}

pub fn exit_code(study: &Study) -> Exit {
    match study.winner().map(|w| w.comparison.verdict) {
        _ if is_success(study) => Exit::Success,
        Some(Verdict::Undecided) => Exit::Undecided,
        _ => Exit::No,
    }
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
    for dropped in study.confirmation.iter().flat_map(|c| &c.dropped) {
        notes.push(format!(
            "trial {} passed the search but failed confirmation: {}",
            dropped.trial, dropped.outcome
        ));
    }
    let Some(winner) = study.winner() else {
        if study.stop.is_some() && study.best().is_none() {
            notes.push("no config passed: look at the failures before tuning further".into());
        }
        return notes;
    };
    let speedup = winner.comparison.speedup;
    let target = study.header.target_speedup;
    if speedup > SUSPICIOUS_SPEEDUP {
        notes.push(format!(
            "above {SUSPICIOUS_SPEEDUP}x: make sure the baseline is the one you would use; \
             answers were checked again in fresh processes on fresh inputs"
        ));
    }
    if winner.comparison.verdict == Verdict::Faster && speedup < target {
        notes.push(format!("faster, but below the target of {target}x"));
    }
    if speedup < 0.5 {
        notes.push("less than half the baseline's speed: profile before tuning further".into());
    }
    let trial = study.trials.iter().find(|t| t.number == winner.trial);
    for shape in trial.iter().flat_map(|t| &t.skipped_shapes) {
        notes.push(format!(
            "the winner was not checked on shape `{shape}`: a constraint does not hold there"
        ));
    }
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
    if environment.iter().any(|(n, v)| unlocked(n, v)) {
        notes.push("the CPU governor is not `performance`: clocks may have moved".into());
    }
    notes
}

/// What to do next, most useful first.
pub fn next_step(study: &Study) -> String {
    if !study.finished {
        return format!("`kiln tune {}` continues this study", study.header.manifest);
    }
    let show = "`kiln studies show --trials` lists every trial";
    match study.winner().map(|w| w.comparison.verdict) {
        _ if is_success(study) => format!("build with the flags above; {show}"),
        Some(Verdict::Undecided) => {
            "quiet the machine, or raise `samples` in [confirm]; then `kiln tune` again".into()
        }
        Some(_) if study.stop == Some(StopReason::Exhausted) => {
            "every config was tried: widen the tunables or change the kernel".into()
        }
        Some(_) => "raise --trials, widen the tunables or change the kernel".into(),
        None => format!("fix the first failure, then `kiln tune` again; {show}"),
    }
}
