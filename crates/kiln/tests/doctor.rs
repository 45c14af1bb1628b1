//! `kiln doctor` on whatever machine this is: what must hold with a GPU and without.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use common::{Project, orphans_after, text};
use serde_json::Value;

const EITHER: [i32; 2] = [0, 3];

/// A kernel in C whose reference is written in Python.
const MANIFEST: &str = r#"
[kernel]
name = "twice"
language = "c"
source = "twice.c"
entry = "twice"

[tunables]
UNROLL = [1, 2]

[shapes.target]
N = 64

[arguments]
x = { dtype = "f32", shape = ["N"], draw = "normal" }
y = { dtype = "f32", shape = ["N"], role = "output" }

[reference]
python = "reference.py:twice"

[baseline]
config = { UNROLL = 1 }
"#;

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|c| c["check"] == name);
    found.unwrap_or_else(|| panic!("no check `{name}` in {report:#}"))
}

/// A program that stands in for Python.
fn interpreter(project: &Project, script: &str) -> String {
    project.write("python", &format!("#!/bin/sh\n{script}\n"));
    let path = project.root.join("python");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().into()
}

fn doctor(project: &Project, python: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = project
        .command(&[&["doctor", "--json"], arguments].concat())
        .env("KILN_PYTHON", python)
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
    (output.status.code(), report)
}

#[test]
fn the_report_is_one_document_with_an_answer_for_every_check() {
    let project = Project::new();
    let report = project.json(&["doctor", "--json"], &EITHER);
    assert_eq!(report["schema_version"], 1);
    for name in [
        "driver",
        "gpu",
        "nvrtc",
        "nvcc",
        "python",
        "ncu",
        "compute_sanitizer",
    ] {
        check(&report, name);
    }
    for name in ["c_compiler", "home", "project", "machine", "sandbox"] {
        assert_ne!(check(&report, name)["status"], "missing", "{report:#}");
    }
    for check in report["checks"].as_array().unwrap() {
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "note", "warning", "missing"].contains(&status));
        if ["warning", "missing"].contains(&status) {
            assert!(
                check["why"].is_string() && check["fix"].is_string(),
                "{check:#}"
            );
        }
    }
    let missing = report["missing"].as_array().unwrap();
    assert_eq!(report["ready"], missing.is_empty());
    // Disk and cache are fine here, so whatever stands in the way has to do with the GPU.
    assert_eq!(
        report["works_without"].as_array().unwrap().is_empty(),
        missing.is_empty()
    );
}

#[test]
fn the_text_is_aligned_and_ends_with_what_it_adds_up_to() {
    let project = Project::new();
    let output = project.run(&["doctor"]);
    let code = output.status.code().unwrap();
    assert!(EITHER.contains(&code), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let (findings, summary) = printed.split_once("\n\n").unwrap();
    for line in findings.lines() {
        let (status, rest) = line.split_at(9);
        assert!(
            ["ok", "note", "warning", "missing", ""].contains(&status.trim()),
            "{line}"
        );
        assert!(!rest.starts_with(' '), "{line}");
    }
    let verdict = [
        "GPU kernels can be tuned here",
        "GPU kernels cannot be tuned here: ",
    ];
    assert!(
        summary.starts_with(verdict[usize::from(code == 3)]),
        "{summary}"
    );
    assert_eq!(summary.contains("works without: "), code == 3);
}

#[test]
fn a_kernel_in_c_needs_no_gpu() {
    let project = Project::with_kernels();
    let (code, report) = doctor(&project, "/nonexistent/python", &["kernels/vector_add"]);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["summary"], "`vector_add` can be tuned here");
    assert_eq!(check(&report, "python")["status"], "note");
    let output = project
        .command(&["doctor", "kernels/vector_add", "--json"])
        .env("KILN_CC", "/nonexistent/cc")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["missing"], serde_json::json!(["c_compiler"]));
}

