//! `kiln check`: what a manifest means here, without running anything.

use std::sync::Arc;
use std::time::Instant;

use kiln_core::manifest::Language;
use kiln_core::protocol::DeviceInfo;
use kiln_core::space::{Config, RuleKind};
use kiln_core::trial::Assignment;
use rand::SeedableRng;
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::cli::CheckArgs;
use crate::engine::compile_pool::CompilePool;
use crate::engine::worker::{Worker, WorkerKind};
use crate::engine::{broken, interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::project::{self, ManifestFile};
use crate::report::terminal::{config_text, group_digits};
use crate::task::Task;
use crate::{architecture, gates, printer, settings};

pub fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let file = project::read(&project::locate(args.path.as_deref())?)?;
    if file.manifest.kernel.language == Language::Cuda {
        return check_cuda(args, &file);
    }
    let device = Worker::spawn(WorkerKind::Run)
        .map_err(|end| broken(&end))?
        .device
        .clone();
    let task = Task::new(file, device)?;
    let mut report = SpaceReport::of(&task.file, &task.space, task.cautions(), &task.device.name);
    if args.compile {
        report.compiled = Some(compile(args, &task)?);
    }
    report.print(args);
    Ok(report.exit())
}

/// Without a device an architecture's name stands for its limits.
fn check_cuda(args: &CheckArgs, file: &ManifestFile) -> Result<Exit, Failure> {
    if !architecture::known().contains(&args.arch.as_str()) {
        return Err(
            Failure::usage(format!("unknown architecture `{}`", args.arch))
                .hint(format!("known: {}", architecture::known().join(", "))),
        );
    }
    if args.compile {
        return Err(Failure::machine(
            "this kiln cannot compile CUDA kernels yet",
        ));
    }
    let device = DeviceInfo {
        kind: "cuda".into(),
        name: args.arch.clone(),
        cores: 0,
        memory_bytes: u64::MAX,
        environment: Vec::new(),
    };
    file.resolve(&file.manifest.kernel.source)?;
    let (space, warnings) = gates::build_space(file, &device)?;
    let cautions = warnings
        .iter()
        .map(|(gate, count)| format!("{count} configs break gate `{gate}`, which is set to warn"))
        .collect();
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
    warnings: Vec<String>,
    compiled: Option<Compilation>,
}

struct Compilation {
    asked: usize,
    compiled: usize,
    cached: usize,
    failed: Vec<(Assignment, String)>,
    wall_s: f64,
    compiler_s: f64,
    jobs: usize,
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
            warnings,
            compiled: None,
        }
    }

    fn exit(&self) -> Exit {
        let nothing_left = self.valid == Some(0);
        let nothing_compiles = self.compiled.as_ref().is_some_and(|c| !c.failed.is_empty());
        if nothing_left || nothing_compiles {
            Exit::No
        } else {
            Exit::Success
        }
    }

    fn print(&self, args: &CheckArgs) {
        if args.json {
            printer::data(&format!("{:#}", self.json()));
        } else {
            printer::data(&self.text(args.explain));
        }
    }

    fn text(&self, explain: bool) -> String {
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
            if let (true, Some(example)) = (explain, &removed.example) {
                lines.push(format!("{:>12} e.g. {}", "", config_text(example)));
            }
        }
        for warning in &self.warnings {
            lines.push(format!("warning: {warning}"));
        }
        if let Some(c) = &self.compiled {
            lines.push(format!(
                "compiled {} of {} ({} from the cache) in {:.1} s with {} compilers; {:.1} s of compiling",
                c.compiled, c.asked, c.cached, c.wall_s, c.jobs, c.compiler_s
            ));
            for (config, why) in c.failed.iter().take(5) {
                lines.push(format!("  {}: {why}", config_text(config)));
            }
        }
        if self.valid == Some(0) {
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
        let compiled = self.compiled.as_ref().map(|c| {
            json!({
                "asked": c.asked, "compiled": c.compiled, "cached": c.cached, "wall_s": c.wall_s,
                "compiler_s": c.compiler_s, "jobs": c.jobs,
                "failed": c.failed.iter().map(|(config, why)| json!({
                    "config": config_object(config), "error": why,
                })).collect::<Vec<_>>(),
            })
        });
        json!({
            "schema_version": 1, "kernel": self.kernel, "device": self.device,
            "cartesian": self.cartesian as f64, "valid": self.valid.map(|v| v as f64),
            "rejected": removed, "warnings": self.warnings, "compiled": compiled,
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

fn compile(args: &CheckArgs, task: &Task) -> Result<Compilation, Failure> {
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    let configs = configs_to_compile(args, task)?;
    let jobs = args
        .jobs
        .map_or_else(settings::compile_jobs, |n| n as usize);
    let cache = Arc::new(Cache::open()?);
    let pool = CompilePool::new(cache, jobs);
    compile_companions(task, &pool)?;
    let assignments: Vec<Assignment> = configs.iter().map(|c| task.space.assignment(c)).collect();
    let builds: Vec<_> = assignments
        .iter()
        .map(|a| task.candidate_build(a))
        .collect();
    let started = Instant::now();
    let results = pool.build_all(&builds)?;
    if interrupt::asked() {
        return Err(interrupted());
    }
    let mut found = Compilation {
        asked: builds.len(),
        compiled: 0,
        cached: 0,
        failed: Vec::new(),
        wall_s: started.elapsed().as_secs_f64(),
        compiler_s: 0.0,
        jobs,
    };
    for (assignment, result) in assignments.into_iter().zip(results) {
        match result {
            Ok(built) => {
                found.compiled += 1;
                found.cached += usize::from(built.cached);
                if !built.cached {
                    found.compiler_s += built.artifact.compile_ms / 1e3;
                }
            }
            Err(outcome) => found.failed.push((assignment, outcome.to_string())),
        }
    }
    Ok(found)
}

/// Reference and baseline too: a manifest is not sound without them.
fn compile_companions(task: &Task, pool: &CompilePool) -> Result<(), Failure> {
    let mut companions = vec![];
    companions.extend(task.reference_build().map(|build| ("reference", build)));
    if task.manifest().baseline.is_some() {
        companions.push(("baseline", task.baseline_build()?.0));
    }
    for (name, build) in companions {
        if let Err(outcome) = pool.build_one(&build)? {
            if interrupt::asked() {
                return Err(interrupted());
            }
            return Err(Failure::usage(format!("the {name} {outcome}")));
        }
    }
    Ok(())
}

fn configs_to_compile(args: &CheckArgs, task: &Task) -> Result<Vec<Config>, Failure> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
    match (args.limit, task.space.count()) {
        (Some(limit), Some(count)) if u128::from(limit) >= count => Ok(task.space.iter().collect()),
        (Some(limit), _) => Ok(task.space.latin_hypercube(limit as usize, &mut rng)),
        (None, Some(_)) => Ok(task.space.iter().collect()),
        (None, None) => Err(Failure::usage("the space is too large to compile whole")
            .hint("`--limit 1000` compiles a spread of it")),
    }
}
