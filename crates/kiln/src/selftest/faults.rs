//! Kernels that go wrong among honest ones, through one crew of workers as in a search.
//!
//! Every fault must be called by its name, no honest kernel may suffer from the one before, and
//! the next result must not be long in coming.

mod kinds;

use std::collections::BTreeMap;
use std::time::Instant;

use kiln_core::input;
use kiln_core::stats;
use kiln_core::trial::{Assignment, CrashCause, Outcome, Trial};
use serde_json::json;

use super::configs;
use super::ground::Ground;
use super::report::{Mark, Report};
use crate::engine::bench::{Bench, LiveBench};
use crate::engine::compile_pool::Build;
use crate::engine::evaluate::Seeds;
use crate::engine::{interrupt, interrupted};
use crate::exit::Failure;
use crate::task::Task;
use kinds::{Kind, Plan};

/// Fixes the order, so that a failure can be looked at again.
const SHUFFLE: u64 = 17;
/// Honest runs before any fault; their median is the usual time of one.
const WARM_UPS: usize = 5;
const SLOWEST_RECOVERY_SECONDS: f64 = 2.0;

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    let plan = Plan::new(ground.backend, ground.size, ground.device.memory_bytes);
    let task = ground.task(&plan.kernel, "faults", &plan.edits, &ground.pool)?;
    let honest = configs::with(&task, &[])?;
    let settings = |kinds: &[Kind]| {
        let configs = kinds.iter().map(|k| configs::with(&task, &k.settings));
        configs.collect::<Result<Vec<_>, _>>()
    };
    let (faulty, once) = (settings(&plan.kinds)?, settings(&plan.once)?);
    // Each image once; what follows finds them in the cache.
    let images = faulty.iter().chain(&once).chain([&honest]);
    let builds: Vec<Build> = images.map(|c| task.candidate_build(c)).collect();
    ground.pool.build_all(&builds)?;
    if interrupt::asked() {
        return Err(interrupted());
    }
    let mut course = Course {
        task: &task,
        bench: LiveBench::new(&task, &ground.pool)?,
        trial: 0,
    };
    course.expect(&honest)?;
    let mut usual = Vec::new();
    for _ in 0..WARM_UPS {
        usual.push(course.run(&honest)?);
    }
    let mut tally = Tally::new(&plan, stats::median(&seconds(&usual)));
    for ended in usual {
        tally.honest(ended, After::Honest);
    }
    let order = shuffled(plan.kinds.len(), plan.repeats);
    let mut after = After::Honest;
    for (done, kind) in order.iter().enumerate() {
        if done > 0 && done % 100 == 0 {
            report.row(&format!("{done} of {} runs", order.len()));
        }
        after = match kind {
            Some(kind) => {
                tally.faults[*kind].add(&plan.kinds[*kind], course.run(&faulty[*kind])?);
                After::Fault
            }
            None => {
                tally.honest(course.run(&honest)?, after);
                After::Honest
            }
        };
    }
    for (index, kind) in plan.once.iter().enumerate() {
        tally.once[index].add(kind, course.run(&once[index])?);
        tally.honest(course.run(&honest)?, After::Fault);
    }
    tally.judge(&plan, report);
    let sly = settings(&plan.sly)?;
    for (kind, config) in plan.sly.iter().zip(&sly) {
        let found = course.confirm(config)?;
        report.judge(
            format!("a kernel that {}: {found} by the confirmation", kind.name),
            "refused",
            Mark::when(kind.accepts.contains(&found.as_str())),
        );
    }
    Ok(())
}

/// One crew, one candidate after another.
struct Course<'a> {
    task: &'a Task,
    bench: LiveBench<'a>,
    trial: u64,
}

struct Ended {
    outcome: Outcome,
    seconds: f64,
}

