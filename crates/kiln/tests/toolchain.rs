//! `kiln toolchain` with a pip that behaves, and ones that do not. No network is used: a script
//! stands in for Python.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Project, orphans_after, text};

/// An NVRTC to copy from, as `nvidia/cu13` of the wheels.
fn nvrtc() -> Option<PathBuf> {
    let wheel = common::cuda().filter(|root| root.join("lib/libnvrtc.so.13").is_file());
    if wheel.is_none() {
        eprintln!("skipped: no NVRTC in a folder like the wheels' nvidia/cu13");
    }
    wheel
}

/// A program that is called like Python; `$target` is where pip is to install to.
fn fake_python(project: &Project, body: &str) -> String {
    let path = project.root.join("fake-python");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\n\
         while [ $# -gt 0 ]; do [ \"$1\" = --target ] && target=$2; shift; done\n{body}\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Copies a real NVRTC, as pip would unpack it.
fn honest_python(project: &Project, wheel: &std::path::Path) -> String {
    let body = format!(
        "mkdir -p \"$target/nvidia\" && cp -r '{}' \"$target/nvidia/cu13\"",
        wheel.display()
    );
    fake_python(project, &body)
}

fn kiln(project: &Project, python: &str, arguments: &[&str]) -> Command {
    let mut command = project.command(arguments);
    command
        .env_remove("KILN_CUDA")
        .env_remove("CUDA_HOME")
        .env_remove("CUDA_PATH")
        .env("KILN_PYTHON", python);
    command
}

fn left_behind(project: &Project) -> Vec<String> {
    fs::read_dir(project.home.join("toolchains"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn code_and_error(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

#[test]
fn every_failure_is_clear_and_leaves_nothing() {
    let cases = [
        ("echo 'x: No module named pip' >&2; exit 1", "has no pip"),
        (
            "echo 'ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device' >&2; exit 1",
            "the disk is full",
        ),
        (
            "echo 'ERROR: Could not find a version (from versions: none)' >&2; \
             echo 'ERROR: No matching distribution found' >&2; exit 1",
            "can it reach its package index",
        ),
        ("exit 1", "it did not say why"),
        ("exit 0", "there is no NVRTC library in it"),
        (
            "mkdir -p $target/nvidia/cu13/lib; echo no > $target/nvidia/cu13/lib/libnvrtc.so.13",
            // The loader's own words.
            "file too short",
        ),
        ("kill -9 $$", "it did not say why"),
    ];
    for (body, message) in cases {
        let project = Project::new();
        let python = fake_python(&project, body);
        let output = kiln(&project, &python, &["toolchain", "install"])
            .output()
            .unwrap();
        let (code, error) = code_and_error(&output);
        assert_eq!(code, Some(3), "{body}: {error}");
        assert!(error.contains(message), "{body}: {error}");
        assert!(left_behind(&project).is_empty(), "{body}");
    }
    let project = Project::new();
    let output = kiln(&project, "/nowhere/python", &["toolchain", "install"])
        .output()
        .unwrap();
    let (code, error) = code_and_error(&output);
    assert_eq!(code, Some(3));
    assert!(error.contains("/nowhere/python"), "{error}");
    for version in ["11.8", "13", "x", "13.x"] {
        let output = kiln(
            &project,
            "python3",
            &["toolchain", "install", "--cuda", version],
        )
        .output()
        .unwrap();
        assert_eq!(output.status.code(), Some(2), "{version}");
    }
}

#[test]
fn an_interrupt_ends_pip_and_cleans_up() {
    let project = Project::new();
    let body = "mkdir -p \"$target\"; echo half > \"$target/half\"; sleep 600";
    let python = fake_python(&project, body);
    let mut child = kiln(&project, &python, &["toolchain", "install"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while left_behind(&project).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(200));
    Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(left_behind(&project).is_empty());
    let orphans = orphans_after(&project.home, Duration::from_secs(5));
    assert!(orphans.is_empty(), "{orphans:?}");
}

#[test]
fn what_a_killed_installation_left_goes_with_the_next() {
    let project = Project::new();
    let body = "mkdir -p \"$target\"; echo half > \"$target/half\"; echo $$ > \"$target/pid\"; \
                exec sleep 600";
    let python = fake_python(&project, body);
    let mut child = kiln(&project, &python, &["toolchain", "install"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let pid = || {
        let name = left_behind(&project).into_iter().next()?;
        let file = project.home.join("toolchains").join(name);
        let text = fs::read_to_string(file.join("packages/pid")).ok()?;
        text.strip_suffix('\n').map(str::to_string)
    };
    let pip = loop {
        assert!(Instant::now() < until, "pip was not started");
        if let Some(pid) = pid() {
            break pid;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let failing = fake_python(&project, "exit 1");
    let install = || kiln(&project, &failing, &["toolchain", "install"]).output();
    // Its owner lives.
    assert_eq!(install().unwrap().status.code(), Some(3));
    assert_eq!(left_behind(&project).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    Command::new("kill").args(["-KILL", &pip]).status().unwrap();
    assert_eq!(left_behind(&project).len(), 1);
    assert_eq!(install().unwrap().status.code(), Some(3));
    assert!(left_behind(&project).is_empty());
}

#[test]
fn a_toolchain_is_installed_used_verified_repaired_and_removed() {
    let Some(wheel) = nvrtc() else {
        return;
    };
    let project = Project::new();
    let python = honest_python(&project, &wheel);
    let run = |arguments: &[&str]| kiln(&project, &python, arguments).output().unwrap();
    // Two at once: one installs, both succeed.
    let install = || {
        kiln(&project, &python, &["toolchain", "install"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let both = [install(), install()].map(|child| child.wait_with_output().unwrap());
    for output in &both {
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!(left_behind(&project), ["cuda-13.0"]);
    let again = run(&["toolchain", "install"]);
    assert!(again.status.success());
    assert!(text(&again.stdout).contains("was already installed"));

    let listing = run(&["toolchain", "--json"]);
    let listing: serde_json::Value = serde_json::from_slice(&listing.stdout).unwrap();
    assert_eq!(listing["found"][0]["version"], "13.0");
    assert_eq!(listing["found"][0]["origin"], "kiln's own toolchains");
    assert_eq!(listing["used"], 0);
    assert!(run(&["toolchain", "verify"]).status.success());

    // A changed header is seen by `verify`, a torn library at once.
    let installed = project.home.join("toolchains/cuda-13.0/nvidia/cu13");
    let repair = || {
        let repaired = run(&["toolchain", "install"]);
        assert!(text(&repaired.stderr).contains("is damaged"));
        assert!(text(&repaired.stdout).contains("installed and compiled with"));
        assert!(run(&["toolchain", "verify"]).status.success());
    };
    fs::write(installed.join("include/cuda_fp16.h"), "").unwrap();
    let verified = run(&["toolchain", "verify"]);
    assert_eq!(verified.status.code(), Some(1));
    assert!(text(&verified.stdout).contains("cuda_fp16.h"));
    repair();
    // Bytes may change and the size stay.
    let library = installed.join("lib/libnvrtc.so.13");
    let mut bytes = fs::read(&library).unwrap();
    bytes[..4096].fill(0);
    fs::write(&library, &bytes).unwrap();
    repair();
    fs::write(&library, "torn").unwrap();
    let listing = text(&run(&["toolchain"]).stdout);
    assert!(listing.contains("is damaged"), "{listing}");
    repair();
    assert_eq!(left_behind(&project), ["cuda-13.0"]);

    let removed = run(&["toolchain", "remove", "--cuda", "12.8"]);
    assert!(text(&removed.stdout).contains("has not installed CUDA 12.8"));
    assert!(run(&["toolchain", "remove"]).status.success());
    assert!(left_behind(&project).is_empty());
}

#[test]
fn an_explicit_toolchain_is_the_only_one() {
    let project = Project::new();
    let mut command = project.command(&["toolchain", "--json"]);
    let output = command.env("KILN_CUDA", "/nowhere").output().unwrap();
    let (code, error) = code_and_error(&output);
    assert_eq!(code, Some(3));
    assert!(error.contains("KILN_CUDA is `/nowhere`"), "{error}");
    let Some(wheel) = nvrtc() else {
        return;
    };
    for root in [wheel.clone(), wheel.join("lib/libnvrtc.so.13")] {
        let mut command = project.command(&["toolchain", "--json"]);
        let output = command.env("KILN_CUDA", &root).output().unwrap();
        let listing: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(listing["found"][0]["version"], "13.0", "{}", root.display());
        assert_eq!(listing["found"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_machine_without_a_compiler_says_where_it_looked() {
    let project = Project::new();
    let python = fake_python(&project, "exit 1");
    let output = kiln(&project, &python, &["toolchain"])
        .env("LD_LIBRARY_PATH", "/nowhere")
        .output()
        .unwrap();
    assert!(output.status.success());
    let listing = text(&output.stdout);
    if listing.contains("used CUDA") {
        eprintln!("skipped: this machine has a CUDA toolkit in a usual place");
        return;
    }
    for place in [
        "kiln's own",
        "/usr/local/cuda*",
        "the loader's path",
        "fake-python",
    ] {
        assert!(listing.contains(place), "{place}: {listing}");
    }
    assert!(listing.contains("kiln toolchain install"));
}
