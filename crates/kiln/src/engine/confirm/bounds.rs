//! A C kernel once more, compiled so that an index outside an array of known size ends it.
//!
//! Guard pages and poison surround the buffers of a launch; a kernel's own arrays lie on its stack, where a
//! step too far finds something that is often harmless, and never the same.

use kiln_core::acceptance::{SanitizerRun, SanitizerTool};
use kiln_core::manifest::{Sanitize, Shape};
use kiln_core::trial::{CrashCause, Fault, Mismatch, Outcome, Phase};

use super::Confirmer;
use crate::engine::evaluate::Contender;
use crate::exit::Failure;

pub const TOOL: &str = "bounds";
/// How a compiler's trap ends a process: SIGILL on x86, SIGTRAP elsewhere.
const TRAPS: [i32; 2] = [4, 5];

impl Confirmer<'_> {
    /// `Ok(Err(outcome))`: an index went astray. `None` where there is nothing to compile.
    pub(super) fn check_bounds(
        &mut self,
        candidate: &Contender,
        unseen: &[Shape],
    ) -> Result<Result<Option<SanitizerRun>, Outcome>, Failure> {
        let wanted = self.task.manifest().confirm.sanitize;
        let task = candidate.own.as_deref().unwrap_or(self.task);
        let build = task.bounds_checked_build(&candidate.config);
        let (Some(pool), Some(build)) = (self.pool, build) else {
            return Ok(Ok(None));
        };
        if wanted == Sanitize::Off {
            return Ok(Ok(Some(SanitizerRun::Off)));
        }
        (self.status)("confirming: with bounds checked");
        let built = match pool.build_one(&build)? {
            Ok(built) => built,
            Err(outcome) => {
                let why = format!("with bounds checks the kernel {outcome}");
                if wanted == Sanitize::On {
                    return Err(Failure::machine(why)
                        .hint("gcc and clang know -fsanitize=bounds; `--sanitize off` confirms without it"));
                }
                return Ok(Ok(Some(SanitizerRun::NotAvailable { why })));
            }
        };
        let checked = Contender {
            program: built.program(&build),
            ..candidate.clone()
        };
        let ran = self.alone(&checked, |confirmer, worker, place| {
            confirmer.check_shapes(&checked, unseen, worker, place)
        })?;
        let result = match ran {
            Ok(_) => SanitizerTool::CLEAN.to_string(),
            Err(outcome) => match trap(&outcome) {
                Some(shape) => return Ok(Err(astray(shape))),
                // The other build is the one that is published, and it passed.
                None => format!("came to no end: it {outcome}"),
            },
        };
        let tool = SanitizerTool {
            tool: TOOL.into(),
            result,
            findings: Vec::new(),
        };
        Ok(Ok(Some(SanitizerRun::Ran { tools: vec![tool] })))
    }
}

/// On which shape a trap was sprung.
fn trap(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Crashed(crash) => match crash.cause {
            CrashCause::Signal { signal } if TRAPS.contains(&signal) => {
                Some(crash.shape.clone().unwrap_or_default())
            }
            _ => None,
        },
        _ => None,
    }
}

fn astray(shape: String) -> Outcome {
    Outcome::Wrong(Mismatch {
        shape,
        phase: Phase::Accept,
        fault: Fault::Sanitizer {
            tool: TOOL.into(),
            count: 1,
            findings: vec!["an index outside an array of the kernel's own".into()],
        },
    })
}
