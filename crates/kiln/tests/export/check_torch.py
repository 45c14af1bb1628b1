"""An exported attention package on a GPU: answers, torch.compile, CUDA graphs, host time, speed. Needs PyTorch.

    kiln export --winners kernels/attention_sm90/winners.json --manifest kernels/attention_sm90 --arch sm_90a \
        --to torch --unconfirmed --out /tmp/check/attention_sm90
    python3 crates/kiln/tests/export/check_torch.py /tmp/check/attention_sm90

Every check prints a line that begins with `ok` or `FAILED`; the exit code is 1 if any failed. `--only NAME,…` runs some of
answers, odd, errors, compile, graphs, streams, host, speed; `--shapes NAME,…` some of the shapes. `--verified FILE` (`kiln verify
--json` of the same package, on the same machine) shows what kiln measures here beside what it measured where the kernels were tuned.
Speed is measured in so many fresh processes (`--processes`).
"""

import argparse
import ctypes
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings

import torch
import torch.nn.functional as F

FAILED = []


def report(passed, what):
    print(("ok      " if passed else "FAILED  ") + what, flush=True)
    if not passed:
        FAILED.append(what)


def inputs(d, seed=0):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    make = lambda heads, rows: torch.randn(d["B"], heads, rows, d["D"], device="cuda", dtype=torch.float16, generator=generator)
    return make(d["H"], d["SQ"]), make(d["HKV"], d["SKV"]), make(d["HKV"], d["SKV"])


