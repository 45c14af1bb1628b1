//! `kiln gate` through the real program: what passes, what does not, and how the baseline moves.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use common::{NO_DIFFERENCE, Project, SLOW, orphans_after, scale_source, text};

/// They time things, so they take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

const PASS: i32 = 0;
const SLOWER: i32 = 1;
const UNDECIDED: i32 = 4;
const WRONG: i32 = 6;

fn baseline(project: &Project) -> String {
    std::fs::read_to_string(project.root.join("kiln.gate.toml")).unwrap()
}

fn record(project: &Project, more: &[&str]) {
    let mut arguments = vec!["gate", "--record", "--config", "UNROLL=2"];
    arguments.extend(more);
    let output = project.run(&arguments);
    assert_eq!(output.status.code(), Some(PASS), "{}", text(&output.stderr));
}

#[test]
fn the_same_passes_and_a_slower_one_does_not() {
    let _turn = turn();
    let project = Project::with_scale();
    record(&project, &[]);
    let file = baseline(&project);
    for said in [
        "UNROLL = 2",
        "N = 20000",
        "revision = ",
        "recorded_us",
        "void scale(",
    ] {
        assert!(file.contains(said), "{file}");
    }
    let wide = ["gate", "--margin", NO_DIFFERENCE, "--json"];
    let document = project.json(&wide, &[PASS, UNDECIDED]);
    assert!(["SAME", "UNDECIDED"].contains(&document["verdict"].as_str().unwrap()));
    assert_eq!(
        document["shapes"][0]["b_config"], "UNROLL=2",
        "the baseline's"
    );

    project.write("scale.c", &scale_source(SLOW));
    let outputs = ["gate", "--junit", "out.xml", "--markdown", "out.md"];
    let output = project.run(&outputs);
    assert_eq!(
        output.status.code(),
        Some(SLOWER),
        "{}",
        text(&output.stderr)
    );
    let talk = text(&output.stderr);
    // What docs/ci/kiln-matcher.json looks for.
    assert!(
        talk.contains("kiln.toml:8: error: SLOWER on shape target"),
        "{talk}"
    );
    assert!(text(&output.stdout).contains("SLOWER"));
    let xml = std::fs::read_to_string(project.root.join("out.xml")).unwrap();
    let xml = roxmltree::Document::parse(&xml).unwrap();
    let suite = xml.root_element().first_element_child().unwrap();
    assert_eq!(suite.attribute("failures"), Some("1"));
    let failure = xml
        .descendants()
        .find(|n| n.has_tag_name("failure"))
        .unwrap();
    assert_eq!(failure.attribute("type"), Some("SLOWER"));
    let markdown = std::fs::read_to_string(project.root.join("out.md")).unwrap();
    assert!(markdown.contains("| target | **SLOWER** |"), "{markdown}");
    // Summaries of several gates follow each other.
    project.run(&outputs);
    let twice = std::fs::read_to_string(project.root.join("out.md")).unwrap();
    assert_eq!(twice.matches("### kiln gate").count(), 2);

    project.write("scale.c", &scale_source(1).replace("0.5f", "0.6f"));
    let output = project.run(&["gate", "--junit", "out.xml"]);
    assert_eq!(output.status.code(), Some(WRONG));
    assert!(text(&output.stderr).contains("error: WRONG on shape target"));
    let xml = std::fs::read_to_string(project.root.join("out.xml")).unwrap();
    let xml = roxmltree::Document::parse(&xml).unwrap();
    assert!(xml.descendants().any(|n| n.has_tag_name("error")));
    let output = project.run(&["gate", "--record", "--force", "--config", "UNROLL=2"]);
    assert_eq!(
        output.status.code(),
        Some(WRONG),
        "a wrong kernel is no baseline"
    );
    assert_eq!(baseline(&project), file);
}

#[test]
fn the_files_for_ci_fit_the_program() {
    let docs = common::repository().join("docs/ci");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
    let matcher: serde_json::Value = serde_json::from_str(&read("kiln-matcher.json")).unwrap();
    let pattern = &matcher["problemMatcher"][0]["pattern"][0];
    // The form of the lines that the test above looks for.
    assert_eq!(pattern["regexp"], r"^(.+?):(\d+): (error|warning): (.+)$");
    let workflow = read("kiln-gate.yml");
    assert!(workflow.contains(".github/kiln-matcher.json"));
    // Every option the workflow uses is one.
    let help = text(&Project::new().run(&["gate", "--help"]).stdout);
    let gate = workflow.lines().find(|l| l.contains("kiln gate ")).unwrap();
    for option in gate.split_whitespace().filter(|w| w.starts_with("--")) {
        assert!(help.contains(option), "{option}");
    }
}

