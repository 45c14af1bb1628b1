//! The beginning of a study: a new one, or one that was interrupted and may go on.

use kiln_core::admission::Admission;
use kiln_core::event::{Earlier, Event, Identity, StudyHeader};
use kiln_core::lesson::Lesson;
use kiln_core::study::Study;

use super::tune::{Observer, Options};
use crate::cache;
use crate::exit::{Exit, Failure};
use crate::learn;
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
    let mut study = store.study(summary.id)?;
    observer.note(&format!(
        "resuming study {} after {} trials",
        study.id,
        study.trials.len()
    ));
    let event = Event::Resumed {
        kiln_version: env!("CARGO_PKG_VERSION").into(),
        sandbox: task.sandbox.clone(),
    };
    store.append(study.id, study.wall_ms, &event)?;
    study.apply(study.wall_ms, event);
    Ok(Some(study))
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
    let manifest = task.manifest();
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
    let header = StudyHeader {
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
        earlier,
        doubts,
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
    };
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

fn identity(task: &Task, options: &Options) -> Identity {
    let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex()[..16].to_string();
    let tunables = serde_json::to_string(task.space.tunables()).unwrap_or_default();
    let count = task
        .space
        .count()
        .map_or_else(|| "?".into(), |n| n.to_string());
    Identity {
        manifest: hash(&format!(
            "{}\nshape {}",
            task.file.text,
            task.manifest().target().name
        )),
        sources: task.sources_hash()[..16].to_string(),
        space: hash(&format!("{tunables} {count}")),
        device: format!("{} x{}", task.device.name, task.device.cores),
        compiler: task.compiler_identity(),
        strategy: format!(
            "{} {} kiln {}",
            options.strategy,
            task.manifest().search.seed_trials,
            env!("CARGO_PKG_VERSION")
        ),
        recording: task
            .replayed
            .as_ref()
            .map_or_else(String::new, |r| r.hash.clone()),
    }
}
