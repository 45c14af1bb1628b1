//! Headers of a kernel, however it comes by them: they are part of what was measured, they are found from the
//! manifest's folder, and only what the compiler reads leaves the project.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::process::Command;

use common::{Project, text};
use serde_json::{Value, json};

/// Every way to a header that is not `#include "header"` at the start of a line.
const HEADERS: [&str; 7] = [
    "inc/angled.h",
    "inc/only_two.h",
    "inc/forced.h",
    "parts/by_flag.h",
    "parts/by_macro.h",
    "parts/odd.h",
    "parts/split.h",
];

const SOURCE: &str = "#include <angled.h>\n\
    #if WAYS == 2\n#include <only_two.h>\n#endif\n\
    #include BY_FLAG\n\
    #define HEADER \"parts/by_macro.h\"\n#include HEADER\n\
    #  /* x */ include \"parts/odd.h\"\n\
    #inc\\\nlude \"parts/split.h\"\n\
    void twice(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = 2.0f * x[i] * WAYS / WAYS; }\n";

const MANIFEST: &str = "[kernel]\nname = \"twice\"\nsource = \"twice.c\"\nentry = \"twice\"\n\
    flags = [\"-O1\", \"-I\", \"inc\", \"-include\", \"inc/forced.h\", '-DBY_FLAG=\"parts/by_flag.h\"']\n\
    [tunables]\nWAYS = [1, 2]\n[shapes.target]\nN = 1000\n[arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\n\
    y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\nn = { dtype = \"i32\", value = \"N\" }\n\
    [reference]\nc = \"reference.c:twice\"\n[baseline]\nconfig = { WAYS = 1 }\n\
    [measure]\nmin_samples = 2\nmax_samples = 3\n\
    [confirm]\nsamples = 4\nrounds = 2\nfinalists = 1\nsanitize = \"off\"\nrepeats = 0\nunseen_shapes = 0\n";

/// In a folder of the project, `""` for its own.
fn project_in(folder: &str) -> Project {
    let project = Project::new();
    project.git(&["init", "-q"]);
    let place = |name: &str| match folder {
        "" => name.to_string(),
        folder => format!("{folder}/{name}"),
    };
    for header in HEADERS {
        project.write(&place(header), "/* as it was */\n");
    }
    project
        .write(&place("twice.c"), SOURCE)
        .write(&place("kiln.toml"), MANIFEST)
        .write(
            &place("reference.c"),
            "void twice(const double *x, double *y, int n) { for (int i = 0; i < n; i++) y[i] = 2.0 * x[i]; }\n",
        );
    project
}

fn tuned(project: &Project) {
    let tune = [
        "tune", ".", "--trials", "2", "--seed", "1", "--cold", "--json",
    ];
    project.json(&tune, &[0, 1, 4]);
}

fn export(project: &Project, more: &[&str]) -> Value {
    let first = [
        "export",
        "--unconfirmed",
        "--force",
        "--json",
        "--out",
        "out",
    ];
    project.json(&[&first[..], more].concat(), &[0])
}

/// Whether a package of study 1 says that sources changed.
fn is_changed(project: &Project) -> bool {
    let notes = export(project, &["1", "--to", "json"])["notes"].to_string();
    notes.contains("source files changed since study 1")
}

#[test]
fn a_changed_header_is_a_changed_kernel() {
    let project = project_in("");
    tuned(&project);
    assert!(!is_changed(&project));
    for header in HEADERS {
        project.write(header, "/* edited */\n");
        assert!(is_changed(&project), "{header}");
        project.write(header, "/* as it was */\n");
        assert!(!is_changed(&project), "{header}");
    }
    // A comparison with the study says so too, of sources and of the manifest.
    let compare = ["compare", "study:1", "WAYS=1", "--margin", "0.9", "--json"];
    let notes = |codes: &[i32]| project.json(&compare, codes)["notes"].to_string();
    let any = [0, 1, 4, 5];
    assert!(!notes(&any).contains("changed since"));
    project.write("inc/angled.h", "/* edited */\n");
    let said = notes(&any);
    assert!(
        said.contains("a source file changed since study 1"),
        "{said}"
    );
    project.write("inc/angled.h", "/* as it was */\n");
    project.replace("kiln.toml", "-O1", "-O2");
    let said = notes(&any);
    assert!(
        said.contains("the flags in `kiln.toml` changed since study 1"),
        "{said}"
    );
}

