//! Kernels that pass the search and must not win: right on the manifest's shapes only, right most of
//! the time, fast from memory. And honest ones beside them, which must.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Mutex;

use common::{Project, text};
use serde_json::Value;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Some work per element, so that cheating would pay.
const WORK: &str = "float s = x[i]; for (int k = 0; k < 60; k++) s = s * 0.99f + 0.01f; y[i] = s;";

fn project(kernel: &str, shapes: &str, more: &str) -> Project {
    let project = Project::new();
    let wide = WORK
        .replace("float", "double")
        .replace("f ", " ")
        .replace("f;", ";");
    project
        .write("kernel.c", kernel)
        .write(
            "baseline.c",
            &format!("void baseline(const float *x, float *y, int n) {{ for (int i = 0; i < n; i++) {{ {WORK} }} }}\n"),
        )
        .write(
            "reference.c",
            &format!("void reference(const double *x, double *y, int n) {{ for (int i = 0; i < n; i++) {{ {wide} }} }}\n"),
        )
        .write(
            "kiln.toml",
            &format!(
                "[kernel]\nsource = \"kernel.c\"\nentry = \"kernel\"\nflags = [\"-O2\", \"-w\"]\n{shapes}\n\
                 [arguments]\nx = {{ dtype = \"f32\", shape = [\"N\"] }}\n\
                 y = {{ dtype = \"f32\", shape = [\"N\"], role = \"output\" }}\n\
                 n = {{ dtype = \"i32\", value = \"N\" }}\n\
                 [reference]\nc = \"reference.c:reference\"\n[baseline]\nc = \"baseline.c:baseline\"\n\
                 [budget]\nhopeless_below = 0.0\n[measure]\nmax_seconds = 0.2\n\
                 [confirm]\nsamples = 20\nrounds = 2\n{more}"
            ),
        );
    project
}

const SHAPES: &str =
    "[shapes.target]\nN = 6000\n[shapes.small]\nN = 7\n[shapes.middle]\nN = 1000\n";

fn tuned(project: &Project) -> Value {
    project.json(&["tune", "--json"], &[0, 1, 4])
}

fn honest() -> String {
    format!(
        "void kernel(const float *x, float *y, int n) {{ for (int i = 0; i < n; i++) {{ {WORK} }} }}\n"
    )
}

#[test]
fn an_honest_kernel_is_accepted_and_the_record_says_where() {
    let _turn = ONE_AT_A_TIME.lock();
    let project = project(&honest(), SHAPES, "");
    let document = tuned(&project);
    let acceptance = &document["acceptance"];
    let unseen = acceptance["unseen"].as_array().unwrap();
    assert_eq!(unseen.len(), 3, "{document:#}");
    let sizes: Vec<i64> = unseen
        .iter()
        .map(|shape| shape["dimensions"][0][1].as_i64().unwrap())
        .collect();
    assert!(
        sizes
            .iter()
            .all(|n| (7..6000).contains(n) && ![7, 1000].contains(n)),
        "{sizes:?}"
    );
    assert!(sizes[0] > 5990, "the first is near the target: {sizes:?}");
    assert_eq!(acceptance["repeats"]["differing"], 0);
    assert_eq!(acceptance["repeats"]["launches"], 20);
    assert!(acceptance["fresh_inputs"]["fresh_ns"].as_f64() > Some(0.0));
    assert_eq!(
        document["writable_globals"].as_array().map(Vec::len),
        Some(0)
    );
    let table = text(&project.run(&["studies", "show"]).stdout);
    assert!(table.contains("right on 3 unseen shapes"), "{table}");
}

/// Right on every shape of the manifest, and nowhere else.
#[test]
fn a_kernel_for_the_manifests_shapes_only_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let cheat = format!(
        "void kernel(const float *x, float *y, int n) {{ int known = n == 6000 || n == 7 || n == 1000;\n\
         for (int i = 0; i < n; i++) {{ if (known) {{ {WORK} }} else y[i] = x[i]; }} }}\n"
    );
    let document = tuned(&project(&cheat, SHAPES, ""));
    assert_eq!(document["verdict"], Value::Null, "{document:#}");
    let notes = document["notes"].to_string();
    for word in [
        "wrong result on shape `unseen N=",
        "narrow `domain`",
        "unseen_shapes = 0",
    ] {
        assert!(notes.contains(word), "`{word}` is not in {notes}");
    }
}

/// Wrong near the target only, where its own shapes are not.
#[test]
fn a_kernel_that_is_wrong_beside_the_target_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let cheat = format!(
        "void kernel(const float *x, float *y, int n) {{ int m = n > 5000 ? n & ~7 : n;\n\
         for (int i = 0; i < m; i++) {{ {WORK} }} for (int i = m; i < n; i++) y[i] = 0; }}\n"
    );
    let document = tuned(&project(&cheat, SHAPES, ""));
    assert_eq!(document["verdict"], Value::Null, "{document:#}");
}

