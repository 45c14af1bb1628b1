//! A C kernel once more, compiled so that a step outside its own arrays ends it.
//!
//! Guard pages and poison surround the buffers of a launch; a kernel's own arrays lie on its stack and its heap,
//! where a step too far finds something that is often harmless, and never the same.

use kiln_core::acceptance::{SanitizerRun, SanitizerTool};
use kiln_core::manifest::{Sanitize, Shape};
use kiln_core::trial::{CrashCause, Fault, Mismatch, Outcome, Phase};

use super::Confirmer;
use crate::engine::evaluate::Contender;
use crate::engine::worker::{ADDRESS_SANITIZER_EXIT, Worker, WorkerEnd};
use crate::engine::{broken, interrupted};
use crate::exit::Failure;
use crate::task::{Task, Watched};

const BOUNDS: &str = "bounds";
const ADDRESSES: &str = "addresses";
/// How a compiler's trap ends a process: SIGILL on x86, SIGTRAP elsewhere.
const TRAPS: [i32; 2] = [4, 5];

/// A build that can be run here.
struct Checked {
    contender: Contender,
    /// Why addresses are not watched.
    without_addresses: Option<String>,
}

impl Confirmer<'_> {
    /// `Ok(Err(outcome))`: it went astray. `None` where there is nothing to compile.
    pub(super) fn check_memory(
        &mut self,
        candidate: &Contender,
        unseen: &[Shape],
    ) -> Result<Result<Option<SanitizerRun>, Outcome>, Failure> {
        let wanted = self.task.manifest().confirm.sanitize;
        let task = candidate.own.as_deref().unwrap_or(self.task);
        let is_c = task.checked_build(&candidate.config, &Watched::Bounds);
        if self.pool.is_none() || is_c.is_none() {
            return Ok(Ok(None));
        }
        if wanted == Sanitize::Off {
            return Ok(Ok(Some(SanitizerRun::Off)));
        }
        (self.status)("confirming: with its memory checked");
        let checked = match self.build_checked(task, candidate)? {
            Ok(checked) => checked,
            Err(why) if wanted == Sanitize::On => {
                return Err(Failure::machine(why).hint(
                    "gcc and clang know -fsanitize=bounds; `--sanitize off` confirms without it",
                ));
            }
            Err(why) => return Ok(Ok(Some(SanitizerRun::NotAvailable { why }))),
        };
        let contender = &checked.contender;
        let ran = self.alone(contender, |confirmer, worker, place| {
            confirmer.check_shapes(contender, unseen, worker, place)
        })?;
        let result = match ran {
            Ok(_) => SanitizerTool::CLEAN.to_string(),
            // Compiled in another way, and on other garbage, the same source is wrong.
            Err(outcome @ Outcome::Wrong(_)) => return Ok(Err(outcome)),
            Err(outcome) => match astray(&outcome) {
                Some(outcome) => return Ok(Err(outcome)),
                // The other build is the one that is published, and it passed.
                None => format!("came to no end: it {outcome}"),
            },
        };
        let tool = |name: &str, result: String| SanitizerTool {
            tool: name.into(),
            result,
            findings: Vec::new(),
        };
        let addresses = match checked.without_addresses {
            None => result.clone(),
            Some(why) => format!("not available ({why})"),
        };
        let tools = vec![tool(BOUNDS, result), tool(ADDRESSES, addresses)];
        Ok(Ok(Some(SanitizerRun::Ran { tools })))
    }

    /// With addresses watched where that is possible, else with bounds alone. `Ok(Err(why))`: neither.
    fn build_checked(
        &self,
        task: &Task,
        candidate: &Contender,
    ) -> Result<Result<Checked, String>, Failure> {
        let build = |watched: &Watched| -> Result<Result<Contender, String>, Failure> {
            let build = task.checked_build(&candidate.config, watched);
            let (Some(pool), Some(build)) = (self.pool, build) else {
                return Ok(Err("there is nothing to compile".into()));
            };
            Ok(match pool.build_one(&build)? {
                Ok(built) => Ok(Contender {
                    program: built.program(&build),
                    ..candidate.clone()
                }),
                Err(outcome) => Err(format!("with its memory checked the kernel {outcome}")),
            })
        };
        let watched = match task.watched_addresses() {
            Ok(watched) => build(&watched)?,
            Err(why) => Err(why),
        };
        let why = match watched {
            Ok(contender) => match can_start(&contender)? {
                Ok(()) => {
                    return Ok(Ok(Checked {
                        contender,
                        without_addresses: None,
                    }));
                }
                Err(why) => why,
            },
            Err(why) => why,
        };
        Ok(build(&Watched::Bounds)?.map(|contender| Checked {
            contender,
            without_addresses: Some(why),
        }))
    }
}

