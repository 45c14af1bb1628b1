//! `kiln redteam`: does kiln tell cheating kernels from honest ones?

use serde_json::{Value, json};

use crate::cli::{Backend, RedteamArgs, RedteamPart};
use crate::commands::tune::wait_for_machine;
use crate::engine::interrupt;
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::redteam::{Effort, cheats, honest, mutants};
use crate::rows::Rows;
use crate::selftest::{Ground, Size};

/// Raised when a key changes its meaning; new keys may appear at any time.
const SCHEMA_VERSION: u64 = 1;
/// What is run without `--full`: about a minute on two cores.
const SAMPLED_MUTANTS: usize = 80;
const SAMPLED_HONEST: usize = 24;
/// Part of the honest kernels that may be refused.
const REFUSED_ALLOWED: f64 = 0.01;

pub fn run(args: &RedteamArgs) -> Result<Exit, Failure> {
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    let rows = Rows::new(args.rows.as_deref())?;
    let mut reports = Vec::new();
    let mut skipped = Vec::new();
    if args.backend != Some(Backend::Cuda) {
        reports.push(examine(
            args,
            &rows,
            Ground::open(Backend::Cpu, Size::Full)?,
        )?);
    }
    if args.backend != Some(Backend::Cpu) {
        match Ground::open(Backend::Cuda, Size::Full) {
            Ok(ground) => reports.push(examine(args, &rows, ground)?),
            Err(failure) if failure.exit == Exit::Machine && args.backend.is_none() => {
                let why = failure.message.lines().next().unwrap_or_default();
                skipped.push(format!("cuda: skipped: no CUDA device ({why})"));
            }
            Err(failure) => return Err(failure),
        }
    }
    // What tries nothing has shown nothing.
    if reports.iter().all(|r| r.tried == 0) && skipped.is_empty() {
        let what = format!(
            "nothing that is asked for has `{}` in its name",
            args.filter
        );
        return Err(Failure::usage(what).hint(
            "cheats are named in redteam/cheats.toml, other kernels by their folders; leave out `--match` to run all",
        ));
    }
    let failed = reports.iter().any(|r| !r.problems.is_empty());
    let mut texts: Vec<String> = reports.iter().map(|r| r.text.clone()).collect();
    texts.extend(skipped.iter().cloned());
    if args.json {
        printer::talk(&texts.join("\n\n"));
        let backends: Vec<&Value> = reports.iter().map(|r| &r.json).collect();
        printer::data(&format!(
            "{:#}",
            json!({
                "schema_version": SCHEMA_VERSION,
                "success": !failed,
                "backends": backends,
                "skipped": skipped,
            })
        ));
    } else {
        printer::data(&texts.join("\n\n"));
    }
    Ok(if failed { Exit::No } else { Exit::Success })
}

/// What was found on one backend.
struct Report {
    text: String,
    json: Value,
    /// What is not as promised, in sentences.
    problems: Vec<String>,
    /// Cheats and mutants that are accepted and listed as such.
    still_accepted: usize,
    /// Kernels of all kinds, also those that could not be tried here.
    tried: usize,
}

fn examine(args: &RedteamArgs, rows: &Rows, mut ground: Ground) -> Result<Report, Failure> {
    ground.side_by_side = args.jobs.map(|jobs| jobs as usize);
    let _machine = wait_for_machine(&ground.device, false)?;
    let header = ground.header();
    printer::talk(&header.lines_of("redteam"));
    let wants = |part| args.only.is_empty() || args.only.contains(&part);
    let effort = match args.full {
        true => Effort {
            mutants: None,
            honest: None,
        },
        false => Effort {
            mutants: Some(args.mutants.map_or(SAMPLED_MUTANTS, |n| n as usize)),
            honest: Some(SAMPLED_HONEST),
        },
    };
    let mut report = Report {
        text: header.lines_of("redteam"),
        json: json!({ "machine": header }),
        problems: Vec::new(),
        still_accepted: 0,
        tried: 0,
    };
    if wants(RedteamPart::Cheats) {
        let found = cheats::run(&ground, &args.filter, rows)?;
        report.add_cheats(&found);
    }
    if wants(RedteamPart::Mutants) {
        let found = mutants::run(&ground, effort.mutants, &args.filter, rows)?;
        report.add_mutants(&found);
    }
    if wants(RedteamPart::Honest) {
        let found = honest::run(&ground, effort.honest, &args.filter, rows)?;
        report.add_honest(&found);
    }
    let problems = match report.problems.is_empty() {
        true if report.still_accepted > 0 => {
            format!(
                "nothing new; {} still accepted, as listed",
                report.still_accepted
            )
        }
        true => "all as promised".to_string(),
        false => format!("NOT AS PROMISED:\n  {}", report.problems.join("\n  ")),
    };
    report.text += &format!("\n\n{problems}");
    report.json["problems"] = json!(report.problems);
    Ok(report)
}

