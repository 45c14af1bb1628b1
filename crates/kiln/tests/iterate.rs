//! `kiln iterate`: a hypothesis, an edit, a verdict, and what becomes of it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, scale_source, text};

fn project() -> Project {
    let project = Project::with_scale();
    project
        .write("scale.c", &scale_source(6))
        .write("baseline.c", &scale_source(6))
        .replace("kiln.toml", "scale.c:scale", "baseline.c:scale")
        .replace(
            "kiln.toml",
            "[reference]",
            "[confirm]\nsamples = 20\nrounds = 2\nfinalists = 1\n[budget]\ntrials = 3\nhopeless_below = 0.0\n[reference]",
        );
    project
}

fn iterate(project: &Project, more: &[&str], codes: &[i32]) -> serde_json::Value {
    let mut arguments = vec!["iterate", "--json", "--seconds", "120", "--margin", "0.2"];
    arguments.extend(more);
    project.json(&arguments, codes)
}

#[test]
fn edits_are_kept_or_rejected_and_predictions_held_against_them() {
    let project = project();
    let output = project.run(&["iterate", "--hypothesis", "anything"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("there is no incumbent"), "{said}");

    project.json(&["tune", "--json", "--cold"], &[0, 1, 4]);
    let output = project.run(&["iterate", "--hypothesis", "anything"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("nothing was edited"), "{said}");

    // A sixth of the work.
    project.write("scale.c", &scale_source(1));
    let found = iterate(
        &project,
        &[
            "--hypothesis",
            "five rounds are redundant",
            "--expect",
            "2",
            "--advice",
            "less_work",
        ],
        &[0],
    );
    let first = &found["iteration"];
    assert_eq!(
        (&first["number"], &first["decision"]),
        (&1.into(), &"kept".into())
    );
    assert_eq!(first["prediction"], "exceeded", "{found:#}");
    assert_eq!(first["incumbent"]["label"], "study 1");
    assert_eq!(first["blind"], true, "nobody profiled it");
    let diff = first["diff"].as_str().unwrap();
    assert!(diff.contains("+++ b/scale.c"), "{diff}");
    assert!(diff.contains("-for (int r = 0; r < 6; r++)"), "{diff}");
    assert!(!diff.contains("kiln.toml"), "{diff}");

    // Three times the work is rejected, and the promise was empty.
    project.write("scale.c", &scale_source(4));
    let found = iterate(
        &project,
        &["--hypothesis", "more is more", "--expect", "1.5"],
        &[1],
    );
    let second = &found["iteration"];
    assert_eq!(second["incumbent"]["label"], "iteration 1");
    assert_eq!(
        (&second["decision"], &second["prediction"]),
        (&"rejected".into(), &"failed".into())
    );
    let source = || std::fs::read_to_string(project.root.join("scale.c")).unwrap();
    let restored = project.json(&["iterate", "--restore", "--json"], &[0]);
    assert_eq!(restored["restored"], serde_json::json!(["scale.c"]));
    assert_eq!(source(), scale_source(1));
    // What was there is not lost.
    let replaced = restored["replaced"].as_str().unwrap().to_string();
    assert!(
        project
            .run(&["iterate", "--restore", &replaced])
            .status
            .success()
    );
    assert_eq!(source(), scale_source(4));
    assert!(project.run(&["iterate", "--restore"]).status.success());

    // A wrong answer is never timed.
    project.replace("scale.c", "s * 0.99f + 0.5f", "s * 0.98f + 0.5f");
    let found = iterate(
        &project,
        &["--hypothesis", "rounding does not matter"],
        &[6],
    );
    let third = &found["iteration"];
    assert_eq!(
        (&third["decision"], &third["prediction"]),
        (&"rejected".into(), &"open".into())
    );

    let history = project.json(&["iterate", "--history", "--json"], &[0]);
    assert_eq!(history["iterations"].as_array().unwrap().len(), 3);
    let rates = history["hit_rates"].as_array().unwrap();
    let of = |rule: &serde_json::Value| &rates.iter().find(|r| r["rule"] == *rule).unwrap()["rate"];
    let advised = of(&"less_work".into());
    assert_eq!(
        (&advised["tried"], &advised["hits"]),
        (&1.into(), &1.into())
    );
    let own = of(&serde_json::Value::Null);
    assert_eq!(
        (&own["tried"], &own["hits"], &own["open"]),
        (&1.into(), &0.into(), &1.into())
    );
    let said = text(&project.run(&["iterate", "--history"]).stdout);
    assert!(
        said.contains("advice `less_work`: right in 1 of 1"),
        "{said}"
    );
    assert!(
        said.contains("own hypotheses: right in 0 of 1, 1 open"),
        "{said}"
    );

    // Advice that came true is a lesson.
    let listed = project.json(&["lessons", "list", "--json"], &[0]);
    let lessons = listed["lessons"].as_array().unwrap();
    let advice = lessons
        .iter()
        .find(|l| l["claim"]["kind"] == "advice")
        .unwrap();
    assert_eq!(
        (&advice["claim"]["rule"], &advice["status"]),
        (&"less_work".into(), &"holds".into())
    );
    assert_eq!(advice["evidence"][0]["iteration"], 1);
}

#[test]
fn bad_questions_are_refused() {
    let project = project();
    for (arguments, words) in [
        (vec!["--hypothesis", " "], "the hypothesis is empty"),
        (vec![], "--hypothesis"),
        (
            vec!["--hypothesis", "a", "--expect", "0"],
            "expected a number above 0",
        ),
        (
            vec!["--hypothesis", "a", "--advice", "No Rule"],
            "is no name of a rule",
        ),
        (
            vec!["--hypothesis", "a", "--advice", "swizzle"],
            "no profile of this kernel advised",
        ),
        (
            vec!["--hypothesis", "a", "--shape", "none"],
            "has no shape `none`",
        ),
        (
            vec!["--hypothesis", "a", "--against", "baseline"],
            "no version of this kernel",
        ),
        (vec!["--restore"], "nothing to put back"),
    ] {
        let mut all = vec!["iterate"];
        all.extend(&arguments);
        let output = project.run(&all);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let said = text(&project.run(&["iterate", "--history"]).stderr);
    assert!(said.contains("no iterations here yet"), "{said}");
}

#[test]
fn a_revision_may_be_the_incumbent() {
    let project = project();
    project.commit("six rounds");
    project.write("scale.c", &scale_source(1));
    let found = iterate(
        &project,
        &[
            "--hypothesis",
            "less work",
            "--against",
            "git:HEAD@UNROLL=2",
        ],
        &[0],
    );
    let iteration = &found["iteration"];
    assert_eq!(iteration["incumbent"]["label"], "git:HEAD@UNROLL=2");
    assert_eq!(iteration["prediction"], "held");
    assert!(
        iteration["diff"]
            .as_str()
            .unwrap()
            .contains("+++ b/scale.c")
    );
}
