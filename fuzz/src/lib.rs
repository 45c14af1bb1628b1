//! What must hold for any input, one module per surface: `check` panics where it does not.
//!
//! The fuzz targets call these with bytes that libFuzzer makes up; `crates/kiln-device/tests/seeds.rs`
//! includes this same file and calls them with the inputs kept under `seeds/`. Besides what each module
//! says, a check may neither panic, overflow, run for seconds nor take gigabytes.

pub mod cache_entry;
pub mod expression;
pub mod frame;
pub mod gate_file;
pub mod lessons;
pub mod manifest;
pub mod markup;
pub mod npy;
pub mod profile;
pub mod recording;
pub mod results;
mod spaces;
pub mod t1;

use kiln_core::diagnostic::Diagnostic;

/// A check by the name of its target.
pub type Check = fn(&[u8]);

pub const TARGETS: [(&str, Check); 12] = [
    ("cache_entry", cache_entry::check),
    ("expression", expression::check),
    ("frame", frame::check),
    ("gate_file", gate_file::check),
    ("lessons", lessons::check),
    ("manifest", manifest::check),
    ("markup", markup::check),
    ("npy", npy::check),
    ("profile", profile::check),
    ("recording", recording::check),
    ("results", results::check),
    ("t1", t1::check),
];

/// An error is shown to a person at a terminal: it has words, and none of the input's control characters.
fn is_presentable(problem: &Diagnostic, text: &str) {
    let shown = kiln_core::diagnostic::printable_lines(&problem.render("FILE", text));
    assert!(!problem.message.is_empty(), "an error without words");
    assert!(
        shown.chars().all(|c| c == '\n' || !c.is_control()),
        "{shown:?}"
    );
}
