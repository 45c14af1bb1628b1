"""The right answer in float64, a few rows of scores at a time: a long sequence's scores would not fit the memory.

`full` sees every key; `causal` sees key j from query i when j <= i + diagonal, and yields zeros where that is no key.
"""

import torch

SCORES_AT_ONCE = 1 << 26  # Half a gigabyte of float64.


def attend(Q, K, V, diagonal):
    batches, heads, queries, depth = Q.shape
    key_heads, keys = K.shape[1], K.shape[2]
    group = heads // key_heads
    rows = max(1, min(queries, SCORES_AT_ONCE // (group * keys)))
    out = torch.empty_like(Q)
    column = torch.arange(keys, device=Q.device)
    for batch in range(batches):
        for head in range(key_heads):
            shared = slice(head * group, (head + 1) * group)
            for first in range(0, queries, rows):
                part = slice(first, min(first + rows, queries))
                scores = Q[batch, shared, part] @ K[batch, head].mT / depth**0.5
                if diagonal is not None:
                    row = torch.arange(part.start, part.stop, device=Q.device)
                    scores.masked_fill_(column > row[:, None] + diagonal, float("-inf"))
                weights = torch.softmax(scores, dim=-1).nan_to_num_(nan=0.0)
                out[batch, shared, part] = weights @ V[batch, head]
    return out


def full(Q, K, V):
    return attend(Q, K, V, None)


def causal(Q, K, V, diagonal):
    return attend(Q, K, V, diagonal)


def decode(Q, K, V, diagonal):
    return attend(Q, K, V, diagonal)


def decode_int8(Q, K, V, K_factors, V_factors, diagonal):
    return attend(Q, K.double() * K_factors[..., None], V.double() * V_factors[..., None], diagonal)
