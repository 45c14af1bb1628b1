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

    // A store that somebody else wrote names files that git or a build would run.
    let stored = project.root.join(".kiln/kiln.db");
    let honest = std::fs::read(&stored).unwrap();
    std::os::unix::fs::symlink(&project.home, project.root.join("lk")).unwrap();
    for (name, why) in [
        (".git/hooks/post-commit", "hidden"),
        ("lk/file.c", "passes a symbolic link"),
        ("build.rs", "neither the manifest nor a source"),
    ] {
        keep_also(&project, name);
        let output = project.run(&["iterate", "--restore"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(why), "{name}: {said}");
        assert!(!project.root.join(name).exists(), "{name}");
    }
    std::fs::write(&stored, honest).unwrap();

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

/// Puts one further file, and only that, among all files the store keeps.
fn keep_also(project: &Project, name: &str) {
    let store = rusqlite::Connection::open(project.root.join(".kiln/kiln.db")).unwrap();
    let triggers: Vec<String> = store
        .prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        .and_then(|mut found| found.query_map([], |row| row.get(0))?.collect())
        .unwrap();
    for trigger in triggers {
        store
            .execute_batch(&format!("DROP TRIGGER {trigger}"))
            .unwrap();
    }
    let kept: Vec<(i64, String)> = store
        .prepare("SELECT sequence, body FROM journal WHERE kind = 'sources_kept'")
        .and_then(|mut found| {
            found
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .unwrap();
    for (sequence, body) in kept {
        let mut entry: serde_json::Value = serde_json::from_str(&body).unwrap();
        let files = entry["sources"]["files"].as_object_mut().unwrap();
        files.retain(|name, _| name == "kiln.toml" || name == "scale.c");
        files.insert(name.into(), "hostile".into());
        let changed = entry.to_string();
        store
            .execute(
                "UPDATE journal SET body = ?1 WHERE sequence = ?2",
                (changed, sequence),
            )
            .unwrap();
    }
}

#[test]
fn bad_questions_are_refused() {
    let project = project();
    for (arguments, words) in [
        (vec!["--hypothesis", " "], "the hypothesis is empty"),
        (vec![], "--hypothesis"),
        (
            vec!["--hypothesis", "a", "--expect", "0"],
            "expected a factor above 0 and up to 1000",
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
