//! Every check must be able to pass, and to fire.

use super::*;
use crate::gate_file::Sources;
use crate::journal::{Dated, DoctorRun, Entry, KeptSources};
use crate::retrospective::ProfileMark;
use crate::retrospective::tests::{failed, header, measured, study, trial};
use crate::study::{Milestone, Silence, Study};

fn state(study: &Study, history: &History<'_>, check: &str) -> State {
    let all = review(study, history);
    assert_eq!(all.len(), 12);
    let found = all.iter().find(|f| f.check == check);
    found.expect("a check of that name").state
}

fn alone(study: &Study, check: &str) -> State {
    state(study, &History::default(), check)
}

fn with_source(text: &str) -> Vec<Dated> {
    let files = [("k.c", text), ("kiln.toml", "")];
    let kept = KeptSources {
        identity: "s".into(),
        sources: Sources {
            revision: None,
            manifest: "kiln.toml".into(),
            files: files.map(|(p, t)| (p.into(), t.into())).into(),
        },
    };
    vec![Dated {
        unix_ms: 1,
        entry: Entry::SourcesKept(Box::new(kept)),
    }]
}

fn in_journal(study: &Study, journal: &[Dated], check: &str) -> State {
    let history = History {
        journal,
        ..History::default()
    };
    state(study, &history, check)
}

#[test]
fn before_measuring() {
    let study = study(1, header("s", 100_000));
    let check = "static_assertions";
    assert_eq!(alone(&study, check), State::NotApplicable);
    let bare = with_source("int k(void);\n");
    assert_eq!(in_journal(&study, &bare, check), State::Fires);
    let asserted = with_source("_Static_assert(A * B < 8, \"\");\n");
    assert_eq!(in_journal(&study, &asserted, check), State::Passes);

    let check = "one_build";
    assert_eq!(in_journal(&study, &bare, check), State::Passes);
    let fixed = with_source("#define A 2\n");
    assert_eq!(in_journal(&study, &fixed, check), State::Fires);
    let check = "environment_validated";
    assert_eq!(alone(&study, check), State::Fires);
    let doctor_of = |manifest: &str, unix_ms, problems| {
        let manifest = manifest.to_string();
        vec![Dated {
            unix_ms,
            entry: Entry::DoctorRan(DoctorRun { manifest, problems }),
        }]
    };
    let doctor = |unix_ms, problems| doctor_of("", unix_ms, problems);
    assert_eq!(in_journal(&study, &doctor(50_000, 0), check), State::Passes);
    assert_eq!(in_journal(&study, &doctor(500_000, 0), check), State::Fires);
    // A problem of the machine may be none of this kernel's; one with its manifest is.
    assert_eq!(in_journal(&study, &doctor(50_000, 1), check), State::Passes);
    let own = doctor_of(&study.header.manifest, 50_000, 1);
    assert_eq!(in_journal(&study, &own, check), State::Fires);

    let check = "tiny_shape_first";
    assert_eq!(alone(&study, check), State::Passes);
    let mut large = study.clone();
    large.header.manifest_text = large.header.manifest_text.replace("N = 8\n", "N = 2048\n");
    assert_eq!(alone(&large, check), State::Fires);
    let mut none = study;
    none.header.manifest_text = none
        .header
        .manifest_text
        .replace("[shapes.tiny]\nN = 8\n", "");
    assert_eq!(alone(&none, check), State::Fires);
}

