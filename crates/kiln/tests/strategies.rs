//! `kiln replay`: strategies against recorded spaces, from the copy of two tables in the repository.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, repository, text};
use serde_json::Value;

fn table(name: &str) -> (String, String) {
    let folder = repository().join("crates/kiln/tests/spaces");
    let recording = folder.join(name);
    let space = recording.with_file_name("T1.json");
    (
        recording.to_str().unwrap().into(),
        space.to_str().unwrap().into(),
    )
}

fn replay(name: &str, arguments: &[&str]) -> Value {
    let (recording, space) = table(name);
    let mut all = vec!["replay", &recording, "--space", &space, "--json"];
    all.extend(arguments);
    Project::new().json(&all, &[0])
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap();
    list.iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn the_document_has_what_it_promises() {
    let report = replay(
        "pnpoly/RTX_Titan.json.gz",
        &["--trials", "40", "--repeats", "6", "--seed", "3", "--curve"],
    );
    assert_eq!(report["strategy"], "auto");
    assert_eq!(report["configs"], 4092);
    assert_eq!(report["failed_configs"], 342);
    let fractions = numbers(&report["fraction_of_optimum"]);
    assert_eq!(fractions.len(), 6);
    let optimum = report["optimum_ms"].as_f64().unwrap();
    for (fraction, best) in fractions.iter().zip(numbers(&report["best_ms"])) {
        assert!((fraction - optimum / best).abs() < 1e-12);
    }
    let mean = fractions.iter().sum::<f64>() / 6.0;
    assert!((report["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert!(report["p10"].as_f64() <= report["median"].as_f64());
    assert_eq!(report["trials_to_95_percent"].as_array().unwrap().len(), 6);
    assert_eq!(report["strategy_seconds"].as_array().unwrap().len(), 6);
    let curve = report["curve"].as_array().unwrap();
    assert_eq!(curve.len(), 40);
    assert_eq!(curve[39]["median"], report["median"]);
    assert_eq!(
        report["random_search"]["curve"].as_array().unwrap().len(),
        40
    );
}

#[test]
fn the_same_seed_finds_the_same_and_another_does_not() {
    let run = |seed: &str, batch: &str| {
        let arguments = [
            "--trials",
            "30",
            "--repeats",
            "4",
            "--seed",
            seed,
            "--batch",
            batch,
        ];
        replay("convolution_milo/A100.json.gz", &arguments)["best_ms"].clone()
    };
    assert_eq!(run("1", "1"), run("1", "1"));
    assert_eq!(run("1", "8"), run("1", "8"));
    assert_ne!(run("1", "1"), run("2", "1"));
}

#[test]
fn random_search_finds_what_was_computed() {
    let report = replay(
        "pnpoly/RTX_Titan.json.gz",
        &[
            "--strategy",
            "random",
            "--trials",
            "50",
            "--repeats",
            "2000",
        ],
    );
    let (found, exact) = (&report["mean"], &report["random_search"]["mean"]);
    let difference = found.as_f64().unwrap() - exact.as_f64().unwrap();
    // The standard error is about 0.0007.
    assert!(difference.abs() < 0.003, "{difference}");
    assert!(report["score"].as_f64().unwrap().abs() < 0.03);
}

#[test]
fn auto_is_ahead_of_everything_else_it_ships_with() {
    for name in ["pnpoly/RTX_Titan.json.gz", "convolution_milo/A100.json.gz"] {
        let compare = "auto,forest,tpe,genetic,annealing,local,lhs,random,exhaustive";
        let arguments = ["--compare", compare, "--trials", "100", "--repeats", "30"];
        let report = replay(name, &arguments);
        let strategies = report["strategies"].as_array().unwrap();
        assert_eq!(strategies.len(), 9);
        let mean = |s: &Value| s["mean"].as_f64().unwrap();
        let exact = report["random_search"]["mean"].as_f64().unwrap();
        assert!(mean(&strategies[0]) > exact + 0.03, "{name}: {report:#}");
        for other in &strategies[1..] {
            // The others are within noise of each other; the default must not be behind any.
            assert!(
                mean(&strategies[0]) > mean(other) - 0.01,
                "{name}: {other:#}"
            );
        }
    }
}

#[test]
fn an_earlier_recording_and_a_budget_of_seconds_are_used() {
    let (recording, _) = table("convolution_milo/A100.json.gz");
    let name = "convolution_milo/A100.json.gz";
    let plain = ["--trials", "12", "--repeats", "10"];
    let cold = replay(name, &plain);
    // What was found on the same device before must help here.
    let warm = replay(name, &[&plain[..], &["--warm", &recording]].concat());
    let gain = warm["mean"].as_f64().unwrap() - cold["mean"].as_f64().unwrap();
    assert!(gain > 0.2, "{gain}");
    let timed = replay(
        name,
        &["--trials", "4000", "--repeats", "4", "--seconds", "30"],
    );
    assert!(timed["median"].as_f64().unwrap() > 0.3);
    assert_eq!(timed["seconds"], 30.0);
}

#[test]
fn a_space_that_is_used_up_ends_the_search() {
    let (recording, _) = table("pnpoly/RTX_Titan.json.gz");
    let arguments = [
        "replay",
        &recording,
        "--strategy",
        "random",
        "--trials",
        "9999",
        "--repeats",
        "2",
        "--json",
    ];
    let report = Project::new().json(&arguments, &[0]);
    assert_eq!(numbers(&report["fraction_of_optimum"]), [1.0, 1.0]);
}

#[test]
fn mistakes_are_told() {
    let (recording, space) = table("pnpoly/RTX_Titan.json.gz");
    let (_, other_space) = table("convolution_milo/A100.json.gz");
    let project = Project::new();
    std::fs::write(project.root.join("broken.json"), "{\"cache\": {\"1\":").unwrap();
    for (arguments, words) in [
        (
            vec![&*recording, "--strategy", "autp"],
            "did you mean `auto`?",
        ),
        (
            vec![&*recording, "--compare", "auto,simplex"],
            "unknown strategy `simplex`",
        ),
        (vec![&*recording, "--space", &*other_space], "error"),
        (vec!["broken.json"], "broken.json"),
        (vec!["nowhere.json"], "nowhere.json"),
        (vec![&*space], "T1"),
        (vec![&*recording, "--trials", "0"], "--trials"),
        (vec![&*recording, "--warm", "nowhere.json"], "nowhere.json"),
    ] {
        let mut all = vec!["replay"];
        all.extend(&arguments);
        let output = project.run(&all);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
