//! What calls of a torch package do beside launching: results written back, gradients, names, sizes and types. Where there
//! is no PyTorch only the exports are looked at.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

use common::{Project, text};
use serde_json::json;

/// A kernel in C with one tunable, its manifest's other tables and its fallback in Python.
fn project(kernel: &str, manifest: &str, python: &str) -> Project {
    let project = Project::new();
    project.write("kernel.c", kernel);
    project.write("reference.py", python);
    let rest = "[tunables]\nU = [1, 2]\n[baseline]\nconfig = { U = 1 }\n";
    project.write(
        "kiln.toml",
        &format!("[kernel]\nsource = \"kernel.c\"\nentry = \"kern\"\n{manifest}\n{rest}"),
    );
    let winners = json!([{"shape": "target", "config": {"U": 2}, "ratio": 1.5, "ratio_ci_95": [1.4, 1.6],
                          "device": "test", "date": "2026-11-16"}]);
    project.write("winners.json", &winners.to_string());
    project
}

fn export(project: &Project, more: &[&str]) -> Output {
    let arguments = ["export", "--winners", "winners.json", "--manifest", "."];
    project.run(&[&arguments[..], &["--to", "torch"], more].concat())
}

fn exported(project: &Project) {
    let output = export(project, &["--out", "module"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn python() -> String {
    std::env::var("KILN_PYTHON").unwrap_or_else(|_| "python3".into())
}

/// Runs a part of `check_torch_calls.py` on the package; says so where there is no PyTorch.
fn check(project: &Project, what: &[&str]) {
    static HAS_TORCH: LazyLock<bool> = LazyLock::new(|| {
        let found = Command::new(python()).args(["-c", "import torch"]).output();
        found.is_ok_and(|o| o.status.success())
    });
    if !*HAS_TORCH {
        eprintln!("skipped: `{}` has no PyTorch", python());
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/check_torch_calls.py");
    let output = Command::new(python())
        .args(["-B".as_ref(), script.as_os_str(), what[0].as_ref()])
        .arg(project.root.join("module"))
        .args(&what[1..])
        .output()
        .unwrap();
    let told = text(&output.stdout);
    let failed = text(&output.stderr);
    assert!(told.ends_with("all as expected\n"), "{told}\n{failed}");
}

const STEP: &str = "void kern(const float *x, float *state, float *y, float a, int n) {\n\
    for (int i = 0; i < n; i++) { state[i] += 1.0f; y[i] = a * x[i] + 10 * state[i]; }\n}\n";

const STEP_MANIFEST: &str = r#"
name = "step"
[constraints]
eight = "N % 8 == 0"
[shapes.target]
N = 1000
[arguments]
x = { dtype = "f32", shape = ["N"] }
state = { dtype = "f32", shape = ["N"], role = "inout" }
y = { dtype = "f32", shape = ["N"], role = "output" }
a = { dtype = "f32", value = 1.5 }
n = { dtype = "i32", value = "N" }
[reference]
python = "reference.py:step"
"#;

fn step(python: &str) -> Project {
    project(STEP, STEP_MANIFEST, python)
}

const STEPS: [&str; 4] = [
    "def step(x, state, a):\n    state = state + 1\n    return state, a * x + 10 * state\n",
    "def step(x, state, a, n):\n    state += 1\n    return a * x[:n] + 10 * state\n",
    "def step(x, state, y, a):\n    state += 1\n    y[:] = a * x + 10 * state\n",
    "def step(**all):\n    s = all['state'] + 1\n    return {'y': all['a'] * all['x'] + 10 * s, 'state': s}\n",
];

#[test]
fn what_a_kernel_writes_is_what_its_fallback_writes() {
    // The package reads its fallback when it needs it: one export serves all of them.
    let project = step(STEPS[1]);
    exported(&project);
    for python in STEPS {
        project.write("module/source/reference.py", python);
        check(&project, &["written"]);
    }
}

#[test]
fn autograd_notices_what_is_written_in_place() {
    let project = step(STEPS[0]);
    exported(&project);
    check(&project, &["version"]);
}

#[test]
fn results_that_are_not_the_kernels_are_refused() {
    let project = step(STEPS[0]);
    exported(&project);
    for (python, said) in [
        (
            "def step(x, state, a):\n    return x, x, x\n",
            "returned 3 values",
        ),
        (
            "def step(x, state, a):\n    return {'z': x}\n",
            "returned `z`, which is no output",
        ),
        (
            "def step(x, state, a):\n    return None\n",
            "returned nothing for `y`",
        ),
        (
            "def step(x, state, a):\n    return state + 1, x[:1]\n",
            "gave `y` the shape [1], expected [13]",
        ),
    ] {
        project.write("module/source/reference.py", python);
        check(&project, &["results", said]);
    }
}

#[test]
fn a_fallback_that_no_call_can_serve_is_refused() {
    let project = step("def step(x, state, a, weights, more=1):\n    return state, x\n");
    let output = export(&project, &["--out", "module"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("`step` cannot be the fallback of a package: it has a parameter `weights`"),
        "{said}"
    );
    assert!(
        said.contains("hint: a fallback may take `x`, `state`, `y`, `a`, `n`, `N`"),
        "{said}"
    );
    assert!(!project.root.join("module").exists());
}

const COPY_MANIFEST: &str = r#"
name = "copy"
[constraints]
enough = "min(max, 8) == 8 and abs(max) >= max(2, U)"
[shapes.target]
max = 1000
[arguments]
in = { dtype = "f32", shape = ["max"] }
class = { dtype = "f32", shape = ["max"], role = "output" }
n = { dtype = "i32", value = "max" }
[reference]
python = "reference.py:copy"
"#;

fn copy() -> Project {
    let kernel = "void kern(const float *in, float *class, int n) { for (int i = 0; i < n; i++) class[i] = 2 * in[i]; }\n";
    project(
        kernel,
        COPY_MANIFEST,
        "def copy(in_):\n    return 2 * in_\n",
    )
}

#[test]
fn words_of_python_are_names_of_arguments_and_dimensions() {
    let project = copy();
    exported(&project);
    check(&project, &["words"]);
}

#[test]
fn gradients_are_the_fallback_s_compiled_too() {
    let project = copy();
    exported(&project);
    check(&project, &["gradients"]);
}

#[test]
fn no_module_hides_one_of_python_s() {
    let project = copy();
    let output = export(&project, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(project.root.join("copy_kernel/__init__.py").exists());
    for name in ["copy", "json", "torch"] {
        let output = export(&project, &["--out", name]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("it would hide the module of that name") && said.contains("hint:"),
            "{said}"
        );
    }
}

#[test]
fn a_kernel_without_inputs_is_told_a_device() {
    let kernel = "void kern(float *y, float v, int n) { for (int i = 0; i < n; i++) y[i] = v * (float)i; }\n";
    let manifest = r#"
name = "fill"
[shapes.target]
N = 1000
[arguments]
y = { dtype = "f32", shape = ["N"], role = "output" }
v = { dtype = "f32", value = 1.5 }
n = { dtype = "i32", value = "N" }
[reference]
python = "reference.py:fill"
"#;
    let python =
        "import torch\ndef fill(v, N):\n    return torch.arange(N, dtype=torch.float64) * v\n";
    let project = project(kernel, manifest, python);
    exported(&project);
    let module = std::fs::read_to_string(project.root.join("module/__init__.py")).unwrap();
    assert!(
        module.contains("def fill(*, N, v=1.5, device=None):"),
        "{module}"
    );
    check(&project, &["nothing"]);
}

#[test]
fn dimensions_that_follow_from_others_are_checked() {
    let kernel = "void kern(const float *x, float *y, int n, int h, int d) {\n\
        for (int i = 0; i < n * h; i++) { y[i] = 0; for (int k = 0; k < d; k++) y[i] += x[(long)i * d + k]; }\n}\n";
    let manifest = r#"
name = "rowsum"
[shapes.target]
N = 100
H = 8
D = 64
HD = "H * D"
[arguments]
x = { dtype = "f32", shape = ["N", "HD"] }
y = { dtype = "f32", shape = ["N", "H"], role = "output" }
n = { dtype = "i32", value = "N" }
h = { dtype = "i32", value = "H" }
d = { dtype = "i32", value = "D" }
[reference]
python = "reference.py:rowsum"
"#;
    let python = "def rowsum(x, N, H, D):\n    return x.reshape(N, H, D).sum(-1)\n";
    let project = project(kernel, manifest, python);
    exported(&project);
    check(&project, &["sizes"]);
}

#[test]
fn what_is_empty_is_not_launched() {
    let kernel = "void kern(const float *x, float *y, int n) { for (int i = 0; i + 1 < n; i++) y[i] = x[i + 1] - x[i]; }\n";
    let manifest = r#"
name = "differences"
[shapes.target]
N = 1000
LOUD = 0
[arguments]
x = { dtype = "f32", shape = ["N"] }
y = { dtype = "f32", shape = ["N - 1"], role = "output" }
n = { dtype = "i32", value = "N" }
[reference]
python = "reference.py:differences"
[export]
parameters = { loud = false }
dimensions = { LOUD = "2 if loud else 1" }
"#;
    let python = "def differences(x):\n    return x[1:] - x[:-1]\n";
    let manifest = manifest.replace("LOUD = 0", "LOUD = 1");
    let project = project(kernel, &manifest, python);
    exported(&project);
    check(&project, &["empty"]);
}

#[test]
fn verify_imports_the_module() {
    let project = copy();
    exported(&project);
    let init = project.root.join("module/__init__.py");
    let broken = std::fs::read_to_string(&init)
        .unwrap()
        .replace("def copy(", "def copy(, ");
    std::fs::write(&init, broken).unwrap();
    let sums = Command::new("sh")
        .args([
            "-c",
            "cut -c67- SHA256SUMS | xargs sha256sum > sums && mv sums SHA256SUMS",
        ])
        .current_dir(project.root.join("module"))
        .status()
        .unwrap();
    assert!(sums.success());
    let output = project.run(&["verify", "module", "--answers"]);
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{said}{}",
        text(&output.stderr)
    );
    assert!(
        said.contains("the module cannot be imported: `__init__.py`: invalid syntax"),
        "{said}"
    );
}
