//! Interrupting and resuming: Ctrl-C keeps everything, the sequence of trials does not depend on
//! interruptions, and a change that matters starts a new study and says why.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use common::{Project, finished_trials, orphans_after, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn project() -> Project {
    let project = Project::with("kernels/vector_add");
    // Small and quick: the search matters here, not the timing.
    project
        .replace("kiln.toml", "N = 262144", "N = 3000")
        .replace("kiln.toml", "[budget]", "[budget]\nhopeless_below = 0.0\n");
    project
}

const TUNE: &[&str] = &[
    "tune",
    "--events",
    "--strategy",
    "random",
    "--seed",
    "5",
    "--trials",
    "16",
];

fn configs(trials: &[Value]) -> Vec<&Value> {
    trials.iter().map(|t| &t["config"]).collect()
}

/// Interrupts after `count` trials and returns the trials seen and what was said.
fn interrupted_after(project: &Project, count: usize) -> (Vec<Value>, String) {
    let mut child = project
        .command(TUNE)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while finished_trials(seen.join("\n").as_bytes()).len() < count {
        seen.push(lines.next().unwrap().unwrap());
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    seen.extend(lines.map_while(Result::ok));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    (
        finished_trials(seen.join("\n").as_bytes()),
        text(&output.stderr),
    )
}

#[test]
fn a_resumed_study_makes_the_same_trials_as_an_uninterrupted_one() {
    let whole = project();
    let uninterrupted = whole.trials(TUNE, &[0, 1, 4]);
    assert_eq!(uninterrupted.len(), 16);

    let cut = project();
    let (mut trials, said) = interrupted_after(&cut, 3);
    assert!(said.contains("every finished trial is kept"), "{said}");
    assert!(orphans_after(&cut.home, Duration::from_secs(5)).is_empty());
    let (more, said) = interrupted_after(&cut, 4);
    assert!(said.contains("resuming study 1"), "{said}");
    trials.extend(more);
    trials.extend(cut.trials(TUNE, &[0, 1, 4]));
    assert_eq!(configs(&trials), configs(&uninterrupted));
    let numbers: Vec<u64> = trials
        .iter()
        .map(|t| t["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=16).collect::<Vec<u64>>());
}

#[test]
fn a_changed_source_starts_a_new_study_and_says_so() {
    let project = project();
    interrupted_after(&project, 2);
    project.replace("vector_add.c", "#include", "/* changed */\n#include");
    let output = project.run(&[
        "tune",
        "--trials",
        "2",
        "--strategy",
        "random",
        "--seed",
        "5",
    ]);
    let said = text(&output.stderr);
    assert!(
        said.contains("study 1 is unfinished, but the source files changed since"),
        "{said}"
    );
    let list = project.json(&["studies", "list", "--json"], &[0]);
    assert_eq!(list["studies"].as_array().unwrap().len(), 2);
}

#[test]
fn a_finished_study_is_not_resumed_and_a_warm_cache_compiles_nothing() {
    let project = project();
    let arguments = [
        "tune",
        "--trials",
        "3",
        "--seed",
        "1",
        "--strategy",
        "lhs",
        "--events",
    ];
    let first = project.trials(&arguments, &[0, 1, 4]);
    let second = project.trials(&arguments, &[0, 1, 4]);
    let cached = |trials: &[Value]| {
        trials
            .iter()
            .map(|t| t["compile"]["cached"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(cached(&first), [false, false, false]);
    assert_eq!(cached(&second), [true, true, true]);
    assert_eq!(configs(&first), configs(&second));
}

#[test]
fn two_runs_at_once_take_turns() {
    let project = project();
    let start = || {
        project
            .command(&["tune", "--trials", "6", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let (first, second) = (start(), start());
    let outputs = [first, second].map(|c| c.wait_with_output().unwrap());
    let waited = outputs
        .iter()
        .filter(|o| text(&o.stderr).contains("another kiln is measuring"))
        .count();
    let said = outputs.each_ref().map(|o| text(&o.stderr));
    assert_eq!(waited, 1, "{said:#?}");
    let mut studies: Vec<u64> = outputs
        .iter()
        .map(|o| {
            serde_json::from_slice::<Value>(&o.stdout).unwrap()["study"]
                .as_u64()
                .unwrap()
        })
        .collect();
    studies.sort_unstable();
    assert_eq!(studies, [1, 2]);
}
