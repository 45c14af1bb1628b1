//! Iterations so far, and how often predictions came true.

use std::path::Path;

use kiln_core::diagnostic::printable;
use kiln_core::iteration::{Decision, HitRate, Iteration, hit_rates, iterations};
use serde_json::json;

use crate::cli::IterateArgs;
use crate::exit::{Exit, Failure};
use crate::store::{SqliteStore, Store};
use crate::{printer, project};

pub fn run(args: &IterateArgs) -> Result<Exit, Failure> {
    let path = args.path.as_deref().unwrap_or(Path::new("."));
    let absolute = path
        .canonicalize()
        .map_err(|e| Failure::bad_path(format!("cannot use `{}`", path.display()), &e))?;
    let folder = match absolute.is_dir() {
        true => absolute.as_path(),
        false => absolute.parent().unwrap_or(Path::new("/")),
    };
    let root = project::project_root(folder);
    let journal = match SqliteStore::open_existing(&root)? {
        Some(store) => store.journal()?,
        None => Vec::new(),
    };
    // With a manifest or its folder, only those of that manifest.
    let manifest = match absolute.is_dir() {
        true => Some(absolute.join(project::MANIFEST_NAME)).filter(|m| m.is_file()),
        false => Some(absolute.clone()),
    };
    let name = manifest.map(|m| m.strip_prefix(&root).unwrap_or(&m).display().to_string());
    let is_meant = |i: &Iteration| match (&args.path, &name) {
        (Some(_), Some(name)) => i.manifest == *name,
        _ => true,
    };
    let all: Vec<(u64, &Iteration)> = iterations(&journal)
        .into_iter()
        .filter(|(_, i)| is_meant(i))
        .collect();
    let rates = hit_rates(all.iter().map(|(_, i)| *i));
    if args.json {
        let rows: Vec<_> = all
            .iter()
            .map(|(at, i)| json!({"unix_ms": at, "iteration": i, "sentence": i.sentence()}))
            .collect();
        let by_rule: Vec<_> = rates
            .iter()
            .map(|(rule, rate)| {
                let rule = (!rule.is_empty()).then_some(rule);
                json!({"rule": rule, "rate": rate})
            })
            .collect();
        printer::document(&json!({
            "schema_version": 1, "iterations": rows, "hit_rates": by_rule,
        }));
        return Ok(Exit::Success);
    }
    if all.is_empty() {
        printer::talk("no iterations here yet; `kiln iterate --hypothesis \"…\"` makes one");
        return Ok(Exit::Success);
    }
    let mut lines: Vec<String> = all.iter().map(|(at, i)| line(*at, i)).collect();
    lines.push(String::new());
    lines.extend(rates.iter().map(|(rule, rate)| rate_line(rule, rate)));
    printer::data(&lines.join("\n"));
    Ok(Exit::Success)
}

fn line(unix_ms: u64, i: &Iteration) -> String {
    let decision = match i.decision {
        Decision::Kept => "kept",
        Decision::Rejected => "rejected",
    };
    let blind = if i.blind { ", blind" } else { "" };
    let advice = i.advice.as_ref().map_or(String::new(), |rule| {
        format!(" (advice `{}`)", printable(rule))
    });
    format!(
        "{:>4}  {}  {:<8}  {}{advice}\n      {}{blind}; against {}",
        i.number,
        crate::report::terminal::date(unix_ms),
        decision,
        printable(&i.hypothesis),
        printable(&i.sentence()),
        printable(&i.incumbent.label)
    )
}

fn rate_line(rule: &str, rate: &HitRate) -> String {
    let who = match rule.is_empty() {
        true => "own hypotheses".to_string(),
        false => format!("advice `{}`", printable(rule)),
    };
    let open = match rate.open {
        0 => String::new(),
        n => format!(", {n} open"),
    };
    let gains = match (rate.expected, rate.measured) {
        (Some(expected), Some(measured)) => {
            format!("; {expected:.2}x expected on average, {measured:.2}x measured")
        }
        _ => String::new(),
    };
    format!(
        "{who}: right in {} of {}{open}; {} kept{gains}",
        rate.hits, rate.tried, rate.kept
    )
}
