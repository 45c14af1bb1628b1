"""Calls an exported kernel from PyTorch, without compiler or build step.

What is tuned, for which shapes and how it is launched is in `_table.py`; this file is the same in every package.
A call finds its launch by the shapes, types and device of its tensors. The first of a kind works it out (which
config, which geometry, which scalars) and keeps it; from then on a call only fills in addresses and the stream.
"""

import ctypes
import hashlib
import math
import operator
import os
import threading
import warnings

import torch
from torch.autograd import forward_ad

from ._expressions import KernelError
from ._fallback import Fallback
from ._launch import DTYPES, Driver, Launch, LoadedImage, fits, numbers
from ._register import register


class NearestShape(UserWarning):
    """A shape that was not tuned runs with the config of the nearest one."""


class FallsBack(UserWarning):
    """No exported config fits, so the fallback computes the answer."""


# Launches kept per thread; beyond that all are worked out anew, as dynamic shapes may be without end.
MOST_LAUNCHES = 4096

current_device = getattr(torch._C, "_cuda_getDevice", None) or torch.cuda.current_device
is_compiling = torch.compiler.is_compiling
# A transformation of `torch.func`, whose tensors have no memory of their own: only functions of PyTorch's can compute with them.
transformation = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None) or (lambda: None)
PLAIN = (torch.Tensor, torch.nn.Parameter)

class Choice:
    """What runs on a problem, and why."""

    def __init__(self, config, image, entry, exact):
        self.config = config
        self.image = image
        self.entry = entry
        self.exact = exact


KINDS = {"int": int, "bool": bool, "float": float}


