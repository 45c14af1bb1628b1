//! Static gates: configs the device cannot run are removed before anything is compiled, by name.

use std::collections::BTreeSet;

use kiln_core::architecture::Architecture;
use kiln_core::diagnostic::Diagnostic;
use kiln_core::expression::{BoundExpr, Expr};
use kiln_core::manifest::{ArgumentKind, GateAction, Language, Launch, Manifest, Role};
use kiln_core::occupancy::{Limiter, registers_of_block};
use kiln_core::protocol::{DeviceInfo, Resources};
use kiln_core::space::{BuildLimits, Rule, RuleKind, Space};
use kiln_core::trial::{Assignment, CompileFacts, Outcome};
use kiln_core::value::Value;

use crate::exit::Failure;
use crate::project::ManifestFile;
use crate::task::Task;

/// Counting the configs that break a `warn` gate stops here.
const MAX_COUNTED: u128 = 2_000_000;

/// A limit of the device on an expression over tunables and dimensions.
struct Gate {
    name: &'static str,
    expr: String,
    limit: i64,
    /// No limit of the manifest's can be above this.
    most: i64,
    /// What must hold beside the limit.
    also: Option<String>,
}

impl Gate {
    fn new(name: &'static str, expr: String, limit: i64) -> Gate {
        Gate {
            name,
            expr,
            limit,
            most: i64::MAX,
            also: None,
        }
    }
}

/// The valid space of a manifest on a device, and the `warn` gates with their counts.
pub fn build_space(
    file: &ManifestFile,
    device: &DeviceInfo,
    architecture: &str,
) -> Result<(Space, Vec<(String, u64)>), Failure> {
    let manifest = &file.manifest;
    let scope = manifest.scope();
    let constants: Vec<(String, Value)> = manifest
        .target()
        .dimensions
        .iter()
        .map(|(name, n)| (name.clone(), Value::Int(*n)))
        .collect();
    let mut rules = Vec::new();
    for constraint in &manifest.constraints {
        let expr = constraint.expr.bind(&scope).map_err(|e| {
            let problem = Diagnostic::new(e.message.clone(), constraint.span.clone());
            file.error(&e.hint.iter().fold(problem, |p, h| p.hint(h.clone())))
        })?;
        rules.push(Rule {
            name: constraint.name.clone(),
            kind: RuleKind::Constraint,
            expr,
        });
    }
    let mut warn = Vec::new();
    for gate in applicable(manifest, device, architecture) {
        let policy = manifest.gate_policy(gate.name);
        let limit = policy.limit.unwrap_or(gate.limit).min(gate.most);
        let bind = |text: &str| {
            Expr::parse(text)
                .and_then(|e| e.bind(&scope))
                .map_err(|e| Failure::usage(format!("gate `{}`: {e}", gate.name)))
        };
        let bound = match &gate.also {
            Some(also) => bind(&format!("{} <= {limit} and {also}", gate.expr))?,
            None => bind(&gate.expr)?.at_most(limit),
        };
        match policy.action {
            GateAction::Reject => rules.push(Rule {
                name: gate.name.to_string(),
                kind: RuleKind::Gate,
                expr: bound,
            }),
            GateAction::Warn => warn.push((gate.name.to_string(), bound)),
            GateAction::Off => {}
        }
    }
    let space = Space::build(
        manifest.tunables.clone(),
        constants,
        rules,
        BuildLimits::default(),
    )
    .map_err(|e| {
        Failure::usage(format!("{}: {e}", file.name()))
            .hint("`kiln check --explain` shows the constraints with an example each")
    })?;
    let warnings = warn
        .into_iter()
        .map(|(name, rule)| (name, count_breaking(&space, manifest, &rule)))
        .filter(|(_, count)| *count > 0)
        .collect();
    Ok((space, warnings))
}

