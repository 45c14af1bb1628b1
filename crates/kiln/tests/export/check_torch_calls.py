"""What a call of a torch package does beside launching: `check_torch_calls.py WHAT PACKAGE`, one function per WHAT."""

import os
import sys
import warnings

import torch
from torch.autograd import forward_ad

folder, name = os.path.split(os.path.abspath(sys.argv[2]))
sys.path.insert(0, folder)
package = __import__(name)
warnings.simplefilter("ignore")


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def refused(kind, said, call):
    try:
        call()
    except kind as error:
        assert said in str(error), (said, str(error))
        print(f"refused: {str(error).splitlines()[0]}")
    else:
        raise AssertionError(f"accepted: {said}")


def written():
    """`step(x, state) -> y` adds one to `state` and gives 1.5 x + 10 state; multiples of 8 run the kernel."""
    step = package.step
    for n in (16, 13, 13):
        for how in (step, compiled(lambda x, state: step(x, state))):
            x, state = torch.ones(n), torch.zeros(n)
            y = how(x, state)
            print(n, package.explain(x, state)["runs"], "y", y[0].item(), "state", state[0].item())
            assert (y == 11.5).all() and (state == 1).all(), (n, y, state)
    # The caller's tensor stays as it is where the fallback fails.
    y, state = step(torch.ones(13), torch.zeros(13), a=2.0), torch.zeros(13)
    assert (y == 12).all()

    # A gradient of the fallback, for `inout` too.
    x, state = torch.ones(16, requires_grad=True), torch.zeros(16)
    y = step(x, state)
    (y + state).sum().backward()
    assert (x.grad == 1.5).all() and (state == 1).all(), (x.grad, state)
    # Compiled, the graph is left for it, and where it may not be, that is said.
    torch._dynamo.reset()
    x, state = torch.ones(16, requires_grad=True), torch.zeros(16)
    y = torch.compile(lambda x, state: step(x, state) * 2, backend="aot_eager")(x, state)
    y.sum().backward()
    print("compiled gradient", x.grad[0].item())
    assert (x.grad == 3).all() and (y == 23).all()
    refused(Exception, "_outside", lambda: compiled(lambda x, state: step(x, state))(torch.ones(16, requires_grad=True), torch.zeros(16)))


def version():
    step = package.step
    weight, state = torch.ones(16, requires_grad=True), torch.full((16,), 3.0)
    loss = (weight * state).sum()
    before = state._version
    step(torch.ones(16), state)
    print("version", before, state._version)
    assert state._version > before
    refused(RuntimeError, "modified by an inplace operation", loss.backward)
    with torch.inference_mode():
        step(torch.ones(16), torch.zeros(16))


def words():
    """A tensor `in`, an output `class`, a dimension `max`; twice the input."""
    x = torch.randn(1000)
    told = package.explain(x)
    print(told["runs"], told["exact"])
    assert told["runs"] == "kernel" and told["exact"]
    for how in (package.copy, compiled(lambda x: package.copy(x))):
        assert torch.equal(how(x), 2 * x)
    torch.library.opcheck(package._operator, (x,), test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))


def nothing():
    """A kernel that takes no tensor."""
    fill = package.fill
    for n, v in ((1000, 1.5), (7, 2.0)):
        expected = torch.arange(n) * v
        assert torch.equal(fill(N=n, v=v), expected) and torch.equal(compiled(lambda: fill(N=n, v=v))(), expected)
    assert fill(N=8, device="cpu").device.type == "cpu"
    print(package.explain(N=1000)["runs"], fill(N=3).tolist())


def gradients():
    """Twice the input, by the kernel and by its fallback."""
    double = package.copy
    for how in (double, compiled(lambda x: double(x))):
        x = torch.randn(1000, requires_grad=True)
        y = how(x * 1.0)
        (y * y).sum().backward()
        print("gradient", torch.allclose(x.grad, 8 * x))
        assert y.requires_grad and torch.allclose(x.grad, 8 * x)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.randn(1000), torch.ones(1000))
        tangent = forward_ad.unpack_dual(double(x)).tangent
        print("tangent", tangent[0].item())
        assert (tangent == 2).all()
        assert forward_ad.unpack_dual(double(torch.randn(1000))).tangent is None
    x = torch.randn(1000)
    assert (torch.func.grad(lambda x: double(x).sum())(x) == 2).all()
    value, tangent = torch.func.jvp(double, (x,), (torch.ones(1000),))
    assert torch.equal(value, 2 * x) and (tangent == 2).all()
    assert torch.equal(torch.func.vmap(double)(torch.stack([x, -x])), torch.stack([2 * x, -2 * x]))


def sizes():
    """`rowsum(x, H=, D=)` of [N, HD] with HD = H * D."""
    rowsum = package.rowsum
    x = torch.arange(100 * 512, dtype=torch.float32).reshape(100, 512) / 1000
    assert torch.allclose(rowsum(x, H=8, D=64), x.reshape(100, 8, 64).sum(-1))
    for d in (128, 10**7, 63):
        refused(package.KernelError, f"`HD` is 512, but has to be H * D = {8 * d}", lambda: rowsum(x, H=8, D=d))
        refused(package.KernelError, "`HD` is 512", lambda: package.explain(x, H=8, D=d))
    refused(TypeError, "`D` is 64.0, of type float; expected a whole number", lambda: rowsum(x, H=8, D=64.0))
    refused(TypeError, "`H` is '8'", lambda: rowsum(x, H="8", D=64))
    refused(TypeError, "`H` is True", lambda: rowsum(x, H=True, D=512))
    refused(Exception, "", lambda: compiled(lambda x: rowsum(x, H=8, D=64.5))(x))
    numpy = torch.tensor(8)
    assert torch.equal(rowsum(x, H=numpy, D=64), rowsum(x, H=8, D=64))


def empty():
    """Differences of neighbours, of which one element has none."""
    differences = package.differences
    assert torch.equal(differences(torch.tensor([1.0, 3.0, 4.0])), torch.tensor([2.0, 1.0]))
    told = package.explain(torch.ones(1))
    print(told["runs"], told["why"])
    assert told["runs"] == "fallback" and "`y` is [0]" in told["why"]
    assert tuple(differences(torch.ones(1)).shape) == (0,)
    refused(TypeError, "`loud` is 'x', of type str; expected True or False", lambda: differences(torch.ones(3), loud="x"))
    refused(TypeError, "`loud` is 1, of type int", lambda: differences(torch.ones(3), loud=1))


def results():
    """Fallbacks that give something else than the kernel's results: said, and nothing is written."""
    state = torch.zeros(13)
    refused(package.KernelError, sys.argv[3], lambda: package.step(torch.ones(13), state))
    assert (state == 0).all()


{f.__name__: f for f in (written, version, words, nothing, gradients, sizes, empty, results)}[sys.argv[1]]()
print("all as expected")