/// The sanitizer's library reserves terabytes of addresses, which a limit or the system's settings may refuse.
fn can_start(contender: &Contender) -> Result<Result<(), String>, Failure> {
    match Worker::spawn(&contender.program.worker) {
        Ok(_) => Ok(Ok(())),
        Err(WorkerEnd::Interrupted) => Err(interrupted()),
        Err(end @ WorkerEnd::Broken(_)) => Err(broken(&end)),
        Err(end) => Ok(Err(format!(
            "no process can be started with the sanitizer's library: {end}"
        ))),
    }
}

/// What was found, where a check ended the process.
fn astray(outcome: &Outcome) -> Option<Outcome> {
    let Outcome::Crashed(crash) = outcome else {
        return None;
    };
    let (tool, finding) = match crash.cause {
        CrashCause::Signal { signal } if TRAPS.contains(&signal) => (
            BOUNDS,
            "an index outside an array of the kernel's own".into(),
        ),
        CrashCause::Exited { code } if code == ADDRESS_SANITIZER_EXIT => {
            (ADDRESSES, in_words(&crash.output))
        }
        _ => return None,
    };
    Some(Outcome::Wrong(Mismatch {
        shape: crash.shape.clone().unwrap_or_default(),
        phase: Phase::Accept,
        fault: Fault::Sanitizer {
            tool: tool.into(),
            count: 1,
            findings: vec![finding],
        },
    }))
}

/// The kind of error, and the variable beside which it happened, from the sanitizer's report. A kernel can print what it
/// likes before its end, so only plain names are taken.
fn in_words(report: &str) -> String {
    let is_plain = |word: &&str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !word.is_empty() && word.len() <= 64 && word.chars().all(allowed)
    };
    let kind = report
        .rsplit_once("SUMMARY: AddressSanitizer: ")
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .filter(is_plain);
    let variable = report
        .lines()
        .find(|line| line.contains("<== Memory access at offset"))
        .and_then(|line| line.split('\'').nth(1))
        .filter(is_plain);
    let kind = kind.unwrap_or("an address outside the kernel's own memory");
    match variable {
        Some(variable) => format!("{kind} beside `{variable}`"),
        None => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_told_in_a_few_plain_words() {
        let report = "==7==ERROR: AddressSanitizer: stack-buffer-overflow on address 0x7f\n\
                      This frame has 2 object(s):\n    [32, 160) 'lane' (line 279)\n\
                      \x20   [192, 1216) 'packed' (line 152) <== Memory access at offset 1216 overflows this variable\n\
                      SUMMARY: AddressSanitizer: stack-buffer-overflow (/k.so+0x1) in work\n";
        assert_eq!(in_words(report), "stack-buffer-overflow beside `packed`");
        let forged = "SUMMARY: AddressSanitizer: \x1b[31mred 'x'\n";
        assert_eq!(
            in_words(forged),
            "an address outside the kernel's own memory"
        );
        assert_eq!(in_words(""), "an address outside the kernel's own memory");
    }
}
