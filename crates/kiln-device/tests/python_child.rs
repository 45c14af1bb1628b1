//! The Python child behind its pipes, with whatever `python3` (or `KILN_PYTHON`) has.
#![allow(clippy::unwrap_used)]

use std::io::BufReader;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use kiln_core::dtype::DType;
use kiln_core::manifest::{Fill, Role};
use kiln_core::protocol::{
    ArgumentSpec, Caches, Cores, DeviceInfo, PROTOCOL_VERSION, Problem, Refusal, Request, Response,
    SamplePlan,
};
use kiln_core::value::Value;
use kiln_device::frame::{read_frame, write_frame};
use kiln_device::python::{self, Mode};
use tempfile::TempDir;

fn interpreter() -> String {
    std::env::var("KILN_PYTHON").unwrap_or_else(|_| "python3".into())
}

/// Whether the interpreter can import a module; says so where it cannot.
fn has(module: &str) -> bool {
    let found = Command::new(interpreter())
        .args(["-c", &format!("import {module}")])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        println!("skipped: no python3 with {module}");
    }
    found
}

struct Python {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    device: DeviceInfo,
    folder: TempDir,
}

impl Python {
    fn start(mode: Mode) -> Python {
        let mut child = python::command(&interpreter(), mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let hello = read_frame::<Response>(&mut stdout).unwrap().unwrap().0;
        let Response::Hello {
            protocol, device, ..
        } = hello
        else {
            panic!("{hello:?}");
        };
        assert_eq!(protocol, PROTOCOL_VERSION);
        assert_eq!(device.kind, "python");
        Python {
            child,
            stdin,
            stdout,
            device,
            folder: TempDir::new().unwrap(),
        }
    }

    /// A child with this text loaded and its function `f` chosen.
    fn with(mode: Mode, text: &str) -> Python {
        let mut python = Python::start(mode);
        assert_eq!(python.load(text, "f"), Response::Done);
        python
    }

    fn load(&mut self, text: &str, symbol: &str) -> Response {
        let path = self.folder.path().join("task.py");
        std::fs::write(&path, text).unwrap();
        let load = Request::Load {
            image: path.to_str().unwrap().into(),
            symbol: symbol.into(),
        };
        self.ask(&load, &[]).0
    }

    fn ask(&mut self, request: &Request, payload: &[u8]) -> (Response, Vec<u8>) {
        write_frame(self.stdin.as_mut().unwrap(), request, payload).unwrap();
        read_frame(&mut self.stdout).unwrap().unwrap()
    }

    fn prepare(&mut self, problem: &Problem, payload: &[u8]) -> Response {
        self.ask(&Request::Prepare(problem.clone()), payload).0
    }

    fn check(&mut self) -> (Response, Vec<u8>) {
        let check = Request::Check {
            cores: Cores::Any,
            poison: u64::MAX,
        };
        self.ask(&check, &[])
    }

    /// The outputs of a call on these inputs.
    fn call(&mut self, problem: &Problem, payload: &[u8]) -> Vec<u8> {
        assert_eq!(self.prepare(problem, payload), Response::Done);
        let (response, outputs) = self.check();
        assert_eq!(response, Response::Outputs);
        outputs
    }

    fn sees_gpu(&self) -> bool {
        self.device
            .environment
            .iter()
            .any(|(name, _)| name == "gpu")
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn buffer(name: &str, dtype: DType, extents: &[u64], role: Role) -> ArgumentSpec {
    ArgumentSpec::Buffer {
        name: name.into(),
        dtype,
        extents: extents.into(),
        role,
        fill: Fill::Iota,
        seen_as: dtype,
    }
}

fn scalar(name: &str, dtype: DType, value: Value) -> ArgumentSpec {
    ArgumentSpec::Scalar {
        name: name.into(),
        dtype,
        value,
    }
}

fn problem(seed: u64, arguments: Vec<ArgumentSpec>) -> Problem {
    Problem {
        shape: "tiny".into(),
        seed,
        dimensions: vec![("D".into(), 5)],
        arguments,
        launch: None,
        variation: None,
    }
}

fn bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        dtype.push_f64(*value, &mut out);
    }
    out
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks(8).map(|b| DType::F64.read_f64(b)).collect()
}

/// `x` in, `y` out, both of one type.
fn copy_problem(dtype: DType, elements: u64) -> Problem {
    problem(
        1,
        vec![
            buffer("x", dtype, &[elements], Role::Input),
            buffer("y", dtype, &[elements], Role::Output),
        ],
    )
}

fn refusal(response: Response) -> String {
    match response {
        Response::Refused(
            Refusal::BadTask { message }
            | Refusal::NotLoadable { message }
            | Refusal::NoDevice { message },
        ) => message,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_reference_sees_double_precision_and_every_type() {
    if !has("numpy") {
        return;
    }
    let text = "
import numpy as np
print('what user code prints must not reach the protocol')
def f(x, w, *, alpha, n, i, in_, D, unused=3):
    assert D == 5
    assert x.dtype == w.dtype == np.float64 and i.dtype == np.uint16, (x.dtype, w.dtype, i.dtype)
    assert x.shape == (2, 3) and isinstance(alpha, float) and isinstance(n, int)
    print('nor may this')
    return x @ w * alpha, i.astype(np.int64) + n + in_.sum()
";
    let mut python = Python::with(Mode::Reference, text);
    let arguments = vec![
        buffer("x", DType::F16, &[2, 3], Role::Input),
        buffer("w", DType::Bf16, &[3, 1], Role::Input),
        buffer("y", DType::F32, &[2, 1], Role::Output),
        scalar("alpha", DType::F32, Value::Float(0.5)),
        scalar("n", DType::I32, Value::Int(-7)),
        buffer("i", DType::U16, &[2], Role::Input),
        buffer("in", DType::I8, &[3], Role::Input),
        buffer("k", DType::I32, &[2], Role::Output),
    ];
    let mut payload = bytes(DType::F16, &[1.0, 2.0, 3.0, 4.0, 5.0, 0.1]);
    payload.extend(bytes(DType::Bf16, &[1.0, -0.5, 0.1]));
    payload.extend(bytes(DType::U16, &[0.0, 65535.0]));
    payload.extend(bytes(DType::I8, &[-1.0, -2.0, 3.0]));
    let outputs = python.call(&problem(3, arguments), &payload);
    let rounded = |dtype: DType, value: f64| dtype.read_f64(&bytes(dtype, &[value]));
    let (tenth16, tenth_b16) = (rounded(DType::F16, 0.1), rounded(DType::Bf16, 0.1));
    assert_eq!(
        floats(&outputs[..16]),
        [
            (1.0 - 1.0 + 3.0 * tenth_b16) * 0.5,
            (4.0 - 2.5 + tenth16 * tenth_b16) * 0.5
        ]
    );
    let whole: Vec<_> = outputs[16..]
        .chunks(4)
        .map(|b| DType::I32.read_f64(b))
        .collect();
    assert_eq!(whole, [-7.0, 65528.0]);
    let (response, again) = python.ask(
        &Request::Inspect {
            same_will_do: false,
        },
        &[],
    );
    assert_eq!((response, again), (Response::Outputs, outputs));
}

#[test]
fn a_baseline_answers_in_the_declared_types() {
    if !has("numpy") {
        return;
    }
    let mut python = Python::with(
        Mode::Baseline,
        "import numpy as np\ndef f(x, y):\n    y[...] = x * np.float32(3)\n",
    );
    for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
        let values = [0.1, -2.0, f64::NAN, f64::INFINITY, 1e-3];
        let outputs = python.call(&copy_problem(dtype, 5), &bytes(dtype, &values));
        assert_eq!(outputs.len(), 5 * dtype.size_bytes());
        for (out, value) in outputs.chunks(dtype.size_bytes()).zip(values) {
            let (out, wanted) = (dtype.read_f64(out), 3.0 * value);
            let close = (out - wanted).abs() <= wanted.abs() * 0.02;
            assert!(
                close || out == wanted || (out.is_nan() && wanted.is_nan()),
                "{dtype} {out}"
            );
        }
    }
    let plan = SamplePlan {
        launches: 1,
        bursts: 1,
        warm_nanos: 0,
        cores: Cores::Any,
        caches: Caches::Warm,
        energy: false,
        keep_outputs: false,
        run_up: None,
    };
    let sample = Request::Sample { plan, poison: 1 };
    assert!(refusal(python.ask(&sample, &[]).0).contains("timed on a CUDA device only"));
}

#[test]
fn bfloat16_rounds_to_nearest_even() {
    if !has("numpy") {
        return;
    }
    let text = "
import numpy as np
def f(bits):
    return bits.view(np.float32)
";
    let mut python = Python::with(Mode::Baseline, text);
    let bits = [
        0x3f80_7fffu32,
        0x3f80_8000,
        0x3f81_8000,
        0x3f80_8001,
        0x7f7f_ffff,
    ];
    let arguments = vec![
        buffer("bits", DType::U32, &[5], Role::Input),
        buffer("y", DType::Bf16, &[5], Role::Output),
    ];
    let payload: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    let outputs = python.call(&problem(1, arguments), &payload);
    let found: Vec<u16> = outputs
        .chunks(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]))
        .collect();
    assert_eq!(found, [0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80]);
}

