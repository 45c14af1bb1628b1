//! A study saved to be replayed: outcomes and samples, without what only its machine can use.
//!
//! Flow: `Study` -> `Recording` (rounded, logs cut) -> JSON -> `Recording`, checked. Files and
//! compression are the caller's business, and so is answering from a recording.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use thiserror::Error;

use crate::event::{Confirmation, Earlier, LearntConstraint};
use crate::manifest::Manifest;
use crate::protocol::DeviceInfo;
use crate::space::{MOST_TUNABLES, Tunable};
use crate::study::{Baseline, Study};
use crate::trial::{Assignment, CompileFacts, Outcome};
use crate::value::Value;

/// Raised when an older reader would misunderstand a newer file; new keys alone do not raise it.
pub const VERSION: u32 = 1;

/// Of a sample. Clocks and noise leave fewer; more would only make recordings larger.
const SIGNIFICANT_DIGITS: usize = 5;
/// Of what a compiler or a crashed candidate said.
const KEPT_TEXT_BYTES: usize = 500;
/// Of an image's key: it names nothing outside the cache it was in.
const KEPT_KEY_BYTES: usize = 16;
/// Of one launch, in nanoseconds: no kernel is shorter, and nobody waits eleven days for one.
const PLAUSIBLE_NS: std::ops::RangeInclusive<f64> = 1.0..=1e15;

/// The study's secret is left out: it decides inputs, and a replay has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The version of the format; first in the file.
    pub recording: u32,
    pub kernel: String,
    /// The target shape.
    pub shape: String,
    pub dimensions: Vec<(String, i64)>,
    pub device: DeviceInfo,
    pub compiler: String,
    pub kiln_version: String,
    pub created_unix_ms: u64,
    /// The text of the manifest.
    pub manifest: String,
    pub tunables: Vec<Tunable>,
    pub strategy: String,
    /// What the search knew from an earlier study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
    /// Learnt constraints that the search was told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<LearntConstraint>,
    pub seed: u64,
    /// Candidates asked for at a time: what a strategy knew when it was asked.
    pub batch: usize,
    pub finished: bool,
    pub baseline: Baseline,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Baseline>,
    pub trials: Vec<RecordedTrial>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedTrial {
    pub number: u64,
    /// In the order of `tunables`.
    pub config: Vec<Value>,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_shapes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile: Option<CompileFacts>,
}

/// Why a study cannot be recorded.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RecordError {
    #[error("it is itself a replay of `{from}`: nothing was measured")]
    Replayed { from: String },
    #[error("its baseline was never measured")]
    NoBaseline,
    #[error("it was stored without its manifest, by an older kiln")]
    NoManifest,
    #[error("the manifest stored with it cannot be read by this kiln")]
    Manifest,
}

/// Why a file is no recording that can be replayed.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("it is JSON, but not a recording of kiln")]
    NotARecording,
    #[error("it has format {found}; this kiln reads up to {VERSION}")]
    Version { found: u64 },
    #[error("it is cut off: {0}")]
    Truncated(serde_json::Error),
    #[error("it is damaged: {0}")]
    Damaged(serde_json::Error),
    #[error("it contradicts itself: {0}")]
    Inconsistent(String),
}

impl ReadError {
    pub fn hint(&self) -> &'static str {
        match self {
            ReadError::Version { .. } => "use the kiln that wrote it, or a newer one",
            ReadError::NotARecording => "`kiln studies record --to NAME.kiln.json.gz` writes one",
            _ => "copy it again from where it was recorded",
        }
    }
}

