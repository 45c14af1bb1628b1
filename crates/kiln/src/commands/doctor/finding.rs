//! One thing the doctor found out.

use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// Worth knowing; nothing to mend.
    Note,
    /// Works, and results may suffer.
    Warning,
    /// Something is not there or cannot be used.
    Missing,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Warning => "warning",
            Status::Missing => "missing",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Finding {
    /// Stable name, for programs.
    pub check: &'static str,
    pub status: Status,
    pub what: String,
    /// Why it matters.
    pub why: Option<String>,
    /// The command that mends it, or what to do where no command can.
    pub fix: Option<String>,
    pub facts: Map<String, Value>,
}

impl Finding {
    fn new(check: &'static str, status: Status, what: impl Into<String>) -> Finding {
        Finding {
            check,
            status,
            what: what.into(),
            why: None,
            fix: None,
            facts: Map::new(),
        }
    }

    pub fn ok(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(check, Status::Ok, what)
    }

    pub fn note(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(check, Status::Note, what)
    }

    pub fn warning(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(check, Status::Warning, what)
    }

    pub fn missing(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(check, Status::Missing, what)
    }

    pub fn why(mut self, why: impl Into<String>) -> Finding {
        self.why = Some(why.into());
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = Some(fix.into());
        self
    }

    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Finding {
        self.facts.insert(name.into(), value.into());
        self
    }
}
