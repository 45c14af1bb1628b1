//! The suite itself: it passes here on the CPU, and says what to do where there is no GPU.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Project, SELFTEST_EXAMPLE, orphans_after, text};

/// They time things, so they take turns.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Also the example in `kiln selftest --help`, with what makes it write more.
#[test]
fn the_cpu_suite_passes_and_leaves_nothing_behind() {
    let _turn = TURN.lock();
    let project = Project::new();
    let rows = project.root.join("rows.jsonl");
    let mut arguments: Vec<&str> = SELFTEST_EXAMPLE.split(' ').skip(1).collect();
    arguments.extend(["--json", "--rows", "rows.jsonl"]);
    let document = project.json(&arguments, &[0]);
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["success"], true);
    assert_eq!(document["machine"]["backend"], "cpu");
    let sections = document["sections"].as_array().unwrap();
    let names: Vec<&str> = sections
        .iter()
        .map(|s| s["section"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["hello", "faults", "aa", "walls", "gate"]);
    for section in sections {
        assert!(!section["findings"].as_array().unwrap().is_empty());
    }
    assert_eq!(sections[1]["numbers"]["wrong_verdicts"], 0);
    let rows = std::fs::read_to_string(rows).unwrap();
    let judged = sections[4]["numbers"]["same_pairs"].as_array().unwrap();
    assert_eq!(rows.lines().count(), judged.len(), "{rows}");
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(row["series"], "same");
    assert_eq!(row["verdict"], judged[0]["verdict"]);
    let left = orphans_after(&project.home, Duration::from_secs(5));
    assert!(left.is_empty(), "left running: {left:?}");
}

#[test]
fn only_some_sections_as_a_table() {
    let _turn = TURN.lock();
    let project = Project::new();
    let output = project.run(&["selftest", "--backend", "cpu", "--quick", "--only", "hello"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("what was shown"), "{table}");
    assert!(table.contains("0 failed"), "{table}");
    assert!(!table.contains("\nfaults "), "{table}");
    assert!(text(&output.stderr).contains("hello: does the whole loop run"));

    let output = project.run(&["selftest", "--backend", "cpu", "--only", "hello,timing"]);
    assert_eq!(output.status.code(), Some(2));
    let talk = text(&output.stderr);
    assert!(talk.contains("no section `timing`"), "{talk}");
    assert!(talk.contains("hello, faults, aa, walls, gate"), "{talk}");
}

#[test]
fn without_a_gpu_it_says_what_works_without() {
    let _turn = TURN.lock();
    let project = Project::new();
    let output = project.run(&["selftest", "--quick", "--only", "hello"]);
    let talk = text(&output.stderr);
    if output.status.code() != Some(3) {
        // There is a GPU, and then this is the beginning of the real thing.
        assert_eq!(output.status.code(), Some(0), "{talk}");
        return;
    }
    println!("skipped: no CUDA device");
    assert!(talk.contains("--backend cpu"), "{talk}");
    assert!(output.stdout.is_empty());
}

#[test]
fn an_interrupt_ends_it_and_everything_it_started() {
    let _turn = TURN.lock();
    let project = Project::new();
    let arguments = ["selftest", "--backend", "cpu", "--only", "faults"];
    let mut child = project
        .command(&arguments)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let id = child.id().to_string();
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left = orphans_after(&project.home, Duration::from_secs(5));
    assert!(left.is_empty(), "left running: {left:?}");
}
