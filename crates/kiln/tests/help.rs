//! Every verb's help carries an example, and every example runs.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, SELFTEST_EXAMPLE, TUNE_EXAMPLE, text, verbs};

fn examples(help: &str) -> Vec<String> {
    let mut parts = help.split("Example:\n");
    parts.next();
    parts
        .flat_map(|part| part.lines().take_while(|line| line.starts_with("  ")))
        .map(|line| line.trim().to_string())
        .collect()
}

#[test]
fn every_help_has_an_example_that_runs() {
    let project = Project::with_kernels();
    project.write(
        "my_kernel.c",
        "#ifndef UNROLL\n#define UNROLL 4\n#endif\n\
         void my_kernel(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = x[i]; }\n",
    );
    // A recording and its space to replay.
    let spaces = common::repository().join("crates/kiln/tests/spaces/convolution_milo");
    for name in ["A100.json.gz", "T1.json"] {
        std::fs::copy(spaces.join(name), project.root.join(name)).unwrap();
    }
    // A table of ncu to read.
    let table = "crates/kiln-core/tests/profiles/h200_pytorch.csv";
    std::fs::copy(
        common::repository().join(table),
        project.root.join("profile.csv"),
    )
    .unwrap();
    // One study to list and show. On some processors even `vector_add` has something to win.
    project.json(
        &["tune", "kernels/vector_add", "--trials", "2", "--json"],
        &[0, 1, 4],
    );
    // And a lesson to look at.
    let lessons = common::repository().join("fuzz/seeds/lessons/sample.toml");
    let lessons = lessons.to_str().unwrap();
    assert!(
        project
            .run(&["lessons", "import", lessons])
            .status
            .success()
    );
    let verbs = verbs(&project, &[]);
    assert!(verbs.len() > 10, "{verbs:?}");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_kiln"));
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut seen = std::collections::BTreeSet::new();
    for verb in verbs {
        let mut arguments: Vec<&str> = verb.iter().map(String::as_str).collect();
        arguments.push("--help");
        let output = project.run(&arguments);
        assert!(output.status.success());
        let help = text(&output.stdout);
        let examples = examples(&help);
        assert!(
            !examples.is_empty(),
            "`kiln {}` has no example:\n{help}",
            verb.join(" ")
        );
        for example in examples {
            assert!(example.starts_with("kiln "), "{example}");
            let is_run_elsewhere = [TUNE_EXAMPLE, SELFTEST_EXAMPLE].contains(&example.as_str());
            if is_run_elsewhere || !seen.insert(example.clone()) {
                continue;
            }
            let mut shell = std::process::Command::new("sh");
            shell
                .args(["-c", &example])
                .current_dir(&project.root)
                .env("PATH", &path);
            shell.env("KILN_HOME", &project.home);
            let output = shell.output().unwrap();
            // `doctor` says with 3 that no GPU can be used, which is a fact of the machine.
            let is_diagnosis =
                example.starts_with("kiln doctor") && output.status.code() == Some(3);
            // A comparison of what was tuned for two trials may come out any way.
            let verdicts: &[i32] = match example.split(' ').nth(1) {
                Some("compare") => &[0, 1, 4, 5],
                Some("gate") => &[0, 1, 4],
                _ => &[0],
            };
            // What was tuned for two trials has hardly a confirmed winner; kiln says how to export it all the same.
            if example.starts_with("kiln export") && output.status.code() == Some(2) {
                let said = text(&output.stderr);
                assert!(said.contains("--unconfirmed"), "{said}");
                let words: Vec<&str> = example.split(' ').skip(1).collect();
                project.json(&[&words[..], &["--unconfirmed", "--json"]].concat(), &[0]);
                continue;
            }
            let is_verdict = output.status.code().is_some_and(|c| verdicts.contains(&c));
            assert!(
                output.status.success() || is_diagnosis || is_verdict,
                "`{example}`: {}",
                text(&output.stderr)
            );
        }
    }
}

#[test]
fn help_and_version_read_as_documented() {
    let project = Project::new();
    insta::assert_snapshot!("help", text(&project.run(&["--help"]).stdout));
    insta::assert_snapshot!("help_tune", text(&project.run(&["tune", "--help"]).stdout));
    assert!(text(&project.run(&["--version"]).stdout).starts_with("kiln 0."));
}
