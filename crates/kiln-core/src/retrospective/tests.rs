use super::*;
use crate::event::{Confirmation, Event, Identity, SpaceFacts, StopReason, StudyHeader};
use crate::iteration::tests::iteration;
use crate::protocol::DeviceInfo;
use crate::trial::{Measurement, Outcome, Phase as TrialPhase, SampleStop, Spent, Trial};

const MANIFEST: &str = "[kernel]\nname = \"k\"\nsource = \"k.c\"\nentry = \"k\"\n\
    [tunables]\nA = [1, 2, 4]\nB = [1, 2]\n[shapes.target]\nN = 4096\n[shapes.tiny]\nN = 8\n\
    [arguments]\ny = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
    [reference]\nc = \"r.c:r\"\n[baseline]\nc = \"b.c:b\"\n";

pub(crate) fn header(sources: &str, created_unix_ms: u64) -> StudyHeader {
    StudyHeader {
        kernel: "k".into(),
        manifest: "kiln.toml".into(),
        manifest_text: MANIFEST.into(),
        replayed_from: None,
        shape: "target".into(),
        dimensions: vec![("N".into(), 4096)],
        identity: Identity {
            manifest: String::new(),
            sources: sources.into(),
            space: String::new(),
            device: String::new(),
            compiler: "cc".into(),
            strategy: String::new(),
            recording: String::new(),
        },
        seed: 1,
        secret: 2,
        strategy: "auto".into(),
        earlier: None,
        doubts: Vec::new(),
        compilers: None,
        batch: 4,
        target_speedup: 1.0,
        price_per_hour: Some(3.6),
        flops: None,
        bytes: None,
        sandbox: None,
        device: DeviceInfo {
            kind: "cpu".into(),
            name: "d".into(),
            cores: 2,
            memory_bytes: 1,
            environment: Vec::new(),
            cuda: None,
        },
        space: SpaceFacts {
            cartesian: "6".into(),
            valid: None,
            removed: Vec::new(),
        },
        admission: None,
        created_unix_ms,
        kiln_version: "0".into(),
    }
}

pub(crate) fn measured(ns: f64) -> Outcome {
    Outcome::Measured(Measurement {
        samples_ns: vec![ns; 5],
        batch: 1,
        stop: SampleStop::Precise,
        error_ratio: 0.0,
        conditions: None,
    })
}

pub(crate) fn failed() -> Outcome {
    Outcome::TimedOut {
        phase: TrialPhase::Check,
        after_ms: 5,
    }
}

pub(crate) fn trial(number: u64, outcome: Outcome) -> Event {
    Event::TrialFinished(Box::new(Trial {
        number,
        config: vec![("A".into(), crate::value::Value::Int(number as i64))],
        spent: outcome.measurement().map(|_| Spent {
            waiting_ms: 0.0,
            checking_ms: 100.0,
            timing_ms: 300.0,
        }),
        outcome,
        skipped_shapes: Vec::new(),
        compile: None,
        run_ms: 400.0,
    }))
}

/// One study: baseline after 1 s, a failure, then two that work, a verdict after 6 s.
pub(crate) fn study(id: u64, header: StudyHeader) -> Study {
    let baseline = Event::BaselineMeasured {
        label: "b.c:b".into(),
        outcome: measured(200.0),
    };
    let events = vec![
        (0, Event::StudyStarted(Box::new(header))),
        (1000, baseline),
        (1500, trial(1, failed())),
        (2500, trial(2, measured(150.0))),
        (3500, trial(3, measured(100.0))),
        (
            4000,
            Event::SearchFinished {
                stop: StopReason::Trials,
            },
        ),
        (
            6000,
            Event::Confirmed(Box::new(Confirmation {
                playoff: Vec::new(),
                dropped: Vec::new(),
                winner: None,
            })),
        ),
        (6000, Event::StudyFinished),
    ];
    Study::from_events(id, events).expect("it has a header")
}

#[test]
fn each_millisecond_is_in_one_place() {
    let study = study(1, header("s", 10_000));
    let studies = [study.clone()];
    let history = History {
        studies: &studies,
        ..History::default()
    };
    let r = Retrospective::new(&study, &history);
    assert_eq!(r.baseline_s, Some(1.0));
    assert_eq!(r.first_working_build_s, Some(2.5));
    assert_eq!(r.verdict_s, Some(6.0));
    assert_eq!(r.trials_to_95_percent, Some(3));
    let spent: Vec<(Phase, f64)> = r.phases.iter().map(|s| (s.phase, s.seconds)).collect();
    let expected = [
        (Phase::Baseline, 1.0),
        (Phase::Compile, 2.2),
        (Phase::Check, 0.2),
        (Phase::Time, 0.6),
        (Phase::Confirm, 2.0),
    ];
    for ((phase, seconds), (wanted, s)) in spent.iter().zip(expected) {
        assert_eq!(*phase, wanted);
        assert!((seconds - s).abs() < 1e-9, "{phase:?} {seconds}");
    }
    let total: f64 = r.phases.iter().map(|s| s.seconds).sum();
    assert!((total - 6.0).abs() < 1e-9);
    let cost: f64 = r.phases.iter().filter_map(|s| s.cost).sum();
    assert!((cost - r.cost.expect("there is a price")).abs() < 1e-9);
    assert!((r.cost.unwrap_or(0.0) - 0.006).abs() < 1e-9);
    assert!((r.device_minutes - 3.8 / 60.0).abs() < 1e-9);
    assert_eq!((r.changes, r.blind_changes), (0, 0));
    assert_eq!(r.bottleneck, Bottleneck::Never);
}