/// A kernel for multiples of eight is honest where its manifest says so.
#[test]
fn a_kernel_for_multiples_of_eight_can_say_so() {
    let _turn = ONE_AT_A_TIME.lock();
    let eights = format!(
        "void kernel(const float *x, float *y, int n) {{ for (int i = 0; i < n / 8 * 8; i++) {{ {WORK} }} }}\n"
    );
    let by_shapes = "[shapes.target]\nN = 6000\n[shapes.small]\nN = 8\n[shapes.middle]\nN = 1000\n";
    let document = tuned(&project(&eights, by_shapes, ""));
    assert!(document["verdict"].is_string(), "{document:#}");
    let by_constraint = format!("[constraints]\neights = \"N % 8 == 0\"\n{SHAPES}");
    let document = tuned(&project(&eights, &by_constraint, ""));
    assert!(document["verdict"].is_string(), "{document:#}");
    assert_eq!(
        document["acceptance"]["unseen"].as_array().map(Vec::len),
        Some(3)
    );
    let one = "[shapes.target]\nN = 6000\n";
    let document = tuned(&project(
        &eights,
        one,
        "domain = { N = { from = 80, step = 8 } }\n",
    ));
    assert_eq!(
        document["acceptance"]["unseen"].as_array().map(Vec::len),
        Some(3)
    );
    let document = tuned(&project(&eights, one, ""));
    let notes = document["notes"].to_string();
    assert!(notes.contains("on the manifest's shapes only"), "{notes}");
}

/// Not the same bits each time, within tolerance: said, not refused.
#[test]
fn a_nondeterministic_kernel_is_flagged() {
    let _turn = ONE_AT_A_TIME.lock();
    let kernel = format!(
        "#include <time.h>\nvoid kernel(const float *x, float *y, int n) {{\n\
         struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); float wobble = (now.tv_nsec / 64 % 5) * 1e-7f;\n\
         for (int i = 0; i < n; i++) {{ {WORK} y[i] += wobble * y[i]; }} }}\n"
    );
    let document = tuned(&project(&kernel, SHAPES, ""));
    let repeats = &document["acceptance"]["repeats"];
    assert!(repeats["differing"].as_u64() > Some(0), "{document:#}");
    let notes = document["notes"].to_string();
    assert!(notes.contains("nondeterministic"), "{notes}");
}

/// Wrong in one launch of many; no timing would show it.
#[test]
fn a_kernel_that_is_seldom_wrong_is_refused() {
    let _turn = ONE_AT_A_TIME.lock();
    let kernel = format!(
        "#include <time.h>\nvoid kernel(const float *x, float *y, int n) {{\n\
         struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now);\n\
         for (int i = 0; i < n; i++) {{ {WORK} }} if (now.tv_nsec / 64 % 23 == 0) y[n / 2] += 0.5f; }}\n"
    );
    let document = tuned(&project(&kernel, SHAPES, "repeats = 300\n"));
    assert_eq!(document["verdict"], Value::Null, "{document:#}");
}

/// An answer kept in a variable, handed out when the input looks the same.
#[test]
fn kept_answers_lose_and_their_variables_are_named() {
    let _turn = ONE_AT_A_TIME.lock();
    let cheat = format!(
        "#include <string.h>\nstatic float kept[6000], first, last; static int known;\n\
         void kernel(const float *x, float *y, int n) {{\n\
         if (known == n && x[0] == first && x[n - 1] == last) {{ memcpy(y, kept, n * sizeof *y); return; }}\n\
         for (int i = 0; i < n; i++) {{ {WORK} }}\n\
         known = n; first = x[0]; last = x[n - 1]; memcpy(kept, y, n * sizeof *y); }}\n"
    );
    let project = project(&cheat, SHAPES, "");
    let document = tuned(&project);
    assert_ne!(document["verdict"], "FASTER", "{document:#}");
    let trials = project.run(&["tune", "--events", "--fresh"]);
    let trials = common::finished_trials(&trials.stdout);
    let writable = trials[0]["compile"]["writable"].to_string();
    assert!(
        writable.contains("kept") && writable.contains("24000"),
        "{writable}"
    );
}

/// A variable by itself is no crime.
#[test]
fn a_counter_is_flagged_and_not_refused() {
    let _turn = ONE_AT_A_TIME.lock();
    let kernel = honest().replace("{ for", "{ static volatile long calls; calls++; for");
    let document = tuned(&project(&kernel, SHAPES, ""));
    assert!(document["verdict"].is_string(), "{document:#}");
    let notes = document["notes"].to_string();
    assert!(
        notes.contains("variables that outlive a launch: `calls"),
        "{notes}"
    );
}

