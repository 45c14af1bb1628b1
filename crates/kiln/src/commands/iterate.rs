//! `kiln iterate`: one turn of the loop by hand. A hypothesis and an edit come in; measured against the incumbent,
//! it is kept or rejected, and whether the prediction held is kept for good.

mod history;
mod incumbent;
mod place;
mod restore;

use std::path::Path;

use kiln_core::diagnostic::printable;
use kiln_core::iteration::{Decision, Found, Iteration, Prediction, Version, iterations};
use kiln_core::journal::Entry;
use kiln_core::lesson::{Claim, Evidence, Observation, Stance};
use kiln_core::retrospective::is_blind;
use serde_json::json;

use crate::cli::IterateArgs;
use crate::commands::compare;
use crate::engine::versus::{self, Budget};
use crate::exit::{Exit, Failure};
use crate::gate::baseline::sources_of;
use crate::gate::judge::{Answer, Pairing, Settings, ShapeFinding};
use crate::gate::{Origin, Side, Stage, judge, parse_config};
use crate::learn::history::Past;
use crate::learn::{lessons, now_unix_ms, sources};
use crate::printer;
use crate::report::terminal::shell_word;
use crate::store::{SqliteStore, Store};
use crate::task::Task;
use incumbent::Incumbent;

pub fn run(args: &IterateArgs) -> Result<Exit, Failure> {
    if args.history {
        return history::run(args);
    }
    if let Some(digest) = &args.restore {
        return restore::run(args, digest);
    }
    let hypothesis = args.hypothesis.as_deref().unwrap_or_default().trim();
    if hypothesis.is_empty() {
        return Err(Failure::usage("the hypothesis is empty")
            .hint("say what the edit should do: `--hypothesis \"wider loads halve the memory instructions\"`"));
    }
    let path = compare::manifest(args.path.as_deref())?;
    let stage = Stage::open(&path, args.no_wait)?;
    let mut store = SqliteStore::open(&stage.file.root)?;
    let shape = shape(args, &stage)?;
    let task = stage.task(&shape, &[])?;
    let past = Past::of_kernel(&store, &task.manifest().kernel.name)?;
    let expected = expected(args, &past)?;
    let incumbent = Incumbent::find(args, &stage, &task, &past)?;
    let candidate = sources_of(&task)?;
    let diff = incumbent::difference(&incumbent.sources, &candidate);
    if diff.is_empty() && args.config.is_none() {
        return Err(Failure::usage(format!(
            "nothing was edited: manifest and sources are those of {}",
            incumbent.version.label
        ))
        .hint("edit the kernel, or try another config of it with `--config NAME=VALUE,…`"));
    }
    let blind = is_blind(
        &past.history(),
        &task.manifest().kernel.name,
        incumbent.since_unix_ms,
        now_unix_ms(),
    );
    if blind {
        warn_blind(&task);
    }
    let files = sources::keep(&task, &mut store)?;
    let finding = measure(args, &stage, &shape, &incumbent)?;
    let config = finding
        .b_config
        .clone()
        .unwrap_or_else(|| incumbent.version.config.clone());
    let found = found(&finding);
    let number = iterations(&past.journal).len() as u64 + 1;
    let iteration = Iteration {
        number,
        kernel: task.manifest().kernel.name.clone(),
        manifest: stage.file.name(),
        shape,
        dimensions: task.manifest().target().dimensions.clone(),
        device: task.device.name.clone(),
        hypothesis: hypothesis.to_string(),
        expected,
        advice: args.advice.clone(),
        incumbent: incumbent.version.clone(),
        candidate: Version {
            label: format!("iteration {number}"),
            sources: sources::identity(&task),
            files,
            config,
        },
        diff,
        prediction: Prediction::of(&found, expected, args.margin),
        decision: Decision::of(&found),
        found,
        blind,
        margin: args.margin,
        kiln_version: env!("CARGO_PKG_VERSION").into(),
    };
    let now = now_unix_ms();
    store.enter(now, &Entry::Iterated(Box::new(iteration.clone())))?;
    if let Some(observation) = outcome_of_advice(&iteration, &task) {
        store.enter(now, &Entry::Observed(Box::new(observation)))?;
    }
    tell(args, &iteration)?;
    Ok(exit(finding.answer()))
}

fn shape(args: &IterateArgs, stage: &Stage) -> Result<String, Failure> {
    let wanted = match &args.shape {
        Some(name) => crate::gate::Shapes::Named(vec![name.clone()]),
        None => crate::gate::Shapes::Target,
    };
    let mut shapes = stage.shapes(&wanted)?;
    shapes.pop().ok_or_else(|| {
        Failure::usage("the manifest has no such shape")
            .hint("name one of [shapes.NAME] in kiln.toml with --shape")
    })
}

/// What was typed, else what the advice promised.
fn expected(args: &IterateArgs, past: &Past) -> Result<Option<f64>, Failure> {
    let Some(rule) = &args.advice else {
        return Ok(args.expect);
    };
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
    if rule.is_empty() || !rule.chars().all(is_name) {
        return Err(
            Failure::usage(format!("`{}` is no name of a rule", printable(rule)))
                .hint("`kiln profile` names the rule with each advice, as `bank_conflicts`"),
        );
    }
    if args.expect.is_some() {
        return Ok(args.expect);
    }
    let advised = past.advice();
    if let Some((_, gain)) = advised.iter().find(|(name, _)| name == rule) {
        return Ok(Some(*gain));
    }
    let failure = Failure::usage(format!(
        "no profile of this kernel advised `{}`, so nothing is known of what to expect",
        printable(rule)
    ));
    let known: Vec<String> = advised
        .iter()
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    Err(match known.is_empty() {
        true => failure
            .hint("`kiln profile` gives advice; or say with `--expect 1.10` what it promises"),
        false => failure.hint(format!(
            "it advised {}; or say with `--expect 1.10` what it promises",
            known.join(", ")
        )),
    })
}

