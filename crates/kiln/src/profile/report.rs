//! Profiles for people and for programs.

use kiln_core::bottleneck::{Advice, Ceilings, Profile, Related, Subject};
use kiln_core::diagnostic::printable;
use kiln_core::units::human_ns;
use serde_json::{Value, json};

use crate::report::terminal::config_text;

/// Raised when a key changes its meaning; new keys may appear at any time.
const SCHEMA_VERSION: u64 = 1;
const MOST_ADVICE: usize = 4;

/// What is said about profiles as a whole.
pub struct Context<'a> {
    pub kernel: &'a str,
    pub device: &'a str,
    pub ceilings: Option<&'a Ceilings>,
    /// Where they were stored.
    pub study: Option<u64>,
    pub notes: &'a [String],
}

pub fn text(context: &Context<'_>, profiles: &[Profile]) -> String {
    let mut lines = Vec::new();
    for profile in profiles {
        lines.push(String::new());
        lines.push(title(context, profile));
        lines.push(String::new());
        lines.extend(one(profile));
    }
    if profiles.len() > 2 {
        lines.push(String::new());
        lines.extend(sweep(profiles));
    }
    lines.push(String::new());
    for note in context.notes {
        lines.push(format!("note: {}", printable(note)));
    }
    if let Some(study) = context.study {
        lines.push(format!("stored in study {study}"));
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n")
}

fn title(context: &Context<'_>, profile: &Profile) -> String {
    let dimensions: Vec<String> = profile
        .dimensions
        .iter()
        .map(|(n, v)| format!("{n}={v}"))
        .collect();
    let place = match (profile.shape.is_empty(), context.device.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(" on {}", printable(context.device)),
        (false, _) => format!(
            " on {}, shape {} ({})",
            printable(context.device),
            profile.shape,
            dimensions.join(" ")
        ),
    };
    let who = match &profile.subject {
        Subject::Candidate { config } => {
            format!("{} {}", printable(context.kernel), config_text(config))
        }
        Subject::Baseline { label } => format!(
            "{}, baseline {}",
            printable(context.kernel),
            printable(label)
        ),
        Subject::Imported { file } => printable(file),
    };
    format!("{}{place}", who.trim_end())
}

fn one(profile: &Profile) -> Vec<String> {
    let found = &profile.diagnosis;
    let mut lines = vec![format!(
        "  {}  {}",
        found.class.in_words().to_uppercase(),
        found.cause.in_words()
    )];
    if let Some(why) = &profile.without_counters {
        lines.push(format!("  without   hardware counters: {}", printable(why)));
    }
    let by_ncu = profile.kernels.first().and_then(|k| k.counters.duration_ns);
    let times: Vec<String> = [
        profile
            .time_ns
            .map(|ns| format!("{} by kiln", human_ns(ns))),
        by_ncu.map(|ns| format!("{} under ncu", human_ns(ns))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !times.is_empty() {
        lines.push(format!("  time      {}", times.join(", ")));
    }
    lines.extend(labelled("because", &found.evidence));
    if let Some(stages) = &profile.stages {
        // Without counters they are the evidence already.
        if profile.without_counters.is_none() {
            lines.extend(labelled("stages", &stages.sentences()));
        }
        lines.extend(labelled("but", &stages.reading.doubts));
    }
    if let Some(compiled) = compiled(profile) {
        lines.push(format!("  compiled  {compiled}"));
    }
    if profile.kernels.len() > 1 {
        for kernel in profile.kernels.iter().take(4) {
            lines.push(format!(
                "  kernel    {:>3.0} %  {}{}",
                100.0 * kernel.share,
                printable(&short(&kernel.kernel)),
                if kernel.launches > 1 {
                    format!("  ({} launches)", kernel.launches)
                } else {
                    String::new()
                }
            ));
        }
    }
    lines.push(String::new());
    match found.advice.is_empty() {
        true => lines.push("  no advice: nothing that was counted promises a gain".into()),
        false => lines.push("  next, by what it promises:".into()),
    }
    for (number, advice) in found.advice.iter().take(MOST_ADVICE).enumerate() {
        lines.extend(advised(number + 1, advice));
    }
    lines
}

fn labelled<'a>(label: &'a str, sentences: &'a [String]) -> impl Iterator<Item = String> + 'a {
    sentences.iter().enumerate().map(move |(index, sentence)| {
        let label = if index == 0 { label } else { "" };
        format!("  {label:<9} {}", printable(sentence))
    })
}

fn compiled(profile: &Profile) -> Option<String> {
    let c = &profile.kernels.first()?.counters;
    let registers = c.registers.map(|n| format!("{n:.0} registers"));
    let local = c.local_load_requests.unwrap_or(0.0) + c.local_store_requests.unwrap_or(0.0);
    let spills = c.local_load_requests.map(|_| match local > 0.0 {
        true => format!("{:.3e} accesses to local memory", local),
        false => "no local memory".into(),
    });
    let shared = c.shared_dynamic_bytes.or(c.shared_static_bytes).map(|_| {
        let bytes = c.shared_dynamic_bytes.unwrap_or(0.0) + c.shared_static_bytes.unwrap_or(0.0);
        format!("{:.1} KiB shared memory per block", bytes / 1024.0)
    });
    let l2 = c.l2_hit_pct.map(|pct| format!("L2 hits {pct:.0} %"));
    let told: Vec<String> = [registers, spills, shared, l2]
        .into_iter()
        .flatten()
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// Names of generated kernels fill screens.
fn short(name: &str) -> String {
    const MOST: usize = 90;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

fn advised(number: usize, advice: &Advice) -> Vec<String> {
    // Where the gain cannot be computed none is promised.
    let gain = match advice.predicted_gain > 1.0 {
        true => format!("up to {}", gain_text(advice.predicted_gain)),
        false => "gain unknown".into(),
    };
    let mut lines = vec![
        format!("  {number}. {:<34} {gain}", advice.rule),
        format!("     {}", printable(&advice.change)),
        format!("     because {}", printable(&advice.evidence)),
    ];
    for related in advice.tunables.iter().take(3) {
        lines.push(format!("     try {}", related_text(related)));
    }
    lines
}

/// `27x`, `4.6x`, `1.23x`: no more digits than a prediction deserves.
pub fn gain_text(gain: f64) -> String {
    match gain {
        10.0.. => format!("{gain:.0}x"),
        3.0.. => format!("{gain:.1}x"),
        _ => format!("{gain:.2}x"),
    }
}

fn related_text(related: &Related) -> String {
    let values: Vec<String> = related
        .instead
        .iter()
        .take(6)
        .map(ToString::to_string)
        .collect();
    format!(
        "{}={} (now {})",
        printable(&related.tunable),
        values.join(" or "),
        related.now
    )
}

/// The bottleneck against the shape, one line each.
fn sweep(profiles: &[Profile]) -> Vec<String> {
    let mut lines = vec![format!(
        "  {:<14} {:<10} {:>10}  {:<24} {:<38} next",
        "shape", "subject", "time", "bound", "busiest"
    )];
    for profile in profiles {
        let by_ncu = profile.kernels.first().and_then(|k| k.counters.duration_ns);
        let found = &profile.diagnosis;
        let units = found.load.iter();
        let units = units.map(|(unit, load)| format!("{} {:.0} %", unit.name(), 100.0 * load));
        let busiest: Vec<String> = units.chain(savings(profile)).take(3).collect();
        let next = found.advice.first().map_or(String::new(), |advice| {
            format!("{} {}", advice.rule, gain_text(advice.predicted_gain))
        });
        let who = match profile.subject {
            Subject::Candidate { .. } => "candidate",
            Subject::Baseline { .. } => "baseline",
            Subject::Imported { .. } => "imported",
        };
        lines.push(format!(
            "  {:<14} {who:<10} {:>10}  {:<24} {:<38} {next}",
            printable(&profile.shape),
            profile
                .time_ns
                .or(by_ncu)
                .map_or_else(String::new, human_ns),
            found.class.in_words(),
            busiest.join(", ")
        ));
    }
    lines
}

/// What each stage takes of the time, the weightiest first.
fn savings(profile: &Profile) -> Vec<String> {
    let stages = profile.stages.iter().flat_map(|s| &s.reading.stages);
    let mut ranked: Vec<_> = stages.collect();
    ranked.sort_by(|a, b| b.saving.total_cmp(&a.saving));
    ranked
        .into_iter()
        .map(|s| format!("{} {:.0} %", printable(&s.stage), 100.0 * s.saving.max(0.0)))
        .collect()
}

pub fn document(context: &Context<'_>, profiles: &[Profile]) -> Value {
    let shown: Vec<Value> = profiles
        .iter()
        .map(|profile| {
            let mut value = json!(profile);
            value["class"] = json!(profile.diagnosis.class);
            value["cause"] = json!(profile.diagnosis.cause);
            value
        })
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "kernel": context.kernel,
        "device": context.device,
        "ceilings": context.ceilings,
        "profiles": shown,
        "study": context.study,
        "notes": context.notes,
    })
}

pub fn ceilings_text(ceilings: &Ceilings) -> String {
    let rows = [
        (
            "copy",
            format!("{:.2} TB/s", ceilings.copy_bytes_per_second / 1e12),
        ),
        (
            "mma.sync f16",
            format!("{:.0} TFLOP/s", ceilings.mma_flops_per_second / 1e12),
        ),
        (
            "wgmma f16",
            ceilings.wgmma_flops_per_second.map_or_else(
                || "not on this device".into(),
                |rate| format!("{:.0} TFLOP/s", rate / 1e12),
            ),
        ),
        (
            "f32 multiply-add",
            format!("{:.1} TFLOP/s", ceilings.fma_flops_per_second / 1e12),
        ),
        (
            "ex2.approx",
            format!("{:.2} T/s", ceilings.exponentials_per_second / 1e12),
        ),
        ("empty launch", human_ns(ceilings.launch_ns)),
    ];
    let mut lines = vec![format!(
        "{}, as measured by kiln:",
        printable(&ceilings.device)
    )];
    lines.extend(
        rows.into_iter()
            .map(|(name, value)| format!("  {name:<18} {value}")),
    );
    lines.join("\n")
}

pub fn ceilings_document(ceilings: &Ceilings) -> Value {
    json!({ "schema_version": SCHEMA_VERSION, "ceilings": ceilings })
}