/// Whatever it finds there, and whether it uses it or not.
#[test]
fn a_kernel_that_reads_past_an_array_of_its_own_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let kernel = format!(
        "void kernel(const float *x, float *y, int n) {{ float pad[4] = {{0}}; volatile int k = n > 100 ? 4 : 3;\n\
         volatile float sink = pad[k]; for (int i = 0; i < n; i++) {{ {WORK} }} }}\n"
    );
    let document = tuned(&project(&kernel, SHAPES, ""));
    assert_eq!(document["verdict"], Value::Null, "{document:#}");
    let notes = document["notes"].to_string();
    assert!(
        notes.contains("the compiler's bounds found 1 on shape"),
        "{notes}"
    );
}

/// A pointer does not know the size of its array, and behind this one lies nothing of importance.
#[test]
fn a_kernel_that_steps_past_its_own_array_by_a_pointer_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let kernel = format!(
        "__attribute__((noinline)) void mark(volatile float *at, int k) {{ at[k] = 1; }}\n\
         void kernel(const float *x, float *y, int n) {{ volatile float pad[9]; mark(pad, n > 100 ? 9 : 8);\n\
         for (int i = 0; i < n; i++) {{ {WORK} }} }}\n"
    );
    let document = tuned(&project(&kernel, SHAPES, ""));
    assert_eq!(document["verdict"], Value::Null, "{document:#}");
    let notes = document["notes"].to_string();
    let found = "the compiler's addresses found 1 on shape";
    assert!(notes.contains(found), "{notes}");
    assert!(
        notes.contains("stack-buffer-overflow beside `pad`"),
        "{notes}"
    );
}

/// The system hands zeros to a new thread; a pool of threads does not.
#[test]
fn a_kernel_that_trusts_the_stack_of_a_new_thread_to_be_zero_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let threaded = |start: &str| {
        format!(
            "#include <pthread.h>\nstruct job {{ const float *x; float *y; int n; }};\n\
             static void *work(void *given) {{ struct job *job = given; volatile float part[4096]; {start}\n\
             const float *x = job->x; float *y = job->y; for (int i = 0; i < job->n; i++) {{ {WORK} y[i] += part[i % 4096]; }}\n\
             return 0; }}\n\
             void kernel(const float *x, float *y, int n) {{ struct job job = {{x, y, n}}; pthread_t thread;\n\
             if (pthread_create(&thread, 0, work, &job) == 0) pthread_join(thread, 0); else work(&job); }}\n"
        )
    };
    let cheat = tuned(&project(&threaded(""), SHAPES, ""));
    assert_eq!(cheat["verdict"], Value::Null, "{cheat:#}");
    let honest = threaded("for (int k = 0; k < 4096; k++) part[k] = 0;");
    let honest = tuned(&project(&honest, SHAPES, ""));
    assert!(honest["verdict"].is_string(), "{honest:#}");
    assert_eq!(
        honest["acceptance"]["sanitizer"]["ran"]["tools"][1]["result"], "clean",
        "{honest:#}"
    );
}

/// A fresh process has zeros where nobody has written; a program that has run for a while has not.
#[test]
fn a_kernel_that_trusts_fresh_memory_to_be_zero_is_wrong() {
    let _turn = ONE_AT_A_TIME.lock();
    let kernel = format!(
        "#include <stdlib.h>\nvoid kernel(const float *x, float *y, int n) {{ float *nothing = malloc(4096);\n\
         for (int i = 0; i < n; i++) {{ {WORK} y[i] += nothing[i % 1024]; }} free(nothing); }}\n"
    );
    let document = tuned(&project(&kernel, SHAPES, ""));
    assert_eq!(document["verdict"], Value::Null, "{document:#}");
}

/// What it finds decides the last bits only, and every answer is right.
#[test]
fn a_kernel_whose_answer_follows_what_nobody_has_written_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let kernel = |start: &str| {
        format!(
            "void kernel(const float *x, float *y, int n) {{ volatile float found[64]; {start}\n\
             for (int i = 0; i < n; i++) {{ {WORK} if (found[i % 64] > 0) y[i] *= 1.0000005f; }} }}\n"
        )
    };
    let document = tuned(&project(&kernel(""), SHAPES, ""));
    assert_eq!(document["verdict"], Value::Null, "{document:#}");
    let notes = document["notes"].to_string();
    assert!(notes.contains("kiln's leftovers found 1"), "{notes}");
    let honest = kernel("for (int k = 0; k < 64; k++) found[k] = k % 3;");
    let document = tuned(&project(&honest, SHAPES, ""));
    assert!(document["verdict"].is_string(), "{document:#}");
}

