"""Kernel Tuner and the schemas it ships read what kiln wrote.

usage: field_tools.py T1.json T4.json CACHE.json
Prints one JSON document about what they found.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

import jsonschema
import kernel_tuner
from kernel_tuner import file_utils, util
from kernel_tuner.searchspace import Searchspace

t1_path, t4_path, cache_path = sys.argv[1:]

# Validates against the schema.
t1 = file_utils.get_input_file(Path(t1_path))
space = t1["ConfigurationSpace"]
tune_params = {p["Name"]: eval(p["Values"]) for p in space["TuningParameters"]}
conditions = [c["Expression"] for c in space["Conditions"]]

t4 = json.loads(Path(t4_path).read_text())
for target in ("results", "metadata"):
    jsonschema.validate(t4, file_utils.output_file_schema(target)[1])

cache = util.read_cache(cache_path, open_cache=False)

with contextlib.redirect_stdout(io.StringIO()):
    constructed = Searchspace(tune_params, conditions, 2**31)
    # Simulation: Kernel Tuner tunes, and our file answers.
    results, environment = kernel_tuner.tune_cache(
        cache_path, strategy="brute_force", verbose=False, quiet=True
    )

print(
    json.dumps(
        {
            "valid": constructed.size,
            "results": len(t4["results"]),
            "failed": sum("__error__" in r for r in cache["cache"].values()),
            "recorded": len(cache["cache"]),
            "simulated": len(results),
            "best_ms": min(r["time"] for r in results if "__error__" not in r),
        }
    )
)
