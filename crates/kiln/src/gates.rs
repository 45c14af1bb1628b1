//! Static gates: configs the device cannot run are removed before anything is compiled, by name.

use kiln_core::diagnostic::Diagnostic;
use kiln_core::expression::{BoundExpr, Expr};
use kiln_core::manifest::{ArgumentKind, GateAction, GatePolicy, Language, Manifest, Role};
use kiln_core::protocol::DeviceInfo;
use kiln_core::space::{BuildLimits, Rule, RuleKind, Space};
use kiln_core::value::Value;

use crate::exit::Failure;
use crate::project::ManifestFile;

/// Counting the configs that break a `warn` gate stops here.
const MAX_COUNTED: u128 = 2_000_000;

/// A limit of the device on an expression over tunables and dimensions.
struct Gate {
    name: &'static str,
    expr: String,
    limit: i64,
}

/// The valid space of a manifest on a device, and the `warn` gates with their counts.
pub fn build_space(
    file: &ManifestFile,
    device: &DeviceInfo,
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
    for gate in applicable(manifest, device) {
        let policy = policy(manifest, gate.name);
        let limit = policy.limit.unwrap_or(gate.limit);
        let bound = Expr::parse(&gate.expr)
            .and_then(|e| e.bind(&scope))
            .map_err(|e| Failure::usage(format!("gate `{}`: {e}", gate.name)))?;
        match policy.action {
            GateAction::Reject => rules.push(Rule {
                name: gate.name.to_string(),
                kind: RuleKind::Gate,
                expr: bound.at_most(limit),
            }),
            GateAction::Warn => warn.push((gate.name.to_string(), bound.at_most(limit))),
            GateAction::Off => {}
        }
    }
    let space = Space::build(
        manifest.tunables.clone(),
        constants,
        rules,
        BuildLimits::default(),
    )
    .map_err(|e| Failure::usage(format!("{}: {e}", file.name())))?;
    let warnings = warn
        .into_iter()
        .map(|(name, rule)| (name, count_breaking(&space, manifest, &rule)))
        .filter(|(_, count)| *count > 0)
        .collect();
    Ok((space, warnings))
}

fn policy(manifest: &Manifest, gate: &str) -> GatePolicy {
    let named = manifest.gates.iter().find(|(name, _)| name == gate);
    named.map_or(
        GatePolicy {
            action: GateAction::Reject,
            limit: None,
        },
        |(_, policy)| *policy,
    )
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

fn applicable(manifest: &Manifest, device: &DeviceInfo) -> Vec<Gate> {
    let mut gates = Vec::new();
    if let Some(threads) = &manifest.launch.threads {
        gates.push(Gate {
            name: "threads",
            expr: threads.text().to_string(),
            limit: device.cores as i64,
        });
    }
    if let Some(bytes) = scratch_bytes(manifest) {
        gates.push(Gate {
            name: "memory",
            expr: bytes,
            limit: i64::try_from(device.memory_bytes).unwrap_or(i64::MAX),
        });
    }
    if manifest.kernel.language == Language::Cuda {
        let limits = crate::architecture::limits_of(&device.name);
        let product = |exprs: &[Expr]| {
            let factors: Vec<String> = exprs.iter().map(|e| format!("({})", e.text())).collect();
            factors.join(" * ")
        };
        gates.push(Gate {
            name: "threads_per_block",
            expr: product(&manifest.launch.block),
            limit: limits.threads_per_block,
        });
        if let Some(shared) = &manifest.launch.shared {
            gates.push(Gate {
                name: "shared_memory",
                expr: shared.text().to_string(),
                limit: limits.shared_bytes_per_block,
            });
        }
        if let Some(widest) = manifest
            .launch
            .grid
            .get(1..)
            .filter(|rest| !rest.is_empty())
        {
            let terms: Vec<String> = widest.iter().map(|e| format!("({})", e.text())).collect();
            gates.push(Gate {
                name: "grid",
                expr: format!("max({})", terms.join(", ")),
                limit: limits.grid_y_and_z,
            });
        }
    }
    gates
}

/// Bytes of all buffers, where some depend on tunables; otherwise sizes are checked per shape.
fn scratch_bytes(manifest: &Manifest) -> Option<String> {
    let mut terms = Vec::new();
    let mut has_scratch = false;
    for argument in &manifest.arguments {
        if let ArgumentKind::Buffer { shape, role, .. } = &argument.kind {
            has_scratch |= *role == Role::Scratch;
            let extents: Vec<String> = shape.iter().map(|e| format!("({})", e.text())).collect();
            let elements = if extents.is_empty() {
                "1".into()
            } else {
                extents.join(" * ")
            };
            terms.push(format!("{elements} * {}", argument.dtype.size_bytes()));
        }
    }
    has_scratch.then(|| terms.join(" + "))
}
