//! What stands behind the configs of a package: only confirmed winners are exported unasked, and every target says what is not
//! confirmed.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::exports::{FROM_FILE, facts, refused};
use common::{Project, succeed, text};
use serde_json::json;

/// Where a package says what stands behind a config: the target, the file and how it is written there, and the file that
/// has a sentence about all of them.
const SAID_IN: [(&str, &str, &str, &str); 5] = [
    ("header", "NAME.h", ", WORD; ", "NAME.h"),
    ("cpp", "NAME.hpp", ", \"WORD\", ", "NAME.hpp"),
    ("rust", "src/lib.rs", "standing: \"WORD\"", "src/lib.rs"),
    (
        "torch",
        "_table.py",
        "\"standing\": \"WORD\"",
        "__init__.py",
    ),
    ("json", "README.md", " | WORD | ", "README.md"),
];

fn every_target_says(project: &Project, from: &[&str], name: &str, word: &str, sentence: &str) {
    for (target, with_word, written, with_sentence) in SAID_IN {
        let out = ["--to", target, "--out", "said", "--force"];
        succeed(&mut project.command(&[from, &out].concat()));
        for (file, wanted) in [
            (with_word, written.replace("WORD", word)),
            (with_sentence, sentence.to_string()),
        ] {
            let file = project.root.join("said").join(file.replace("NAME", name));
            let said = fs::read_to_string(&file).unwrap();
            assert!(said.contains(&wanted), "{}: {said}", file.display());
        }
    }
}

#[test]
fn every_target_says_what_a_file_only_claims() {
    let project = facts();
    let winners = json!([{"shape": "target", "config": {"UNROLL": 4, "VALUE": 3, "EVEN": 0}, "ratio": 1.25,
                          "ratio_ci_95": [1.2, 1.3], "device": "test", "date": "2026-11-15"}]);
    project.write("winners.json", &winners.to_string());
    let claimed = "as claimed by the file it comes from; kiln did not see it.";
    every_target_says(&project, &FROM_FILE, "facts", "claimed", claimed);
    project.write("winners.json", &winners.to_string().replace("1.2,", "0.9,"));
    let from = [&FROM_FILE[..], &["--unconfirmed"]].concat();
    let open = "Not every config was confirmed";
    every_target_says(&project, &from, "facts", "NOT confirmed", open);
    // And so does what is said of a package where it is used, shape by shape.
    for (depth, wanted) in [
        ("--files", "note      shape `target`: NOT confirmed"),
        (
            "--answers",
            "target  right  1.25x where it was tuned  NOT confirmed",
        ),
    ] {
        let output = project.run(&["verify", "said", depth]);
        let said = text(&output.stdout);
        assert!(said.contains(wanted), "{depth}: {said}");
    }
}

#[test]
fn only_confirmed_winners_go_out_unasked() {
    let project = Project::with_scale();
    // Far more work to beat, so that confirming takes no luck.
    project.write("slow.c", &common::scale_source(12)).replace(
        "kiln.toml",
        "c = \"scale.c:scale\"",
        "c = \"slow.c:scale\"\n[confirm]\nsamples = 20\nrounds = 2\nunseen_shapes = 0",
    );
    let none = refused(&project, &["export", "--to", "json"]);
    assert!(none.contains("no studies here yet"), "{none}");
    project.json(&["tune", "--trials", "2", "--seed", "1", "--json"], &[0]);
    let told = project.json(
        &["export", "--to", "json", "--out", "first", "--json"],
        &[0],
    );
    assert_eq!(told["confirmed"], true);
    let evidence = &told["dispatch"][0]["evidence"];
    assert_eq!(
        (evidence["from"].as_str(), evidence["verdict"].as_str()),
        (Some("study 1"), Some("FASTER"))
    );
    let won = "Every config won a confirmation on its shape.";
    every_target_says(&project, &["export"], "scale", "confirmed", won);
    // The manifest too is what it won with; notes and further shapes are not part of that.
    let manifest = fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    let edited = |from: &str, to: &str| {
        assert!(manifest.contains(from), "{manifest}");
        project.write("kiln.toml", &manifest.replace(from, to));
        project.run(&["export", "--to", "json", "--out", "edited", "--force"])
    };
    for (from, to, why) in [
        (
            "value = \"N\"",
            "value = \"N - 1\"",
            "the arguments in `kiln.toml` changed since study 1",
        ),
        ("-O2", "-O0", "the flags and the baseline in"),
        (
            "[reference]",
            "[tolerance]\nf32 = { rtol = 1e-2 }\n[reference]",
            "the tolerance in",
        ),
        ("N = 20000", "N = 30000", "the dimensions of shape `target`"),
    ] {
        let output = edited(from, to);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains(why), "{to}: {said}");
    }
    let harmless = edited(
        "[reference]",
        "# A note.\n[shapes.more]\nuse = \"sweep\"\nN = 64\n[reference]",
    );
    assert!(harmless.status.success(), "{}", text(&harmless.stderr));
    project.write("kiln.toml", &manifest);
    // Edited since: what won is not what is there.
    project.write("scale.c", &format!("// later\n{}", common::scale_source(1)));
    let changed = refused(
        &project,
        &["export", "1", "--to", "json", "--out", "second"],
    );
    assert!(
        changed.contains("source files changed since study 1"),
        "{changed}"
    );
    let told = project.json(
        &[
            "export",
            "1",
            "--to",
            "json",
            "--out",
            "second",
            "--unconfirmed",
            "--json",
        ],
        &[0],
    );
    assert_eq!(told["confirmed"], false);
    assert!(
        told["notes"][0].as_str().unwrap().contains("changed"),
        "{told}"
    );
    // A study in which nothing beat the baseline has no winner.
    project.replace("kiln.toml", "slow.c:scale", "scale.c:scale");
    project.json(&["tune", "--trials", "2", "--seed", "1", "--json"], &[1, 4]);
    let lost = refused(&project, &["export", "2", "--to", "json", "--out", "third"]);
    assert!(lost.contains("has no confirmed winner"), "{lost}");
}
