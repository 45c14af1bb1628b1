//! A project in a temporary folder, and kiln run inside it.
#![allow(dead_code, clippy::unwrap_used)]

pub mod browser;
pub mod disk;
pub mod exports;
pub mod family;
pub mod history;
pub mod medians;
pub mod power;
pub mod recordings;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub struct Project {
    // Dropped last: everything below lives in it.
    _folder: tempfile::TempDir,
    pub root: PathBuf,
    pub home: PathBuf,
    /// The CUDA compiler kiln is to use.
    pub cuda: Option<PathBuf>,
}

impl Project {
    /// An empty project with a cache and a lock of its own.
    pub fn new() -> Project {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().unwrap().join("project");
        let home = folder.path().canonicalize().unwrap().join("home");
        fs::create_dir_all(root.join(".git")).unwrap();
        Project {
            _folder: folder,
            root,
            home,
            cuda: None,
        }
    }

    /// A project with a copy of a folder of this repository.
    pub fn with(source: &str) -> Project {
        let project = Project::new();
        copy_folder(&repository().join(source), &project.root);
        project
    }

    /// Small and quick to tune, with a compiler: for where the disk matters and not the timing.
    pub fn with_quick_kernel() -> Project {
        let project = Project::with("kernels/vector_add");
        project
            .replace("kiln.toml", "N = 262144", "N = 3000")
            .replace(
                "kiln.toml",
                "trials = 30",
                "trials = 6\nhopeless_below = 0.0",
            )
            .replace("kiln.toml", "samples = 100", "samples = 10\nrounds = 2");
        project
    }

    /// A project with a copy of the kernels that ship, as in a fresh clone.
    pub fn with_kernels() -> Project {
        let project = Project::new();
        copy_folder(&repository().join("kernels"), &project.root.join("kernels"));
        project
    }

