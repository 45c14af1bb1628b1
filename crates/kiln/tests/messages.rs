//! Every error message says what to do about it, or is in docs/troubleshooting.md; and every message there is one
//! that kiln has.
#![allow(clippy::unwrap_used)]

#[path = "messages/scan.rs"]
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use scan::{fixed_words, messages};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().to_string();
        match path.is_dir() {
            true if name != "tests" => sources(&path, found),
            false if name.ends_with(".rs") && name != "tests.rs" => found.push(path),
            _ => {}
        }
    }
}

/// Whether each message in the source has a hint wherever it is made, and where it has none.
fn in_the_source() -> BTreeMap<String, Option<String>> {
    let crates = repository().join("crates");
    let mut files = Vec::new();
    for name in ["kiln", "kiln-core", "kiln-device"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 200, "{} files", files.len());
    let mut found = BTreeMap::new();
    for path in files {
        let shown = path.strip_prefix(&crates).unwrap().display().to_string();
        for message in messages(&fs::read_to_string(&path).unwrap()) {
            let place: &mut Option<String> = found.entry(message.words).or_default();
            if !message.is_hinted {
                place.get_or_insert(shown.clone());
            }
        }
    }
    found
}

/// The lines between "```text" and "```".
fn in_the_page() -> BTreeSet<String> {
    let page = fs::read_to_string(repository().join("docs/troubleshooting.md")).unwrap();
    let mut is_inside = false;
    let mut lines = BTreeSet::new();
    for line in page.lines() {
        match line.trim() {
            "```text" => is_inside = true,
            "```" => is_inside = false,
            message if is_inside => {
                assert!(
                    lines.insert(message.to_string()),
                    "the page has `{message}` twice"
                );
            }
            _ => {}
        }
    }
    lines
}

#[test]
fn every_message_says_its_fix_or_is_in_the_page() {
    let page = in_the_page();
    let source = in_the_source();
    assert!(source.len() > 400, "{} messages", source.len());
    let missing: Vec<String> = source
        .iter()
        .filter(|(words, _)| !page.contains(*words))
        .filter_map(|(words, place)| Some(format!("{}: {words}", place.as_ref()?)))
        .collect();
    assert!(
        missing.is_empty(),
        "{} messages have neither a hint nor a line in docs/troubleshooting.md:\n{}",
        missing.len(),
        missing.join("\n")
    );
    let stale: Vec<&String> = page
        .iter()
        .filter(|line| !source.contains_key(*line))
        .collect();
    assert!(
        stale.is_empty(),
        "docs/troubleshooting.md has messages that kiln does not: {stale:#?}"
    );
}

#[test]
fn messages_are_found_in_all_the_ways_they_are_made() {
    let source = r##"
        #[derive(Error)]
        enum E { #[error("it is {0} times broken")] A(u8) }
        enum Helpful { #[error("it is broken and helpful")] A }
        impl Helpful { fn hint(&self) -> &'static str { "mend it" } }
        enum Silent { #[error("it is broken and silent")] A }
        impl Silent { fn hint(&self) -> Option<String> { None } }
        fn f(x: Option<u8>) -> Result<u8, Failure> {
            let bad = |why: String| Failure::usage(why);
            let later = Failure::machine("it gets a hint later");
            let not_always = Failure::machine("it gets one at times");
            if x.is_none() { return Err(not_always); }
            if x == Some(1) { return Err(not_always.hint("now")); }
            Failure::usage(format!("no `{x}` \
                here")).hint("write one");
            Failure::new(Exit::Bug, "a bug of ours");
            Failure::new(Exit::No, "not a bug");
            Diagnostic::new("in the file", 0..1).label("here");
            bad(format!("by a closure {{}}"));
            x.ok_or_else(|| "no text here".to_string())?;
            x.map_err(|e| format!("cannot do: {e}"))?;
            io::write().map_err(|e| Failure::io("cannot write", &e))?;
            return Err(Refusal::Bad { message: "inside a value".into() });
            Err(later.hint("try"))
        }
        #[cfg(test)]
        mod tests { fn g() { Failure::usage("in a test only"); } }
    "##;
    let mut found: Vec<(String, bool)> = messages(source)
        .into_iter()
        .map(|m| (m.words, m.is_hinted))
        .collect();
    found.sort();
    let expected = [
        ("by a closure {}", false),
        ("cannot do: …", false),
        ("in the file", false),
        ("inside a value", false),
        ("it gets a hint later", true),
        ("it gets one at times", false),
        ("it is broken and helpful", true),
        ("it is broken and silent", false),
        ("it is … times broken", false),
        ("no `…` here", true),
        ("no text here", false),
        ("not a bug", false),
    ];
    let expected: Vec<(String, bool)> = expected.map(|(w, h)| (w.to_string(), h)).to_vec();
    assert_eq!(found, expected);
    assert_eq!(fixed_words("a  {b:?}\n c {{d}}"), "a … c {d}");
}
