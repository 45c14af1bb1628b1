//! Every input kept under `fuzz/seeds` passes the check of its fuzz target: the very function that the
//! target runs, without libFuzzer. What once broke something stays there, and this keeps it mended.

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};

/// Milliseconds for each that is there; what blows up takes minutes.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Address space for all of them together, over what the tests themselves take.
const MOST_BYTES: u64 = 4 << 30;

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

fn seeds_of(target: &str) -> Vec<PathBuf> {
    let folder = seeds().join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a folder").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_seed_holds_what_its_target_asks() {
    setrlimit(Resource::RLIMIT_AS, MOST_BYTES, MOST_BYTES).expect("a lower limit");
    for (target, check) in fuzz::TARGETS {
        let seeds = seeds_of(target);
        assert!(seeds.len() >= 3, "target `{target}` has too few seeds");
        for path in seeds {
            let data = std::fs::read(&path).expect("a file");
            passes(check, &data, &path.display().to_string());
        }
    }
}

fn passes(check: fuzz::Check, data: &[u8], name: &str) {
    let begun = Instant::now();
    let outcome = std::panic::catch_unwind(|| check(data));
    assert!(outcome.is_ok(), "{name} fails");
    let took = begun.elapsed();
    assert!(took < MOST_TIME, "{name} takes {took:?}");
}

/// Many of everything: too large to keep, and each once took minutes because something was compared with
/// all that came before it.
#[test]
fn long_inputs_take_no_longer_than_their_length() {
    let many = |n: usize, item: &dyn Fn(usize) -> String| -> String {
        (0..n).map(item).collect::<Vec<_>>().join(",")
    };
    let t1 = |parameters: &str, conditions: &str| {
        format!(
            r#"{{"ConfigurationSpace":{{"TuningParameters":[{parameters}],"Conditions":[{conditions}]}}}}"#
        )
    };
    let parameter = |i: usize| format!(r#"{{"Name":"p{i}","Values":[1,2]}}"#);
    let condition = |i: usize| format!(r#""p{} < p{}""#, i % 500, i * 7 % 500);
    let record = |configuration: String| {
        format!(r#"{{"configuration":{{{configuration}}},"invalidity":"compile","times":{{}}}}"#)
    };
    let wide =
        r#"{"Name":"a","Values":"list(range(65536))"},{"Name":"b","Values":"list(range(65536))"}"#;
    let terms = many(390, &|i| format!("(a + {i}) * b"));
    let texts = many(30_000, &|i| format!(r#""x{i}""#));
    let cached = many(30_000, &|i| format!(r#""{i}":{{"p":"x{i}","time":1.0}}"#));
    let inputs = [
        ("t1", t1(&many(30_000, &parameter), "")),
        ("t1", t1(&many(500, &parameter), &many(10_000, &condition))),
        ("t1", t1(wide, &format!(r#""max({terms}) > 5""#))),
        (
            "results",
            format!(r#"{{"tune_params":{{"p":[{texts}]}},"cache":{{{cached}}}}}"#),
        ),
        ("results", {
            let keys = many(30_000, &|i| format!(r#""p{i}":1"#));
            format!(r#"{{"results":[{}]}}"#, record(keys))
        }),
        ("results", {
            let records = many(30_000, &|i| record(format!(r#""p":"x{i}""#)));
            format!(r#"{{"results":[{records}]}}"#)
        }),
        ("recording", {
            let text =
                std::fs::read_to_string(seeds().join("recording/no_trials.json")).expect("a file");
            let mut recording: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let values: Vec<u32> = (0..100_000).collect();
            recording["tunables"] = serde_json::json!([{"name": "a", "values": values}]);
            recording.to_string()
        }),
        ("manifest", {
            let text =
                std::fs::read_to_string(seeds().join("manifest/saxpy.toml")).expect("a file");
            let tunables: String = (0..5_000).map(|i| format!("T{i} = [1, 2]\n")).collect();
            text.replacen("[tunables]\n", &format!("[tunables]\n{tunables}"), 1)
        }),
    ];
    for (number, (target, input)) in inputs.iter().enumerate() {
        let found = fuzz::TARGETS.iter().find(|(name, _)| name == target);
        let (_, check) = found.expect("a target");
        passes(*check, input.as_bytes(), &format!("long input {number}"));
    }
}

#[test]
fn every_folder_of_seeds_has_a_target() {
    for entry in std::fs::read_dir(seeds()).expect("the seeds") {
        let name = entry.expect("an entry").file_name();
        let known = fuzz::TARGETS.iter().any(|(target, _)| **target == name);
        assert!(known, "{name:?} has no target");
    }
}
