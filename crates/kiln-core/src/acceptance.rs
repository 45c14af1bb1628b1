//! What the acceptance gate looked at before a finalist may win, as it is recorded.

use serde::{Deserialize, Serialize};

use crate::units::human_ns;

/// From here on a kernel that is slower on new inputs than on known ones is reported; far beyond it
/// is refused.
const NOTEWORTHY: f64 = 1.5;
/// A ratio of launches too short to be timed singly says nothing.
const SHORTEST_TOLD_NS: f64 = 5e3;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Shapes the search never saw on which the winner was right.
    pub unseen: Vec<UnseenShape>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_unseen: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_inputs: Option<FreshInputs>,
    /// On a GPU compute-sanitizer's tools, on a CPU the compiler's checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sanitizer: Option<SanitizerRun>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnseenShape {
    pub dimensions: Vec<(String, i64)>,
    /// Largest error relative to what was allowed.
    pub error_ratio: f64,
}

/// Launches on the same inputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    pub launches: u64,
    /// Launches whose outputs are not those of the first, bit for bit.
    pub differing: u64,
    pub error_ratio: f64,
}

/// The fastest of a few launches with the caches emptied.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FreshInputs {
    /// On inputs met for the first time.
    pub fresh_ns: f64,
    /// On inputs met before.
    pub repeated_ns: f64,
}

impl FreshInputs {
    pub fn is_noteworthy(self) -> bool {
        self.fresh_ns > NOTEWORTHY * self.repeated_ns && self.fresh_ns > SHORTEST_TOLD_NS
    }
}

/// What became of NVIDIA's compute-sanitizer, or of the compiler's checks of bounds and addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SanitizerRun {
    Off,
    NotAvailable { why: String },
    Ran { tools: Vec<SanitizerTool> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SanitizerTool {
    pub tool: String,
    /// `clean`, `found warnings`, or why it came to no end.
    pub result: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl SanitizerTool {
    pub const CLEAN: &str = "clean";
    pub const WARNINGS: &str = "found warnings";

    /// It came to its end.
    pub fn is_complete(&self) -> bool {
        [SanitizerTool::CLEAN, SanitizerTool::WARNINGS].contains(&self.result.as_str())
    }
}

impl Acceptance {
    /// What a careful reader should know, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(why) = &self.no_unseen {
            notes.push(format!(
                "the winner was checked on the manifest's shapes only: {why}"
            ));
        }
        if let Some(repeats) = self.repeats.filter(|r| r.differing > 0) {
            notes.push(format!(
                "nondeterministic: {} of {} launches on the same inputs differ from the first, within tolerance",
                repeats.differing, repeats.launches
            ));
        }
        if let Some(fresh) = self.fresh_inputs.filter(|f| f.is_noteworthy()) {
            notes.push(format!(
                "the winner takes {} on inputs it has not met and {} on known ones: see whether it keeps answers",
                human_ns(fresh.fresh_ns),
                human_ns(fresh.repeated_ns)
            ));
        }
        match &self.sanitizer {
            Some(SanitizerRun::NotAvailable { why }) => {
                notes.push(format!("sanitizer: not available ({why})"));
            }
            Some(SanitizerRun::Ran { tools }) => {
                for tool in tools.iter().filter(|t| t.result != SanitizerTool::CLEAN) {
                    let first = tool.findings.first();
                    let first = first.map_or(String::new(), |f| format!(", the first: {f}"));
                    notes.push(format!("sanitizer: {}: {}{first}", tool.tool, tool.result));
                }
            }
            Some(SanitizerRun::Off) | None => {}
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(fresh_ns: f64, repeated_ns: f64) -> FreshInputs {
        FreshInputs {
            fresh_ns,
            repeated_ns,
        }
    }

    #[test]
    fn slower_on_new_inputs_by_half_is_noteworthy_from_five_microseconds_on() {
        for (fresh, known, noteworthy) in [
            (16e3, 10e3, true),
            (15e3, 10e3, false),
            (14e3, 10e3, false),
            (9e3, 10e3, false),
            (5e3, 1e3, false),
            (4e3, 1e3, false),
            (5.1e3, 1e3, true),
        ] {
            assert_eq!(met(fresh, known).is_noteworthy(), noteworthy, "{fresh}");
        }
    }

    fn tool(result: &str, findings: &[&str]) -> SanitizerTool {
        SanitizerTool {
            tool: "memcheck".into(),
            result: result.into(),
            findings: findings.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_tool_that_came_to_no_end_is_incomplete() {
        assert!(tool(SanitizerTool::CLEAN, &[]).is_complete());
        assert!(tool(SanitizerTool::WARNINGS, &["a race"]).is_complete());
        assert!(!tool("wrote no summary", &[]).is_complete());
    }

    #[test]
    fn notes_say_what_was_not_seen_and_what_was_odd() {
        let repeats = |differing| Repeats {
            launches: 100,
            differing,
            error_ratio: 0.1,
        };
        let sound = Acceptance {
            repeats: Some(repeats(0)),
            fresh_inputs: Some(met(10e3, 10e3)),
            sanitizer: Some(SanitizerRun::Ran {
                tools: vec![tool(SanitizerTool::CLEAN, &[])],
            }),
            ..Acceptance::default()
        };
        assert_eq!(sound.notes(), [""; 0]);
        let odd = Acceptance {
            no_unseen: Some("one shape".into()),
            repeats: Some(repeats(3)),
            fresh_inputs: Some(met(40e3, 10e3)),
            sanitizer: Some(SanitizerRun::Ran {
                tools: vec![
                    tool(SanitizerTool::CLEAN, &[]),
                    tool(SanitizerTool::WARNINGS, &["a race", "another"]),
                ],
            }),
            ..Acceptance::default()
        };
        let notes = odd.notes();
        let words = ["one shape", "3 of 100 launches", "40", "the first: a race"];
        assert_eq!(notes.len(), words.len());
        for (note, word) in notes.iter().zip(words) {
            assert!(note.contains(word), "{note}");
        }
        let without = Acceptance {
            sanitizer: Some(SanitizerRun::NotAvailable { why: "none".into() }),
            ..Acceptance::default()
        };
        assert_eq!(without.notes(), ["sanitizer: not available (none)"]);
    }
}
