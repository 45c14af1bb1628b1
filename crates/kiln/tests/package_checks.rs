//! What packages refuse when they are called, and what `kiln export` refuses to write, to replace or to leave unsaid.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::exports::{FROM_FILE, refused};
use common::{Project, repository, succeed, text};
use serde_json::{Value, json};

/// A dimension that follows from others, an output that is shorter than its input, a scalar that leads to places.
const MANIFEST: &str = r#"
[kernel]
source = "k.c"
entry = "rows"
flags = ["-O2"]

[tunables]
U = [1, 2]

[shapes.target]
N = 100
H = 8
D = 64
HD = "H * D"
[shapes.odd]
N = 3
H = 5
D = 7
HD = "H * D"
[shapes.twin]
N = 100
H = 8
D = 64
HD = 512

[arguments]
x      = { dtype = "f32", shape = ["N", "HD"] }
y      = { dtype = "f32", shape = ["N - 1", "H"], role = "output" }
stride = { dtype = "i32", value = 1 }
n      = { dtype = "i32", value = "N" }
h      = { dtype = "i32", value = "H" }
d      = { dtype = "i32", value = "D" }

[reference]
c = "reference.c:rows"

[baseline]
config = { U = 1 }
"#;

/// Without its `REAL` it is the kernel, with `double` the reference.
const SOURCE: &str = "void rows(const REAL *x, REAL *y, int stride, int n, int h, int d) {\n\
    for (int i = 0; i + 1 < n; i++) for (int j = 0; j < h; j++) {\n\
        REAL s = 0;\n        for (int k = 0; k < d; k++) s += x[(long)(i * h + j) * d + (long)k * stride];\n\
        y[i * h + j] = s;\n    }\n}\n";

fn winner() -> Value {
    json!({"shape": "target", "config": {"U": 2}, "ratio": 1.25, "ratio_ci_95": [1.2, 1.3],
           "device": "test", "date": "2026-11-15"})
}

fn project() -> Project {
    let project = Project::new();
    project
        .write("kiln.toml", MANIFEST)
        .write("k.c", &SOURCE.replace("REAL", "float"))
        .write("reference.c", &SOURCE.replace("REAL", "double"))
        .write("winners.json", &json!([winner()]).to_string());
    project
}

fn export(project: &Project, more: &[&str]) -> String {
    let output = project.run(&[&FROM_FILE[..], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stderr)
}

fn cargo_run(project: &Project, package: &Path, example: &str) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--quiet", "--offline", "--example", example])
        .current_dir(package)
        .env("CARGO_TARGET_DIR", project.root.join("target"))
        .env_remove("RUSTFLAGS");
    succeed(&mut cargo)
}

const CPP: &str = r#"
#include <cstdio>
#include <vector>
#include "rows.hpp"
template <class Run> void tell(const char *what, Run run) {
    try {
        run();
        std::printf("%s: runs\n", what);
    } catch (const kiln_export::Error &error) {
        std::printf("%s: %s\n", what, error.what());
    }
}
int main() {
    kiln_export::Aligned<float> x(100 * 512), y(99 * 8), small(7);
    const kiln_export::Aligned<float> &same = x;
    tell("right", [&] { rows::run({100, 8, 64, 512}, x.data(), y.data()); });
    tell("sized", [&] { rows::run({100, 8, 64, 512}, same, y); });
    tell("more D", [&] { rows::run({100, 8, 10000000, 512}, x.data(), y.data()); });
    tell("less HD", [&] { rows::run({100, 8, 64, 500}, x.data(), y.data()); });
    tell("choice", [&] { rows::choose({100, 8, 65, 512}); });
    tell("huge", [&] { rows::run({100, 1L << 40, 1L << 40, 512}, x.data(), y.data()); });
    tell("short x", [&] { rows::run({100, 8, 64, 512}, small, y); });
    tell("short y", [&] { rows::run({100, 8, 64, 512}, x, small); });
    tell("no y", [&] { rows::run({100, 8, 64, 512}, x, nullptr); });
    tell("empty y", [&] { rows::run({1, 8, 64, 512}, x.data(), y.data()); });
}
"#;