impl Recording {
    pub fn of(study: &Study) -> Result<Recording, RecordError> {
        let header = &study.header;
        if let Some(from) = &header.replayed_from {
            return Err(RecordError::Replayed { from: from.clone() });
        }
        if header.manifest_text.is_empty() {
            return Err(RecordError::NoManifest);
        }
        let manifest = Manifest::parse(&header.manifest_text).map_err(|_| RecordError::Manifest)?;
        let baseline = study.baseline.as_ref();
        let baseline = baseline.filter(|b| b.outcome.measurement().is_some());
        let trials = study.trials.iter().map(|trial| RecordedTrial {
            number: trial.number,
            config: trial.config.iter().map(|(_, v)| v.clone()).collect(),
            outcome: trial.outcome.clone(),
            skipped_shapes: trial.skipped_shapes.clone(),
            compile: trial.compile.clone(),
        });
        let mut recording = Recording {
            recording: VERSION,
            kernel: header.kernel.clone(),
            shape: header.shape.clone(),
            dimensions: header.dimensions.clone(),
            device: header.device.clone(),
            compiler: header.identity.compiler.clone(),
            kiln_version: header.kiln_version.clone(),
            created_unix_ms: header.created_unix_ms,
            manifest: header.manifest_text.clone(),
            tunables: manifest.tunables,
            strategy: header.strategy.clone(),
            earlier: header.earlier.clone(),
            doubts: header.doubts.clone(),
            seed: header.seed,
            batch: header.batch,
            finished: study.finished,
            baseline: baseline.ok_or(RecordError::NoBaseline)?.clone(),
            also: study.also.clone(),
            trials: trials.collect(),
            confirmation: study.confirmation.clone(),
        };
        recording.shrink();
        Ok(recording)
    }

    /// Reads and checks; what comes back can be replayed.
    pub fn parse(json: &[u8]) -> Result<Recording, ReadError> {
        let broken = |e: serde_json::Error| match e.classify() {
            Category::Eof => ReadError::Truncated(e),
            _ => ReadError::Damaged(e),
        };
        let value: serde_json::Value = serde_json::from_slice(json).map_err(broken)?;
        let found = value["recording"]
            .as_u64()
            .ok_or(ReadError::NotARecording)?;
        if found != u64::from(VERSION) {
            return Err(ReadError::Version { found });
        }
        let recording: Recording = serde_json::from_slice(json).map_err(broken)?;
        recording.check().map_err(ReadError::Inconsistent)?;
        Ok(recording)
    }

    pub fn assignment(&self, trial: &RecordedTrial) -> Assignment {
        let names = self.tunables.iter().map(|t| t.name.clone());
        names.zip(trial.config.iter().cloned()).collect()
    }

    /// What the types do not say.
    fn check(&self) -> Result<(), String> {
        if self.baseline.outcome.measurement().is_none() {
            return Err("its baseline has no times".into());
        }
        if self.batch == 0 {
            return Err("it asks for 0 candidates at a time".into());
        }
        check_samples(&self.baseline.outcome, "the baseline")?;
        for also in &self.also {
            check_samples(&also.outcome, &format!("`{}`", also.label))?;
        }
        self.check_tunables()?;
        self.check_trials()?;
        self.check_shapes()?;
        self.check_confirmation()
    }

    fn check_tunables(&self) -> Result<(), String> {
        for (place, tunable) in self.tunables.iter().enumerate() {
            let name = &tunable.name;
            if place == MOST_TUNABLES {
                return Err(format!("it has more than {MOST_TUNABLES} tunables"));
            }
            if self.tunables[..place].iter().any(|t| t.name == *name) {
                return Err(format!("tunable `{name}` is there twice"));
            }
            if let Some(value) = first_repeated(&tunable.values) {
                return Err(format!("tunable `{name}` lists the value {value} twice"));
            }
        }
        Ok(())
    }

    fn check_trials(&self) -> Result<(), String> {
        let mut numbers = HashSet::new();
        let mut configs = HashMap::new();
        let listed = self.tunables.iter().map(|t| t.values.iter().map(key));
        let listed: Vec<HashSet<String>> = listed.map(Iterator::collect).collect();
        for trial in &self.trials {
            let name = format!("trial {}", trial.number);
            if !numbers.insert(trial.number) {
                return Err(format!("{name} is there twice"));
            }
            if trial.config.len() != self.tunables.len() {
                let (has, wants) = (trial.config.len(), self.tunables.len());
                return Err(format!("{name} has {has} values for {wants} tunables"));
            }
            for (place, value) in trial.config.iter().enumerate() {
                if !listed[place].contains(&key(value)) {
                    let tunable = &self.tunables[place].name;
                    return Err(format!(
                        "{name} has {tunable}={value}, which `{tunable}` does not list"
                    ));
                }
            }
            if let Some(first) = configs.insert(format!("{:?}", trial.config), trial.number) {
                return Err(format!("{name} has the same config as trial {first}"));
            }
            check_samples(&trial.outcome, &name)?;
        }
        Ok(())
    }

