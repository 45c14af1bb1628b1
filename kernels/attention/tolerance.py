#!/usr/bin/env python3
"""How far a right attention kernel may be off, and why: `python3 tolerance.py` (PyTorch, no GPU, about a minute).

Let u be the relative error of one rounding, 2^-11 for f16 and 2^-8 for bf16. Weights w are rounded before they meet the
values v, and the result o is rounded:

    error  <=  u * sum(w * |v|) / sum(w)  +  u * |o|

Sums and scores are in f32, whose errors are far smaller. Where every query sees as many keys, the first part is a sum
of independent errors, and as small beside the output's root mean square as u is beside 1, whatever the depth and the
number of keys: a bound relative to that fits. With a causal mask the first queries see few keys, and their errors do
not shrink with the root mean square of all the others: the share of it that they come to grows with the root of the
length. There the bound has an absolute part, for values that are normal with a variance of 1.

The command draws problems and answers them in f32 with those two roundings, against float64. It prints the worst error
in u, and as a share of the bound; then the same for wrong answers, each of which must exceed its bound.
"""

import math
import sys

ROUNDING = {"f16": 2.0**-11, "bf16": 2.0**-8}
# [tolerance] of the manifests. A number, about 5 u, is times |o| and times the root mean square of the output; where
# queries see few keys `atol`, about 3 u, takes the latter's place. With int8 keys and values are rounded too: 8 u.
RELATIVE = {"f16": 2.5e-3, "bf16": 2e-2}
ABSOLUTE = {"f16": 1.5e-3, "bf16": 1.2e-2}
INT8 = {"f16": 4e-3, "bf16": 3.2e-2}


def sees_few(keys, diagonal):
    """Whether the first query sees less than half of the keys; `diagonal` is None without a mask."""
    return diagonal is not None and 2 * (diagonal + 1) < keys


def bound(magnitude, mean_square, dtype, few_keys, int8=False):
    """The allowed error where the answer is `magnitude` large, in an output of that mean square: numbers or arrays."""
    relative = INT8[dtype] if int8 else RELATIVE[dtype]
    if few_keys:
        absolute = relative if int8 else ABSOLUTE[dtype]
    else:
        absolute = relative * math.sqrt(mean_square)
    return relative * magnitude + absolute + 1e-12


def exact(q, k, v, diagonal):
    import torch

    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    if diagonal is not None:
        scores = scores.masked_fill(unseen(q, k, diagonal), -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v.double()


def unseen(q, k, diagonal):
    import torch

    return torch.arange(k.shape[-2])[None] > torch.arange(q.shape[-2])[:, None] + diagonal


def modelled(q, k, v, diagonal, behind=0.0, rounded_sum=False, fault=None):
    """The kernel's roundings and no others. `behind`: powers of two from the maximum in use to the row's."""
    import torch

    scores = (q.float() @ k.float().mT) * (math.log2(math.e) / math.sqrt(q.shape[-1]))
    if fault and fault.startswith("scale"):
        scores = scores * (1 + float(fault.split()[1]) / 100)
    if diagonal is not None:
        shift = {"mask one key late": 1, "mask one key early": -1}.get(fault, 0)
        scores = scores.masked_fill(unseen(q, k, diagonal + shift), -math.inf)
    largest = scores.amax(-1, keepdim=True)
    weights = torch.exp2(scores - torch.where(largest.isinf(), 0.0, largest) + behind)
    if fault == "a block of 32 keys skipped":
        middle = k.shape[-2] // 64 * 32
        weights[..., middle : middle + 32] = 0
    if fault == "last key skipped":
        weights[..., -1] = 0
    rounded = weights.to(q.dtype).float()
    total = (rounded if rounded_sum else weights).sum(-1, keepdim=True)
    return torch.where(total > 0, rounded @ v.float() / total, 0.0).to(q.dtype)


def drawn(heads, queries, keys, depth, dtype, int8=False):
    """Queries, keys and values as the kernel reads them, and keys and values as the reference does."""
    import torch

    ty = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    q, k, v = (torch.randn(heads, rows, depth).to(ty) for rows in (queries, keys, keys))
    if not int8:
        return q, k, v, k, v
    wide = [
        torch.randint(-127, 128, (heads, keys, depth)).double() * (torch.rand(heads, keys, 1) * 0.01 + 0.005).double()
        for _ in range(2)
    ]
    return q, wide[0].to(ty), wide[1].to(ty), *wide


# Heads, queries, keys, diagonal (None: everything is seen), int8.
RIGHT = [
    (300, 64, 3, None, False),
    (300, 64, 16, None, False),
    (60, 64, 129, None, False),
    (40, 64, 512, None, False),
    (8, 64, 4096, None, False),
    (600, 64, 64, 0, False),
    (12, 512, 512, 0, False),
    (6, 925, 925, 0, False),
    (2, 2048, 2048, 0, False),
    (40, 200, 129, -70, False),
    (60, 17, 70, None, True),
    (60, 17, 1000, None, True),
    (60, 17, 17, 0, True),
]
# Of a scale 1 % off nothing is to be seen in bf16 under a mask: weights change by less than they are rounded.
BLUNDERS = ["a block of 32 keys skipped", "mask one key late", "mask one key early", "last key skipped"]
FAULTS = {"f16": ["scale 1 % off", *BLUNDERS], "bf16": ["scale 4 % off", *BLUNDERS]}
WRONG = [(8, 512, 512, None), (2, 64, 4096, None), (8, 512, 512, 0), (1, 2048, 2048, 0), (4, 100, 100, 0)]


def main():
    import torch

    torch.manual_seed(1)
    failures = 0
    print("| type | depth | queries | keys | diagonal | int8 | error in u | worst share of the bound |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for dtype in ROUNDING:
        for depth in (64, 128):
            for heads, queries, keys, diagonal, int8 in RIGHT:
                q, k, v, exact_k, exact_v = drawn(heads, queries, keys, depth, dtype, int8)
                expected = exact(q, exact_k, exact_v, diagonal)
                few = sees_few(keys, diagonal)
                allowed = bound(expected.abs(), expected.square().mean().item(), dtype, few, int8)
                errors = [
                    (modelled(q, k, v, diagonal, behind, rounded_sum).double() - expected).abs()
                    for behind, rounded_sum in ((0.0, False), (0.0, True), (0.5, True), (5.3, False), (7.9, True))
                ]
                worst = max(error.max().item() for error in errors) / ROUNDING[dtype]
                share = max((error / allowed).max().item() for error in errors)
                failures += share >= 1
                print(f"| {dtype} | {depth} | {queries} | {keys} | {diagonal} | {int8} | {worst:.2f} | {share:.2f} |")
    print("\n| type | wrong answer | queries | keys | diagonal | worst share of the bound |")
    print("| --- | --- | --- | --- | --- | --- |")
    for dtype in ROUNDING:
        for heads, queries, keys, diagonal in WRONG:
            q, k, v, _, _ = drawn(heads, queries, keys, 64, dtype)
            expected = exact(q, k, v, diagonal)
            allowed = bound(expected.abs(), expected.square().mean().item(), dtype, sees_few(keys, diagonal))
            for fault in FAULTS[dtype]:
                # Without a mask it cannot be off, and with one a single query sees the last key.
                if fault.startswith("mask" if diagonal is None else "last"):
                    continue
                error = (modelled(q, k, v, diagonal, fault=fault).double() - expected).abs()
                share = (error / allowed).max().item()
                failures += share <= 1
                print(f"| {dtype} | {fault} | {queries} | {keys} | {diagonal} | {share:.1f} |")
    print(f"\n{failures} right answers refused or wrong ones let through")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
