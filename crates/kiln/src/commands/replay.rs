//! `kiln replay`: strategies against a recording of every config, without a device.

use std::path::Path;
use std::sync::Arc;

use kiln_core::interchange::Table;
use kiln_core::search::{self, UnknownStrategy};
use kiln_core::units::human_ns;
use serde_json::{Value, json};

use crate::cli::ReplayArgs;
use crate::engine::earlier::{FEWEST, LISTENER};
use crate::exit::{Exit, Failure};
use crate::interchange;
use crate::printer;
use crate::simulate::{self, Chance, Plan, Summary};

/// Budgets shown in the table, as far as the trials go.
const SHOWN: [usize; 7] = [10, 25, 50, 100, 200, 400, 800];

pub fn run(args: &ReplayArgs) -> Result<Exit, Failure> {
    let names = names(args)?;
    let (table, earlier) = read(args)?;
    let chance = Chance::new(&table);
    let Some(optimum) = chance.optimum_ms() else {
        return Err(Failure::usage(format!(
            "nothing to find in `{}`: none of its {} configs worked",
            args.recording.display(),
            table.records().len()
        ))
        .hint("take a recording with at least one config that was timed"));
    };
    let plan = Plan {
        trials: args.trials as usize,
        batch: args.batch as usize,
        seconds: args.seconds,
        seed_trials: args.seed_trials as usize,
        repeats: args.repeats as usize,
        seed: args.seed,
    };
    let mut summaries = Vec::new();
    for name in &names {
        let runs = simulate::repeats(&table, earlier.as_ref(), name, &plan).map_err(unknown)?;
        let summary = Summary::new(&runs, &chance).ok_or_else(|| too_short(args, &table))?;
        summaries.push((name.as_str(), summary));
    }
    if args.json {
        let document = document(args, &table, optimum, &chance, &summaries);
        printer::document(&document);
    } else {
        printer::data(&text(args, &table, optimum, &chance, &summaries));
    }
    Ok(Exit::Success)
}

