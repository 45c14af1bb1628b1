//! When the search ends, and where right answers can come from.
#![allow(clippy::unwrap_used)]

mod common;

use common::Project;

/// A space of 30 configs that all do the same, quickly.
fn project() -> Project {
    let project = Project::new();
    project
        .write(
            "kernel.c",
            "void scale(const float *x, float *y, int n) {\n\
             for (int i = 0; i < n; i++) y[i] = 3.0f * x[i] + 0.0f * STEP;\n}\n",
        )
        .write(
            "reference.c",
            "void scale(const double *x, double *y, int n) { for (int i = 0; i < n; i++) y[i] = 3.0 * x[i]; }\n",
        )
        .write(
            "kiln.toml",
            "[kernel]\nname = \"scale\"\nsource = \"kernel.c\"\nentry = \"scale\"\nflags = [\"-O1\"]\n\
             [tunables]\nSTEP = { from = 1, to = 30 }\n\
             [shapes.target]\nN = 2000\n\
             [arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\n\
             y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
             n = { dtype = \"i32\", value = \"N\" }\n\
             [reference]\nc = \"reference.c:scale\"\n\
             [baseline]\nconfig = { STEP = 1 }\n\
             [search]\nseed_trials = 2\n\
             [budget]\nhopeless_below = 0.0\n\
             [measure]\nmax_samples = 10\nmax_seconds = 0.05\n\
             [confirm]\nsamples = 10\nrounds = 2\nfinalists = 1\n",
        );
    project
}

/// Runs with one more line in [budget] and returns why the search stopped and after how many trials.
fn stop(line: &str, arguments: &[&str]) -> (String, u64) {
    let project = project();
    project.replace("kiln.toml", "[budget]\n", &format!("[budget]\n{line}\n"));
    let mut all = vec!["tune", "--json"];
    all.extend(arguments);
    let document = project.json(&all, &[0, 1, 4]);
    (
        document["stop"].as_str().unwrap().to_string(),
        document["trials"].as_u64().unwrap(),
    )
}

#[test]
fn every_budget_ends_the_search() {
    assert_eq!(stop("trials = 5", &[]), ("trials".into(), 5));
    assert_eq!(stop("trials = 5", &["--trials", "3"]), ("trials".into(), 3));
    assert_eq!(stop("trials = 1000", &[]), ("exhausted".into(), 30));
    let (why, trials) = stop("stagnation = 4", &[]);
    assert!(why == "stagnation" && trials < 30, "{why} {trials}");
    let (why, trials) = stop("stop_at_speedup = 0.1", &[]);
    assert!(why == "speedup_reached" && trials == 1, "{why} {trials}");
    let (why, trials) = stop("price_per_hour = 3600\ncost = 0.2", &[]);
    assert!(why == "cost" && trials < 30, "{why} {trials}");
    let (why, trials) = stop("", &["--minutes", "0.005"]);
    assert!(why == "minutes" && trials < 30, "{why} {trials}");
}

#[test]
fn a_hopeless_search_stops_after_the_seed_trials() {
    let project = project();
    project
        .replace("kiln.toml", "hopeless_below = 0.0", "hopeless_below = 0.5")
        .replace("kernel.c", "for (int i", "for (volatile int k = 0; k < 20000; k++);\nfor (int i")
        .replace("kiln.toml", "config = { STEP = 1 }", "c = \"fast.c:fast\"")
        .write(
            "fast.c",
            "void fast(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = 3.0f * x[i]; }\n",
        );
    let document = project.json(&["tune", "--json"], &[1]);
    assert_eq!(document["stop"], "hopeless");
    assert_eq!(document["verdict"], "SLOWER");
}

fn write_npy(project: &Project, name: &str, descr: &str, count: usize, data: &[u8]) {
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(project.root.join(name), bytes).unwrap();
}

#[test]
fn inputs_and_answers_can_come_from_files() {
    let project = project();
    let x: Vec<f32> = (0..2000).map(|i| i as f32 * 0.5 - 3.0).collect();
    let y: Vec<f64> = x.iter().map(|v| f64::from(*v) * 3.0).collect();
    let bytes = |v: &[f64]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    write_npy(
        &project,
        "x.npy",
        "<f4",
        2000,
        &x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>(),
    );
    write_npy(&project, "y.npy", "<f8", 2000, &bytes(&y));
    project
        .replace(
            "kiln.toml",
            "c = \"reference.c:scale\"",
            "file = \"{argument}.npy\"",
        )
        .replace(
            "kiln.toml",
            "x = { dtype = \"f32\", shape = [\"N\"] }",
            "x = { dtype = \"f32\", shape = [\"N\"], file = \"x.npy\" }",
        );
    // The same inputs each time: an answer that is kept would pass, and that has to be said.
    let output = project.run(&["tune", "--trials", "2"]);
    assert_eq!(output.status.code(), Some(2));
    let said = common::text(&output.stderr);
    assert!(said.contains("admits = [\"previous\"]"), "{said}");
    project.replace(
        "kiln.toml",
        "[reference]",
        "[tolerance]\nadmits = [\"previous\"]\n[reference]",
    );
    let document = project.json(&["tune", "--trials", "2", "--json"], &[0, 1, 4]);
    assert_eq!(document["candidates_found"], 2);

    let mut wrong = y.clone();
    wrong[1234] += 1.0;
    write_npy(&project, "y.npy", "<f8", 2000, &bytes(&wrong));
    let output = project.run(&["tune", "--trials", "2"]);
    assert_eq!(output.status.code(), Some(2));
    let said = common::text(&output.stderr);
    assert!(said.contains("worst at [1234]"), "{said}");
}