    /// A manifest that cannot be read is reported by whoever needs it, with its place.
    fn check_shapes(&self) -> Result<(), String> {
        let Ok(manifest) = Manifest::parse(&self.manifest) else {
            return Ok(());
        };
        let is_known = |name: &str| manifest.shapes.iter().any(|shape| shape.name == name);
        if !is_known(&self.shape) {
            return Err(format!("its shape `{}` is not in its manifest", self.shape));
        }
        for trial in &self.trials {
            let failed_on = match &trial.outcome {
                Outcome::Crashed(crash) => crash.shape.as_deref(),
                // Empty where it failed before any shape.
                Outcome::Wrong(mismatch) => Some(mismatch.shape.as_str()).filter(|s| !s.is_empty()),
                _ => None,
            };
            let skipped = trial.skipped_shapes.iter().map(String::as_str);
            if let Some(name) = skipped.chain(failed_on).find(|name| !is_known(name)) {
                let number = trial.number;
                return Err(format!(
                    "trial {number} names the shape `{name}`, which is not in its manifest"
                ));
            }
        }
        Ok(())
    }

    fn check_confirmation(&self) -> Result<(), String> {
        let Some(confirmation) = &self.confirmation else {
            return Ok(());
        };
        let known = |number: u64| self.trials.iter().any(|t| t.number == number);
        let finalists = confirmation.playoff.iter().map(|f| f.trial);
        let dropped = confirmation.dropped.iter().map(|d| d.trial);
        let winner = confirmation.winner.iter().map(|w| w.trial);
        if let Some(number) = finalists.chain(dropped).chain(winner).find(|n| !known(*n)) {
            return Err(format!("trial {number} was confirmed but is not there"));
        }
        for finalist in &confirmation.playoff {
            let name = format!("the play-off of trial {}", finalist.trial);
            check_times(&finalist.samples_ns, &name)?;
            check_times(&[finalist.median_ns], &name)?;
            if !(finalist.speedup.is_finite() && finalist.speedup > 0.0) {
                return Err(format!("{name} has a speedup of {}", finalist.speedup));
            }
        }
        for dropped in &confirmation.dropped {
            let name = format!("the confirmation of trial {}", dropped.trial);
            check_samples(&dropped.outcome, &name)?;
        }
        if let Some(winner) = &confirmation.winner {
            let (baseline, own) = (&winner.baseline_rounds_ns, &winner.winner_rounds_ns);
            if baseline.len() != own.len() || own.is_empty() {
                return Err("the confirmation's rounds do not come in pairs".into());
            }
            for round in baseline.iter().chain(own) {
                check_times(round, "a round of the confirmation")?;
            }
        }
        Ok(())
    }

    /// Rounds samples and cuts texts: 200 trials then take some tens of kilobytes, compressed.
    fn shrink(&mut self) {
        let baselines = std::iter::once(&mut self.baseline).chain(&mut self.also);
        let outcomes = baselines.map(|b| &mut b.outcome);
        for outcome in outcomes.chain(self.trials.iter_mut().map(|t| &mut t.outcome)) {
            shrink_outcome(outcome);
        }
        for compile in self.trials.iter_mut().filter_map(|t| t.compile.as_mut()) {
            compile.log.clear();
            cut(&mut compile.artifact, KEPT_KEY_BYTES);
        }
        let Some(confirmation) = &mut self.confirmation else {
            return;
        };
        for dropped in &mut confirmation.dropped {
            shrink_outcome(&mut dropped.outcome);
        }
        for finalist in &mut confirmation.playoff {
            round_all(&mut finalist.samples_ns);
        }
        if let Some(winner) = &mut confirmation.winner {
            let rounds = winner.baseline_rounds_ns.iter_mut();
            for round in rounds.chain(&mut winner.winner_rounds_ns) {
                round_all(round);
            }
        }
    }
}

