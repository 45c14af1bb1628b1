//! Tasks whose check could not tell work from pretence are refused before anything is tuned, with
//! what would pass and what to change. All through the command line.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use common::{Project, text};

/// One kernel `y = f(x)` of `n` elements.
struct Task {
    dtype: &'static str,
    body: &'static str,
    reference: &'static str,
    draw: &'static str,
    more: &'static str,
}

const SOUND: Task = Task {
    dtype: "f32",
    body: "y[i] = 2.0f * x[i] + 1.0f;",
    reference: "y[i] = 2.0 * x[i] + 1.0;",
    draw: "",
    more: "",
};

impl Task {
    fn project(&self) -> Project {
        let project = Project::new();
        let c_type = match self.dtype {
            "f64" => "double",
            "i32" => "int",
            "f16" => "_Float16",
            _ => "float",
        };
        let kernel = |name: &str, number: &str, body: &str| {
            format!(
                "void {name}(const {number} *x, {number} *y, int n) {{ for (int i = 0; i < n; i++) {{ {body} }} }}\n"
            )
        };
        let wide = if self.dtype == "i32" { "int" } else { "double" };
        project
            .write("kernel.c", &kernel("kernel", c_type, self.body))
            .write("baseline.c", &kernel("baseline", c_type, self.body))
            .write("reference.c", &kernel("reference", wide, self.reference))
            .write(
                "kiln.toml",
                &format!(
                    "[kernel]\nsource = \"kernel.c\"\nentry = \"kernel\"\nflags = [\"-O1\", \"-w\"]\n\
                     [tunables]\nUNUSED = [1]\n\
                     [shapes.target]\nN = 4096\n[shapes.small]\nN = 33\n\
                     [arguments]\nx = {{ dtype = \"{0}\", shape = [\"N\"]{1} }}\n\
                     y = {{ dtype = \"{0}\", shape = [\"N\"], role = \"output\" }}\n\
                     n = {{ dtype = \"i32\", value = \"N\" }}\n\
                     [reference]\nc = \"reference.c:reference\"\n[baseline]\nc = \"baseline.c:baseline\"\n\
                     [measure]\nmax_seconds = 0.1\n[confirm]\nsamples = 10\nrounds = 2\n{2}",
                    self.dtype, self.draw, self.more
                ),
            );
        project
    }

    /// Refused by both commands, in these words.
    fn is_refused(&self, words: &[&str]) {
        let project = self.project();
        for arguments in [&["tune"][..], &["check", "--admit"]] {
            let output = project.run(arguments);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            for word in words {
                assert!(said.contains(word), "`{word}` is not in: {said}");
            }
        }
    }

