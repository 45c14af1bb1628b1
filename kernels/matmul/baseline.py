"""What PyTorch does with the same matrices: cuBLAS."""

import torch


def cublas(A, B, **_):
    return torch.matmul(A, B)