fn first_repeated(values: &[Value]) -> Option<&Value> {
    let mut seen = HashSet::new();
    values.iter().find(|value| !seen.insert(key(value)))
}

/// The same for equal values and no others; lists may be too long to compare each with each.
fn key(value: &Value) -> String {
    // Both zeros are equal, and only one of them is written with a sign.
    match value {
        Value::Float(x) => format!("{:?}", x + 0.0),
        Value::Int(i) => format!("i{i}"),
        other => format!("{other:?}"),
    }
}

fn check_samples(outcome: &Outcome, name: &str) -> Result<(), String> {
    match outcome.measurement() {
        Some(measurement) if measurement.batch == 0 => {
            Err(format!("{name} has samples of 0 launches"))
        }
        Some(measurement) => check_times(&measurement.samples_ns, name),
        None => Ok(()),
    }
}

fn check_times(samples: &[f64], name: &str) -> Result<(), String> {
    if samples.is_empty() {
        return Err(format!("{name} has no samples"));
    }
    match samples.iter().find(|ns| !PLAUSIBLE_NS.contains(*ns)) {
        Some(ns) => Err(format!("{name} has a sample of {ns} ns")),
        None => Ok(()),
    }
}

fn shrink_outcome(outcome: &mut Outcome) {
    match outcome {
        Outcome::Measured(measurement) => round_all(&mut measurement.samples_ns),
        Outcome::NotCompiled(failure) => cut(&mut failure.log, KEPT_TEXT_BYTES),
        Outcome::Crashed(crash) => cut(&mut crash.output, KEPT_TEXT_BYTES),
        Outcome::Gated { .. } | Outcome::TimedOut { .. } | Outcome::Wrong(_) => {}
    }
}

fn round_all(samples: &mut [f64]) {
    for sample in samples {
        *sample = rounded(*sample);
    }
}

/// To a few significant digits, by way of decimal text so that it also prints short.
fn rounded(value: f64) -> f64 {
    let text = format!("{value:.*e}", SIGNIFICANT_DIGITS - 1);
    text.parse().unwrap_or(value)
}

