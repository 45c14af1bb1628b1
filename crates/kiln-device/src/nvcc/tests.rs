//! Real compilations where KILN_CUDA has nvcc; said out loud where it has not.

use super::*;

fn job(dir: &std::path::Path, nvcc: &str, entry: &str) -> CompileJob {
    CompileJob {
        tool: Tool::Nvcc {
            command: vec![nvcc.into()],
            architecture: "sm_90a".into(),
            entry: entry.into(),
        },
        unit: format!("#include \"{}/k.cu\"\n", dir.display()),
        flags: Vec::new(),
        defines: vec![("SIZE".into(), "256".into())],
        include_dirs: Vec::new(),
        output: dir.join("image.cubin").to_string_lossy().into_owned(),
        memory_limit_bytes: 8 << 30,
        cpu_limit_seconds: 60,
    }
}

#[test]
fn kernels_compile_and_say_what_they_use() {
    let root = std::env::var("KILN_CUDA").unwrap_or_default();
    let nvcc = format!("{root}/bin/nvcc");
    if !std::path::Path::new(&nvcc).is_file() {
        eprintln!("skipped: no nvcc (KILN_CUDA/bin has none)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let source = "#include <cuda_fp16.h>\n#include \"part.h\"\n__global__ void plain(float *x, int n) {\n\
        __shared__ float s[SIZE]; s[threadIdx.x] = x[n]; __syncthreads(); x[0] = s[n]; }\n\
        extern \"C\" __global__ void bare(float *x) { x[0] = PART; }\n";
    fs::write(dir.join("k.cu"), source).unwrap();
    fs::write(dir.join("part.h"), "#define PART 1\n").unwrap();
    let compiled = Nvcc.compile(&job(&dir, &nvcc, "plain")).unwrap();
    assert_eq!(compiled.symbol.as_deref(), Some("_Z5plainPfi"));
    assert_eq!(compiled.resources.unwrap().static_shared_bytes, 1024);
    assert_eq!(compiled.log, "");
    let part = dir.join("part.h").to_string_lossy().into_owned();
    assert!(
        compiled.dependencies.contains(&part),
        "{:?}",
        compiled.dependencies
    );
    assert!(
        fs::read(dir.join("image.cubin"))
            .unwrap()
            .starts_with(b"\x7fELF")
    );
    let read = Nvcc.reads(&job(&dir, &nvcc, "plain")).unwrap();
    assert!(read.contains(&part), "{read:?}");
    assert!(
        !dir.join("image.cubin.d").exists(),
        "no list is left behind"
    );
    let bare = Nvcc.compile(&job(&dir, &nvcc, "bare")).unwrap();
    assert_eq!(bare.symbol, None);
    let error = Nvcc.compile(&job(&dir, &nvcc, "absent")).unwrap_err();
    assert!(
        error.first_error.contains("there is no kernel `absent`"),
        "{error:?}"
    );
    let mut broken = job(&dir, &nvcc, "plain");
    broken.unit.push_str("int x = y;\n");
    let error = Nvcc.compile(&broken).unwrap_err();
    assert!(
        error.first_error.starts_with("kiln's check(2): error"),
        "{error:?}"
    );
    let mut wrong = job(&dir, &nvcc, "plain");
    wrong
        .unit
        .push_str("static_assert(false, \"parameter 1 is wrong\");\n");
    let error = Nvcc.compile(&wrong).unwrap_err();
    assert_eq!(error.first_error, "parameter 1 is wrong");
    let mut left: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    assert_eq!(left, ["image.cubin", "k.cu", "part.h"]);
}

#[test]
fn an_nvcc_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Nvcc
        .compile(&job(dir.path(), "/nowhere/nvcc", "k"))
        .unwrap_err();
    assert!(error.first_error.contains("/nowhere/nvcc"), "{error:?}");
}
