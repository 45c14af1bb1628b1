//! A full disk stops kiln with a clear error and exit code 3; nothing is half-recorded, and once there
//! is space it goes on where it stopped.
//!
//! The disk fails at the k-th operation, for many k (`common/disk.rs`); `KILN_FULL_ROUNDS=500 cargo test
//! --test full_disk` tries more of them.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use common::disk::{Fault, Operation, Recorder};
use common::{Project, text};
use serde_json::Value;

fn rounds(default: u64) -> u64 {
    std::env::var("KILN_FULL_ROUNDS").map_or(default, |r| r.parse().expect("a number"))
}

const RECORDING: &str = "h200_anchor.kiln.json.gz";
const REPLAY: &[&str] = &["tune", "--replay", RECORDING, "--events"];

/// A project with a recording; a replay needs no compiler and stores as every study does.
fn project() -> Project {
    let project = Project::new();
    let recordings = common::repository().join("crates/kiln/tests/recordings");
    fs::copy(recordings.join(RECORDING), project.root.join(RECORDING)).unwrap();
    project
}

const TUNE: &[&str] = &["tune", "--events", "--strategy", "random"];

/// The error says what and where, a hint says what next, and nothing in it is for programmers.
fn assert_clear(output: &Output, context: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{context}\n{said}");
    let error = said.rfind("error: ").expect("an error");
    let (error, hints) = said[error..].split_once('\n').unwrap_or_default();
    assert!(error.contains('`'), "{context}: where?\n{said}");
    assert!(hints.contains("hint: "), "{context}: what next?\n{said}");
    assert!(!said.contains("panicked"), "{context}\n{said}");
}

/// Events of a sound store, in order.
fn events(store: &Path, context: &str) -> Vec<Value> {
    if !store.exists() {
        return Vec::new();
    }
    let store = rusqlite::Connection::open(store).unwrap();
    let sound = store.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(sound.unwrap(), "ok", "{context}");
    let Ok(mut statement) = store.prepare("SELECT body FROM events ORDER BY sequence") else {
        // There was no space for the tables.
        return Vec::new();
    };
    let rows = statement.query_map([], |row| row.get::<_, String>(0));
    rows.unwrap()
        .map(|body| serde_json::from_str(&body.unwrap()).unwrap())
        .collect()
}

fn shown(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout);
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    events.collect()
}

/// What a resumed run adds without showing it.
fn without_resumptions(events: Vec<Value>) -> Vec<Value> {
    let told = events.into_iter().filter(|e| e["event"] != "resumed");
    told.collect()
}

#[test]
fn a_full_disk_ends_a_study_and_space_continues_it() {
    let recorder = Recorder::build();
    let measured = project();
    let (operations, code) = recorder.record(
        measured.command(REPLAY).current_dir(&measured.root),
        &measured.root,
    );
    assert!(matches!(code, Some(0 | 1 | 4)));
    let count = |wanted: fn(&Operation) -> bool| operations.iter().filter(|o| wanted(o)).count();
    let takes_space =
        count(|o| !matches!(o, Operation::Synced { .. } | Operation::FolderSynced { .. })) as u64;
    let syncs =
        count(|o| matches!(o, Operation::Synced { .. } | Operation::FolderSynced { .. })) as u64;
    let rounds = rounds(45);
    let (mut stopped, mut unharmed) = (0, 0);
    for round in 0..rounds {
        // The first operations one by one, for making the store is where most can go wrong; the
        // others evenly, and a little beyond the last.
        let (step, steps) = (round / 3, rounds.div_ceil(3));
        let nth = |all: u64| match step < 8 {
            true => 1 + step,
            false => 8 + (step - 7) * all / (steps - 8),
        };
        let fault = match round % 3 {
            0 => Fault::Full(nth(takes_space)),
            1 => Fault::FullForGrowth(nth(takes_space)),
            _ => Fault::Sync(nth(syncs)),
        };
        let context = format!("{fault:?}");
        let project = project();
        let mut command = project.command(REPLAY);
        recorder.fail(&mut command, &project.root, fault);
        let output = command.output().unwrap();
        let store = project.root.join(".kiln/kiln.db");
        if output.status.code() == Some(3) {
            assert_clear(&output, &context);
            stopped += 1;
        } else {
            // It failed where it does no harm: when the log is tidied away in the end, or never.
            assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{context}");
            unharmed += 1;
        }
        // All that was shown is there, and nothing else but what could not be shown any more. The
        // store is read as a copy: the next run is to find it as it is.
        let copy = tempfile::tempdir().unwrap();
        for file in ["kiln.db", "kiln.db-wal"] {
            let _ = fs::copy(
                project.root.join(".kiln").join(file),
                copy.path().join(file),
            );
        }
        let stored = events(&copy.path().join("kiln.db"), &context);
        let seen = shown(&output);
        assert!(
            stored.starts_with(&seen),
            "{context}: {} of {}",
            stored.len(),
            seen.len()
        );
        // An append whose sync failed may be there or not; nobody was told.
        assert!(stored.len() <= seen.len() + 1, "{context}");
        // With space, the same study comes to its end.
        let mut command = project.command(REPLAY);
        recorder.load(&mut command, &project.root);
        let again = command.output().unwrap();
        let said = text(&again.stderr);
        assert!(
            matches!(again.status.code(), Some(0 | 1 | 4)),
            "{context}: {said}"
        );
        let all = without_resumptions(events(&store, &context));
        assert!(all.starts_with(&stored), "{context}");
        let trials = |events: &[Value]| -> Vec<Value> {
            let finished = events.iter().filter(|e| e["event"] == "trial_finished");
            finished.map(|e| e["number"].clone()).collect()
        };
        let numbers: Vec<Value> = (1..=72).map(Value::from).collect();
        assert_eq!(trials(&all)[..72], numbers, "{context}");
    }
    println!(
        "{rounds} disks: {stopped} stopped kiln with a clear error, {unharmed} failed too late to matter"
    );
    assert!(stopped > rounds * 2 / 3, "{stopped} of {rounds}");
}

