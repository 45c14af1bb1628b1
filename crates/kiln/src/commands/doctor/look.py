"""Prints as JSON what this interpreter has, without importing any of it: torch takes seconds.

Arguments: FILE FUNCTION pairs, whose functions are looked for and whose imports are resolved.
"""

import sys

# `-c` puts the current folder first; a folder `torch` there is not PyTorch.
sys.path[:] = [entry for entry in sys.path if entry != ""]

import ast
import importlib.metadata
import importlib.util
import json
import os
import runpy


def package(name):
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        return None
    if spec is None or not spec.origin:
        return None
    try:
        version = importlib.metadata.version(name)
    except Exception:
        version = None
    return {"version": version, "path": spec.origin, "cuda": None}


def torch():
    found = package("torch")
    if found:
        try:
            folder = os.path.dirname(found["path"])
            facts = runpy.run_path(os.path.join(folder, "version.py"))
            found["version"] = str(facts.get("__version__") or found["version"])
            found["cuda"] = facts.get("cuda")
        except Exception:
            pass
    return found


def names_bound(tree):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def imports(tree):
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return sorted(found)


def function(path, name):
    answer = {"error": None, "found": False, "has": [], "imports": [], "unresolved": []}
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError) as error:
        answer["error"] = str(error)
        return answer
    bound = list(names_bound(tree))
    answer["has"] = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)][:20]
    answer["found"] = name.split(".")[0] in bound or "*" in bound
    answer["imports"] = imports(tree)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    for module in answer["imports"]:
        try:
            resolved = module in sys.builtin_module_names or importlib.util.find_spec(module)
        except Exception:
            resolved = None
        if not resolved:
            answer["unresolved"].append(module)
    del sys.path[0]
    return answer


print(
    json.dumps(
        {
            "version": sys.version.split()[0],
            "executable": sys.executable,
            "torch": torch(),
            "numpy": package("numpy"),
            "functions": [
                function(path, name) for path, name in zip(sys.argv[1::2], sys.argv[2::2])
            ],
        }
    )
)