#[test]
fn problems_are_remembered_and_inout_buffers_restored() {
    if !has("numpy") {
        return;
    }
    let mut python = Python::with(
        Mode::Reference,
        "import numpy as np\ndef f(**everything):\n    everything['z'] += everything['x']\n",
    );
    let make = |seed| {
        let arguments = vec![
            buffer("x", DType::F32, &[1], Role::Input),
            buffer("z", DType::F32, &[1], Role::InOut),
        ];
        problem(seed, arguments)
    };
    for seed in 0..5 {
        let payload = bytes(DType::F32, &[seed as f64, 100.0]);
        let outputs = python.call(&make(seed), &payload);
        assert_eq!(floats(&outputs), [seed as f64 + 100.0]);
    }
    // The same inputs again; then other ones under the same name, which replace them.
    assert_eq!(
        floats(&python.call(&make(2), &bytes(DType::F32, &[2.0, 100.0]))),
        [102.0]
    );
    assert_eq!(
        floats(&python.call(&make(2), &bytes(DType::F32, &[3.0, 100.0]))),
        [103.0]
    );
    assert_eq!(floats(&python.call(&make(2), &[])), [103.0]);
    for seed in [1, 4, 1] {
        let outputs = python.call(&make(seed), &[]);
        assert_eq!(floats(&outputs), [seed as f64 + 100.0]);
    }
    assert!(refusal(python.prepare(&make(0), &[])).contains("not remembered"));
    let mut other = make(1);
    other.arguments.push(scalar("n", DType::I32, Value::Int(1)));
    assert!(refusal(python.prepare(&other, &[])).contains("not remembered"));
    assert!(refusal(python.prepare(&make(1), &[1, 2, 3])).contains("too few"));
    assert!(refusal(python.check().0).contains("nothing is prepared"));
}

