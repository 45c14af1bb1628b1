# Whether Python takes a module that was exported. Run with what to look at as JSON; the last line it prints is the answer.
import sys

# Not the folder kiln was called in: modules there may hide Python's own.
sys.path[:1] = []
sys.dont_write_bytecode = True
import ast
import json
import os

asked = json.loads(sys.argv[1])
folder = asked["folder"]


def answer(kind, text):
    print("\n" + json.dumps({"kind": kind, "text": text}))
    sys.stdout.flush()
    os._exit(0)


def source(name):
    with open(os.path.join(folder, *name.split("/")), "rb") as file:
        return file.read()


for name in sorted(n for n in os.listdir(folder) if n.endswith(".py")):
    try:
        compile(source(name), name, "exec")
    except (SyntaxError, ValueError) as error:
        answer("broken", "`%s`: %s" % (name, error))

fallback = asked.get("fallback")
if fallback:
    try:
        tree = ast.parse(source(fallback["file"]))
    except (SyntaxError, ValueError) as error:
        answer("unusable", "`%s`: %s" % (fallback["file"], error))
    # One that is made otherwise than by `def` says its parameters only when it runs.
    for made in tree.body:
        if not isinstance(made, ast.FunctionDef) or made.name != fallback["function"]:
            continue
        places = made.args.posonlyargs + made.args.args
        wanted = places[: len(places) - len(made.args.defaults)]
        wanted += [a for a, default in zip(made.args.kwonlyargs, made.args.kw_defaults) if default is None]
        for parameter in wanted:
            known = fallback["known"]
            if parameter.arg not in known and parameter.arg.rstrip("_") not in known:
                answer("unusable", "it has a parameter `%s`, which a call cannot give it" % parameter.arg)

try:
    import torch
except Exception as error:
    answer("compiled", "%s: %s" % (type(error).__name__, error))

import importlib.util

spec = importlib.util.spec_from_file_location(
    "kiln_checked_module", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
try:
    spec.loader.exec_module(module)
except BaseException as error:
    answer("broken", "%s: %s" % (type(error).__name__, error))
answer("imported", str(torch.__version__))
