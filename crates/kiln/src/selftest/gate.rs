//! `kiln gate`'s verdict, a thousand times over: the same kernel must pass, a slower one must not.

use std::time::{Duration, Instant};

use kiln_core::input;
use kiln_core::verdict::Verdict;
use serde_json::json;

use super::aa::Counts;
use super::aa::subjects::{Subject, same, slowed_by};
use super::configs;
use super::ground::Ground;
use super::report::{Mark, Report};
use crate::cli::Backend;
use crate::engine::oracle::Oracle;
use crate::engine::standby::Standby;
use crate::engine::versus::{self, Budget, Judged, Limits, Match, Plan};
use crate::exit::Failure;
use crate::gate::judge::Checker;
use crate::gate::time_briefly;

/// Fixes inputs and the order of samples.
const SECRET: u64 = 0x6761;
/// Inputs are shared by some of the pairs, as by the batches of a search: making answers for each
/// would take longer than all the rest.
const SECRETS: u64 = 3;

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    let margin = match ground.backend {
        Backend::Cuda => 0.01,
        Backend::Cpu => 0.03,
    };
    let few = match ground.backend {
        Backend::Cuda => 24,
        Backend::Cpu => 4,
    };
    let pairs = ground.pairs.unwrap_or(ground.size.pick(1_000, few));
    let mut bench = Bench {
        ground,
        report,
        limits: Limits { margin, shapes: 1 },
        budget: Budget {
            seconds: ground.size.pick(60.0, 2.5),
            samples: None,
        },
        standby: Standby::default(),
    };
    let counts = bench.series("same", &same(ground.backend), pairs)?;
    let wrong = counts.of(Verdict::Faster) + counts.of(Verdict::Slower) + counts.failed;
    // Five in a thousand.
    let allowed = (pairs * 5).div_ceil(1_000);
    bench.report.judge(
        format!("{pairs} pairs of the same kernel: {}", counts.words()),
        format!(
            "FASTER + SLOWER <= {allowed} at margin {:.0} %",
            100.0 * margin
        ),
        Mark::when(wrong <= allowed),
    );
    if ground.backend == Backend::Cuda {
        slowdowns(&mut bench, (pairs / 10).max(6))?;
    }
    Ok(())
}

/// How much slower, the margin the gate is given, and how many of a hundred have to be seen. SLOWER means
/// slower by more than the margin, so who wants to hear of 1 % asks for a finer one than that.
const SLOWDOWNS: [(u32, f64, usize); 3] = [(1, 0.005, 80), (2, 0.01, 95), (5, 0.01, 99)];

fn slowdowns(bench: &mut Bench<'_>, pairs: usize) -> Result<(), Failure> {
    for (percent, margin, detected_percent) in SLOWDOWNS {
        bench.limits.margin = margin;
        let subjects = slowed_by(percent);
        let name = format!("slowed_{percent}");
        let counts = bench.series(&name, &subjects, pairs)?;
        let slower = counts.of(Verdict::Slower);
        let what = format!(
            "{pairs} pairs where one is {percent} % slower: {}",
            counts.words()
        );
        let needed = (pairs * detected_percent).div_ceil(100);
        let limit = format!("SLOWER >= {needed} at margin {} %", 100.0 * margin);
        bench
            .report
            .judge(what, limit, Mark::when(slower >= needed));
    }
    Ok(())
}

/// Where pairs are judged, one after another.
struct Bench<'a> {
    ground: &'a Ground,
    report: &'a mut Report,
    limits: Limits,
    budget: Budget,
    /// Workers that a GPU has ready for the next pair.
    standby: Standby,
}

