//! Looking back at studies, and lessons from one to the next.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, finished_trials, repository, text};
use serde_json::Value;

/// Whatever the verdict of so few samples.
const ANY: &[i32] = &[0, 1, 4];

#[test]
fn a_study_is_looked_back_at() {
    let project = Project::with_quick_kernel();
    project.replace("kiln.toml", "[budget]", "[budget]\nprice_per_hour = 3.6");
    project.json(&["tune", "--json", "--seed", "1"], ANY);
    let shown = project.json(&["studies", "show", "--json"], &[0]);
    let back = &shown["retrospective"];
    let seconds = |key: &str| back[key].as_f64().unwrap();
    assert!(seconds("baseline_s") > 0.0);
    assert!(seconds("first_working_build_s") > seconds("baseline_s"));
    assert!(seconds("verdict_s") > seconds("first_working_build_s"));
    assert_eq!(back["bottleneck"], "never");
    assert_eq!(back["trials"], 6);
    assert_eq!(back["outcomes"]["measured"], 6);
    let phases = back["phases"].as_array().unwrap();
    let names: Vec<&str> = phases
        .iter()
        .map(|p| p["phase"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["baseline", "compile", "check", "time", "confirm"]);
    let spent: f64 = phases.iter().map(|p| p["seconds"].as_f64().unwrap()).sum();
    let wall = shown["wall_s"].as_f64().unwrap();
    assert!(
        (spent - wall).abs() < 0.05 * wall + 0.05,
        "{spent} of {wall}"
    );
    let cost: f64 = phases.iter().map(|p| p["cost"].as_f64().unwrap()).sum();
    assert!(
        (cost - spent * 1e-3).abs() < 1e-6,
        "3.6 an hour is 0.001 a second"
    );

    // Checks fire from the record: nobody asked the doctor, and the samples are few.
    let practice = back["practice"].as_array().unwrap();
    assert_eq!(practice.len(), 12);
    let state = |document: &Value, check: &str| {
        let all = document["retrospective"]["practice"].as_array().unwrap();
        let found = all.iter().find(|f| f["check"] == check).unwrap();
        found["state"].as_str().unwrap().to_string()
    };
    assert_eq!(state(&shown, "environment_validated"), "fires");
    assert_eq!(state(&shown, "measure_with_intervals"), "fires");
    assert_eq!(state(&shown, "baseline_first"), "passes");
    let said = text(&project.run(&["studies", "show"]).stdout);
    assert!(said.contains("looking back:"), "{said}");
    assert!(said.contains("`kiln doctor` was never run"), "{said}");
    assert!(!said.contains("baseline_first"), "{said}");
    let said = text(&project.run(&["studies", "show", "--practice"]).stdout);
    assert!(said.contains("baseline_first"), "{said}");

    // The source is edited, nobody looked, and the doctor was asked.
    let looked = project.run(&["doctor", "."]).status.code();
    let source = std::fs::read_dir(&project.root).unwrap().flatten();
    let source = source.map(|e| e.file_name().into_string().unwrap());
    let source = source.into_iter().find(|n| n == "vector_add.c").unwrap();
    let old = std::fs::read_to_string(project.root.join(&source)).unwrap();
    project.write(&source, &format!("{old}\n/* edited */\n"));
    project.json(&["tune", "--json", "--seed", "1"], ANY);
    let shown = project.json(&["studies", "show", "--json"], &[0]);
    let back = &shown["retrospective"];
    assert_eq!(
        (&back["changes"], &back["blind_changes"]),
        (&1.into(), &1.into())
    );
    // It counts as blind, and yet kiln has no profiler for kernels in C to blame anybody with.
    assert_eq!(state(&shown, "profile_before_optimise"), "not_applicable");
    // A busy machine may answer the doctor too late: that is a finding too.
    let healthy = match looked {
        Some(0) => "passes",
        _ => "fires",
    };
    assert_eq!(state(&shown, "environment_validated"), healthy);
    assert_eq!(state(&shown, "one_change_at_a_time"), "passes");

    let trend = project.json(&["studies", "trend", "--json"], &[0]);
    assert_eq!(trend["schema_version"], 1);
    let rows = trend["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows[1]["verdict_sooner"].is_boolean(), "{trend:#}");
    assert_eq!(trend["blind_changes"], 1);
    let said = text(&project.run(&["studies", "trend", "vector_add"]).stdout);
    assert!(said.contains("studies of `vector_add`"), "{said}");
    assert_eq!(
        said.lines().filter(|l| l.contains("N=3000")).count(),
        2,
        "{said}"
    );
    let output = project.run(&["studies", "trend", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there are studies of `vector_add`"));
}

/// A kernel that crashes unless BLOCK_M = 64 and NUM_WARPS = 4.
fn planted() -> Project {
    let project = Project::with("crates/kiln/tests/planted_fault");
    let quick = "[measure]\nmax_seconds = 0.05";
    project
        .replace("kiln.toml", "[measure]\nmax_seconds = 0.2", quick)
        .replace("kiln.toml", "samples = 20", "samples = 10\nfinalists = 1")
        .replace("kiln.toml", "[1, 2, 4]  ", "[1, 2]  ");
    project
}

/// Every config, whatever their times: what is learnt does not depend on the machine.
const EVERY: [&str; 2] = ["--strategy", "exhaustive"];

fn tune(project: &Project, more: &[&str]) -> (Vec<Value>, String) {
    let mut arguments = vec!["tune", "--events", "--seed", "3", "--fresh"];
    arguments.extend(more);
    let output = project.run(&arguments);
    let said = text(&output.stderr);
    assert!(ANY.contains(&output.status.code().unwrap()), "{said}");
    (finished_trials(&output.stdout), said)
}

fn failed(trials: &[Value]) -> usize {
    let failed = trials.iter().filter(|t| t["outcome"]["kind"] != "measured");
    failed.count()
}

#[test]
fn a_dead_end_is_not_walked_into_again() {
    let project = planted();
    let (first, said) = tune(&project, &EVERY);
    assert!(said.contains("lessons: "), "{said}");
    assert_eq!((first.len(), failed(&first)), (36, 32));

    let listed = project.json(&["lessons", "list", "--json"], &[0]);
    let lessons = listed["lessons"].as_array().unwrap();
    let rule = lessons
        .iter()
        .find(|l| l["claim"]["kind"] == "constraint")
        .unwrap_or_else(|| panic!("{listed:#}"));
    assert_eq!(rule["claim"]["when"], "BLOCK_M != 64 or NUM_WARPS != 4");
    assert_eq!(
        (&rule["status"], &rule["kernel"]),
        (&"holds".into(), &"planted_fault".into())
    );
    assert_eq!(rule["evidence"][0]["study"], 1);
    assert_eq!(rule["evidence"][0]["count"], failed(&first));
    let id = rule["id"].as_str().unwrap();
    let said = text(&project.run(&["lessons", "show", id]).stdout);
    assert!(said.contains("study 1 (trials "), "{said}");

    // Another shape: said, used, and probed.
    project.replace("kiln.toml", "R = 512", "R = 400");
    let (warned, said) = tune(&project, &["--trials", "6"]);
    assert!(said.contains(&format!("lesson {id}: ")), "{said}");
    assert!(said.contains("improbable, not impossible"), "{said}");
    let (cold, said) = tune(&project, &["--trials", "6", "--cold"]);
    assert!(!said.contains("improbable"), "{said}");
    assert!(
        failed(&warned) < failed(&cold),
        "{} of 6 failed, {} without the lesson",
        failed(&warned),
        failed(&cold)
    );
    let again = project.json(&["lessons", "show", id, "--json"], &[0]);
    let evidence = again["lesson"]["evidence"].as_array().unwrap();
    assert!(
        evidence.iter().any(|e| e["study"] == 2 || e["study"] == 3),
        "{again:#}"
    );

    // Taken to another project, where it holds too; forgotten, it is neither shown nor used.
    let file = project.root.join("lessons.toml");
    let file = file.to_str().unwrap();
    assert!(
        project
            .run(&["lessons", "export", "--to", file])
            .status
            .success()
    );
    let output = project.run(&["lessons", "export", "--to", file]);
    assert_eq!(output.status.code(), Some(2), "it is not overwritten");
    assert!(
        project
            .run(&["lessons", "export", "--to", "lessons.md"])
            .status
            .success()
    );
    let markdown = std::fs::read_to_string(project.root.join("lessons.md")).unwrap();
    assert!(
        markdown.contains("## planted\\_fault on") || markdown.contains("## planted_fault on"),
        "{markdown}"
    );
    let other = planted();
    // Words that say the opposite of the claim are not taken over.
    let stated = std::fs::read_to_string(file).unwrap();
    let lied = stated
        .lines()
        .map(|line| match line.starts_with("statement = ") {
            true => "statement = \"BLOCK_M=32 never fails\"",
            false => line,
        });
    let lied: Vec<&str> = lied.collect();
    std::fs::write(file, lied.join("\n")).unwrap();
    let output = other.run(&["lessons", "import", file]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let taken = other.json(&["lessons", "show", id, "--json"], &[0]);
    let (lesson, said) = (&taken["lesson"], &taken["lesson"]["statement"]);
    let said = said.as_str().unwrap();
    assert!(!said.contains("never fails"), "{said}");
    let when = lesson["claim"]["when"].as_str().unwrap();
    assert!(said.starts_with(&format!("crashed <= {when}: ")), "{said}");
    let twice = other.json(&["lessons", "import", file, "--json"], &[0]);
    assert_eq!(twice["new"], 0);
    let (warned, said) = tune(&other, &["--trials", "6"]);
    assert!(said.contains(&format!("lesson {id}: ")), "{said}");
    assert!(failed(&warned) < 4, "{} of 6 failed", failed(&warned));
    assert!(
        other
            .run(&["lessons", "forget", id, "--because", "a test"])
            .status
            .success()
    );
    let (_, said) = tune(&other, &["--trials", "4", "--cold"]);
    assert!(!said.contains(&format!("lesson {id}: ")), "{said}");
    let shown = other.json(&["lessons", "show", id, "--json"], &[0]);
    assert_eq!(shown["lesson"]["status"], "retired");
}

#[test]
fn a_lesson_that_is_wrong_is_found_out() {
    let project = planted();
    tune(&project, &EVERY);
    // The fault is mended: every config works now.
    let source = std::fs::read_to_string(project.root.join("row_sum.c")).unwrap();
    let faulty = source
        .lines()
        .find(|l| l.contains("return row[at - "))
        .unwrap();
    let at = faulty.find("row[at - ").unwrap() + "row[at".len();
    let end = faulty[at..].find(']').unwrap() + at;
    let mended = format!("{}{}", &faulty[..at], &faulty[end..]);
    project.replace("row_sum.c", faulty, &mended);
    let (trials, said) = tune(&project, &["--trials", "16"]);
    assert!(said.contains("improbable, not impossible"), "{said}");
    assert_eq!(failed(&trials), 0, "it is mended");
    let doubted = trials.iter().filter(|t| {
        let config = t["config"].as_array().unwrap();
        let is = |name: &str, value: i64| config.iter().any(|c| c[0] == name && c[1] == value);
        !(is("BLOCK_M", 64) && is("NUM_WARPS", 4))
    });
    assert!(doubted.count() >= 8, "four configs are not doubted");
    let listed = project.json(&["lessons", "list", "--json"], &[0]);
    let lessons = listed["lessons"].as_array().unwrap();
    let rule = lessons
        .iter()
        .find(|l| l["claim"]["kind"] == "constraint")
        .unwrap();
    assert_eq!(rule["status"], "contradicted", "{rule:#}");
    let (_, said) = tune(&project, &["--trials", "4"]);
    assert!(!said.contains("improbable"), "{said}");
}

#[test]
fn what_cannot_be_imported_is_told() {
    let project = Project::new();
    for (name, contents, words) in [
        ("a.toml", "version = 1\n", "it holds no lesson"),
        ("b.toml", "version = 9\n", "a newer kiln wrote it"),
        ("c.toml", "lessons = 3\n", "no file of lessons"),
        ("d.toml", "version = \n", "TOML parse error"),
        (
            "e.toml",
            "version = 1\n[[lesson]]\nid = \"L1\"\n",
            "missing field",
        ),
    ] {
        project.write(name, contents);
        let output = project.run(&["lessons", "import", name]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(words), "{name}: {said}");
        assert!(said.contains("hint: "), "{name}: {said}");
    }
    let output = project.run(&["lessons", "import", "nothing.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let output = project.run(&["lessons", "show", "L1"]);
    assert_eq!(output.status.code(), Some(2));
    let output = project.run(&["lessons", "export", "--to", "lessons.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let listed = project.json(&["lessons", "list", "--json"], &[0]);
    assert_eq!(listed["lessons"], serde_json::json!([]));
}

/// A store of every version there was opens for ever.
#[test]
fn old_stores_open_and_are_carried_on() {
    let project = Project::new();
    let folder = project.root.join(".kiln");
    std::fs::create_dir_all(&folder).unwrap();
    let old = repository().join("crates/kiln/tests/stores/version_1.db");
    std::fs::copy(old, folder.join("kiln.db")).unwrap();
    let shown = project.json(&["studies", "show", "1", "--json"], &[0]);
    assert_eq!(
        (&shown["kernel"], &shown["trials"]),
        (&"anchor".into(), &6.into())
    );
    assert!(shown["retrospective"]["verdict_s"].is_number());
    // What version 1 had no place for has one now.
    assert!(project.run(&["doctor"]).status.code().is_some());
    let listed = project.json(&["lessons", "list", "--json"], &[0]);
    assert_eq!(listed["lessons"], serde_json::json!([]));
    let shown = project.json(&["studies", "show", "1", "--json"], &[0]);
    assert_eq!(shown["trials"], 6);
}
