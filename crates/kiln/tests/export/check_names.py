"""Names in the modules of a torch package, without PyTorch.

`check_names.py used PACKAGE` prints every name that its generated code uses, one per line; `check_names.py call PACKAGE` calls every
function of it with a runtime that only remembers what it was given, so that a name that hides another shows.
"""

import ast
import importlib
import inspect
import os
import sys
import types

folder, name = os.path.split(os.path.abspath(sys.argv[2]))
sys.path.insert(0, folder)
sys.dont_write_bytecode = True


def tree(file):
    with open(os.path.join(folder, name, file), encoding="utf-8") as source:
        return ast.parse(source.read())


def used():
    found = set()
    for node in [*ast.walk(tree("__init__.py")), *ast.walk(tree("_table.py"))]:
        for field in ("id", "arg", "name", "asname"):
            if isinstance(getattr(node, field, None), str):
                found.add(getattr(node, field))
    print("\n".join(sorted(found)))


class Kernel:
    """What the runtime's kernel is asked, remembered."""

    def __init__(self, table, folder):
        pass

    def register(self):
        return lambda *arguments: ("operator", arguments)

    def __call__(self, *arguments):
        return "kernel", arguments

    def place(self, device):
        return device

    def wants_gradient(self, tensors):
        return False

    def __getattr__(self, asked):
        return lambda *arguments: (asked, arguments)


def call():
    runtime = types.ModuleType(f"{name}._runtime")
    runtime.Kernel = Kernel
    runtime.PLAIN = (object,)
    runtime.compiling = False
    runtime.is_compiling = lambda: runtime.compiling
    runtime.torch = types.SimpleNamespace(compiler=types.SimpleNamespace(disable=lambda function: function))
    for exported in ("FallsBack", "KernelError", "NearestShape"):
        setattr(runtime, exported, type(exported, (Exception,), {}))
    sys.modules[runtime.__name__] = runtime
    package = importlib.import_module(name)
    table = importlib.import_module(f"{name}._table")
    assert all(hasattr(package, offered) for offered in package.__all__) and len(set(package.__all__)) == len(package.__all__), package.__all__
    assert package.KernelError is runtime.KernelError

    # Every parameter gets an object of its own, which has to arrive at its place.
    function = getattr(package, package.__all__[0])
    parameters = inspect.signature(function).parameters.values()
    given = {parameter.name: object() for parameter in parameters}
    inputs = [a.name for a in table.ARGUMENTS if a.role in ("input", "inout")]
    objects = list(given.values())
    count, said = len(inputs), len(inputs) + len(table.PARAMETERS)
    scalars = said + len(table.SCALARS)
    expected = (tuple(objects[:count]), tuple(objects[count:said]), tuple(objects[said:scalars]), *objects[scalars:])
    assert [parameter.rstrip("_") for parameter in list(given)[:count]] == [i.rstrip("_") for i in inputs], given
    assert len(expected) == (3 if inputs else 4), given
    assert function(**given) == ("kernel", expected)
    assert package.explain(**given) == ("explain", expected)
    runtime.compiling = True
    assert function(**given) == ("operator", tuple(objects))
    assert package.dispatch() == ("dispatch", ()) and package.prepare("cpu") == ("prepare", ("cpu",))
    package.nearest(False)

    # The table, on sizes that differ from one another.
    taken = iter(range(8, 8000, 8))
    shapes = [[next(taken) for _ in range(rank)] for rank in table.RANKS]
    told = [next(taken) for _ in table.PARAMETERS]
    dims = table.dimensions(shapes, told)
    assert sorted(dims) == sorted([*[size for shape in shapes for size in shape], *told]), dims
    sizes = [list(extents) for extents in table.extents(*dims)]
    assert sizes[:count] == shapes, sizes
    table.relations(*dims), table.scalars(*dims)
    for config in table.CONFIGS:
        assert config.legal(*dims) is True
        values = config.arguments(*dims)
        assert [list(v) for v, a in zip(values, table.ARGUMENTS) if a.role == "input"] == shapes, values
        # By the manifest the last argument is the sum of all dimensions.
        assert values[-1] == sum(dims), (values[-1], dims)


{"used": used, "call": call}[sys.argv[1]]()
print("all as expected")
