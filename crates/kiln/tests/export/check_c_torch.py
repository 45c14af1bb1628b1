"""The torch package of a kernel in C, wholly: `check_c_torch.py PACKAGE`."""

import os
import sys
import warnings

import torch

folder, name = os.path.split(os.path.abspath(sys.argv[1]))
sys.path.insert(0, folder)
package = __import__(name)
facts = package.facts


def expected(n, mode):
    import math

    def down(a, b):
        return a // b

    a = math.gcd(n, 12) + (mode * 6 // math.gcd(mode, 6)) * -(-n // 7) - (-(-n // 64) * 64) // 3 + (-n) // 7 + (-n) % 7 + abs(mode - 5) + 32
    sign = mode if (n & (n - 1)) == 0 or not 3 < n <= 1000 else -mode
    b = math.floor(n / 7) + math.ceil(n / 7) * 10 + math.floor(n / 8 + 0.5) * 100 + int(-n / 7) + sign + min(n, 77, mode) + max(n, 3) + (n > 1000)
    c = math.sqrt(n) + math.log2(n) * 0.5 - n / 3.0 + down(n * 1.0, 7) + (n * -1.5) % 4
    return [a, b, int(c * 1000.0), 7]


def check(n, loud, **how):
    x = torch.randn(n)
    y, told = facts(x, loud=loud)
    assert torch.equal(y, 1.5 * x), (n, loud)
    if how.get("kernel", True):
        assert told.tolist() == expected(n, 2 if loud else 1), (n, loud, told.tolist(), expected(n, 2 if loud else 1))
    return x


x = check(1000, False)
told = package.explain(x)
assert (told["runs"], told["exact"], told["shape"]) == ("kernel", True, "target"), told
assert told["evidence"]["speedup"] == 1.25 and told["confirmed"], told
check(5000, True)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    check(1002, False)
    check(1006, False)
assert [w.category for w in said] == [package.NearestShape], said
assert package.explain(torch.randn(1002))["exact"] is False
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    check(1001, False, kernel=False)
assert [w.category for w in said] == [package.FallsBack], said
assert package.explain(torch.randn(1001))["runs"] == "fallback"
package.nearest(False)
assert package.explain(torch.randn(1002))["runs"] == "fallback"
package.nearest(True)

# A scalar that the manifest gives as a plain number may be another one in a call.
assert torch.equal(facts(x, scale=2.0)[0], 2 * x) and torch.equal(facts(x)[0], 1.5 * x)
assert torch.equal(facts(x, scale=-0.0)[0], -0.0 * x)
assert package.explain(x, scale=3.0)["scalars"] == {"scale": 3.0}
doubled = torch.compile(lambda x: facts(x, scale=2.0)[0] + facts(x)[0], fullgraph=True, backend="aot_eager")
assert torch.equal(doubled(x), 2 * x + 1.5 * x)

for what, call in {
    "takes no `scale`": lambda: facts(torch.randn(1001), scale=2.0),
    "expected a number": lambda: facts(x, scale="2"),
    "type": lambda: facts(x.double()),
    "rank": lambda: facts(x[None]),
    "contiguous": lambda: facts(torch.randn(2000)[::2]),
    "no multiple of 64": lambda: facts(torch.randn(1001)[1:]),
    "not a tensor": lambda: facts([1.0]),
}.items():
    try:
        call()
    except (package.KernelError, AttributeError, RuntimeError) as error:
        assert what in str(error) or what in ("rank", "not a tensor"), (what, error)
    else:
        raise AssertionError(what)

compiled = torch.compile(lambda x: facts(x * 2, loud=True)[0] + 1, fullgraph=True, backend="aot_eager")
assert torch.equal(compiled(x), 1.5 * (x * 2) + 1)
torch.library.opcheck(package._operator, (x, True), test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))
from torch._subclasses.fake_tensor import FakeTensorMode

with FakeTensorMode():
    y, told = facts(torch.empty(1000))
    assert tuple(y.shape) == (1000,) and told.dtype == torch.int64 and tuple(told.shape) == (4,)

import threading

wrong = []


def many():
    for _ in range(200):
        mine = torch.randn(1000)
        if not torch.equal(facts(mine)[0], 1.5 * mine):
            wrong.append(1)


threads = [threading.Thread(target=many) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong
image = os.path.join(folder, name, package._table.CONFIGS[0].images[0]["file"])
print("all as expected", os.path.basename(image))
