//! What tunables did and why trials failed, for people and programs.

use kiln_core::diagnostic::{printable, printable_lines};
use kiln_core::effects::{Effects, Finding, Observations};
use kiln_core::failure_rules::Failures;
use kiln_core::manifest::has_table;
use kiln_core::study::Study;
use serde::Serialize;
use serde_json::{Value, json};

use super::terminal::config_text;
use crate::engine::rerun::{FaultPlace, Rerun};

const SCHEMA_VERSION: u64 = 1;
/// Sentences in the report of a study.
const MOST_RULES: usize = 3;
const MOST_EFFECTS: usize = 3;

pub fn document(study: &Study, effects: &Effects, failures: &Failures, reruns: &[Rerun]) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "study": study.id,
        "kernel": study.header.kernel,
        "device": study.header.device.name,
        "shape": study.header.shape,
        "replayed_from": study.header.replayed_from,
        "effects": effects,
        "failures": failures,
        "constraints": failures.constraints(),
        "reruns": reruns,
    })
}

/// Of one trial that was asked for.
pub fn trial_document(study: &Study, reruns: &[Rerun]) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "study": study.id,
        "kernel": study.header.kernel,
        "device": study.header.device.name,
        "shape": study.header.shape,
        "reruns": reruns,
    })
}

pub fn trial_text(reruns: &[Rerun]) -> String {
    let lines: Vec<String> = reruns.iter().flat_map(rerun_lines).collect();
    printable_lines(&lines.join("\n"))
}

/// `manifest` is the text of the manifest that lines would be added to.
pub fn text(
    study: &Study,
    effects: &Effects,
    failures: &Failures,
    reruns: &[Rerun],
    manifest: &str,
) -> String {
    let header = &study.header;
    let dimensions: Vec<String> = header
        .dimensions
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut lines = vec![format!(
        "{} on {}, shape {} ({}), study {}: {} trials, {} measured",
        printable(&header.kernel),
        printable(&header.device.name),
        header.shape,
        dimensions.join(" "),
        study.id,
        effects.trials,
        effects.measured,
    )];
    lines.extend(effect_lines(effects));
    lines.extend(failure_lines(failures, manifest));
    for rerun in reruns {
        lines.push(String::new());
        lines.extend(rerun_lines(rerun));
    }
    printable_lines(&lines.join("\n"))
}

/// How a trial ended, and what watching it again showed.
fn rerun_lines(rerun: &Rerun) -> Vec<String> {
    let mut lines = vec![
        format!("trial {}: {}", rerun.trial, config_text(&rerun.config)),
        format!("  then      {}", printable(&rerun.was)),
    ];
    let mut shown = None;
    for look in &rerun.looks {
        lines.push(format!(
            "  again     with {}: {}",
            look.with,
            printable(&look.result)
        ));
        // Two ways of watching that come to the same place say it once.
        let here = look.place.as_ref().map(|p| (&p.file, p.line));
        if let Some(place) = &look.place
            && shown != here
        {
            lines.extend(place_lines(place));
            shown = here;
        }
    }
    // A compiler's message, which nobody runs again, has its line.
    if rerun.place().is_none() && !rerun.looks.is_empty() {
        lines.push("  nothing was found that points to a line of source".into());
    }
    lines
}

fn place_lines(place: &FaultPlace) -> Vec<String> {
    let mut parts = vec![place.what.clone()];
    if let Some(file) = &place.file {
        parts.push(match place.line {
            Some(line) => format!("at {file}:{line}"),
            None => format!("in {file}"),
        });
    }
    parts.extend(place.function.iter().map(|name| format!("in `{name}`")));
    let mut line = parts.join(" ");
    let thread = place
        .thread
        .iter()
        .map(|thread| match thread.starts_with('(') {
            true => format!("thread {thread}"),
            false => thread.clone(),
        });
    let block = place.block.iter().map(|block| format!("block {block}"));
    let address = place
        .address
        .iter()
        .map(|address| format!("address {address}"));
    for further in thread.chain(block).chain(address) {
        line.push_str(", ");
        line.push_str(&further);
    }
    let mut lines = vec![format!("  where     {}", printable(&line))];
    if let (Some(text), Some(number)) = (&place.text, place.line) {
        lines.push(format!(
            "            {number} | {}",
            printable(text.trim_start())
        ));
    }
    lines
}

