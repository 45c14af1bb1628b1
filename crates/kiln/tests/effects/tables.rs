//! Effects learnt from a few trials, held against those of the whole recorded table.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_core::effects::{Effects, Observations};
use kiln_core::interchange::t1::Definition;
use kiln_core::interchange::{self, Table};
use kiln_core::search;
use kiln_core::space::{BuildLimits, Config};
use kiln_core::trial::{CompileFailure, Measurement, Outcome, SampleStop};

/// Tables of `<kernel>/<device>.json.gz` beside a `<kernel>/T1.json`.
pub fn tables(spaces: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.path()).collect()
    };
    let is_table = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json.gz") && !name.ends_with("_T4.json.gz")
    };
    let folders = list(spaces).into_iter();
    let mut tables: Vec<PathBuf> = folders
        .filter(|folder| folder.join("T1.json").is_file())
        .flat_map(|folder| list(&folder))
        .filter(is_table)
        .collect();
    tables.sort();
    tables
}

/// `pnpoly/RTX_Titan`
pub fn name(table: &Path) -> String {
    let folder = table.parent().and_then(Path::file_name).unwrap_or_default();
    let file = table.file_name().unwrap_or_default().to_string_lossy();
    let device = file.trim_end_matches(".json.gz");
    format!("{}/{device}", folder.to_string_lossy())
}

pub fn read(path: &Path) -> Table {
    let definition = std::fs::read_to_string(path.with_file_name("T1.json")).expect("a T1 file");
    let definition = Definition::parse(&definition).expect("a definition");
    let space = definition.build(BuildLimits::default()).expect("a space");
    let mut text = String::new();
    let file = std::fs::File::open(path).expect("a table");
    let mut unpacked = flate2::read::GzDecoder::new(file);
    unpacked.read_to_string(&mut text).expect("text");
    interchange::read_recording(&text, Some(Arc::new(space))).expect("a recording")
}

/// The part of the variance of log times that is left when all other tunables are kept as they are, counted
/// over the whole table; the largest first.
pub fn true_shares(table: &Table) -> Vec<(String, f64)> {
    let space = table.space();
    let timed = table.records().iter();
    let timed: Vec<(&Config, f64)> = timed
        .filter_map(|r| Some((&r.config, r.time_ms()?.ln())))
        .collect();
    let count = timed.len() as f64;
    let mean = timed.iter().map(|(_, log)| log).sum::<f64>() / count;
    let all: f64 = timed.iter().map(|(_, log)| (log - mean).powi(2)).sum();
    let share = |tunable: usize| {
        let mut groups: HashMap<Vec<u16>, (f64, f64, f64)> = HashMap::new();
        for (config, log) in &timed {
            let mut others = config.0.to_vec();
            others[tunable] = 0;
            let group = groups.entry(others).or_default();
            let off = log - mean;
            *group = (group.0 + off, group.1 + off * off, group.2 + 1.0);
        }
        let within = groups
            .values()
            .map(|(sum, squares, n)| squares - sum * sum / n);
        within.sum::<f64>() / all
    };
    let names = space.tunables().iter().map(|t| t.name.clone());
    let mut shares: Vec<(String, f64)> = names
        .enumerate()
        .map(|(t, name)| (name, share(t)))
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// What a search of that many trials would have learnt.
pub fn learn(table: &Table, strategy: &str, trials: usize, seed: u64) -> Effects {
    let space = table.recorded_space();
    let mut strategy =
        search::strategy(strategy, Arc::clone(&space), seed, 20).expect("a strategy");
    let mut tried = Vec::new();
    for _ in 0..trials {
        let Some(config) = strategy.ask(1).into_iter().next() else {
            break;
        };
        let ms = table.find(&config).and_then(|record| record.time_ms());
        strategy.tell(&config, &outcome(ms));
        tried.push((config, ms.map(|ms| ms * 1e6)));
    }
    Effects::of(&Observations::of_configs(&space, tried))
}

fn outcome(ms: Option<f64>) -> Outcome {
    match ms {
        Some(ms) => Outcome::Measured(Measurement {
            samples_ns: vec![ms * 1e6],
            batch: 1,
            stop: SampleStop::Precise,
            error_ratio: 0.0,
            conditions: None,
        }),
        None => Outcome::NotCompiled(CompileFailure {
            first_error: String::new(),
            log: String::new(),
        }),
    }
}

/// Whether the two tunables that matter most by the whole table are among the first three that were learnt.
pub fn agrees(truth: &[(String, f64)], effects: &Effects) -> bool {
    let first: Vec<&str> = effects
        .tunables
        .iter()
        .map(|t| t.tunable.as_str())
        .take(3)
        .collect();
    truth
        .iter()
        .take(2)
        .all(|(name, _)| first.contains(&name.as_str()))
}