def sdpa(q, k, v, causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def exact(q, k, v, causal):
    """By definition, in float64, a head at a time and some rows at a time."""
    share = q.shape[1] // k.shape[1]
    out = torch.empty(q.shape, device="cuda", dtype=torch.float64)
    rows = max(1, (1 << 26) // k.shape[2])
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            keys, values = k[b, h // share].double(), v[b, h // share].double()
            for at in range(0, q.shape[2], rows):
                scores = q[b, h, at : at + rows].double() @ keys.T / q.shape[3] ** 0.5
                if causal:
                    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device="cuda").triu(1)[at : at + rows]
                    scores.masked_fill_(mask, float("-inf"))
                out[b, h, at : at + rows] = torch.softmax(scores, -1) @ values
    return out


def bound(d):
    """The manifest's own: weights and the result are rounded to f16."""
    return 1.5e-3 if d["MASK"] == 2 else 2.5e-3 * math.sqrt(min(1, 2.72 / d["SKV"]))


def excess(got, want, d):
    """By how much the worst element misses its bound: at most 1 is right. A missing key row gives NaN on both sides."""
    got, want = got.double(), want.double()
    if not torch.equal(got.isnan(), want.isnan()):
        return math.inf
    error = (got - want).abs() / (bound(d) + 2.5e-3 * want.abs())
    return float(torch.nan_to_num(error).max())


def answers(kernel, entries):
    for entry in entries:
        d = entry["dimensions"]
        q, k, v = inputs(d)
        causal = d["MASK"] == 2
        got = kernel(q, k, v, is_causal=causal)
        # The reference of the largest shapes takes float64 long; SDPA, itself within the bound, stands in for it there.
        small = d["B"] * d["H"] * d["SQ"] * d["SKV"] <= 1 << 29
        found = [("float64", excess(got, exact(q, k, v, causal), d))] if small else []
        found.append(("SDPA", excess(got, sdpa(q, k, v, causal), d) / 2))
        text = ", ".join(f"{name} {value:.2f} of the bound" for name, value in found)
        report(all(value <= 1 for _, value in found), f"answer {entry['shape']}: {text}")
        del q, k, v, got
        torch.cuda.empty_cache()


ODD = [
    dict(B=1, H=3, HKV=3, SQ=77, SKV=77, D=64), dict(B=2, H=2, HKV=2, SQ=513, SKV=513, D=64), dict(B=2, H=2, HKV=2, SQ=513, SKV=513, D=128),
    dict(B=1, H=4, HKV=2, SQ=200, SKV=200, D=64), dict(B=1, H=2, HKV=2, SQ=300, SKV=65, D=64), dict(B=2, H=2, HKV=2, SQ=64, SKV=300, D=128),
    dict(B=1, H=1, HKV=1, SQ=1, SKV=1, D=64), dict(B=40, H=8, HKV=8, SQ=192, SKV=192, D=64), dict(B=3, H=5, HKV=5, SQ=1000, SKV=1000, D=128),
    dict(B=1, H=2, HKV=2, SQ=64, SKV=64, D=96), dict(B=1, H=2, HKV=2, SQ=64, SKV=64, D=32),
]


def odd(module, kernel):
    for sizes in ODD:
        for mask in (1, 2):
            d = dict(sizes, MASK=mask)
            q, k, v = inputs(d, 1)
            told = module.explain(q, k, v, is_causal=mask == 2)
            value = excess(kernel(q, k, v, is_causal=mask == 2), exact(q, k, v, mask == 2), d)
            runs = f"config of {told['shape']}" if told["runs"] == "kernel" else told["runs"]
            expected = "kernel" if d["D"] in (64, 128) else "fallback"
            report(value <= 1 and told["runs"] == expected, f"odd {sizes} mask {mask}: {runs}, {value:.2f} of the bound")
    # Heads that do not divide evenly are no problem that attention has an answer to.
    q, k, v = inputs(dict(B=1, H=3, HKV=2, SQ=64, SKV=64, D=64))
    told = module.explain(q, k, v)
    report(told["runs"] != "kernel", f"3 heads of queries for 2 of keys: {told['runs']}")


def errors(module, kernel):
    q, k, v = inputs(dict(B=1, H=2, HKV=2, SQ=64, SKV=64, D=64))
    for what, call in [
        ("type", lambda: kernel(q.bfloat16(), k, v)), ("device", lambda: kernel(q, k.cpu(), v)), ("rank", lambda: kernel(q[0], k, v)),
        ("contiguity", lambda: kernel(q.transpose(1, 2).contiguous().transpose(1, 2), k, v)), ("shape", lambda: kernel(q, k[:, :, :10].contiguous(), v)),
    ]:
        try:
            call()
            report(False, f"error {what}: nothing was said")
        except module.KernelError as error:
            report(True, f"error {what}: {error}")
    g = q.clone().requires_grad_()
    kernel(g, k, v).sum().backward()
    report(g.grad is not None, "gradient: the fallback gives one")


def compiled(module, kernel):
    for mode in (None, "reduce-overhead"):
        function = torch.compile(lambda q, k, v: kernel(q * 1.0, k, v, is_causal=True) + 1, fullgraph=True, mode=mode)
        for d in (dict(B=4, H=8, HKV=8, SQ=512, SKV=512, D=64), dict(B=1, H=3, HKV=3, SQ=77, SKV=77, D=64)):
            q, k, v = inputs(d, 2)
            want = kernel(q, k, v, is_causal=True) + 1
            for _ in range(3):
                got = function(q, k, v)
            report(torch.equal(got, want), f"torch.compile(fullgraph=True, mode={mode}) {d}")
    torch.library.opcheck(module._operator, (q, k, v, True))
    report(True, "torch.library.opcheck")


def graphs(module, kernel):
    d = dict(B=4, H=8, HKV=8, SQ=512, SKV=512, D=64)
    q, k, v = inputs(d, 3)
    kernel(q, k, v)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernel(q, k, v)
    for seed in (4, 5):
        for target, source in zip((q, k, v), inputs(d, seed)):
            target.copy_(source)
        graph.replay()
        torch.cuda.synchronize()
        report(torch.equal(out, kernel(q, k, v)), f"CUDA graph replayed on inputs {seed}")


def streams(module, kernel):
    d = dict(B=4, H=8, HKV=8, SQ=512, SKV=512, D=64)
    q, k, v = inputs(d, 6)
    want = kernel(q, k, v)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        late = torch.empty_like(q).copy_(q)
        got = kernel(late, k, v)
    side.synchronize()
    report(torch.equal(got, want), "runs on the current stream, behind what is queued there")
    import threading
    found = []
    threads = [threading.Thread(target=lambda: found.append(torch.equal(kernel(q, k, v), want))) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    report(found == [True] * 8, "eight threads at once")


def host(kernel, slack_us=5.0):
    d = dict(B=1, H=1, HKV=1, SQ=64, SKV=64, D=64)
    q, k, v = inputs(d)
    calls = {"kernel": lambda: kernel(q, k, v), "sdpa": lambda: F.scaled_dot_product_attention(q, k, v)}
    times = {name: [] for name in calls}
    with torch.no_grad():
        for _ in range(40):
            for name, call in calls.items():
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(200):
                    call()
                times[name].append((time.perf_counter() - start) / 200 * 1e6)
                torch.cuda.synchronize()
    ours, theirs = (statistics.median(times[name][5:]) for name in ("kernel", "sdpa"))
    report(ours <= theirs + slack_us, f"host time per call: {ours:.2f} us, SDPA {theirs:.2f} us (difference {ours - theirs:+.2f}, at most +{slack_us})")


def replayed(call, calls=20):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    graph.replay()
    return graph


def timed(graph):
    """Microseconds of what is captured; queued behind work, so that nothing in it waits for the host."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(200_000)
    start.record()
    if graph is not None:
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def calls_in_a_burst(call):
    """As many as kiln takes for a sample: 300 us of them, 512 at the most."""
    graph = replayed(call, 1)
    once = statistics.median(timed(graph) for _ in range(5))
    return max(1, min(512, math.ceil(300 / once)))


def clock_reader():
    """Reads the clock of the multiprocessors in MHz, or says nan."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        device, clock = ctypes.c_void_p(), ctypes.c_uint()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(torch.cuda.current_device(), ctypes.byref(device)):
            return lambda: math.nan
    except OSError:
        return lambda: math.nan
    # 1: multiprocessors.
    return lambda: math.nan if nvml.nvmlDeviceGetClockInfo(device, 1, ctypes.byref(clock)) else clock.value


def in_turns(graphs, touched, pause, nothing, clock):
    """Microseconds per call of each, and the clock meanwhile."""
    times, clocks = [[], []], []
    for _ in range(30):
        for (graph, calls), found in zip(graphs, times):
            time.sleep(pause)
            if touched:
                graph.replay()
                for tensor in touched:
                    tensor.view(torch.uint8).sum()
                torch.cuda.synchronize()
            found.append((timed(graph) - nothing) / calls)
            clocks.append(clock())
    return *(statistics.median(found) for found in times), statistics.median(clocks)


def measure(kernel, entries):
    """A row per shape, as kiln measures: bursts in turns, with code loaded and inputs just read, less what two events with
    nothing in between take, with time between them in which the device cools and clocks recover. Straight after the other
    side, and without time either, the device runs slower, and the two sides not by the same part: shown beside it.
    """
    clock = clock_reader()
    nothing = statistics.median(timed(None) for _ in range(50))
    rows = {}
    for entry in entries:
        d = entry["dimensions"]
        q, k, v = inputs(d)
        causal = d["MASK"] == 2
        sides = [lambda: sdpa(q, k, v, causal), lambda: kernel(q, k, v, is_causal=causal)]
        graphs = [(replayed(side, calls), calls) for side in sides for calls in [calls_in_a_burst(side)]]
        rows[entry["shape"]] = {
            "touched": in_turns(graphs, (q, k, v), 0.005, nothing, clock),
            "untouched": in_turns(graphs, (), 0.005, nothing, clock),
            "busy": in_turns(graphs, (), 0, nothing, clock),
        }
        del graphs, q, k, v
        torch.cuda.empty_cache()
    return rows


def speed(package, entries, verified, processes):
    """In fresh processes, for where a process's memory lies shifts all its times: the median of their ratios counts."""
    names = ",".join(entry["shape"] for entry in entries)
    found = []
    for _ in range(processes):
        command = [sys.executable, os.path.abspath(__file__), "--measure", "--shapes", names, package]
        child = subprocess.run(command, capture_output=True, text=True)
        if child.returncode:
            raise RuntimeError(f"a process that measures ended with {child.returncode}: {child.stderr.strip()[-300:]}")
        found.append(json.loads(child.stdout.splitlines()[-1]))
    ratios, kept = [], []
    for entry in entries:
        rows = [rows[entry["shape"]] for rows in found]
        middle = lambda state, part: statistics.median(row[state][part] for row in rows)
        each = sorted(row["touched"][0] / row["touched"][1] for row in rows)
        ratios.append(statistics.median(each))
        known = entry["evidence"]["speedup"]
        again, here = verified.get(entry["shape"]), ""
        if again and again["speedup"]:
            kept.append(ratios[-1] / again["speedup"])
            here = f"kiln here {again['kernel_ns'] / 1e3:.2f} us, SDPA {again['baseline_ns'] / 1e3:.2f} us, {again['speedup']:.3f}x, of which {100 * kept[-1]:.1f} % are kept; "
        keeps = known is None or ratios[-1] >= 0.97 * known
        part = "" if known is None else f", {100 * ratios[-1] / known:.1f} % of {known}x where it was tuned"
        busy = statistics.median(row["busy"][0] / row["busy"][1] for row in rows)
        report(keeps, f"speed {entry['shape']}: {middle('touched', 1):.2f} us, SDPA {middle('touched', 0):.2f} us, {ratios[-1]:.3f}x [{each[0]:.3f}, {each[-1]:.3f}] at {middle('touched', 2):.0f} MHz{part}; {here}"
            f"straight after SDPA {middle('untouched', 1):.2f} us, nor a pause {busy:.3f}x at {middle('busy', 2):.0f} MHz")
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    print(f"geometric mean over {len(ratios)} shapes: {mean:.3f}x, least {min(ratios):.3f}x; medians of {processes} processes, with the least and the largest ratio of them")
    if kept:
        enough = sum(part >= 0.97 for part in kept)
        print(f"of what kiln measures here, 97 % are kept in {enough} of {len(kept)} shapes, least {100 * min(kept):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--only", default="answers,odd,errors,compile,graphs,streams,host,speed")
    parser.add_argument("--shapes")
    parser.add_argument("--verified")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help="only times, as one line of JSON")
    arguments = parser.parse_args()
    verified = {}
    if arguments.verified:
        with open(arguments.verified) as file:
            verified = {found["shape"]: found for found in json.load(file)["shapes"]}
    only = arguments.only.split(",")
    if not torch.cuda.is_available():
        raise SystemExit("there is no GPU that PyTorch can use")
    folder, name = os.path.split(os.path.abspath(arguments.package))
    sys.path.insert(0, folder)
    module = importlib.import_module(name)
    kernel = getattr(module, module.__all__[0])
    warnings.simplefilter("ignore", module.NearestShape)
    warnings.simplefilter("ignore", module.FallsBack)
    loaded = module.prepare()
    entries = [e for e in module.dispatch() if not arguments.shapes or e["shape"] in arguments.shapes.split(",")]
    if arguments.measure:
        print(json.dumps(measure(kernel, entries)))
        return
    print(f"{name} on {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    report(loaded > 0, f"{loaded} images load, for {len(entries)} shapes")
    # A process that does nothing but call it: no warm-up, no `prepare`.
    code = f"import sys; sys.path.insert(0, {folder!r}); import torch, {name} as m; q = torch.ones(1, 1, 64, 64, device='cuda', dtype=torch.float16); print(float(m.{module.__all__[0]}(q, q, q).mean()))"
    fresh = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    report(fresh.stdout.strip() == "1.0", f"a fresh process: {fresh.stdout.strip() or fresh.stderr.strip()[-300:]}")
    checks = {
        "answers": lambda: answers(kernel, entries), "odd": lambda: odd(module, kernel), "errors": lambda: errors(module, kernel),
        "compile": lambda: compiled(module, kernel), "graphs": lambda: graphs(module, kernel), "streams": lambda: streams(module, kernel),
        "host": lambda: host(kernel), "speed": lambda: speed(arguments.package, entries, verified, arguments.processes),
    }
    for name, check in checks.items():
        if name in only:
            try:
                check()
            except Exception as error:
                report(False, f"{name}: {type(error).__name__}: {error}")
    print(json.dumps({"failed": FAILED}))
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
