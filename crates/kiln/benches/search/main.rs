//! What the strategies find on recorded spaces, beside what other tuners find there.
//!
//! `cargo bench --bench search` prints the tables of docs/search.md. Settings, all optional:
//! `KILN_SPACES` (folder with `<kernel>/T1.json` and `<kernel>/<device>.json.gz`), `KILN_REPEATS`,
//! `KILN_STRATEGIES` (names, the first one is judged), `KILN_PEERS` (what `benches/peers.py`
//! printed) and `KILN_PLOTS` (folder to write plots to).

mod plot;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tables::{spaces, tables};

const BUDGETS: [usize; 4] = [25, 50, 100, 200];
const TRIALS: usize = 200;

/// Medians over repeats after every trial.
type Curve = Vec<f64>;

struct Found {
    space: String,
    /// In the order of the strategies.
    curves: Vec<Curve>,
    means: Vec<Curve>,
    microseconds_per_ask: Vec<f64>,
    scores: Vec<f64>,
    chance: Curve,
    chance_means: Curve,
}

fn main() {
    let spaces = spaces();
    let tables = tables(&spaces);
    let repeats = std::env::var("KILN_REPEATS").unwrap_or_else(|_| "100".into());
    let strategies = std::env::var("KILN_STRATEGIES")
        .unwrap_or_else(|_| "auto,forest,tpe,genetic,annealing,local,lhs,random".into());
    let names: Vec<String> = strategies.split(',').map(str::to_string).collect();
    println!(
        "{} recorded spaces, {repeats} searches each, one config at a time\n",
        tables.len()
    );
    let found: Vec<Found> = tables
        .iter()
        .map(|table| replay(table, &strategies, &repeats, "1"))
        .collect();
    let peers = peers(&found);
    mean_table(&names, &found, &peers);
    by_space(&names[0], &found);
    below_chance(&names[0], &found);
    batches(&names[0], &tables, &repeats, &found);
    if let Some(folder) = std::env::var_os("KILN_PLOTS").map(PathBuf::from) {
        plots(&names, &found, &peers, &folder);
    }
}

fn replay(table: &Path, strategies: &str, repeats: &str, batch: &str) -> Found {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .arg("replay")
        .arg(table)
        .arg("--space")
        .arg(table.with_file_name("T1.json"))
        .args([
            "--compare",
            strategies,
            "--repeats",
            repeats,
            "--batch",
            batch,
        ])
        .args(["--trials", &TRIALS.to_string(), "--curve", "--json"])
        .output()
        .expect("kiln runs");
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let each = document["strategies"].as_array().expect("strategies");
    let numbers = |key: &str| -> Vec<f64> {
        let number = |s: &Value| s[key].as_f64().unwrap_or(f64::NAN);
        each.iter().map(number).collect()
    };
    let folder = table.parent().and_then(Path::file_name).unwrap_or_default();
    let file = table.file_name().unwrap_or_default().to_string_lossy();
    Found {
        space: format!(
            "{}/{}",
            folder.to_string_lossy(),
            file.trim_end_matches(".json.gz")
        ),
        curves: each.iter().map(|s| curve(&s["curve"], "median")).collect(),
        means: each.iter().map(|s| curve(&s["curve"], "mean")).collect(),
        microseconds_per_ask: numbers("strategy_seconds_per_ask")
            .iter()
            .map(|s| 1e6 * s)
            .collect(),
        scores: numbers("score"),
        chance: curve(&document["random_search"]["curve"], "median"),
        chance_means: curve(&document["random_search"]["curve"], "mean"),
    }
}

fn curve(points: &Value, key: &str) -> Curve {
    let points = points.as_array().into_iter().flatten();
    points
        .map(|p| p[key].as_f64().unwrap_or(f64::NAN))
        .collect()
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Peer to budget to the mean over spaces of medians over seeds. Empty without `KILN_PEERS`.
fn peers(found: &[Found]) -> BTreeMap<String, Vec<f64>> {
    let Some(path) = std::env::var_os("KILN_PEERS") else {
        return BTreeMap::new();
    };
    let text = std::fs::read_to_string(&path).expect("KILN_PEERS is a file");
    let mut runs: BTreeMap<String, BTreeMap<String, Vec<Vec<f64>>>> = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with('{')) {
        let run: Value = serde_json::from_str(line).expect("one JSON document per line");
        let space = run["space"].as_str().unwrap_or_default().to_string();
        if !found.iter().any(|f| f.space == space) {
            continue;
        }
        let fractions = BUDGETS
            .iter()
            .map(|b| {
                run["fraction_of_optimum"][b.to_string()]
                    .as_f64()
                    .unwrap_or(0.0)
            })
            .collect();
        let peer = run["peer"].as_str().unwrap_or_default().to_string();
        runs.entry(peer)
            .or_default()
            .entry(space)
            .or_default()
            .push(fractions);
    }
    let summarise = |spaces: BTreeMap<String, Vec<Vec<f64>>>| -> Vec<f64> {
        let at = |budget: usize| mean(spaces.values().map(|runs| median_at(runs, budget)));
        (0..BUDGETS.len()).map(at).collect()
    };
    let complete = |(_, spaces): &(String, BTreeMap<_, _>)| spaces.len() == found.len();
    runs.into_iter()
        .filter(complete)
        .map(|(peer, spaces)| (peer, summarise(spaces)))
        .collect()
}