const RUST: &str = r#"
use rows::*;
fn tell(what: &str, N: i64, H: i64, D: i64, HD: i64, x: &[f32], y: &mut [f32]) {
    // SAFETY: what the kernel cannot take is refused before it runs; this is what is tried here.
    match unsafe { run(&Dimensions { N, H, D, HD }, x, y) } {
        Ok(_) => println!("{what}: runs"),
        Err(error) => println!("{what}: {error}"),
    }
}
fn main() {
    let (x, mut y, mut small) = (Aligned::zeros(100 * 512), Aligned::zeros(99 * 8), Aligned::zeros(7));
    tell("right", 100, 8, 64, 512, &x, &mut y);
    tell("more D", 100, 8, 10000000, 512, &x, &mut y);
    tell("less HD", 100, 8, 64, 500, &x, &mut y);
    tell("huge", 100, 1 << 40, 1 << 40, 512, &x, &mut y);
    tell("short x", 100, 8, 64, 512, &small, &mut y);
    tell("short y", 100, 8, 64, 512, &x, &mut small);
    tell("empty y", 1, 8, 64, 512, &x[..512], &mut y);
}
"#;

#[test]
fn dimensions_that_do_not_go_together_run_no_kernel() {
    let project = project();
    export(&project, &["--to", "cpp", "--out", "cpp"]);
    export(&project, &["--to", "rust", "--out", "rust"]);
    let cpp = project.root.join("cpp");
    succeed(Command::new("sh").arg("build.sh").current_dir(&cpp));
    fs::write(cpp.join("main.cpp"), CPP).unwrap();
    let words = "-std=c++17 -Wall -Wextra -Werror -o main main.cpp librows.a -lm";
    succeed(Command::new("g++").args(words.split(' ')).current_dir(&cpp));
    let told = succeed(Command::new("./main").current_dir(&cpp));
    assert_eq!(
        told,
        "right: runs\nsized: runs\n\
         more D: dimension `HD` is 512, expected `H * D`\n\
         less HD: dimension `HD` is 500, expected `H * D`\n\
         choice: dimension `HD` is 512, expected `H * D`\n\
         huge: a size does not fit into 64 bits\n\
         short x: `x` has 28 bytes, expected 204800\n\
         short y: `y` has 28 bytes, expected 3168\n\
         no y: `y` is a null pointer\n\
         empty y: `y` would have an axis of 0 for these dimensions, expected at least 1\n"
    );
    let rust = project.root.join("rust");
    fs::write(rust.join("examples/main.rs"), RUST).unwrap();
    let told = cargo_run(&project, &rust, "main");
    assert_eq!(
        told,
        "right: runs\n\
         more D: dimension `HD` is 512, expected `H * D`\n\
         less HD: dimension `HD` is 500, expected `H * D`\n\
         huge: a size does not fit into 64 bits\n\
         short x: `x` has 7 elements, expected 51200\n\
         short y: `y` has 7 elements, expected 792\n\
         empty y: `y` would have an axis of 0 for these dimensions, expected at least 1\n"
    );
    // No check from outside can tell how far a stride leads.
    let library = fs::read_to_string(rust.join("src/lib.rs")).unwrap();
    for function in ["run(", "run_with("] {
        let (before, _) = library
            .split_once(&format!("\npub unsafe fn {function}"))
            .unwrap();
        let documentation = before.rsplit("\n}\n").next().unwrap();
        assert!(documentation.contains("/// # Safety\n"), "{documentation}");
    }
}

