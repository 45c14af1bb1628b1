//! The whole loop through the command line, on the kernels that ship. One test at a time here:
//! they time things, and share two cores with nothing.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Mutex;

use common::{Project, TUNE_EXAMPLE, text};
use serde_json::Value;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const KEYS: &[&str] = &[
    "schema_version",
    "success",
    "kernel",
    "shape",
    "device",
    "baseline_ms",
    "baseline_ci_95",
    "best_latency_ms",
    "ci_95",
    "speedup",
    "speedup_ci_95",
    "improvement_pct",
    "p_value",
    "cliffs_delta",
    "verdict",
    "best_config",
    "candidates_found",
    "rejected_count",
    "rejected",
    "trials",
    "wall_s",
    "study",
];

fn assert_is_a_document(document: &Value) {
    let keys = document.as_object().expect("an object");
    for key in KEYS {
        assert!(keys.contains_key(*key), "{key} is missing: {document:#}");
    }
}

/// Also the example in `kiln tune --help`, word for word.
#[test]
fn attention_is_tuned_to_a_confirmed_speedup() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with_kernels();
    let arguments: Vec<&str> = TUNE_EXAMPLE.split(' ').skip(1).collect();
    let document = project.json(&arguments, &[0]);
    assert_is_a_document(&document);
    assert_eq!(document["success"], true);
    assert_eq!(document["verdict"], "FASTER");
    assert!(document["speedup"].as_f64() > Some(1.5), "{document:#}");
    assert_eq!(document["trials"], 40);
    let interval = document["speedup_ci_95"].as_array().unwrap();
    assert!(interval[0].as_f64() <= document["speedup"].as_f64());
    assert!(interval[1].as_f64() >= document["speedup"].as_f64());
    assert_eq!(document["best_config"].as_object().unwrap().len(), 10);
    let shown = project.json(&["studies", "show", "--json"], &[0]);
    assert_eq!(shown["speedup"], document["speedup"]);
    let table = text(&project.run(&["studies", "show"]).stdout);
    assert!(
        table.contains("FASTER") && table.contains("next:"),
        "{table}"
    );
}

#[test]
fn a_saturated_baseline_gives_an_honest_negative_result() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with_kernels();
    // On some processors asking for data ahead is worth 1.16x.
    let manifest = "kernels/vector_add/kiln.toml";
    project.replace(manifest, "[0, 256, 1024, 4096]", "[0]");
    let document = project.json(
        &[
            "tune",
            "kernels/vector_add",
            "--trials",
            "20",
            "--seed",
            "1",
            "--json",
        ],
        &[1, 4],
    );
    assert_is_a_document(&document);
    assert_eq!(document["success"], false);
    assert!(document["speedup"].as_f64() < Some(1.1), "{document:#}");
    assert!(document["best_config"].is_object());
}

#[test]
fn matmul_beats_its_baseline() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with_kernels();
    let document = project.json(
        &[
            "tune",
            "kernels/matmul_cpu",
            "--trials",
            "24",
            "--seed",
            "3",
            "--json",
        ],
        &[0],
    );
    assert_eq!(document["verdict"], "FASTER");
}

#[test]
fn nothing_passes_is_a_negative_result_too() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with("crates/kiln/tests/faults");
    project.replace(
        "kernel.c",
        "y[i] = 2.0f * x[i] + 1.0f",
        "y[i] = 2.0f * x[i]",
    );
    let document = project.json(&["tune", "--trials", "2", "--json"], &[1]);
    assert_is_a_document(&document);
    assert_eq!(document["success"], false);
    assert_eq!(document["candidates_found"], 0);
    assert_eq!(document["verdict"], Value::Null);
    assert!(document["baseline_ms"].as_f64() > Some(0.0));
}

#[test]
fn a_wrong_baseline_stops_before_anything_is_tuned() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with("crates/kiln/tests/faults");
    project.replace("baseline.c", "+ 1.0f", "+ 1.1f");
    let output = project.run(&["tune"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("the baseline is not usable: wrong result on shape `tiny`"),
        "{said}"
    );
}

#[test]
fn without_a_path_the_built_in_kernel_is_tuned() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::new();
    let output = project.run(&["tune", "--trials", "2", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.contains("attention_cpu on") && table.contains("study     1 in"),
        "{table}"
    );
}

