"""Where no kernel runs: the function in Python that computes the answer, with kiln's rules for its parameters and results.

A parameter is named as an argument or a dimension. What the function returns is paired with everything the kernel writes, `inout`
and outputs alike, in argument order; a result that it takes as a parameter and does not return was written in place.
"""

import importlib.util
import inspect
import os
import sys

import torch

from ._expressions import KernelError
from ._launch import DTYPES, numbers


class Fallback:
    def __init__(self, kernel):
        self.kernel = kernel
        self.table = kernel.table
        self.file, self.name, self.is_wide = self.table.FALLBACK
        self.results = [a for a in kernel.arguments if a.kind == "buffer" and a.role in ("inout", "output")]
        self.function = None

    def __call__(self, tensors, dims, scalars, device):
        """The outputs; what is `inout` is written into the caller's tensors, after all of it was found to fit."""
        found = self.compute(tensors, dims, scalars, device)
        for number, argument in enumerate(self.kernel.takes):
            if argument.role == "inout":
                tensors[number].copy_(found[argument.name])
        return [found[a.name] for a in self.kernel.gives]

    def compute(self, tensors, dims, scalars, device):
        """What every written argument becomes, by name. No tensor of the caller is changed."""
        if self.function is None:
            self.function = load_function(os.path.join(self.kernel.folder, *self.file.split("/")), self.name)
        taken = parameter_names(self.function)
        values = dict(zip(self.table.DIMENSIONS, dims))
        values.update(self.table.scalars(*dims))
        for (at, default), value in zip(self.table.SCALARS, scalars):
            name = self.kernel.arguments[at].name
            if value != default and name not in taken and None not in taken:
                raise KernelError(
                    f"{self.kernel.name}: no kernel runs here, and the fallback `{self.name}` takes no `{name}`: it computes with {default}, not with {value}"
                )
            values[name] = value
        extents = {a.name: e for a, e in zip([*self.kernel.takes, *self.kernel.gives], self.table.extents(*dims))}
        # Tensors come last: an argument may have a dimension's name.
        for argument, tensor in zip(self.kernel.takes, tensors):
            given = tensor.double() if self.is_wide and tensor.is_floating_point() else tensor
            if argument.role == "inout" and given is tensor:
                given = tensor.clone()
            values[argument.name] = given
        for argument in self.kernel.gives:
            if argument.name in taken:
                dtype = getattr(torch, DTYPES[argument.dtype])
                dtype = torch.float64 if self.is_wide and dtype.is_floating_point else dtype
                values[argument.name] = torch.zeros(extents[argument.name], dtype=dtype, device=device)
            else:
                values.pop(argument.name, None)
        returned = call_by_name(self.function, values)
        paired = self.pair(returned, values, [a for a in self.results if a.name not in taken])
        return {a.name: self.result(a, paired[a.name], extents[a.name], tensors, device) for a in self.results}

    def pair(self, returned, values, untaken):
        names = [a.name for a in self.results]
        if returned is None:
            found = {}
        elif isinstance(returned, dict):
            found = dict(returned)
            unknown = [key for key in found if key not in names]
            if unknown:
                raise self.mismatch(f"returned `{unknown[0]}`, which is no output")
        else:
            # A list of plain numbers is one output, not several.
            several = isinstance(returned, tuple) or isinstance(returned, list) and any(hasattr(value, "shape") for value in returned)
            given = list(returned) if several else [returned]
            if len(given) == len(names):
                found = dict(zip(names, given))
            elif len(given) == len(untaken):
                found = dict(zip((a.name for a in untaken), given))
            else:
                raise self.mismatch(f"returned {len(given)} values")
        for argument in untaken:
            if found.get(argument.name) is None:
                raise self.mismatch(f"returned nothing for `{argument.name}` and has no parameter of that name")
        return {name: values[name] if found.get(name) is None else found[name] for name in names}

    def mismatch(self, what):
        outputs = ", ".join(f"`{a.name}`" for a in self.results)
        return KernelError(f"{self.kernel.name}: the fallback `{self.name}` {what}; the outputs are, in this order: {outputs}")

    def result(self, argument, value, extents, tensors, device):
        """A result as the kernel would have left it; an error where it cannot be that."""
        dtype = getattr(torch, DTYPES[argument.dtype])
        if not isinstance(value, torch.Tensor):
            value = torch.as_tensor(value, device=device)
        if tuple(value.shape) != tuple(extents):
            raise self.mismatch(f"gave `{argument.name}` the shape {numbers(value.shape)}, expected {numbers(extents)}")
        # As kiln takes results: any precision, but no fraction where whole numbers are expected.
        if value.is_complex() or value.is_floating_point() and not dtype.is_floating_point:
            raise self.mismatch(f"gave `{argument.name}` the type {value.dtype}, expected {dtype}")
        value = value.to(device=device, dtype=dtype).contiguous()
        # Nobody expects that writing into an output changes an input.
        return value.clone() if any(shares_memory(value, t) for t in tensors) else value


def shares_memory(one, other):
    try:
        return bool(one.numel()) and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        # Inside of a transformation nothing has an address.
        return one is other


def parameter_names(function):
    """The arguments that a function names as parameters, without underscores it needs for Python's words; None: it takes any."""
    names = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind == parameter.VAR_KEYWORD:
            names.add(None)
        elif parameter.kind != parameter.VAR_POSITIONAL:
            names.update((parameter.name, parameter.name.rstrip("_")))
    return names


def call_by_name(function, values):
    """A function with those values that its parameters name."""
    positional, named, used = [], {}, set()
    rest = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind == parameter.VAR_POSITIONAL:
            continue
        if parameter.kind == parameter.VAR_KEYWORD:
            rest = True
            continue
        wanted = parameter.name if parameter.name in values else parameter.name.rstrip("_")
        if wanted not in values:
            if parameter.default is parameter.empty:
                raise KernelError(f"`{function.__name__}` wants `{parameter.name}`, which is neither a tensor nor a dimension")
            continue
        used.add(wanted)
        if parameter.kind == parameter.POSITIONAL_ONLY:
            positional.append(values[wanted])
        else:
            named[parameter.name] = values[wanted]
    if rest:
        named.update({key: value for key, value in values.items() if key not in used})
    return function(*positional, **named)


def load_function(path, name):
    """A function of a Python file, whose own neighbours it may import."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_{os.path.basename(path)[:-3]}", path)
    module = importlib.util.module_from_spec(spec)
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return getattr(module, name)
