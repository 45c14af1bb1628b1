//! Tunables that nothing uses are named, and those that something uses are not.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Project, accepted, repository, text};

const WARNING: &str = "used by no source, flag, launch, constraint or argument";

#[test]
fn a_tunable_that_nothing_uses_is_named() {
    let project = Project::with_scale();
    let says = || accepted(&project, &["check"]);
    assert!(!says().contains(WARNING));
    // In a comment, with a default only, and nowhere.
    project
        .write(
            "tile.h",
            "/* TILE */\n#ifndef DEPTH\n#define DEPTH 2\n#endif\n#define WIDTH_OF(x) (x * LANES)\n",
        )
        .replace("scale.c", "enum {", "#include \"tile.h\"\nenum {")
        .replace(
            "kiln.toml",
            "UNROLL = [1, 2, 4]\n",
            "UNROLL = [1, 2, 4]\nTILE = [1, 2]\nDEPTH = [1, 2]\nLANES = [1, 2]\nNOTHING = [1, 2]\n\
             SIZE = [1, 2]\nLEVEL = [1, 2]\nCHOICE = [1, 2]\n",
        )
        .replace(
            "kiln.toml",
            "flags = [\"-O2\"]",
            "flags = [\"-O2\", \"-DFAST=LEVEL\"]",
        )
        .replace(
            "kiln.toml",
            "[shapes.target]",
            "[constraints]\nchoice = \"CHOICE <= UNROLL\"\n[shapes.target]",
        )
        .replace("kiln.toml", "value = \"N\"", "value = \"N + 0 * SIZE\"");
    let said = says();
    assert!(
        said.contains(&format!(
            "warning: tunables `TILE`, `DEPTH`, `NOTHING` are {WARNING}"
        )),
        "{said}"
    );
    let output = project.run(&["tune", "--trials", "1"]);
    assert!(
        text(&output.stderr).contains(WARNING),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_cuda_kernel_needs_no_compiler_for_it() {
    let project = Project::new();
    project
        .write(
            "k.cu",
            "#include \"part.h\"\nextern \"C\" __global__ void k(float *y, int n) { int i = blockIdx.x * BLOCK + threadIdx.x;\n\
             if (i < n) y[i] = PART; }\n",
        )
        .write("part.h", "#define PART (2.0f * SCALE)\n")
        .write("reference.py", "def k(y, n):\n    return y\n")
        .write(
            "kiln.toml",
            "[kernel]\nname = \"k\"\nsource = \"k.cu\"\nentry = \"k\"\n\
             [tunables]\nBLOCK = [64, 128]\nSCALE = [1, 2]\nGRIDS = [1, 2]\nMISSPELT = [1, 2]\n\
             [shapes.target]\nN = 4096\n[arguments]\ny = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
             n = { dtype = \"i32\", value = \"N\" }\n\
             [launch]\ngrid = \"GRIDS * ceil_div(N, BLOCK)\"\nblock = \"BLOCK\"\n\
             [reference]\npython = \"reference.py:k\"\n",
        );
    let said = accepted(&project, &["check", "--arch", "sm_90"]);
    assert!(
        said.contains(&format!("warning: tunable `MISSPELT` is {WARNING}")),
        "{said}"
    );
    // Which file that is only the compiler knows.
    project.write(
        "k.cu",
        "#include HEADER\nextern \"C\" __global__ void k(float *y, int n) {}\n",
    );
    let said = accepted(&project, &["check", "--arch", "sm_90"]);
    assert!(!said.contains(WARNING), "{said}");
}

fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            manifests(&path, found);
        } else if path.extension().is_some_and(|e| e == "toml") {
            let text = fs::read_to_string(&path).unwrap();
            if text.contains("[kernel]") && text.contains("[tunables]") {
                found.push(path);
            }
        }
    }
}

#[test]
fn nothing_is_said_of_the_manifests_that_ship() {
    let project = Project::new();
    let mut found = Vec::new();
    for folder in [
        "kernels",
        "redteam",
        "docs",
        "crates/kiln/src",
        "crates/kiln/tests",
    ] {
        manifests(&repository().join(folder), &mut found);
    }
    assert!(found.len() > 20, "{found:?}");
    let mut checked = 0;
    for path in found {
        let output = project.run(&["check", path.to_str().unwrap(), "--arch", "sm_90"]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains(WARNING), "{}: {said}", path.display());
        checked += usize::from(output.status.success());
    }
    assert!(checked > 20, "{checked} could be checked");
}
