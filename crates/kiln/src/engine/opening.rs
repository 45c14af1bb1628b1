//! The beginning of a study: a new one, or one that was interrupted and may go on.

use kiln_core::admission::Admission;
use kiln_core::event::{Earlier, Event, Identity, LearntConstraint, StudyHeader};
use kiln_core::lesson::Lesson;
use kiln_core::study::Study;
use kiln_core::trial::Trial;
use kiln_core::verdict;

use super::earlier::EarlierChoice;
use super::tune::{Observer, Options, Recorded};
use crate::cache;
use crate::exit::{Exit, Failure};
use crate::learn;
use crate::project;
use crate::recording::RecordedFile;
use crate::store::Store;
use crate::task::Task;

/// The latest unfinished study of this manifest, if nothing that matters has changed since.
pub fn resume(
    task: &Task,
    options: &Options,
    store: &mut dyn Store,
    observer: &mut dyn Observer,
) -> Result<Option<Study>, Failure> {
    let name = task.file.name();
    let unfinished = store
        .studies()?
        .into_iter()
        .rev()
        .find(|s| {
            let is_replay = s.header.replayed_from.is_some();
            s.header.manifest == name && is_replay == task.replayed.is_some()
        })
        .filter(|s| !s.finished && !options.fresh);
    let Some(summary) = unfinished else {
        return Ok(None);
    };
    let mut differences = identity(task, options).differences(&summary.header.identity);
    if options.seed.is_some_and(|seed| seed != summary.header.seed) {
        differences.push("the seed");
    }
    if !differences.is_empty() {
        observer.note(&format!(
            "study {} is unfinished, but {} changed since: starting a new one",
            summary.id,
            differences.join(" and ")
        ));
        return Ok(None);
    }
    go_on(task, summary.id, "", store, observer).map(Some)
}

/// The unfinished study of this shape in a tuning of several, if nothing that matters has changed since.
pub fn resume_among(
    task: &Task,
    options: &Options,
    store: &mut dyn Store,
    observer: &mut dyn Observer,
) -> Result<Option<Study>, Failure> {
    let (name, shape) = (task.file.name(), &task.manifest().target().name);
    let own = identity(task, options);
    let found = store.studies()?.into_iter().rev().find(|s| {
        s.header.manifest == name && s.header.shape == *shape && s.header.identity == own
    });
    let resumable = found.filter(|s| {
        let same_seed = options.seed.is_none_or(|seed| seed == s.header.seed);
        !s.finished && !options.fresh && same_seed
    });
    let Some(summary) = resumable else {
        return Ok(None);
    };
    let place = format!("shape `{shape}`: ");
    go_on(task, summary.id, &place, store, observer).map(Some)
}

fn go_on(
    task: &Task,
    study: u64,
    place: &str,
    store: &mut dyn Store,
    observer: &mut dyn Observer,
) -> Result<Study, Failure> {
    let mut study = store.study(study)?;
    observer.note(&format!(
        "{place}resuming study {} after {} trials",
        study.id,
        study.trials.len()
    ));
    let event = Event::Resumed {
        kiln_version: env!("CARGO_PKG_VERSION").into(),
        sandbox: task.sandbox.clone(),
    };
    store.append(study.id, study.wall_ms, &event)?;
    study.apply(study.wall_ms, event);
    Ok(study)
}

/// What is known beforehand.
pub struct Known {
    pub earlier: Option<Earlier>,
    pub lessons: Vec<Lesson>,
}

/// A new study. `secret` decides inputs and poison.
pub fn create(
    task: &Task,
    options: &Options,
    secret: u64,
    admission: Option<Admission>,
    known: Known,
    store: &mut dyn Store,
    observer: &mut dyn Observer,
) -> Result<Study, Failure> {
    let earlier = known.earlier;
    for line in learn::lessons::shown(&known.lessons) {
        observer.note(&line);
    }
    let doubts = match &options.doubts {
        Some(recorded) => recorded.clone(),
        None => learn::lessons::learnt_constraints(&known.lessons, task, options),
    };
    if !doubts.is_empty() {
        observer.note(
            "the search takes configs that should fail by these for improbable, not impossible, and probes a few; \
             `--cold` forgets them",
        );
    }
    if let Some(earlier) = &earlier {
        observer.note(&format!(
            "beginning with what {} found ({} trials); `--cold` begins with nothing",
            earlier.from,
            earlier.trials.len()
        ));
    }
    let told = Told { earlier, doubts };
    let header = header(task, options, secret, admission, told);
    if task.replayed.is_none() {
        // So that this version can be measured again when the source has moved on.
        learn::sources::keep_if_possible(task, store)?;
    }
    let event = Event::StudyStarted(Box::new(header));
    let id = store.create(&event)?;
    let study = Study::from_events(id, [(0, event.clone())])
        .map_err(|e| Failure::new(Exit::Bug, e.to_string()))?;
    observer.event(&study, &event)?;
    Ok(study)
}

/// What the search is told at its start.
struct Told {
    earlier: Option<Earlier>,
    doubts: Vec<LearntConstraint>,
}

