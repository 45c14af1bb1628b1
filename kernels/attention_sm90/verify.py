#!/usr/bin/env python3
"""Verifies attention.cu far beyond what kiln.toml checks, on a Hopper GPU.

  verify.py fuzz 500         random problems and configs, f16 and bf16; every tenth's scores are hard on a softmax
  verify.py space 300        configs of the whole space on all check shapes: each right, or refused by a named gate
  verify.py sanitize         the winners on small shapes under compute-sanitizer: memcheck, racecheck
  verify.py launches 10000   each winner so many times on its own shape; the last answer must be the first
  verify.py sweep            times beside PyTorch's backends on the tuned shapes, winners and candidates (--out FILE)
  verify.py compile 20       compiles draws and shows registers and spills; needs no GPU
  verify.py winners          checks and shows winners.json; with FILE.json ..., what `kiln studies show --json` prints
                             puts the studies' winners in first, what `kiln verify --json` prints new times (--date
                             YYYY-MM-DD)
  verify.py repeat 'JSON'    one failure again, from the line that told of it

Winners are checked against kiln.toml before anything else. Draws run in worker processes that are replaced when they
crash or hang; errors are judged by ../attention/tolerance.py. Prints a table; exits with 1 if anything failed. Needs
NumPy and NVRTC (KILN_CUDA, CUDA_HOME or a wheel); `sweep` needs PyTorch.
"""

import argparse
import collections
import datetime
import itertools
import json
import math
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

for library in ("OPENBLAS", "OMP", "MKL"):  # Workers share the cores.
    os.environ.setdefault(f"{library}_NUM_THREADS", "2")

import sm90_gpu
import sm90_space
import sm90_winners
import verify_workers

CHECKS = ("memcheck", "racecheck")
SANITIZER_S = 300
DEFAULT_COUNT = {"fuzz": 500, "space": 300, "launches": 10_000, "compile": 20}


def compile_jobs(jobs, arch):
    """Fills in `cubin`, `registers`, `spilled` and `notes`, or `error`; each config is compiled once."""
    configs = {tuple(job["config"].items()): job["config"] for job in jobs}
    tasks = [(config, arch) for config in configs.values()]
    try:
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
            results = dict(zip(configs, pool.map(sm90_gpu.compile_config, tasks)))
    except BrokenProcessPool:
        raise SystemExit("a compiler process died: too little memory, or a crash of NVRTC") from None
    for job in jobs:
        job.update(results[tuple(job["config"].items())])


def describe(job, case=None):
    """Everything `repeat` needs."""
    return json.dumps({"config": job["config"], "cases": job["cases"] if case is None else [job["cases"][case]]})


def tell_failure(job, result):
    """At once, on the side: the tables come when all is done."""
    if "error" in result:
        print(f"failed: {result['error']}", file=sys.stderr, flush=True)


def run_jobs(jobs, options, run_job=sm90_gpu.run_job, workers=None):
    return verify_workers.run_all(jobs, workers or options.workers, sm90_gpu.Driver, run_job, tell_failure)


def failed_case(result):
    """The case at fault: the wrong one, or that at which the worker died."""
    return result.get("case", result.get("step"))


def print_failures(jobs, results):
    bad = [(job, result) for job, result in zip(jobs, results) if "error" in result]
    for job, result in bad:
        case = failed_case(result)
        print(f"FAILED {result['error']}: {describe(job, case if isinstance(case, int) else None)}")
    return len(bad)


# --- Commands that draw. ---


def report_fuzz(jobs, results, seconds):
    """A table by type, depth, mask and inputs, then the failures. True when there is none."""
    groups = {}
    for job, result in zip(jobs, results):
        config, inputs = job["config"], job["cases"][0]["inputs"]
        key = ("bf16" if config["BF16"] else "f16", config["HEAD_DIM"], "causal" if config["CAUSAL"] else "full")
        groups.setdefault((*key, "normal" if inputs == "normal" else "hard"), []).append(result)
    print("| type | depth | mask | inputs | draws | failed | worst share of the bound |\n|" + " --- |" * 7)
    for key, part in sorted(groups.items()):
        failed = sum("error" in result for result in part)
        worst = max((result["share"] for result in part if "share" in result), default=math.nan)
        print(f"| {' | '.join(map(str, key))} | {len(part)} | {failed} | {worst:.2f} |")
    bad = print_failures(jobs, results)
    print(f"fuzz: {len(jobs)} draws, {bad} failed; {seconds:.0f} s")
    return bad == 0


