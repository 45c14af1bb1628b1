//! Pairs of kernels that are the same, and pairs where one is 2 % slower, judged like a winner.

pub mod subjects;

use std::collections::BTreeMap;
use std::time::Instant;

use kiln_core::input;
use kiln_core::verdict::Verdict;
use serde_json::json;

use super::configs;
use super::ground::Ground;
use super::report::{Mark, Report};
use crate::cli::Backend;
use crate::engine::evaluate::Contender;
use crate::engine::oracle::Oracle;
use crate::engine::pair::{self, PairPlan};
use crate::exit::Failure;
use subjects::{Subject, same, slowed};

/// Fixes inputs and the order of samples.
const SECRET: u64 = 0x6161;

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    // Few processes for each pair: there are hundreds of pairs, and a winner gets more.
    let plan = PairPlan {
        rounds: 2,
        per_round: 20,
        margin: match ground.backend {
            Backend::Cuda => 0.01,
            Backend::Cpu => 0.03,
        },
    };
    let pairs = match ground.backend {
        Backend::Cuda => ground.size.pick(200, 20),
        Backend::Cpu => ground.size.pick(20, 6),
    };
    let series = Series {
        ground,
        name: "same",
        plan,
        second: &|_| {},
    };
    series.are_the_same(report, pairs, "of the same kernel")?;
    if ground.backend == Backend::Cuda {
        let pairs = ground.size.pick(100, 10);
        let series = Series {
            name: "slowed",
            ..series
        };
        let counts = series.judge(report, &slowed(), pairs)?;
        let needed = pairs * 95 / 100;
        report.judge(
            format!("{pairs} pairs where one is 2 % slower: {}", counts.words()),
            format!("SLOWER >= {needed}"),
            Mark::when(counts.of(Verdict::Slower) >= needed),
        );
    }
    Ok(())
}

/// How a series of pairs was judged.
#[derive(Default)]
pub(super) struct Counts {
    pub verdicts: BTreeMap<&'static str, usize>,
    /// Candidates that failed while they were compared.
    pub failed: usize,
}

impl Counts {
    pub fn of(&self, verdict: Verdict) -> usize {
        self.verdicts.get(verdict.name()).copied().unwrap_or(0)
    }

    fn add(&mut self, other: &Counts) {
        for (name, count) in &other.verdicts {
            *self.verdicts.entry(name).or_default() += count;
        }
        self.failed += other.failed;
    }

    pub fn words(&self) -> String {
        let verdicts = [
            Verdict::Same,
            Verdict::Undecided,
            Verdict::Faster,
            Verdict::Slower,
        ];
        let mut words: Vec<String> = verdicts
            .into_iter()
            .map(|verdict| format!("{} {verdict}", self.of(verdict)))
            .collect();
        if self.failed > 0 {
            words.push(format!("{} failed", self.failed));
        }
        words.join(", ")
    }
}

/// Pairs that are judged alike.
pub(super) struct Series<'a> {
    pub ground: &'a Ground,
    pub name: &'a str,
    pub plan: PairPlan,
    /// What is done to the second of each pair.
    pub second: &'a dyn Fn(&mut Contender),
}

impl Series<'_> {
    /// Kernels against themselves: hardly any may differ.
    pub fn are_the_same(
        &self,
        report: &mut Report,
        pairs: usize,
        what: &str,
    ) -> Result<(), Failure> {
        let counts = self.judge(report, &same(self.ground.backend), pairs)?;
        let wrong = counts.of(Verdict::Faster) + counts.of(Verdict::Slower) + counts.failed;
        // Of few pairs, one stands for less than one in a hundred.
        let allowed = pairs.div_ceil(100);
        report.judge(
            format!("{pairs} pairs {what}: {}", counts.words()),
            format!(
                "FASTER + SLOWER <= {allowed} at margin {:.0} %",
                100.0 * self.plan.margin
            ),
            Mark::when(wrong <= allowed),
        );
        Ok(())
    }

    /// Spreads the pairs over the subjects and judges each.
    fn judge(
        &self,
        report: &mut Report,
        subjects: &[Subject],
        pairs: usize,
    ) -> Result<Counts, Failure> {
        let name = self.name;
        let started = Instant::now();
        let mut total = Counts::default();
        for (index, subject) in subjects.iter().enumerate() {
            // The first ones get what does not divide.
            let share = pairs / subjects.len() + usize::from(index < pairs % subjects.len());
            if share > 0 {
                total.add(&self.judge_one(report, subject, share)?);
            }
        }
        report.number(&format!("{name}_verdicts"), &total.verdicts);
        report.number(&format!("{name}_failed"), total.failed);
        let each = started.elapsed().as_secs_f64() / pairs as f64;
        report.number(&format!("{name}_seconds_per_pair"), each);
        report.row(&format!("{pairs} pairs, {each:.2} s each"));
        Ok(total)
    }

    fn judge_one(
        &self,
        report: &mut Report,
        subject: &Subject,
        pairs: usize,
    ) -> Result<Counts, Failure> {
        let Series { ground, name, .. } = self;
        let started = Instant::now();
        let place = format!("aa-{name}-{}", subject.place());
        let task = ground.task(&subject.kernel, &place, &subject.edits, &ground.pool)?;
        let mut oracle = Oracle::new(&task, &ground.pool)?;
        let mut counts = Counts::default();
        let mut speedups = Vec::new();
        let mut ns = f64::NAN;
        for index in 0..pairs {
            let (first, second) = &subject.pairs[index % subject.pairs.len()];
            let ready = |settings: &[(&str, i64)]| {
                let config = configs::with(&task, settings)?;
                configs::contender(&task, &ground.pool, &config)
            };
            let (first, mut second) = (ready(first)?, ready(second)?);
            (self.second)(&mut second);
            let secret = input::mix(&[SECRET, index as u64]);
            match pair::compare(&task, &mut oracle, &first, &second, self.plan, secret)? {
                Ok(comparison) => {
                    *counts
                        .verdicts
                        .entry(comparison.verdict.name())
                        .or_default() += 1;
                    speedups.push(comparison.speedup);
                    ns = comparison.baseline_ns;
                    report.item(
                        &format!("{name}_pairs"),
                        json!({
                            "subject": subject.name,
                            "verdict": comparison.verdict,
                            "speedup": comparison.speedup,
                            "speedup_ci_95": comparison.speedup_ci_95,
                            "baseline_ns": comparison.baseline_ns,
                            "p_value": comparison.p_value,
                        }),
                    );
                }
                Err(outcome) => {
                    counts.failed += 1;
                    report.row(&format!("{}: {outcome}", subject.name));
                }
            }
        }
        let lowest = speedups.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = speedups.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        report.row(&format!(
            "{:24} {:>9}  {}; speedups {lowest:.4} to {highest:.4}; {:.2} s a pair",
            subject.name,
            kiln_core::units::human_ns(ns),
            counts.words(),
            started.elapsed().as_secs_f64() / pairs as f64
        ));
        Ok(counts)
    }
}
