//! One case per kind of mistake; the messages are in one snapshot, to be read as a whole.

use super::{ATTENTION, HOPPER, MATMUL, SAXPY, rendered};

/// A valid manifest, what is replaced in it, and by what.
struct Mistake {
    title: &'static str,
    base: &'static str,
    replace: &'static str,
    with: &'static str,
}

const fn saxpy(title: &'static str, replace: &'static str, with: &'static str) -> Mistake {
    Mistake {
        title,
        base: SAXPY,
        replace,
        with,
    }
}

const fn matmul(title: &'static str, replace: &'static str, with: &'static str) -> Mistake {
    Mistake {
        base: MATMUL,
        ..saxpy(title, replace, with)
    }
}

const fn attention(title: &'static str, replace: &'static str, with: &'static str) -> Mistake {
    Mistake {
        base: ATTENTION,
        ..saxpy(title, replace, with)
    }
}

const fn hopper(title: &'static str, replace: &'static str, with: &'static str) -> Mistake {
    Mistake {
        base: HOPPER,
        ..saxpy(title, replace, with)
    }
}

const UNROLL: &str = "UNROLL = [1, 2, 4]";
const N: &str = "N = 1024";
const X: &str = "x = { dtype = \"f32\", shape = [\"N\"] }";
const ENTRY: &str = "\"hopper_fwd\"";
const FITS: &str = "\"BLOCK <= N\"";

