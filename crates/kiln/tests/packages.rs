//! Packages where nobody tuned, side by side in one program, and what is refused before one is written.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::exports::{FROM_FILE, export, facts, winners};
use common::{Project, succeed, text};
use serde_json::{Value, json};

fn compiled(folder: &Path, source: &str) -> String {
    fs::write(folder.join("main.cpp"), source).unwrap();
    let arguments = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", "main"];
    let mut compiler = Command::new("g++");
    compiler.args(arguments).arg("main.cpp");
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "a") {
            compiler.arg(path);
        }
    }
    succeed(compiler.arg("-lm").current_dir(folder));
    succeed(Command::new("./main").current_dir(folder))
}

/// The first two constraints cannot be worked out for one config at MODE 3 and at MODE 4, the third for no config at
/// MODE 5.
const BY_ZERO: &str = "[constraints]\n\
    rest = \"N % (MODE - 3 if UNROLL == 4 else 1) == 0\"\n\
    inverse = \"((MODE - 4) ** -1 if UNROLL == 4 else 1) > -5\"\n\
    never = \"N // (MODE - 5) < 100000\"\n";

const CPP_BY_ZERO: &str = r#"
#include <cstdio>
#include "facts.hpp"
int main() {
    for (long mode : {1L, 3L, 4L, 5L}) {
        try {
            std::printf("%ld: c%d\n", mode, facts::choose({1000, mode}).config);
        } catch (const kiln_export::Error &error) {
            std::printf("%ld: %s\n", mode, error.what());
        }
    }
}
"#;

const RUST_BY_ZERO: &str = r#"
use facts::*;
fn main() {
    for MODE in [1, 3, 4, 5] {
        match choose(&Dimensions { N: 1000, MODE }, |_| true) {
            Ok(choice) => println!("{MODE}: c{}", choice.config),
            Err(error) => println!("{MODE}: {error}"),
        }
    }
}
"#;

#[test]
fn a_constraint_that_cannot_be_worked_out_does_not_hold() {
    let project = facts();
    project.replace("kiln.toml", "[constraints]\n", BY_ZERO);
    export(&project, &["--to", "cpp", "--out", "cpp"]);
    export(&project, &["--to", "rust", "--out", "rust"]);
    let cpp = project.root.join("cpp");
    succeed(Command::new("sh").arg("build.sh").current_dir(&cpp));
    let told = compiled(&cpp, CPP_BY_ZERO);
    assert_eq!(
        told,
        "1: c0\n3: c1\n4: c1\n5: facts: no exported config is legal for these dimensions on this device\n"
    );
    let rust = project.root.join("rust");
    fs::write(rust.join("examples/main.rs"), RUST_BY_ZERO).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--quiet", "--offline", "--example", "main"])
        .current_dir(&rust)
        .env("CARGO_TARGET_DIR", project.root.join("target"))
        .env_remove("RUSTFLAGS");
    assert_eq!(succeed(&mut cargo), told);
}

#[test]
fn winners_that_nothing_can_have_measured_are_refused() {
    let project = facts();
    let listed = |change: &dyn Fn(&mut Value)| {
        let mut winners = winners();
        change(&mut winners[1]);
        project.write("winners.json", &winners.to_string());
        let more = ["--to", "json", "--out", "table", "--unconfirmed"];
        project.run(&[&FROM_FILE[..], &more].concat())
    };
    for (key, value, why) in [
        ("ratio_ci_95", json!([1.6, 1.4]), "low end lies above"),
        ("ratio", json!(1.7), "`ratio` = 1.7 lies outside"),
        ("ratio", json!(-1.5), "`ratio` is -1.5"),
        ("ratio", json!(0), "`ratio` is 0.0"),
        ("ratio_ci_95", json!([-1.0, 2.0]), "two numbers above 0"),
        ("ratio", Value::Null, "no `ratio` it belongs to"),
        ("time_us", json!(-3.0), "`time_us` is -3.0"),
        ("config", json!({}), "`config` is empty"),
    ] {
        let output = listed(&|winner| winner[key] = value.clone());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{key} = {value}: {said}");
        assert!(said.contains("winner 2 (shape `large`)"), "{said}");
        assert!(said.contains(why) && said.contains("hint:"), "{said}");
        assert!(!project.root.join("table").exists());
    }
    // JSON has no words for these.
    for number in ["NaN", "Infinity", "1e999"] {
        let text_of = winners().to_string().replace("1.4,", &format!("{number},"));
        project.write("winners.json", &text_of);
        let output = project.run(&[&FROM_FILE[..], &["--to", "json"]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{number}: {said}");
        assert!(said.contains("not a list of winners"), "{number}: {said}");
    }
    let honest = listed(&|_| {});
    assert!(honest.status.success(), "{}", text(&honest.stderr));
}

/// Whatever begins with a dot beside the packages.
fn hidden(project: &Project) -> Vec<String> {
    let entries = fs::read_dir(&project.root).unwrap().flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|n| n.starts_with(".kiln-export")).collect()
}

#[test]
fn an_export_that_cannot_be_finished_leaves_nothing() {
    let project = facts();
    let source = fs::read_to_string(project.root.join("facts.c")).unwrap();
    let long = format!("{source}\n/*{}*/\n", " ".repeat(1 << 20));
    project.write("facts.c", &long);
    let program = env!("CARGO_BIN_EXE_kiln");
    let arguments = "export --winners winners.json --manifest . --to json --out table";
    let limited = Command::new("sh")
        .args(["-c", &format!("ulimit -f 64; exec '{program}' {arguments}")])
        .current_dir(&project.root)
        .env("KILN_HOME", &project.home)
        .output()
        .unwrap();
    let said = text(&limited.stderr);
    assert_eq!(
        limited.status.code(),
        Some(3),
        "{:?}: {said}",
        limited.status
    );
    assert!(said.contains("File too large"), "{said}");
    assert_eq!(hidden(&project), [""; 0]);

    // What one left that was killed goes with the next; what is in use, or may be the only copy, stays.
    for (name, inside) in [
        (".kiln-export-killed", "source/facts.c"),
        (".kiln-export-in0use", "source/facts.c"),
        (".kiln-export-aside1", "old/kiln-package.json"),
        (".kiln-export-notes", "mine.txt"),
    ] {
        project.write(&format!("{name}/{inside}"), "left");
        let long_ago = Command::new("touch")
            .args(["-d", "1 hour ago", name])
            .current_dir(&project.root)
            .status();
        assert!(long_ago.unwrap().success());
    }
    project.write(".kiln-export-new123/source/facts.c", "just made");
    let in_use = fs::File::open(project.root.join(".kiln-export-in0use")).unwrap();
    in_use.lock().unwrap();
    let output = project.run(&arguments.split(' ').collect::<Vec<_>>());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(".kiln-export-aside1/old"), "{said}");
    let mut left = hidden(&project);
    left.sort();
    assert_eq!(
        left,
        [
            ".kiln-export-aside1",
            ".kiln-export-in0use",
            ".kiln-export-new123",
            ".kiln-export-notes",
        ]
    );
}

