//! Files, folders and numbers as users have them: with a byte-order mark, a link in the way, a store that was emptied.
#![allow(clippy::unwrap_used)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use common::{Project, accepted, refused, repository, text};
use serde_json::json;

const MARK: &str = "\u{feff}";
const FAULTS: &str = "crates/kiln/tests/recordings/h200_faults.kiln.json.gz";

#[test]
fn a_byte_order_mark_is_no_part_of_a_file() {
    let project = Project::with("crates/kiln/tests/export");
    let marked = |name: &str| {
        let path = project.root.join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{MARK}{text}")).unwrap();
    };
    marked("kiln.toml");
    accepted(&project, &["check"]);
    let winners = json!([{"shape": "target", "config": {"UNROLL": 4, "VALUE": 3, "EVEN": 0}, "ratio": 1.25,
        "ratio_ci_95": [1.2, 1.3], "device": "test", "date": "2026-11-15"}]);
    project.write("winners.json", &winners.to_string());
    marked("winners.json");
    let export = ["export", "--winners", "winners.json", "--manifest", "."];
    accepted(&project, &[&export[..], &["--to", "json"]].concat());

    let table = repository().join("crates/kiln-core/tests/profiles/h200_bottlenecks.csv");
    fs::copy(table, project.root.join("all.csv")).unwrap();
    let before = accepted(&project, &["profile", "--import", "all.csv", "--json"]);
    marked("all.csv");
    let after = accepted(&project, &["profile", "--import", "all.csv", "--json"]);
    assert_eq!(after, before);

    project.write("lessons.toml", &format!("{MARK}version = 9\n"));
    let said = refused(&project, &["lessons", "import", "lessons.toml"], 2);
    assert!(said.contains("a newer kiln wrote it"), "{said}");
}

#[test]
fn a_link_stops_only_the_report_that_it_is_in_the_way_of() {
    let project = Project::new();
    let recording = repository().join(FAULTS);
    let recording = recording.to_str().unwrap();
    for _ in 0..2 {
        project.json(&["tune", "--replay", recording, "--json"], &[0, 1, 4]);
    }
    let reports = project.root.join(".kiln/reports");
    accepted(&project, &["report", "2"]);
    let link = reports.join("study-1.html");
    symlink(project.root.join("elsewhere.html"), &link).unwrap();
    let said = refused(&project, &["report", "1"], 3);
    assert!(said.contains("study-1.html` is a link to"), "{said}");
    assert!(said.contains("--out FILE"), "{said}");
    assert!(!project.root.join("elsewhere.html").exists());
    accepted(&project, &["report", "2"]);
    accepted(&project, &["report", "1", "--out", "mine.html"]);
    accepted(&project, &["report", "1", "--format", "md"]);
    // The whole folder.
    fs::remove_dir_all(&reports).unwrap();
    symlink(&project.home, &reports).unwrap();
    accepted(&project, &["report", "1", "--out", "mine.html", "--force"]);
    accepted(&project, &["report", "2", "--format", "json"]);
    let said = refused(&project, &["report", "2"], 3);
    assert!(said.contains("reports` is a link to"), "{said}");
    assert!(said.contains("--out FILE"), "{said}");
}

#[test]
fn an_emptied_store_is_not_one_that_never_was() {
    let project = Project::new();
    let said = refused(&project, &["report"], 2);
    assert!(said.contains("no studies here yet"), "{said}");
    let recording = repository().join(FAULTS);
    let tune = ["tune", "--replay", recording.to_str().unwrap(), "--json"];
    project.json(&tune, &[0, 1, 4]);
    let store = project.root.join(".kiln/kiln.db");
    fs::write(&store, "").unwrap();
    for verb in [&["report"][..], &["explain"], &["export", "--to", "json"]] {
        let said = refused(&project, verb, 2);
        assert!(said.contains("kiln.db` is empty (0 bytes)"), "{said}");
        assert!(said.contains("something emptied it"), "{said}");
    }
    let listed = project.run(&["studies", "list"]);
    let said = text(&listed.stderr);
    assert!(said.contains("kiln.db` is empty (0 bytes)"), "{said}");
    assert_eq!(
        fs::metadata(&store).unwrap().len(),
        0,
        "it is only looked at"
    );
    // kiln may have been stopped right after SQLite made the file: that is no damage, and the next study goes into it.
    project.json(&tune, &[0, 1, 4]);
    assert!(accepted(&project, &["studies", "list"]).contains('1'));

    // With a log beside it there were studies, and opening it would take them away for good.
    fs::write(&store, "").unwrap();
    let log = project.root.join(".kiln/kiln.db-wal");
    fs::write(&log, "pages").unwrap();
    for verb in [&tune[..], &["report"], &["studies", "list"]] {
        let said = refused(&project, verb, 3);
        assert!(said.contains("is damaged"), "{said}");
        assert!(
            said.contains("kiln.db-wal` beside it has 5 bytes"),
            "{said}"
        );
    }
    assert_eq!(fs::read(&log).unwrap(), b"pages");
}