#[test]
fn the_ratchet_moves_forward_only() {
    let _turn = turn();
    let project = Project::with_scale();
    project.write("scale.c", &scale_source(SLOW));
    record(&project, &[]);
    let first = baseline(&project);
    let output = project.run(&["gate", "--ratchet", "--margin", NO_DIFFERENCE]);
    assert!(
        [Some(PASS), Some(UNDECIDED)].contains(&output.status.code()),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(baseline(&project), first, "SAME moves nothing");

    project.write("scale.c", &scale_source(1));
    let output = project.run(&["gate"]);
    assert_eq!(output.status.code(), Some(PASS), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("FASTER"));
    assert_eq!(baseline(&project), first, "only when asked to");
    let output = project.run(&["gate", "--ratchet", "--config", "UNROLL=4"]);
    assert_eq!(output.status.code(), Some(PASS), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("moved forward for target"));
    let second = baseline(&project);
    assert!(
        second.contains("UNROLL = 4") && !second.contains(&format!("r < {SLOW}")),
        "{second}"
    );

    project.write("scale.c", &scale_source(SLOW));
    let output = project.run(&["gate", "--ratchet"]);
    assert_eq!(
        output.status.code(),
        Some(SLOWER),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stdout).contains("moves only when the gate passes"));
    assert_eq!(baseline(&project), second);
}