fn count_breaking(space: &Space, manifest: &Manifest, rule: &BoundExpr) -> u64 {
    if space.count().is_none_or(|n| n > MAX_COUNTED) {
        return 0;
    }
    let dimensions = manifest
        .target()
        .dimensions
        .iter()
        .map(|(_, n)| Value::Int(*n));
    let dimensions: Vec<Value> = dimensions.collect();
    let breaks = |config: &kiln_core::space::Config| {
        let values: Vec<Value> = space
            .assignment(config)
            .into_iter()
            .map(|(_, v)| v)
            .chain(dimensions.iter().cloned())
            .collect();
        !rule.eval(&values).is_ok_and(|v| v.is_truthy())
    };
    space.iter().filter(breaks).count() as u64
}

fn applicable(manifest: &Manifest, device: &DeviceInfo, architecture: &str) -> Vec<Gate> {
    let mut gates = Vec::new();
    if let Some(threads) = &manifest.launch.threads {
        let text = threads.text().to_string();
        gates.push(Gate::new("threads", text, device.cores as i64));
    }
    if let Some(bytes) = buffer_bytes(manifest) {
        let there = i64::try_from(device.memory_bytes).unwrap_or(i64::MAX);
        gates.push(Gate::new("memory", bytes, there));
    }
    if manifest.kernel.language == Language::Cuda
        && let Some(limits) = Architecture::parse(architecture)
    {
        gates.extend(of_launch(&manifest.launch, &limits));
    }
    gates
}

fn of_launch(launch: &Launch, limits: &Architecture) -> Vec<Gate> {
    let product = |exprs: &[Expr]| match exprs {
        [one] => one.text().to_string(),
        several => {
            let factors = several.iter().map(|e| format!("({})", e.text()));
            factors.collect::<Vec<_>>().join(" * ")
        }
    };
    let mut gates = vec![Gate::new(
        "threads_per_block",
        product(&launch.block),
        i64::from(limits.threads_per_block),
    )];
    if !launch.cluster.is_empty() {
        // An extent that is not written is one block, a multiple of one.
        let extent = |exprs: &[Expr], i: usize| exprs.get(i).map_or("1", Expr::text).to_string();
        let multiples = (0..launch.cluster.len()).map(|i| {
            let (grid, cluster) = (extent(&launch.grid, i), extent(&launch.cluster, i));
            format!("({grid}) % ({cluster}) == 0")
        });
        gates.push(Gate {
            most: i64::from(limits.cluster_blocks_nonportable),
            also: Some(multiples.collect::<Vec<String>>().join(" and ")),
            ..Gate::new(
                "cluster",
                product(&launch.cluster),
                i64::from(limits.cluster_blocks),
            )
        });
    }
    if let Some(shared) = &launch.shared {
        gates.push(Gate::new(
            "shared_memory",
            shared.text().to_string(),
            i64::from(limits.shared_per_block_optin),
        ));
    }
    if let Some(widest) = launch.grid.get(1..).filter(|rest| !rest.is_empty()) {
        let terms: Vec<String> = widest.iter().map(|e| format!("({})", e.text())).collect();
        let expr = format!("max({})", terms.join(", "));
        gates.push(Gate::new("grid", expr, 65_535));
    }
    gates
}

/// Bytes of all buffers, where some depend on tunables or the manifest sets a limit; otherwise
/// sizes are checked per shape.
fn buffer_bytes(manifest: &Manifest) -> Option<String> {
    let mut terms = Vec::new();
    let mut has_scratch = false;
    for argument in &manifest.arguments {
        if let ArgumentKind::Buffer { shape, role, .. } = &argument.kind {
            has_scratch |= matches!(role, Role::Scratch | Role::Zeroed);
            let extents: Vec<String> = shape.iter().map(|e| format!("({})", e.text())).collect();
            let elements = if extents.is_empty() {
                "1".into()
            } else {
                extents.join(" * ")
            };
            terms.push(format!("{elements} * {}", argument.dtype.size_bytes()));
        }
    }
    let is_limited = manifest.gate_policy("memory").limit.is_some();
    (!terms.is_empty() && (has_scratch || is_limited)).then(|| terms.join(" + "))
}