#[test]
fn mistakes_are_named() {
    if !has("numpy") {
        return;
    }
    let mut python = Python::start(Mode::Reference);
    let input = bytes(DType::F32, &[1.0, 2.0]);
    let task = copy_problem(DType::F32, 2);
    assert!(refusal(python.prepare(&task, &input)).contains("no function is loaded"));
    let missing = python.load("def g(x): pass\n", "f");
    assert!(refusal(missing).ends_with("has no function `f`; it has: `g`"));
    let broken = refusal(python.load("def f(x)\n    return x\n", "f"));
    assert!(
        broken.contains("SyntaxError") && broken.contains("line 1"),
        "{broken}"
    );
    let raising = refusal(python.load("import numpy\n\nx = 1 / 0\n", "f"));
    assert_eq!(
        raising,
        "ZeroDivisionError: division by zero\n  at task.py:3 in `<module>`: x = 1 / 0"
    );

    python.load("import numpy\ndef f(x, scale): pass\n", "f");
    let unknown = refusal(python.prepare(&task, &input));
    assert!(
        unknown.contains("a parameter `scale`") && unknown.ends_with("available: `D`, `x`, `y`")
    );

    let cases = [
        ("return x[:1]", "output `y` has the shape [1], expected [2]"),
        (
            "return x * 1j",
            "output `y` has the type complex128, expected `f32`",
        ),
        (
            "return x, x",
            "returned 2 values; the outputs are, in this order: `y`",
        ),
        (
            "pass",
            "`f` returned nothing; return the outputs, or take them as parameters and write into them",
        ),
        ("return {'Y': x}", "returned `Y`, which is no output"),
        ("x[0] = 3", "at task.py:3 in `f`: x[0] = 3"),
        ("raise SystemExit(4)", "SystemExit: 4"),
        ("raise ValueError('p' * 9000)", "ValueError: ppp"),
    ];
    for (body, wanted) in cases {
        python.load(&format!("import numpy\ndef f(x):\n    {body}\n"), "f");
        assert_eq!(python.prepare(&task, &input), Response::Done);
        let message = refusal(python.check().0);
        assert!(message.contains(wanted), "{body}: {message}");
        assert!(message.len() < 3000);
    }

    let arguments = vec![buffer("k", DType::I8, &[1], Role::Output)];
    python.load("import numpy\ndef f(): return numpy.array([300])\n", "f");
    assert_eq!(python.prepare(&problem(1, arguments), &[]), Response::Done);
    assert!(refusal(python.check().0).contains("output `k` holds 300, which is no `i8`"));
    assert!(matches!(
        python.ask(&Request::Unload, &[]).0,
        Response::Unloaded { .. }
    ));
}

