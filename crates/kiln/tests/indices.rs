//! Integers that choose elements of other buffers: drawn from what stays inside, guessed by `kiln init`, and asked about
//! where something reads outside.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{Project, accepted, refused, text};

/// `y[i] += values[i] * x[cols[i]]`, with `COLUMN` in the kernel's place of `cols[i]`.
fn sparse(column: &str, draw: &str) -> Project {
    let project = Project::new();
    let body = |float: &str, column: &str| {
        format!(
            "void gather(const {float} *values, const int *cols, const {float} *x, {float} *y, int n) {{\n\
             for (int i = 0; i < n; i++) y[i] = values[i] * x[{column}];\n}}\n"
        )
    };
    project
        .write("gather.c", &body("float", column))
        .write("baseline.c", &body("float", "cols[i]"))
        .write("reference.c", &body("double", "cols[i]"))
        .write(
            "kiln.toml",
            &format!(
                "[kernel]\nsource = \"gather.c\"\nentry = \"gather\"\nflags = [\"-O2\"]\n\
                 [shapes.target]\nNNZ = 3000\nNCOLS = 1000\n[shapes.tiny]\nNNZ = 33\nNCOLS = 9\n\
                 [arguments]\nvalues = {{ dtype = \"f32\", shape = [\"NNZ\"] }}\n\
                 cols = {{ dtype = \"i32\", shape = [\"NNZ\"]{draw} }}\n\
                 x = {{ dtype = \"f32\", shape = [\"NCOLS\"] }}\n\
                 y = {{ dtype = \"f32\", shape = [\"NNZ\"], role = \"output\" }}\n\
                 n = {{ dtype = \"i32\", value = \"NNZ\" }}\n\
                 [tunables]\nUNROLL = [1, 2]\n\
                 [reference]\nc = \"reference.c:gather\"\n[baseline]\nc = \"baseline.c:gather\"\n\
                 [budget]\ntrials = 2\nhopeless_below = 0.0\n[confirm]\nsamples = 10\nrounds = 2\n"
            ),
        );
    project
}

const INSIDE: &str = ", draw = { kind = \"integers\", low = 0, high = \"NCOLS - 1\" }";

#[test]
fn a_range_over_dimensions_is_shown_and_drawn_from() {
    let project = sparse("cols[i]", INSIDE);
    let said = accepted(&project, &["check", "--admit"]);
    assert!(
        said.contains(
            "`cols` is drawn from integers 0 to NCOLS - 1: 0 to 999 on `target`, 0 to 8 on `tiny`"
        ),
        "{said}"
    );
    let document = project.json(&["check", "--json"], &[0]);
    assert_eq!(document["draws"][0]["argument"], "cols");
    assert_eq!(document["draws"][0]["shapes"][0]["high"], 999);
}

/// On indices up to 8 this one is right.
#[test]
fn a_kernel_that_keeps_eight_bits_of_an_index_is_wrong() {
    let project = sparse("(unsigned char)cols[i]", INSIDE);
    let trials = project.trials(&["tune", "--events", "--seed", "1"], &[0, 1, 4]);
    assert!(!trials.is_empty());
    for trial in &trials {
        assert_eq!(trial["outcome"]["kind"], "wrong", "{trial}");
    }
}

#[test]
fn another_range_is_another_task() {
    let project = sparse("cols[i]", INSIDE);
    let identity = || {
        let output = project.run(&["tune", "--events", "--seed", "1", "--fresh"]);
        let events = text(&output.stdout);
        let started = events.lines().next().unwrap_or_default().to_string();
        let started: serde_json::Value = serde_json::from_str(&started).unwrap();
        started["identity"]["manifest"].to_string()
    };
    let first = identity();
    assert_ne!(first, "null");
    assert_eq!(first, identity());
    project.replace("kiln.toml", "NCOLS - 1\"", "NCOLS - 2\"");
    assert_ne!(first, identity());
}

