//! One suite that every store passes.

use kiln_core::event::{Confirmation, Event, Identity, SpaceFacts, StopReason, StudyHeader};
use kiln_core::journal::{DoctorRun, Entry};
use kiln_core::protocol::DeviceInfo;
use kiln_core::trial::{Measurement, Outcome, Phase, SampleStop, Spent, Trial};
use kiln_core::value::Value;

use super::{SqliteStore, Store};

fn started(kernel: &str) -> Event {
    let part = || "x".to_string();
    Event::StudyStarted(Box::new(StudyHeader {
        kernel: kernel.into(),
        manifest: "kiln.toml".into(),
        manifest_text: "[kernel]\n".into(),
        replayed_from: Some("x.kiln.json".into()),
        shape: "target".into(),
        dimensions: vec![("N".into(), 7)],
        identity: Identity {
            manifest: part(),
            sources: part(),
            space: part(),
            device: part(),
            compiler: part(),
            strategy: part(),
            recording: part(),
        },
        seed: i64::MAX as u64,
        secret: u64::MAX,
        strategy: "tpe".into(),
        earlier: None,
        doubts: Vec::new(),
        compilers: None,
        batch: 4,
        target_speedup: 1.1,
        price_per_hour: None,
        flops: Some(1e9),
        bytes: None,
        sandbox: None,
        device: DeviceInfo {
            kind: "cpu".into(),
            name: "test".into(),
            cores: 2,
            memory_bytes: 1 << 40,
            environment: vec![("load".into(), "0.1".into())],
            cuda: None,
        },
        space: SpaceFacts {
            cartesian: u128::MAX.to_string(),
            valid: None,
            removed: Vec::new(),
        },
        admission: None,
        created_unix_ms: 1,
        kiln_version: "0".into(),
    }))
}

fn trial(number: u64, outcome: Outcome) -> Event {
    Event::TrialFinished(Box::new(Trial {
        number,
        config: vec![
            ("A".into(), Value::Int(-3)),
            ("B".into(), Value::Bool(true)),
            ("C".into(), Value::Float(0.1)),
            ("D".into(), Value::Text("1".into())),
        ],
        outcome,
        skipped_shapes: vec!["odd".into()],
        compile: None,
        run_ms: 0.1 + 0.2,
        spent: Some(Spent {
            waiting_ms: 0.25,
            checking_ms: 1.0,
            timing_ms: 2.5,
        }),
    }))
}

fn measured() -> Outcome {
    Outcome::Measured(Measurement {
        samples_ns: vec![1.0 / 3.0, 2e-9, 123_456_789.123_456_78],
        batch: 3,
        stop: SampleStop::Precise,
        error_ratio: 0.5,
        conditions: None,
    })
}

fn history() -> Vec<Event> {
    vec![
        Event::BaselineMeasured {
            label: "base".into(),
            outcome: measured(),
        },
        trial(1, measured()),
        trial(
            2,
            Outcome::TimedOut {
                phase: Phase::Check,
                after_ms: 5,
            },
        ),
        Event::Resumed {
            kiln_version: "0".into(),
            sandbox: None,
        },
        Event::SearchFinished {
            stop: StopReason::Trials,
        },
        Event::Confirmed(Box::new(Confirmation {
            playoff: Vec::new(),
            dropped: Vec::new(),
            winner: None,
        })),
        Event::StudyFinished,
    ]
}