#[test]
fn a_manifest_with_python_functions_needs_an_interpreter_that_has_them() {
    let project = Project::new();
    project
        .write("kiln.toml", MANIFEST)
        .write("twice.c", "void twice(const float *x, float *y) {}\n");
    let (code, report) = doctor(&project, "/nonexistent/python", &["."]);
    assert_eq!((code, &report["missing"][0]), (Some(3), &"python".into()));

    let answer = |functions: &str| {
        format!(
            r#"echo '{{"version": "3.12.3", "executable": "/x/python3", "torch": null,
            "numpy": {{"version": "2.4.6", "cuda": null}}, "functions": [{functions}]}}'"#
        )
    };
    let good = r#"{"error": null, "found": true, "has": ["twice"], "imports": ["numpy"], "unresolved": []}"#;
    let python = interpreter(&project, &answer(good));
    let (code, report) = doctor(&project, &python, &["."]);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(
        check(&report, "function")["what"],
        "reference `reference.py:twice`"
    );

    let absent = good.replace(r#""found": true"#, r#""found": false"#);
    let python = interpreter(&project, &answer(&absent));
    let (code, report) = doctor(&project, &python, &["."]);
    assert_eq!((code, &report["missing"][0]), (Some(3), &"function".into()));

    let torch = good.replace("numpy", "torch");
    let python = interpreter(&project, &answer(&torch));
    let (code, report) = doctor(&project, &python, &["."]);
    assert_eq!((code, &report["missing"][0]), (Some(3), &"torch".into()));
}

/// With the machine's own interpreter, where there is one.
#[test]
fn python_files_are_read_without_running_them() {
    let present = std::process::Command::new("python3")
        .arg("--version")
        .output();
    if present.is_err() {
        println!("skipped: no python3");
        return;
    }
    let project = Project::new();
    project
        .write("kiln.toml", MANIFEST)
        .write("twice.c", "void twice(const float *x, float *y) {}\n");
    let find = |source: &str| {
        project.write("reference.py", source);
        let (_, report) = doctor(&project, "python3", &["."]);
        check(&report, "function").clone()
    };
    let found = find("import json\nopen('ran', 'w')\ndef twice(x):\n    return 2 * x\n");
    assert_eq!(found["status"], "ok", "{found:#}");
    assert!(!project.root.join("ran").exists(), "it was run");
    let found = find("import no_such_module\ndef twice(x): pass\n");
    assert!(
        found["what"]
            .as_str()
            .unwrap()
            .ends_with("not installed: no_such_module")
    );
    let found = find("def other(x): pass\n");
    assert_eq!(found["fix"], "name one of those it has: other");
    let found = find("def twice(x\n");
    assert!(
        found["what"].as_str().unwrap().contains("cannot be read"),
        "{found:#}"
    );
}

#[test]
fn what_hangs_or_lies_does_not_hold_the_doctor_up() {
    let project = Project::new();
    for script in [
        "exec sleep 60",
        "exec yes",
        "echo nonsense",
        "exit 7",
        "kill -9 $$",
    ] {
        let python = interpreter(&project, script);
        let started = Instant::now();
        let (code, report) = doctor(&project, &python, &[]);
        assert!(started.elapsed() < Duration::from_secs(40), "{script}");
        assert!(EITHER.contains(&code.unwrap()));
        assert_eq!(check(&report, "python")["status"], "note", "{script}");
        let left = orphans_after(&project.home, Duration::from_secs(5));
        assert!(left.is_empty(), "{script}: {left:?}");
    }
}

#[test]
fn a_cache_that_cannot_be_used_is_missing() {
    let project = Project::new();
    std::fs::write(&project.home, "a file, not a folder").unwrap();
    let report = project.json(&["doctor", "--json"], &[3]);
    let home = check(&report, "home");
    assert_eq!(home["status"], "missing");
    assert!(
        home["fix"].as_str().unwrap().contains("KILN_HOME"),
        "{home:#}"
    );
}

#[test]
fn a_bad_manifest_is_bad_usage() {
    let project = Project::new();
    assert_eq!(project.run(&["doctor", "nowhere"]).status.code(), Some(2));
    project.write("kiln.toml", "[kernel\n");
    assert_eq!(project.run(&["doctor", "."]).status.code(), Some(2));
}

#[test]
fn an_interrupt_leaves_no_child() {
    let project = Project::new();
    let marker = project.root.join("started");
    let script = format!("echo > '{}'; sleep 600", marker.display());
    let python = interpreter(&project, &script);
    let mut child = project
        .command(&["doctor"])
        .env("KILN_PYTHON", python)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !marker.is_file() && started.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    let asked = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(asked.elapsed() < Duration::from_secs(60));
    let orphans = orphans_after(&project.home, Duration::from_secs(5));
    assert!(orphans.is_empty(), "{orphans:?}");
}

#[test]
fn without_a_home_nothing_that_compiles_is_promised() {
    let project = Project::new();
    let output = project
        .command(&["doctor", "--json"])
        .env("KILN_HOME", "/proc/nowhere")
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(check(&report, "home")["status"], "missing");
    let works = report["works_without"].to_string();
    assert!(
        !works.contains("--compile") && !works.contains("kiln tune"),
        "{works}"
    );
}
