"""What Kernel Tuner and Optuna find on the recorded spaces, for the table that `cargo bench --bench search` prints.

    python3 -m venv peers && peers/bin/pip install kernel_tuner==1.5.0 optuna
    peers/bin/python crates/kiln/benches/peers.py SPACES --seeds 20 > peers.json

SPACES holds `<kernel>/T1.json` and `<kernel>/<device>.json.gz` (Kernel Tuner caches of every valid config). Each
peer runs at its defaults. One trial is one distinct valid config, failed ones included; what a peer asks twice,
or outside the conditions, costs it nothing.
"""

import argparse
import contextlib
import gzip
import io
import json
import math
import os
import random
import sys
import tempfile
import time
from pathlib import Path

BUDGETS = [25, 50, 100, 200]
KERNEL_TUNER = ["adaptive_tabu_greywolf", "pso", "genetic_algorithm"]


class Recording:
    def __init__(self, path):
        definition = json.loads((path.parent / "T1.json").read_text())["ConfigurationSpace"]
        self.name = f"{path.parent.name}/{path.name.removesuffix('.json.gz')}"
        self.tunables = {p["Name"]: list(eval(p["Values"])) for p in definition["TuningParameters"]}
        self.conditions = [c["Expression"] for c in definition["Conditions"]]
        self.cache = json.loads(gzip.open(path).read())
        order = list(self.tunables)
        self.times = {}
        for record in self.cache["cache"].values():
            seen = record["time"]
            self.times[tuple(record[n] for n in order)] = None if isinstance(seen, str) else seen
        self.optimum = min(t for t in self.times.values() if t is not None)

    def fractions(self, asked):
        """Optimum over best found after each budget; `asked` in order, distinct and valid."""
        best, out = math.inf, {}
        for trial, config in enumerate(asked, 1):
            best = min(best, self.times[config] or math.inf)
            if trial in BUDGETS:
                out[trial] = self.optimum / best
        # A peer that stops early keeps what it has.
        return [out.get(b, self.optimum / best) for b in BUDGETS]


def distinct(configs, recording):
    seen = dict.fromkeys(c for c in configs if c in recording.times)
    return list(seen)[: BUDGETS[-1]]


def kernel_tuner(recording, strategy, seed, folder):
    import kernel_tuner
    import numpy

    random.seed(seed)
    numpy.random.seed(seed)
    path = Path(folder) / (recording.name.replace("/", "__") + ".json")
    if not path.exists():
        path.write_text(json.dumps(recording.cache))
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            recording.cache["kernel_name"],
            "simulated",
            recording.cache["problem_size"],
            [],
            recording.tunables,
            restrictions=recording.conditions,
            cache=str(path),
            simulation_mode=True,
            strategy=strategy,
            strategy_options={"max_fevals": BUDGETS[-1]},
            lang="C",
            verbose=False,
        )
    order = list(recording.tunables)
    return distinct([tuple(r[n] for n in order) for r in results], recording)


def optuna(recording, seed):
    import optuna as library

    library.logging.set_verbosity(library.logging.ERROR)
    sampler = library.samplers.TPESampler(multivariate=True, seed=seed)
    study = library.create_study(sampler=sampler)
    asked = {}
    slowest = max(t for t in recording.times.values() if t is not None)
    for _ in range(20 * BUDGETS[-1]):
        trial = study.ask()
        config = tuple(trial.suggest_categorical(n, v) if not all(isinstance(x, (int, float)) for x in v)
                       else v[trial.suggest_int(n, 0, len(v) - 1)]
                       for n, v in recording.tunables.items())
        if config not in recording.times:
            study.tell(trial, state=library.trial.TrialState.FAIL)
            continue
        time_ms = recording.times[config]
        study.tell(trial, math.log(slowest if time_ms is None else time_ms))
        asked[config] = True
        if len(asked) == BUDGETS[-1]:
            break
    return list(asked)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("spaces", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--peers", default=",".join(KERNEL_TUNER + ["optuna_tpe"]))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tables = sorted(p for p in options.spaces.glob("*/*.json.gz") if not p.name.endswith("_T4.json.gz"))
    with tempfile.TemporaryDirectory() as folder:
        for path in tables:
            recording = Recording(path)
            if options.only not in recording.name:
                continue
            for peer in options.peers.split(","):
                for seed in range(options.seeds):
                    start = time.perf_counter()
                    if peer == "optuna_tpe":
                        asked = optuna(recording, seed)
                    else:
                        asked = kernel_tuner(recording, peer, seed, folder)
                    print(json.dumps({
                        "peer": peer,
                        "space": recording.name,
                        "seed": seed,
                        "trials": len(asked),
                        "fraction_of_optimum": dict(zip(map(str, BUDGETS), recording.fractions(asked))),
                        "seconds": time.perf_counter() - start,
                    }), flush=True)


if __name__ == "__main__":
    main()
