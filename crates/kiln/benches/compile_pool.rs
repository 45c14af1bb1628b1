//! How much faster 40 candidates compile side by side than one after another, and what a warm
//! cache costs. `cargo bench --bench compile_pool` prints the table.

use std::path::Path;
use std::process::Command;

const CANDIDATES: &str = "40";

struct Run {
    wall_s: f64,
    compiled: u64,
    cached: u64,
}

fn compile(home: &Path, kernel: &Path, jobs: &str) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .arg("check")
        .arg(kernel)
        .args(["--compile", "--limit", CANDIDATES, "--jobs", jobs, "--json"])
        .env("KILN_HOME", home)
        .output()
        .expect("kiln runs");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let compiled = &document["compiled"];
    Run {
        wall_s: compiled["wall_s"].as_f64().unwrap_or(f64::NAN),
        compiled: compiled["compiled"].as_u64().unwrap_or(0),
        cached: compiled["cached"].as_u64().unwrap_or(0),
    }
}

fn main() {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/attention_cpu");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = |name: &str| folder.path().join(name);
    let jobs = cores.to_string();
    println!("compile pool: {CANDIDATES} configs of attention_cpu on {cores} cores");
    println!(
        "{:<34} {:>8} {:>10} {:>8}",
        "", "wall s", "compiled", "cached"
    );
    let row = |name: &str, run: &Run| {
        println!(
            "{name:<34} {:>8.2} {:>10} {:>8}",
            run.wall_s, run.compiled, run.cached
        );
    };
    // Alternating, so that a slow minute of the machine hits both.
    let mut ratios = Vec::new();
    for round in 0..3 {
        let serial = compile(&home(&format!("serial-{round}")), &kernel, "1");
        let parallel = compile(&home(&format!("parallel-{round}")), &kernel, &jobs);
        row("one after another, cold cache", &serial);
        row(&format!("{jobs} side by side, cold cache"), &parallel);
        ratios.push(serial.wall_s / parallel.wall_s);
    }
    let warm = compile(&home("parallel-0"), &kernel, &jobs);
    row(&format!("{jobs} side by side, warm cache"), &warm);
    ratios.sort_by(f64::total_cmp);
    println!(
        "side by side is {:.2}x as fast (median of {:?})",
        ratios[1], ratios
    );
    assert_eq!(warm.cached, warm.compiled, "a warm cache compiles nothing");
}
