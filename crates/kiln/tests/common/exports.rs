//! Packages of winners from a file: nothing has to be tuned for them.

use serde_json::{Value, json};

use super::{Project, text};

/// `kiln export` of what `winners.json` lists.
pub const FROM_FILE: [&str; 5] = ["export", "--winners", "winners.json", "--manifest", "."];

/// A kernel in C with two winners.
pub fn facts() -> Project {
    let project = Project::with("crates/kiln/tests/export");
    project.write("winners.json", &winners().to_string());
    project
}

pub fn winners() -> Value {
    json!([
        {"shape": "target", "config": {"UNROLL": 4, "VALUE": 3, "EVEN": 0}, "ratio": 1.25, "ratio_ci_95": [1.2, 1.3],
         "device": "test", "date": "2026-11-15"},
        {"shape": "large", "config": {"UNROLL": 2, "VALUE": 5, "EVEN": true}, "ratio": 1.5, "ratio_ci_95": [1.4, 1.6],
         "device": "test", "date": "2026-11-15"},
    ])
}

/// What `kiln export --json` says about the package.
pub fn export(project: &Project, more: &[&str]) -> Value {
    let arguments = [&FROM_FILE[..], more, &["--json"]].concat();
    project.json(&arguments, &[0])
}

/// What kiln says when it refuses; as a mistake of the user's.
pub fn refused(project: &Project, arguments: &[&str]) -> String {
    let output = project.run(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}
