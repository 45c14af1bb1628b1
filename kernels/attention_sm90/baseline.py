"""PyTorch's attention: the backend that it chooses itself, and others by name."""

import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def sdpa(Q, K, V, H, HKV, MASK):
    return F.scaled_dot_product_attention(Q, K, V, is_causal=MASK == 2, enable_gqa=H != HKV)


def cudnn(Q, K, V, H, HKV, MASK):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa(Q, K, V, H, HKV, MASK)


def flash(Q, K, V, H, HKV, MASK):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return sdpa(Q, K, V, H, HKV, MASK)
