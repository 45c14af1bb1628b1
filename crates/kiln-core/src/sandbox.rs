//! What a worker process is kept from, as it says itself after trying. Plain data; the walls are
//! built in `kiln-device`.

use serde::{Deserialize, Serialize};

/// Something a worker process cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Create, change or remove files outside its own folder.
    Writes,
    /// Read files that are neither the system's nor named in the task.
    Reads,
    /// Start another program.
    Exec,
    /// Start another process.
    Processes,
    /// Open a network connection.
    Network,
    /// Look into or change another process.
    Trace,
    /// Send signals to other processes.
    Signals,
}

impl Guard {
    /// What is possible without it.
    pub fn without(self) -> &'static str {
        match self {
            Guard::Writes => "writing files",
            Guard::Reads => "reading files",
            Guard::Exec => "starting programs",
            Guard::Processes => "starting processes",
            Guard::Network => "the network",
            Guard::Trace => "reaching into other processes",
            Guard::Signals => "signals to other processes",
        }
    }
}

/// What of a sandbox holds in one worker. Made by the worker itself: every guard it claims was
/// tried before any code of a candidate was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub enforced: Vec<Guard>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Claimed, tried, and found not to hold: a bug or a kernel that says yes and does nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Guard>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub guard: Guard,
    pub why: String,
}

impl Sandbox {
    /// No walls at all.
    pub fn none(guards: &[Guard], why: &str) -> Sandbox {
        let missing = guards.iter().map(|guard| Missing {
            guard: *guard,
            why: why.to_string(),
        });
        Sandbox {
            missing: missing.collect(),
            ..Sandbox::default()
        }
    }

    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.broken.is_empty()
    }

    /// What a worker is kept from.
    pub fn in_words(&self) -> String {
        let kept: Vec<&str> = self.enforced.iter().map(|guard| guard.without()).collect();
        match kept.is_empty() {
            true => "nothing".into(),
            false => kept.join(", "),
        }
    }

    /// What does not hold, as a sentence for the verdict; `None` when all does.
    pub fn caution(&self) -> Option<String> {
        if self.missing.is_empty() {
            return None;
        }
        let mut whys: Vec<&str> = Vec::new();
        for missing in &self.missing {
            if !whys.contains(&missing.why.as_str()) {
                whys.push(&missing.why);
            }
        }
        if self.enforced.is_empty() {
            return Some(format!("not sandboxed: {}", whys.join("; ")));
        }
        let parts: Vec<String> = whys
            .iter()
            .map(|why| {
                let with = self.missing.iter().filter(|m| m.why == *why);
                let open: Vec<&str> = with.map(|m| m.guard.without()).collect();
                format!("{} ({why})", open.join(", "))
            })
            .collect();
        Some(format!("not sandboxed against {}", parts.join("; ")))
    }

    /// The weaker of two, for a study that several processes worked on.
    pub fn weaker(self, other: Sandbox) -> Sandbox {
        let better = |a: &Sandbox, b: &Sandbox| a.missing.len() <= b.missing.len();
        match better(&self, &other) {
            true => other,
            false => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_words() {
        let all = [Guard::Writes, Guard::Network];
        let none = Sandbox::none(&all, "switched off (--no-sandbox)");
        assert_eq!(
            none.caution().unwrap(),
            "not sandboxed: switched off (--no-sandbox)"
        );
        let mut part = Sandbox::none(&[Guard::Writes, Guard::Reads], "no Landlock");
        part.enforced.push(Guard::Network);
        assert_eq!(
            part.caution().unwrap(),
            "not sandboxed against writing files, reading files (no Landlock)"
        );
        let whole = Sandbox {
            enforced: all.to_vec(),
            ..Sandbox::default()
        };
        assert_eq!(whole.caution(), None);
        assert!(whole.is_whole());
        assert_eq!(whole.clone().weaker(none.clone()), none);
        assert_eq!(none.clone().weaker(whole), none);
    }
}
