//! Whether candidates can be kept from the rest of the machine.

use kiln_core::sandbox::{Guard, Sandbox};

use super::finding::Finding;
use crate::engine::worker::{Worker, WorkerKind};

/// What a worker for C candidates says after trying; `Err` when it does not hold or does not start.
pub fn look() -> Result<Sandbox, String> {
    let worker = Worker::spawn(&WorkerKind::cpu()).map_err(|end| end.to_string())?;
    let nothing = || "the worker says nothing about it".to_string();
    worker.sandbox.clone().ok_or_else(nothing)
}

pub fn judge(found: &Result<Sandbox, String>) -> Finding {
    const CHECK: &str = "sandbox";
    let why = "kernels and compilers run with your rights: tune only sources you trust";
    let sandbox = match found {
        Ok(sandbox) => sandbox,
        Err(what) => {
            return Finding::missing(CHECK, format!("sandbox: {what}"))
                .why("no worker can be started")
                .fix("kiln tune --no-sandbox, for sources you trust");
        }
    };
    let finding = match sandbox.caution() {
        None => {
            let kept = sandbox.in_words();
            Finding::ok(CHECK, format!("sandbox: kernels are kept from {kept}"))
        }
        Some(caution) => Finding::warning(CHECK, format!("kernels are {caution}"))
            .why(why)
            .fix("use Linux 6.12 or newer with Landlock switched on (lsm=landlock,… at boot)"),
    };
    let listed = |guards: Vec<Guard>| serde_json::to_value(guards).unwrap_or_default();
    let missing = sandbox.missing.iter().map(|m| m.guard).collect();
    finding
        .fact("enforced", listed(sandbox.enforced.clone()))
        .fact("missing", listed(missing))
}