/// A copy that returned too would answer every request a second time.
#[test]
fn a_function_that_forks_is_answered_for_once() {
    if !has("numpy") {
        return;
    }
    let text = "import numpy, os\ndef f(x):\n    if not os.fork():\n        raise ValueError\n    os.fork()\n    return x\n";
    let mut python = Python::with(Mode::Reference, text);
    let input = [0; 8];
    let task = copy_problem(DType::F32, 2);
    for _ in 0..3 {
        assert_eq!(python.call(&task, &input), [0; 16]);
    }
}

#[test]
fn too_large_a_problem_is_out_of_memory() {
    if !has("numpy") {
        return;
    }
    let mut python = Python::with(
        Mode::Reference,
        "import numpy\ndef f(x): return numpy.ones((1 << 50,))\n",
    );
    let task = copy_problem(DType::F32, 1);
    assert_eq!(python.prepare(&task, &[0; 4]), Response::Done);
    let response = python.check().0;
    let wanted = Refusal::OutOfMemory { bytes: 8 << 50 };
    assert_eq!(response, Response::Refused(wanted));
}

#[test]
fn the_child_ends_when_its_pipe_closes_even_while_busy() {
    if !has("numpy") {
        return;
    }
    let text = "import numpy\ndef f(x):\n    while True: pass\n";
    let mut python = Python::with(Mode::Reference, text);
    python.prepare(&copy_problem(DType::F32, 1), &[0; 4]);
    let check = Request::Check {
        cores: Cores::Any,
        poison: 0,
    };
    write_frame(python.stdin.as_mut().unwrap(), &check, &[]).unwrap();
    python.stdin = None;
    let patience = Instant::now() + Duration::from_secs(10);
    while python.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < patience, "the child lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn torch_tensors_are_used_where_torch_is() {
    if !has("torch") {
        return;
    }
    let text = "
import torch
def f(x, i, y):
    assert x.dtype == torch.float64
    torch.mul(x, 2, out=y)
    return y, (i + 1).to(torch.int64)
";
    let mut python = Python::with(Mode::Reference, text);
    let arguments = vec![
        buffer("x", DType::Bf16, &[2], Role::Input),
        buffer("i", DType::U8, &[2], Role::Input),
        buffer("y", DType::Bf16, &[2], Role::Output),
        buffer("k", DType::I32, &[2], Role::Output),
    ];
    let mut payload = bytes(DType::Bf16, &[1.5, -3.0]);
    payload.extend([1, 200]);
    let outputs = python.call(&problem(1, arguments), &payload);
    assert_eq!(floats(&outputs[..16]), [3.0, -6.0]);
    assert_eq!(outputs[16..], [2, 0, 0, 0, 201, 0, 0, 0]);

    let modifies = "import torch\ndef f(x):\n    x += 1\n    return x\n";
    assert_eq!(python.load(modifies, "f"), Response::Done);
    let task = copy_problem(DType::F32, 2);
    assert_eq!(python.prepare(&task, &[0; 8]), Response::Done);
    let modified = Refusal::InputModified { argument: 0 };
    assert_eq!(python.check().0, Response::Refused(modified));
    assert!(refusal(python.prepare(&task, &[])).contains("not remembered"));
}

