//! `kiln check --compile` for CUDA: no device is needed, only a compiler.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, text};

const KERNEL: &str = "\
#if WIDTH == 3
#error \"a width of three\"
#endif
extern \"C\" __global__ void __launch_bounds__(THREADS) scale(const float *x, float *y, int n) {
    __shared__ float tile[THREADS * WIDTH];
    for (int i = 0; i < WIDTH; i++) tile[threadIdx.x * WIDTH + i] = x[(threadIdx.x + i) % n];
    __syncthreads();
    y[threadIdx.x % n] = 2 * tile[threadIdx.x ^ 1];
}
";

const REFERENCE: &str = "\
__global__ void reference(const double *x, double *y, int n) {
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
}
";

const MANIFEST: &str = "\
[kernel]
name = \"scale\"
language = \"cuda\"
source = \"scale.cu\"
entry = \"scale\"

[tunables]
THREADS = [64, 128, 2048]
WIDTH = [1, 2, 3]

[shapes.target]
N = 1000

[arguments]
x = { dtype = \"f32\", shape = [\"N\"] }
y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }
n = { dtype = \"i32\", value = \"N\" }

[reference]
kernel = \"reference.cu:reference\"
grid = [1]
block = [1]

[launch]
grid = [\"ceil_div(N, THREADS)\"]
block = [\"THREADS\"]
";

fn project() -> Option<Project> {
    let mut project = Project::new();
    project.cuda = Some(common::cuda()?);
    project
        .write("scale.cu", KERNEL)
        .write("reference.cu", REFERENCE)
        .write("kiln.toml", MANIFEST);
    Some(project)
}

#[test]
fn configs_are_compiled_for_an_architecture_and_described() {
    let Some(project) = project() else {
        return;
    };
    let arguments = ["check", "--arch", "sm_89", "--compile", "--json"];
    // Some configs do not compile, so the answer is no.
    let report = project.json(&arguments, &[1]);
    let compiled = &report["compiled"];
    assert_eq!(compiled["asked"], 6, "{report:#}");
    assert_eq!(compiled["compiled"], 4);
    assert_eq!(compiled["failed"].as_array().unwrap().len(), 2);
    assert_eq!(compiled["errors"][0]["count"], 2);
    let error = compiled["errors"][0]["error"].as_str().unwrap();
    assert!(
        error.contains("scale.cu(2)") && error.contains("width of three"),
        "{error}"
    );
    for config in compiled["configs"].as_array().unwrap() {
        let threads = config["config"]["THREADS"].as_u64().unwrap();
        let width = config["config"]["WIDTH"].as_u64().unwrap();
        assert_eq!(config["shared_bytes"], 4 * threads * width, "{config:#}");
        // 24 blocks of 64 threads are all an SM has; of 128, 12.
        assert_eq!(config["occupancy"]["fraction"], 1.0, "{config:#}");
        assert!(config["resources"]["registers"].as_u64().unwrap() > 0);
    }
    let text_of = |arguments: &[&str]| text(&project.run(arguments).stdout);
    let summary = text_of(&["check", "--arch", "sm_89", "--compile"]);
    for words in [
        "compiled 4 of 6 (4 from the cache)",
        "registers per thread",
        "2 failed: ",
    ] {
        assert!(summary.contains(words), "{words}: {summary}");
    }
    let listing = text_of(&["check", "--arch", "sm_90", "--compile", "--list"]);
    let lines = listing
        .lines()
        .filter(|line| line.contains("THREADS=64 WIDTH=1"));
    assert_eq!(lines.count(), 1, "{listing}");
}

#[test]
fn a_signature_that_differs_is_found_without_a_device() {
    let Some(project) = project() else {
        return;
    };
    project.replace("scale.cu", "float *y, int n)", "float *y, long n)");
    let output = project.run(&["check", "--arch", "sm_90a", "--compile", "--limit", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("1 failed: parameter 3 of "), "{told}");
}

/// The first failure of compiling one config, or nothing.
fn first_failure(project: &Project) -> String {
    let arguments = [
        "check",
        "--arch",
        "sm_90a",
        "--compile",
        "--limit",
        "1",
        "--json",
    ];
    let report = project.json(&arguments, &[0, 1]);
    let error = report["compiled"]["errors"][0]["error"].as_str();
    error.unwrap_or_default().to_string()
}

/// A project whose kernel takes `parameters`, for these `[arguments]`.
fn taking(project: &Project, parameters: &str, arguments: &str) {
    let source = format!(
        "#include <cuda_fp16.h>\nstruct Four {{ short a, b; }};\nstruct Three {{ char a[3]; }};\n\
         __global__ void scale({parameters}) {{}}\n"
    );
    let (head, tail) = MANIFEST.split_once("[arguments]").unwrap();
    let (_, tail) = tail.split_once("[reference]").unwrap();
    let reference = tail.replace("reference.cu:reference", "reference.cu:reference_of_all");
    let manifest = format!("{head}[arguments]\n{arguments}\n\n[reference]{reference}");
    let manifest = manifest.replace("grid = [1]", "precision = \"declared\"\ngrid = [1]");
    let reference = source.replace("scale(", "reference_of_all(");
    // The reference is compiled first; as a template of anything it takes what the manifest says.
    let reference = reference.replace(parameters, "float *y, R x").replace(
        "__global__",
        if arguments.contains("value") {
            "using R = KILN_R;\n__global__"
        } else {
            "using R = void *;\n__global__"
        },
    );
    let dtype = if arguments.contains("\"f16\"") {
        "__half"
    } else if arguments.contains("\"i32\"") {
        "int"
    } else {
        "float"
    };
    project
        .write("scale.cu", &source)
        .write("reference.cu", &reference.replace("KILN_R", dtype))
        .write("kiln.toml", &manifest);
}

const OUT: &str = "y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n";

#[test]
fn parameters_that_differ_are_refused_and_those_that_agree_are_not() {
    let Some(project) = project() else {
        return;
    };
    let buffer = |dtype: &str| format!("{OUT}x = {{ dtype = \"{dtype}\", shape = [\"N\"] }}");
    let scalar = |dtype: &str| format!("{OUT}x = {{ dtype = \"{dtype}\", value = 1 }}");
    for (parameter, arguments) in [
        ("const int &x", scalar("i32")),
        ("unsigned x", scalar("i32")),
        ("short x", scalar("f16")),
        ("float **x", buffer("f32")),
        ("__half *x", buffer("f32")),
        ("bool *x", buffer("f32")),
        ("Three *x", buffer("f32")),
        ("unsigned *x", buffer("i32")),
    ] {
        taking(&project, &format!("float *y, {parameter}"), &arguments);
        let told = first_failure(&project);
        assert!(
            told.starts_with("parameter 2 of 'scale' is not what the manifest says: argument 'x'"),
            "{parameter}: {told}"
        );
    }
    for (parameter, arguments) in [
        ("const float4 *__restrict__ x", buffer("f32")),
        ("float2 *x", buffer("f32")),
        ("const volatile float *x", buffer("f32")),
        ("__half2 *x", buffer("f16")),
        ("const uint4 *x", buffer("f16")),
        ("unsigned short *x", buffer("f16")),
        ("const void *x", buffer("f16")),
        ("unsigned char *x", buffer("i32")),
        ("__half x", scalar("f16")),
        ("Four x", scalar("i32")),
        ("const int x", scalar("i32")),
    ] {
        taking(&project, &format!("float *y, {parameter}"), &arguments);
        assert_eq!(first_failure(&project), "", "{parameter}");
    }
    taking(&project, "const float *y, float *x", &buffer("f32"));
    let told = first_failure(&project);
    assert!(
        told.contains("parameter 1 of 'scale' points to const") && told.contains("'y' is written"),
        "{told}"
    );
}

#[test]
fn macros_of_the_source_do_not_reach_kilns_own_lines() {
    let Some(project) = project() else {
        return;
    };
    let names = "N T P H E kind size is of type count buffer scalar parameter Plain Pointee Class \
                 Size Nth Signature kiln_manifest";
    let macros: String = names
        .split_whitespace()
        .map(|name| format!("#define {name} 1024\n"))
        .collect();
    project.write("scale.cu", &format!("{KERNEL}{macros}"));
    project.write("reference.cu", &format!("{REFERENCE}{macros}"));
    project.replace("kiln.toml", "WIDTH = [1, 2, 3]", "WIDTH = [1]");
    assert_eq!(first_failure(&project), "");
}

#[test]
fn a_tunable_of_one_letter_is_warned_of() {
    let Some(project) = project() else {
        return;
    };
    project.replace("kiln.toml", "[tunables]", "[tunables]\nT = [1, 2]");
    let told = text(&project.run(&["check", "--arch", "sm_90"]).stdout);
    assert!(
        told.contains("tunable `T` is a macro of one letter"),
        "{told}"
    );
}

#[test]
fn an_entry_may_be_an_instance_and_one_that_is_none_is_named_plainly() {
    let Some(project) = project() else {
        return;
    };
    let body = KERNEL.split_once("__launch_bounds__").unwrap().1;
    let body = body.replace("float", "T").replace("scale(", "k(");
    let source = format!(
        "namespace a {{ template <class T, int W> __global__ void __launch_bounds__{body} }}\n\
         __global__ void twice(const float *, float *, int) {{}}\n\
         __global__ void twice(const float *, float *, long) {{}}\n\
         __device__ void helper(const float *, float *, int) {{}}\n\
         __device__ int answer(const float *, float *, int) {{ return 1; }}\n\
         #define WORDS_THAT_ARE_LOOKED_FOR absent Unknown\n"
    );
    project.write("scale.cu", &source);
    project.replace("kiln.toml", "WIDTH = [1, 2, 3]", "WIDTH = [1]");
    project.replace(
        "reference.cu",
        "__global__",
        "template <class T> __global__",
    );
    project.replace("kiln.toml", ":reference\"", ":reference<int>\"");
    let mut written = "entry = \"scale\"".to_string();
    for (entry, words) in [
        ("a::k<float, WIDTH>", ""),
        ("a::k<float, 4>", ""),
        ("a::k<float>", "give all of its arguments"),
        ("a::k", "`a::k` is a template"),
        ("a::absent", "there is no kernel `a::absent`"),
        ("a::k<Unknown, 1>", "`Unknown` in the entry"),
        ("absent", "there is no kernel `absent`"),
        ("twice", "there are several kernels `twice`"),
        ("helper", "`helper` is not a `__global__` function"),
        ("answer", "`answer` is not a `__global__` function"),
    ] {
        let now = format!("entry = \"{entry}\"");
        project.replace("kiln.toml", &written, &now);
        written = now;
        let told = first_failure(&project);
        assert_eq!(told.is_empty(), words.is_empty(), "{entry}: {told}");
        assert!(told.contains(words), "{entry}: {told}");
    }
}

#[test]
fn gates_after_compiling_reject_and_warn() {
    let Some(project) = project() else {
        return;
    };
    project.replace("kiln.toml", "WIDTH = [1, 2, 3]", "WIDTH = [1, 2]");
    let arguments = ["check", "--arch", "sm_90", "--compile", "--json"];
    let mut gates = "[launch]".to_string();
    let mut check = |now: &str, codes: &[i32]| {
        let now = format!("[gates]\n{now}\n\n[launch]");
        project.replace("kiln.toml", &gates, &now);
        gates = now;
        let report = project.json(&arguments, codes);
        let said = text(
            &project
                .run(&["check", "--arch", "sm_90", "--compile"])
                .stdout,
        );
        (report, said)
    };
    let (report, said) = check("registers = { limit = 100 }", &[1]);
    let gated = report["compiled"]["configs"][0]["gated"].as_str().unwrap();
    assert!(
        gated.contains("gate `registers`") && gated.contains("100 are allowed"),
        "{gated}"
    );
    assert!(said.contains("nothing is left to try"), "{said}");
    let warn = "registers = { action = \"warn\", limit = 100 }";
    let (report, said) = check(warn, &[0]);
    assert_eq!(
        report["compiled"]["gate_warnings"]["registers"], 4,
        "{report:#}"
    );
    assert!(said.contains("4 break gate `registers`"), "{said}");
    // 64 or 128 threads, one or two floats each: all but the smallest.
    let (report, said) = check("shared_memory = { limit = 256 }", &[0]);
    assert!(
        said.contains("3 rejected after compiling by gate `shared_memory`"),
        "{said}"
    );
    assert_eq!(
        report["compiled"]["configs"][0]["gated"],
        serde_json::Value::Null
    );
    let (_, said) = check("registers = { limit = 65536 }", &[0]);
    assert!(!said.contains("rejected after"), "{said}");
}

#[test]
fn memory_and_clusters_are_gates_before_compiling() {
    let Some(project) = project() else {
        return;
    };
    let said = |arch: &str| text(&project.run(&["check", "--arch", arch]).stdout);
    project.replace(
        "kiln.toml",
        "[launch]",
        "[gates]\nmemory = { limit = 7999 }\n\n[launch]",
    );
    assert!(
        said("sm_90").contains("9 rejected by gate `memory`"),
        "{}",
        said("sm_90")
    );
    project.replace("kiln.toml", "limit = 7999", "limit = 8000");
    assert!(
        !said("sm_90").contains("gate `memory`"),
        "{}",
        said("sm_90")
    );
    project.replace("kiln.toml", "[launch]", "[launch]\ncluster = [2]");
    // 1000 elements are 16 blocks of 64 or 8 of 128; 2048 threads are refused before.
    assert!(
        said("sm_80").contains("6 rejected by gate `cluster`"),
        "{}",
        said("sm_80")
    );
    assert!(
        said("sm_90").contains("6 configs left"),
        "{}",
        said("sm_90")
    );
    project.replace("kiln.toml", "cluster = [2]", "cluster = [16]");
    project.replace(
        "kiln.toml",
        "limit = 8000 }",
        "limit = 8000 }\ncluster = { limit = 16 }",
    );
    // Only 16 blocks are a multiple of 16.
    assert!(
        said("sm_90").contains("3 configs left"),
        "{}",
        said("sm_90")
    );
}

#[test]
fn nvcc_compiles_where_a_kernel_asks_for_it_and_is_missed_where_it_is_not_there() {
    let Some(project) = project() else {
        return;
    };
    project.replace("kiln.toml", "entry = ", "compiler = \"nvcc\"\nentry = ");
    let arguments = [
        "check",
        "--arch",
        "sm_90",
        "--compile",
        "--limit",
        "1",
        "--json",
    ];
    let root = project.cuda.clone().unwrap();
    if !std::path::Path::new(&root).join("bin/nvcc").is_file() {
        let output = project.command(&arguments).env("PATH", "/nowhere").output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(text(&output.stderr).contains("asks for nvcc"));
        eprintln!("skipped: no nvcc (KILN_CUDA/bin has none)");
        return;
    }
    let report = project.json(&arguments, &[0, 1]);
    let config = &report["compiled"]["configs"][0];
    assert!(
        config["resources"]["registers"].as_u64().unwrap() > 0,
        "{report:#}"
    );
}

/// The matrix product that ships, whole, for an L4: no GPU and no toolkit of the machine's.
#[test]
fn every_config_of_the_shipped_matmul_compiles_for_an_l4() {
    let Some(cuda) = common::cuda() else {
        return;
    };
    let mut project = Project::with_kernels();
    project.cuda = Some(cuda);
    let arguments = [
        "check",
        "kernels/matmul",
        "--arch",
        "sm_89",
        "--compile",
        "--json",
    ];
    let report = project.json(&arguments, &[0]);
    let compiled = &report["compiled"];
    let count = compiled["compiled"].as_f64().unwrap();
    assert_eq!(report["valid"].as_f64(), Some(count));
    assert!(count > 100.0);
    assert_eq!(compiled["failed"].as_array().unwrap().len(), 0);
}
