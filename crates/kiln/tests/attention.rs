//! The attention kernel that ships, without a GPU: its spaces are as large as they say, and what the gates leave
//! compiles. A sample by default; `KILN_WHOLE_SPACE=1` compiles all of the nine-tunable space, which takes an hour of
//! processor time per architecture.
#![allow(clippy::unwrap_used)]

mod common;

use common::Project;
use serde_json::Value;

fn project() -> Option<Project> {
    let mut project = Project::with_kernels();
    project.cuda = Some(common::cuda()?);
    Some(project)
}

/// What `kiln check` says of a manifest after compiling a sample of its space, all of which must compile.
fn compile(project: &Project, manifest: &str, architecture: &str, limit: &str) -> Value {
    let path = format!("kernels/attention/{manifest}");
    let mut arguments = vec![
        "check",
        &path,
        "--arch",
        architecture,
        "--compile",
        "--json",
    ];
    let whole = std::env::var_os("KILN_WHOLE_SPACE").is_some() && manifest == "kiln.nine.toml";
    if !whole {
        arguments.extend(["--limit", limit]);
    }
    let report = project.json(&arguments, &[0]);
    let failed = report["compiled"]["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 0, "{manifest}: {report:#}");
    report
}

#[test]
fn the_nine_tunable_space_compiles_for_every_architecture_it_is_for() {
    let Some(project) = project() else {
        return;
    };
    for architecture in ["sm_80", "sm_86", "sm_89"] {
        let report = compile(&project, "kiln.nine.toml", architecture, "6");
        assert_eq!(report["cartesian"].as_f64(), Some(3888.0), "{report:#}");
    }
}

#[test]
fn every_other_manifest_of_the_family_compiles() {
    let Some(project) = project() else {
        return;
    };
    for manifest in [
        "kiln.toml",
        "kiln.wide.toml",
        "kiln.causal.toml",
        "kiln.bf16.toml",
        "kiln.d128.toml",
        "kiln.d128.causal.toml",
        "kiln.long.toml",
        "kiln.decode.toml",
        "kiln.int8.toml",
    ] {
        let report = compile(&project, manifest, "sm_90", "2");
        let stages = report["compiled"]["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 3, "{manifest}: {stages:?}");
        for stage in stages {
            assert_eq!(stage["error"], Value::Null, "{manifest}: {stage}");
            assert_eq!(stage["changes_code"], true, "{manifest}: {stage}");
        }
    }
}