/// A gate that a compiled config breaks.
struct Broken {
    gate: &'static str,
    action: GateAction,
    message: String,
}

impl Task {
    /// What the compiler's own numbers rule out, by name.
    pub fn gate_after_compiling(
        &self,
        facts: &CompileFacts,
        config: &Assignment,
    ) -> Option<Outcome> {
        let broken = self.broken_after_compiling(facts.resources.as_ref(), config);
        let refused = broken
            .into_iter()
            .find(|broken| broken.action == GateAction::Reject)?;
        Some(Outcome::Gated {
            gate: refused.gate.into(),
            message: refused.message,
        })
    }

    /// Gates that are set to `warn` and that the compiler's numbers break.
    pub fn gate_warnings(&self, resources: Option<&Resources>, config: &Assignment) -> Vec<String> {
        let broken = self.broken_after_compiling(resources, config).into_iter();
        let gates: BTreeSet<String> = broken
            .filter(|broken| broken.action == GateAction::Warn)
            .map(|broken| broken.gate.to_string())
            .collect();
        gates.into_iter().collect()
    }

    /// In the order they are reported.
    fn broken_after_compiling(
        &self,
        resources: Option<&Resources>,
        config: &Assignment,
    ) -> Vec<Broken> {
        let (Some(resources), Some(architecture), Some(launch)) = (
            resources,
            Architecture::parse(&self.architecture),
            self.target_launch(config),
        ) else {
            return Vec::new();
        };
        let Some(occupancy) = self.occupancy(Some(resources), config) else {
            return Vec::new();
        };
        let mut broken = Vec::new();
        let mut report = |gate: &'static str, message: String| {
            let action = self.manifest().gate_policy(gate).action;
            if action != GateAction::Off {
                broken.push(Broken {
                    gate,
                    action,
                    message,
                });
            }
        };
        let limit = |gate: &str, otherwise: u32| {
            let policy = self.manifest().gate_policy(gate);
            policy.limit.unwrap_or(i64::from(otherwise))
        };
        let shared = i64::from(resources.static_shared_bytes) + i64::from(launch.shared_bytes);
        let most = limit("shared_memory", architecture.shared_per_block_optin);
        if shared > most {
            report(
                "shared_memory",
                format!(
                    "{shared} bytes of shared memory per block, {} of them declared in the source; \
                     {most} are allowed",
                    resources.static_shared_bytes
                ),
            );
        }
        let threads: u32 = launch.block.iter().product();
        let registers = registers_of_block(&architecture, resources.registers, threads);
        let registers = i64::try_from(registers).unwrap_or(i64::MAX);
        let most = limit("registers", architecture.registers_per_block);
        if registers > most {
            report(
                "registers",
                format!(
                    "{registers} registers per block ({} per thread); {most} are allowed",
                    resources.registers
                ),
            );
        }
        if occupancy.blocks_per_multiprocessor == 0 {
            let gate = match occupancy.limiter {
                Limiter::SharedMemory => "shared_memory",
                Limiter::Threads | Limiter::Blocks => "threads_per_block",
                Limiter::Registers | Limiter::Barriers => "registers",
            };
            report(
                gate,
                format!(
                    "not one block fits on a multiprocessor: {} registers per thread, limited by {}",
                    resources.registers, occupancy.limiter
                ),
            );
        }
        let spilled = i64::from(resources.spill_store_bytes);
        if spilled > limit("spills", 0) {
            report(
                "spills",
                format!("{spilled} bytes of registers are spilled"),
            );
        }
        let percent = 100.0 * occupancy.fraction;
        if percent < limit("occupancy", 50) as f64 {
            report(
                "occupancy",
                format!(
                    "{percent:.0} % of the warps fit, limited by {}",
                    occupancy.limiter
                ),
            );
        }
        broken
    }
}