/// What a report of a study says of what was learnt: failures that follow a rule, and the weightiest effects.
pub fn learnt_lines(study: &Study) -> Vec<String> {
    let learnt = Learnt::of(study);
    let rules = learnt.rules.iter().map(|said| ("rule", said));
    let effects = learnt.effects.iter().map(|said| ("effect", said));
    rules
        .chain(effects)
        .map(|(name, said)| format!("  {name:<9} {}", printable(said)))
        .collect()
}

/// The few sentences worth a line in any report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Learnt {
    pub rules: Vec<String>,
    /// Lines for `[constraints]`.
    pub constraints: Vec<String>,
    pub effects: Vec<String>,
}

impl Learnt {
    pub fn of(study: &Study) -> Learnt {
        let failures = Failures::of_study(study);
        let effects = Effects::of(&Observations::of_study(study));
        let lines = failures.constraints();
        Learnt {
            rules: failures.headlines().into_iter().take(MOST_RULES).collect(),
            constraints: lines.iter().map(|c| c.line.clone()).collect(),
            effects: effects
                .headlines(MOST_EFFECTS)
                .into_iter()
                .map(str::to_string)
                .collect(),
        }
    }
}

fn effect_lines(effects: &Effects) -> Vec<String> {
    let mut lines = vec![String::new()];
    if let Some(why) = &effects.silent {
        lines.push(format!("effects: {why}"));
    } else {
        lines.push(format!(
            "effects on time (share of the tunable, alone and with others; {:.0} % cannot be foreseen)",
            100.0 * effects.unexplained
        ));
        let varied = effects.tunables.iter();
        for effect in varied.filter(|t| t.finding != Finding::NeverVaried) {
            lines.push(format!(
                "  {:>4.0} %  {}",
                100.0 * effect.share,
                printable(&effect.sentence)
            ));
        }
    }
    let fixed = effects.tunables.iter();
    for effect in fixed.filter(|t| t.finding == Finding::NeverVaried) {
        lines.push(format!("          {}", printable(&effect.sentence)));
    }
    section(
        &mut lines,
        "pairs",
        effects.pairs.iter().map(|p| p.sentence.as_str()),
    );
    section(
        &mut lines,
        "the compiler's numbers",
        effects.relations.iter().map(|r| r.sentence.as_str()),
    );
    lines
}

fn section<'a>(lines: &mut Vec<String>, title: &str, sentences: impl Iterator<Item = &'a str>) {
    let sentences: Vec<String> = sentences.map(|s| format!("  {}", printable(s))).collect();
    if !sentences.is_empty() {
        lines.push(String::new());
        lines.push(title.to_string());
        lines.extend(sentences);
    }
}

fn failure_lines(failures: &Failures, manifest: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    if failures.groups.is_empty() {
        lines.push("failures: none".into());
        return lines;
    }
    lines.push("failures".into());
    for group in &failures.groups {
        lines.push(format!("  {}", printable(&group.sentence)));
        let trials: Vec<String> = group.trials.iter().map(u64::to_string).collect();
        let more = match group.failed > group.trials.len() {
            true => ", …",
            false => "",
        };
        let word = if group.failed == 1 { "trial" } else { "trials" };
        lines.push(format!("    {word} {}{more}", trials.join(", ")));
    }
    let together = failures.together_sentence();
    lines.extend(together.map(|sentence| format!("  {}", printable(&sentence))));
    let constraints = failures.constraints();
    if !constraints.is_empty() {
        lines.push(String::new());
        // TOML has every table once.
        match has_table(manifest, "constraints") {
            true => lines.push(
                "to keep such configs out, add to the table [constraints] of the manifest".into(),
            ),
            false => {
                lines.push("to keep such configs out, add to the manifest".into());
                lines.push("  [constraints]".into());
            }
        }
        let added = constraints.iter();
        lines.extend(added.map(|c| format!("  {}", printable(&c.line))));
    }
    lines
}