fn median_at(runs: &[Vec<f64>], budget: usize) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|r| r[budget]).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

fn mean_table(names: &[String], found: &[Found], peers: &BTreeMap<String, Vec<f64>>) {
    println!("Fraction of the optimum: median over searches, mean over spaces\n");
    println!("| | @25 | @50 | @100 | @200 | worst space @200 | score | us per ask |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (s, name) in names.iter().enumerate() {
        print!("| `{name}` |");
        for budget in BUDGETS {
            print!(
                " {:.3} |",
                mean(found.iter().map(|f| f.curves[s][budget - 1]))
            );
        }
        let at_end = found.iter().map(|f| f.curves[s][TRIALS - 1]);
        println!(
            " {:.3} | {:.3} | {:.0} |",
            at_end.fold(f64::INFINITY, f64::min),
            mean(found.iter().map(|f| f.scores[s])),
            mean(found.iter().map(|f| f.microseconds_per_ask[s]))
        );
    }
    print!("| random search, exact |");
    for budget in BUDGETS {
        print!(" {:.3} |", mean(found.iter().map(|f| f.chance[budget - 1])));
    }
    println!(" | 0 | |");
    for (peer, at) in peers {
        let cells: Vec<String> = at.iter().map(|v| format!("{v:.3}")).collect();
        println!("| {peer} | {} | | | |", cells.join(" | "));
    }
    println!();
}

fn by_space(name: &str, found: &[Found]) {
    println!("`{name}` by space, median over searches (random search, exact)\n");
    println!("| space | @25 | @50 | @100 | @200 |");
    println!("| --- | --- | --- | --- | --- |");
    for f in found {
        print!("| {} |", f.space);
        for budget in BUDGETS {
            print!(
                " {:.3} ({:.3}) |",
                f.curves[0][budget - 1],
                f.chance[budget - 1]
            );
        }
        println!();
    }
    println!();
}

/// Where the strategy is behind random search by its mean, at any number of trials.
fn below_chance(name: &str, found: &[Found]) {
    let mut worst = (0.0, String::from("never behind random search"));
    for f in found {
        for (trial, (ours, theirs)) in f.means[0].iter().zip(&f.chance_means).enumerate() {
            if ours - theirs < worst.0 {
                let place = format!("{} after {} trials", f.space, trial + 1);
                worst = (ours - theirs, place);
            }
        }
    }
    println!(
        "`{name}` against random search, means, trials 1 to {TRIALS}: at worst {:+.4} ({})\n",
        worst.0, worst.1
    );
}

fn batches(name: &str, tables: &[PathBuf], repeats: &str, single: &[Found]) {
    println!("`{name}` in batches, mean over spaces of the mean over searches\n");
    println!("| batch | @25 | @50 | @100 | @200 |");
    println!("| --- | --- | --- | --- | --- |");
    let row = |label: &str, found: &[Found]| {
        print!("| {label} |");
        for budget in BUDGETS {
            print!(
                " {:.3} |",
                mean(found.iter().map(|f| f.means[0][budget - 1]))
            );
        }
        println!();
    };
    row("1", single);
    for batch in ["8", "16"] {
        let found: Vec<Found> = tables
            .iter()
            .map(|t| replay(t, name, repeats, batch))
            .collect();
        row(batch, &found);
    }
    println!();
}

fn plots(names: &[String], found: &[Found], peers: &BTreeMap<String, Vec<f64>>, folder: &Path) {
    let over_spaces = |s: usize| -> Curve {
        (0..TRIALS)
            .map(|t| mean(found.iter().map(|f| f.curves[s][t])))
            .collect()
    };
    let mut lines: Vec<plot::Line> = names
        .iter()
        .enumerate()
        .map(|(s, name)| plot::Line::curve(name, over_spaces(s)))
        .collect();
    for (peer, at) in peers {
        let points = BUDGETS.iter().zip(at).map(|(b, v)| (*b as f64, *v));
        lines.push(plot::Line::points(peer, points.collect()));
    }
    let title = format!(
        "Best found after N trials, mean over {} spaces",
        found.len()
    );
    let path = folder.join("search.svg");
    std::fs::write(&path, plot::svg(&title, &lines, 0.6)).expect("KILN_PLOTS can be written to");
    for f in found {
        let mut lines: Vec<plot::Line> = names
            .iter()
            .zip(&f.curves)
            .map(|(name, curve)| plot::Line::curve(name, curve.clone()))
            .collect();
        lines.push(plot::Line::curve("chance", f.chance.clone()));
        let path = folder.join(format!("search-{}.svg", f.space.replace('/', "-")));
        let lowest = f.chance.first().copied().unwrap_or(0.0).max(0.3);
        std::fs::write(&path, plot::svg(&f.space, &lines, lowest)).expect("a plot is written");
    }
    println!("plots in {}", folder.display());
}