    pub fn write(&self, name: &str, text: &str) -> &Project {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn replace(&self, name: &str, from: &str, to: &str) -> &Project {
        let path = self.root.join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "`{from}` is not in {name}");
        fs::write(path, text.replace(from, to)).unwrap();
        self
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command
            .args(arguments)
            .current_dir(&self.root)
            .env("KILN_HOME", &self.home)
            .env_remove("KILN_CC")
            .env_remove("CC")
            .env_remove("KILN_CACHE_BYTES")
            .stdin(Stdio::null());
        if let Some(cuda) = &self.cuda {
            command.env("KILN_CUDA", cuda);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("kiln runs")
    }

    /// Runs kiln, expects an exit code, and returns its JSON document.
    pub fn json(&self, arguments: &[&str], codes: &[i32]) -> Value {
        let output = self.run(arguments);
        let code = output.status.code();
        assert!(
            code.is_some_and(|c| codes.contains(&c)),
            "exit {code:?}, wanted one of {codes:?}\n{}\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
    }

    /// Runs `tune --events` and returns the finished trials.
    pub fn trials(&self, arguments: &[&str], codes: &[i32]) -> Vec<Value> {
        let output = self.run(arguments);
        let code = output.status.code();
        assert!(
            code.is_some_and(|c| codes.contains(&c)),
            "exit {code:?}: {}",
            text(&output.stderr)
        );
        finished_trials(&output.stdout)
    }
}

pub fn finished_trials(events: &[u8]) -> Vec<Value> {
    text(events)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["event"] == "trial_finished")
        .collect()
}

/// The example of `kiln tune --help`; `tests/tune.rs` runs it and looks at the result.
pub const TUNE_EXAMPLE: &str = "kiln tune kernels/attention_cpu --trials 40 --seed 1 --json";

/// The example of `kiln selftest --help`; `tests/selftest.rs` runs it and looks at the result.
pub const SELFTEST_EXAMPLE: &str = "kiln selftest --backend cpu --quick";

/// Verbs and sub-verbs, found by walking the help itself.
pub fn verbs(project: &Project, prefix: &[&str]) -> Vec<Vec<String>> {
    let mut arguments = prefix.to_vec();
    arguments.push("--help");
    let help = text(&project.run(&arguments).stdout);
    let mut found = vec![prefix.iter().map(|s| s.to_string()).collect()];
    let Some(commands) = help.split("Commands:\n").nth(1) else {
        return found;
    };
    let names = commands
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    for name in names {
        let mut longer = prefix.to_vec();
        longer.push(name);
        found.extend(verbs(project, &longer));
    }
    found
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a program prints that has to end well.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            if entry.file_name() != ".kiln" {
                copy_folder(&entry.path(), &target);
            }
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Processes that carry this project's KILN_HOME: kiln itself, its workers, compilers, strays.
pub fn processes_of(home: &Path) -> BTreeMap<i32, String> {
    let marker = format!("KILN_HOME={}", home.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<i32>().ok())
        else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let ours = environment
            .split(|b| *b == 0)
            .any(|v| v == marker.as_bytes());
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = text(&command).replace('\0', " ").trim().to_string();
        // The environment of a sandboxed worker cannot be read by others; its jail names the home.
        let is_worker = command.contains("--jail") && command.contains(&*home.to_string_lossy());
        if ours || is_worker {
            found.insert(pid, command);
        }
    }
    found
}

/// Waits for every process of the project to be gone; returns those that stay.
pub fn orphans_after(home: &Path, patience: Duration) -> BTreeMap<i32, String> {
    let until = Instant::now() + patience;
    loop {
        let left = processes_of(home);
        if left.is_empty() || Instant::now() >= until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A CUDA compiler: the one KILN_CUDA names, else one that `kiln toolchain install` brings with the
/// user's pip, once for all tests. `None`, said out loud, where neither is to be had.
pub fn cuda() -> Option<PathBuf> {
    if let Some(root) = std::env::var_os("KILN_CUDA") {
        return Some(root.into());
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda-home");
    let wheel = home.join("toolchains/cuda-13.0/nvidia/cu13");
    fs::create_dir_all(&home).unwrap();
    // Test programs run side by side; one of them installs.
    let lock = fs::File::create(home.join("tests.lock")).unwrap();
    lock.lock().unwrap();
    if !wheel.join("lib").is_dir() {
        let installed = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(["toolchain", "install", "--cuda", "13.0"])
            .env("KILN_HOME", &home)
            .output()
            .unwrap();
        if !installed.status.success() {
            eprintln!("skipped: no CUDA compiler: {}", text(&installed.stderr));
            return None;
        }
    }
    Some(wheel)
}

/// How often a slow `scale` does its work over: so often that neighbours who halve the machine's speed now and then do
/// not hide it.
pub const SLOW: u32 = 8;

/// A margin within which two of the same stay on most machines. Where even that is undecided, the machine is to blame:
/// what a verdict makes of its numbers is tested where the numbers are given.
pub const NO_DIFFERENCE: &str = "0.9";

/// The tunable of [`scale_source`], read and of no consequence.
pub const READS_UNROLL: &str =
    "#ifndef UNROLL\n#define UNROLL 4\n#endif\nenum { unroll = UNROLL };\n";

/// The loop of [`Project::with_scale`]; each repeat is as much work again.
pub fn scale_source(repeats: u32) -> String {
    format!(
        "{READS_UNROLL}\
         void scale(const float *x, float *y, int n) {{\n\
         for (int r = 0; r < {repeats}; r++)\n\
         for (int i = 0; i < n; i++) {{ float s = x[i];\n\
         for (int k = 0; k < 8; k++) s = s * 0.99f + 0.5f; y[i] = s; }}\n}}\n"
    )
}

impl Project {
    /// A kernel that takes tens of microseconds, in a git repository with one commit.
    pub fn with_scale() -> Project {
        let project = Project::new();
        project
            .write("scale.c", &scale_source(1))
            .write(
                "reference.c",
                "void scale(const double *x, double *y, int n) { for (int i = 0; i < n; i++) { double s = x[i]; \
                 for (int k = 0; k < 8; k++) s = s * 0.99 + 0.5; y[i] = s; } }\n",
            )
            .write(
                "kiln.toml",
                "[kernel]\nname = \"scale\"\nsource = \"scale.c\"\nentry = \"scale\"\nflags = [\"-O2\"]\n\
                 [tunables]\nUNROLL = [1, 2, 4]\n\
                 [shapes.target]\nN = 20000\n[shapes.large]\nN = 50000\n[shapes.tiny]\nN = 5\n\
                 [arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\n\
                 y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
                 n = { dtype = \"i32\", value = \"N\" }\n\
                 [reference]\nc = \"reference.c:scale\"\n[baseline]\nc = \"scale.c:scale\"\n",
            );
        project.git(&["init", "-q"]);
        project.commit("first");
        project
    }

    pub fn git(&self, arguments: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b.c"])
            .args(arguments)
            .current_dir(&self.root)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    pub fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", message]);
    }
}

/// Runs kiln, expects it to refuse with a hint, and returns what it says.
pub fn refused(project: &Project, arguments: &[&str], code: i32) -> String {
    let output = project.run(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains("hint: "), "{said}");
    said
}

pub fn accepted(project: &Project, arguments: &[&str]) -> String {
    let output = project.run(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}
