//! `kiln verify`: an exported package on this machine.

use serde_json::{Value, json};

use crate::cli::VerifyArgs;
use crate::exit::{Exit, Failure};
use crate::export::package::Dispatch;
use crate::export::standing::Standing;
use crate::export::verify::{self, Depth, ShapeResult, Verified, Wanted};
use crate::printer;

pub fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let wanted = Wanted {
        depth: match (args.files, args.answers) {
            (true, _) => Depth::Files,
            (_, true) => Depth::Answers,
            _ => Depth::Speed,
        },
        shapes: args.shapes.clone(),
        seconds: args.seconds,
        no_wait: args.no_wait,
    };
    let verified = verify::verify(&args.package, &wanted)?;
    let exit = verified.exit();
    if args.json {
        printer::document(&document(args, &verified, exit));
    } else {
        printer::data(&table(&verified));
    }
    Ok(exit)
}

fn document(args: &VerifyArgs, verified: &Verified, exit: Exit) -> Value {
    let shapes: Vec<Value> = verified
        .shapes
        .iter()
        .map(|s| {
            json!({
                "shape": s.entry.shape, "config": s.entry.config, "right": s.wrong.is_none(), "wrong": s.wrong,
                "verdict": s.speed.as_ref().map(|s| s.answer.name()),
                "speedup": s.speed.as_ref().map(|s| s.speedup),
                "speedup_ci": s.speed.as_ref().map(|s| s.interval),
                "baseline_ns": s.speed.as_ref().map(|s| s.baseline_ns),
                "kernel_ns": s.speed.as_ref().map(|s| s.kernel_ns),
                "kernel_ns_ci_95": s.speed.as_ref().map(|s| [s.kernel_ci_95.low, s.kernel_ci_95.high]),
                "exported_speedup": s.entry.evidence.speedup,
                "confirmed": s.entry.confirmed, "standing": Standing::of(&s.entry).name(), "note": s.note,
            })
        })
        .collect();
    json!({
        "schema_version": 1, "package": args.package.display().to_string(), "kernel": verified.package.kernel,
        "target": verified.package.target, "device": verified.device, "confirmed": verified.package.confirmed,
        "changed_files": verified.problems, "made_files": verified.made, "shapes": shapes,
        "left_out": verified.left_out, "admits": verified.admits, "exit_code": exit as i32,
    })
}

fn table(verified: &Verified) -> String {
    let mut lines = vec![format!(
        "{} for {}{}",
        verified.package.kernel,
        verified.package.target.name(),
        verified
            .device
            .as_ref()
            .map_or(String::new(), |d| format!(" on {d}"))
    )];
    match verified.problems.as_slice() {
        [] => lines.push("  files     as they were exported".into()),
        problems => {
            lines.extend(problems.iter().map(|p| format!("  changed   {p}")));
            lines.push("  nothing was run: what was changed is not what was exported".into());
        }
    }
    if verified.made > 0 {
        lines.push(format!(
            "  note      {} that Python or a build made here: not checked; delete what came with the package",
            match verified.made {
                1 => "1 file".to_string(),
                count => format!("{count} files"),
            }
        ));
    }
    let standing = Standing::of_all(&verified.package.dispatch);
    if standing != Standing::Confirmed {
        lines.push(format!("  note      {}", standing.sentence()));
    }
    if !verified.admits.is_empty() {
        lines.push(format!(
            "  note      the check of the answers need not tell {}, which the manifest accepts (`admits`)",
            verified.admits.join(", ")
        ));
    }
    let width = verified
        .shapes
        .iter()
        .map(|s| s.entry.shape.len())
        .max()
        .unwrap_or(0);
    lines.extend(verified.shapes.iter().map(|s| line(s, width)));
    // Where no shape was run they have no line of their own.
    if verified.shapes.is_empty() {
        let weaker = verified.package.dispatch.iter().filter_map(|entry| {
            let standing = standing_of(entry)?;
            Some(format!("  note      shape `{}`: {standing}", entry.shape))
        });
        lines.extend(weaker);
    }
    if !verified.left_out.is_empty() {
        let rest = verified.left_out.join(",");
        lines.push(format!(
            "  interrupted with {} of {} shapes to go: `--shapes {rest}`",
            verified.left_out.len(),
            verified.left_out.len() + verified.shapes.len()
        ));
    }
    lines.join("\n")
}

/// Of a config that kiln did not see win a confirmation on this shape.
fn standing_of(entry: &Dispatch) -> Option<&'static str> {
    let standing = Standing::of(entry);
    (standing != Standing::Confirmed).then(|| standing.name())
}

fn line(found: &ShapeResult, width: usize) -> String {
    let shape = &found.entry.shape;
    let standing = standing_of(&found.entry).map_or(String::new(), |s| format!("  {s}"));
    if let Some(wrong) = &found.wrong {
        return format!("  {shape:width$}  WRONG  {wrong}{standing}");
    }
    let exported = match found.entry.evidence.speedup {
        Some(speedup) => format!("{speedup:.2}x where it was tuned"),
        None => "no speedup known where it was tuned".into(),
    };
    let speed = match (&found.speed, &found.note) {
        (Some(speed), _) => {
            let [low, high] = speed.interval;
            let (name, here) = (speed.answer.name(), speed.speedup);
            let note = found.note.as_ref();
            let note = note.map_or(String::new(), |n| format!(" ({n})"));
            format!("{name}  {here:.2}x [{low:.2}, {high:.2}] here, {exported}{note}")
        }
        (None, Some(note)) => note.clone(),
        (None, None) => exported,
    };
    format!("  {shape:width$}  right  {speed}{standing}")
}
