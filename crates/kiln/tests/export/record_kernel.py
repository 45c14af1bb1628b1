"""A kernel as kiln's Python process launches it, before a driver that only writes down: `record_kernel.py PACKAGE SOURCES`, the
folder of `cubin` packages and that of the process's parts. Needs no PyTorch; tensors are addresses."""

import json
import os
import sys
from types import SimpleNamespace

package, sources = sys.argv[1:]
for part in ("start.py", "kernel.py"):
    with open(os.path.join(sources, part)) as file:
        exec(compile(file.read(), part, "exec"), globals())

with open(os.path.join(package, "kiln-package.json")) as file:
    table = json.load(file)
entry = table["dispatch"][0]
image = next(c for c in table["configs"] if c["id"] == entry["config"])["images"][0]

tensor = {"dtype": "f16", "extents": [1, 8, 512, 64]}
arguments = [{"Buffer": {"name": name, **tensor}} for name in "QKVO"]
scalars = {"heads": 8, "group": 1, "queries": 512, "keys": 512}
arguments += [{"Scalar": {"name": name, "dtype": "i32", "value": value}} for name, value in scalars.items()]
arguments += [
    {"Tma": {"name": "map", "tensor": number, "dtype": "f16", "extents": [8, 512, 64], "tile": [1, 64, 64], "swizzle": "128B"}}
    for number in range(4)
]
address = lambda number: SimpleNamespace(data_ptr=lambda: 0x500000000000 + number * 0x80000)
buffers = [SimpleNamespace(index=number, array=address(number)) for number in range(4)]
problem = SimpleNamespace(arguments=arguments, buffers=buffers, values=scalars)
torch = SimpleNamespace(
    zeros=lambda *_, **__: None,
    cuda=SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=None), synchronize=lambda: None),
)
path = os.path.join(package, image["file"])
assert is_image(path) and not is_image(__file__)
kernel = Kernel(torch, path, image["symbol"])
call = kernel.bind(problem, {"cluster": None, "cooperative": False, **entry["geometry"]})
call()
for dtype, value, expected in (("f32", 1.5, "0000c03f"), ("bf16", 1.00390625, "803f"), ("bf16", -2.5, "20c0"), ("u64", 2**64 - 1, "ff" * 8), ("i8", -1, "ff")):
    assert scalar_bytes(dtype, value) == bytes.fromhex(expected).ljust(8, b"\0"), (dtype, value)
