"""Times of attention.cu beside PyTorch's backends over many problems, for `verify.py sweep`.

A time is the median over replays of a CUDA graph of some launches, so that the host's part does not count. Each answer
is compared with PyTorch's before it is timed.
"""

import ctypes
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import tolerance
import verify_gpu

BACKENDS = {"default": None, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}

# B, H, S, D.
PROBLEMS = [
    (32, 8, 512, 64),
    (32, 8, 128, 64),
    (32, 8, 256, 64),
    (4, 8, 512, 64),
    (1, 8, 512, 64),
    (8, 16, 1024, 64),
    (4, 16, 2048, 64),
    (2, 16, 4096, 64),
    (32, 8, 512, 128),
    (4, 16, 2048, 128),
    (1, 16, 16384, 128),
]

DEFAULTS = {
    "BF16": 0, "UNROLL": 1, "CP_ASYNC": 1, "SWIZZLE": 1, "HALF2": 0, "Q_IN_REGISTERS": 1, "SPLIT": 1, "ROUNDS": 1,
    "OVERLAP": 0, "LAZY_RESCALE": 8, "SUM_BY_PRODUCT": 1, "KV_GROUPS": 1, "INTERLEAVE": 1, "LATE_LOADS": 0, "ORDER": 0,
}  # fmt: skip


def tile(queries, keys, warps, blocks, stages, **changes):
    return {"BLOCK_M": queries, "BLOCK_N": keys, "NUM_WARPS": warps, "MIN_BLOCKS": blocks, "STAGES": stages, **changes}


# What tuning found to be good, by depth.
CONFIGS = {
    64: [
        tile(128, 64, 4, 2, 3, UNROLL=2, LATE_LOADS=1),
        tile(128, 128, 4, 2, 2, ROUNDS=4),
        tile(128, 128, 4, 2, 2, ROUNDS=4, LATE_LOADS=1),
        tile(128, 128, 4, 2, 2, ROUNDS=2),
        tile(128, 64, 4, 2, 2, ORDER=2),
        tile(128, 64, 4, 2, 2, ORDER=2, LATE_LOADS=1),
        tile(128, 64, 4, 2, 4),
        tile(128, 64, 4, 3, 2, ROUNDS=2, Q_IN_REGISTERS=0),
        tile(64, 64, 4, 4, 2),
        tile(64, 64, 4, 4, 2, ORDER=2),
        tile(64, 64, 2, 4, 2),
        tile(64, 64, 2, 3, 3, ORDER=2, Q_IN_REGISTERS=0, INTERLEAVE=0),
        tile(32, 64, 4, 2, 3, SPLIT=2),
        tile(64, 128, 8, 1, 2, SPLIT=2),
        tile(64, 64, 4, 2, 4),
    ],
    128: [
        tile(128, 64, 4, 2, 2, Q_IN_REGISTERS=0),
        tile(128, 64, 4, 2, 2, Q_IN_REGISTERS=0, ORDER=2),
        tile(128, 64, 4, 2, 2, Q_IN_REGISTERS=0, ROUNDS=2),
        tile(128, 64, 4, 2, 2, Q_IN_REGISTERS=0, LATE_LOADS=1),
        tile(128, 32, 4, 2, 2, Q_IN_REGISTERS=0, ORDER=2),
        tile(256, 64, 8, 1, 2, Q_IN_REGISTERS=0),
        tile(64, 64, 4, 2, 2, ORDER=2),
    ],
}


