//! The configs to export: confirmed winners of studies, or of a file that lists them.

use std::path::{Path, PathBuf};

use kiln_core::event::Winner;
use kiln_core::protocol::DeviceInfo;
use kiln_core::study::Study;
use kiln_core::trial::Assignment;
use kiln_core::value::Value;
use kiln_core::verdict::Verdict;
use serde::Deserialize;

use super::package::Evidence;
use crate::exit::Failure;
use crate::packed;
use crate::project::ManifestFile;
use crate::report;
use crate::store::{SqliteStore, Store, StudySummary, no_studies};

/// One shape and what is to run on it.
pub struct Chosen {
    pub shape: String,
    pub dimensions: Vec<(String, i64)>,
    pub config: Assignment,
    pub confirmed: bool,
    pub evidence: Evidence,
}

pub struct Winners {
    pub chosen: Vec<Chosen>,
    /// What the configs were judged on.
    pub device: Option<DeviceInfo>,
    pub notes: Vec<String>,
}

/// Whether configs may be exported that nothing was proven about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    Refuse,
    Accept,
}

pub fn now_unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_millis() as u64)
}

/// The studies a user named, else the latest of every shape of the kernel that was tuned last.
pub fn studies(root: &Path, ids: &[u64]) -> Result<Vec<Study>, Failure> {
    let none = || no_studies(root);
    let store = SqliteStore::open_existing(root)?.ok_or_else(none)?;
    if !ids.is_empty() {
        return ids.iter().map(|id| store.study(*id)).collect();
    }
    let all = store.studies()?;
    let measured = |s: &&StudySummary| s.header.replayed_from.is_none();
    let last = all.iter().rev().find(measured).ok_or_else(none)?;
    let mut latest: Vec<&StudySummary> = Vec::new();
    let same = |s: &&StudySummary| {
        s.header.manifest == last.header.manifest
            && s.header.device.name == last.header.device.name
            && s.header.identity.sources == last.header.identity.sources
    };
    for study in all.iter().filter(measured).filter(same) {
        // One with a winner is not given up for a later one without.
        let before = latest
            .iter()
            .position(|s| s.header.shape == study.header.shape);
        match before {
            Some(at) if study.winner.is_some() || latest[at].winner.is_none() => latest[at] = study,
            Some(_) => {}
            None => latest.push(study),
        }
    }
    latest.iter().map(|s| store.study(s.id)).collect()
}

/// All of one kernel, on one device, no shape twice.
pub fn of_studies(studies: &[Study], unproven: Unproven) -> Result<Winners, Failure> {
    let Some(first) = studies.first() else {
        return Err(Failure::usage("no study was named").hint("`kiln studies list` shows them"));
    };
    let mut winners = Winners {
        chosen: Vec::new(),
        device: Some(first.header.device.clone()),
        notes: Vec::new(),
    };
    for study in studies {
        let header = &study.header;
        if header.manifest != first.header.manifest {
            return Err(Failure::usage(format!(
                "study {} is of `{}`, study {} of `{}`: one package holds one kernel",
                first.id, first.header.manifest, study.id, header.manifest
            ))
            .hint("export them one after the other, each with an `--out` of its own"));
        }
        if header.device.name != first.header.device.name {
            return Err(Failure::usage(format!(
                "study {} was measured on `{}`, study {} on `{}`",
                first.id, first.header.device.name, study.id, header.device.name
            ))
            .hint("export a package for each device"));
        }
        if let Some(file) = &header.replayed_from {
            match unproven {
                Unproven::Refuse => {
                    return Err(Failure::usage(format!(
                        "study {} is a replay of `{file}`: nothing was measured in it",
                        study.id
                    ))
                    .hint("export the study itself, or say --unconfirmed; the package then says so too"));
                }
                Unproven::Accept => winners.notes.push(format!(
                    "study {} is a replay: nothing was measured here",
                    study.id
                )),
            }
        }
        let chosen = of_study(study, unproven)?;
        if winners
            .chosen
            .iter()
            .any(|c| c.dimensions == chosen.dimensions)
        {
            return Err(Failure::usage(format!(
                "two of the studies are of shape `{}`",
                chosen.shape
            ))
            .hint("name one of them"));
        }
        winners.chosen.push(chosen);
    }
    Ok(winners)
}

