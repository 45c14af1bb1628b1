//! The findings as JUnit XML: one test per shape.

use kiln_core::escape::xml as escape;

use super::judge::{Answer, Findings, ShapeFinding};
use super::report::sentence;
use super::stage::Stage;

/// Whether an undecided shape counts as a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    Passes,
    Fails,
}

pub fn text(stage: &Stage, findings: &Findings, verb: &str, undecided: Undecided) -> String {
    let kernel = &stage.file.manifest.kernel.name;
    suite(kernel, &stage.shown_path(), findings, verb, undecided)
}

fn suite(
    kernel: &str,
    manifest: &str,
    findings: &Findings,
    verb: &str,
    undecided: Undecided,
) -> String {
    let count = |of: &[Answer]| {
        let shapes = findings.shapes.iter();
        shapes.filter(|s| of.contains(&s.answer())).count()
    };
    let left_out = findings.left_out.len();
    let (failures, skipped) = match undecided {
        Undecided::Fails => (count(&[Answer::Slower, Answer::Undecided]), 0),
        Undecided::Passes => (count(&[Answer::Slower]), count(&[Answer::Undecided])),
    };
    let errors = count(&[Answer::Wrong]);
    let seconds: f64 = findings.shapes.iter().map(|s| s.seconds).sum();
    let name = escape(&format!("kiln {verb} {kernel}"));
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{}\" time=\"{seconds:.3}\"",
        findings.shapes.len() + left_out,
        skipped + left_out
    );
    let mut lines = vec![
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_string(),
        format!("<testsuites name=\"{name}\" {counts}>"),
        format!("  <testsuite name=\"{name}\" {counts}>"),
    ];
    for finding in &findings.shapes {
        lines.extend(case(kernel, manifest, finding, findings, undecided));
    }
    for shape in &findings.left_out {
        lines.push(format!(
            "    <testcase classname=\"{}\" name=\"{}\"><skipped message=\"interrupted\"/></testcase>",
            escape(kernel),
            escape(shape)
        ));
    }
    lines.push("  </testsuite>".into());
    lines.push("</testsuites>".into());
    lines.push(String::new());
    lines.join("\n")
}

fn case(
    kernel: &str,
    manifest: &str,
    finding: &ShapeFinding,
    findings: &Findings,
    undecided: Undecided,
) -> Vec<String> {
    let answer = finding.answer();
    let said = sentence(finding, findings);
    let told = format!("{}: {said}", answer.name());
    let message = escape(&told);
    let kind = answer.name();
    let inner = match (answer, undecided) {
        (Answer::Faster | Answer::Same, _) => None,
        (Answer::Undecided, Undecided::Passes) => {
            Some(format!("      <skipped message=\"{message}\"/>"))
        }
        (Answer::Slower | Answer::Undecided, _) => Some(format!(
            "      <failure type=\"{kind}\" message=\"{message}\">{message}</failure>"
        )),
        (Answer::Wrong, _) => Some(format!(
            "      <error type=\"{kind}\" message=\"{message}\">{message}</error>"
        )),
    };
    let open = format!(
        "    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" line=\"{}\" time=\"{:.3}\">",
        escape(kernel),
        escape(&finding.shape),
        escape(manifest),
        finding.line,
        finding.seconds
    );
    let mut lines = vec![open];
    lines.extend(inner);
    lines.push(format!("      <system-out>{message}</system-out>"));
    lines.push("    </testcase>".into());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::versus::{Budget, Fallen, Side};
    use crate::gate::judge::Settings;
    use kiln_core::trial::Outcome;

    #[test]
    fn any_text_makes_well_formed_xml() {
        let nasty = "a<b>&\"'\u{0}\u{1b}[31m\u{ffff}\n]]> ä";
        let findings = Findings {
            settings: Settings {
                margin: 0.03,
                budget: Budget {
                    seconds: 1.0,
                    samples: None,
                },
            },
            a: nasty.into(),
            b: nasty.into(),
            notes: Vec::new(),
            left_out: vec![nasty.into()],
            shapes: vec![ShapeFinding {
                shape: nasty.into(),
                dimensions: Vec::new(),
                line: 7,
                a_config: None,
                b_config: None,
                notes: Vec::new(),
                result: Err(Fallen::new(
                    Side::B,
                    Outcome::Gated {
                        gate: nasty.into(),
                        message: nasty.into(),
                    },
                )),
                seconds: 1.5,
            }],
        };
        let xml = suite(nasty, nasty, &findings, "gate", Undecided::Fails);
        let parsed = roxmltree::Document::parse(&xml).expect("well-formed");
        let suite = parsed
            .root_element()
            .first_element_child()
            .expect("a suite");
        assert_eq!(suite.attribute("errors"), Some("1"));
        assert_eq!(suite.attribute("tests"), Some("2"));
        assert_eq!(suite.attribute("skipped"), Some("1"));
        let case = suite.first_element_child().expect("a case");
        assert_eq!(case.attribute("line"), Some("7"));
        assert!(
            case.attribute("name")
                .is_some_and(|n| n.starts_with("a<b>&\"'"))
        );
        assert!(case.children().any(|c| c.has_tag_name("error")));
    }
}
