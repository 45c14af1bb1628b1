//! Does a study begun with an earlier one get there sooner? Every ordered pair of recordings of the same kernel.
//!
//! `cargo bench --bench warm` prints the table of docs/results. Settings, all optional: `KILN_SPACES` (folder with
//! `<kernel>/T1.json` and `<kernel>/<device>.json.gz`), `KILN_REPEATS`, `KILN_TRIALS`, `KILN_SEED` and `KILN_BIN` (a kiln built before).

#[path = "search/tables.rs"]
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tables::{spaces, tables};

fn main() {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or(default.into());
    let (repeats, trials) = (setting("KILN_REPEATS", "20"), setting("KILN_TRIALS", "300"));
    let most: f64 = trials.parse().expect("KILN_TRIALS is a number");
    let tables = tables(&spaces());
    println!(
        "median trials until 95 % of the optimum, {repeats} searches each; `>{trials}`: most never arrive\n"
    );
    println!("| earlier study | study | cold | warm | warm / cold |");
    println!("| --- | --- | --- | --- | --- |");
    let mut cold: BTreeMap<&Path, f64> = BTreeMap::new();
    for table in &tables {
        cold.insert(table, arrival(table, None, &repeats, &trials));
    }
    let mut ratios = Vec::new();
    let mut by_target: BTreeMap<&Path, Vec<f64>> = BTreeMap::new();
    for from in &tables {
        let related = |to: &&PathBuf| to.parent() == from.parent() && *to != from;
        for to in tables.iter().filter(related) {
            let warm = arrival(to, Some(from), &repeats, &trials);
            // One that never arrives counts as arriving at the end: the ratio then flatters nobody but the cold.
            let ratio = warm.min(most) / cold[to.as_path()].min(most);
            let shown = |n: f64| match n > most {
                true => format!(">{trials}"),
                false => format!("{n}"),
            };
            println!(
                "| {} | {} | {} | {} | {ratio:.2} |",
                name(from),
                name(to),
                shown(cold[to.as_path()]),
                shown(warm)
            );
            ratios.push(ratio);
            by_target.entry(to).or_default().push(ratio);
        }
    }
    let half = ratios.iter().filter(|r| **r <= 0.5).count();
    let worse = ratios.iter().filter(|r| **r > 1.0).count();
    let mut targets: Vec<f64> = by_target.into_values().map(median).collect();
    targets.sort_by(f64::total_cmp);
    println!(
        "\n{} pairs: median ratio {:.2}, at most half in {half}, more than cold in {worse}; median over recordings of \
         each one's median {:.2}",
        ratios.len(),
        median(ratios.clone()),
        median(targets)
    );
}

/// Median trials to 95 % of the optimum; infinite where most searches never arrive.
fn arrival(table: &Path, warm: Option<&Path>, repeats: &str, trials: &str) -> f64 {
    let binary = std::env::var_os("KILN_BIN");
    let seed = std::env::var("KILN_SEED").unwrap_or("0".into());
    let mut command = Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_kiln").into()));
    command.arg("replay").arg(table).arg("--space");
    command.arg(table.with_file_name("T1.json"));
    command.args([
        "--repeats",
        repeats,
        "--trials",
        trials,
        "--seed",
        &seed,
        "--json",
    ]);
    if let Some(warm) = warm {
        command.arg("--warm").arg(warm);
    }
    let output = command.output().expect("kiln runs");
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let each = document["trials_to_95_percent"].as_array();
    let each = each.expect("one number for each search").iter();
    median(each.map(|t| t.as_f64().unwrap_or(f64::INFINITY)).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

fn name(table: &Path) -> String {
    let folder = table.parent().and_then(Path::file_name).unwrap_or_default();
    let file = table.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "{}/{}",
        folder.to_string_lossy(),
        file.trim_end_matches(".json.gz")
    )
}
