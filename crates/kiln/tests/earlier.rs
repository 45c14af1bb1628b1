//! Warm starts: a new study begins with what an earlier one of the same kernel found.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, finished_trials, repository, text};
use serde_json::Value;

fn project() -> Project {
    let project = Project::with("kernels/vector_add");
    // Small and quick: the search matters here, not the timing.
    project
        .replace("kiln.toml", "N = 262144", "N = 3000")
        .replace("kiln.toml", "[budget]", "[budget]\nhopeless_below = 0.0\n")
        .replace(
            "kiln.toml",
            "samples = 100",
            "samples = 20\nrounds = 1\nfinalists = 1",
        );
    project
}

fn tune(project: &Project, more: &[&str]) -> (Vec<Value>, String) {
    let mut arguments = vec!["tune", "--events", "--seed", "5", "--trials", "10"];
    arguments.extend(more);
    let output = project.run(&arguments);
    let said = text(&output.stderr);
    let code = output.status.code().unwrap();
    assert!([0, 1, 4].contains(&code), "exit {code}: {said}");
    (finished_trials(&output.stdout), said)
}

#[test]
fn another_shape_begins_with_the_best_of_the_last_study() {
    let project = project();
    let (first, said) = tune(&project, &[]);
    assert!(!said.contains("beginning with"), "{said}");
    let (again, said) = tune(&project, &[]);
    assert!(
        !said.contains("beginning with"),
        "the same question again: {said}"
    );
    assert_eq!(again[0]["config"], first[0]["config"], "the same seed");

    project.replace("kiln.toml", "N = 3000", "N = 4000");
    let (warm, said) = tune(&project, &[]);
    assert!(
        said.contains("beginning with what study 2 (N=3000) found (10 trials)"),
        "{said}"
    );
    let time = |trial: &&Value| trial["outcome"]["samples_ns"][0].as_f64().unwrap();
    let median = |trial: &&Value| {
        let samples = trial["outcome"]["samples_ns"].as_array().unwrap();
        let mut sorted: Vec<f64> = samples.iter().map(|s| s.as_f64().unwrap()).collect();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    assert!(time(&&again[0]) > 0.0);
    let mut ranked: Vec<&Value> = again.iter().collect();
    ranked.sort_by(|a, b| median(a).total_cmp(&median(b)));
    let best: Vec<&Value> = ranked[..4].iter().map(|t| &t["config"]).collect();
    assert!(
        best.contains(&&warm[0]["config"]),
        "{:#}",
        warm[0]["config"]
    );

    let (_, said) = tune(&project, &["--cold", "--fresh"]);
    assert!(!said.contains("beginning with"), "{said}");
    let (_, said) = tune(&project, &["--warm", "1", "--fresh"]);
    assert!(said.contains("beginning with what study 1"), "{said}");
}

#[test]
fn a_recording_can_be_begun_with() {
    let recording = repository().join("crates/kiln/tests/recordings/h200_anchor.kiln.json.gz");
    let recording = recording.to_str().unwrap();
    let project = Project::new();
    let run = |more: &[&str]| {
        let mut arguments = vec![
            "tune",
            "--replay",
            recording,
            "--strategy",
            "auto",
            "--events",
        ];
        arguments.extend(["--trials", "6", "--fresh"]);
        arguments.extend(more);
        let output = project.run(&arguments);
        (finished_trials(&output.stdout), text(&output.stderr))
    };
    let (cold, _) = run(&[]);
    let (warm, said) = run(&["--warm", recording]);
    assert!(said.contains("beginning with what"), "{said}");
    let fastest = |trials: &[Value]| {
        let first = &trials[0]["outcome"]["samples_ns"][0];
        first.as_f64().unwrap()
    };
    assert!(
        fastest(&warm) < fastest(&cold),
        "{} {}",
        fastest(&warm),
        fastest(&cold)
    );
}

#[test]
fn what_cannot_be_begun_with_is_told() {
    let project = project();
    for (arguments, words) in [
        (vec!["--warm", "7"], "study 7"),
        (
            vec!["--warm", "nothing.json"],
            "neither the number of a study nor a file",
        ),
        (
            vec!["--warm", "1", "--strategy", "random"],
            "no effect on the strategy `random`",
        ),
        (vec!["--warm", "1", "--cold"], "cannot be used with"),
        (
            vec!["--warm", "../spaces.json"],
            "neither the number of a study nor a file",
        ),
    ] {
        let mut all = vec!["tune", "--trials", "4"];
        all.extend(&arguments);
        let output = project.run(&all);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let table = repository().join("crates/kiln/tests/spaces/pnpoly/RTX_Titan.json.gz");
    let output = project.run(&["tune", "--warm", table.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("only 0 of its measured configs are valid"),
        "{said}"
    );
}
