"""Attention as its definition says, in double precision."""

import torch


def attention(Q, K, V, H, HKV, D, MASK):
    share = H // HKV
    K, V = K.repeat_interleave(share, 1), V.repeat_interleave(share, 1)
    scores = Q @ K.mT / D**0.5
    if MASK == 2:
        scores.masked_fill_(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), float("-inf"))
    return torch.softmax(scores, -1) @ V
