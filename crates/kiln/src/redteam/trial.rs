//! One candidate through search and confirmation, as in a study whose only config it is.

use kiln_core::input;
use kiln_core::trial::{Assignment, Trial};
use kiln_core::verdict::Verdict;

use crate::engine::bench::{Bench, LiveBench};
use crate::engine::evaluate::Seeds;
use crate::exit::Failure;
use crate::task::Task;

/// How much of the suite is run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Mutants and honest configs, of those there are; `None`: all.
    pub mutants: Option<usize>,
    pub honest: Option<usize>,
}

/// What kiln says about a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The short name of the outcome, and what was said to people.
    Refused { reason: &'static str, words: String },
    /// Right, by all that was looked at.
    Right { verdict: Verdict, speedup: f64 },
}

impl Answer {
    /// What would be published as the winner of a study.
    pub fn wins(&self) -> bool {
        matches!(
            self,
            Answer::Right {
                verdict: Verdict::Faster,
                ..
            }
        )
    }

    pub fn is_refused(&self) -> bool {
        matches!(self, Answer::Refused { .. })
    }

    pub fn name(&self) -> String {
        match self {
            Answer::Refused { reason, .. } => (*reason).to_string(),
            Answer::Right { verdict, .. } => verdict.to_string(),
        }
    }

    pub fn words(&self) -> String {
        match self {
            Answer::Refused { words, .. } => words.clone(),
            Answer::Right { verdict, speedup } => format!("{verdict} at {speedup:.3}x"),
        }
    }
}

/// What decides the inputs of one candidate; no two share any.
pub fn secret_of(name: &str) -> u64 {
    let words = name.as_bytes().chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    });
    input::mix(&words.collect::<Vec<_>>())
}

/// Checks and times a config as a search does, then confirms it as a winner.
pub fn judge(
    task: &Task,
    bench: &mut LiveBench<'_>,
    config: &Assignment,
    secret: u64,
) -> Result<Answer, Failure> {
    let build = bench.submit(std::slice::from_ref(config)).start;
    let seeds = Seeds {
        secret,
        batch: 0,
        trial: 1,
        timed_inputs_are_checked: task.is_cuda(),
    };
    let tried = bench.run(build, config, seeds, None)?;
    let Some(candidate_ns) = tried.outcome.median_ns() else {
        return Ok(Answer::Refused {
            reason: tried.outcome.reason(),
            words: tried.outcome.to_string(),
        });
    };
    let trial = Trial {
        number: 1,
        config: config.clone(),
        outcome: tried.outcome,
        skipped_shapes: tried.skipped_shapes,
        compile: tried.compile,
        run_ms: 0.0,
        spent: tried.spent,
    };
    // The baseline's own time only decides how many samples there is time for.
    let confirmation = bench.confirm(&[trial], candidate_ns, secret, &mut |_| {})?;
    if let Some(winner) = confirmation.winner {
        return Ok(Answer::Right {
            verdict: winner.comparison.verdict,
            speedup: winner.comparison.speedup,
        });
    }
    Ok(match confirmation.dropped.first() {
        Some(dropped) => Answer::Refused {
            reason: dropped.outcome.reason(),
            words: dropped.outcome.to_string(),
        },
        None => Answer::Refused {
            reason: "not_compiled",
            words: "could not be built for the confirmation".into(),
        },
    })
}