/// What every store must do. `reopen` opens the same store again, as another process would.
fn conforms<S: Store>(mut reopen: impl FnMut() -> S) {
    let mut store = reopen();
    assert!(store.studies().unwrap().is_empty());
    assert!(store.study(1).is_err());

    let first = store.create(&started("one")).unwrap();
    let second = store.create(&started("two")).unwrap();
    assert!(second > first, "numbers grow");
    assert!(
        store.create(&Event::StudyFinished).is_err(),
        "a study begins with its header"
    );

    for (wall_ms, event) in history().iter().enumerate() {
        store.append(first, wall_ms as u64, event).unwrap();
    }
    store.append(second, 9, &trial(1, measured())).unwrap();

    for store in [store, reopen()] {
        let study = store.study(first).unwrap();
        assert_eq!(study.header.kernel, "one");
        assert_eq!(study.header.secret, u64::MAX);
        assert_eq!(study.trials.len(), 2);
        // Bit for bit: a stored sample is the sample.
        let Event::TrialFinished(expected) = trial(1, measured()) else {
            unreachable!()
        };
        assert_eq!(study.trials[0], *expected);
        assert_eq!((study.resumed, study.finished), (1, true));
        assert_eq!(study.stop, Some(StopReason::Trials));
        assert_eq!(study.wall_ms, 6);
        assert_eq!(
            store.study(second).unwrap().trials.len(),
            1,
            "studies do not mix"
        );
        let listed: Vec<(u64, u64, bool)> = store
            .studies()
            .unwrap()
            .iter()
            .map(|s| (s.id, s.trials, s.finished))
            .collect();
        assert_eq!(listed, [(first, 2, true), (second, 1, false)]);
    }
    let mut store = reopen();
    assert!(store.journal().unwrap().is_empty());
    let entries = [
        Entry::DoctorRan(DoctorRun {
            manifest: "kiln.toml".into(),
            problems: 2,
        }),
        Entry::LessonRetired {
            lesson: "L0".into(),
            reason: "because".into(),
        },
    ];
    for (at, entry) in entries.iter().enumerate() {
        store.enter(at as u64, entry).unwrap();
    }
    for store in [store, reopen()] {
        let found = store.journal().unwrap();
        assert!(found.iter().map(|d| &d.entry).eq(&entries));
        assert_eq!(found[1].unix_ms, 1);
    }
    let mut orphan = reopen();
    assert!(
        orphan.append(77, 0, &Event::StudyFinished).is_err(),
        "no such study"
    );
}

#[test]
fn sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiln.db");
    conforms(|| SqliteStore::open_file(&path).unwrap());
}

/// Each round is a new file: making it is where openers meet.
#[test]
fn sqlite_opens_for_many_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = folder.path().join(format!("{round}.db"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut store = SqliteStore::open_file(&path).unwrap();
                    store.create(&started("one")).unwrap();
                });
            }
        });
        let store = SqliteStore::open_file(&path).unwrap();
        assert_eq!(store.studies().unwrap().len(), 4);
    }
}

#[test]
fn sqlite_events_cannot_be_changed_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiln.db");
    let mut store = SqliteStore::open_file(&path).unwrap();
    store.create(&started("one")).unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    assert!(raw.execute("UPDATE events SET body = ''", []).is_err());
    assert!(raw.execute("DELETE FROM events", []).is_err());
    let retired = Entry::LessonRetired {
        lesson: "L0".into(),
        reason: String::new(),
    };
    store.enter(1, &retired).unwrap();
    assert!(raw.execute("UPDATE journal SET body = ''", []).is_err());
    assert!(raw.execute("DELETE FROM journal", []).is_err());
}

/// A write that never reached the disk, at every length of the log: the store opens and holds a
/// prefix of history.
#[test]
fn sqlite_survives_a_log_cut_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiln.db");
    let mut store = SqliteStore::open_file(&path).unwrap();
    let id = store.create(&started("one")).unwrap();
    for event in history() {
        store.append(id, 0, &event).unwrap();
    }
    // Copied while open: the log still holds everything.
    let log = std::fs::read(path.with_extension("db-wal")).unwrap();
    let main = std::fs::read(&path).unwrap();
    drop(store);
    let mut most = 0;
    for cut in (0..=log.len()).step_by(509) {
        let copy = folder.path().join(format!("cut-{cut}.db"));
        std::fs::write(&copy, &main).unwrap();
        std::fs::write(copy.with_extension("db-wal"), &log[..cut]).unwrap();
        let store = SqliteStore::open_file(&copy).unwrap();
        for summary in store.studies().unwrap() {
            let trials = store.study(summary.id).unwrap().trials;
            let numbers: Vec<u64> = trials.iter().map(|t| t.number).collect();
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
            assert!(numbers.len() >= most, "a longer log holds no less");
            most = numbers.len();
        }
        for extension in ["db", "db-wal", "db-shm"] {
            let _ = std::fs::remove_file(copy.with_extension(extension));
        }
    }
    assert_eq!(most, 2);
}