#[test]
fn scratch_inout_half_and_integer_arguments_work() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::new();
    project
        .write(
            "kernel.c",
            "#include <stdint.h>\n#include <string.h>\n\
             void step(const uint16_t *h, int32_t *count, float *sum, float *scratch, int32_t *taken, float scale, int64_t n) {\n\
             if (taken[0]++) return;\n\
             for (int64_t i = 0; i < n; i++) { scratch[i % BLOCK] = scale; count[i] += (h[i] & 0x8000) != 0; \
             sum[i] = sum[i] * scratch[i % BLOCK]; }\n taken[0] = 0;\n}\n",
        )
        .write(
            "reference.c",
            "#include <stdint.h>\n\
             void step(const double *h, int32_t *count, double *sum, double *scratch, int32_t *taken, double scale, int64_t n) {\n\
             for (int64_t i = 0; i < n; i++) { count[i] += h[i] < 0; sum[i] = sum[i] * scale; } (void)scratch; (void)taken;\n}\n",
        )
        .write(
            "kiln.toml",
            "[kernel]\nname = \"step\"\nsource = \"kernel.c\"\nentry = \"step\"\n\
             [tunables]\nBLOCK = [16, 64, 1000000000000]\n\
             [shapes.target]\nN = 5000\n\
             [arguments]\n\
             h = { dtype = \"f16\", shape = [\"N\"] }\n\
             count = { dtype = \"i32\", shape = [\"N\"], role = \"inout\" }\n\
             sum = { dtype = \"f32\", shape = [\"N\"], role = \"inout\", draw = \"uniform\" }\n\
             scratch = { dtype = \"f32\", shape = [\"BLOCK\"], role = \"scratch\" }\n\
             taken = { dtype = \"i32\", shape = [1], role = \"scratch\", draw = \"zeros\" }\n\
             scale = { dtype = \"f32\", value = 1.5 }\n\
             n = { dtype = \"i64\", value = \"N\" }\n\
             [reference]\nc = \"reference.c:step\"\n\
             [baseline]\nconfig = { BLOCK = 16 }\n\
             [confirm]\nsamples = 10\nrounds = 2\n",
        );
    let document = project.json(&["tune", "--json"], &[0, 1, 4]);
    assert_eq!(document["candidates_found"], 2, "{document:#}");
    assert_eq!(document["rejected"]["gate:memory"], 1, "{document:#}");
}

