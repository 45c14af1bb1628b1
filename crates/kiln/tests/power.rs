//! Power loss at any moment: the store opens, is sound, and holds a prefix of history with every
//! event that was acknowledged; what the cache would use is what was compiled; a file written for the
//! user is the old one or the new one.
//!
//! The real binary runs on a recorded disk (`common/disk.rs`), and at a random moment the disk keeps what
//! was synced and any part of the rest (`common/power.rs`). `KILN_POWER_ROUNDS=500 cargo test --test
//! power` runs more.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use common::Project;
use common::disk::{Operation, Recorder};
use common::history::{History, holds, rows};
use common::power::Loss;
use flate2::read::GzDecoder;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

const RECORDING: &str = "study.kiln.json";

fn rounds(default: u64) -> u64 {
    std::env::var("KILN_POWER_ROUNDS").map_or(default, |r| r.parse().expect("a number"))
}

/// How much there is to store.
#[derive(Clone, Copy, PartialEq)]
enum Size {
    AsRecorded,
    /// Samples enough for SQLite to move its log into the database meanwhile.
    Large,
}

/// A real study.
fn recording(size: Size) -> String {
    let packed = common::repository().join("crates/kiln/tests/recordings/h200_anchor.kiln.json.gz");
    let mut text = String::new();
    GzDecoder::new(fs::File::open(packed).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    if size == Size::AsRecorded {
        return text;
    }
    let mut recording: Value = serde_json::from_str(&text).unwrap();
    for trial in recording["trials"].as_array_mut().unwrap() {
        if let Some(samples) = trial["outcome"]["samples_ns"].as_array_mut() {
            let once = samples.clone();
            *samples = std::iter::repeat_n(once, 700).flatten().collect();
        }
    }
    recording.to_string()
}

const REPLAY: &[&str] = &["tune", "--replay", RECORDING, "--events"];

/// A folder with the recording and nothing else.
fn empty_project(size: Size) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".git")).unwrap();
    fs::write(folder.path().join(RECORDING), recording(size)).unwrap();
    folder
}

/// Lets kiln open the store as the power left it.
fn open(project: &Project, recorder: &Recorder, root: &Path) -> Result<(), String> {
    let mut command = project.command(&["studies", "list", "--json"]);
    recorder.load(command.current_dir(root), root);
    let listed = command.output().unwrap();
    match listed.status.code() {
        Some(0) => Ok(()),
        code => Err(format!("exit {code:?}: {}", common::text(&listed.stderr))),
    }
}

#[test]
fn the_store_is_a_prefix_of_history() {
    let rounds = rounds(60);
    let recorder = Recorder::build();
    let project = Project::new();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut lost, mut recovered, mut absent, mut chain) = (0, 0, 0, 0);
    // The newest is the one whose history is being cut.
    let mut folders = Vec::new();
    let mut current = None;
    for round in 0..rounds {
        if round.is_multiple_of(20) {
            // From the beginning, every other time with much to store.
            let size = match round % 40 {
                0 => Size::AsRecorded,
                _ => Size::Large,
            };
            folders = vec![empty_project(size)];
            let first = History::make(&project, &recorder, folders[0].path(), REPLAY);
            assert_eq!(first.moves_its_log(), size == Size::Large);
            (chain, current) = (0, Some(first));
        }
        let history = current.as_ref().unwrap();
        let moment = history.draw_moment(&mut rng);
        let loss = Loss::draw(&mut rng);
        let context = format!(
            "round {round}, after {chain} recoveries, {loss:?} at {moment} of {}",
            history.operations.len()
        );
        let folder = history.cut(moment, loss, &mut rng);
        let acknowledged = history.acknowledged(moment);
        let path = folder.path().join(".kiln/kiln.db");
        absent += u64::from(!path.exists());
        let goes_on = rng.next_u32().is_multiple_of(4);
        if !goes_on {
            open(&project, &recorder, folder.path()).expect(&context);
            let stored = rows(&path).unwrap_or_default();
            let kept = history.check(&stored, &acknowledged).expect(&context);
            lost += u64::from(kept < history.rows.len());
            continue;
        }
        // kiln recovers, resumes and comes to its end. Later rounds cut that.
        let mut next = History::make(&project, &recorder, folder.path(), REPLAY);
        let common = next.rows.iter().zip(&history.rows);
        let kept = common.take_while(|(one, other)| one == other).count();
        holds(&next.rows[..kept], &acknowledged).expect(&context);
        let end = next.rows.last().unwrap();
        assert!(end.body.contains("study_finished"), "{context}");
        lost += u64::from(kept < history.rows.len());
        recovered += 1;
        chain += 1;
        next.earlier = acknowledged;
        folders.push(folder);
        current = Some(next);
    }
    println!(
        "{rounds} power losses: every store opens, is sound, a prefix of history, and holds what was acknowledged; \
         {lost} lost a later part, {absent} came before there was a store, {recovered} were recovered from \
         and that recovery cut"
    );
    assert!(lost > rounds / 4, "hardly anything was lost: {lost}");
}

