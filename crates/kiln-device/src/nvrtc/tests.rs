//! Real compilations where KILN_CUDA names NVRTC; said out loud where it does not.

use super::*;

const KERNELS: &str = r#"
#include "part.h"
#include <cuda_fp16.h>
namespace deep { template <int N> __global__ void tpl(float *x) { x[0] = N; } }
template __global__ void deep::tpl<3>(float *);
__global__ void plain(float *x, int n) {
    __shared__ float s[SIZE];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[n] + __half2float(__float2half(PART));
}
extern "C" __global__ void bare(float *x) { x[0] = 1; }
__device__ float helper(float x) { return x; }
__global__ void twice(float *x) { x[0] = 1; }
__global__ void twice(int *x) { x[0] = 1; }
"#;

struct Bench {
    dir: tempfile::TempDir,
    library: String,
    include: String,
    nvrtc: Nvrtc,
}

impl Bench {
    fn new(kernels: &str) -> Option<Bench> {
        // Where the tests of the `kiln` crate, which run first, install one.
        let installed = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../target/tmp/cuda-home/toolchains/cuda-13.0/nvidia/cu13")
            .canonicalize();
        let named = std::env::var_os("KILN_CUDA").map(PathBuf::from);
        let Some(root) = named.or(installed.ok()) else {
            eprintln!("skipped: no NVRTC (KILN_CUDA is not set, and none is installed for tests)");
            return None;
        };
        let lib = ["lib", "lib64"].map(|lib| root.join(lib));
        let library = lib
            .iter()
            .filter_map(|dir| fs::read_dir(dir).ok())
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.to_string_lossy().contains("/libnvrtc.so"))
            .unwrap_or_else(|| panic!("KILN_CUDA={} has no NVRTC", root.display()));
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("k.cu"), kernels).unwrap();
        fs::write(dir.path().join("part.h"), "#define PART 0.5f\n").unwrap();
        Some(Bench {
            dir,
            library: library.to_string_lossy().into_owned(),
            include: root.join("include").to_string_lossy().into_owned(),
            nvrtc: Nvrtc::default(),
        })
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_string_lossy().into_owned()
    }

    fn job(&self, entry: &str, architecture: &str) -> CompileJob {
        CompileJob {
            tool: Tool::Nvrtc {
                library: self.library.clone(),
                builtins: None,
                architecture: architecture.into(),
                entry: entry.into(),
            },
            unit: format!("#include \"{}\"\n", self.path("k.cu")),
            flags: Vec::new(),
            defines: vec![("SIZE".into(), "256".into())],
            include_dirs: vec![self.include.clone()],
            output: self.path("image.cubin"),
            memory_limit_bytes: 8 << 30,
            cpu_limit_seconds: 60,
        }
    }

    fn first_error(&mut self, job: &CompileJob) -> String {
        let failure = self.nvrtc.compile(job).unwrap_err();
        assert!(failure.log.len() <= 16 << 10);
        failure.first_error
    }
}

#[test]
fn kernels_compile_and_say_what_they_use() {
    let Some(mut bench) = Bench::new(KERNELS) else {
        return;
    };
    let (entry, architecture) = ("plain", "sm_90a");
    let compiled = bench
        .nvrtc
        .compile(&bench.job(entry, architecture))
        .unwrap();
    assert_eq!(compiled.symbol.as_deref(), Some("_Z5plainPfi"));
    let resources = compiled.resources.unwrap();
    assert_eq!(
        (resources.static_shared_bytes, resources.barriers),
        (1024, 1)
    );
    assert!((4..64).contains(&resources.registers));
    assert_eq!(compiled.log, "");
    let image = fs::read(bench.path("image.cubin")).unwrap();
    assert!(image.starts_with(b"\x7fELF"));
    for name in [
        bench.path("k.cu"),
        bench.path("part.h"),
        format!("{}/cuda_fp16.h", bench.include),
    ] {
        assert!(compiled.dependencies.contains(&name), "{name}");
    }
    // Again with the library loaded, other entries, other architectures.
    let bare = bench.nvrtc.compile(&bench.job("bare", "sm_80")).unwrap();
    assert_eq!(bare.symbol, None);
    assert_eq!(bare.resources.unwrap().static_shared_bytes, 0);
    let tpl = bench
        .nvrtc
        .compile(&bench.job("deep::tpl<3>", "sm_89"))
        .unwrap();
    assert_eq!(tpl.symbol.as_deref(), Some("_ZN4deep3tplILi3EEEvPf"));
}

