//! The findings as Markdown, for the summary page of a CI run.

use super::judge::{Answer, Findings};
use super::report::{cells, notes, percent};
use super::stage::Stage;

pub fn text(stage: &Stage, findings: &Findings, title: &str) -> String {
    let kernel = escape(&stage.file.manifest.kernel.name);
    let mut lines = vec![
        format!(
            "### {}: {kernel}: {}",
            escape(title),
            findings.answer().name()
        ),
        String::new(),
        format!(
            "A: {}, B: {}, on {}, margin {}",
            escape(&findings.a),
            escape(&findings.b),
            escape(&stage.device.name),
            percent(findings.settings.margin)
        ),
        String::new(),
        "| shape | verdict | speedup | interval | A | B | n | p | Cliff's delta |".into(),
        "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |".into(),
    ];
    for finding in &findings.shapes {
        let mut cells = cells(finding).map(|cell| escape(&cell));
        if finding.answer() >= Answer::Undecided {
            cells[1] = format!("**{}**", cells[1]);
        }
        lines.push(format!("| {} |", cells.join(" | ")));
    }
    lines.push(String::new());
    lines.extend(notes(findings).iter().map(|n| format!("- {}", escape(n))));
    lines.push(String::new());
    lines.join("\n")
}

/// Names come from manifests and kernels: none of them makes a table, a link or a tag.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '|' | '!' | '~'
            | '@' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn nothing_of_a_name_is_markup() {
        assert_eq!(
            escape("a|b\n<img> [x](y)"),
            "a\\|b &lt;img&gt; \\[x\\]\\(y\\)"
        );
        assert_eq!(escape("SAME 0.99x"), "SAME 0.99x");
    }
}
