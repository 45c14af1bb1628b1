"""What verify.py needs of a GPU: NVRTC and the driver by ctypes, a launch of the kernel, and the right answer in NumPy.

Nothing here needs PyTorch, so that a launch can run under compute-sanitizer in a second.
"""

import ctypes
import glob
import math
import os
import re
import sys

import numpy as np

import tolerance

GUARD_BYTES = 4096  # Behind the output; must be left as it was.
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.


# --- Compiling. ---


def nvrtc_candidates():
    for root in (os.environ.get("KILN_CUDA"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        for folder in ("lib64", "lib", "targets/x86_64-linux/lib") if root else ():
            yield from sorted(glob.glob(os.path.join(root, folder, "libnvrtc.so*")))
    for path in sys.path:
        yield from sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib", "libnvrtc.so*")))
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def load_nvrtc():
    for name in nvrtc_candidates():
        if ".alt." in name:
            continue
        try:
            for builtins in glob.glob(os.path.join(os.path.dirname(name), "libnvrtc-builtins.so.*")):
                if ".alt." not in builtins:
                    ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("no libnvrtc found: set KILN_CUDA or CUDA_HOME to a CUDA toolkit")


nvrtc = None


def compile_source(source, options):
    """The cubin, or None, and the compiler's log. RuntimeError without NVRTC."""
    global nvrtc
    nvrtc = nvrtc or load_nvrtc()
    program, size, cubin = ctypes.c_void_p(), ctypes.c_size_t(), None
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"attention.cu", 0, None, None)
    flags = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), flags)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, text)
    if not failed:
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, image)
        cubin = image.raw[: size.value]
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin, text.value.decode(errors="replace")


def compiled(cubin, log):
    """{cubin, registers, spilled} or {error}."""

    def number(pattern):  # NVRTC keeps what it compiled before, without the log.
        found = re.search(pattern, log)
        return int(found.group(1)) if found else None

    if cubin is None:
        reason = next((line for line in log.splitlines() if "error" in line), log[:300])
        return {"error": "does not compile: " + reason}
    return {
        "cubin": cubin,
        "registers": number(r"Used (\d+) registers"),
        "spilled": number(r"(\d+) bytes spill stores"),
    }


