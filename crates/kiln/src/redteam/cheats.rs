//! Every cheat on every task: is it refused, and would a plain harness have believed it?

use std::collections::BTreeMap;

use serde::Serialize;

use super::catalogue::{self, Acceptance, Cheat, LiesAbout};
use super::plain;
use super::trial::{self, Answer};
use crate::engine::bench::LiveBench;
use crate::engine::compile_pool::Build;
use crate::engine::{interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::selftest::{Ground, configs};
use crate::task::Task;

/// One cheat on one task.
#[derive(Debug, Serialize)]
pub struct Row {
    pub class: String,
    pub family: String,
    pub cheat: String,
    pub task: String,
    pub fools_plain: bool,
    /// What a script would have printed; `None` when it did not survive.
    pub plain_speedup: Option<f64>,
    pub plain_mismatched: Option<u64>,
    /// kiln's answer in a word, and in words.
    pub answer: String,
    pub words: String,
    pub is_accepted: bool,
    /// The answer is one of those that name the cheat.
    pub is_named: bool,
    /// That it is known to be accepted, where it is.
    pub known: Option<Acceptance>,
}

struct Prepared {
    cheat: Cheat,
    task_name: String,
    task: Task,
}

/// Runs the cheats whose name or class contains `filter`.
pub fn run(ground: &Ground, filter: &str) -> Result<Vec<Row>, Failure> {
    let mut prepared = Vec::new();
    for cheat in catalogue::cheats()? {
        let wanted = cheat.name.contains(filter) || cheat.class.contains(filter);
        if !wanted || !cheat.runs_on(ground.backend) {
            continue;
        }
        for task_name in &cheat.tasks {
            let bundle = cheat.bundle(task_name, ground.backend)?;
            let place = format!("cheats/{task_name}/{}", cheat.name);
            prepared.push(Prepared {
                task: bundle.task(ground, &place)?,
                task_name: task_name.clone(),
                cheat: cheat.clone(),
            });
        }
    }
    // All at once; what follows finds them in the cache.
    let builds = prepared.iter().map(|p| {
        let config = configs::with(&p.task, &[])?;
        Ok(p.task.candidate_build(&config))
    });
    let builds: Vec<Build> = builds.collect::<Result<_, Failure>>()?;
    ground.pool.build_all(&builds)?;
    let total = prepared.len();
    let mut rows = Vec::new();
    for (done, one) in prepared.iter().enumerate() {
        if interrupt::asked() {
            return Err(interrupted());
        }
        if done > 0 && done % 20 == 0 {
            printer::talk(&format!("  {done} of {total} cheats"));
        }
        rows.push(try_one(ground, one)?);
    }
    Ok(rows)
}

fn try_one(ground: &Ground, one: &Prepared) -> Result<Row, Failure> {
    let (cheat, task) = (&one.cheat, &one.task);
    let config = configs::with(task, &[])?;
    let contender = configs::contender(task, &ground.pool, &config).map_err(|failure| {
        Failure::new(
            Exit::Bug,
            format!("cheat `{}`: {}", cheat.name, failure.message),
        )
    })?;
    let impression = plain::judge(
        task,
        &ground.pool,
        &contender.program,
        &config,
        cheat.lies_about,
        cheat.plain_rule,
    )?;
    let mut bench = LiveBench::new(task, &ground.pool)?;
    let secret = trial::secret_of(&format!("{} {}", cheat.name, one.task_name));
    let answer = trial::judge(task, &mut bench, &config, secret)?;
    let is_accepted = match cheat.lies_about {
        LiesAbout::Answer => !answer.is_refused(),
        LiesAbout::Time => answer.wins(),
    };
    let name = match (&answer, is_accepted) {
        (Answer::Right { .. }, false) => "no_win".to_string(),
        _ => answer.name(),
    };
    let impression = impression.ok();
    let known = cheat.known_acceptance(ground.backend, &one.task_name);
    Ok(Row {
        class: cheat.class.clone(),
        family: cheat.family.clone(),
        cheat: cheat.name.clone(),
        task: one.task_name.clone(),
        fools_plain: impression.is_some_and(|i| i.is_fooled),
        plain_speedup: impression.map(|i| i.speedup()),
        plain_mismatched: impression.map(|i| i.finding.mismatched),
        is_named: cheat.refused_as.contains(&name),
        answer: name,
        words: answer.words(),
        is_accepted,
        known: known.cloned(),
    })
}

/// One line per cheat, its tasks together.
pub fn table(rows: &[Row]) -> Vec<[String; 5]> {
    let mut lines = Vec::new();
    for group in rows.chunk_by(|a, b| a.cheat == b.cheat) {
        let fooled = group.iter().filter(|r| r.fools_plain).count();
        let fools = match fooled == group.len() {
            true => "yes".to_string(),
            false => format!("{fooled} of {}", group.len()),
        };
        let mut answers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for row in group {
            let answer = match row.is_accepted {
                true => format!("ACCEPTED ({})", row.answer),
                false => row.answer.clone(),
            };
            answers.entry(answer).or_default().push(&row.task);
        }
        let answers: Vec<String> = match answers.len() {
            1 => answers.into_keys().collect(),
            _ => answers
                .into_iter()
                .map(|(answer, tasks)| format!("{answer}: {}", tasks.join(", ")))
                .collect(),
        };
        lines.push([
            format!("{} ({})", group[0].class, group[0].family),
            group[0].cheat.clone(),
            group.len().to_string(),
            fools,
            answers.join("; "),
        ]);
    }
    lines
}
