//! `kiln check`: what a manifest means here, without running anything but, on demand, the reference.

mod compiled;
mod draws;
mod stages;

use std::sync::Arc;

use kiln_core::admission::Admission;
use kiln_core::architecture::Architecture;
use kiln_core::manifest::{BaselineKind, Language};
use kiln_core::protocol::DeviceInfo;
use kiln_core::space::RuleKind;
use kiln_core::trial::Assignment;
use serde_json::{Value, json};

use crate::cache::{self, Cache};
use crate::cli::CheckArgs;
use crate::commands::tune::wait_for_machine;
use crate::engine::bench::{Bench, LiveBench};
use crate::engine::compile_pool::CompilePool;
use crate::engine::oracle::Oracle;
use crate::engine::worker::{Worker, WorkerKind};
use crate::engine::{admission, broken};
use crate::exit::{Exit, Failure};
use crate::project::{self, ManifestFile};
use crate::report;
use crate::report::terminal::{config_text, group_digits};
use crate::task::{Task, risky_names, unused};
use crate::{gates, printer};
use compiled::Compilation;
use draws::DrawnRange;

pub fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let mut file = project::read(&project::locate(args.path.as_deref())?)?;
    file.aim_at(args.shape.as_deref())?;
    let is_cuda = file.manifest.kernel.language == Language::Cuda;
    let device = device(&file, &args.arch)?;
    if is_cuda && !args.compile && !args.admit {
        return check_space(args, &file, &device);
    }
    let architecture = is_cuda.then_some(args.arch.as_str());
    let task = Task::new(file, device, architecture)?;
    let mut report = SpaceReport::of(&task.file, &task.space, task.cautions(), &task.device.name);
    if args.compile {
        report.compiled = Some(compiled::compile(args, &task)?);
    }
    if args.admit {
        report.admission = Some(admit(&task)?);
    }
    report.print(args);
    Ok(report.exit())
}

/// What the task's check can tell; a weak one is refused.
fn admit(task: &Task) -> Result<Admission, Failure> {
    let pool = CompilePool::new(Arc::new(Cache::open()?), 1);
    let secret = cache::random_u64();
    if !can_try_baseline(task) {
        let mut oracle = Oracle::new(task, &pool)?;
        return admission::admit(task, &mut oracle, secret);
    }
    // `kiln tune` would find out before its first trial that the baseline is called wrong; here it costs seconds.
    let mut bench = LiveBench::new(task, &pool)?;
    let admission = bench.admit(secret)?;
    // The baseline is timed too, and would disturb whoever measures here.
    let turn = wait_for_machine(&task.device, false)?;
    bench.baseline(secret)?;
    drop(turn);
    admission.ok_or_else(|| Failure::new(Exit::Bug, "a task on a device is always admitted"))
}

/// A baseline that runs wherever the reference does: one in C, on this machine's CPU.
fn can_try_baseline(task: &Task) -> bool {
    let baseline = task.manifest().baseline.as_ref().map(|b| &b.kind);
    !task.is_cuda()
        && matches!(
            baseline,
            Some(BaselineKind::C { .. } | BaselineKind::Config { .. })
        )
}

/// The device a manifest is judged for without running it: this machine's CPU, or an architecture.
pub fn device(file: &ManifestFile, architecture: &str) -> Result<DeviceInfo, Failure> {
    match file.manifest.kernel.language == Language::Cuda {
        true => nominal_device(architecture),
        false => Ok(Worker::spawn(&WorkerKind::cpu())
            .map_err(|end| broken(&end))?
            .device
            .clone()),
    }
}

/// Without a device an architecture's name stands for its limits.
fn nominal_device(architecture: &str) -> Result<DeviceInfo, Failure> {
    if Architecture::parse(architecture).is_none() {
        let known = Architecture::known();
        // `--arch 89` and `--arch 8.9` mean sm_89.
        let digits: String = architecture.chars().filter(char::is_ascii_digit).collect();
        let meant = known.iter().find(|name| **name == format!("sm_{digits}"));
        let hint = match (Architecture::of_product(architecture), meant) {
            (Some(name), _) => format!("did you mean `{name}`?"),
            (None, Some(name)) => format!("did you mean `{name}`?"),
            (None, None) => format!("known: {}", known.join(", ")),
        };
        return Err(Failure::usage(format!("unknown architecture `{architecture}`")).hint(hint));
    }
    Ok(DeviceInfo {
        kind: "cuda".into(),
        name: architecture.to_string(),
        cores: 0,
        memory_bytes: u64::MAX,
        environment: Vec::new(),
        cuda: None,
    })
}

/// What can be said about a CUDA manifest without any compiler.
fn check_space(
    args: &CheckArgs,
    file: &ManifestFile,
    device: &DeviceInfo,
) -> Result<Exit, Failure> {
    file.resolve_all()?;
    let (space, warnings) = gates::build_space(file, device, &args.arch)?;
    let mut cautions = risky_names(&file.manifest);
    cautions.extend(unused::caution(&unused::without_compiler(file)));
    cautions.extend(
        warnings.iter().map(|(gate, count)| {
            format!("{count} configs break gate `{gate}`, which is set to warn")
        }),
    );
    let report = SpaceReport::of(file, &space, cautions, &args.arch);
    report.print(args);
    Ok(report.exit())
}

