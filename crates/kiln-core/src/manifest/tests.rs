//! Whole manifests: what valid ones mean, and the message for each kind of mistake.

use super::decode::split_function;
use super::*;

mod docs;
mod fuzz;
mod mistakes;
mod tolerance;

const SAXPY: &str = include_str!("tests/saxpy.toml");
const MATMUL: &str = include_str!("tests/matmul.toml");
const ATTENTION: &str = include_str!("tests/attention.toml");
const HOPPER: &str = include_str!("tests/hopper.toml");

/// All messages for a manifest, as a user sees them; empty when it is valid.
fn rendered(text: &str) -> String {
    match Manifest::parse(text) {
        Ok(_) => String::new(),
        Err(problems) => {
            assert!(!problems.is_empty());
            let messages: Vec<String> = problems
                .iter()
                .map(|p| p.render("kiln.toml", text))
                .collect();
            messages.join("\n\n")
        }
    }
}

fn parsed(text: &str) -> Manifest {
    match Manifest::parse(text) {
        Ok(manifest) => manifest,
        Err(_) => panic!("{}", rendered(text)),
    }
}

fn ints(values: &[Value]) -> Vec<i64> {
    values
        .iter()
        .map(|v| match v {
            Value::Int(i) => *i,
            other => panic!("{other:?} is not an integer"),
        })
        .collect()
}

#[test]
fn a_short_manifest_gets_the_documented_defaults() {
    let manifest = parsed(SAXPY);
    assert_eq!(manifest.kernel.name, "saxpy");
    assert_eq!(manifest.kernel.language, Language::C);
    assert_eq!(manifest.kernel.flags, ["-O3", "-march=native"]);
    assert_eq!(manifest.target().name, "target");
    assert_eq!(manifest.scope(), ["BLOCK", "UNROLL", "N"]);
    let names: Vec<&str> = manifest.arguments.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["n", "x", "y"]);
    assert_eq!(
        manifest.search,
        Search {
            strategy: "auto".into(),
            seed_trials: 20,
            seed: None
        }
    );
    assert_eq!(
        manifest.budget,
        Budget {
            trials: 120,
            minutes: None,
            price_per_hour: None,
            cost: None,
            stop_at_speedup: None,
            stagnation: None,
            hopeless_below: 0.5,
        }
    );
    assert_eq!(
        manifest.measure,
        Measure {
            min_samples: 10,
            max_samples: 100,
            precision: 0.01,
            max_seconds: 2.0,
            cut_ratio: 1.5,
            caches: crate::protocol::Caches::Warm,
            energy: false,
            compile_timeout_seconds: 60.0,
            run_timeout_seconds: 30.0,
        }
    );
    assert_eq!(
        manifest.confirm,
        Confirm {
            samples: 100,
            finalists: 3,
            rounds: 5,
            margin: 0.03,
            max_seconds: 60.0,
            unseen_shapes: 3,
            domain: Vec::new(),
            repeats: 20,
            sanitize: Sanitize::Auto,
        }
    );
    assert_eq!(manifest.nonfinite, Nonfinite::Reject);
    assert!(manifest.baseline.is_none() && manifest.gates.is_empty());
    assert!(matches!(
        &manifest.reference,
        Some(Reference::C { source, entry, flags })
            if source.value == "reference.c" && entry == "saxpy" && flags == &["-O2"]
    ));
}