def fuzz(manifest, _winners, options):
    started = time.time()
    jobs = sm90_space.draw_fuzz(manifest, options.count, options.seed)
    compile_jobs(jobs, options.arch)
    return report_fuzz(jobs, run_jobs(jobs, options), time.time() - started)


def report_space(manifest, jobs, results, seconds):
    """A table by value of each tunable, what ptxas said, then the failures. True when there is none."""

    def kind(job, result):
        return "refused" if is_refused(job) else "failed" if "error" in result else "right"

    counts = collections.Counter()
    for job, result in zip(jobs, results):
        for name, value in job["config"].items():
            counts[name, value, "configs"] += 1
            counts[name, value, kind(job, result)] += 1
            counts[name, value, "noted"] += bool(job.get("notes"))
    print("| tunable | value | configs | right | refused: spills | failed | noted by ptxas (C75xx) |\n|" + " --- |" * 7)
    for name, values in manifest.values.items():
        for value in values if len(values) > 1 else ():
            cells = [counts[name, value, column] for column in ("configs", "right", "refused", "failed", "noted")]
            print(f"| {name} | {value} | {' | '.join(map(str, cells))} |")
    codes = collections.defaultdict(list)
    for job in jobs:
        for code in job.get("notes", ()):
            codes[code].append(job)
    for code, noted in sorted(codes.items()):
        print(f"{code}: {len(noted)} configs, such as {sm90_space.full_name(noted[0]['config'])}")
    totals = collections.Counter(kind(job, result) for job, result in zip(jobs, results))
    checks = sum(len(job["cases"]) for job, result in zip(jobs, results) if kind(job, result) == "right")
    worst = max((result["share"] for result in results if "share" in result), default=math.nan)
    ran = [(job, result) for job, result in zip(jobs, results) if not is_refused(job)]
    print_failures([job for job, _ in ran], [result for _, result in ran])
    print(
        f"space: {len(jobs)} configs, {totals['right']} right on {checks} problems, {totals['refused']} refused,"
        f" {totals['failed']} failed; worst share of the bound {worst:.2f}; {seconds:.0f} s"
    )
    return totals["failed"] == 0


def is_refused(job):
    """By kiln.toml's gate `spills`."""
    return bool(job.get("spilled"))


def space(manifest, _winners, options):
    started = time.time()
    jobs = sm90_space.draw_space(manifest, options.count, options.seed)
    compile_jobs(jobs, options.arch)
    results = [{"refused": "spills"} for _ in jobs]
    kept = [index for index, job in enumerate(jobs) if not is_refused(job)]
    for index, result in zip(kept, run_jobs([jobs[index] for index in kept], options)):
        results[index] = result
    return report_space(manifest, jobs, results, time.time() - started)


def compile_only(manifest, winners, options):
    jobs = [
        manifest.job(winner["config"], [manifest.case(winner["config"], winner["dimensions"], 1)]) for winner in winners
    ]
    jobs += sm90_space.draw_fuzz(manifest, options.count, options.seed)
    compile_jobs(jobs, options.arch)
    print("| registers | bytes spilled | ptxas | config |\n|" + " --- |" * 4)
    for job in jobs:
        numbers = f"{job.get('registers', '-')} | {job.get('spilled', '-')} | {' '.join(job.get('notes', [])) or '-'}"
        print(f"| {numbers} | {sm90_space.full_name(job['config'])} |")
    bad = print_failures(jobs, jobs)
    print(f"compile: {len(winners)} winners and {options.count} draws, {bad} failed")
    return bad == 0


# --- Commands on winners. ---


def launches(manifest, winners, options):
    started = time.time()
    jobs = []
    for winner in winners:
        case = manifest.case(winner["config"], winner["dimensions"], 1)
        jobs.append({**manifest.job(winner["config"], [case]), "count": options.count})
    compile_jobs(jobs, options.arch)
    results = run_jobs(jobs, options, sm90_gpu.run_launches, workers=1)
    print("| shape | launches | worst share of the bound | config |\n|" + " --- |" * 4)
    for winner, result in zip(winners, results):
        told = (
            f"{result['launches']} | {result['share']:.2f}"
            if "share" in result
            else f"FAILED at {result.get('step')} | -"
        )
        print(f"| {winner['shape']} | {told} | {sm90_space.short_name(winner['config'])} |")
    bad = print_failures(jobs, results)
    print(f"launches: {len(jobs)} winners, {options.count} launches each, {bad} failed; {time.time() - started:.0f} s")
    return bad == 0