#[test]
fn packages_and_baselines_carry_what_the_compiler_reads() {
    let project = project_in("");
    project.write(
        "winners.json",
        &json!([{"shape": "target", "config": {"WAYS": 2}, "ratio": 1.2, "ratio_ci_95": [1.1, 1.3],
                 "device": "test", "date": "2026-11-15"}])
        .to_string(),
    );
    let from_file = ["--winners", "winners.json", "--manifest", "."];
    export(&project, &[&from_file[..], &["--to", "cpp"]].concat());
    for header in HEADERS {
        assert!(
            project.root.join("out/source").join(header).is_file(),
            "{header}"
        );
    }
    // Away from the project it builds.
    let away = tempfile::tempdir().unwrap();
    let moved = away.path().join("package");
    fs::rename(project.root.join("out"), &moved).unwrap();
    let built = Command::new("cc")
        .args([
            "-Isource/inc",
            "-include",
            "source/inc/forced.h",
            "-I.",
            "-Isource",
        ])
        .args([
            "-DBY_FLAG=\"parts/by_flag.h\"",
            "-c",
            "-o",
            "/dev/null",
            "twice_c0.c",
        ])
        .current_dir(&moved)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let script = fs::read_to_string(moved.join("build.sh")).unwrap();
    assert!(
        script.contains("-I source/inc -include source/inc/forced.h"),
        "{script}"
    );
    // For the other config the compiler does not read it: the package says so.
    project.replace("winners.json", "\"WAYS\":2", "\"WAYS\":1");
    project.write(
        "twice.c",
        &SOURCE.replace("<only_two.h>", "\"inc/only_two.h\""),
    );
    let told = export(&project, &[&from_file[..], &["--to", "json"]].concat());
    assert!(!project.root.join("out/source/inc/only_two.h").exists());
    let said = told["notes"].to_string();
    assert!(
        said.contains("`inc/only_two.h` is not in the package: `twice.c:3` includes it"),
        "{said}"
    );
    project.write("twice.c", SOURCE);

    let recorded = project.run(&["gate", "--record", "--config", "WAYS=1"]);
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let baseline = fs::read_to_string(project.root.join("kiln.gate.toml")).unwrap();
    for header in HEADERS {
        assert!(
            baseline.contains(&format!("\"{header}\"")),
            "{header}: {baseline}"
        );
    }
}

#[test]
fn flags_are_found_from_the_manifests_folder() {
    let project = project_in("sub");
    // What a compiler in the shell's folder would find first.
    for decoy in ["inc/angled.h", "inc/forced.h", "forced.h"] {
        project.write(decoy, "#error decoy\n");
    }
    for forced in ["inc/forced.h", "forced.h"] {
        project.write(
            "sub/kiln.toml",
            &MANIFEST.replace("\"inc/forced.h\"", &format!("\"{forced}\"")),
        );
        for (folder, manifest) in [
            ("", "sub/kiln.toml"),
            ("sub", "kiln.toml"),
            ("sub/inc", ".."),
        ] {
            let mut command = project.command(&["check", manifest, "--compile"]);
            let output = command.current_dir(project.root.join(folder)).output();
            let output = output.unwrap();
            assert!(
                output.status.success(),
                "{folder}: {}{}",
                text(&output.stdout),
                text(&output.stderr)
            );
        }
    }
}

