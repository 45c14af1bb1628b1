//! `kiln export` through the real program: packages are built, run and compared, wherever the tools for that are to be had.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::exports::{FROM_FILE, export, facts, refused};
use common::{Project, repository, succeed, text};
use serde_json::{Value, json};

fn here(name: &str) -> PathBuf {
    repository().join("crates/kiln/tests/export").join(name)
}

fn succeeded(output: &Output, what: &str) {
    assert!(
        output.status.success(),
        "{what}: {}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

fn package(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("kiln-package.json")).unwrap()).unwrap()
}

/// A Python that has PyTorch, said out loud where there is none.
fn python_with_torch() -> Option<String> {
    let python = std::env::var("KILN_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import torch"]).output();
    match found.is_ok_and(|o| o.status.success()) {
        true => Some(python),
        false => {
            eprintln!("skipped: `{python}` has no PyTorch");
            None
        }
    }
}

#[test]
fn a_table_says_what_runs_where_and_why() {
    let project = facts();
    let told = export(&project, &["--to", "json", "--out", "table"]);
    assert_eq!(told["confirmed"], true);
    let table = package(&project.root.join("table"));
    assert_eq!(table["schema_version"], 1);
    assert_eq!(table["dispatch"][0]["shape"], "target");
    assert_eq!(table["dispatch"][0]["config"], "c0");
    assert_eq!(
        table["dispatch"][1]["evidence"]["speedup_ci_95"],
        json!([1.4, 1.6])
    );
    assert_eq!(
        table["configs"][1]["values"]["EVEN"], true,
        "written as 1, meant as true"
    );
    assert_eq!(
        table["configs"][0]["legal"]["whole"],
        "(((N % 4) == 0) and ((1 <= N) and (N < 100000)))"
    );
    let listed = fs::read_to_string(project.root.join("table/SHA256SUMS")).unwrap();
    assert!(listed.contains("  source/facts.c\n"), "{listed}");
    succeed(
        Command::new("sha256sum")
            .args(["--quiet", "-c", "SHA256SUMS"])
            .current_dir(project.root.join("table")),
    );
    // Nothing is replaced unasked, and never what is not a package.
    let again = refused(
        &project,
        &[&FROM_FILE[..], &["--to", "json", "--out", "table"]].concat(),
    );
    assert!(again.contains("--force"), "{again}");
    project.write("mine/notes.txt", "keep");
    let mine = refused(
        &project,
        &[
            &FROM_FILE[..],
            &["--to", "json", "--out", "mine", "--force"],
        ]
        .concat(),
    );
    assert!(mine.contains("no package of kiln's"), "{mine}");
    export(&project, &["--to", "json", "--out", "table", "--force"]);
    assert_eq!(
        table["scalars"],
        json!([{"name": "scale", "default": 1.5}]),
        "no other is a plain number"
    );
    project.replace("kiln.toml", "value = 1.5", "value = \"-(2 + 1) / 2\"");
    export(&project, &["--to", "json", "--out", "table", "--force"]);
    let table = package(&project.root.join("table"));
    assert_eq!(table["scalars"][0]["default"], -1.5);
    let cubin = refused(&project, &[&FROM_FILE[..], &["--to", "cubin"]].concat());
    assert!(cubin.contains("kernel in C"), "{cubin}");
}

#[test]
fn headers_set_the_tunables() {
    let project = facts();
    export(&project, &["--to", "header", "--out", "headers"]);
    let text = fs::read_to_string(project.root.join("headers/facts.large.h")).unwrap();
    assert!(
        text.contains("#define UNROLL 2\n#define VALUE 5\n#define EVEN 1\n"),
        "{text}"
    );
    assert!(text.contains("1.500x [1.400, 1.600], claimed"), "{text}");
    succeed(
        Command::new("cc")
            .args([
                "-fsyntax-only",
                "-Werror",
                "-include",
                "headers/facts.large.h",
                "facts.c",
            ])
            .current_dir(&project.root),
    );
}