class Kernel:
    def __init__(self, table, folder):
        self.table = table
        self.folder = folder
        self.name = table.KERNEL
        self.arguments = table.ARGUMENTS
        self.takes = [a for a in self.arguments if a.kind == "buffer" and a.role in ("input", "inout")]
        self.gives = [a for a in self.arguments if a.kind == "buffer" and a.role == "output"]
        self.written = [number for number, a in enumerate(self.takes) if a.role == "inout"]
        self.dtypes = [getattr(torch, DTYPES[a.dtype]) for a in self.takes]
        self.configs = {config.id: config for config in table.CONFIGS}
        self.local = threading.local()
        self.lock = threading.Lock()
        self.images = {}
        self.the_driver = None
        self.fallback = Fallback(self) if table.FALLBACK else None
        self.kinds = [KINDS[kind] for _, kind in table.PARAMETERS]
        self.warned = set()
        self.use_nearest = True

    # The call.

    def __call__(self, tensors, parameters, scalars, device=None):
        """Tensors in the manifest's order, parameters and scalars in the table's; a device where there is no tensor."""
        for value, kind in zip(parameters, self.kinds):
            if type(value) is not kind:
                parameters = self.checked(parameters)
                break
        key = (parameters, device, *[(t.shape, t.dtype, t.device) for t in tensors])
        try:
            launch = self.local.launches[key]
        except (AttributeError, KeyError):
            launch = self.find(key, tensors, parameters, device)
        for tensor in tensors:
            if not tensor.is_contiguous():
                raise self.not_contiguous(tensors)
        if launch is None or self.wants_gradient(tensors):
            return self.fall_back(tensors, parameters, scalars, device, launch is not None)
        if launch.on_gpu and current_device() != launch.index:
            with torch.cuda.device(launch.index):
                made = launch.run(tensors, scalars)
        else:
            made = launch.run(tensors, scalars)
        # So that autograd notices where it kept what was there before.
        for number in self.written:
            torch.autograd.graph.increment_version(tensors[number])
        if len(made) == 1:
            return made[0]
        return tuple(made) if made else None

    def wants_gradient(self, tensors):
        """Whether a gradient is asked for, backward or forward."""
        if torch.is_grad_enabled() and any([t.requires_grad for t in tensors]):
            return True
        if is_compiling():
            return False
        if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(t).tangent is not None for t in tensors):
            return True
        return transformation() is not None

    def checked(self, parameters):
        """Parameters as Python's own numbers; an error where one is no such number."""
        found = []
        for (name, kind), value in zip(self.table.PARAMETERS, parameters):
            is_truth = type(value).__name__ in ("bool", "bool_")
            try:
                if is_truth != (kind == "bool"):
                    raise TypeError
                # What is no whole number has no index.
                found.append(bool(value) if is_truth else float(value) if kind == "float" else operator.index(value))
            except (TypeError, ValueError):
                expected = {"int": "a whole number", "bool": "True or False", "float": "a number"}[kind]
                raise TypeError(f"{self.name}: `{name}` is {value!r}, of type {type(value).__name__}; expected {expected}") from None
        return tuple(found)

    def place(self, device):
        """The device of a call without tensors."""
        device = torch.device(self.table.DEVICE if device is None else device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        return device

    def find(self, key, tensors, parameters, device):
        """The launch for a kind of call, worked out once per thread; nothing where no config fits."""
        dims = self.check(tensors, parameters)
        device = tensors[0].device if tensors else device
        choice, why = self.choose(dims, device)
        launch = None
        if choice is not None:
            if device.type == "cuda":
                with torch.cuda.device(device):
                    launch = Launch(self, choice, dims, device)
            else:
                launch = Launch(self, choice, dims, device)
            if not choice.exact:
                self.warn(
                    NearestShape,
                    f"{self.name}: {self.in_words(dims)} was not tuned; the config of shape `{choice.entry['shape']}` is used, "
                    "the nearest where it is legal (said once; `explain` tells for any call)",
                )
        elif self.table.FALLBACK is None:
            raise KernelError(f"{self.name}: {why}, and the package has no fallback")
        else:
            self.warn(FallsBack, f"{self.name}: {why}; `{self.table.FALLBACK[1]}` computes the answer (said once)")
        launches = self.local.__dict__.setdefault("launches", {})
        if len(launches) >= MOST_LAUNCHES:
            launches.clear()
        launches[key] = launch
        return launch

    def warn(self, kind, text):
        if kind not in self.warned:
            self.warned.add(kind)
            warnings.warn(text, kind, stacklevel=5)

    # What is asked of arguments.

    def check(self, tensors, parameters):
        """The dimensions of a call; an error where the tensors do not belong together."""
        for argument, tensor, dtype in zip(self.takes, tensors, self.dtypes):
            if not isinstance(tensor, torch.Tensor):
                raise KernelError(f"{self.name}: `{argument.name}` is a {type(tensor).__name__}, not a tensor")
            if tensor.dtype != dtype:
                raise KernelError(f"{self.name}: `{argument.name}` has the type {tensor.dtype}, expected {dtype}")
            if tensor.device != tensors[0].device:
                raise KernelError(
                    f"{self.name}: `{argument.name}` is on {tensor.device}, `{self.takes[0].name}` on {tensors[0].device}"
                )
        dims = self.dimensions(tensors, parameters)
        self.check_relations(dims)
        expected = self.table.extents(*dims)
        for argument, tensor, extents in zip(self.takes, tensors, expected):
            if tuple(tensor.shape) != tuple(extents):
                raise KernelError(
                    f"{self.name}: `{argument.name}` has the shape {numbers(tensor.shape)}, expected {numbers(extents)} "
                    f"for {self.in_words(dims)}"
                )
        return dims

    def check_relations(self, dims):
        """Dimensions that the manifest works out from others are what they have to be, whoever said them."""
        try:
            relations = self.table.relations(*dims)
        except ArithmeticError as error:
            raise KernelError(f"{self.name}: dimensions that follow from others cannot be worked out for {self.in_words(dims)}: {error}") from None
        for name, found, allowed in relations:
            if all(found != expected for expected, _ in allowed):
                told = " or ".join(f"{text} = {int(expected)}" for expected, text in allowed)
                raise KernelError(f"{self.name}: `{name}` is {int(found)}, but has to be {told} for {self.in_words(dims)}")

    def dimensions(self, tensors, parameters):
        for argument, tensor, rank in zip(self.takes, tensors, self.table.RANKS):
            if tensor.dim() != rank:
                raise KernelError(f"{self.name}: `{argument.name}` has {tensor.dim()} dimensions, expected {rank}")
        return self.table.dimensions([t.shape for t in tensors], parameters)

    def in_words(self, dims):
        return " ".join(f"{name}={int(value)}" for name, value in zip(self.table.DIMENSIONS, dims))

    def not_contiguous(self, tensors):
        names = [a.name for a, t in zip(self.takes, tensors) if not t.is_contiguous()]
        return KernelError(
            f"{self.name}: `{names[0]}` is not contiguous (strides {numbers(tensors[[a.name for a in self.takes].index(names[0])].stride())}); "
            "pass it as `.contiguous()`"
        )

    # Which config.

    def choose(self, dims, device):
        """A choice, or why there is none."""
        if any(d < 1 for d in dims):
            return None, f"{self.in_words(dims)} is empty"
        for argument, extents in zip([*self.takes, *self.gives], self.table.extents(*dims)):
            if any(e < 1 for e in extents):
                return None, f"`{argument.name}` is {numbers(extents)} for {self.in_words(dims)}, which is empty"
        usable = {config.id: self.image_for(config, device) for config in self.table.CONFIGS}
        if not any(usable.values()):
            made_for = sorted({image["architecture"] for config in self.table.CONFIGS for image in config.images})
            return None, f"nothing in the package is for {self.device_in_words(device)}; it has images for {', '.join(made_for)}"
        best, least = None, math.inf
        for entry in self.table.DISPATCH:
            away = sum(abs(math.log(a) - math.log(b)) for a, b in zip(dims, entry["dimensions"]))
            exact = tuple(entry["dimensions"]) == tuple(dims)
            if away >= least or usable[entry["config"]] is None or not (exact or self.use_nearest):
                continue
            if self.legal(self.configs[entry["config"]], dims):
                config = self.configs[entry["config"]]
                best, least = Choice(config, usable[config.id], entry, exact), away
        if best is None:
            return None, f"no exported config is legal for {self.in_words(dims)}"
        return best, None

    def legal(self, config, dims):
        """Whether a config may run. Where a constraint or the launch cannot be worked out, it may not."""
        try:
            if not config.legal(*dims):
                return False
            if config.launch:
                config.launch(*dims)
            values = config.arguments(*dims)
            return all(e >= 1 for a, extents in zip(self.arguments, values) if a.kind == "buffer" for e in extents)
        except (ArithmeticError, ValueError):
            return False
        except TypeError as error:
            # A root of a negative number that is compared: Python makes a complex one of it.
            if "complex" not in str(error):
                raise
            return False

    def image_for(self, config, device):
        for image in config.images:
            if device.type == "cuda" and fits(image["architecture"], torch.cuda.get_device_capability(device)):
                return image
            if device.type == "cpu" and image["architecture"] == os.uname().machine:
                return image
        return None

    def device_in_words(self, device):
        if device.type != "cuda":
            return f"the device `{device.type}`"
        major, minor = torch.cuda.get_device_capability(device)
        return f"{torch.cuda.get_device_name(device)} (sm_{major}{minor})"

    # Images.

    def driver(self):
        with self.lock:
            if self.the_driver is None:
                self.the_driver = Driver()
            return self.the_driver

    def loaded(self, config, image, device):
        key = (config.id, image["architecture"], device.type, device.index)
        driver = self.driver() if device.type == "cuda" else None
        with self.lock:
            if key not in self.images:
                path = os.path.join(self.folder, *image["file"].split("/"))
                with open(path, "rb") as file:
                    contents = file.read()
                if hashlib.sha256(contents).hexdigest() != image["sha256"]:
                    raise KernelError(f"`{path}` is not as it was exported: its checksum differs")
                if device.type == "cuda":
                    self.images[key] = LoadedImage(driver, path, image["symbol"], contents)
                else:
                    function = getattr(ctypes.CDLL(path), image["symbol"])
                    function.argtypes, function.restype = [ctypes.c_void_p], None
                    self.images[key] = function
            return self.images[key]

    def prepare(self, device=None):
        """Loads every image that fits a device, so that no call has to; returns how many there are."""
        device = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        found = [(config, self.image_for(config, device)) for config in self.table.CONFIGS]
        found = [(config, image) for config, image in found if image is not None]
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.empty(1, device=device)
                self.driver().enter(device.index)
                for config, image in found:
                    self.loaded(config, image, device)
        else:
            for config, image in found:
                self.loaded(config, image, device)
        return len(found)

    # Where no kernel fits.

    def fall_back(self, tensors, parameters, scalars, device, needs_gradient):
        if self.fallback is None:
            raise KernelError(f"{self.name}: it has no gradient, and the package has no fallback")
        if needs_gradient:
            self.warn(FallsBack, f"{self.name}: gradients are asked for, which it has not; `{self.fallback.name}` computes the answer (said once)")
        dims = self.dimensions(tensors, parameters)
        made = self.fallback(tensors, dims, scalars, tensors[0].device if tensors else device)
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            results = [t for t in [*made, *[tensors[n] for n in self.written]] if t.is_floating_point()]
            if results and not any(t.requires_grad for t in results):
                raise self.no_gradient()
        if len(made) == 1:
            return made[0]
        return tuple(made) if made else None

    def no_gradient(self):
        return KernelError(
            f"{self.name}: a gradient is asked for, and the fallback `{self.fallback.name}` has none: it does not compute with PyTorch's "
            "own functions; call it under `torch.no_grad()` if none is needed"
        )

    def gradients(self, tensors, parameters, scalars, incoming):
        """Gradients of tensors, from those of the outputs: the fallback's, computed anew. Nothing where there is none."""
        if self.fallback is None:
            raise KernelError(f"{self.name}: it has no gradient, and the package has no fallback")
        self.warn(FallsBack, f"{self.name}: gradients are asked for, which it has not; they are those of `{self.fallback.name}` (said once)")
        dims = self.check(tensors, parameters)
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
            found = self.fallback.compute(leaves, dims, scalars, tensors[0].device)
            made = [(found[a.name], gradient) for a, gradient in zip(self.gives, incoming) if gradient is not None]
            made = [(value, gradient) for value, gradient in made if value.requires_grad]
            if not made:
                raise self.no_gradient()
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            values, gradients = zip(*made)
            answers = iter(torch.autograd.grad(values, wanted, gradients, allow_unused=True))
        return [next(answers) if leaf.requires_grad else None for leaf in leaves]

    # For people and tests.

    def explain(self, tensors, parameters, scalars, device=None):
        """What a call would run, and why."""
        parameters = self.checked(parameters)
        dims = self.check(tensors, parameters)
        choice, why = self.choose(dims, tensors[0].device if tensors else device)
        told = {"dimensions": dict(zip(self.table.DIMENSIONS, map(int, dims)))}
        told["scalars"] = {self.arguments[at].name: value for (at, _), value in zip(self.table.SCALARS, scalars)}
        if choice is None:
            return {**told, "runs": "fallback" if self.table.FALLBACK else None, "why": why}
        grid, block, cluster, shared, _ = choice.config.launch(*dims) if choice.config.launch else (None,) * 5
        return {
            **told, "runs": "kernel", "config": choice.config.id, "values": choice.config.values, "exact": choice.exact,
            "shape": choice.entry["shape"], "confirmed": choice.entry["confirmed"], "standing": choice.entry["standing"], "evidence": choice.entry["evidence"],
            "image": choice.image["file"], "grid": grid, "block": block, "shared": shared,
        }

    def dispatch(self):
        """Every shape that was tuned, its dimensions by name."""
        return [dict(entry, dimensions=dict(zip(self.table.DIMENSIONS, entry["dimensions"]))) for entry in self.table.DISPATCH]

    def take_nearest(self, use):
        """Whether shapes that were not tuned get the config of the nearest one; launches that were found otherwise are forgotten."""
        self.use_nearest = bool(use)
        self.local = threading.local()

    def register(self):
        return register(self)
