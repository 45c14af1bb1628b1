use super::*;
use proptest::prelude::*;

fn observation(when: &str, stance: Stance, study: u64, count: u64) -> Observation {
    Observation {
        kernel: "k".into(),
        device: "d".into(),
        architecture: "sm_90".into(),
        claim: Claim::Constraint {
            when: when.into(),
            reason: "crashed".into(),
        },
        statement: format!("crashed when {when}"),
        stance,
        evidence: Evidence {
            study: Some(study),
            trials: (1..=count.min(8)).collect(),
            count,
            sources: "s".into(),
            ..Evidence::default()
        },
        kiln_version: "0".into(),
    }
}

fn entry(unix_ms: u64, observation: Observation) -> Dated {
    Dated {
        unix_ms,
        entry: Entry::Observed(Box::new(observation)),
    }
}

#[test]
fn evidence_adds_up_and_may_turn() {
    let rule = "A > 2";
    let mut entries = vec![entry(10, observation(rule, Stance::Supports, 1, 9))];
    let all = lessons(&entries);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].status, all[0].counts()), (Status::Holds, (9, 0)));
    assert_eq!((all[0].revision, all[0].first_seen_unix_ms), (1, 10));
    // One that works does not overturn nine that fail; two more do.
    entries.push(entry(20, observation(rule, Stance::Contradicts, 2, 1)));
    assert_eq!(lessons(&entries)[0].status, Status::Holds);
    entries.push(entry(30, observation(rule, Stance::Contradicts, 2, 2)));
    let turned = &lessons(&entries)[0];
    assert_eq!(turned.status, Status::Contradicted);
    assert_eq!((turned.revision, turned.last_seen_unix_ms), (3, 30));
    // Against what nobody said, nothing speaks.
    let stray = [entry(1, observation("B > 1", Stance::Contradicts, 1, 3))];
    assert!(lessons(&stray).is_empty());
}

#[test]
fn what_is_forgotten_stays_forgotten() {
    let supports = observation("A > 2", Stance::Supports, 1, 9);
    let retired = Dated {
        unix_ms: 15,
        entry: Entry::LessonRetired {
            lesson: supports.lesson(),
            reason: String::new(),
        },
    };
    let entries = [entry(10, supports.clone()), retired, entry(20, supports)];
    let all = lessons(&entries);
    assert_eq!((all[0].status, all[0].revision), (Status::Retired, 2));
}

#[test]
fn an_import_is_merged_once() {
    let mine = [entry(10, observation("A > 2", Stance::Supports, 1, 9))];
    let mut theirs = lessons(&mine);
    theirs[0].evidence[0].project = "theirs".into();
    theirs[0].evidence[0].count = 5;
    let imported = Dated {
        unix_ms: 20,
        entry: Entry::LessonImported(Box::new(theirs.remove(0))),
    };
    let all = lessons(&[mine[0].clone(), imported.clone(), imported]);
    assert_eq!((all.len(), all[0].counts()), (1, (14, 0)));
    // One's own lessons come home.
    let mut own = lessons(&mine);
    own[0].evidence[0].project = "this one".into();
    let home = Dated {
        unix_ms: 30,
        entry: Entry::LessonImported(Box::new(own.remove(0))),
    };
    assert_eq!(lessons(&[mine[0].clone(), home])[0].counts(), (9, 0));
}

#[test]
fn a_lesson_applies_to_its_kernel_while_its_tunables_are_there() {
    let entries = [entry(
        10,
        observation("A > 2 and B == 1", Stance::Supports, 1, 9),
    )];
    let lesson = &lessons(&entries)[0];
    let tunables = |names: &[&str]| -> Vec<Tunable> {
        let tunable = |name: &&str| Tunable {
            name: name.to_string(),
            values: vec![Value::Int(1)],
        };
        names.iter().map(tunable).collect()
    };
    assert!(lesson.applies("k", "sm_90", &tunables(&["A", "B"])));
    assert!(!lesson.applies("k", "sm_90", &tunables(&["A"])));
    assert!(!lesson.applies("other", "sm_90", &tunables(&["A", "B"])));
    assert!(!lesson.applies("k", "sm_80", &tunables(&["A", "B"])));
}

