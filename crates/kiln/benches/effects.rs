//! Do 200 trials name the tunables that matter? Held against whole recorded tables.
//!
//! `cargo bench --bench effects` prints the tables of docs/results. Settings, all optional: `KILN_SPACES` (folder with
//! `<kernel>/T1.json` and `<kernel>/<device>.json.gz`), `KILN_REPEATS` (studies per space), `KILN_TRIALS`,
//! `KILN_STRATEGY`, `KILN_WORDS=1` (also the sentences of each first study).

#[path = "../tests/effects/tables.rs"]
mod tables;

use std::path::{Path, PathBuf};

use kiln_core::effects::{Effects, Finding};

fn main() {
    let setting = |name: &str, default: u64| {
        let given = std::env::var(name).ok();
        given.map_or(default, |text| {
            text.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
        })
    };
    let (repeats, trials) = (setting("KILN_REPEATS", 10), setting("KILN_TRIALS", 200));
    let strategy = std::env::var("KILN_STRATEGY").unwrap_or_else(|_| "auto".into());
    let paths = tables::tables(&spaces());
    println!(
        "{} recorded spaces, {repeats} studies of {trials} trials each, strategy `{strategy}`\n",
        paths.len()
    );
    println!("| space | by the whole table | by the first study | studies that agree |");
    println!("| --- | --- | --- | --- |");
    let (mut agreeing, mut studies) = (0, 0);
    let mut sentences = Vec::new();
    for path in &paths {
        let table = tables::read(path);
        let truth = tables::true_shares(&table);
        let learnt: Vec<Effects> = (0..repeats)
            .map(|seed| tables::learn(&table, &strategy, trials as usize, seed))
            .collect();
        let agree = learnt.iter().filter(|e| tables::agrees(&truth, e)).count() as u64;
        agreeing += u64::from(2 * agree > repeats);
        studies += agree;
        let shares = |list: &[(String, f64)]| {
            let shown = list
                .iter()
                .take(3)
                .map(|(n, s)| format!("{n} {:.0} %", 100.0 * s));
            shown.collect::<Vec<_>>().join(", ")
        };
        let Some(first) = learnt.first() else {
            continue;
        };
        let own: Vec<(String, f64)> = first
            .tunables
            .iter()
            .map(|t| (t.tunable.clone(), t.share))
            .collect();
        println!(
            "| {} | {} | {} | {agree} of {repeats} |",
            tables::name(path),
            shares(&truth),
            shares(&own)
        );
        sentences.push((tables::name(path), said(first)));
    }
    println!(
        "\nagreement (the first two of the whole table among the first three learnt): {agreeing} of {} spaces by most of \
         their studies, {studies} of {} studies\n",
        paths.len(),
        repeats * paths.len() as u64
    );
    if std::env::var_os("KILN_WORDS").is_none() {
        return;
    }
    for (space, said) in sentences {
        println!("{space}, the first study in words:\n");
        said.iter().for_each(|sentence| println!("- {sentence}"));
        println!();
    }
}

fn said(effects: &Effects) -> Vec<String> {
    let tunables = effects.tunables.iter();
    let tunables = tunables.filter(|t| t.finding != Finding::NeverVaried);
    let tunables = tunables.map(|t| t.sentence.clone());
    tunables
        .chain(effects.pairs.iter().map(|p| p.sentence.clone()))
        .collect()
}

/// The full collection where there is one, otherwise what the repository carries.
fn spaces() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let given = std::env::var_os("KILN_SPACES").map(PathBuf::from);
    let beside = here.join("../../../shared/spaces");
    let own = here.join("tests/spaces");
    given
        .or_else(|| beside.is_dir().then_some(beside))
        .unwrap_or(own)
}