    fn is_admitted(&self) -> String {
        let output = self.project().run(&["check", "--admit"]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(said.contains("admitted"), "{said}");
        said
    }
}

#[test]
fn a_sound_task_is_admitted_and_the_record_says_what_was_tried() {
    let said = SOUND.is_admitted();
    // Results rounded to it, or computing in it: which comes nearer depends on the inputs that were drawn.
    assert!(said.contains("tf32"), "{said}");
    let document = SOUND.project().json(&["tune", "--json"], &[0, 1, 4]);
    let probes = document["admission"]["probes"].as_array().unwrap();
    let tried: Vec<String> = probes.iter().map(|p| p["stand_in"].to_string()).collect();
    for stand_in in [
        "zeros",
        "constant",
        "previous",
        "copy",
        "coarser_output",
        "coarser_inputs",
    ] {
        assert!(
            tried.iter().any(|t| t.contains(stand_in)),
            "{stand_in}: {tried:?}"
        );
    }
}

const SUM: &str = "void sum(const float *x, float *out, int n) {\n    float s = 0;\n    \
    for (int i = 0; i < n; i++) s += x[i];\n    *out = s;\n}\n";

#[test]
fn a_first_manifest_for_a_sum_is_admitted_and_its_own_baseline_passes() {
    let project = Project::new();
    project.write("sum.c", SUM);
    let output = project.run(&["init", "sum.c"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let manifest = fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    assert!(manifest.contains("1e-4 * sqrt(N)"), "{manifest}");
    // Each time on other inputs.
    for _ in 0..3 {
        let output = project.run(&["check", "--admit"]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(said.contains("admitted"), "{said}");
    }
}

/// What stands behind `mark` in a hint, up to the next backquote.
fn hinted<'s>(said: &'s str, mark: &str) -> Option<&'s str> {
    said.split_once(mark)?.1.split('`').next()
}

#[test]
fn hints_about_a_sum_lead_to_a_task_that_is_admitted() {
    let project = Project::new();
    project.write("sum.c", SUM);
    assert!(project.run(&["init", "sum.c"]).status.success());
    let first = fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    let (mut tolerance, mut admits) = (
        "{ rtol = 1e-7, atol = \"1e-7 * sqrt(N)\" }".to_string(),
        String::new(),
    );
    for round in 0..8 {
        let usual = "{ rtol = 1e-4, atol = \"1e-4 * sqrt(N)\" }";
        let manifest = first.replace(usual, &tolerance);
        assert_ne!(manifest, first, "{tolerance}");
        project.write("kiln.toml", &format!("{manifest}\n[tolerance]\n{admits}\n"));
        let output = project.run(&["check", "--admit"]);
        let said = text(&output.stderr);
        if output.status.success() {
            assert!(round > 0, "nothing can be as near as that");
            return;
        }
        tolerance = hinted(&said, "`tolerance = ").expect(&said).to_string();
        if let Some(words) = hinted(&said, "`admits = ") {
            admits = format!("admits = {words}");
        }
    }
    panic!("the hints lead nowhere; the last one was {tolerance} {admits}");
}

#[test]
fn a_tolerance_that_zeros_would_pass_is_refused() {
    let task = Task {
        body: "y[i] = 1e-3f * x[i];",
        reference: "y[i] = 1e-3 * x[i];",
        more: "[tolerance]\nf32 = { rtol = 0.99, atol = 1e-2 }\n",
        ..SOUND
    };
    task.is_refused(&["any kernel that writes zeros would pass", "the tolerance"]);
}

#[test]
fn a_tolerance_that_a_constant_would_pass_is_refused() {
    let task = Task {
        body: "y[i] = 5.0f + 1e-4f * x[i];",
        reference: "y[i] = 5.0 + 1e-4 * x[i];",
        more: "[tolerance]\nf32 = 1e-3\n",
        ..SOUND
    };
    task.is_refused(&[
        "writes one constant",
        "hands out the answer to other inputs",
        "admits = [",
    ]);
}

#[test]
fn nearly_a_copy_is_refused_and_a_copy_to_the_bit_is_not() {
    let nearly = Task {
        body: "y[i] = x[i] + 1e-6f;",
        reference: "y[i] = x[i] + 1e-6;",
        ..SOUND
    };
    nearly.is_refused(&["copies its input `x`", "a right answer needs"]);
    let copy = Task {
        body: "y[i] = x[i];",
        reference: "y[i] = x[i];",
        ..SOUND
    };
    copy.is_admitted();
}

#[test]
fn a_tolerance_for_a_coarser_format_is_refused_with_one_that_tells() {
    let loose = Task {
        more: "[tolerance]\nf32 = 1e-2\n",
        ..SOUND
    };
    loose.is_refused(&[
        "tf32 (or f16)",
        "write `f32 = ",
        "admits = [\"bf16\", \"tf32\"]",
    ]);
    // What the message proposes is admitted.
    let output = loose.project().run(&["check", "--admit"]);
    let said = text(&output.stderr);
    let (_, rest) = said.split_once("write `").unwrap();
    let (line, _) = rest.split_once('`').unwrap();
    let project = SOUND.project();
    let manifest = std::fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    project.write("kiln.toml", &format!("{manifest}[tolerance]\n{line}\n"));
    let output = project.run(&["check", "--admit"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{line}: {}",
        text(&output.stderr)
    );
}

#[test]
fn an_accepted_weakness_is_said_with_the_verdict() {
    let task = Task {
        more: "[tolerance]\nf32 = 1e-2\nadmits = [\"tf32\", \"bf16\"]\n",
        ..SOUND
    };
    let document = task.project().json(&["tune", "--json"], &[0, 1, 4]);
    let notes = document["notes"].to_string();
    assert!(notes.contains("which the manifest accepts"), "{notes}");
    assert_eq!(
        document["admission"]["accepted"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn an_accepted_weakness_is_said_of_several_shapes_and_of_a_package() {
    let project = Task {
        more: "[tolerance]\nf32 = 1e-2\nadmits = [\"tf32\", \"bf16\"]\n",
        ..SOUND
    }
    .project();
    let said = text(&project.run(&["tune", "--shapes", "target,small"]).stdout);
    let note = "the check does not tell tf32, bf16, which the manifest accepts";
    assert_eq!(said.matches(note).count(), 1, "{said}");
    let out = ["--to", "json", "--out", "package", "--unconfirmed"];
    let exported = project.run(&[&["export"], &out[..]].concat());
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let said = text(&project.run(&["verify", "package", "--answers"]).stdout);
    assert!(
        said.contains("need not tell tf32, bf16, which the manifest accepts"),
        "{said}"
    );
    let document = project.json(&["verify", "package", "--answers", "--json"], &[0]);
    assert_eq!(document["admits"].to_string(), "[\"tf32\",\"bf16\"]");
}

#[test]
fn the_default_for_f16_tells_bf16() {
    let half = Task {
        dtype: "f16",
        body: "y[i] = (_Float16)(2.0f * (float)x[i] + 1.0f);",
        ..SOUND
    };
    half.is_admitted();
    let loose = Task {
        more: "[tolerance]\nf16 = 5e-3\n",
        ..half
    };
    loose.is_refused(&["bf16", "write `f16 = "]);
}

/// Small integers are the same in every format: no tolerance could tell, so nothing is refused.
#[test]
fn what_cannot_be_told_in_principle_is_said_and_not_refused() {
    let task = Task {
        body: "y[i] = x[i] * 2.0f;",
        reference: "y[i] = x[i] * 2.0;",
        draw: ", draw = \"integers\"",
        ..SOUND
    };
    let said = task.is_admitted();
    assert!(said.contains("cannot tell a kernel that"), "{said}");
}

#[test]
fn integers_are_exact() {
    let task = Task {
        dtype: "i32",
        body: "y[i] = 3 * x[i] + 1;",
        reference: "y[i] = 3 * x[i] + 1;",
        ..SOUND
    };
    task.is_admitted();
}

#[test]
fn inputs_that_never_change_are_refused_unless_accepted() {
    let fixed = Task {
        draw: ", draw = \"iota\"",
        ..SOUND
    };
    fixed.is_refused(&[
        "answer to other inputs",
        "the same each time",
        "admits = [\"previous\"]",
    ]);
    let accepted = Task {
        more: "[tolerance]\nadmits = [\"previous\"]\n",
        ..fixed
    };
    accepted.is_admitted();
}

#[test]
fn a_tolerance_no_kernel_can_meet_is_refused() {
    let task = Task {
        more: "[tolerance]\nf32 = 1e-9\n",
        ..SOUND
    };
    task.is_refused(&["no kernel can pass", "as f32"]);
}

#[test]
fn every_kernel_that_ships_for_a_cpu_is_admitted() {
    let project = Project::with_kernels();
    for kernel in ["vector_add", "matmul_cpu", "attention_cpu"] {
        let output = project.run(&["check", &format!("kernels/{kernel}"), "--admit"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{kernel}: {}",
            text(&output.stderr)
        );
    }
}

/// A stencil that leaves its borders alone, as most do.
#[test]
fn a_reference_that_leaves_elements_unwritten_is_refused_as_such() {
    for (dtype, literal) in [("f32", "2.0"), ("i32", "2")] {
        let body = format!("if (i > 0 && i < n - 1) y[i] = {literal} * x[i];");
        let task = Task {
            dtype,
            body: body.clone().leak(),
            reference: body.leak(),
            ..SOUND
        };
        task.is_refused(&[
            "shape `small`: the reference never writes 2 of 33 elements of `y`, first at [0]",
            "smaller `shape`",
            "role = \"inout\"",
        ]);
    }
}

#[test]
fn a_reference_that_adds_to_what_memory_held_is_refused_as_such() {
    let task = Task {
        dtype: "i32",
        body: "y[i] += x[i];",
        reference: "y[i] += x[i];",
        ..SOUND
    };
    task.is_refused(&[
        "33 of 33 elements of the reference's `y`, first at [0], change with what was in memory",
        "role = \"inout\"",
    ]);
}

/// A baseline is timed, and would disturb who measures on the same cores.
/// By one element, where the rest of a cache line is there to be read.
#[test]
fn a_reference_that_reads_past_an_input_is_refused_as_such() {
    for dtype in ["f32", "f64"] {
        let task = Task {
            dtype,
            body: "y[i] = x[i] + x[i + 1];",
            reference: "y[i] = x[i] + x[i + 1];",
            ..SOUND
        };
        task.is_refused(&[
            "shape `small`: 1 of 33 elements of the reference's `y`, first at [32], change with what was in memory",
            "does it read past the end of an input?",
        ]);
    }
}

#[test]
fn a_baseline_waits_for_its_turn() {
    let project = SOUND.project();
    fs::create_dir_all(&project.home).unwrap();
    let permissions = fs::Permissions::from_mode(0o700);
    fs::set_permissions(&project.home, permissions).unwrap();
    let lock = File::create(project.home.join("cpu.lock")).unwrap();
    lock.lock().unwrap();
    let mut check = project
        .command(&["check", "--admit"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(check.stderr.take().unwrap()).lines();
    let waits = said.find(|line| {
        let line = line.as_ref().unwrap();
        line.contains("another kiln is measuring")
    });
    assert!(waits.is_some(), "it timed the baseline beside another kiln");
    assert!(check.try_wait().unwrap().is_none(), "it waits");
    drop(lock);
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    assert!(check.wait().unwrap().success(), "{rest:?}");
}