const MAIN: &str = r#"
#include <cstdio>
#include "facts.hpp"
int main() {
    for (long n : {1000L, 5000L, 1002L}) {
        for (long mode : {1L, 2L}) {
            kiln_export::Aligned<float> x(n), y(n);
            for (long i = 0; i < n; i++) x[i] = float(i % 11) - 5.0f;
            kiln_export::Aligned<int64_t> told(4);
            facts::Choice choice = facts::run({n, mode}, x.data(), y.data(), told.data());
            for (long i = 0; i < n; i++) if (y[i] != 1.5f * x[i]) return 3;
            std::printf("%ld %ld c%d %d: %lld %lld %lld %lld\n", n, mode, choice.config, int(choice.exact),
                (long long)told[0], (long long)told[1], (long long)told[2], (long long)told[3]);
        }
    }
    kiln_export::Aligned<float> x(1001);
    kiln_export::Aligned<int64_t> told(4);
    try {
        facts::run({1000, 1}, x.data() + 1, x.data(), told.data());
    } catch (const kiln_export::Error &) {
        std::printf("misaligned\n");
    }
    try {
        facts::choose({1001, 1});
    } catch (const kiln_export::Error &error) {
        std::printf("%s\n", error.what());
    }
    kiln_export::Aligned<float> four(4), doubled(4);
    for (long i = 0; i < 4; i++) four[i] = float(i);
    facts::run({4, 1}, four.data(), doubled.data(), told.data(), 2.0f);
    std::printf("scale 2: %g %g\n", double(doubled[1]), double(doubled[3]));
    for (long n : {0L, -5L}) {
        try {
            facts::run({n, 1}, four.data(), doubled.data(), told.data());
        } catch (const kiln_export::Error &error) {
            std::printf("%s\n", error.what());
        }
    }
}
"#;

const RUST_MAIN: &str = r#"
use facts::*;
fn main() {
    for N in [1000_i64, 5000, 1002] {
        for MODE in [1_i64, 2] {
            let x: Vec<f32> = (0..N).map(|i| (i % 11) as f32 - 5.0).collect();
            let x = Aligned::from(&x[..]);
            let (mut y, mut told) = (Aligned::zeros(N as usize), Aligned::zeros(4));
            let choice = unsafe { run(&Dimensions { N, MODE }, &x, &mut y, &mut told) }.unwrap();
            assert!(x.iter().zip(y.iter()).all(|(x, y)| *y == 1.5 * x));
            println!("{N} {MODE} c{} {}: {} {} {} {}", choice.config, choice.exact as i32, told[0], told[1], told[2], told[3]);
        }
    }
    let (x, mut y, mut told) = (Aligned::zeros(1001), Aligned::zeros(1000), Aligned::zeros(4));
    assert!(unsafe { run(&Dimensions { N: 1000, MODE: 1 }, &x[1..], &mut y, &mut told) }.is_err());
    println!("misaligned");
    println!("{}", choose(&Dimensions { N: 1001, MODE: 1 }, |_| true).unwrap_err());
    let four = Aligned::from(&[0.0_f32, 1.0, 2.0, 3.0][..]);
    let mut doubled = Aligned::zeros(4);
    unsafe { run_with(&Dimensions { N: 4, MODE: 1 }, &Scalars { scale: 2.0 }, &four, &mut doubled, &mut told) }.unwrap();
    println!("scale 2: {} {}", doubled[1], doubled[3]);
    for N in [0, -5] {
        println!("{}", unsafe { run(&Dimensions { N, MODE: 1 }, &four, &mut doubled, &mut told) }.unwrap_err());
    }
    assert!(unsafe { run(&Dimensions { N: 4, MODE: 1 }, &[0.0; 3], &mut [0.0; 4], &mut [0; 4]) }.is_err(), "too short a buffer");
}
"#;