def graph_time(run, launches, replays):
    """Median microseconds of one `run(stream)`."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(launches):
                run(stream)
        graph.replay()
        times = []
        for _ in range(replays):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(start.elapsed_time(end) * 1000 / launches)
    return sorted(times)[replays // 2]


def measure(run):
    once = graph_time(run, 2, 3)
    return graph_time(run, max(1, min(20, int(4000 / once))), 9 if once < 500 else 5)


def backend_time(backend, tensors, causal):
    def run(_stream):
        if backend is None:
            return F.scaled_dot_product_attention(*tensors, is_causal=causal)
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*tensors, is_causal=causal)

    return measure(run)


def kernel_time(driver, job, tensors, out, reference):
    """Microseconds; RuntimeError when the answer is not PyTorch's, both within their bounds."""
    module, function = driver.load(job["cubin"], job["shared"])
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (*tensors, out)]
    strides = [tensor.stride()[:3] for tensor in (*tensors, out)]

    def run(stream):
        driver.launch(function, job, pointers, strides, stream.cuda_stream)

    out.fill_(float("nan"))
    run(torch.cuda.current_stream())
    torch.cuda.synchronize()
    few = tolerance.sees_few(job["shape"]["S_KV"], 0 if job["config"]["CAUSAL"] else None)
    allowed = tolerance.bound(reference.abs(), reference.square().mean().item(), "f16", few)
    share = ((out.float() - reference).abs() / allowed).max().item()
    if not share < 2:
        raise RuntimeError(f"wrong: {share:.3g} of the bound away from PyTorch's answer")
    time_us = measure(run)
    driver.call("cuModuleUnload", module)
    return time_us


def make_jobs(manifest, problem, causal, cubins):
    B, H, S, D = problem
    shape = {"B": B, "H": H, "H_KV": H, "S": S, "S_KV": S, "diagonal": 0, "D": D}
    for index, changes in enumerate(CONFIGS[D]):
        config = {"HEAD_DIM": D, "CAUSAL": causal, **DEFAULTS, "BLOCK_K": D, **changes}
        yield {
            "config": config,
            "changes": changes,
            "shape": shape,
            "grid": [manifest.evaluate(size, config, shape) for size in manifest.grid],
            "threads": 32 * config["NUM_WARPS"],
            "shared": manifest.evaluate(manifest.shared, config, shape),
            **cubins.get((D, causal, index), {}),
        }


def sweep(arch, compile_jobs, manifest):
    """Prints the table; True when every config compiled, was right and ran."""
    started, failures, cubins = time.time(), [], {}
    for depth in CONFIGS:
        for causal in (0, 1):
            jobs = list(make_jobs(manifest, (1, 1, 1, depth), causal, {}))
            compile_jobs(jobs, arch)
            for index, job in enumerate(jobs):
                cubins[depth, causal, index] = {key: job[key] for key in ("cubin", "error") if key in job}
    torch.zeros(1, device="cuda")
    driver = verify_gpu.Driver()
    names = " | ".join(BACKENDS)
    print(f"| B,H,S,D | mask | {names} | kernel | TFLOP/s | over default | over flash | config |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for problem in PROBLEMS:
        B, H, S, D = problem
        for causal in (0, 1):
            torch.manual_seed(1)
            tensors = [torch.randn(B, H, S, D, device="cuda", dtype=torch.float16) for _ in range(3)]
            out, times = torch.empty_like(tensors[0]), {}
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                reference = F.scaled_dot_product_attention(*tensors, is_causal=bool(causal)).float()
            theirs = {name: backend_time(backend, tensors, bool(causal)) for name, backend in BACKENDS.items()}
            for index, job in enumerate(make_jobs(manifest, problem, causal, cubins)):
                try:
                    if "error" in job:
                        raise RuntimeError(job["error"])
                    times[index] = kernel_time(driver, job, tensors, out, reference)
                except RuntimeError as error:
                    failures.append(f"FAILED {problem}, causal {causal}, {job['changes']}: {error}")
            if not times:
                continue
            best = min(times, key=times.get)
            products = S * (S + 1) / 2 if causal else S * S
            rate = 4 * B * H * D * products / times[best] / 1e6
            columns = " | ".join(f"{theirs[name]:.1f}" for name in BACKENDS)
            ratios = f"{theirs['default'] / times[best]:.2f}x | {theirs['flash'] / times[best]:.2f}x"
            config = " ".join(f"{name}={value}" for name, value in CONFIGS[D][best].items())
            mask = "causal" if causal else "none"
            print(f"| {B},{H},{S},{D} | {mask} | {columns} | {times[best]:.1f} | {rate:.0f} | {ratios} | {config} |")
    for failure in failures:
        print(failure)
    print(f"sweep: {2 * len(PROBLEMS)} problems, {len(failures)} failures; {time.time() - started:.0f} s")
    return not failures
