//! What leaving out a stage of the kernel brings: variants are built, run once under guard, and timed in turns with
//! the whole.

use std::path::Path;

use kiln_core::bottleneck::Stages;
use kiln_core::bottleneck::stages::{Measured, MeasuredResult, combinations};
use kiln_core::diagnostic::Diagnostic;
use kiln_core::trial::Outcome;

use crate::engine::compile_pool::{Built, CompilePool};
use crate::engine::evaluate::Contender;
use crate::engine::relay::{self, Lane, RelayPlan};
use crate::engine::{interrupt, interrupted};
use crate::exit::Failure;
use crate::image;
use crate::printer;
use crate::task::Task;

/// Fixes inputs and the order of turns.
const SECRET: u64 = 1;

/// A stage whose macros the source does not know would seem to cost nothing.
pub fn refuse_unknown(task: &Task) -> Result<(), Failure> {
    let Some((stage, name)) = task.unknown_stages().into_iter().next() else {
        return Ok(());
    };
    Err(task.file.error(
        &Diagnostic::new(
            format!(
                "stage `{}` leaves nothing out: `{name}` appears nowhere in the source",
                stage.name
            ),
            stage.span.clone(),
        )
        .hint(format!(
            "write `#ifdef {name}` or `#if` where the stage is left out"
        )),
    ))
}

/// Times the whole kernel and all variants on the task's target.
pub fn measure(
    task: &Task,
    pool: &CompilePool,
    whole: &Contender,
    whole_ns: Option<f64>,
) -> Result<Stages, Failure> {
    refuse_unknown(task)?;
    let mut variants = build(task, pool, whole)?;
    let mut contenders = vec![whole.clone()];
    contenders.extend(variants.iter().filter_map(|variant| variant.runs.clone()));
    printer::talk(&format!(
        "timing {} with stages left out, in turns with the whole kernel",
        match contenders.len() - 1 {
            1 => "a variant".to_string(),
            n => format!("{n} variants"),
        }
    ));
    let budget = task.manifest().confirm.max_seconds;
    let plan = RelayPlan::new(
        whole.style,
        contenders.len(),
        whole_ns.unwrap_or(0.0),
        budget,
    );
    let mut lanes = relay::run(task, &contenders, plan, SECRET)?.into_iter();
    let whole_rounds = match lanes.next() {
        Some(Lane::Timed(rounds)) => rounds,
        // A whole kernel that fails is an error already.
        _ => Vec::new(),
    };
    for (variant, lane) in variants.iter_mut().filter(|v| v.runs.is_some()).zip(lanes) {
        variant.ended = match lane {
            Lane::Timed(rounds_ns) => MeasuredResult::Timed {
                rounds_ns,
                occupancy: variant.occupancy,
                same_code_as: std::mem::take(&mut variant.same_code_as),
            },
            Lane::Fell(outcome) => MeasuredResult::Failed {
                message: outcome.to_string(),
            },
        };
    }
    let measured = variants
        .into_iter()
        .map(|variant| Measured {
            without: variant.without,
            result: variant.ended,
        })
        .collect();
    let whole_occupancy = occupancy_of_whole(task, pool, whole)?;
    Ok(Stages::of(whole_rounds, whole_occupancy, measured, SECRET))
}

/// One that is built, or why it is not.
struct Variant {
    without: Vec<String>,
    /// What is timed; nothing where it does not compile or is no variant.
    runs: Option<Contender>,
    occupancy: Option<f64>,
    same_code_as: Vec<String>,
    ended: MeasuredResult,
}

fn build(task: &Task, pool: &CompilePool, whole: &Contender) -> Result<Vec<Variant>, Failure> {
    let names: Vec<String> = task
        .manifest()
        .stages
        .iter()
        .map(|stage| stage.name.clone())
        .collect();
    let sets = combinations(&names);
    let builds: Vec<_> = sets
        .iter()
        .map(|without| task.staged_build(without, &whole.config))
        .collect();
    let built = pool.build_all(&builds)?;
    if interrupt::asked() {
        return Err(interrupted());
    }
    let whole_code = image::code(Path::new(&whole.program.image))?;
    let mut codes: Vec<(Vec<String>, Vec<u8>)> = Vec::new();
    let mut without_effect: Vec<String> = Vec::new();
    let mut variants = Vec::new();
    for ((without, build), built) in sets.iter().zip(&builds).zip(built) {
        let Some(without) = effective(without, &without_effect, &sets) else {
            continue;
        };
        let built = match built {
            Ok(built) => built,
            Err(outcome) => {
                variants.push(not_built(without, &outcome));
                continue;
            }
        };
        let code = image::code(&built.artifact.image)?;
        if code == whole_code {
            without_effect.extend(without.clone());
            variants.push(Variant {
                without,
                runs: None,
                occupancy: None,
                same_code_as: Vec::new(),
                ended: MeasuredResult::SameCode,
            });
            continue;
        }
        let twin = codes.iter().find(|(fewer, known)| {
            *known == code && fewer.iter().all(|stage| without.contains(stage))
        });
        variants.push(Variant {
            runs: Some(Contender {
                program: built.program(build),
                ..whole.clone()
            }),
            occupancy: occupancy(task, &built, whole),
            same_code_as: twin.map(|(fewer, _)| fewer.clone()).unwrap_or_default(),
            ended: MeasuredResult::Failed {
                message: "was not run".into(),
            },
            without: without.clone(),
        });
        codes.push((without, code));
    }
    Ok(variants)
}

/// What is left out in effect: what changes nothing alone changes nothing with others either. `None` where that is
/// another variant.
fn effective(
    without: &[String],
    without_effect: &[String],
    sets: &[Vec<String>],
) -> Option<Vec<String>> {
    let is_effective = |stage: &&String| !without_effect.contains(stage);
    let left: Vec<String> = without.iter().filter(is_effective).cloned().collect();
    let is_another = left.is_empty() || sets.contains(&left);
    (left.len() == without.len() || !is_another).then_some(left)
}

fn not_built(without: Vec<String>, outcome: &Outcome) -> Variant {
    Variant {
        without,
        runs: None,
        occupancy: None,
        same_code_as: Vec::new(),
        ended: match outcome {
            Outcome::NotCompiled(failure) => MeasuredResult::NotCompiled {
                message: failure.first_error.clone(),
            },
            other => MeasuredResult::Failed {
                message: other.to_string(),
            },
        },
    }
}

fn occupancy(task: &Task, built: &Built, whole: &Contender) -> Option<f64> {
    let resources = built.artifact.compiled.resources.as_ref();
    Some(task.occupancy(resources, &whole.config)?.fraction)
}

/// From the cache: it was built before it was timed.
fn occupancy_of_whole(
    task: &Task,
    pool: &CompilePool,
    whole: &Contender,
) -> Result<Option<f64>, Failure> {
    let built = pool.build_one(&task.candidate_build(&whole.config))?;
    Ok(built.ok().and_then(|built| occupancy(task, &built, whole)))
}