#[test]
fn a_kernel_in_c_runs_alike_from_cpp_and_rust() {
    let project = facts();
    // Every flag is one word, whatever a shell or a template would make of it.
    project.replace(
        "kiln.toml",
        "\"-O1\"",
        "\"-O1\", \"-L$(touch${IFS}run)\", \"-DODD='`touch run` @LINK@'\"",
    );
    let told = export(&project, &["--to", "cpp", "--out", "cpp"]);
    assert_eq!(told["configs"], 2);
    let cpp = project.root.join("cpp");
    succeed(Command::new("sh").arg("build.sh").current_dir(&cpp));
    let example = succeed(Command::new("./example").current_dir(&cpp));
    assert!(
        example.contains("shape target: config c0, tuned for it"),
        "{example}"
    );
    fs::write(cpp.join("main.cpp"), MAIN).unwrap();
    let warnings = [
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        "main",
        "main.cpp",
        "libfacts.a",
        "-lm",
    ];
    succeed(Command::new("g++").args(warnings).current_dir(&cpp));
    let from_cpp = succeed(Command::new("./main").current_dir(&cpp));
    let lines: Vec<&str> = from_cpp.lines().collect();
    // Worked out by hand in Python; the other lines have to agree between the languages.
    assert!(lines[0].starts_with("1000 1 c0 1: "), "{from_cpp}");
    assert!(
        lines[4].starts_with("1002 1 c1 0: "),
        "the nearest legal one: {from_cpp}"
    );
    assert!(
        lines[7].contains("no exported config is legal"),
        "{from_cpp}"
    );

    assert_eq!(lines[8], "scale 2: 2 6", "{from_cpp}");
    assert_eq!(
        lines[9..],
        [
            "dimension `N` is 0, expected at least 1",
            "dimension `N` is -5, expected at least 1"
        ]
    );
    let readme = fs::read_to_string(cpp.join("README.md")).unwrap();
    let said =
        "- a call may set `scale`; it is 1.5 by default, and was checked and timed with that only";
    assert!(readme.contains(said), "{readme}");

    export(&project, &["--to", "rust", "--out", "rust"]);
    let rust = project.root.join("rust");
    fs::write(rust.join("examples/main.rs"), RUST_MAIN).unwrap();
    let cargo = |example: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["run", "--quiet", "--offline", "--example", example])
            .current_dir(&rust)
            .env("CARGO_TARGET_DIR", project.root.join("target"))
            .env_remove("RUSTFLAGS");
        succeed(&mut cargo)
    };
    assert_eq!(cargo("run"), example, "the same inputs, the same outputs");
    assert_eq!(cargo("main"), from_cpp);
    assert!(!cpp.join("run").exists() && !rust.join("run").exists());
}