/// No space for what the compilers make; the store is on another disk.
#[test]
fn a_full_cache_is_an_error_and_no_outcome() {
    let recorder = Recorder::build();
    let project = Project::with_quick_kernel();
    for after in [1, 3, 6, 10, 15] {
        let context = format!("full after {after}");
        let mut command = project.command(TUNE);
        recorder.fail(&mut command, &project.home, Fault::Full(after));
        let output = command.output().unwrap();
        if output.status.code() != Some(3) {
            // The cache was warm enough by then.
            assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{context}");
            continue;
        }
        assert_clear(&output, &context);
        let stored = events(&project.root.join(".kiln/kiln.db"), &context);
        let failed = stored
            .iter()
            .filter(|e| e["event"] == "trial_finished" && e["outcome"]["kind"] == "not_compiled");
        assert_eq!(
            failed.count(),
            0,
            "{context}: taken for the candidate's fault"
        );
    }
    let output = project.run(TUNE);
    assert!(
        matches!(output.status.code(), Some(0 | 1 | 4)),
        "{}",
        text(&output.stderr)
    );
}

/// As with every file that kiln writes for its user.
#[test]
fn a_manifest_that_cannot_be_replaced_stays() {
    let recorder = Recorder::build();
    let project = Project::new();
    project
        .write(
            "scale.c",
            "void scale(const float *x, float *y, int n) {}\n",
        )
        .write("kiln.toml", "# mine\n");
    let init = ["init", "scale.c", "--force"];
    for fault in [Fault::Full(1), Fault::Full(2), Fault::Sync(1)] {
        let mut command = project.command(&init);
        recorder.fail(&mut command, &project.root, fault);
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{fault:?}: {said}");
        assert!(said.contains("error: cannot write `kiln.toml`: "), "{said}");
        let kept = fs::read_to_string(project.root.join("kiln.toml")).unwrap();
        assert_eq!(kept, "# mine\n", "{fault:?}");
        // Git's folder, the source and the manifest: nothing half-written stays.
        assert_eq!(fs::read_dir(&project.root).unwrap().count(), 3, "{fault:?}");
    }
    let output = project.run(&init);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// A compiler in place of the real one, which it calls until a file says that the disk is full.
fn compiler(project: &Project, complaint: &str) -> String {
    let path = project.root.join("cc.sh");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *-shared*) if [ -e {}/full ]; then {complaint}; fi;; esac\nexec cc \"$@\"\n",
        project.root.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_compiler_without_space_says_nothing_about_a_candidate() {
    for complaint in [
        "echo '/tmp/x.s: error writing to: No space left on device' >&2; exit 1",
        "echo 'collect2: error: ld: final link failed: Disk quota exceeded' >&2; exit 1",
    ] {
        let project = Project::with_quick_kernel();
        let compiler = compiler(&project, complaint);
        let tune = |arguments: &[&str]| {
            let mut command: Command = project.command(arguments);
            command.env("KILN_CC", &compiler).output().unwrap()
        };
        // What is compiled for the baseline comes from the cache later.
        let checked = tune(&["check"]);
        assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
        project.write("full", "");
        let output = tune(TUNE);
        assert_clear(&output, complaint);
        let said = text(&output.stderr);
        assert!(
            said.contains("the compiler ran out of disk space in `"),
            "{said}"
        );
        fs::remove_file(project.root.join("full")).unwrap();
        let output = tune(TUNE);
        assert!(
            matches!(output.status.code(), Some(0 | 1 | 4)),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn output_to_a_full_disk_is_an_error() {
    let project = project();
    let to_full = |arguments: &[&str]| {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        project.command(arguments).stdout(full).output().unwrap()
    };
    for arguments in [
        REPLAY,
        &["tune", "--replay", RECORDING, "--json"],
        &["tune", "--replay", RECORDING],
        &["studies", "list"],
        &["studies", "show", "--json"],
        &["schema"],
    ] {
        let output = to_full(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}\n{said}");
        assert!(
            said.contains("error: cannot write to standard output: No space left on device"),
            "{arguments:?}\n{said}"
        );
        assert!(said.contains("hint: the disk is full"), "{said}");
    }
    // A reader that has seen enough is no error.
    let mut child = project
        .command(&["tune", "--replay", RECORDING, "--fresh", "--events"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 1 | 4)));
}
