"""What verify.py needs of a GPU: compiling, tensor maps, launches, inputs and the right answers.

Without PyTorch, so that a launch can run under compute-sanitizer. What ../attention has for that is used.
"""

import ctypes
import functools
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "attention"))

import numpy as np

import tolerance
import verify_gpu

GUARD_BYTES = verify_gpu.GUARD_BYTES
TILE_ROWS, PART_COLUMNS = 64, 64  # Queries of a tile; columns of a row that one copy brings.
# CU_TENSOR_MAP_...: data types, no interleaving, swizzle and L2 promotion of 128 bytes, zeros beyond the end.
DATA_TYPE = {False: 6, True: 9}
INTERLEAVE_NONE, SWIZZLE_128B, PROMOTE_128B, FILL_ZEROS = 0, 3, 2, 0
MAP_BYTES, MAP_ALIGNMENT = 128, 64
LAUNCHES_PER_CHUNK = 250
ROWS_LOOKED_AT = 64  # Of a problem too large to be answered in NumPy.
# Products of 16 columns are added in f32 one after another, each sum off by up to a rounding of the largest so far.
SCORE_ROUNDING = 2.0**-20

Driver = verify_gpu.Driver


def compile_config(task):
    """(config, architecture) -> {cubin, registers, spilled, notes} or {error}. Notes: codes of ptxas' warnings."""
    config, arch = task
    with open(os.path.join(HERE, "attention.cu")) as file:
        source = file.read()
    options = [
        f"--gpu-architecture={arch}",
        "--std=c++17",
        "--ptxas-options=-v",
        "--no-cache",
        f"--include-path={HERE}",
    ]
    options += [f"-D{name}={value}" for name, value in config.items()]
    try:
        cubin, log = verify_gpu.compile_source(source, options)
    except RuntimeError as error:
        return {"error": str(error)}
    return {**verify_gpu.compiled(cubin, log), "notes": sorted(set(re.findall(r"\bC75\d\d\b", log)))}


class TensorMap:
    """The descriptor of a [heads][rows][depth] array that is copied in parts of `box_rows` rows and 64 columns."""

    def __init__(self, driver, address, heads, rows, depth, box_rows, bf16):
        self.memory = (ctypes.c_char * (MAP_BYTES + MAP_ALIGNMENT))()
        start = ctypes.addressof(self.memory)
        self.address = start + -start % MAP_ALIGNMENT
        driver.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(self.address),
            ctypes.c_int(DATA_TYPE[bool(bf16)]),
            ctypes.c_uint(3),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * 3)(depth, rows, heads),
            (ctypes.c_uint64 * 2)(2 * depth, 2 * depth * rows),
            (ctypes.c_uint32 * 3)(PART_COLUMNS, box_rows, 1),
            (ctypes.c_uint32 * 3)(1, 1, 1),
            *[ctypes.c_int(value) for value in (INTERLEAVE_NONE, SWIZZLE_128B, PROMOTE_128B, FILL_ZEROS)],
        )


