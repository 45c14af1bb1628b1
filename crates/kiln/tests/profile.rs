//! `kiln profile` as a user without a GPU meets it: tables made elsewhere, and what it says when it cannot.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, repository, text};

const TABLE: &str = "crates/kiln-core/tests/profiles/h200_bottlenecks.csv";

/// A project with a table of all kernels, and one of `bank_conflicts` alone.
fn project() -> Project {
    let project = Project::new();
    let table = std::fs::read_to_string(repository().join(TABLE)).unwrap();
    let head = table.lines().take(2);
    let row = table
        .lines()
        .find(|l| l.contains("\"bank_conflicts_slow\""));
    let one: Vec<&str> = head.chain(row).collect();
    project.write("all.csv", &table).write(
        "one.csv",
        &format!("==PROF== Connected\n{}\n", one.join("\n")),
    );
    project
}

#[test]
fn a_table_from_elsewhere_is_judged_kernel_by_kernel() {
    let project = project();
    let document = project.json(&["profile", "--import", "all.csv", "--json"], &[0]);
    assert_eq!(document["schema_version"], 1);
    let profiles = document["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 21);
    let of = |kernel: &str| {
        let named = |p: &&serde_json::Value| p["kernels"][0]["kernel"] == kernel;
        profiles.iter().find(named).unwrap()
    };
    for (kernel, class, cause) in [
        ("uncoalesced_slow", "memory", "uncoalesced"),
        ("divergence_slow", "compute", "divergence"),
        ("launch_slow", "launch", "launches"),
        (
            "shared_occupancy_slow",
            "occupancy",
            "shared_memory_per_block",
        ),
        ("tensor_slow", "compute", "tensor"),
    ] {
        let profile = of(kernel);
        assert_eq!(profile["class"], class, "{kernel}");
        assert_eq!(profile["cause"], cause, "{kernel}");
        assert!(
            !profile["diagnosis"]["evidence"]
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
    let advice = &of("barriers_slow")["diagnosis"]["advice"][0];
    assert_eq!(advice["rule"], "synchronise-less");
    let gain = advice["predicted_gain"].as_f64().unwrap();
    assert!((4.0..6.0).contains(&gain), "{gain}");
}

#[test]
fn a_manifest_gives_advice_its_tunables() {
    let project = project();
    for name in ["kiln.toml", "kernel.cu", "reference.cu"] {
        let from = repository()
            .join("kernels/bottlenecks/bank_conflicts")
            .join(name);
        project.write(name, &std::fs::read_to_string(from).unwrap());
    }
    let output = project.run(&["profile", ".", "--config", "PAD=0", "--import", "one.csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    insta::assert_snapshot!("bank_conflicts", text(&output.stdout));

    let output = project.run(&["profile", ".", "--config", "PADS=0", "--import", "one.csv"]);
    assert_eq!(output.status.code(), Some(2));
    let talk = text(&output.stderr);
    assert!(talk.contains("has no tunable `PADS`"), "{talk}");
}

#[test]
fn a_profile_is_stored_with_its_study() {
    let project = Project::with_quick_kernel();
    project.json(&["tune", "--trials", "2", "--json"], &[0, 1, 4]);
    let table = std::fs::read_to_string(repository().join(TABLE)).unwrap();
    project.write("all.csv", &table);
    let output = project.run(&["profile", "1", "--import", "all.csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("stored in study 1"));
    let shown = project.json(&["studies", "show", "1", "--json"], &[0]);
    assert_eq!(shown["profiles"].as_array().unwrap().len(), 21);
    assert_eq!(shown["finished"], true);
    // And a report of that study tells it.
    let output = project.run(&["report", "1", "--out", "report.html"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(project.root.join("report.html")).unwrap();
    let binds = page.split("id=\"binds\"").nth(1).unwrap();
    assert!(binds.contains("bank conflicts in shared memory"), "{binds}");
    assert!(binds.contains("(up to "), "{binds}");
}

#[test]
fn what_cannot_be_profiled_is_said() {
    let project = project();
    project.write("torn.csv", "\"ID\",\"Kernel Name\"\n\"\",\"\"\n");
    let says = |arguments: &[&str], code: i32| {
        let output = project.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let talk = says(&["profile", "--import", "torn.csv"], 2);
    assert!(talk.contains("no profiled launch"), "{talk}");
    assert!(talk.contains("--page raw"), "{talk}");
    let talk = says(&["profile", "--import", "absent.csv"], 2);
    assert!(talk.contains("absent.csv"), "{talk}");
    let talk = says(&["profile", "7"], 2);
    assert!(talk.contains("no studies here yet"), "{talk}");
    let talk = says(&["profile"], 2);
    assert!(talk.contains("there is no kiln.toml here"), "{talk}");
    says(&["profile", "--import", "all.csv", "--ceilings"], 2);

    let cpu = Project::with("kernels/vector_add");
    let output = cpu.run(&["profile", "."]);
    assert_eq!(output.status.code(), Some(2));
    let talk = text(&output.stderr);
    assert!(talk.contains("C kernel without [stages]"), "{talk}");
    let output = project.run(&["profile", "--import", "all.csv", "--stages"]);
    assert_eq!(output.status.code(), Some(2));
    let cuda = Project::with("kernels/bottlenecks/launch");
    let output = cuda.run(&["profile", ".", "--stages"]);
    assert_eq!(output.status.code(), Some(2));
    let talk = text(&output.stderr);
    assert!(talk.contains("has no [stages]"), "{talk}");
}

#[test]
fn without_a_gpu_it_says_so() {
    let project = Project::with("kernels/bottlenecks/launch");
    for arguments in [&["profile", "."][..], &["profile", "--ceilings"]] {
        let output = project.run(arguments);
        if output.status.code() == Some(0) {
            println!("there is a GPU: {}", text(&output.stdout));
            continue;
        }
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("kiln doctor"));
        assert!(output.stdout.is_empty());
    }
}

/// No escape sequence of a kernel's name reaches a terminal.
#[test]
fn names_in_a_table_are_only_text() {
    let project = project();
    let table = std::fs::read_to_string(project.root.join("one.csv")).unwrap();
    project.write(
        "evil.csv",
        &table.replace("bank_conflicts_slow", "k\u{1b}[2Jx\u{7}"),
    );
    let mut both = table.clone();
    let row = table.lines().last().unwrap();
    both.push_str(&row.replace("bank_conflicts_slow", "k\u{1b}[2Jx"));
    both.push('\n');
    project.write("both.csv", &both);
    for file in ["evil.csv", "both.csv"] {
        let output = project.run(&["profile", "--import", file]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(!text(&output.stdout).contains('\u{1b}'));
    }
}