const BOTH_FILES: &str = r#"
#include <cstdio>
#include "first/facts.hpp"
#include "second/facts.hpp"
#include "other/more_facts.hpp"
int told_by_another_file();
namespace first = facts::FIRST;
namespace second = facts::SECOND;
int main() {
    kiln_export::Aligned<float> x(1000), y(1000);
    kiln_export::Aligned<int64_t> told(4);
    first::run({1000, 1}, x.data(), y.data(), told.data());
    std::printf("first %lld\n", (long long)told[3]);
    second::run({1000, 1}, x.data(), y.data(), told.data());
    std::printf("second %lld\n", (long long)told[3]);
    more_facts::run({1000, 1}, x.data(), y.data(), told.data());
    std::printf("other %lld\n", (long long)told[3]);
    std::printf("another file %d\n", told_by_another_file());
}
"#;

/// A file that knows of one package only, and need not say which.
const ANOTHER_FILE: &str = r#"
#include "second/facts.hpp"
int told_by_another_file() {
    kiln_export::Aligned<float> x(1000), y(1000);
    kiln_export::Aligned<int64_t> told(4);
    facts::run({1000, 1}, x.data(), y.data(), told.data());
    return int(told[3]);
}
"#;

#[test]
fn packages_live_side_by_side_in_one_program() {
    let project = facts();
    export(&project, &["--to", "cpp", "--out", "first"]);
    // Another answer, so that one package cannot pass for the other.
    project.replace("facts.c", "helper(7)", "helper(8)");
    export(&project, &["--to", "cpp", "--out", "second"]);
    project.replace("facts.c", "helper(8)", "helper(9)");
    project.replace("kiln.toml", "name = \"facts\"", "name = \"more_facts\"");
    export(&project, &["--to", "cpp", "--out", "other"]);
    let namespace = |package: &str, name: &str| {
        let header = project.root.join(package).join(format!("{name}.hpp"));
        let text = fs::read_to_string(header).unwrap();
        let line = text.lines().find(|l| l.starts_with("inline namespace "));
        line.unwrap().split(' ').nth(2).unwrap().to_string()
    };
    for package in ["first", "second", "other"] {
        let folder = project.root.join(package);
        succeed(Command::new("sh").arg("build.sh").current_dir(folder));
    }
    let both = BOTH_FILES
        .replace("FIRST", &namespace("first", "facts"))
        .replace("SECOND", &namespace("second", "facts"));
    project
        .write("both.cpp", &both)
        .write("another.cpp", ANOTHER_FILE);
    let arguments = "-std=c++17 -Wall -Wextra -Werror -o both both.cpp another.cpp \
                     first/libfacts.a second/libfacts.a other/libmore_facts.a -lm";
    let mut compiler = Command::new("g++");
    succeed(
        compiler
            .args(arguments.split_whitespace())
            .current_dir(&project.root),
    );
    let told = succeed(Command::new("./both").current_dir(&project.root));
    assert_eq!(told, "first 7\nsecond 8\nother 9\nanother file 8\n");
}

/// Two copies of a kernel in one file, each with the tunables of its shape.
#[test]
fn headers_of_two_shapes_serve_one_file() {
    let project = facts();
    export(&project, &["--to", "header", "--out", "headers"]);
    project.write(
        "both.c",
        "#include \"headers/facts.target.h\"\nint first(void) { return UNROLL * 10 + VALUE; }\n\
         #include \"headers/facts.large.h\"\nint second(void) { return UNROLL * 10 + VALUE; }\n\
         #include \"headers/facts.target.h\"\nint third(void) { return UNROLL * 10 + VALUE; }\n\
         int main(void) { return !(first() == 43 && second() == 25 && third() == 43); }\n",
    );
    let arguments = ["-Wall", "-Wextra", "-Werror", "-o", "both", "both.c"];
    succeed(
        Command::new("cc")
            .args(arguments)
            .current_dir(&project.root),
    );
    succeed(Command::new("./both").current_dir(&project.root));
}
