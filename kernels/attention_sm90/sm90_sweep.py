"""Times of attention.cu beside PyTorch's backends on the shapes that kiln.toml tunes, for `verify.py sweep`.

A problem's contestants are PyTorch's backends, the winner and the candidates. Each answers first and is compared with
float64; then CUDA graphs of some launches of each are replayed in turns, in another order every time, so that a change
of clocks hits all alike. A time is the median over replays. Runs in a worker process, which is replaced when a
contestant crashes or hangs; that one is left out then.
"""

import json
import math
import random
import time

import sm90_gpu
import sm90_space
import sm90_winners
import verify_workers

BACKENDS = ("default", "cuDNN", "flash", "efficient")
LAUNCHES, REPLAYS = 20, 15
WINNER = "winner"
START_S, STEP_S = 180, 90  # PyTorch takes long to load; a backend may compile at its first launch.
MOST_ATTEMPTS = 8  # At one problem.


class Session:
    """PyTorch and the driver, in one context."""

    def __init__(self):
        import torch

        self.torch = torch
        torch.zeros(1, device="cuda")
        self.driver = sm90_gpu.Driver()


def open_session():
    return Session()


def attend(torch, backend, tensors, shape):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    chosen = {
        "cuDNN": SDPBackend.CUDNN_ATTENTION,
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
    }
    function = torch.nn.functional.scaled_dot_product_attention
    options = {"is_causal": shape["MASK"] == 2, "enable_gqa": shape["H"] != shape["HKV"]}
    if backend == "default":
        return function(*tensors, **options)
    with sdpa_kernel(chosen[backend]):
        return function(*tensors, **options)