/// Each config is an object whose other names are hidden, which a compiler that waits for the linker would not leave so.
#[test]
fn a_kernel_tuned_with_link_time_optimisation_links() {
    let project = project();
    project.replace(
        "kiln.toml",
        "flags = [\"-O2\"]",
        "flags = [\"-O2\", \"-flto\"]",
    );
    let told = export(&project, &["--to", "cpp", "--out", "cpp"]);
    assert!(told.contains("`-flto` is left out"), "{told}");
    export(&project, &["--to", "rust", "--out", "rust"]);
    let cpp = project.root.join("cpp");
    succeed(Command::new("sh").arg("build.sh").current_dir(&cpp));
    let told = succeed(Command::new("./example").current_dir(&cpp));
    assert_eq!(told, cargo_run(&project, &project.root.join("rust"), "run"));
}

#[test]
fn force_deletes_nothing_of_the_users() {
    let project = project();
    let again = ["--to", "cpp", "--out", "cpp", "--force"];
    export(&project, &again[..4]);
    let cpp = project.root.join("cpp");
    succeed(Command::new("sh").arg("build.sh").current_dir(&cpp));
    export(&project, &again);
    let again = [&FROM_FILE[..], &again].concat();
    let edited = format!(
        "// mine\n{}",
        fs::read_to_string(cpp.join("example.cpp")).unwrap()
    );
    for (name, contents, why) in [
        (
            "example.cpp",
            edited.as_str(),
            "`example.cpp` (changed since it was exported)",
        ),
        ("mine.o", "object", "`mine.o`"),
        ("libmine.a", "library", "`libmine.a`"),
        ("__pycache__/notes.txt", "notes", "`__pycache__/notes.txt`"),
        ("__pycache__/mine.pyc", "bytes", "`__pycache__/mine.pyc`"),
    ] {
        let before = fs::read(cpp.join(name)).ok();
        project.write(&format!("cpp/{name}"), contents);
        let said = refused(&project, &again);
        assert!(said.contains(why) && said.contains("hint:"), "{said}");
        assert_eq!(fs::read_to_string(cpp.join(name)).unwrap(), contents);
        match before {
            Some(before) => fs::write(cpp.join(name), before).unwrap(),
            None => fs::remove_file(cpp.join(name)).unwrap(),
        }
    }
    assert!(project.run(&again).status.success(), "as it was exported");
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let project = project();
    let said = refused(
        &project,
        &["export", "1", "--manifest", ".", "--to", "json"],
    );
    assert!(said.contains("--manifest"), "{said}");
    let arch = ["--to", "torch", "--out", "module", "--arch", "sm_90"];
    let said = refused(&project, &[&FROM_FILE[..], &arch].concat());
    assert!(
        said.contains("kernel in C") && said.contains("--arch sm_90"),
        "{said}"
    );
    let elsewhere = ["--to", "json", "--project", "elsewhere"];
    let said = refused(&project, &[&FROM_FILE[..], &elsewhere].concat());
    assert!(said.contains("--project"), "{said}");
}

#[test]
fn a_file_of_winners_is_held_to_what_studies_are() {
    let project = project();
    let json_to = ["--to", "json", "--out", "table"];
    for (key, value, why) in [
        (
            "ratio_ci_95",
            json!([1.01, 1.3]),
            "is not wholly above 1.03",
        ),
        ("ratio_ci_95", Value::Null, "no `ratio_ci_95`"),
        ("device", json!(""), "no `device`"),
        ("date", json!(" "), "no `date`"),
    ] {
        let mut winner = winner();
        winner[key] = value;
        project.write("winners.json", &json!([winner]).to_string());
        let said = refused(&project, &[&FROM_FILE[..], &json_to].concat());
        assert!(said.contains("target (") && said.contains(why), "{said}");
        assert!(said.contains("--unconfirmed"), "{said}");
    }
    let mut twin = winner();
    twin["shape"] = json!("twin");
    project.write("winners.json", &json!([winner(), twin]).to_string());
    let said = refused(&project, &[&FROM_FILE[..], &json_to].concat());
    assert!(
        said.contains("`target` and `twin` have the same dimensions"),
        "{said}"
    );
    project.write("winners.json", &json!([winner()]).to_string());
    let said = export(&project, &json_to);
    assert!(said.contains("claimed by `winners.json`"), "{said}");
    let readme = fs::read_to_string(project.root.join("table/README.md")).unwrap();
    assert!(readme.contains("kiln did not see it"), "{readme}");
    assert!(
        readme.contains("| claimed | winners.json | test |"),
        "{readme}"
    );
}