impl Course<'_> {
    fn seeds(&self) -> Seeds {
        configs::seeds(self.task, self.trial)
    }

    /// Expected outputs are computed before the first run is timed.
    fn expect(&mut self, config: &Assignment) -> Result<(), Failure> {
        let builds = self.bench.submit(std::slice::from_ref(config));
        let seeds = self.seeds();
        self.bench.expect_batch(builds.clone(), seeds)?;
        self.bench
            .run(builds.start, config, seeds, None)
            .map(|_| ())
    }

    /// How a config that passes the search fares as a finalist.
    fn confirm(&mut self, config: &Assignment) -> Result<String, Failure> {
        let ended = self.run(config)?;
        let Some(ns) = ended.outcome.median_ns() else {
            return Ok(ended.outcome.reason().into());
        };
        let trial = Trial {
            number: self.trial,
            config: config.clone(),
            outcome: ended.outcome,
            skipped_shapes: Vec::new(),
            compile: None,
            run_ms: 0.0,
            spent: None,
        };
        let confirmation = self.bench.confirm(&[trial], ns, SHUFFLE, &mut |_| {})?;
        Ok(match confirmation.dropped.first() {
            Some(dropped) => dropped.outcome.reason().into(),
            None => "accepted".into(),
        })
    }

    fn run(&mut self, config: &Assignment) -> Result<Ended, Failure> {
        self.trial += 1;
        let build = self.bench.submit(std::slice::from_ref(config)).start;
        let seeds = self.seeds();
        let started = Instant::now();
        let tried = self.bench.run(build, config, seeds, None)?;
        Ok(Ended {
            outcome: tried.outcome,
            seconds: started.elapsed().as_secs_f64(),
        })
    }
}

fn seconds(runs: &[Ended]) -> Vec<f64> {
    runs.iter().map(|ended| ended.seconds).collect()
}

/// As many honest runs as faults, in an order that only the seed knows.
fn shuffled(kinds: usize, repeats: usize) -> Vec<Option<usize>> {
    let faults = (0..kinds * repeats).map(|i| Some(i % kinds));
    let honest = (0..kinds * repeats).map(|_| None);
    let mut order: Vec<(usize, Option<usize>)> = faults.chain(honest).enumerate().collect();
    order.sort_by_key(|(place, _)| input::mix(&[SHUFFLE, *place as u64]));
    order.into_iter().map(|(_, kind)| kind).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Honest,
    Fault,
}

/// What became of the runs of one kind.
#[derive(Default)]
struct Seen {
    reasons: BTreeMap<String, usize>,
    /// The driver's own names.
    driver: BTreeMap<String, usize>,
    runs: usize,
    right: usize,
    /// Called honest.
    missed: usize,
    seconds: Vec<f64>,
    /// The first outcome that was not as expected.
    wrong: Option<String>,
}

impl Seen {
    fn add(&mut self, kind: &Kind, ended: Ended) {
        let reason = ended.outcome.reason();
        *self.reasons.entry(reason.to_string()).or_default() += 1;
        if let Outcome::Crashed(crash) = &ended.outcome
            && let CrashCause::Device(error) = &crash.cause
        {
            *self.driver.entry(error.name.clone()).or_default() += 1;
        }
        self.runs += 1;
        self.seconds.push(ended.seconds);
        self.missed += usize::from(reason == "measured");
        if kind.accepts.contains(&reason) {
            self.right += 1;
        } else {
            self.wrong.get_or_insert(ended.outcome.to_string());
        }
    }

    fn words(&self) -> String {
        let counted = |(name, count): (&String, &usize)| format!("{count} {name}");
        let reasons: Vec<String> = self.reasons.iter().map(counted).collect();
        let driver: Vec<&str> = self.driver.keys().map(String::as_str).collect();
        match driver.is_empty() {
            true => reasons.join(", "),
            false => format!("{} ({})", reasons.join(", "), driver.join(", ")),
        }
    }
}

struct Tally {
    usual_seconds: f64,
    faults: Vec<Seen>,
    once: Vec<Seen>,
    honest_runs: usize,
    /// Honest kernels that were not measured, as they ended.
    accused: Vec<String>,
    recoveries: Vec<f64>,
}

impl Tally {
    fn new(plan: &Plan, usual_seconds: f64) -> Tally {
        let empty = |kinds: &[Kind]| kinds.iter().map(|_| Seen::default()).collect();
        Tally {
            usual_seconds,
            faults: empty(&plan.kinds),
            once: empty(&plan.once),
            honest_runs: 0,
            accused: Vec::new(),
            recoveries: Vec::new(),
        }
    }

    fn honest(&mut self, ended: Ended, after: After) {
        self.honest_runs += 1;
        if ended.outcome.measurement().is_none() {
            self.accused.push(ended.outcome.to_string());
        } else if after == After::Fault {
            self.recoveries
                .push((ended.seconds - self.usual_seconds).max(0.0));
        }
    }

