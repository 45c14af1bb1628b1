//! Shape by shape: both sides checked against the reference, then timed in turns until decided; in
//! the end corrected over all shapes.

use std::time::Instant;

use kiln_core::manifest::BaselineKind;
use kiln_core::trial::{Assignment, Outcome};
use kiln_core::verdict::Verdict;
use kiln_core::verdict::sequential::{Look, holm};

use super::side::{self, Origin, Side};
use super::stage::Stage;
use crate::cache;
use crate::engine::crew::Crew;
use crate::engine::evaluate::{self, Contender, Seeds};
use crate::engine::oracle::Oracle;
use crate::engine::standby::Standby;
use crate::engine::versus::{self, Budget, Fallen, Judged, Limits, Match, Plan};
use crate::engine::worker::{Starting, WorkerKind};
use crate::engine::{interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::task::Task;

/// What is asked about one shape.
pub struct Pairing {
    pub shape: String,
    pub a: Side,
    pub b: Side,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub margin: f64,
    pub budget: Budget,
}

/// The answer for one shape, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Faster,
    Same,
    Undecided,
    Slower,
    /// A side gives no right answer, so there is nothing to time.
    Wrong,
}

impl Answer {
    pub fn name(self) -> &'static str {
        match self {
            Answer::Faster => Verdict::Faster.name(),
            Answer::Same => Verdict::Same.name(),
            Answer::Undecided => Verdict::Undecided.name(),
            Answer::Slower => Verdict::Slower.name(),
            Answer::Wrong => "WRONG",
        }
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Answer {
        match verdict {
            Verdict::Faster => Answer::Faster,
            Verdict::Slower => Answer::Slower,
            Verdict::Same => Answer::Same,
            Verdict::Undecided => Answer::Undecided,
        }
    }
}

pub struct ShapeFinding {
    pub shape: String,
    pub dimensions: Vec<(String, i64)>,
    /// Where the manifest speaks of it.
    pub line: usize,
    /// `None` where a side has no config, or none that makes a difference.
    pub a_config: Option<Assignment>,
    pub b_config: Option<Assignment>,
    /// What a reader should know about the sides here.
    pub notes: Vec<String>,
    pub result: Result<Judged, Fallen>,
    pub seconds: f64,
}

impl ShapeFinding {
    pub fn answer(&self) -> Answer {
        match &self.result {
            Ok(judged) => judged.look.verdict.into(),
            Err(_) => Answer::Wrong,
        }
    }
}

/// Everything a comparison found.
pub struct Findings {
    pub settings: Settings,
    pub a: String,
    pub b: String,
    pub shapes: Vec<ShapeFinding>,
    pub notes: Vec<String>,
    /// Shapes that an interruption left out.
    pub left_out: Vec<String>,
}

impl Findings {
    /// The worst of all shapes; of those that were left out nothing is known.
    pub fn answer(&self) -> Answer {
        let answers = self.shapes.iter().map(ShapeFinding::answer);
        let unknown = self.left_out.iter().map(|_| Answer::Undecided);
        answers.chain(unknown).max().unwrap_or(Answer::Undecided)
    }

    /// The exit code, where the findings are whole `otherwise`.
    pub fn exit(&self, otherwise: impl Fn(Answer) -> Exit) -> Exit {
        match self.left_out.is_empty() {
            true => otherwise(self.answer()),
            false => Exit::Interrupted,
        }
    }
}

