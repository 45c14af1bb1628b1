//! What is guessed of functions that people have lying about: where a shape is wrong, it is said to be a guess.

use super::first_manifest;

/// Names of buffers, their shapes as they are written, and whether they are marked.
fn shapes(file: &str, source: &str) -> Vec<String> {
    let first = first_manifest(file, source, None).unwrap();
    let table = first.text.split("[arguments]\n").nth(1).unwrap();
    let lines = table.lines().take_while(|l| !l.is_empty());
    let told: Vec<String> = lines
        .filter_map(|line| {
            let (name, rest) = line.split_once(" = ")?;
            let shape = rest.split("shape = [").nth(1)?.split(']').next()?;
            let mark = match rest.contains("the shape") {
                true => " ?",
                false => "",
            };
            Some(format!("{name} {}{mark}", shape.replace('"', "")))
        })
        .collect();
    let guessed: Vec<String> = told
        .iter()
        .filter(|line| line.ends_with('?'))
        .map(|line| format!("`{}`", line.split(' ').next().unwrap()))
        .collect();
    // Both say the same, and no work is counted by a guess.
    let summary = first.guesses.join("; ");
    for name in &guessed {
        assert!(summary.contains(name.as_str()), "{summary}");
    }
    let counts_bytes = first.text.lines().any(|l| l.starts_with("bytes = "));
    assert_eq!(counts_bytes, guessed.is_empty(), "{}", first.text);
    told
}

#[test]
fn sparse_rows() {
    let csr = "void spmv(int rows, const int *rowptr, const int *cols, const float *vals, const float *x, float *y) {\n\
        for (int i = 0; i < rows; i++) {\n  float sum = 0;\n\
        for (int k = rowptr[i]; k < rowptr[i + 1]; k++) sum += vals[k] * x[cols[k]];\n  y[i] = sum;\n }\n}\n";
    let expected = [
        "rowptr ROWS + 1 ?",
        "cols ROWS ?",
        "vals ROWS ?",
        "x ROWS ?",
        "y ROWS",
    ];
    assert_eq!(shapes("spmv.c", csr), expected);
    let named = csr.replace(
        "for (int k = rowptr[i]; k < rowptr[i + 1]; k++)",
        "int start = rowptr[i]; int end = rowptr[i + 1]; for (int k = start; k < end; k++)",
    );
    assert_eq!(shapes("spmv.c", &named), expected);
    let cuda = "__global__ void spmv(int rows, const int *rowptr, const int *cols, const float *vals, const float *x, float *y) {\n\
        int row = blockIdx.x * blockDim.x + threadIdx.x;\n  if (row >= rows) return;\n  float sum = 0;\n\
        for (int k = rowptr[row]; k < rowptr[row + 1]; ++k) sum += vals[k] * x[cols[k]];\n  y[row] = sum;\n}\n";
    assert_eq!(shapes("spmv.cu", cuda), expected);
}

#[test]
fn one_block_for_each_row() {
    let softmax = "__global__ void softmax(const float *x, float *y, int cols) {\n  int row = blockIdx.x;\n  float m = -1e30f;\n\
        for (int i = threadIdx.x; i < cols; i += blockDim.x) m = fmaxf(m, x[row * cols + i]);\n\
        for (int i = threadIdx.x; i < cols; i += blockDim.x) y[row * cols + i] = expf(x[row * cols + i] - m);\n}\n";
    assert_eq!(shapes("softmax.cu", softmax), ["x COLS ?", "y COLS ?"]);
    let with_rows = softmax.replace("int cols)", "int rows, int cols)");
    assert_eq!(
        shapes("softmax.cu", &with_rows),
        ["x ROWS, COLS ?", "y ROWS, COLS ?"]
    );
    let text = first_manifest("softmax.cu", &with_rows, None).unwrap().text;
    assert!(text.contains("\ngrid = \"ROWS\"\n"), "{text}");
    let guarded = with_rows.replace("float m", "if (row >= rows) return;\n  float m");
    assert_eq!(
        shapes("softmax.cu", &guarded),
        ["x ROWS, COLS", "y ROWS, COLS"]
    );
    let by_pointer = guarded.replace("float m", "const float *p = x + row * cols;\n  float m");
    assert_eq!(
        shapes("softmax.cu", &by_pointer),
        ["x ROWS, COLS ?", "y ROWS, COLS"]
    );
    let thread = "__global__ void total(const float *x, float *y, int rows, int cols) {\n\
        int r = blockIdx.x * blockDim.x + threadIdx.x;\n  if (r < rows) { float s = 0;\n\
        for (int c = 0; c < cols; c++) s += x[r * cols + c]; y[r] = s; }\n}\n";
    assert_eq!(shapes("total.cu", thread), ["x ROWS, COLS", "y ROWS"]);
    let text = first_manifest("total.cu", thread, None).unwrap();
    assert_eq!(text.guesses, ["grid and block in [launch]"]);
}