def sanitize(manifest, winners, options):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        raise SystemExit("compute-sanitizer is in neither PATH nor /usr/local/cuda/bin; it comes with the CUDA toolkit")
    started, failed = time.time(), 0
    configs = {tuple(winner["config"].items()): winner["config"] for winner in winners}.values()
    jobs = [manifest.job(config, sm90_space.small_cases(manifest, config)) for config in configs]
    compile_jobs(jobs, options.arch)
    with tempfile.TemporaryDirectory() as folder:

        def run(task):
            index, check = task
            if "cubin" not in jobs[index]:
                return jobs[index]["error"]
            path = os.path.join(folder, f"{index}.{check}")
            with open(path, "wb") as file:
                pickle.dump(jobs[index], file)
            command = [
                tool,
                "--tool",
                check,
                "--error-exitcode",
                "9",
                sys.executable,
                os.path.abspath(__file__),
                "one",
                path,
            ]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SANITIZER_S)
            except subprocess.TimeoutExpired:
                return f"no answer in {SANITIZER_S} s"
            told = [line for line in done.stdout.splitlines() if line.startswith("=========")]
            return None if done.returncode == 0 else "\n".join([*told[:15], (done.stdout + done.stderr)[-500:]])

        tasks = list(itertools.product(range(len(jobs)), CHECKS))
        with ThreadPoolExecutor(min(4, options.workers)) as pool:
            for (index, check), error in zip(tasks, pool.map(run, tasks)):
                print(
                    f"{check} {'clean' if error is None else 'FAILED'}: {sm90_space.full_name(jobs[index]['config'])}",
                    flush=True,
                )
                if error is not None:
                    failed += 1
                    print(f"FAILED {check}: {describe(jobs[index])}\n{error}", flush=True)
    print(f"sanitize: {len(jobs)} configs, {len(tasks)} runs, {failed} failed; {time.time() - started:.0f} s")
    return failed == 0


def run_one(path):
    """One job of `sanitize`, under its tool."""
    with open(path, "rb") as file:
        result = sm90_gpu.run_job(sm90_gpu.Driver(), pickle.load(file), lambda step: None)
    print(result)
    return "error" not in result


def repeat(manifest, text, options):
    try:
        told = json.loads(text)
        job = manifest.job(told["config"], told["cases"])
    except (ValueError, KeyError, TypeError, NameError, IndexError) as error:
        raise SystemExit(f"not what a failure was told with: {error}") from None
    compile_jobs([job], options.arch)
    result = run_jobs([job], options, workers=1)[0]
    print(result)
    return "error" not in result


# --- The command line. ---


def sweep(manifest, winners, options):
    import sm90_sweep

    return sm90_sweep.sweep(manifest, winners, compile_jobs, options.arch, options.out)


COMMANDS = {
    "fuzz": fuzz,
    "space": space,
    "sanitize": sanitize,
    "launches": launches,
    "sweep": sweep,
    "compile": compile_only,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=[*COMMANDS, "winners", "repeat", "one"])
    parser.add_argument("what", nargs="*", help="how many; studies for `winners`; what to `repeat`")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--workers", type=int, default=6, help="processes that share the GPU")
    parser.add_argument("--out", help="`sweep`: a file for all times, as JSON")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="`winners`: of the studies [today]")
    options = parser.parse_args()
    if options.workers < 1:
        parser.error("there must be at least 1 worker")
    if options.command in ("one", "repeat") and len(options.what) != 1:
        parser.error(f"`{options.command}` takes one argument")
    if options.command == "one":
        return run_one(options.what[0])
    manifest = sm90_space.Manifest()
    if options.command == "repeat":
        return repeat(manifest, options.what[0], options)
    if options.command == "winners":
        if options.what:
            sm90_winners.update(manifest, options.what, options.date)
        sm90_winners.show(sm90_winners.load(manifest))
        return True
    try:
        (options.count,) = [int(count) for count in options.what] or [DEFAULT_COUNT.get(options.command, 1)]
    except ValueError:
        parser.error(f"`{' '.join(options.what)}` is no number")
    if options.count < 1:
        parser.error("the number must be at least 1")
    return COMMANDS[options.command](manifest, sm90_winners.load(manifest), options)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
