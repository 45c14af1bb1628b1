//! `kiln tune --shapes`: several shapes together, and the few configs that serve them.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::{Project, text};
use serde_json::{Value, json};

/// Config 0 is made for small problems, 1 for large ones, 2 is fair on both, 3 is hopeless on both.
fn project() -> Project {
    let project = Project::new();
    project
        .write(
            "work.c",
            "void work(const float *x, float *y, int n) {\n\
             static const int cost[4][2] = {{1, 40}, {40, 1}, {3, 3}, {60, 60}};\n\
             int rounds = cost[KIND][n > 5000];\n\
             for (int r = 0; r < rounds; r++)\n\
             for (int i = 0; i < n; i++) { float s = x[i];\n\
             for (int k = 0; k < 16; k++) s = s * 0.99f + 0.5f; ((volatile float *)y)[i] = s; }\n}\n",
        )
        .write(
            "slow.c",
            "#define KIND 2\n#define work inner\n#include \"work.c\"\n#undef work\n\
             void work(const float *x, float *y, int n) { for (int r = 0; r < 4; r++) inner(x, y, n); }\n",
        )
        .write(
            "reference.c",
            "void work(const double *x, double *y, int n) { for (int i = 0; i < n; i++) { double s = x[i]; \
             for (int k = 0; k < 16; k++) s = s * 0.99 + 0.5; y[i] = s; } }\n",
        )
        .write(
            "kiln.toml",
            "[kernel]\nname = \"work\"\nsource = \"work.c\"\nentry = \"work\"\nflags = [\"-O2\"]\n\
             [tunables]\nKIND = [0, 1, 2, 3]\n\
             [shapes.target]\nN = 4000\n[shapes.small]\nuse = \"sweep\"\nN = 3000\n[shapes.large]\nuse = \"sweep\"\nweight = 2\nN = 8000\n\
             [shapes.huge]\nuse = \"sweep\"\nN = 9000\n[shapes.tiny]\nN = 5\n\
             [arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\n\
             y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
             n = { dtype = \"i32\", value = \"N\" }\n\
             [reference]\nc = \"reference.c:work\"\n[baseline]\nc = \"slow.c:work\"\n\
             [measure]\nmax_samples = 20\n[confirm]\nsamples = 10\nrounds = 2\nunseen_shapes = 0\nrepeats = 2\n",
        );
    project
}

/// The machine may be busy: what is chosen is the question here, not how sure kiln is of it.
const ANY_VERDICT: &[i32] = &[0, 1, 4];

const TUNE: [&str; 7] = [
    "tune",
    "--shapes",
    "all",
    "--strategy",
    "exhaustive",
    "--trials",
    "4",
];

fn tuned(project: &Project) -> Value {
    project.json(&[&TUNE[..], &["--json"]].concat(), ANY_VERDICT)
}

fn kinds(configs: &Value) -> Vec<u64> {
    let configs = configs.as_array().unwrap().iter();
    configs.map(|c| c["KIND"].as_u64().unwrap()).collect()
}

#[test]
fn few_configs_serve_all_shapes() {
    let project = project();
    let found = tuned(&project);
    assert_eq!(
        kinds(&found["chosen"]),
        [0, 1],
        "each shape has its own: {found:#}"
    );
    let covers = found["covers"].as_array().unwrap();
    let served = |cover: &Value| -> Vec<u64> {
        let serves = cover["serves"].as_array().unwrap().iter();
        serves
            .map(|s| s["config"]["KIND"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(served(&covers[0]), [2, 2, 2, 2], "one config: the fair one");
    assert_eq!(served(&covers[1]), [0, 0, 1, 1]);
    assert!(covers[1]["value"].as_f64() > covers[0]["value"].as_f64());
    assert_eq!(covers.len(), 2, "a third brings nothing");
    assert!(
        found["given_up"].as_u64().unwrap() >= 1,
        "the hopeless one was not tried everywhere"
    );
    let shapes = found["shapes"].as_array().unwrap();
    for (shape, name) in shapes.iter().zip(["target", "small", "large", "huge"]) {
        assert_eq!(shape["shape"]["name"], json!(name));
        assert!(shape["verdict"].is_string(), "{shape}");
        assert_eq!(shape["finished"], true);
    }
    // The studies are ordinary ones: they are listed, and exported together.
    let listed = project.json(&["studies", "list", "--json"], &[0]);
    assert_eq!(listed["studies"].as_array().unwrap().len(), 4);
    let exported = project.json(&["export", "--to", "json", "--unconfirmed", "--json"], &[0]);
    assert_eq!(exported["configs"], 2);

    // One config for all, because it was asked for: from what is known a new search begins.
    let mut one = TUNE;
    one[2] = "target,large";
    let more = ["--configs", "1", "--objective", "worst", "--json"];
    let one = project.json(&[&one[..], &more[..]].concat(), ANY_VERDICT);
    assert_eq!(kinds(&one["chosen"]), [2]);
    assert_eq!(one["objective"], "worst");
    let output = project.run(&["tune", "--shapes", "target"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("only one shape"),
        "{}",
        text(&output.stderr)
    );
    let output = project.run(&["tune", "--shapes", "target,vast"]);
    assert!(
        text(&output.stderr).contains("no shape `vast`"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_was_killed_goes_on() {
    let project = project();
    let mut tune = TUNE;
    tune[2] = "target,large";
    let mut child = project
        .command(&tune)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The baselines of all shapes, then two trials.
    let trials = lines.map_while(Result::ok).filter(|l| l.contains("KIND="));
    assert_eq!(trials.take(2).count(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let output = project.run(&tune);
    let said = text(&output.stderr);
    let code = output.status.code();
    assert!(code.is_some_and(|c| ANY_VERDICT.contains(&c)), "{said}");
    assert!(said.contains("shape `target`: resuming study 1"), "{said}");
    assert!(!said.contains("measuring the baseline"), "{said}");
    let table = text(&output.stdout);
    assert!(
        table.contains("1 config: ") && table.contains("studies   1, 2 in"),
        "{table}"
    );
}