#[test]
fn a_reference_that_reads_outside_asks_about_indices() {
    // Far outside: a page beside the buffer is not enough.
    let project = sparse("cols[i]", "");
    project
        .replace("reference.c", "x[cols[i]]", "x[cols[i] * 100000L]")
        .replace("baseline.c", "x[cols[i]]", "x[cols[i] * 100000L]");
    let said = refused(&project, &["check", "--admit"], 2);
    assert!(
        said.contains("is `cols` used as an index? it is drawn from -8 to 8"),
        "{said}"
    );
    assert!(said.contains("high = \"NNZ - 1\""), "{said}");
}

#[test]
fn what_init_guesses_of_indices_can_be_tuned() {
    let project = Project::new();
    project.write(
        "embed.c",
        "void embed(const float *table, const int *idx, float *out, int n, int d) {\n\
         for (int i = 0; i < n; i++) for (int j = 0; j < d; j++) out[i*d+j] = table[idx[i]*d+j];\n}\n",
    );
    accepted(&project, &["init", "embed.c"]);
    let manifest = fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    assert!(
        manifest.contains("draw = { kind = \"integers\", low = 0, high = \"N - 1\" } }  # fill in: the values it may hold"),
        "{manifest}"
    );
    accepted(&project, &["check", "--admit"]);
}

/// Where the size cannot be seen, nothing goes on before the author has said something.
#[test]
fn indices_that_init_cannot_bound_stop_at_the_reference() {
    let project = Project::new();
    project.write(
        "spmv.c",
        "void spmv(const int *rowptr, const int *cols, const float *vals, const float *x, float *y, int nrows) {\n\
         for (int r = 0; r < nrows; r++) { float s = 0;\n\
         for (int k = rowptr[r]; k < rowptr[r + 1]; k++) s += vals[k] * x[cols[k]];\n y[r] = s; }\n}\n",
    );
    accepted(&project, &["init", "spmv.c"]);
    let said = refused(&project, &["check", "--admit"], 2);
    assert!(said.contains("is `rowptr` used as an index?"), "{said}");
}

/// A running sum of a million floats is off by more than a short one: that is not the function's mistake.
#[test]
fn a_baseline_that_only_rounds_is_told_about_tolerance() {
    let project = Project::new();
    project.write(
        "cumsum.c",
        "void cumsum(const float *x, float *y, int n) {\n  float s = 0;\n\
         for (int i = 0; i < n; i++) { s += x[i]; y[i] = s; }\n}\n",
    );
    accepted(&project, &["init", "cumsum.c"]);
    // Sums of numbers above zero grow, and every one of them is rounded: no seed comes near this tolerance.
    project.replace(
        "kiln.toml",
        "x = { dtype = \"f32\", shape = [\"N\"]",
        "x = { dtype = \"f32\", shape = [\"N\"], draw = \"uniform\"",
    );
    let manifest = fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    project.write(
        "kiln.toml",
        &format!("{manifest}\n[tolerance]\nf32 = 1e-6\nadmits = [\"tf32\", \"bf16\"]\n"),
    );
    let said = refused(&project, &["check", "--admit"], 2);
    assert!(said.contains("the baseline is not usable"), "{said}");
    assert!(said.contains("in [tolerance]"), "{said}");
    assert!(said.contains("rounding in `f32`"), "{said}");
    // What is suggested is enough for what was seen, and not more than that by far.
    let suggested = said.split("e.g. `f32 = ").nth(1).unwrap();
    let suggested: f64 = suggested.split('`').next().unwrap().parse().unwrap();
    assert!((1e-6..1e-4).contains(&suggested), "{said}");

    // One element of a thousand is no rounding, however little it is of the whole.
    let wrong = fs::read_to_string(project.root.join("baseline.c")).unwrap();
    let wrong = wrong.replace("y[i] = s;", "y[i] = i == 3 ? s * 1.1f : s;");
    project.write("baseline.c", &wrong);
    let said = refused(&project, &["check", "--admit"], 2);
    assert!(said.contains("the baseline is not usable"), "{said}");
    assert!(!said.contains("rounding"), "{said}");
}