struct Removed {
    rule: String,
    text: String,
    count: u128,
    example: Option<Assignment>,
}

struct SpaceReport {
    kernel: String,
    device: String,
    tunables: usize,
    cartesian: u128,
    valid: Option<u128>,
    removed: Vec<Removed>,
    draws: Vec<DrawnRange>,
    warnings: Vec<String>,
    compiled: Option<Compilation>,
    admission: Option<Admission>,
}

impl SpaceReport {
    fn of(
        file: &ManifestFile,
        space: &kiln_core::space::Space,
        warnings: Vec<String>,
        device: &str,
    ) -> SpaceReport {
        let removed = space
            .removals()
            .iter()
            .map(|r| {
                let kind = match r.kind {
                    RuleKind::Constraint => "constraint",
                    RuleKind::Gate => "gate",
                };
                let rule = space
                    .rules()
                    .iter()
                    .find(|rule| rule.name == r.name && rule.kind == r.kind);
                Removed {
                    rule: format!("{kind} `{}`", r.name),
                    text: rule.map_or(String::new(), |rule| rule.expr.text().to_string()),
                    count: r.removed,
                    example: r.example.as_ref().map(|c| space.assignment(c)),
                }
            })
            .collect();
        SpaceReport {
            kernel: file.manifest.kernel.name.clone(),
            device: device.to_string(),
            tunables: space.tunables().len(),
            cartesian: space.cartesian(),
            valid: space.count(),
            removed,
            draws: draws::of(&file.manifest),
            warnings,
            compiled: None,
            admission: None,
        }
    }

    fn exit(&self) -> Exit {
        let nothing_left = self.valid == Some(0);
        let compiled = self.compiled.as_ref();
        let some_fail =
            compiled.is_some_and(|c| !c.failed.is_empty() || stages::any_fails(&c.stages));
        if nothing_left || some_fail || self.all_gated() {
            Exit::No
        } else {
            Exit::Success
        }
    }

    fn all_gated(&self) -> bool {
        self.compiled.as_ref().is_some_and(Compilation::all_gated)
    }

    fn print(&self, args: &CheckArgs) {
        if args.json {
            printer::document(&self.json());
        } else {
            printer::data(&self.text(args));
        }
    }

    fn text(&self, args: &CheckArgs) -> String {
        let explain = args.explain;
        let mut lines = vec![format!(
            "{}: {} tunables, {} combinations, {} on {}",
            self.kernel,
            self.tunables,
            group_digits(self.cartesian),
            match self.valid {
                Some(valid) => format!("{} configs left", group_digits(valid)),
                None => "too many valid ones to count; they will be sampled".into(),
            },
            self.device
        )];
        for removed in self.removed.iter().filter(|r| r.count > 0) {
            // A space that was not walked to its end has counted only what it met.
            let least = if self.valid.is_none() {
                "at least "
            } else {
                ""
            };
            let count = format!("{least}{}", group_digits(removed.count));
            lines.push(format!(
                "{count:>12} rejected by {}: {}",
                removed.rule, removed.text
            ));
            let example = removed.example.as_ref().filter(|e| !e.is_empty());
            if let (true, Some(example)) = (explain, example) {
                lines.push(format!("{:>12} e.g. {}", "", config_text(example)));
            }
        }
        lines.extend(self.draws.iter().map(DrawnRange::line));
        for warning in &self.warnings {
            lines.push(format!("warning: {warning}"));
        }
        if let Some(compiled) = &self.compiled {
            lines.extend(compiled.lines(args.list));
        }
        lines.extend(self.admission.iter().flat_map(report::admission_lines));
        if self.all_gated() {
            lines.push(match args.limit {
                None => "nothing is left to try: loosen a gate or add values".into(),
                Some(_) => "nothing is left to try of what was compiled: loosen a gate, add values or raise --limit".into(),
            });
        } else if self.valid == Some(0) {
            lines.push("nothing is left to try: loosen a constraint or add values".into());
        } else if !explain && self.removed.iter().any(|r| r.count > 0) {
            lines.push("(`--explain` shows one example of each rejection)".into());
        }
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let removed: Vec<Value> = self
            .removed
            .iter()
            .map(|r| {
                json!({
                    "rule": r.rule, "expression": r.text, "count": r.count as f64,
                    "example": r.example.as_ref().map(config_object),
                })
            })
            .collect();
        let compiled = self.compiled.as_ref().map(Compilation::json);
        json!({
            "schema_version": 1, "kernel": self.kernel, "device": self.device,
            "cartesian": self.cartesian as f64, "valid": self.valid.map(|v| v as f64),
            "rejected": removed, "draws": self.draws, "warnings": self.warnings, "compiled": compiled,
            "admission": self.admission,
        })
    }
}

fn config_object(config: &Assignment) -> Value {
    config
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