#[test]
fn spills_are_counted_for_the_entry_only() {
    let source = "__global__ void __launch_bounds__(1024, 2) tight(float *x, int n) {\n\
        float a[96];\n#pragma unroll\nfor (int i = 0; i < 96; i++) a[i] = x[i * 32];\n\
        for (int k = 0; k < n; k++) {\n#pragma unroll\nfor (int i = 0; i < 96; i++) \
        a[i] = a[i] * a[(i * 7 + 3) % 96] + x[k]; }\n\
        #pragma unroll\nfor (int i = 0; i < 96; i++) x[i * 32] = a[i]; }\n\
        __global__ void loose(float *x) { x[0] = 1; }\n";
    let Some(mut bench) = Bench::new(source) else {
        return;
    };
    let tight = bench.nvrtc.compile(&bench.job("tight", "sm_90")).unwrap();
    let resources = tight.resources.unwrap();
    assert!(resources.spill_store_bytes > 0 && resources.stack_bytes > 0);
    assert!(resources.registers <= 32);
    let loose = bench.nvrtc.compile(&bench.job("loose", "sm_90")).unwrap();
    assert_eq!(loose.resources.unwrap().spill_store_bytes, 0);
}

#[test]
fn entries_that_are_no_kernel_are_explained() {
    let Some(mut bench) = Bench::new(KERNELS) else {
        return;
    };
    let mut error = |entry: &str| {
        let job = bench.job(entry, "sm_90");
        bench.first_error(&job)
    };
    assert_eq!(
        error("nothing"),
        "there is no kernel `nothing` in the source"
    );
    assert!(error("deep::tpl").contains("is a template: name an instance"));
    assert!(error("twice").contains("several kernels `twice`"));
    assert!(error("helper").contains("not a `__global__` function"));
    assert!(!error("a b").is_empty());
}

#[test]
fn errors_name_the_users_file_and_what_is_wrong() {
    let Some(mut bench) = Bench::new("__global__ void k(float *x) {\n  x[0] = y;\n}\n") else {
        return;
    };
    let job = bench.job("k", "sm_90");
    let error = bench.first_error(&job);
    assert!(error.contains("k.cu(2): error"), "{error}");
    // Lines that kiln adds are not the user's.
    fs::write(
        bench.path("k.cu"),
        "__global__ void k(float *x) { x[0] = 1; }\n",
    )
    .unwrap();
    let mut added = job.clone();
    added.unit.push_str("static_assert(y, \"no\");\n");
    let error = bench.first_error(&added);
    assert!(
        error.starts_with("kiln's check of k.cu(2): error"),
        "{error}"
    );
    added.unit = job.unit.clone() + "static_assert(false, \"parameter 1 is wrong\");\n";
    assert_eq!(bench.first_error(&added), "parameter 1 is wrong");
    // What ptxas refuses, `-v` would hide.
    let big = "__global__ void k(float *x) { __shared__ float s[90000]; s[threadIdx.x] = x[1]; \
               __syncthreads(); x[0] = s[threadIdx.x ^ 1]; }\n";
    fs::write(bench.path("k.cu"), big).unwrap();
    let error = bench.first_error(&job);
    assert!(error.contains("too much shared data"), "{error}");
    fs::write(
        bench.path("k.cu"),
        "__global__ void k() { asm(\"bogus;\"); }\n",
    )
    .unwrap();
    assert!(bench.first_error(&job).contains("bogus"));
    fs::write(bench.path("k.cu"), "__global__ void k() {}\n").unwrap();
    let mut flags = job.clone();
    flags.flags = vec!["--bogus".into()];
    assert!(bench.first_error(&flags).contains("--bogus"));
    let mut old = bench.job("k", "sm_20");
    assert!(bench.first_error(&old).contains("gpu-architecture"));
    old = bench.job("k", "compute_90");
    assert!(bench.first_error(&old).contains("no machine code"));
    // And after all of it the library still compiles.
    assert!(bench.nvrtc.compile(&job).is_ok());
}

#[test]
fn warnings_stay_and_flags_choose_the_standard() {
    let source = "__global__ void k(float *x) { int unused; \n\
                  #if __cplusplus < 202002L\n#error \"not 20\"\n#endif\nx[0] = 1; }\n";
    let Some(mut bench) = Bench::new(source) else {
        return;
    };
    let mut job = bench.job("k", "sm_90");
    assert!(bench.first_error(&job).contains("not 20"));
    job.flags = vec!["-std=c++20".into()];
    let compiled = bench.nvrtc.compile(&job).unwrap();
    assert!(
        compiled.log.contains("unused") && !compiled.log.contains("ptxas"),
        "{}",
        compiled.log
    );
}

#[test]
fn a_library_that_cannot_be_loaded_is_named() {
    let job = |library: &str| CompileJob {
        tool: Tool::Nvrtc {
            library: library.into(),
            builtins: None,
            architecture: "sm_90".into(),
            entry: "k".into(),
        },
        unit: String::new(),
        flags: Vec::new(),
        defines: Vec::new(),
        include_dirs: Vec::new(),
        output: "/nowhere/image".into(),
        memory_limit_bytes: u64::MAX,
        cpu_limit_seconds: 60,
    };
    let error = Nvrtc::default()
        .compile(&job("/nowhere/libnvrtc.so.13"))
        .unwrap_err();
    assert!(
        error.first_error.contains("/nowhere/libnvrtc.so.13"),
        "{error:?}"
    );
    let error = Nvrtc::default().compile(&job("libc.so.6")).unwrap_err();
    assert!(error.first_error.contains("is not NVRTC"), "{error:?}");
}

