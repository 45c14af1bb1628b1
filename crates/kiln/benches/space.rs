//! How long it takes to construct spaces, beside Kernel Tuner in the same run on the same machine.
//! `KILN_PEERS_PYTHON=…/python cargo bench --bench space` prints the table; the Python must have
//! kernel_tuner. Without one, kiln's side is printed alone.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The best of this many runs counts for kiln and for Kernel Tuner alike: what disturbs a
/// machine only ever adds time.
const RUNS: usize = 5;

const KERNEL_TUNER: &str = r#"
import contextlib, io, json, sys, time, warnings
warnings.simplefilter("ignore")
import kernel_tuner
from kernel_tuner.searchspace import Searchspace
definition = json.load(open(sys.argv[1]))["ConfigurationSpace"]
best = float("inf")
for _ in range(int(sys.argv[2])):
    parameters = {p["Name"]: eval(p["Values"]) for p in definition["TuningParameters"]}
    conditions = [c["Expression"] for c in definition["Conditions"]]
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        space = Searchspace(parameters, conditions, 2**31)
    best = min(best, time.perf_counter() - started)
print(json.dumps({"seconds": best, "valid": space.size}))
"#;

fn json_of(command: &mut Command) -> Option<serde_json::Value> {
    let output = command.output().ok()?;
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).ok(),
        false => {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            None
        }
    }
}

/// The full definitions where they are, else the copy in the repository.
fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("KILN_SPACES").map(PathBuf::from);
    let beside = here.join("../../../shared/spaces");
    let found = named
        .into_iter()
        .chain([beside])
        .find(|f| f.join("construction").is_dir());
    found.unwrap_or_else(|| here.join("tests/spaces"))
}

fn main() {
    let folder = folder().join("construction");
    let python = std::env::var_os("KILN_PEERS_PYTHON");
    if python.is_none() {
        println!("skipped: Kernel Tuner; KILN_PEERS_PYTHON names no Python that has it");
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the definitions are there")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    println!("best of {RUNS} runs each; kiln's seconds include reading the file");
    println!("| space | combinations | valid | kiln s | peak MiB | Kernel Tuner s | ratio |");
    println!("|---|---|---|---|---|---|---|");
    for file in files {
        let runs: Vec<serde_json::Value> = (0..RUNS)
            .filter_map(|_| {
                let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
                json_of(kiln.arg("space").arg(&file).arg("--json"))
            })
            .collect();
        let seconds = |run: &serde_json::Value| run["seconds"].as_f64().unwrap_or(f64::NAN);
        let best = runs.iter().map(seconds).fold(f64::INFINITY, f64::min);
        let Some(run) = runs.first() else {
            println!("| {} | failed |", file.display());
            continue;
        };
        let peer = python.as_ref().and_then(|python| {
            let mut peer = Command::new(python);
            json_of(
                peer.args(["-c", KERNEL_TUNER])
                    .arg(&file)
                    .arg(RUNS.to_string()),
            )
        });
        let (peer_seconds, ratio) = match &peer {
            Some(peer) => {
                assert_eq!(peer["valid"], run["valid"], "both count alike");
                (
                    format!("{:.4}", seconds(peer)),
                    format!("{:.0}", seconds(peer) / best),
                )
            }
            None => ("-".to_string(), "-".to_string()),
        };
        println!(
            "| {} | {} | {} | {best:.5} | {:.1} | {peer_seconds} | {ratio} |",
            file.file_stem().unwrap_or_default().to_string_lossy(),
            run["cartesian"],
            run["valid"],
            run["peak_bytes"].as_u64().unwrap_or(0) as f64 / f64::from(1 << 20),
        );
    }
}