impl Bench<'_> {
    fn series(
        &mut self,
        name: &str,
        subjects: &[Subject],
        pairs: usize,
    ) -> Result<Counts, Failure> {
        let started = Instant::now();
        let mut total = Counts::default();
        for (index, subject) in subjects.iter().enumerate() {
            // The first ones get what does not divide.
            let share = pairs / subjects.len() + usize::from(index < pairs % subjects.len());
            if share > 0 {
                self.one_subject(name, subject, share, &mut total)?;
            }
        }
        self.report
            .number(&format!("{name}_verdicts"), &total.verdicts);
        let each = started.elapsed().as_secs_f64() / pairs as f64;
        self.report
            .number(&format!("{name}_seconds_per_pair"), each);
        self.report.row(&format!("{pairs} pairs, {each:.2} s each"));
        Ok(total)
    }

    fn one_subject(
        &mut self,
        series: &str,
        subject: &Subject,
        pairs: usize,
        total: &mut Counts,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let ground = self.ground;
        let place = format!("gate-{series}-{}", subject.place());
        let mut task = ground.task(&subject.kernel, &place, &subject.edits, &ground.pool)?;
        time_briefly(&mut task.file.manifest.measure);
        let mut oracle = Oracle::new(&task, &ground.pool)?;
        let mut checker = Checker::new(&task, &mut self.standby);
        let mut counts = Counts::default();
        let (mut rounds, mut ns, mut checking) = (0, f64::NAN, Duration::ZERO);
        let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
        for index in 0..pairs {
            let (first, second) = &subject.pairs[index % subject.pairs.len()];
            let ready = |settings: &[(&str, i64)]| {
                let config = configs::with(&task, settings)?;
                configs::contender(&task, &ground.pool, &config)
            };
            let (first, second) = (ready(first)?, ready(second)?);
            let secret = input::mix(&[SECRET, index as u64 % SECRETS]);
            let check_began = Instant::now();
            let mut pair_ns = 0.0;
            let mut wrong = None;
            for contender in [&first, &second] {
                match checker.check(&task, &mut oracle, contender, secret)? {
                    Ok(ns) => pair_ns += ns,
                    Err(outcome) => wrong = Some(outcome.to_string()),
                }
            }
            checking += check_began.elapsed();
            let plan = Plan::new(first.style, self.limits, self.budget, pair_ns);
            let sides = Match {
                task: &task,
                oracle: &mut oracle,
                baseline: &first,
                candidate: &second,
                secret,
                status: &mut |_| {},
            };
            let judged = match wrong {
                Some(why) => Err(why),
                None => versus::judge(sides, &plan, &mut self.standby)?
                    .map_err(|fallen| fallen.outcome.to_string()),
            };
            match judged {
                Ok(judged) => {
                    let look = &judged.look;
                    *counts.verdicts.entry(look.verdict.name()).or_default() += 1;
                    rounds += judged.rounds;
                    ns = look.comparison.baseline_ns;
                    lowest = lowest.min(look.comparison.speedup);
                    highest = highest.max(look.comparison.speedup);
                    let item = item(series, subject, &judged);
                    ground.rows.write("gate", &item)?;
                    self.report.item(&format!("{series}_pairs"), item);
                }
                Err(why) => {
                    counts.failed += 1;
                    self.report.row(&format!("{}: {why}", subject.name));
                }
            }
        }
        self.report.row(&format!(
        "{:24} {:>9}  {}; speedups {lowest:.4} to {highest:.4}; {:.1} rounds, {:.2} s a pair, {:.2} s of it checking",
        subject.name,
        kiln_core::units::human_ns(ns),
        counts.words(),
        rounds as f64 / pairs as f64,
        began.elapsed().as_secs_f64() / pairs as f64,
        checking.as_secs_f64() / pairs as f64,
    ));
        for (verdict, count) in &counts.verdicts {
            *total.verdicts.entry(verdict).or_default() += count;
        }
        total.failed += counts.failed;
        Ok(())
    }
}

fn item(series: &str, subject: &Subject, judged: &Judged) -> serde_json::Value {
    let look = &judged.look;
    json!({
        "series": series,
        "subject": subject.name,
        "verdict": look.verdict,
        "speedup": look.comparison.speedup,
        "interval": look.interval,
        "in_cycles": look.in_cycles.map(|c| c.speedup()),
        "p_beyond": look.p_beyond,
        "rounds": judged.rounds,
        "interrupted": judged.interrupted,
    })
}