fn header(
    task: &Task,
    options: &Options,
    secret: u64,
    admission: Option<Admission>,
    told: Told,
) -> StudyHeader {
    let manifest = task.manifest();
    StudyHeader {
        kernel: manifest.kernel.name.clone(),
        manifest: task.file.name(),
        manifest_text: task.file.text.clone(),
        replayed_from: task.replayed.as_ref().map(|r| r.file.clone()),
        shape: manifest.target().name.clone(),
        dimensions: manifest.target().dimensions.clone(),
        identity: identity(task, options),
        seed: options
            .seed
            .or(options.recorded.map(|r| r.seed))
            .unwrap_or_else(|| cache::random_u64() >> 1),
        secret,
        strategy: options.strategy.clone(),
        earlier: told.earlier,
        doubts: told.doubts,
        compilers: options.minutes.map(|_| options.jobs),
        // On a GPU twice as many are in flight, for the next batch compiles meanwhile.
        batch: match (options.recorded, task.is_cuda()) {
            (Some(recorded), _) => recorded.batch,
            (None, true) => (options.jobs / 2).max(4),
            (None, false) => 2 * options.jobs.max(1),
        },
        target_speedup: manifest.baseline.as_ref().map_or(1.0, |b| b.target),
        price_per_hour: manifest.budget.price_per_hour,
        flops: task.work(manifest.work.flops.as_ref()),
        bytes: task.work(manifest.work.bytes.as_ref()),
        sandbox: task.sandbox.clone(),
        device: task.device.clone(),
        space: task.space_facts(),
        admission: admission.map(Box::new),
        created_unix_ms: learn::now_unix_ms(),
        kiln_version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// A recording as the study it was made of, to look at: nothing is replayed, and nothing stored.
pub fn recorded_study(recorded: &RecordedFile) -> Result<Study, Failure> {
    let recording = &recorded.recording;
    let task = Task::for_recording(project::from_recording(recorded)?, recorded)?;
    let options = Options {
        seed: Some(recording.seed),
        strategy: recording.strategy.clone(),
        trials: recording.trials.len() as u64,
        minutes: None,
        jobs: 1,
        fresh: true,
        earlier: EarlierChoice::None,
        recorded: Some(Recorded {
            seed: recording.seed,
            batch: recording.batch,
        }),
        among: Vec::new(),
        doubts: Some(recording.doubts.clone()),
    };
    let told = Told {
        earlier: recording.earlier.clone(),
        doubts: recording.doubts.clone(),
    };
    let mut header = header(&task, &options, 0, None, told);
    header.device = recording.device.clone();
    header.created_unix_ms = recording.created_unix_ms;
    header.kiln_version.clone_from(&recording.kiln_version);
    let started = Event::StudyStarted(Box::new(header));
    let mut events = vec![
        started,
        Event::BaselineMeasured {
            label: recording.baseline.label.clone(),
            outcome: recording.baseline.outcome.clone(),
        },
    ];
    events.extend(recording.also.iter().map(|also| Event::AlsoMeasured {
        label: also.label.clone(),
        outcome: also.outcome.clone(),
    }));
    events.extend(recording.trials.iter().map(|trial| {
        Event::TrialFinished(Box::new(Trial {
            number: trial.number,
            config: recording.assignment(trial),
            outcome: trial.outcome.clone(),
            skipped_shapes: trial.skipped_shapes.clone(),
            compile: trial.compile.clone(),
            run_ms: 0.0,
            spent: None,
        }))
    }));
    // A file says what its author wants; the verdict is what its samples say.
    let confirmed = recording.confirmation.clone().map(|mut confirmation| {
        if let Some(winner) = &mut confirmation.winner {
            let (baseline, own) = (&winner.baseline_rounds_ns, &winner.winner_rounds_ns);
            let margin = task.manifest().confirm.margin;
            winner.comparison = verdict::compare(baseline, own, margin, recording.seed);
        }
        confirmation
    });
    events.extend(confirmed.map(|c| Event::Confirmed(Box::new(c))));
    if recording.finished {
        events.push(Event::StudyFinished);
    }
    Study::from_events(0, events.into_iter().map(|event| (0, event)))
        .map_err(|e| Failure::new(Exit::Bug, e.to_string()))
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_string()
}

/// What a study calls its manifest, aimed at one shape.
pub fn manifest_hash(text: &str, shape: &str) -> String {
    hash(&format!("{text}\nshape {shape}"))
}

fn identity(task: &Task, options: &Options) -> Identity {
    let tunables = serde_json::to_string(task.space.tunables()).unwrap_or_default();
    let count = task
        .space
        .count()
        .map_or_else(|| "?".into(), |n| n.to_string());
    Identity {
        manifest: manifest_hash(&task.file.text, &task.manifest().target().name),
        sources: task.sources_hash()[..16].to_string(),
        space: hash(&format!("{tunables} {count}")),
        device: format!("{} x{}", task.device.name, task.device.cores),
        compiler: task.compiler_identity(),
        strategy: format!(
            "{} {} kiln {}{}",
            options.strategy,
            task.manifest().search.seed_trials,
            env!("CARGO_PKG_VERSION"),
            match options.among.as_slice() {
                [] => String::new(),
                shapes => format!(" among {}", shapes.join(",")),
            }
        ),
        recording: task
            .replayed
            .as_ref()
            .map_or_else(String::new, |r| r.hash.clone()),
    }
}
