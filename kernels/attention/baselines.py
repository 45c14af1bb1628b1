"""PyTorch's scaled_dot_product_attention, backend by backend; `default` is whatever PyTorch picks.

Query i sees key j when j <= i + diagonal, as in the kernel. The backends have a causal kernel for as many queries as keys
only, and not all of them let heads share keys. For shapes of that kind, which are checked and never timed, the keys are
repeated or the mask is given to whichever backend takes one.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

masks = {}


def mask(queries, keys, diagonal, device):
    key = (queries, keys, diagonal, device)
    if key not in masks:
        masks[key] = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(diagonal)
    return masks[key]


def attend(backend, Q, K, V, diagonal=None):
    queries, keys = Q.shape[2], K.shape[2]
    group = Q.shape[1] // K.shape[1]
    if group > 1 and backend not in (None, SDPBackend.FLASH_ATTENTION):
        K, V, group = K.repeat_interleave(group, 1), V.repeat_interleave(group, 1), 1
    everything = diagonal is None or diagonal >= keys - 1
    causal = not everything and diagonal == 0 and queries == keys
    if not everything and not causal:
        seen = mask(queries, keys, diagonal, Q.device)
        return F.scaled_dot_product_attention(Q, K, V, attn_mask=seen, enable_gqa=group > 1)
    if backend is None:
        return F.scaled_dot_product_attention(Q, K, V, is_causal=causal, enable_gqa=group > 1)
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(Q, K, V, is_causal=causal, enable_gqa=group > 1)


def default(Q, K, V):
    return attend(None, Q, K, V)


def flash(Q, K, V):
    return attend(SDPBackend.FLASH_ATTENTION, Q, K, V)


def efficient(Q, K, V):
    return attend(SDPBackend.EFFICIENT_ATTENTION, Q, K, V)


def cudnn(Q, K, V):
    return attend(SDPBackend.CUDNN_ATTENTION, Q, K, V)


def math(Q, K, V):
    return attend(SDPBackend.MATH, Q, K, V)


def default_causal(Q, K, V, diagonal):
    return attend(None, Q, K, V, diagonal)


def flash_causal(Q, K, V, diagonal):
    return attend(SDPBackend.FLASH_ATTENTION, Q, K, V, diagonal)


def efficient_causal(Q, K, V, diagonal):
    return attend(SDPBackend.EFFICIENT_ATTENTION, Q, K, V, diagonal)


def cudnn_causal(Q, K, V, diagonal):
    return attend(SDPBackend.CUDNN_ATTENTION, Q, K, V, diagonal)


def math_causal(Q, K, V, diagonal):
    return attend(SDPBackend.MATH, Q, K, V, diagonal)


# A few queries at the end of a cache: diagonal is S_KV - S, and a single query sees everything.
def decode(Q, K, V, diagonal):
    return attend(None, Q, K, V, diagonal)


def decode_flash(Q, K, V, diagonal):
    return attend(SDPBackend.FLASH_ATTENTION, Q, K, V, diagonal)


# PyTorch has no attention over int8: the cache is widened first, as code without a kernel of its own does.
def decode_int8(Q, K, V, K_factors, V_factors, diagonal):
    wide_K = (K * K_factors[..., None]).to(Q.dtype)
    wide_V = (V * V_factors[..., None]).to(Q.dtype)
    return decode(Q, wide_K, wide_V, diagonal)