#[test]
fn nothing_private_goes_out() {
    let project = project_in("");
    project.write(".env", "/* TOKEN=1 */\n");
    project.write(
        "winners.json",
        &json!([{"shape": "target", "config": {"WAYS": 2}, "ratio": 1.2, "ratio_ci_95": [1.1, 1.3],
                 "device": "test", "date": "2026-11-15"}])
        .to_string(),
    );
    let to_json = [
        "--winners",
        "winners.json",
        "--manifest",
        ".",
        "--to",
        "json",
    ];
    let refused = || {
        let first = ["export", "--force", "--out", "out"];
        let output = project.run(&[&first[..], &to_json].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    // Named, and never read: not packed, nor recorded.
    let named = "#if 0\n#include \".env\"\n#include \".git/config\"\n#endif\n";
    project.write("twice.c", &format!("{named}{SOURCE}"));
    export(&project, &to_json);
    for name in [".env", ".git"] {
        assert!(!project.root.join("out/source").join(name).exists());
    }
    let recorded = project.run(&["gate", "--record", "--config", "WAYS=1"]);
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let baseline = fs::read_to_string(project.root.join("kiln.gate.toml")).unwrap();
    assert!(!baseline.contains("TOKEN"), "{baseline}");
    // Read: refused, with the file, the include, and what to do.
    project.write("twice.c", &format!("#include \".env\"\n{SOURCE}"));
    let said = refused();
    for part in [
        "`.env` does not go into a package: a part of its path begins with a dot",
        "`twice.c:1` includes it (`#include \".env\"`)",
        "hint: take the include out",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let output = project.run(&["gate", "--record", "--force", "--config", "WAYS=1"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("`.env` does not go into a baseline file"),
        "{said}"
    );
    // Likewise by a flag, by its name, by what is in it, and by the project's own rules.
    project.write("twice.c", SOURCE);
    project.replace("kiln.toml", "\"inc/forced.h\"", "\".env\"");
    let said = refused();
    assert!(said.contains("`.env` does not go into a package"), "{said}");
    assert!(
        said.contains("a flag in `kiln.toml`, includes it"),
        "{said}"
    );
    project.replace("kiln.toml", "\".env\"", "\"passwords.txt\"");
    project.write("passwords.txt", "/* x */\n");
    assert!(
        refused().contains("`passwords.txt` does not go into a package: it looks like a secret")
    );
    project.replace("kiln.toml", "\"passwords.txt\"", "\"inc/forced.h\"");
    project.write("inc/forced.h", "/*\n-----BEGIN RSA PRIVATE KEY-----\n*/\n");
    assert!(
        refused().contains("`inc/forced.h` does not go into a package: it looks like a secret")
    );
    project.write("inc/forced.h", "/* plain */\n");
    // Where a part of the project is a repository of its own, too.
    project.git(&["init", "-q", "parts"]);
    project.write(".gitignore", "forced.h\n");
    let said = refused();
    assert!(said.contains("git ignores it"), "{said}");
    assert!(said.contains("git add --force inc/forced.h"), "{said}");
    project.git(&["add", "--force", "inc/forced.h"]);
    export(&project, &to_json);
}

/// In CUDA: NVRTC, and nvcc where the toolkit has it.
#[test]
fn cuda_kernels_have_headers_too() {
    let Some(cuda) = common::cuda() else {
        return;
    };
    let mut compilers = vec!["nvrtc"];
    match cuda.join("bin/nvcc").is_file() {
        true => compilers.push("nvcc"),
        false => eprintln!("skipped: the CUDA compiler at hand has no nvcc"),
    }
    for compiler in compilers {
        let mut project = project_in("sub");
        project.cuda = Some(cuda.clone());
        project.write("inc/angled.h", "#error decoy\n");
        project.write("inc/forced.h", "#error decoy\n");
        let (start, end) = SOURCE.split_once("void twice").unwrap();
        let source = format!("{start}extern \"C\" __global__ void twice{end}");
        project.write("sub/twice.cu", &source);
        project
            .replace(
                "sub/kiln.toml",
                "twice.c\"",
                "twice.cu\"\nlanguage = \"cuda\"",
            )
            .replace("sub/kiln.toml", "\"-O1\", ", "")
            .replace(
                "sub/kiln.toml",
                "entry =",
                &format!("compiler = \"{compiler}\"\nentry ="),
            )
            .replace(
                "sub/kiln.toml",
                "[tunables]",
                "[launch]\ngrid = [1]\nblock = [32]\n[tunables]",
            );
        let check = ["check", "sub", "--arch", "sm_80", "--compile"];
        let output = project.run(&check);
        assert!(
            output.status.success(),
            "{compiler}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        project.write(
            "winners.json",
            &json!([{"shape": "target", "config": {"WAYS": 2}, "ratio": 1.2, "ratio_ci_95": [1.1, 1.3],
                     "device": "test", "date": "2026-11-15"}])
            .to_string(),
        );
        let to_json = [
            "--winners",
            "winners.json",
            "--manifest",
            "sub",
            "--arch",
            "sm_80",
            "--to",
            "json",
        ];
        export(&project, &to_json);
        let packed = project.root.join("out/source/sub");
        for header in HEADERS {
            assert!(packed.join(header).is_file(), "{compiler}: {header}");
        }
        assert!(!project.root.join("out/source/inc").exists(), "{compiler}");
        project.write("sub/.env", "\n");
        project.write("sub/twice.cu", &format!("#include \".env\"\n{source}"));
        let output = project.run(&[&["export", "--force", "--out", "out"][..], &to_json].concat());
        let said = text(&output.stderr);
        assert!(
            said.contains("`sub/.env` does not go into a package"),
            "{compiler}: {said}"
        );
    }
}