/// What is printed between backquotes can be given to a shell.
#[test]
fn commands_to_go_on_with_survive_spaces() {
    let project = project();
    let said = export(&project, &["--to", "cpp", "--out", "out cpp"]);
    let command = said
        .split('`')
        .find(|part| part.starts_with("sh "))
        .unwrap();
    succeed(
        Command::new("sh")
            .args(["-c", command])
            .current_dir(&project.root),
    );
    assert!(project.root.join("out cpp/example").is_file());
    let said = export(&project, &["--to", "rust", "--out", "it's rust"]);
    assert!(
        said.contains("--manifest-path 'it'\\''s rust/Cargo.toml' --example"),
        "{said}"
    );
}

#[test]
fn what_is_no_regular_file_is_written_through_and_stays_what_it_is() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let project = Project::new();
    let recording = repository().join("crates/kiln/tests/recordings/h200_anchor.kiln.json.gz");
    let recording = recording.to_str().unwrap();
    let report = |out: &str| {
        project.run(&[
            "report", recording, "--format", "md", "--out", out, "--force",
        ])
    };
    let pipe = project.root.join("pipe");
    succeed(Command::new("mkfifo").arg(&pipe));
    let from = pipe.clone();
    let reader = std::thread::spawn(move || fs::read_to_string(from).unwrap());
    let output = report("pipe");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    let told = reader.join().unwrap();
    assert!(told.contains("anchor: FASTER"), "{told}");
    // A device is only named through a link: a test that fails must not cost the machine one.
    symlink("/dev/null", project.root.join("nothing")).unwrap();
    assert!(report("nothing").status.success());
    assert!(
        fs::symlink_metadata(project.root.join("nothing"))
            .unwrap()
            .is_symlink()
    );
    project.write("kept.md", "before");
    for (link, to) in [("link.md", "kept.md"), ("broken.md", "nowhere.md")] {
        symlink(to, project.root.join(link)).unwrap();
        let output = report(link);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("it is a link") && said.contains("hint:"),
            "{said}"
        );
        let facts = fs::symlink_metadata(project.root.join(link)).unwrap();
        assert!(facts.is_symlink(), "{link}");
    }
    assert_eq!(
        fs::read_to_string(project.root.join("kept.md")).unwrap(),
        "before"
    );
    assert!(report("kept.md").status.success());
    assert_eq!(
        fs::read_to_string(project.root.join("kept.md")).unwrap(),
        told
    );
}

/// A module beside the reference decides its answers as much as the reference does.
#[test]
fn an_edited_module_of_the_reference_is_noticed() {
    let python = std::env::var("KILN_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import torch"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: `{python}` has no PyTorch");
        return;
    }
    let project = project();
    project
        .replace("kiln.toml", "c = \"reference.c:rows\"", "python = \"reference.py:rows\"")
        .replace("kiln.toml", "[baseline]\n", "[budget]\ntrials = 2\n[baseline]\n")
        .write(
            "reference.py",
            "from helper import total\ndef rows(x, N, H, D): return total(x.reshape(N, H, D))[: N - 1]\n",
        )
        .write("helper.py", "def total(x): return x.sum(-1)\n");
    let tuned = project.run(&["tune"]);
    assert!(
        matches!(tuned.status.code(), Some(0 | 1 | 4)),
        "{}",
        text(&tuned.stderr)
    );
    let arguments = ["export", "--to", "json", "--unconfirmed", "--out"];
    let first = project.run(&[&arguments[..], &["before"]].concat());
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(!text(&first.stderr).contains("source files changed"));
    project.write("helper.py", "def total(x): return 2 * x.sum(-1)\n");
    let second = project.run(&[&arguments[..], &["after"]].concat());
    let said = text(&second.stderr);
    assert!(second.status.success(), "{said}");
    assert!(said.contains("source files changed since study"), "{said}");
}