/// No shape of the manifest is one longer than a tile, and hardly any drawn one.
#[test]
fn a_kernel_that_is_wrong_at_the_edge_of_a_tile_never_wins() {
    let _turn = ONE_AT_A_TIME.lock();
    let kernel = format!(
        "#ifndef TILE\n#define TILE 64\n#endif\n\
         void kernel(const float *x, float *y, int n) {{ int m = n == TILE + 1 ? TILE : n;\n\
         for (int i = 0; i < m; i++) {{ {WORK} }} for (int i = m; i < n; i++) y[i] = 0; }}\n"
    );
    let shapes = format!("[tunables]\nTILE = [64, 96]\n{SHAPES}");
    let document = tuned(&project(&kernel, &shapes, ""));
    assert_eq!(document["verdict"], Value::Null, "{document:#}");
    let notes = document["notes"].to_string();
    let edges = ["unseen N=65", "unseen N=97"];
    assert!(edges.iter().any(|e| notes.contains(e)), "{notes}");
}

/// Rows at a pitch: nothing but the reference knows that a pitch below the width is no shape.
fn pitched(confirm: &str) -> Project {
    let project = Project::new();
    let sum = |name: &str| {
        format!(
            "void {name}(long rows, long cols, long stride, const short *a, long *sum) {{\n\
             for (long r = 0; r < rows; r++) {{ long s = 0; for (long c = 0; c < cols; c++) s += a[r * stride + c];\n\
             sum[r] = s; }} }}\n"
        )
    };
    project
        .write("kernel.c", &sum("kernel"))
        .write("baseline.c", &sum("baseline"))
        .write("reference.c", &sum("reference"))
        .write(
            "kiln.toml",
            &format!(
                "[kernel]\nsource = \"kernel.c\"\nentry = \"kernel\"\n\
                 [shapes.target]\nROWS = 30\nCOLS = 4093\nSTRIDE = 4100\n[shapes.tiny]\nROWS = 17\nCOLS = 33\nSTRIDE = 33\n\
                 [arguments]\nrows = {{ dtype = \"i64\", value = \"ROWS\" }}\ncols = {{ dtype = \"i64\", value = \"COLS\" }}\n\
                 stride = {{ dtype = \"i64\", value = \"STRIDE\" }}\n\
                 a = {{ dtype = \"i16\", shape = [\"ROWS\", \"STRIDE\"] }}\n\
                 sum = {{ dtype = \"i64\", shape = [\"ROWS\"], role = \"output\" }}\n\
                 [reference]\nc = \"reference.c:reference\"\n[baseline]\nc = \"baseline.c:baseline\"\n\
                 [measure]\nmax_seconds = 0.1\n[confirm]\nsamples = 10\nrounds = 2\nsanitize = \"off\"\nunseen_shapes = 12\n{confirm}"
            ),
        );
    project
}

#[test]
fn a_width_never_exceeds_the_pitch_of_an_unseen_shape() {
    let _turn = ONE_AT_A_TIME.lock();
    let document = tuned(&pitched(""));
    let unseen = document["acceptance"]["unseen"].as_array().unwrap();
    assert!(unseen.len() >= 12, "{document:#}");
    for shape in unseen {
        let size = |at: usize| shape["dimensions"][at][1].as_i64().unwrap();
        assert!(size(1) <= size(2), "{shape}");
    }
}

/// Here the author's own word lets the pitch fall below the width. Often the reference then meets a guard page.
#[test]
fn a_reference_that_fails_on_a_made_up_shape_points_at_the_constraints() {
    let _turn = ONE_AT_A_TIME.lock();
    blamed_on_the_shape("STRIDE = { from = 1, to = 32 }");
}

/// One element too far, which is before the guard page: the reference has an answer, and no kernel another time the same.
#[test]
fn a_reference_that_reads_a_little_outside_on_a_made_up_shape_points_at_the_constraints() {
    let _turn = ONE_AT_A_TIME.lock();
    blamed_on_the_shape(
        "ROWS = { from = 3, to = 3 }, COLS = { from = 4, to = 4 }, STRIDE = { from = 3, to = 3 }",
    );
}

fn blamed_on_the_shape(domain: &str) {
    let output = pitched(&format!("domain = {{ {domain} }}\n")).run(&["tune"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let error = said.split("error: ").nth(1).unwrap();
    let first = error.lines().next().unwrap();
    let fails = first.starts_with("the reference failed on shape `unseen ROWS=");
    let reads = first.starts_with("shape `unseen ROWS=") && first.contains("what was in memory");
    assert!(fails || reads, "{said}");
    let hints: Vec<&str> = error.lines().filter(|l| l.starts_with("hint: ")).collect();
    assert!(
        hints[0].contains("[constraints]") && hints[0].contains("`domain`"),
        "{said}"
    );
    let last = hints.last().unwrap();
    assert!(
        last.contains("debugger") || last.contains("past the end of an input"),
        "{said}"
    );
}
