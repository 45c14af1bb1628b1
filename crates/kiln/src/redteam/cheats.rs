//! Every cheat on every task: is it refused, and would a plain harness have believed it?

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_core::trial::Assignment;
use serde::Serialize;

use super::catalogue::{self, Acceptance, Cheat, LiesAbout};
use super::plain::{self, Impression};
use super::side_by_side;
use super::trial::{self, Answer};
use crate::cli::Backend;
use crate::engine::bench::LiveBench;
use crate::engine::compile_pool::{Build, CompilePool};
use crate::engine::{interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::rows::Rows;
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

impl Row {
    fn words_for(&self, number: usize, total: usize) -> String {
        let verdict = match self.is_accepted {
            true => format!("ACCEPTED ({})", self.words),
            false => self.answer.clone(),
        };
        let plain = match self.fools_plain {
            true => "",
            false => "; does not fool the plain harness",
        };
        format!(
            "{number} of {total}: {} on {}: {verdict}{plain}",
            self.cheat, self.task
        )
    }
}

struct Prepared {
    cheat: Cheat,
    task_name: String,
    task: Task,
    config: Assignment,
}

/// Runs the cheats whose name or class contains `filter`.
pub fn run(ground: &Ground, filter: &str, told: &Rows) -> Result<Vec<Row>, Failure> {
    let mut prepared = Vec::new();
    for cheat in catalogue::cheats()? {
        let wanted = cheat.name.contains(filter) || cheat.class.contains(filter);
        if !wanted || !cheat.runs_on(ground.backend) {
            continue;
        }
        for task_name in &cheat.tasks {
            let bundle = cheat.bundle(task_name, ground.backend)?;
            let place = format!("cheats/{task_name}/{}", cheat.name);
            let task = bundle.task(ground, &place)?;
            prepared.push(Prepared {
                config: configs::with(&task, &[])?,
                task,
                task_name: task_name.clone(),
                cheat: cheat.clone(),
            });
        }
    }
    // All at once; what follows finds them in the cache.
    let builds = prepared.iter().map(|p| p.task.candidate_build(&p.config));
    let builds: Vec<Build> = builds.collect();
    ground.pool.build_all(&builds)?;
    let judging = Judging {
        pool: &ground.pool,
        backend: ground.backend,
        told,
        done: AtomicUsize::new(0),
        total: prepared.len(),
    };
    let width = side_by_side::width(ground.backend, ground.side_by_side);
    let looks = match width {
        1 => prepared.iter().map(|_| Look::default()).collect(),
        _ => side_by_side::each(
            &prepared,
            width,
            || Ok(()),
            |(), _, one| judging.among_others(one),
        )?,
    };
    // What rests on a clock, one by one.
    let mut rows = Vec::new();
    for (one, look) in prepared.iter().zip(looks) {
        if interrupt::asked() {
            return Err(interrupted());
        }
        rows.push(judging.alone(one, look)?);
    }
    Ok(rows)
}

/// What is known about a cheat so far.
#[derive(Default)]
struct Look {
    /// `None` inside: it did not survive the plain harness.
    impression: Option<Option<Impression>>,
    answer: Option<Answer>,
    /// Everything that was to be found out.
    row: Option<Row>,
}

struct Judging<'a> {
    pool: &'a CompilePool,
    backend: Backend,
    told: &'a Rows,
    done: AtomicUsize,
    total: usize,
}

impl Judging<'_> {
    /// As much as can be said while other candidates run on the same device: a wrong answer is wrong in
    /// any company.
    fn among_others(&self, one: &Prepared) -> Result<Look, Failure> {
        // Its time is what matters, so it has to be seen alone anyway.
        if one.cheat.lies_about == LiesAbout::Time {
            return Ok(Look::default());
        }
        let answer = self.answer(one)?;
        let is_settled = match &answer {
            Answer::Refused { reason, .. } => {
                !side_by_side::rests_on_a_clock(reason) && *reason != "timeout"
            }
            Answer::Right { .. } => true,
        };
        let mut look = Look {
            answer: is_settled.then_some(answer),
            impression: Some(self.impression(one)?),
            row: None,
        };
        if look.answer.is_some() {
            look.row = Some(self.decide(one, std::mem::take(&mut look))?);
        }
        Ok(look)
    }

    /// All the rest, with the device to itself.
    fn alone(&self, one: &Prepared, mut look: Look) -> Result<Row, Failure> {
        if let Some(row) = look.row {
            return Ok(row);
        }
        if look.impression.is_none() {
            look.impression = Some(self.impression(one)?);
        }
        if look.answer.is_none() {
            look.answer = Some(self.answer(one)?);
        }
        self.decide(one, look)
    }

    fn impression(&self, one: &Prepared) -> Result<Option<Impression>, Failure> {
        let (cheat, config) = (&one.cheat, &one.config);
        let contender = configs::contender(&one.task, self.pool, config).map_err(|failure| {
            let message = format!("cheat `{}`: {}", cheat.name, failure.message);
            Failure::new(Exit::Bug, message)
        })?;
        let (lies_about, rule) = (cheat.lies_about, cheat.plain_rule);
        let program = &contender.program;
        let judged = plain::judge(&one.task, self.pool, program, config, lies_about, rule)?;
        Ok(judged.ok())
    }

    fn answer(&self, one: &Prepared) -> Result<Answer, Failure> {
        let mut bench = LiveBench::new(&one.task, self.pool)?;
        let secret = trial::secret_of(&format!("{} {}", one.cheat.name, one.task_name));
        trial::judge(&one.task, &mut bench, &one.config, secret)
    }

    fn decide(&self, one: &Prepared, look: Look) -> Result<Row, Failure> {
        let (Some(answer), Some(impression)) = (look.answer, look.impression) else {
            let message = format!("cheat `{}` was not judged", one.cheat.name);
            return Err(Failure::new(Exit::Bug, message));
        };
        let row = one.row(self.backend, &answer, impression);
        let number = 1 + self.done.fetch_add(1, Ordering::Relaxed);
        self.told
            .decided("cheat", &row, &row.words_for(number, self.total))?;
        Ok(row)
    }
}

impl Prepared {
    fn row(&self, backend: Backend, answer: &Answer, impression: Option<Impression>) -> Row {
        let cheat = &self.cheat;
        let is_accepted = match cheat.lies_about {
            LiesAbout::Answer => !answer.is_refused(),
            LiesAbout::Time => answer.wins(),
        };
        let name = match (answer, is_accepted) {
            (Answer::Right { .. }, false) => "no_win".to_string(),
            _ => answer.name(),
        };
        let known = cheat.known_acceptance(backend, &self.task_name);
        Row {
            class: cheat.class.clone(),
            family: cheat.family.clone(),
            cheat: cheat.name.clone(),
            task: self.task_name.clone(),
            fools_plain: impression.is_some_and(|i| i.is_fooled),
            plain_speedup: impression.map(|i| i.speedup()),
            plain_mismatched: impression.map(|i| i.finding.mismatched),
            is_named: cheat.refused_as.contains(&name),
            answer: name,
            words: answer.words(),
            is_accepted,
            known: known.cloned(),
        }
    }
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