/// The test must be able to fail: on a disk that only pretends to sync, it does.
#[test]
fn a_disk_that_lies_about_syncing_is_noticed() {
    let recorder = Recorder::build();
    let project = Project::new();
    let folder = empty_project(Size::AsRecorded);
    let mut history = History::make(&project, &recorder, folder.path(), REPLAY);
    for lie in ["files", "folders"] {
        let told = |operation: &Operation| match operation {
            Operation::Synced { .. } => lie != "files",
            Operation::FolderSynced { .. } => lie != "folders",
            _ => true,
        };
        let honest = history.operations.clone();
        history.operations.retain(told);
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let noticed = (0..20).any(|_| {
            let moment = history.draw_moment(&mut rng);
            let folder = history.cut(moment, Loss::draw(&mut rng), &mut rng);
            let acknowledged = history.acknowledged(moment);
            let path = folder.path().join(".kiln/kiln.db");
            let opened = open(&project, &recorder, folder.path());
            opened.is_err()
                || history
                    .check(&rows(&path).unwrap_or_default(), &acknowledged)
                    .is_err()
        });
        assert!(noticed, "a lie about {lie} was believed");
        history.operations = honest;
    }
}

/// `kiln tune` with a compiler: the store, and the cache beside it.
#[test]
fn the_cache_is_right_or_compiles_again() {
    let rounds = rounds(15);
    let recorder = Recorder::build();
    let project = Project::with_quick_kernel();
    // Project and home on one disk.
    let top = project.root.parent().unwrap();
    let arguments = ["tune", "--events", "--strategy", "random"];
    let history = History::make(&project, &recorder, top, &arguments);
    let true_images = files(&project.home.join("images-2/images"));
    assert!(true_images.len() >= 2 * 6, "{}", true_images.len());
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut sound, mut damaged) = (0, 0);
    // Of a few rounds all may come before the first image is on the disk, so there are more until one does not.
    for round in 0..rounds.max(100) {
        if round >= rounds && sound > 0 {
            break;
        }
        let moment = history.draw_moment(&mut rng);
        let loss = Loss::draw(&mut rng);
        let context = format!("round {round}, {loss:?} at {moment}");
        let folder = history.cut(moment, loss, &mut rng);
        let (root, home) = (folder.path().join("project"), folder.path().join("home"));
        open(&project, &recorder, &root).expect(&context);
        let stored = rows(&root.join(".kiln/kiln.db")).unwrap_or_default();
        let acknowledged = history.acknowledged(moment);
        history.check(&stored, &acknowledged).expect(&context);
        // What is damaged is found by the same look that serves compilations.
        let verified = project
            .command(&["cache", "verify"])
            .env("KILN_HOME", &home)
            .output()
            .unwrap();
        let said = common::text(&verified.stdout);
        assert_eq!(verified.status.code(), Some(0), "{context}: {said}");
        let number = |n: usize| said.split_whitespace().nth(n).unwrap().parse::<u64>();
        sound += number(0).unwrap();
        damaged += number(4).unwrap();
        let images = files(&home.join("images-2/images"));
        for (name, contents) in images.iter().filter(|(name, _)| name.ends_with(".so")) {
            assert!(true_images[name] == *contents, "{context}: {name}");
        }
        if round.is_multiple_of(10) {
            let again = project
                .command(&arguments)
                .current_dir(&root)
                .env("KILN_HOME", &home)
                .output()
                .unwrap();
            let said = common::text(&again.stderr);
            assert!(
                matches!(again.status.code(), Some(0 | 1 | 4)),
                "{context}: {said}"
            );
        }
    }
    println!("{rounds} power losses: {sound} images sound, {damaged} damaged and noticed, 0 wrong");
    // Of a few rounds none may hit an image while it is written.
    let is_seen = damaged > 0 || rounds < 100;
    assert!(sound > 0 && is_seen, "{sound} sound, {damaged} damaged");
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// What a gate compares with, as every file that kiln writes for its user.
#[test]
fn a_baseline_is_the_old_one_or_the_new_one() {
    let rounds = rounds(50);
    let recorder = Recorder::build();
    let project = Project::with_scale();
    let target = project.root.join("kiln.gate.toml");
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut old = None;
    let mut seen = [0, 0];
    for config in ["UNROLL=1", "UNROLL=2"] {
        let arguments = ["gate", "--record", "--force", "--config", config];
        let history = History::make(&project, &recorder, &project.root, &arguments);
        let new = fs::read(&target).unwrap();
        for round in 0..=rounds {
            // The last cut is after the program has ended.
            let moment = match round == rounds {
                true => history.operations.len(),
                false => history.draw_moment(&mut rng),
            };
            let loss = Loss::draw(&mut rng);
            let cut = history.cut(moment, loss, &mut rng);
            let found = fs::read(cut.path().join("kiln.gate.toml")).ok();
            let is_new = found.as_ref() == Some(&new);
            let context = format!("{config}, {loss:?} at {moment}");
            assert!(is_new || found == old, "{context}: neither old nor new");
            assert!(is_new || round < rounds, "{context}: lost in the end");
            seen[usize::from(is_new)] += 1;
        }
        old = Some(new);
    }
    println!(
        "twice {rounds} power losses: {} old baselines, {} new ones, no other",
        seen[0], seen[1]
    );
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}
