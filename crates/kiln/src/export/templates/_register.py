"""The kernel as an operator that `torch.compile`, fake tensors and autograd know.

Whoever compiles sees only the operator: its schema, the shapes of its results and, where all it does is return, the operator
that computes its gradients. Its arguments are numbered, for PyTorch's schemas have words of their own.
"""

import contextlib
import threading

import torch

from ._launch import DTYPES


def register(kernel):
    table, count = kernel.table, len(kernel.takes)
    tensors = [f"Tensor{'(a%d!)' % n if a.role == 'inout' else ''} {a.name}_{n}" for n, a in enumerate(kernel.takes)]
    said = [f"{kind} {name}_{count + n}" for n, (name, kind) in enumerate(table.PARAMETERS)]
    before = count + len(said)
    for n, (at, default) in enumerate(table.SCALARS):
        argument = kernel.arguments[at]
        kind = "float" if argument.dtype[0] in "fb" else "int"
        said.append(f"{kind} {argument.name}_{before + n}={default}")
    if not count:
        said.append("Device? device=None")
    results = ["Tensor"] * len(kernel.gives)
    results = results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"
    defaults = tuple(default for _, default in table.SCALARS) + (() if count else (None,))

    def split(arguments):
        """Tensors, parameters, scalars, device. PyTorch leaves out what is the default, from the end."""
        rest = tuple(arguments[before:])
        rest += defaults[len(rest):]
        scalars = rest[: len(table.SCALARS)]
        device = None if count else kernel.place(rest[-1])
        return tuple(arguments[:count]), tuple(arguments[count:before]), scalars, device

    def launch(*arguments):
        with torch.no_grad():
            return kernel(*split(arguments))

    def fake(*arguments):
        tensors, parameters, _, device = split(arguments)
        dims = kernel.dimensions(tensors, parameters)
        made = [
            torch.empty(extents, dtype=getattr(torch, DTYPES[a.dtype]), device=tensors[0].device if tensors else device)
            for a, extents in zip(kernel.gives, table.extents(*dims)[count:])
        ]
        return made[0] if len(made) == 1 else tuple(made) if made else None

    operator = torch.library.custom_op(
        f"kiln::{table.OPERATOR}", launch, mutates_args=[tensors[n].split()[-1] for n in kernel.written],
        schema=f"({', '.join(tensors + said)}) -> {results}",
    )
    operator.register_fake(fake)
    # PyTorch takes no gradient of an operator that writes into its arguments.
    if count and not kernel.written:
        register_gradient(kernel, operator, said, split)
    return operator


def register_gradient(kernel, operator, said, split):
    count = len(kernel.takes)

    def compute(tensors, incoming, *rest):
        _, parameters, scalars, _ = split((*tensors, *rest))
        found = aside(tensors[0].device, lambda: kernel.gradients(tuple(tensors), parameters, scalars, incoming))
        # An operator returns no tensor of its caller's.
        return [torch.zeros_like(t) if g is None else g.to(t.dtype).clone(memory_format=torch.contiguous_format) for t, g in zip(tensors, found)]

    gradient = torch.library.custom_op(
        f"kiln::{kernel.table.OPERATOR}_gradient", compute, mutates_args=(),
        schema=f"({', '.join(['Tensor[] tensors', 'Tensor?[] incoming', *said])}) -> Tensor[]",
    )
    gradient.register_fake(lambda tensors, incoming, *rest: [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors])

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:count])
        ctx.rest = tuple(inputs[count:])

    def backward(ctx, *incoming):
        tensors = list(ctx.saved_tensors)
        found = gradient(tensors, [None if g is None else g.contiguous() for g in incoming], *ctx.rest)
        found = [g if t.is_floating_point() else None for t, g in zip(tensors, found)]
        return (*found, *[None] * len(ctx.rest))

    operator.register_autograd(backward, setup_context=keep)


def aside(device, work):
    """What work gives, in a thread of its own on the same stream: inside of an operator PyTorch records nothing for a gradient."""
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    found = []

    def run():
        try:
            with torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext():
                found.append((work(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = found[0]
    if error is not None:
        raise error
    return result
