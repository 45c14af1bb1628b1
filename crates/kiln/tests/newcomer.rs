//! The path of a newcomer: from a clone to a verdict on a C function of their own, by the commands of
//! docs/quickstart.md and no others.
//!
//! The commands and the function are copied out of the page. Two are not run as they stand there. `git clone` gets this
//! checkout as its address (a checkout without git, as in a source package, is copied). `cargo install` would build
//! for minutes what is already built: the binary under test is put where it would install it, and that the build works is
//! shown by this test being there at all; only the path it is given has to hold a package called kiln.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{Project, repository, text};
use serde_json::Value;

/// A fenced block: what follows its language, and its lines.
struct Block {
    info: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let page = fs::read_to_string(repository().join("docs/quickstart.md")).unwrap();
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(info), None) => {
                open = Some(Block {
                    info: info.to_string(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    found
}

fn commands(mark: &str) -> Vec<String> {
    let marked = blocks()
        .into_iter()
        .filter(|b| b.info == format!("sh {mark}"));
    let text: String = marked.map(|b| b.text).collect();
    let without_comment = |line: &str| line.split(" #").next().unwrap_or(line).trim().to_string();
    text.lines()
        .map(without_comment)
        .filter(|l| !l.is_empty())
        .collect()
}

/// A shell's state between commands: the folder, and where programs are found.
struct Newcomer {
    // Dropped last: everything lives in it.
    folder: tempfile::TempDir,
    here: PathBuf,
}

impl Newcomer {
    fn new() -> Newcomer {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        for block in blocks() {
            let Some(name) = block.info.strip_prefix("c file=") else {
                continue;
            };
            fs::create_dir_all(here.join(name).parent().unwrap()).unwrap();
            fs::write(here.join(name), &block.text).unwrap();
        }
        fs::create_dir(here.join("bin")).unwrap();
        Newcomer { folder, here }
    }

    /// Runs a line as a shell would and returns its exit code and what it said.
    fn run(&mut self, line: &str) -> (i32, String, String) {
        if let Some(folder) = line.strip_prefix("cd ") {
            self.here = self.here.join(folder);
            assert!(self.here.is_dir(), "`{line}`: there is no such folder");
            return (0, String::new(), String::new());
        }
        if line.starts_with("git clone ADDRESS ") {
            return self.clone_checkout(line);
        }
        if let Some(path) = line.strip_prefix("cargo install --locked --path ") {
            let manifest = fs::read_to_string(self.here.join(path).join("Cargo.toml")).unwrap();
            assert!(
                manifest.contains("name = \"kiln\""),
                "`{line}` installs no kiln"
            );
            let installed = self.bin().join("kiln");
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kiln"), installed).unwrap();
            return (0, String::new(), String::new());
        }
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(&self.here)
            .env("PATH", format!("{}:{path}", self.bin().display()))
            .env("KILN_HOME", self.folder.path().join("home"))
            .env_remove("KILN_CC")
            .env_remove("CC")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let code = output.status.code().unwrap();
        (code, text(&output.stdout), text(&output.stderr))
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("bin")
    }

    fn clone_checkout(&self, line: &str) -> (i32, String, String) {
        let to = self.here.join(line.rsplit(' ').next().unwrap());
        let from = repository();
        let cloned = Command::new("git")
            .args(["clone", "--quiet", "--shared", "--no-checkout"])
            .args([from.as_path(), to.as_path()])
            .stderr(Stdio::null())
            .status();
        // Only the package that the next command names is looked at: the history of all files would take seconds.
        let checked_out = cloned.is_ok_and(|status| status.success())
            && Command::new("git")
                .args([
                    "checkout",
                    "--quiet",
                    "HEAD",
                    "--",
                    "crates/kiln/Cargo.toml",
                ])
                .current_dir(&to)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
        if !checked_out {
            println!("skipped: no clone: this checkout has no git; its package is copied instead");
            copy(&from, &to, Path::new("crates/kiln/Cargo.toml"));
        }
        (0, String::new(), String::new())
    }
}

fn copy(from: &Path, to: &Path, file: &Path) {
    fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
    fs::copy(from.join(file), to.join(file)).unwrap();
}

#[test]
fn eight_commands_lead_from_a_clone_to_a_verdict() {
    let commands = commands("newcomer");
    assert!(
        (1..=8).contains(&commands.len()),
        "the quick start has {} commands: {commands:#?}",
        commands.len()
    );
    assert!(commands[0].starts_with("git clone "), "{}", commands[0]);
    let mut newcomer = Newcomer::new();
    let started = Instant::now();
    let mut verdict = None;
    for line in &commands {
        let began = Instant::now();
        let (code, said, told) = newcomer.run(line);
        println!(
            "{:>6.1} s  exit {code}  {line}",
            began.elapsed().as_secs_f64()
        );
        // A win, none, or too noisy to say: all of them are a verdict.
        let allowed: &[i32] = match line.starts_with("kiln tune") {
            true => &[0, 1, 4],
            false => &[0],
        };
        assert!(
            allowed.contains(&code),
            "`{line}` ended with {code}\n{said}\n{told}"
        );
        if line.starts_with("kiln tune") {
            let words = ["FASTER", "SAME", "SLOWER", "UNDECIDED"];
            verdict = words.into_iter().find(|word| said.contains(word));
            assert!(
                verdict.is_some(),
                "`{line}` gave no verdict\n{said}\n{told}"
            );
        }
    }
    println!(
        "{:>6.1} s  in all: {}",
        started.elapsed().as_secs_f64(),
        verdict.unwrap_or("no verdict")
    );
    assert!(verdict.is_some(), "the quick start tunes nothing");
    // The study is there, over the function that was given, and was confirmed or said why not.
    let (code, said, told) = newcomer.run("kiln studies show --json");
    assert_eq!(code, 0, "{told}");
    let study: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        study["schema_version"].as_u64().map(|v| v > 0),
        Some(true),
        "{said}"
    );
}

/// A reference that somebody wrote is worth more than one that was derived.
#[test]
fn init_keeps_what_is_there() {
    let project = Project::new();
    project
        .write("twice.c", "void twice(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }\n")
        .write("reference.c", "// mine\n");
    let output = project.run(&["init", "twice.c"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("kept reference.c, which was there"));
    let read = |name: &str| fs::read_to_string(project.root.join(name)).unwrap();
    assert_eq!(read("reference.c"), "// mine\n");
    assert!(read("baseline.c").contains("y[i] = 2 * x[i]"));
    // And so does a second time, which replaces the manifest only.
    fs::write(project.root.join("twice_tunable.c"), "// mine too\n").unwrap();
    let output = project.run(&["init", "twice.c", "--force"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(read("twice_tunable.c"), "// mine too\n");
}

/// A reference that kiln wrote for one function is of no use to another.
#[test]
fn init_for_another_function_replaces_what_it_wrote_for_the_first() {
    let project = Project::new();
    let function = |name: &str, factor: &str| {
        format!(
            "void {name}(const float *x, float *y, int n) {{ for (int i = 0; i < n; i++) y[i] = {factor} * x[i]; }}\n"
        )
    };
    let both = function("twice", "2") + &function("thrice", "3");
    project
        .write("one.c", &function("one", "1"))
        .write("both.c", &both);
    let init = |arguments: &[&str]| {
        let output = project.run(&[&["init"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let told = init(&["one.c"]);
    assert!(!told.contains("--entry"), "there is one function: {told}");
    let told = init(&["both.c", "--force"]);
    assert!(
        told.contains("took `thrice`; `both.c` also has `twice`"),
        "{told}"
    );
    assert!(told.contains("--entry NAME"), "{told}");
    assert!(told.contains("replaced reference.c"), "{told}");
    let told = init(&["both.c", "--force", "--entry", "twice"]);
    assert!(!told.contains("took"), "{told}");
    let manifest = fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    assert!(manifest.contains("entry = \"twice\""), "{manifest}");
    let output = project.run(&["check"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // The same function again: what is there may have been put right since.
    let told = init(&["both.c", "--force", "--entry", "twice"]);
    assert!(told.contains("kept reference.c, which was there"), "{told}");
    let output = project.run(&["init", "both.c", "--force", "--entry", "once"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("it has `twice` and `thrice`"),
        "{}",
        text(&output.stderr)
    );
}

/// What the page says about a GPU, as far as a machine without one can follow.
#[test]
fn a_plain_cuda_kernel_gets_a_manifest_that_checks() {
    let commands = commands("gpu");
    for wanted in [
        "kiln doctor",
        "kiln init blur.cu",
        "kiln check",
        "kiln tune",
    ] {
        assert!(
            commands.iter().any(|c| c == wanted),
            "{wanted} is not in {commands:?}"
        );
    }
    let mut newcomer = Newcomer::new();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kiln"), newcomer.bin().join("kiln")).unwrap();
    newcomer.run("cd gpu");
    for line in ["kiln init blur.cu", "kiln check --arch sm_90"] {
        let (code, said, told) = newcomer.run(line);
        assert_eq!(code, 0, "`{line}`\n{said}\n{told}");
    }
}

/// What kiln wrote from an older version of a function is of no use to the newer one; what was edited stays.
#[test]
fn init_again_replaces_what_it_wrote_and_nobody_edited() {
    let project = Project::new();
    let source = |factor: &str| {
        format!(
            "void times(const float *x, float *y, int n) {{ for (int i = 0; i < n; i++) y[i] = {factor} * x[i]; }}\n"
        )
    };
    let read = |name: &str| fs::read_to_string(project.root.join(name)).unwrap();
    let init = || {
        let output = project.run(&["init", "times.c", "--force"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    project.write("times.c", &source("2"));
    init();
    project.write("times.c", &source("3"));
    let told = init();
    assert!(told.contains("replaced baseline.c"), "{told}");
    assert!(told.contains("replaced reference.c"), "{told}");
    assert!(read("baseline.c").contains("y[i] = 3 * x[i]"));
    assert!(read("reference.c").contains("y[i] = 3 * x[i]"));
    project
        .replace("reference.c", "3 * x[i]", "3.0 * x[i]")
        .write("times.c", &source("4"));
    let told = init();
    assert!(told.contains("replaced baseline.c"), "{told}");
    assert!(
        told.contains("kept reference.c, which was edited since `kiln init` wrote it"),
        "{told}"
    );
    assert!(read("reference.c").contains("3.0 * x[i]"));
}

/// Files that `kiln init` writes are not what it is to begin with.
#[test]
fn a_folder_without_a_manifest_is_told_of_its_kernel() {
    let project = Project::new();
    let function = "void f(float *x) { x[0] = 1; }\n";
    for name in ["baseline.c", "matvec_tunable.c", "reference.c"] {
        project.write(name, function);
    }
    let told = common::refused(&project, &["check"], 2);
    assert!(told.contains("`kiln init FILE.c` writes one"), "{told}");
    project.write("matvec.c", function);
    let told = common::refused(&project, &["check"], 2);
    assert!(told.contains("`kiln init matvec.c` writes one"), "{told}");
}