def exact(torch, tensors, shape):
    """float64, a few heads at a time."""
    B, H, HKV, SQ, SKV, D = (shape[name] for name in ("B", "H", "HKV", "SQ", "SKV", "D"))
    q, k, v = (tensor.flatten(0, 1) for tensor in tensors)
    out = torch.empty(B * H, SQ, D, dtype=torch.float64, device=q.device)
    hidden = torch.ones(SQ, SKV, dtype=torch.bool, device=q.device).triu(1) if shape["MASK"] == 2 else None
    step = max(1, 2**28 // (SQ * SKV))
    for first in range(0, B * H, step):
        heads = torch.arange(first, min(first + step, B * H), device=q.device)
        key_heads = heads // (H // HKV)
        scores = q[heads].double() @ k[key_heads].double().mT / math.sqrt(D)
        if hidden is not None:
            scores.masked_fill_(hidden, -math.inf)
        out[heads] = torch.softmax(scores, -1) @ v[key_heads].double()
    return out.view(B, H, SQ, D)


def capture(torch, run, stream):
    """A graph of LAUNCHES times `run(stream)`, which has run before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(LAUNCHES):
            run(stream)
    return graph


def contestants_of(session, job, tensors, stream, failures):
    """(label, run, answer) of each: `run(stream)` launches it, `answer()` is what the last launch left."""
    torch, shape = session.torch, job["shape"]
    for backend in BACKENDS:
        kept = {}

        def run(_stream, backend=backend, kept=kept):
            kept["out"] = attend(torch, backend, tensors, shape)

        yield backend, run, lambda kept=kept: kept.pop("out")
    for label, contestant in job["contestants"].items():
        out = torch.full_like(tensors[0], math.nan)
        try:
            _, function = session.driver.load(contestant["cubin"], contestant["shared"])
            addresses = [tensor.data_ptr() for tensor in (*tensors, out)]
            launch = sm90_gpu.Launch(session.driver, function, contestant, contestant["cases"][0], addresses)
        except RuntimeError as error:
            failures[label] = str(error)
            continue
        yield label, lambda stream, launch=launch: launch(stream.cuda_stream), lambda out=out: out


def run_problem(session, job, progress):
    """{times: microseconds by label, failures: reasons by label}."""
    torch, shape = session.torch, job["shape"]
    sizes = [(shape["B"], heads, rows, shape["D"]) for heads, rows in
             ((shape["H"], shape["SQ"]), (shape["HKV"], shape["SKV"]), (shape["HKV"], shape["SKV"]))]  # fmt: skip
    torch.manual_seed(1)
    tensors = [torch.randn(size, device="cuda", dtype=torch.float16) for size in sizes]
    progress("the reference")
    expected = exact(torch, tensors, shape)
    few = sm90_gpu.tolerance.sees_few(shape["SKV"], 0 if shape["MASK"] == 2 else None)
    allowed = sm90_gpu.tolerance.bound(expected.abs(), expected.square().mean().item(), "f16", few)
    stream, graphs, failures, kept = torch.cuda.Stream(), {}, {}, []
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for label, run, answer in contestants_of(session, job, tensors, stream, failures):
            progress(label)
            try:
                run(stream)
                torch.cuda.synchronize()
                share = ((answer().double() - expected).abs() / allowed).max().item()
                if not share < 1:
                    failures[label] = f"wrong: {share:.3g} of the bound"
                    if label not in BACKENDS:  # Those are what is compared with, right or not.
                        continue
                run(stream)
                torch.cuda.synchronize()
                graphs[label] = capture(torch, run, stream)
            except RuntimeError as error:
                if label not in BACKENDS:
                    raise  # After an error of its own kernel nothing in the process is sure.
                failures[label] = str(error).splitlines()[0][:200]
                continue
            kept.append((run, answer))
        del expected, allowed
        times, order, rng = {label: [] for label in graphs}, list(graphs), random.Random(1)
        for replay in range(REPLAYS + 1):  # The first is not counted.
            progress("the replays")
            rng.shuffle(order)
            for label in order:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record(stream)
                graphs[label].replay()
                end.record(stream)
                end.synchronize()
                if replay > 0:
                    times[label].append(start.elapsed_time(end) * 1000 / LAUNCHES)
    graphs.clear()
    kept.clear()
    torch.cuda.empty_cache()
    return {"times": {label: sorted(all)[len(all) // 2] for label, all in times.items()}, "failures": failures}


# --- Without a GPU. ---


def make_problems(manifest, winners):
    """{shape name: {shape, contestants}}: the winner, all other winners and the candidates that are legal there."""
    configs = [winner["config"] for winner in winners]
    problems = {}
    for winner in winners:
        shape, contestants = winner["dimensions"], {}
        others = [config for config in configs if manifest.broken(config, shape) is None]
        for config in [winner["config"], *others, *sm90_winners.candidates(manifest, shape)]:
            label = sm90_space.short_name(config) if contestants else WINNER
            if not any(job["config"] == config for job in contestants.values()):
                contestants[label] = manifest.job(config, [manifest.case(config, shape, 1)])
        problems[winner["shape"]] = {"shape": shape, "contestants": contestants}
    return problems


def run_one(worker, problem, failures, name, broken):
    """A problem's times.

    Contestants that crash or hang are left out, one after another, and join `broken`, which is left out from then on.
    """
    contestants = dict(problem["contestants"])
    for label, job in problem["contestants"].items():
        if "cubin" not in job:
            failures.append((name, label, contestants.pop(label)["error"]))
        elif sm90_space.full_name(job["config"]) in broken:
            failures.append((name, label, "crashed or hung before"))
            del contestants[label]
    for _ in range(MOST_ATTEMPTS):
        result = worker.run({"shape": problem["shape"], "contestants": contestants})
        if "error" not in result:
            failures += [(name, label, reason) for label, reason in result["failures"].items()]
            return result["times"]
        failures.append((name, result["step"], result["error"]))
        culprit = contestants.pop(result["step"], None)
        if culprit is None:
            break
        broken.add(sm90_space.full_name(culprit["config"]))
    return {}


def row(manifest, name, problem, times):
    """A line of the table, and the ratios over the default of the winner and of the best."""
    shape, ours = problem["shape"], {label: us for label, us in times.items() if label not in BACKENDS}
    sizes = f"{shape['B']},{shape['H']},{shape['SQ']},{shape['D']}"
    cells = [sizes, "causal" if shape["MASK"] == 2 else "full"]
    cells += [f"{times[backend]:.2f}" if backend in times else "-" for backend in BACKENDS]
    if not ours:
        return "| " + " | ".join([*cells, *["-"] * 6]) + " |", {}
    best = min(ours, key=ours.get)
    default, ratios = times.get("default", math.nan), {}
    for label, chosen in ((WINNER, WINNER), ("best", best)):
        if chosen in ours:
            ratios[label] = default / ours[chosen]
            cells += [f"{ours[chosen]:.2f}", f"{ratios[label]:.3f}"]
        else:
            cells += ["-", "-"]
    rate = manifest.evaluate(manifest.flops, {}, shape) / ours[best] / 1e6
    config = sm90_space.short_name(problem["contestants"][best]["config"])
    cells += [f"{rate:.0f}", config + (" (the winner)" if best == WINNER else "")]
    return "| " + " | ".join(cells) + " |", ratios


def sweep(manifest, winners, compile_jobs, arch, out):
    """Prints the table; True when all winners and candidates compiled, were right and ran. Needs PyTorch."""
    started, failures, broken, everything, all_ratios = time.time(), [], set(), {}, {WINNER: [], "best": []}
    problems = make_problems(manifest, winners)
    worker = verify_workers.Worker(open_session, run_problem, START_S, STEP_S)
    try:
        worker.start()
    except (TimeoutError, EOFError, OSError) as error:
        worker.stop()
        raise SystemExit(f"nothing to run on: {str(error) or 'the worker died'}") from None
    compile_jobs([job for problem in problems.values() for job in problem["contestants"].values()], arch)
    print(
        f"us of one launch, median of {REPLAYS} replays of a graph of {LAUNCHES}; best: of the winner and candidates\n"
    )
    print(
        f"| B,H,S,D | mode | {' | '.join(BACKENDS)} | winner | over default | best | over default | TFLOP/s | config |"
    )
    print("|" + " --- |" * 12)
    for name, problem in problems.items():
        times = run_one(worker, problem, failures, name, broken)
        line, ratios = row(manifest, name, problem, times)
        print(line, flush=True)
        configs = {label: job["config"] for label, job in problem["contestants"].items()}
        everything[name] = {"shape": problem["shape"], "times_us": times, "configs": configs}
        if out:  # After every problem: what is there is kept if the rest does not come to an end.
            with open(out, "w") as file:
                json.dump(everything, file, indent=1)
        for label, ratio in ratios.items():
            all_ratios[label].append(ratio)
    worker.stop()
    for label, ratios in all_ratios.items():
        ratios = [ratio for ratio in ratios if not math.isnan(ratio)]
        if ratios:
            mean = sm90_winners.geometric_mean(ratios)
            print(f"{label}: geometric mean {mean:.3f}, least {min(ratios):.3f}, {len(ratios)} problems")
    for name, label, reason in failures:
        print(f"{'NOTE' if label in BACKENDS else 'FAILED'} {name}, {label}: {reason}")
    failed = sum(label not in BACKENDS for _, label, _ in failures)
    print(f"sweep: {len(problems)} problems, {failed} failures; {time.time() - started:.0f} s")
    return failed == 0