#[test]
fn an_expected_speedup_is_one_that_can_be() {
    let project = Project::with_scale();
    for expected in ["1e300", "1000.1", "0", "-2", "NaN", "inf", "ten"] {
        let expect = format!("--expect={expected}");
        let output = project.run(&["iterate", "--hypothesis", "less work", &expect]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{expected}: {said}");
        assert!(
            said.contains("above 0 and up to 1000: 1.10 is 10 % faster"),
            "{said}"
        );
        assert!(said.len() < 500, "{said}");
    }
}

/// A folder from a time before UTF-8: what needs compilers and studies says so, what only looks works.
#[test]
fn folders_whose_names_are_not_utf_8() {
    let old_name = OsStr::from_bytes(b"caf\xe9");
    let project = Project::with("kernels/vector_add");
    let recording = repository().join(FAULTS);
    let recording = recording.to_str().unwrap();
    project.json(&["tune", "--replay", recording, "--json"], &[0, 1, 4]);
    let moved = project.root.with_file_name(old_name);
    fs::rename(&project.root, &moved).unwrap();
    let run = |arguments: &[&str], home: &Path| -> Output {
        let mut command = project.command(arguments);
        let output = command.current_dir(&moved).env("KILN_HOME", home).output();
        let output = output.unwrap();
        assert!(!text(&output.stderr).contains("panicked"), "{arguments:?}");
        output
    };
    let files = || fs::read_dir(&moved).unwrap().count();
    let before = files();
    for arguments in [
        &["tune", "--trials", "2"][..],
        &["check"],
        &["check", "--admit"],
        &["init", "vector_add.c", "--force"],
        &["compare", "baseline", "baseline"],
        &["gate", "--record"],
    ] {
        let output = run(arguments, &project.home);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("is not in UTF-8"), "{arguments:?}: {said}");
        assert!(said.contains("hint: rename"), "{arguments:?}: {said}");
    }
    assert_eq!(files(), before, "nothing was written");
    // A replayed study has no winner to export; either way nothing panics and something is said.
    let output = run(&["export", "--to", "json"], &project.home);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("hint: "));

    for arguments in [
        &["studies", "list"][..],
        &["studies", "show", "1"],
        &["report", "1", "--format", "md"],
        &["explain", "1"],
    ] {
        let output = run(arguments, &project.home);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
    let output = run(&["report", "1"], &project.home);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = output.stdout.strip_suffix(b"\n").unwrap();
    assert!(
        moved.join(OsStr::from_bytes(page)).is_file(),
        "{}",
        text(page)
    );

    // Of a cache and of a recording.
    let plain = Project::with("kernels/vector_add");
    let output = plain
        .command(&["check", "--admit"])
        .env("KILN_HOME", plain.home.with_file_name(old_name))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("is not in UTF-8") && said.contains("KILN_HOME"),
        "{said}"
    );
    fs::copy(
        recording,
        plain.root.join(OsStr::from_bytes(b"caf\xe9.kiln.json.gz")),
    )
    .unwrap();
    let output = plain
        .command(&["tune", "--replay"])
        .arg(OsStr::from_bytes(b"caf\xe9.kiln.json.gz"))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is not in UTF-8"), "{said}");
}
