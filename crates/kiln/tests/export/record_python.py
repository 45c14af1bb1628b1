"""The Python runtime before a driver that only writes down: `record_python.py PACKAGE SHAPE`. Tensors are addresses."""

import importlib
import os
import sys

import torch

folder, name = os.path.split(os.path.abspath(sys.argv[1]))
sys.path.insert(0, folder)
package = importlib.import_module(name)
runtime, kernel = package._launch, package._kernel
torch.cuda.get_device_capability = lambda device: (9, 0)
addresses = iter(range(0x500000000000, 1 << 60, 1))
used = 0x500000000000


class Tensor:
    def __init__(self, shape, dtype):
        global used
        self.shape, self.address = shape, used
        size = torch.empty(0, dtype=dtype).element_size()
        for extent in shape:
            size *= extent
        used += -(-size // 256) * 256
        self.dtype = dtype

    def data_ptr(self):
        return self.address


class Torch:
    """PyTorch, but for where memory comes from."""

    def __getattr__(self, name):
        return getattr(torch, name)

    def empty_like(self, tensor):
        return Tensor(tensor.shape, tensor.dtype)

    def empty(self, extents, dtype, device):
        return Tensor(extents, dtype)

    zeros = empty


runtime.raw_stream = lambda index: None
device = torch.device("cuda", 0)
entry = next(e for e in package._table.DISPATCH if e["shape"] == sys.argv[2])
dims = tuple(entry["dimensions"])
choice, why = kernel.choose(dims, device)
assert choice.exact, why
launch = runtime.Launch(kernel, choice, dims, device)
runtime.torch = Torch()
extents = package._table.extents(*dims)
scalars = tuple(default for _, default in package._table.SCALARS)
tensors = [Tensor(extents[n], dtype) for n, dtype in enumerate(kernel.dtypes)]
launch.run(tensors, scalars)
log = os.environ["KILN_TEST_LOG"]
before = open(log).read()
launch.run(tensors, scalars)
again = open(log).read()[len(before) :]
# The second call has its descriptors already, but for the one of the new output.
assert again.count("map ") <= 1 and again.count("launch ") == 1, again
open(log, "w").write(before)
print("geometry", [tuple(part) for part in choice.config.launch(*dims)[:2]])
