//! Kernels that misbehave in every way we know, among honest ones: each ends in its own outcome,
//! the run ends by itself, and nothing is left running.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Project, orphans_after};
use serde_json::Value;

const EXPECTED: &[(&str, &str)] = &[
    ("honest", "measured"),
    ("honest_prints", "measured"),
    ("honest_reads_edge", "measured"),
    ("segfault", "signal 11"),
    ("null_write", "signal 11"),
    ("aborts", "signal 6"),
    ("spins", "timed_out check"),
    ("stack_overflow", "signal 11"),
    ("illegal_instruction", "signal 4"),
    ("divides_by_zero", "signal 8"),
    ("writes_past_end", "canary y"),
    ("writes_far_past_end", "canary y"),
    ("writes_before_start", "canary y"),
    ("reads_past_end", "canary x"),
    ("writes_nothing", "numerics unwritten"),
    ("writes_half", "numerics unwritten"),
    ("writes_nan", "numerics nonfinite"),
    ("writes_infinity", "numerics nonfinite"),
    ("slightly_wrong", "numerics"),
    ("last_element_wrong", "numerics"),
    ("right_only_when_tiny", "numerics"),
    ("right_only_once", "numerics"),
    ("skips_when_done", "numerics"),
    ("finishes_later", "numerics"),
    ("modifies_input", "input_modified x"),
    ("exits_0", "exited 0"),
    ("exits_3", "exited 3"),
    ("forks", "forbidden"),
    ("forks_and_escapes", "forbidden"),
    ("floods", "output_flood"),
    ("garbles", "garbled"),
    ("kills_itself", "signal 9"),
    ("closes_everything", "exited 70"),
    ("load_crashes", "signal 6"),
    ("load_exits", "exited 0"),
    ("does_not_compile", "not_compiled"),
];

/// A short name for how a trial ended.
fn ending(trial: &Value) -> String {
    let outcome = &trial["outcome"];
    let word = |v: &Value| v.as_str().map_or(v.to_string(), str::to_string);
    match outcome["kind"].as_str() {
        Some("crashed") => match outcome["cause"]["cause"].as_str() {
            Some("signal") => format!("signal {}", outcome["cause"]["signal"]),
            Some("exited") => format!("exited {}", outcome["cause"]["code"]),
            _ => word(&outcome["cause"]["cause"]),
        },
        Some("timed_out") => format!("timed_out {}", word(&outcome["phase"])),
        Some("wrong") => {
            let fault = &outcome["fault"];
            match fault["fault"].as_str() {
                Some("numerics") if fault["unwritten"].as_u64() > Some(0) => {
                    "numerics unwritten".into()
                }
                Some("numerics") if fault["nonfinite"].as_u64() > Some(0) => {
                    "numerics nonfinite".into()
                }
                Some("numerics") => "numerics".into(),
                _ => format!("{} {}", word(&fault["fault"]), word(&fault["argument"])),
            }
        }
        _ => word(&outcome["kind"]),
    }
}

fn endings(project: &Project, arguments: &[&str]) -> BTreeMap<String, String> {
    let trials = project.trials(arguments, &[0, 1, 4]);
    trials
        .iter()
        .map(|t| {
            let name = t["config"][0][1]
                .as_str()
                .expect("FAULT is text")
                .to_string();
            let ending = ending(t);
            // How far it has got when the launch returns is up to the scheduler.
            let ending = match name.as_str() {
                "finishes_later" => ending.split(' ').next().unwrap().to_string(),
                _ => ending,
            };
            (name, ending)
        })
        .collect()
}

#[test]
fn every_fault_ends_in_its_own_outcome_in_any_order() {
    let project = Project::with("crates/kiln/tests/faults");
    let expected: BTreeMap<String, String> = EXPECTED
        .iter()
        .map(|(name, ending)| (name.to_string(), ending.to_string()))
        .collect();
    let in_order = endings(&project, &["tune", "--events", "--seed", "1"]);
    assert_eq!(in_order, expected);
    for seed in ["2", "3", "4"] {
        let arguments = [
            "tune",
            "--events",
            "--strategy",
            "random",
            "--seed",
            seed,
            "--fresh",
        ];
        assert_eq!(
            endings(&project, &arguments),
            expected,
            "order of seed {seed}"
        );
    }
    let left = orphans_after(&project.home, Duration::from_secs(5));
    assert!(left.is_empty(), "left running: {left:?}");
}

#[test]
fn a_compiler_that_hangs_floods_or_lies_is_an_outcome() {
    for (name, script, expected) in [
        ("hangs", "sleep 60", "compile_timeout"),
        (
            "floods",
            "yes 'error: flood' | head -c 50000000 >&2; exit 1",
            "not_compiled",
        ),
        ("crashes", "kill -11 $$", "not_compiled"),
    ] {
        let project = Project::with("crates/kiln/tests/faults");
        project
            .replace("kiln.toml", "[measure]", "[measure]\ncompile_timeout_seconds = 3")
            .write(
                "bad-cc",
                // Reference and baseline compile as usual; only the kernel meets the bad compiler.
                &format!(
                    "#!/bin/sh\ncase \"$*\" in *--version*) echo bad-cc 1; exit 0;; *-DFAULT=*) {script};; *) exec cc \"$@\";; esac\n"
                ),
            );
        let path = project.root.join("bad-cc");
        std::process::Command::new("chmod")
            .arg("+x")
            .arg(&path)
            .status()
            .unwrap();
        let output = project
            .command(&["tune", "--trials", "2", "--json"])
            .env("KILN_CC", &path)
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(1),
            "{}",
            common::text(&output.stderr)
        );
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["rejected"][expected], 2, "{name}: {document:#}");
        assert_eq!(document["success"], false);
        assert!(orphans_after(&project.home, Duration::from_secs(5)).is_empty());
    }
}

#[test]
fn a_compiler_that_reports_success_without_an_image_stops_with_a_clear_error() {
    let project = Project::with("crates/kiln/tests/faults");
    project.write(
        "bad-cc",
        "#!/bin/sh\ncase \"$*\" in *--version*) echo bad-cc 1; exit 0;; *-DFAULT=*) exit 0;; *) exec cc \"$@\";; esac\n",
    );
    let path = project.root.join("bad-cc");
    std::process::Command::new("chmod")
        .arg("+x")
        .arg(&path)
        .status()
        .unwrap();
    let output = project
        .command(&["tune", "--trials", "2"])
        .env("KILN_CC", &path)
        .output()
        .unwrap();
    let message = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("wrote no image"), "{message}");
}