#[test]
fn another_shape_can_be_the_target() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::new();
    project.write(
        "kernel.c",
        "void twice(const float *x, float *y, int n) { for (int i = 0; i < n; i += STEP) \
         for (int k = i; k < i + STEP && k < n; k++) y[k] = 2 * x[k]; }\n",
    );
    project.write(
        "reference.c",
        "void twice(const double *x, double *y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }\n",
    );
    project.write(
        "kiln.toml",
        "[kernel]\nname = \"twice\"\nsource = \"kernel.c\"\nentry = \"twice\"\n\
         [tunables]\nSTEP = [1, 8]\n\
         [shapes.target]\nN = 5000\n[shapes.other]\nuse = \"sweep\"\nN = 777\n\
         [arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\n\
         y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
         n = { dtype = \"i32\", value = \"N\" }\n\
         [reference]\nc = \"reference.c:twice\"\n[baseline]\nconfig = { STEP = 1 }\n\
         [confirm]\nsamples = 10\nrounds = 2\n",
    );
    let document = project.json(&["tune", "--json", "--shape", "other"], &[0, 1, 4]);
    assert_eq!(document["shape"]["name"], "other", "{document:#}");
    // Another study, not the same one again.
    let document = project.json(&["tune", "--json"], &[0, 1, 4]);
    assert_eq!(document["shape"]["name"], "target", "{document:#}");
    let output = project.run(&["tune", "--shape", "othr"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("its shapes: `target`, `other`"));
    // A recording of it is of that shape, whatever its manifest says.
    let output = project.run(&["studies", "record", "1", "--to", "one.kiln.json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = project.json(&["tune", "--replay", "one.kiln.json", "--json"], &[0, 1, 4]);
    assert_eq!(document["shape"]["name"], "other", "{document:#}");
}

/// Threads that idle while their own kernel runs and burn every core otherwise would make any
/// baseline look slow; each side is frozen while the other is timed.
#[test]
fn a_candidate_cannot_slow_the_baseline() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::new();
    let body = "for (int i = 0; i < n; i++) { float s = x[i]; \
                for (int k = 0; k < 8; k++) s = s * 0.99f + 0.5f; y[i] = s; }";
    let signature = "(const float *x, float *y, int n)";
    project
        .write(
            "kernel.c",
            &format!(
                "#define _GNU_SOURCE\n#include <pthread.h>\n#include <sched.h>\n#include <unistd.h>\n\
                 static volatile int running;\n\
                 static void *burn(void *unused) {{ (void)unused; for (;;) if (running) usleep(100); }}\n\
                 void work{signature} {{\n static int started; running = 1;\n\
                 for (; started < 8; started++) {{ pthread_t t; pthread_create(&t, 0, burn, 0); \
                 cpu_set_t all; CPU_ZERO(&all); for (int c = 0; c < 64; c++) CPU_SET(c, &all); \
                 pthread_setaffinity_np(t, sizeof all, &all); }}\n\
                 {body}\n running = 0; }}\n"
            ),
        )
        .write("baseline.c", &format!("void work_baseline{signature} {{ {body} }}\n"))
        .write(
            "reference.c",
            "void work(const double *x, double *y, int n) { for (int i = 0; i < n; i++) { double s = x[i]; \
             for (int k = 0; k < 8; k++) s = s * 0.99 + 0.5; y[i] = s; } }\n",
        )
        .write(
            "kiln.toml",
            "[kernel]\nname = \"work\"\nsource = \"kernel.c\"\nentry = \"work\"\nflags = [\"-O2\", \"-pthread\"]\n\
             [shapes.target]\nN = 3000000\n\
             [arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\n\
             y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
             n = { dtype = \"i32\", value = \"N\" }\n\
             [reference]\nc = \"reference.c:work\"\n\
             [baseline]\nc = \"baseline.c:work_baseline\"\n\
             [confirm]\nsamples = 20\nrounds = 5\nfinalists = 1\n",
        );
    let output = project.run(&["tune", "--json"]);
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Not who wins: threads that burn may keep a core awake for their own kernel. Beside eight of them the baseline
    // would take several times as long as it did before there was a candidate.
    let alone = said.split("work_baseline: ").nth(1).unwrap();
    let alone_ms: f64 = alone.split(" ms").next().unwrap().parse().unwrap();
    let beside_ms = document["baseline_ms"].as_f64().unwrap();
    assert!(
        beside_ms < 1.5 * alone_ms,
        "{beside_ms} ms beside it, {alone_ms} ms alone"
    );
}

/// Wrong in one call of ten: every timed sample of the confirmation is checked, so it cannot win.
#[test]
fn a_kernel_that_is_wrong_now_and_then_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with("crates/kiln/tests/faults");
    project
        .write(
            "kernel.c",
            "#include <time.h>\n\
             void kernel(const float *x, float *y, int n) {\n\
             for (int i = 0; i < n; i++) y[i] = 2.0f * x[i] + 1.0f;\n\
             struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now);\n\
             if (now.tv_nsec / 7 % 10 == 0) y[FAULT] += 1.0f;\n}\n",
        )
        .replace(
            "baseline.c",
            "for (int i = 0; i < n; i++)",
            "for (int k = 0; k < 20; k++) for (volatile int i = 0; i < n; i++)",
        );
    let manifest = std::fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    let (before, rest) = manifest.split_once("FAULT = [").unwrap();
    let (_, after) = rest.split_once(']').unwrap();
    project.write("kiln.toml", &format!("{before}FAULT = [0, 1, 2]{after}"));
    project.replace("kiln.toml", "samples = 20", "samples = 100");
    let document = project.json(&["tune", "--json"], &[1]);
    assert_eq!(document["success"], false, "{document:#}");
}

/// A right answer kept from an earlier launch and handed out again is not speed.
#[test]
fn a_kernel_that_answers_from_memory_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with("crates/kiln/tests/faults");
    let work = "for (int i = 0; i < n; i++) { float s = x[i]; \
                for (int k = 0; k < 200; k++) s = s * 0.99f + 0.01f; y[i] = s; }";
    project
        .write(
            "kernel.c",
            &format!(
                "#include <string.h>\nstatic float kept[4000], seen[4000]; static int known;\n\
                 void kernel(const float *x, float *y, int n) {{\n\
                 if (known == n && memcmp(seen, x, n * sizeof *x) == 0) {{ memcpy(y, kept, n * sizeof *y); return; }}\n\
                 {work}\n known = n; memcpy(seen, x, n * sizeof *x); memcpy(kept, y, n * sizeof *y);\n\
                 (void)FAULT; }}\n"
            ),
        )
        .write(
            "baseline.c",
            &format!("void baseline(const float *x, float *y, int n) {{ {work} }}\n"),
        )
        .write(
            "reference.c",
            &format!("void reference(const double *x, double *y, int n) {{ {} }}\n", work.replace("float", "double").replace("f ", " ").replace("f;", ";")),
        );
    one_config(&project);
    let document = project.json(&["tune", "--json"], &[1]);
    assert_eq!(document["success"], false, "{document:#}");
    let notes = document["notes"].to_string();
    assert!(notes.contains("it answers from memory"), "{document:#}");
}

/// Leaves a single config in the manifest of the fault kernels.
fn one_config(project: &Project) {
    let manifest = std::fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    let (before, rest) = manifest.split_once("FAULT = [").unwrap();
    let (_, after) = rest.split_once(']').unwrap();
    project.write("kiln.toml", &format!("{before}FAULT = [0]{after}"));
}

#[test]
fn a_task_that_doing_nothing_would_pass_is_refused() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with("crates/kiln/tests/faults");
    project
        .replace("kiln.toml", "role = \"output\"", "role = \"inout\"")
        .write("reference.c", "void reference(const double *x, double *y, int n) { for (int i = 0; i < n; i++) y[i] -= 1e-6 * x[i]; }\n");
    let output = project.run(&["tune"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("a kernel that does nothing would pass"),
        "{said}"
    );
}

#[test]
fn a_source_changed_while_tuning_ends_the_study() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = Project::with_kernels();
    let mut child = project
        .command(&["tune", "kernels/vector_add", "--events"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("trial_finished")));
    project.replace(
        "kernels/vector_add/vector_add.c",
        "#include",
        "/* changed */\n#include",
    );
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("a source file was changed while tuning"),
        "{said}"
    );
}
