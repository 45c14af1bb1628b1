//! A claim as a sentence, from nothing but the claim and what is counted for and against it.

use super::{Claim, Lesson, dimensions_text};

impl Claim {
    /// `counts` are trials that failed as a learnt constraint says, and that worked all the same.
    pub fn sentence(&self, counts: (u64, u64)) -> String {
        match self {
            Claim::Constraint { when, reason } => {
                let (failed, worked) = counts;
                let worked = match worked {
                    0 => "none".to_string(),
                    some => some.to_string(),
                };
                let reason = reason.replace('_', " ");
                format!("{reason} <= {when}: {failed} failed and {worked} worked of those tried")
            }
            Claim::Effect {
                tunable,
                value,
                against,
                change,
                low,
                high,
                dimensions,
            } => format!(
                "{tunable}={value} is fastest at {}: {tunable}={against} takes {:.0} % longer [{:.0}, {:.0}] on average over all else",
                dimensions_text(dimensions),
                100.0 * change,
                100.0 * low,
                100.0 * high
            ),
            Claim::Bottleneck {
                class,
                cause,
                dimensions,
            } => format!("{class} at {}: {cause}", dimensions_text(dimensions)),
            Claim::Advice {
                rule,
                expected,
                speedup,
                low,
                high,
            } => {
                let promised =
                    expected.map_or(String::new(), |e| format!(", {e:.2}x was expected"));
                format!("advice `{rule}` brought {speedup:.2}x [{low:.2}, {high:.2}]{promised}")
            }
        }
    }
}

impl Lesson {
    /// Its sentence written anew. What a file says in words cannot be checked, and people believe words.
    pub fn restate(&mut self) {
        self.statement = self.claim.sentence(self.counts());
    }
}
