//! Geometry of a GPU launch: expressions bound once, evaluated per shape and config.

use kiln_core::expression::{BoundExpr, Expr};
use kiln_core::manifest::{Launch, Shape};
use kiln_core::protocol::LaunchSpec;
use kiln_core::value::Value;

use crate::exit::Failure;

pub(super) struct BoundLaunch {
    grid: Vec<BoundExpr>,
    block: Vec<BoundExpr>,
    cluster: Vec<BoundExpr>,
    shared: Option<BoundExpr>,
    cooperative: bool,
}

impl BoundLaunch {
    pub(super) fn new(launch: &Launch, scope: &[&str]) -> Result<BoundLaunch, Failure> {
        let bind = |expr: &Expr| {
            expr.bind(scope)
                .map_err(|e| Failure::usage(format!("in [launch] `{}`: {e}", expr.text())))
        };
        let all = |exprs: &[Expr]| exprs.iter().map(bind).collect::<Result<Vec<_>, _>>();
        Ok(BoundLaunch {
            grid: all(&launch.grid)?,
            block: all(&launch.block)?,
            cluster: all(&launch.cluster)?,
            shared: launch.shared.as_ref().map(bind).transpose()?,
            cooperative: launch.cooperative,
        })
    }

    /// The geometry for one shape and config, given as values of the scope.
    pub(super) fn on(&self, values: &[Value], shape: &Shape) -> Result<LaunchSpec, Failure> {
        let number = |what: &str, least: i64, expr: &BoundExpr| match expr.eval(values) {
            Ok(Value::Int(n)) if n >= least && n <= i64::from(u32::MAX) => Ok(n as u32),
            Ok(other) => Err(Failure::usage(format!(
                "{what} `{}` is {other} on shape `{}`, not a whole number of at least {least}",
                expr.text(),
                shape.name
            ))
            .hint("`/` is real division; `//` and `ceil_div(a, b)` stay whole")),
            Err(e) => Err(Failure::usage(format!("{what} `{}`: {e}", expr.text()))),
        };
        let three = |what: &str, exprs: &[BoundExpr]| {
            let mut extents = [1; 3];
            for (extent, expr) in extents.iter_mut().zip(exprs) {
                *extent = number(what, 1, expr)?;
            }
            Ok::<_, Failure>(extents)
        };
        let cluster = match self.cluster.is_empty() {
            true => None,
            false => Some(three("the cluster", &self.cluster)?),
        };
        Ok(LaunchSpec {
            grid: three("the grid", &self.grid)?,
            block: three("the block", &self.block)?,
            cluster,
            shared_bytes: match &self.shared {
                Some(expr) => number("the shared memory", 0, expr)?,
                None => 0,
            },
            cooperative: self.cooperative,
        })
    }
}
