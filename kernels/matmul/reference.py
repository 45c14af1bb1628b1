"""The right answer, in float64: torch tensors on the device, or numpy arrays without torch."""


def matmul(A, B, **_):
    return A @ B