fn warn_blind(task: &Task) {
    let way_out = match task.is_cuda() || !task.manifest().stages.is_empty() {
        true => "hint: `kiln profile` says what binds it, and what to change",
        false => {
            "hint: with [stages] in the manifest `kiln profile` says what binds it; perf reads the CPU's own counters"
        }
    };
    printer::talk(&format!(
        "warning: a blind change: the kernel was not profiled since its last edit\n{way_out}"
    ));
}

fn measure(
    args: &IterateArgs,
    stage: &Stage,
    shape: &str,
    incumbent: &Incumbent,
) -> Result<ShapeFinding, Failure> {
    let config = match &args.config {
        Some(text) => parse_config(text)?.into(),
        None => incumbent.config(),
    };
    let pairing = Pairing {
        shape: shape.to_string(),
        a: incumbent.side.clone(),
        b: Side {
            label: "the edited kernel".into(),
            origin: Origin::Current,
            config: Some(config),
            notes: Vec::new(),
            letter: None,
        },
    };
    let settings = Settings {
        margin: args.margin,
        budget: Budget {
            seconds: args.seconds,
            samples: None,
        },
    };
    let mut findings = judge(stage, &[pairing], settings)?;
    for note in &findings.notes {
        printer::talk(&format!("note: {}", printable(note)));
    }
    findings
        .shapes
        .pop()
        .ok_or_else(|| Failure::new(Exit::Bug, "a comparison has a shape"))
}

fn found(finding: &ShapeFinding) -> Found {
    match &finding.result {
        Ok(judged) => Found::Measured {
            verdict: judged.look.verdict,
            speedup: judged.look.comparison.speedup,
            interval: judged.look.interval,
            incumbent_ns: judged.look.comparison.baseline_ns,
            candidate_ns: judged.look.comparison.candidate_ns,
        },
        Err(fallen) => Found::Wrong {
            of_candidate: fallen.side == versus::Side::B,
            message: fallen.outcome.to_string(),
        },
    }
}

/// Advice that was followed and measured is a lesson, whichever way it went.
fn outcome_of_advice(iteration: &Iteration, task: &Task) -> Option<Observation> {
    let rule = iteration.advice.clone()?;
    let Found::Measured {
        speedup, interval, ..
    } = &iteration.found
    else {
        return None;
    };
    if iteration.prediction == Prediction::Open {
        return None;
    }
    let promised = iteration
        .expected
        .map_or(String::new(), |e| format!(", {e:.2}x was expected"));
    Some(Observation {
        kernel: iteration.kernel.clone(),
        device: iteration.device.clone(),
        architecture: lessons::architecture(&task.device),
        statement: format!(
            "advice `{rule}` brought {speedup:.2}x [{:.2}, {:.2}]{promised}: {}",
            interval.low,
            interval.high,
            iteration.prediction.in_words()
        ),
        claim: Claim::Advice {
            rule,
            expected: iteration.expected,
            speedup: *speedup,
            low: interval.low,
            high: interval.high,
        },
        stance: match iteration.prediction.is_hit() {
            true => Stance::Supports,
            false => Stance::Contradicts,
        },
        evidence: Evidence {
            iteration: Some(iteration.number),
            count: 1,
            sources: iteration.candidate.sources.clone(),
            ..Evidence::default()
        },
        kiln_version: iteration.kiln_version.clone(),
    })
}

fn tell(args: &IterateArgs, iteration: &Iteration) -> Result<(), Failure> {
    if args.json {
        printer::document(&json!({
            "schema_version": 1, "sentence": iteration.sentence(), "iteration": iteration,
        }));
        return Ok(());
    }
    let decided = match (iteration.decision, &iteration.found) {
        (Decision::Kept, _) => "kept: the edited kernel is the incumbent from now on".to_string(),
        (
            Decision::Rejected,
            Found::Wrong {
                of_candidate: false,
                ..
            },
        ) => {
            "rejected: the incumbent cannot be measured any more; `--against` names another".into()
        }
        (Decision::Rejected, _) => format!(
            "rejected: {} stays the incumbent; `kiln iterate{} --restore` puts its files back",
            iteration.incumbent.label,
            path_text(args.path.as_deref())
        ),
    };
    printer::data(&format!(
        "iteration {}: {}\n  {}\n  {decided}",
        iteration.number,
        printable(&iteration.hypothesis),
        printable(&iteration.sentence())
    ));
    Ok(())
}

fn path_text(path: Option<&Path>) -> String {
    path.map_or(String::new(), |path| {
        format!(" {}", shell_word(path.display().to_string()))
    })
}

fn exit(answer: Answer) -> Exit {
    match answer {
        Answer::Faster => Exit::Success,
        Answer::Same | Answer::Slower => Exit::No,
        Answer::Undecided => Exit::Undecided,
        Answer::Wrong => Exit::Wrong,
    }
}
