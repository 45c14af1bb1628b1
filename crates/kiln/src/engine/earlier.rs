//! What an earlier study of the same kernel can tell a new one: on another shape, another device,
//! or before the source was edited.

use std::path::Path;

use kiln_core::event::{Earlier, EarlierTrial, StudyHeader};
use kiln_core::space::{Config, Space};
use kiln_core::study::Study;
use kiln_core::trial::Assignment;

use super::tune::Options;
use crate::exit::Failure;
use crate::interchange;
use crate::store::{Store, StudySummary};
use crate::task::Task;

/// The one strategy that listens.
pub const LISTENER: &str = "auto";
/// Fewer configs that worked say too little.
pub const FEWEST: usize = 8;

/// Which earlier study a new one begins with.
#[derive(Clone, Debug)]
pub enum EarlierChoice {
    None,
    /// The latest of this project that is about something else.
    Latest,
    /// The number of a study, or a file.
    Named(String),
    /// As recorded.
    Given(Earlier),
}

pub fn find(task: &Task, options: &Options, store: &dyn Store) -> Result<Option<Earlier>, Failure> {
    let listens = options.strategy == LISTENER;
    match &options.earlier {
        EarlierChoice::None => Ok(None),
        EarlierChoice::Given(earlier) => Ok(Some(earlier.clone())),
        // A replay is the same on every machine.
        EarlierChoice::Latest if !listens || options.recorded.is_some() => Ok(None),
        EarlierChoice::Latest => latest(task, store),
        EarlierChoice::Named(_) if !listens => Err(Failure::usage(format!(
            "`--warm` has no effect on the strategy `{}`",
            options.strategy
        ))
        .hint(format!("`--strategy {LISTENER}` makes use of it"))),
        EarlierChoice::Named(name) => named(task, name, store).map(Some),
    }
}

/// The configs of an earlier study that are valid here.
pub fn configs(earlier: Option<&Earlier>, space: &Space) -> Vec<(Config, Option<f64>)> {
    let trials = earlier.into_iter().flat_map(|e| &e.trials);
    trials
        .filter_map(|trial| Some((config_here(space, &trial.config)?, trial.ns)))
        .collect()
}

/// `None` where the config has no place in the space: other tunables, other values, other rules. A
/// tunable without a choice here says what is compiled in of the problem, and is no difference.
pub fn config_here(space: &Space, config: &Assignment) -> Option<Config> {
    let tunables = space.tunables();
    let fixed = tunables.iter().filter(|t| t.values.len() == 1);
    let mut here: Assignment = fixed
        .map(|t| (t.name.clone(), t.values[0].clone()))
        .collect();
    for (name, value) in config {
        if !here.iter().any(|(known, _)| known == name) {
            here.push((name.clone(), value.clone()));
        }
    }
    let config = space.config_from(&here).ok()?;
    space.contains(&config).then_some(config)
}

fn latest(task: &Task, store: &dyn Store) -> Result<Option<Earlier>, Failure> {
    for summary in store.studies()?.iter().rev() {
        if !about_something_else(task, summary) {
            continue;
        }
        let study = store.study(summary.id)?;
        let earlier = of_study(&study, task);
        if enough(&earlier) {
            return Ok(Some(earlier));
        }
    }
    Ok(None)
}

/// The same kernel, and yet not the same question: asking that again is meant to be independent.
fn about_something_else(task: &Task, summary: &StudySummary) -> bool {
    let header = &summary.header;
    let target = task.manifest().target();
    let same_question = header.dimensions == target.dimensions
        && header.device.name == task.device.name
        && header.identity.sources == task.sources_hash()[..16];
    header.kernel == task.manifest().kernel.name && header.replayed_from.is_none() && !same_question
}

fn of_study(study: &Study, task: &Task) -> Earlier {
    let header = &study.header;
    let device = match header.device.name == task.device.name {
        true => String::new(),
        false => format!(" on {}", header.device.name),
    };
    let trials = study.trials.iter().map(|trial| EarlierTrial {
        config: trial.config.clone(),
        ns: trial.outcome.median_ns(),
    });
    Earlier {
        from: format!("study {} ({}{device})", study.id, dimensions(header)),
        trials: usable(trials, &task.space),
    }
}

/// `N=4096 M=16`, by which shapes are told apart; the target is always called `target`.
fn dimensions(header: &StudyHeader) -> String {
    let each = header
        .dimensions
        .iter()
        .map(|(name, n)| format!("{name}={n}"));
    each.collect::<Vec<_>>().join(" ")
}

fn usable(trials: impl Iterator<Item = EarlierTrial>, space: &Space) -> Vec<EarlierTrial> {
    let valid = trials.filter(|trial| config_here(space, &trial.config).is_some());
    strongest(valid.collect())
}

fn enough(earlier: &Earlier) -> bool {
    let worked = earlier.trials.iter().filter(|t| t.ns.is_some());
    worked.count() >= FEWEST
}

fn named(task: &Task, name: &str, store: &dyn Store) -> Result<Earlier, Failure> {
    let earlier = match name.parse::<u64>() {
        Ok(number) => of_study(&store.study(number)?, task),
        Err(_) => of_file(task, Path::new(name))?,
    };
    if enough(&earlier) {
        return Ok(earlier);
    }
    let worked = earlier.trials.iter().filter(|t| t.ns.is_some()).count();
    Err(Failure::usage(format!(
        "`--warm {name}`: only {worked} of its measured configs are valid in this space; {FEWEST} are needed"
    ))
    .hint("an earlier study helps when its tunables have the same names and values"))
}

/// A recording of kiln's own, or of another tuner.
fn of_file(task: &Task, path: &Path) -> Result<Earlier, Failure> {
    let from = path.display().to_string();
    if !path.exists() {
        return Err(Failure::usage(format!(
            "`--warm {from}` is neither the number of a study nor a file"
        ))
        .hint("`kiln studies list` shows the studies of this project"));
    }
    // Against its own space: what is valid here is seen config by config.
    let table = interchange::read_table(path, None)?;
    let space = table.space();
    let trials = table.records().iter().map(|record| EarlierTrial {
        config: space.assignment(&record.config),
        ns: record.time_ms().map(|ms| ms * 1e6),
    });
    Ok(Earlier {
        from,
        trials: usable(trials, &task.space),
    })
}

/// The model of an earlier study grows with the cube of its trials, and a recording of a whole space
/// has thousands: the fastest and an even choice of the rest say what there is to say.
fn strongest(mut trials: Vec<EarlierTrial>) -> Vec<EarlierTrial> {
    const MOST: usize = 200;
    if trials.len() <= MOST {
        return trials;
    }
    trials.sort_by(|a, b| {
        let key = |t: &EarlierTrial| t.ns.unwrap_or(f64::INFINITY);
        key(a).total_cmp(&key(b))
    });
    let rest = trials.split_off(MOST / 2);
    let step = rest.len().div_ceil(MOST / 2);
    trials.extend(rest.into_iter().step_by(step));
    trials
}
