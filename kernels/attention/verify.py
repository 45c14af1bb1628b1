#!/usr/bin/env python3
"""Verifies attention.cu far beyond what a manifest checks: random configs on random shapes, against float64.

  python3 verify.py fuzz 500      configs, shapes, masks, types and layouts at random; every tenth has rows without keys
  python3 verify.py decode 60     blocks that share keys, packed heads, int8: three launches must agree to the bit
  python3 verify.py sanitize 20   the same two kinds of draws under compute-sanitizer: memcheck, racecheck, initcheck
  python3 verify.py sweep         times beside PyTorch's backends, 22 problems; the best of a dozen configs each
  python3 verify.py compile 20    compiles draws and shows registers and spills; needs no GPU

Configs are drawn from the manifests beside this file, under their constraints; errors are judged by tolerance.py. Each
draw runs in a worker process that is replaced when it crashes or hangs. Prints a table; exits with 1 if any failed.
Needs NumPy and NVRTC (KILN_CUDA, CUDA_HOME or a wheel); `sweep` needs PyTorch.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor

import verify_gpu
import verify_workers

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED_LIMIT = 227 * 1024
FUNCTIONS = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b), "__builtins__": {}}

# Draws go beyond the manifests' values where the kernel does.
MORE_VALUES = {"BLOCK_K": [32, 64, 128], "NUM_WARPS": [2, 4, 6, 8]}
# About speed only, not about what is right.
SPEED_ONLY = {"blocks"}

# Rows without a key, or hardly any: B, H, H_KV, S, S_KV, diagonal.
EMPTY_ROWS = [
    (2, 12, 3, 929, 3, -926),
    (1, 2, 2, 300, 1, -299),
    (1, 4, 2, 150, 3, -160),
    (1, 1, 1, 1, 1, -1),
    (2, 4, 2, 270, 140, -129),
    (1, 2, 1, 700, 65, -1),
]


# --- Configs, as the manifests allow them. ---


class Manifest:
    """Tunables, constraints and launch of a manifest. Its expressions are Python's as far as they are used here."""

    def __init__(self, name):
        with open(os.path.join(HERE, name), "rb") as file:
            text = tomllib.load(file)
        self.values = {}
        for tunable, values in text["tunables"].items():
            values = [values["value"]] if isinstance(values, dict) else values
            self.values[tunable] = [int(value) for value in values]
        self.constraints = {name: self.parse(rule) for name, rule in text["constraints"].items()}
        self.grid = [self.parse(size) for size in text["launch"]["grid"]]
        self.shared = self.parse(text["launch"]["shared"])

    @staticmethod
    def parse(expression):
        return compile(expression.strip(), expression, "eval")

    @staticmethod
    def evaluate(expression, config, shape):
        return eval(expression, FUNCTIONS, {**config, **shape})

    def legal(self, config, shape, ignore=frozenset()):
        for name, rule in self.constraints.items():
            if name not in ignore and not self.evaluate(rule, config, shape):
                return False
        return self.evaluate(self.shared, config, shape) <= SHARED_LIMIT

    def all_legal(self):
        """Every config that the manifest allows at its own depth."""
        for values in itertools.product(*self.values.values()):
            config = dict(zip(self.values, values))
            if self.legal(config, {"D": config["HEAD_DIM"]}):
                yield config

    def draw(self, rng, **fixed):
        """A legal config with `fixed` values: each of those is as likely as the next."""
        values = {**self.values, **{name: [value] for name, value in fixed.items()}}
        while True:
            config = {name: rng.choice(choices) for name, choices in values.items()}
            if self.legal(config, {"D": config["HEAD_DIM"]}, SPEED_ONLY) and fits(config):
                return config

    def job(self, config, shape, rng, launches):
        return {
            "config": config,
            "shape": shape,
            "grid": [self.evaluate(size, config, shape) for size in self.grid],
            "threads": 32 * config["NUM_WARPS"],
            "shared": self.evaluate(self.shared, config, shape),
            "rows_first": rng.randint(0, 1),
            "seed": rng.getrandbits(32),
            "launches": launches,
        }