impl Report {
    fn add_cheats(&mut self, rows: &[cheats::Row]) {
        let mut table = vec![
            [
                "class",
                "cheat",
                "tasks",
                "fools a plain harness",
                "kiln's answer",
            ]
            .map(str::to_string),
        ];
        table.extend(cheats::table(rows));
        let classes: std::collections::BTreeSet<&str> =
            rows.iter().map(|r| r.class.as_str()).collect();
        let accepted = rows.iter().filter(|r| r.is_accepted).count();
        let fooled = rows.iter().filter(|r| r.fools_plain).count();
        self.text += &format!(
            "\n\n{}\n\n{accepted} of {} cheating kernels accepted ({} cheats in {} classes); \
             {fooled} fool the plain harness",
            aligned(&table),
            rows.len(),
            table.len() - 1,
            classes.len(),
        );
        for row in rows {
            let what = format!("cheat `{}` on {}", row.cheat, row.task);
            match (row.is_accepted, &row.known) {
                (false, Some(known)) if known.sometimes => {}
                (true, None) => self
                    .problems
                    .push(format!("{what} is accepted: {}", row.words)),
                (false, Some(_)) => self.problems.push(format!(
                    "{what} is listed as still accepted, but is not: {}",
                    row.answer
                )),
                (true, Some(known)) => {
                    self.still_accepted += 1;
                    self.text += &format!("\nstill accepted, as listed: {what}: {}", known.because);
                }
                (false, None) if !row.is_named => {
                    self.text += &format!("\nrefused by another name: {what}: {}", row.words);
                }
                (false, None) => {}
            }
            if !row.fools_plain {
                self.problems.push(format!(
                    "{what} does not fool the plain harness: {} elements differ, {:.2}x",
                    row.plain_mismatched.map_or("?".into(), |n| n.to_string()),
                    row.plain_speedup.unwrap_or(f64::NAN)
                ));
            }
        }
        self.tried += rows.len();
        self.json["cheats"] = json!(rows);
    }

    fn add_mutants(&mut self, found: &mutants::Findings) {
        let mut table = vec![
            [
                "kernel",
                "operator",
                "mutants",
                "refused",
                "equivalent",
                "unproven",
                "accepted",
            ]
            .map(str::to_string),
        ];
        table.extend(found.table());
        self.text += &format!("\n\n{}\n\n{}", aligned(&table), found.summary());
        self.still_accepted += found.still_accepted();
        for line in found.acceptances() {
            self.problems.push(line);
        }
        self.tried += found.rows.len() + found.skipped.len();
        self.json["mutants"] = json!(found);
    }

    fn add_honest(&mut self, found: &honest::Findings) {
        self.text += &format!("\n\n{}", found.summary());
        let refused = found.refused.len() as f64;
        if refused > REFUSED_ALLOWED * found.tried as f64 {
            let examples: Vec<String> = found.refused.iter().take(5).cloned().collect();
            self.problems.push(format!(
                "{} of {} honest configs refused: {}",
                found.refused.len(),
                found.tried,
                examples.join("; ")
            ));
        }
        self.tried += found.tried + found.skipped.len();
        self.json["honest"] = json!(found);
    }
}

/// Columns as wide as their widest cell.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths);
        let padded: Vec<String> = cells.map(|(cell, w)| format!("{cell:w$}")).collect();
        padded.join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
