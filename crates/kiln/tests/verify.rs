//! `kiln verify` through the real program: what it runs, and what it notices about the files of a package.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::exports::{export, facts, refused};
use common::{succeed, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

#[test]
fn verify_runs_what_is_in_the_package() {
    let project = facts();
    export(&project, &["--to", "torch", "--out", "module"]);
    let right = project.json(&["verify", "module", "--answers", "--json"], &[0]);
    assert_eq!(right["shapes"][0]["right"], true);
    assert_eq!(right["shapes"][1]["shape"], "large");
    assert_eq!(right["changed_files"], json!([]));
    let timed = project.json(
        &[
            "verify",
            "module",
            "--shapes",
            "large",
            "--seconds",
            "2",
            "--json",
        ],
        &[0, 1],
    );
    assert!(
        timed["shapes"][0]["speedup"]
            .as_f64()
            .is_some_and(|s| s > 0.0),
        "{timed}"
    );
    assert_eq!(timed["shapes"][0]["exported_speedup"], 1.5);
    // The image is what is run: one that was made from another source gives itself away.
    export(&project, &["--to", "json", "--out", "source_only"]);
    let facts = fs::read_to_string(project.root.join("source_only/source/facts.c")).unwrap();
    fs::write(
        project.root.join("source_only/source/facts.c"),
        facts.replace("scale * scratch", "2 * scale * scratch"),
    )
    .unwrap();
    let changed = project.json(&["verify", "source_only", "--json"], &[1]);
    assert_eq!(
        changed["changed_files"],
        json!(["`source/facts.c` is not as it was exported"])
    );
    assert_eq!(changed["shapes"], json!([]), "nothing is run");
    project.replace("facts.c", "scale * scratch", "2 * scale * scratch");
    export(&project, &["--to", "torch", "--out", "wrong"]);
    let wrong = project.json(&["verify", "wrong", "--answers", "--json"], &[6]);
    assert!(
        wrong["shapes"][0]["wrong"]
            .as_str()
            .unwrap()
            .contains("wrong"),
        "{wrong}"
    );
    let nothing = refused(&project, &["verify", "mine"]);
    assert!(nothing.contains("kiln-package.json"), "{nothing}");
    let unknown = refused(&project, &["verify", "module", "--shapes", "huge"]);
    assert!(unknown.contains("it has target, large"), "{unknown}");
}

#[test]
fn an_interruption_loses_nothing_that_was_found() {
    let project = facts();
    export(&project, &["--to", "json", "--out", "package"]);
    for (during, found, left_out) in [
        ("(1 of 2)", 0, json!(["target", "large"])),
        ("(2 of 2)", 1, json!(["large"])),
    ] {
        let mut child = project
            .command(&["verify", "package", "--seconds", "60", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().contains(during));
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        lines.for_each(drop);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let shapes = document["shapes"].as_array().unwrap();
        assert_eq!(shapes.len(), found, "{document}");
        assert!(shapes.iter().all(|shape| shape["right"] == true));
        assert_eq!(document["left_out"], left_out);
    }
}

/// Writes the checksums anew, as somebody would who knows how.
fn seal(folder: &Path) {
    let script = "find . -type f ! -name SHA256SUMS -printf '%P\\0' | sort -z | xargs -0 sha256sum > SHA256SUMS";
    succeed(Command::new("sh").args(["-c", script]).current_dir(folder));
}

#[test]
fn verify_vouches_for_the_whole_package() {
    let project = facts();
    let folder = project.root.join("module");
    let fresh = || {
        let _ = fs::remove_dir_all(&folder);
        export(&project, &["--to", "torch", "--out", "module"]);
    };
    let problems = || {
        let told = project.json(&["verify", "module", "--files", "--json"], &[0, 1]);
        told["changed_files"].to_string()
    };
    let sums = folder.join("SHA256SUMS");
    let image = "images/facts_c0.x86_64.so";
    fresh();
    assert_eq!(problems(), "[]");
    // Using it leaves files behind, which are told and no problem.
    fs::create_dir(folder.join("__pycache__")).unwrap();
    fs::write(folder.join("__pycache__/_table.cpython-312.pyc"), "x").unwrap();
    assert_eq!(problems(), "[]");
    let said = text(&project.run(&["verify", "module", "--files"]).stdout);
    assert!(
        said.contains("1 file that Python or a build made"),
        "{said}"
    );
    let Ok(mut bytes) = fs::read(folder.join(image)) else {
        return eprintln!("skipped: not on this processor");
    };
    // An image and its line are gone from the list, and the other way round.
    bytes.push(0);
    fs::write(folder.join(image), &bytes).unwrap();
    let all = fs::read_to_string(&sums).unwrap();
    let some: Vec<&str> = all.lines().filter(|l| !l.contains(image)).collect();
    fs::write(&sums, some.join("\n")).unwrap();
    assert!(problems().contains("facts_c0.x86_64.so` is not part of the package"));
    seal(&folder);
    let said = problems();
    assert!(
        said.contains("is not the image that `kiln-package.json` describes"),
        "{said}"
    );
    // A list of one line says nothing about the rest.
    fresh();
    let line = all.lines().find(|l| l.ends_with("README.md")).unwrap();
    fs::write(&sums, line).unwrap();
    fs::write(folder.join("__init__.py"), "import os").unwrap();
    let said = problems();
    assert!(
        said.contains("`__init__.py` is not part of the package"),
        "{said}"
    );
    assert!(said.contains("does not list `kiln-package.json`"), "{said}");
    // What nobody listed, and what is no file at all: a pipe is not waited for.
    fresh();
    fs::write(folder.join("images/more.so"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link.py")).unwrap();
    succeed(Command::new("mkfifo").arg(folder.join("pipe")));
    fs::remove_file(folder.join("README.md")).unwrap();
    let said = problems();
    for words in [
        "`images/more.so` is not part of the package",
        "`link.py` is a link",
        "`pipe` is a pipe",
        "`README.md` is missing",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // The list itself as a pipe.
    fs::remove_file(&sums).unwrap();
    succeed(Command::new("mkfifo").arg(&sums));
    let refused_pipe = refused(&project, &["verify", "module", "--files"]);
    assert!(
        refused_pipe.contains("not a regular file"),
        "{refused_pipe}"
    );
    // Well sealed, and at odds with itself.
    fresh();
    let manifest = folder.join("source/kiln.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("N = 5000", "N = 6000")).unwrap();
    seal(&folder);
    let said = problems();
    assert!(
        said.contains("shape `large` is MODE=2 N=5000 in `kiln-package.json` and MODE=2 N=6000 in `source/kiln.toml`"),
        "{said}"
    );
}