const MISTAKES: &[Mistake] = &[
    // The file as a whole.
    saxpy("syntax error", "[kernel]", "[kernel"),
    saxpy("unclosed string", "\"saxpy.c\"", "\"saxpy.c"),
    saxpy("key given twice", UNROLL, "BLOCK = [1]"),
    matmul("unknown format version", "kiln = 1", "kiln = 3"),
    saxpy("typo in a table", "[tunables]", "[tunabels]"),
    saxpy("table that does not exist", "[tunables]", "[extras]"),
    // Kernel.
    saxpy("typo in a key", "source =", "sorce ="),
    saxpy("missing source", "source = \"saxpy.c\"\n", ""),
    saxpy(
        "missing tables",
        SAXPY,
        "[kernel]\nsource = \"a.c\"\nentry = \"a\"\n",
    ),
    saxpy("absolute path", "\"saxpy.c\"", "\"/home/me/saxpy.c\""),
    saxpy("language that cannot be told", "saxpy.c\"", "saxpy.cpp\""),
    saxpy("wrong type", "\"saxpy\"", "7"),
    saxpy("entry that is no function", "\"saxpy\"", "\"sax py()\""),
    saxpy("C entry with a namespace", "\"saxpy\"", "\"linear::saxpy\""),
    hopper("entry that is half an instance", ENTRY, "\"mm<float\""),
    hopper("entry with a string in it", ENTRY, "'mm<\"a\">'"),
    saxpy(
        "flag that defines a tunable",
        "\"saxpy\"",
        "\"saxpy\"\nflags = [\"-O3\", \"-DUNROLL=2\"]",
    ),
    hopper(
        "flags that choose the architecture",
        "[\"-lineinfo\"]",
        "[\"-arch=sm_80\", \"--gpu-architecture\", \"sm_80\", \"-gencode=arch=a\"]",
    ),
    hopper(
        "flags that define a tunable, in two parts and in words",
        "[\"-lineinfo\"]",
        "[\"-D\", \"BLOCK_M=64\", \"--define-macro=BLOCK_M\", \"-DBLOCK_MAX=1\"]",
    ),
    saxpy(
        "flags that run code, read files and write files",
        "\"saxpy\"",
        "\"saxpy\"\nflags = [\"-O3\", \"-fplugin=./evil.so\", \"@more\", \"-Wl,-o,x\", \"other.c\"]",
    ),
    hopper(
        "flags that choose the host compiler or pass on what is refused",
        "[\"-lineinfo\"]",
        "[\"-ccbin=/tmp/gcc\", \"-Xcompiler\", \"-wrapper,sh\", \"-Xptxas\", \"-O3\"]",
    ),
    // Tunables.
    saxpy("empty list", UNROLL, "UNROLL = []"),
    saxpy("duplicate value", UNROLL, "UNROLL = [1, 2, 1]"),
    saxpy(
        "duplicate after conversion",
        UNROLL,
        "UNROLL = [1, 2.5, 1.0]",
    ),
    saxpy("mixed kinds", UNROLL, "UNROLL = [1, true]"),
    saxpy("empty range", UNROLL, "UNROLL = { from = 8, to = 2 }"),
    saxpy("step 0", UNROLL, "UNROLL = { from = 1, to = 8, step = 0 }"),
    saxpy(
        "factor 1",
        UNROLL,
        "UNROLL = { from = 1, to = 8, factor = 1 }",
    ),
    saxpy("range without an end", UNROLL, "UNROLL = { from = 1 }"),
    saxpy(
        "huge range",
        UNROLL,
        "UNROLL = { from = 1, to = 1_000_000 }",
    ),
    saxpy(
        "value and values",
        UNROLL,
        "UNROLL = { value = 1, values = [1] }",
    ),
    saxpy("tunable that is no list", UNROLL, "UNROLL = 4"),
    saxpy("tunable named like a word of C", UNROLL, "int = [1]"),
    saxpy("tunable that is no identifier", UNROLL, "\"UN-ROLL\" = [1]"),
    // Expressions.
    saxpy("unknown tunable in a constraint", FITS, "\"N % BLOK == 0\""),
    saxpy("unknown function", FITS, "\"BLOCK <= ceildiv(N, 2)\""),
    saxpy("unterminated expression", FITS, "\"BLOCK <= (N\""),
    saxpy(
        "expression with C operators",
        FITS,
        "\"BLOCK <= N && UNROLL > 1\"",
    ),
    saxpy(
        "place inside a literal string",
        FITS,
        "'''\n  BLOCK <=\n  NN'''",
    ),
    // Shapes.
    matmul(
        "dimension cycle",
        "[shapes.tiny]\nM = 3",
        "[shapes.tiny]\nM = \"K - MN\"",
    ),
    saxpy("negative size", N, "N = -5"),
    saxpy("size 0", N, "N = 0"),
    saxpy("computed size below 1", N, "N = 4\nHALF = \"N // 5\""),
    attention("missing target", "use = \"target\"\n", ""),
    attention(
        "two targets",
        "[shapes.tiny]",
        "[shapes.tiny]\nuse = \"target\"",
    ),
    matmul("shapes with different dimensions", "K = 7", "k = 7"),
    saxpy("dimension named like a tunable", N, "N = 1024\nBLOCK = 3"),
    saxpy("size that depends on a tunable", N, "N = \"BLOCK * 4\""),
    // Arguments.
    saxpy("bad dtype", "\"i32\"", "\"int32\""),
    saxpy("no output", ", role = \"inout\"", ""),
    saxpy(
        "draw on an output",
        "role = \"inout\"",
        "role = \"output\", draw = \"ones\"",
    ),
    saxpy(
        "draw that does not exist",
        X,
        "x = { dtype = \"f32\", shape = [\"N\"], draw = \"gauss\" }",
    ),
    saxpy(
        "draw that does not fit",
        X,
        "x = { dtype = \"i8\", shape = [\"N\"], draw = { kind = \"integers\", low = 0, high = 300 } }",
    ),
    saxpy(
        "draw from an empty range over dimensions",
        X,
        "x = { dtype = \"i32\", shape = [\"N\"], draw = { kind = \"integers\", low = 1, high = \"N // 4096\" } }",
    ),
    saxpy(
        "draw over dimensions that does not fit",
        X,
        "x = { dtype = \"u8\", shape = [\"N\"], draw = { kind = \"integers\", high = \"N - 1\" } }",
    ),
    saxpy(
        "draw over a dimension that does not exist",
        X,
        "x = { dtype = \"i32\", shape = [\"N\"], draw = { kind = \"integers\", low = 0, high = \"NCOLS - 1\" } }",
    ),
    saxpy(
        "draw that depends on a tunable",
        X,
        "x = { dtype = \"i32\", shape = [\"N\"], draw = { kind = \"integers\", low = 0, high = \"BLOCK\" } }",
    ),
    saxpy(
        "fractions between sizes",
        X,
        "x = { dtype = \"f32\", shape = [\"N\"], draw = { kind = \"uniform\", low = 0, high = \"N\" } }",
    ),
    saxpy(
        "fractions in an integer",
        X,
        "x = { dtype = \"i8\", shape = [\"N\"], draw = \"normal\" }",
    ),
    saxpy(
        "setting of another draw",
        X,
        "x = { dtype = \"f32\", shape = [\"N\"], draw = { kind = \"normal\", low = 0 } }",
    ),
    saxpy(
        "scalar with a role",
        "value = \"N\" }",
        "value = \"N\", role = \"input\" }",
    ),
    saxpy("neither value nor shape", X, "x = { dtype = \"f32\" }"),
    saxpy(
        "buffer size from a tunable",
        X,
        "x = { dtype = \"f32\", shape = [\"BLOCK\"] }",
    ),
    saxpy(
        "buffer size below 1",
        X,
        "x = { dtype = \"f32\", shape = [\"N - 1024\"] }",
    ),
    saxpy(
        "buffer size not whole",
        X,
        "x = { dtype = \"f32\", shape = [\"N / 2\"] }",
    ),
    saxpy(
        "buffer too large",
        X,
        "x = { dtype = \"f32\", shape = [\"N\", \"N ** 5\"] }",
    ),
    saxpy(
        "scalar that does not fit",
        "{ dtype = \"i32\", value = \"N\" }",
        "{ dtype = \"i8\", value = \"N\" }",
    ),
    saxpy(
        "placeholder that does not exist",
        X,
        "x = { dtype = \"f32\", shape = [\"N\"], file = \"{shap}.npy\" }",
    ),
    hopper("descriptor of nothing", "tma = \"Q\"", "tma = \"q\""),
    hopper("descriptor of a scalar", "tma = \"Q\"", "tma = \"S\""),
    hopper("descriptor without a box", ", box = [1, \"D // 2\"]", ""),
    hopper(
        "descriptor with a shape",
        "swizzle = \"128B\"",
        "shape = [\"S\"]",
    ),
    hopper("descriptor of another type", "\"f32\", tma", "\"f16\", tma"),
    hopper(
        "box of too many sizes",
        "[\"BLOCK_M\", \"D\"]",
        "[1, 1, 1, \"BLOCK_M\", \"D\"]",
    ),
    hopper("box too large", "[1, \"D // 2\"]", "[\"S\", \"D // 2\"]"),
    hopper("box not aligned", "\"D // 2\"", "\"D // 32\""),
    hopper("box wider than the swizzle", "\"128B\"", "\"64B\""),
    hopper("swizzle that does not exist", "\"128B\"", "\"128\""),
    hopper("box of no descriptor", "tma = \"O\", ", "value = 1, "),
    saxpy(
        "descriptor in C",
        X,
        "x = { dtype = \"f32\", shape = [\"N\"] }\nx_map = { tma = \"x\", box = [4] }",
    ),
    // Launch, reference, baseline.
    matmul(
        "launch for C",
        "threads = \"THREADS\"",
        "grid = 1\nthreads = \"THREADS\"",
    ),
    attention(
        "launch for CUDA",
        "block = \"32 * NUM_WARPS\"",
        "threads = 4",
    ),
    matmul(
        "missing reference",
        "[reference]\nc = \"reference.c:matmul\"\n",
        "",
    ),
    attention(
        "missing reference of a CUDA kernel",
        "[reference]\nfile = \"expected/{argument}_{shape}.npy\"\n",
        "",
    ),
    attention(
        "reference of no kind",
        "file = \"expected/{argument}_{shape}.npy\"",
        "",
    ),
    saxpy(
        "reference kernel for C",
        "c = \"reference.c:saxpy\"",
        "kernel = \"reference.cu:saxpy\"",
    ),
    hopper(
        "reference kernel without a launch",
        "grid = [\"S\", \"B * H\"]\nblock = 128\nshared",
        "shared",
    ),
    hopper(
        "reference launched by a tunable",
        "[\"S\", ",
        "[\"BLOCK_M\", ",
    ),
    hopper("reference launch below 1", "[\"S\", ", "[\"S // 64\", "),
    hopper(
        "launch of a Python reference",
        "kernel = \"naive.cu:naive\"",
        "python = \"naive.py:naive\"",
    ),
    attention(
        "flags for a file",
        "file = \"exp",
        "flags = []\nfile = \"exp",
    ),
    saxpy(
        "two references",
        ":saxpy\"\n",
        ":saxpy\"\nfile = \"a.npy\"\n",
    ),
    saxpy(
        "reference without a function",
        "reference.c:saxpy",
        "reference.c",
    ),
    attention("stored answers for drawn inputs", ", draw = \"iota\"", ""),
    attention(
        "one file for many shapes",
        "{argument}_{shape}.npy",
        "{argument}.npy",
    ),
    hopper(
        "boolean as a number",
        "cooperative = true",
        "cooperative = 1",
    ),
    matmul(
        "CUDA settings for C",
        "include_dirs = [\"include\"]",
        "compiler = \"nvcc\"",
    ),
    matmul(
        "cooperative launch for C",
        "threads = \"THREADS\"",
        "cooperative = true",
    ),
    hopper(
        "C function against a CUDA kernel",
        "python = \"sdpa.py:default\"",
        "c = \"sdpa.c:sdpa\"",
    ),
    saxpy(
        "Python against a C kernel",
        "[reference]",
        "[baseline]\npython = \"b.py:f\"\nalso = [\"b.py:g\"]\n[reference]",
    ),
    hopper(
        "function missing in a list",
        "\"sdpa.py:math\"",
        "\"sdpa.py\"",
    ),
    matmul(
        "baseline config without a tunable",
        "TILE_N = 16, UNROLL = 1, ",
        "",
    ),
    matmul(
        "baseline config with a typo",
        "ALPHA = 1, ORDER",
        "ALPHA = 1, ODER",
    ),
    matmul(
        "baseline config of another kind",
        "PACK = false",
        "PACK = 0",
    ),
    // Stages.
    saxpy(
        "typo in the table of stages",
        "[reference]",
        "[stage]\na = \"-DA\"\n[reference]",
    ),
    saxpy(
        "unknown key of a stage",
        "[reference]",
        "[stages]\na = { flag = \"-DA\", kind = \"memory\" }\n[reference]",
    ),
    saxpy(
        "unknown kind of a stage",
        "[reference]",
        "[stages]\na = { flags = \"-DA\", kind = \"memry\" }\n[reference]",
    ),
    saxpy(
        "flags that are no macros, or a tunable",
        "[reference]",
        "[stages]\na = [\"-O0\", \"-D\", \"-fplugin=x.so\", \"@more\"]\nb = \"-DBLOCK=1\"\n[reference]",
    ),
    saxpy(
        "stage without flags",
        "[reference]",
        "[stages]\na = []\nb = {}\nc = 1\n[reference]",
    ),
    saxpy(
        "stages that leave nothing out of their own",
        "[reference]\n",
        "[stages]\na = [\"-DA\", \"-DB\"]\nb = [\"-DB\", \"-DA\"]\n[reference]\n",
    ),
    saxpy(
        "stage whose flag is the kernel's",
        "entry = \"saxpy\"\n",
        "entry = \"saxpy\"\nflags = [\"-DA\"]\n[stages]\na = \"-DA\"\n",
    ),
    saxpy(
        "too many stages",
        "[reference]",
        "[stages]\na = \"-DA\"\nb = \"-DB\"\nc = \"-DC\"\nd = \"-DD\"\ne = \"-DE\"\nf = \"-DF\"\n\
         g = \"-DG\"\nh = \"-DH\"\ni = \"-DI\"\n[reference]",
    ),
    // Settings.
    matmul("unknown gate", "memory =", "memry ="),
    hopper(
        "percentage",
        "\"warn\"\ncluster",
        "{ limit = 500 }\ncluster",
    ),
    matmul("caches of a C kernel", "cut_ratio = 2", "caches = \"cold\""),
    matmul("bad strategy", "\"random\"", "\"rnd\""),
    matmul("cost without price", "price_per_hour = 3.5\n", ""),
    matmul("number out of range", "precision = 0.02", "precision = 2"),
    matmul("not a finite number", "minutes = 5", "minutes = nan"),
    matmul(
        "number that does not fit",
        "trials = 60",
        "trials = 99999999999999999999",
    ),
    matmul("fewest above most", "min_samples = 5", "min_samples = 80"),
    matmul("negative tolerance", "f32 = 1e-4", "f32 = -1e-4"),
    matmul("tolerance of nothing", "f32 = 1e-4", "f32 = {}"),
    matmul(
        "tolerance by a tunable",
        "f32 = 1e-4",
        "f32 = { rtol = \"1e-6 * ALPHA\" }",
    ),
    matmul(
        "tolerance above all",
        "f32 = 1e-4",
        "f32 = { rtol = \"1e3 * M\" }",
    ),
    matmul(
        "tolerance below nothing",
        "f32 = 1e-4",
        "f32 = { atol = \"-1 * M\" }",
    ),
    saxpy("foreign dtype", "\"f32\"", "\"half\""),
    saxpy("typo in a required table", "[shapes.", "[shape."),
    saxpy("missing dimension", N, "N = 1024\n[shapes.tiny]"),
    // Terminal escapes in a name.
    saxpy("control characters", UNROLL, "\"\\u001b[31m\" = []"),
];

#[test]
fn messages() {
    let mut page = String::new();
    for mistake in MISTAKES {
        let Mistake {
            title,
            base,
            replace,
            with,
        } = mistake;
        assert!(base.contains(replace), "{title}: `{replace}` is not there");
        let message = rendered(&base.replacen(replace, with, 1));
        assert!(!message.is_empty(), "{title}: no message");
        page.push_str(&format!("## {title}\n\n{message}\n\n\n"));
    }
    insta::assert_snapshot!(page);
}
