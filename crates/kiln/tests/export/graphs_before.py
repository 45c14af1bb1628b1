"""How long launches in a CUDA graph take, by what graphs the process had before: docs/results/2026-11-18-export-h200.md.

    graphs_before.py PACKAGE [ROUNDS]      an exported package of kernels/attention_sm90, in its folder

Every number is from a process of its own, forked before anything touched the GPU. Microseconds per launch.
"""

import os
import statistics
import sys

import torch
import torch.nn.functional as F

from check_torch import replayed, timed

# With launches for 300 us, known beforehand so that finding out makes no graph.
SHAPES = {
    "(1, 8, 512, 64)": ((1, 8, 512, 64), False, 56),
    "(32, 8, 128, 64)": ((32, 8, 128, 64), False, 53),
    "(32, 8, 256, 64) causal": ((32, 8, 256, 64), True, 26),
}
BEFORE = ["nothing", "images", "one, destroyed", "one, kept", "alike, destroyed", "other side, kept"]


def measure(package, shape, side, before):
    extents, causal, launches = SHAPES[shape]
    q, k, v = (torch.randn(extents, device="cuda", dtype=torch.float16) for _ in range(3))
    kernel = getattr(package, package.__all__[0])
    sides = {"exported": lambda: kernel(q, k, v, is_causal=causal), "SDPA": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)}
    call, other = sides[side], sides["SDPA" if side == "exported" else "exported"]
    nothing = statistics.median(timed(None) for _ in range(50))
    kept = []
    if before == "images":
        package.prepare()
    elif before.startswith("one"):
        kept.append(replayed(call, 1))
    elif before.startswith("alike"):
        kept.append(replayed(call, launches))
    elif before.startswith("other"):
        kept.append(replayed(other, launches))
    torch.cuda.synchronize()
    if before.endswith("destroyed"):
        kept.clear()
    graph = replayed(call, launches)
    torch.cuda.synchronize()
    times = []
    for _ in range(40):
        for tensor in (q, k, v):
            tensor.view(torch.uint8).sum()
        times.append((timed(graph) - nothing) / launches)
    return statistics.median(times)


def in_a_process(*arguments):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, f"{measure(*arguments):.3f}".encode())
        except BaseException as error:
            os.write(writing, f"failed: {error}".encode()[:200])
        os._exit(0)
    os.close(writing)
    found = os.read(reading, 4096).decode()
    os.close(reading)
    os.waitpid(child, 0)
    return found


def main():
    folder, name = os.path.split(os.path.abspath(sys.argv[1]))
    sys.path.insert(0, folder)
    package = __import__(name)
    columns = [(shape, side) for shape in SHAPES for side in ("exported", "SDPA")]
    print("| graphs before | " + " | ".join(f"{shape}, {side}" for shape, side in columns) + " |\n|" + " --- |" * (1 + len(columns)))
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1):
        for before in BEFORE:
            print(f"| {before} | " + " | ".join(in_a_process(package, *column, before) for column in columns) + " |", flush=True)


if __name__ == "__main__":
    main()