class Launch:
    """One launch with all that it needs, to be done any number of times; `addresses` of Q, K, V and O."""

    def __init__(self, driver, function, job, case, addresses):
        B, H, HKV, SQ, SKV, D = (case["shape"][name] for name in ("B", "H", "HKV", "SQ", "SKV", "D"))
        # Blocks of a cluster load a part each.
        keys, bf16 = job["config"]["BLOCK_N"] // job["config"]["CLUSTER"], job["config"]["BF16"]
        sizes = [(B * H, SQ, TILE_ROWS), (B * HKV, SKV, keys), (B * HKV, SKV, keys), (B * H, SQ, TILE_ROWS)]
        self.maps = [
            TensorMap(driver, address, heads, rows, D, box_rows, bf16)
            for address, (heads, rows, box_rows) in zip(addresses, sizes)
        ]
        self.values = [ctypes.c_uint64(address) for address in addresses]
        self.values += [ctypes.c_int(number) for number in (B * H, H // HKV, SQ, SKV)]
        places = [ctypes.addressof(value) for value in self.values] + [map.address for map in self.maps]
        self.slots = (ctypes.c_void_p * len(places))(*places)
        self.sizes = [ctypes.c_uint(size) for size in (case["grid"], 1, 1, job["threads"], 1, 1, job["shared"])]
        self.driver, self.function = driver, function

    def __call__(self, stream=None):
        self.driver.call("cuLaunchKernel", self.function, *self.sizes, ctypes.c_void_p(stream), self.slots, None)


# --- Problems. ---


def draw_values(shape, inputs, seed):
    """Q, K and V in float32; all but `normal` ones give scores that are hard on a softmax."""
    B, H, HKV, SQ, SKV, D = (shape[name] for name in ("B", "H", "HKV", "SQ", "SKV", "D"))
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.standard_normal((B, heads, rows, D), np.float32) for heads, rows in ((H, SQ), (HKV, SKV), (HKV, SKV))
    )
    # Along this direction a score is its key's factor times the root of D.
    towards = np.sqrt(D, dtype=np.float32) * (lambda u: u / np.linalg.norm(u))(rng.standard_normal(D, np.float32))
    blocks = np.arange(SKV, dtype=np.float32)[:, None] // 64
    if inputs in ("rising", "falling"):  # By 200 from 64 keys to the next.
        factors = (blocks if inputs == "rising" else blocks[::-1]) * np.float32(200 / math.sqrt(D))
        q, k = q / 10 + towards, k / 10 + factors * towards
    elif inputs == "huge key":
        k[:, :, SKV // 2] *= 200
    elif inputs == "very negative":
        q, k = q / 10 + towards, k / 10 - 8 * towards
    elif inputs == "mixed":
        q[:, :, ::5] *= 20
        k[:, :, ::7] *= 20
    elif inputs != "normal":
        raise ValueError(f"`{inputs}` is no kind of inputs")
    return [np.ascontiguousarray(array, np.float32) for array in (q, k, v)]


def hard_bound(q, k, v, expected, diagonal, dtype, allowed):
    """The bound where weights gather on a few keys: that of tolerance.py's head, for each element.

    Where scores are large, so is the rounding of their sums.
    """
    unit = tolerance.ROUNDING[dtype]
    magnitude = verify_gpu.exact(q, k, np.abs(v), diagonal)
    group, reach = q.shape[1] // k.shape[1], np.empty((*q.shape[:3], 1))
    seen = np.ones((q.shape[2], k.shape[2]), bool)
    if diagonal is not None:
        seen = np.tril(seen, diagonal)
    for batch, head in np.ndindex(*q.shape[:2]):
        sums = np.abs(q[batch, head]) @ np.abs(k[batch, head // group]).T
        reach[batch, head] = np.where(seen, sums, 0).max(-1, keepdims=True) / math.sqrt(q.shape[-1])
    by_element = 2 * unit * magnitude + unit * np.abs(expected)
    return np.maximum(allowed, by_element) + SCORE_ROUNDING * reach * magnitude


def solve(shape_items, inputs, seed, bf16):
    """The inputs' bits, the right answer and the error that is allowed."""
    shape = dict(shape_items)
    bits, values = zip(*[verify_gpu.to_bits(array, bf16) for array in draw_values(shape, inputs, seed)])
    diagonal = 0 if shape["MASK"] == 2 else None
    expected = verify_gpu.exact(*values, diagonal)
    dtype = "bf16" if bf16 else "f16"
    few = inputs != "normal" or tolerance.sees_few(shape["SKV"], diagonal)
    allowed = tolerance.bound(np.abs(expected), np.square(expected).mean(), dtype, few)
    if inputs != "normal":
        allowed = hard_bound(*values, expected, diagonal, dtype, allowed)
    return bits, expected, allowed


solve_once = functools.lru_cache(maxsize=32)(solve)  # For configs that are checked on the same shapes.


def run_case(driver, function, job, case):
    """{share}, the worst of the bound, or {error}, what is wrong."""
    shape, bf16 = case["shape"], job["config"]["BF16"]
    solver = solve_once if len(job["cases"]) > 1 else solve
    bits, expected, allowed = solver(tuple(shape.items()), case["inputs"], case["seed"], bf16)
    out_bytes = expected.size * 2
    inputs = [driver.upload(array) for array in bits]
    O = driver.allocate(out_bytes + GUARD_BYTES, 0xFF)  # Not numbers.
    launch = Launch(driver, function, job, case, [pointer.value for pointer in (*inputs, O)])
    answers = []
    for _ in range(case["launches"]):
        driver.call("cuMemsetD8_v2", O, ctypes.c_ubyte(0xFF), ctypes.c_size_t(out_bytes))
        launch()
        answers.append(driver.download(O, out_bytes + GUARD_BYTES))
    driver.free_all()
    if any((answer != answers[0]).any() for answer in answers):
        return {"error": "launches differ"}
    if (answers[0][out_bytes:] != 0xFF).any():
        return {"error": "writes beyond its output"}
    got = verify_gpu.from_bits(answers[0][:out_bytes].view(np.uint16), bf16).reshape(expected.shape)
    with np.errstate(invalid="ignore"):
        shares = np.abs(got - expected) / allowed
    wrong = ~(shares < 1)  # Also when it is not a number.
    if wrong.any():
        first = tuple(int(place) for place in np.argwhere(wrong)[0])
        return {
            "error": f"wrong: {wrong.sum()} of {wrong.size} elements, worst {shares.max():.3g} of the bound, first at"
            f" (b, h, s, d) = {first}: {got[first]:.5g} for {expected[first]:.5g}"
        }
    return {"share": float(shares.max())}


def run_job(driver, job, progress):
    """All cases of a job: {share}, or {error, case} at the first that is wrong."""
    module, function = driver.load(job["cubin"], job["shared"])
    worst = 0.0
    for index, case in enumerate(job["cases"]):
        progress(index)
        result = run_case(driver, function, job, case)
        if "error" in result:
            return {**result, "case": index}
        worst = max(worst, result["share"])
    driver.call("cuModuleUnload", module)
    return {"share": worst}


# --- The same launch again and again. ---


def run_launches(driver, job, progress):
    """Launches the first case `job["count"]` times without a reset in between; the last answer must be the first."""
    case, bf16 = job["cases"][0], job["config"]["BF16"]
    shape = case["shape"]
    bits, values = zip(*[verify_gpu.to_bits(array, bf16) for array in draw_values(shape, "normal", case["seed"])])
    progress("0 launches")
    out_bytes = values[0].size * 2
    inputs = [driver.upload(array) for array in bits]
    O = driver.allocate(out_bytes + GUARD_BYTES, 0xFF)
    module, function = driver.load(job["cubin"], job["shared"])
    launch = Launch(driver, function, job, case, [pointer.value for pointer in (*inputs, O)])
    launch()
    first, done = driver.download(O, out_bytes + GUARD_BYTES), 1
    progress("1 launch")
    share = judge_rows(first[:out_bytes], values, shape, bf16, case["seed"])
    if not share < 1:
        return {"error": f"the first launch is wrong: {share:.3g} of the bound (nan: something was not written)"}
    while done < job["count"]:
        chunk = min(LAUNCHES_PER_CHUNK, job["count"] - done)
        for _ in range(chunk):
            launch()
        driver.call("cuCtxSynchronize")
        done += chunk
        progress(f"{done} launches")
    last = driver.download(O, out_bytes + GUARD_BYTES)
    driver.free_all()
    driver.call("cuModuleUnload", module)
    if (last[out_bytes:] != 0xFF).any():
        return {"error": "writes beyond its output"}
    if (last != first).any():
        return {"error": f"after {done} launches {(last != first).sum()} bytes are not those of the first"}
    return {"share": share, "launches": done}


def judge_rows(answer, values, shape, bf16, seed):
    """The worst share of the bound in some rows; not a number where anything was left unwritten."""
    q, k, v = values
    got = verify_gpu.from_bits(answer.view(np.uint16), bf16).reshape(q.shape)
    if np.isnan(got).any():
        return math.nan
    mean_square, causal, rng, worst = np.square(got).mean(), shape["MASK"] == 2, np.random.default_rng(seed), 0.0
    few = tolerance.sees_few(shape["SKV"], 0 if causal else None)
    for _ in range(ROWS_LOOKED_AT):
        batch, head, row = (int(rng.integers(size)) for size in q.shape[:3])
        key_head = head // (shape["H"] // shape["HKV"])
        one = [array[None, None] for array in (q[batch, head, row : row + 1], k[batch, key_head], v[batch, key_head])]
        expected = verify_gpu.exact(*one, row if causal else None)[0, 0, 0]
        allowed = tolerance.bound(np.abs(expected), mean_square, "bf16" if bf16 else "f16", few)
        worst = max(worst, float((np.abs(got[batch, head, row] - expected) / allowed).max()))
    return worst
