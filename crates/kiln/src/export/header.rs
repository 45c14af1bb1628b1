//! Configs as `#define`s, for a build of the user's own.

use std::fmt::Write;

use super::files::Folder;
use super::package::Dispatch;
use super::plan::{ConfigPlan, Plan};
use super::standing::Standing;
use crate::exit::Failure;

/// One header where one config serves all shapes, else one per shape.
pub fn write(plan: &Plan, folder: &mut Folder) -> Result<(), Failure> {
    let name = &plan.identifier;
    if let [only] = plan.configs.as_slice() {
        return folder.text(&format!("{name}.h"), &text(plan, only, &plan.dispatch));
    }
    for entry in &plan.dispatch {
        let Some(config) = plan.configs.iter().find(|c| c.id == entry.config) else {
            continue;
        };
        let file = format!("{name}.{}.h", entry.shape);
        folder.text(&file, &text(plan, config, std::slice::from_ref(entry)))?;
    }
    Ok(())
}

fn text(plan: &Plan, config: &ConfigPlan, entries: &[Dispatch]) -> String {
    let mut text = format!(
        "/* {}: include before the source, or with `-include`; each time it sets every tunable anew. Written by kiln.\n",
        plan.kernel
    );
    let _ = writeln!(text, " * {}", Standing::of_all(entries).sentence());
    for entry in entries {
        let _ = writeln!(text, " * {}", comment(entry));
    }
    if !plan.flags.is_empty() {
        let _ = writeln!(
            text,
            " * Compiled with: {}",
            printable(&plan.flags.join(" "))
        );
    }
    text.push_str(" */\n");
    // No guard: the header of another shape, or of another kernel with a tunable of the same name, may have been included
    // before for another copy of the source, and this one again after it. What was included last counts.
    text.push_str(&forgotten(config));
    text.push_str(&defines(config));
    text
}

/// The lines that take back what was set before.
fn forgotten(config: &ConfigPlan) -> String {
    let names = config.values.iter();
    names.map(|(name, _)| format!("#undef {name}\n")).collect()
}

/// The lines that set every tunable.
pub fn defines(config: &ConfigPlan) -> String {
    let lines = config.values.iter();
    lines
        .map(|(name, value)| format!("#define {name} {}\n", value.define()))
        .collect()
}

/// What is known about a shape's config, on one line that cannot end a comment.
pub fn comment(entry: &Dispatch) -> String {
    let e = &entry.evidence;
    let sizes: Vec<String> = entry
        .dimensions
        .iter()
        .map(|(n, v)| format!("{n}={v}"))
        .collect();
    let speedup = match (e.speedup, e.speedup_ci_95) {
        (Some(s), Some([low, high])) => format!("{s:.3}x [{low:.3}, {high:.3}]"),
        (Some(s), None) => format!("{s:.3}x, no interval"),
        (None, _) => "no speedup known".into(),
    };
    printable(&format!(
        "Shape {} ({}): {speedup}, {}; {}, {}, {}.",
        entry.shape,
        sizes.join(" "),
        Standing::of(entry).name(),
        e.from,
        e.device,
        e.date
    ))
}

/// Text from elsewhere in a comment.
fn printable(text: &str) -> String {
    let text = kiln_core::diagnostic::printable(text);
    text.replace("*/", "* /").replace("/*", "/ *")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_comment_it_is_in() {
        assert_eq!(printable("a */ b /* c"), "a * / b / * c");
        assert!(!printable("a\nb").contains('\n'));
    }
}
