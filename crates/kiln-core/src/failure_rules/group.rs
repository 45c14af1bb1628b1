//! Ways to fail, as finely as a reader tells them apart.

use crate::trial::{CrashCause, Outcome, Phase, signal_name};

/// A way to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureKind {
    /// As in counts elsewhere.
    pub reason: String,
    pub label: String,
    /// What is the same for all of a kind where the label is not: a compile error without its numbers.
    pattern: String,
    /// It ran, and not only compiled.
    pub ran: bool,
}

impl FailureKind {
    pub(super) fn key(&self) -> (&str, &str) {
        (&self.reason, &self.pattern)
    }
}

/// How an outcome failed; `None` where it did not.
pub fn kind_of(outcome: &Outcome) -> Option<FailureKind> {
    let reason = outcome.reason();
    let kind = |label: String, ran: bool| FailureKind {
        reason: reason.into(),
        pattern: label.clone(),
        label,
        ran,
    };
    Some(match outcome {
        Outcome::Measured(_) => return None,
        Outcome::NotCompiled(failure) => FailureKind {
            pattern: error_pattern(&failure.first_error),
            ..kind(
                format!("does not compile: {}", message(&failure.first_error)),
                false,
            )
        },
        Outcome::Gated { gate, .. } => kind(format!("gate `{gate}`"), false),
        Outcome::Crashed(crash) => match &crash.cause {
            CrashCause::Signal { signal } => kind(signal_name(*signal), true),
            CrashCause::Exited { code } => kind(format!("exit code {code}"), true),
            _ => kind(reason.replace('_', " "), true),
        },
        Outcome::TimedOut {
            phase: Phase::Compile,
            ..
        } => kind("compiler timed out".into(), false),
        Outcome::TimedOut { .. } => kind("timed out".into(), true),
        Outcome::Wrong(_) if reason == "numerics" => kind("wrong result".into(), true),
        Outcome::Wrong(_) if reason == "canary" => {
            kind("touched memory outside a buffer".into(), true)
        }
        Outcome::Wrong(_) => kind(reason.replace('_', " "), true),
    })
}

/// What a compiler's error says, without the file it says it of.
fn message(first_error: &str) -> &str {
    let at = first_error.find("error");
    let said = at.map_or(first_error, |at| &first_error[at..]);
    let said = said.strip_prefix("error").unwrap_or(said);
    let said = said.trim_start_matches([':', ' ']);
    match said.is_empty() {
        true => first_error.trim(),
        false => said.trim(),
    }
}

/// The message with every number taken out: `tile of 96` and `tile of 112` are one error.
fn error_pattern(first_error: &str) -> String {
    let mut pattern = String::new();
    for c in message(first_error).chars() {
        match c.is_ascii_digit() {
            true if pattern.ends_with('#') => {}
            true => pattern.push('#'),
            false => pattern.push(c),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_are_one() {
        let a = error_pattern("/src/k.cu(12): error: static assertion failed with \"tile 96\"");
        let b = error_pattern("/src/k.cu(31): error: static assertion failed with \"tile 112\"");
        assert_eq!(a, b);
        assert_eq!(a, "static assertion failed with \"tile #\"");
        let other = error_pattern("k.c:3:1: error: expected ';' before 'int'");
        assert_ne!(a, other);
        assert_eq!(message("killed"), "killed");
        assert_eq!(message("error: "), "error:");
        assert_eq!(
            message("ptxas fatal   : Unresolved extern"),
            "ptxas fatal   : Unresolved extern"
        );
    }
}