fn cut(text: &mut String, most: usize) {
    let mut ends = (0..=most.min(text.len())).rev();
    let end = ends.find(|&at| text.is_char_boundary(at));
    text.truncate(end.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;

    use super::*;
    use crate::event::{Dropped, Finalist, Winner};
    use crate::trial::{
        CompileFailure, Crash, CrashCause, Fault, Measurement, Mismatch, Phase, SampleStop,
    };
    use crate::verdict;

    fn measured(samples_ns: Vec<f64>) -> Outcome {
        Outcome::Measured(Measurement {
            samples_ns,
            batch: 3,
            stop: SampleStop::Precise,
            error_ratio: 0.25,
            conditions: None,
        })
    }

    fn outcome() -> impl Strategy<Value = Outcome> {
        let samples = prop::collection::vec(1.0..1e12, 1..40);
        prop_oneof![
            samples.prop_map(measured),
            (any::<i32>(), ".{0,300}").prop_map(|(signal, output)| {
                Outcome::Crashed(Crash {
                    phase: Phase::Check,
                    shape: Some("tiny".into()),
                    cause: CrashCause::Signal { signal },
                    output,
                })
            }),
            (".{0,30}", ".{0,900}").prop_map(|(first_error, log)| {
                Outcome::NotCompiled(CompileFailure { first_error, log })
            }),
            any::<u64>().prop_map(|after_ms| Outcome::TimedOut {
                phase: Phase::Sample,
                after_ms,
            }),
            Just(Outcome::Wrong(Mismatch {
                shape: "target".into(),
                phase: Phase::Check,
                fault: Fault::InputModified {
                    argument: "x".into()
                },
            })),
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (-1e9..1e9).prop_map(Value::Float),
            ".{0,9}".prop_map(Value::Text),
        ]
    }

    prop_compose! {
        fn recording()(
            baseline in prop::collection::vec(1.0..1e12, 1..40),
            trials in prop::collection::vec((value(), outcome()), 1..12),
            log in ".{0,50}",
            confirmed in any::<bool>(),
        ) -> Recording {
            let rounds = vec![baseline.clone(), baseline.clone()];
            let values: Vec<Value> = trials.iter().map(|(value, _)| value.clone()).collect();
            let mut distinct: Vec<Value> = Vec::new();
            for value in &values {
                if !distinct.contains(value) {
                    distinct.push(value.clone());
                }
            }
            let tunables = vec![
                Tunable { name: "A".into(), values: distinct },
                Tunable { name: "B".into(), values: (1..12).map(Value::Int).collect() },
            ];
            let trials: Vec<RecordedTrial> = (1..).zip(trials).map(|(number, (value, outcome))| {
                RecordedTrial {
                    number: number as u64, config: vec![value, Value::Int(number)], outcome,
                    skipped_shapes: vec!["odd".into()],
                    compile: Some(CompileFacts {
                        artifact: "0123456789abcdef0123".into(),
                        cached: true,
                        compile_ms: 1.5,
                        image_bytes: 7,
                        resources: None,
                        occupancy: Some(0.5),
                        gate_warnings: vec!["spills".into()],
                        log: log.clone(),
                        writable: None,
                    }),
                }
            }).collect();
            Recording {
                recording: VERSION,
                kernel: "k".into(),
                shape: "target".into(),
                dimensions: vec![("N".into(), 7)],
                device: DeviceInfo {
                    kind: "cpu".into(),
                    name: "test".into(),
                    cores: 2,
                    memory_bytes: 1 << 40,
                    environment: vec![],
                    cuda: None,
                },
                compiler: "cc 1".into(),
                kiln_version: "0".into(),
                created_unix_ms: 1,
                manifest: "[kernel]\n".into(),
                tunables,
                strategy: "tpe".into(),
                earlier: None,
                doubts: Vec::new(),
                seed: u64::MAX,
                batch: 4,
                finished: true,
                confirmation: confirmed.then(|| Confirmation {
                    playoff: vec![Finalist {
                        trial: 1, median_ns: 2.0, speedup: 1.5, samples_ns: baseline.clone(),
                    }],
                    dropped: vec![Dropped { trial: 1, outcome: trials[0].outcome.clone() }],
                    winner: Some(Winner {
                        trial: 1,
                        config: vec![("A".into(), Value::Int(1))],
                        comparison: verdict::compare(&rounds, &rounds, 0.03, 1),
                        baseline_rounds_ns: rounds.clone(),
                        winner_rounds_ns: rounds,
                        alone_ns: None,
                        other_caches: None,
                        energy_mj: None,
                        acceptance: None,
                    }),
                }),
                baseline: Baseline { label: "b".into(), outcome: measured(baseline) },
                also: vec![],
                trials,
            }
        }
    }

    fn samples(recording: &Recording) -> Vec<f64> {
        let outcomes = recording.trials.iter().map(|t| &t.outcome);
        outcomes
            .chain([&recording.baseline.outcome])
            .filter_map(Outcome::measurement)
            .flat_map(|m| m.samples_ns.clone())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_shrunk_recording_survives_json_exactly(original in recording()) {
            let mut shrunk = original.clone();
            shrunk.shrink();
            let json = serde_json::to_vec(&shrunk).unwrap();
            prop_assert_eq!(&Recording::parse(&json).unwrap(), &shrunk);
            for (before, after) in samples(&original).into_iter().zip(samples(&shrunk)) {
                prop_assert!((after / before - 1.0).abs() <= 0.5e-4);
            }
            let mut again = shrunk.clone();
            again.shrink();
            prop_assert_eq!(again, shrunk);
        }

        #[test]
        fn no_prefix_of_a_recording_is_one(original in recording(), part in 0.0..1.0) {
            let json = serde_json::to_vec(&original).unwrap();
            let cut = &json[..(json.len() as f64 * part) as usize];
            prop_assert!(matches!(Recording::parse(cut), Err(ReadError::Truncated(_))));
        }
    }

    /// Everything a reader would otherwise believe, or trip over.
    #[test]
    fn a_recording_that_contradicts_itself_is_refused() {
        type Change = fn(&mut Recording);
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let mut good = recording().new_tree(&mut runner).unwrap().current();
        good.confirmation = None;
        good.trials.truncate(1);
        let mut second = good.trials[0].clone();
        good.trials[0].outcome = measured(vec![2.0]);
        (second.number, second.config[1]) = (2, Value::Int(2));
        good.trials.push(second);
        good.manifest = "[kernel]\nname = \"k\"\nsource = \"k.c\"\nentry = \"k\"\n\
             [tunables]\nA = [1]\n[shapes.target]\nN = 7\n[shapes.tiny]\nN = 1\n[shapes.odd]\nN = 3\n\
             [arguments]\ny = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
             [reference]\nc = \"k.c:r\"\n[baseline]\nc = \"k.c:b\"\n"
            .into();
        Manifest::parse(&good.manifest).unwrap();
        assert_eq!(good.check(), Ok(()));
        let cases: [(Change, &str); 14] = [
            (|r| r.trials[1].number = 1, "trial 1 is there twice"),
            (
                |r| r.trials[1].config = r.trials[0].config.clone(),
                "trial 2 has the same config as trial 1",
            ),
            (
                |r| r.trials[1].config[1] = Value::Int(99),
                "trial 2 has B=99, which `B` does not list",
            ),
            (
                |r| r.tunables[1].values.push(Value::Int(3)),
                "tunable `B` lists the value 3 twice",
            ),
            (
                |r| r.tunables[1].name = "A".into(),
                "tunable `A` is there twice",
            ),
            (
                |r| r.shape = "huge".into(),
                "its shape `huge` is not in its manifest",
            ),
            (
                |r| r.trials[1].skipped_shapes = vec!["huge".into()],
                "trial 2 names the shape `huge`, which is not in its manifest",
            ),
            (
                |r| r.baseline.outcome = batch_of_0(),
                "the baseline has samples of 0 launches",
            ),
            (
                |r| r.trials[0].outcome = batch_of_0(),
                "trial 1 has samples of 0 launches",
            ),
            (
                |r| r.trials[0].outcome = measured(vec![5.0, 0.5]),
                "trial 1 has a sample of 0.5 ns",
            ),
            (
                |r| r.trials[0].outcome = measured(vec![1e16]),
                "trial 1 has a sample of 10000000000000000 ns",
            ),
            (
                |r| r.trials[0].outcome = measured(vec![f64::NAN]),
                "trial 1 has a sample of NaN ns",
            ),
            (
                |r| r.trials[0].outcome = measured(vec![f64::INFINITY]),
                "trial 1 has a sample of inf ns",
            ),
            (|r| r.batch = 0, "it asks for 0 candidates at a time"),
        ];
        for (change, expected) in cases {
            let mut bad = good.clone();
            change(&mut bad);
            assert_eq!(bad.check(), Err(expected.to_string()));
        }
    }

    fn batch_of_0() -> Outcome {
        match measured(vec![5.0]) {
            Outcome::Measured(m) => Outcome::Measured(Measurement { batch: 0, ..m }),
            other => other,
        }
    }

    #[test]
    fn rounding_keeps_five_digits_and_prints_short() {
        for (value, expected) in [
            (123_456.789, "123460.0"),
            (0.000_123_456_7, "0.00012346"),
            (41.8, "41.8"),
            (99_999.9, "100000.0"),
        ] {
            assert_eq!(format!("{:?}", rounded(value)), expected);
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut text = "aéé".to_string();
        cut(&mut text, 4);
        assert_eq!(text, "aé");
        cut(&mut text, 9);
        assert_eq!(text, "aé");
    }
}