#[test]
fn flags_that_include_are_followed() {
    let flags: Vec<String> = [
        "-I",
        "a",
        "-Ib",
        "--include-path=c",
        "-include",
        "f.h",
        "--pre-include=g.h",
        "-O3",
    ]
    .map(str::to_string)
    .into();
    let dirs = compiler_flags::header_folders(&flags, Dialect::Nvrtc);
    let files = compiler_flags::headers(&flags, Dialect::Nvrtc);
    assert_eq!(dirs, ["a", "b", "c"]);
    assert_eq!(files, ["f.h", "g.h"]);
}

#[test]
fn the_library_tells_version_and_architectures() {
    let Some(mut bench) = Bench::new("") else {
        return;
    };
    let info = bench.nvrtc.info(&bench.library, None).unwrap();
    assert!(info.version >= (11, 1));
    assert!(info.architectures.contains(&90));
    let other = bench.nvrtc.info("/another/libnvrtc.so", None);
    assert!(other.unwrap_err().contains("another NVRTC"));
}

/// Includes of a host, and the toolkit's own that must go with them.
const HOST: &str = "#include <cuda.h>\n#include <cudaTypedefs.h>\n#include <cstdint>\n\
                    #include <stdint.h>\n#include <cstddef>\n#include <stddef.h>\n";
const TOOLKIT: &str = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda/std/cstdint>\n\
                       #include <cuda/barrier>\n#include <cub/block/block_reduce.cuh>\n";
const HOST_KERNEL: &str = "static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) >= 64);\n\
     __global__ void k(const __grid_constant__ CUtensorMap map, std::uint64_t *x, std::size_t n) {\n\
     int64_t low = INT64_MIN; x[n] = low + offsetof(int4, y) + (std::uintptr_t)&map; }\n";

#[test]
fn headers_of_a_host_are_there_and_quarrel_with_no_others() {
    let sources = [
        (format!("{HOST}{HOST_KERNEL}"), false),
        (format!("{HOST}{HOST_KERNEL}"), true),
        (format!("{HOST}{TOOLKIT}{HOST_KERNEL}"), true),
        (format!("{TOOLKIT}{HOST}{HOST_KERNEL}"), true),
    ];
    for (source, has_toolkit) in sources {
        let Some(mut bench) = Bench::new(&source) else {
            return;
        };
        let mut job = bench.job("k", "sm_90");
        job.include_dirs.push(format!("{}/cccl", bench.include));
        if !has_toolkit {
            job.include_dirs.clear();
        }
        let compiled = bench.nvrtc.compile(&job).unwrap();
        assert_eq!(compiled.log, "", "{source}");
        // CUB must stay cacheable.
        assert!(!compiled.is_uncacheable, "{source}");
        let forwards = |file: &String| file.ends_with("/cuda/std/cstdint");
        assert_eq!(compiled.dependencies.iter().any(forwards), has_toolkit);
    }
}

#[test]
fn a_header_of_the_user_comes_first() {
    let source = "#include \"stdint.h\"\n__global__ void k(mine *x) { x[0] = 1; }\n";
    let Some(mut bench) = Bench::new(source) else {
        return;
    };
    let job = bench.job("k", "sm_90");
    assert!(bench.nvrtc.compile(&job).is_err());
    fs::write(bench.path("stdint.h"), "typedef int mine;\n").unwrap();
    let compiled = bench.nvrtc.compile(&job).unwrap();
    assert!(compiled.dependencies.contains(&bench.path("stdint.h")));
    assert!(compiled.absent.contains(&bench.path("cstdint")));
}

#[test]
fn tensor_maps_are_known_without_an_include() {
    let kernel =
        "__global__ void k(const __grid_constant__ CUtensorMap map, int *x) { x[0] = 1; }\n";
    let own = "struct CUtensorMap { alignas(64) char bytes[128]; };\n";
    let ahead = "#include <cuda/barrier>\n";
    for before in ["", own, ahead] {
        let Some(mut bench) = Bench::new(&format!("{before}{kernel}")) else {
            return;
        };
        let mut job = bench.job("k", "sm_90");
        job.include_dirs.push(format!("{}/cccl", bench.include));
        for _ in 0..2 {
            assert_eq!(bench.nvrtc.compile(&job).unwrap().log, "", "{before}");
        }
    }
    let Some(mut bench) = Bench::new("__global__ void k(CUtensorMap map) { y = 1; }\n") else {
        return;
    };
    let job = bench.job("k", "sm_90");
    assert!(bench.first_error(&job).contains("\"y\" is undefined"));
}