    fn judge(&self, plan: &Plan, report: &mut Report) {
        for (kind, seen) in plan.kinds.iter().zip(&self.faults) {
            self.show(report, kind, seen);
        }
        for (kind, seen) in plan.once.iter().zip(&self.once) {
            self.show(report, kind, seen);
        }
        for accused in self.accused.iter().take(3) {
            report.row(&format!("honest, but: {accused}"));
        }
        let sum = |list: &[Seen], of: fn(&Seen) -> usize| list.iter().map(of).sum::<usize>();
        let (runs, right) = (
            sum(&self.faults, |s| s.runs),
            sum(&self.faults, |s| s.right),
        );
        let missed = sum(&self.faults, |s| s.missed) + sum(&self.once, |s| s.missed);
        let wrong = missed + self.accused.len();
        let all = runs + sum(&self.once, |s| s.runs) + self.honest_runs;
        report.number("usual_seconds", self.usual_seconds);
        report.number("wrong_verdicts", wrong);
        report.number("runs", all);
        report.judge(
            format!(
                "{right} of {runs} faults of {} kinds called by their names",
                plan.kinds.len()
            ),
            "all",
            Mark::when(right == runs),
        );
        report.judge(
            format!(
                "{wrong} wrong verdicts in {all} runs: {missed} faults passed as honest, \
                 {} of {} honest runs refused",
                self.accused.len(),
                self.honest_runs
            ),
            "0",
            Mark::when(wrong == 0),
        );
        let median = stats::median(&self.recoveries);
        let slowest = self.recoveries.iter().copied().fold(0.0, f64::max);
        report.number(
            "recovery_seconds",
            json!({ "median": median, "max": slowest, "all": self.recoveries }),
        );
        report.judge(
            format!(
                "next honest result after a fault: {median:.2} s later than usual, at most {slowest:.2} s"
            ),
            format!("median < {SLOWEST_RECOVERY_SECONDS:.0} s"),
            Mark::when(median < SLOWEST_RECOVERY_SECONDS),
        );
        if !self.once.is_empty() {
            let right = sum(&self.once, |s| s.right);
            report.judge(
                format!("{right} of {} more misdeeds found out", self.once.len()),
                "all",
                Mark::when(right == self.once.len()),
            );
        }
    }

    fn show(&self, report: &mut Report, kind: &Kind, seen: &Seen) {
        report.row(&format!(
            "{:24} {} of {} right: {}; {:.2} s each",
            kind.name,
            seen.right,
            seen.runs,
            seen.words(),
            stats::median(&seen.seconds)
        ));
        if let Some(wrong) = &seen.wrong {
            report.row(&format!("  not as expected: {wrong}"));
        }
        report.item(
            "kinds",
            json!({
                "kind": kind.name,
                "accepts": kind.accepts,
                "runs": seen.runs,
                "right": seen.right,
                "reasons": seen.reasons,
                "driver": seen.driver,
                "median_seconds": stats::median(&seen.seconds),
                "unexpected": seen.wrong,
            }),
        );
    }
}

#[cfg(test)]
mod tests {
    use kiln_core::manifest::Manifest;

    use super::*;
    use crate::cli::Backend;
    use crate::selftest::Size;

    #[test]
    fn every_fault_is_in_the_space() {
        for backend in [Backend::Cuda, Backend::Cpu] {
            let plan = Plan::new(backend, Size::Full, 150 << 30);
            let text = plan.kernel.manifest_with(&plan.edits).expect("edits fit");
            let manifest = Manifest::parse(&text).expect("a valid manifest");
            for (name, value) in plan
                .kinds
                .iter()
                .chain(&plan.once)
                .flat_map(|k| &k.settings)
            {
                let tunable = manifest.tunables.iter().find(|t| t.name == *name);
                let wanted = kiln_core::value::Value::Int(*value);
                assert!(
                    tunable.is_some_and(|t| t.values.contains(&wanted)),
                    "{name} = {value}"
                );
            }
        }
    }

    #[test]
    fn as_many_honest_runs_as_faults() {
        let order = shuffled(10, 20);
        assert_eq!(order.len(), 400);
        assert_eq!(order.iter().filter(|k| k.is_none()).count(), 200);
        for kind in 0..10 {
            let count = order.iter().filter(|k| **k == Some(kind)).count();
            assert_eq!(count, 20);
        }
        assert_eq!(order, shuffled(10, 20));
        // Some faults follow each other: a spare worker that was just started must serve, too.
        assert!(order.windows(2).any(|w| w[0].is_some() && w[1].is_some()));
    }
}
