//! What came of compiling the configs: how many, how large, and why not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kiln_core::occupancy::{Limiter, Occupancy};
use kiln_core::space::Config;
use kiln_core::trial::{Assignment, CompileFacts, Outcome};
use rand::SeedableRng;
use serde_json::{Value, json};

use super::config_object;
use super::stages::{self, LeftOut};
use crate::cache::Cache;
use crate::cli::CheckArgs;
use crate::engine::compile_pool::CompilePool;
use crate::engine::{interrupt, interrupted};
use crate::exit::Failure;
use crate::report::CompileProgress;
use crate::report::terminal::config_text;
use crate::settings;
use crate::task::Task;

/// Different errors shown to people; JSON has all.
const ERRORS_SHOWN: usize = 5;

pub(super) struct Compilation {
    compiled: Vec<Candidate>,
    pub failed: Vec<(Assignment, String)>,
    wall_s: f64,
    jobs: usize,
    pub stages: Vec<LeftOut>,
}

/// A config that compiles, and what the compiler made of it.
struct Candidate {
    config: Assignment,
    facts: CompileFacts,
    occupancy: Option<Occupancy>,
    /// Static and dynamic, per block.
    shared_bytes: Option<u32>,
    /// Why a gate would not let it run.
    gated: Option<String>,
}

pub(super) fn compile(args: &CheckArgs, task: &Task) -> Result<Compilation, Failure> {
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
    let progress = CompileProgress::new(builds.len(), jobs);
    let mut results = Vec::with_capacity(builds.len());
    for number in pool.submit(&builds) {
        results.push(pool.wait(number)?);
        progress.step();
    }
    progress.close();
    if interrupt::asked() {
        return Err(interrupted());
    }
    let mut found = Compilation {
        compiled: Vec::new(),
        failed: Vec::new(),
        wall_s: started.elapsed().as_secs_f64(),
        jobs,
        stages: Vec::new(),
    };
    for (config, result) in assignments.into_iter().zip(results) {
        match result {
            Ok(built) => {
                let facts = task.compile_facts(&built, &config);
                found.compiled.push(Candidate::new(task, config, facts));
            }
            Err(Outcome::NotCompiled(failure)) => found.failed.push((config, failure.first_error)),
            Err(outcome) => found.failed.push((config, outcome.to_string())),
        }
    }
    if let Some(candidate) = found.compiled.first() {
        found.stages = stages::compile(task, &pool, &candidate.config)?;
    }
    Ok(found)
}