fn of_study(study: &Study, unproven: Unproven) -> Result<Chosen, Failure> {
    let header = &study.header;
    let is_faster = |w: &&Winner| w.comparison.verdict == Verdict::Faster;
    let won = study
        .winner()
        .filter(|w| is_faster(w) || report::is_success(study));
    let best = || study.best().map(|(trial, _)| trial.config.clone());
    let (config, confirmed) = match (won, unproven) {
        (Some(winner), _) => (winner.config.clone(), header.replayed_from.is_none()),
        (None, Unproven::Accept) => {
            let found = study.winner().map(|w| w.config.clone()).or_else(best);
            let found = found.ok_or_else(|| {
                Failure::usage(format!(
                    "study {} found no config that works; there is nothing to export",
                    study.id
                ))
                .hint("`kiln explain` says why they fail")
            })?;
            (found, false)
        }
        (None, Unproven::Refuse) => {
            let why = match study.winner() {
                Some(winner) => format!(
                    "its best config was confirmed to be {}, not FASTER",
                    winner.comparison.verdict.name()
                ),
                None if study.finished => "no config was confirmed".into(),
                None => "it is not finished".into(),
            };
            return Err(Failure::usage(format!(
                "study {} (shape `{}`) has no confirmed winner: {why}",
                study.id, header.shape
            ))
            .hint(
                "leave it out, tune it again, or say --unconfirmed; the package then says so too",
            ));
        }
    };
    let comparison = study.winner().map(|w| &w.comparison);
    Ok(Chosen {
        shape: header.shape.clone(),
        dimensions: header.dimensions.clone(),
        config,
        confirmed,
        evidence: Evidence {
            from: format!("study {}", study.id),
            verdict: comparison.map(|c| c.verdict.name().to_string()),
            speedup: comparison.map(|c| c.speedup),
            speedup_ci_95: comparison.map(|c| [c.speedup_ci_95.low, c.speedup_ci_95.high]),
            time_us: comparison.map(|c| c.candidate_ns / 1e3),
            baseline: study.baseline.as_ref().map(|b| b.label.clone()),
            baseline_us: comparison.map(|c| c.baseline_ns / 1e3),
            samples: comparison.map(|c| [c.samples.baseline, c.samples.candidate]),
            device: header.device.name.clone(),
            date: report::terminal::date(header.created_unix_ms),
            kiln_version: Some(header.kiln_version.clone()),
        },
    })
}

/// One entry of a file of winners, such as `kernels/attention_sm90/winners.json`.
#[derive(Deserialize)]
struct Listed {
    shape: String,
    #[serde(default)]
    dimensions: Option<serde_json::Map<String, serde_json::Value>>,
    config: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    device: String,
    time_us: Option<f64>,
    ratio: Option<f64>,
    ratio_ci_95: Option<[f64; 2]>,
    #[serde(default)]
    date: String,
}

impl Listed {
    /// Why it would not count as a winner if a study said no more; nothing where it would.
    fn unproven(&self, file: &ManifestFile) -> Option<String> {
        let Some([low, high]) = self.ratio_ci_95 else {
            return Some("no `ratio_ci_95`".into());
        };
        let target = file.manifest.baseline.as_ref().map_or(1.0, |b| b.target);
        let margin = file.manifest.confirm.margin;
        // As with studies: below 1 the question is whether it comes that near.
        let (is_reached, least) = match target < 1.0 {
            true => (low >= target, target),
            false => (low > 1.0 + margin.max(0.0), 1.0 + margin.max(0.0)),
        };
        if !is_reached {
            return Some(format!(
                "its interval [{low:?}, {high:?}] is not wholly above {least:?}"
            ));
        }
        let missing = [("device", &self.device), ("date", &self.date)];
        let missing = missing.iter().find(|(_, text)| text.trim().is_empty());
        missing.map(|(key, _)| format!("no `{key}`"))
    }

    /// What no measurement can have given.
    fn nonsense(&self, nothing_to_set: bool) -> Option<String> {
        if self.config.is_empty() && !nothing_to_set {
            return Some("`config` is empty".into());
        }
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        for (name, number) in [("ratio", self.ratio), ("time_us", self.time_us)] {
            if let Some(number) = number.filter(|n| !is_positive(*n)) {
                return Some(format!("`{name}` is {number:?}, expected more than 0"));
            }
        }
        let [low, high] = self.ratio_ci_95?;
        let shown = format!("`ratio_ci_95` is [{low:?}, {high:?}]");
        if !is_positive(low) || !is_positive(high) {
            return Some(format!("{shown}, expected two numbers above 0"));
        }
        if low > high {
            return Some(format!("{shown}: its low end lies above its high end"));
        }
        match self.ratio {
            None => Some(format!("{shown}, but there is no `ratio` it belongs to")),
            Some(ratio) if !(low..=high).contains(&ratio) => {
                Some(format!("{shown}, and `ratio` = {ratio:?} lies outside"))
            }
            Some(_) => None,
        }
    }
}

