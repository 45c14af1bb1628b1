//! Whatever a manifest calls its arguments, dimensions, scalars and kernel: none of it hides what a torch package uses
//! itself. Needs Python, but no PyTorch.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::exports::export;
use common::{Project, text};
use serde_json::json;

/// A package of a kernel in C with such tensors, dimensions and scalars; every tensor has an extent of its own.
fn exported(kernel: &str, tensors: &[&str], dimensions: &[&str], scalars: &[&str]) -> Project {
    let of_tensors: Vec<String> = tensors.iter().map(|t| format!("SIZE_OF_{t}")).collect();
    let all: Vec<&str> = of_tensors
        .iter()
        .map(String::as_str)
        .chain(dimensions.iter().copied())
        .collect();
    let sizes: Vec<String> = all.iter().map(|d| format!("{d} = 8\n")).collect();
    let mut arguments = String::new();
    let mut parameters = Vec::new();
    for (tensor, size) in tensors.iter().zip(&of_tensors) {
        arguments.push_str(&format!(
            "{tensor} = {{ dtype = \"f32\", shape = [\"{size}\"] }}\n"
        ));
        parameters.push("const float *");
    }
    for scalar in scalars {
        arguments.push_str(&format!("{scalar} = {{ dtype = \"f32\", value = 1.5 }}\n"));
        parameters.push("float ");
    }
    // A condition for every dimension, and in each of them every function.
    let legal: Vec<String> = all
        .iter()
        .enumerate()
        .map(|(n, d)| {
            format!(
                "c{n} = \"{d} % 8 == 0 and min({d}, max({d}, 1)) == abs({d}) and gcd({d}, {d}) == ceil_div({d}, 1) and lcm({d}, 1) == align_up({d}, 8) \
                 and floor({d} * 1.0) == ceil({d} * 1.0) and int({d} * 1.0) == round({d} * 1.0) and sqrt({d}) + log2({d}) > 0 \
                 and is_pow2({d}) + 1 > (0 if {d} > 0 else 5)\"\n"
            )
        })
        .collect();
    let first = all[0];
    arguments.push_str(&format!(
        "result_ = {{ dtype = \"f32\", shape = [\"{first}\"], role = \"output\" }}\nsum_ = {{ dtype = \"f64\", value = \"{}\" }}\n",
        all.join(" + ")
    ));
    parameters.extend(["float *", "double "]);
    let parameters: Vec<String> = parameters
        .iter()
        .enumerate()
        .map(|(n, kind)| format!("{kind}a{n}"))
        .collect();
    let project = Project::new();
    let source = format!("void kern({}) {{}}\n", parameters.join(", "));
    project
        .write("reference.c", &source.replace("float", "double"))
        .write("kernel.c", &source);
    project.write(
        "kiln.toml",
        &format!(
            "[kernel]\nname = \"{kernel}\"\nsource = \"kernel.c\"\nentry = \"kern\"\n[shapes.target]\n{}[arguments]\n{arguments}\
             [constraints]\n{}[tunables]\nU = [1, 2]\n[baseline]\nconfig = {{ U = 1 }}\n\
             [reference]\nc = \"reference.c:kern\"\n",
            sizes.concat(),
            legal.concat()
        ),
    );
    let winners = json!([{"shape": "target", "config": {"U": 2}, "ratio": 1.5, "ratio_ci_95": [1.4, 1.6],
                          "device": "test", "date": "2026-11-16"}]);
    project.write("winners.json", &winners.to_string());
    export(&project, &["--to", "torch", "--out", "module"]);
    project
}

/// What a part of `check_names.py` prints about the package.
fn check(project: &Project, what: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/check_names.py");
    let output = Command::new("python3")
        .args([script.as_os_str(), what.as_ref()])
        .arg(project.root.join("module"))
        .output()
        .unwrap();
    let (told, failed) = (text(&output.stdout), text(&output.stderr));
    match told.strip_suffix("all as expected\n") {
        Some(told) => told.to_string(),
        None => panic!("{told}\n{failed}"),
    }
}

/// Every name in the generated code of a plain package, and some that might come to be used.
fn used() -> Vec<String> {
    let plain = exported("plain", &["x"], &["N"], &["s"]);
    let mut names: Vec<String> = check(&plain, "used").lines().map(str::to_string).collect();
    assert!(names.contains(&"_kernel".into()) && names.contains(&"_gcd".into()));
    let more = "torch sys os load device device_ self math dict zip object _ __ ___ class lambda _runtime __file__ __name__ __debug__";
    names.extend(more.split(' ').map(str::to_string));
    names.sort();
    names.dedup();
    // Words of C are no names of a manifest, nor is a key of a shape one of a dimension; the rest is the plain one's own.
    let left_out = ["int", "float", "bool", "use", "x", "SIZE_OF_x", "N", "s"];
    names.retain(|name| !left_out.contains(&name.as_str()));
    names
}

#[test]
fn no_name_hides_what_a_torch_package_uses() {
    let names = used();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // A shape has 64 dimensions at the most.
    for some in names.chunks(60) {
        check(&exported("plain", some, &["N"], &["s"]), "call");
        check(&exported("plain", &["x"], some, &["s"]), "call");
        check(&exported("plain", &["x"], &["N"], some), "call");
    }
}

#[test]
fn names_of_several_kinds_stay_apart() {
    check(
        &exported("x", &["x", "x_", "x__"], &["x", "x_"], &["y", "z"]),
        "call",
    );
    // Without a tensor a call is told a device.
    check(
        &exported(
            "device",
            &[],
            &["device", "v"],
            &["device", "device_", "v", "v_"],
        ),
        "call",
    );
}

#[test]
fn a_kernel_may_have_any_name() {
    for kernel in [
        "dict",
        "type",
        "KernelError",
        "dispatch",
        "_kernel",
        "_table",
        "_outside",
        "__all__",
    ] {
        check(&exported(kernel, &["x"], &["N"], &["s"]), "call");
    }
}