#[test]
fn a_kernel_in_c_runs_from_pytorch() {
    let Some(python) = python_with_torch() else {
        return;
    };
    let project = facts();
    export(&project, &["--to", "torch", "--out", "module"]);
    let check = here("check_c_torch.py");
    let mut command = Command::new(&python);
    command.arg(check).arg(project.root.join("module"));
    let told = succeed(&mut command);
    assert!(told.contains("all as expected"), "{told}");
    // A damaged image is not loaded.
    let image = project.root.join("module/images");
    let image = fs::read_dir(image)
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let mut bytes = fs::read(&image).unwrap();
    bytes.push(0);
    fs::write(&image, bytes).unwrap();
    let code = "import torch, module; module.prepare('cpu')";
    let output = Command::new(&python)
        .args(["-c", code])
        .current_dir(&project.root)
        .output()
        .unwrap();
    assert!(
        text(&output.stderr).contains("its checksum differs"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn force_deletes_only_packages() {
    let project = facts();
    export(&project, &["--to", "json", "--out", "table"]);
    let again = [
        &FROM_FILE[..],
        &["--to", "json", "--out", "table", "--force"],
    ]
    .concat();
    project.write("table/notes/mine.txt", "keep");
    let kept = refused(&project, &again);
    assert!(
        kept.contains("as it was exported: `notes/mine.txt`"),
        "{kept}"
    );
    assert!(project.root.join("table/notes/mine.txt").is_file());
    assert!(project.root.join("table/kiln-package.json").is_file());
    fs::remove_dir_all(project.root.join("table/notes")).unwrap();
    // What Python compiles is made again.
    project.write("table/source/__pycache__/fallback.cpython-312.pyc", "");
    export(&project, &["--to", "json", "--out", "table", "--force"]);
    assert!(!project.root.join("table/source/__pycache__").exists());
    std::os::unix::fs::symlink("table", project.root.join("link")).unwrap();
    let link = refused(
        &project,
        &[
            &FROM_FILE[..],
            &["--to", "json", "--out", "link", "--force"],
        ]
        .concat(),
    );
    assert!(link.contains("is no package of kiln's"), "{link}");
    let left = fs::read_dir(&project.root).unwrap().flatten();
    let left: Vec<String> = left
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(
        !left.iter().any(|name| name.starts_with(".kiln-export")),
        "{left:?}"
    );
}

/// Sizes of the kernel's parameters: four buffers, four 32-bit scalars, four descriptors.
const PARAMETERS: &str = "8,8,8,8,4,4,4,4,128,128,128,128";

#[test]
fn a_cuda_kernel_is_launched_alike_from_every_language() {
    let Some(cuda) = common::cuda() else {
        return;
    };
    let mut project = Project::with_kernels();
    project.cuda = Some(cuda.clone());
    let all: Vec<Value> = serde_json::from_slice(
        &fs::read(repository().join("kernels/attention_sm90/winners.json")).unwrap(),
    )
    .unwrap();
    // As if nobody had confirmed them.
    let some: Vec<Value> = all
        .into_iter()
        .filter(|w| {
            ["b1_h8_s512_d64_full", "b4_h16_s2048_d128_causal"]
                .contains(&w["shape"].as_str().unwrap())
        })
        .map(|mut w| {
            w["ratio_ci_95"] = Value::Null;
            w
        })
        .collect();
    project.write("winners.json", &serde_json::to_string(&some).unwrap());
    let from = [
        "export",
        "--winners",
        "winners.json",
        "--manifest",
        "kernels/attention_sm90",
        "--arch",
        "sm_90a",
    ];
    let unsure = refused(&project, &[&from[..], &["--to", "cubin"]].concat());
    assert!(unsure.contains("no confirmed speedup"), "{unsure}");
    let hidden = refused(
        &project,
        &[
            &from[..],
            &["--to", "torch", "--unconfirmed", "--out", "torch"],
        ]
        .concat(),
    );
    assert!(
        hidden.contains("would hide the module of that name"),
        "{hidden}"
    );
    for (target, out) in [
        ("cubin", "cubin"),
        ("cpp", "cpp"),
        ("rust", "rust"),
        ("torch", "attention"),
    ] {
        let more = ["--to", target, "--unconfirmed", "--out", out, "--json"];
        let told = project.json(&[&from[..], &more[..]].concat(), &[0]);
        assert_eq!(
            (&told["configs"], &told["confirmed"]),
            (&json!(2), &json!(false))
        );
    }
    let table = package(&project.root.join("cubin"));
    let image = &table["configs"][0]["images"][0];
    assert_eq!(
        (image["architecture"].as_str(), image["symbol"].as_str()),
        (Some("sm_90a"), Some("attention"))
    );
    let cubin = fs::read(
        project
            .root
            .join("cubin")
            .join(image["file"].as_str().unwrap()),
    )
    .unwrap();
    assert_eq!(&cubin[..4], b"\x7fELF");
    // Without a GPU a package says what is missing.
    let output = project.run(&["verify", "cubin"]);
    assert!(
        [Some(0), Some(3)].contains(&output.status.code()),
        "{}",
        text(&output.stderr)
    );

    // A driver that only writes down what it is asked for.
    let driver = project.root.join("driver");
    fs::create_dir_all(&driver).unwrap();
    let library = driver.join("libcuda.so.1");
    succeed(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(here("recording_driver.c")),
    );
    let recorded = |name: &str, command: &mut Command| -> Vec<String> {
        let log = driver.join(format!("{name}.log"));
        fs::write(&log, "").unwrap();
        command
            .env("LD_LIBRARY_PATH", &driver)
            .env("KILN_TEST_LOG", &log)
            .env("KILN_TEST_PARAMETERS", PARAMETERS);
        succeed(command);
        let mut lines: Vec<String> = fs::read_to_string(log)
            .unwrap()
            .lines()
            .map(str::to_string)
            .collect();
        lines.sort();
        lines
    };
    let cpp = project.root.join("cpp");
    let built = Command::new("sh")
        .arg("build.sh")
        .current_dir(&cpp)
        .output()
        .unwrap();
    succeeded(&built, "the example in C++");
    let without = Command::new("./example")
        .current_dir(&cpp)
        .output()
        .unwrap();
    if !without.status.success() {
        let said = text(&without.stderr);
        assert!(
            said.contains("no NVIDIA driver") || said.contains("no usable GPU"),
            "{said}"
        );
    }
    beside_cudas_own_headers(&cpp, &cuda);
    let from_cpp = recorded("cpp", Command::new("./example").current_dir(&cpp));
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--quiet", "--offline", "--example", "run"])
        .current_dir(project.root.join("rust"))
        .env("CARGO_TARGET_DIR", project.root.join("target"))
        .env_remove("RUSTFLAGS");
    let from_rust = recorded("rust", &mut cargo);
    assert_eq!(from_cpp, from_rust);

    // What kiln itself works out for this shape, and what its launcher tells the driver of the descriptors.
    let first = &table["dispatch"][0];
    assert_eq!(first["shape"], "b1_h8_s512_d64_full");
    let geometry = &first["geometry"];
    let numbers = |of: &Value| {
        let numbers: Vec<String> = of
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        numbers.join(",")
    };
    let launch = from_cpp.iter().find(|l| l.starts_with("launch")).unwrap();
    let expected = format!(
        "launch {} by {} shared {} stream (nil)",
        numbers(&geometry["grid"]),
        numbers(&geometry["block"]),
        geometry["shared_bytes"]
    );
    assert!(launch.starts_with(&expected), "{launch}\n{expected}");
    assert!(
        launch.contains("[08000000] [01000000] [00020000] [00020000]"),
        "scalars: {launch}"
    );
    let keys = from_cpp
        .iter()
        .find(|l| l.starts_with("map") && l.contains("0x500000080000 "))
        .unwrap();
    assert_eq!(
        keys,
        "map type 6 at 0x500000080000 dims 64 512 8 strides 128 65536 box 64/1 64/1 1/1 interleave 0 swizzle 3 promotion 2 fill 0"
    );
    assert!(from_cpp.contains(&format!("attribute 8 = {}", geometry["shared_bytes"])));

    // In a process like a Python baseline's, where it is timed beside one.
    let mut command = Command::new("python3");
    command
        .arg(here("record_kernel.py"))
        .arg(project.root.join("cubin"))
        .arg(repository().join("crates/kiln-device/src/python"));
    match Command::new("python3").arg("--version").output() {
        Ok(_) => assert_eq!(recorded("kernel", &mut command), from_cpp),
        Err(_) => eprintln!("skipped: no python3"),
    }

    let Some(python) = python_with_torch() else {
        return;
    };
    let mut command = Command::new(&python);
    command
        .arg(here("record_python.py"))
        .arg(project.root.join("attention"))
        .arg("b1_h8_s512_d64_full");
    assert_eq!(recorded("python", &mut command), from_cpp);
    // On tensors that are not on a GPU the fallback answers.
    let code = "import torch, warnings, torch.nn.functional as F\nimport torch as t\nimport sys; sys.path.insert(0, '.')\n\
                import importlib; m = importlib.import_module('attention')\n\
                q = torch.randn(1, 2, 64, 64, dtype=torch.float16)\n\
                warnings.simplefilter('ignore')\n\
                assert torch.equal(m.attention_sm90(q, q, q, is_causal=True), F.scaled_dot_product_attention(q, q, q, is_causal=True))\n\
                assert m.explain(q, q, q)['runs'] == 'fallback'";
    succeed(
        Command::new(&python)
            .args(["-c", code])
            .current_dir(&project.root),
    );
}

/// Programs that launch kernels mostly include CUDA's headers too, and have streams of its types.
fn beside_cudas_own_headers(package: &Path, toolkit: &Path) {
    let own = "#include \"attention_sm90.hpp\"\n";
    let cudas = "#include <cuda.h>\n#include <cuda_runtime_api.h>\n";
    for (name, includes) in [("after", [cudas, own]), ("before", [own, cudas])] {
        let source = format!(
            "{}attention_sm90::Choice call(attention_sm90::Kernel &kernel, CUstream one, cudaStream_t other, void *p) {{\n\
             kernel.launch(attention_sm90::known()[0].dimensions, one, p, p, p, p);\n\
             return kernel.launch(attention_sm90::known()[0].dimensions, other, p, p, p, p);\n}}\n",
            includes.concat()
        );
        fs::write(package.join("call.cpp"), source).unwrap();
        let mut compiler = Command::new("g++");
        compiler
            .args("-std=c++17 -Wall -Wextra -Werror -fsyntax-only call.cpp -isystem".split(' '));
        let told = compiler
            .arg(toolkit.join("include"))
            .current_dir(package)
            .output();
        succeeded(
            &told.unwrap(),
            &format!("a program that includes it {name} CUDA's headers"),
        );
    }
    fs::remove_file(package.join("call.cpp")).unwrap();
}