fn names(args: &ReplayArgs) -> Result<Vec<String>, Failure> {
    let given = match args.compare.is_empty() {
        true => std::slice::from_ref(&args.strategy),
        false => &args.compare[..],
    };
    let mut names: Vec<String> = Vec::new();
    for name in given.iter().map(|name| name.trim().to_string()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let known = |name: &String| search::STRATEGIES.iter().any(|(known, _)| known == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        return Err(unknown(search::unknown_strategy(name)));
    }
    if args.warm.is_some() && !names.iter().any(|name| name == LISTENER) {
        return Err(Failure::usage(format!(
            "`--warm` has no effect on the strategy `{}`",
            names.join("`, `")
        ))
        .hint(format!("`--strategy {LISTENER}` makes use of it")));
    }
    Ok(names)
}

/// Not one trial fits into the seconds of any search.
fn too_short(args: &ReplayArgs, table: &Table) -> Failure {
    let costs = table.records().iter().map(|r| r.costs.total_seconds());
    let mean = costs.sum::<f64>() / table.records().len() as f64;
    Failure::usage(format!(
        "{} s are less than one trial: a config of this recording takes {mean:.2} s on average",
        args.seconds.unwrap_or(0.0)
    ))
    .hint(format!(
        "`--seconds {:.0}` makes room for about fifty",
        (50.0 * mean).max(1.0)
    ))
}

fn unknown(error: UnknownStrategy) -> Failure {
    Failure::usage(error.to_string()).hint(error.hint)
}

/// The recording, and the one to begin with.
fn read(args: &ReplayArgs) -> Result<(Table, Option<Table>), Failure> {
    let space = match &args.space {
        Some(path) => Some(Arc::new(interchange::read_space(path)?.space)),
        None => None,
    };
    let table = interchange::read_table(&args.recording, space.clone())?;
    let earlier = match &args.warm {
        Some(path) => Some(interchange::read_table(path, space)?),
        None => None,
    };
    if let (Some(path), Some(earlier)) = (&args.warm, &earlier) {
        let valid = simulate::shared_configs(earlier, &table);
        if valid < FEWEST {
            return Err(Failure::usage(format!(
                "`--warm {}`: {valid} of its configs are valid in this space; {FEWEST} are needed",
                path.display()
            ))
            .hint("an earlier recording helps when its tunables have the same names and values"));
        }
    }
    let costs = table.records().iter().map(|r| r.costs.total_seconds());
    if args.seconds.is_some() && costs.sum::<f64>() <= 0.0 {
        return Err(Failure::usage(format!(
            "`{}` does not say what its configs cost: `--seconds` has nothing to count",
            args.recording.display()
        ))
        .hint("give a budget in trials: `--trials 100`"));
    }
    if table.origin().unfinished {
        printer::talk("warning: the recording was not closed; what it has so far is used");
    }
    if table.missing() != Some(0) {
        let missing = table.missing().map_or("some".into(), |n| n.to_string());
        printer::talk(&format!(
            "warning: {missing} valid configs are not in the recording; the search is among those that are"
        ));
    }
    Ok((table, earlier))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

fn document(
    args: &ReplayArgs,
    table: &Table,
    optimum: f64,
    chance: &Chance,
    summaries: &[(&str, Summary)],
) -> Value {
    let mut document = json!({
        "schema_version": 1,
        "recording": args.recording.display().to_string(),
        "kernel": table.origin().kernel,
        "device": table.origin().device,
        "configs": table.records().len(),
        "failed_configs": table.failed(),
        "optimum_ms": optimum,
        "trials": args.trials,
        "repeats": args.repeats,
        "batch": args.batch,
        "seed": args.seed,
        "seconds": args.seconds,
        "warm": args.warm.as_ref().map(|path| path.display().to_string()),
    });
    // Trials of random search are not seconds.
    if args.seconds.is_none() {
        document["random_search"] = json!({
            "mean": chance.mean_fraction(args.trials as usize),
            "median": chance.median_fraction(args.trials as usize),
        });
    }
    let mut each: Vec<Value> = summaries
        .iter()
        .map(|(name, summary)| of_strategy(name, summary, args.curve))
        .collect();
    match (args.compare.is_empty(), each.first_mut()) {
        // One strategy stands at the top: nothing to unpack.
        (true, Some(Value::Object(only))) => {
            if let Value::Object(top) = &mut document {
                top.append(only);
            }
        }
        _ => document["strategies"] = Value::Array(each),
    }
    if args.curve && args.seconds.is_none() {
        let trials = 1..=args.trials as usize;
        document["random_search"]["curve"] =
            trials.map(|t| json!({"trial": t, "mean": chance.mean_fraction(t), "median": chance.median_fraction(t)})).collect();
    }
    document
}

fn of_strategy(name: &str, summary: &Summary, curve: bool) -> Value {
    let best: Vec<Option<f64>> = summary
        .best_ms
        .iter()
        .map(|ms| ms.is_finite().then_some(*ms))
        .collect();
    let mut document = json!({
        "strategy": name,
        "fraction_of_optimum": summary.fractions,
        "best_ms": best,
        "mean": summary.at_end.mean,
        "median": summary.at_end.median,
        "p10": summary.at_end.p10,
        "trials_to_95_percent": summary.trials_to_95,
        "median_trials_to_95_percent": summary.median_trials_to_95(),
        "score": summary.score,
        "trials_run": summary.trials,
        "failed_share": summary.failed,
        "strategy_seconds": summary.strategy_s,
        "strategy_seconds_per_ask": summary.seconds_per_ask,
    });
    if curve {
        let points = summary.curve.iter().enumerate();
        document["curve"] = points
            .map(|(t, q)| json!({"trial": t + 1, "mean": q.mean, "median": q.median, "p10": q.p10}))
            .collect();
    }
    document
}

fn text(
    args: &ReplayArgs,
    table: &Table,
    optimum: f64,
    chance: &Chance,
    summaries: &[(&str, Summary)],
) -> String {
    let origin = table.origin();
    let kernel = origin
        .kernel
        .clone()
        .unwrap_or_else(|| file_name(&args.recording));
    let device = origin.device.clone().filter(|d| !d.is_empty());
    let on = device.map_or_else(String::new, |d| format!(" on {d}"));
    let mut out = format!(
        "{kernel}{on}: {} configs, {} of them fail; optimum {}\n",
        table.records().len(),
        table.failed(),
        human_ns(1e6 * optimum)
    );
    if let Some(seconds) = args.seconds {
        out +=
            &format!("a search ends after {seconds} s of compiling and measuring, as recorded\n");
    }
    if let Some(path) = &args.warm {
        let name = file_name(path);
        out += &format!("`{LISTENER}` begins with what 200 trials found in {name}\n");
    }
    out += &format!(
        "fraction of the optimum after N trials, median of {} searches (batches of {})\n\n",
        args.repeats, args.batch
    );
    let length = summaries
        .iter()
        .map(|(_, s)| s.curve.len())
        .max()
        .unwrap_or(0);
    let mut budgets: Vec<usize> = SHOWN.into_iter().filter(|n| *n < length).collect();
    if args.seconds.is_some() {
        // Searches end after different numbers of trials; what counts is where they end.
        budgets.clear();
    }
    budgets.push(length);
    if args.curve {
        budgets = (1..=length).collect();
        out += &curves(&budgets, chance, summaries);
        out.push('\n');
        budgets = vec![length];
    }
    out += &format!("{:<12}", "strategy");
    for n in &budgets {
        let at = match args.seconds {
            Some(_) => "end".into(),
            None => format!("@{n}"),
        };
        out += &format!(" {at:>7}");
    }
    out += "    mean     p10  to 95 %   score  failed  us/ask\n";
    for (name, s) in summaries {
        out += &format!("{name:<12}");
        for n in &budgets {
            out += &format!(" {:>7.4}", s.curve[(n - 1).min(s.curve.len() - 1)].median);
        }
        let arrived = s
            .median_trials_to_95()
            .map_or("-".into(), |t| t.to_string());
        out += &format!(
            " {:>7.4} {:>7.4} {arrived:>8} {:>7.3} {:>6.1}% {:>7.0}\n",
            s.at_end.mean,
            s.at_end.p10,
            s.score,
            100.0 * s.failed,
            1e6 * s.seconds_per_ask
        );
    }
    if args.seconds.is_some() {
        return out;
    }
    out += &format!("{:<12}", "chance");
    for n in &budgets {
        out += &format!(" {:>7.4}", chance.median_fraction(*n));
    }
    out += &format!(" {:>7.4}\n", chance.mean_fraction(length));
    out += "\nchance: random search, computed exactly; to 95 %: median trials until 95 % of the optimum; \
            score: 0 = random search, 1 = optimum\n";
    out
}

fn curves(budgets: &[usize], chance: &Chance, summaries: &[(&str, Summary)]) -> String {
    let mut out = format!("{:>6}", "trial");
    for (name, _) in summaries {
        out += &format!(" {name:>11}");
    }
    out += &format!(" {:>11}\n", "chance");
    for n in budgets {
        out += &format!("{n:>6}");
        for (_, s) in summaries {
            out += &format!(" {:>11.4}", s.curve[(n - 1).min(s.curve.len() - 1)].median);
        }
        out += &format!(" {:>11.4}\n", chance.median_fraction(*n));
    }
    out
}