pub fn judge(stage: &Stage, pairings: &[Pairing], settings: Settings) -> Result<Findings, Failure> {
    let names: Vec<String> = pairings.iter().map(|p| p.shape.clone()).collect();
    let mut notes: Vec<String> = Vec::new();
    let mut shapes = Vec::new();
    let mut left_out = Vec::new();
    let mut standby = Standby::default();
    for (index, pairing) in pairings.iter().enumerate() {
        printer::talk(&format!(
            "shape `{}` ({} of {}): checking both sides, then timing them in turns",
            pairing.shape,
            index + 1,
            pairings.len()
        ));
        let plan = (settings, names.len());
        let found = match interrupt::asked() {
            true => Err(interrupted()),
            false => stage
                .task(&pairing.shape, &names)
                .and_then(|task| one_shape(stage, &task, pairing, plan, &mut standby)),
        };
        let finding = match found {
            // What was found until then is not lost.
            Err(failure) if failure.exit == Exit::Interrupted && !shapes.is_empty() => {
                left_out = names[index..].to_vec();
                break;
            }
            found => found?,
        };
        let sides = pairing.a.notes.iter().chain(&pairing.b.notes);
        for note in sides.chain(&finding.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        shapes.push(finding);
    }
    let mut looks: Vec<&mut Look> = shapes
        .iter_mut()
        .filter_map(|s| Some(&mut s.result.as_mut().ok()?.look))
        .collect();
    holm(&mut looks, names.len());
    let label = |of: fn(&Pairing) -> &Side| {
        let first = pairings.first();
        first.map_or(String::new(), |p| of(p).label.clone())
    };
    Ok(Findings {
        settings,
        a: label(|p| &p.a),
        b: label(|p| &p.b),
        shapes,
        notes,
        left_out,
    })
}

fn one_shape(
    stage: &Stage,
    task: &Task,
    pairing: &Pairing,
    (settings, shapes): (Settings, usize),
    standby: &mut Standby,
) -> Result<ShapeFinding, Failure> {
    let started = Instant::now();
    let finding = |result| ShapeFinding {
        shape: pairing.shape.clone(),
        dimensions: task.manifest().target().dimensions.clone(),
        line: stage.line_of(&pairing.shape),
        a_config: None,
        b_config: None,
        notes: Vec::new(),
        result,
        seconds: started.elapsed().as_secs_f64(),
    };
    let [a, b] = match build_both(stage, task, pairing)? {
        Ok(both) => both,
        Err(fallen) => return Ok(finding(Err(fallen))),
    };
    side::may_come_second(&b).map_err(|f| pairing.b.blamed(f))?;
    let mut notes = Vec::new();
    let a_config = telling_config(task, &pairing.a, &a, &mut notes);
    let b_config = telling_config(task, &pairing.b, &b, &mut notes);
    let mut oracle = Oracle::after(standby.oracle.take(), task, &stage.pool)?;
    let secret = cache::random_u64();
    standby.start(task, &a)?;
    let mut checker = Checker::new(task, standby);
    let checked = check_both(task, &mut oracle, &mut checker, pairing, [&a, &b], secret)?;
    checker.dismiss(standby);
    let result = match checked {
        Err(fallen) => Err(fallen),
        Ok(pair_ns) => {
            let limits = Limits {
                margin: settings.margin,
                shapes,
            };
            let plan = Plan::new(a.style, limits, settings.budget, pair_ns);
            let sides = Match {
                task,
                oracle: &mut oracle,
                baseline: &a,
                candidate: &b,
                secret,
                status: &mut |_| {},
            };
            versus::judge(sides, &plan, standby)?
        }
    };
    standby.oracle = Some(oracle);
    Ok(ShapeFinding {
        a_config,
        b_config,
        notes,
        ..finding(result)
    })
}

fn build_both(
    stage: &Stage,
    task: &Task,
    pairing: &Pairing,
) -> Result<Result<[Contender; 2], Fallen>, Failure> {
    let build = |which, side: &Side| -> Result<Result<Contender, Fallen>, Failure> {
        let built = side::contender(stage, task, side)?;
        if interrupt::asked() {
            return Err(interrupted());
        }
        Ok(built.map_err(|outcome| Fallen::new(which, outcome)))
    };
    // A config that one side has from the other is judged on the side that named it first: whatever is wrong with it
    // there is not the borrower's fault.
    let (a, b) = match pairing.a.borrows_its_config() {
        false => (
            build(versus::Side::A, &pairing.a)?,
            build(versus::Side::B, &pairing.b)?,
        ),
        true => {
            let b = build(versus::Side::B, &pairing.b)?;
            (build(versus::Side::A, &pairing.a)?, b)
        }
    };
    Ok(a.and_then(|a| Ok([a, b?])))
}

/// Nanoseconds that a launch of each side takes together, or the side that is wrong.
fn check_both(
    task: &Task,
    oracle: &mut Oracle,
    checker: &mut Checker,
    pairing: &Pairing,
    both: [&Contender; 2],
    secret: u64,
) -> Result<Result<f64, Fallen>, Failure> {
    // First, so that what is wrong with the reference is not put down to a side.
    evaluate::foresee(task, oracle, Checker::seeds(task, secret))?;
    let mut pair_ns = 0.0;
    let sides = [(versus::Side::A, &pairing.a), (versus::Side::B, &pairing.b)];
    for ((which, side), contender) in sides.into_iter().zip(both) {
        let checked = checker.check(task, oracle, contender, secret);
        match checked.map_err(|f| side.blamed(f))? {
            Ok(ns) => pair_ns += ns,
            Err(outcome) => return Ok(Err(Fallen::new(which, outcome))),
        }
    }
    Ok(Ok(pair_ns))
}

/// The config of a side, where it says anything about what was built.
fn telling_config(
    task: &Task,
    side: &Side,
    contender: &Contender,
    notes: &mut Vec<String>,
) -> Option<Assignment> {
    let baseline = task.manifest().baseline.as_ref().map(|b| &b.kind);
    let has_config = match side.origin {
        Origin::Baseline => matches!(baseline, Some(BaselineKind::Config { .. })),
        _ => true,
    };
    if let Some(note) = side::without_effect(task, side, contender) {
        notes.push(note);
        return None;
    }
    has_config.then(|| contender.config.clone())
}

/// Tries contenders on every shape that is checked before anything counts.
pub struct Checker {
    crew: Option<Crew>,
    /// For a baseline in Python.
    python: Option<Starting>,
}

impl Checker {
    pub fn new(task: &Task, standby: &mut Standby) -> Checker {
        // On a GPU one process serves both; elsewhere each has its own.
        let kind = WorkerKind::cuda(task.support.clone());
        Checker {
            crew: task.is_cuda().then(|| Crew::new(kind)),
            python: standby.python.take(),
        }
    }

    /// Ends its processes; what is worth keeping goes on standby.
    pub fn dismiss(self, standby: &mut Standby) {
        standby.python = self.python;
    }

    fn seeds(task: &Task, secret: u64) -> Seeds {
        Seeds {
            secret,
            batch: 0,
            trial: 0,
            timed_inputs_are_checked: task.is_cuda(),
        }
    }

    /// Nanoseconds of a launch, or what is wrong with it.
    pub fn check(
        &mut self,
        task: &Task,
        oracle: &mut Oracle,
        contender: &Contender,
        secret: u64,
    ) -> Result<Result<f64, Outcome>, Failure> {
        let seeds = Checker::seeds(task, secret);
        let worker = &contender.program.worker;
        let in_python = matches!(worker, WorkerKind::Python(_));
        let first = in_python.then(|| self.python.take()).flatten();
        let mut own = Crew::with(worker.clone(), first);
        let crew = match (&mut self.crew, worker) {
            (Some(crew), WorkerKind::Cuda { .. }) => crew,
            _ => &mut own,
        };
        let evaluated = evaluate::evaluate(task, oracle, crew, contender, seeds, None)?;
        if in_python {
            self.python = own.disband().pop();
        }
        Ok(match evaluated.outcome.median_ns() {
            Some(ns) => Ok(ns),
            None => Err(evaluated.outcome),
        })
    }
}