#[test]
fn bad_files_are_refused_in_words() {
    let entries = [entry(10, observation("A > 2", Stance::Supports, 1, 9))];
    let text = LessonFile::new(lessons(&entries))
        .text()
        .expect("it is TOML");
    assert_eq!(
        LessonFile::parse(&text).map(|f| f.lessons),
        Ok(lessons(&entries))
    );
    for (from, to, words) in [
        ("version = 1", "version = 7", "a newer kiln wrote it"),
        ("version = 1", "version = 0", "there is no version 0"),
        ("version = 1", "", "no file of lessons"),
        ("A > 2", "A >", "cannot be read"),
        ("A > 2\"", "1 > 2\"", "names no tunable"),
        ("A > 2\"\nreason", "A > 3\"\nreason", "its claim was edited"),
        ("kernel = \"k\"", "kernel = \"\"", "its `kernel` is empty"),
        (
            "kernel = \"k\"",
            "kernel = \"k\"\nkernal = 1",
            "unknown field",
        ),
        ("status = \"holds\"", "status = \"true\"", "unknown variant"),
        ("count = 9", "count = -9", "invalid value"),
    ] {
        let bad = text.replace(from, to);
        assert_ne!(bad, text, "{from}");
        let error = LessonFile::parse(&bad).expect_err(to).to_string();
        assert!(error.contains(words), "{to}: {error}");
    }
    assert_eq!(LessonFile::parse("version = 1\n"), Err(FileError::Empty));
    let lesson = lessons(&entries).remove(0);
    let twice = LessonFile::new(vec![lesson.clone(), lesson.clone()]);
    let error = LessonFile::parse(&twice.text().expect("TOML")).expect_err("twice");
    assert!(error.to_string().contains("there twice"), "{error}");
    let bare = Lesson {
        evidence: Vec::new(),
        ..lesson
    };
    let text = LessonFile::new(vec![bare]).text().expect("TOML");
    let error = LessonFile::parse(&text).expect_err("no evidence");
    assert!(error.to_string().contains("names no evidence"), "{error}");
}

#[test]
fn markdown_cannot_be_broken_out_of() {
    let mut observation = observation("A > 2", Stance::Supports, 1, 9);
    observation.statement = "a | b <script>\n# c".into();
    let text = markdown(&lessons(&[entry(10, observation)]));
    assert!(!text.contains("<script>"), "{text}");
    assert_eq!(
        text.lines().filter(|l| l.starts_with('#')).count(),
        2,
        "{text}"
    );
}

proptest! {
    /// Whatever is in a lesson, TOML gives it back.
    #[test]
    fn files_round_trip(
        kernel in "[a-z_]{1,12}", statement in "\\PC{1,60}", count in 1u64..1_000_000, change in -0.9f64..10.0,
        value in prop_oneof![any::<i64>().prop_map(Value::Int), any::<bool>().prop_map(Value::Bool),
                             "[a-z]{1,6}".prop_map(Value::Text)],
    ) {
        prop_assume!(!statement.trim().is_empty());
        let mut observation = observation("A > 2", Stance::Supports, 1, count);
        observation.kernel = kernel;
        observation.statement = statement;
        observation.claim = Claim::Effect {
            tunable: "A".into(), value: value.clone(), against: value, change,
            low: change - 0.1, high: change + 0.1, dimensions: vec![("N".into(), 3)],
        };
        let all = lessons(&[entry(10, observation)]);
        let text = LessonFile::new(all.clone()).text().expect("it is TOML");
        prop_assert_eq!(LessonFile::parse(&text).map(|f| f.lessons), Ok(all));
    }
}

/// What is called the fastest value of `A`, said by the first of two studies.
#[test]
fn values_that_are_level_make_one_lesson_and_slower_ones_contradict() {
    use crate::effects::{Cost, Finding, TunableEffect, ValueEffect};

    let mut said = observation("A > 2", Stance::Supports, 1, 9);
    let dimensions = vec![("N".to_string(), 3)];
    said.claim = Claim::Effect {
        tunable: "A".into(),
        value: Value::Int(256),
        against: Value::Int(0),
        change: 2.0,
        low: 1.0,
        high: 3.0,
        dimensions: dimensions.clone(),
    };
    let all = lessons(&[entry(10, said)]);
    let known: Vec<&Lesson> = all.iter().collect();
    let found = |low: f64, at: &[(String, i64)]| {
        let value = |value, low| ValueEffect {
            value: Value::Int(value),
            measured: 5,
            failed: 0,
            cost: Some(Cost {
                change: low + 0.1,
                low,
                high: low + 0.2,
            }),
            cost_in_best: None,
        };
        let effect = TunableEffect {
            tunable: "A".into(),
            finding: Finding::Matters,
            share: 0.9,
            alone: 0.9,
            p_value: None,
            best: Some(Value::Int(512)),
            values: vec![value(0, 1.0), value(256, low), value(512, 0.0)],
            sentence: String::new(),
        };
        let found = study::about_other_values(&known, &effect, at, &Value::Int(512));
        found
            .into_iter()
            .map(|(_, stance)| stance)
            .collect::<Vec<_>>()
    };
    assert_eq!(found(-0.05, &dimensions), [Stance::Supports]);
    assert_eq!(found(0.2, &dimensions), [Stance::Contradicts]);
    assert_eq!(found(0.2, &[("N".into(), 4)]), []);
}