#[test]
fn while_measuring() {
    let good = study(1, header("s", 100_000));
    assert_eq!(alone(&good, "baseline_first"), State::Passes);
    let mut none = good.clone();
    none.baseline = None;
    assert_eq!(alone(&none, "baseline_first"), State::Fires);
    let mut itself = good.clone();
    let text = itself
        .header
        .manifest_text
        .replace("[baseline]\nc = \"b.c:b\"\n", "");
    itself.header.manifest_text = text;
    assert_eq!(alone(&itself, "baseline_first"), State::Fires);

    assert_eq!(alone(&good, "keep_samples"), State::Passes);
    let mut single = good.clone();
    if let crate::trial::Outcome::Measured(m) = &mut single.trials[1].outcome {
        m.samples_ns.truncate(1);
    }
    assert_eq!(alone(&single, "keep_samples"), State::Fires);
    assert_eq!(alone(&good, "measure_with_intervals"), State::NotApplicable);

    assert_eq!(alone(&good, "negative_results_recorded"), State::Passes);
    let mut cut = good.clone();
    cut.finished = false;
    assert_eq!(alone(&cut, "negative_results_recorded"), State::Fires);
    let studies = [cut, study(2, header("s", 200_000))];
    let history = History {
        studies: &studies,
        ..History::default()
    };
    assert_eq!(
        state(&studies[1], &history, "negative_results_recorded"),
        State::Fires
    );

    assert_eq!(alone(&good, "progress_cadence"), State::Passes);
    let mut silent = good;
    silent.moments.longest_silence = Some(Silence {
        ms: 11 * 60_000,
        before: Milestone::Trial(2),
    });
    assert_eq!(alone(&silent, "progress_cadence"), State::Fires);
}

#[test]
fn between_studies() {
    let check = "profile_before_optimise";
    let on_gpu = |id, sources, created| {
        let mut header = header(sources, created);
        let text = header
            .manifest_text
            .replace("source = \"k.c\"", "language = \"cuda\"\nsource = \"k.cu\"");
        header.manifest_text = text
            .replace(
                "[arguments]",
                "[launch]\ngrid = [\"N\"]\nblock = [\"32\"]\n[arguments]",
            )
            .replace("c = \"r.c:r\"", "file = \"{shape}.npy\"")
            .replace("c = \"b.c:b\"", "config = { A = 1, B = 1 }");
        study(id, header)
    };
    let studies = [on_gpu(1, "old", 100_000), on_gpu(2, "new", 300_000)];
    assert!(Manifest::parse(&studies[0].header.manifest_text).is_ok());
    assert_eq!(
        alone(&study(1, header("s", 1)), check),
        State::NotApplicable
    );
    // A kernel in C has a profile where it says what can be left out.
    let in_stages = |id, sources, created| {
        let mut header = header(sources, created);
        header
            .manifest_text
            .push_str("\n[stages]\nloads = \"-DNO_LOADS\"\n");
        study(id, header)
    };
    let on_cpu = [in_stages(1, "old", 100_000), in_stages(2, "new", 300_000)];
    assert!(Manifest::parse(&on_cpu[0].header.manifest_text).is_ok());
    let seen_on_cpu = History {
        studies: &on_cpu,
        ..History::default()
    };
    assert_eq!(state(&on_cpu[1], &seen_on_cpu, check), State::Fires);
    let seen = [ProfileMark {
        unix_ms: 200_000,
        kernel: "k".into(),
        study: None,
    }];
    let history = |profiles| History {
        studies: &studies,
        journal: &[],
        profiles,
    };
    assert_eq!(
        state(&studies[0], &history(&[]), check),
        State::NotApplicable
    );
    assert_eq!(state(&studies[1], &history(&[]), check), State::Fires);
    assert_eq!(state(&studies[1], &history(&seen), check), State::Passes);
    let seen_on_cpu = History {
        profiles: &seen,
        ..seen_on_cpu
    };
    assert_eq!(state(&on_cpu[1], &seen_on_cpu, check), State::Passes);
    let mut far = studies[0].clone();
    far.trials.remove(2);
    if let Some(baseline) = &mut far.baseline {
        baseline.outcome = measured(50.0);
    }
    assert_eq!(alone(&far, check), State::Fires);

    let check = "one_change_at_a_time";
    assert_eq!(
        state(&studies[0], &history(&[]), check),
        State::NotApplicable
    );
    assert_eq!(state(&studies[1], &history(&[]), check), State::Passes);
    let mut both = studies.clone();
    both[1].header.identity.compiler = "another".into();
    let two = History {
        studies: &both,
        ..History::default()
    };
    assert_eq!(state(&both[1], &two, check), State::Fires);
    assert_eq!(state(&both[1], &two, "one_build"), State::Fires);

    let check = "systematic_debugging";
    assert_eq!(alone(&studies[0], check), State::Passes);
    let mut wall = studies[0].clone();
    for number in 4..10 {
        wall.apply(7000, trial(number, failed()));
    }
    assert_eq!(alone(&wall, check), State::Fires);
}