/// Reference and baseline too: a manifest is not sound without them.
fn compile_companions(task: &Task, pool: &CompilePool) -> Result<(), Failure> {
    let mut companions = vec![];
    companions.extend(task.reference_source().map(|source| ("reference", source)));
    if task.manifest().baseline.is_some() {
        companions.push(("baseline", task.baseline_source()?.0));
    }
    for (name, source) in companions {
        if let Err(outcome) = pool.program(&source)? {
            if interrupt::asked() {
                return Err(interrupted());
            }
            return Err(Failure::usage(format!("the {name} {outcome}"))
                .hint("it takes exactly the parameters of the kernel: see the message above"));
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

impl Candidate {
    fn new(task: &Task, config: Assignment, facts: CompileFacts) -> Candidate {
        let resources = facts.resources.as_ref();
        let dynamic = task.target_launch(&config).map(|l| l.shared_bytes);
        let gated = match task.gate_after_compiling(&facts, &config) {
            Some(Outcome::Gated { gate, message }) => Some(format!("gate `{gate}`: {message}")),
            _ => None,
        };
        Candidate {
            occupancy: task.occupancy(resources, &config),
            shared_bytes: resources
                .zip(dynamic)
                .map(|(r, dynamic)| r.static_shared_bytes.saturating_add(dynamic)),
            gated,
            config,
            facts,
        }
    }

    fn line(&self) -> String {
        let resources = self.facts.resources.unwrap_or_default();
        let (fraction, limiter) = self.occupancy.map_or((0.0, String::new()), |o| {
            (o.fraction, o.limiter.to_string())
        });
        let gated = self.gated.as_deref().unwrap_or_default();
        format!(
            "{:>9} {:>9} {:>9} {:>8.0}% {limiter:<13} {}{}",
            resources.registers,
            resources.spill_store_bytes,
            self.shared_bytes.unwrap_or(0),
            100.0 * fraction,
            config_text(&self.config),
            if gated.is_empty() {
                String::new()
            } else {
                format!("  ({gated})")
            }
        )
    }

    fn json(&self) -> Value {
        json!({
            "config": config_object(&self.config),
            "resources": self.facts.resources,
            "shared_bytes": self.shared_bytes,
            "occupancy": self.occupancy,
            "image_bytes": self.facts.image_bytes,
            "compile_ms": self.facts.compile_ms,
            "cached": self.facts.cached,
            "gated": self.gated,
            "gate_warnings": self.facts.gate_warnings,
            "log": self.facts.log,
        })
    }
}

impl Compilation {
    fn asked(&self) -> usize {
        self.compiled.len() + self.failed.len()
    }

    fn cached(&self) -> usize {
        self.compiled.iter().filter(|c| c.facts.cached).count()
    }

    fn compiler_s(&self) -> f64 {
        let fresh = self.compiled.iter().filter(|c| !c.facts.cached);
        // Not `sum`: that of nothing is -0.
        fresh.fold(0.0, |sum, c| sum + c.facts.compile_ms / 1e3)
    }

    pub(super) fn lines(&self, list: bool) -> Vec<String> {
        let mut lines = vec![format!(
            "compiled {} of {} ({} from the cache) in {:.1} s with {} compilers; {:.1} s of compiling",
            self.compiled.len(),
            self.asked(),
            self.cached(),
            self.wall_s,
            self.jobs,
            self.compiler_s()
        )];
        lines.extend(self.table());
        lines.extend(self.gate_counts());
        for (gate, count) in self.gate_warnings() {
            lines.push(format!(
                "{count:>12} break gate `{gate}` after compiling, which is set to warn"
            ));
        }
        if list && self.has_resources() {
            lines.push("registers   spilled    shared occupancy by            config".into());
            lines.extend(self.compiled.iter().map(Candidate::line));
        }
        lines.extend(stages::lines(&self.stages));
        let groups = self.errors();
        for group in groups.iter().take(ERRORS_SHOWN) {
            lines.push(format!("{:>12} failed: {}", group.count, group.error));
            if !group.example.is_empty() {
                lines.push(format!("{:>12} e.g. {}", "", config_text(group.example)));
            }
        }
        if groups.len() > ERRORS_SHOWN {
            let more = groups.len() - ERRORS_SHOWN;
            lines.push(format!(
                "{more:>12} more kinds of failure (`--json` has all)"
            ));
        }
        lines
    }

    fn has_resources(&self) -> bool {
        self.compiled.iter().any(|c| c.facts.resources.is_some())
    }

    /// Smallest, median and largest of what the device compiler says; nothing for a CPU.
    fn table(&self) -> Vec<String> {
        if !self.has_resources() {
            return Vec::new();
        }
        let resources = || self.compiled.iter().filter_map(|c| c.facts.resources);
        let row = |name: &str, spread: Option<[f64; 3]>, unit: &str| {
            let [low, middle, high] = spread?;
            Some(format!(
                "{name:>25} {low:>10.0}{unit} {middle:>10.0}{unit} {high:>10.0}{unit}"
            ))
        };
        let registers = spread(resources().map(|r| f64::from(r.registers)));
        let spilled = spread(resources().map(|r| f64::from(r.spill_store_bytes)));
        let shared = self.compiled.iter().filter_map(|c| c.shared_bytes);
        let shared = spread(shared.map(f64::from));
        let occupancy = self.compiled.iter().filter_map(|c| c.occupancy);
        let occupancy = spread(occupancy.map(|o| 100.0 * o.fraction));
        let mut lines = vec![format!(
            "{:>25} {:>10} {:>10} {:>10}",
            "", "least", "median", "most"
        )];
        lines.extend(row("registers per thread", registers, ""));
        lines.extend(row("bytes spilled", spilled, ""));
        lines.extend(row("bytes shared per block", shared, ""));
        lines.extend(row("occupancy", occupancy, "%"));
        let limited = self.limiters();
        if !limited.is_empty() {
            lines.push(format!("{:>25} {limited}", "limited by"));
        }
        let spilling = resources().filter(|r| r.spill_store_bytes > 0).count();
        if spilling > 0 {
            lines.push(format!("{spilling:>12} configs spill registers"));
        }
        lines
    }

    /// `registers 12, shared memory 3`: how often each is what limits the occupancy.
    fn limiters(&self) -> String {
        use Limiter::*;
        let count = |limiter| {
            let by = self.compiled.iter().filter_map(|c| c.occupancy);
            (limiter, by.filter(|o| o.limiter == limiter).count())
        };
        let mut counts = [Threads, Blocks, Registers, SharedMemory, Barriers].map(count);
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let named = counts.iter().filter(|(_, count)| *count > 0);
        let named: Vec<String> = named.map(|(l, count)| format!("{l} ({count})")).collect();
        named.join(", ")
    }

    fn gate_counts(&self) -> Vec<String> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for gated in self.compiled.iter().filter_map(|c| c.gated.as_deref()) {
            let gate = gated.split(':').next().unwrap_or_default();
            match counts.iter_mut().find(|(name, _)| *name == gate) {
                Some((_, count)) => *count += 1,
                None => counts.push((gate, 1)),
            }
        }
        counts
            .iter()
            .map(|(gate, count)| format!("{count:>12} rejected after compiling by {gate}"))
            .collect()
    }

    /// Gates set to `warn`, with how many configs break each.
    fn gate_warnings(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for gate in self.compiled.iter().flat_map(|c| &c.facts.gate_warnings) {
            *counts.entry(gate.as_str()).or_default() += 1;
        }
        counts
    }

    /// Whether there are configs that compile and none that may run.
    pub(super) fn all_gated(&self) -> bool {
        !self.compiled.is_empty() && self.compiled.iter().all(|c| c.gated.is_some())
    }

    /// Failures by their first error, the commonest first.
    fn errors(&self) -> Vec<ErrorGroup<'_>> {
        let mut groups: Vec<ErrorGroup> = Vec::new();
        for (config, error) in &self.failed {
            match groups.iter_mut().find(|group| group.error == error) {
                Some(group) => group.count += 1,
                None => groups.push(ErrorGroup {
                    error,
                    count: 1,
                    example: config,
                }),
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups
    }

    pub(super) fn json(&self) -> Value {
        let failed: Vec<Value> = self
            .failed
            .iter()
            .map(|(config, why)| json!({ "config": config_object(config), "error": why }))
            .collect();
        let errors: Vec<Value> = self
            .errors()
            .iter()
            .map(|group| {
                json!({
                    "error": group.error, "count": group.count,
                    "example": config_object(group.example),
                })
            })
            .collect();
        let configs: Vec<Value> = self.compiled.iter().map(Candidate::json).collect();
        json!({
            "asked": self.asked(), "compiled": self.compiled.len(), "cached": self.cached(),
            "wall_s": self.wall_s, "compiler_s": self.compiler_s(), "jobs": self.jobs,
            "failed": failed, "errors": errors, "configs": configs,
            "gate_warnings": self.gate_warnings(), "stages": self.stages,
        })
    }
}

struct ErrorGroup<'a> {
    error: &'a str,
    count: usize,
    example: &'a Assignment,
}

fn spread(values: impl Iterator<Item = f64>) -> Option<[f64; 3]> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    Some([*values.first()?, values[values.len() / 2], *values.last()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::value::Value as Tunable;

    #[test]
    fn failures_are_grouped_by_their_first_error() {
        let config = |n| vec![("N".to_string(), Tunable::Int(n))];
        let failed = [(1, "rare"), (2, "often"), (3, "often")];
        let found = Compilation {
            compiled: Vec::new(),
            failed: failed.map(|(n, why)| (config(n), why.to_string())).into(),
            wall_s: 0.0,
            jobs: 1,
            stages: Vec::new(),
        };
        let groups = found.errors();
        assert_eq!((groups[0].error, groups[0].count), ("often", 2));
        assert_eq!(groups[0].example, &config(2));
        let text = found.lines(true).join("\n");
        assert!(text.contains("2 failed: often"), "{text}");
        assert!(!text.contains("registers"), "{text}");
    }

    #[test]
    fn a_spread_has_ends_and_a_middle() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter()), Some([1.0, 2.0, 3.0]));
        assert_eq!(spread(std::iter::empty()), None);
    }
}