def fits(config):
    """What the source asserts and a manifest need not say, its values being chosen so."""
    warps = config["NUM_WARPS"] // config["SPLIT"]
    width = 2 if config.get("HALF2") else 8
    return config["BLOCK_M"] <= 64 * warps and 32 * config["NUM_WARPS"] % (config["HEAD_DIM"] // width) == 0


def shape_of(B, H, H_KV, S, S_KV, diagonal, D):
    return {"B": B, "H": H, "H_KV": H_KV, "S": S, "S_KV": S_KV, "diagonal": diagonal, "D": D}


def draw_length(rng, longest):
    return rng.choice([1, rng.randint(2, 80), rng.randint(60, 300), rng.randint(200, longest)])


def draw_fuzz(rng, count):
    """Jobs over every tunable but those of decoding."""
    manifest = Manifest("kiln.wide.toml")
    manifest.values.update(MORE_VALUES)
    jobs = []
    for index in range(count):
        problem = {"HEAD_DIM": rng.choice([64, 64, 128]), "CAUSAL": rng.randint(0, 1), "BF16": rng.randint(0, 1)}
        if index % 10 == 0:
            problem["CAUSAL"] = 1
            # A tile without steps has no barrier but its own if queries are not awaited before the first step.
            fixed = {} if index % 20 else {"Q_IN_REGISTERS": 0, "OVERLAP": 0, "SPLIT": 1, "HALF2": 0}
            config = manifest.draw(rng, **problem, **fixed)
            shape = EMPTY_ROWS[index // 10 % len(EMPTY_ROWS)]
        else:
            config = manifest.draw(rng, **problem)
            key_heads, group, queries = rng.choice([1, 2, 3]), rng.choice([1, 1, 2, 4]), draw_length(rng, 1100)
            keys = queries if rng.random() < 0.4 else draw_length(rng, 1500)
            diagonal = 0 if rng.random() < 0.6 else rng.choice([keys - queries, rng.randint(-50, 50)])
            shape = (rng.randint(1, 3), key_heads * group, key_heads, queries, keys, diagonal)
        jobs.append(manifest.job(config, shape_of(*shape, config["HEAD_DIM"]), rng, launches=2))
    return jobs


def draw_decode(rng, count):
    """Jobs over what decoding adds: GRID_SPLIT, PACK_GQA, KV_INT8."""
    manifests = [Manifest("kiln.decode.toml"), Manifest("kiln.int8.toml")]
    jobs = []
    for index in range(count):
        manifest = manifests[index % 2]
        config = manifest.draw(rng, HEAD_DIM=rng.choice([64, 128]), BLOCK_K=64, CAUSAL=rng.choice([0, 1, 1]))
        key_heads, group, queries = rng.choice([1, 2, 8]), rng.choice([1, 4, 6]), rng.choice([1, 1, 2, 5, 16, 17])
        keys = max(queries, rng.choice([1, 70, 333, 1000, 4096]))
        diagonal = keys - queries
        if index % 10 == 0:  # The first queries see nothing, and most blocks have nothing to do.
            config["CAUSAL"], queries, keys, diagonal = 1, 40, 70, -20
        shape = (rng.randint(1, 3), key_heads * group, key_heads, queries, keys, diagonal)
        jobs.append(manifest.job(config, shape_of(*shape, config["HEAD_DIM"]), rng, launches=3))
    return jobs


def draw_small(rng, count):
    """Both kinds, on problems that a sanitizer gets through in seconds; rows without keys are among them."""
    jobs = draw_fuzz(rng, count - count // 4) + draw_decode(rng, count // 4)
    for job in jobs:
        shape = job["shape"]
        empty = max(0, -shape["diagonal"])  # Rows that stay; some of those without keys, and those with keys.
        dropped = max(0, empty - 140)
        shape["B"], shape["H"] = 1, min(shape["H"], 2 * shape["H_KV"])
        shape["S"], shape["diagonal"] = min(shape["S"] - dropped, 150), shape["diagonal"] + dropped
        shape["S_KV"] = min(shape["S_KV"], 260)
        manifest = Manifest("kiln.decode.toml" if "GRID_SPLIT" in job["config"] else "kiln.wide.toml")
        job["grid"] = [manifest.evaluate(size, job["config"], shape) for size in manifest.grid]
        job["launches"] = 1
    return jobs


# --- Running. ---


def compile_jobs(jobs, arch):
    """Fills in `cubin`, `registers` and `spilled`, or `error`."""
    with open(os.path.join(HERE, "attention.cu")) as file:
        source = file.read()
    with multiprocessing.get_context("spawn").Pool() as pool:
        compiled = pool.map(verify_gpu.compile_config, [(source, job["config"], arch) for job in jobs], chunksize=1)
    for job, result in zip(jobs, compiled):
        job.update(result)


# --- Commands. ---


def describe(job):
    return json.dumps({"shape": job["shape"], "rows_first": job["rows_first"], "seed": job["seed"], **job["config"]})


def report(kind, jobs, results, seconds):
    """A table by type, depth and mask, then the failures. True when there is none."""
    groups = {}
    for job, result in zip(jobs, results):
        config, shape = job["config"], job["shape"]
        mask = "none" if not config["CAUSAL"] else "rows without keys" if shape["diagonal"] < 0 else "causal"
        dtype = ("bf16" if config["BF16"] else "f16") + (", int8" if config.get("KV_INT8") else "")
        groups.setdefault((dtype, config["HEAD_DIM"], mask), []).append(result)
    print("| type | depth | mask | draws | failed | worst share of the bound |\n| --- | --- | --- | --- | --- | --- |")
    for (dtype, depth, mask), part in sorted(groups.items()):
        failed = sum("error" in result for result in part)
        worst = max((result["share"] for result in part if "share" in result), default=math.nan)
        print(f"| {dtype} | {depth} | {mask} | {len(part)} | {failed} | {worst:.2f} |")
    bad = [(job, result["error"]) for job, result in zip(jobs, results) if "error" in result]
    for job, error in bad:
        print(f"FAILED {error}: {describe(job)}")
    print(f"{kind}: {len(jobs)} draws, {len(bad)} failed; {seconds:.0f} s")
    return not bad


def check_draws(kind, draw, options):
    started = time.time()
    jobs = draw(random.Random(options.seed), options.count)
    compile_jobs(jobs, options.arch)
    results = verify_workers.run_all(jobs, options.workers, verify_gpu.Driver, verify_gpu.run_job)
    return report(kind, jobs, results, time.time() - started)


def sanitize(options):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        raise SystemExit("compute-sanitizer is in neither PATH nor /usr/local/cuda/bin; it comes with the CUDA toolkit")
    started = time.time()
    jobs = draw_small(random.Random(options.seed), options.count)
    compile_jobs(jobs, options.arch)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:

        def run(task):
            index, check = task
            if "cubin" not in jobs[index]:
                return jobs[index]["error"]
            path = os.path.join(folder, f"{index}.{check}")
            with open(path, "wb") as file:
                pickle.dump(jobs[index], file)
            command = [tool, "--tool", check, "--error-exitcode", "9", sys.executable, __file__, "one", path]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=240)
            except subprocess.TimeoutExpired:
                return "no answer in 240 s"
            return None if done.returncode == 0 else (done.stdout + done.stderr)[-900:]

        tasks = list(itertools.product(range(len(jobs)), ("memcheck", "racecheck", "initcheck")))
        with ThreadPoolExecutor(4) as pool:
            for (index, check), error in zip(tasks, pool.map(run, tasks)):
                if error is not None:
                    failed += 1
                    print(f"FAILED {check}: {describe(jobs[index])}\n{error}")
    print(f"sanitize: {len(tasks)} runs, {failed} failed; {time.time() - started:.0f} s")
    return failed == 0


def run_one(path):
    """One job of `sanitize`, under its tool."""
    with open(path, "rb") as file:
        result = verify_gpu.run_job(verify_gpu.Driver(), pickle.load(file), lambda step: None)
    print(result)
    return "error" not in result


def compile_only(options):
    rng = random.Random(options.seed)
    jobs = draw_fuzz(rng, options.count - options.count // 4) + draw_decode(rng, options.count // 4)
    compile_jobs(jobs, options.arch)
    print("| registers | bytes spilled | config |\n| --- | --- | --- |")
    for job in jobs:
        config = " ".join(f"{name}={value}" for name, value in job["config"].items())
        print(f"| {job.get('registers', job.get('error'))} | {job.get('spilled', '-')} | {config} |")
    return not any("error" in job for job in jobs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["fuzz", "decode", "sanitize", "sweep", "compile", "one"])
    parser.add_argument("count", nargs="?", help="draws (default 20); for `one`, a file written by `sanitize`")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--workers", type=int, default=6, help="processes that share the GPU")
    options = parser.parse_args()
    if options.command == "one":
        return run_one(options.count)
    try:
        options.count = int(options.count or 20)
    except ValueError:
        parser.error(f"`{options.count}` is no number of draws")
    if options.count < 1 or options.workers < 1:
        parser.error("draws and workers must be at least 1")
    if options.command == "sweep":
        import verify_sweep

        return verify_sweep.sweep(options.arch, compile_jobs, Manifest("kiln.wide.toml"))
    if options.command == "compile":
        return compile_only(options)
    if options.command == "sanitize":
        return sanitize(options)
    return check_draws(options.command, {"fuzz": draw_fuzz, "decode": draw_decode}[options.command], options)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