def compile_config(job):
    """(source, config, architecture) -> {cubin, registers, spilled} or {error}."""
    source, config, arch = job
    options = [f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v"]
    options += [f"-D{name}={int(value)}" for name, value in config.items()]
    try:
        return compiled(*compile_source(source, options))
    except RuntimeError as error:
        return {"error": str(error)}


# --- The driver. ---


class Driver:
    """The primary context of the first GPU, which PyTorch uses too."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.buffers = []

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")

    def allocate(self, size, fill):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(size, 16)))
        self.buffers.append(pointer)
        self.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(fill), ctypes.c_size_t(max(size, 16)))
        return pointer

    def upload(self, array):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        self.buffers.append(pointer)
        self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        return pointer

    def download(self, pointer, size):
        array = np.empty(size, np.uint8)
        self.call("cuCtxSynchronize")
        self.call("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(size))
        return array

    def free_all(self):
        for pointer in self.buffers:
            self.call("cuMemFree_v2", pointer)
        self.buffers = []

    def load(self, cubin, shared_bytes):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"attention")
        self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared_bytes)
        return module, function

    def launch(self, function, job, pointers, strides, stream=None):
        """`pointers` as in the kernel's signature; `strides` of Q, K, V and O: batch, head and row."""
        shape = job["shape"]
        values = list(pointers) + [ctypes.c_int(shape[name]) for name in ("B", "H", "H_KV", "S", "S_KV")]
        values += [ctypes.c_longlong(stride) for tensor in strides for stride in tensor]
        values += [ctypes.c_float(1 / math.sqrt(shape["D"])), ctypes.c_int(shape["diagonal"])]
        slots = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
        sizes = [ctypes.c_uint(x) for x in (*job["grid"], job["threads"], 1, 1, job["shared"])]
        self.call("cuLaunchKernel", function, *sizes, ctypes.c_void_p(stream), slots, None)


# --- Numbers. ---


def to_bits(values, bf16):
    """float32 -> the bits of f16 or bf16, and what these are worth, in float64."""
    if not bf16:
        halves = values.astype(np.float16)
        return halves.view(np.uint16), halves.astype(np.float64)
    bits = values.view(np.uint32)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # To the nearest, ties to even.
    return bits.astype(np.uint16), from_bits(bits.astype(np.uint16), True)


def from_bits(bits, bf16):
    if not bf16:
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def exact(q, k, v, diagonal):
    """float64, a head at a time; rows without a key are zeros. `diagonal` is None without a mask."""
    batches, heads, queries, depth = q.shape
    group, keys = heads // k.shape[1], k.shape[2]
    out = np.zeros_like(q)
    hidden = diagonal is not None and np.arange(keys)[None] > np.arange(queries)[:, None] + diagonal
    for batch in range(batches):
        for head in range(heads):
            scores = q[batch, head] @ k[batch, head // group].T / math.sqrt(depth)
            scores = np.where(hidden, -np.inf, scores)
            largest = scores.max(-1, keepdims=True)
            weights = np.exp(scores - np.where(np.isinf(largest), 0, largest))
            total = weights.sum(-1, keepdims=True)
            out[batch, head] = weights / np.where(total > 0, total, 1) @ v[batch, head // group]
    return out


def strides_of(heads, rows, depth, rows_first):
    """Batch, head and row, of [B][H][S][D], or of [B][S][H][D]."""
    return (heads * rows * depth, depth, heads * depth) if rows_first else (heads * rows * depth, rows * depth, depth)


def run_job(driver, job, progress):
    """Launches `job["launches"]` times and compares: {share}, the worst of the bound, or {error}, what is wrong."""
    config, shape = job["config"], job["shape"]
    B, H, H_KV, S, S_KV, D = (shape[name] for name in ("B", "H", "H_KV", "S", "S_KV", "D"))
    bf16, int8, rows_first = config["BF16"], config.get("KV_INT8", 0), job["rows_first"]
    random = np.random.default_rng(job["seed"])

    def laid_out(array):
        return np.ascontiguousarray(array.transpose(0, 2, 1, 3) if rows_first else array)

    def halves(heads, rows):
        bits, values = to_bits(random.standard_normal((B, heads, rows, D), np.float32), bf16)
        return driver.upload(laid_out(bits)), values

    def bytes_and_factors():
        array = random.integers(-127, 128, (B, H_KV, S_KV, D), np.int8)
        factors = random.uniform(0.005, 0.015, (B, H_KV, S_KV)).astype(np.float32)
        return driver.upload(laid_out(array)), driver.upload(factors), array * factors[..., None].astype(np.float64)

    Q, q = halves(H, S)
    if int8:
        (K, K_factors, k), (V, V_factors, v) = bytes_and_factors(), bytes_and_factors()
    else:
        (K, k), (V, v) = halves(H_KV, S_KV), halves(H_KV, S_KV)
    out_bytes = B * H * S * D * 2
    O = driver.allocate(out_bytes + GUARD_BYTES, 0xFF)  # Not numbers.
    pointers = [Q, K, V, O] + ([K_factors, V_factors] if int8 else [])
    counters, counter_bytes = None, 4 * B * H * math.ceil(S / 16)
    if config.get("WORKSPACE"):
        floats = B * H * math.ceil(S / 16) * config["GRID_SPLIT"] * config["BLOCK_M"] * (D + 8)
        counters = driver.allocate(counter_bytes, 0)
        pointers += [driver.allocate(4 * floats, 0xFF), counters]
    queries, keys = strides_of(H, S, D, rows_first), strides_of(H_KV, S_KV, D, rows_first)

    module, function = driver.load(job["cubin"], job["shared"])
    answers = []
    for launch in range(job["launches"]):
        progress(f"launch {launch}")
        driver.call("cuMemsetD8_v2", O, ctypes.c_ubyte(0xFF), ctypes.c_size_t(out_bytes))
        driver.launch(function, job, pointers, (queries, keys, keys, queries))
        answers.append(driver.download(O, out_bytes + GUARD_BYTES))
    counted = counters and driver.download(counters, counter_bytes).any()
    driver.call("cuModuleUnload", module)
    driver.free_all()

    if any((answer != answers[0]).any() for answer in answers):
        return {"error": "launches differ"}
    if (answers[0][out_bytes:] != 0xFF).any():
        return {"error": "writes beyond its output"}
    if counted:
        return {"error": "leaves counters behind"}
    got = from_bits(answers[0][:out_bytes].view(np.uint16), bf16)
    got = got.reshape(B, S, H, D).transpose(0, 2, 1, 3) if rows_first else got.reshape(B, H, S, D)
    diagonal = shape["diagonal"] if config["CAUSAL"] else None
    if diagonal is not None and got[:, :, : max(0, -diagonal)].any():
        return {"error": "rows without a key are not zeros"}
    expected = exact(q, k, v, diagonal)
    few = tolerance.sees_few(S_KV, diagonal)
    allowed = tolerance.bound(np.abs(expected), np.square(expected).mean(), "bf16" if bf16 else "f16", few, int8)
    share = (np.abs(got - expected) / allowed).max()
    if not share < 1:  # Also when it is not a number.
        return {"error": f"wrong: {share:.3g} of the bound"}
    return {"share": float(share)}
