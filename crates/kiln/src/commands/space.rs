//! `kiln space`: how large a space is, what shaped it, and what it costs to build.

use std::path::Path;
use std::time::Instant;

use kiln_core::space::{RuleKind, Space};
use kiln_core::units::human_ns;
use serde_json::{Value, json};

use crate::cli::SpaceArgs;
use crate::commands::check;
use crate::exit::{Exit, Failure};
use crate::report::terminal::{config_text, group_digits, human_bytes};
use crate::{gates, interchange, packed, printer, project};

/// Values of one tunable shown to a person; JSON has them all.
const SHOWN_VALUES: usize = 12;

pub fn run(args: &SpaceArgs) -> Result<Exit, Failure> {
    let report = match args.path.as_deref() {
        Some(path) if packed::is_json_name(path) && !path.is_dir() => of_t1(path)?,
        path => of_manifest(path, &args.arch)?,
    };
    match args.json {
        true => printer::document(&report.json()),
        false => printer::data(&report.text()),
    }
    Ok(match report.space.count() {
        Some(0) => Exit::No,
        _ => Exit::Success,
    })
}

fn of_t1(path: &Path) -> Result<Report, Failure> {
    let started = Instant::now();
    let read = interchange::read_space(path)?;
    let seconds = started.elapsed().as_secs_f64();
    let file_name = || {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    Ok(Report {
        name: read.definition.name.unwrap_or_else(file_name),
        space: read.space,
        seconds,
        peak_bytes: peak_bytes(),
    })
}

fn of_manifest(path: Option<&Path>, architecture: &str) -> Result<Report, Failure> {
    let located = project::locate(path)?;
    let started = Instant::now();
    let file = project::read(&located)?;
    let parsing = started.elapsed();
    let device = check::device(&file, architecture)?;
    file.resolve_all()?;
    let started = Instant::now();
    let (space, _) = gates::build_space(&file, &device, architecture)?;
    let seconds = (parsing + started.elapsed()).as_secs_f64();
    Ok(Report {
        name: file.manifest.kernel.name.clone(),
        space,
        seconds,
        peak_bytes: peak_bytes(),
    })
}

/// The most memory this process has had at once. Not `getrusage`: its maximum outlives `exec`, so
/// a child of a large program would show the parent's.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

struct Report {
    name: String,
    space: Space,
    /// To parse the definition and build the space.
    seconds: f64,
    peak_bytes: Option<u64>,
}

impl Report {
    fn text(&self) -> String {
        let space = &self.space;
        let cartesian = space.cartesian();
        let valid = space.count();
        let mut lines = vec![format!(
            "{}: {} tunables, {} combinations, {}",
            self.name,
            space.tunables().len(),
            group_digits(cartesian),
            match valid {
                Some(valid) => format!(
                    "{} valid ({})",
                    group_digits(valid),
                    percent(valid, cartesian)
                ),
                None => "too many valid ones to count; they will be sampled".to_string(),
            }
        )];
        let peak = match self.peak_bytes {
            Some(bytes) => format!("; peak memory {}", human_bytes(bytes)),
            None => String::new(),
        };
        lines.push(format!(
            "built in {}{peak}, of which the space holds {}",
            human_ns(self.seconds * 1e9),
            human_bytes(space.bytes() as u64)
        ));
        let least = if valid.is_none() { "at least " } else { "" };
        for removal in space.removals() {
            let kind = kind_name(removal.kind);
            let count = format!("{least}{}", group_digits(removal.removed));
            lines.push(format!("{count:>16} removed by {kind} `{}`", removal.name));
        }
        if let Some(coverage) = space.coverage() {
            lines.push("valid configs with each value:".to_string());
            let tunables = space.tunables();
            let width = tunables
                .iter()
                .map(|t| t.name.chars().count())
                .max()
                .unwrap_or(0);
            for (tunable, counts) in tunables.iter().zip(&coverage) {
                let pairs = tunable.values.iter().zip(counts);
                let mut shown: Vec<String> = pairs
                    .take(SHOWN_VALUES)
                    .map(|(value, count)| format!("{value}: {}", group_digits(*count)))
                    .collect();
                if counts.len() > SHOWN_VALUES {
                    shown.push(format!("… ({} values)", counts.len()));
                }
                lines.push(format!("  {:width$}  {}", tunable.name, shown.join("  ")));
            }
        }
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let space = &self.space;
        let coverage = space.coverage();
        let tunables: Vec<Value> = space
            .tunables()
            .iter()
            .enumerate()
            .map(|(t, tunable)| {
                let counts = coverage
                    .as_ref()
                    .map(|c| c[t].iter().copied().map(number).collect::<Vec<_>>());
                json!({"name": tunable.name, "values": tunable.values, "valid": counts})
            })
            .collect();
        let constraints: Vec<Value> = space
            .removals()
            .iter()
            .map(|removal| {
                let rule = space
                    .rules()
                    .iter()
                    .find(|r| r.name == removal.name && r.kind == removal.kind);
                json!({
                    "name": removal.name, "kind": removal.kind,
                    "expression": rule.map(|r| r.expr.text()),
                    "removed": number(removal.removed),
                    "example": removal.example.as_ref().map(|c| config_text(&space.assignment(c))),
                })
            })
            .collect();
        json!({
            "schema_version": 1, "name": self.name,
            "cartesian": number(space.cartesian()), "valid": space.count().map(number),
            "seconds": self.seconds, "peak_bytes": self.peak_bytes,
            "space_bytes": space.bytes(),
            "tunables": tunables, "constraints": constraints,
        })
    }
}

fn kind_name(kind: RuleKind) -> &'static str {
    match kind {
        RuleKind::Constraint => "constraint",
        RuleKind::Gate => "gate",
    }
}

/// Whole as far as JSON's readers keep whole numbers; beyond that the nearest they have.
fn number(count: u128) -> Value {
    match u64::try_from(count) {
        Ok(count) => json!(count),
        Err(_) => json!(count as f64),
    }
}

fn percent(part: u128, whole: u128) -> String {
    match whole {
        0 => "none".to_string(),
        _ => {
            let percent = part as f64 / whole as f64 * 100.0;
            match percent {
                p if p >= 10.0 || p == 0.0 => format!("{p:.0} %"),
                p if p >= 0.01 => format!("{p:.2} %"),
                p => format!("{p:.1e} %"),
            }
        }
    }
}