#[test]
fn old_studies_do_not_tell_checking_from_timing() {
    let mut study = study(1, header("s", 10_000));
    for trial in &mut study.trials {
        trial.spent = None;
    }
    let r = Retrospective::new(&study, &History::default());
    let both = r.phases.iter().find(|s| s.phase == Phase::CheckAndTime);
    assert_eq!(both.map(|s| s.seconds), Some(0.8));
}

#[test]
fn an_edit_is_blind_without_a_profile() {
    let studies = [
        study(1, header("old", 100_000)),
        study(2, header("old", 200_000)),
        study(3, header("new", 300_000)),
    ];
    let mark = |unix_ms| ProfileMark {
        unix_ms,
        kernel: "k".into(),
        study: Some(2),
    };
    let look = |profiles: &[ProfileMark], of: usize| {
        let history = History {
            studies: &studies,
            journal: &[],
            profiles,
        };
        let r = Retrospective::new(&studies[of], &history);
        (r.changes, r.blind_changes, r.bottleneck)
    };
    assert_eq!(look(&[], 1), (0, 0, Bottleneck::Never));
    assert_eq!(look(&[], 2), (1, 1, Bottleneck::Never));
    // A profile of the old source makes the edit a considered one; the new source is not profiled.
    assert_eq!(look(&[mark(250_000)], 2), (1, 0, Bottleneck::Never));
    assert_eq!(look(&[mark(250_000)], 1), (0, 0, Bottleneck::After(51.0)));
    assert_eq!(look(&[mark(150_000)], 1), (0, 0, Bottleneck::KnownBefore));
    assert_eq!(look(&[mark(310_000)], 2), (1, 1, Bottleneck::After(11.0)));
    // Of another kernel: nothing was looked at.
    let other = ProfileMark {
        kernel: "other".into(),
        ..mark(250_000)
    };
    assert_eq!(look(&[other], 2).1, 1);
}

#[test]
fn edits_that_iterations_tried_count_too() {
    let studies = [
        study(1, header("a", 100_000)),
        study(2, header("c", 900_000)),
    ];
    let tried = |unix_ms, sources: &str| {
        let found = crate::iteration::Found::Wrong {
            of_candidate: true,
            message: String::new(),
        };
        let mut iteration = iteration(None, None, found);
        iteration.candidate.sources = sources.into();
        Dated {
            unix_ms,
            entry: Entry::Iterated(Box::new(iteration)),
        }
    };
    let journal = [tried(200_000, "b"), tried(300_000, "c")];
    let history = History {
        studies: &studies,
        journal: &journal,
        profiles: &[],
    };
    let r = Retrospective::new(&studies[1], &history);
    assert_eq!((r.changes, r.blind_changes), (2, 2));
}

#[test]
fn a_trend_is_said_in_words() {
    let mut studies = vec![
        study(1, header("s", 100_000)),
        study(2, header("s", 200_000)),
    ];
    let say = |studies: &[Study]| {
        let history = History {
            studies,
            ..History::default()
        };
        trend("k", &history).sentence
    };
    assert!(say(&studies[..1]).contains("a trend takes 4"));
    assert!(say(&[]).contains("no study of `k` has come to a verdict"));
    studies[1].moments.confirmed_ms = Some(3000);
    let few = say(&studies);
    assert!(few.contains("are too few for a trend"), "{few}");
    assert!(
        few.contains("6.0 s in study 1 and 3.0 s in study 2 (0.50 times"),
        "{few}"
    );
    let with = |seconds: &[u64]| {
        let studies: Vec<Study> = (1u64..)
            .zip(seconds)
            .map(|(id, seconds)| {
                let mut one = study(id, header("s", 100_000 * id));
                one.moments.confirmed_ms = Some(1000 * seconds);
                one
            })
            .collect();
        say(&studies)
    };
    assert!(with(&[9, 7, 5, 4]).contains("` get faster:"));
    assert!(with(&[4, 5, 7, 9]).contains("` get slower:"));
    // The last happens to be faster than the first.
    assert!(with(&[13, 9, 10, 9, 9, 11, 12]).contains("neither faster nor slower"));
    studies[1].header.dimensions = vec![("N".into(), 1)];
    assert!(say(&studies).contains("several shapes or devices"));
}