#[test]
fn functions_of_every_day() {
    let softmax = "void softmax(const float *x, float *y, int rows, int cols) {\n for (int r = 0; r < rows; r++) {\n\
        float m = x[r * cols];\n for (int c = 1; c < cols; c++) if (x[r * cols + c] > m) m = x[r * cols + c];\n\
        for (int c = 0; c < cols; c++) y[r * cols + c] = expf(x[r * cols + c] - m); }\n}\n";
    assert_eq!(
        shapes("softmax.c", softmax),
        ["x ROWS, COLS", "y ROWS, COLS"]
    );
    let transpose = "void transpose(const float *in, float *out, int rows, int cols) {\n\
        for (int i = 0; i < rows; i++) for (int j = 0; j < cols; j++) out[j * rows + i] = in[i * cols + j];\n}\n";
    assert_eq!(
        shapes("transpose.c", transpose),
        ["in ROWS, COLS", "out COLS, ROWS"]
    );
    let dot = "void dot(const float *x, const float *y, float *out, int n) {\n float s = 0;\n\
        for (int i = 0; i < n; i++) s += x[i] * y[i];\n *out = s;\n}\n";
    for written in [
        "*out = s",
        "out[0] = s",
        "*out = 0; *out += s",
        "(*out) = s",
    ] {
        let dot = dot.replace("*out = s", written);
        assert_eq!(shapes("dot.c", &dot), ["x N", "y N", "out 1"], "{written}");
    }
    let moving = dot.replace("*out = s", "*out++ = s");
    assert_eq!(shapes("dot.c", &moving), ["x N", "y N", "out N ?"]);
    let range = "void range(const float *x, float *ends, const float *scale, int n) {\n ends[0] = x[0] * *scale; ends[1] = ends[0];\n\
        for (int i = 1; i < n; i++) if (x[i] * *scale > ends[1]) ends[1] = x[i] * *scale;\n}\n";
    assert_eq!(shapes("range.c", range), ["x N", "ends 2", "scale 1"]);
    let added = "__global__ void total(const float *x, float *sum, int n) {\n int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
        if (i < n) atomicAdd(sum, x[i]);\n}\n";
    assert_eq!(shapes("total.cu", added), ["x N", "sum 1"]);
    let text = first_manifest("total.cu", added, None).unwrap().text;
    assert!(
        text.contains("sum = { dtype = \"f32\", shape = [1], role = \"inout\" }"),
        "{text}"
    );
    let axpy = "void axpy(int n, float a, const float *x, float *y) {\n for (int i = 0; i < n; i++) y[i] = a * x[i] + y[i];\n}\n";
    assert_eq!(shapes("axpy.c", axpy), ["x N", "y N"]);
    let text = first_manifest("axpy.c", axpy, None).unwrap().text;
    assert!(
        text.contains("y = { dtype = \"f32\", shape = [\"N\"], role = \"inout\" }"),
        "{text}"
    );
    assert!(text.contains("\nbytes = \"4 * N + 8 * N\""), "{text}");
    let histogram = "void histogram(const unsigned char *data, unsigned *hist, int n) {\n\
        for (int i = 0; i < n; i++) hist[data[i]]++;\n}\n";
    assert_eq!(shapes("histogram.c", histogram), ["data N", "hist N ?"]);
    let binned = "__global__ void histogram(const unsigned char *data, unsigned *bins, int n) {\n\
        int i = blockIdx.x * blockDim.x + threadIdx.x;\n if (i < n) atomicAdd(&bins[data[i]], 1u);\n}\n";
    let text = first_manifest("histogram.cu", binned, None).unwrap().text;
    let bins = text.lines().find(|l| l.starts_with("bins = ")).unwrap();
    assert!(
        bins.contains("role = \"inout\"") && !bins.contains("if it is read"),
        "{bins}"
    );
    let cleared = "void histogram(const int *data, unsigned *hist, int n, int bins) {\n\
        for (int b = 0; b < bins; b++) hist[b] = 0;\n for (int i = 0; i < n; i++) hist[data[i]]++;\n}\n";
    assert_eq!(shapes("histogram.c", cleared), ["data N", "hist BINS ?"]);
    let flat = "void scale(const float *x, float *y, int rows, int cols) {\n\
        for (int i = 0; i < rows * cols; i++) y[i] = 2 * x[i];\n}\n";
    assert_eq!(shapes("scale.c", flat), ["x ROWS, COLS", "y ROWS, COLS"]);
}

#[test]
fn windows_and_halos() {
    let inside = "void blur(const float *in, float *out, int h, int w) {\n\
        for (int y = 1; y < h - 1; y++) for (int x = 1; x < w - 1; x++) { float s = 0;\n\
        for (int dy = -1; dy <= 1; dy++) for (int dx = -1; dx <= 1; dx++) s += in[(y + dy) * w + x + dx];\n\
        out[y * w + x] = s / 9; }\n}\n";
    assert_eq!(shapes("blur.c", inside), ["in H, W", "out H, W"]);
    let padded = "void blur(const float *in, float *out, int n) {\n for (int i = 0; i < n; i++) out[i] = in[i] + in[i + 1] + in[i + 2];\n}\n";
    assert_eq!(shapes("blur.c", padded), ["in N + 2 ?", "out N"]);
    let sliding = "void conv(const float *x, const float *w, float *y, int n, int k) {\n\
        for (int i = 0; i < n; i++) { float s = 0; for (int j = 0; j < k; j++) s += x[i + j] * w[j]; y[i] = s; }\n}\n";
    assert_eq!(shapes("conv.c", sliding), ["x N, K ?", "w K", "y N"]);
    let reused = "void f(const float *a, const float *b, float *y, int n, int m) {\n float s = 0;\n\
        for (int i = 0; i < m; i++) s += b[i];\n for (int i = 0; i < n; i++) y[i] = a[i] + s;\n}\n";
    let told = shapes("f.c", reused);
    assert!(told.iter().all(|line| line.ends_with('?')), "{told:?}");
    let twice = "void f(const float *a, float *y, int n) {\n for (int i = 0; i < 2 * n; i++) y[i] = a[i];\n}\n";
    assert_eq!(shapes("f.c", twice), ["a N ?", "y N ?"]);
}
