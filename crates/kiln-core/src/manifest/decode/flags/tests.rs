use super::*;

fn refused(language: Language, flags: &[&str]) -> Vec<String> {
    let spanned = flags.iter().map(|flag| Spanned {
        value: flag.to_string(),
        span: 0..0,
    });
    let mut problems = Problems::default();
    check(&spanned.collect::<Vec<_>>(), language, &mut problems);
    let messages = problems.found.into_iter().map(|p| p.message);
    messages
        .map(|m| m.split('`').nth(1).unwrap_or_default().to_string())
        .collect()
}

#[test]
fn flags_of_real_kernels_are_allowed() {
    let words = "-O3 -Ofast -march=native -mtune=znver4 -mavx512f -mprefer-vector-width=512 \
        -ffast-math -fno-math-errno -fopenmp -fopenmp-simd -funroll-loops -fno-tree-vectorize \
        -flto -fsanitize=undefined -fuse-ld=lld -Wall -Wextra -Wno-unused -Werror=vla -w -g -g3 \
        -gdwarf-4 -std=c11 --std=gnu2x -pthread -DX=1 -D Y -U Z -Iinclude -I ../shared \
        -isystem /usr/local/include -L/opt/lib -lm -lopenblas -l:libx.a --param \
        max-unroll-times=8 --param=l1-cache-size=32 -Wl,-O1,--as-needed -Wl,-z,now -fopt-info-vec";
    let words: Vec<&str> = words.split_whitespace().collect();
    assert_eq!(refused(Language::C, &words), [""; 0]);
    let words = "-lineinfo -use_fast_math --use_fast_math -maxrregcount=64 --maxrregcount 64 \
        --fmad=false -std=c++20 -DX -D Y=1 -I include --include-path=x -Xptxas -O3 \
        -Xptxas=-v,-dlcm=ca --ptxas-options=-v -Xcompiler -O2,-fno-strict-aliasing -O3 -G \
        --expt-relaxed-constexpr --extra-device-vectorization -diag-suppress=177 -w \
        --pre-include=a.h -include b.h -split-compile=0 --restrict";
    let words: Vec<&str> = words.split_whitespace().collect();
    assert_eq!(refused(Language::Cuda, &words), [""; 0]);
}

#[test]
fn flags_that_reach_beyond_the_image_are_refused() {
    let words = [
        "@flags",
        "-fplugin=./x.so",
        "-fplugin-arg-x-y",
        "-fpass-plugin=x",
        "-B.",
        "-specs=x",
        "--specs=x",
        "-wrapper",
        "-o",
        "-o/tmp/x",
        "x.c",
        "libx.a",
        "-Wl,-o,/tmp/x",
        "-Wl,@x",
        "-Wl,--version-script=x",
        "-Wa,-o,x",
        "-Wp,-MD,x",
        "-Xlinker",
        "-Xclang",
        "-mllvm",
        "-fdump-tree-all",
        "-fprofile-generate",
        "-save-temps",
        "--save-temps",
        "-MF",
        "-MD",
        "-fuse-ld=/tmp/ld",
        "-fopt-info-vec=x",
        "-ftime-trace",
        "-E",
        "-S",
        "-c",
        "-x",
        "-dM",
        "-imacros",
        "--sysroot=/",
        "-isysroot",
        "-gsplit-dwarf",
        "-ObjC",
        "-foffload=x",
        "-l",
        "-l../x",
        "-Tscript",
        "-T",
        "-rpath=/x",
        "-fsanitize-blacklist=/etc/passwd",
        "-",
        "",
        "--help",
        "-v",
        "-###",
        "-no-canonical-prefixes",
        "-resource-dir=x",
        "--config=x",
    ];
    assert_eq!(refused(Language::C, &words), words);
    let words = [
        "@flags",
        "-ccbin=/tmp/x",
        "--compiler-bindir=x",
        "--run",
        "-run",
        "-o",
        "--keep",
        "-keep-dir=x",
        "-Xcompiler=-fplugin=x",
        "--compiler-options=-wrapper,x",
        "-Xptxas=-o,x",
        "--ptxas-options=--output-file=x",
        "-optf=x",
        "--options-file=x",
        "-Xlinker=x",
        "-dryrun",
        "-fdevice-time-trace=x",
        "--pch",
        "--create-pch=x",
        "-dc",
        "-rdc=true",
        "x.cu",
        "-ldir=x",
        "--dlink-time-opt",
        "-Xnvlink=x",
        "-lib",
        "-cudart=x",
        "-B",
        "-forward-unknown-opts",
    ];
    assert_eq!(refused(Language::Cuda, &words), words);
    // The value goes with its flag, which is refused as one.
    assert_eq!(refused(Language::Cuda, &["-Xptxas", "-o"])[0], "-Xptxas");
    assert_eq!(refused(Language::C, &["-D", "@x"]), ["-D", "@x"]);
}
