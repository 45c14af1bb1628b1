//! `kiln profile` by leaving stages out: no counters are needed, so all of it runs here.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, text};
use serde_json::Value;

const SOURCE: &str = "\
#include <stdint.h>

#ifndef STEPS
#define STEPS 20
#endif

/* Every step needs the one before. */
static inline float turn(float v, int steps)
{
    for (int i = 0; i < steps; i++)
        v = v * 0.5f + 0.25f;
    return v;
}

void chain(const float *x, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        float v = x[i];
#ifndef NO_LIGHT
        v = turn(v, STEPS);
#endif
#ifndef NO_HEAVY
        v = turn(v, 10 * STEPS) + 0.125f * x[i];
#endif
        y[i] = v;
    }
}
";

const MANIFEST: &str = "\
[kernel]
source = \"chain.c\"
entry = \"chain\"
flags = [\"-O1\"]

[tunables]
STEPS = [20, 21]

[shapes.target]
N = 4000

[arguments]
x = { dtype = \"f32\", shape = [\"N\"] }
y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }
n = { dtype = \"i32\", value = \"N\" }

[work]
flops = \"440 * N\"

[stages]
light = \"-DNO_LIGHT\"
heavy = { flags = [\"-DNO_HEAVY\"], kind = \"compute\" }

[reference]
c = \"reference.c:chain\"

[budget]
trials = 2

[measure]
max_seconds = 0.05

[confirm]
samples = 10
finalists = 1
unseen_shapes = 0
repeats = 0

[tolerance]
f32 = 1e-4
";

/// A kernel in C with two stages, one of which does ten times the work of the other.
fn project() -> Project {
    let project = Project::new();
    let reference = SOURCE.replace("float", "double");
    project
        .write("chain.c", SOURCE)
        .write("reference.c", &reference)
        .write("kiln.toml", MANIFEST);
    project
}

fn variant<'a>(profile: &'a Value, without: &[&str]) -> &'a Value {
    let variants = profile["stages"]["variants"].as_array().unwrap();
    let found = variants
        .iter()
        .find(|v| v["without"] == serde_json::json!(without));
    found.unwrap_or_else(|| panic!("{without:?} in {variants:#?}"))
}

#[test]
fn the_heavier_stage_binds_a_kernel_on_a_cpu() {
    let project = project();
    let config = ["--config", "STEPS=20"];
    let document = project.json(&["profile", ".", "--json", config[0], config[1]], &[0]);
    assert_eq!(document["schema_version"], 1);
    let profiles = document["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 1);
    let profile = &profiles[0];
    assert_eq!(profile["class"], "compute", "{profile:#}");
    assert_eq!(profile["cause"], "stage");
    assert!(
        profile["without_counters"]
            .as_str()
            .unwrap()
            .contains("CPU")
    );
    assert!(profile["time_ns"].as_f64().unwrap() > 0.0);
    let reading = &profile["stages"]["reading"];
    assert_eq!(reading["bound"]["stage"], "heavy", "{reading:#}");
    let ratio = |without: &[&str]| variant(profile, without)["ratio"].as_f64().unwrap();
    assert!(ratio(&["heavy"]) < ratio(&["light"]));
    assert!(ratio(&["light", "heavy"]) < ratio(&["light"]));
    let interval = &variant(profile, &["heavy"])["ratio_ci_95"];
    assert!(interval[0].as_f64().unwrap() <= interval[1].as_f64().unwrap());
    let advice = &profile["diagnosis"]["advice"][0];
    assert_eq!(advice["rule"], "shrink-stage");
    assert!(advice["change"].as_str().unwrap().contains("`heavy`"));

    let output = project.run(&["profile", ".", config[0], config[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("COMPUTE-BOUND  one of its stages"), "{said}");
    assert!(said.contains("because   without `heavy` "), "{said}");
    assert!(said.contains("x to gain there"), "{said}");
    assert!(said.contains("GFLOP/s, by the flops in [work]"), "{said}");
}

#[test]
fn a_profile_by_stages_is_a_profile() {
    let project = project();
    project.replace(
        "kiln.toml",
        "[budget]",
        "[baseline]\nconfig = { STEPS = 21 }\n\n[budget]",
    );
    let state = |check: &str| {
        let shown = project.json(&["studies", "show", "1", "--json"], &[0]);
        let practice = shown["retrospective"]["practice"].as_array().unwrap();
        let found = practice.iter().find(|f| f["check"] == check).unwrap();
        (found["state"].as_str().unwrap().to_string(), shown)
    };
    project.json(&["tune", "--json"], &[0, 1, 4]);
    let document = project.json(&["profile", "1", "--json"], &[0]);
    assert_eq!(document["study"], 1);
    // The baseline is a config of the kernel, and has its stages.
    assert_eq!(document["profiles"].as_array().unwrap().len(), 2);
    let (practice, shown) = state("profile_before_optimise");
    assert_eq!(practice, "passes");
    let stored = &shown["profiles"][0]["stages"]["reading"]["bound"];
    assert_eq!(stored["stage"], "heavy", "{stored:#}");
}

/// Each stage goes wrong in its own way, and only its own number is missing.
#[test]
fn a_variant_may_fail_and_nothing_else_does() {
    let project = project();
    let source = SOURCE.replace(
        "        y[i] = v;\n",
        "        y[i] = v;\n    }\n\
         #ifdef CRASHES\n    __builtin_trap();\n#endif\n\
         #ifdef HANGS\n    for (volatile int forever = 1; forever;) {}\n#endif\n\
         #ifdef OUTSIDE\n    y[n] = y[0];\n#endif\n\
         #ifdef BROKEN\n#error not without it\n#endif\n    {\n",
    );
    // Mentioned here only: NOTHING.
    let source = format!("{source}/* NOTHING */\n");
    project
        .write("chain.c", &source)
        .replace("kiln.toml", "STEPS = [20, 21]", "STEPS = [20]")
        .replace(
            "kiln.toml",
            "max_seconds = 0.05",
            "max_seconds = 0.05\nrun_timeout_seconds = 1.0",
        )
        .replace(
            "kiln.toml",
            "light = \"-DNO_LIGHT\"\n",
            "crashes = \"-DCRASHES\"\nhangs = \"-DHANGS\"\noutside = \"-DOUTSIDE\"\n\
             broken = [\"-DBROKEN\"]\nnothing = \"-DNOTHING\"\n",
        );
    let document = project.json(&["profile", ".", "--stages", "--json"], &[0]);
    let profile = &document["profiles"][0];
    let outcome = |stage: &str| variant(profile, &[stage])["outcome"].as_str().unwrap();
    let message = |stage: &str| variant(profile, &[stage])["message"].as_str().unwrap();
    assert_eq!(outcome("heavy"), "timed");
    assert_eq!(outcome("nothing"), "same_code");
    assert_eq!(outcome("broken"), "not_compiled");
    assert!(message("broken").contains("not without it"));
    for stage in ["crashes", "hangs", "outside"] {
        assert_eq!(outcome(stage), "failed", "{stage}");
    }
    assert!(
        message("hangs").contains("1 s") || message("hangs").contains("1000"),
        "{}",
        message("hangs")
    );
    assert!(message("outside").contains("`y`"), "{}", message("outside"));
    assert_eq!(profile["stages"]["reading"]["bound"]["stage"], "heavy");
}

/// Without `light` nobody needs what `heavy` computes, and the compiler drops both.
#[test]
fn a_compiler_that_drops_more_than_the_stage_is_found_out() {
    let project = project();
    let source = SOURCE.replace(
        "#ifndef NO_LIGHT\n",
        "#ifdef NO_LIGHT\n        y[i] = v;\n        continue;\n#else\n",
    );
    project.write("chain.c", &source);
    let arguments = ["profile", ".", "--config", "STEPS=20", "--json"];
    let document = project.json(&arguments, &[0]);
    let profile = &document["profiles"][0];
    let both = variant(profile, &["light", "heavy"]);
    assert_eq!(both["same_code_as"], serde_json::json!(["light"]));
    let doubts = profile["stages"]["reading"]["doubts"].to_string();
    assert!(
        doubts.contains("without `light` the compiler drops `heavy` too"),
        "{doubts}"
    );
}

#[test]
fn stages_that_leave_nothing_out_are_mistakes() {
    let project = project();
    project.replace("kiln.toml", "-DNO_LIGHT", "-DNO_LIHGT");
    let output = project.run(&["profile", ".", "--config", "STEPS=20"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("`NO_LIHGT` appears nowhere in the source"),
        "{said}"
    );
    assert!(said.contains("kiln.toml:21"), "{said}");
    let checked = project.json(&["check", ".", "--compile", "--json"], &[0]);
    let warnings = checked["warnings"].to_string();
    assert!(
        warnings.contains("stage `light` leaves nothing out"),
        "{warnings}"
    );
    let stages = checked["compiled"]["stages"].as_array().unwrap();
    assert_eq!(stages[0]["changes_code"], false);
    assert_eq!(stages[1]["changes_code"], true);

    project.replace("kiln.toml", "-DNO_LIHGT", "-O0");
    let output = project.run(&["profile", "."]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("`-O0` cannot leave out stage `light`"),
        "{said}"
    );
}