#[test]
fn a_baseline_is_timed_on_a_gpu() {
    if !has("torch") {
        return;
    }
    let captured = "
import torch
def f(x):
    return (x.float() * 2).half()
";
    // Reading a value back cannot be captured in a graph.
    let launched = "
import torch
def f(x):
    return (x.float() * 2).half() if float(x[0]) < 1e9 else x
";
    let mut python = Python::start(Mode::Baseline);
    if !python.sees_gpu() {
        println!("skipped: no CUDA device");
        return;
    }
    let elements: i32 = 1 << 20;
    let values: Vec<f64> = (0..elements).map(|i| f64::from(i % 1000)).collect();
    let doubled = bytes(
        DType::F16,
        &values.iter().map(|v| 2.0 * v).collect::<Vec<_>>(),
    );
    let task = copy_problem(DType::F16, elements as u64);
    for text in [captured, launched] {
        assert_eq!(python.load(text, "f"), Response::Done);
        assert_eq!(python.call(&task, &bytes(DType::F16, &values)), doubled);
        for (caches, launches) in [(Caches::Warm, 20), (Caches::Cold, 1), (Caches::Warm, 1)] {
            let plan = SamplePlan {
                launches,
                bursts: 15,
                warm_nanos: 1_000_000,
                cores: Cores::Any,
                caches,
                energy: caches == Caches::Cold,
                keep_outputs: false,
                run_up: None,
            };
            let (response, _) = python.ask(&Request::Sample { plan, poison: 7 }, &[]);
            let Response::Sampled {
                nanos, conditions, ..
            } = response
            else {
                panic!("{response:?}");
            };
            println!("{caches:?} {launches}: {nanos:?} {conditions:?}");
            assert_eq!(nanos.len(), 15);
            assert!(nanos.iter().all(|n| (1_000..1_000_000_000).contains(n)));
            assert_eq!(
                python.ask(
                    &Request::Inspect {
                        same_will_do: false
                    },
                    &[]
                ),
                (Response::Outputs, doubled.clone())
            );
        }
    }
    assert!(matches!(
        python.ask(&Request::Unload, &[]).0,
        Response::Unloaded { .. }
    ));
}

/// Under a profiler the process has to end by itself, or no report is written.
#[test]
fn it_ends_in_the_ordinary_way_when_asked_to() {
    for mode in [Mode::Profiled, Mode::Baseline] {
        let mut python = Python::start(mode);
        assert_eq!(python.ask(&Request::Finish, &[]).0, Response::Done);
        let status = python.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

#[test]
fn a_profiled_function_is_called_like_a_baseline() {
    if !has("numpy") {
        return;
    }
    let text = "import numpy\ndef f(x):\n    return x * 2\n";
    let mut python = Python::with(Mode::Profiled, text);
    let inputs = bytes(DType::F32, &[1.0, 2.0, 3.0]);
    let expected = bytes(DType::F32, &[2.0, 4.0, 6.0]);
    assert_eq!(python.call(&copy_problem(DType::F32, 3), &inputs), expected);
    assert_eq!(python.check().1, expected);
}

/// The first graph of a process is faster than those of programs, which have several.
#[test]
fn of_several_graphs_the_last_is_timed() {
    let told = Command::new(interpreter())
        .arg("-c")
        .arg(include_str!("graphs.py"))
        .arg(python::CHILD)
        .output();
    match told {
        Ok(told) => assert!(
            told.status.success(),
            "{}",
            String::from_utf8_lossy(&told.stderr)
        ),
        Err(_) => println!("skipped: no python3"),
    }
}
