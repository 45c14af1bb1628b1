//! Pairs of the same kernel, one in its sandbox and one without: what is measured must not depend on it.

use super::aa::Series;
use super::ground::Ground;
use super::report::{Mark, Report};
use crate::cli::Backend;
use crate::engine::pair::PairPlan;
use crate::exit::Failure;

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    let sandbox = ground.sandbox();
    report.judge(
        format!("kept from: {}", sandbox.in_words()),
        "a worker is kept from something".to_string(),
        Mark::when(!sandbox.enforced.is_empty()),
    );
    let (margin, pairs) = match ground.backend {
        Backend::Cuda => (0.01, ground.size.pick(60, 12)),
        Backend::Cpu => (0.03, ground.size.pick(40, 6)),
    };
    let series = Series {
        ground,
        name: "walls",
        plan: PairPlan {
            rounds: 2,
            per_round: 20,
            margin,
        },
        second: &|contender| {
            contender.program.worker = contender.program.worker.without_walls();
        },
    };
    series.are_the_same(report, pairs, "in and without a sandbox")
}