#[test]
fn a_full_manifest_means_what_it_says() {
    let manifest = parsed(MATMUL);
    let values = |name: &str| {
        let tunable = manifest.tunables.iter().find(|t| t.name == name);
        tunable.unwrap().values.clone()
    };
    assert_eq!(ints(&values("TILE_N")), [16, 32, 64, 128]);
    assert_eq!(ints(&values("UNROLL")), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(values("PACK"), [Value::Bool(false), Value::Bool(true)]);
    assert_eq!(values("ALPHA"), [Value::Float(0.5), Value::Float(1.0)]);
    assert_eq!(values("ORDER").len(), 2);
    assert_eq!(ints(&values("THREADS")), [4]);

    assert_eq!(manifest.dimension_names(), ["M", "N", "K", "MN"]);
    let purposes: Vec<ShapePurpose> = manifest.shapes.iter().map(|s| s.purpose).collect();
    use ShapePurpose::{Check, Sweep, Target};
    assert_eq!(purposes, [Target, Check, Sweep]);
    let tiny: Vec<i64> = manifest.shapes[1].dimensions.iter().map(|d| d.1).collect();
    assert_eq!(tiny, [3, 5, 7, 15]);

    let fills: Vec<Fill> = manifest
        .arguments
        .iter()
        .filter_map(|a| match &a.kind {
            ArgumentKind::Buffer { fill, .. } => Some(fill.on(&[], a.dtype).unwrap()),
            ArgumentKind::Scalar { .. } | ArgumentKind::Tma { .. } => None,
        })
        .collect();
    let zero = Fill::Constant { value: 0.0 };
    assert_eq!(
        fills,
        [
            Fill::Normal {
                mean: 0.0,
                std: 1.0
            },
            Fill::Uniform {
                low: -1.0,
                high: 1.0
            },
            zero.clone(),
            Fill::Integers { low: 0, high: 8 },
            zero.clone(),
            zero,
        ]
    );
    let Some(Baseline {
        kind: BaselineKind::Config { values, .. },
        also: _,
        target,
    }) = &manifest.baseline
    else {
        panic!("{:?}", manifest.baseline);
    };
    assert_eq!(*target, 1.2);
    assert_eq!(values[4], ("ALPHA".to_string(), Value::Float(1.0)));
    assert_eq!(manifest.gates[1].1.limit, Some(1_000_000_000));
    assert_eq!(manifest.nonfinite, Nonfinite::Match);
    assert_eq!(manifest.tolerance.len(), 2);
    assert_eq!(manifest.budget.cost, Some(0.25));
    assert_eq!(manifest.search.seed, Some(7));
}

#[test]
fn a_tolerance_may_depend_on_the_shape() {
    let text = MATMUL.replace(
        "f32 = 1e-4",
        "f32 = { rtol = \"1e-6 * sqrt(K)\", atol = 1e-5 }",
    );
    let manifest = parsed(&text);
    let (_, rule) = &manifest.tolerance[0];
    let on = |k: i64| {
        let dimensions = [("M", 8), ("N", 8), ("K", k)];
        rule.on(&dimensions.map(|(name, n)| (name.to_string(), n)))
    };
    let tolerance = on(10_000).unwrap();
    assert!((tolerance.rtol - 1e-4).abs() < 1e-18);
    assert_eq!(tolerance.atol, Some(1e-5));
    // On a shape nobody wrote down.
    assert!(
        on(4_000_000_000_000)
            .unwrap_err()
            .contains("not from 0 to below 1")
    );
}

#[test]
fn a_cuda_manifest_has_a_launch() {
    let manifest = parsed(ATTENTION);
    assert_eq!(manifest.kernel.language, Language::Cuda);
    assert!(manifest.kernel.flags.is_empty());
    assert_eq!(manifest.target().name, "real");
    let grid: Vec<&str> = manifest.launch.grid.iter().map(Expr::text).collect();
    assert_eq!(grid, ["ceil_div(S, BLOCK_M)", "B * H"]);
    assert_eq!(manifest.launch.cluster[0].text(), "1");
}

#[test]
fn a_cuda_manifest_gets_the_documented_defaults() {
    let manifest = parsed(ATTENTION);
    assert_eq!(manifest.kernel.compiler, CudaCompiler::Nvrtc);
    assert!(!manifest.launch.cooperative);
    let policy = manifest.gate_policy("spills");
    assert_eq!(policy.action, GateAction::Off);
    assert_eq!(manifest.gate_policy("cluster").limit, None);
}

#[test]
fn a_cuda_entry_may_be_qualified_and_an_instance() {
    for (entry, name) in [
        ("a::k", "k"),
        ("k<float>", "k"),
        ("::a::b::k<float, 4, (BLOCK_M > 64)>", "k"),
        ("k<a::b<int>>", "k"),
    ] {
        let manifest = parsed(&HOPPER.replace("\"hopper_fwd\"", &format!("\"{entry}\"")));
        assert_eq!(manifest.kernel.entry.value, entry);
        assert_eq!(manifest.kernel.name, name);
    }
    for (written, file, function) in [
        (
            "sub/r.cu:a::k<float, b::c>",
            "sub/r.cu",
            "a::k<float, b::c>",
        ),
        ("r.cu:k", "r.cu", "k"),
        ("r.cuh:a::k", "r.cuh", "a::k"),
    ] {
        let (found_file, found) = split_function(written).unwrap();
        assert_eq!((found_file, found), (file, function));
    }
}

#[test]
fn a_full_cuda_manifest_means_what_it_says() {
    let manifest = parsed(HOPPER);
    assert_eq!(manifest.kernel.compiler, CudaCompiler::Nvcc);
    assert!(manifest.launch.cooperative);
    let descriptors: Vec<(usize, DType, Vec<&str>, Swizzle)> = manifest
        .arguments
        .iter()
        .filter_map(|a| match &a.kind {
            ArgumentKind::Tma {
                tensor,
                tile,
                swizzle,
            } => Some((
                *tensor,
                a.dtype,
                tile.iter().map(Expr::text).collect(),
                *swizzle,
            )),
            _ => None,
        })
        .collect();
    let q = (1, DType::F16, vec!["BLOCK_M", "D"], Swizzle::Bytes128);
    let o = (3, DType::F32, vec!["1", "D // 2"], Swizzle::None);
    assert_eq!(descriptors, [q, o]);

    let Some(Reference::Kernel {
        source,
        entry,
        flags,
        launch,
        precision,
    }) = &manifest.reference
    else {
        panic!("{:?}", manifest.reference);
    };
    assert_eq!(
        (source.value.as_str(), entry.as_str()),
        ("naive.cu", "naive")
    );
    assert!(flags.is_empty() && launch.cooperative);
    assert_eq!(launch.grid[1].text(), "B * H");
    assert_eq!(launch.block[0].text(), "128");
    assert_eq!(launch.shared.as_ref().map(Expr::text), Some("4 * S"));
    assert_eq!(*precision, ReferencePrecision::Declared);

    let Some(Baseline {
        kind: BaselineKind::Python(default),
        also,
        ..
    }) = &manifest.baseline
    else {
        panic!("{:?}", manifest.baseline);
    };
    assert_eq!(default.source.value, "sdpa.py");
    let also: Vec<&str> = also.iter().map(|f| f.function.as_str()).collect();
    assert_eq!(also, ["flash", "math"]);

    let policy = |name: &str| {
        let GatePolicy { action, limit } = manifest.gate_policy(name);
        (action, limit)
    };
    assert_eq!(policy("registers"), (GateAction::Warn, None));
    assert_eq!(policy("spills"), (GateAction::Reject, Some(64)));
    assert_eq!(policy("occupancy"), (GateAction::Warn, Some(50)));
    assert_eq!(policy("cluster"), (GateAction::Reject, Some(16)));
    assert_eq!(policy("grid"), (GateAction::Reject, None));
    assert_eq!(manifest.measure.caches, crate::protocol::Caches::Cold);
    assert!(manifest.measure.energy);
}

#[test]
fn other_references_and_baselines() {
    let with = |reference: &str, baseline: &str| {
        let start = HOPPER.find("[reference]").unwrap();
        let end = HOPPER.find("[gates]").unwrap();
        let tables = format!("[reference]\n{reference}\n[baseline]\n{baseline}\n");
        parsed(&format!("{}{tables}{}", &HOPPER[..start], &HOPPER[end..]))
    };
    let kernel = "kernel = \"b.cu:f\"\ngrid = [\"S\", \"B * H\"]\nblock = 64";
    let manifest = with("c = \"r.c:f\"", kernel);
    assert!(matches!(&manifest.reference, Some(Reference::C { flags, .. }) if flags == &["-O2"]));
    assert!(matches!(
        manifest.baseline.map(|b| b.kind),
        // The flags of the kernel that is tuned.
        Some(BaselineKind::Kernel { flags, launch, .. })
            if flags == ["-lineinfo"] && launch.grid.len() == 2
    ));
    let manifest = with("python = \"r.py:f\"", "config = { BLOCK_M = 64 }");
    assert!(matches!(
        &manifest.reference,
        Some(Reference::Python(PythonFunction { source, function }))
            if source.value == "r.py" && function == "f"
    ));
    let python = SAXPY.replace("c = \"reference.c", "python = \"reference.py");
    assert!(matches!(
        parsed(&python).reference,
        Some(Reference::Python(_))
    ));
}

#[test]
fn the_kernels_of_this_repository_are_valid() {
    parsed(include_str!(
        "../../../../kernels/vector_add/kiln.cuda.toml"
    ));
    parsed(include_str!("../../../../kernels/vector_add/kiln.toml"));
    parsed(include_str!("../../../../kernels/attention_cpu/kiln.toml"));
    parsed(include_str!("../../../../kernels/matmul_cpu/kiln.toml"));
}

#[test]
fn a_stage_is_a_flag_a_list_or_a_table() {
    let table = "[stages]\na = \"-DNO_A\"\nb = [\"-DNO_B=2\", \"-UWITH_B\"]\n\
                 c-1 = { flags = \"-DNO_C\", kind = \"special_function\" }\n[reference]";
    let manifest = parsed(&SAXPY.replace("[reference]", table));
    let [a, b, c] = manifest.stages.as_slice() else {
        panic!("{:?}", manifest.stages);
    };
    assert_eq!((a.name.as_str(), a.kind), ("a", None));
    assert_eq!(b.flags, ["-DNO_B=2", "-UWITH_B"]);
    assert_eq!(b.macros().collect::<Vec<_>>(), ["NO_B", "WITH_B"]);
    assert_eq!(
        (c.name.as_str(), c.kind),
        ("c-1", Some(StageKind::SpecialFunction))
    );
    assert!(parsed(SAXPY).stages.is_empty());
    for flag in ["-D", "-DA-B", "-D1", "-DA(x)=x", "A", "-O3", "-D A", ""] {
        assert_eq!(macro_name(flag), None, "{flag}");
    }
}

#[test]
fn spans_point_at_what_was_written() {
    let manifest = parsed(MATMUL);
    let source = &manifest.kernel.source;
    assert_eq!(&MATMUL[source.span.clone()], "\"matmul.c\"");
    assert_eq!(&MATMUL[manifest.shapes[1].span.clone()], "[shapes.tiny]");
    assert_eq!(&MATMUL[manifest.arguments[2].span.clone()], "c");
    let constraint = &manifest.constraints[0];
    assert_eq!(
        &MATMUL[constraint.span.clone()],
        "\"TILE_M * TILE_N <= 4096\""
    );
}

#[test]
fn which_shape_is_the_target() {
    let target = |shapes: &str| {
        let text = SAXPY.replace("[shapes.target]\nN = 1024\n", shapes);
        parsed(&text).target().name.clone()
    };
    assert_eq!(target("[shapes.only]\nN = 4\n"), "only");
    assert_eq!(
        target("[shapes.a]\nN = 4\n[shapes.target]\nN = 4\n"),
        "target"
    );
    let other = "[shapes.target]\nN = 4\n[shapes.b]\nuse = \"target\"\nN = 4\n";
    assert_eq!(target(other), "b");
}

#[test]
fn line_ends_of_windows_are_fine() {
    let text = MATMUL.replace('\n', "\r\n");
    let manifest = parsed(&text);
    assert_eq!(&text[manifest.kernel.source.span.clone()], "\"matmul.c\"");
    let broken = text.replace("TILE_M * TILE_N", "TILE_M * TILE_O");
    assert!(
        rendered(&broken).contains("kiln.toml:20:23\n"),
        "{}",
        rendered(&broken)
    );
}

#[test]
fn arguments_keep_the_order_written() {
    let text = SAXPY.replace(
        "[arguments]\n",
        "[arguments]\nzz = { dtype = \"i32\", value = 3 }\n",
    );
    let manifest = parsed(&text);
    let names: Vec<&str> = manifest.arguments.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["zz", "n", "x", "y"]);
}
