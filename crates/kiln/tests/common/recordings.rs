//! Recordings to look at: the real ones, and one of thousands of trials.

use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::repository;

pub const FAULTS: &str = "crates/kiln/tests/recordings/h200_faults.kiln.json.gz";

/// A compressed JSON file of this repository.
pub fn unpacked(path: &str) -> Value {
    let file = File::open(repository().join(path)).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A whole recorded space of another tuner (4,362 measured configs) and, for a round number, its first configs
/// once more under a tunable that was constant.
pub fn five_thousand() -> Value {
    let space = unpacked("crates/kiln/tests/spaces/convolution_milo/A100.json.gz");
    let mut recorded = unpacked(FAULTS);
    let names = space["tune_params_keys"].as_array().unwrap();
    let mut manifest = recorded["manifest"].as_str().unwrap().to_string();
    let from = manifest.find("BEHAVIOUR = {").unwrap();
    let to = manifest.find("[shapes.target]").unwrap();
    let mut tunables = Vec::new();
    let mut lines = String::new();
    for name in names {
        let name = name.as_str().unwrap();
        let mut values = space["tune_params"][name].as_array().unwrap().clone();
        if name == "use_cmem" {
            values.insert(0, json!(0));
        }
        lines.push_str(&format!("{name} = {}\n", json!(values)));
        tunables.push(json!({"name": name, "values": values}));
    }
    manifest.replace_range(from..to, &format!("{lines}\n"));
    for (from, to) in [
        ("ceil_div(N, THREADS)", "ceil_div(N, 256)"),
        ("[\"THREADS\"]", "[256]"),
        ("\"SHARED\"", "0"),
        ("[\"SCRATCH\"]", "[1]"),
    ] {
        manifest = manifest.replace(from, to);
    }
    let config = "{ BEHAVIOUR = 0, THREADS = 256, SHARED = 0, SCRATCH = 1 }";
    manifest = manifest.replace(
        &format!("config = {config}"),
        "kernel = \"faults.cu:fault\"\ngrid = [1]\nblock = [256]",
    );
    recorded["manifest"] = json!(manifest);
    recorded["tunables"] = json!(tunables);
    let sample = recorded["trials"][0]["outcome"].clone();
    let configs: Vec<&Value> = space["cache"].as_object().unwrap().values().collect();
    let mut trials = Vec::new();
    let mut best = (f64::INFINITY, 0);
    for place in 0..5000 {
        let row = configs[place % configs.len()];
        let again = place >= configs.len();
        let config: Vec<Value> = names
            .iter()
            .map(|name| match name.as_str() {
                Some("use_cmem") if again => json!(0),
                Some(name) => row[name].clone(),
                None => Value::Null,
            })
            .collect();
        let outcome = match row["time"].as_f64() {
            Some(ms) => {
                if ms < best.0 {
                    best = (ms, place);
                }
                let mut outcome = sample.clone();
                outcome["samples_ns"] = json!([ms * 1e6, ms * 1.001e6, ms * 0.999e6]);
                outcome
            }
            None => json!({"kind": "not_compiled", "first_error": row["time"], "log": ""}),
        };
        trials.push(json!({"number": place + 1, "config": config, "outcome": outcome}));
    }
    let winner = &mut recorded["confirmation"]["winner"];
    winner["trial"] = json!(best.1 + 1);
    let values = trials[best.1]["config"].as_array().unwrap();
    winner["config"] = names
        .iter()
        .zip(values)
        .map(|(n, v)| json!([n, v]))
        .collect();
    recorded["confirmation"]["playoff"] = json!([]);
    recorded["trials"] = json!(trials);
    recorded
}
