//! References in Python: what a user is told when one fails, and by which exit code.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Project, orphans_after, text};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

const KERNEL: &str = "void scale(const float *x, float *y, int n) \
    { for (int i = 0; i < n; ++i) y[i] = FACTOR * x[i] * 2.0f / FACTOR; }\n";
const BASELINE: &str = "void plain(const float *x, float *y, int n) \
    { for (int i = 0; i < n; ++i) y[i] = 2.0f * x[i]; }\n";

const MANIFEST: &str = r#"
[kernel]
name = "scale"
source = "scale.c"
entry = "scale"

[tunables]
FACTOR = [1, 2]

[shapes.target]
N = 1000

[arguments]
x = { dtype = "f32", shape = ["N"] }
y = { dtype = "f32", shape = ["N"], role = "output" }
n = { dtype = "i32", value = "N" }

[reference]
python = "reference.py:double"

[baseline]
c = "plain.c:plain"
"#;

fn project(reference: &str) -> Project {
    let project = Project::new();
    project
        .write("scale.c", KERNEL)
        .write("plain.c", BASELINE)
        .write("kiln.toml", MANIFEST)
        .write("reference.py", reference);
    project
}

fn tune(project: &Project, python: Option<&str>) -> Output {
    let mut command = project.command(&["tune", "--trials", "2"]);
    if let Some(python) = python {
        command.env("KILN_PYTHON", python);
    }
    command.output().unwrap()
}

fn has_numpy() -> bool {
    let python = std::env::var("KILN_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(python)
        .args(["-c", "import numpy"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: no python3 with numpy");
    }
    found
}

/// Nothing that Rust prints for programmers.
fn assert_for_people(said: &str) {
    for word in [
        "NotLoadable",
        "BadTask",
        "Refused",
        "{ message",
        "WorkerEnd",
        "Some(",
    ] {
        assert!(!said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_reference_that_fails_is_told_in_words() {
    if !has_numpy() {
        return;
    }
    let cases = [
        (
            "import numpy\n1 / 0\ndef double(x): return 2 * x\n",
            "it cannot be loaded: ZeroDivisionError",
        ),
        (
            "import numpy\ndef double(x):\n    raise ValueError('no \"luck\"')\n",
            "ValueError: no \"luck\"\n  at reference.py:3 in `double`",
        ),
        (
            "import numpy\ndef double(x):\n    pass\n",
            "`double` returned nothing; return the outputs, or take them as parameters and write into them",
        ),
        (
            "import numpy, os\ndef double(x):\n    os._exit(3)\n",
            "it ended the process with code 3",
        ),
        (
            "import numpy\ndef double(x):\n    return x[:3]\n",
            "output `y` has the shape [3], expected [1000]",
        ),
    ];
    for (reference, expected) in cases {
        let project = project(reference);
        let output = tune(&project, None);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let expected = format!("the reference failed on shape `target`: {expected}");
        assert!(said.contains(&expected), "{expected}: {said}");
        assert!(
            said.contains("-c 'import reference; print(reference.double(...))'"),
            "{said}"
        );
        assert!(!said.contains("debugger"), "{said}");
        assert_for_people(&said);
    }
}

#[test]
fn a_c_reference_that_fails_is_for_the_debugger() {
    let project = project("");
    project
        .replace(
            "kiln.toml",
            "python = \"reference.py:double\"",
            "c = \"reference.c:r\"",
        )
        .write(
            "reference.c",
            "void r(const double *x, double *y, int n) { y[n + 5000000] = x[0]; }\n",
        );
    let output = tune(&project, None);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("-fsanitize=address"), "{said}");
    assert_for_people(&said);
}

#[test]
fn an_honest_reference_works_even_if_it_forks() {
    if !has_numpy() {
        return;
    }
    let project = project("import numpy, os\ndef double(x):\n    os.fork()\n    return 2 * x\n");
    let output = tune(&project, None);
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{said}");
    assert!(orphans_after(&project.home, Duration::from_secs(5)).is_empty());
}

/// A script in place of Python.
fn script(project: &Project, body: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = project.root.join("python");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_python_that_cannot_serve_is_the_machines_fault() {
    let project = project("def double(x):\n    return 2 * x\n");
    let output = tune(&project, Some("/nonexistent"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains(
            "error: cannot start `/nonexistent` (KILN_PYTHON): No such file or directory\n"
        ),
        "{said}"
    );
    for (body, why) in [
        (
            "echo 'Welcome to a very special Python, please stand by'",
            "what it writes is something else",
        ),
        (
            "echo 'no luck' >&2; exit 7",
            "it ended the process with code 7\n  it says: no luck",
        ),
        ("kill -SEGV $$", "killed by signal 11"),
    ] {
        let python = script(&project, body);
        let output = tune(&project, Some(&python));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        let expected = format!("`{python}` (KILN_PYTHON) does not answer like kiln's child: {why}");
        assert!(said.contains(&expected), "{expected}: {said}");
        assert!(!said.contains("frame of"), "{said}");
        assert_for_people(&said);
    }
}

/// As pyenv and others do it: `python3` is a script whose child is the real one.
#[test]
fn a_python_behind_a_script_may_be_killed() {
    if !has_numpy() {
        return;
    }
    let project = project("import numpy\ndef double(x):\n    return 2 * x\n");
    let real = std::env::var("KILN_PYTHON").unwrap_or_else(|_| "python3".into());
    let body = format!(
        "if [ ! -e killed ]; then touch killed; sh -c 'kill -9 $$'; exit $?; fi\nexec {real} \"$@\""
    );
    let output = tune(&project, Some(&script(&project, &body)));
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{said}");
    assert!(project.root.join("killed").exists());
}

/// Modules that hide those of the interpreter.
#[test]
fn a_python_without_arrays_is_the_machines_fault() {
    if !has_numpy() {
        return;
    }
    let real = std::env::var("KILN_PYTHON").unwrap_or_else(|_| "python3".into());
    for (hidden, expected) in [
        (
            &["numpy", "torch"][..],
            "can import neither torch nor numpy",
        ),
        (
            &["torch"],
            "cannot import torch, which `reference.py` asks for",
        ),
    ] {
        let project = project("import torch\ndef double(x):\n    return 2 * x\n");
        for name in hidden {
            let text = format!("raise ModuleNotFoundError('hidden', name='{name}')\n");
            project.write(&format!("hidden/{name}.py"), &text);
        }
        let folder = project.root.join("hidden");
        let body = format!("PYTHONPATH='{}' exec {real} \"$@\"", folder.display());
        let output = tune(&project, Some(&script(&project, &body)));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains(expected) && said.contains("KILN_PYTHON"),
            "{said}"
        );
        assert_for_people(&said);
    }
}

/// The whole process group gets a Ctrl-C, and a worker that is still a shell dies of it first.
#[test]
fn ctrl_c_while_python_starts_is_an_interruption() {
    let project = project("def double(x):\n    return 2 * x\n");
    let started = project.root.join("started");
    let body = format!(
        "touch '{}'; sleep 30; exec python3 \"$@\"",
        started.display()
    );
    let python = script(&project, &body);
    let child = project
        .command(&["tune", "--trials", "2"])
        .env("KILN_PYTHON", python)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !started.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    killpg(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(130),
        "{:?}: {said}",
        output.status.signal()
    );
    assert!(
        said.contains("interrupted; every finished trial is kept"),
        "{said}"
    );
    assert!(orphans_after(&project.home, Duration::from_secs(5)).is_empty());
}
