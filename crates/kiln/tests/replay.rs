//! Recordings: made from real studies, replayed by the whole tool without a compiler or a device.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use common::{Project, finished_trials, repository, text};
use flate2::read::GzDecoder;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const FILE: &str = "faults.kiln.json.gz";

/// One real study of every fault there is, shared by the tests.
struct Original {
    project: Project,
    document: Value,
    trials: Vec<Value>,
}

static ORIGINAL: LazyLock<Original> = LazyLock::new(|| {
    let project = Project::with("crates/kiln/tests/faults");
    let document = project.json(&["tune", "--seed", "3", "--json"], &[0, 1, 4]);
    let shown = project.json(&["studies", "show", "--trials", "--json"], &[0]);
    let output = project.run(&["studies", "record", "--to", FILE]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let trials = shown["trial_list"].as_array().unwrap().clone();
    let expected = format!("recorded study 1 with {} trials", trials.len());
    assert!(text(&output.stderr).contains(&expected));
    Original {
        project,
        document,
        trials,
    }
});

/// A project with nothing in it but the recording, and a machine that can compile nothing.
fn elsewhere() -> Project {
    let project = Project::new();
    std::fs::copy(ORIGINAL.project.root.join(FILE), project.root.join(FILE)).unwrap();
    project
}

fn command(project: &Project, arguments: &[&str]) -> Command {
    let mut command = project.command(arguments);
    command
        .env("PATH", "/nowhere")
        .env("KILN_CC", "/nowhere/cc");
    command
}

fn replay(project: &Project, arguments: &[&str]) -> Value {
    let all = [&["tune", "--replay", FILE, "--json"], arguments].concat();
    let output = command(project, &all).output().unwrap();
    let code = output.status.code();
    let said = text(&output.stderr);
    assert!(matches!(code, Some(0 | 1 | 4)), "exit {code:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What may differ between two runs of the same replay.
fn without_time_and_place(mut document: Value) -> Value {
    for key in ["wall_s", "study", "store", "cost", "retrospective"] {
        document.as_object_mut().unwrap().remove(key);
    }
    document
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn reasons(trials: &[Value]) -> Vec<(Value, Value)> {
    let reason = |t: &Value| (t["config"].clone(), without_samples(&t["outcome"]));
    trials.iter().map(reason).collect()
}

/// An outcome without what a recording rounds or cuts.
fn without_samples(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    for key in ["samples_ns", "log", "output"] {
        outcome.as_object_mut().unwrap().remove(key);
    }
    outcome
}

#[test]
fn a_replay_repeats_the_study_it_was_made_from() {
    let original = &*ORIGINAL;
    let project = elsewhere();
    let document = replay(&project, &[]);
    let shown = project.json(&["studies", "show", "--trials", "--json"], &[0]);
    let trials = shown["trial_list"].as_array().unwrap();
    assert_eq!(reasons(trials), reasons(&original.trials));
    for key in [
        "kernel",
        "shape",
        "candidates_found",
        "rejected",
        "trials",
        "best_trial",
        "best_config",
        "stop",
        "strategy",
        "seed",
        "space",
        "environment",
        "compiler",
        "samples",
    ] {
        assert_eq!(document[key], original.document[key], "{key}");
    }
    let (now, then) = (&document["speedup"], &original.document["speedup"]);
    let ratio = now.as_f64().unwrap() / then.as_f64().unwrap();
    assert!((0.5..2.0).contains(&ratio), "{now} and {then}");
    // Crashes, wrong answers, time-outs and compile failures came along.
    for reason in ["crashed", "numerics", "timeout", "not_compiled", "canary"] {
        assert!(
            document["rejected"][reason].as_u64() > Some(0),
            "{reason}: {document:#}"
        );
    }
}

#[test]
fn nobody_can_take_a_replay_for_a_measurement() {
    let project = elsewhere();
    let document = replay(&project, &[]);
    assert_eq!(document["replayed_from"], FILE);
    let device = document["device"].as_str().unwrap();
    assert!(device.ends_with(" (replayed)"), "{device}");
    assert!(
        document["notes"][0]
            .as_str()
            .unwrap()
            .contains("nothing was measured here")
    );

    let output = command(&project, &["tune", "--replay", FILE])
        .output()
        .unwrap();
    let table = text(&output.stdout);
    let expected = format!("  REPLAY    of {FILE}: nothing was measured here");
    assert!(
        table.contains(&expected) && table.contains("(replayed), shape"),
        "{table}"
    );
    let said = text(&output.stderr);
    assert!(
        said.contains("nothing is measured here") && !said.contains("measuring"),
        "{said}"
    );
    let shown = text(&project.run(&["studies", "show"]).stdout);
    assert!(shown.contains(&expected), "{shown}");
    let list = text(&project.run(&["studies", "list"]).stdout);
    assert!(
        list.lines().skip(1).all(|l| l.ends_with(" (replayed)")),
        "{list}"
    );
    let list = project.json(&["studies", "list", "--json"], &[0]);
    assert_eq!(list["studies"][0]["replayed_from"], FILE);

    for (arguments, expected) in [
        (
            &["2", "--to", "again.kiln.json"][..],
            "study 2 cannot be recorded: it is itself a replay of",
        ),
        (
            &["--to", "again.kiln.json"],
            "nothing was measured here: studies 1, 2 are replays",
        ),
        // The name is wrong whatever there is to record.
        (
            &["--to", "again.txt"],
            "`again.txt` is no name for a recording",
        ),
    ] {
        let output = project.run(&[&["studies", "record"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let (first, second) = (elsewhere(), elsewhere());
    for arguments in [
        &["--strategy", "tpe", "--seed", "8", "--trials", "20"][..],
        &["--strategy", "random", "--trials", "12"],
        &[],
    ] {
        let reports = [&first, &second].map(|project| {
            let document = without_time_and_place(replay(project, arguments));
            serde_json::to_string_pretty(&document).unwrap()
        });
        assert_eq!(reports[0], reports[1], "{arguments:?}");
    }
    let seeds = ["1", "2"].map(|seed| {
        replay(
            &first,
            &["--strategy", "random", "--trials", "9", "--seed", seed],
        )["rejected"]
            .clone()
    });
    assert_ne!(seeds[0], seeds[1]);
}

/// `tune --events` with a pipe so narrow that the replay waits for its reader.
fn interrupted_after(project: &Project, arguments: &[&str], count: usize) -> (Vec<Value>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let mut child = command(project, arguments)
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = Vec::new();
    let mut lines = BufReader::with_capacity(16, reader).lines();
    while finished_trials(seen.join("\n").as_bytes()).len() < count {
        seen.push(lines.next().unwrap().unwrap());
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let mut said = String::new();
    std::thread::scope(|scope| {
        let stderr = child.stderr.take().unwrap();
        let said = &mut said;
        scope.spawn(move || BufReader::new(stderr).read_to_string(said).unwrap());
        seen.extend(lines.map_while(Result::ok));
    });
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    (finished_trials(seen.join("\n").as_bytes()), said)
}

#[test]
fn an_interrupted_replay_goes_on_where_it_stopped() {
    let arguments = [
        "tune",
        "--replay",
        FILE,
        "--events",
        "--strategy",
        "tpe",
        "--seed",
        "4",
    ];
    let configs =
        |trials: &[Value]| -> Vec<Value> { trials.iter().map(|t| t["config"].clone()).collect() };
    let events = |project: &Project| {
        let output = command(project, &arguments).output().unwrap();
        (finished_trials(&output.stdout), text(&output.stderr))
    };
    let whole = elsewhere();
    let (uninterrupted, _) = events(&whole);
    assert_eq!(uninterrupted.len(), ORIGINAL.trials.len());

    let cut = elsewhere();
    let (mut trials, said) = interrupted_after(&cut, &arguments, 3);
    assert!(
        trials.len() < ORIGINAL.trials.len(),
        "it was not interrupted"
    );
    let hint = format!("`kiln tune --replay {FILE}` continues where it stopped");
    assert!(said.contains(&hint), "{said}");
    let (rest, said) = events(&cut);
    assert!(said.contains("resuming study 1"), "{said}");
    trials.extend(rest);
    assert_eq!(configs(&trials), configs(&uninterrupted));
    let reports = [&whole, &cut]
        .map(|project| without_time_and_place(project.json(&["studies", "show", "--json"], &[0])));
    assert_eq!(reports[0], reports[1]);
}

#[test]
fn a_replay_of_another_recording_is_not_continued() {
    let project = elsewhere();
    let mut recording: Value = serde_json::from_slice(&unpacked(&project.root.join(FILE))).unwrap();
    let arguments = [
        "tune",
        "--replay",
        "plain.kiln.json",
        "--events",
        "--strategy",
        "random",
    ];
    project.write("plain.kiln.json", &recording.to_string());
    interrupted_after(&project, &arguments, 2);
    recording["created_unix_ms"] = json!(1);
    project.write("plain.kiln.json", &recording.to_string());
    let said = text(&command(&project, &arguments).output().unwrap().stderr);
    assert!(
        said.contains("study 1 is unfinished, but the recording changed since"),
        "{said}"
    );
}

/// Replays and measurements of one manifest do not get into each other's way.
#[test]
fn a_replay_leaves_an_interrupted_study_alone() {
    let project = Project::with("crates/kiln/tests/faults");
    std::fs::copy(ORIGINAL.project.root.join(FILE), project.root.join(FILE)).unwrap();
    let replayed = ["tune", ".", "--replay", FILE, "--events"];
    interrupted_after(&project, &replayed, 2);
    let live = project.run(&["tune", "--trials", "1"]);
    let said = text(&live.stderr);
    assert!(!said.contains("study 1"), "{said}");
    let said = text(&command(&project, &replayed).output().unwrap().stderr);
    assert!(said.contains("resuming study 1"), "{said}");
    let list = project.json(&["studies", "list", "--json"], &[0]);
    let list = list["studies"].as_array().unwrap();
    let from: Vec<&Value> = list.iter().map(|s| &s["replayed_from"]).collect();
    assert_eq!(from, [&json!(FILE), &Value::Null]);
    // Without a number the latest that was measured is recorded, also behind a later replay.
    replay(&project, &["--fresh"]);
    let record = ["studies", "record", "--to", "own.kiln.json", "--json"];
    assert_eq!(project.json(&record, &[0])["study"], 2);
}

#[test]
fn a_manifest_beside_the_recording_decides_budget_and_space() {
    let project = elsewhere();
    let text_of = |recording: &Path| {
        let value: Value = serde_json::from_slice(&unpacked(recording)).unwrap();
        value["manifest"].as_str().unwrap().to_string()
    };
    let manifest = text_of(&project.root.join(FILE));
    let narrowed = manifest.replace("trials = 1000", "trials = 5").replace(
        "\"honest\", \"segfault\",",
        "\"honest\", \"never_recorded\",",
    );
    assert_ne!(narrowed, manifest);
    project.write("kiln.toml", &narrowed);
    let arguments = ["tune", "kiln.toml", "--replay", FILE, "--json"];
    let output = command(&project, &arguments).output().unwrap();
    let said = text(&output.stderr);
    let count = ORIGINAL.trials.len();
    assert!(
        said.contains("1 recorded configs are not valid in `kiln.toml`"),
        "{said}"
    );
    assert!(
        said.contains(&format!(
            "the recording holds {} of {count} valid configs",
            count - 1
        )),
        "{said}"
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["trials"], 5);
    assert_eq!(document["manifest"], "kiln.toml");
    assert_eq!(document["rejected"]["gate:not_recorded"], 1);

    for (from, to, expected) in [
        (
            "name = \"faults\"",
            "name = \"other\"",
            "is a recording of kernel `faults`, not of `other`",
        ),
        (
            "N = 4000",
            "N = 4001",
            "was recorded with N=4000; the manifest's target has N=4001",
        ),
        (
            "FAULT = [",
            "DEFAULT = [",
            "do not fit the manifest: unknown tunable `FAULT`",
        ),
    ] {
        project.write("kiln.toml", &manifest.replace(from, to));
        let output = command(&project, &arguments).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// Part of a study is a recording too, of a smaller space.
#[test]
fn an_unfinished_study_can_be_recorded_and_is_said_to_be() {
    let project = Project::with("kernels/vector_add");
    project
        .replace("kiln.toml", "N = 262144", "N = 3000")
        .replace("kiln.toml", "[budget]", "[budget]\nhopeless_below = 0.0\n");
    let arguments = ["tune", "--events", "--strategy", "random", "--seed", "5"];
    let mut child = project
        .command(&arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let trials = lines
        .by_ref()
        .filter(|line| line.as_ref().unwrap().contains("trial_finished"));
    assert_eq!(trials.take(6).count(), 6);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // The manifest has moved on; the recording is of what was tuned.
    project.replace("kiln.toml", "N = 3000", "N = 3001");
    let output = project.run(&["studies", "record", "1", "--to", "part.kiln.json", "--json"]);
    let said = text(&output.stderr);
    assert!(said.contains("study 1 is not finished"), "{said}");
    let written: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = written["trials"].as_u64().unwrap();
    assert!(count >= 6 && written["finished"] == false, "{written}");

    let recording = std::fs::read_to_string(project.root.join("part.kiln.json")).unwrap();
    assert!(recording.starts_with("{\"recording\":1,") && recording.contains("N = 3000"));
    assert!(!recording.contains("secret"));
    let arguments = ["tune", "--replay", "part.kiln.json", "--json"];
    let output = command(&project, &arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(
        said.contains(&format!("the recording holds {count} of 66 valid configs")),
        "{said}"
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&document["trials"], &document["stop"]),
        (&json!(count), &json!("exhausted"))
    );
    assert!(document["verdict"].is_string());

    let again = project.run(&["studies", "record", "1", "--to", "part.kiln.json"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("`part.kiln.json` is already there\nhint: --force"));
    let forced = project.run(&[
        "studies",
        "record",
        "1",
        "--to",
        "part.kiln.json",
        "--force",
    ]);
    assert!(forced.status.success());
    let named = project.run(&["studies", "record", "1", "--to", "part.txt"]);
    assert_eq!(named.status.code(), Some(2));
    assert!(text(&named.stderr).contains("NAME.kiln.json.gz"));
}

/// A made-up recording of a GPU nobody here has. The fastest config of the search fails when it is
/// to be confirmed.
fn gpu_recording() -> Value {
    let manifest = repository().join("kernels/vector_add/kiln.cuda.toml");
    let samples = |ns: f64| -> Vec<f64> {
        (0..40)
            .map(|i| ns * (1.0 + 1e-3 * f64::from(i * 7 % 11)))
            .collect()
    };
    let measured = |ns: f64| {
        json!({"kind": "measured", "samples_ns": samples(ns), "batch": 1, "stop": "precise",
               "error_ratio": 0.1})
    };
    let device_error = |code: u32, name: &str| {
        json!({"kind": "crashed", "phase": "check", "shape": "odd",
               "cause": {"cause": "device", "code": code, "name": name}})
    };
    let illegal = device_error(700, "CUDA_ERROR_ILLEGAL_ADDRESS");
    let outcomes = [
        ((256, 4), measured(190e3)),
        ((128, 4), measured(200e3)),
        ((128, 2), measured(210e3)),
        ((256, 2), measured(230e3)),
        ((1024, 1), measured(250e3)),
        ((1024, 4), illegal.clone()),
        (
            (512, 4),
            device_error(701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
        ),
        (
            (64, 4),
            json!({"kind": "timed_out", "phase": "sample", "after_ms": 2000}),
        ),
        (
            (64, 2),
            json!({"kind": "gated", "gate": "spills", "message": "8 bytes"}),
        ),
    ];
    let trials = (1..).zip(&outcomes).map(|(number, ((block, vector), outcome))| {
        json!({"number": number, "config": [block, vector, 1, 1], "outcome": outcome})
    });
    let finalist = |trial: u32, ns: f64| json!({"trial": trial, "median_ns": ns, "speedup": 250e3 / ns, "samples_ns": samples(ns)});
    let interval = json!([1.0, 1.0]);
    let tunables = [
        json!({"name": "BLOCK", "values": [64, 128, 256, 512, 1024]}),
        json!({"name": "VECTOR", "values": [1, 2, 4]}),
        json!({"name": "UNROLL", "values": [1]}),
        json!({"name": "STEPS", "values": [1]}),
    ];
    json!({
        "recording": 1, "kernel": "vector_add_cuda", "shape": "target",
        "dimensions": [["N", 67_108_864]], "compiler": "CUDA 13.0", "kiln_version": "0.1.0",
        "device": {
            "kind": "cuda", "name": "NVIDIA H200", "cores": 132, "memory_bytes": 150e9 as u64,
            "environment": [["driver", "1"]],
            "cuda": {
                "architecture": "sm_90", "uuid": "GPU-0", "driver_cuda": 13_000,
                "multiprocessors": 132, "clock_khz": 1_980_000, "memory_clock_khz": 3_201_000,
                "memory_bus_bits": 6144, "l2_bytes": 62_914_560, "shared_per_block": 49_152,
                "shared_per_block_optin": 232_448, "shared_per_multiprocessor": 233_472,
                "registers_per_multiprocessor": 65_536, "threads_per_multiprocessor": 2048,
                "blocks_per_multiprocessor": 32,
            },
        },
        "created_unix_ms": 1, "manifest": std::fs::read_to_string(manifest).unwrap(),
        "tunables": tunables,
        "strategy": "random", "seed": 7, "batch": 4, "finished": true,
        "baseline": {"label": "the given config", "outcome": measured(250e3)},
        "also": [{"label": "torch.py:add", "outcome": measured(220e3)}],
        "trials": trials.collect::<Vec<_>>(),
        "confirmation": {
            "playoff": [finalist(2, 200e3), finalist(3, 210e3), finalist(4, 230e3), finalist(5, 250e3)],
            "dropped": [{"trial": 1, "outcome": illegal}],
            "winner": {
                "trial": 2, "config": [["BLOCK", 128]],
                "comparison": {
                    "verdict": "FASTER", "speedup": 1.25, "speedup_ci_95": interval,
                    "baseline_ns": 250e3, "baseline_ci_95": interval, "candidate_ns": 200e3,
                    "candidate_ci_95": interval, "p_value": 0.0, "cliffs_delta": 1.0,
                    "margin": 0.03, "samples": {"baseline": 80, "candidate": 80}, "sentence": "",
                },
                "baseline_rounds_ns": [samples(250e3), samples(251e3)],
                "winner_rounds_ns": [samples(200e3), samples(201e3)],
                "energy_mj": {"baseline": 90.0, "winner": 80.0},
            },
        },
    })
}

#[test]
fn a_recording_of_a_gpu_needs_no_gpu() {
    let project = Project::new();
    let mut recording = gpu_recording();
    project.write("gpu.kiln.json", &recording.to_string());
    let run = |arguments: &[&str]| {
        let all = [&["tune", "--replay", "gpu.kiln.json", "--json"], arguments].concat();
        let output = command(&project, &all).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        (
            serde_json::from_slice::<Value>(&output.stdout).unwrap(),
            said,
        )
    };
    for strategy in ["auto", "random", "tpe", "lhs", "exhaustive"] {
        for seed in ["1", "2"] {
            let (document, said) = run(&["--strategy", strategy, "--seed", seed]);
            assert!(
                said.contains("the recording holds 9 of 165 valid configs"),
                "{said}"
            );
            assert!(said.contains("beside it torch.py:add: 221 us"), "{said}");
            assert_eq!(document["device"], "NVIDIA H200 (replayed)");
            assert_eq!(document["trials"], 9);
            assert_eq!(
                document["rejected"],
                json!({"constraint:registers": 15, "gate:not_recorded": 156, "gated": 1,
                       "illegal_address": 1, "launch_refused": 1, "timeout": 1})
            );
            assert_eq!(document["verdict"], "FASTER");
            assert_eq!(document["best_config"]["BLOCK"], 128);
            // Two rounds of 40 were recorded; five of 20 are asked for.
            assert_eq!(
                document["samples"],
                json!({"baseline": 40, "winner": 40, "rounds": 2})
            );
            let notes = document["notes"].to_string();
            let fastest = document["notes"].as_array().unwrap().iter().find(|note| {
                note.as_str()
                    .unwrap()
                    .contains("was the fastest of the search")
            });
            let fastest = fastest.unwrap().as_str().unwrap();
            assert!(
                fastest.contains("but failed confirmation: touched an illegal address"),
                "{notes}"
            );
            assert!(fastest.ends_with(" won"), "{notes}");
            assert_eq!(notes.matches("failed confirmation").count(), 1, "{notes}");
        }
    }
    // Measured again, the fastest of the search came second.
    let mut overtaken = gpu_recording();
    overtaken["confirmation"]["dropped"] = json!([]);
    let mut again = overtaken["confirmation"]["playoff"][1].clone();
    again["trial"] = json!(1);
    overtaken["confirmation"]["playoff"]
        .as_array_mut()
        .unwrap()
        .push(again);
    project.write("overtaken.kiln.json", &overtaken.to_string());
    let output = project.run(&["report", "overtaken.kiln.json", "--format", "md"]);
    let said = text(&output.stdout);
    assert!(
        said.contains("was the fastest of the search")
            && said.contains("trial 2 was faster when both were measured again"),
        "{said}"
    );
    // Without a confirmation the search's own samples must do, and nothing is known against the
    // fastest config.
    recording["confirmation"] = Value::Null;
    project.write("gpu.kiln.json", &recording.to_string());
    let (document, _) = run(&[]);
    assert_eq!(document["best_config"]["BLOCK"], 256);
    assert_eq!(
        document["samples"],
        json!({"baseline": 40, "winner": 40, "rounds": 5})
    );
}

#[test]
fn a_file_that_is_no_recording_is_told_apart() {
    let project = elsewhere();
    let whole = std::fs::read(project.root.join(FILE)).unwrap();
    let json = unpacked(&project.root.join(FILE));
    let value: Value = serde_json::from_slice(&json).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = value.clone();
        change(&mut value);
        value.to_string().into_bytes()
    };
    let mut flipped = whole.clone();
    let last = flipped.len() - 6;
    flipped[last] ^= 1;
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "half.json.gz",
            whole[..whole.len() / 2].to_vec(),
            "it is cut off or damaged",
        ),
        ("crc.json.gz", flipped, "it is cut off or damaged"),
        (
            "plain.json.gz",
            json.clone(),
            "it is named `.gz`, but is not compressed with gzip",
        ),
        (
            "half.json",
            json[..json.len() / 2].to_vec(),
            "it is cut off: EOF",
        ),
        ("empty.json", Vec::new(), "it is cut off: EOF"),
        (
            "text.json",
            b"hello".to_vec(),
            "it is damaged: expected value",
        ),
        (
            "list.json",
            b"[1, 2]".to_vec(),
            "it is JSON, but not a recording of kiln",
        ),
        (
            "other.json",
            b"{\"a\": 1}".to_vec(),
            "it is JSON, but not a recording of kiln",
        ),
        (
            "newer.json",
            b"{\"recording\": 2}".to_vec(),
            "it has format 2; this kiln reads up to 1",
        ),
        (
            "missing.json",
            changed(&|v| drop(v.as_object_mut().unwrap().remove("trials"))),
            "missing field `trials`",
        ),
        (
            "kind.json",
            changed(&|v| v["trials"][0]["outcome"]["kind"] = json!("vanished")),
            "unknown variant `vanished`",
        ),
        (
            "junk.json.gz",
            [&whole[..], b"junk"].concat(),
            "4 bytes follow the end",
        ),
        (
            "twice.json.gz",
            [&whole[..], &whole].concat(),
            "follow the end of the compressed data",
        ),
        (
            "value.json",
            changed(&|v| v["trials"][1]["config"] = json!(["unheard_of"])),
            "trial 2 has FAULT=unheard_of, which `FAULT` does not list",
        ),
        (
            "again.json",
            changed(&|v| v["trials"][1]["config"] = v["trials"][0]["config"].clone()),
            "trial 2 has the same config as trial 1",
        ),
        (
            "shape.json",
            changed(&|v| v["shape"] = json!("huge")),
            "its shape `huge` is not in its manifest",
        ),
        (
            "zero.json",
            changed(&|v| v["baseline"]["outcome"]["batch"] = json!(0)),
            "the baseline has samples of 0 launches",
        ),
        (
            "long.json",
            changed(&|v| v["baseline"]["outcome"]["samples_ns"] = json!([1e300])),
            "the baseline has a sample of 1",
        ),
        (
            "width.json",
            changed(&|v| v["trials"][1]["config"] = json!([])),
            "trial 2 has 0 values for 1 tunables",
        ),
        (
            "times.json",
            changed(&|v| v["baseline"]["outcome"]["samples_ns"] = json!([1.0, -2.0])),
            "the baseline has a sample of -2 ns",
        ),
        (
            "none.json",
            changed(&|v| v["trials"][0]["outcome"]["samples_ns"] = json!([])),
            "trial 1 has no samples",
        ),
        (
            "winner.json",
            changed(&|v| v["confirmation"]["winner"]["trial"] = json!(99)),
            "trial 99 was confirmed but is not there",
        ),
        (
            "manifest.json",
            changed(&|v| v["manifest"] = json!("[kernel]\nname = 3\n")),
            "manifest.json, manifest:2:8",
        ),
    ];
    for (name, bytes, expected) in cases {
        std::fs::write(project.root.join(name), bytes).unwrap();
        let output = command(&project, &["tune", "--replay", name])
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
        assert!(!said.contains("panicked"), "{name}: {said}");
    }
    let output = command(&project, &["tune", "--replay", "nowhere.json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot replay `nowhere.json`: No such file"));
    for path in ["/dev/zero", "."] {
        let output = command(&project, &["tune", "--replay", path]).output();
        let output = output.unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("it is not a regular file"), "{said}");
    }
    // A hole: takes no disk.
    let huge = std::fs::File::create(project.root.join("huge.json")).unwrap();
    huge.set_len((256 << 20) + 1).unwrap();
    let output = command(&project, &["tune", "--replay", "huge.json"]).output();
    let said = text(&output.unwrap().stderr);
    assert!(said.contains("it has more than 256 MiB"), "{said}");
}

/// A recording may come from anywhere; what it says must not reach the terminal as commands.
#[test]
fn names_in_a_recording_cannot_command_a_terminal() {
    let project = elsewhere();
    let json = unpacked(&project.root.join(FILE));
    let mut value: Value = serde_json::from_slice(&json).unwrap();
    let evil = "evil\u{1b}[2J\u{7}\r";
    value["device"]["name"] = json!(evil);
    value["kernel"] = json!(evil);
    value["baseline"]["label"] = json!(evil);
    project.write("other.kiln.json", &value.to_string());
    value["kernel"] = json!("faults");
    project.write("evil.kiln.json", &value.to_string());
    let refused = command(&project, &["tune", "--replay", "other.kiln.json"]).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let played = command(&project, &["tune", "--replay", "evil.kiln.json"]).output();
    let played = played.unwrap();
    let said = text(&played.stderr);
    assert!(matches!(played.status.code(), Some(0 | 1 | 4)), "{said}");
    let listed = project.run(&["studies", "list"]);
    let shown = project.run(&["studies", "show", "--trials"]);
    let all = [refused, played, listed, shown];
    for bytes in all.iter().flat_map(|o| [&o.stdout, &o.stderr]) {
        let bad = |c: char| c.is_control() && c != '\n';
        assert!(!text(bytes).contains(bad), "{:?}", text(bytes));
    }
    assert!(said.contains("evil\u{fffd}[2J"), "{said}");
}

/// What a live study may say about its winner, a replay may not.
#[test]
fn a_replay_does_not_claim_to_have_checked() {
    let project = Project::new();
    let mut recording = gpu_recording();
    recording["confirmation"] = Value::Null;
    let times: Vec<f64> = (0..40).map(|i| 900e3 + f64::from(i * 7 % 11)).collect();
    recording["baseline"]["outcome"]["samples_ns"] = json!(times);
    project.write("gpu.kiln.json", &recording.to_string());
    let arguments = ["tune", "--replay", "gpu.kiln.json", "--json"];
    let output = command(&project, &arguments).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let notes = document["notes"].to_string();
    assert!(notes.contains("above 2x"), "{notes}");
    assert!(!notes.contains("checked again"), "{notes}");
}

/// What a recording in `tests/recordings` must come to, whatever the strategy and seed.
struct Expected {
    file: &'static str,
    codes: &'static [i32],
    /// Reasons that must be among the rejected when every config is tried.
    failures: &'static [&'static str],
}

/// Every file in `tests/recordings` has its line here.
const RECORDINGS: &[Expected] = &[
    // 72 configs of an attention kernel on an H200.
    Expected {
        file: "h200_anchor.kiln.json.gz",
        codes: &[0],
        failures: &[],
    },
    // One honest kernel and seventeen that misbehave, on an H200.
    Expected {
        file: "h200_faults.kiln.json.gz",
        codes: &[1],
        failures: &[
            "canary",
            "device_assert",
            "illegal_address",
            "illegal_instruction",
            "input_modified",
            "launch_failed",
            "misaligned_address",
            "numerics",
            "timeout",
        ],
    },
];

#[test]
fn every_recording_that_is_kept_replays() {
    let folder = repository().join("crates/kiln/tests/recordings");
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let files: BTreeMap<String, PathBuf> = files
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            )
        })
        .filter(|(name, _)| name.ends_with(".json.gz"))
        .collect();
    let missing = RECORDINGS.iter().find(|e| !files.contains_key(e.file));
    assert!(missing.is_none(), "{:?} is gone", missing.map(|e| e.file));
    for (name, path) in files {
        let expected = RECORDINGS.iter().find(|e| e.file == name);
        let expected = expected.unwrap_or_else(|| panic!("`{name}` has no line in RECORDINGS"));
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!(bytes < 200 << 10, "{name} has {bytes} bytes");
        let recording: Value = serde_json::from_slice(&unpacked(&path)).unwrap();
        let recorded = recording["trials"].as_array().unwrap().len();
        let path = path.display().to_string();
        for (strategy, seed) in [("tpe", "1"), ("tpe", "2"), ("random", "1"), ("random", "2")] {
            let case = format!("{name} with {strategy}, seed {seed}");
            let project = Project::new();
            let trials = recorded.to_string();
            let arguments = [
                "tune",
                "--replay",
                &path,
                "--json",
                "--strategy",
                strategy,
                "--seed",
                seed,
                "--trials",
                &trials,
            ];
            let output = command(&project, &arguments).output().unwrap();
            let said = text(&output.stderr);
            let code = output.status.code().unwrap();
            assert!(
                expected.codes.contains(&code),
                "{case}: exit {code}\n{said}"
            );
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(document["success"], code == 0, "{case}");
            // A stop rule may end the search early; only a whole one meets every failure.
            if document["trials"] == recorded {
                let ran = document["candidates_found"].as_u64().unwrap();
                let failed: u64 = document["rejected"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .filter(|(reason, _)| !reason.contains(':'))
                    .map(|(_, count)| count.as_u64().unwrap())
                    .sum();
                assert_eq!(ran + failed, recorded as u64, "{case}");
                for reason in expected.failures {
                    let count = document["rejected"][reason].as_u64();
                    assert!(count > Some(0), "{case}: no {reason}");
                }
            }
        }
    }
}
