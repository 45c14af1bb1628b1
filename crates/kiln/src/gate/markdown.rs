//! The findings as Markdown, for the summary page of a CI run.

use kiln_core::escape::markdown as escape;

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