#[test]
fn two_shapes_are_judged_together() {
    let _turn = turn();
    let project = Project::with_scale();
    record(
        &project,
        &["--shape", "target,large", "--margin", NO_DIFFERENCE],
    );
    let slow_when_large =
        scale_source(1).replace("r < 1", &format!("r < (n > 30000 ? {SLOW} : 1)"));
    project.write("scale.c", &slow_when_large);
    let document = project.json(&["gate", "--json"], &[SLOWER]);
    assert_eq!(document["margin"], 0.9, "the file's");
    let verdicts: Vec<(&str, &str)> = document["shapes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["shape"].as_str().unwrap(), s["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(verdicts[0], ("large", "SLOWER"));
    assert!(
        matches!(verdicts[1], ("target", "SAME" | "UNDECIDED")),
        "{verdicts:?}"
    );
    assert!(
        document["notes"]
            .to_string()
            .contains("corrected over 2 shapes")
    );
    let one = ["gate", "--shape", "target", "--json"];
    let document = project.json(&one, &[PASS, UNDECIDED]);
    assert_eq!(document["shapes"].as_array().unwrap().len(), 1);
    assert!(["SAME", "UNDECIDED"].contains(&document["verdict"].as_str().unwrap()));
}

#[test]
fn what_cannot_be_decided_has_its_own_code() {
    let _turn = turn();
    let project = Project::with_scale();
    record(&project, &[]);
    // No machine is so quiet that this would be the same, and the first look, the only one there is time for, calls no difference.
    let tight = ["gate", "--margin", "0.000001", "--seconds", "0.01"];
    let with = |more: &[&str]| {
        let mut arguments = tight.to_vec();
        arguments.extend(more);
        project.run(&arguments)
    };
    let output = with(&["--junit", "out.xml"]);
    assert_eq!(
        output.status.code(),
        Some(UNDECIDED),
        "{}",
        text(&output.stdout)
    );
    assert!(text(&output.stderr).contains("error: UNDECIDED on shape target"));
    assert_eq!(with(&["--undecided", "fail"]).status.code(), Some(1));
    let output = with(&["--undecided", "pass", "--junit", "out.xml", "--ratchet"]);
    assert_eq!(output.status.code(), Some(PASS));
    assert!(text(&output.stderr).contains("warning: UNDECIDED"));
    let xml = std::fs::read_to_string(project.root.join("out.xml")).unwrap();
    let xml = roxmltree::Document::parse(&xml).unwrap();
    assert!(xml.descendants().any(|n| n.has_tag_name("skipped")));
}

#[test]
fn a_baseline_that_does_not_fit_says_why() {
    let _turn = turn();
    let project = Project::with_scale();
    let failing = |arguments: &[&str], said: &str| {
        let output = project.run(arguments);
        let talk = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{talk}");
        assert!(talk.contains(said) && talk.contains("hint:"), "{talk}");
    };
    let elsewhere = Project::new().run(&["gate"]);
    assert!(text(&elsewhere.stderr).contains("there is no kiln.toml here"));
    failing(&["gate"], "there is no `kiln.gate.toml`");
    failing(&["gate", "--record"], "which config of `scale` is meant?");
    record(&project, &[]);
    failing(&["gate", "--record"], "already there");
    failing(&["gate", "--shape", "large"], "has no shape `large`");
    failing(&["gate", "--config", "UNROLL=3"], "cannot be `3`");

    project.replace("kiln.toml", "N = 20000", "N = 30000");
    failing(
        &["gate"],
        "was N=20000 when it was recorded, and is N=30000 now",
    );
    project.replace("kiln.toml", "N = 30000", "N = 20000");
    project.replace("kiln.toml", "UNROLL = [1, 2, 4]", "STEP = [1, 2]");
    failing(
        &["gate"],
        "the config in `kiln.gate.toml` is from before `STEP` was added and `UNROLL` was taken out",
    );
    project.replace("kiln.toml", "STEP = [1, 2]", "UNROLL = [1, 2, 4]");
    project.replace("kiln.toml", "name = \"scale\"", "name = \"other\"");
    failing(&["gate"], "is of the kernel `scale`");
    project.replace("kiln.toml", "name = \"other\"", "name = \"scale\"");
    project.replace("kiln.gate.toml", "void scale(", "void scales(");
    failing(&["gate"], "not what was recorded");
}

#[test]
fn another_device_is_named_and_keeps_its_baseline() {
    let _turn = turn();
    let project = Project::with_scale();
    project.write("scale.c", &scale_source(SLOW));
    record(&project, &[]);
    let file = baseline(&project);
    let line = file.lines().find(|l| l.starts_with("device = ")).unwrap();
    project.replace("kiln.gate.toml", line, "device = \"another one\"");
    project.write("scale.c", &scale_source(1));
    let output = project.run(&["gate", "--ratchet"]);
    assert_eq!(output.status.code(), Some(PASS), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.contains("recorded on another one, measured here on"),
        "{table}"
    );
    assert!(table.contains("it belongs to another one"), "{table}");
    assert!(baseline(&project).contains(&format!("r < {SLOW}")));
}

#[test]
fn each_shape_is_recorded_with_its_own_winner() {
    let _turn = turn();
    let project = Project::with_scale();
    project.replace("kiln.toml", "UNROLL = [1, 2, 4]", "UNROLL = [1, 2, 4, 8]");
    project.replace(
        "kiln.toml",
        "[shapes.target]",
        "[constraints]\nlong = \"(UNROLL > 2) == (N > 30000)\"\n[measure]\nmax_samples = 10\n[confirm]\nfinalists = 1\n[shapes.target]",
    );
    for shape in ["target", "large"] {
        project.json(&["tune", "--shape", shape, "--json"], &[0, 1, 4]);
    }
    let output = project.run(&["gate", "--record", "--shapes", "target,large"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(PASS), "{said}");
    let whose = "recorded target (study 1's winner), large (study 2's winner)";
    assert!(said.contains(whose), "{said}");
    let file = baseline(&project);
    let unroll = |shape: &str| -> u32 {
        let head = format!("[shapes.{shape}.config]\nUNROLL = ");
        let value = file.split(&head).last().unwrap().chars().next();
        value.and_then(|digit| digit.to_digit(10)).expect(&file)
    };
    assert!(unroll("target") <= 2, "{file}");
    assert!(unroll("large") > 2, "{file}");
}

#[test]
fn an_interrupt_ends_it_and_everything_it_started() {
    let _turn = turn();
    let project = Project::with_scale();
    record(&project, &[]);
    let file = baseline(&project);
    let mut child = project
        .command(&["gate", "--margin", "0.000001", "--ratchet"])
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(900));
    let id = child.id().to_string();
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left = orphans_after(&project.home, Duration::from_secs(5));
    assert!(left.is_empty(), "left running: {left:?}");
    assert_eq!(baseline(&project), file);
}

#[test]
fn an_interrupt_keeps_the_shapes_that_were_judged() {
    let _turn = turn();
    let project = Project::with_scale();
    record(&project, &["--shape", "all"]);
    let file = baseline(&project);
    let junit = project.root.join("junit.xml");
    for verb in [
        &["gate", "--ratchet", "--junit", "junit.xml"][..],
        &["compare", "UNROLL=1", "UNROLL=2", "--shapes", "all"],
    ] {
        let mut child = project
            .command(verb)
            .args(["--margin", "0.000001", "--seconds", "3", "--json"])
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("(2 of 3)")));
        let id = child.id().to_string();
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args(["-INT", &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["exit_code"], 130);
        assert_eq!(document["shapes"].as_array().unwrap().len(), 1);
        assert!(document["shapes"][0]["speedup"].is_number(), "{document}");
        let left: Vec<&str> = document["left_out"]
            .as_array()
            .unwrap()
            .iter()
            .map(|shape| shape.as_str().unwrap())
            .collect();
        assert_eq!(left.len(), 2, "{document}");
        let notes = document["notes"].to_string();
        let rest = format!("2 of 3 shapes to go: `--shapes {}`", left.join(","));
        assert!(notes.contains(&rest), "{notes}");
    }
    assert_eq!(baseline(&project), file);
    let junit = fs::read_to_string(junit).unwrap();
    assert!(
        junit.contains("tests=\"3\"") && junit.contains("skipped=\"2\""),
        "{junit}"
    );
}
