"""PyTorch's scaled_dot_product_attention, backend by backend. `default` is whatever PyTorch picks.

The causal ones want S = S_KV: elsewhere the backends do not agree on where the diagonal lies.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def sdpa(Q, K, V, causal=False):
    shared = Q.shape[1] != K.shape[1]
    return F.scaled_dot_product_attention(Q, K, V, is_causal=causal, enable_gqa=shared)


def with_backend(backend, Q, K, V, causal=False):
    with sdpa_kernel(backend):
        return sdpa(Q, K, V, causal)


def default(Q, K, V):
    return sdpa(Q, K, V)


def flash(Q, K, V):
    return with_backend(SDPBackend.FLASH_ATTENTION, Q, K, V)


def efficient(Q, K, V):
    return with_backend(SDPBackend.EFFICIENT_ATTENTION, Q, K, V)


def cudnn(Q, K, V):
    return with_backend(SDPBackend.CUDNN_ATTENTION, Q, K, V)


def math(Q, K, V):
    return with_backend(SDPBackend.MATH, Q, K, V)


def default_causal(Q, K, V):
    return sdpa(Q, K, V, causal=True)


def flash_causal(Q, K, V):
    return with_backend(SDPBackend.FLASH_ATTENTION, Q, K, V, causal=True)


def efficient_causal(Q, K, V):
    return with_backend(SDPBackend.EFFICIENT_ATTENTION, Q, K, V, causal=True)


def cudnn_causal(Q, K, V):
    return with_backend(SDPBackend.CUDNN_ATTENTION, Q, K, V, causal=True)


def math_causal(Q, K, V):
    return with_backend(SDPBackend.MATH, Q, K, V, causal=True)


# A few queries at the end of a cache. All of it is seen by the last one, and by all when there is but one; the mask for
# more is made once, outside of what is timed.
masks = {}


def end_mask(queries, keys, device):
    if queries == 1:
        return None
    key = (queries, keys, device)
    if key not in masks:
        masks[key] = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
    return masks[key]


def decode(Q, K, V, counters):
    mask = end_mask(Q.shape[2], K.shape[2], Q.device)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, enable_gqa=Q.shape[1] != K.shape[1])


# The flash backend takes no mask, so this one is for a single query.
def decode_flash(Q, K, V, counters):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(Q, K, V, enable_gqa=Q.shape[1] != K.shape[1])


# PyTorch has no attention over int8: the cache is widened first, as code without a kernel of its own does.
def decode_int8(Q, K, V, K_factors, V_factors, counters):
    wide_K = (K * K_factors[..., None]).to(Q.dtype)
    wide_V = (V * V_factors[..., None]).to(Q.dtype)
    return decode(Q, wide_K, wide_V, counters)
