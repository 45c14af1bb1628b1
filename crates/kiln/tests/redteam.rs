//! The red-team suite: no cheat is accepted, each fools a plain harness, and what is known to be
//! accepted is listed exactly. `KILN_REDTEAM_FULL=1` tries all mutants and honest configs.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Mutex;

use common::{Project, text};
use serde_json::Value;

/// They time things, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Fails also when a cheat that is listed as accepted no longer is.
#[test]
fn no_cheat_is_accepted_and_each_fools_a_plain_harness() {
    let _turn = TURN.lock();
    let project = Project::new();
    let arguments = ["redteam", "--backend", "cpu", "--only", "cheats", "--json"];
    let document = project.json(&arguments, &[0, 1]);
    let backend = &document["backends"][0];
    let problems = backend["problems"].as_array().unwrap();
    assert!(problems.is_empty(), "{problems:#?}");
    let rows = backend["cheats"].as_array().unwrap();
    assert!(rows.len() >= 60, "{} kernels", rows.len());
    assert!(rows.iter().all(|row| row["fools_plain"] == true));
    let accepted = rows.iter().filter(|row| row["is_accepted"] == true);
    assert!(accepted.clone().all(|row| row["known"].is_object()));
    assert!(document["success"] == true);
}

#[test]
fn no_mutant_is_accepted_and_honest_kernels_are() {
    let _turn = TURN.lock();
    let project = Project::new();
    let is_full = std::env::var_os("KILN_REDTEAM_FULL").is_some();
    let common = [
        "redteam",
        "--backend",
        "cpu",
        "--json",
        "--jobs",
        "2",
        "--only",
    ];
    let arguments = match is_full {
        true => vec!["mutants,honest", "--full"],
        false => vec!["mutants", "--mutants", "30"],
    };
    let document = project.json(&[&common[..], &arguments].concat(), &[0, 1]);
    let backend = &document["backends"][0];
    let problems = backend["problems"].as_array().unwrap();
    assert!(problems.is_empty(), "{problems:#?}");
    let mutants = backend["mutants"]["rows"].as_array().unwrap().len();
    assert!(mutants >= if is_full { 1_000 } else { 30 }, "{mutants}");
    if is_full {
        assert!(backend["honest"]["tried"].as_u64() >= Some(200));
    }
}

#[test]
fn without_a_gpu_its_part_is_skipped_by_name() {
    let _turn = TURN.lock();
    let project = Project::new();
    let output = project
        .command(&["redteam", "--only", "cheats", "--match", "zeros"])
        .env("CUDA_VISIBLE_DEVICES", "-1")
        .output()
        .unwrap();
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}");
    assert!(table.contains("zero fill (A3)"), "{table}");
    assert!(table.contains("skipped: no CUDA device"), "{table}");
}

#[test]
fn a_name_that_nothing_has_is_no_success() {
    let project = Project::new();
    let arguments = ["redteam", "--backend", "cpu", "--match", "nosuchthing"];
    let output = project.command(&arguments).output().unwrap();
    let talk = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{talk}");
    assert!(
        talk.contains("`nosuchthing`") && talk.contains("cheats.toml"),
        "{talk}"
    );
}

/// Every cheat of a task as one value of a tunable: a single run compiles them all.
#[test]
fn every_cuda_cheat_compiles() {
    let Some(cuda) = common::cuda() else {
        return;
    };
    let mut project = Project::with("redteam");
    project.cuda = Some(cuda);
    for (task, cheats) in cuda_cheats() {
        let folder = format!("tasks/{task}");
        let mut unit = String::from("#if 0\n");
        for (number, cheat) in cheats.iter().enumerate() {
            unit += &format!("#elif CHEAT == {number}\n#include \"../../cheats/{cheat}.cu\"\n");
        }
        let manifest = std::fs::read_to_string(project.root.join(&folder).join("kiln.cuda.toml"));
        let manifest = manifest
            .unwrap()
            .replace(
                "source = \"honest.cu\"",
                "source = \"all.cu\"\ninclude_dirs = [\"../../cheats\"]",
            )
            .replace(
                "[tunables]\nTHREADS = [256, 128, 512, 1024]",
                &format!(
                    "[tunables]\nTHREADS = [256]\nCHEAT = {{ from = 0, to = {} }}",
                    cheats.len() - 1
                ),
            );
        project
            .write(
                &format!("{folder}/all.cu"),
                &(unit + "#endif\n// candidate\n"),
            )
            .write(&format!("{folder}/all.toml"), &manifest);
        let path = format!("{folder}/all.toml");
        let arguments = ["check", &path, "--compile", "--arch", "sm_90a", "--json"];
        let document = project.json(&arguments, &[0, 1]);
        let compiled = &document["compiled"];
        assert_eq!(
            compiled["compiled"].as_u64(),
            Some(cheats.len() as u64),
            "{task}: {document:#}"
        );
    }
}

/// Names of the CUDA cheats of each task.
fn cuda_cheats() -> BTreeMap<String, Vec<String>> {
    let path = common::repository().join("redteam/cheats.toml");
    let document: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let document = serde_json::to_value(document).unwrap();
    let mut tasks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let words = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|word| word.as_str().unwrap().to_string())
            .collect()
    };
    for cheat in document["cheat"].as_array().unwrap() {
        if words(&cheat["backends"]).contains(&"cuda".to_string()) {
            for task in words(&cheat["tasks"]) {
                let name = cheat["name"].as_str().unwrap().to_string();
                tasks.entry(task).or_default().push(name);
            }
        }
    }
    tasks
}
