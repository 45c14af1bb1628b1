//! Definitions and recordings of other tuners, read and written.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use common::{Project, repository, text};
use kiln_core::interchange::{Table, read_recording, t1, write_kernel_tuner, write_t4};
use kiln_core::space::{BuildLimits, Space};

/// The copy in the repository, and the full tables where they are.
fn folders() -> Vec<PathBuf> {
    let small = repository().join("crates/kiln/tests/spaces");
    let full = match std::env::var_os("KILN_SPACES") {
        Some(named) => PathBuf::from(named),
        None => repository().join("../shared/spaces"),
    };
    match full.join("construction").is_dir() {
        true => vec![small, full],
        false => {
            eprintln!("skipped: no full tables; KILN_SPACES names their folder");
            vec![small]
        }
    }
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn space_of(folder: &Path, kernel: &str) -> Arc<Space> {
    let text = fs::read_to_string(folder.join(kernel).join("T1.json")).unwrap();
    let definition =
        t1::Definition::parse(&text).unwrap_or_else(|e| panic!("{}", e.render(kernel, &text)));
    Arc::new(definition.build(BuildLimits::default()).unwrap())
}

/// Every space with its combinations and valid configs, as Kernel Tuner 1.5.0 counts them.
const SPACES: [(&str, u64, u64); 11] = [
    ("construction/atf_prl_2x2.json", 36_864, 1_200),
    ("construction/atf_prl_4x4.json", 9_437_184, 10_800),
    ("construction/atf_prl_8x8.json", 2_415_919_104, 48_720),
    ("construction/dedispersion.json", 22_272, 11_130),
    ("construction/expdist.json", 9_732_096, 504_000),
    ("construction/hotspot.json", 22_200_000, 349_853),
    ("construction/hub_hotspot_milo.json", 4_440_000, 82_984),
    ("convolution/T1.json", 16_896, 6_768),
    ("convolution_milo/T1.json", 10_240, 4_362),
    ("dedispersion_milo/T1.json", 22_272, 11_130),
    ("pnpoly/T1.json", 4_092, 4_092),
];

#[test]
fn spaces_have_the_known_counts() {
    let project = Project::new();
    for folder in folders() {
        for (file, cartesian, valid) in SPACES {
            let path = folder.join(file);
            let document = project.json(&["space", path.to_str().unwrap(), "--json"], &[0]);
            assert_eq!(document["cartesian"], cartesian, "{file}");
            assert_eq!(document["valid"], valid, "{file}");
            assert!(document["seconds"].as_f64().unwrap() > 0.0);
            assert!(document["peak_bytes"].as_u64().unwrap() > 100_000);
            let removed = document["constraints"].as_array().unwrap().iter();
            let removed: u64 = removed.map(|c| c["removed"].as_u64().unwrap()).sum();
            assert_eq!(removed, cartesian - valid, "{file}");
            for tunable in document["tunables"].as_array().unwrap() {
                let counts = tunable["valid"].as_array().unwrap();
                assert_eq!(counts.len(), tunable["values"].as_array().unwrap().len());
                let sum: u64 = counts.iter().map(|c| c.as_u64().unwrap()).sum();
                assert_eq!(sum, valid, "{file}");
            }
        }
    }
}

#[test]
fn a_manifest_has_a_space_too() {
    let project = Project::with_kernels();
    let document = project.json(&["space", "kernels/vector_add", "--json"], &[0]);
    assert_eq!(
        (&document["cartesian"], &document["valid"]),
        (&96.into(), &66.into())
    );
    let output = project.run(&["space", "kernels/vector_add"]);
    let shown = text(&output.stdout);
    assert!(
        shown.starts_with("vector_add: 4 tunables, 96 combinations, 66 valid (69 %)"),
        "{shown}"
    );
    assert!(
        shown.contains("removed by constraint `whole_lines`"),
        "{shown}"
    );
    assert!(
        shown.contains("VECTOR         4: 16  8: 22  16: 28"),
        "{shown}"
    );
}

/// Each table's records, failures and best time, as published.
const TABLES: [(&str, usize, usize, f64); 12] = [
    ("convolution/RTX_2080_Ti", 6_768, 1_512, 0.9003),
    ("convolution/RTX_Titan", 6_768, 1_512, 0.8783),
    ("convolution_milo/A100", 4_362, 161, 0.5536),
    ("convolution_milo/A4000", 4_362, 161, 1.021),
    ("convolution_milo/MI250X", 4_362, 0, 0.6588),
    ("convolution_milo/W6600", 4_362, 0, 1.728),
    ("dedispersion_milo/A100", 11_130, 0, 68.12),
    ("dedispersion_milo/A4000", 11_130, 0, 147.7),
    ("dedispersion_milo/MI250X", 11_130, 0, 49.57),
    ("dedispersion_milo/W6600", 11_130, 0, 135.1),
    ("pnpoly/RTX_2080_Ti", 4_092, 370, 8.024),
    ("pnpoly/RTX_Titan", 4_092, 342, 0.01352),
];

fn assert_same(a: &Table, b: &Table, what: &str) {
    assert_eq!(a.records().len(), b.records().len(), "{what}");
    for record in a.records() {
        assert_eq!(Some(record), b.find(&record.config), "{what}");
    }
}

#[test]
fn tables_are_read_and_written_back() {
    let mut read = 0;
    for folder in folders() {
        for (table, records, failed, best) in TABLES {
            let (kernel, _) = table.split_once('/').unwrap();
            let path = folder.join(format!("{table}.json.gz"));
            if !path.is_file() {
                continue;
            }
            read += 1;
            let space = space_of(&folder, kernel);
            let cache_text = unpacked(&path);
            let started = Instant::now();
            let cache = read_recording(&cache_text, Some(space.clone()))
                .unwrap_or_else(|e| panic!("{}", e.render(table, &cache_text)));
            eprintln!(
                "{table}: {} bytes in {:.3} s",
                cache_text.len(),
                started.elapsed().as_secs_f64()
            );
            assert_eq!(cache.records().len(), records, "{table}");
            assert_eq!(cache.failed(), failed, "{table}");
            assert_eq!(cache.missing(), Some(0), "{table}");
            let optimum = cache.optimum().unwrap().time_ms().unwrap();
            assert!((optimum / best - 1.0).abs() < 1e-3, "{table}: {optimum}");
            // Without the definition, what was recorded is what is valid.
            let own = read_recording(&cache_text, None).unwrap();
            assert_eq!(own.space().count(), Some(records as u128), "{table}");
            let written = write_kernel_tuner(&cache);
            let back = read_recording(&written, Some(space.clone())).unwrap();
            assert_same(&cache, &back, table);
            let written = write_t4(&cache).to_string();
            let back = read_recording(&written, Some(space.clone())).unwrap();
            assert_same(&cache, &back, table);
            let t4 = folder.join(format!("{table}_T4.json.gz"));
            if t4.is_file() {
                let t4_text = unpacked(&t4);
                let t4 = read_recording(&t4_text, Some(space))
                    .unwrap_or_else(|e| panic!("{}", e.render(table, &t4_text)));
                for record in cache.records() {
                    let other = t4.find(&record.config).unwrap();
                    assert_eq!(record.outcome, other.outcome, "{table}");
                    assert_eq!(record.costs.compile_ms, other.costs.compile_ms, "{table}");
                }
            }
        }
    }
    assert!(read >= 2, "the copy in the repository is there");
}

#[test]
fn bad_files_are_refused_with_their_place() {
    let project = Project::new();
    let t1 =
        fs::read_to_string(repository().join("crates/kiln/tests/spaces/pnpoly/T1.json")).unwrap();
    project.write("cut.json", &t1[..t1.len() / 2]);
    project.write("typo.json", &t1.replace("range(1, 32)", "rnge(1, 32)"));
    project.write("no.json.gz", "{}");
    project.write("list.json", "[]");
    for (file, expected) in [
        ("cut.json", "this is not JSON: EOF"),
        (
            "typo.json",
            "`Values` of parameter `block_size_x` cannot be read: expected a list",
        ),
        ("no.json.gz", "not compressed with gzip"),
        ("list.json", "expected an object, found an array"),
        ("missing.json", "No such file"),
    ] {
        let output = project.run(&["space", file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {said}");
        assert!(said.contains(expected), "{file}: {said}");
        assert!(said.contains(file), "{said}");
    }
}

/// A Python with Kernel Tuner: the one KILN_PEERS_PYTHON names, else one that pip makes once for
/// all tests. `None`, said out loud, where neither is to be had.
fn field_tools() -> Option<PathBuf> {
    if let Some(python) = std::env::var_os("KILN_PEERS_PYTHON") {
        return Some(python.into());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("field-tools");
    let python = folder.join("bin/python");
    fs::create_dir_all(&folder).unwrap();
    // Test programs run side by side; one of them installs.
    let lock = fs::File::create(folder.join("tests.lock")).unwrap();
    lock.lock().unwrap();
    if folder.join("installed").is_file() {
        return Some(python);
    }
    let ran = |program: &Path, arguments: &[&str]| -> Result<(), String> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&folder)
            .output();
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(text(&output.stderr)),
            Err(e) => Err(e.to_string()),
        }
    };
    let installed = ran(Path::new("python3"), &["-m", "venv", "."]).and_then(|()| {
        ran(
            &python,
            &[
                "-m",
                "pip",
                "install",
                "-q",
                "kernel_tuner==1.5.0",
                "jsonschema",
            ],
        )
    });
    match installed {
        Ok(()) => {
            fs::write(folder.join("installed"), "").unwrap();
            Some(python)
        }
        Err(why) => {
            eprintln!("skipped: no Python with Kernel Tuner: {why}");
            None
        }
    }
}

#[test]
fn what_is_exported_is_read_by_the_tools_of_the_field() {
    let project = Project::with_kernels();
    project.json(
        &[
            "tune",
            "kernels/vector_add",
            "--trials",
            "10",
            "--seed",
            "3",
            "--json",
        ],
        &[0, 1, 4],
    );
    for (format, file) in [
        ("t1", "t1.json"),
        ("t4", "t4.json"),
        ("kernel-tuner", "cache.json"),
    ] {
        let arguments = ["studies", "export", "--to", format, "--out", file];
        assert!(project.run(&arguments).status.success(), "{format}");
        let again = project.run(&arguments);
        assert_eq!(again.status.code(), Some(2));
        assert!(
            text(&again.stderr).contains("--force"),
            "{}",
            text(&again.stderr)
        );
        let packed = format!("{file}.gz");
        let document = project.json(
            &[
                "studies", "export", "1", "--to", format, "--out", &packed, "--json",
            ],
            &[0],
        );
        assert_eq!(document["trials"], 10);
        let plain = fs::read_to_string(project.root.join(file)).unwrap();
        assert_eq!(unpacked(&project.root.join(&packed)), plain);
    }
    let refused = project.run(&["studies", "export", "--to", "t1", "--out", "t1.txt"]);
    assert!(text(&refused.stderr).contains("no name for a JSON file"));

    // kiln reads what it wrote, against its own definition.
    let read = |file: &str| fs::read_to_string(project.root.join(file)).unwrap();
    let definition = t1::Definition::parse(&read("t1.json")).unwrap();
    let space = Arc::new(definition.build(BuildLimits::default()).unwrap());
    assert_eq!(space.count(), Some(66));
    let cache = read_recording(&read("cache.json"), Some(space.clone())).unwrap();
    let t4 = read_recording(&read("t4.json"), Some(space)).unwrap();
    assert_eq!(cache.records(), t4.records());
    assert_eq!(cache.origin(), t4.origin());
    let best = cache.optimum().unwrap().time_ms().unwrap();
    let study = project.json(&["studies", "show", "1", "--trials", "--json"], &[0]);
    assert_eq!(
        study["trial_list"].as_array().unwrap().len(),
        cache.records().len()
    );

    let Some(python) = field_tools() else {
        return;
    };
    let output = Command::new(python)
        .arg("-Wignore")
        .arg(repository().join("crates/kiln/tests/field_tools.py"))
        .args(["t1.json", "t4.json", "cache.json"])
        .current_dir(&project.root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["valid"], 66);
    assert_eq!(found["results"], 10);
    assert_eq!(found["recorded"], 10);
    assert_eq!(found["failed"], cache.failed());
    assert_eq!(found["simulated"], 10 - cache.failed());
    assert_eq!(found["best_ms"], best);
}
