//! `kiln explain`: a planted fault is found by itself, with its rule and its line.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, repository, text};
use serde_json::Value;

/// The line of the planted fault, wherever it stands.
fn planted_line(source: &str) -> u64 {
    let path = repository()
        .join("crates/kiln/tests/planted_fault")
        .join(source);
    let source = std::fs::read_to_string(path).unwrap();
    let at = source
        .lines()
        .position(|line| line.contains("return row[at - "));
    at.unwrap() as u64 + 1
}

#[test]
fn a_planted_fault_is_explained_by_itself() {
    let project = Project::with("crates/kiln/tests/planted_fault");
    let study = project.json(&["tune", "--json"], &[0, 1, 4]);
    let learnt = &study["learnt"];
    let rule = "SIGSEGV (bad address) <= BLOCK_M != 64 or NUM_WARPS != 4, 48 of 48 and none of 6 that work";
    assert_eq!(learnt["rules"], serde_json::json!([rule]), "{learnt}");

    let explained = project.json(&["explain", "--json"], &[0]);
    assert_eq!(explained["schema_version"], 1);
    let groups = explained["failures"]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!(groups[0]["sentence"], rule);
    let line = &explained["constraints"][0]["line"];
    assert_eq!(line, "no_crashed = \"BLOCK_M == 64 and NUM_WARPS == 4\"");
    // Which instruction, in which line, of which function.
    let look = &explained["reruns"][0]["looks"][0];
    let place = &look["place"];
    assert_eq!(place["file"], "row_sum.c", "{explained:#}");
    assert_eq!(place["line"], planted_line("row_sum.c"));
    assert_eq!(place["thread"], "the launching thread");
    assert!(place["function"].as_str().is_some(), "{place}");
    assert!(place["address"].as_str().unwrap().starts_with("0x"));
    assert!(place["text"].as_str().unwrap().contains("return row[at - "));

    // The same in words, and the manifest takes the line as it is printed.
    let output = project.run(&["explain"]);
    let said = text(&output.stdout);
    assert!(said.contains(rule), "{said}");
    let at = format!("at row_sum.c:{}", planted_line("row_sum.c"));
    assert!(said.contains(&at), "{said}");
    let line = said
        .lines()
        .find(|l| l.trim_start().starts_with("no_crashed = "))
        .unwrap();
    project.replace(
        "kiln.toml",
        "[shapes.target]",
        &format!("[constraints]\n{line}\n\n[shapes.target]"),
    );
    let space = project.json(&["space", "--json"], &[0]);
    assert_eq!(
        space["valid"]
            .as_u64()
            .or(space["valid"].as_str().and_then(|s| s.parse().ok())),
        Some(6),
        "{space}"
    );
    // A manifest has the table once: what is there already is not to be added.
    let said = text(&project.run(&["explain", "--no-run"]).stdout);
    assert!(
        said.contains("add to the table [constraints] of the manifest"),
        "{said}"
    );
    assert!(!said.contains("\n  [constraints]\n"), "{said}");
}

#[test]
fn one_trial_is_explained_when_asked_for() {
    let project = Project::with("crates/kiln/tests/faults");
    project.json(&["tune", "--json", "--seed", "1"], &[0, 1, 4]);
    let shown = project.json(&["studies", "show", "1", "--trials", "--json"], &[0]);
    let number = |fault: &str| {
        let trials = shown["trial_list"].as_array().unwrap();
        let trial = trials.iter().find(|t| t["config"][0][1] == fault).unwrap();
        trial["number"].as_u64().unwrap().to_string()
    };
    let look = |fault: &str| -> Value {
        let document = project.json(&["explain", "1", &number(fault), "--json"], &[0]);
        document["reruns"][0]["looks"][0].clone()
    };
    let source = std::fs::read_to_string(project.root.join("kernel.c")).unwrap();
    let line_of = |part: &str| source.lines().position(|l| l.contains(part)).unwrap() as u64 + 1;
    // A bad address with no buffer near it, one past a buffer, and a call that ends the process.
    let wild = look("segfault");
    assert_eq!(wild["place"]["line"], line_of("case segfault"), "{wild}");
    assert_eq!(wild["place"]["address"], "0x8");
    let past = look("reads_past_end");
    assert_eq!(
        past["place"]["line"],
        line_of("case reads_past_end"),
        "{past}"
    );
    let ended = look("aborts");
    assert_eq!(ended["place"]["line"], line_of("case aborts"), "{ended}");
    assert_eq!(
        ended["place"]["what"],
        "stopped in something that was called"
    );
    let honest = look("honest");
    assert_eq!(
        (&honest["result"], &honest["place"]),
        (&"ran to its end".into(), &Value::Null)
    );
    // Others of the many failures are grouped, each with an example.
    let output = project.run(&["explain", "1", "--no-run"]);
    let said = text(&output.stdout);
    assert!(
        said.contains("does not compile: static assertion failed"),
        "{said}"
    );
    let none = project.run(&["explain", "1", "999"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("study 1 has no trial 999"));
}

#[test]
fn a_replay_is_explained_from_what_is_stored() {
    let project = Project::new();
    let recording = repository().join("crates/kiln/tests/recordings/h200_faults.kiln.json.gz");
    let recording = recording.to_str().unwrap();
    project.json(&["tune", "--replay", recording, "--json"], &[0, 1, 4]);
    let explained = project.json(&["explain", "--json"], &[0]);
    assert_eq!(explained["reruns"], serde_json::json!([]));
    let groups = explained["failures"]["groups"].as_array().unwrap();
    let labels: Vec<&str> = groups
        .iter()
        .map(|g| g["label"].as_str().unwrap())
        .collect();
    assert!(labels.contains(&"misaligned address"), "{labels:?}");
    let refused = project.run(&["explain", "1", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is a replay"));
}

#[test]
fn without_studies_there_is_nothing_to_explain() {
    let output = Project::new().run(&["explain"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no studies here yet"));
}