/// Winners kept as data. One without an interval was never confirmed by kiln.
pub fn of_file(path: &Path, file: &ManifestFile, unproven: Unproven) -> Result<Winners, Failure> {
    let shown = path.display();
    let bad = |why: String| Failure::usage(format!("`{shown}`: {why}"));
    let text = packed::read_text(path)
        .map_err(|e| Failure::bad_path(format!("cannot read `{shown}`"), &e))?;
    let listed: Vec<Listed> = serde_json::from_str(&text).map_err(|e| {
        bad(format!("not a list of winners: {e}"))
            .hint("each has `shape` and `config`, and may have `ratio`, `ratio_ci_95`, `time_us`, `device`, `date`")
    })?;
    if listed.is_empty() {
        return Err(bad("it lists no winner".into()));
    }
    let mut winners = Winners {
        chosen: Vec::new(),
        device: None,
        notes: Vec::new(),
    };
    let mut unconfirmed = Vec::new();
    for (place, entry) in listed.into_iter().enumerate() {
        if let Some(why) = entry.nonsense(file.manifest.tunables.is_empty()) {
            let shape = kiln_core::diagnostic::printable(&entry.shape);
            return Err(bad(format!("winner {} (shape `{shape}`): {why}", place + 1)).hint(
                "a winner has a value for its tunables, a `ratio` above 0 inside `ratio_ci_95 = [low, high]`, and a `time_us` above 0; \
                 `kiln tune` measures them, and one that was never measured has none of the three",
            ));
        }
        let shapes = &file.manifest.shapes;
        let shape = shapes
            .iter()
            .find(|s| s.name == entry.shape)
            .ok_or_else(|| bad(format!("`{}` has no shape `{}`", file.name(), entry.shape)))?;
        for (name, value) in entry.dimensions.iter().flatten() {
            let same = shape
                .dimensions
                .iter()
                .any(|(n, size)| n == name && value.as_i64() == Some(*size));
            if !same {
                return Err(bad(format!(
                    "`{name}` of shape `{}` is not what `{}` says",
                    entry.shape,
                    file.name()
                )));
            }
        }
        if winners
            .chosen
            .iter()
            .any(|c: &Chosen| c.shape == entry.shape)
        {
            return Err(bad(format!("shape `{}` is listed twice", entry.shape)));
        }
        let same = winners
            .chosen
            .iter()
            .find(|c: &&Chosen| c.dimensions == shape.dimensions);
        if let Some(other) = same {
            return Err(bad(format!(
                "shapes `{}` and `{}` have the same dimensions: a call could not tell them apart",
                other.shape, entry.shape
            ))
            .hint("list one of them"));
        }
        let open = entry.unproven(file);
        let confirmed = open.is_none();
        unconfirmed.extend(open.map(|why| format!("{} ({why})", entry.shape)));
        winners.chosen.push(Chosen {
            shape: shape.name.clone(),
            dimensions: shape.dimensions.clone(),
            config: config(file, &entry).map_err(bad)?,
            confirmed,
            evidence: Evidence {
                from: file_name(path),
                speedup: entry.ratio,
                speedup_ci_95: entry.ratio_ci_95,
                time_us: entry.time_us,
                device: entry.device.clone(),
                date: entry.date.clone(),
                ..Evidence::default()
            },
        });
    }
    if !unconfirmed.is_empty() && unproven == Unproven::Refuse {
        return Err(bad(format!(
            "{} of {} winners have no confirmed speedup: {}",
            unconfirmed.len(),
            winners.chosen.len(),
            unconfirmed.join(", ")
        ))
        .hint("`--unconfirmed` exports them all the same; the package then says so"));
    }
    let is_claimed = |c: &Chosen| c.evidence.speedup.is_some();
    if winners.chosen.iter().any(is_claimed) {
        winners.notes.push(format!(
        "speedups are as claimed by `{}`, not confirmed by kiln here; `kiln verify` measures them",
        kiln_core::diagnostic::printable(&file_name(path))
    ));
    }
    Ok(winners)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// The listed values as the manifest's own: there a boolean may be written as 0 or 1.
fn config(file: &ManifestFile, entry: &Listed) -> Result<Assignment, String> {
    let tunables = &file.manifest.tunables;
    if let Some(unknown) = entry
        .config
        .keys()
        .find(|name| !tunables.iter().any(|t| t.name == **name))
    {
        return Err(format!(
            "shape `{}`: there is no tunable `{unknown}`",
            entry.shape
        ));
    }
    tunables
        .iter()
        .map(|tunable| {
            let name = &tunable.name;
            let written = entry.config.get(name);
            let written = match (written, tunable.values.as_slice()) {
                (Some(json), _) => serde_json::from_value::<Value>(json.clone())
                    .map_err(|e| format!("shape `{}`, `{name}`: {e}", entry.shape))?,
                (None, [only]) => only.clone(),
                (None, _) => {
                    return Err(format!("shape `{}` has no value for `{name}`", entry.shape));
                }
            };
            let listed = tunable.values.iter().find(|v| v.loosely_equals(&written));
            match listed {
                Some(value) => Ok((name.clone(), value.clone())),
                None => Err(format!(
                    "shape `{}`: {written} is none of the values of `{name}`",
                    entry.shape
                )),
            }
        })
        .collect()
}

/// The manifest that studies belong to.
pub fn manifest_of(root: &Path, studies: &[Study]) -> Result<PathBuf, Failure> {
    let named = studies.first().map(|s| s.header.manifest.clone());
    let path = root.join(named.unwrap_or_default());
    match path.is_file() {
        true => Ok(path),
        false => Err(Failure::usage(format!(
            "the manifest `{}` of the study is not there any more",
            path.display()
        ))
        .hint("export where the kernel is; a study keeps no sources")),
    }
}
